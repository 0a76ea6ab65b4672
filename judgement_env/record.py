"""The record of a match as plain data: its text, its files, and the check of its shape.

`judgement-record/1` is JSON: the rules, what names the deals, and every round as it was dealt, bid
and played. Knows no engine: whether a record keeps the rules is seen when `Table.from_record`
replays it. Every error names the round and the trick, or the field, its value and what is allowed.

>>> parse("nothing")
Traceback (most recent call last):
ValueError: record: broken JSON: Expecting value: line 1 column 1 (char 0)
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from judgement_env.cards import (
    CARD_TEXTS,
    MAX_BID,
    SUITS,
    bid_action,
    card_id,
    card_text,
    trump_text,
    whole_number,
)
from judgement_env.files import whole_file
from judgement_env.rules import MAX_PLAYERS, MAX_ROUNDS, MIN_PLAYERS, Rules
from judgement_env.scoring import shown

FORMAT: Final = "judgement-record/1"
SEEDS: Final = 1 << 64
COUNTS: Final = 1 << 31

Record = dict[str, Any]

FIELDS: Final = (
    "format",
    "env_version",
    "rules",
    "seed",
    "table",
    "match",
    "players",
    "rounds",
    "totals",
    "winners",
)
ROUND_FIELDS: Final = (
    "cards",
    "trump",
    "dealer",
    "blind",
    "turn_up",
    "hands",
    "bids",
    "tricks",
    "won",
    "points",
)
TRICK_FIELDS: Final = ("leader", "plays", "winner")
_IDS: Final = {text: card for card, text in enumerate(CARD_TEXTS)}


# --- text and files ---------------------------------------------------------------------------


def to_text(record: Mapping[str, Any]) -> str:
    """The record as JSON with one line for each round, so that two can be compared by eye."""
    parts = []
    for field, value in record.items():
        text = json.dumps(value, ensure_ascii=False)
        if field == "rounds":
            lines = [json.dumps(entry, ensure_ascii=False) for entry in value]
            text = "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else "[]"
        parts.append(f"{json.dumps(field)}: {text}")
    return "{" + ",\n ".join(parts) + "}\n"


def parse(text: str) -> Record:
    """The record that JSON text holds, its shape checked; ValueError says what is wrong."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"record: broken JSON: {error}") from None
    except RecursionError:
        raise ValueError("record: broken JSON: nested too deeply") from None
    return check(data)


