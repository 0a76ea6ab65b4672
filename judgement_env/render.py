"""A view, or a record, as text for a terminal.

Suit symbols and colour are used where the terminal has them (`NO_COLOR` is heeded, a pipe gets
plain text), letters where its encoding lacks the symbols. A view's text is made from the `View`
alone, so it never shows a hidden card.

>>> from judgement_env import Table
>>> render(Table("kachuful", seed=7, dealer=0).view(1), color=False, symbols=False).split(", ")[0]
'Round 1 of 7: 7 cards'
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

from judgement_env.cards import (
    NO_TRUMP,
    NONE,
    NUM_CARDS,
    SUIT_NAMES,
    SUITS,
    SYMBOLS,
    bid_of,
    card_id,
    card_symbol,
    card_text,
    is_bid,
    rank_of,
    suit_of,
)
from judgement_env.scoring import counted
from judgement_env.view import Trick, View

RED: Final = "31"
BOLD: Final = "1"
DIM: Final = "2"
# Suits of a hand from left to right, black and red by turns.
HAND_ORDER: Final = "SHCD"


def has_color(stream: TextIO | None = None) -> bool:
    """Whether a stream (standard output) is a terminal that takes colour and nobody forbids it."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def has_symbols(stream: TextIO | None = None) -> bool:
    """Whether the encoding of a stream (standard output) holds the suit symbols."""
    stream = sys.stdout if stream is None else stream
    try:
        SYMBOLS.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@dataclass(frozen=True)
class Ink:
    """How cards and words are written: with colour or without, symbols or letters."""

    color: bool
    symbols: bool

    def paint(self, text: str, *codes: str) -> str:
        """The text in these colours, plain without colour."""
        if not self.color or not codes:
            return text
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"

    def card(self, card: int, *codes: str) -> str:
        """A card: "10♦", or "TD" without symbols; red suits red."""
        text = card_symbol(card) if self.symbols else card_text(card)
        red = (RED,) if SUITS[suit_of(card)] in "DH" else ()
        return self.paint(text, *red, *codes)

    def trump(self, trump: int) -> str:
        """The trump in words."""
        if trump == NO_TRUMP:
            return "no trump"
        sign = SYMBOLS[trump] if self.symbols else SUITS[trump]
        red = (RED,) if SUITS[trump] in "DH" else ()
        return f"trump {self.paint(sign, *red)} {SUIT_NAMES[trump]}"


def ink_for(color: bool | None = None, symbols: bool | None = None) -> Ink:
    """The ink asked for; None = what standard output can show."""
    return Ink(
        has_color() if color is None else color, has_symbols() if symbols is None else symbols
    )


def sorted_hand(cards: Iterable[int]) -> list[int]:
    """Cards as a player holds them: by suit, spades first, each from high to low."""
    return sorted(cards, key=lambda card: (HAND_ORDER.index(SUITS[suit_of(card)]), -rank_of(card)))


# --- a view -----------------------------------------------------------------------------------


def render(
    view: View, color: bool | None = None, symbols: bool | None = None, scores: bool = True
) -> str:
    """What a seat sees, in lines: round, seats, tricks, hand with the legal cards in brackets.

    `scores` adds the table of the rounds settled so far. None = what standard output can show.
    """
    ink = ink_for(color, symbols)
    lines = [heading(view, ink), "", *seat_lines(view, ink)]
    if view.history or view.trick:
        lines += ["", *_trick_lines(view, ink)]
    if not view.is_over:
        lines += ["", *_hand_lines(view, ink)]
    if scores and (view.round_index > 0 or view.is_over):
        lines += ["", render_scores(view.to_dict(), color, symbols)]
    return "\n".join(lines)


def heading(view: View, ink: Ink) -> str:
    """The round in a line: its place, cards, trump, dealer."""
    size = counted(view.num_cards, "card")
    parts = [
        f"Round {view.round_index + 1} of {view.rules.num_rounds}: {size}",
        ink.trump(view.trump),
    ]
    if view.turn_up != NONE:
        parts[1] += f" (turned up: {ink.card(view.turn_up)})"
    if view.is_blind:
        parts.append("blind")
    return ", ".join([*parts, _deals(view.players[view.dealer])])


def _deals(name: str) -> str:
    return "you deal" if name == "you" else f"{name} deals"


def seat_lines(view: View, ink: Ink) -> list[str]:
    """The seats as a table: bid, tricks won and still needed, total."""
    rows = [["", "", "bid", "won", "needs", "total"]]
    for seat, name in enumerate(view.players):
        bid, won = view.bids[seat], view.won[seat]
        rows.append(
            [
                ">" if seat == view.seat_to_act else "",
                name + (" (you)" if seat == view.seat and name != "you" else ""),
                "-" if bid == NONE else str(bid),
                str(won),
                "-" if bid == NONE else _need(view, bid, won),
                str(view.totals[seat]),
            ]
        )
    lines = columns(rows, left=2)
    lines[0] = ink.paint(lines[0], DIM)
    own = 1 + view.seat
    lines[own] = ink.paint(lines[own], BOLD)
    return lines


def _need(view: View, bid: int, won: int) -> str:
    tricks_left = view.num_cards - len(view.history)
    return str(bid - won) if 0 <= bid - won <= tricks_left else "lost"


