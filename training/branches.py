"""What actions are worth, found by playing each of them out: advantages without a critic.

A decision's likely actions are each tried on a copy of its table, and all copies are played to the
end of the round by the current policy. One row then teaches about every action tried, not only
about the one taken, and what is compared differs in nothing but the action: the noise that a
critic leaves in a single round's result is gone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from judgement_env._jit import njit
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.cards import NUM_ACTIONS
from judgement_env.engine import apply_action, write_mask
from judgement_env.observation import SIZE
from judgement_env.state import MAX_SEATS, Array, new_tables
from training.objective import Objective, write_rewards
from training.rows import (
    LogitsOf,
    Rows,
    Seating,
    learner_of,
    new_rows,
    plain_action,
    sample_actions,
    write_decision,
)

# Actions less likely than this are played out only in this share of the decisions.
LEAST_LOG_CHANCE = float(np.log(0.002))
EXPLORED = 0.0625


class Branches(NamedTuple):
    """Likely actions of a decision, each tried on a copy of the table; B copies at a time at most.

    The copies are played to the end of the round by the current policy: the seat that decides takes
    its likeliest actions from there on, as it will when it plays for good, the others draw theirs.
    All actions of a decision meet the same hidden cards, so that their differences are not luck.
    """

    tables: Array  # (B,) TABLE_RECORD, the copies still in play, closed up
    rows: Rows  # B rows, what the copies have to decide next
    table: Array  # (B,) int32, the table a copy was taken of
    seat: Array  # (B,) int32, whose action is tried
    tried: Array  # (B,) int32, the action tried, in canonical suits
    gain: Array  # (R, 79) float32, reward of the round after each action tried of each row
    is_tried: Array  # (R, 79) bool, the actions tried
    log_chances: Array  # (R, 79) float32, log probabilities of legal actions when decided


def new_branches(rules: Array, num_tables: int, num_rows: int) -> Branches:
    """Return room for the copies of `num_tables` tables and the worth of `num_rows` decisions."""
    size = num_tables * (int(rules["cards"].max()) + 1)
    return Branches(
        tables=new_tables(size),
        rows=new_rows(size),
        table=np.zeros(size, np.int32),
        seat=np.zeros(size, np.int32),
        tried=np.zeros(size, np.int32),
        gain=np.zeros((num_rows, NUM_ACTIONS), np.float32),
        is_tried=np.zeros((num_rows, NUM_ACTIONS), np.bool_),
        log_chances=np.zeros((num_rows, NUM_ACTIONS), np.float32),
    )


@njit
def write_log_chances(logits: Array, mask: Array, out: Array, start: int) -> None:
    """Write log probabilities of the legal actions of row ``start + b``, 0 for illegal ones."""
    for b in range(logits.shape[0]):
        row = start + b
        peak = -np.inf
        for action in range(NUM_ACTIONS):
            if mask[row, action]:
                peak = max(peak, logits[b, action])
        total = 0.0
        for action in range(NUM_ACTIONS):
            if mask[row, action]:
                total += np.exp(logits[b, action] - peak)
        for action in range(NUM_ACTIONS):
            out[row, action] = logits[b, action] - peak - np.log(total) if mask[row, action] else 0


@njit
def choose_branches(rows: Rows, start: int, branches: Branches, uniform: Array) -> None:
    """Say which actions of row ``start + i`` to try; a row with one candidate tries none.

    Candidates are actions the policy may well take, and every legal one in some rows by lot.
    """
    for i in range(uniform.shape[0]):
        row = start + i
        least = -np.inf if uniform[i] < EXPLORED else LEAST_LOG_CHANCE
        count = 0
        for action in range(NUM_ACTIONS):
            is_tried = rows.mask[row, action] != 0 and branches.log_chances[row, action] >= least
            is_tried = is_tried and rows.is_own[row]
            branches.is_tried[row, action] = is_tried
            branches.gain[row, action] = 0
            count += is_tried
        if count == 1:
            branches.is_tried[row] = False


@njit
def branch(tables: Array, rows: Rows, start: int, branches: Branches) -> int:
    """Copy each table once for each action to try of row ``start + i``; return how many copies."""
    count = 0
    for i in range(tables.shape[0]):
        row = start + i
        for action in range(NUM_ACTIONS):
            if branches.is_tried[row, action]:
                branches.tables[count] = tables[i]
                branches.table[count] = i
                branches.seat[count] = rows.seat[row]
                branches.tried[count] = action
                branches.rows.action[count] = action
                branches.rows.places[count] = rows.places[row]
                count += 1
    return count


@njit
def play_branches(
    rules: Array,
    branches: Branches,
    count: int,
    start: int,
    objective: Objective,
    seating: Seating,
) -> int:
    """Let each copy take its row's action and go on to its next real decision.

    Returns how many copies are left; the others' rounds were settled and are noted in `gain`.
    """
    raw = np.empty(SIZE, np.uint8)
    mask = np.empty(NUM_ACTIONS, np.int8)
    rewards = np.empty(MAX_SEATS)
    kept = 0
    for k in range(count):
        t = branches.tables[k]
        r = rules[t.rules]
        i = branches.table[k]
        action = plain_action(int(branches.rows.action[k]), branches.rows.places[k])
        is_settled = apply_action(r, t, action)
        while not is_settled:
            if i < seating.num_rule_bot and t.seat != learner_of(r, t, i, seating):
                is_settled = apply_action(r, t, heuristic_action(r, t))
            elif write_mask(r, t, mask) == 1:
                is_settled = apply_action(r, t, int(mask.argmax()))
            else:
                break
        if is_settled:
            write_rewards(r, t, objective, rewards)
            branches.gain[start + i, branches.tried[k]] = rewards[branches.seat[k]]
            continue
        if kept < k:
            branches.tables[kept] = branches.tables[k]
            branches.table[kept] = i
            branches.seat[kept] = branches.seat[k]
            branches.tried[kept] = branches.tried[k]
        t = branches.tables[kept]
        write_decision(r, t, raw, mask, branches.rows, kept)
        branches.rows.is_own[kept] = not seating.has_field or t.seat == branches.seat[kept]
        kept += 1
    return kept


@njit
def take_likeliest(logits: Array, branches: Branches) -> None:
    """Choose the likeliest legal action wherever the seat whose action is tried decides again."""
    for k in range(logits.shape[0]):
        if branches.tables[k].seat == branches.seat[k]:
            best = -np.inf
            for action in range(NUM_ACTIONS):
                if branches.rows.mask[k, action] and logits[k, action] > best:
                    best = logits[k, action]
                    branches.rows.action[k] = action


class Playouts:
    """Plays out the likely actions of a worker's decisions, a step of its tables at a time."""

    def __init__(
        self,
        rules: Array,
        num_tables: int,
        num_rows: int,
        objective: Objective,
        seating: Seating,
        generator: np.random.Generator,
    ) -> None:
        """Make room; the arguments are those of the `Rollout` it belongs to."""
        self.rules = rules
        self.branches = new_branches(rules, num_tables, num_rows)
        self.objective = objective
        self.seating = seating
        self.generator = generator

    def run(
        self, tables: Array, rows: Rows, start: int, logits: Array, logits_of: LogitsOf
    ) -> None:
        """Write into `branches` what the actions of rows ``start + i`` are worth at table i.

        `logits` (N, 79) are those of the rows, `logits_of` gives them for the decisions to come.
        """
        branches = self.branches
        write_log_chances(logits, rows.mask, branches.log_chances, start)
        choose_branches(rows, start, branches, self.generator.random(len(tables)))
        count = branch(tables, rows, start, branches)
        common = (self.objective, self.seating)
        while True:
            count = play_branches(self.rules, branches, count, start, *common)
            if not count:
                return
            logits = logits_of(branches.rows, np.arange(count))
            sample_actions(logits, self.generator.random(count), branches.rows, 0)
            take_likeliest(logits, branches)
