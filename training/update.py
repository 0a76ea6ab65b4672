"""One batch learned: passes over it in random minibatches, each shared out among worker threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from training.config import Config
from training.learner import METRICS, Learner
from training.targets import Targets


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
