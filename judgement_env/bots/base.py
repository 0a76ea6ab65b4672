"""What every bot is: something that answers a view with an action.

A subclass defines `act`, or `act_rows` with ``has_rows = True``: one kernel call that serves many
tables of a batch, from which `act` then follows. A bot keeps no state between calls, so one
instance may serve any seats of any tables. It is a context manager that closes itself.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np

from judgement_env.cards import NUM_ACTIONS
from judgement_env.state import Array
from judgement_env.view import View


class BotError(RuntimeError):
    """A bot cannot play on: it broke down, is too slow, or answers what nobody may do."""


class Bot:
    """A player. `name` is shown in tables and errors; `has_rows` says that `act_rows` works."""

    name: str = "bot"
    has_rows: bool = False

    def act(self, view: View) -> int:
        """Return the action id of the seat that looks, which must be the seat to act."""
        if not self.has_rows:
            raise NotImplementedError(f"{type(self).__name__} defines neither act nor act_rows")
        check_turn(view)
        rows = np.zeros(1, np.int64)
        return int(self.act_rows(view.rules_array, view.tables_array, rows)[0])

    def policy(self, view: View) -> Array | None:
        """Return the probability of each action (79,) float64, None where the bot has none."""
        return None

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        """Return the actions (J,) int64 of the seats to act at ``tables[rows[j]]``.

        `rules` (K,) and `tables` (N,) are records as in `state`, rows (J,) int64. The bot may read
        only what the seat to act knows, and changes nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} has no act_rows")

    def match_over(self, record: dict[str, Any]) -> None:
        """Take note of the record of a match this bot played in, when it is over."""

    def close(self) -> None:
        """Give back what the bot holds; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def check_turn(view: View) -> None:
    """Raise ValueError where the seat that looks is not the seat to act."""
    if view.seat_to_act != view.seat:
        acting = (
            "none, the match is over" if view.is_over else f"{view.seat_to_act}, whose turn it is"
        )
        raise ValueError(f"view: seat {view.seat} is not to act (allowed: {acting})")


def one_hot(action: int) -> Array:
    """Return the policy (79,) that always takes `action`."""
    probabilities = np.zeros(NUM_ACTIONS)
    probabilities[action] = 1.0
    return probabilities
