"""Tells a match move by move on a terminal: bids, tricks, points, within the width of the screen.

A `Narrator` is told what happens as records write it, so that a match being played and one
replayed are told in the same words. That what it is told is public is the caller's care.

>>> import sys
>>> narrator = Narrator(sys.stdout, Ink(False, True), ("you", "heuristic"))
>>> narrator.move("Bids", "you 2"); narrator.move("Bids", "heuristic 0"); narrator.line("Now play.")
Bids:  you 2  heuristic 0
Now play.
"""

from __future__ import annotations

import re
import shutil
import textwrap
import time
from collections.abc import Sequence
from typing import Any, Final, TextIO

from judgement_env.cards import card_id, suit_of
from judgement_env.record import Record
from judgement_env.render import (
    BOLD,
    DIM,
    Ink,
    columns,
    has_color,
    has_symbols,
    render_scores,
    sorted_hand,
)
from judgement_env.view import View

MIN_WIDTH, MAX_WIDTH = 40, 100
INDENT: Final = "    "
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
_LETTERS: Final = str.maketrans("♣♦♥♠…", "CDHS.")


def ink_of(choice: str, stream: TextIO) -> Ink:
    """The ink for a stream: colour "auto", "always" or "never"."""
    is_colored = has_color(stream) if choice == "auto" else choice == "always"
    return Ink(is_colored, has_symbols(stream))


