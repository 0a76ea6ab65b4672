"""Many bytes at once: the same compiled and as plain Python, and the same as byte by byte."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from judgement_env._jit import njit
from judgement_env._lanes import (
    gaps,
    in_fours,
    lanes_at,
    picked,
    put_lanes,
    put_suits,
    spread,
    spread_half,
    sums_above,
    where,
)
from judgement_env.state import Array


@njit
def combine(one: Array, other: Array, out: Array) -> None:
    """Write, 16 bytes each: sum, difference, and, or, three comparisons, flags together."""
    a, b = lanes_at(one, 0), lanes_at(other, 0)
    put_lanes(out, 0, a + b)
    put_lanes(out, 16, a - b)
    put_lanes(out, 32, a & b)
    put_lanes(out, 48, a | b)
    put_lanes(out, 64, where(a > b, a, b))
    put_lanes(out, 80, where(a < 3, 7, b))
    put_lanes(out, 96, where(a != -1, a, 2 - b))
    put_lanes(out, 112, where((a > 0) & (b > 0), 1, 0))
    put_lanes(out, 128, where((a < 0) | (b < 0), 1, 0))


@njit
def rearrange(lanes: Array, order: Array, out: Array) -> None:
    put_lanes(out, 0, picked(lanes_at(lanes, 0), lanes_at(order, 0)))
    put_lanes(out, 16, in_fours(lanes_at(lanes, 0)))


@njit
def spread_into(bits: np.uint64, out: Array) -> None:
    put_lanes(out, 0, spread(bits))
    put_lanes(out, 64, spread_half(bits))
    put_lanes(out, 96, sums_above(spread(bits)))
    put_suits(out, 160, spread(bits))


@njit
def write_gaps(numbers: Array, own: int, out: Array) -> None:
    put_lanes(out, 0, gaps(numbers, own))


def test_lanes_combine_as_single_bytes_do() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, b = rng.integers(-60, 60, (2, 16)).astype(np.int8)
        a[3] = -1
        out = np.zeros(150, np.int8)
        combine(a, b, out)
        rows = [a + b, a - b, a & b, a | b, np.where(a > b, a, b), np.where(a < 3, 7, b)]
        rows += [np.where(a != -1, a, 2 - b), (a > 0) & (b > 0), (a < 0) | (b < 0)]
        expected = [int(x) for row in rows for x in row]
        assert out.tolist() == expected + [0] * 6


def test_lanes_are_picked_by_place_and_their_four_lowest_bits_taken_apart() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        lanes = rng.integers(0, 16, 16).astype(np.int8)
        order = rng.integers(0, 16, 16).astype(np.int8)
        out = np.full(85, 9, np.uint8)
        rearrange(lanes, order, out)
        assert out[:16].tolist() == [int(lanes[k]) for k in order]
        assert out[16:80].tolist() == [int(x) >> k & 1 for x in lanes for k in range(4)]
        assert out[80:].tolist() == [9] * 5


def test_bits_become_lanes_and_are_summed_from_above_in_groups_of_sixteen() -> None:
    rng = np.random.default_rng(3)
    for bits in [0, 1, 1 << 63, (1 << 64) - 1, *map(int, rng.integers(0, 1 << 63, 20))]:
        out = np.full(216, 9, np.uint8)
        spread_into(np.uint64(bits), out)
        each = [bits >> c & 1 for c in range(64)]
        assert out[:64].tolist() == each
        assert out[64:96].tolist() == each[:32]
        ends = [16 * (c // 16 + 1) for c in range(64)]
        assert out[96:160].tolist() == [sum(each[c + 1 : ends[c]]) for c in range(64)]
        groups = [each[16 * g + k] for g in range(4) for k in range(13)]
        assert out[160:].tolist() == groups + [9] * 4


def test_gaps_are_counted_from_the_middle_and_capped() -> None:
    numbers = np.arange(-2000, 2000, 250, dtype=np.int32)
    for own in (0, -130, 127, 1900):
        out = np.zeros(16, np.uint8)
        write_gaps(numbers, own, out)
        assert out.tolist() == [min(255, max(0, 128 + int(n) - own)) for n in numbers]


def test_lanes_of_other_than_bytes_are_refused() -> None:
    if os.environ.get("NUMBA_DISABLE_JIT"):
        pytest.skip("plain Python knows no types")
    with pytest.raises(TypeError, match="an array of bytes is needed, not of float32"):
        write_gaps(np.zeros(16, np.int32), 0, np.zeros(16, np.float32))


@pytest.mark.slow
def test_the_plain_forms_pass_the_same_tests() -> None:
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    arguments += ["-k", "not plain_forms"]
    done = subprocess.run(
        arguments, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
