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
    is_certain,
    roll_out,
    seen_state,
)
from judgement_env.bots.last_tricks import MAX_EXACT, cards_of_others, same_as_lower
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.bots.search import MAX_COUNT, LookAheadBot
from judgement_env.cards import BID_OFFSET, NONE
from judgement_env.engine import ONE, ZERO, apply_action, card_bit, legal_actions, lowest
from judgement_env.observation import SIZE, unseen_words
from judgement_env.sampler import WORLDS_RECORD, WorldsRecord
from judgement_env.state import (
    BIDDING,
    PLAYING,
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
def open_choices(r: RulesRecord, t: TableRecord, viewer: int, unseen: Bits) -> Bits:
    """Return what the seat to act may do: cards, the lowest of those that do the same, or bids.

    To `viewer` cards do the same where none of `unseen` lies between, whatever the world.
    """
    cards, bids = legal_actions(r, t)
    if t.phase == BIDDING:
        return bids
    others = unseen if t.seat == viewer else cards_of_others(r, t, int(t.seat))
    if t.best != NONE:
        others |= card_bit(int(t.best))
    return cards & ~same_as_lower(cards, others)


@njit
def select_child(
    nodes: Array, parent: int, choices: Bits, first: int, logs: Array, width: float
) -> tuple[int, Bits]:
    """Return the open node below `parent` with the highest upper confidence bound.

    Bit c of `choices` stands for action ``first + c``. Returns those that have no node, too.
    """
    best = NONE
    highest = -np.inf
    child = int(nodes[parent].child)
    while child != NONE:
        node = nodes[child]
        bit = card_bit(node.action - first)
        if choices & bit:
            choices ^= bit
            node.chances += 1
            bound = node.results / node.visits
            bound += width * np.sqrt(logs[node.chances - 1] / node.visits)
            if bound > highest:
                highest = bound
                best = child
        child = int(node.sibling)
    return best, choices


@njit
def first_untried(r: RulesRecord, t: TableRecord, choices: Bits, untried: Bits, first: int) -> int:
    """Return the `untried` action that the rule player takes, or one that does the same.

    The lowest where that one is tried.
    """
    if untried & (untried - ONE):
        usual = heuristic_action(r, t) - first
        while not choices & card_bit(usual) and usual > 0:
            usual -= 1
        if untried & card_bit(usual):
            return first + usual
    return first + lowest(untried)


@njit
def descend(
    r: RulesRecord,
    t: TableRecord,
    viewer: int,
    unseen: Bits,
    nodes: Array,
    number: int,
    path: Array,
    logs: Array,
) -> int:
    """Walk down the tree, playing at `t`, until a new node or the end; write the way into `path`.

    Returns the length of the path, negative where it ends in node `number`, which is new.
    """
    width = WIDTH * r.unit
    length = 0
    here = 0
    while t.phase != SETTLED:
        seat = int(t.seat)
        first = BID_OFFSET if t.phase == BIDDING else 0
        choices = open_choices(r, t, viewer, unseen)
        below, untried = select_child(nodes, here, choices, first, logs, width)
        is_new = untried != ZERO
        if is_new:
            add_node(nodes, number, here, first_untried(r, t, choices, untried, first), seat)
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
def seats_on(nodes: Array, path: Array, length: int) -> int:
    """Return the seats that take the actions of a path, a bit each."""
    seats = 0
    for step in range(length):
        seats |= 1 << nodes[path[step]].seat
    return seats


@njit
def grow(
    r: RulesRecord,
    t: TableRecord,
    iterations: int,
    exact: int,
    state: Bits,
    unseen: Bits,
    work: Array,
    s: WorldsRecord,
    worlds: Array,
    nodes: Array,
    logs: Array,
) -> int:
    """Grow a tree for the seat to act and return the action to take.

    `work` (NUM_WORK,) and `worlds` (W,) tables, `s` and `nodes` (iterations + 1,) are room to work
    in; each of the worlds serves every W-th iteration. `unseen` is what the seat has not seen,
    ``logs[k]`` the logarithm of k + 1.
    """
    viewer = int(t.seat)
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
        length = descend(r, played, viewer, unseen, nodes, number, path, logs)
        if length < 0:
            number += 1
            length = -length
            if played.phase != SETTLED:
                roll_out(r, played, seats_on(nodes, path, length), exact)
        for step in range(length):
            node = nodes[path[step]]
            node.visits += 1
            node.results += played.points[node.seat]
        if k % LOOK == LOOK - 1 and is_decided(nodes, iterations - 1 - k):
            break
    return most_visited(nodes)


@njit
def ismcts_action(
    r: RulesRecord,
    t: TableRecord,
    iterations: int,
    exact: int,
    seed: Bits,
    raw: Array,
    work: Array,
    s: WorldsRecord,
    worlds: Array,
    nodes: Array,
    logs: Array,
) -> int:
    """Return the action to take; where there is nothing to choose, or to gain, no tree is grown.

    `raw` (SIZE,) uint8 is room to work in, the rest as in `grow`.
    """
    seat = int(t.seat)
    unseen, _ = unseen_words(r, t, seat)
    choices = open_choices(r, t, seat, unseen)
    if choices & (choices - ONE) == ZERO:
        return lowest(choices) + (BID_OFFSET if t.phase == BIDDING else 0)
    if t.phase == PLAYING and is_certain(r, t, 1 << seat):
        return heuristic_action(r, t)
    state = seen_state(r, t, seed, raw)
    return grow(r, t, iterations, exact, state, unseen, work, s, worlds, nodes, logs)


@njit
def grow_rows(
    rules: Array,
    tables: Array,
    rows: Array,
    iterations: int,
    exact: int,
    seed: Bits,
    work: Array,
    stock: Array,
    worlds: Array,
    nodes: Array,
    logs: Array,
    actions: Array,
) -> None:
    """Write the action at each of `rows` into `actions`, both (J,) int64."""
    raw = np.empty(SIZE, np.uint8)
    for j in range(len(rows)):
        t = tables[rows[j]]
        actions[j] = ismcts_action(
            rules[t.rules],
            t,
            iterations,
            exact,
            seed,
            raw,
            work,
            stock[0],
            worlds,
            nodes,
            logs,
        )


class IsmctsBot(LookAheadBot):
    """Grows a tree of `iterations` nodes a decision."""

    name = "ismcts"

    def __init__(self, seed: int = 0, iterations: int = 2000, exact: int = 2) -> None:
        """Take a seed for the worlds, the iterations, and how many last tricks are exact.

        ValueError naming what is wrong.
        """
        super().__init__(seed)
        self.iterations = whole("iterations", iterations, 1, MAX_COUNT)
        self.exact = whole("exact", exact, 1, MAX_EXACT)
        # A logarithm takes as long as the rest of a bound.
        self.logs = np.log(np.arange(1, self.iterations + 2, dtype=np.float64))

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = np.empty(len(rows), np.int64)
        grow_rows(
            rules,
            tables,
            rows,
            self.iterations,
            self.exact,
            self.seed,
            new_tables(NUM_WORK),
            np.zeros(1, WORLDS_RECORD),
            new_tables(min(self.iterations, NUM_WORLDS)),
            np.zeros(self.iterations + 1, NODE_RECORD),
            self.logs,
            actions,
        )
        return actions
