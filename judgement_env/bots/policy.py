"""The policy network as compiled kernels and numpy: what a trained bot needs to play, no torch.

Its inputs (`inputs`) are nearly all zero, so the first layer sums the few weight rows it needs
(`sparse_layer`), which costs a tenth of the dense product. Outputs are logits of the 79 actions, in
canonical suits, and `PolicyNetwork.probabilities` maps them back. Training uses the same kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from judgement_env._jit import njit
from judgement_env.bots.inputs import (
    INPUT_SIZE,
    PLAIN_SIZE,
    canonical_inputs,
    in_plain_suits,
)
from judgement_env.cards import NUM_ACTIONS
from judgement_env.state import Array

# --- layers -----------------------------------------------------------------------------------


@njit
def sparse_layer(
    index: Array,
    value: Array,
    count: Array,
    rows: Array,
    weight: Array,
    bias: Array,
    out: Array,
) -> None:
    """Write ``inputs[rows] @ weight + bias`` into `out` (B, H), summing only non-zero inputs.

    index (R, MAX_NONZERO) uint16, value float32 and count (R,) describe the inputs of R rows.
    """
    width = weight.shape[1]
    for b in range(rows.shape[0]):
        row = rows[b]
        line = out[b]
        line[:] = bias
        j = 0
        # Four weight rows a pass: fewer loads and stores of `line`, 1.6 times as fast as one.
        while j + 4 <= count[row]:
            w0 = weight[index[row, j]]
            w1 = weight[index[row, j + 1]]
            w2 = weight[index[row, j + 2]]
            w3 = weight[index[row, j + 3]]
            v0, v1, v2, v3 = value[row, j], value[row, j + 1], value[row, j + 2], value[row, j + 3]
            for h in range(width):
                line[h] += (v0 * w0[h] + v1 * w1[h]) + (v2 * w2[h] + v3 * w3[h])
            j += 4
        for k in range(j, count[row]):
            w0 = weight[index[row, k]]
            v0 = value[row, k]
            for h in range(width):
                line[h] += v0 * w0[h]


@njit
def rectified_layer(x: Array, weight: Array, bias: Array, out: Array) -> None:
    """Write ``maximum(x, 0) @ weight + bias`` into `out` (B, H), summing only positive units.

    Of a trained layer one unit in six or seven is positive. Measured on the layers of a shipped
    model: 3.5 against 15 µs a row for numpy at 4 rows, 3 against 9 to 15 at 1,024; and there are
    no threads to wait for.
    """
    width = weight.shape[1]
    active = np.empty(x.shape[1], np.uint64)
    for b in range(x.shape[0]):
        row = x[b]
        line = out[b]
        line[:] = bias
        count = 0
        for h in range(x.shape[1]):
            if row[h] > 0:
                active[count] = h
                count += 1
        j = 0
        while j + 4 <= count:
            h0, h1, h2, h3 = active[j], active[j + 1], active[j + 2], active[j + 3]
            w0, w1, w2, w3 = weight[h0], weight[h1], weight[h2], weight[h3]
            v0, v1, v2, v3 = row[h0], row[h1], row[h2], row[h3]
            for k in range(width):
                line[k] += (v0 * w0[k] + v1 * w1[k]) + (v2 * w2[k] + v3 * w3[k])
            j += 4
        for i in range(j, count):
            w0 = weight[active[i]]
            v0 = row[active[i]]
            for k in range(width):
                line[k] += v0 * w0[k]


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
        sparse_layer(*inputs, np.arange(len(raw)), weight, bias, hidden)
        for weight, bias in self.layers[1:]:
            out = np.empty((len(raw), weight.shape[1]), np.float32)
            rectified_layer(hidden, weight, bias, out)
            hidden = out
        return in_plain_suits(masked_softmax(hidden, canonical), places)
