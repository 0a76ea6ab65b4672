"""A bot served to other programs: JSON lines in, one JSON line back for each, as docs/bots.md says.

It is the other end of `bots.process`, and tells another program's view back into a `View`: what
the seat does not see is dealt anew in a way that fits, replayed, checked, and hidden again.

>>> from judgement_env import Table
>>> view = Table("kachuful", seed=7, dealer=0).view(1)
>>> view_of(view.to_dict()).hand == view.hand
True
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, TextIO

from judgement_env import record as records
from judgement_env.bots import Bot
from judgement_env.bots.process import PROTOCOL, ProcessBot
from judgement_env.cards import NUM_RANKS, action_to_plain, card_id, card_text
from judgement_env.record import Record
from judgement_env.rules import Rules
from judgement_env.scoring import shown
from judgement_env.table import Table
from judgement_env.view import View
from judgement_env.worlds import deal_unseen

KINDS: Final = ("start", "act", "end")

# --- a view from its plain form -----------------------------------------------------------------


def view_of(sheet: Any) -> View:
    """The view that `View.to_dict` wrote, of the seat to act.

    Raises ValueError naming what is not as a view is written, or breaks a rule of the game.
    """
    if not isinstance(sheet, Mapping):
        raise ValueError(f"view: {shown(sheet)} (allowed: an object, as docs/bots.md describes it)")
    plain = dict(sheet)
    for name in ("seat", "legal"):
        if name not in plain:
            raise ValueError(f"view: no field '{name}'")
    seat, legal = plain.pop("seat"), plain.pop("legal")
    filled = _filled(plain, seat)
    try:
        table = Table.from_record(filled)
    except ValueError as error:
        raise ValueError(str(error).replace("record: ", "view: ", 1)) from None
    if table.seat != seat:
        acting = "none, the match is over" if table.seat is None else f"{table.seat}, who is to act"
        raise ValueError(f"view: seat {shown(seat)} (allowed: {acting})")
    view = table.view(seat)
    own = [action_to_plain(action) for action in view.legal]
    if own != legal:
        raise ValueError(f"view: legal {shown(legal)} (allowed: {shown(own)}, by its rules)")
    return view


def _filled(plain: dict[str, Any], seat: Any) -> Record:
    """A view's record with hands and bids in place of those that are hidden."""
    rounds, players = plain.get("rounds"), plain.get("players")
    if not isinstance(rounds, list) or not rounds or not isinstance(rounds[-1], Mapping):
        # `records.check` says what is wrong.
        return records.check(plain)
    entry = dict(rounds[-1])
    hidden = entry.get("hands")
    if not isinstance(hidden, list) or None not in hidden or not isinstance(players, list):
        return records.check(plain)
    size = entry.get("cards")
    masked = ["2C"] * size if isinstance(size, int) and 0 < size <= 52 else []
    hands = [masked if hand is None else hand for hand in hidden]
    # The shape first, with anything in the gaps; so the filling below need doubt nothing.
    checked = records.check({**plain, "rounds": [*rounds[:-1], {**entry, "hands": hands}]})
    rules = _rules_of(checked)
    if seat not in range(len(checked["players"])):
        raise ValueError(f"view: seat {shown(seat)} (allowed: 0 to {len(players) - 1})")
    last = checked["rounds"][-1]
    given = [None if hand is None else last["hands"][k] for k, hand in enumerate(hidden)]
    last["hands"] = _deal(rules, last, given)
    last["bids"] = _bids(rules, last, seat)
    return checked


def _rules_of(record: Record) -> Rules:
    try:
        rules = Rules.from_dict(record["rules"])
    except ValueError as error:
        raise ValueError(f"view: rules: {error}") from None
    if len(record["players"]) != rules.num_players:
        raise ValueError(
            f"view: players: {shown(record['players'])} (allowed: {rules.num_players} names)"
        )
    return rules


