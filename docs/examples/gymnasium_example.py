"""A learner in plain numpy on the Gymnasium VectorEnv: a linear policy, trained by REINFORCE.

It plays rounds of kachuful against three opponents, and is then measured against random play on
deals it has not met:

    python docs/examples/gymnasium_example.py --updates 80
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np

NUM_TABLES = 256
NUM_STEPS = 24


def make_tables(opponents: str) -> gymnasium.vector.VectorEnv:
    """Tables of one learner; each deals its next round in the step that ends one."""
    return gymnasium.make_vec(
        "judgement_env:Judgement-v0",
        num_envs=NUM_TABLES,
        rules="kachuful",
        opponents=opponents,
        episode="round",
        autoreset_mode="SameStep",
    )


def log_chances(weights: Any, observation: Any, masks: Any) -> Any:
    """Log probabilities of all actions, (N, 79): the mask goes in before the softmax."""
    logits = np.where(masks, observation @ weights, -1e9)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def draw(chances: Any, rng: np.random.Generator) -> Any:
    """The largest of log probabilities plus Gumbel noise is a draw from them."""
    return (chances + rng.gumbel(size=chances.shape)).argmax(axis=1)


def collect(env: Any, state: Any, weights: Any, rng: np.random.Generator) -> Any:
    """NUM_STEPS of every table: views, log probabilities, actions, and what the round came to."""
    observation, masks = state
    views, chances, actions, rewards, ends = [], [], [], [], []
    for _ in range(NUM_STEPS):
        chance = log_chances(weights, observation, masks)
        action = draw(chance, rng)
        views.append(observation)
        chances.append(chance)
        actions.append(action)
        observation, reward, ended, _, info = env.step(action)
        masks = info["action_mask"].astype(bool)
        rewards.append(reward)
        ends.append(ended)
    # A round pays at its end: walk back and give its points to each of its decisions.
    outcomes, running = np.full((NUM_STEPS, NUM_TABLES), np.nan), np.full(NUM_TABLES, np.nan)
    for t in range(NUM_STEPS - 1, -1, -1):
        running = np.where(ends[t], rewards[t], running)
        outcomes[t] = running
    is_known = ~np.isnan(outcomes)
    batch = [np.stack(rows)[is_known] for rows in (views, chances, actions)]
    return (observation, masks), *batch, outcomes[is_known]


def train(opponents: str, updates: int, seed: int) -> Any:
    """The weights (894, 79) after so many updates by Adam."""
    env = make_tables(opponents)
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    state = observation, info["action_mask"].astype(bool)
    weights = np.zeros((observation.shape[1], 79), np.float32)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for update in range(1, updates + 1):
        state, views, chances, actions, outcomes = collect(env, state, weights, rng)
        advantage = (outcomes - outcomes.mean()) / (outcomes.std() + 1e-6)
        slope = -np.exp(chances)
        slope[np.arange(len(actions)), actions] += 1
        slope *= advantage[:, None]
        gradient = views.T @ slope.astype(np.float32) / len(actions)
        mean += 0.1 * (gradient - mean)
        square += 0.01 * (gradient**2 - square)
        scale = np.sqrt(square / (1 - 0.99**update)) + 1e-8
        weights += 0.01 * mean / (1 - 0.9**update) / scale
        if update % 20 == 0:
            print(f"update {update}: {outcomes.mean():.2f} points a round while it explores")
    env.close()
    return weights


def measure(opponents: str, weights: Any, rounds: int, seed: int) -> Any:
    """The points of the first rounds of every table; `weights` None plays at random."""
    env = make_tables(opponents)
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    points: list[float] = []
    # As many from each table: whoever stops at a number of rounds counts too many short ones.
    left = np.full(NUM_TABLES, -(-rounds // NUM_TABLES))
    while left.any():
        masks = info["action_mask"].astype(bool)
        if weights is None:
            action = draw(np.where(masks, 0.0, -np.inf), rng)
        else:
            action = log_chances(weights, observation, masks).argmax(axis=1)
        observation, reward, ended, _, info = env.step(action)
        counted = ended & (left > 0)
        points += reward[counted].tolist()
        left -= counted
    env.close()
    return np.array(points)


def main() -> None:
    """Train, then compare with random play."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opponents", default="random", help="a bot for the other three seats")
    parser.add_argument("--updates", type=int, default=80, help="of 6,144 decisions each")
    parser.add_argument("--rounds", type=int, default=4000, help="to measure over")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    weights = train(given.opponents, given.updates, given.seed)
    learnt = measure(given.opponents, weights, given.rounds, given.seed + 1_000_000)
    chance = measure(given.opponents, None, given.rounds, given.seed + 1_000_000)
    difference = learnt.mean() - chance.mean()
    error = 1.96 * np.sqrt(learnt.var() / len(learnt) + chance.var() / len(chance))
    print(f"against three {given.opponents} bots: learnt {learnt.mean():.2f} points a round,")
    print(f"random play {chance.mean():.2f}: {difference:+.2f} (95 % interval +/- {error:.2f})")


if __name__ == "__main__":
    main()
