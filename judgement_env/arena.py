"""Bots against bots: every deal from every seat, with intervals that know it.

`compare` plays each bot alone among a field of each other one, so that each is the field as well,
and mixed tables; the same deals in all of them. How matches are played is `arena_play`'s, how
intervals are made `arena_result`'s.

>>> result = compare(["heuristic", "random"], matches=8)
>>> result.versus("heuristic", "random").matches
8
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from judgement_env.arena_play import BLOCK, PARTS, Measured, play_format
from judgement_env.arena_result import (
    FIELD,
    FORMATS,
    MIXED,
    ONE,
    Estimate,
    Result,
    Row,
    SizeRow,
    ratio_estimate,
)
from judgement_env.arguments import whole
from judgement_env.bots import Bot, make_bot
from judgement_env.record import Record, write
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import counted, shown
from judgement_env.state import Array

MAX_SEED = (1 << 64) - 1
MAX_MATCHES = 10**9

RulesLike = str | os.PathLike[str] | Rules | Mapping[str, Any]
Progress = Callable[[int, int], None]

# --- comparing --------------------------------------------------------------------------------


def compare(
    bots: Sequence[str | Bot],
    rules: RulesLike = "kachuful",
    num_players: int | None = None,
    matches: int = 2000,
    seed: int = 1,
    *,
    formats: str | Sequence[str] = FORMATS,
    only_first: bool = False,
    block: int = BLOCK,
    progress: Progress | None = None,
    records: str | os.PathLike[str] | None = None,
) -> Result:
    """Play every bot against every other and return points, intervals and all.

    bots: specs for `make_bot`, or bots; a spec names its bot in the result, a second one alike
        gets "-2". The same bots and seed give the same result.
    matches: of each format, rounded up so that each deal is played once from every seat.
    formats: those wanted, a list or with commas: "one-versus-field" (a bot alone among the
        other's), "field-versus-one" (the other alone among its own), "mixed" (as many seats for
        each bot as can be, drawn; for three bots, or tables of four, at least).
    only_first: leave out what does not concern the first bot.
    block: tables played side by side. progress: called with the matches played and all to play.
    records: a folder, new or empty, for the record of every match: 000000.json and so on.
    Raises ValueError naming the argument, its value and what is allowed, or the bot that took an
    action that is not legal.
    """
    made_rules = make_rules(rules, num_players)
    wanted = _checked_formats(formats)
    whole("seed", seed, 0, MAX_SEED)
    whole("block", block, 1, MAX_MATCHES)
    num_deals = -(-whole("matches", matches, 1, MAX_MATCHES) // made_rules.num_players)
    if isinstance(bots, str) or len(bots) < 2:
        raise ValueError(f"bots: {shown(bots)} (allowed: a list of two bots or more)")
    games = list(games_of(len(bots), made_rules, num_deals, seed, wanted, only_first))
    if not games:
        raise ValueError(
            f"formats: {shown(formats)} (allowed with {len(bots)} bots and"
            f" {made_rules.num_players} players: {ONE}, {FIELD})"
        )
    with ExitStack() as stack:
        seated = [seat_bot(bot, (seed + k) % MAX_SEED, stack) for k, bot in enumerate(bots)]
        names = unique_names(bots)
        count = counter(progress, len(games) * num_deals * made_rules.num_players)
        keep = None if records is None else stack.enter_context(_keeper(records))
        rows: list[Row] = []
        for format, members, lineups in games:
            mine, called = [seated[k] for k in members], [names[k] for k in members]
            measured = play_format(mine, called, lineups, made_rules, seed, block, count, keep)
            rows += rows_of(measured, format, called, wanted, names[0] if only_first else None)
    order = {name: place for place, name in enumerate(FORMATS)}
    rows.sort(key=lambda row: order[row.format])
    return Result(tuple(names), made_rules, seed, num_deals * made_rules.num_players, tuple(rows))


def one_versus_field(
    candidate: Bot, field: Bot, rules: Rules, matches: int = 400, seed: int = 1
) -> Row:
    """Play `candidate` in one seat against `field` in all others; its row. Closes no bot."""
    num_deals = -(-whole("matches", matches, 1, MAX_MATCHES) // rules.num_players)
    names = unique_names([candidate, field])
    lineups = np.tile(_alone(rules.num_players), (num_deals, 1))
    measured = play_format([candidate, field], names, lineups, rules, seed)
    return make_row(measured, 0, names, ONE, (names[1],))


def unique_names(bots: Sequence[str | Bot]) -> list[str]:
    """A name for each bot: its spec or own name, with -2, -3, … where one comes again."""
    names: list[str] = []
    for bot in bots:
        name = bot if isinstance(bot, str) else bot.name
        number, free = 2, name
        while free in names:
            free = f"{name}-{number}"
            number += 1
        names.append(free)
    return names


def seat_bot(bot: str | Bot, seed: int, stack: ExitStack) -> Bot:
    """The bot meant; one that is made here is closed at the end."""
    return bot if isinstance(bot, Bot) else stack.enter_context(make_bot(bot, seed=seed))


def counter(progress: Progress | None, total: int) -> Callable[[int], None] | None:
    """What adds up matches played and tells `progress` of them, None where nobody asks."""
    if progress is None:
        return None
    done = 0

    def count(matches: int) -> None:
        nonlocal done
        done += matches
        progress(done, total)

    return count


@contextmanager
def _keeper(folder: str | os.PathLike[str]) -> Iterator[Callable[[Record], None]]:
    """What writes each record it is given to the next file of a folder, which it makes.

    Where play is broken off before the first record, no folder is left.
    """
    path = Path(folder)
    made = [one for one in (path, *path.parents) if not one.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_free = next(path.iterdir(), None) is None
    except OSError as error:
        raise ValueError(f"records: {os.fspath(folder)!r} cannot be used: {error}") from None
    if not is_free:
        raise ValueError(
            f"records: {os.fspath(folder)!r} holds files already (allowed: a new or empty folder)"
        )
    count = 0

    def keep(record: Record) -> None:
        nonlocal count
        name = path / f"{count:06d}.json"
        try:
            write(record, name)
        except OSError as error:
            raise ValueError(f"records: {name} cannot be written: {error}") from None
        count += 1

    try:
        yield keep
    except BaseException as error:
        if count:
            error.add_note(f"{counted(count, 'record')} in {os.fspath(folder)!r}")
        else:
            with suppress(OSError):
                for one in made:
                    one.rmdir()
        raise


def _checked_formats(formats: str | Sequence[str]) -> tuple[str, ...]:
    names = formats.split(",") if isinstance(formats, str) else formats
    wanted = tuple(name.strip() if isinstance(name, str) else name for name in names)
    for name in wanted:
        if name not in FORMATS:
            raise ValueError(f"formats: {shown(name)} (allowed: {', '.join(FORMATS)})")
    return wanted


# --- who sits where ---------------------------------------------------------------------------


def _alone(num_players: int) -> Array:
    """The line-up of bot 0 among bots 1."""
    lineup = np.ones(num_players, np.int64)
    lineup[0] = 0
    return lineup


def mixed_lineups(num_bots: int, num_players: int, num_deals: int, seed: int) -> Array:
    """Draw line-ups (D, P) of bots, each bot's seats as equal in number as can be.

    In every `num_bots` deals each bot has P seats; a table never holds one twice more often than
    another.
    """
    generator = np.random.default_rng([seed, num_bots, num_players])
    cycles = -(-num_deals // num_bots)
    orders = generator.permuted(np.tile(np.arange(num_bots), (cycles, 1)), axis=1)
    deal, place = np.ogrid[:num_deals, :num_players]
    turns = (deal % num_bots * num_players + place) % num_bots
    lineups: Array = generator.permuted(orders[deal // num_bots, turns], axis=1)
    return lineups


def games_of(
    num_bots: int,
    rules: Rules,
    num_deals: int,
    seed: int,
    formats: tuple[str, ...],
    only_first: bool,
) -> Iterator[tuple[str, list[int], Array]]:
    """What is to be played: format, the bots concerned, and a line-up of them for each deal."""
    num_players = rules.num_players
    if ONE in formats or FIELD in formats:
        lineups = np.tile(_alone(num_players), (num_deals, 1))
        for a in range(num_bots):
            for b in range(num_bots):
                # Of two players either is alone: one pass serves both.
                is_known = num_players == 2 and a > b
                # The row of a is of one format, that of b of the other.
                is_asked = ONE in formats and (a == 0 or not only_first)
                is_asked |= (FIELD in formats or num_players == 2) and (b == 0 or not only_first)
                if a != b and is_asked and not is_known:
                    yield ONE, [a, b], lineups
    if MIXED in formats and (num_bots > 2 or num_players > 3):
        everybody = list(range(num_bots))
        yield MIXED, everybody, mixed_lineups(num_bots, num_players, num_deals, seed)


def rows_of(
    measured: Measured, format: str, names: list[str], formats: tuple[str, ...], only: str | None
) -> Iterator[Row]:
    """The rows that one pass of play gives; `only` those of this bot, mixed tables apart."""
    if format == MIXED:
        for bot, name in enumerate(names):
            others = tuple(other for other in names if other != name)
            yield make_row(measured, bot, names, MIXED, others)
        return
    for bot, role in ((0, ONE), (1, ONE if measured.num_players == 2 else FIELD)):
        if role in formats and only in (None, names[bot]):
            yield make_row(measured, bot, names, role, (names[1 - bot],))


# --- from sums to rows ------------------------------------------------------------------------


def spread_sd(spread: Array) -> float:
    """The standard deviation of a seat's points about the mean of its hand size."""
    number, total, squares = spread.astype(np.float64).T
    inside = squares - total * total / np.maximum(number, 1)
    return float(np.sqrt(max(0.0, inside.sum()) / max(1.0, number.sum())))


