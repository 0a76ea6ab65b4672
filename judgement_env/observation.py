"""What a seat may know, as numbers: one table of named blocks, its encoder and its decoder.

Raw values are small unsigned integers (uint8); as float32 a value reads ``(raw - offset) / scale``
of its block, so that absent things are 0. Seats are relative: 0 is the seat that looks, 1 the next
one in the direction of play. The encoder reads nothing the seat may not know; the same layout of
`SIZE` values serves every set of rules.

    >>> SIZE
    894
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from judgement_env._jit import inside, njit, read_word, spread_bits, write_word
from judgement_env._lanes import (
    MANY,
    gaps,
    in_fours,
    lanes_at,
    picked,
    put_lanes,
    put_suits,
    spread,
    spread_suits,
    sums_above,
    where,
)
from judgement_env.cards import NO_TRUMP, NONE, NUM_CARDS, SUITS, card_text
from judgement_env.engine import (
    ONE,
    ZERO,
    card_bit,
    forbidden_bid,
    lowest,
    next_seat,
    suit_of,
)
from judgement_env.state import (
    BIDDING,
    MADE_BIDS,
    MAX_SEATS,
    PLAYING,
    SHOWN_POINTS,
    Array,
    Bits,
    RulesRecord,
    TableRecord,
)

COMING_ROUNDS = 8
# 128 in every byte
MIDDLE = np.uint64(0x8080808080808080)
ORACLE_SIZE = MAX_SEATS * NUM_CARDS


class Block(NamedTuple):
    """One named slice of an observation."""

    name: str
    shape: tuple[int, ...]
    scale: float
    offset: int
    meaning: str

    @property
    def size(self) -> int:
        """Number of values."""
        return int(np.prod(self.shape))


_CARD = (NUM_CARDS,)
_SEAT = (MAX_SEATS,)

BLOCKS: tuple[Block, ...] = (
    Block("hand", _CARD, 1, 0, "copies of each card in the seat's own hand"),
    Block(
        "strength",
        _CARD,
        13,
        0,
        "of each card held, 13 minus the unseen higher cards of its suit: 13 = none is higher",
    ),
    Block("table", _CARD, 1, 0, "copies of each card lying in the trick in progress"),
    Block(
        "gone",
        (MAX_SEATS, NUM_CARDS),
        1,
        0,
        "copies of each card that each relative seat has played this round, this trick included",
    ),
    Block("void", (MAX_SEATS, 4), 1, 0, "1 = the relative seat has shown that it lacks the suit"),
    Block("trick_rank", _SEAT, 13, 0, "card of each relative seat in this trick: rank + 1"),
    Block("trick_suit", _SEAT, 4, 0, "card of each relative seat in this trick: suit + 1"),
    Block("winning", _SEAT, 1, 0, "1 = the relative seat is winning the trick in progress"),
    Block("bid_made", _SEAT, 1, 0, "1 = the bid of the relative seat is known to this seat"),
    Block("bid", _SEAT, 7, 0, "the known bid of each relative seat"),
    Block("won", _SEAT, 7, 0, "tricks each relative seat has won"),
    Block("need", _SEAT, 7, 0, "tricks each relative seat still needs for its known bid"),
    Block("lost", _SEAT, 1, 0, "1 = the relative seat can no longer make its known bid"),
    Block("seated", _SEAT, 1, 0, "1 = somebody sits in the relative seat"),
    Block("leader", _SEAT, 1, 0, "1 = the relative seat leads the trick in progress"),
    Block("dealer", _SEAT, 1, 0, "1 = the relative seat deals this round"),
    Block("trump", (5,), 1, 0, "one of clubs, diamonds, hearts, spades, no-trump"),
    Block("led", (4,), 1, 0, "the suit led, all 0 before the lead"),
    Block("turn_up", (1,), 13, 0, "turned-up card: rank + 1, its suit is the trump; 0 = none"),
    Block("bid_sum", (1,), 7, 0, "sum of the known bids"),
    Block("forbidden_bid", (1,), 7, 0, "the bid the hook takes from the seat to act + 1; 0 = none"),
    Block("phase", (2,), 1, 0, "bidding, playing; both 0 when the match is over"),
    Block("cards", (1,), 7, 0, "cards dealt to each seat this round"),
    Block("tricks_left", (1,), 7, 0, "tricks not finished yet"),
    Block("total", _SEAT, 32, 128, "total of each relative seat minus the own, in units, capped"),
    Block("rounds_left", (1,), 8, 0, "rounds of the match after this one"),
    Block("coming_cards", (COMING_ROUNDS,), 7, 0, "cards of the next eight rounds"),
    Block(
        "coming_trump",
        (COMING_ROUNDS,),
        5,
        0,
        "trumps of the next eight rounds: suit + 1, 5 = no-trump, 0 = turned up or no round",
    ),
    Block(
        "rules",
        (7,),
        1,
        0,
        "packs, hook, simultaneous bids, blind round, turned-up trump, suits, ranks",
    ),
    Block(
        "made_points",
        (MADE_BIDS,),
        32,
        128,
        "points of bids 0 to 13 when made in this round, in units, capped",
    ),
    Block(
        "missed_points",
        (4,),
        32,
        128,
        "points, in units, of bidding 0 and winning 1, 1 and 0, 1 and 2, all and one less",
    ),
)

SLICES: dict[str, slice] = {}
_start = 0
for _block in BLOCKS:
    SLICES[_block.name] = slice(_start, _start + _block.size)
    _start += _block.size
SIZE: int = _start
SCALE: Array = np.concatenate([np.full(b.size, b.scale, np.float32) for b in BLOCKS])  # (SIZE,)
OFFSET: Array = np.concatenate([np.full(b.size, b.offset, np.float32) for b in BLOCKS])  # (SIZE,)


def layout_hash() -> str:
    """Return a short hash of the layout of observations; models carry it."""
    text = repr([(b.name, b.shape, b.scale, b.offset) for b in BLOCKS])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# Where each block starts, as constants of the kernels.
AT_HAND = SLICES["hand"].start
AT_STRENGTH = SLICES["strength"].start
AT_TABLE = SLICES["table"].start
AT_GONE = SLICES["gone"].start
AT_VOID = SLICES["void"].start
AT_TRICK_RANK = SLICES["trick_rank"].start
AT_TRICK_SUIT = SLICES["trick_suit"].start
AT_WINNING = SLICES["winning"].start
AT_BID_MADE = SLICES["bid_made"].start
AT_BID = SLICES["bid"].start
AT_WON = SLICES["won"].start
AT_NEED = SLICES["need"].start
AT_LOST = SLICES["lost"].start
AT_SEATED = SLICES["seated"].start
AT_LEADER = SLICES["leader"].start
AT_DEALER = SLICES["dealer"].start
AT_TRUMP = SLICES["trump"].start
AT_LED = SLICES["led"].start
AT_TURN_UP = SLICES["turn_up"].start
AT_BID_SUM = SLICES["bid_sum"].start
AT_FORBIDDEN = SLICES["forbidden_bid"].start
AT_PHASE = SLICES["phase"].start
AT_CARDS = SLICES["cards"].start
AT_TRICKS_LEFT = SLICES["tricks_left"].start
AT_TOTAL = SLICES["total"].start
AT_ROUNDS_LEFT = SLICES["rounds_left"].start
AT_COMING_CARDS = SLICES["coming_cards"].start
AT_COMING_TRUMP = SLICES["coming_trump"].start
AT_RULES = SLICES["rules"].start
AT_MADE = SLICES["made_points"].start
AT_MISSED = SLICES["missed_points"].start


# --- what a seat knows ------------------------------------------------------------------------


@inside
def knows_hand(t: TableRecord) -> bool:
    """Return whether a seat may look at its own cards: not before the bids of a blind round."""
    return not (t.is_blind and t.phase == BIDDING)


@inside
def knows_bid(r: RulesRecord, t: TableRecord, viewer: int, seat: int) -> bool:
    """Return whether `viewer` knows the bid of `seat`: made, and shown if bids are simultaneous."""
    if t.bid[seat] == NONE:
        return False
    return seat == viewer or not (r.is_simultaneous and t.phase == BIDDING)


@inside
def gone_word(t: TableRecord, seat: int, word: int) -> Bits:
    """Return one word of the cards a seat has played; a second copy stands in a second word."""
    k = np.uintp(seat)
    return t.dealt[k, word] ^ t.hand[k, word]


@inside
def more_seen(once: Bits, twice: Bits, cards: Bits) -> tuple[Bits, Bits]:
    """Return the cards seen with one copy or more, and with two, `cards` added to those before."""
    return once | cards, twice | once & cards


@inside
def unseen(r: RulesRecord, once: Bits, twice: Bits) -> tuple[Bits, Bits]:
    """Return the cards with one copy or more unseen, and with two, by those seen."""
    if r.packs == 1:
        return r.deck & ~once, ZERO
    return r.deck & ~twice, r.deck & ~once


@njit
def unseen_words(r: RulesRecord, t: TableRecord, viewer: int) -> tuple[Bits, Bits]:
    """Return the cards `viewer` has not seen: with one copy or more unseen, and with two."""
    once = ZERO
    twice = ZERO
    if t.turn_up != NONE:
        once = card_bit(t.turn_up)
    for word in range(r.packs):
        if knows_hand(t):
            once, twice = more_seen(once, twice, t.hand[viewer, word])
        for seat in range(r.num_players):
            once, twice = more_seen(once, twice, gone_word(t, seat, word))
    return unseen(r, once, twice)


@inside
def relative(r: RulesRecord, viewer: int, seat: int) -> int:
    """Return how many seats after `viewer` a seat is, in the direction of play."""
    return int(r.places[np.uintp(viewer), np.uintp(seat)])


# --- encode -----------------------------------------------------------------------------------


@inside
def put(out: Array, index: int, value: int) -> None:
    """Write ``out[index]``; unsigned, the index needs no code for negative ones."""
    out[np.uintp(index)] = value


@inside
def count_cards(bits: Bits, out: Array, start: int) -> None:
    """Count one more of each card in `bits`."""
    while bits:
        out[start + lowest(bits)] += 1
        bits &= bits - ONE


@inside
def encode_cards(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write the own hand, the trick in progress, what each seat has played, and strengths."""
    order = r.order[np.uintp(viewer)]
    held = t.hand[np.uintp(viewer), 0] if knows_hand(t) else ZERO
    put_lanes(out, AT_HAND, spread(held))
    encode_table(r, t, out)
    once = held
    twice = ZERO
    if t.turn_up != NONE:
        once, twice = more_seen(once, twice, card_bit(t.turn_up))
    for rel_seat in range(r.num_players):
        gone = gone_word(t, order[np.uintp(rel_seat)], 0)
        once, twice = more_seen(once, twice, gone)
        put_lanes(out, AT_GONE + rel_seat * NUM_CARDS, spread(gone))
    # No seats, no cards: zeros, but the compiler would make a slow call of them if it knew.
    nothing = r.deck >> np.uint64(NUM_CARDS)
    for start in range(AT_GONE + r.num_players * NUM_CARDS, AT_VOID, 2 * MANY):
        put_lanes(out, start, spread(nothing))
        put_lanes(out, start + MANY, spread(nothing))
    if r.packs == 2:
        held_twice = t.hand[np.uintp(viewer), 1] if knows_hand(t) else ZERO
        count_cards(held_twice, out, AT_HAND)
        once, twice = more_seen(once, twice, held_twice)
        for rel_seat in range(r.num_players):
            gone = gone_word(t, order[np.uintp(rel_seat)], 1)
            once, twice = more_seen(once, twice, gone)
            count_cards(gone, out, AT_GONE + rel_seat * NUM_CARDS)
    encode_strength(r, held, once, twice, out)


