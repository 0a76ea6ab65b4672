"""PPO in TorchRL by self-play, then a match against bots that play at random.

    python docs/examples/torchrl_example.py --iterations 20

Every seat of every table is played by the one network; advantages follow each seat by itself.
"""

import argparse

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.objectives import ClipPPOLoss

from judgement_env import Rules, arena
from judgement_env.integrations.torchrl import ActorBot, JudgementEnv, masked_actor, seat_advantage
from judgement_env.observation import SIZE

NUM_ACTIONS = 79
POINTS = 10  # what the losses count as one


def network(outputs: int) -> nn.Module:
    """Return a small network from an observation to `outputs` numbers."""
    return nn.Sequential(nn.Linear(SIZE, 64), nn.ReLU(), nn.Linear(64, outputs))


def train(rules: Rules, tables: int, steps: int, iterations: int, seed: int) -> nn.Module:
    """Return an actor that has played ``tables * steps * iterations`` decisions against itself."""
    torch.manual_seed(seed)
    env = JudgementEnv(rules, tables, seed)
    actor = masked_actor(network(NUM_ACTIONS))
    critic = TensorDictModule(network(1), ["observation"], ["state_value"])
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01, normalize_advantage=True)
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    frames = tables * steps
    collector = Collector(
        env,
        actor,
        frames_per_batch=frames,
        total_frames=frames * iterations,
        auto_register_policy_transforms=False,
    )
    for iteration, data in enumerate(collector):
        points = data["next", "reward"].sum().item() / data["next", "done"].sum().item()
        data["next", "reward"] = data["next", "reward"] / POINTS
        with torch.no_grad():
            critic(data)
        seat_advantage(data)
        rows = data[data["has_outcome"].squeeze(-1)]
        for _ in range(4):
            for part in rows[torch.randperm(len(rows))].split(512):
                terms = loss(part)
                optimiser.zero_grad()
                (terms["loss_objective"] + terms["loss_entropy"] + terms["loss_critic"]).backward()
                optimiser.step()
        if iteration % 10 == 9:
            print(f"iteration {iteration + 1}: {points / env.batch.num_players:+.2f} points a seat")
    collector.shutdown()
    return actor


def main() -> None:
    """Train, then compare the greedy actor with bots that play at random."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cards", type=int, default=3, help="cards dealt to each seat")
    parser.add_argument("--tables", type=int, default=64)
    parser.add_argument("--steps", type=int, default=64, help="decisions at a table an iteration")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--matches", type=int, default=2000, help="of the comparison")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rules = Rules.preset("kachuful", cards=[args.cards])
    actor = train(rules, args.tables, args.steps, args.iterations, args.seed)
    bots = [ActorBot(actor), "random"]
    result = arena.compare(bots, rules, matches=args.matches, formats=["one-versus-field"])
    more = result.versus("torchrl", "random").difference
    print(
        f"{more:+.2f} points a round over random bots (95 %: {more.low:+.2f} to {more.high:+.2f})"
    )


if __name__ == "__main__":
    main()
