"""Small bots whose play is known, for tests of the arena."""

from __future__ import annotations

from typing import Any

import numpy as np

from judgement_env.bots import Bot
from judgement_env.engine import write_mask
from judgement_env.state import Array
from judgement_env.view import View


class PlaceBot(Bot):
    """Takes a legal action by its place: "lowest", "highest", else one that changes."""

    has_rows = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.matches = 0

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        return np.array([self._choose(rules[tables[row].rules], tables[row]) for row in rows])

    def _choose(self, r: Any, t: Any) -> int:
        mask = np.zeros(79, np.int8)
        write_mask(r, t, mask)
        legal = np.flatnonzero(mask)
        place = {"lowest": 0, "highest": -1}.get(self.name)
        if place is None:
            place = (7 * int(t.trick) + 3 * int(t.turn) + int(t.num_bids) + 5 * int(t["round"])) % 3
        return int(legal[place % len(legal)])

    def match_over(self, record: dict[str, Any]) -> None:
        self.matches += 1


class ViewBot(Bot):
    """Another bot that is asked by views only, and keeps the records it is shown."""

    def __init__(self, inner: Bot) -> None:
        self.inner = inner
        self.name = inner.name
        self.records: list[dict[str, Any]] = []

    def act(self, view: View) -> int:
        return self.inner.act(view)

    def match_over(self, record: dict[str, Any]) -> None:
        self.records.append(record)


class FixedBot(Bot):
    """Answers the same action always, legal or not."""

    def __init__(self, action: Any, has_rows: bool) -> None:
        self.name = "fixed"
        self.action = action
        self.has_rows = has_rows

    def act(self, view: View) -> int:
        return int(self.action)

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        return np.full(len(rows), self.action)
