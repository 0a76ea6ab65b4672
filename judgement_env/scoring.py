"""Points of (bid, won, cards) under each scoring scheme, and as the lookup table the engine reads.

A scheme is a name of SCHEMES, a Python function of (bid, won, cards), or a nested table
`[cards][bid][won]`: entry c is read for hands of c cards and holds at least c + 1 rows (bid
0..c) of at least c + 1 whole numbers (won 0..c). What lies beyond is dropped. The entry of a
size that is not played, 0 included, may be null or empty.

>>> int(points_table("ten-plus", 0, 7)[7, 2, 2])
12
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from judgement_env.cards import MAX_BID, whole_number

MAX_POINTS: Final = 1_000_000

PointsFunction = Callable[[int, int, int], int]
PointsTuple = tuple[tuple[tuple[int, ...], ...], ...]
PointsTable = Sequence[Sequence[Sequence[int]] | None]
Scoring = str | PointsTable | PointsFunction


def ten_plus(bid: int, won: int, cards: int) -> int:
    """Made: 10 and the bid. Missed: 0."""
    return 10 + bid if won == bid else 0


def multiplied(bid: int, won: int, cards: int) -> int:
    """Made: ten times the bid, a bid of 0 counting as 1. Missed: 0."""
    return 10 * max(bid, 1) if won == bid else 0


def multiplied_penalty(bid: int, won: int, cards: int) -> int:
    """Made: as `multiplied`. Missed: 10 off for every trick over or under."""
    return 10 * max(bid, 1) if won == bid else -10 * abs(won - bid)


def high(bid: int, won: int, cards: int) -> int:
    """10 * (bid + 1) + bid, gained when made and lost when missed."""
    stake = 10 * (bid + 1) + bid
    return stake if won == bid else -stake


def medium(bid: int, won: int, cards: int) -> int:
    """Made: ten times the bid, so nothing for a bid of 0. Missed: 0."""
    return 10 * bid if won == bid else 0


def low(bid: int, won: int, cards: int) -> int:
    """Made: twice the bid and 5. Missed: 0."""
    return 2 * bid + 5 if won == bid else 0


def trick_points(bid: int, won: int, cards: int) -> int:
    """One for every trick won, and 10 more when made."""
    return won + (10 if won == bid else 0)


SCHEMES: Final[Mapping[str, PointsFunction]] = MappingProxyType(
    {
        "ten-plus": ten_plus,
        "multiplied": multiplied,
        "multiplied-penalty": multiplied_penalty,
        "high": high,
        "medium": medium,
        "low": low,
        "trick-points": trick_points,
    }
)


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint at the end of an error, "; did you mean ...?", or nothing where no word is near."""
    found = difflib.get_close_matches(str(word), list(words), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


def shown(value: Any) -> str:
    """A value for an error message: its repr on one line, cut where long."""
    return " ".join(reprlib.repr(list(value) if isinstance(value, tuple) else value).split())


def counted(number: int, thing: str) -> str:
    """How many of a thing: "1 record", "1,200 records", "2 matches"."""
    ending = "" if number == 1 else "es" if thing.endswith("ch") else "s"
    return f"{number:,} {thing}{ending}"


def _whole_points(value: Any, where: str) -> int:
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    points = whole_number(value)
    if points is None and isinstance(value, float) and value.is_integer():
        points = int(value)
    if points is None or abs(points) > MAX_POINTS:
        raise ValueError(
            f"scoring: {shown(value)} for {where}"
            f" (allowed: whole numbers from -{MAX_POINTS} to {MAX_POINTS})"
        )
    return points


def _where(bid: int, won: int, cards: int) -> str:
    return f"bid {bid}, won {won}, cards {cards}"


def _call(function: PointsFunction, bid: int, won: int, cards: int) -> int:
    try:
        value = function(bid, won, cards)
    except Exception as error:
        raise ValueError(
            f"scoring: the function failed for {_where(bid, won, cards)}: {error!r}"
            " (allowed: a function of (bid, won, cards) that gives a whole number)"
        ) from error
    return _whole_points(value, _where(bid, won, cards))


def _table_of_function(function: PointsFunction, max_cards: int) -> PointsTuple:
    sizes = [()] + [
        tuple(tuple(_call(function, b, w, c) for w in range(c + 1)) for b in range(c + 1))
        for c in range(1, max_cards + 1)
    ]
    return tuple(sizes)


def _rows(value: Any) -> Sequence[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise ValueError(
            f"scoring: {shown(value)} inside the table"
            " (allowed: lists, nested as [cards][bid][won])"
        )
    return value


def _need(found: int, cards: int, what: str) -> None:
    if found < cards + 1:
        raise ValueError(
            f"scoring: {found} {what} for hands of {cards} cards"
            f" (allowed: at least {cards + 1}, 0 to {cards})"
        )


def _table_entry(entry: Any, cards: int) -> tuple[tuple[int, ...], ...]:
    """The points of one hand size, cut to its bids and tricks; empty where it is not scored."""
    if cards == 0 or entry is None:
        return ()
    rows = _rows(entry)
    if not rows:
        return ()
    _need(len(rows), cards, "bids (rows of the table)")
    kept = []
    for bid, row in enumerate(rows[: cards + 1]):
        values = _rows(row)
        _need(len(values), cards, f"entries in the row of bid {bid}")
        kept.append(
            tuple(_whole_points(values[won], _where(bid, won, cards)) for won in range(cards + 1))
        )
    return tuple(kept)


def normal_scoring(scoring: Any, sizes: Iterable[int]) -> str | PointsTuple:
    """The scheme's name or its table as tuples; a function is evaluated up to the largest size.

    Raises ValueError on an unknown name, a value that is no whole number within +-1,000,000,
    and a table that leaves out one of the hand sizes played.
    """
    if isinstance(scoring, str) and scoring in SCHEMES:
        return scoring
    played = sorted(set(sizes))
    if callable(scoring):
        return _table_of_function(scoring, played[-1])
    if not (isinstance(scoring, list | tuple) or hasattr(scoring, "tolist")):
        hint = nearest(scoring, SCHEMES) if isinstance(scoring, str) else ""
        raise ValueError(
            f"scoring: {shown(scoring)} (allowed: {', '.join(SCHEMES)},"
            f" a table [cards][bid][won], or a function of (bid, won, cards)){hint}"
        )
    table = tuple(
        _table_entry(entry, cards) for cards, entry in enumerate(_rows(scoring)[: MAX_BID + 1])
    )
    for cards in played:
        if cards >= len(table) or not table[cards]:
            raise ValueError(
                f"scoring: the table has no entry for hands of {cards} cards"
                f" (allowed: a table [cards][bid][won] that covers the sizes {played})"
            )
    return table


def _points_of(scheme: str | PointsTuple, bid: int, won: int, cards: int) -> int:
    if isinstance(scheme, str):
        return SCHEMES[scheme](bid, won, cards)
    if cards >= len(scheme) or not scheme[cards]:
        return 0
    return scheme[cards][bid][won]


def points_table(scoring: Scoring, sweep_bonus: int, max_cards: int) -> NDArray[np.int32]:
    """Points as an int32 array (C+1, C+1, C+1), C = max_cards, indexed [cards][bid][won].

    Entries that cannot happen (bid or won above cards) are 0, and so are the sizes a given table
    leaves out. `sweep_bonus` is added per bid trick where bid = won = cards, from one card up.
    Raises ValueError where points are no whole number within +-1,000,000.
    """
    scheme = normal_scoring(scoring, (max_cards,) if callable(scoring) else ())
    size = max_cards + 1
    table = np.zeros((size, size, size), np.int32)
    for cards in range(size):
        for bid in range(cards + 1):
            for won in range(cards + 1):
                points = _points_of(scheme, bid, won, cards)
                if bid == won == cards:
                    points += sweep_bonus * bid
                table[cards, bid, won] = _whole_points(points, _where(bid, won, cards))
    return table
