from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from judgement_env import Rules
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.cards import NUM_ACTIONS
from judgement_env.engine import apply_action, begin_match, next_round, table_key
from judgement_env.state import Array, new_tables, pack_rules
from tests.runs import metrics_of
from training.checkpoint import load_checkpoint
from training.config import Config, config_from
from training.objective import (
    Objective,
    make_objective,
    match_scale,
    play_samples,
    write_chances,
    write_gains,
    write_rewards,
)
from training.rollout import Rollout
from training.rows import Rows, round_reward
from training.train import train

# Three seats, and five the other way round; neither length of match nor scoring is alike.
RULES = [
    Rules(num_players=3, cards=[3, 1], trumps=["S", "NT"]),
    Rules(num_players=5, cards=[2, 1, 4], scoring="high", direction="anticlockwise"),
]
KACHUFUL = pack_rules([Rules()])


def chances_of(totals: list[int], coming: Array) -> Array:
    chances = np.zeros(len(totals))
    write_chances(np.array(totals, np.int32), coming, chances)
    return chances


def shares(finals: list[int]) -> list[Fraction]:
    """Each seat's share of the win."""
    best = max(finals)
    return [Fraction(int(final == best), finals.count(best)) for final in finals]


def mean_shares(totals: list[int], coming: Array) -> list[float]:
    """The chances, counted sample by sample."""
    sums = [Fraction(0)] * len(totals)
    for sample in coming.T.tolist():
        finals = [a + b for a, b in zip(totals, sample, strict=True)]
        sums = [a + b for a, b in zip(sums, shares(finals), strict=True)]
    return [float(one / coming.shape[1]) for one in sums]


def settled(rules: Array, k: int, seed: int, matches: int) -> Iterator[tuple[Any, Any]]:
    """Rules and table at the end of every round of matches among rule bots."""
    r, t = rules[k], new_tables(1)[0]
    t.rules, t.key = k, table_key(np.uint64(seed), 0)
    for match in range(matches):
        t.match = match
        begin_match(r, t, 0, r.num_rounds - 1, -1)
        is_over = False
        while not is_over:
            if apply_action(r, t, heuristic_action(r, t)):
                yield r, t
                is_over = next_round(r, t)


# --- chances ----------------------------------------------------------------------------------


@pytest.mark.parametrize("num_players", [2, 3, 7, 10])
def test_chances_are_mean_shares_of_the_win_and_add_up_to_one(num_players: int) -> None:
    rng = np.random.default_rng(num_players)
    for _ in range(20):
        # Few values, so that many wins are shared.
        coming = rng.integers(-2, 3, (num_players, 37)).astype(np.int32)
        totals = rng.integers(-3, 3, num_players).tolist()
        chances = chances_of(totals, coming)
        assert chances == pytest.approx(mean_shares(totals, coming), abs=1e-12)
        assert chances.sum() == pytest.approx(1, abs=1e-12)


def test_with_nothing_to_come_the_highest_totals_share_the_win() -> None:
    nothing = np.zeros((4, 9), np.int32)
    assert chances_of([3, 5, -2, 4], nothing).tolist() == [0, 1, 0, 0]
    assert chances_of([5, 5, -2, 4], nothing).tolist() == [0.5, 0.5, 0, 0]
    assert chances_of([-7] * 4, nothing).tolist() == [0.25] * 4


def test_a_higher_total_never_lowers_the_own_chance_nor_raises_anothers() -> None:
    coming = make_objective(KACHUFUL, 1, 1, 500).coming[0]
    for number in range(8):
        lines = [chances_of([20, own, 23, 31], coming[number]) for own in range(-60, 140)]
        steps = np.diff(lines, axis=0)
        assert (steps[:, 1] >= 0).all() and (steps[:, [0, 2, 3]] <= 0).all()
        assert lines[0][1] < 0.01 and lines[-1][1] > 0.99


def test_before_the_last_card_a_lead_of_twelve_is_safe_and_one_of_eleven_may_be_shared() -> None:
    last = make_objective(KACHUFUL, 1, 1).coming[0, 6]
    assert set(last.ravel().tolist()) == {0, 10, 11}
    assert chances_of([12, 0, 0, 0], last).tolist() == [1, 0, 0, 0]
    chances = chances_of([11, 0, 0, 0], last)
    assert 0.85 < chances[0] < 1
    # Two points decide who wins when both or neither make their bids; seven more change nothing.
    level, ahead, far = (chances_of([lead, 0, -30, -30], last)[0] for lead in (0, 2, 9))
    assert ahead - level > 0.1
    assert far == ahead


