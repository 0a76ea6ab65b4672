"""Kernels of rounds played on by a policy: likely worlds, copies of them, and the next choice.

The policy itself is asked in between, for all copies at once (`net_search`). Nothing here reads
what a seat may not know, but for the copies, which are imagined.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit
from judgement_env.bots.beliefs import WORLD, begin_worlds, imagine, seen_state
from judgement_env.cards import NUM_ACTIONS
from judgement_env.engine import apply_action, write_mask
from judgement_env.observation import SIZE
from judgement_env.state import SETTLED, Array, Bits, RulesRecord, TableRecord


@njit
def deal_likely(
    rules: Array,
    tables: Array,
    row: int,
    seed: Bits,
    work: Array,
    stock: Array,
    worlds: Array,
) -> None:
    """Deal likely `worlds` (W,) tables from what the seat to act of ``tables[row]`` knows.

    `work` (NUM_WORK,) tables and `stock` (1,) WORLDS_RECORD are room to work in.
    """
    t = tables[row]
    r = rules[t.rules]
    viewer = int(t.seat)
    state = seen_state(r, t, seed, np.empty(SIZE, np.uint8))
    ways = begin_worlds(r, t, viewer, work, stock[0])
    for k in range(worlds.shape[0]):
        state = imagine(r, viewer, work, stock[0], ways, state)
        worlds[k] = work[WORLD]


@njit
def play_forced(r: RulesRecord, t: TableRecord, mask: Array) -> bool:
    """Play on while there is no choice; return whether there is one before the round is settled."""
    while t.phase != SETTLED:
        if write_mask(r, t, mask) > 1:
            return True
        apply_action(r, t, int(mask.argmax()))
    return False


@njit
def advance_copies(rules: Array, tables: Array, rows: Array, actions: Array) -> int:
    """Take an action at each of `rows` and play to the next choice in its round.

    Those with a choice to come move to the front of `rows`; returns how many they are.
    """
    mask = np.empty(NUM_ACTIONS, np.int8)
    left = 0
    for j in range(rows.shape[0]):
        t = tables[rows[j]]
        r = rules[t.rules]
        apply_action(r, t, actions[j])
        if play_forced(r, t, mask):
            rows[left] = rows[j]
            left += 1
    return left
