"""What a batch teaches: advantages of its actions and returns for the critic, a worker's at a time.

Where a critic tells, they come of its values (`losses.trajectory_advantages`); where the actions
were played out, of what each came to (`training.branches`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from judgement_env.state import Array
from training.branches import Branches
from training.config import Config
from training.losses import (
    all_action_advantages,
    normalise_by_phase,
    scale_by_phase,
    trajectory_advantages,
)
from training.rollout import Rollout
from training.rows import Rows

# Below this an action taken by lot counts as unlikely: a chance of 2 %.
LEAST_LOG_CHANCE = math.log(0.02)
# The critic's value of every row, (R,) float32.
ValuesOf = Callable[[Rows], Array]


class Targets(NamedTuple):
    """What the rows of one worker are to learn."""

    rows: Rows
    usable: Array  # indices of the rows whose round was settled
    advantage: Array  # (R,) float32, normalised, weighted
    returns: Array  # (R,) float32, target of the critic
    explained: float  # share of the variance of returns that the critic foresaw
    is_imitating: bool = False  # learn the actions as they are, whatever came of them
    # Where every legal action was played out: (R, 79) float32, their log probabilities then;
    # `advantage` is (R, 79) too, and the critic has nothing to learn.
    log_chances: Array | None = None


def make_targets(
    values_of: ValuesOf, rollout: Rollout, config: Config, is_imitating: bool = False
) -> Targets:
    """Return advantages and returns of one worker's batch."""
    rows = rollout.rows
    if rollout.playouts is not None and not is_imitating:
        return make_all_action_targets(rows, rollout.playouts.branches, config)
    value = values_of(rows)
    advantage = np.zeros_like(value)
    is_complete = np.zeros(len(value), np.bool_)
    trajectory_advantages(
        value,
        rows.reward,
        rows.following,
        rows.is_last,
        1.0 if is_imitating else config.gae_lambda,
        advantage,
        is_complete,
    )
    # An unlikely action by lot that failed has nothing to teach; pushing its logit down for ever
    # would let it run away.
    is_idle = rows.is_explored & (advantage < 0) & (rows.log_chance < LEAST_LOG_CHANCE)
    usable = np.flatnonzero(is_complete & rows.is_own & ~is_idle)
    returns = advantage + value
    spread = float(returns[usable].var()) if len(usable) else 0.0
    missed = float((returns - value)[usable].var()) if len(usable) else 0.0
    scaled = np.zeros_like(advantage)
    scaled[usable] = normalise_by_phase(advantage[usable], rows.is_bid[usable])
    scaled[rows.is_bid] *= config.bid_weight
    explained = 1 - missed / spread if spread else 0.0
    return Targets(rows, usable, scaled, returns, explained, is_imitating)


def make_all_action_targets(rows: Rows, branches: Branches, config: Config) -> Targets:
    """Return the advantages of every action tried in one worker's batch."""
    log_chances, is_tried = branches.log_chances, branches.is_tried
    advantage = all_action_advantages(branches.gain, log_chances, is_tried)
    scaled = scale_by_phase(advantage, is_tried, rows.is_bid)
    scaled[rows.is_bid] *= config.bid_weight
    usable = np.flatnonzero(is_tried.any(axis=1))
    return Targets(rows, usable, scaled, np.zeros(0, np.float32), np.nan, log_chances=log_chances)