@inside
def encode_strength(r: RulesRecord, held: Bits, once: Bits, twice: Bits, out: Array) -> None:
    """Write the strength of the cards held, by those seen with one copy and with two."""
    # All cards at once: a loop over those held takes as long, and ends where nobody could guess.
    once, twice = unseen(r, once, twice)
    copies = spread_suits(once)
    if r.packs == 2:
        copies = copies + spread_suits(twice)
    higher = sums_above(copies)
    strength = 13 - where(higher > 12, 12, higher)
    put_suits(out, AT_STRENGTH, where(spread_suits(held) != 0, strength, 0))


@inside
def encode_table(r: RulesRecord, t: TableRecord, out: Array) -> None:
    """Write the cards of the trick in progress."""
    once = ZERO
    twice = ZERO
    if t.phase == BIDDING or t.phase == PLAYING:
        plays = t.plays[np.uintp(t.trick)]
        # All ten, for nobody could guess how many were played; NONE is a bit beyond the cards.
        for turn in range(MAX_SEATS):
            bit = ONE << np.uint64(plays[np.uintp(turn)] & 63)
            if r.packs == 2:
                twice |= once & bit
            once |= bit
    put_lanes(out, AT_TABLE, spread(once))
    if r.packs == 2:
        # The bit of no card is not in the pack.
        count_cards(twice & r.deck, out, AT_TABLE)


