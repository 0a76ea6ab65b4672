"""What the tests of `SeatBatch` share: a short match, choosers of actions, and what they see."""

from __future__ import annotations

from typing import Any

import numpy as np

from judgement_env import Rules
from judgement_env.seat_batch import SeatBatch
from judgement_env.state import Array

SMALL = Rules.preset("kachuful", num_players=3, cards=[3, 2, 1])


def draws(seed: int) -> Any:
    """A chooser of legal actions: of a batch's masks, or of one."""
    rng = np.random.default_rng(seed)

    def choose(mask: Array) -> Array:
        return np.asarray((mask * (1 + rng.random(mask.shape))).argmax(axis=-1))

    return choose


def lowest(mask: Array) -> Array:
    return np.asarray(mask.argmax(axis=-1))


def rollout(batch: SeatBatch, rows: int, steps: int = 40) -> list[Array]:
    """Everything shown of the first tables, the learner playing its lowest action."""
    shown = []
    for _ in range(steps):
        batch.step(lowest(batch.action_mask))
        for name in ("observation", "action_mask", "seat", "reward", "done", "totals"):
            shown.append(getattr(batch, name)[:rows].copy())
    return shown
