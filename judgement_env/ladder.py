"""A ladder: a pool of bots, all against all and at mixed tables, measured as the arena measures.

The same deals are played by every pair and at mixed tables, each from every seat, in passes that
double the number of deals; so a ladder that is broken off has played nearly as many of each.

>>> found = rank(["heuristic", "random"], matches=8)
>>> found.result.versus("heuristic", "random").matches
8
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from judgement_env.arena import (
    MAX_MATCHES,
    MAX_SEED,
    Progress,
    RulesLike,
    counter,
    games_of,
    make_row,
    rows_of,
    seat_bot,
    spread_sd,
    unique_names,
)
from judgement_env.arena_play import (
    BLOCK,
    DENOMINATORS,
    FIGURES,
    NUM_FIELDS,
    NUM_MOMENTS,
    NUM_SIZES,
    NUMERATORS,
    Block,
    Measured,
    add_deals,
    play_format,
)
from judgement_env.arena_result import DIGITS, FIELD, FORMATS, MIXED, ONE, Result, Row
from judgement_env.arguments import whole
from judgement_env.bots import SIMPLE, Bot, make_bot, shipped_models
from judgement_env.ladder_result import BotRow, Ladder
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import shown
from judgement_env.state import Array
from judgement_env.table import Table
from judgement_env.view import View

# Deals of the first pass.
FIRST: Final = 16
# Decisions that are asked alone for their time, at least.
TIMED: Final = 40


def default_pool() -> list[str]:
    """Every bot of the package that has a name of its own, and every model that comes with it."""
    return [*SIMPLE, *(f"models/{name}" for name in shipped_models())]


# --- bots, and the time they take -------------------------------------------------------------


class Timed(Bot):
    """A bot that is asked through this one, which counts its decisions and their seconds."""

    def __init__(self, bot: Bot) -> None:
        self.bot = bot
        self.name = bot.name
        self.has_rows = bot.has_rows
        self.seconds = 0.0
        self.decisions = 0

    def act(self, view: View) -> int:
        """Ask it with a view."""
        return int(self._timed(1, lambda: self.bot.act(view)))

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        """Ask it for many tables."""
        return self._timed(len(rows), lambda: self.bot.act_rows(rules, tables, rows))

    def _timed(self, count: int, ask: Callable[[], Array | int]) -> Array:
        start = time.perf_counter()
        answer = ask()
        self.seconds += time.perf_counter() - start
        self.decisions += count
        return np.asarray(answer)

    def match_over(self, record: dict[str, object]) -> None:
        """Tell it of a match."""
        self.bot.match_over(record)

    @property
    def milliseconds(self) -> float | None:
        """The mean time of a decision so far, to the nanosecond; None before the first."""
        # As many digits as JSON keeps, so that what is read back prints the same.
        return round(1000 * self.seconds / self.decisions, DIGITS) if self.decisions else None


def decisions_to_time(rules: Rules, seed: int) -> list[View]:
    """Views of whole matches of the heuristic, of every seat with a choice, forty at least."""
    bot = make_bot("heuristic")
    views: list[View] = []
    match = 0
    while len(views) < TIMED:
        table = Table(rules, seed, match=match)
        while table.seat is not None:
            view = table.view(table.seat)
            if len(view.legal) > 1:
                views.append(view)
            table.push(bot.act(view))
        match += 1
    return views


def time_alone(bot: Bot, views: Sequence[View]) -> float:
    """The mean milliseconds of a decision asked alone; a bid and a card are asked for before."""
    for view in {view.is_bidding: view for view in views}.values():
        bot.act(view)
    timed = Timed(bot)
    for view in views:
        timed.act(view)
    return timed.milliseconds or 0.0


# --- playing ----------------------------------------------------------------------------------


@dataclass
class Game:
    """Who plays whom in which format, and what has been played of it."""

    format: str
    members: list[int]
    lineups: Array  # (D, P) int64, indices into `members` for each deal
    num_players: int
    moments: Array = field(init=False)  # (B, C, 4, 6) as `Measured`
    spread: Array = field(init=False)  # (C, 3) as `Measured`
    sums: list[Array] = field(default_factory=list)  # of (k, B, F), all sizes together
    seating: list[Array] = field(default_factory=list)  # of (k * P, P), bots of the pool
    totals: list[Array] = field(default_factory=list)  # of (k * P, P)
    deals: int = 0

    def __post_init__(self) -> None:
        shape = (len(self.members), NUM_SIZES, len(FIGURES), NUM_MOMENTS)
        self.moments = np.zeros(shape)
        self.spread = np.zeros((NUM_SIZES, 3), np.int64)

    def play(
        self,
        bots: Sequence[Bot],
        names: Sequence[str],
        rules: Rules,
        seed: int,
        stop: int,
        on_matches: Callable[[int], None] | None,
    ) -> None:
        """Play on up to deal `stop`; what is broken off midway counts for nothing."""
        blocks: list[tuple[Array, Array, Array]] = []

        def keep(part: Block) -> None:
            totals = part.tables["total"][:, : self.num_players].copy()
            members = np.array(self.members)
            blocks.append((part.sums[:, :, 0].copy(), members[part.seating], totals))

        measured = play_format(
            [bots[k] for k in self.members],
            [names[k] for k in self.members],
            self.lineups[self.deals : stop],
            rules,
            seed,
            BLOCK,
            on_matches,
            first_deal=self.deals,
            on_block=keep,
        )
        # Sums of whole numbers: the passes a game is played in change no digit.
        self.moments += measured.moments
        self.spread += measured.spread
        for sums, seating, totals in blocks:
            self.sums.append(sums)
            self.seating.append(seating)
            self.totals.append(totals)
        self.deals = stop

    @property
    def measured(self) -> Measured:
        """What has been played, as the arena measures it."""
        return Measured(self.moments, self.spread, self.num_players)


def passes(num_deals: int) -> list[int]:
    """The deals played by the end of each pass: 16, 32, 64, …, the last all of them."""
    ends = []
    end = FIRST
    while end < num_deals:
        ends.append(end)
        end *= 2
    return [*ends, num_deals]


def rank(
    bots: Sequence[str | Bot] | None = None,
    rules: RulesLike = "kachuful",
    num_players: int | None = None,
    matches: int = 2000,
    seed: int = 1,
    *,
    progress: Progress | None = None,
) -> Ladder:
    """Play every bot against every other, and mixed tables of them all; Ctrl-C ends it early.

    bots: specs for `make_bot`, or bots; None for `default_pool()`. The same bots and seed give the
        same figures, times apart.
    matches: of each pair and format, and at mixed tables, rounded up so that each deal is played
        once from every seat. progress: called with the matches played and all to play.
    Interrupted (KeyboardInterrupt) it returns what is done so far, `is_complete` False; the
        interrupt goes on where nothing is. Raises ValueError as `arena.compare` does.
    """
    made_rules = make_rules(rules, num_players)
    whole("seed", seed, 0, MAX_SEED)
    num_deals = -(-whole("matches", matches, 1, MAX_MATCHES) // made_rules.num_players)
    pool = default_pool() if bots is None else bots
    if isinstance(pool, str) or len(pool) < 2:
        raise ValueError(f"bots: {shown(pool)} (allowed: a list of two bots or more)")
    with ExitStack() as stack:
        seated = [Timed(seat_bot(bot, (seed + k) % MAX_SEED, stack)) for k, bot in enumerate(pool)]
        games = _plan(len(pool), made_rules, num_deals, seed)
        names = unique_names(pool)
        times: list[float | None] = [None] * len(pool)
        try:
            # Before the games: what a bot has to compile or load first is then in no time at all.
            views = decisions_to_time(made_rules, seed)
            for k, bot in enumerate(seated):
                times[k] = time_alone(bot.bot, views)
            _play(games, seated, names, made_rules, seed, num_deals, progress)
        except KeyboardInterrupt:
            if not any(game.deals for game in games):
                raise
    return _summed(games, seated, names, times, made_rules, seed, num_deals)


def _plan(num_bots: int, rules: Rules, num_deals: int, seed: int) -> list[Game]:
    """The games to play; mixed tables come first, for they tell most."""
    games = [
        Game(format, members, lineups, rules.num_players)
        for format, members, lineups in games_of(num_bots, rules, num_deals, seed, FORMATS, False)
    ]
    return sorted(games, key=lambda game: game.format != MIXED)


def _play(
    games: Sequence[Game],
    bots: Sequence[Timed],
    names: Sequence[str],
    rules: Rules,
    seed: int,
    num_deals: int,
    progress: Progress | None,
) -> None:
    """Play all passes of all games."""
    count = counter(progress, len(games) * num_deals * rules.num_players)
    for stop in passes(num_deals):
        for game in games:
            game.play(bots, names, rules, seed, stop, count)


# --- adding up --------------------------------------------------------------------------------


def _summed(
    games: Sequence[Game],
    bots: Sequence[Timed],
    names: Sequence[str],
    times: Sequence[float | None],
    rules: Rules,
    seed: int,
    num_deals: int,
) -> Ladder:
    played = [game for game in games if game.deals]
    spread = sum((game.spread for game in played), np.zeros((NUM_SIZES, 3), np.int64))
    sd = spread_sd(spread)
    rows = [
        row
        for game in played
        for row in rows_of(
            game.measured, game.format, [names[k] for k in game.members], FORMATS, None
        )
    ]
    rows.sort(key=lambda row: FORMATS.index(row.format))
    standings = [row for k in range(len(names)) for row in _standings(played, k, names, spread)]
    standings += [row for row in rows if row.format == MIXED]
    order = _order(standings, names)
    standings.sort(key=lambda row: (FORMATS.index(row.format), order.index(row.bot)))
    ratings, note = _ratings(played, len(names))
    found = {
        name: BotRow(name, *ratings[k], times[k], bots[k].milliseconds, bots[k].decisions)
        for k, name in enumerate(names)
    }
    num_players = rules.num_players
    result = Result(
        tuple(names), rules, seed, num_deals * num_players, tuple(_in_sd(row, sd) for row in rows)
    )
    return Ladder(
        result=result,
        standings=tuple(_in_sd(row, sd) for row in standings),
        bots=tuple(found[name] for name in order),
        sd=sd,
        matches=sum(game.deals for game in games) * num_players,
        planned=len(games) * num_deals * num_players,
        note=note,
    )


def _in_sd(row: Row, sd: float) -> Row:
    """A row with its difference in units of the run's SD."""
    return replace(
        row, sd=sd, difference_sd=row.difference.scaled(1 / sd) if sd else row.difference
    )


