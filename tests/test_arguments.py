"""What arguments may be, and the one sentence that says so."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from judgement_env import arguments
from judgement_env.arguments import choice, dtype_name, finite, summed_chances, whole


def test_what_is_allowed_comes_back_as_a_plain_value() -> None:
    assert choice("episode", "round", ("match", "round")) == "round"
    assert (whole("seat", np.uint8(3), 0, 3), whole("num_tables", 10**9, 1)) == (3, 10**9)
    assert finite("scale", 2) == finite("scale", np.float32(2), above=0) == 2.0
    assert type(finite("scale", np.float32(2))) is float
    for given in ("uint8", np.uint8, np.dtype("uint8")):
        assert dtype_name(given, ("float32", "uint8")) == "uint8"


def test_chances_rise_to_one_and_end_at_the_last_that_can_be_drawn() -> None:
    assert summed_chances("weights", None, 4, "one a bot").tolist() == [0.25, 0.5, 0.75, 1]
    assert summed_chances("weights", [1, 3, 0], 3, "one a bot").tolist() == [0.25, 1, 1]
    thirds = summed_chances("weights", np.full(10, 0.1), 10, "one a bot")
    assert thirds[-1] == 1 and (np.diff(thirds) > 0).all()
    padded = summed_chances("weights", [1, 1, 0, 0], 2, "one a round", is_padded=True)
    assert padded.tolist() == [0.5, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choice("mode", ["a"], "ab"), "mode: ['a'] (allowed: a, b)"),
        (lambda: whole("seat", 4, 0, 3), "seat: 4 (allowed: a whole number from 0 to 3)"),
        (lambda: whole("seat", True, 0, 3), "seat: True (allowed: a whole number from 0 to 3)"),
        (lambda: whole("seat", 1.0, 0), "seat: 1.0 (allowed: a whole number from 0)"),
        (lambda: finite("scale", "2"), "scale: '2' (allowed: a finite number)"),
        (lambda: finite("scale", True), "scale: True (allowed: a finite number)"),
        (lambda: finite("scale", float("nan")), "scale: nan (allowed: a finite number)"),
        (lambda: finite("scale", 0, above=0), "scale: 0 (allowed: a number above 0)"),
        (lambda: dtype_name(None, ("uint8",)), "dtype: None (allowed: uint8)"),
        (lambda: dtype_name("int3", ("uint8",)), "dtype: 'int3' (allowed: uint8)"),
        (lambda: dtype_name(np.int64, ("uint8",)), "dtype: 'int64' (allowed: uint8)"),
    ],
)
def test_what_is_not_allowed_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize("weights", ["a", [1], [1, -1], [0, 0], [1, np.nan], [[1, 1]], [1, 1, 0]])
def test_weights_that_are_no_chances_are_named(weights: Any) -> None:
    allowed = r"\(allowed: 2 numbers from 0, one a bot, not all 0\)$"
    with pytest.raises(ValueError, match=f"^weights: .* {allowed}"):
        summed_chances("weights", weights, 2, "one a bot")


def test_the_example_of_the_module_runs() -> None:
    assert doctest.testmod(arguments) == doctest.TestResults(failed=0, attempted=1)
