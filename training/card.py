"""The figures in a model's `card.json`: each stands there once, whoever measured it.

A row is one that `judgement_env.arena_result.Row` gives as plain data, with what tells how to play
it again: its seed and command, and its preset and number of players or its rules.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from judgement_env.files import locked, write_json
from judgement_env.rules import PRESETS, Rules, make_rules

CARD: Final = "card.json"
# What tells a model from others.
WEIGHTS: Final = "weights_sha256"

# --- what a row is of -------------------------------------------------------------------------


def preset_of(plain: dict[str, Any]) -> str:
    """The preset these rules are, the number of players apart; "" where they are none."""
    rules = Rules.from_dict(plain)
    for name, preset in PRESETS.items():
        low, high = preset.player_range
        if low <= rules.num_players <= high:
            alike = rules.replace(player_range=preset.player_range)
            if alike == make_rules(name, rules.num_players):
                return name
    return ""


def covered(rules: Sequence[dict[str, Any]]) -> list[str]:
    """The presets a card's rules name, in the usual order; all where they name none."""
    named = {preset_of(plain) for plain in rules}
    return [name for name in PRESETS if name in named] or list(PRESETS)


def key_of(row: dict[str, Any], rules: Sequence[dict[str, Any]]) -> tuple[str, int, str]:
    """The game and the opponent of a row; one without a preset was played by the first rules."""
    preset, num_players = row.get("preset"), row.get("num_players")
    if preset is None and "command" in row:
        # Of `training.evaluate --keep`, whose rules may be any.
        return str(row["command"]), 0, str(row["opponents"][0])
    if preset is None and rules:
        preset, num_players = preset_of(rules[0]), rules[0]["num_players"]
    return str(preset), int(num_players or 0), str(row["opponents"][0])


def played_by(row: dict[str, Any], rules: Sequence[dict[str, Any]]) -> str | None:
    """The hash of the rules a row was played by; None where only its command tells."""
    if "rules" in row:
        return Rules.from_dict(row["rules"]).hash
    if row.get("preset") in PRESETS:
        return make_rules(row["preset"], row["num_players"]).hash
    return Rules.from_dict(rules[0]).hash if rules and "command" not in row else None


def is_same(old: dict[str, Any], new: dict[str, Any], rules: Sequence[dict[str, Any]]) -> bool:
    """Whether two rows are of the same matches."""
    if any(old.get(name) != new.get(name) for name in ("format", "opponents", "seed", "matches")):
        return False
    game = played_by(old, rules)
    if game is None:
        return bool(old.get("command") == new.get("command"))
    return game == played_by(new, rules)


def merge(
    rows: list[dict[str, Any]], new: Sequence[dict[str, Any]], rules: Sequence[dict[str, Any]]
) -> None:
    """Put new rows behind the others, or in the place of those of the same matches.

    What the new one does not say, its preset or the time of a decision, stays of the old one.
    """
    for row in new:
        for place, old in enumerate(rows):
            if is_same(old, row, rules):
                rows[place] = {**old, **row}
                break
        else:
            rows.append(row)


# --- the file ---------------------------------------------------------------------------------


def check_rows(place: dict[str, Any]) -> None:
    """Let what reads rows read those here; an error of some kind where it cannot."""
    rules = place.get("rules", [])
    covered(rules)
    if not isinstance(place["measured"], list):
        raise TypeError("measured")
    for row in place["measured"]:
        key_of(row, rules)
        played_by(row, rules)


@contextlib.contextmanager
def changed(path: Path, may_be_new: bool = False) -> Iterator[dict[str, Any]]:
    """The content of a JSON file as it is now, to be changed in place and written whole.

    Others who change it this way wait for the end of the block, so nobody's figures are lost.
    Raises OSError or ValueError naming the file where it cannot be read or written.
    """
    with locked(path.parent):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if not may_be_new:
                raise
            content = {}
        except ValueError as error:
            raise ValueError(f"{path}: cannot be read: {error}") from None
        yield content
        write_json(path, content)
