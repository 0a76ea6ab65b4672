"""What arguments may be: each check returns the value or raises one ValueError that says all.

The error names the argument, its value and what is allowed. Rules have checks of their own, for
their fields depend on each other.

>>> choice("episode", "week", ("match", "round"))
Traceback (most recent call last):
ValueError: episode: 'week' (allowed: match, round)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from judgement_env.cards import whole_number
from judgement_env.scoring import shown
from judgement_env.state import Array


def refuse(name: str, value: Any, allowed: str) -> NoReturn:
    """Raise ValueError for the value of an argument."""
    raise ValueError(f"{name}: {shown(value)} (allowed: {allowed})")


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return a text that is one of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        refuse(name, value, ", ".join(allowed))
    return value


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return a whole number of any integer type from `low`, to `high` where there is one."""
    number = whole_number(value)
    if number is None or number < low or (high is not None and number > high):
        refuse(name, value, f"a whole number from {low}" + ("" if high is None else f" to {high}"))
    return number


def finite(name: str, value: Any, above: float = -math.inf) -> float:
    """Return a number that is neither infinite nor nan, and above `above`."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or isinstance(value, bool) or not above < value < math.inf:
        refuse(name, value, "a finite number" if above == -math.inf else f"a number above {above}")
    return float(value)


def dtype_name(dtype: Any, allowed: Sequence[str]) -> str:
    """Return the name of a dtype given as a name or as numpy takes it."""
    name = dtype
    if dtype is not None and not isinstance(dtype, str):
        try:
            name = np.dtype(dtype).name
        except TypeError:
            refuse("dtype", dtype, ", ".join(allowed))
    return choice("dtype", name, allowed)


def summed_chances(name: str, weights: Any, size: int, each: str, is_padded: bool = False) -> Array:
    """Return (size,) float64, rising to 1: the chances by `weights` summed up, all alike if None.

    `each` says in the error what there is one number for; `is_padded` lets zeros after them pass.
    """
    allowed = f"{size} numbers from 0, {each}, not all 0"
    try:
        row = np.ones(size) if weights is None else np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        refuse(name, weights, allowed)
    if is_padded and row.ndim == 1 and not row[size:].any():
        row = row[:size]
    is_row = row.shape == (size,) and bool(np.isfinite(row).all())
    if not is_row or row.min() < 0 or not row.any():
        refuse(name, row.tolist(), allowed)
    sums: Array = np.cumsum(row) / row.sum()
    # Rounding must not let a draw fall past the last one that can be drawn.
    sums[np.flatnonzero(row)[-1] :] = 1
    return sums
