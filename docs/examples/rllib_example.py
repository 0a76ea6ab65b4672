"""PPO in RLlib by self-play, then a match of its checkpoint against bots that play at random.

    python docs/examples/rllib_example.py --iterations 8

One policy plays every seat. Without --checkpoint the checkpoint is thrown away at the end.
"""

import argparse
import os
import tempfile

import ray
import torch

from judgement_env import Rules, arena
from judgement_env.integrations.rllib import load_bot, ppo_config


def train(rules: Rules, iterations: int, runners: int, seed: int, folder: str) -> None:
    """Train by self-play in single rounds and save the algorithm in `folder`."""
    config = ppo_config(rules, hidden=(64, 64), seed=seed)
    config.training(train_batch_size_per_learner=2048).env_runners(num_env_runners=runners)
    algorithm = config.build_algo()
    for iteration in range(iterations):
        played = algorithm.train()["env_runners"]
        points = played["agent_episode_returns_mean"]
        mean = sum(points.values()) / len(points)
        steps = played["num_env_steps_sampled_lifetime"]
        print(f"iteration {iteration + 1}: {steps:.0f} decisions, {mean:+.2f} points a seat")
    algorithm.save_to_path(os.path.abspath(folder))
    algorithm.stop()


def main() -> None:
    """Train, then compare the checkpoint's bot with bots that play at random."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cards", type=int, default=3, help="cards dealt to each seat")
    parser.add_argument("--iterations", type=int, default=8, help="of 2,048 decisions each")
    parser.add_argument("--runners", type=int, default=0, help="worker processes; 0 = none")
    parser.add_argument("--matches", type=int, default=2000, help="of the comparison")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", help="the folder to keep the checkpoint in")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rules = Rules.preset("kachuful", cards=[args.cards])
    ray.init(num_cpus=args.runners + 1, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.checkpoint or scratch
        train(rules, args.iterations, args.runners, args.seed, folder)
        ray.shutdown()
        bots = [load_bot(folder), "random"]
        result = arena.compare(bots, rules, matches=args.matches, only_first=True)
    more = result.versus(bots[0].name, "random").difference
    print(
        f"{more:+.2f} points a round over random bots (95 %: {more.low:+.2f} to {more.high:+.2f})"
    )


if __name__ == "__main__":
    main()
