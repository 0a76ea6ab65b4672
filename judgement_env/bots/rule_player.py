"""The rules of thumb behind the heuristic bot, as kernels over one rules and one table record.

A hand is seen as a row of gambles. Each card has two chances to take a trick: one while its holder
wants tricks, one while it ducks. Whoever plays them one after the other, always choosing the better
chance, can expect `values[0]` points; the bid and the card that promise most are chosen. The
chances are formulas of what the seat sees, with the constants of `WEIGHTS`. Nothing here reads
a card, a bid or a key that the seat may not know, and nothing is drawn by lot.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit, stack_numbers
from judgement_env.cards import BID_OFFSET, NO_TRUMP, NONE
from judgement_env.engine import (
    ONE,
    beats,
    card_bit,
    forbidden_bid,
    legal_cards,
    lowest,
    next_seat,
    popcount,
    suit_mask,
    suit_of,
)
from judgement_env.observation import knows_bid, knows_hand, unseen_words
from judgement_env.state import BIDDING, Array, RulesRecord, TableRecord

# Kinds of card: of a side suit, of the trump suit, in a round without trump.
SIDE, TRUMP, FREE = range(3)
NUM_FEATURES = 10
# How a seat stands to its bid: made, short of it, short by every trick left, lost.
MADE, SHORT, DESPERATE, LOST = range(4)
# Rows of the room to work in, each of ROW numbers: the powers of the chance that a seat lacks a
# card, and of the chance that a card is not in play; each card held with its two chances; later
# seats' weights to overtake and to ruff; points to expect with 0, 1, 2, ... tricks more before some
# cards are gambled; and a row for each number of tricks more, the points by bid or by card played.
ROW = 32
LACKED, ABSENT, WANTED, DUCKED, CARDS, OVERTAKES, RUFFS, BEFORE, VALUES = range(0, 9 * ROW, ROW)

# Where the constants stand in `WEIGHTS`.
AT_WANTED = 0
AT_DUCKED = AT_WANTED + 3 * NUM_FEATURES
AT_OVERTAKE = AT_DUCKED + 3 * NUM_FEATURES
AT_RUFF = AT_OVERTAKE + 4
AT_FIRST_LEAD = AT_RUFF + 4
AT_ONE_CARD = AT_FIRST_LEAD + 3
AT_INITIATIVE = AT_ONE_CARD + 2
AT_UNKNOWN_BID = AT_INITIATIVE + 2
NUM_WEIGHTS = AT_UNKNOWN_BID + 1

# Fitted to self-play, then tuned for points; docs/bots.md, "The heuristic", tells how. The ten of
# a chance weigh: 1; that no higher card is in play; higher cards in play; the risk that somebody
# ruffs (trumps: own voids; no-trump: that somebody is void); share of the hand in this suit; that
# no lower card is in play; the demand of others; 1 / tricks left; trumps held (trumps: unseen ones
# for each other seat; no-trump: own voids); other seats / 4.
# fmt: off
WEIGHTS: Array = np.array(
    [
        # wanted, side suit
        3.93, 0.49, -1.72, -3.36, -1.75, -3.50, -1.80, -1.83, -0.38, -0.28,
        # wanted, trump
        1.78, 3.49, -0.39, -0.15, 1.55, -0.43, -1.96, -3.43, 0.24, 0.57,
        # wanted, no trump
        3.40, 1.01, -2.50, -2.42, -0.93, -3.51, -1.26, -0.18, -0.98, -0.50,
        # ducked, side suit
        2.72, 0.00, -1.93, -1.33, -2.91, -0.86, -2.13, 0.38, 2.46, -0.51,
        # ducked, trump
        0.95, 2.60, -0.24, -0.81, 2.42, 0.53, -2.32, -5.75, 0.56, -0.72,
        # ducked, no trump
        2.60, -0.26, -0.80, 0.47, -2.16, -2.51, -2.28, 1.57, -0.32, -0.68,
        # a later seat that could overtake does, by its standing
        0.74, 0.92, 1.11, 0.48,
        # ... that could ruff does
        0.00, 0.23, 1.04, 0.52,
        # added when leading the first trick, by kind
        -0.30, -0.05, 0.69,
        # odds that a seat beats the only card, after a bid of 0 and of 1
        0.64, 1.63,
        # ten times the units of points that the lead is worth, while wanted and while ducked
        -0.27, 0.09,
        # share of an even split that an unknown bid counts as
        0.71,
    ]
)
# fmt: on

# --- small parts ------------------------------------------------------------------------------


@njit
def squash(x: float) -> float:
    """Return a chance between 0 and 1: a sigmoid that needs no exponential."""
    return 0.5 + 0.5 * x / (1.0 + abs(x))


@njit
def power(base: float, exponent: int) -> float:
    """Return base ** exponent for a whole exponent >= 0, the same compiled or not."""
    result = 1.0
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@njit
def write_powers(room: Array, row: int, base: float, highest: int) -> None:
    """Write base ** 0 to base ** highest into `room` from `row` on, each as `power` gives it."""
    room[row] = 1.0
    room[row + 1] = base
    square = base
    width = 1
    while width < highest:
        square *= square
        width *= 2
        for k in range(min(width, highest + 1 - width)):
            room[row + width + k] = room[row + k] * square


@njit
def signed(number: int) -> int:
    """Return a whole number as a signed one: bit arithmetic gives unsigned ones once compiled."""
    return int(np.int64(number))


@njit
def size(bits: np.uint64) -> int:
    """Return the number of bits set as a signed number."""
    return signed(popcount(bits))


@njit
def count(once: np.uint64, twice: np.uint64, mask: np.uint64) -> int:
    """Return how many of the cards in two words lie within `mask`."""
    return size(once & mask) + size(twice & mask)


@njit
def cards_below(card: int) -> np.uint64:
    """Return the lower cards of the suit of `card`."""
    below: np.uint64 = suit_mask(card // 13) & (card_bit(card) - ONE)
    return below


@njit
def cards_above(card: int) -> np.uint64:
    """Return the higher cards of the suit of `card`."""
    above: np.uint64 = suit_mask(card // 13) & ~((card_bit(card) << ONE) - ONE)
    return above


@njit
def count_later_winners(once: np.uint64, twice: np.uint64, card: int) -> int:
    """Return how many unseen cards of its suit beat `card` after it: higher ones and its copy."""
    return count(once, twice, cards_above(card) | card_bit(card))


@njit
def standing(t: TableRecord, seat: int, tricks_left: int) -> int:
    """Return how a seat stands to its bid, once all bids are open."""
    need = t.bid[seat] - t.won[seat]
    if need < 0 or need > tricks_left:
        return LOST
    if need == 0:
        return MADE
    return DESPERATE if need == tricks_left else SHORT


@njit
def demand_of_others(r: RulesRecord, t: TableRecord, seat: int, w: Array) -> float:
    """Return the tricks the other seats still want, per trick left; bids unknown are guessed."""
    tricks_left = t.cards - t.trick
    demand = 0.0
    for other in range(r.num_players):
        if other == seat:
            continue
        if not knows_bid(r, t, seat, other):
            demand += w[AT_UNKNOWN_BID] * t.cards / r.num_players
            continue
        need = t.bid[other] - t.won[other]
        if 0 < need <= tricks_left:
            demand += need
    return float(demand / tricks_left)


# --- the chances of each card -----------------------------------------------------------------


@njit
def suit_part(
    w: Array,
    start: int,
    risk: float,
    length: float,
    demand: float,
    left: int,
    support: float,
    others: int,
) -> float:
    """Return what the weights from `start` on make of the features all cards of a suit share."""
    return float(
        w[start]
        + w[start + 3] * risk
        + w[start + 4] * length
        + w[start + 6] * demand
        + w[start + 7] / left
        + w[start + 8] * support
        + w[start + 9] * 0.25 * others
    )


@njit
def card_chance(
    w: Array, start: int, shared: float, is_high: float, higher: float, is_low: float
) -> float:
    """Return the chance of a card: the part of its suit and its own three features, squashed."""
    own = w[start + 1] * is_high + w[start + 2] * higher + w[start + 5] * is_low
    return squash(shared + own)


@njit
def insert(room: Array, num_cards: int, card: int, wanted: float, ducked: float) -> None:
    """Put a card among the `num_cards` in `room`, which rise by their chance while wanted."""
    place = num_cards
    while place > 0 and room[WANTED + place - 1] > wanted:
        room[WANTED + place] = room[WANTED + place - 1]
        room[DUCKED + place] = room[DUCKED + place - 1]
        room[CARDS + place] = room[CARDS + place - 1]
        place -= 1
    room[WANTED + place] = wanted
    room[DUCKED + place] = ducked
    room[CARDS + place] = card


@njit
def write_chances(r: RulesRecord, t: TableRecord, seat: int, w: Array, room: Array) -> int:
    """Write the cards held and their chances into `room`, strongest last; return how many.

    In play the outlook is on the tricks after this one, with the cards unseen by then.
    """
    once, twice = unseen_words(r, t, seat)
    is_bidding = t.phase == BIDDING
    others = r.num_players - 1
    left = t.cards - t.trick
    rest = left if is_bidding else left - 1
    unseen = max(1, size(once) + size(twice) - (0 if is_bidding else others - t.turn))
    # The share of the unseen cards that is in play, and the chance that one seat lacks a card.
    in_play = min(1.0, others * rest / unseen)
    lacks = max(0.0, 1.0 - rest / unseen)
    word_0, word_1 = t.hand[seat, 0], t.hand[seat, 1]
    trump = t.trump
    trumps_held = 0
    trumps_unseen = 0
    if trump != NO_TRUMP:
        trumps_held = count(word_0, word_1, suit_mask(trump))
        trumps_unseen = count(once, twice, suit_mask(trump))
    highest = 13 * int(r.packs)
    write_powers(room, LACKED, lacks, highest)
    write_powers(room, ABSENT, 1.0 - in_play, highest)
    no_trumps = room[LACKED + trumps_unseen]
    voids = 0
    for suit in range(4):
        if r.deck & suit_mask(suit) and not word_0 & suit_mask(suit):
            voids += 1
    demand = demand_of_others(r, t, seat, w)
    num_cards = 0
    for suit in range(4):
        mask = suit_mask(suit)
        bits = word_0 & mask
        if not bits:
            continue
        in_suit = count(once, twice, mask)
        length = count(word_0, word_1, mask) / left
        void = room[LACKED + in_suit]
        if trump == NO_TRUMP:
            kind = FREE
            risk = 1.0 - power(1.0 - void, others)
            support = voids / 3.0
        elif suit == trump:
            kind = TRUMP
            risk = voids / 3.0
            support = trumps_unseen * in_play / others
        else:
            kind = SIDE
            risk = 1.0 - power(1.0 - void * (1.0 - no_trumps), others)
            support = trumps_held / left
        shift = w[AT_FIRST_LEAD + kind] if is_bidding and t.leader == seat else 0.0
        at_wanted = AT_WANTED + kind * NUM_FEATURES
        at_ducked = AT_DUCKED + kind * NUM_FEATURES
        if_wanted = shift + suit_part(w, at_wanted, risk, length, demand, left, support, others)
        if_ducked = shift + suit_part(w, at_ducked, risk, length, demand, left, support, others)
        while bits:
            card = signed(lowest(bits))
            bit = card_bit(card)
            bits ^= bit
            above = count(once, twice, cards_above(card))
            is_high = room[ABSENT + above]
            is_low = room[ABSENT + in_suit - above]
            higher = above * in_play
            wanted = card_chance(w, at_wanted, if_wanted, is_high, higher, is_low)
            ducked = min(wanted, card_chance(w, at_ducked, if_ducked, is_high, higher, is_low))
            for _ in range(2 if word_1 & bit else 1):
                insert(room, num_cards, card, wanted, ducked)
                num_cards += 1
    return num_cards


@njit
def one_card_chance(r: RulesRecord, t: TableRecord, seat: int, w: Array) -> float:
    """Return the chance of the only card held in a one-card round, where nobody has a choice."""
    once, twice = unseen_words(r, t, seat)
    card = signed(lowest(t.hand[seat, 0]))
    suit = card // 13
    unseen = size(once) + size(twice)
    stronger = count(once, twice, cards_above(card))
    if t.trump != NO_TRUMP and t.trump != suit:
        stronger += count(once, twice, suit_mask(t.trump))
    weaker_in_suit = count(once, twice, cards_below(card))
    chance = 1.0
    for other in range(r.num_players):
        if other == seat:
            continue
        if other == t.leader and suit != t.trump:
            chance *= weaker_in_suit / unseen
            continue
        odds = stronger / max(unseen - stronger, 1)
        if knows_bid(r, t, seat, other):
            odds *= w[AT_ONE_CARD + min(t.bid[other], 1)]
        chance *= 1.0 / (1.0 + odds)
    return chance


# --- gambles ----------------------------------------------------------------------------------


@njit
def gamble(low: float, high: float, wanted: float, ducked: float) -> float:
    """Return the points to expect when one more card may take a trick: by its better chance."""
    gain = high - low
    return low + gain * (wanted if gain > 0.0 else ducked)


# --- bid --------------------------------------------------------------------------------------


@njit
def heuristic_bid(r: RulesRecord, t: TableRecord, w: Array) -> int:
    """Return the legal bid that promises most points to the seat to act."""
    seat = t.seat
    num_cards = int(t.cards)
    room = stack_numbers()
    if not knows_hand(t):
        room[WANTED] = 1.0 / r.num_players
        room[DUCKED] = room[WANTED]
    elif num_cards == 1:
        room[WANTED] = one_card_chance(r, t, seat, w)
        room[DUCKED] = room[WANTED]
    else:
        write_chances(r, t, seat, w, room)
    for more in range(num_cards + 1):
        for bid in range(num_cards + 1):
            room[VALUES + more * ROW + bid] = r.points[t.cards, bid, more]
    for i in range(num_cards):
        wanted, ducked = room[WANTED + i], room[DUCKED + i]
        for more in range(num_cards - i):
            at = VALUES + more * ROW
            # All bids side by side, which vector instructions like.
            for bid in range(num_cards + 1):
                room[at + bid] = gamble(room[at + bid], room[at + ROW + bid], wanted, ducked)
    forbidden = forbidden_bid(r, t)
    best = -np.inf
    choice = NONE
    for bid in range(num_cards + 1):
        if bid != forbidden and room[VALUES + bid] > best:
            best = room[VALUES + bid]
            choice = bid
    return choice


# --- play -------------------------------------------------------------------------------------


@njit
def write_later(r: RulesRecord, t: TableRecord, left: int, w: Array, room: Array) -> None:
    """Write how the seats after the one to act overtake and ruff in the trick in progress."""
    seat = int(t.seat)
    for later in range(r.num_players - 1 - t.turn):
        seat = next_seat(r, t, seat)
        mood = standing(t, seat, left)
        room[OVERTAKES + later] = w[AT_OVERTAKE + mood]
        room[RUFFS + later] = w[AT_RUFF + mood]


@njit
def chance_now(
    r: RulesRecord, t: TableRecord, card: int, once: np.uint64, twice: np.uint64, room: Array
) -> float:
    """Return the chance that `card` takes the trick in progress.

    `room` holds the later seats, and the powers of the chance that one lacks a card.
    """
    if not beats(card, int(t.best), int(t.trump)):
        return 0.0
    if t.turn == r.num_players - 1:
        return 1.0
    suit = suit_of(card)
    led = int(t.led) if t.led != NONE else suit
    trump = int(t.trump)
    is_ruff = suit != led
    no_higher = room[LACKED + count_later_winners(once, twice, card)]
    void = room[LACKED + count(once, twice, suit_mask(led))]
    no_trumps = 1.0
    if trump != NO_TRUMP and not is_ruff and trump != suit:
        no_trumps = room[LACKED + count(once, twice, suit_mask(trump))]
    chance = 1.0
    seat = int(t.seat)
    for later in range(r.num_players - 1 - t.turn):
        seat = next_seat(r, t, seat)
        is_void = (t.voids[seat] >> led) & 1
        may_ruff = trump != NO_TRUMP and not (t.voids[seat] >> trump) & 1
        lack = 1.0 if is_void else void
        beaten = 0.0
        if is_ruff:
            if may_ruff:
                beaten = lack * (1.0 - no_higher) * room[RUFFS + later]
        else:
            if not is_void:
                beaten = (1.0 - no_higher) * room[OVERTAKES + later]
            if may_ruff:
                beaten += lack * (1.0 - no_trumps) * room[RUFFS + later]
        chance *= 1.0 - min(1.0, beaten)
    return chance


@njit
def is_contested(r: RulesRecord, t: TableRecord) -> bool:
    """Return whether the seats that can still make their bids want every trick left, or more."""
    left = t.cards - t.trick
    wanted = 0
    for seat in range(r.num_players):
        need = t.bid[seat] - t.won[seat]
        if 0 < need <= left:
            wanted += need
    return bool(wanted >= left)


@njit
def boss_trump(t: TableRecord, hand: np.uint64, once: np.uint64, twice: np.uint64) -> int:
    """Return the highest trump of a hand if no unseen card beats it, else NONE."""
    if t.trump == NO_TRUMP:
        return NONE
    trumps = hand & suit_mask(t.trump)
    while trumps & (trumps - ONE):
        trumps &= trumps - ONE
    if trumps:
        card = signed(lowest(trumps))
        if count_later_winners(once, twice, card) == 0:
            return card
    return NONE


@njit
def fold_outlooks(num_cards: int, level: int, room: Array) -> None:
    """Write what to expect after playing each card held, by tricks more than won so far.

    `room` holds the chances of the cards, and what no card at all promises by tricks more, which is
    the same from `level` more on.
    """
    for j in range(num_cards):
        wanted, ducked = room[WANTED + j], room[DUCKED + j]
        for more in range(min(level, num_cards - j + 1)):
            at = VALUES + more * ROW
            # After any of the weaker cards, side by side.
            for i in range(j):
                room[at + i] = gamble(room[at + i], room[at + ROW + i], wanted, ducked)
        for more in range(level + 1):
            room[VALUES + more * ROW + j] = room[BEFORE + more]
        for more in range(min(level, num_cards - j)):
            at = BEFORE + more
            room[at] = gamble(room[at], room[at + 1], wanted, ducked)


@njit
def write_outlooks(r: RulesRecord, t: TableRecord, num_cards: int, room: Array) -> int:
    """Write the points to expect after playing each card held, by tricks more than won so far.

    Returns from how many tricks more the points are level.
    """
    seat = int(t.seat)
    won = int(t.won[seat])
    level = 0
    for more in range(t.cards - won + 1):
        room[BEFORE + more] = r.points[t.cards, t.bid[seat], won + more]
        if more > 0 and room[BEFORE + more] != room[BEFORE + more - 1]:
            level = more
    fold_outlooks(num_cards, level, room)
    return level


@njit
def heuristic_play(r: RulesRecord, t: TableRecord, w: Array) -> int:
    """Return the legal card that promises most points to the seat to act."""
    legal = legal_cards(t)
    if not legal & (legal - ONE):
        return signed(lowest(legal))
    seat = t.seat
    once, twice = unseen_words(r, t, seat)
    left = int(t.cards - t.trick)
    if t.led == NONE and standing(t, seat, left) == DESPERATE:
        # Whoever needs every trick draws trumps first, while nothing can go wrong.
        card = boss_trump(t, legal, once, twice)
        if card != NONE:
            return card
    room = stack_numbers()
    num_cards = write_chances(r, t, seat, w, room)
    level = write_outlooks(r, t, num_cards, room)
    # With nothing left to win or lose: take tricks others fight for, else leave them theirs.
    spoil = 1.0 if level == 0 and is_contested(r, t) else -1.0
    lacks = max(0.0, 1.0 - left / max(size(once) + size(twice), 1))
    write_powers(room, LACKED, lacks, 13 * int(r.packs))
    write_later(r, t, left, w, room)
    best = -np.inf
    choice = NONE
    for i in range(num_cards):
        card = int(room[CARDS + i])
        if legal & card_bit(card) and card != choice:
            now = chance_now(r, t, card, once, twice, room)
            gain = room[VALUES + ROW + i] - room[VALUES + i] if level > 0 else spoil
            value = room[VALUES + i] + now * gain
            value += now * 0.1 * r.unit * w[AT_INITIATIVE + (0 if gain > 0.0 else 1)]
            if value > best:
                best = value
                choice = card
    return choice


@njit
def choose_action(r: RulesRecord, t: TableRecord, w: Array) -> int:
    """Return the action of the seat to act under the constants `w` (NUM_WEIGHTS,)."""
    if t.phase == BIDDING:
        return BID_OFFSET + heuristic_bid(r, t, w)
    return heuristic_play(r, t, w)


@njit
def heuristic_action(r: RulesRecord, t: TableRecord) -> int:
    """Return the action of the heuristic bot for the seat to act."""
    return choose_action(r, t, WEIGHTS)
