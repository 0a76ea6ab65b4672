"""Collecting decisions: tables played by the current policy in every seat, kept by seat.

A `Rollout` owns N tables and the rows of one batch: row t * N + i is the decision table i came to
at step t. Forced decisions are played by the engine and kept nowhere. A seat's decisions in one
round form its trajectory, linked by `following`; the round's reward stands at the last of them.
Rows are in canonical suits (`judgement_env.bots.policy`), as the network sees and answers them.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch

from judgement_env._jit import njit
from judgement_env.bots import Bot
from judgement_env.bots.inputs import add_oracle_inputs, canonical_action
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.bots.simple import HeuristicBot
from judgement_env.cards import BID_OFFSET, NONE, NUM_ACTIONS
from judgement_env.engine import (
    apply_action,
    begin_match,
    next_round,
    table_key,
    write_mask,
)
from judgement_env.observation import ORACLE_SIZE, SIZE, encode_oracle
from judgement_env.state import MAX_CARDS, MAX_SEATS, Array, RulesRecord, TableRecord, new_tables
from training.branches import Playouts
from training.objective import Objective, make_objective, write_rewards
from training.rare_deals import deal_rare, rare_seat
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

# The share of decisions by lot of a seat with a rare hand: of its bids, of its plays.
BY_LOT = (0.5, 0.05)


class Tally(NamedTuple):
    """What the rounds of a rollout came to, by cards dealt."""

    rounds: Array  # (27,) int64, seats that finished a round
    made: Array  # (27,) int64, of them, made bids
    points: Array  # (27,) int64, sum of points
    bids: Array  # (27, 27) int64, how often each number was bid


def new_tally() -> Tally:
    """Return a tally of nothing."""
    size = MAX_CARDS + 1
    rounds, made, points = np.zeros((3, size), np.int64)
    return Tally(rounds, made, points, np.zeros((size, size), np.int64))


# --- kernels ----------------------------------------------------------------------------------


@njit
def credit_round(
    r: RulesRecord, t: TableRecord, latest: Array, rows: Rows, tally: Tally, objective: Objective
) -> None:
    """Give each seat's latest decision the reward of the round just settled."""
    rewards = np.empty(r.num_players)
    write_rewards(r, t, objective, rewards)
    for seat in range(r.num_players):
        tally.rounds[t.cards] += 1
        tally.made[t.cards] += t.bid[seat] == t.won[seat]
        tally.points[t.cards] += t.points[seat]
        tally.bids[t.cards, t.bid[seat]] += 1
        row = latest[seat]
        if row != NONE:
            rows.reward[row] = rewards[seat]
            rows.is_last[row] = True
        latest[seat] = NONE


@njit
def deal_anew(r: RulesRecord, t: TableRecord, i: int, seating: Seating) -> None:
    """Deal the round just begun anew where it is one with a rare hand."""
    seat = rare_seat(r, t, seating.rare_deals, learner_of(r, t, i, seating))
    if seat != NONE:
        deal_rare(r, t, seat)


@njit
def take(
    r: RulesRecord,
    t: TableRecord,
    i: int,
    action: int,
    latest: Array,
    rows: Rows,
    tally: Tally,
    objective: Objective,
    seating: Seating,
) -> None:
    """Apply an action at table `i`; credit a round it settles, deal the next, begin a match."""
    if apply_action(r, t, action):
        credit_round(r, t, latest[i], rows, tally, objective)
        if next_round(r, t):
            t.match += 1
            begin_match(r, t, 0, r.num_rounds - 1, NONE)
        deal_anew(r, t, i, seating)


