"""Forward and backward passes of a perceptron as compiled kernels that touch positive units only.

Of a trained hidden layer one unit in seven is positive, and of 79 actions a handful are legal:
what is zero has no gradient and is not computed. A network is one flat array of parameters, each
layer's weights (inputs, outputs) and then its bias, and an array of its widths. Rows are worked on
in blocks, a layer at a time, so that one layer's weights at a time fill the cache. The arithmetic
is that of `training.model`, which the tests compare with it.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import arithmetic
from judgement_env.bots.policy import first_layer, hidden_layer, positive_units
from judgement_env.state import Array

# Rows worked on at a time.
BLOCK = 64


# --- forward ----------------------------------------------------------------------------------


@arithmetic
def matrix(flat: Array, start: int, rows: int, columns: int) -> Array:
    """Return part of a flat array as a matrix that shares its memory."""
    return flat[start : start + rows * columns].reshape((rows, columns))


@arithmetic
def hidden_units(
    widths: Array,
    params: Array,
    index: Array,
    value: Array,
    count: Array,
    rows: Array,
    start: int,
    size: int,
    units: Array,
) -> None:
    """Write what the units of the hidden layers sum up for `size` rows, one matrix a layer."""
    at, here = 0, 0
    for k in range(widths.shape[0] - 2):
        inputs, outputs = widths[k], widths[k + 1]
        weight = matrix(params, at, inputs, outputs)
        at += inputs * outputs
        bias = params[at : at + outputs]
        at += outputs
        out = matrix(units, here, size, outputs)
        if k == 0:
            first_layer(index, value, count, rows, start, weight, bias, out)
        else:
            x = matrix(units, here - size * inputs, size, inputs)
            hidden_layer(x, weight, bias, out)
        here += size * outputs


@arithmetic
def last_layer(x: Array, weight: Array, bias: Array, mask: Array, rows: Array, out: Array) -> None:
    """Write the outputs of `rows` that `mask` allows into `out` (B, outputs), all if it is empty.

    The others are left as they are.
    """
    chosen = np.empty(weight.shape[1], np.uint64)
    active = np.empty(x.shape[1], np.uint64)
    for b in range(x.shape[0]):
        num_chosen = chosen_outputs(mask, rows[b], chosen)
        num_active = positive_units(x[b], active)
        for i in range(num_chosen):
            a = chosen[i]
            total = bias[a]
            for j in range(num_active):
                total += x[b, active[j]] * weight[active[j], a]
            out[b, a] = total


@arithmetic
def chosen_outputs(mask: Array, row: int, chosen: Array) -> int:
    """Write which outputs `mask` allows the row, all if it is empty; return how many."""
    count = 0
    for a in range(chosen.shape[0]):
        chosen[count] = a
        count += mask.shape[0] == 0 or mask[row, a] != 0
    return count


@arithmetic
def outputs(
    widths: Array,
    params: Array,
    index: Array,
    value: Array,
    count: Array,
    mask: Array,
    rows: Array,
    out: Array,
) -> None:
    """Write the outputs of `rows` that `mask` allows into `out` (B, outputs), all if it is empty.

    The others are left as they are.
    """
    inputs, width = widths[-2], widths[-1]
    units = np.empty(BLOCK * widths[1:-1].sum(), np.float32)
    last = params.shape[0] - (inputs + 1) * width
    weight, bias = matrix(params, last, inputs, width), params[params.shape[0] - width :]
    for start in range(0, rows.shape[0], BLOCK):
        block = rows[start : start + BLOCK]
        size = block.shape[0]
        hidden_units(widths, params, index, value, count, rows, start, size, units)
        x = matrix(units, size * (widths[1:-1].sum() - inputs), size, inputs)
        last_layer(x, weight, bias, mask, block, out[start : start + size])


# --- backward ---------------------------------------------------------------------------------


@arithmetic
def backward(
    widths: Array,
    params: Array,
    grad: Array,
    index: Array,
    value: Array,
    count: Array,
    mask: Array,
    rows: Array,
    units: Array,
    deltas: Array,
    delta: Array,
) -> None:
    """Add the gradients of all parameters to `grad`, given `delta` (B, outputs) of the outputs.

    units: of `hidden_units`. deltas: room for the gradients of two layers' units.
    """
    size = rows.shape[0]
    inputs, width = widths[-2], widths[-1]
    at = params.shape[0] - (inputs + 1) * width
    here = size * (widths[1:-1].sum() - inputs)
    x = matrix(units, here, size, inputs)
    room = deltas.shape[0] // 2
    up, down = deltas[:room], deltas[room:]
    below = matrix(up, 0, size, inputs)
    last_layer_gradient(
        x,
        delta,
        mask,
        rows,
        matrix(params, at, inputs, width),
        matrix(grad, at, inputs, width),
        grad[grad.shape[0] - width :],
        below,
    )
    for k in range(widths.shape[0] - 3, 0, -1):
        inputs, width = widths[k], widths[k + 1]
        at -= (inputs + 1) * width
        here -= size * inputs
        x = matrix(units, here, size, inputs)
        above = below
        below = matrix(down, 0, size, inputs)
        weight, weight_grad = matrix(params, at, inputs, width), matrix(grad, at, inputs, width)
        bias_grad = grad[at + inputs * width : at + (inputs + 1) * width]
        hidden_layer_gradient(x, above, weight, weight_grad, bias_grad, below)
        up, down = down, up
    inputs, width = widths[0], widths[1]
    bias_grad = grad[inputs * width : (inputs + 1) * width]
    first_layer_gradient(
        index, value, count, rows, below, matrix(grad, 0, inputs, width), bias_grad
    )


@arithmetic
def last_layer_gradient(
    x: Array,
    delta: Array,
    mask: Array,
    rows: Array,
    weight: Array,
    weight_grad: Array,
    bias_grad: Array,
    below: Array,
) -> None:
    """Add the gradients of the last layer's parameters; write those of the units into `below`."""
    chosen = np.empty(weight.shape[1], np.uint64)
    active = np.empty(x.shape[1], np.uint64)
    for b in range(x.shape[0]):
        num_chosen = chosen_outputs(mask, rows[b], chosen)
        num_active = positive_units(x[b], active)
        below[b, :] = 0
        for i in range(num_chosen):
            bias_grad[chosen[i]] += delta[b, chosen[i]]
        for j in range(num_active):
            h = active[j]
            total = np.float32(0)
            for i in range(num_chosen):
                a = chosen[i]
                total += weight[h, a] * delta[b, a]
                weight_grad[h, a] += x[b, h] * delta[b, a]
            below[b, h] = total


