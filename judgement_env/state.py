"""The position of N tables as one array of records, and K sets of rules as another.

A kernel takes a rules record `r` and a table record `t`: two pointers, however much they hold, so
calls cost nothing and tables of one batch may play by different rules. Everything about a table,
hidden cards and its generator key included, is in its record; a copy of it is a clone.

    >>> rules = pack_rules([Rules()])
    >>> tables = new_tables(3)
    >>> tables["hand"].shape
    (3, 10, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judgement_env._lanes import FEW
from judgement_env.cards import MAX_BID, NONE, NUM_CARDS
from judgement_env.rules import MAX_ROUNDS, Rules
from judgement_env.scoring import points_table

Array = NDArray[Any]
RulesRecord = Any
TableRecord = Any
# a 64-bit word, np.uint64: bit c stands for card c
Bits = Any

MAX_SEATS = 10
MAX_PACKS = 2
MAX_CARDS = 26
MAX_PACK = MAX_PACKS * NUM_CARDS
WORD_BYTES = 8
# Bids 0 to 13 made, and four ways to miss one.
MADE_BIDS = 14
SHOWN_POINTS = MADE_BIDS + 4
_BY_BID = (MAX_CARDS + 1, MAX_BID + 1, MAX_CARDS + 1)

# Values of `phase`.
BIDDING, PLAYING, SETTLED, OVER = range(4)


def make_record(fields: list[tuple[Any, ...]]) -> Any:
    """Return the dtype of records with these fields, aligned as a compiler would."""
    return np.dtype((np.record, np.dtype(fields, align=True)))


# One set of rules, as the kernels read it; `cards`, `trump` and `is_blind` by round.
RULES_RECORD = make_record(
    [
        ("num_players", "i4"),
        ("num_rounds", "i4"),
        ("packs", "i4"),
        ("suits", "i4"),
        ("ranks", "i4"),
        # 1 with the hook, bids at the same moment, a turned-up trump
        ("has_hook", "i4"),
        ("is_simultaneous", "i4"),
        ("is_turn_up", "i4"),
        # seats from one player to the next in play: 1, or num_players - 1
        ("step", "i4"),
        # a seat, or -1 = drawn
        ("first_dealer", "i4"),
        # how many points observations count as one
        ("unit", "i4"),
        # 1 / (2 * unit)
        ("half_unit_inverse", "f8"),
        # bit c set = card c is in the pack
        ("deck", "u8"),
        # every physical card, copies adjacent, and how many there are
        ("pack_size", "i4"),
        ("pack", "i1", (MAX_PACK,)),
        ("cards", "i1", (MAX_ROUNDS,)),
        # 0..3 = C D H S, 4 = no-trump, -1 = turned up
        ("trump", "i1", (MAX_ROUNDS,)),
        ("is_blind", "i1", (MAX_ROUNDS,)),
        # points[cards, bid, won]
        ("points", "i4", _BY_BID),
        # what observations show, ready to copy: cards and trumps by round, zeros after the last;
        # by cards dealt, the points of bids made and missed (see `observation.write_payoffs`)
        ("shown_cards", "u1", (MAX_ROUNDS + WORD_BYTES,)),
        ("shown_trumps", "u1", (MAX_ROUNDS + WORD_BYTES,)),
        ("shown_points", "u1", (MAX_CARDS + 1, SHOWN_POINTS)),
        ("shown_rules", "u1", (WORD_BYTES,)),
        # 16 lanes each (see `_lanes`): -1 at the seats taken, and at the first; by the seat that
        # looks, the seats after it, and the place of each seat among these; by the relative seat
        # that leads, the turn of each relative seat
        ("taken", "i1", (FEW,)),
        ("own", "i1", (FEW,)),
        ("order", "i1", (MAX_SEATS, FEW)),
        ("places", "i1", (MAX_SEATS, FEW)),
        ("turns", "i1", (MAX_SEATS, FEW)),
    ]
)

# One table. Seats from num_players on, and tricks from `cards` on, are unused. Fillers begin hands
# and deals on new lines of 64 bytes, and let 16 bytes be read where fewer are meant; being fields
# they are bytes of every copy, so that equal tables are equal bytes.
TABLE_RECORD = make_record(
    [
        # names the deals of the table together with match and round; hidden
        ("key", "u8"),
        # index into the rules array
        ("rules", "i4"),
        # matches played since the seed was set
        ("match", "i4"),
        # rounds of the schedule, from 0: the match's first, its last, the one in play; uncompiled,
        # t.round is a method that all numpy scalars have, so kernels write t["round"]
        ("first_round", "i4"),
        ("last_round", "i4"),
        ("round", "i4"),
        ("phase", "i4"),
        ("cards", "i4"),
        # as in the rules; the suit of the turned-up card once it lies there
        ("trump", "i4"),
        # card id, or -1
        ("turn_up", "i4"),
        ("is_blind", "i4"),
        ("dealer", "i4"),
        # the seat to act, -1 when none is
        ("seat", "i4"),
        # the seat that leads the trick in progress
        ("leader", "i4"),
        ("num_bids", "i4"),
        ("bid_sum", "i4"),
        # tricks finished, and cards in the trick in progress
        ("trick", "i4"),
        ("turn", "i4"),
        # suit led, best card and who played it, -1 before the lead
        ("led", "i4"),
        ("best", "i4"),
        ("winner", "i4"),
        # by seat: bid (-1 before), tricks won; bit s set = shown to lack suit s
        ("bid", "i1", (MAX_SEATS,)),
        ("won", "i1", (MAX_SEATS,)),
        ("voids", "i1", (MAX_SEATS,)),
        ("filler", "i1", (10,)),
        # by seat and word: bit c of word k set = more than k copies of card c held
        ("hand", "u8", (MAX_SEATS, MAX_PACKS)),
        # by trick: its leader
        ("leaders", "i1", (MAX_CARDS,)),
        ("filler_two", "i1", (6,)),
        # as `hand`, when it was dealt
        ("dealt", "u8", (MAX_SEATS, MAX_PACKS)),
        # by seat: total, and points of the round settled last
        ("total", "i4", (MAX_SEATS,)),
        ("points", "i4", (MAX_SEATS,)),
        # by trick: its cards in order of play from the leader, -1 = not yet
        ("plays", "i1", (MAX_CARDS, MAX_SEATS)),
        ("filler_three", "i1", (12,)),
    ]
)


def points_unit(rules: Rules) -> int:
    """Return the points that observations count as one: 1 where a bid of one is worth about 10.

    Sweeps are left out: they are rare, and would make ordinary points too small to tell apart.
    """
    points = points_table(rules.scoring, 0, rules.max_cards)
    largest = points.shape[0] - 1
    made = abs(int(points[largest, 1, 1]))
    typical = int(np.abs(points[largest, :3]).max())
    return max(1, made // 10, typical // 60)


def capped_units(points: Array, unit: int) -> Array:
    """Return points as raw values of an observation: units around 128, 0 to 255."""
    raw: Array = np.clip(128 + np.floor(points / unit + 0.5), 0, 255).astype(np.uint8)
    return raw


def shown_points(points: Array, unit: int, cards: int) -> Array:
    """Return the points of a round of `cards` as its observations show them, (18,) uint8.

    Bids 0 to 13 made, as far as there are; then those of bidding 0 and winning 1, 1 and 0, 1 and 2,
    all and one less.
    """
    values = np.zeros(SHOWN_POINTS)
    table = points[cards]
    for bid in range(min(MADE_BIDS, cards + 1)):
        values[bid] = table[bid, bid]
    values[MADE_BIDS : MADE_BIDS + 2] = table[0, 1], table[1, 0]
    if cards > 1:
        values[MADE_BIDS + 2] = table[1, 2]
    values[MADE_BIDS + 3] = table[cards, cards - 1]
    return capped_units(values, unit)


def _shown_rules(record: RulesRecord) -> list[int]:
    """Return packs, hook, simultaneous bids, 0 for a blind round, turned-up trump, suits, ranks."""
    r = record
    return [r.packs, r.has_hook, r.is_simultaneous, 0, r.is_turn_up, r.suits, r.ranks]


def pack_rules(rules: Sequence[Rules]) -> Array:
    """Return `rules` as an array (K,) of RULES_RECORD."""
    records = np.zeros(len(rules), RULES_RECORD)
    for record, r in zip(records, rules, strict=True):
        record.num_players = r.num_players
        record.num_rounds = r.num_rounds
        record.packs = r.packs
        record.suits = r.suits
        record.ranks = r.ranks
        record.has_hook = r.hook
        record.is_simultaneous = r.is_simultaneous
        record.is_turn_up = r.is_turn_up
        record.step = r.step % r.num_players
        record.first_dealer = NONE if r.first_dealer is None else r.first_dealer
        record.unit = points_unit(r)
        record.half_unit_inverse = 1 / (2 * record.unit)
        record.deck = sum(1 << card for card in set(r.pack))
        record.pack_size = len(r.pack)
        record.pack[: len(r.pack)] = r.pack
        for index, plan in enumerate(r.schedule):
            record.cards[index], record.trump[index], record.is_blind[index] = plan
        size = r.max_cards + 1
        record.points[:size, :size, :size] = r.points
        record.shown_cards[: r.num_rounds] = record.cards[: r.num_rounds]
        record.shown_trumps[: r.num_rounds] = record.trump[: r.num_rounds] + 1
        seats = np.arange(r.num_players)
        record.taken[: r.num_players] = -1
        record.own[0] = -1
        for seat in seats:
            record.order[seat, : len(seats)] = (seat + seats * record.step) % len(seats)
            record.places[seat, record.order[seat, : len(seats)]] = seats
            record.turns[seat, : len(seats)] = (seats - seat) % len(seats)
        record.shown_rules[:7] = _shown_rules(record)
        for cards in range(1, size):
            record.shown_points[cards] = shown_points(record.points, record.unit, cards)
    return records


def new_tables(num_tables: int) -> Array:
    """Return an array (N,) of TABLE_RECORD, all zero: no match has begun."""
    return np.zeros(num_tables, TABLE_RECORD)
