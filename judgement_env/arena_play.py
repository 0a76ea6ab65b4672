"""Playing the arena's matches and adding up what they come to, deal by deal, without a figure yet.

A block of matches is played in lock-step where every bot answers for many tables at once
(`act_rows`), otherwise match by match through views. Decisions that leave no choice are played
without asking. All sums are whole numbers, so the order of play changes no digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from judgement_env._jit import njit
from judgement_env.bots import Bot
from judgement_env.cards import NONE, NUM_ACTIONS, action_text
from judgement_env.engine import (
    apply_action,
    begin_match,
    is_legal,
    next_round,
    table_key,
    write_mask,
)
from judgement_env.record import Record
from judgement_env.rules import Rules
from judgement_env.state import (
    MAX_CARDS,
    OVER,
    Array,
    RulesRecord,
    TableRecord,
    new_tables,
    pack_rules,
)
from judgement_env.table import IllegalActionError, Table

# What is summed of a bot in one deal, by cards dealt (column 0: all sizes together).
# Seats' rounds, points, bids made; tables' rounds, points over the others; seats' matches, wins.
ROUNDS, POINTS, MADE, TABLE_ROUNDS, DIFFERENCE, MATCHES, WINS = range(7)
NUM_FIELDS = 7
NUM_SIZES = MAX_CARDS + 1
# Means over up to ten seats and shared wins stay whole numbers in parts of this.
PARTS = 2520
# Figures, each a sum out of another.
FIGURES = ((POINTS, ROUNDS), (MADE, ROUNDS), (DIFFERENCE, TABLE_ROUNDS), (WINS, MATCHES))
NUMERATORS: Array = np.array([figure[0] for figure in FIGURES])
DENOMINATORS: Array = np.array([figure[1] for figure in FIGURES])
NUM_MOMENTS = 6
# Tables played side by side: enough for wide batches, 8 MB with their sums.
BLOCK = 4096

# --- kernels ----------------------------------------------------------------------------------


@njit
def credit_round(
    r: RulesRecord, t: TableRecord, seating: Array, sums: Array, spread: Array
) -> None:
    """Add the round just settled to its deal's `sums` (B, C, F) and to `spread` (C, 3).

    `seating` (P,) is the bot of each seat; `spread` holds number, sum and squares of points.
    """
    total = np.int64(0)
    for seat in range(r.num_players):
        points = np.int64(t.points[seat])
        total += points
        spread[t.cards, 0] += 1
        spread[t.cards, 1] += points
        spread[t.cards, 2] += points * points
    for bot in range(sums.shape[0]):
        seats = 0
        own = np.int64(0)
        made = 0
        for seat in range(r.num_players):
            if seating[seat] == bot:
                seats += 1
                own += np.int64(t.points[seat])
                made += t.bid[seat] == t.won[seat]
        others = r.num_players - seats
        if seats == 0:
            continue
        over = 0
        if others:
            over = PARTS // seats * own - PARTS // others * (total - own)
        # Column 0 and that of its size.
        for column in range(0, t.cards + 1, t.cards):
            line = sums[bot, column]
            line[ROUNDS] += seats
            line[POINTS] += own
            line[MADE] += made
            if others:
                line[TABLE_ROUNDS] += 1
                line[DIFFERENCE] += over


@njit
def credit_match(r: RulesRecord, t: TableRecord, seating: Array, sums: Array) -> None:
    """Add the match just over to its deal's `sums`: every seat's share of the win."""
    best = t.total[0]
    num_best = 0
    for seat in range(r.num_players):
        if t.total[seat] > best:
            best = t.total[seat]
            num_best = 0
        num_best += t.total[seat] == best
    for seat in range(r.num_players):
        line = sums[seating[seat], 0]
        line[MATCHES] += 1
        if t.total[seat] == best:
            line[WINS] += PARTS // num_best


@njit
def take(
    r: RulesRecord, t: TableRecord, action: int, seating: Array, sums: Array, spread: Array
) -> None:
    """Apply a legal action; credit a round it settles and a match it ends."""
    if apply_action(r, t, action):
        credit_round(r, t, seating, sums, spread)
        if next_round(r, t):
            credit_match(r, t, seating, sums)


@njit
def take_forced(
    r: RulesRecord, t: TableRecord, mask: Array, seating: Array, sums: Array, spread: Array
) -> None:
    """Play on while there is but one legal action."""
    while write_mask(r, t, mask) == 1:
        take(r, t, int(mask.argmax()), seating, sums, spread)


@njit
def begin_block(
    rules: Array, tables: Array, seed: Any, first: int, seating: Array, sums: Array, spread: Array
) -> None:
    """Begin the matches of a block: row i is deal ``first + i // P``, played the i % P-th time."""
    r = rules[0]
    mask = np.empty(NUM_ACTIONS, np.int8)
    for i in range(tables.shape[0]):
        t = tables[i]
        deal = i // r.num_players
        t.key = table_key(seed, first + deal)
        begin_match(r, t, 0, r.num_rounds - 1, NONE)
        take_forced(r, t, mask, seating[i], sums[deal], spread)