def _figures(moments: Array) -> tuple[Estimate, Estimate, Estimate, Estimate]:
    """Points, hit rate, difference and win share from moments (4, 6)."""
    points, hits, over, wins = (ratio_estimate(line) for line in moments)
    unit = 1 / PARTS
    return points, hits.within(0, 1), over.scaled(unit), wins.scaled(unit).within(0, 1)


def _size_row(measured: Measured, bot: int, cards: int) -> SizeRow:
    points, hits, over, _ = _figures(measured.moments[bot, cards])
    rounds = int(measured.moments[bot, cards, 0, 1])
    sd = spread_sd(measured.spread[cards : cards + 1])
    return SizeRow(cards, rounds, points, over, hits, sd)


def make_row(
    measured: Measured, bot: int, names: Sequence[str], format: str, opponents: tuple[str, ...]
) -> Row:
    """The row of one bot of a format; `names` of all that sat in it."""
    totals = measured.moments[bot, 0]
    points, hits, over, wins = _figures(totals)
    sd = spread_sd(measured.spread)
    sizes = np.flatnonzero(measured.moments[bot, 1:, 0, 1])[::-1] + 1
    deals = int(totals[0, 0])
    matches = deals * measured.num_players
    return Row(
        format=format,
        bot=names[bot],
        opponents=opponents,
        seats=float(totals[3, 1] / max(1, matches)),
        matches=matches,
        deals=deals,
        rounds=int(totals[0, 1]),
        points=points,
        difference=over,
        difference_sd=over.scaled(1 / sd) if sd else over,
        hit_rate=hits,
        win_share=wins,
        sd=sd,
        by_cards=tuple(_size_row(measured, bot, int(cards)) for cards in sizes),
    )