def _trick_lines(view: View, ink: Ink) -> list[str]:
    lines = [_trick_line(k, t, view, ink) for k, t in enumerate(view.history, 1)]
    if view.trick:
        played = "  ".join(f"{view.players[seat]} {ink.card(card)}" for seat, card in view.trick)
        lines.append(f"Trick {len(view.history) + 1}:  {played}")
    return lines


def _trick_line(number: int, trick: Trick, view: View, ink: Ink) -> str:
    return _finished_trick(number, trick, view.players, view.rules.step, ink)


def _finished_trick(number: int, trick: Trick, players: Sequence[str], step: int, ink: Ink) -> str:
    seats = [(trick.leader + k * step) % len(players) for k in range(len(trick.plays))]
    played = "  ".join(
        f"{players[seat]} {ink.card(card, *((BOLD,) if seat == trick.winner else ()))}"
        for seat, card in zip(seats, trick.plays, strict=True)
    )
    end = f"  -> {players[trick.winner]}" if trick.winner != NONE else ""
    return f"Trick {number}:  {played}{end}"


def _hand_lines(view: View, ink: Ink) -> list[str]:
    if view.is_blind and view.is_bidding:
        lines = ["Your hand: face down until every bid is in"]
    else:
        lines = [f"Your hand: {_hand(view.hand, view.legal, ink)}"]
    if view.legal and is_bid(view.legal[0]):
        lines.append("Your bid:  " + " ".join(str(bid_of(action)) for action in view.legal))
    return lines


def _hand(cards: Iterable[int], legal: Iterable[int], ink: Ink) -> str:
    """A hand with the legal cards in brackets, a wider gap between suits."""
    allowed = {action for action in legal if action < NUM_CARDS}
    words: list[str] = []
    suit = NONE
    for card in sorted_hand(cards):
        if words and suit_of(card) != suit:
            words.append("")
        suit = suit_of(card)
        words.append(f"[{ink.card(card, BOLD)}]" if card in allowed else ink.card(card))
    return " ".join(words) or "no cards"


def columns(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Rows of words in columns, the first `left` of them to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            word.ljust(widths[k]) if k < left else word.rjust(widths[k])
            for k, word in enumerate(row)
        ).rstrip()
        for row in rows
    ]


# --- a record ---------------------------------------------------------------------------------


def render_scores(
    record: Mapping[str, Any], color: bool | None = None, symbols: bool | None = None
) -> str:
    """The score sheet of a record, or of a view's dict: bid, tricks won, points of each seat."""
    ink = ink_for(color, symbols)
    rows = [["Round", "", *record["players"]]]
    for number, entry in enumerate(record["rounds"], 1):
        if entry["points"] is not None:
            cells = zip(entry["bids"], entry["won"], entry["points"], strict=True)
            trump = _trump_sign(entry["trump"], ink)
            words = [f"{won}/{bid}  {points:+d}" for bid, won, points in cells]
            rows.append([str(number), f"{entry['cards']}{trump}", *words])
    rows.append(["Total", "", *map(str, record["totals"])])
    lines = columns(rows, left=2)
    lines[0] = ink.paint(lines[0], DIM)
    lines[-1] = ink.paint(lines[-1], BOLD)
    lines.insert(0, "Scores: tricks won/bid, points")
    if record["winners"]:
        names = " and ".join(record["players"][seat] for seat in record["winners"])
        lines.append(f"Won by {names}.")
    return "\n".join(lines)


def _trump_sign(trump: str | None, ink: Ink) -> str:
    if trump is None:
        return "NT"
    return SYMBOLS[SUITS.index(trump)] if ink.symbols else trump


def render_round(
    record: Mapping[str, Any],
    number: int,
    color: bool | None = None,
    symbols: bool | None = None,
) -> str:
    """Round `number` (from 1) of a record: hands as dealt, bids, tricks; everything is shown.

    Raises ValueError where the record has no such round.
    """
    ink = ink_for(color, symbols)
    rounds, players = record["rounds"], record["players"]
    if not 1 <= number <= len(rounds):
        raise ValueError(f"round: {number} (allowed: 1 to {len(rounds)}, the rounds of the record)")
    entry = rounds[number - 1]
    trump = NO_TRUMP if entry["trump"] is None else SUITS.index(entry["trump"])
    size = counted(entry["cards"], "card")
    parts = [f"Round {number}: {size}", ink.trump(trump)]
    if entry["turn_up"] is not None:
        parts[1] += f" (turned up: {ink.card(card_id(entry['turn_up']))})"
    parts += ["blind"] if entry["blind"] else []
    lines = [", ".join([*parts, _deals(players[entry["dealer"]])])]
    width = max(map(len, players))
    for seat, name in enumerate(players):
        bid = "-" if entry["bids"][seat] is None else entry["bids"][seat]
        hand = entry["hands"][seat]
        cards = "hidden" if hand is None else _hand(map(card_id, hand), (), ink)
        lines.append(f"  {name.ljust(width)}  bid {bid}, won {entry['won'][seat]}:  {cards}")
    step = -1 if record["rules"].get("direction") == "anticlockwise" else 1
    for k, trick in enumerate(entry["tricks"], 1):
        winner = NONE if trick["winner"] is None else trick["winner"]
        played = Trick(trick["leader"], tuple(map(card_id, trick["plays"])), winner)
        lines.append("  " + _finished_trick(k, played, players, step, ink))
    return "\n".join(lines)
