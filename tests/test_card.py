"""The rows of a model's card: each there once, none lost when two programs write at a time."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from judgement_env import PRESETS, Rules
from training.card import changed, is_same, merge

OWN = [PRESETS["kachuful"].to_dict()]


def row(**changes: Any) -> dict[str, Any]:
    """A row as `training.evaluate --keep` keeps it."""
    fields: dict[str, Any] = {
        "format": "one-versus-field",
        "opponents": ["heuristic"],
        "matches": 40,
        "seed": 7,
        "rules": Rules.preset("kachuful", num_players=3).to_dict(),
        "command": "python -m training.evaluate x --rules=kachuful --num_players=3",
    }
    return fields | changes


def measured(**changes: Any) -> dict[str, Any]:
    """A row as `training.measure` keeps it: of a preset, and with the time of a decision."""
    fields = row(preset="kachuful", num_players=3, milliseconds=0.5, command="measured")
    del fields["rules"]
    return fields | changes


def test_rows_are_the_same_where_their_matches_are() -> None:
    assert is_same(row(), row(command="the same in other words"), OWN)
    for change in (
        {"format": "mixed"},
        {"opponents": ["random"]},
        {"matches": 44},
        {"seed": 8},
        {"rules": OWN[0]},
    ):
        assert not is_same(row(), row(**change), OWN)
    assert is_same(measured(), row(), OWN)
    assert not is_same(measured(num_players=4), row(), OWN)
    # The row of an export says neither: it is of the card's first rules.
    first = {name: row()[name] for name in ("format", "opponents", "matches", "seed")}
    assert is_same(first, row(rules=OWN[0]), OWN) and not is_same(first, row(), OWN)
    # An older row that only its command tells.
    old = {name: value for name, value in row().items() if name != "rules"}
    assert is_same(old, row(), OWN) and not is_same(old, row(command="another"), OWN)


def test_a_row_made_again_keeps_what_only_the_first_one_says() -> None:
    rows = [measured(points=1.0), row(seed=9)]
    merge(rows, [row(points=2.0), row(seed=10)], OWN)
    assert [one["seed"] for one in rows] == [7, 9, 10]
    assert rows[0]["preset"] == "kachuful" and rows[0]["milliseconds"] == 0.5
    assert rows[0]["points"] == 2.0 and rows[0]["command"] == row()["command"]


def test_nothing_is_lost_when_many_write_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "card.json"

    def add(number: int) -> None:
        with changed(path, may_be_new=True) as content:
            content.setdefault("measured", []).append(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(60)))
    assert sorted(json.loads(path.read_text())["measured"]) == list(range(60))
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_there_or_broken_is_named_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    with pytest.raises(FileNotFoundError, match="card.json"), changed(path):
        pass
    path.write_text("{ half")
    with pytest.raises(ValueError, match="card.json: cannot be read"), changed(path):
        pass
    assert path.read_text() == "{ half"