class Narrator:
    """Writes to `out` in `ink`; `names` by seat, `delay` in seconds after each move it tells."""

    def __init__(
        self, out: TextIO, ink: Ink, names: Sequence[str], delay: float = 0.0, is_tty: bool = False
    ) -> None:
        self.out = out
        self.ink = ink
        self.names = names
        self.delay = delay
        # The width of a pipe is nobody's; 80 columns keep transcripts alike.
        self.width = 80
        if is_tty:
            self.width = min(max(shutil.get_terminal_size().columns, MIN_WIDTH), MAX_WIDTH)
        self._label = ""
        self._column = 0

    # Lines.

    def line(self, text: str = "", is_whole: bool = False) -> None:
        """Write a line of its own, broken between words where it is too long, unless `is_whole`."""
        self._end_moves()
        self._write((text if is_whole else self._folded(text)) + "\n")

    def lines(self, texts: Sequence[str]) -> None:
        """Write several lines."""
        for text in texts:
            self.line(text)

    def prompt(self, text: str) -> None:
        """Write what stands before an answer, and stay on its line."""
        self._end_moves()
        self._write(text + " ")

    def move(self, label: str, text: str) -> None:
        """Add to the line of that label, "Bids" or "Trick 2"; a new one where it is full."""
        if self._label != label:
            self._end_moves()
            self._write(f"{label}:")
            self._label, self._column = label, len(label) + 1
        size = 2 + len(_plain(text))
        if self._column + size > self.width:
            self._write("\n" + INDENT)
            self._column = len(INDENT)
        self._write("  " + text)
        self._column += size
        if self.delay:
            time.sleep(self.delay)

    def _end_moves(self) -> None:
        if self._label:
            self._write("\n")
            self._label = ""

    def _write(self, text: str) -> None:
        self.out.write(text if self.ink.symbols else text.translate(_LETTERS))
        self.out.flush()

    def _folded(self, text: str) -> str:
        if len(_plain(text)) <= self.width:
            return text
        # Colour would be counted as width, so a line that must be broken goes without.
        return "\n".join(
            textwrap.wrap(
                _plain(text),
                self.width,
                subsequent_indent=INDENT,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )

    # What happens.

    def bid(self, seat: int, bid: int | None) -> None:
        """Tell a bid, None where nobody may see it yet."""
        self.move("Bids", f"{self.names[seat]} {'has bid' if bid is None else bid}")

    def all_bids(self, bids: Sequence[int]) -> None:
        """Tell bids that were hidden, by seat."""
        for seat, bid in enumerate(bids):
            self.move("All bids", f"{self.names[seat]} {bid}")

    def card(self, number: int, seat: int, card: int) -> None:
        """Tell a card played to trick `number`."""
        self.move(f"Trick {number}", f"{self.names[seat]} {self.ink.card(card)}")

    def trick_won(self, number: int, seat: int) -> None:
        """Tell who won trick `number`."""
        self.move(f"Trick {number}", f"-> {self.ink.paint(self.names[seat], BOLD)}")

    def past_tricks(self, view: View) -> None:
        """Tell the tricks of the round in play, the one in progress too, a line each."""
        step, seats = view.rules.step, len(self.names)
        for number, trick in enumerate(view.history, 1):
            played = [((trick.leader + k * step) % seats, c) for k, c in enumerate(trick.plays)]
            self.line(f"{self._told(number, played)}  -> {self.names[trick.winner]}")
        if view.trick:
            self.line(self._told(len(view.history) + 1, view.trick))

    def _told(self, number: int, played: Sequence[tuple[int, int]]) -> str:
        words = [f"{self.names[seat]} {self.ink.card(card)}" for seat, card in played]
        return "  ".join([f"Trick {number}:", *words])

    def round_over(self, number: int, entry: Record, totals: Sequence[int]) -> None:
        """Tell the points of a settled round; `totals` hold them already."""
        rows = [[f"Round {number}", "bid", "won", "points", "total"]]
        for seat, name in enumerate(self.names):
            points = _signed(entry["points"][seat])
            won, bid = str(entry["won"][seat]), str(entry["bids"][seat])
            rows.append([name, bid, won, points, str(totals[seat])])
        table = columns(rows, left=1)
        self.line()
        self.line(self.ink.paint(table[0], DIM))
        for seat, text in enumerate(table[1:]):
            is_made = entry["won"][seat] == entry["bids"][seat]
            self.line(self.ink.paint(text, *((BOLD,) if is_made else ())))

    def match_over(self, record: Record) -> None:
        """Tell who won the match."""
        names = [self.names[seat] for seat in record["winners"]]
        verb = "won the match" if len(names) == 1 else "share the win"
        text = f"{and_(names)} {verb} with {max(record['totals'])} points."
        self.line()
        self.line(self.ink.paint(text[0].upper() + text[1:], BOLD))

    def score_sheet(self, record: Record) -> list[str]:
        """The points of every settled round: the full sheet, or a narrow one where that is wide."""
        sheet = render_scores({**record, "winners": []}, self.ink.color, self.ink.symbols)
        full = sheet.splitlines()
        if max(len(_plain(text)) for text in full) <= self.width:
            return full
        return self._narrow_sheet(record)

    def _narrow_sheet(self, record: Record) -> list[str]:
        rows = [["", *map(str, range(len(self.names)))]]
        for number, entry in enumerate(record["rounds"], 1):
            if entry["points"] is not None:
                rows.append([str(number), *map(_signed, entry["points"])])
        rows.append(["Total", *map(str, record["totals"])])
        seats = ", ".join(f"{seat} {name}" for seat, name in enumerate(self.names))
        return [*columns(rows, left=1), *self._folded(seats).splitlines()]

    # Cards.

    def numbered_hand(self, view: View) -> tuple[list[int], list[str]]:
        """The cards of a hand as numbered on the screen, and the lines that show them.

        Copies of a card share a number. While a card is chosen, each has its number below and the
        legal ones stand in brackets. Suits that do not fit go on the next lines.
        """
        cards = list(dict.fromkeys(sorted_hand(view.hand)))
        is_choosing = view.is_playing and view.seat_to_act == view.seat
        lines, numbers = ["Hand:"], [" " * 5]
        for suit in dict.fromkeys(suit_of(card) for card in cards):
            cells = [self._cell(c, view, is_choosing) for c in cards if suit_of(c) == suit]
            places = [place for place, c in enumerate(cards, 1) if suit_of(c) == suit]
            widths = [len(_plain(cell)) for cell in cells]
            if len(_plain(lines[-1])) + 2 + sum(widths) + len(widths) - 1 > self.width:
                lines.append(" " * 5)
                numbers.append(" " * 5)
            lines[-1] += "  " + " ".join(cells)
            below = [f"{place:^{width}}" for place, width in zip(places, widths, strict=True)]
            numbers[-1] += "  " + " ".join(below)
        if not is_choosing:
            return cards, lines
        dim = [self.ink.paint(text.rstrip(), DIM) for text in numbers]
        return cards, [line for pair in zip(lines, dim, strict=True) for line in pair]

    def _cell(self, card: int, view: View, is_choosing: bool) -> str:
        is_legal = is_choosing and card in view.legal
        text = self.ink.card(card, *((BOLD,) if is_legal else ()))
        copies = "x2" if view.hand.count(card) > 1 else ""
        if is_choosing:
            text = f"[{text}]" if is_legal else f" {text} "
        return text + copies

    def cards(self, texts: Sequence[Any]) -> str:
        """Cards of a record as a sorted hand."""
        hand = sorted_hand(card_id(text) for text in texts)
        return " ".join(self.ink.card(card) for card in hand)


def and_(words: Sequence[str]) -> str:
    """Words in a row: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def printable(text: str) -> str:
    """The text without what a terminal would obey, on one line."""
    return " ".join("".join(letter for letter in text if letter.isprintable()).split())


def _signed(points: int) -> str:
    return f"{points:+d}" if points else "0"


def _plain(text: str) -> str:
    return _ESCAPES.sub("", text)
