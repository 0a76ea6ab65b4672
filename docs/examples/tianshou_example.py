"""DQN in Tianshou for one seat among bots, then a match against bots that play at random.

    python docs/examples/tianshou_example.py --epochs 5

The learner's transitions lead from one of its decisions to its next; illegal actions are masked.
"""

import argparse

import torch
from gymnasium.spaces import Discrete
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step

from judgement_env import Rules, arena
from judgement_env.integrations.tianshou import PolicyBot, SeatVectorEnv
from judgement_env.observation import SIZE

NUM_ACTIONS = 79
POINTS = 10  # what the network's outputs count as one


class QNetwork(torch.nn.Module):
    """The points to come after each action."""

    def __init__(self) -> None:
        super().__init__()
        first, last = torch.nn.Linear(SIZE, 64), torch.nn.Linear(64, NUM_ACTIONS)
        self.layers = torch.nn.Sequential(first, torch.nn.ReLU(), last)

    def forward(self, obs, state=None, info=None):
        """Return the values (B, 79) of observations (B, 894), and no state."""
        return POINTS * self.layers(torch.as_tensor(obs, dtype=torch.float32)), state


def train(rules: Rules, tables: int, epochs: int, opponents: str, seed: int) -> DQN:
    """Return a DQN that has made 64 decisions an epoch at each table against `opponents`."""
    torch.manual_seed(seed)
    env = SeatVectorEnv(rules, tables, seed, opponents=opponents)
    policy = DiscreteQLearningPolicy(
        model=QNetwork(), action_space=Discrete(NUM_ACTIONS), eps_training=0.2
    )
    algorithm = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=1.0,
        # All of a round of three cards: its points come at the end.
        n_step_return_horizon=4,
        target_update_freq=200,
    )
    buffer = VectorReplayBuffer(256 * tables, tables, ignore_obs_next=True)
    collector = Collector(algorithm, env, buffer, exploration_noise=True)
    collector.reset()
    # The library's OffPolicyTrainer does the same, with progress bars.
    with policy_within_training_step(policy):
        for epoch in range(epochs):
            for _ in range(8):
                points = collector.collect(n_step=8 * tables).returns.mean()
                for _ in range(32):
                    algorithm.update(buffer, sample_size=256)
            print(f"epoch {epoch + 1}: {points:+.2f} points a round while exploring")
    return algorithm


def main() -> None:
    """Train, then compare the greedy policy with bots that play at random."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cards", type=int, default=3, help="cards dealt to each seat")
    parser.add_argument("--tables", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--opponents", default="random", help="bots in the other seats")
    parser.add_argument("--matches", type=int, default=2000, help="of the comparison")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rules = Rules.preset("kachuful", cards=[args.cards])
    algorithm = train(rules, args.tables, args.epochs, args.opponents, args.seed)
    bots = [PolicyBot(algorithm), "random"]
    result = arena.compare(bots, rules, matches=args.matches, formats=["one-versus-field"])
    more = result.versus("tianshou", "random").difference
    print(
        f"{more:+.2f} points a round over random bots (95 %: {more.low:+.2f} to {more.high:+.2f})"
    )


if __name__ == "__main__":
    main()
