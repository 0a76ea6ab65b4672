"""What the arena measured: estimates with intervals, a row for each bot and format, a result.

A deal is played once for every seat the candidate can hold, and all that one deal gives counts as
one observation: the estimate is a ratio of sums over deals, its 95 % interval Student's t on the
deals' residuals (for deals of equal weight that is the plain interval of the deals' means).

>>> Estimate(0.5, 0.4, 0.6).half_width
0.1
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

from judgement_env import ENV_VERSION
from judgement_env.rules import Rules
from judgement_env.scoring import shown
from judgement_env.state import Array

FORMAT = "judgement-arena/1"
ONE, FIELD, MIXED = FORMATS = ("one-versus-field", "field-versus-one", "mixed")
CONFIDENCE = 0.95
# Student's t at 97.5 % where the series below is not close enough, by degrees of freedom.
_FEW = {1: 12.7062, 2: 4.30265}
# Columns of the printed tables of hand sizes.
_MOST_SIZES = 8
_LONGEST_NAME = 16
NOTES = (
    "± is half the 95 % interval, clustered by deal; SD is of a seat's points in a round;",
    "bids %: bids made; wins %: matches that one of the bot's seats wins, a shared win split.",
)
TITLES = {
    ONE: "One seat against a field of another",
    FIELD: "A field against one seat of another",
    MIXED: "Mixed tables",
}
DIGITS = 6

# --- intervals --------------------------------------------------------------------------------


class Estimate(float):
    """A number with the ends of its 95 % interval, infinite where one deal leaves them open."""

    low: float
    high: float

    def __new__(cls, value: float, low: float = -math.inf, high: float = math.inf) -> Estimate:
        """Take value, low and high; a value of nothing is nan."""
        estimate = super().__new__(cls, value)
        estimate.low = float(low)
        estimate.high = float(high)
        return estimate

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (float(self), self.low, self.high)

    @property
    def half_width(self) -> float:
        """Half the length of the interval, as if `within` had not cut it at one end."""
        return round(max(self.high - self, self - self.low), 12)

    def scaled(self, factor: float) -> Estimate:
        """This estimate in another unit, `factor` > 0 of them to one of this."""
        return Estimate(self * factor, self.low * factor, self.high * factor)

    def within(self, low: float, high: float) -> Estimate:
        """This estimate, its interval cut to the values that are possible; an open one stays."""
        if math.isinf(self.half_width):
            return self
        return Estimate(self, max(low, self.low), min(high, self.high))

    def to_dict(self) -> dict[str, float | None]:
        """The three numbers to six places, null where there is none."""
        names = ("value", "low", "high")
        numbers = (float(self), self.low, self.high)
        return {name: to_plain(number) for name, number in zip(names, numbers, strict=True)}


def t_quantile(degrees: int) -> float:
    """Student's t at 97.5 % (Abramowitz and Stegun 26.7.5, to within 0.2 % from 3 degrees on)."""
    if degrees in _FEW:
        return _FEW[degrees]
    x: float = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + sum(term / float(degrees) ** (k + 1) for k, term in enumerate(terms))


def ratio_estimate(moments: Sequence[float] | Array) -> Estimate:
    """Estimate sum(y) / sum(n) over deals, each giving y out of n.

    `moments` (6,): number of deals, then the sums of n, y, n*n, n*y and y*y over them.
    """
    deals, n, y, nn, ny, yy = (float(value) for value in moments)
    if deals < 1 or n == 0:
        return Estimate(math.nan)
    mean = y / n
    if deals < 2:
        return Estimate(mean)
    residual = max(0.0, yy - 2 * mean * ny + mean * mean * nn)
    half = t_quantile(int(deals) - 1) * math.sqrt(residual * deals / (deals - 1)) / n
    return Estimate(mean, mean - half, mean + half)


