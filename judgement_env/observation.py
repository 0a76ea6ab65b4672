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

from judgement_env._jit import njit, read_word, spread_bits, write_word
from judgement_env.cards import NO_TRUMP, NONE, NUM_CARDS, SUITS, card_text
from judgement_env.engine import (
    ONE,
    ZERO,
    forbidden_bid,
    lowest,
    next_seat,
    popcount,
    suit_mask,
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


@njit
def knows_hand(t: TableRecord) -> bool:
    """Return whether a seat may look at its own cards: not before the bids of a blind round."""
    return not (t.is_blind and t.phase == BIDDING)


@njit
def knows_bid(r: RulesRecord, t: TableRecord, viewer: int, seat: int) -> bool:
    """Return whether `viewer` knows the bid of `seat`: made, and shown if bids are simultaneous."""
    if t.bid[seat] == NONE:
        return False
    return seat == viewer or not (r.is_simultaneous and t.phase == BIDDING)


@njit
def gone_word(t: TableRecord, seat: int, word: int) -> Bits:
    """Return one word of the cards a seat has played; a second copy stands in a second word."""
    return t.dealt[seat, word] ^ t.hand[seat, word]


@njit
def unseen_words(r: RulesRecord, t: TableRecord, viewer: int) -> tuple[Bits, Bits]:
    """Return the cards `viewer` has not seen: with one copy or more unseen, and with two."""
    once = ZERO
    twice = ZERO
    if t.turn_up != NONE:
        once = ONE << np.uint64(t.turn_up)
    for word in range(r.packs):
        if knows_hand(t):
            held = t.hand[viewer, word]
            twice |= once & held
            once |= held
        for seat in range(r.num_players):
            gone = gone_word(t, seat, word)
            twice |= once & gone
            once |= gone
    if r.packs == 1:
        return r.deck & ~once, ZERO
    return r.deck & ~twice, r.deck & ~once


@njit
def relative(r: RulesRecord, viewer: int, seat: int) -> int:
    """Return how many seats after `viewer` a seat is, in the direction of play."""
    distance = seat - viewer if r.step == 1 else viewer - seat
    return int(distance + r.num_players if distance < 0 else distance)


# --- encode -----------------------------------------------------------------------------------


@njit
def put(out: Array, index: int, value: int) -> None:
    """Write ``out[index]``; unsigned, the index needs no code for negative ones."""
    out[np.uintp(index)] = value


@njit
def encode_cards(bits: Bits, out: Array, start: int) -> None:
    """Count one more of each card in `bits`."""
    while bits:
        out[start + lowest(bits)] += 1
        bits &= bits - ONE


@njit
def encode_hand(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write the own hand and the strength of its cards."""
    once, twice = unseen_words(r, t, viewer)
    held = t.hand[np.uintp(viewer), 0]
    spread_bits(out, AT_HAND, held)
    spread_bits(out, AT_STRENGTH, ZERO)
    while held:
        card = lowest(held)
        held &= held - ONE
        higher = suit_mask(suit_of(card)) & ~((ONE << np.uint64(card + 1)) - ONE)
        num_higher = popcount(once & higher) + popcount(twice & higher)
        put(out, AT_STRENGTH + card, 13 - min(12, num_higher))
    if r.packs == 2:
        encode_cards(t.hand[viewer, 1], out, AT_HAND)


@njit
def encode_trick(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write the trick in progress: who leads, who played what, who is winning."""
    if t.phase != BIDDING and t.phase != PLAYING:
        return
    seat = int(t.leader)
    put(out, AT_LEADER + relative(r, viewer, seat), 1)
    plays = t.plays[np.uintp(t.trick)]
    for turn in range(t.turn):
        card = int(plays[np.uintp(turn)])
        suit = suit_of(card)
        rel_seat = relative(r, viewer, seat)
        out[np.uintp(AT_TABLE + card)] += 1
        put(out, AT_TRICK_RANK + rel_seat, card - 13 * suit + 1)
        put(out, AT_TRICK_SUIT + rel_seat, suit + 1)
        if seat == t.winner:
            put(out, AT_WINNING + rel_seat, 1)
        seat = next_seat(r, t, seat)
    if t.led != NONE:
        put(out, AT_LED + t.led, 1)


@njit
def encode_gone(r: RulesRecord, t: TableRecord, seat: int, out: Array, start: int) -> None:
    """Write the cards a seat has played, its 52 counts and zeros after them up to 64 bytes."""
    spread_bits(out, start, gone_word(t, seat, 0))
    if r.packs == 2:
        encode_cards(gone_word(t, seat, 1), out, start)


@njit
def encode_seats(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write what is known of each seat: cards played, voids, tricks, total, and its bid."""
    num_players = int(r.num_players)
    is_hidden = bool(r.is_simultaneous) & (t.phase == BIDDING)
    tricks_left = int(t.cards) - int(t.trick)
    own_total = int(t.total[np.uintp(viewer)])
    bid_sum = 0
    seat = viewer
    for rel_seat in range(num_players):
        encode_gone(r, t, seat, out, AT_GONE + rel_seat * NUM_CARDS)
        seat = next_seat(r, t, seat)
    write_word(out, AT_TOTAL, MIDDLE)
    write_word(out, AT_TOTAL + MAX_SEATS - 8, MIDDLE)
    for rel_seat in range(num_players):
        k = np.uintp(seat)
        # Bit s of `voids` becomes byte s; what follows the fourth byte is written over later.
        voids = np.uint64(t.voids[k]) * np.uint64(0x204081) & np.uint64(0x01010101)
        write_word(out, AT_VOID + 4 * rel_seat, voids)
        won = int(t.won[k])
        bid = int(t.bid[k])
        put(out, AT_SEATED + rel_seat, 1)
        put(out, AT_WON + rel_seat, won)
        put(out, AT_TOTAL + rel_seat, shown_difference(r, int(t.total[k]) - own_total))
        if bid != NONE and (rel_seat == 0 or not is_hidden):
            need = bid - won
            put(out, AT_BID_MADE + rel_seat, 1)
            put(out, AT_BID + rel_seat, bid)
            put(out, AT_NEED + rel_seat, max(0, need))
            put(out, AT_LOST + rel_seat, int((need < 0) | (need > tricks_left)))
            bid_sum += bid
        seat = next_seat(r, t, seat)
    put(out, AT_BID_SUM, bid_sum)


@njit
def shown_difference(r: RulesRecord, points: int) -> int:
    """Return a difference of points as a raw value: rounded to units, around 128."""
    if r.unit != 1:
        # ``points / unit`` to the nearest, halves up: the half in the sum keeps the product, a
        # quarter of the quotient's time, clear of the whole numbers at which it could err.
        points = int(np.floor((2 * points + r.unit + 0.5) * r.half_unit_inverse))
    return min(255, max(0, 128 + points))


@njit
def encode_round(r: RulesRecord, t: TableRecord, out: Array) -> None:
    """Write trump, phase, hook and what is to come in the match."""
    put(out, AT_TRUMP + t.trump, 1)
    if t.turn_up != NONE:
        put(out, AT_TURN_UP, int(t.turn_up) - 13 * suit_of(int(t.turn_up)) + 1)
    if t.phase == BIDDING:
        put(out, AT_FORBIDDEN, forbidden_bid(r, t) + 1)
        put(out, AT_PHASE, 1)
    elif t.phase == PLAYING:
        put(out, AT_PHASE + 1, 1)
    put(out, AT_CARDS, t.cards)
    put(out, AT_TRICKS_LEFT, t.cards - t.trick)
    coming = int(t["round"]) + 1
    rounds_left = t.last_round - t["round"]
    put(out, AT_ROUNDS_LEFT, min(255, rounds_left))
    if rounds_left > 0:
        # The rounds after the last one of this match are not to come.
        beyond = np.uint64(8 * max(0, COMING_ROUNDS - rounds_left))
        write_word(out, AT_COMING_CARDS, first_bytes(read_word(r.shown_cards, coming), beyond))
        write_word(out, AT_COMING_TRUMP, first_bytes(read_word(r.shown_trumps, coming), beyond))


@njit
def first_bytes(word: Bits, beyond: Bits) -> Bits:
    """Return a word with its `beyond` highest bits cleared."""
    return (word << beyond) >> beyond


@njit
def encode_rules(r: RulesRecord, t: TableRecord, out: Array) -> None:
    """Write the rules that matter for this round, payoffs above all."""
    put(out, AT_RULES, r.packs)
    put(out, AT_RULES + 1, r.has_hook)
    put(out, AT_RULES + 2, r.is_simultaneous)
    put(out, AT_RULES + 3, t.is_blind)
    put(out, AT_RULES + 4, r.is_turn_up)
    put(out, AT_RULES + 5, r.suits)
    put(out, AT_RULES + 6, r.ranks)
    shown = r.shown_points[np.uintp(t.cards)]
    write_word(out, AT_MADE, read_word(shown, 0))
    write_word(out, AT_MADE + 8, read_word(shown, 8))
    # Overlapping the one before, for a row ends here.
    write_word(out, AT_MADE + SHOWN_POINTS - 8, read_word(shown, SHOWN_POINTS - 8))


@njit
def encode(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write what `viewer` knows of a table into `out` (SIZE,) uint8.

    Cards are written 64 bytes at a time, blocks in ascending order, so that what a block writes
    past its end is written over by the next.
    """
    viewer = int(viewer)
    if knows_hand(t):
        encode_hand(r, t, viewer, out)
    else:
        spread_bits(out, AT_HAND, ZERO)
        spread_bits(out, AT_STRENGTH, ZERO)
    spread_bits(out, AT_TABLE, ZERO)
    # From the cards gone on, the seats that are taken will write theirs.
    out[AT_GONE + NUM_CARDS * r.num_players :] = 0
    encode_seats(r, t, viewer, out)
    encode_trick(r, t, viewer, out)
    put(out, AT_DEALER + relative(r, viewer, t.dealer), 1)
    encode_round(r, t, out)
    encode_rules(r, t, out)


@njit
def encode_oracle(r: RulesRecord, t: TableRecord, viewer: int, out: Array) -> None:
    """Write every hand, hidden ones included, by relative seat into `out` (ORACLE_SIZE,) uint8."""
    out[:] = 0
    seat = int(viewer)
    for rel_seat in range(r.num_players):
        start = rel_seat * NUM_CARDS
        # The last of ten seats has no room for 64 bytes.
        if rel_seat < MAX_SEATS - 1:
            spread_bits(out, start, t.hand[seat, 0])
        else:
            encode_cards(t.hand[seat, 0], out, start)
        if r.packs == 2:
            encode_cards(t.hand[seat, 1], out, start)
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