@arithmetic
def add_rows(delta: Array, out: Array) -> None:
    """Add every row of `delta` to `out`."""
    for b in range(delta.shape[0]):
        line = delta[b]
        for k in range(out.shape[0]):
            out[k] += line[k]


@arithmetic
def hidden_layer_gradient(
    x: Array, delta: Array, weight: Array, weight_grad: Array, bias_grad: Array, below: Array
) -> None:
    """Add the gradients of a hidden layer's parameters; write those of the units into `below`.

    A unit at a time, over the rows where it is positive: its weights and their gradient stay in
    the nearest cache, and each row's `delta` is read once for both.
    """
    width = delta.shape[1]
    add_rows(delta, bias_grad)
    below[:, :] = 0
    starts, who = rows_by_unit(x)
    for h in range(x.shape[1]):
        w, g = weight[h], weight_grad[h]
        j, end = starts[h], starts[h + 1]
        while j + 4 <= end:
            b0, b1, b2, b3 = who[j], who[j + 1], who[j + 2], who[j + 3]
            d0, d1, d2, d3 = delta[b0], delta[b1], delta[b2], delta[b3]
            x0, x1, x2, x3 = x[b0, h], x[b1, h], x[b2, h], x[b3, h]
            s0, s1, s2, s3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for k in range(width):
                e0, e1, e2, e3, factor = d0[k], d1[k], d2[k], d3[k], w[k]
                g[k] += (x0 * e0 + x1 * e1) + (x2 * e2 + x3 * e3)
                s0 += factor * e0
                s1 += factor * e1
                s2 += factor * e2
                s3 += factor * e3
            below[b0, h], below[b1, h], below[b2, h], below[b3, h] = s0, s1, s2, s3
            j += 4
        for i in range(j, end):
            b0 = who[i]
            d0 = delta[b0]
            x0, s0 = x[b0, h], np.float32(0)
            for k in range(width):
                g[k] += x0 * d0[k]
                s0 += w[k] * d0[k]
            below[b0, h] = s0


@arithmetic
def rows_by_unit(x: Array) -> tuple[Array, Array]:
    """Return the rows where each unit is positive: those of unit h from ``starts[h]`` on."""
    starts = np.zeros(x.shape[1] + 2, np.int64)
    for b in range(x.shape[0]):
        for h in range(x.shape[1]):
            starts[h + 2] += x[b, h] > 0
    for h in range(x.shape[1]):
        starts[h + 2] += starts[h + 1]
    who = np.empty(starts[-1], np.uint16)
    for b in range(x.shape[0]):
        for h in range(x.shape[1]):
            if x[b, h] > 0:
                who[starts[h + 1]] = b
                starts[h + 1] += 1
    return starts, who


@arithmetic
def first_layer_gradient(
    index: Array,
    value: Array,
    count: Array,
    rows: Array,
    delta: Array,
    weight_grad: Array,
    bias_grad: Array,
) -> None:
    """Add the gradients of the first layer's parameters, an input at a time over its rows."""
    width = delta.shape[1]
    add_rows(delta, bias_grad)
    starts, who, values = rows_by_input(index, value, count, rows, weight_grad.shape[0])
    for h in range(weight_grad.shape[0]):
        j, end = starts[h], starts[h + 1]
        if j == end:
            continue
        g = weight_grad[h]
        while j + 4 <= end:
            d0, d1, d2, d3 = delta[who[j]], delta[who[j + 1]], delta[who[j + 2]], delta[who[j + 3]]
            v0, v1, v2, v3 = values[j], values[j + 1], values[j + 2], values[j + 3]
            for k in range(width):
                g[k] += (v0 * d0[k] + v1 * d1[k]) + (v2 * d2[k] + v3 * d3[k])
            j += 4
        for i in range(j, end):
            d0, v0 = delta[who[i]], values[i]
            for k in range(width):
                g[k] += v0 * d0[k]


@arithmetic
def rows_by_input(
    index: Array, value: Array, count: Array, rows: Array, num_inputs: int
) -> tuple[Array, Array, Array]:
    """Return the rows where each input is not zero, and its values there, as `rows_by_unit`."""
    starts = np.zeros(num_inputs + 2, np.int64)
    for b in range(rows.shape[0]):
        columns = index[rows[b]]
        for j in range(count[rows[b]]):
            starts[np.int64(columns[j]) + 2] += 1
    for h in range(num_inputs):
        starts[h + 2] += starts[h + 1]
    who = np.empty(starts[-1], np.uint16)
    values = np.empty(starts[-1], np.float32)
    for b in range(rows.shape[0]):
        columns, given = index[rows[b]], value[rows[b]]
        for j in range(count[rows[b]]):
            place = starts[np.int64(columns[j]) + 1]
            who[place] = b
            values[place] = given[j]
            starts[np.int64(columns[j]) + 1] += 1
    return starts, who, values
