"""The losses of actor and critic as compiled kernels: forward, slopes by hand, backward.

A row's loss depends on its legal actions only. The arithmetic is that of `training.losses`, which
the tests compare with it; `training.kernels` has the layers.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import arithmetic, fetch_ahead
from judgement_env.state import Array
from training.kernels import BLOCK, backward, chosen_outputs, hidden_units, last_layer, matrix
from training.losses import LEAST_WEIGHT

# What the policy learns from: the actions taken, actions to imitate, every action tried.
TAKEN, IMITATED, TRIED = 0, 1, 2


@arithmetic
def actor_gradients(
    widths: Array,
    params: Array,
    grad: Array,
    index: Array,
    value: Array,
    count: Array,
    mask: Array,
    rows: Array,
    kind: int,
    action: Array,
    old_log_chance: Array,
    advantage: Array,
    old_log_chances: Array,
    advantages: Array,
    clip: float,
    entropy_weight: float,
    metrics: Array,
) -> None:
    """Add to `grad` the gradients of the policy's loss, summed over `rows`.

    metrics: (4,) float64, to which the sums of surrogate, entropy, divergence and clipped are
    added. action, old_log_chance, advantage (R,) are read where actions were TAKEN, of them
    `action` where it is IMITATED; old_log_chances and advantages (R, A) where they were TRIED.
    """
    inputs, width = widths[-2], widths[-1]
    hidden = widths[1:-1].sum()
    units = np.empty(BLOCK * hidden, np.float32)
    deltas = np.empty(2 * BLOCK * widths[1:-1].max(), np.float32)
    logits, delta = np.empty((BLOCK, width), np.float32), np.empty((BLOCK, width), np.float32)
    legal, log_chances, slope = np.empty(width, np.uint64), np.empty(width), np.empty(width)
    last = params.shape[0] - (inputs + 1) * width
    weight, bias = matrix(params, last, inputs, width), params[params.shape[0] - width :]
    for start in range(0, rows.shape[0], BLOCK):
        block = rows[start : start + BLOCK]
        size = block.shape[0]
        for b in range(size):
            row = block[b]
            fetch_ahead(mask, row * width)
            fetch_ahead(mask, row * width + 64)
            if kind != TRIED:
                fetch_ahead(action, row)
                fetch_ahead(old_log_chance, row)
                fetch_ahead(advantage, row)
        hidden_units(widths, params, index, value, count, rows, start, size, units)
        x = matrix(units, size * (hidden - inputs), size, inputs)
        last_layer(x, weight, bias, mask, block, logits)
        for b in range(size):
            row = block[b]
            num = chosen_outputs(mask, row, legal)
            write_log_softmax(logits[b], legal, num, log_chances)
            if kind == TRIED:
                tried_slope(
                    log_chances,
                    legal,
                    num,
                    old_log_chances[row],
                    advantages[row],
                    clip,
                    slope,
                    metrics,
                )
            else:
                slope[:num] = 0
                taken = 0
                while legal[taken] != action[row]:
                    taken += 1
                if kind == IMITATED:
                    slope[taken] = -1
                    metrics[0] -= log_chances[taken]
                else:
                    log_ratio = log_chances[taken] - old_log_chance[row]
                    slope[taken] = taken_slope(log_ratio, advantage[row], clip, metrics)
            write_delta(log_chances, slope, legal, num, entropy_weight, delta[b], metrics)
        backward(
            widths,
            params,
            grad,
            index,
            value,
            count,
            mask,
            block,
            units,
            deltas,
            delta[:size],
        )


@arithmetic
def write_log_softmax(logits: Array, legal: Array, num: int, log_chances: Array) -> None:
    """Write the log probabilities of the `num` legal actions, in their order."""
    peak = -np.inf
    for i in range(num):
        peak = max(peak, logits[legal[i]])
    total = 0.0
    for i in range(num):
        total += np.exp(logits[legal[i]] - peak)
    log_total = peak + np.log(total)
    for i in range(num):
        log_chances[i] = logits[legal[i]] - log_total


@arithmetic
def taken_slope(log_ratio: float, advantage: float, clip: float, metrics: Array) -> float:
    """Return the derivative of the clipped surrogate by the log probability of the action taken."""
    ratio = np.exp(log_ratio)
    plain = ratio * advantage
    limited = min(max(ratio, 1 - clip), 1 + clip) * advantage
    metrics[0] -= min(plain, limited)
    metrics[2] += ratio - 1 - log_ratio
    metrics[3] += abs(ratio - 1) > clip
    return -plain if plain <= limited else 0.0


@arithmetic
def tried_slope(
    log_chances: Array,
    legal: Array,
    num: int,
    old_log_chances: Array,
    advantages: Array,
    clip: float,
    slope: Array,
    metrics: Array,
) -> None:
    """Write the derivatives of `losses.all_action_loss` by the log probabilities."""
    for i in range(num):
        log_old, advantage = old_log_chances[legal[i]], advantages[legal[i]]
        log_ratio = log_chances[i] - log_old
        ratio, old = np.exp(log_ratio), np.exp(log_old)
        if old < LEAST_WEIGHT:
            plain = log_ratio * advantage
            limited = min(max(log_ratio, np.log(1 - clip)), np.log(1 + clip)) * advantage
            metrics[0] -= LEAST_WEIGHT * min(plain, limited)
            slope[i] = -LEAST_WEIGHT * advantage if plain <= limited else 0.0
        else:
            plain = ratio * advantage
            limited = min(max(ratio, 1 - clip), 1 + clip) * advantage
            metrics[0] -= old * min(plain, limited)
            slope[i] = -old * plain if plain <= limited else 0.0
        metrics[2] += old * (ratio - 1 - log_ratio)
        metrics[3] += old * (abs(ratio - 1) > clip)


@arithmetic
def write_delta(
    log_chances: Array,
    slope: Array,
    legal: Array,
    num: int,
    entropy_weight: float,
    delta: Array,
    metrics: Array,
) -> None:
    """Write the derivatives by the legal actions' logits, those of the entropy's share included."""
    entropy, total = 0.0, 0.0
    for i in range(num):
        entropy -= np.exp(log_chances[i]) * log_chances[i]
        total += slope[i]
    most = max(np.log(num), 0.5)
    metrics[1] += entropy / most
    for i in range(num):
        chance = np.exp(log_chances[i])
        spread = entropy_weight / most * chance * (log_chances[i] + entropy)
        delta[legal[i]] = slope[i] - chance * total + spread


@arithmetic
def critic_gradients(
    widths: Array,
    params: Array,
    grad: Array,
    index: Array,
    value: Array,
    count: Array,
    rows: Array,
    returns: Array,
    weight: float,
) -> float:
    """Add to `grad` the gradients of `weight` times the value loss, summed over `rows`.

    Returns the sum of the loss itself.
    """
    inputs = widths[-2]
    hidden = widths[1:-1].sum()
    units = np.empty(BLOCK * hidden, np.float32)
    deltas = np.empty(2 * BLOCK * widths[1:-1].max(), np.float32)
    delta = np.empty((BLOCK, 1), np.float32)
    everything = np.empty((0, 1), np.int8)
    last = params.shape[0] - inputs - 1
    factor, bias = matrix(params, last, inputs, 1), params[params.shape[0] - 1 :]
    loss = 0.0
    for start in range(0, rows.shape[0], BLOCK):
        block = rows[start : start + BLOCK]
        size = block.shape[0]
        hidden_units(widths, params, index, value, count, rows, start, size, units)
        x = matrix(units, size * (hidden - inputs), size, inputs)
        last_layer(x, factor, bias, everything, block, delta)
        for b in range(size):
            delta[b, 0] -= returns[block[b]]
            loss += 0.5 * delta[b, 0] ** 2
            delta[b, 0] *= weight
        backward(
            widths,
            params,
            grad,
            index,
            value,
            count,
            everything,
            block,
            units,
            deltas,
            delta[:size],
        )
    return loss
