"""One batch learned: passes over it in random minibatches, each shared out among worker threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from training.config import Config
from training.learner import METRICS, Learner
from training.model import Network
from training.targets import Targets


def check_finite(networks: Sequence[Network], decisions: int) -> None:
    """Raise ValueError where a weight has become infinite or not a number."""
    if not all(bool(p.isfinite().all()) for network in networks for p in network.parameters()):
        raise ValueError(
            f"training diverged: after {decisions:,} decisions weights are no longer finite; the"
            " last checkpoint stands, go on from it with --resume and a lower --learning_rate"
        )


def update(
    pool: ThreadPoolExecutor,
    learner: Learner,
    batch: Sequence[Targets],
    generators: Sequence[np.random.Generator],
    config: Config,
    entropy: float,
    rate: float,
) -> dict[str, float]:
    """Pass over the batch `config.epochs` times in random minibatches; return mean metrics."""
    usable = sum(len(targets.usable) for targets in batch)
    num_minibatches = max(1, round(usable / config.minibatch))
    metrics = np.zeros(len(METRICS))
    for _ in range(config.epochs):
        orders = [
            np.array_split(generator.permutation(targets.usable), num_minibatches)
            for targets, generator in zip(batch, generators, strict=True)
        ]
        for shares in zip(*orders, strict=True):
            metrics += learner.step(pool, list(zip(batch, shares, strict=True)), entropy, rate)
    metrics /= max(1, usable * config.epochs)
    return dict(zip(METRICS, metrics.tolist(), strict=True))
