"""Decisions as rows of arrays, in canonical suits; how one is written, drawn and rewarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from judgement_env._jit import njit
from judgement_env.bots.inputs import (
    MAX_NONZERO,
    canonical_action,
    write_inputs,
)
from judgement_env.cards import BID_OFFSET, NONE, NUM_ACTIONS
from judgement_env.observation import encode
from judgement_env.state import Array, RulesRecord, TableRecord


class Rows(NamedTuple):
    """Decisions as arrays; R rows."""

    column: Array  # (R, MAX_NONZERO) uint16, the non-zero inputs: the actor's, then the critic's
    value: Array  # (R, MAX_NONZERO) float32, their values
    num_actor: Array  # (R,) int32, how many of them the actor sees
    num_critic: Array  # (R,) int32, how many the critic sees
    mask: Array  # (R, 79) int8, legal actions
    places: Array  # (R, 4) int32, canonical place of each suit
    action: Array  # (R,) int32
    log_chance: Array  # (R,) float32, log probability of the action when it was taken
    seat: Array  # (R,) int32, who decides
    is_own: Array  # (R,) bool, to be learned; False: a field's, or beside another's rare hand
    is_bid: Array  # (R,) bool
    is_explored: Array  # (R,) bool, taken by lot, not by the policy
    following: Array  # (R,) int32, the seat's next decision in this round, -1 = none
    reward: Array  # (R,) float32, of the round, at the seat's last decision in it
    is_last: Array  # (R,) bool, the round was settled after this decision


# Logits (N, 79) float32 of the chosen rows.
LogitsOf = Callable[[Rows, Array], Array]


class Seating(NamedTuple):
    """Who learns where, and how rounds are dealt."""

    num_rule_bot: int  # the first tables, at which the rule bot plays all seats but one
    has_field: bool  # a frozen policy plays all seats but one of the others
    rare_deals: float  # share of the rounds in which one seat has a rare hand


def new_rows(size: int) -> Rows:
    """Return empty rows."""
    return Rows(
        column=np.zeros((size, MAX_NONZERO), np.uint16),
        value=np.zeros((size, MAX_NONZERO), np.float32),
        num_actor=np.zeros(size, np.int32),
        num_critic=np.zeros(size, np.int32),
        mask=np.zeros((size, NUM_ACTIONS), np.int8),
        places=np.zeros((size, 4), np.int32),
        action=np.zeros(size, np.int32),
        log_chance=np.zeros(size, np.float32),
        seat=np.zeros(size, np.int32),
        is_own=np.ones(size, np.bool_),
        is_bid=np.zeros(size, np.bool_),
        is_explored=np.zeros(size, np.bool_),
        following=np.full(size, NONE, np.int32),
        reward=np.zeros(size, np.float32),
        is_last=np.zeros(size, np.bool_),
    )


@njit
def learner_of(r: RulesRecord, t: TableRecord, i: int, seating: Seating) -> int:
    """Return the seat that alone learns at table `i`, another each match; NONE: every seat does."""
    if i < seating.num_rule_bot or seating.has_field:
        return int((i + t.match) % r.num_players)
    return NONE


@njit
def write_decision(
    r: RulesRecord, t: TableRecord, raw: Array, mask: Array, rows: Rows, row: int
) -> None:
    """Write what the seat to act sees, and may do, as inputs of the policy; `raw` keeps it."""
    encode(r, t, t.seat, raw)
    places = rows.places[row]
    rows.num_actor[row] = write_inputs(raw, places, rows.column[row], rows.value[row])
    for action in range(NUM_ACTIONS):
        rows.mask[row, canonical_action(action, places)] = mask[action]


@njit
def plain_action(action: int, places: Array) -> int:
    """Return the action id of an action in canonical suits."""
    if action < BID_OFFSET:
        for suit in range(4):
            if places[suit] == action // 13:
                return suit * 13 + action % 13
    return action


@njit
def sample_actions(logits: Array, uniform: Array, rows: Rows, start: int) -> None:
    """Draw a legal action of each row from the softmax of its logits, one uniform number each."""
    for b in range(logits.shape[0]):
        row = start + b
        peak = -np.inf
        for action in range(NUM_ACTIONS):
            if rows.mask[row, action]:
                peak = max(peak, logits[b, action])
        total = 0.0
        for action in range(NUM_ACTIONS):
            if rows.mask[row, action]:
                total += np.exp(logits[b, action] - peak)
        left = uniform[b] * total
        chosen = NONE
        for action in range(NUM_ACTIONS):
            if rows.mask[row, action]:
                chosen = action
                left -= np.exp(logits[b, action] - peak)
                if left < 0:
                    break
        rows.action[row] = chosen
        rows.log_chance[row] = logits[b, chosen] - peak - np.log(total)


@njit
def round_reward(r: RulesRecord, t: TableRecord, seat: int, relative: float) -> float:
    """Return a seat's reward of a round just settled.

    Its points minus `relative` times the mean of the others, over ten units (see
    `state.points_unit`), so that every scoring has rewards around one.
    """
    total = 0
    for other in range(r.num_players):
        total += t.points[other]
    others = (total - t.points[seat]) / (r.num_players - 1)
    return float((t.points[seat] - relative * others) / (10 * r.unit))
