"""The rules of thumb behind the heuristic bot, as kernels over one rules and one table record.

A hand is seen as a row of gambles. Each card has two chances to take a trick: one while its holder
wants tricks, one while it ducks. Whoever plays them one after the other, always choosing the better
chance, can expect `values[0]` points; the bid and the card that promise most are chosen. The
chances are formulas of what the seat sees, with the constants of `WEIGHTS`. Nothing here reads
a card, a bid or a key that the seat may not know, and nothing is drawn by lot.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit
from judgement_env.cards import BID_OFFSET, NO_TRUMP, NONE
from judgement_env.engine import (
    ONE,
    ZERO,
    beats,
    card_bit,
    forbidden_bid,
    legal_cards,
    lowest,
    next_seat,
    popcount,
    suit_mask,
)
from judgement_env.observation import knows_bid, knows_hand, unseen_words
from judgement_env.state import BIDDING, MAX_CARDS, Array, RulesRecord, TableRecord

# Kinds of card: of a side suit, of the trump suit, in a round without trump.
SIDE, TRUMP, FREE = range(3)
NUM_FEATURES = 10
# How a seat stands to its bid: made, short of it, short by every trick left, lost.
MADE, SHORT, DESPERATE, LOST = range(4)

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

WEIGHTS: Array = np.zeros(NUM_WEIGHTS)

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
def size(bits: np.uint64) -> int:
    """Return the number of bits set as a signed number."""
    return np.int64(popcount(bits))  # type: ignore[return-value]


@njit
def count(once: np.uint64, twice: np.uint64, mask: np.uint64) -> int:
    """Return how many of the cards in two words lie within `mask`."""
    return size(once & mask) + size(twice & mask)


@njit
def cards_below(card: int) -> np.uint64:
    """Return the lower cards of the suit of `card`."""
    return suit_mask(card // 13) & (card_bit(card) - ONE)


@njit
def cards_above(card: int) -> np.uint64:
    """Return the higher cards of the suit of `card`."""
    return suit_mask(card // 13) & ~((card_bit(card) << ONE) - ONE)


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
    return demand / tricks_left


# --- the chances of each card -----------------------------------------------------------------


@njit
def weigh(w: Array, start: int, x: Array, shift: float) -> float:
    """Return the chance that the features `x` give with the weights from `start` on."""
    total = shift
    for i in range(NUM_FEATURES):
        total += w[start + i] * x[i]
    return squash(total)


@njit
def write_chances(
    r: RulesRecord, t: TableRecord, seat: int, w: Array, x: Array, chances: Array, cards: Array
) -> int:
    """Write each card held with its two chances, strongest last; return how many there are.

    `x` is room for the features; `chances` (2, 27): while the holder wants tricks, while it ducks.
    """
    once, twice = unseen_words(r, t, seat)
    is_bidding = t.phase == BIDDING
    others = r.num_players - 1
    left = t.cards - t.trick
    # In play the outlook is on the tricks after this one, with the cards unseen by then.
    rest = left if is_bidding else left - 1
    unseen = size(once) + size(twice) - (0 if is_bidding else others - t.turn)
    unseen = max(unseen, 1)
    in_play = min(1.0, others * rest / unseen)
    lacks = max(0.0, 1.0 - rest / unseen)
    word_0, word_1 = t.hand[seat, 0], t.hand[seat, 1]
    trump = t.trump
    trumps_held = trumps_unseen = 0
    if trump != NO_TRUMP:
        mask = suit_mask(trump)
        trumps_held = count(word_0, word_1, mask)
        trumps_unseen = count(once, twice, mask)
    no_trumps = power(lacks, trumps_unseen)
    voids = 0
    for suit in range(4):
        mask = suit_mask(suit)
        if r.deck & mask and not (word_0 & mask):
            voids += 1
    x[0] = 1.0
    x[6] = demand_of_others(r, t, seat, w)
    x[7] = 1.0 / left
    x[9] = others * 0.25
    num_cards = 0
    for suit in range(4):
        mask = suit_mask(suit)
        bits = word_0 & mask
        if not bits:
            continue
        in_suit = count(once, twice, mask)
        x[4] = count(word_0, word_1, mask) / left
        void = power(lacks, in_suit)
        if trump == NO_TRUMP:
            kind = FREE
            x[3] = 1.0 - power(1.0 - void, others)
            x[8] = voids / 3.0
        elif suit == trump:
            kind = TRUMP
            x[3] = voids / 3.0
            x[8] = trumps_unseen * in_play / others
        else:
            kind = SIDE
            x[3] = 1.0 - power(1.0 - void * (1.0 - no_trumps), others)
            x[8] = trumps_held / left
        shift = w[AT_FIRST_LEAD + kind] if is_bidding and t.leader == seat else 0.0
        while bits:
            card = np.int64(lowest(bits))
            bit = bits & (~bits + ONE)
            bits ^= bit
            higher = count(once, twice, cards_above(card))
            x[1] = power(1.0 - in_play, higher)
            x[2] = higher * in_play
            x[5] = power(1.0 - in_play, in_suit - higher)
            wanted = weigh(w, AT_WANTED + kind * NUM_FEATURES, x, shift)
            ducked = min(wanted, weigh(w, AT_DUCKED + kind * NUM_FEATURES, x, shift))
            for _ in range(2 if word_1 & bit else 1):
                place = num_cards
                while place > 0 and chances[0, place - 1] > wanted:
                    chances[0, place] = chances[0, place - 1]
                    chances[1, place] = chances[1, place - 1]
                    cards[place] = cards[place - 1]
                    place -= 1
                chances[0, place] = wanted
                chances[1, place] = ducked
                cards[place] = card
                num_cards += 1
    return num_cards


@njit
def one_card_chance(r: RulesRecord, t: TableRecord, seat: int, w: Array) -> float:
    """Return the chance of the only card held in a one-card round, where nobody has a choice."""
    once, twice = unseen_words(r, t, seat)
    card = np.int64(lowest(t.hand[seat, 0]))
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
def write_points(r: RulesRecord, t: TableRecord, bid: int, won: int, values: Array) -> int:
    """Write the points for 0, 1, … tricks more than `won`; return from where they are level."""
    more = t.cards - won
    reach = 0
    for extra in range(more + 1):
        values[extra] = r.points[t.cards, bid, won + extra]
        if extra > 0 and values[extra] != values[extra - 1]:
            reach = extra
    return reach


@njit
def gamble(values: Array, top: int, wanted: float, ducked: float) -> None:
    """Put one card in front of the gambles that lead to `values`: take the better chance."""
    for extra in range(top):
        gain = values[extra + 1] - values[extra]
        values[extra] += gain * (wanted if gain > 0.0 else ducked)


# --- bid --------------------------------------------------------------------------------------


@njit
def heuristic_bid(r: RulesRecord, t: TableRecord, w: Array) -> int:
    """Return the legal bid that promises most points to the seat to act."""
    seat = t.seat
    num_cards = t.cards
    room = np.empty((4, MAX_CARDS + 2))
    values = room[0]
    chances = room[1:3]
    if not knows_hand(t):
        chances[:, 0] = 1.0 / r.num_players
    elif num_cards == 1:
        chances[:, 0] = one_card_chance(r, t, seat, w)
    else:
        cards = np.empty(MAX_CARDS + 2, np.int64)
        write_chances(r, t, seat, w, room[3], chances, cards)
    forbidden = forbidden_bid(r, t)
    best = -np.inf
    choice = 0
    for bid in range(num_cards + 1):
        if bid == forbidden:
            continue
        reach = write_points(r, t, bid, 0, values)
        for i in range(num_cards):
            gamble(values, min(reach, num_cards - i), chances[0, i], chances[1, i])
        if values[0] > best:
            best = values[0]
            choice = bid
    return choice


# --- play -------------------------------------------------------------------------------------


@njit
def chance_now(
    r: RulesRecord,
    t: TableRecord,
    card: int,
    once: np.uint64,
    twice: np.uint64,
    w: Array,
) -> float:
    """Return the chance that `card` takes the trick in progress."""
    if not beats(t, card):
        return 0.0
    if t.turn == r.num_players - 1:
        return 1.0
    left = t.cards - t.trick
    suit = card // 13
    led = t.led if t.led != NONE else suit
    trump = t.trump
    is_ruff = suit != led
    lacks = max(0.0, 1.0 - left / max(size(once) + size(twice), 1))
    no_higher = power(lacks, count(once, twice, cards_above(card)))
    void = power(lacks, count(once, twice, suit_mask(led)))
    no_trumps = 1.0
    if trump != NO_TRUMP and not is_ruff and trump != suit:
        no_trumps = power(lacks, count(once, twice, suit_mask(trump)))
    chance = 1.0
    seat = t.seat
    for _ in range(r.num_players - 1 - t.turn):
        seat = next_seat(r, t, seat)
        mood = standing(t, seat, left)
        is_void = (t.voids[seat] >> led) & 1
        may_ruff = trump != NO_TRUMP and not (t.voids[seat] >> trump) & 1
        lack = 1.0 if is_void else void
        beaten = 0.0
        if is_ruff:
            if may_ruff:
                beaten = lack * (1.0 - no_higher) * w[AT_RUFF + mood]
        else:
            if not is_void:
                beaten = (1.0 - no_higher) * w[AT_OVERTAKE + mood]
            if may_ruff:
                beaten += lack * (1.0 - no_trumps) * w[AT_RUFF + mood]
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
def heuristic_play(r: RulesRecord, t: TableRecord, w: Array) -> int:
    """Return the legal card that promises most points to the seat to act."""
    legal = legal_cards(t)
    if not legal & (legal - ONE):
        return np.int64(lowest(legal))  # type: ignore[return-value]
    seat = t.seat
    room = np.empty((5, MAX_CARDS + 2))
    values = room[0]
    so_far = room[1]
    chances = room[2:4]
    cards = np.empty(MAX_CARDS + 2, np.int64)
    num_cards = write_chances(r, t, seat, w, room[4], chances, cards)
    once, twice = unseen_words(r, t, seat)
    reach = write_points(r, t, t.bid[seat], t.won[seat], so_far)
    # With nothing left to win or lose: take tricks others fight for, else leave them theirs.
    spoil = 0.0
    if reach == 0:
        spoil = 1.0 if is_contested(r, t) else -1.0
    best = -np.inf
    choice = NONE
    for i in range(num_cards):
        card = cards[i]
        if legal & card_bit(card) and card != choice:
            values[: reach + 1] = so_far[: reach + 1]
            for j in range(i + 1, num_cards):
                gamble(values, min(reach, num_cards - j + 1), chances[0, j], chances[1, j])
            now = chance_now(r, t, card, once, twice, w)
            gain = values[1] - values[0] if reach > 0 else spoil
            value = values[0] + now * gain
            value += 0.1 * now * w[AT_INITIATIVE + (0 if gain > 0.0 else 1)]
            if value > best:
                best = value
                choice = card
        gamble(so_far, min(reach, num_cards - i), chances[0, i], chances[1, i])
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
