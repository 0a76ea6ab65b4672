"""The last tricks of a round whose hands are all known, played exactly: `settle_exactly`.

Every seat plays the card that brings it most points when all others do so too (max^n, Luckhardt
and Irani, AAAI 1986); of such cards the one that leaves the others least, then the lowest. Of cards
that do the same only the lowest is tried.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit, stack_numbers
from judgement_env.cards import NONE
from judgement_env.engine import (
    ONE,
    ZERO,
    beats,
    card_bit,
    lowest,
    next_seat,
    remove_card,
    settle_round,
    signed,
    suit_mask,
    suit_of,
)
from judgement_env.sampler import add_card
from judgement_env.state import Bits, RulesRecord, TableRecord

# The lowest card of each suit: nothing lies below it.
LOWEST_CARDS = np.uint64(sum(1 << 13 * suit for suit in range(4)))
# More than two tricks take too long. An outcome is one number: the tricks each seat takes from some
# point on, two bits a seat.
MAX_EXACT = 2
SEAT_BITS = 2
SEAT_MASK = 3
# A decision on the way down is a row of numbers: who plays, its turn, suit led, best card and who
# played it, cards still to be tried, the one being tried, who takes the trick with it (or NONE),
# and the best outcome so far (or NONE).
ROW = 9
SEAT, TURN, LED, BEST, WINNER, CHOICES, CARD, TAKER, FOUND = range(ROW)


@njit
def same_as_lower(cards: Bits, others: Bits) -> Bits:
    """Return those of `cards`, one hand's, that do what a lower one of them does.

    No card of `others` may lie between the two, nor be another copy of either.
    """
    alone = cards & ~others
    # Places just above a card, and those to be reached from them over places that hold none, by
    # steps of 1, 2, 4 and 8.
    reached = (alone << ONE) & ~LOWEST_CARDS
    passing = (~(cards | others) << ONE) & ~LOWEST_CARDS
    for k in range(4):
        step = np.uint64(1 << k)
        reached |= passing & (reached << step)
        passing &= passing << step
    return reached & alone


@njit
def cards_of_others(r: RulesRecord, t: TableRecord, seat: int) -> Bits:
    """Return the cards that the other seats hold."""
    others = ZERO
    for other in range(r.num_players):
        if other != seat:
            others |= t.hand[other, 0]
    return others


@njit
def tricks_of(outcome: int, seat: int) -> int:
    """Return how many tricks an outcome gives a seat."""
    return (outcome >> SEAT_BITS * seat) & SEAT_MASK


@njit
def one_trick(seat: int) -> int:
    """Return the outcome that gives a seat one trick and nobody another."""
    return 1 << SEAT_BITS * seat


@njit
def points_of(r: RulesRecord, t: TableRecord, seat: int, outcome: int) -> int:
    """Return the points of a seat that takes what an outcome gives it."""
    return int(r.points[t.cards, t.bid[seat], t.won[seat] + tricks_of(outcome, seat)])


@njit
def is_better(r: RulesRecord, t: TableRecord, seat: int, outcome: int, other: int) -> bool:
    """Return whether a seat would rather have `outcome`: by its own points, then its margin."""
    if outcome == other:
        return False
    gain = points_of(r, t, seat, outcome) - points_of(r, t, seat, other)
    if gain != 0:
        return gain > 0
    loss = 0
    for rival in range(r.num_players):
        loss += points_of(r, t, rival, other) - points_of(r, t, rival, outcome)
    return loss > 0


@njit
def last_trick(r: RulesRecord, t: TableRecord, seat: int, turn: int, best: int, winner: int) -> int:
    """Return the outcome of the last trick, in which nobody has a choice."""
    for _ in range(turn, r.num_players):
        card = lowest(t.hand[seat, 0])
        if beats(card, best, int(t.trump)):
            best = card
            winner = seat
        seat = next_seat(r, t, seat)
    return one_trick(winner)


@njit
def choices_of(r: RulesRecord, t: TableRecord, seat: int, led: int, best: int) -> Bits:
    """Return the cards a seat may play, of those that do the same only the lowest."""
    choices = t.hand[seat, 0] & suit_mask(max(0, led))
    if led == NONE or choices == ZERO:
        choices = t.hand[seat, 0]
    others = cards_of_others(r, t, seat)
    if best != NONE:
        others |= card_bit(best)
    return choices & ~same_as_lower(choices, others)


@njit
def best_outcome(r: RulesRecord, t: TableRecord) -> int:
    """Return the outcome of the tricks left, MAX_EXACT at most, when all play well.

    Hands and tricks won change on the way and are as before at the end.
    """
    room = stack_numbers()
    seat, turn = int(t.seat), int(t.turn)
    led, best, winner = int(t.led), int(t.best), int(t.winner)
    left = int(t.cards) - int(t.trick)
    outcome = NONE
    # The row of the decision under way, each below the one before.
    row = -ROW
    while True:
        if outcome == NONE and left > 1:
            row += ROW
            room[row + SEAT], room[row + TURN] = seat, turn
            room[row + LED], room[row + BEST], room[row + WINNER] = led, best, winner
            room[row + CHOICES] = signed(choices_of(r, t, seat, led, best))
            room[row + FOUND] = NONE
        else:
            if outcome == NONE:
                outcome = last_trick(r, t, seat, turn, best, winner)
            if row < 0:
                return outcome
            seat = int(room[row + SEAT])
            add_card(t, seat, int(room[row + CARD]))
            taker = int(room[row + TAKER])
            if taker != NONE:
                t.won[taker] -= 1
                outcome += one_trick(taker)
                left += 1
            found = int(room[row + FOUND])
            if found == NONE or is_better(r, t, seat, outcome, found):
                room[row + FOUND] = outcome
        choices = np.uint64(signed(room[row + CHOICES]))
        if choices == ZERO:
            outcome = int(room[row + FOUND])
            row -= ROW
            continue
        card = lowest(choices)
        room[row + CARD] = card
        room[row + CHOICES] = signed(choices ^ card_bit(card))
        seat, turn = int(room[row + SEAT]), int(room[row + TURN]) + 1
        led, best, winner = int(room[row + LED]), int(room[row + BEST]), int(room[row + WINNER])
        remove_card(t, seat, card)
        if led == NONE:
            led = suit_of(card)
        if beats(card, best, int(t.trump)):
            best = card
            winner = seat
        room[row + TAKER] = NONE
        seat = next_seat(r, t, seat)
        if turn == r.num_players:
            room[row + TAKER] = winner
            t.won[winner] += 1
            left -= 1
            seat, turn = winner, 0
            led, best, winner = NONE, NONE, NONE
        outcome = NONE


@njit
def settle_exactly(r: RulesRecord, t: TableRecord) -> None:
    """Settle a round in play by what the rest of it brings when all play well, all hands known.

    MAX_EXACT tricks at most. The cards stay in the hands: only tricks won and points change.
    """
    outcome = best_outcome(r, t)
    for seat in range(r.num_players):
        t.won[seat] += tricks_of(outcome, seat)
    settle_round(r, t)
