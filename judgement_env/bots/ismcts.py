"""Bots that grow a tree over worlds dealt from what their seat knows: `IsmctsBot`.

Single-observer information set Monte Carlo tree search (Cowling, Powley and Whitehouse, IEEE TCIAIG
4(2), 2012): every iteration deals a likely world (`beliefs`), walks down one tree of all seats'
actions by upper confidence bounds that count only the worlds in which an action was open, adds a
node and plays on as the rule player would. The root's most visited action is taken.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit
from judgement_env.arguments import whole
from judgement_env.bots.beliefs import (
    NUM_WORK,
    PLAYED,
    WORLD,
    begin_worlds,
    imagine,
    roll_out,
    seen_state,
)
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.bots.search import MAX_COUNT, LookAheadBot
from judgement_env.cards import NONE, NUM_ACTIONS
from judgement_env.engine import apply_action, write_mask
from judgement_env.observation import SIZE
from judgement_env.sampler import WORLDS_RECORD, WorldsRecord
from judgement_env.state import (
    SETTLED,
    Array,
    Bits,
    RulesRecord,
    TableRecord,
    make_record,
    new_tables,
)

# Width of a confidence bound in units of points (`state.points_unit`): about the standard deviation
# of a round's points.
WIDTH = 6.0
# Worlds dealt for one decision at most. Likely ones cost about as much as playing them out.
NUM_WORLDS = 200
# Iterations between two looks at whether any other action can still become the most visited.
LOOK = 32

NODE_RECORD = make_record(
    [
        # the first node below, and the next beside, NONE where there is none
        ("child", "i4"),
        ("sibling", "i4"),
        # the action that leads here and the seat that takes it
        ("action", "i4"),
        ("seat", "i4"),
        # iterations that came through, and those in which the action was open
        ("visits", "i4"),
        ("chances", "i4"),
        # what the seat made of it, summed
        ("results", "f8"),
    ]
)


@njit
def add_node(nodes: Array, number: int, parent: int, action: int, seat: int) -> None:
    """Hang node `number` below `parent`."""
    node = nodes[number]
    node.child = NONE
    node.sibling = nodes[parent].child
    node.action = action
    node.seat = seat
    node.visits = 0
    node.chances = 1
    node.results = 0.0
    nodes[parent].child = number


@njit
def select_child(nodes: Array, parent: int, mask: Array, width: float) -> int:
    """Return the open node below `parent` with the highest upper confidence bound.

    Clears the actions that have a node from `mask` (79,).
    """
    best = NONE
    highest = -np.inf
    child = int(nodes[parent].child)
    while child != NONE:
        node = nodes[child]
        if mask[node.action]:
            mask[node.action] = 0
            node.chances += 1
            bound = node.results / node.visits
            bound += width * np.sqrt(np.log(float(node.chances)) / node.visits)
            if bound > highest:
                highest = bound
                best = child
        child = int(node.sibling)
    return best


@njit
def first_untried(r: RulesRecord, t: TableRecord, mask: Array) -> int:
    """Return an action left in `mask` (79,): the rule player's, else the lowest; NONE if none."""
    for lowest in range(NUM_ACTIONS):
        if mask[lowest]:
            usual = heuristic_action(r, t)
            return usual if mask[usual] else lowest
    return NONE


@njit
def descend(
    r: RulesRecord,
    t: TableRecord,
    nodes: Array,
    number: int,
    path: Array,
    mask: Array,
    width: float,
) -> int:
    """Walk down the tree, playing at `t`, until a new node or the end; write the way into `path`.

    Returns the length of the path, negative where it ends in node `number`, which is new.
    """
    length = 0
    here = 0
    while t.phase != SETTLED:
        seat = int(t.seat)
        write_mask(r, t, mask)
        below = select_child(nodes, here, mask, width)
        action = first_untried(r, t, mask)
        is_new = action != NONE
        if is_new:
            add_node(nodes, number, here, action, seat)
            below = number
        path[length] = below
        length += 1
        apply_action(r, t, int(nodes[below].action))
        if is_new:
            return -length
        here = below
    return length


