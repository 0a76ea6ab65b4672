"""Adam (Kingma and Ba, arXiv 1412.6980) over flat parameters, shared out among worker threads.

The arithmetic and the form of the saved state are those of `torch.optim.Adam`, so that a run may
go on with either.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import arithmetic
from judgement_env.state import Array

DECAY, DECAY_OF_SQUARES, EPSILON = 0.9, 0.999, 1e-5


@arithmetic
def sum_gradients(grads: Array, start: int, stop: int) -> float:
    """Add the workers' gradients (W, P) up in the first row, zero the others; a slice of them.

    Returns the sum of their squares.
    """
    total = grads[0, start:stop]
    for worker in range(1, grads.shape[0]):
        other = grads[worker, start:stop]
        for i in range(total.shape[0]):
            total[i] += other[i]
            other[i] = 0
    squares = 0.0
    for i in range(total.shape[0]):
        squares += total[i] * total[i]
    return squares


@arithmetic
def adam_step(
    params: Array,
    grad: Array,
    mean: Array,
    square: Array,
    start: int,
    stop: int,
    scale: float,
    step: int,
    rate: float,
) -> None:
    """Make one step of a slice of the parameters with `scale` times `grad`, which becomes zero."""
    p, g, m, v = params[start:stop], grad[start:stop], mean[start:stop], square[start:stop]
    size = np.float32(rate / (1 - DECAY**step))
    root = np.float32(np.sqrt(1 - DECAY_OF_SQUARES**step))
    factor, least = np.float32(scale), np.float32(EPSILON)
    new, new_square = np.float32(1 - DECAY), np.float32(1 - DECAY_OF_SQUARES)
    kept = np.float32(DECAY_OF_SQUARES)
    for i in range(p.shape[0]):
        slope = g[i] * factor
        m[i] += new * (slope - m[i])
        v[i] = kept * v[i] + new_square * slope * slope
        p[i] -= size * m[i] / (np.sqrt(v[i]) / root + least)
        g[i] = 0
