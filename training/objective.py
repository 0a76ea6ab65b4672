"""What a round is worth to a seat: points, its gain in the chance to win the match, or a mixture.

The chance is the seat's mean share of the win over sample matches: what the rounds left brought
there is added to the totals as they stand. The rule bot plays the samples once, always the same
ones. Seats keep their distance to the dealer, and the points of one round stay together, so that
ties, the hook and the few numbers of points there are count as at the table; a bell curve would
blur them in the last rounds, where matches are decided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from judgement_env._jit import njit
from judgement_env.arena_play import PARTS
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.engine import apply_action, begin_match, next_round, table_key
from judgement_env.state import MAX_SEATS, Array, RulesRecord, TableRecord, new_tables
from training.rows import round_reward

# Sample matches of each set of rules, and the seed of their deals. What a point more is worth then
# has an error of 8 % (kachuful after two rounds); more samples cost time in every round.
SAMPLES = 2048
SEED = 40_000
# Parts of a win for each of those who share it, by their number.
SHARES = np.array([0, *(PARTS // number for number in range(1, MAX_SEATS + 1))], np.int32)
LEAST = -(2**31)


class Objective(NamedTuple):
    """How rounds are rewarded; K sets of rules of at most R rounds and P seats, S samples."""

    relative: float  # weight of the other seats' mean points, see `round_reward`
    match_weight: float  # weight of the gain in the chance to win, 0 to 1; points have the rest
    coming: Array  # (K, R + 1, P, S) int32, points from a round to the match's end, by place
    scale: Array  # (K,) float64, reward of a match won for certain


# --- chances ----------------------------------------------------------------------------------


@njit
def play_samples(r: RulesRecord, t: TableRecord, points: Array, seed: int) -> None:
    """Write the points (R, P, S) of matches among rule bots; seat 0 deals the first round."""
    for sample in range(points.shape[2]):
        t.key = table_key(np.uint64(seed), sample)
        begin_match(r, t, 0, r.num_rounds - 1, 0)
        is_over = False
        while not is_over:
            if apply_action(r, t, heuristic_action(r, t)):
                for seat in range(r.num_players):
                    points[t["round"], seat, sample] = t.points[seat]
                is_over = next_round(r, t)


@njit
def write_chances(totals: Array, coming: Array, chances: Array) -> None:
    """Write each seat's chance to win: from its total (P,), with `coming` (P, S) still to come.

    A win is shared by those with the highest total, so the chances add up to 1. Loops go along the
    samples, several at a time once compiled.
    """
    num_players, num_samples = len(totals), coming.shape[1]
    final = np.empty((num_players, num_samples), np.int32)
    best = np.full(num_samples, LEAST, np.int32)
    share = np.zeros(num_samples, np.int32)
    for seat in range(num_players):
        for k in range(num_samples):
            final[seat, k] = totals[seat] + coming[seat, k]
            best[k] = max(best[k], final[seat, k])
    for seat in range(num_players):
        for k in range(num_samples):
            share[k] += final[seat, k] == best[k]
    for k in range(num_samples):
        share[k] = SHARES[share[k]]
    for seat in range(num_players):
        parts = 0
        for k in range(num_samples):
            if final[seat, k] == best[k]:
                parts += int(share[k])
        chances[seat] = parts / (PARTS * num_samples)


@njit
def write_gains(r: RulesRecord, t: TableRecord, objective: Objective, gains: Array) -> None:
    """Write what the round just settled added to each seat's chance to win the match, (P,)."""
    num_players, number = r.num_players, t["round"]
    # Places are the seats of the samples, where seat 0 dealt the first round.
    shift = (number * r.step - t.dealer) % num_players
    totals = np.empty(num_players, np.int32)
    before, after = np.empty(num_players), np.empty(num_players)
    for seat in range(num_players):
        totals[(seat + shift) % num_players] = t.total[seat] - t.points[seat]
    write_chances(totals, objective.coming[t.rules, number], before)
    for seat in range(num_players):
        totals[(seat + shift) % num_players] = t.total[seat]
    write_chances(totals, objective.coming[t.rules, number + 1], after)
    for seat in range(num_players):
        place = (seat + shift) % num_players
        gains[seat] = after[place] - before[place]


# --- rewards ----------------------------------------------------------------------------------


@njit
def write_rewards(r: RulesRecord, t: TableRecord, objective: Objective, rewards: Array) -> None:
    """Write every seat's reward of the round just settled, (P,)."""
    for seat in range(r.num_players):
        rewards[seat] = round_reward(r, t, seat, objective.relative)
    if objective.match_weight > 0:
        gains = np.empty(r.num_players)
        write_gains(r, t, objective, gains)
        for seat in range(r.num_players):
            gain = objective.scale[t.rules] * gains[seat]
            rewards[seat] += objective.match_weight * (gain - rewards[seat])


def match_scale(points: Array, unit: int, relative: float) -> float:
    """Return the reward of a certain win by which both objectives vary alike over a match.

    `points` (R, P, S) are those of sample matches. The chance of one of P equals begins at 1 / P
    and ends at 0 or 1, so its changes have a variance of (P - 1) / P² in all, however they fall on
    the rounds. One factor for all rounds leaves early and late ones their true weight.
    """
    num_players = points.shape[1]
    others = (points.sum(axis=1, keepdims=True) - points) / (num_players - 1)
    rewards = (points - relative * others) / (10 * unit)
    variance = rewards.var(axis=(1, 2)).sum()
    return float(np.sqrt(variance * num_players**2 / (num_players - 1)))


def make_objective(
    rules: Array, relative: float = 1.0, match_weight: float = 0.0, num_samples: int = SAMPLES
) -> Objective:
    """Return the objective for `rules` (K,); with a match weight, sample matches are played."""
    if not match_weight:
        return Objective(float(relative), 0.0, np.zeros((0, 0, 0, 0), np.int32), np.zeros(0))
    most_rounds, most_players = int(rules["num_rounds"].max()), int(rules["num_players"].max())
    coming = np.zeros((len(rules), most_rounds + 1, most_players, num_samples), np.int32)
    scale = np.zeros(len(rules))
    for k, r in enumerate(rules):
        points = np.zeros((r.num_rounds, r.num_players, num_samples), np.int32)
        play_samples(r, new_tables(1)[0], points, SEED)
        coming[k, : r.num_rounds, : r.num_players] = points[::-1].cumsum(axis=0)[::-1]
        scale[k] = match_scale(points, r.unit, relative)
    return Objective(float(relative), float(match_weight), coming, scale)