def _deal(rules: Rules, entry: Record, given: list[list[str] | None]) -> list[list[str]]:
    """Hands for all seats: those given, and for the others a deal that fits all that was played."""
    played: list[list[int]] = [[] for _ in given]
    voids = [0] * len(given)
    for trick in entry["tricks"]:
        led = card_id(trick["plays"][0]) // NUM_RANKS
        for turn, text in enumerate(trick["plays"]):
            seat, card = (trick["leader"] + turn * rules.step) % len(given), card_id(text)
            played[seat].append(card)
            if card // NUM_RANKS != led:
                voids[seat] |= 1 << led
    known = [
        cards if hand is None else [card_id(text) for text in hand]
        for hand, cards in zip(given, played, strict=True)
    ]
    unseen = list(rules.pack)
    turn_up = entry["turn_up"]
    for card in [c for cards in known for c in cards] + ([card_id(turn_up)] if turn_up else []):
        if card not in unseen:
            raise ValueError(f"view: {card_text(card)} is seen more often than the pack holds it")
        unseen.remove(card)
    places = [(entry["cards"] - len(cards), voids[seat]) for seat, cards in enumerate(known)]
    try:
        dealt = deal_unseen(unseen, places, random.Random(0).random)
    except ValueError:
        raise ValueError("view: no deal fits the cards played in its last round") from None
    return [
        [card_text(card) for card in sorted(cards + more)]
        for cards, more in zip(known, dealt, strict=True)
    ]


def _bids(rules: Rules, entry: Record, seat: int) -> list[int | None]:
    """The bids, with a 0 where one has been made that the seat to act does not see."""
    bids = list(entry["bids"])
    if rules.is_simultaneous and not entry["tricks"] and None in bids:
        turn = (entry["dealer"] + rules.step) % len(bids)
        while turn != seat:
            bids[turn] = 0 if bids[turn] is None else bids[turn]
            turn = (turn + rules.step) % len(bids)
    return bids


# --- serving ------------------------------------------------------------------------------------


def serve(bot: Bot, source: Iterable[str], sink: TextIO) -> None:
    """Answer each line of `source` with one in `sink`, until the lines end.

    Raises ValueError naming the line and what is wrong with it, where it is no message of the
    protocol. What else is printed meanwhile goes to the error output.
    """
    for stream in (source, sink):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    with contextlib.redirect_stdout(sys.stderr):
        for number, line in enumerate(source, 1):
            try:
                answer = _answer(bot, _message(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
            sink.write(json.dumps(answer, ensure_ascii=False) + "\n")
            sink.flush()


def _message(line: str) -> Mapping[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ValueError(f"{shown(line.strip())} (allowed: one JSON object a line)")
    return message


def _answer(bot: Bot, message: Mapping[str, Any]) -> dict[str, Any]:
    kind = message.get("type")
    if kind == "start":
        _start(bot, message)
        return {"ok": True, "name": bot.name}
    if kind == "act":
        view = view_of(message.get("view"))
        return {"action": action_to_plain(int(bot.act(view)))}
    if kind == "end":
        record = message.get("record")
        if record is not None:
            bot.match_over(records.check(record))
        return {"ok": True}
    raise ValueError(f"type: {shown(kind)} (allowed: {', '.join(KINDS)})")


def _start(bot: Bot, message: Mapping[str, Any]) -> None:
    """Check that a match can be played; what has to be compiled or loaded first is, now.

    The first answer of a program may take long, the answer to a view may not.
    """
    if message.get("protocol") != PROTOCOL:
        raise ValueError(f"protocol: {shown(message.get('protocol'))} (allowed: {PROTOCOL})")
    fields = message.get("rules")
    if not isinstance(fields, Mapping):
        raise ValueError(f"rules: {shown(fields)} (allowed: an object of the fields of Rules)")
    rules = Rules.from_dict(fields)
    if message.get("num_players") != rules.num_players:
        raise ValueError(
            f"num_players: {shown(message.get('num_players'))}"
            f" (allowed: {rules.num_players}, as the rules have it)"
        )
    if not isinstance(bot, ProcessBot):
        _rehearse(bot, rules)


def _rehearse(bot: Bot, rules: Rules) -> None:
    """Ask a bot for a bid and a card of a match of its own."""
    table = Table(rules, seed=0)
    asked: set[bool] = set()
    while table.seat is not None and len(asked) < 2:
        view = view_of(table.view(table.seat).to_dict())
        if view.is_bidding not in asked:
            bot.act(view)
            asked.add(view.is_bidding)
        table.push(view.legal[0])