def _standings(games: Sequence[Game], bot: int, names: Sequence[str], spread: Array) -> list[Row]:
    """A bot's rows over all opponents, alone and as the field; all that a deal gives is one."""
    rows = []
    for format, place in ((ONE, 0), (FIELD, 1)):
        mine = [
            (game, game.members.index(bot))
            for game in games
            if game.format != MIXED and bot in game.members and _place(game, bot) in (place, None)
        ]
        num_players = mine[0][0].num_players if mine else 0
        if not mine or (num_players == 2 and format == FIELD):
            continue
        most = max(game.deals for game, _ in mine)
        sums = np.zeros((most, 1, 1, NUM_FIELDS), np.int64)
        for game, index in mine:
            sums[: game.deals, 0, 0] += np.concatenate(game.sums)[:, index]
        moments = np.zeros((1, NUM_SIZES, len(FIGURES), NUM_MOMENTS))
        add_deals(sums, moments, NUMERATORS, DENOMINATORS)
        others = tuple(name for k, name in enumerate(names) if k != bot)
        row = make_row(Measured(moments, spread, num_players), 0, [names[bot]], format, others)
        matches = sum(game.deals for game, _ in mine) * num_players
        rows.append(replace(row, matches=matches, seats=1.0 if place == 0 else num_players - 1.0))
    return rows


def _place(game: Game, bot: int) -> int | None:
    """0 for the bot that is alone, 1 for that of the field, None where both are alone."""
    return None if game.num_players == 2 else game.members.index(bot)


def _order(standings: Sequence[Row], names: Sequence[str]) -> list[str]:
    """The names of the bots, the strongest first: at mixed tables, else alone among others."""
    best: dict[str, float] = {}
    for format in (FIELD, ONE, MIXED):
        best |= {row.bot: float(row.difference) for row in standings if row.format == format}
    return sorted(names, key=lambda name: -best.get(name, -np.inf))


def _ratings(
    games: Sequence[Game], num_bots: int
) -> tuple[list[tuple[float | None, float | None]], str]:
    """Each bot's mu and sigma from mixed tables (where there are none, from all others); a note."""
    none: list[tuple[float | None, float | None]] = [(None, None)] * num_bots
    try:
        from judgement_env.ratings import rate
    except ImportError as error:
        return none, f"No ratings: {error}."
    rated = [game for game in games if game.format == MIXED] or list(games)
    seating = np.concatenate([part for game in rated for part in game.seating])
    totals = np.concatenate([part for game in rated for part in game.totals])
    return [(rating.mu, rating.sigma) for rating in rate(num_bots, seating, totals)], ""
