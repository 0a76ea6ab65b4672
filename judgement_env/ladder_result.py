"""What a ladder came to: standings, cross-table, ratings and time a decision, as text and data.

Its rows are the arena's; every difference in SD is in units of one SD, that of a seat's points in a
round over the whole run. How it is played is `ladder`'s.

>>> print(marked_down([["bot", "points"], ["random", "5.1"]])[1])
|:---|---:|
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgement_env.arena_result import (
    FIELD,
    MIXED,
    ONE,
    Result,
    Row,
    aligned,
    from_plain,
    headline,
    number_text,
    row_from,
    short_name,
    to_plain,
    with_half,
)
from judgement_env.files import whole_file
from judgement_env.scoring import shown

FORMAT = "judgement-ladder/1"
TITLES = {
    MIXED: "Mixed tables",
    ONE: "One seat against fields of each other bot",
    FIELD: "Fields against one seat of each other bot",
}
CROSS_TITLE = "One seat of the row's bot against a field of the column's: points over them"
TIMES_TITLE = "Ratings and time a decision"
NOTES = (
    "± is half the 95 % interval, clustered by deal: all that one deal gives is one observation;",
    "bids %: bids made; wins %: matches that one of the bot's seats wins, a shared win split.",
)
RATING_NOTE = "Rating: mu, sigma of openskill's Plackett-Luce, for display; sigma is no interval."
TIME_NOTE = "ms: one decision asked alone; in play: a mean over the run, batches where it has them."
COLUMNS = ("bot", "points", "over them", "in SD", "bids %", "wins %")


@dataclass(frozen=True)
class BotRow:
    """What is known of one bot beside its play.

    mu, sigma: its rating, None where there is none. ms: a decision asked alone takes, on average.
    play_ms: a decision in this run took, in the batches it was asked in; decisions: their number.
    """

    bot: str
    mu: float | None
    sigma: float | None
    ms: float | None
    play_ms: float | None
    decisions: int

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {name: to_plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Ladder:
    """A pool of bots, all against all.

    result: a row for each pair and format, and for each bot at mixed tables. standings: a row for
    each bot and format over all its opponents, the strongest first. sd: of a seat's points in a
    round among rounds of equal size, over the whole run. note: why there are no ratings. matches
    counts those played, planned those that were asked for.
    """

    result: Result
    standings: tuple[Row, ...]
    bots: tuple[BotRow, ...]
    sd: float
    matches: int
    planned: int
    note: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether all was played that was asked for."""
        return self.matches == self.planned

    def standing(self, bot: str, format: str = MIXED) -> Row:
        """The row of `bot` over all its opponents; ValueError where it has none."""
        for row in self.standings:
            if (row.bot, row.format) == (bot, format):
                return row
        played = dict.fromkeys(f"{row.bot} {row.format}" for row in self.standings)
        raise ValueError(f"standing: {shown(f'{bot} {format}')} (allowed: {', '.join(played)})")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "format": FORMAT,
            "sd": to_plain(self.sd),
            "matches_played": self.matches,
            "matches_planned": self.planned,
            "note": self.note,
            "bots": [bot.to_dict() for bot in self.bots],
            "standings": [row.to_dict() for row in self.standings],
            "result": self.result.to_dict(),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_json` to a file; ValueError naming it where it cannot be written."""
        try:
            with whole_file(path) as file:
                file.write(f"{self.to_json()}\n".encode())
        except OSError as error:
            raise ValueError(f"save: {os.fspath(path)!r} cannot be written: {error}") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ladder:
        """The ladder that `to_dict` wrote, to its six places."""
        if data.get("format") != FORMAT:
            raise ValueError(f"format: {shown(data.get('format'))} (allowed: {FORMAT})")
        return cls(
            result=Result.from_dict(data["result"]),
            standings=tuple(row_from(row) for row in data["standings"]),
            bots=tuple(BotRow(**bot) for bot in data["bots"]),
            sd=from_plain(data["sd"]),
            matches=data["matches_played"],
            planned=data["matches_planned"],
            note=data["note"],
        )

    def __str__(self) -> str:
        """The tables for a terminal."""
        lines = list(self._head())
        for title, cells in self._tables():
            lines += ["", title, *aligned(cells, 1)]
        return "\n".join([*lines, "", *self._notes()])

    def to_markdown(self) -> str:
        """The tables in Markdown, for a README."""
        lines = [" ".join(self._head()) + "."]
        for title, cells in self._tables():
            lines += ["", f"**{title}**", "", *marked_down(cells)]
        return "\n".join([*lines, "", " ".join(self._notes())])

    def _head(self) -> list[str]:
        lines = [headline(self.result), f"SD of a seat's points in a round: {self.sd:.2f}"]
        if not self.is_complete:
            lines.append(f"stopped after {self.matches:,} of {self.planned:,} matches")
        return lines

    def _notes(self) -> list[str]:
        rating = self.note or (RATING_NOTE if any(b.mu is not None for b in self.bots) else "")
        return [*NOTES, *([rating] if rating else []), TIME_NOTE]

    def _tables(self) -> list[tuple[str, list[list[str]]]]:
        """Each table: its title, and its cells with the heads of the columns first."""
        tables = []
        for format, title in TITLES.items():
            rows = [row for row in self.standings if row.format == format]
            if rows:
                tables.append((title, [list(COLUMNS), *map(_standing_cells, rows)]))
        cross = _cross_cells(self.result, [bot.bot for bot in self.bots])
        if cross:
            tables.append((CROSS_TITLE, cross))
        return [*tables, (TIMES_TITLE, _bot_cells(self.bots))]


def marked_down(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table, the first column flush left, the others right."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    rule = "|:---" + "|---:" * (len(cells[0]) - 1) + "|"
    return [lines[0], rule, *lines[1:]]


def _standing_cells(row: Row) -> list[str]:
    return [
        short_name(row.bot),
        with_half(row.points, ".2f"),
        with_half(row.difference, "+.2f"),
        with_half(row.difference_sd, "+.2f"),
        with_half(row.hit_rate, ".1f", 100),
        with_half(row.win_share, ".1f", 100),
    ]


def _cross_cells(result: Result, names: Sequence[str]) -> list[list[str]]:
    """Points over the field, a line for the bot that is alone, a column for that of the field."""
    found = {
        (row.bot, row.opponents[0]): with_half(row.difference, "+.2f")
        for row in result.rows
        if row.format == ONE
    }
    if not found:
        return []
    lines = [[short_name(a), *(found.get((a, b), "-") for b in names)] for a in names]
    return [["alone", *map(short_name, names)], *lines]


def _bot_cells(bots: Sequence[BotRow]) -> list[list[str]]:
    cells = [["bot", "rating", "sigma", "ms", "in play", "decisions"]]
    for bot in bots:
        cells.append(
            [
                short_name(bot.bot),
                "-" if bot.mu is None else number_text(bot.mu, ".2f"),
                "-" if bot.sigma is None else number_text(bot.sigma, ".2f"),
                "-" if bot.ms is None else f"{bot.ms:.3g}",
                "-" if bot.play_ms is None else f"{bot.play_ms:.3g}",
                f"{bot.decisions:,}",
            ]
        )
    return cells
