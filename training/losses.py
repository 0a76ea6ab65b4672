"""The arithmetic of proximal policy optimisation (Schulman et al., arXiv 1707.06347), pure.

Advantages follow one seat through one round and never cross seats (generalised advantage
estimation, arXiv 1506.02438, with discount 1: a round is short and its points come at its end).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from judgement_env._jit import njit
from judgement_env.state import Array

ILLEGAL = -1e9
LEAST_WEIGHT = 0.01


@njit
def trajectory_advantages(
    value: Array,
    reward: Array,
    following: Array,
    is_last: Array,
    decay: float,
    advantage: Array,
    is_complete: Array,
) -> None:
    """Fill `advantage` (R,) float32, backwards, and say which rows saw their round settled.

    A row's future is the row `following` it; rows whose round was cut off by the end of the batch
    have no reward yet and are left out (`is_complete` False).
    """
    for row in range(len(value) - 1, -1, -1):
        nxt = following[row]
        if is_last[row]:
            is_complete[row] = True
            advantage[row] = reward[row] - value[row]
        elif nxt >= 0 and is_complete[nxt]:
            is_complete[row] = True
            advantage[row] = value[nxt] - value[row] + decay * advantage[nxt]
        else:
            is_complete[row] = False
            advantage[row] = 0


def normalise_by_phase(advantage: Array, is_bid: Array) -> Array:
    """Return advantages with mean 0 and deviation 1 among bids, and likewise among plays.

    A round has one bid a seat and many plays; scaled together, the plays would drown the bids.
    """
    out = np.zeros_like(advantage)
    for phase in (is_bid, ~is_bid):
        if phase.any():
            part = advantage[phase]
            out[phase] = (part - part.mean()) / (part.std() + 1e-8)
    return out


class PolicyLoss(NamedTuple):
    """The terms of the policy's loss, means over the rows."""

    surrogate: Tensor
    entropy: Tensor
    divergence: Tensor
    clipped: Tensor


def masked_log_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Return log probabilities over legal actions; illegal ones are very negative, not infinite."""
    return torch.log_softmax(torch.where(mask > 0, logits, ILLEGAL), dim=1)


def entropy_share(log_chances: Tensor, mask: Tensor) -> Tensor:
    """Return the mean entropy as a share of that of a uniform choice of a legal action."""
    entropy = -(log_chances.exp() * log_chances).sum(1)
    return (entropy / mask.sum(1).float().log().clamp(min=0.5)).mean()


def policy_loss(
    logits: Tensor,
    mask: Tensor,
    action: Tensor,
    old_log_chance: Tensor,
    advantage: Tensor,
    clip: float,
) -> PolicyLoss:
    """Return the clipped surrogate and the entropy as a share of its maximum over legal actions.

    logits and mask (B, A), the rest (B,); `divergence` estimates the KL from the policy that acted
    (k3 of Schulman's note on approximating KL), `clipped` the share of rows beyond the clip.
    """
    log_chances = masked_log_softmax(logits, mask)
    log_chance = log_chances.gather(1, action[:, None]).squeeze(1)
    log_ratio = log_chance - old_log_chance
    ratio = log_ratio.exp()
    limited = ratio.clamp(1 - clip, 1 + clip)
    surrogate = -torch.minimum(ratio * advantage, limited * advantage).mean()
    divergence = (ratio - 1 - log_ratio).mean()
    clipped = ((ratio - 1).abs() > clip).float().mean()
    return PolicyLoss(surrogate, entropy_share(log_chances, mask), divergence, clipped)


def all_action_advantages(gain: Array, log_chances: Array, is_tried: Array) -> Array:
    """Return what each action tried gains over the policy's mean of them, else 0; (R, 79)."""
    chances = np.exp(log_chances) * is_tried
    total = np.maximum(chances.sum(axis=1, keepdims=True), 1e-30)
    mean = (chances * gain).sum(axis=1, keepdims=True) / total
    advantage: Array = ((gain - mean) * is_tried).astype(np.float32)
    return advantage


def scale_by_phase(advantage: Array, is_tried: Array, is_bid: Array) -> Array:
    """Return all-action advantages with mean square 1 over bids tried, and over plays tried."""
    out = np.zeros_like(advantage)
    for phase in (is_bid, ~is_bid):
        part = advantage[phase]
        out[phase] = part / (np.sqrt((part**2).sum() / max(1, is_tried[phase].sum())) + 1e-8)
    return out


def all_action_loss(
    logits: Tensor, mask: Tensor, old_log_chances: Tensor, advantage: Tensor, clip: float
) -> PolicyLoss:
    """Return the clipped surrogate in expectation over the actions tried, none of them drawn.

    All (B, A): `advantage` of every action tried, 0 for the others. An action the policy has all
    but given up has next to no gradient of its own; it is given that of the logarithm of its
    probability, as if it were `LEAST_WEIGHT` likely, so that it can come back.
    """
    log_chances = masked_log_softmax(logits, mask)
    log_ratio = torch.where(mask > 0, log_chances - old_log_chances, 0)
    ratio = log_ratio.exp()
    old = old_log_chances.exp() * mask
    low, high = math.log(1 - clip), math.log(1 + clip)
    limited = ratio.clamp(1 - clip, 1 + clip)
    likely = old * torch.minimum(ratio * advantage, limited * advantage)
    log_limited = log_ratio.clamp(low, high)
    rare = LEAST_WEIGHT * torch.minimum(log_ratio * advantage, log_limited * advantage)
    surrogate = -torch.where(old < LEAST_WEIGHT, rare, likely).sum(1).mean()
    divergence = (old * (ratio - 1 - log_ratio)).sum(1).mean()
    clipped = (old * ((ratio - 1).abs() > clip)).sum(1).mean()
    return PolicyLoss(surrogate, entropy_share(log_chances, mask), divergence, clipped)


def imitation_loss(logits: Tensor, mask: Tensor, action: Tensor) -> PolicyLoss:
    """Return the cross-entropy of actions to imitate, in the place of the surrogate."""
    log_chances = masked_log_softmax(logits, mask)
    surrogate = -log_chances.gather(1, action[:, None]).mean()
    nothing = torch.zeros((), device=logits.device)
    return PolicyLoss(surrogate, entropy_share(log_chances, mask), nothing, nothing)


def value_loss(value: Tensor, target: Tensor) -> Tensor:
    """Return half the mean squared error; (B,) each."""
    return 0.5 * (value - target).pow(2).mean()