@njit
def observe_tables(
    rules: Array,
    tables: Array,
    latest: Array,
    rows: Rows,
    start: int,
    tally: Tally,
    objective: Objective,
    seating: Seating,
) -> None:
    """Bring every table to its next real decision and write it as row ``start + i``."""
    raw = np.empty(SIZE, np.uint8)
    oracle = np.empty(ORACLE_SIZE, np.uint8)
    mask = np.empty(NUM_ACTIONS, np.int8)
    for i in range(tables.shape[0]):
        t = tables[i]
        r = rules[t.rules]
        while True:
            if i < seating.num_rule_bot and t.seat != learner_of(r, t, i, seating):
                action = heuristic_action(r, t)
            elif write_mask(r, t, mask) == 1:
                action = int(mask.argmax())
            else:
                break
            take(r, t, i, action, latest, rows, tally, objective, seating)
        row = start + i
        write_decision(r, t, raw, mask, rows, row)
        encode_oracle(r, t, t.seat, oracle)
        rows.num_critic[row] = add_oracle_inputs(
            oracle, rows.places[row], rows.column[row], rows.value[row], rows.num_actor[row]
        )
        rows.seat[row] = t.seat
        learner = learner_of(r, t, i, seating)
        rare = rare_seat(r, t, seating.rare_deals, learner)
        if rare != NONE:
            learner = rare
        rows.is_own[row] = learner == NONE or t.seat == learner
        rows.is_bid[row] = mask[BID_OFFSET:].any()
        rows.is_explored[row] = False
        rows.following[row] = NONE
        rows.is_last[row] = False
        rows.reward[row] = 0
        if latest[i, t.seat] != NONE:
            rows.following[latest[i, t.seat]] = row
        latest[i, t.seat] = row


@njit
def write_examples(actions: Array, rows: Rows, start: int) -> None:
    """Write a teacher's action at table `i` as the action of row ``start + i``."""
    for i in range(actions.shape[0]):
        action = int(actions[i])
        rows.action[start + i] = canonical_action(action, rows.places[start + i])
        rows.log_chance[start + i] = 0


@njit
def explore(
    rules: Array,
    tables: Array,
    logits: Array,
    uniform: Array,
    rows: Rows,
    start: int,
    seating: Seating,
) -> None:
    """Let some decisions with a rare hand fall by lot, whatever was drawn for them.

    The log chance is the policy's, so that an action it never tries counts in full once it is
    tried: in the mean that is the natural gradient (Kakade, NeurIPS 2001), which moves the logit of
    an action by its advantage, however small its chance.
    """
    for i in range(tables.shape[0]):
        row = start + i
        share = BY_LOT[0] if rows.is_bid[row] else BY_LOT[1]
        if uniform[i] >= share:
            continue
        t = tables[i]
        r = rules[t.rules]
        if rare_seat(r, t, seating.rare_deals, learner_of(r, t, i, seating)) != t.seat:
            continue
        left = int(uniform[i] / share * rows.mask[row].sum())
        chosen = 0
        while rows.mask[row, chosen] == 0 or left > 0:
            left -= rows.mask[row, chosen]
            chosen += 1
        rows.log_chance[row] += logits[i, chosen] - logits[i, rows.action[row]]
        rows.action[row] = chosen
        rows.is_explored[row] = True


@njit
def act_tables(
    rules: Array,
    tables: Array,
    latest: Array,
    rows: Rows,
    start: int,
    tally: Tally,
    objective: Objective,
    seating: Seating,
) -> None:
    """Let every table take the action of row ``start + i``."""
    for i in range(tables.shape[0]):
        t = tables[i]
        r = rules[t.rules]
        action = plain_action(int(rows.action[start + i]), rows.places[start + i])
        take(r, t, i, action, latest, rows, tally, objective, seating)


