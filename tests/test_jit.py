"""The few things kernels do with raw bytes: the same compiled and as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from judgement_env._jit import (
    STACK_BYTES,
    add_to,
    fetch,
    njit,
    read_word,
    row_of,
    spread_bits,
    stack_bytes,
    write_word,
)
from judgement_env.state import Array, new_tables


@njit
def spread_into(out: Array, start: int, bits: np.uint64) -> None:
    spread_bits(out, start, bits)


@njit
def copy_word(out: Array, start: int, source: Array, first: int) -> None:
    write_word(out, start, read_word(source, first))


@njit
def add_twice(counters: Array, k: int, number: int) -> int:
    add_to(counters, k, number)
    return add_to(counters, k, number)


@njit
def fetch_all(tables: Array) -> None:
    for i in range(len(tables)):
        fetch(tables, i)


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


def test_a_row_is_the_array_itself_and_scratch_space_is_its_own() -> None:
    total = np.zeros((3, 5), np.int64)
    for _ in range(2):
        count_up(total, 1)
    assert total.tolist() == [[0] * 5, [2, 4, 6, 8, 10], [0] * 5]
    assert STACK_BYTES >= 104


def test_what_is_added_is_counted_and_what_was_there_before_returned() -> None:
    counters = np.zeros(9, np.int64)
    assert add_twice(counters, 8, 5) == 5
    assert add_twice(counters, 8, -1) == 9
    assert counters.tolist() == [0] * 8 + [8]


def test_numbers_added_by_many_threads_are_each_added_once() -> None:
    counters = np.zeros(1, np.int64)
    add_twice(counters, 0, 0)
    with ThreadPoolExecutor(4) as pool:
        before = list(pool.map(lambda _: add_twice(counters, 0, 1), range(500)))
    assert int(counters[0]) == 1000 and len(set(before)) == 500


def test_fetching_records_changes_nothing() -> None:
    tables = new_tables(3)
    tables["key"] = [3, 4, 5]
    before = tables.copy()
    fetch_all(tables)
    assert tables.tobytes() == before.tobytes()


@pytest.mark.slow
def test_the_plain_forms_pass_the_same_tests() -> None:
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    arguments += ["-k", "not plain_forms"]
    done = subprocess.run(
        arguments, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
