"""The policy network as compiled kernels and numpy: what a trained bot needs to play, no torch.

Its inputs (`inputs`) are nearly all zero, so the first layer sums the few weight rows it needs
(`first_layer`), which costs a tenth of the dense product. Outputs are logits of the 79 actions, in
canonical suits, and `PolicyNetwork.probabilities` maps them back. Training uses the same kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from judgement_env._jit import arithmetic, fetch_ahead, njit
from judgement_env.bots.inputs import (
    INPUT_SIZE,
    PLAIN_SIZE,
    canonical_inputs,
    in_plain_suits,
)
from judgement_env.cards import NUM_ACTIONS
from judgement_env.state import Array

# A row's inputs are fetched so many rows before they are read: in training, rows are drawn at
# random from far more than the caches hold.
AHEAD = 8

# --- layers -----------------------------------------------------------------------------------


@arithmetic
def first_layer(
    index: Array,
    value: Array,
    count: Array,
    rows: Array,
    start: int,
    weight: Array,
    bias: Array,
    out: Array,
) -> None:
    """Write ``inputs @ weight + bias`` into `out` (B, H), summing only non-zero inputs.

    index (R, MAX_NONZERO) uint16, value float32 and count (R,) describe the inputs of R rows;
    ``rows[start : start + B]`` are worked on.
    """
    width, room = weight.shape[1], index.shape[1]
    for b in range(out.shape[0]):
        if start + b + AHEAD < rows.shape[0]:
            later = rows[start + b + AHEAD]
            for j in range(0, count[later], 32):
                fetch_ahead(index, later * room + j)
            for j in range(0, count[later], 16):
                fetch_ahead(value, later * room + j)
        row = rows[start + b]
        columns, given, line = index[row], value[row], out[b]
        num = count[row]
        line[:] = bias
        j = 0
        # Eight weight rows a pass: fewer loads and stores of `line`.
        while j + 8 <= num:
            w0, w1 = weight[columns[j]], weight[columns[j + 1]]
            w2, w3 = weight[columns[j + 2]], weight[columns[j + 3]]
            w4, w5 = weight[columns[j + 4]], weight[columns[j + 5]]
            w6, w7 = weight[columns[j + 6]], weight[columns[j + 7]]
            v0, v1, v2, v3 = given[j], given[j + 1], given[j + 2], given[j + 3]
            v4, v5, v6, v7 = given[j + 4], given[j + 5], given[j + 6], given[j + 7]
            for h in range(width):
                one = (v0 * w0[h] + v1 * w1[h]) + (v2 * w2[h] + v3 * w3[h])
                two = (v4 * w4[h] + v5 * w5[h]) + (v6 * w6[h] + v7 * w7[h])
                line[h] += one + two
            j += 8
        for k in range(j, num):
            w0, v0 = weight[columns[k]], given[k]
            for h in range(width):
                line[h] += v0 * w0[h]


@arithmetic
def hidden_layer(x: Array, weight: Array, bias: Array, out: Array) -> None:
    """Write ``maximum(x, 0) @ weight + bias`` into `out` (B, H), summing only positive units.

    Of a trained layer one unit in six or seven is positive.
    """
    width = weight.shape[1]
    active = np.empty(x.shape[1], np.uint64)
    for b in range(x.shape[0]):
        line = out[b]
        line[:] = bias
        num = positive_units(x[b], active)
        j = 0
        while j + 8 <= num:
            h0, h1, h2, h3 = active[j], active[j + 1], active[j + 2], active[j + 3]
            h4, h5, h6, h7 = active[j + 4], active[j + 5], active[j + 6], active[j + 7]
            w0, w1, w2, w3 = weight[h0], weight[h1], weight[h2], weight[h3]
            w4, w5, w6, w7 = weight[h4], weight[h5], weight[h6], weight[h7]
            x0, x1, x2, x3 = x[b, h0], x[b, h1], x[b, h2], x[b, h3]
            x4, x5, x6, x7 = x[b, h4], x[b, h5], x[b, h6], x[b, h7]
            for k in range(width):
                one = (x0 * w0[k] + x1 * w1[k]) + (x2 * w2[k] + x3 * w3[k])
                two = (x4 * w4[k] + x5 * w5[k]) + (x6 * w6[k] + x7 * w7[k])
                line[k] += one + two
            j += 8
        for i in range(j, num):
            w0, x0 = weight[active[i]], x[b, active[i]]
            for k in range(width):
                line[k] += x0 * w0[k]


@arithmetic
def positive_units(x: Array, active: Array) -> int:
    """Write which units are positive; return how many."""
    count = 0
    for h in range(x.shape[0]):
        active[count] = h
        count += x[h] > 0
    return count


@njit
def dense_inputs(index: Array, value: Array, count: Array, rows: Array, out: Array) -> None:
    """Write the inputs of `rows` in full into `out` (B, inputs) float32, all zero before."""
    for b in range(rows.shape[0]):
        row = rows[b]
        for j in range(count[row]):
            out[b, index[row, j]] = value[row, j]


def masked_softmax(logits: Array, mask: Array) -> Array:
    """Return probabilities over the legal actions of each row, 0 elsewhere; (B, A) float32."""
    logits = np.where(mask > 0, logits, -np.inf)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    total: Array = odds / odds.sum(axis=1, keepdims=True)
    return total


def with_derived(weight: Array) -> Array:
    """Return a first layer of a model from before there were derived inputs with 0 for them."""
    if weight.ndim != 2 or weight.shape[0] != PLAIN_SIZE:
        return weight
    return np.concatenate(
        [weight, np.zeros((INPUT_SIZE - PLAIN_SIZE, weight.shape[1]), np.float32)]
    )


class PolicyNetwork:
    """A multilayer perceptron with rectified hidden layers over canonical inputs.

    `weights` holds ``layers.K.weight`` (inputs, outputs) and ``layers.K.bias`` for K = 0, 1, …
    Raises ValueError where a tensor is missing or of the wrong shape.
    """

    def __init__(self, weights: Mapping[str, Array]) -> None:
        """Check the shapes and keep the layers as float32."""
        depth = sum(name.endswith(".weight") for name in weights)
        self.layers: list[tuple[Array, Array]] = []
        width = INPUT_SIZE
        for k in range(depth):
            names = (f"layers.{k}.weight", f"layers.{k}.bias")
            missing = [name for name in names if name not in weights]
            if missing:
                raise ValueError(f"weights: no tensor {missing[0]}; it has {sorted(weights)}")
            weight, bias = (np.ascontiguousarray(weights[name], np.float32) for name in names)
            if k == 0:
                weight = with_derived(weight)
            if weight.ndim != 2 or weight.shape[0] != width or bias.shape != weight.shape[1:]:
                raise ValueError(
                    f"weights: {names[0]} has shape {weight.shape} and its bias {bias.shape},"
                    f" not ({width}, outputs) and (outputs,)"
                )
            width = weight.shape[1]
            self.layers.append((weight, bias))
        if width != NUM_ACTIONS or not self.layers:
            raise ValueError(f"weights: the last layer gives {width} logits, not {NUM_ACTIONS}")

    def probabilities(self, raw: Array, masks: Array) -> Array:
        """Return (B, 79) float32 probabilities for raw observations (B, SIZE) uint8 and masks."""
        inputs, canonical, places = canonical_inputs(raw, masks)
        weight, bias = self.layers[0]
        hidden = np.empty((len(raw), weight.shape[1]), np.float32)
        first_layer(*inputs, np.arange(len(raw)), 0, weight, bias, hidden)
        for weight, bias in self.layers[1:]:
            out = np.empty((len(raw), weight.shape[1]), np.float32)
            hidden_layer(hidden, weight, bias, out)
            hidden = out
        return in_plain_suits(masked_softmax(hidden, canonical), places)
