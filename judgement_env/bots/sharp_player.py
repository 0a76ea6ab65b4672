"""`heuristic+`: the rule player's chances of tricks, corrected by what was learned from play.

For each bid and each card two small networks say how likely the seat ends 3 or more tricks short of
its bid, 2, 1, on it, 1, 2, 3 or more over; the choice with the most points to expect is taken.
Their inputs are those of `trick_inputs`, their constants come from `training/fit_tricks.py`.
Nothing here reads what the seat may not know, and nothing is drawn by lot.

>>> SharpBot().name
'heuristic+'
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from judgement_env._jit import njit, stack_numbers
from judgement_env.bots.base import Bot, one_hot
from judgement_env.bots.rule_player import (
    CARDS,
    DESPERATE,
    LOST,
    WEIGHTS,
    boss_trump,
    heuristic_bid,
    heuristic_play,
    signed,
    standing,
)
from judgement_env.bots.trick_inputs import (
    BID_OWN,
    BID_SHARED,
    PLAY_OWN,
    PLAY_SHARED,
    begin_bid,
    begin_play,
    sure_tricks,
    write_bid,
    write_card,
    write_choice,
    write_play,
)
from judgement_env.cards import BID_OFFSET, NONE
from judgement_env.engine import ONE, card_bit, forbidden_bid, legal_cards, lowest
from judgement_env.observation import knows_hand, unseen_words
from judgement_env.state import BIDDING, Array, RulesRecord, TableRecord
from judgement_env.view import View

FILE = Path(__file__).with_name("tricks.safetensors")
# Widths of the two hidden layers, and the outcomes told apart.
FIRST, SECOND = 48, 24
FARTHEST = 3
OUTCOMES = 2 * FARTHEST + 1
# Where the parts of a network stand: a layer's weights by input, then its shifts.
PLAY_INPUTS, BID_INPUTS = PLAY_SHARED + PLAY_OWN, BID_SHARED + BID_OWN
# Where things stand in the numbers to work with: inputs, the shared part of the first layer, both
# hidden layers, outcomes.
INPUTS, BASE, HIDDEN, SECONDS, CHANCES = 0, 128, 192, 256, 320


def num_constants(num_inputs: int) -> int:
    """Return how many constants a network has."""
    return (num_inputs + 1) * FIRST + (FIRST + 1) * SECOND + (SECOND + 1) * OUTCOMES


@njit
def add_inputs(net: Array, start: int, stop: int, x: Array, out: int) -> None:
    """Add what inputs `start` to `stop` make of the first layer to ``x[out]`` and what follows."""
    for k in range(start, stop):
        value = x[INPUTS + k]
        if value != 0.0:
            row = k * FIRST
            for j in range(FIRST):
                x[out + j] += value * net[row + j]


@njit
def begin_estimates(net: Array, shared: int, inputs: int, x: Array) -> None:
    """Write the part of the first layer that all choices share."""
    shifts = inputs * FIRST
    for j in range(FIRST):
        x[BASE + j] = net[shifts + j]
    add_inputs(net, 0, shared, x, BASE)


@njit
def write_estimates(net: Array, shared: int, inputs: int, x: Array) -> None:
    """Write the chances of the outcomes of one choice into ``x[CHANCES]`` and what follows."""
    for j in range(FIRST):
        x[HIDDEN + j] = x[BASE + j]
    add_inputs(net, shared, inputs, x, HIDDEN)
    at = (inputs + 1) * FIRST
    for j in range(SECOND):
        x[SECONDS + j] = net[at + FIRST * SECOND + j]
    for k in range(FIRST):
        value = x[HIDDEN + k]
        if value > 0.0:
            for j in range(SECOND):
                x[SECONDS + j] += value * net[at + k * SECOND + j]
    at += (FIRST + 1) * SECOND
    for j in range(OUTCOMES):
        x[CHANCES + j] = net[at + SECOND * OUTCOMES + j]
    for k in range(SECOND):
        value = x[SECONDS + k]
        if value > 0.0:
            for j in range(OUTCOMES):
                x[CHANCES + j] += value * net[at + k * OUTCOMES + j]
    total = 0.0
    for j in range(OUTCOMES):
        x[CHANCES + j] = math.exp(x[CHANCES + j])
        total += x[CHANCES + j]
    for j in range(OUTCOMES):
        x[CHANCES + j] /= total


@njit
def expected_points(
    r: RulesRecord, cards: int, bid: int, fewest: int, most: int, x: Array
) -> float:
    """Return the points to expect with a bid under the chances in `x`.

    Tricks are `fewest` to `most` for certain; whatever lies beyond counts as those.
    """
    points = 0.0
    for j in range(OUTCOMES):
        won = min(max(bid + j - FARTHEST, fewest), most)
        points += x[CHANCES + j] * r.points[cards, bid, won]
    return points


@njit
def sharp_bid(r: RulesRecord, t: TableRecord, net: Array) -> int:
    """Return the legal bid that promises most points to the seat to act."""
    if not knows_hand(t):
        return heuristic_bid(r, t, WEIGHTS)
    room = stack_numbers()
    x = stack_numbers()
    begin_bid(r, t, room)
    write_bid(r, t, room, x)
    begin_estimates(net, BID_SHARED, BID_INPUTS, x)
    cards = int(t.cards)
    forbidden = forbidden_bid(r, t)
    best = -np.inf
    choice = NONE
    sure = sure_tricks(r, t)
    for bid in range(cards + 1):
        if bid == forbidden:
            continue
        write_choice(r, t, bid, room, x, BID_SHARED)
        write_estimates(net, BID_SHARED, BID_INPUTS, x)
        value = expected_points(r, cards, bid, sure, cards, x)
        if value > best:
            best = value
            choice = bid
    return choice


@njit
def sharp_play(r: RulesRecord, t: TableRecord, net: Array) -> int:
    """Return the legal card that promises most points to the seat to act."""
    legal = legal_cards(t)
    if not legal & (legal - ONE):
        return signed(lowest(legal))
    seat = int(t.seat)
    left = int(t.cards - t.trick)
    mood = standing(t, seat, left)
    if mood == LOST:
        return heuristic_play(r, t, WEIGHTS)
    once, twice = unseen_words(r, t, seat)
    if t.led == NONE and mood == DESPERATE:
        card = boss_trump(t, legal, once, twice)
        if card != NONE:
            return card
    room = stack_numbers()
    x = stack_numbers()
    won = int(t.won[seat])
    need = int(t.bid[seat]) - won
    num_cards = begin_play(r, t, need, room)
    write_play(r, t, need, num_cards, room, x)
    begin_estimates(net, PLAY_SHARED, PLAY_INPUTS, x)
    best = -np.inf
    choice = NONE
    for i in range(num_cards):
        card = int(room[CARDS + i])
        if legal & card_bit(card) and card != choice:
            write_card(r, t, need, i, num_cards, once, twice, room, x, PLAY_SHARED)
            write_estimates(net, PLAY_SHARED, PLAY_INPUTS, x)
            value = expected_points(r, int(t.cards), int(t.bid[seat]), won, won + left, x)
            if value > best:
                best = value
                choice = card
    return choice


@njit
def sharp_action(r: RulesRecord, t: TableRecord, bid_net: Array, play_net: Array) -> int:
    """Return the action of `heuristic+` for the seat to act, under these constants."""
    if t.phase == BIDDING:
        return BID_OFFSET + sharp_bid(r, t, bid_net)
    return sharp_play(r, t, play_net)


@njit
def sharp_rows(
    rules: Array, tables: Array, rows: Array, bid_net: Array, play_net: Array, actions: Array
) -> None:
    """Write the action at each of `rows` into `actions`, both (J,) int64."""
    for j in range(len(rows)):
        t = tables[rows[j]]
        actions[j] = sharp_action(rules[t.rules], t, bid_net, play_net)


@lru_cache(maxsize=1)
def constants() -> tuple[Array, Array]:
    """Return the constants of the bids' network and of the cards', float64."""
    found = load_file(FILE)
    return found["bid"].astype(np.float64), found["play"].astype(np.float64)


class SharpBot(Bot):
    """Takes what promises most points by learned chances: equal views, equal actions."""

    name = "heuristic+"
    has_rows = True

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = np.empty(len(rows), np.int64)
        bid_net, play_net = constants()
        sharp_rows(rules, tables, rows, bid_net, play_net, actions)
        return actions

    def policy(self, view: View) -> Array:
        return one_hot(self.act(view))
