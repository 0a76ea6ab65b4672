"""Deals of hands seldom seen: a policy would meet them once in ten thousand rounds.

A share of the rounds is dealt so that one seat's hand leans to a suit and to high or low cards: a
bid of every trick, a hand that can win none. The other cards are dealt evenly, so the seat with the
rare hand meets what such a hand would meet, and only that seat may learn from the round: to the
others such deals come too often.
"""

from __future__ import annotations

import math

import numpy as np

from judgement_env._jit import njit
from judgement_env.cards import NONE
from judgement_env.engine import draw_below, stream
from judgement_env.sampler import add_card, fraction
from judgement_env.state import MAX_PACK, Bits, RulesRecord, TableRecord

# Streams of a round's key that the dealer of the package does not use.
RARE = 1_000_003
# A card's weight in the hand that leans grows by exp(lean) for the suit, exp(lean) from the lowest
# rank to the highest; leans are drawn evenly between these.
SUIT_LEANS = (0.0, 5.0)
RANK_LEANS = (-6.0, 10.0)


@njit
def round_key(t: TableRecord) -> Bits:
    """Return the key of the rare deal of the round in play."""
    return stream(stream(stream(t.key, t.match), t["round"] + 1), RARE)


@njit
def rare_seat(r: RulesRecord, t: TableRecord, share: float, learner: int) -> int:
    """Return the seat with a rare hand this round, NONE in most rounds.

    `share` of the rounds have one, rounds bid blind excepted. Where one seat alone learns,
    `learner`, it is that one; NONE stands for any.
    """
    if share <= 0 or t.is_blind:
        return NONE
    key = round_key(t)
    if fraction(stream(key, 0)) >= share:
        return NONE
    return draw_below(key, 1, r.num_players) if learner == NONE else learner


@njit
def deal_rare(r: RulesRecord, t: TableRecord, seat: int) -> None:
    """Deal the round in play anew, with a hand for `seat` that leans; the turn-up stays.

    The cards of the pack are put in the order of a weighted draw without replacement (Efraimidis
    and Spirakis, Information Processing Letters 97, 2006); the seat takes the first of them.
    """
    key = round_key(t)
    suit = t.trump if draw_below(key, 2, 2) == 0 else NONE
    if suit < 0 or suit > 3:
        suit = draw_below(key, 3, 4)
    suit_lean = SUIT_LEANS[0] + fraction(stream(key, 4)) * (SUIT_LEANS[1] - SUIT_LEANS[0])
    rank_lean = RANK_LEANS[0] + fraction(stream(key, 5)) * (RANK_LEANS[1] - RANK_LEANS[0])
    size = int(r.pack_size)
    order = np.empty(MAX_PACK)
    cards = np.empty(MAX_PACK, np.int64)
    left = 0
    turned = t.turn_up
    for place in range(size):
        card = int(r.pack[place])
        if card == turned:
            turned = NONE
            continue
        lean = rank_lean * (card % 13) / 12
        if card // 13 == suit:
            lean += suit_lean
        order[left] = lean - math.log(-math.log(fraction(stream(key, 10 + place))))
        cards[left] = card
        left += 1
    t.hand[:, :] = 0
    for number in range(r.num_players * t.cards):
        # The seat with the rare hand first, then the others, whose cards come evenly.
        to = (seat + number // t.cards) % r.num_players
        if to == seat:
            place = int(order[:left].argmax())
        else:
            place = draw_below(key, 200 + number, left)
        add_card(t, to, cards[place])
        left -= 1
        cards[place] = cards[left]
        order[place] = order[left]
    t.dealt[:, :] = t.hand[:, :]