@njit
def most_visited(nodes: Array) -> int:
    """Return the action below the root that most iterations took."""
    best = int(nodes[0].child)
    child = int(nodes[best].sibling)
    while child != NONE:
        if nodes[child].visits > nodes[best].visits:
            best = child
        child = int(nodes[child].sibling)
    return int(nodes[best].action)


@njit
def is_decided(nodes: Array, left: int) -> bool:
    """Return whether `left` iterations more cannot change which root action is most visited."""
    most = 0
    second = 0
    child = int(nodes[0].child)
    while child != NONE:
        visits = int(nodes[child].visits)
        second = max(second, min(most, visits))
        most = max(most, visits)
        child = int(nodes[child].sibling)
    return most - second > left


@njit
def grow(
    r: RulesRecord,
    t: TableRecord,
    iterations: int,
    state: Bits,
    work: Array,
    s: WorldsRecord,
    worlds: Array,
    nodes: Array,
) -> int:
    """Grow a tree for the seat to act and return the action to take.

    `work` (NUM_WORK,) and `worlds` (W,) tables, `s` and `nodes` (iterations + 1,) are room to work
    in; each of the worlds serves every W-th iteration.
    """
    viewer = int(t.seat)
    width = WIDTH * r.unit
    mask = np.empty(NUM_ACTIONS, np.int8)
    path = np.empty(nodes.shape[0], np.int64)
    ways = begin_worlds(r, t, viewer, work, s)
    nodes[0].child = NONE
    number = 1
    for k in range(iterations):
        place = k % worlds.shape[0]
        if k == place:
            state = imagine(r, viewer, work, s, ways, state)
            worlds[k] = work[WORLD]
        work[PLAYED] = worlds[place]
        played = work[PLAYED]
        length = descend(r, played, nodes, number, path, mask, width)
        if length < 0:
            number += 1
            length = -length
            if played.phase != SETTLED:
                roll_out(r, played)
        for step in range(length):
            node = nodes[path[step]]
            node.visits += 1
            node.results += played.points[node.seat]
        if k % LOOK == LOOK - 1 and is_decided(nodes, iterations - 1 - k):
            break
    return most_visited(nodes)


@njit
def grow_rows(
    rules: Array,
    tables: Array,
    rows: Array,
    iterations: int,
    seed: Bits,
    work: Array,
    stock: Array,
    worlds: Array,
    nodes: Array,
    actions: Array,
) -> None:
    """Write the action at each of `rows` into `actions`, both (J,) int64."""
    raw = np.empty(SIZE, np.uint8)
    mask = np.empty(NUM_ACTIONS, np.int8)
    for j in range(len(rows)):
        t = tables[rows[j]]
        r = rules[t.rules]
        if write_mask(r, t, mask) == 1:
            actions[j] = mask.argmax()
        else:
            state = seen_state(r, t, seed, raw)
            actions[j] = grow(r, t, iterations, state, work, stock[0], worlds, nodes)


class IsmctsBot(LookAheadBot):
    """Grows a tree of `iterations` nodes a decision."""

    name = "ismcts"

    def __init__(self, seed: int = 0, iterations: int = 2000) -> None:
        """Take a seed for the worlds, and the iterations; ValueError naming what is wrong."""
        super().__init__(seed)
        self.iterations = whole("iterations", iterations, 1, MAX_COUNT)

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = np.empty(len(rows), np.int64)
        grow_rows(
            rules,
            tables,
            rows,
            self.iterations,
            self.seed,
            new_tables(NUM_WORK),
            np.zeros(1, WORLDS_RECORD),
            new_tables(min(self.iterations, NUM_WORLDS)),
            np.zeros(self.iterations + 1, NODE_RECORD),
            actions,
        )
        return actions