def write(record: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the record to a file, which is there whole or not at all."""
    with whole_file(path) as file:
        file.write(to_text(record).encode())


def read(path: str | os.PathLike[str]) -> Record:
    """The record in a file, its shape checked.

    Raises FileNotFoundError where there is no such file, and ValueError naming the file where it
    holds no record.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(f"record file: {os.fspath(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"record file: {os.fspath(path)!r} cannot be read: {error}") from None
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


# --- shape ------------------------------------------------------------------------------------


def check(data: Any) -> Record:
    """A copy of the record in its normal form (hands sorted); ValueError where its shape is wrong.

    A record without `seed` reads as one whose seed is null.
    """
    if not isinstance(data, Mapping):
        _refuse("", data, "an object of the fields " + ", ".join(FIELDS))
    data = _fields("", {"seed": None, **data}, FIELDS)
    if data["format"] != FORMAT:
        _refuse("format", data["format"], FORMAT)
    players = _list("players", data["players"], f"{MIN_PLAYERS} to {MAX_PLAYERS} names")
    seats = len(players)
    if not MIN_PLAYERS <= seats <= MAX_PLAYERS or not all(isinstance(p, str) for p in players):
        _refuse("players", data["players"], f"{MIN_PLAYERS} to {MAX_PLAYERS} names")
    if not isinstance(data["rules"], Mapping):
        _refuse("rules", data["rules"], "an object of the fields of Rules")
    rounds = _list("rounds", data["rounds"], f"1 to {MAX_ROUNDS} rounds")
    if not 1 <= len(rounds) <= MAX_ROUNDS:
        _refuse("rounds", data["rounds"], f"1 to {MAX_ROUNDS} rounds")
    seed = data["seed"]
    return {
        "format": FORMAT,
        "env_version": _whole("env_version", data["env_version"], 0, COUNTS - 1),
        "rules": dict(data["rules"]),
        "seed": None if seed is None else _whole("seed", seed, 0, SEEDS - 1),
        "table": _whole("table", data["table"], 0, COUNTS - 1),
        "match": _whole("match", data["match"], 0, COUNTS - 1),
        "players": players,
        "rounds": [_round(number, entry, seats) for number, entry in enumerate(rounds, 1)],
        "totals": _numbers("totals", data["totals"], seats, -COUNTS, COUNTS),
        "winners": _seats("winners", data["winners"], seats),
    }


def _round(number: int, data: Any, seats: int) -> Record:
    where = f"round {number}: "
    data = _fields(where, data, ROUND_FIELDS)
    cards = _whole(where + "cards", data["cards"], 1, MAX_BID)
    if data["trump"] is not None and data["trump"] not in tuple(SUITS):
        _refuse(where + "trump", data["trump"], f"{', '.join(SUITS)}, or null for no-trump")
    if not isinstance(data["blind"], bool):
        _refuse(where + "blind", data["blind"], "true or false")
    hands = _list(where + "hands", data["hands"], f"the hands of {seats} seats", seats)
    tricks = _list(where + "tricks", data["tricks"], f"at most {cards} tricks")
    if len(tricks) > cards:
        _refuse(where + "tricks", data["tricks"], f"at most {cards} tricks")
    turn_up = data["turn_up"]
    points = data["points"]
    return {
        "cards": cards,
        "trump": data["trump"],
        "dealer": _whole(where + "dealer", data["dealer"], 0, seats - 1),
        "blind": data["blind"],
        "turn_up": None if turn_up is None else _card(where + "turn_up", turn_up),
        "hands": [
            _hand(f"{where}hand of seat {seat}", hand, cards) for seat, hand in enumerate(hands)
        ],
        "bids": _bids(where + "bids", data["bids"], seats, cards),
        "tricks": [
            _trick(f"round {number}, trick {k}: ", trick, seats)
            for k, trick in enumerate(tricks, 1)
        ],
        "won": _numbers(where + "won", data["won"], seats, 0, cards),
        "points": None
        if points is None
        else _numbers(where + "points", points, seats, -COUNTS, COUNTS),
    }


def _trick(where: str, data: Any, seats: int) -> Record:
    data = _fields(where, data, TRICK_FIELDS)
    plays = _list(where + "plays", data["plays"], f"1 to {seats} cards")
    if not 1 <= len(plays) <= seats:
        _refuse(where + "plays", data["plays"], f"1 to {seats} cards")
    winner = data["winner"]
    return {
        "leader": _whole(where + "leader", data["leader"], 0, seats - 1),
        "plays": [_card(where + "plays", card) for card in plays],
        "winner": None if winner is None else _whole(where + "winner", winner, 0, seats - 1),
    }


def _refuse(field: str, value: Any, allowed: str) -> NoReturn:
    name = f"{field}: " if field else ""
    text = value if field == "rounds" and isinstance(value, str) else shown(value)
    raise ValueError(f"record: {name}{text} (allowed: {allowed})")


def _fields(where: str, data: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        _refuse(where.removesuffix(": "), data, "an object of the fields " + ", ".join(names))
    for name in names:
        if name not in data:
            raise ValueError(f"record: {where}no field '{name}' (allowed: {', '.join(names)})")
    for name in data:
        if name not in names:
            raise ValueError(
                f"record: {where}unknown field {shown(name)} (allowed: {', '.join(names)})"
            )
    return dict(data)


def _list(field: str, value: Any, allowed: str, size: int | None = None) -> list[Any]:
    if not isinstance(value, list | tuple) or (size is not None and len(value) != size):
        _refuse(field, value, allowed)
    return list(value)


def _whole(field: str, value: Any, low: int, high: int) -> int:
    number = whole_number(value)
    if number is None or not low <= number <= high:
        _refuse(field, value, f"a whole number from {low} to {high}")
    return number


def _numbers(field: str, value: Any, size: int, low: int, high: int) -> list[int]:
    items = _list(field, value, f"{size} whole numbers, by seat", size)
    return [_whole(f"{field} of seat {seat}", item, low, high) for seat, item in enumerate(items)]


def _bids(field: str, value: Any, size: int, cards: int) -> list[int | None]:
    items = _list(field, value, f"{size} bids, by seat, null where not made", size)
    return [
        None if item is None else _whole(f"{field} of seat {seat}", item, 0, cards)
        for seat, item in enumerate(items)
    ]


def _seats(field: str, value: Any, seats: int) -> list[int]:
    return [
        _whole(field, item, 0, seats - 1) for item in _list(field, value, "a list of rising seats")
    ]


def _card(field: str, value: Any) -> str:
    if isinstance(value, str):
        if value in _IDS:
            return value
        with contextlib.suppress(ValueError):
            return card_text(card_id(value))
    _refuse(field, value, "a card as text, such as 'AS'")


def _hand(field: str, value: Any, cards: int) -> list[str]:
    items = _list(field, value, f"{cards} cards", cards)
    return sorted((_card(field, item) for item in items), key=_IDS.__getitem__)


# --- against the rules ------------------------------------------------------------------------


class Move(NamedTuple):
    """One decision that a record tells of: round and trick from 1, trick 0 = a bid."""

    round: int
    trick: int
    seat: int
    action: int

    @property
    def place(self) -> str:
        """Where in the record it stands."""
        return f"round {self.round}" + (f", trick {self.trick}" if self.trick else "")


def check_schedule(rules: Rules, record: Record) -> None:
    """Raise ValueError where a checked record's rounds are not those of these rules."""
    names, rounds = record["players"], record["rounds"]
    if len(names) != rules.num_players:
        _refuse("players", names, f"{rules.num_players} names, by its rules")
    if len(rounds) > rules.num_rounds:
        _refuse("rounds", f"{len(rounds)} rounds", f"at most {rules.num_rounds}, by its rules")
    dealer = rounds[0]["dealer"] if rules.first_dealer is None else rules.first_dealer
    for number, (plan, entry) in enumerate(zip(rules.schedule, rounds, strict=False), 1):
        turn_up = entry["turn_up"]
        expected = {"cards": plan.cards, "blind": plan.is_blind, "dealer": dealer}
        if not rules.is_turn_up:
            expected |= {"turn_up": None, "trump": trump_text(plan.trump)}
        elif turn_up is None:
            _refuse(f"round {number}: turn_up", None, "a card, by its rules")
        else:
            expected["trump"] = turn_up[1]
        _expect(f"round {number}: ", entry, expected)
        dealer = (dealer + rules.step) % rules.num_players


def moves(rules: Rules, record: Record) -> Iterator[Move]:
    """Every bid and play of a checked record in order; a blind round's cards play themselves."""
    seats = range(rules.num_players)
    for number, entry in enumerate(record["rounds"], 1):
        order = [(entry["dealer"] + (k + 1) * rules.step) % rules.num_players for k in seats]
        bids = [(seat, entry["bids"][seat]) for seat in order]
        made = [(seat, bid) for seat, bid in bids if bid is not None]
        if made != bids[: len(made)]:
            _refuse(f"round {number}: bids", entry["bids"], "bids made in turn from the dealer")
        for seat, bid in made:
            yield Move(number, 0, seat, bid_action(bid))
        for k, trick in enumerate([] if entry["blind"] else entry["tricks"], 1):
            for turn, card in enumerate(trick["plays"]):
                seat = (trick["leader"] + turn * rules.step) % rules.num_players
                yield Move(number, k, seat, _IDS[card])


def compare(record: Record, replayed: Record) -> None:
    """Raise ValueError where a checked record says otherwise than the same match replayed."""
    for number, (entry, real) in enumerate(
        zip(record["rounds"], replayed["rounds"], strict=False), 1
    ):
        for k, (trick, played) in enumerate(zip(entry["tricks"], real["tricks"], strict=False), 1):
            _expect(f"round {number}, trick {k}: ", trick, played)
        _expect(f"round {number}: ", entry, real)
    if len(record["rounds"]) != len(replayed["rounds"]):
        played_out = len(replayed["rounds"])
        _refuse(
            "rounds",
            f"{len(record['rounds'])} rounds",
            f"{played_out}, as a round stands in the record once the one before is settled",
        )
    _expect("", record, {name: replayed[name] for name in ("totals", "winners")})


def _expect(where: str, data: Record, expected: Record) -> None:
    for field, value in expected.items():
        if data[field] != value:
            _refuse(where + field, data[field], f"{json.dumps(value)}, by its rules")