# --- rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SizeRow:
    """A bot's rounds of one hand size; figures as in `Row`."""

    cards: int
    rounds: int
    points: Estimate
    difference: Estimate
    hit_rate: Estimate
    sd: float

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {name: to_plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Row:
    """How one bot did in one format.

    seats: at one table, the bot's own (a mean in mixed tables); rounds: of all its seats together.
    points: of a seat in a round. difference: points of the bot's seats less those of all other
    bots' at the same table, per round. difference_sd: the same in units of `sd`, the standard
    deviation of a seat's points in a round among rounds of equal size. hit_rate: share of bids
    made. win_share: share of the matches that a seat wins, a shared win split; 1 / players for
    equals.
    """

    format: str
    bot: str
    opponents: tuple[str, ...]
    seats: float
    matches: int
    deals: int
    rounds: int
    points: Estimate
    difference: Estimate
    difference_sd: Estimate
    hit_rate: Estimate
    win_share: Estimate
    sd: float
    by_cards: tuple[SizeRow, ...]

    @property
    def low(self) -> float:
        """The lower end of the difference's interval."""
        return self.difference.low

    @property
    def high(self) -> float:
        """The upper end of the difference's interval."""
        return self.difference.high

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        plain = {name: to_plain(value) for name, value in vars(self).items()}
        plain["by_cards"] = [size.to_dict() for size in self.by_cards]
        return plain


@dataclass(frozen=True)
class Result:
    """A comparison: its bots by name, and a row for each bot in each format it sat in."""

    bots: tuple[str, ...]
    rules: Rules
    seed: int
    matches: int
    rows: tuple[Row, ...]
    env_version: int = ENV_VERSION

    def versus(self, bot: str, opponent: str, format: str = ONE) -> Row:
        """The row of `bot` against a field of `opponent`; ValueError where they did not meet so."""
        return self._find(format, bot, (opponent,))

    def mixed(self, bot: str) -> Row:
        """The row of `bot` at mixed tables; ValueError where there were none."""
        return self._find(MIXED, bot, None)

    def _find(self, format: str, bot: str, opponents: tuple[str, ...] | None) -> Row:
        for name in (bot, *(opponents or ())):
            if name not in self.bots:
                raise ValueError(f"bot: {shown(name)} (allowed: {', '.join(self.bots)})")
        for row in self.rows:
            if (row.format, row.bot) == (format, bot) and opponents in (None, row.opponents):
                return row
        played = sorted({row.format for row in self.rows})
        raise ValueError(f"format: {bot} has no row of {format!r} (played: {', '.join(played)})")

    @cached_property
    def deals(self) -> int:
        """Deals of a format, each played once for every seat."""
        return self.matches // self.rules.num_players

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; `matches` is of each format."""
        return {
            "format": FORMAT,
            "env_version": self.env_version,
            "rules": self.rules.to_dict(),
            "bots": list(self.bots),
            "seed": self.seed,
            "matches": self.matches,
            "deals": self.deals,
            "confidence": CONFIDENCE,
            "rows": [row.to_dict() for row in self.rows],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """The result that `to_dict` wrote, to its six places."""
        if data.get("format") != FORMAT:
            raise ValueError(f"format: {shown(data.get('format'))} (allowed: {FORMAT})")
        return cls(
            bots=tuple(data["bots"]),
            rules=Rules.from_dict(data["rules"]),
            seed=data["seed"],
            matches=data["matches"],
            rows=tuple(row_from(row) for row in data["rows"]),
            env_version=data["env_version"],
        )

    def __str__(self) -> str:
        """The rows as tables for a terminal."""
        lines = [headline(self)]
        for format, title in TITLES.items():
            rows = [row for row in self.rows if row.format == format]
            if rows:
                lines += ["", title, *_main_table(rows)]
        rows = [row for row in self.rows if row.format == self.rows[0].format]
        if any(len(row.by_cards) > 1 for row in rows):
            title = "By cards a hand (of the first table): points over them, bids made"
            lines += ["", title, *_size_table(rows)]
        return "\n".join([*lines, "", *NOTES])


def row_from(data: Mapping[str, Any]) -> Row:
    """The row that `Row.to_dict` wrote."""
    fields = {name: from_plain(value) for name, value in data.items()}
    fields["opponents"] = tuple(data["opponents"])
    fields["by_cards"] = tuple(
        SizeRow(**{name: from_plain(value) for name, value in size.items()})
        for size in data["by_cards"]
    )
    return Row(**fields)


def to_plain(value: Any) -> Any:
    """A field of a row as plain data, null for a number there is none of."""
    if isinstance(value, Estimate):
        return value.to_dict()
    if isinstance(value, float):
        return round(value, DIGITS) if math.isfinite(value) else None
    return list(value) if isinstance(value, tuple) else value


def from_plain(value: Any) -> Any:
    """The field of a row that `to_plain` wrote."""
    if value is None:
        return math.nan
    if not isinstance(value, dict):
        return value
    ends = {"value": math.nan, "low": -math.inf, "high": math.inf}
    return Estimate(*(end if value[name] is None else value[name] for name, end in ends.items()))


# --- tables for a terminal --------------------------------------------------------------------


def headline(result: Result) -> str:
    """What was played, in a line."""
    rules = result.rules
    sizes = (
        " ".join(map(str, rules.sizes)) if rules.num_rounds <= 15 else f"{rules.num_rounds} hands"
    )
    scheme = rules.scoring if isinstance(rules.scoring, str) else "own"
    return (
        f"{rules.num_players} players, cards {sizes}, scoring {scheme}; seed {result.seed},"
        f" {result.deals} deals from {rules.num_players} seats each"
    )


def number_text(value: float, form: str) -> str:
    """A number in a form such as "+.2f", zero without a minus, "-" for none."""
    if math.isnan(value):
        return "-"
    text = f"{value:{form}}"
    # A difference of nothing has no sign of its own.
    return text if float(text) else f"{0.0:{form}}"


def with_half(value: Estimate, form: str, factor: float = 1) -> str:
    """An estimate times `factor` with half its interval, "-" where there is none."""
    if math.isnan(value):
        return "-"
    number = number_text(value * factor, form)
    if math.isinf(value.half_width):
        return f"{number} ±?"
    return f"{number} ±{value.half_width * factor:{form.lstrip('+')}}"


def short_name(name: str) -> str:
    """A name cut to its end, which is what tells one path from another."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]


def _against(row: Row) -> str:
    if len(row.opponents) == 1:
        return short_name(row.opponents[0])
    return f"{len(row.opponents)} others"


def aligned(cells: list[list[str]], left: int) -> list[str]:
    """Lines of columns, the first `left` of them flush left, the others right."""
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    lines = []
    for row in cells:
        words = [
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(words).rstrip())
    return lines


def _main_table(rows: Sequence[Row]) -> list[str]:
    cells = [["bot", "against", "points", "over them", "in SD", "bids %", "wins %"]]
    for row in rows:
        cells.append(
            [
                short_name(row.bot),
                _against(row),
                with_half(row.points, ".2f"),
                with_half(row.difference, "+.2f"),
                number_text(row.difference_sd, "+.2f"),
                with_half(row.hit_rate, ".1f", 100),
                with_half(row.win_share, ".1f", 100),
            ]
        )
    return aligned(cells, 2)


def _size_table(rows: Sequence[Row]) -> list[str]:
    """Points over the others and bids made, by cards a hand; eight sizes at most."""
    sizes = sorted({size.cards for row in rows for size in row.by_cards}, reverse=True)
    sizes = sizes[:: -(-len(sizes) // _MOST_SIZES)]
    cells = [["bot", "against", "", *map(str, sizes)]]
    for row in rows:
        found = {size.cards: size for size in row.by_cards}
        over = [number_text(found[c].difference, "+.1f") if c in found else "-" for c in sizes]
        hits = [f"{100 * found[c].hit_rate:.0f}%" if c in found else "-" for c in sizes]
        cells.append([short_name(row.bot), _against(row), "points", *over])
        cells.append(["", "", "bids", *hits])
    return aligned(cells, 3)
