"""The few things kernels do with raw bytes: the same compiled and as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from judgement_env._jit import (
    STACK_BYTES,
    njit,
    read_word,
    row_of,
    spread_bits,
    stack_bytes,
    write_word,
)
from judgement_env.engine import spread_byte
from judgement_env.state import Array


@njit
def spread_into(out: Array, start: int, bits: np.uint64) -> None:
    spread_bits(out, start, bits)


@njit
def copy_word(out: Array, start: int, source: Array, first: int) -> None:
    write_word(out, start, read_word(source, first))


@njit
def count_up(total: Array, i: int) -> None:
    row = row_of(total, i)
    scratch = stack_bytes()
    for k in range(len(row)):
        scratch[k] = k + 1
    for k in range(len(row)):
        row[k] += scratch[k]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
@pytest.mark.parametrize("start", [0, 3, 13])
def test_bits_are_spread_over_64_values_and_nothing_else_is_touched(
    start: int, dtype: type
) -> None:
    rng = np.random.default_rng(1)
    for bits in [0, 1, 1 << 63, (1 << 64) - 1, *map(int, rng.integers(0, 1 << 63, 20))]:
        out = np.full(80, 9, dtype)
        spread_into(out, start, np.uint64(bits))
        expected = [9] * 80
        expected[start : start + 64] = [bits >> c & 1 for c in range(64)]
        assert out.tolist() == expected


def test_a_word_is_copied_byte_by_byte_wherever_it_starts() -> None:
    source = np.arange(1, 30, dtype=np.uint8)
    for first in (0, 1, 7, 21):
        out = np.zeros(20, np.int8)
        copy_word(out, 5, source, first)
        assert out.tolist() == [0] * 5 + list(range(first + 1, first + 9)) + [0] * 7


def test_each_bit_of_a_byte_becomes_its_own_byte() -> None:
    for bits in range(256):
        word = int(spread_byte(np.uint64(bits | 0xF00)))
        assert [word >> (8 * b) & 0xFF for b in range(8)] == [bits >> b & 1 for b in range(8)]


def test_a_row_is_the_array_itself_and_scratch_space_is_its_own() -> None:
    total = np.zeros((3, 5), np.int64)
    for _ in range(2):
        count_up(total, 1)
    assert total.tolist() == [[0] * 5, [2, 4, 6, 8, 10], [0] * 5]
    assert STACK_BYTES >= 104


@pytest.mark.slow
def test_the_plain_forms_pass_the_same_tests() -> None:
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    arguments += ["-k", "not plain_forms"]
    done = subprocess.run(
        arguments, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
