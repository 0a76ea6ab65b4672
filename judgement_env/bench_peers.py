"""The environments that the benchmark runs beside ours: OpenSpiel, and PettingZoo's classic ones.

Each function returns a contestant, or raises ImportError where the library is not installed. What
ours leaves out of the time, dealing by hand or choosing actions, is left out here too.
"""

from __future__ import annotations

import importlib
import random
import warnings
from typing import Any

import numpy as np

from judgement_env.bench_clock import Contestant, thread_clock
from judgement_env.state import Array

OPENSPIEL_GAME = "oh_hell(players=4,num_tricks_fixed=7)"
# Four bids and 28 cards.
OPENSPIEL_DECISIONS = 32
# PettingZoo's, the first the one that targets speak of; all need pygame, it needs rlcard too.
CLASSIC = {
    "leduc_holdem_v4": "rlcard_envs.leduc_holdem",
    "tictactoe_v3": "tictactoe.tictactoe",
    "connect_four_v3": "connect_four.connect_four",
}

# --- OpenSpiel -----------------------------------------------------------------------------------


def openspiel_rollouts(num_rollouts: int) -> Contestant:
    """Random play to the end from one deal, `num_rollouts` times, in OpenSpiel's own C++.

    A tree search of one simulation evaluates its root only, and the evaluation is the rollouts.
    """
    import pyspiel

    game = pyspiel.load_game(OPENSPIEL_GAME)
    evaluator = pyspiel.RandomRolloutEvaluator(num_rollouts, 1)
    # Its arguments: exploration, simulations, megabytes, solve, seed, verbose.
    search = pyspiel.MCTSBot(game, evaluator, 2.0, 1, 1000, False, 1, False)
    state = _openspiel_deal(game, random.Random(0))

    def play() -> tuple[int, float]:
        start = thread_clock()
        search.mcts_search(state)
        return num_rollouts * OPENSPIEL_DECISIONS, thread_clock() - start

    return play


def openspiel_steps(num_rounds: int, is_mask_copied: bool) -> Contestant:
    """Rounds of random play from Python, each decision's observation and mask written before it.

    The observer writes into memory it made once; the mask is the list that OpenSpiel returns, or
    `is_mask_copied` that list copied into an int8 array, as a learner needs it.
    """
    import pyspiel
    from open_spiel.python.observation import make_observation

    game = pyspiel.load_game(OPENSPIEL_GAME)
    kind = pyspiel.IIGObservationType(
        perfect_recall=True,
        public_info=True,
        private_info=pyspiel.PrivateInfoType.SINGLE_PLAYER,
    )
    observer = make_observation(game, kind)
    mask = np.zeros(game.num_distinct_actions(), np.int8)
    rng = random.Random(0)

    def play() -> tuple[int, float]:
        seconds = 0.0
        for _ in range(num_rounds):
            state = _openspiel_deal(game, rng)
            actions = _openspiel_actions(state.clone(), rng)
            start = thread_clock()
            for action in actions:
                player = state.current_player()
                observer.set_from(state, player)
                legal = state.legal_actions_mask(player)
                if is_mask_copied:
                    mask[:] = legal
                state.apply_action(action)
            seconds += thread_clock() - start
        return num_rounds * OPENSPIEL_DECISIONS, seconds

    return play


def _openspiel_deal(game: Any, rng: random.Random) -> Any:
    state = game.new_initial_state()
    while state.is_chance_node():
        state.apply_action(rng.choice(state.legal_actions()))
    return state


def _openspiel_actions(state: Any, rng: random.Random) -> list[int]:
    """Random legal actions from a state to its end."""
    actions = []
    while not state.is_terminal():
        actions.append(rng.choice(state.legal_actions()))
        state.apply_action(actions[-1])
    return actions


# --- PettingZoo ----------------------------------------------------------------------------------


def classic(maker: str) -> tuple[str, Any, list[str]]:
    """One of PettingZoo's classic environments: its name, the environment, why others are not it.

    `maker` is "env" or "raw_env". Raises ImportError where none can be made.
    """
    reasons: list[str] = []
    for name, module in CLASSIC.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = importlib.import_module(f"pettingzoo.classic.{module}")
                return name, getattr(found, maker)(), reasons
        except ImportError as error:
            reasons.append(f"{name}: {error}")
    raise ImportError("; ".join(reasons))


def random_legal(mask: Array, rng: random.Random) -> int:
    """One of the actions of a mask, each as likely."""
    legal = mask.nonzero()[0]
    return int(legal[int(rng.random() * len(legal))])


def agent_iteration(env: Any, num_decisions: int) -> Contestant:
    """Whole matches of an AEC environment in the loop of PettingZoo's pages, resets included.

    Matches are begun until `num_decisions` have been made; steps of seats that are out of the match
    take their time, but are no decisions.
    """
    rng = random.Random(0)
    env.reset(seed=0)

    def play() -> tuple[int, float]:
        count = 0
        start = thread_clock()
        while count < num_decisions:
            env.reset()
            for _ in env.agent_iter():
                seen, _, is_terminated, is_truncated, _ = env.last()
                if is_terminated or is_truncated:
                    env.step(None)
                    continue
                env.step(random_legal(seen["action_mask"], rng))
                count += 1
        return count, thread_clock() - start

    return play


def observe_and_step(env: Any, num_decisions: int) -> Contestant:
    """Whole matches of an AEC environment, each played once to draw its actions, then once on time.

    Only `observe` of the agent to act and `step` are timed.
    """
    rng = random.Random(0)
    seeds = iter(range(1 << 31))

    def play() -> tuple[int, float]:
        count, seconds = 0, 0.0
        while count < num_decisions:
            seed = next(seeds)
            actions = _drawn_actions(env, seed, rng)
            env.reset(seed=seed)
            start = thread_clock()
            for action in actions:
                env.observe(env.agent_selection)
                env.step(action)
            seconds += thread_clock() - start
            count += len(actions)
        return count, seconds

    return play


def _drawn_actions(env: Any, seed: int, rng: random.Random) -> list[int]:
    env.reset(seed=seed)
    actions = []
    while not (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
        mask = env.observe(env.agent_selection)["action_mask"]
        actions.append(random_legal(mask, rng))
        env.step(actions[-1])
    return actions
