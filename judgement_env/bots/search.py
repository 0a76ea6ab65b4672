"""A bot that tries each action in worlds dealt from what its seat knows: `SearchBot`.

Every legal action is tried in the same likely worlds (`beliefs`), all seats going on as the rule
player would, and the best mean of the own points wins: perfect-information Monte Carlo, Ginsberg's
method for bridge (JAIR 14, 2001). Actions that fall behind are dropped on the way, and the rule
player's action is left only for one that is clearly better. Equal views get equal answers.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit
from judgement_env.arguments import whole
from judgement_env.bots.base import Bot, one_hot
from judgement_env.bots.beliefs import (
    NUM_WORK,
    PLAYED,
    WORLD,
    begin_worlds,
    imagine,
    is_certain,
    roll_out,
    seen_state,
)
from judgement_env.bots.last_tricks import MAX_EXACT
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.cards import NONE, NUM_ACTIONS, NUM_CARDS
from judgement_env.engine import ONE, ZERO, apply_action, card_bit, suit_of, write_mask
from judgement_env.observation import SIZE, unseen_words
from judgement_env.sampler import WORLDS_RECORD, WorldsRecord
from judgement_env.state import PLAYING, Array, Bits, RulesRecord, TableRecord, new_tables
from judgement_env.view import View

# Worlds between two looks at which actions are still worth trying, and by how many standard errors
# one may be behind.
BATCH = 8
BEHIND = 2.0
# Standard errors by which an action must be better than the rule player's. Without it 40 worlds
# play worse than the rule player: the best of many means is often only the luckiest.
MARGIN = 1.0
MAX_SEED = (1 << 64) - 1
MAX_COUNT = 1_000_000


@njit
def merge_equals(r: RulesRecord, t: TableRecord, keep: int, mask: Array) -> None:
    """Leave one of each run of cards in `mask` (79,) that do the same: no card between matters.

    `keep` stays; of others the lowest.
    """
    if t.phase != PLAYING:
        return
    between, _ = unseen_words(r, t, t.seat)
    if t.best != NONE:
        between |= card_bit(int(t.best))
    last = NONE
    for card in range(NUM_CARDS):
        if not mask[card]:
            continue
        if last != NONE and suit_of(last) == suit_of(card):
            # From the one to the other, both included: a second copy of either matters too.
            span = (card_bit(card) | (card_bit(card) - ONE)) & ~(card_bit(last) - ONE)
            if between & span == ZERO:
                mask[last if card == keep else card] = 0
        if mask[card]:
            last = card


@njit
def drop_losers(num_worlds: int, sums: Array, squares: Array, mask: Array) -> int:
    """Take actions that are clearly behind the best out of `mask`; return how many stay."""
    best = -np.inf
    for action in range(NUM_ACTIONS):
        if mask[action]:
            best = max(best, sums[action] / num_worlds)
    left = 0
    for action in range(NUM_ACTIONS):
        if mask[action]:
            mean = sums[action] / num_worlds
            # A point more, for results that happen to be alike so far.
            spread = 1.0 + max(0.0, squares[action] / num_worlds - mean * mean)
            if best - mean > BEHIND * np.sqrt(spread / num_worlds):
                mask[action] = 0
            else:
                left += 1
    return left


@njit
def try_actions(
    r: RulesRecord,
    seat: int,
    usual: int,
    work: Array,
    mask: Array,
    results: Array,
    sums: Array,
    squares: Array,
    exact: int,
) -> None:
    """Try the `usual` action and those of `mask` in ``work[WORLD]``; add what the others gain."""
    for action in range(NUM_ACTIONS):
        if mask[action] or action == usual:
            work[PLAYED] = work[WORLD]
            played = work[PLAYED]
            if not apply_action(r, played, action):
                roll_out(r, played, 1 << seat, exact)
            results[action] = played.points[seat]
    for action in range(NUM_ACTIONS):
        if mask[action]:
            gain = results[action] - results[usual]
            sums[action] += gain
            squares[action] += gain * gain


@njit
def clear_best(usual: int, num_worlds: int, sums: Array, squares: Array, mask: Array) -> int:
    """Return the action of `mask` that gains most on the `usual` one, less the margin."""
    best = usual
    highest = 0.0
    for action in range(NUM_ACTIONS):
        if mask[action]:
            mean = sums[action] / num_worlds
            spread = max(0.0, squares[action] / num_worlds - mean * mean)
            value = mean - MARGIN * np.sqrt(spread / num_worlds)
            if value > highest:
                best = action
                highest = value
    return best


@njit
def search_action(
    r: RulesRecord,
    t: TableRecord,
    worlds: int,
    exact: int,
    state: Bits,
    work: Array,
    s: WorldsRecord,
    mask: Array,
    room: Array,
) -> int:
    """Return the action to take; `mask` (79,) holds the legal ones and loses those given up.

    The last `exact` tricks are played as `roll_out` does. `work` (NUM_WORK,) tables, `s` and `room`
    (3, 79) float64 are room to work in.
    """
    seat = int(t.seat)
    usual = heuristic_action(r, t)
    merge_equals(r, t, usual, mask)
    if mask.sum() == 1 or (t.phase == PLAYING and is_certain(r, t, 1 << seat)):
        return usual
    ways = begin_worlds(r, t, seat, work, s)
    results, sums, squares = room[0], room[1], room[2]
    sums[:] = 0.0
    squares[:] = 0.0
    number = 0
    while number < worlds:
        state = imagine(r, seat, work, s, ways, state)
        number += 1
        try_actions(r, seat, usual, work, mask, results, sums, squares, exact)
        if number % BATCH == 0 and drop_losers(number, sums, squares, mask) == 1:
            break
    return clear_best(usual, number, sums, squares, mask)


@njit
def search_rows(
    rules: Array,
    tables: Array,
    rows: Array,
    worlds: int,
    exact: int,
    seed: Bits,
    work: Array,
    stock: Array,
    actions: Array,
) -> None:
    """Write the action at each of `rows` into `actions`, both (J,) int64."""
    raw = np.empty(SIZE, np.uint8)
    mask = np.empty(NUM_ACTIONS, np.int8)
    room = np.empty((3, NUM_ACTIONS))
    for j in range(len(rows)):
        t = tables[rows[j]]
        r = rules[t.rules]
        if write_mask(r, t, mask) == 1:
            actions[j] = mask.argmax()
        else:
            state = seen_state(r, t, seed, raw)
            actions[j] = search_action(r, t, worlds, exact, state, work, stock[0], mask, room)


class LookAheadBot(Bot):
    """What bots that look ahead share: a seed for their worlds, and one answer to a view."""

    has_rows = True

    def __init__(self, seed: int) -> None:
        """Take a seed for the worlds; ValueError where it is none."""
        self.seed = np.uint64(whole("seed", seed, 0, MAX_SEED))

    def policy(self, view: View) -> Array:
        return one_hot(self.act(view))


class SearchBot(LookAheadBot):
    """Looks ahead in `worlds` worlds a decision; the strongest bot here that needs no training."""

    name = "search"

    def __init__(self, seed: int = 0, worlds: int = 40, exact: int = 1) -> None:
        """Take a seed for the worlds, how many there are, and how many last tricks are exact.

        ValueError naming what is wrong.
        """
        super().__init__(seed)
        self.worlds = whole("worlds", worlds, 1, MAX_COUNT)
        self.exact = whole("exact", exact, 1, MAX_EXACT)

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = np.empty(len(rows), np.int64)
        work, stock = new_tables(NUM_WORK), np.zeros(1, WORLDS_RECORD)
        search_rows(rules, tables, rows, self.worlds, self.exact, self.seed, work, stock, actions)
        return actions
