"""Worlds as a searching bot imagines them: fair ones, the likelier kept, and played to the end.

Worlds come from `sampler`. One in which the rule player would have bid as the other seats did is
kept, any other the less often the further its bids are off. Bids a seat cannot know, and those made
blind, say nothing. No kernel here reads what the seat may not know: all starts from a stripped
table, and all chance from what the seat sees.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit, read_word
from judgement_env.bots.last_tricks import settle_exactly
from judgement_env.bots.rule_player import WEIGHTS, heuristic_action, heuristic_bid, power
from judgement_env.cards import NONE
from judgement_env.engine import (
    apply_action,
    apply_bid,
    mix,
    next_seat,
    open_bidding,
    settle_round,
)
from judgement_env.observation import SIZE, encode
from judgement_env.sampler import (
    GOLDEN,
    WorldsRecord,
    count_worlds,
    deal_world,
    fraction,
    strip,
)
from judgement_env.state import BIDDING, PLAYING, Array, Bits, RulesRecord, TableRecord

# Tables to work at: what the seat knows, a world, that world being judged or played on.
KNOWN, WORLD, PLAYED = range(3)
NUM_WORK = 3
# Measured against the rule player, 7 cards: worlds whose bids fit win 0.4 points a round more, at
# 0.15 as at 0.4. A bid that is off by so many tricks counts as OFF_BID to their power; after TRIES
# worlds that were not kept, one is taken as it is.
OFF_BID = 0.25
TRIES = 24

# --- chance -----------------------------------------------------------------------------------


@njit
def seen_state(r: RulesRecord, t: TableRecord, seed: Bits, raw: Array) -> Bits:
    """Return the state of a generator for this decision, made of the seed and what the seat sees.

    `raw` (SIZE,) uint8 is room to work in.
    """
    encode(r, t, t.seat, raw)
    state = mix(seed)
    for start in range(0, SIZE - 7, 8):
        state = (state ^ read_word(raw, start)) * GOLDEN
        state ^= state >> np.uint64(32)
    return mix(state ^ read_word(raw, SIZE - 8))


# --- likelihood -------------------------------------------------------------------------------


@njit
def begin_again(r: RulesRecord, t: TableRecord) -> None:
    """Take a table whose hands are known back to before the first bid of its round."""
    open_bidding(r, t)
    for seat in range(r.num_players):
        t.hand[seat, 0] = t.dealt[seat, 0]
        t.hand[seat, 1] = t.dealt[seat, 1]


@njit
def fits_bids(r: RulesRecord, t: TableRecord, again: TableRecord, viewer: int, state: Bits) -> bool:
    """Draw whether a world is kept, by how far the rule player's bids are off those made.

    `again` is a copy of the world, to work in.
    """
    begin_again(r, again)
    for _ in range(t.num_bids):
        seat = int(again.seat)
        bid = int(t.bid[seat])
        if bid == NONE:
            return True
        if seat != viewer:
            off = abs(heuristic_bid(r, again, WEIGHTS) - bid)
            state += GOLDEN
            if off > 0 and fraction(state) >= power(OFF_BID, off):
                return False
        apply_bid(r, again, bid)
    return True


@njit
def fill_bids(r: RulesRecord, t: TableRecord) -> None:
    """Make bids that are made but hidden those of the rule player."""
    if t.phase != BIDDING or not r.is_simultaneous:
        return
    viewer = int(t.seat)
    seat = int(t.leader)
    for _ in range(t.num_bids):
        if t.bid[seat] == NONE:
            t.seat = seat
            t.bid[seat] = heuristic_bid(r, t, WEIGHTS)
            t.bid_sum += t.bid[seat]
        seat = next_seat(r, t, seat)
    t.seat = viewer


# --- worlds -----------------------------------------------------------------------------------


@njit
def begin_worlds(
    r: RulesRecord, t: TableRecord, viewer: int, work: Array, s: WorldsRecord
) -> Array:
    """Take stock of what `viewer` knows in ``work[KNOWN]`` and `s`; the ways as `count_worlds`."""
    work[KNOWN] = t
    strip(r, work[KNOWN], viewer)
    return count_worlds(r, work[KNOWN], viewer, s)


@njit
def imagine(
    r: RulesRecord, viewer: int, work: Array, s: WorldsRecord, ways: Array, state: Bits
) -> Bits:
    """Deal a likely world into ``work[WORLD]``; return the generator's new state."""
    known = work[KNOWN]
    tries = TRIES if known.num_bids > 0 and not known.is_blind else 1
    for left in range(tries, 0, -1):
        work[WORLD] = known
        state = deal_world(r, work[WORLD], s, ways, state)
        if left == 1:
            break
        work[PLAYED] = work[WORLD]
        state += GOLDEN
        if fits_bids(r, work[WORLD], work[PLAYED], viewer, state):
            break
    fill_bids(r, work[WORLD])
    return state


# --- rollouts ---------------------------------------------------------------------------------


@njit
def is_certain(r: RulesRecord, t: TableRecord, who: int) -> bool:
    """Return whether the seats of bits set in `who` get the same points however the rest goes."""
    left = int(t.cards) - int(t.trick)
    for seat in range(r.num_players):
        if (who >> seat) & 1:
            won = int(t.won[seat])
            points = r.points[t.cards, t.bid[seat], won]
            for more in range(1, left + 1):
                if r.points[t.cards, t.bid[seat], won + more] != points:
                    return False
    return True


@njit
def roll_out(r: RulesRecord, t: TableRecord, who: int, exact: int) -> None:
    """Settle a round for the seats of bits set in `who`, all seats going on by the rule player.

    The last `exact` tricks, one or more, are played exactly; nothing more is played once the points
    of those seats are certain, so that others' may be wrong.
    """
    while True:
        if t.phase == PLAYING:
            is_near = t.cards - t.trick <= exact
            if (is_near or t.turn == 0) and is_certain(r, t, who):
                settle_round(r, t)
                return
            if is_near:
                settle_exactly(r, t)
                return
        if apply_action(r, t, heuristic_action(r, t)):
            return