@njit
def begin_tables(rules: Array, tables: Array, seed: int, seating: Seating) -> None:
    """Seat the tables at rounds spread over the schedule, so that batches hold all sizes."""
    for i in range(tables.shape[0]):
        t = tables[i]
        t.rules = i % rules.shape[0]
        r = rules[t.rules]
        t.key = table_key(np.uint64(seed), i)
        t.match = 0
        begin_match(r, t, (i // rules.shape[0]) % r.num_rounds, r.num_rounds - 1, NONE)
        deal_anew(r, t, i, seating)


# --- a worker's tables ------------------------------------------------------------------------


class Rollout:
    """N tables played by one policy in every seat, T decisions of each at a time."""

    def __init__(
        self,
        rules: Array,
        num_tables: int,
        num_steps: int,
        seed: int,
        objective: Objective | None = None,
        rule_bot_tables: float = 0.0,
        plays_out: bool = False,
        field: LogitsOf | None = None,
        rare_deals: float = 0.0,
        teacher: Bot | None = None,
    ) -> None:
        """Seat the tables.

        `seed` names deals and action draws, `objective` says what a round is worth (None: the lead
        in points), `rule_bot_tables` is the share of tables at which the rule bot plays all seats
        but one, `plays_out` asks for the worth of the actions not taken, too (`self.playouts`),
        `field` plays all seats but one of the tables without rule bots and learns nothing,
        `rare_deals` is the share of rounds with a rare hand, whose seat alone learns of the round,
        `teacher` is who is imitated (None: the rule bot).
        """
        self.rules = rules
        self.num_steps = num_steps
        self.objective = make_objective(rules) if objective is None else objective
        self.field = field
        self.teacher = HeuristicBot() if teacher is None else teacher
        num_rule_bot = round(rule_bot_tables * num_tables)
        self.seating = Seating(num_rule_bot, field is not None, rare_deals)
        self.tables = new_tables(num_tables)
        self.generator = np.random.default_rng(seed)
        self.rows = new_rows(num_tables * num_steps)
        self.playouts: Playouts | None = None
        if plays_out:
            self.playouts = Playouts(
                rules,
                num_tables,
                num_tables * num_steps,
                self.objective,
                self.seating,
                self.generator,
            )
        self.tally = new_tally()
        self.inference_seconds = 0.0
        begin_tables(rules, self.tables, seed, self.seating)

    def collect(self, logits_of: Any, is_imitating: bool = False) -> Rows:
        """Play T decisions at every table; ``logits_of(rows, which)`` gives (N, 79) float32.

        With `is_imitating` the teacher decides instead, as an example to learn from.

        Rounds in progress at the start are played on, but what was decided in them before belongs
        to the batch before; their trajectories start here.
        """
        num_tables = len(self.tables)
        latest = np.full((num_tables, MAX_SEATS), NONE, np.int64)
        self.tally = new_tally()
        self.inference_seconds = 0.0
        tables = (self.rules, self.tables)
        common = (*tables, latest, self.rows)
        playing = (self.tally, self.objective, self.seating)

        def timed(rows: Rows, which: Array) -> Any:
            before = time.perf_counter()
            logits = (
                logits_of(rows, which) if self.field is None else self.both(logits_of, rows, which)
            )
            self.inference_seconds += time.perf_counter() - before
            return logits

        for start in range(0, num_tables * self.num_steps, num_tables):
            observe_tables(*common, start, *playing)
            if is_imitating:
                actions = self.teacher.act_rows(*tables, np.arange(num_tables))
                write_examples(actions, self.rows, start)
            else:
                logits = timed(self.rows, np.arange(start, start + num_tables))
                if self.playouts is not None:
                    self.playouts.run(self.tables, self.rows, start, logits, timed)
                sample_actions(logits, self.generator.random(num_tables), self.rows, start)
                if self.seating.rare_deals:
                    draws = self.generator.random(num_tables)
                    explore(*tables, logits, draws, self.rows, start, self.seating)
            act_tables(*common, start, *playing)
        return self.rows

    def both(self, logits_of: LogitsOf, rows: Rows, which: Array) -> Array:
        """Return the logits of the policy where it decides, of the field where that does."""
        assert self.field is not None
        logits = np.empty((len(which), NUM_ACTIONS), np.float32)
        is_own = rows.is_own[which]
        for part, of in ((is_own, logits_of), (~is_own, self.field)):
            if part.any():
                logits[part] = of(rows, which[part])
        return logits

    def get_state(self) -> dict[str, Any]:
        """Return tables and generator, so that `set_state` continues the same play."""
        tables = torch.from_numpy(self.tables.view(np.uint8).copy())
        return {"tables": tables, "generator": self.generator.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from `get_state` of a rollout of the same shape."""
        content, size = state["tables"].numpy(), self.tables.dtype.itemsize
        if content.nbytes % size:
            raise ValueError(
                f"tables: {content.nbytes} bytes saved are no tables of {size}: the run was made by"
                " another version of the package; start a new one from its model (--start)"
            )
        saved = content.view(self.tables.dtype)
        if len(saved) != len(self.tables):
            raise ValueError(f"tables: {len(saved)} saved, {len(self.tables)} wanted")
        self.tables = saved.copy()
        self.generator.bit_generator.state = state["generator"]
