"""Shows the record of a match round by round, checked by the engine before anything is shown.

Told as all can see it, hands first; with a seat, only what that seat could see at each moment: the
others' hands never, its own card of a blind round once it is turned up.

    replay("record.json", number=3, seat=0)
"""

from __future__ import annotations

import sys
from typing import TextIO

from judgement_env import record as records
from judgement_env.cards import card_id
from judgement_env.narrate import Narrator, and_, ink_of, printable
from judgement_env.record import Record
from judgement_env.render import render_round
from judgement_env.rules import Rules
from judgement_env.scoring import counted
from judgement_env.table import Table


def replay(
    path: str,
    *,
    number: int | None = None,
    is_stepping: bool = False,
    seat: int | None = None,
    is_check_only: bool = False,
    color: str = "auto",
    answers: TextIO | None = None,
    out: TextIO | None = None,
) -> int:
    """Show the record in a file and return the exit status 0.

    `number` is the one round to show, from 1. Raises FileNotFoundError where there is no file, and
    ValueError naming round and trick where the record breaks a rule, or for a wrong round or seat.
    """
    answers, out = answers or sys.stdin, out or sys.stdout
    table = _read(path)
    table.players = tuple(printable(name) or "?" for name in table.players)
    record = table.record()
    _check("--round", number, 1, len(record["rounds"]))
    _check("--seat", seat, 0, len(record["players"]) - 1)
    narrator = Narrator(out, ink_of(color, out), record["players"], is_tty=out.isatty())
    if is_check_only:
        print(f"{path}: valid, {_summary(record)}", file=out)
        return 0
    shown = record if seat is None else _seen(table, seat)
    totals = [0] * len(record["players"])
    for place, entry in enumerate(shown["rounds"], 1):
        totals = [t + p for t, p in zip(totals, entry["points"] or [0] * len(totals), strict=True)]
        if number in (None, place):
            _tell(shown, place, totals, narrator, answers if is_stepping else None)
    if number in (None, len(record["rounds"])):
        _tell_end(record, narrator)
    return 0


def _read(path: str) -> Table:
    record = records.read(path)
    try:
        return Table.from_record(record)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _check(name: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise ValueError(f"{name}: {value} (allowed: {low} to {high})")


def _summary(record: Record) -> str:
    rounds, settled = len(record["rounds"]), sum(e["points"] is not None for e in record["rounds"])
    count = counted(rounds, "round")
    names = [record["players"][seat] for seat in record["winners"]]
    if names:
        return f"{count}, {len(record['players'])} players, won by {and_(names)}"
    return f"{count}, {settled} settled, {len(record['players'])} players, not finished"


def _seen(table: Table, seat: int) -> Record:
    """The record as the seat knows it; of settled rounds, without the hands of the others."""
    seen = table.view(seat).to_dict()
    for entry in seen["rounds"]:
        entry["hands"] = [h if s == seat else None for s, h in enumerate(entry["hands"])]
    return seen


def _tell(
    record: Record, number: int, totals: list[int], narrator: Narrator, answers: TextIO | None
) -> None:
    """Tell one round in order; after each trick wait for a line of `answers`, if there are any."""
    entry, step = record["rounds"][number - 1], Rules.from_dict(record["rules"]).step
    ink, seats = narrator.ink, len(record["players"])
    narrator.line()
    narrator.line(render_round(record, number, ink.color, ink.symbols).split("\n")[0])
    if not entry["blind"]:
        _tell_hands(entry, narrator)
    for turn in range(1, seats + 1):
        seat = (entry["dealer"] + turn * step) % seats
        if entry["bids"][seat] is not None:
            narrator.bid(seat, entry["bids"][seat])
    if entry["blind"] and None not in entry["bids"]:
        _tell_hands(entry, narrator)
    for k, trick in enumerate(entry["tricks"], 1):
        for turn, card in enumerate(trick["plays"]):
            narrator.card(k, (trick["leader"] + turn * step) % seats, card_id(card))
        if trick["winner"] is not None:
            narrator.trick_won(k, trick["winner"])
        if answers is not None:
            narrator.prompt("  Enter to go on:")
            answers.readline()
    if entry["points"] is not None:
        narrator.round_over(number, entry, totals)


def _tell_hands(entry: Record, narrator: Narrator) -> None:
    width = max(map(len, narrator.names))
    for name, hand in zip(narrator.names, entry["hands"], strict=True):
        if hand is not None:
            narrator.line(f"  {name:<{width}}  {narrator.cards(hand)}")


def _tell_end(record: Record, narrator: Narrator) -> None:
    if record["winners"]:
        narrator.match_over(record)
    else:
        narrator.line()
        narrator.line("The record ends here, before the match is over.")
