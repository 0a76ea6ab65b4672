"""One match at one table, for people and bots: ask, bid, play, take back, write down, play again.

The rules are the engine's; a `Table` adds the checks at the edge, deals given by hand, the way back
and the record. What one seat may know of it is a `View`.

>>> table = Table("kachuful", seed=7, dealer=0)
>>> table.push("bid 2"), table.seat
(False, 2)
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from judgement_env import record as records
from judgement_env._jit import njit
from judgement_env.cards import (
    NONE,
    NUM_ACTIONS,
    action_from,
    action_text,
    is_bid,
    whole_number,
)
from judgement_env.deals import Deal, complete, lay, read_deals
from judgement_env.engine import (
    apply_action,
    begin_match,
    is_legal,
    next_round,
    stream,
    table_key,
)
from judgement_env.observation import ORACLE_SIZE, SIZE, encode_oracle
from judgement_env.record import COUNTS, SEEDS, Move, Record
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import shown
from judgement_env.state import OVER, TABLE_RECORD, Array, new_tables
from judgement_env.view import (
    View,
    encode_row,
    explain,
    match_sheet,
    packed,
    round_sheet,
    winners_of,
    write_row_mask,
)

# Results of `push_row`.
ILLEGAL, OPEN, SETTLES = range(-1, 2)


class IllegalActionError(ValueError):
    """An action the seat to act may not take; nothing has changed.

    `seat` is None when the match is over, `action` what was asked for, `legal` the action ids
    that are allowed.
    """

    def __init__(self, message: str, seat: int | None, action: Any, legal: list[int]) -> None:
        super().__init__(message, seat, action, legal)
        self.seat = seat
        self.action = action
        self.legal = legal

    def __str__(self) -> str:
        return str(self.args[0])


# --- kernels on arrays of one record ------------------------------------------------------------


@njit
def open_match(rules: Array, tables: Array, dealer: int) -> None:
    """Begin the whole match in row 0."""
    begin_match(rules[0], tables[0], 0, rules[0].num_rounds - 1, dealer)


@njit
def push_row(rules: Array, tables: Array, action: int) -> int:
    """Apply an action in row 0; return ILLEGAL, with nothing changed, OPEN or SETTLES."""
    if not is_legal(rules[0], tables[0], action):
        return ILLEGAL
    return SETTLES if apply_action(rules[0], tables[0], action) else OPEN


@njit
def replay_row(rules: Array, tables: Array, actions: Array) -> None:
    """Apply legal actions (T,) that settle no round in row 0."""
    for action in actions:
        apply_action(rules[0], tables[0], action)


@njit
def next_row(rules: Array, tables: Array) -> bool:
    """Deal the round after a settled one in row 0; return whether the match was over instead."""
    return next_round(rules[0], tables[0])


@njit
def row_round_key(tables: Array) -> np.uint64:
    """Return the key that the deal of the round in row 0 is drawn by."""
    t = tables[0]
    key: np.uint64 = stream(stream(t.key, t.match), t["round"] + 1)
    return key


@njit
def encode_oracle_row(rules: Array, tables: Array, viewer: int, out: Array) -> None:
    """Write every hand of row 0 by seat relative to `viewer` into `out` (ORACLE_SIZE,) uint8."""
    encode_oracle(rules[0], tables[0], viewer, out)


# --- the table --------------------------------------------------------------------------------


class Table:
    """One match, hidden cards and all.

    `rules_array` and `tables_array` (1,) are its records for kernels; `seed` is None only where a
    record held none.
    """

    rules: Rules
    seed: int | None
    table: int
    players: tuple[str, ...]
    rules_array: Array
    tables_array: Array

    def __init__(
        self,
        rules: str | os.PathLike[str] | Rules | Mapping[str, Any] = "kachuful",
        seed: int | None = None,
        dealer: int | None = None,
        deals: Sequence[Any] | None = None,
        turn_ups: Sequence[Any] | None = None,
        *,
        match: int = 0,
        table: int = 0,
        players: Sequence[str] | None = None,
    ) -> None:
        """Deal the first round of a match.

        `rules` is all that `make_rules` takes. `seed` None is drawn from the system, and stands in
        the record. `dealer` None is the rules', or drawn. `deals[round][seat]` is a list of cards
        (text or ids), `turn_ups[round]` a card; a null or missing round is drawn. `table` and
        `match` name the deals together with the seed, as they do in a batch. Raises ValueError
        naming the field, round and seat.
        """
        self.rules = make_rules(rules)
        # A drawn seed fits a double, so that every reader of JSON keeps all its digits.
        self.seed = secrets.randbits(53) if seed is None else _whole("seed", seed, SEEDS - 1)
        self.table = _whole("table", table, COUNTS - 1)
        self.players = _names(players, self.rules.num_players)
        self._given = read_deals(self.rules, deals, turn_ups)
        self._open(self.seed, _whole("match", match, COUNTS - 1), _dealer(self.rules, dealer))

    def _open(self, seed: int, match: int, dealer: int) -> None:
        self._use(new_tables(1))
        self.tables_array["key"][0] = table_key(np.uint64(seed), self.table)
        self.tables_array["match"][0] = match
        self._opened: list[bytes] = []
        self._settled: list[bytes] = []
        self._actions: list[int] = []
        self._starts: list[int] = []
        open_match(self.rules_array, self.tables_array, dealer)
        self._open_round()

    def _use(self, tables: Array) -> None:
        """Take this array as the position, with views of the fields that are read most."""
        self.rules_array = packed(self.rules)
        self.tables_array = tables
        self._bytes = tables.view(np.uint8)
        self._seat = tables["seat"]
        self._phase = tables["phase"]
        self._mask = np.zeros(NUM_ACTIONS, np.int8)

    def _open_round(self) -> None:
        """Lay out what is given of the round just dealt, and keep how it lies."""
        index = self.round_index
        if index in self._given:
            key = int(row_round_key(self.tables_array))
            lay(self.tables_array, *complete(self.rules, key, self._given[index], index))
        self._opened.append(self._bytes.tobytes())
        self._starts.append(len(self._actions))

    # What is asked at every turn.

    @property
    def is_over(self) -> bool:
        """Whether the match is over."""
        return bool(self._phase[0] == OVER)

    @property
    def seat(self) -> int | None:
        """The seat to act, None when the match is over."""
        seat = int(self._seat[0])
        return None if seat == NONE else seat

    def legal(self) -> list[int]:
        """The action ids open to the seat to act, rising; none when the match is over."""
        write_row_mask(self.rules_array, self.tables_array, self._mask)
        legal: list[int] = self._mask.nonzero()[0].tolist()
        return legal

    def write_mask(self, mask: Array) -> int:
        """Write the legal actions into `mask` (79,) int8; return how many there are."""
        return int(write_row_mask(self.rules_array, self.tables_array, mask))

    def observe(self, seat: int, out: Array | None = None) -> Array:
        """What `seat` knows as a raw observation (SIZE,) uint8, written into `out` if given."""
        if out is None:
            out = np.empty(SIZE, np.uint8)
        encode_row(self.rules_array, self.tables_array, seat, out)
        return out

    def observe_all_hands(self, seat: int, out: Array | None = None) -> Array:
        """Every hand by seat relative to `seat`, (ORACLE_SIZE,) uint8: for critics, not players."""
        if out is None:
            out = np.empty(ORACLE_SIZE, np.uint8)
        encode_oracle_row(self.rules_array, self.tables_array, seat, out)
        return out

    def view(self, seat: int) -> View:
        """What `seat` may know at this moment; ValueError where nobody sits there."""
        seat = _whole("seat", seat, self.rules.num_players - 1)
        settled = tuple(self._settled)
        return View(self.rules, seat, self.tables_array, settled, self.players, self.table)

    # Moves.

    def push(self, action: int | str) -> bool:
        """Take an action (its id, or text as "AS" or "bid 2"); return whether it settled a round.

        All that follows by itself happens too: tricks, points, a blind round's play, the next
        deal. Raises IllegalActionError, with nothing changed.
        """
        # The exact type: True and False are no actions.
        if type(action) is int and 0 <= action < NUM_ACTIONS:
            number = action
        else:
            number = self._number(action)
        result = push_row(self.rules_array, self.tables_array, number)
        if result == OPEN:
            self._actions.append(number)
            return False
        if result == ILLEGAL:
            self._refuse(action)
        self._actions.append(number)
        self._settle()
        return True

    def _settle(self) -> None:
        # A settled round is public, the key never is; views keep these bytes.
        row = self.tables_array.copy()
        row["key"] = 0
        self._settled.append(row.tobytes())
        if not next_row(self.rules_array, self.tables_array):
            self._open_round()

    def _number(self, action: Any) -> int:
        try:
            return action_from(action)
        except ValueError:
            self._refuse(action)

    def _refuse(self, action: Any) -> NoReturn:
        seat, legal = self.seat, self.legal()
        allowed = ", ".join(action_text(a) for a in legal) or "nothing"
        who = "nobody" if seat is None else f"seat {seat}"
        try:
            number = action_from(action)
        except ValueError as error:
            what = f"cannot do that: {error}"
        else:
            verb = "may" if seat is None else "may not"
            words = action_text(number) if is_bid(number) else f"play {action_text(number)}"
            what = f"{verb} {words}: {explain(self.view(seat or 0), number)}"
        message = f"{who} {what} (legal: {allowed})"
        raise IllegalActionError(message, seat, action, legal) from None

    def pop(self) -> int:
        """Take back the last action and return its id; IndexError where none has been made."""
        if not self._actions:
            raise IndexError("pop: no bid or play has been made at this table")
        if self.is_over:
            self._settled.pop()
        elif self._starts[-1] == len(self._actions):
            self._settled.pop()
            self._opened.pop()
            self._starts.pop()
        action = self._actions.pop()
        self._bytes[:] = np.frombuffer(self._opened[-1], np.uint8)
        again = np.array(self._actions[self._starts[-1] :], np.int64)
        replay_row(self.rules_array, self.tables_array, again)
        return action

    # Results.

    @property
    def totals(self) -> list[int]:
        """The total of each seat, settled rounds only."""
        totals: list[int] = self.tables_array["total"][0, : self.rules.num_players].tolist()
        return totals

    @property
    def winners(self) -> list[int]:
        """The seats with the highest total, none before the match is over."""
        return winners_of(self.tables_array, self.rules.num_players)

    @property
    def last_points(self) -> list[int] | None:
        """The points of each seat in the round settled last, None before the first one is."""
        if not self._settled:
            return None
        points: list[int] = self.tables_array["points"][0, : self.rules.num_players].tolist()
        return points

    @property
    def round_index(self) -> int:
        """The place in `rules.schedule`, from 0, of the round in play or played last."""
        return int(self.tables_array["round"][0])

    @property
    def decisions(self) -> int:
        """How many bids and plays have been made; a blind round's cards are nobody's decision."""
        return len(self._actions)

    @property
    def actions(self) -> tuple[int, ...]:
        """The action ids taken so far."""
        return tuple(self._actions)

    @property
    def match(self) -> int:
        """Matches played since the seed was set."""
        return int(self.tables_array["match"][0])

    def record(self) -> Record:
        """The match so far as a `judgement-record/1`: plain data, hidden cards and seed included.

        Hands stand as dealt, each rising by card id: clubs, diamonds, hearts, spades, 2 to ace.
        """
        settled = tuple(self._settled)
        return match_sheet(
            self.rules, self.seed, self.table, self.players, settled, self.tables_array
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any], decisions: int | None = None) -> Table:
        """The table of a record, replayed and verified; `decisions` = its first k actions only.

        Hands are the record's; later rounds are drawn by its seed, or by the system's where that
        is null. Raises ValueError naming round and trick where the record breaks a rule.
        """
        sheet = records.check(record)
        table = cls._dealt(sheet)
        for move in records.moves(table.rules, sheet):
            table._follow(move)
        records.compare(sheet, table.record())
        if decisions is None:
            return table
        count = _whole("decisions", decisions, table.decisions)
        while table.decisions > count:
            table.pop()
        return table

    @classmethod
    def _dealt(cls, sheet: Record) -> Table:
        """The table of a checked record before the first bid."""
        try:
            rules = Rules.from_dict(sheet["rules"])
        except ValueError as error:
            raise ValueError(f"record: rules: {error}") from None
        records.check_schedule(rules, sheet)
        table = cls.__new__(cls)
        table.rules = rules
        table.seed = sheet["seed"]
        table.table = sheet["table"]
        table.players = tuple(sheet["players"])
        try:
            hands = [entry["hands"] for entry in sheet["rounds"]]
            turn_ups = [entry["turn_up"] for entry in sheet["rounds"]]
            table._given = read_deals(rules, hands, turn_ups, "hands")
            dealer = _dealer(rules, sheet["rounds"][0]["dealer"])
        except ValueError as error:
            raise ValueError(f"record: {error}") from None
        seed = secrets.randbits(53) if table.seed is None else table.seed
        table._open(seed, sheet["match"], dealer)
        return table

    def _follow(self, move: Move) -> None:
        """Take an action that a record tells of; ValueError naming its place where it cannot be."""
        here = self.round_index + 1
        if move.round > here:
            raise ValueError(f"record: {move.place}: begun before round {here} is settled")
        if move.round < here or self.is_over:
            raise ValueError(f"record: {move.place}: goes on after the round is settled")
        if move.seat != self.seat:
            raise ValueError(
                f"record: {move.place}: seat {move.seat} does {action_text(move.action)}"
                f" (allowed: seat {self.seat}, whose turn it is)"
            )
        try:
            self.push(move.action)
        except IllegalActionError as error:
            raise ValueError(f"record: {move.place}: {error}") from None

    # Copies.

    def clone(self) -> Table:
        """A table of its own in the same position, which goes on to deal the same cards."""
        other = Table.__new__(type(self))
        other.rules = self.rules
        other.seed = self.seed
        other.table = self.table
        other.players = self.players
        other._given = self._given
        other._opened = self._opened.copy()
        other._settled = self._settled.copy()
        other._actions = self._actions.copy()
        other._starts = self._starts.copy()
        other._use(np.frombuffer(bytearray(self._bytes), TABLE_RECORD))
        return other

    def __copy__(self) -> Table:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        return self.clone()

    def get_state(self) -> dict[str, Any]:
        """All of the table as plain data and bytes, for `set_state`; holds hidden things."""
        return {
            "rules": self.rules.to_dict(),
            "seed": self.seed,
            "table": self.table,
            "players": list(self.players),
            "given": {index: tuple(deal) for index, deal in self._given.items()},
            "row": self._bytes.tobytes(),
            "opened": list(self._opened),
            "settled": list(self._settled),
            "actions": list(self._actions),
            "starts": list(self._starts),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Become the table that `get_state` described, rules included."""
        self.rules = Rules.from_dict(state["rules"])
        self.seed = state["seed"]
        self.table = state["table"]
        self.players = tuple(state["players"])
        self._given = {index: Deal(*deal) for index, deal in state["given"].items()}
        self._opened = list(state["opened"])
        self._settled = list(state["settled"])
        self._actions = list(state["actions"])
        self._starts = list(state["starts"])
        self._use(np.frombuffer(bytearray(state["row"]), TABLE_RECORD))

    def __getstate__(self) -> dict[str, Any]:
        return self.get_state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.set_state(state)

    def __repr__(self) -> str:
        where = f"round {self.round_index + 1} of {self.rules.num_rounds}"
        return f"<Table of {self.rules.num_players}, {where}, {self.decisions} decisions>"

    def __str__(self) -> str:
        """The whole round in a few plain lines, every hand included."""
        sheet = round_sheet(self.tables_array, self.rules.num_players)
        trump, totals = sheet["trump"] or "no trump", self.totals
        lines = [
            f"round {self.round_index + 1} of {self.rules.num_rounds}, {sheet['cards']} cards,"
            f" trump {trump}, dealer {sheet['dealer']}"
        ]
        for seat, name in enumerate(self.players):
            bid = "-" if sheet["bids"][seat] is None else sheet["bids"][seat]
            lines.append(
                f"{'>' if seat == self.seat else ' '} {name}: {' '.join(sheet['hands'][seat])}"
                f"  bid {bid}, won {sheet['won'][seat]}, total {totals[seat]}"
            )
        for trick in sheet["tricks"]:
            lines.append(f"  seat {trick['leader']} leads: {' '.join(trick['plays'])}")
        return "\n".join(lines)


# --- checks at the edge -------------------------------------------------------------------------


def _whole(field: str, value: Any, high: int) -> int:
    number = whole_number(value)
    if number is None or not 0 <= number <= high:
        raise ValueError(f"{field}: {shown(value)} (allowed: a whole number from 0 to {high})")
    return number


def _dealer(rules: Rules, dealer: Any) -> int:
    """The dealer asked for, NONE = the rules' own or drawn; ValueError where they fix another."""
    if dealer is None:
        return NONE
    seat = _whole("dealer", dealer, rules.num_players - 1)
    if rules.first_dealer not in (None, seat):
        raise ValueError(
            f"dealer: {seat} (allowed: {rules.first_dealer}, the first_dealer of the rules)"
        )
    return seat


def _names(players: Any, num_players: int) -> tuple[str, ...]:
    if players is None:
        return tuple(f"player_{seat}" for seat in range(num_players))
    is_list = isinstance(players, list | tuple) and all(isinstance(p, str) for p in players)
    if not is_list or len(players) != num_players:
        raise ValueError(f"players: {shown(players)} (allowed: {num_players} names, by seat)")
    return tuple(players)
