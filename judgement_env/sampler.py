"""Worlds dealt in compiled code: hidden hands that fit what a seat knows, each deal equally likely.

Every unseen card may be with any other seat or in the undealt stock; hand sizes and shown voids
hold. Hands with voids are dealt suit by suit from exact counts of all deals, no deal is tried and
thrown away. What goes in is a table stripped of all that the seat may not know, so nothing hidden
can come out. `worlds` is the slow counterpart; `View.sample_worlds` is the way in.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from judgement_env._jit import njit
from judgement_env.cards import NONE
from judgement_env.engine import (
    HALF,
    ONE,
    ZERO,
    card_bit,
    lowest,
    mix,
    popcount,
    scaled_down,
    suit_mask,
)
from judgement_env.observation import knows_bid, knows_hand, unseen_words
from judgement_env.state import (
    MAX_PACK,
    MAX_SEATS,
    Array,
    Bits,
    RulesRecord,
    TableRecord,
    make_record,
)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# A random word's upper 53 bits, as a number from 0 up to 1.
FRACTION = 2.0**-53
LOW_BITS = np.uint64(11)
# CHOOSE[n, k] = n! / (k! (n - k)!); 0 where k > n
CHOOSE: Array = np.array(
    [[float(comb(n, k)) for k in range(MAX_PACK + 1)] for n in range(MAX_PACK + 1)]
)

WorldsRecord = Any
# What is known of the hidden cards of one table: made once by `count_worlds`, then dealt from.
WORLDS_RECORD = make_record(
    [
        # unseen cards, copies side by side, suit after suit; where each suit starts
        ("num_unseen", "i4"),
        ("start", "i4", (5,)),
        ("unseen", "i1", (MAX_PACK,)),
        # by seat: unseen cards it holds, and the group it belongs to, -1 = has no voids
        ("hidden", "i4", (MAX_SEATS,)),
        ("group", "i4", (MAX_SEATS,)),
        # seats with the same voids are a group; those with most voids first: cards they hold
        # together, their voids, how many cards of each suit the groups before can have taken,
        # and where in `ways` the group starts
        ("num_groups", "i4"),
        ("held", "i4", (MAX_SEATS,)),
        ("voids", "i4", (MAX_SEATS,)),
        ("taken", "i4", (MAX_SEATS, 4)),
        ("first", "i4", (MAX_SEATS,)),
        # the number of ways to deal all groups
        ("total", "f8"),
    ]
)

# --- what a seat does not know ----------------------------------------------------------------


@njit
def strip(r: RulesRecord, t: TableRecord, viewer: int) -> None:
    """Remove from a table all that `viewer` may not know.

    Cards as dealt shrink to those played, a first copy always in the first word: which of two
    copies a seat has played would tell whether it holds the other.
    """
    t.key = ZERO
    for seat in range(r.num_players):
        if seat == viewer and knows_hand(t):
            continue
        first = t.dealt[seat, 0] ^ t.hand[seat, 0]
        second = t.dealt[seat, 1] ^ t.hand[seat, 1]
        t.dealt[seat, 0] = first | second
        t.dealt[seat, 1] = first & second
        t.hand[seat, 0] = ZERO
        t.hand[seat, 1] = ZERO
    t.bid_sum = 0
    for seat in range(r.num_players):
        if not knows_bid(r, t, viewer, seat):
            t.bid[seat] = NONE
        else:
            t.bid_sum += t.bid[seat]


# --- counting ---------------------------------------------------------------------------------


@njit
def count_worlds(r: RulesRecord, t: TableRecord, viewer: int, s: WorldsRecord) -> Array:
    """Take stock of what is hidden at a stripped table; return the ways to deal what is left.

    `s` is a WORLDS_RECORD to write to. The ways (W,) float64 are counted only where three groups
    of seats or more have voids; fewer need no table.
    """
    write_unseen(r, t, viewer, s)
    write_groups(r, t, viewer, s)
    size = 0
    for g in range(1, s.num_groups - 1):
        s.first[g] = size
        size += (s.taken[g, 0] + 1) * (s.taken[g, 1] + 1) * (s.taken[g, 2] + 1)
    ways = np.zeros(size)
    for g in range(s.num_groups - 2, 0, -1):
        write_ways(s, g, ways)
    s.total = 0.0
    if s.num_groups > 0:
        s.total = count_ways(s, 0, 0, 0, 0, 0, ways)
    return ways


@njit
def write_unseen(r: RulesRecord, t: TableRecord, viewer: int, s: WorldsRecord) -> None:
    """Write the unseen cards, suit after suit."""
    once, twice = unseen_words(r, t, viewer)
    number = 0
    for suit in range(4):
        s.start[suit] = number
        bits = once & suit_mask(suit)
        while bits:
            card = lowest(bits)
            bits &= bits - ONE
            s.unseen[number] = card
            number += 1
            if twice & card_bit(card):
                s.unseen[number] = card
                number += 1
    s.start[4] = number
    s.num_unseen = number


@njit
def write_groups(r: RulesRecord, t: TableRecord, viewer: int, s: WorldsRecord) -> None:
    """Write the hidden hands, and the groups of seats that share their voids."""
    for seat in range(r.num_players):
        s.group[seat] = NONE
        s.hidden[seat] = 0
        if seat != viewer or not knows_hand(t):
            gone = popcount(t.dealt[seat, 0]) + popcount(t.dealt[seat, 1])
            s.hidden[seat] = t.cards - gone
    number = 0
    before = 0
    for num_voids in range(4, 0, -1):
        for seat in range(r.num_players):
            if s.hidden[seat] == 0 or s.group[seat] != NONE:
                continue
            voids = open_voids(t, s, seat)
            if voids_in(voids) != num_voids:
                continue
            held = 0
            for other in range(seat, r.num_players):
                if s.hidden[other] > 0 and open_voids(t, s, other) == voids:
                    s.group[other] = number
                    held += s.hidden[other]
            s.held[number] = held
            s.voids[number] = voids
            for suit in range(4):
                most = 0
                for g in range(number):
                    if not (s.voids[g] >> suit) & 1:
                        most += s.held[g]
                s.taken[number, suit] = min(most, s.start[suit + 1] - s.start[suit])
            before += held
            number += 1
    s.num_groups = number


@njit
def open_voids(t: TableRecord, s: WorldsRecord, seat: int) -> int:
    """Return the shown voids of a seat in suits of which cards are unseen: others say nothing."""
    voids = 0
    for suit in range(4):
        if s.start[suit + 1] > s.start[suit]:
            voids |= int(t.voids[seat]) & (1 << suit)
    return voids


@njit
def voids_in(voids: int) -> int:
    """Return the number of suits in a set of voids."""
    return (voids & 1) + (voids >> 1 & 1) + (voids >> 2 & 1) + (voids >> 3 & 1)


@njit
def room(s: WorldsRecord, g: int, suit: int, taken: int) -> int:
    """Return how many cards of a suit group `g` may be dealt when `taken` of it are gone."""
    if (s.voids[g] >> suit) & 1:
        return 0
    return int(s.start[suit + 1] - s.start[suit] - taken)


@njit
def ways_from(s: WorldsRecord, g: int, c: int, d: int, h: int, p: int, ways: Array) -> float:
    """Return the ways to deal the groups from `g` on, c d h p cards of the four suits gone."""
    last = s.num_groups - 1
    if g > last:
        return 1.0
    if g == last:
        free = room(s, g, 0, c) + room(s, g, 1, d) + room(s, g, 2, h) + room(s, g, 3, p)
        return float(CHOOSE[free, s.held[g]])
    place = (c * (s.taken[g, 1] + 1) + d) * (s.taken[g, 2] + 1) + h
    return float(ways[s.first[g] + place])


@njit
def count_ways(s: WorldsRecord, g: int, c: int, d: int, h: int, p: int, ways: Array) -> float:
    """Count `ways_from` group `g` on: every split of its cards over its suits."""
    if g == s.num_groups - 1:
        return ways_from(s, g, c, d, h, p, ways)
    held = int(s.held[g])
    clubs, diamonds = room(s, g, 0, c), room(s, g, 1, d)
    hearts, spades = room(s, g, 2, h), room(s, g, 3, p)
    total = 0.0
    for i in range(min(clubs, held) + 1):
        for j in range(min(diamonds, held - i) + 1):
            rest = held - i - j
            for k in range(max(0, rest - spades), min(hearts, rest) + 1):
                number = CHOOSE[clubs, i] * CHOOSE[diamonds, j] * CHOOSE[hearts, k]
                number *= CHOOSE[spades, rest - k]
                total += number * ways_from(s, g + 1, c + i, d + j, h + k, p + rest - k, ways)
    return total


@njit
def write_ways(s: WorldsRecord, g: int, ways: Array) -> None:
    """Count the ways from group `g` on, whatever the groups before it have taken."""
    gone = 0
    for before in range(g):
        gone += int(s.held[before])
    place = int(s.first[g])
    for c in range(s.taken[g, 0] + 1):
        for d in range(s.taken[g, 1] + 1):
            for h in range(s.taken[g, 2] + 1):
                p = gone - c - d - h
                if 0 <= p <= s.taken[g, 3]:
                    ways[place] = count_ways(s, g, c, d, h, p, ways)
                place += 1


# --- drawing ----------------------------------------------------------------------------------


@njit
def fraction(state: Bits) -> float:
    """Return a number from 0 up to 1 drawn from the state of a generator."""
    return float(np.float64(mix(state) >> LOW_BITS) * FRACTION)


@njit
def draw_split(
    s: WorldsRecord, g: int, gone: Array, ways: Array, state: Bits, split: Array
) -> None:
    """Draw how many cards of each suit group `g` holds, each split as often as deals have it."""
    held = int(s.held[g])
    c, d, h, p = int(gone[0]), int(gone[1]), int(gone[2]), int(gone[3])
    clubs, diamonds = room(s, g, 0, c), room(s, g, 1, d)
    hearts, spades = room(s, g, 2, h), room(s, g, 3, p)
    total = s.total if g == 0 else ways_from(s, g, c, d, h, p, ways)
    target = fraction(state) * total
    for i in range(min(clubs, held) + 1):
        for j in range(min(diamonds, held - i) + 1):
            rest = held - i - j
            for k in range(max(0, rest - spades), min(hearts, rest) + 1):
                number = CHOOSE[clubs, i] * CHOOSE[diamonds, j] * CHOOSE[hearts, k]
                number *= CHOOSE[spades, rest - k]
                number *= ways_from(s, g + 1, c + i, d + j, h + k, p + rest - k, ways)
                if number > 0.0:
                    split[0], split[1], split[2], split[3] = i, j, k, rest - k
                    target -= number
                    if target < 0.0:
                        return


@njit
def take(cards: Array, first: int, end: int, word: Bits) -> int:
    """Move one of ``cards[first:end]``, each as likely, to the front and return it."""
    place = first + scaled_down(word, end - first)
    card = int(cards[place])
    cards[place] = cards[first]
    cards[first] = card
    return card


@njit
def add_card(t: TableRecord, seat: int, card: int) -> None:
    """Put a card into a hand."""
    bit = card_bit(card)
    t.hand[seat, 1] |= t.hand[seat, 0] & bit
    t.hand[seat, 0] |= bit


@njit
def deal_hand(
    t: TableRecord, seat: int, number: int, cards: Array, first: int, end: int, state: Bits
) -> Bits:
    """Deal a seat `number` of ``cards[first:end]``, moved to the front; return the new state."""
    word = ZERO
    for k in range(number):
        if k & 1:
            word >>= HALF
        else:
            state += GOLDEN
            word = mix(state)
        add_card(t, seat, take(cards, first + k, end, word))
    return state


@njit
def deal_group(
    r: RulesRecord, t: TableRecord, s: WorldsRecord, g: int, cards: Array, state: Bits
) -> Bits:
    """Deal the cards of a group, `cards` (held,), to its seats."""
    first = 0
    for seat in range(r.num_players):
        if s.group[seat] == g:
            number = int(s.hidden[seat])
            state = deal_hand(t, seat, number, cards, first, int(s.held[g]), state)
            first += number
    return state


@njit
def deal_bound(
    r: RulesRecord, t: TableRecord, s: WorldsRecord, ways: Array, gone: Array, state: Bits
) -> Bits:
    """Deal the hands with voids; write what they took of each suit into `gone` (4,)."""
    cards = np.empty(MAX_PACK, np.int8)
    split = np.zeros(4, np.int64)
    for g in range(s.num_groups):
        state += GOLDEN
        number = 0
        if g == s.num_groups - 1:
            # The last group takes any of the cards open to it.
            state = draw_last(s, g, gone, state, cards)
        else:
            draw_split(s, g, gone, ways, state, split)
            for suit in range(4):
                for _ in range(split[suit]):
                    state += GOLDEN
                    first = int(s.start[suit] + gone[suit])
                    cards[number] = take(s.unseen, first, int(s.start[suit + 1]), mix(state))
                    gone[suit] += 1
                    number += 1
        state = deal_group(r, t, s, g, cards, state)
    return state


@njit
def draw_last(s: WorldsRecord, g: int, gone: Array, state: Bits, cards: Array) -> Bits:
    """Draw the cards of the last group from all suits it may hold alike."""
    for number in range(s.held[g]):
        free = 0
        for suit in range(4):
            free += room(s, g, suit, int(gone[suit]))
        state += GOLDEN
        place = scaled_down(mix(state), free)
        suit = 0
        while place >= room(s, g, suit, int(gone[suit])):
            place -= room(s, g, suit, int(gone[suit]))
            suit += 1
        first = int(s.start[suit] + gone[suit])
        card = s.unseen[first + place]
        s.unseen[first + place] = s.unseen[first]
        s.unseen[first] = card
        cards[number] = card
        gone[suit] += 1
    return state


@njit
def deal_world(r: RulesRecord, t: TableRecord, s: WorldsRecord, ways: Array, state: Bits) -> Bits:
    """Deal all hidden hands at a stripped table that `count_worlds` has seen.

    Cards as dealt become those held and those played. Returns the generator's new state: equal
    states, and equal knowledge, give equal worlds.
    """
    if s.num_groups == 0:
        first = 0
        for seat in range(r.num_players):
            number = int(s.hidden[seat])
            state = deal_hand(t, seat, number, s.unseen, first, int(s.num_unseen), state)
            first += number
    else:
        state = deal_both(r, t, s, ways, state)
    for seat in range(r.num_players):
        if s.hidden[seat] > 0:
            once, twice = t.hand[seat, 0], t.hand[seat, 1]
            gone = t.dealt[seat, 0]
            t.dealt[seat, 1] |= twice | once & gone
            t.dealt[seat, 0] = once | gone
    return state


@njit
def deal_both(r: RulesRecord, t: TableRecord, s: WorldsRecord, ways: Array, state: Bits) -> Bits:
    """Deal the hands with voids, then the others from what is left."""
    gone = np.zeros(4, np.int64)
    state = deal_bound(r, t, s, ways, gone, state)
    rest = np.empty(MAX_PACK, np.int8)
    number = 0
    for suit in range(4):
        for place in range(s.start[suit] + gone[suit], s.start[suit + 1]):
            rest[number] = s.unseen[place]
            number += 1
    first = 0
    for seat in range(r.num_players):
        if s.group[seat] == NONE:
            size = int(s.hidden[seat])
            state = deal_hand(t, seat, size, rest, first, number, state)
            first += size
    return state


@njit
def sample_tables(
    rules: Array,
    tables: Array,
    viewer: int,
    state: Bits,
    stock: Array,
    worlds: Array,
) -> Bits:
    """Write worlds of row 0 as `viewer` sees it into `worlds` (W,) TABLE_RECORD.

    `stock` (1,) WORLDS_RECORD is room to work in. Returns the generator's new state.
    """
    r = rules[0]
    for k in range(worlds.shape[0]):
        worlds[k] = tables[0]
        strip(r, worlds[k], viewer)
        if k == 0:
            ways = count_worlds(r, worlds[0], viewer, stock[0])
        state = deal_world(r, worlds[k], stock[0], ways, state)
    return state