def test_chances_come_true_among_rule_bots_in_every_place_and_at_every_stage() -> None:
    coming = make_objective(KACHUFUL, 1, 1).coming[0]
    number = 4000
    points = np.zeros((7, 4, number), np.int32)
    play_samples(KACHUFUL[0], new_tables(1)[0], points, 7)
    totals = points.cumsum(axis=0)
    won = np.array([shares(finals) for finals in totals[-1].T.tolist()], float)
    for played in (1, 4, 6):
        found = np.array([chances_of(t, coming[played]) for t in totals[played - 1].T.tolist()])
        by_chance = np.argsort(found, axis=None).reshape(10, -1)
        groups = [*by_chance, *np.arange(found.size).reshape(-1, 4).T]
        for group in groups:
            said, came = found.ravel()[group].mean(), won.ravel()[group].mean()
            # Four standard errors, and what 2,048 samples leave open.
            margin = 4 * np.sqrt(max(0.01, said * (1 - said)) / len(group)) + 0.01
            assert came == pytest.approx(said, abs=margin), played
        # They tell far more than that everybody has a quarter.
        assert ((won - found) ** 2).mean() < (0.95, 0.75, 0.5)[(1, 4, 6).index(played)] * won.var()


def test_samples_are_the_same_each_time_and_do_not_depend_on_other_rules() -> None:
    together = make_objective(pack_rules(RULES), 0.5, 0.3, 20)
    again = make_objective(pack_rules(RULES), 0.5, 0.3, 20)
    assert (together.coming == again.coming).all() and (together.scale == again.scale).all()
    assert together.coming.shape == (2, 4, 5, 20)
    for k, rules in enumerate(RULES):
        alone = make_objective(pack_rules([rules]), 0.5, 0.3, 20)
        rounds, seats = rules.num_rounds + 1, rules.num_players
        assert (together.coming[k, :rounds, :seats] == alone.coming[0]).all()
        assert together.scale[k] == alone.scale[0]
        assert (alone.coming[0, -1] == 0).all()
        assert len(np.unique(alone.coming[0, 0], axis=1).T) > 5


# --- gains ------------------------------------------------------------------------------------


def samples_by_distance(r: Any, coming: Array, number: int, dealer: int) -> Array:
    """The samples (P, S), the seats of the table in the places as far behind the dealer."""
    seats = range(r.num_players)
    lines = {}
    for distance in seats:
        of_samples = (number + distance) * r.step % r.num_players
        lines[(dealer + distance * r.step) % r.num_players] = coming[of_samples]
    return np.array([lines[seat] for seat in seats])


@pytest.mark.parametrize("k", [0, 1])
def test_gains_are_what_a_round_changed_and_add_up_to_the_win(k: int) -> None:
    rules = pack_rules(RULES)
    objective = make_objective(rules, 1, 1, 30)
    dealers = set()
    for r, t in settled(rules, k, 3, 25):
        seats, number = int(r.num_players), int(t["round"])
        gains = np.full(seats, np.nan)
        write_gains(r, t, objective, gains)
        totals, points = t.total[:seats].tolist(), t.points[:seats].tolist()
        places = (objective.coming[k], number, int(t.dealer))
        before = mean_shares(
            [total - won for total, won in zip(totals, points, strict=True)],
            samples_by_distance(r, places[0][number], number, places[2]),
        )
        if number == 0:
            first, sums = before, np.zeros(seats)
            dealers.add(int(t.dealer))
        sums += gains
        after = mean_shares(
            totals, samples_by_distance(r, places[0][number + 1], number, places[2])
        )
        assert gains == pytest.approx(np.subtract(after, before), abs=1e-12)
        assert gains.sum() == pytest.approx(0, abs=1e-12)
        if number == r.num_rounds - 1:
            share = np.array(shares(totals), float)
            assert sums == pytest.approx(share - first, abs=1e-9)
    assert dealers == set(range(RULES[k].num_players))


# --- rewards ----------------------------------------------------------------------------------


def test_a_reward_is_points_and_gain_by_their_weights() -> None:
    rules = pack_rules(RULES)
    objective = make_objective(rules, 0.5, 0.25, 30)
    for r, t in settled(rules, 1, 5, 8):
        gains, rewards = np.zeros((2, r.num_players))
        write_gains(r, t, objective, gains)
        write_rewards(r, t, objective, rewards)
        for seat in range(r.num_players):
            points = round_reward(r, t, seat, 0.5)
            expected = 0.75 * points + 0.25 * objective.scale[1] * gains[seat]
            assert rewards[seat] == pytest.approx(expected, abs=1e-12)


def leaning(rows: Rows, which: Array) -> Array:
    line = np.linspace(-1, 1, NUM_ACTIONS, dtype=np.float32)
    return np.outer(rows.value[which, :9].sum(axis=1), line).astype(np.float32)


def collected(objective: Objective | None) -> tuple[Rows, Array]:
    """Rows and what came of the actions tried; rewards change nothing of the play."""
    rollout = Rollout(pack_rules(RULES), 7, 60, 11, objective, 0.5, plays_out=True)
    rows = rollout.collect(leaning)
    assert rollout.playouts is not None
    return rows, rollout.playouts.branches.gain