@njit
def advance(
    rules: Array,
    tables: Array,
    rows: Array,
    actions: Array,
    seating: Array,
    sums: Array,
    spread: Array,
) -> int:
    """Take an action at each of `rows` and play to its next real decision.

    Return the first place in `rows` whose action is illegal, NONE where all are legal.
    """
    r = rules[0]
    mask = np.empty(NUM_ACTIONS, np.int8)
    for j in range(rows.shape[0]):
        i = rows[j]
        t = tables[i]
        if not is_legal(r, t, actions[j]):
            return j
        deal = i // r.num_players
        take(r, t, actions[j], seating[i], sums[deal], spread)
        take_forced(r, t, mask, seating[i], sums[deal], spread)
    return NONE


@njit
def add_deals(sums: Array, moments: Array, numerators: Array, denominators: Array) -> None:
    """Add a block's `sums` (K, B, C, F) to `moments` (B, C, 4, 6), deal by deal.

    In this order the size of the block changes no digit of the result.
    """
    num_deals, num_bots, num_sizes, _ = sums.shape
    for deal in range(num_deals):
        for bot in range(num_bots):
            for size in range(num_sizes):
                for k in range(len(numerators)):
                    n = float(sums[deal, bot, size, denominators[k]])
                    if n == 0:
                        continue
                    y = float(sums[deal, bot, size, numerators[k]])
                    line = moments[bot, size, k]
                    line[0] += 1
                    line[1] += n
                    line[2] += y
                    line[3] += n * n
                    line[4] += n * y
                    line[5] += y * y


# --- one format -------------------------------------------------------------------------------


class Measured(NamedTuple):
    """What one format came to."""

    moments: Array  # (B, C, 4, 6) float64, by bot, cards and figure: see `ratio_estimate`
    spread: Array  # (C, 3) int64, by cards: seats' rounds, sum and sum of squares of their points
    num_players: int


class Block(NamedTuple):
    """Matches played side by side: whole deals, each once for every seat."""

    rules: Array  # (1,) RULES_RECORD
    tables: Array  # (N,) TABLE_RECORD
    seating: Array  # (N, P) int64, the bot in each seat
    sums: Array  # (N / P, B, C, F) int64, see ROUNDS and what follows
    spread: Array  # (C, 3) int64


def rotate(lineups: Array) -> Array:
    """Seat each line-up (K, P) once from every seat: (K * P, P), place j of the k-th at j + k."""
    num_players = lineups.shape[1]
    seat = np.arange(num_players)
    places = (seat[None, :] - seat[:, None]) % num_players
    seating: Array = np.ascontiguousarray(lineups[:, places].reshape(-1, num_players), np.int64)
    return seating


