"""Exact and searching play through OpenSpiel: CFR+ on a pack of four cards, then ISMCTS on a round.

    python docs/examples/openspiel_example.py --iterations 20 --rounds 10

CFR+ prints how far uniform play and what it learnt are from an equilibrium (NashConv, in points),
ISMCTS the points a round of one searching seat and the mean of the random ones.
"""

import argparse

import numpy as np
import pyspiel
from open_spiel.python.algorithms.ismcts import ISMCTSBot
from open_spiel.python.algorithms.mcts import RandomRolloutEvaluator

import judgement_env.integrations.openspiel  # noqa: F401 -- registers the game

# Three seats, a card each and one turned up.
TINY = "rules=oh-hell,num_players=3,suits=2,ranks=2,top=1"

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
parser.add_argument("--tiny", default=TINY, help="the game that CFR+ solves")
parser.add_argument("--iterations", type=int, default=20, help="of CFR+")
parser.add_argument("--round", default="round=5", help="the game that ISMCTS plays")
parser.add_argument("--rounds", type=int, default=10, help="rounds that ISMCTS plays")
parser.add_argument("--simulations", type=int, default=60, help="of ISMCTS, each decision")
parser.add_argument("--seed", type=int, default=1)


def solve(text: str, iterations: int) -> None:
    """Print NashConv of uniform play and of CFR+'s average policy."""
    game = pyspiel.load_game(f"python_judgement({text})")
    uniform = pyspiel.nash_conv(game, pyspiel.UniformRandomPolicy(game))
    solver = pyspiel.CFRPlusSolver(game)
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    learnt = pyspiel.nash_conv(game, solver.average_policy())
    print(f"NashConv: uniform {uniform:.3f}, CFR+ {learnt:.3f} ({iterations} iterations)")


def play(game, bot, rng) -> list[float]:
    """Return the points of one round of the bot in seat 0 against random seats."""
    state = game.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            outcomes, chances = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(int(rng.choice(outcomes, p=chances)))
        elif state.current_player() == 0:
            state.apply_action(int(bot.step(state)))
        else:
            state.apply_action(int(rng.choice(state.legal_actions())))
    return state.returns()


def search(text: str, rounds: int, simulations: int, seed: int) -> None:
    """Print the points a round of ISMCTS beside those of random play."""
    game = pyspiel.load_game(f"python_judgement({text})")
    rng = np.random.RandomState(seed)
    evaluator = RandomRolloutEvaluator(1, rng)
    bot = ISMCTSBot(game, evaluator, 10.0, simulations, random_state=rng)
    # The bot's own sampler cannot be seeded.
    bot.set_resampler(lambda state, seat: state.resample_from_infostate(seat, rng.random_sample))
    points = np.array([play(game, bot, rng) for _ in range(rounds)])
    own, others = points[:, 0].mean(), points[:, 1:].mean()
    print(f"Points a round: ISMCTS {own:.2f}, random {others:.2f} ({rounds} rounds)")


if __name__ == "__main__":
    chosen = parser.parse_args()
    solve(chosen.tiny, chosen.iterations)
    search(chosen.round, chosen.rounds, chosen.simulations, chosen.seed)