@inside
def encode_trick(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write who leads the trick in progress, who played what, and who is winning."""
    taken = lanes_at(r.taken, 0)
    put_lanes(out, AT_TRICK_RANK, taken & 0)
    put_lanes(out, AT_TRICK_SUIT, taken & 0)
    put_lanes(out, AT_WINNING, taken & 0)
    if t.phase != BIDDING and t.phase != PLAYING:
        return
    rel_leader = relative(r, viewer, int(t.leader))
    turns = lanes_at(r.turns[np.uintp(rel_leader)], 0)
    cards = lanes_at(t.plays[np.uintp(t.trick)], 0)
    is_played = cards != NONE
    suit = where(cards > 12, 1, 0) + where(cards > 25, 1, 0) + where(cards > 38, 1, 0)
    below = where(cards > 12, 13, 0) + where(cards > 25, 13, 0) + where(cards > 38, 13, 0)
    put_lanes(out, AT_TRICK_RANK, picked(where(is_played, cards - below + 1, 0), turns) & taken)
    put_lanes(out, AT_TRICK_SUIT, picked(where(is_played, suit + 1, 0), turns) & taken)
    winner = int(t.winner)
    put(out, AT_WINNING + relative(r, viewer, max(0, winner)), int(winner != NONE))


@inside
def encode_seats(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write what is known of each seat's bid and tricks; zeros from there on."""
    taken = lanes_at(r.taken, 0)
    order = lanes_at(r.order[np.uintp(viewer)], 0)
    is_known = taken != 0
    bid_sum = int(t.bid_sum)
    if r.is_simultaneous and t.phase == BIDDING:
        is_known = lanes_at(r.own, 0) != 0
        bid_sum = max(0, int(t.bid[viewer]))
    bid = picked(lanes_at(t.bid, 0), order)
    won = picked(lanes_at(t.won, 0), order) & taken
    is_known = is_known & (bid != NONE)
    need = where(is_known, bid - won, 0)
    put_lanes(out, AT_BID_MADE, where(is_known, 1, 0))
    put_lanes(out, AT_BID, where(is_known, bid, 0))
    put_lanes(out, AT_WON, won)
    put_lanes(out, AT_NEED, where(need > 0, need, 0))
    put_lanes(out, AT_LOST, where((need < 0) | (need > t.cards - t.trick), 1, 0))
    put_lanes(out, AT_SEATED, taken & 1)
    put_lanes(out, AT_LEADER, spread(ZERO))
    put(out, AT_BID_SUM, bid_sum)


@inside
def encode_totals(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write the seats' totals beside the own."""
    own = int(t.total[np.uintp(viewer)])
    if r.unit == 1:
        taken = lanes_at(r.taken, 0)
        order = lanes_at(r.order[np.uintp(viewer)], 0)
        put_lanes(out, AT_TOTAL, where(taken != 0, picked(gaps(t.total, own), order), -128))
        return
    write_word(out, AT_TOTAL, MIDDLE)
    write_word(out, AT_TOTAL + MAX_SEATS - 8, MIDDLE)
    seat = viewer
    for rel_seat in range(r.num_players):
        gap = int(t.total[np.uintp(seat)]) - own
        put(out, AT_TOTAL + rel_seat, shown_difference(r, gap))
        seat = next_seat(r, t, seat)


@inside
def shown_difference(r: RulesRecord, points: int) -> int:
    """Return a difference of points as a raw value: rounded to units, around 128."""
    # ``points / unit`` to the nearest, halves up: the half in the sum keeps the product, a
    # quarter of the quotient's time, clear of the whole numbers at which it could err.
    number = int(np.floor((2 * points + r.unit + 0.5) * r.half_unit_inverse))
    return min(255, max(0, 128 + number))


@inside
def encode_round(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write leader, dealer, trump, phase, hook and what is to come in the match."""
    is_bidding, is_playing = t.phase == BIDDING, t.phase == PLAYING
    put(out, AT_LEADER + relative(r, viewer, int(t.leader)), int(is_bidding | is_playing))
    put(out, AT_DEALER + relative(r, viewer, int(t.dealer)), 1)
    put(out, AT_TRUMP + t.trump, 1)
    put(out, AT_LED + max(0, t.led), int(t.led != NONE))
    if t.turn_up != NONE:
        put(out, AT_TURN_UP, int(t.turn_up) - 13 * suit_of(int(t.turn_up)) + 1)
    forbidden = forbidden_bid(r, t)
    put(out, AT_FORBIDDEN, forbidden + 1 if is_bidding else 0)
    put(out, AT_PHASE, int(is_bidding))
    put(out, AT_PHASE + 1, int(is_playing))
    put(out, AT_CARDS, t.cards)
    put(out, AT_TRICKS_LEFT, t.cards - t.trick)
    coming = int(t["round"]) + 1
    rounds_left = t.last_round - t["round"]
    put(out, AT_ROUNDS_LEFT, min(255, rounds_left))
    cards, trumps = read_word(r.shown_cards, coming), read_word(r.shown_trumps, coming)
    if t.last_round != r.num_rounds - 1:
        # Rounds of the schedule after the last one of this match are not to come.
        beyond = 8 * max(0, COMING_ROUNDS - rounds_left)
        cards, trumps = first_bytes(cards, beyond), first_bytes(trumps, beyond)
    write_word(out, AT_COMING_CARDS, cards)
    write_word(out, AT_COMING_TRUMP, trumps)


@inside
def first_bytes(word: Bits, beyond: int) -> Bits:
    """Return a word with its `beyond` highest bits, an even number up to 64, cleared."""
    half = np.uint64(beyond >> 1)
    return (((word << half) << half) >> half) >> half


@inside
def encode_rules(r: RulesRecord, t: TableRecord, out: Array) -> None:
    """Write the rules that matter for this round, payoffs above all."""
    write_word(out, AT_RULES, read_word(r.shown_rules, 0))
    put(out, AT_RULES + 3, t.is_blind)
    shown = r.shown_points[np.uintp(t.cards)]
    put_lanes(out, AT_MADE, lanes_at(shown, 0))
    # Overlapping the one before, for a row ends here.
    write_word(out, AT_MADE + SHOWN_POINTS - 8, read_word(shown, SHOWN_POINTS - 8))


@njit
def encode(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write what `viewer` knows of a table into `out` (SIZE,) uint8.

    Blocks are written 16 or 64 bytes at a time, in ascending order, so that what one writes past
    its end is written over by the next; strengths come after their neighbours and fit exactly.
    """
    viewer = int(viewer)
    encode_cards(r, t, viewer, out)
    order = lanes_at(r.order[np.uintp(viewer)], 0)
    voids = picked(lanes_at(t.voids, 0), order) & lanes_at(r.taken, 0)
    put_lanes(out, AT_VOID, in_fours(voids))
    encode_trick(r, t, viewer, out)
    encode_seats(r, t, viewer, out)
    encode_totals(r, t, viewer, out)
    encode_round(r, t, viewer, out)
    encode_rules(r, t, out)


@njit
def encode_oracle(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write every hand, hidden ones included, by relative seat into `out` (ORACLE_SIZE,)."""
    out[:] = 0
    seat = int(viewer)
    for rel_seat in range(r.num_players):
        start = rel_seat * NUM_CARDS
        # The last of ten seats has no room for 64 values.
        if rel_seat < MAX_SEATS - 1:
            spread_bits(out, start, t.hand[seat, 0])
        else:
            count_cards(t.hand[seat, 0], out, start)
        if r.packs == 2:
            count_cards(t.hand[seat, 1], out, start)
        seat = next_seat(r, t, seat)


def as_float(raw: Array, out: Array | None = None) -> Array:
    """Return raw observations (..., SIZE) uint8 as float32, ``(raw - offset) / scale``."""
    out = np.subtract(raw, OFFSET, out=out, dtype=np.float32)
    out /= SCALE
    return out


# --- decode -----------------------------------------------------------------------------------


def blocks(observation: Array) -> dict[str, Array]:
    """Return the raw values of each block by name, shaped; takes a uint8 or float32 row."""
    raw = np.asarray(observation)
    if raw.shape != (SIZE,):
        raise ValueError(f"observation: shape {raw.shape} is not ({SIZE},)")
    if raw.dtype != np.uint8:
        raw = np.rint(raw * SCALE + OFFSET).astype(np.uint8)
    return {block.name: raw[SLICES[block.name]].reshape(block.shape) for block in BLOCKS}


def _cards_of(counts: Array) -> list[str]:
    return [card_text(c) for c in range(NUM_CARDS) for _ in range(int(counts[c]))]


def _place(flags: Array) -> int | None:
    return int(flags.argmax()) if flags.any() else None


def decode(observation: Array) -> dict[str, object]:
    """Return what an observation says in words: cards as text, seats relative, None = unknown.

    Raises ValueError for a row of another size.
    """
    part = blocks(observation)
    seats = range(int(part["seated"].sum()))
    trump = int(part["trump"].argmax())
    led = _place(part["led"])
    turn_up = int(part["turn_up"][0])
    forbidden = int(part["forbidden_bid"][0])
    is_known = part["bid_made"]
    ranks, suits = part["trick_rank"].astype(int), part["trick_suit"].astype(int)
    names = ("packs", "hook", "simultaneous", "blind", "turn_up", "suits", "ranks")
    return {
        "num_players": len(seats),
        "phase": "bid" if part["phase"][0] else "play" if part["phase"][1] else "over",
        "cards": int(part["cards"][0]),
        "tricks_left": int(part["tricks_left"][0]),
        "trump": None if trump == NO_TRUMP else SUITS[trump],
        "turn_up": card_text(trump * 13 + turn_up - 1) if turn_up else None,
        "hand": _cards_of(part["hand"]),
        "led": None if led is None else SUITS[led],
        "trick": [
            card_text((suits[s] - 1) * 13 + ranks[s] - 1) if suits[s] else None for s in seats
        ],
        "leader": _place(part["leader"]),
        "winning": _place(part["winning"]),
        "dealer": _place(part["dealer"]),
        "gone": [_cards_of(part["gone"][s]) for s in seats],
        "void": ["".join(SUITS[x] for x in range(4) if part["void"][s, x]) for s in seats],
        "bids": [int(part["bid"][s]) if is_known[s] else None for s in seats],
        "won": [int(part["won"][s]) for s in seats],
        "need": [int(part["need"][s]) if is_known[s] else None for s in seats],
        "forbidden_bid": forbidden - 1 if forbidden else None,
        "total_gaps": [int(part["total"][s]) - 128 for s in seats],
        "rounds_left": int(part["rounds_left"][0]),
        "coming_cards": [int(c) for c in part["coming_cards"] if c],
        "rules": {name: int(value) for name, value in zip(names, part["rules"], strict=True)},
    }