def test_rollouts_and_play_outs_are_rewarded_by_the_objective() -> None:
    rules = pack_rules(RULES)
    points, points_tried = collected(None)
    match, match_tried = collected(make_objective(rules, 1, 1, 50))
    mixed, mixed_tried = collected(make_objective(rules, 1, 0.3, 50))
    assert (points.action == match.action).all()
    for a, b, both in (
        (points.reward, match.reward, mixed.reward),
        (points_tried, match_tried, mixed_tried),
    ):
        assert both == pytest.approx(0.7 * a + 0.3 * b, abs=1e-5)
        is_last = (a != 0) & (b != 0)
        assert is_last.sum() > 50
        assert 0.3 < np.corrcoef(a[is_last], b[is_last])[0, 1] < 0.99


def test_over_matches_of_rule_bots_both_objectives_vary_alike() -> None:
    number = 2000
    points = np.zeros((7, 4, number), np.int32)
    play_samples(KACHUFUL[0], new_tables(1)[0], points, 9)
    totals = points.cumsum(axis=0)
    t = new_tables(1)[0]
    variances = []
    for weight in (0.0, 1.0):
        objective = make_objective(KACHUFUL, 1, weight)
        rewards = np.zeros((7, number, 4))
        for number_of_round in range(7):
            t["round"], t.dealer = number_of_round, number_of_round % 4
            for match in range(number):
                t.points[:4] = points[number_of_round, :, match]
                t.total[:4] = totals[number_of_round, :, match]
                write_rewards(KACHUFUL[0], t, objective, rewards[number_of_round, match])
        variances.append(rewards.var(axis=(1, 2)))
    of_points, of_match = variances
    # Shared wins vary a little less.
    assert 0.9 < of_match.sum() / of_points.sum() < 1.02
    # Not so round by round: late ones decide more.
    early, late = of_match[:2] / of_points[:2], of_match[-2:] / of_points[-2:]
    assert late.min() > 1.1 * early.max()


def test_where_nothing_is_to_be_won_rewards_are_nothing() -> None:
    rules = pack_rules([Rules(num_players=3, cards=[1, 2], scoring=lambda bid, won, cards: 0)])
    objective = make_objective(rules, 1, 1, 10)
    for r, t in settled(rules, 0, 1, 3):
        rewards = np.full(3, np.nan)
        write_rewards(r, t, objective, rewards)
        assert rewards.tolist() == [0, 0, 0]
    assert match_scale(np.zeros((2, 3, 10)), 1, 1.0) == 0


SCRIPT = """
import numpy as np
from tests.test_objective import RULES, make_objective, pack_rules, settled, write_rewards
rules = pack_rules(RULES)
objective = make_objective(rules, 0.5, 0.5, 12)
print(objective.coming.tolist(), objective.scale.tolist())
for k in (0, 1):
    for r, t in settled(rules, k, 2, 3):
        rewards = np.zeros(r.num_players)
        write_rewards(r, t, objective, rewards)
        print(rewards.round(12).tolist())
"""


@pytest.mark.slow
def test_plain_python_gives_the_same_rewards() -> None:
    answers = []
    for disabled in ("0", "1"):
        env = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
        answers.append(done.stdout)
    assert answers[0] == answers[1]
    assert len(answers[0].splitlines()) == 1 + 3 * 2 + 3 * 3


# --- training ---------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [-0.1, 1.5, float("nan")])
def test_a_match_weight_beyond_its_range_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=f"^match_weight: {weight} is not 0 to 1"):
        config_from({"match_weight": weight})


@pytest.mark.usefixtures("in_a_folder_of_its_own")
def test_a_run_learns_by_its_match_weight_and_reports_matches_won() -> None:
    config = Config(
        decisions=256,
        tables=8,
        steps=16,
        workers=1,
        hidden=(12,),
        critic_hidden=(10,),
        minibatch=64,
        rules={"preset": "kachuful", "num_players": 3, "cards": [2, 1, 3]},
        evaluate_matches=30,
    )
    actors = []
    for name, weight in (("points", 0.0), ("match", 1.0), ("again", 1.0)):
        folder = train(dataclasses.replace(config, name=name, match_weight=weight))
        saved = load_checkpoint(folder / "checkpoint.pt")
        assert saved["config"]["match_weight"] == weight
        actors.append(torch.cat([tensor.flatten() for tensor in saved["actor"].values()]))
        assert 0 <= float(metrics_of(folder)[-1]["versus_wins"]) <= 1
    assert torch.isfinite(actors[1]).all()
    assert not torch.equal(actors[0], actors[1])
    assert torch.equal(actors[1], actors[2])