def play_format(
    bots: Sequence[Bot],
    names: Sequence[str],
    lineups: Array,
    rules: Rules,
    seed: int,
    block: int = BLOCK,
    on_matches: Callable[[int], None] | None = None,
    on_record: Callable[[Record], None] | None = None,
    *,
    first_deal: int = 0,
    on_block: Callable[[Block], None] | None = None,
) -> Measured:
    """Play deal d of the seed with line-up d, (D, P) indices into `bots`, once from every seat.

    `on_matches` is called with the number of matches just played, `on_record` with each match,
    `on_block` with each block whose matches are over. `first_deal` is the deal of line-up 0.
    """
    packed = pack_rules([rules])
    num_players = rules.num_players
    spread = np.zeros((NUM_SIZES, 3), np.int64)
    moments = np.zeros((len(bots), NUM_SIZES, len(FIGURES), NUM_MOMENTS))
    play = _play_together if all(bot.has_rows for bot in bots) else _play_by_views
    step = max(1, block // num_players)
    for first in range(0, len(lineups), step):
        seating = rotate(lineups[first : first + step])
        shape = (len(seating) // num_players, len(bots), NUM_SIZES, NUM_FIELDS)
        part = Block(packed, new_tables(len(seating)), seating, np.zeros(shape, np.int64), spread)
        deal = first_deal + first
        begin_block(packed, part.tables, np.uint64(seed), deal, seating, part.sums, spread)
        for count in play(bots, names, part, rules, seed, deal, on_record):
            if on_matches is not None:
                on_matches(count)
        if on_block is not None:
            on_block(part)
        add_deals(part.sums, moments, NUMERATORS, DENOMINATORS)
    return Measured(moments, spread, num_players)


def _play_together(
    bots: Sequence[Bot],
    names: Sequence[str],
    part: Block,
    rules: Rules,
    seed: int,
    first: int,
    on_record: Callable[[Record], None] | None,
) -> Iterator[int]:
    """Play a block in lock-step, each bot asked once a step; yield its matches at the end."""
    rows = np.arange(len(part.tables))
    chosen_by_row: list[list[int]] = [[] for _ in rows]
    while True:
        rows = rows[part.tables["phase"][rows] != OVER]
        if not len(rows):
            break
        acting = part.seating[rows, part.tables["seat"][rows]]
        actions = np.empty(len(rows), np.int64)
        for index, bot in enumerate(bots):
            mine = np.flatnonzero(acting == index)
            if len(mine):
                chosen = np.asarray(bot.act_rows(part.rules, part.tables, rows[mine]))
                actions[mine] = _checked(chosen, len(mine), names[index])
        wrong = advance(
            part.rules, part.tables, rows, actions, part.seating, part.sums, part.spread
        )
        if wrong != NONE:
            _refuse(part, int(rows[wrong]), int(actions[wrong]), names[int(acting[wrong])])
        if on_record is not None:
            for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
                chosen_by_row[row].append(action)
    if on_record is not None:
        for i, choices in enumerate(chosen_by_row):
            table = _open(rules, seed, first, i, part.seating[i], names)
            for action in choices:
                _push_forced(table)
                table.push(action)
            _push_forced(table)
            on_record(table.record())
    yield len(part.tables)


def _open(rules: Rules, seed: int, first: int, i: int, seats: Array, names: Sequence[str]) -> Table:
    """The table of row i of the block that starts with deal `first`, its players named."""
    players = [names[bot] for bot in seats]
    return Table(rules, seed, table=first + i // rules.num_players, players=players)


def _push_forced(table: Table) -> None:
    """Play on while there is but one legal action, as `take_forced` does."""
    while len(legal := table.legal()) == 1:
        table.push(legal[0])


def _play_by_views(
    bots: Sequence[Bot],
    names: Sequence[str],
    part: Block,
    rules: Rules,
    seed: int,
    first: int,
    on_record: Callable[[Record], None] | None,
) -> Iterator[int]:
    """Play a block match by match, each bot asked with a view; yield each match."""
    for i, seats in enumerate(part.seating):
        table = _open(rules, seed, first, i, seats, names)
        rows = np.array([i])
        while not table.is_over:
            legal = table.legal()
            if len(legal) == 1:
                table.push(legal[0])
                continue
            index = int(seats[table.seat])
            action = bots[index].act(table.view(table.seat or 0))
            try:
                table.push(int(action))
            except IllegalActionError as error:
                raise ValueError(f"bot {names[index]}: {error}") from None
            advance(
                part.rules,
                part.tables,
                rows,
                np.array([int(action)]),
                part.seating,
                part.sums,
                part.spread,
            )
        _tell(bots, seats, table)
        if on_record is not None:
            on_record(table.record())
        yield 1


def _tell(bots: Sequence[Bot], seats: Array, table: Table) -> None:
    """Show the finished match, without its seed, to each bot that sat in it."""
    for index in dict.fromkeys(seats.tolist()):
        bots[index].match_over({**table.record(), "seed": None})


def _checked(chosen: Array, count: int, name: str) -> Array:
    if chosen.shape != (count,) or chosen.dtype.kind not in "iu":
        raise ValueError(
            f"bot {name}: act_rows gave {chosen.dtype} of shape {chosen.shape}"
            f" (allowed: whole numbers of shape ({count},))"
        )
    return chosen


def _refuse(part: Block, row: int, action: int, name: str) -> None:
    mask = np.zeros(NUM_ACTIONS, np.int8)
    write_mask(part.rules[0], part.tables[row], mask)
    legal = ", ".join(action_text(int(a)) for a in np.flatnonzero(mask))
    words = action_text(action) if 0 <= action < NUM_ACTIONS else f"action {action}"
    raise ValueError(f"bot {name}: {words} is not legal (legal: {legal})")
