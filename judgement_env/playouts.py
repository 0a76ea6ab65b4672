"""Matches played at random in compiled code: what the bare engine does, and what rollouts need.

Every legal action is as likely as every other. A draw takes one step of a 64-bit generator, whose
state the caller keeps in an array (1,) uint64: equal states, equal play.

    >>> rules, tables = pack_rules([Rules()]), new_tables(1)
    >>> begin_match(rules[0], tables[0], 0, 6, 0)
    >>> play_random(rules[0], tables[0], 1000, np.ones(1, np.uint64))
    >>> int(tables["match"][0])
    7
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit
from judgement_env.cards import BID_OFFSET, NONE
from judgement_env.engine import (
    HALF,
    ONE,
    apply_action,
    begin_match,
    forbidden_bid,
    legal_cards,
    lowest,
    next_round,
    popcount,
    scaled_down,
)
from judgement_env.state import BIDDING, Array, Bits, RulesRecord, TableRecord

# The 64-bit linear congruential generator of Knuth's MMIX; its upper half passes for random.
MULTIPLIER = np.uint64(6364136223846793005)
INCREMENT = np.uint64(1442695040888963407)


@njit
def next_state(state: Bits) -> Bits:
    """Return the state after `state`."""
    return state * MULTIPLIER + INCREMENT


@njit
def nth_card(cards: Bits, n: int) -> int:
    """Return the card that has `n` others of `cards` below it."""
    # Up to four cards go without a branch: a loop as long as the draw is guessed wrong too often.
    while True:
        for k in range(4):
            cards = cards & (cards - ONE) if n > k else cards
        if n <= 4:
            return lowest(cards)
        n -= 4


@njit
def random_action(r: RulesRecord, t: TableRecord, state: Bits) -> int:
    """Return a legal action of the seat to act, each as likely, by the upper half of `state`."""
    word = state >> HALF
    if t.phase == BIDDING:
        forbidden = forbidden_bid(r, t)
        is_hooked = forbidden != NONE
        bid = scaled_down(word, t.cards + 1 - int(is_hooked))
        return BID_OFFSET + bid + int(is_hooked & (bid >= forbidden))
    cards = legal_cards(t)
    return nth_card(cards, scaled_down(word, popcount(cards)))


@njit
def play_random(r: RulesRecord, t: TableRecord, num_decisions: int, state: Array) -> None:
    """Take that many random actions at a table, dealing all its rounds and matches to come."""
    word = state[0]
    for _ in range(num_decisions):
        word = next_state(word)
        if apply_action(r, t, random_action(r, t, word)) and next_round(r, t):
            t.match += 1
            begin_match(r, t, 0, r.num_rounds - 1, NONE)
    state[0] = word


@njit
def random_actions(rules: Array, tables: Array, state: Array, actions: Array) -> None:
    """Write a random legal action of every table into `actions` (N,) int64."""
    word = state[0]
    for i in range(tables.shape[0]):
        t = tables[i]
        word = next_state(word)
        actions[i] = random_action(rules[t.rules], t, word)
    state[0] = word
