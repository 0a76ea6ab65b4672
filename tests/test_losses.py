from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from judgement_env import Rules
from judgement_env.cards import NUM_ACTIONS
from judgement_env.state import Array, pack_rules
from training.losses import (
    imitation_loss,
    masked_log_softmax,
    normalise_by_phase,
    policy_loss,
    trajectory_advantages,
    value_loss,
)
from training.rollout import Rollout
from training.rows import Rows

DECAY = 0.9
# Three seats, seven tables, odd sizes: nothing lines up by chance.
RULES = Rules(num_players=3, cards=[5, 1, 3])


def uniform_rows(num_tables: int = 7, num_steps: int = 40, seed: int = 5) -> Rows:
    rollout = Rollout(pack_rules([RULES]), num_tables, num_steps, seed)
    return rollout.collect(lambda rows, which: np.zeros((len(which), NUM_ACTIONS), np.float32))


def advantages_of(rows: Rows, value: Array) -> tuple[Array, Array]:
    advantage = np.full(len(value), 99, np.float32)
    is_complete = np.ones(len(value), np.bool_)
    trajectory_advantages(
        value, rows.reward, rows.following, rows.is_last, DECAY, advantage, is_complete
    )
    return advantage, is_complete


def trajectories(rows: Rows, num_tables: int) -> list[list[int]]:
    """The decisions of each seat in each round, by table and seat alone; `following` unread."""
    found: list[list[int]] = []
    for table in range(num_tables):
        open_at: dict[int, list[int]] = {}
        for row in range(table, len(rows.seat), num_tables):
            seat = int(rows.seat[row])
            if rows.is_bid[row] and seat in open_at:
                found.append(open_at.pop(seat))
            open_at.setdefault(seat, []).append(row)
            if rows.is_last[row]:
                found.append(open_at.pop(seat))
        found += open_at.values()
    return found


# --- advantages -------------------------------------------------------------------------------


def test_advantages_equal_a_slow_loop_over_each_seats_round() -> None:
    rows = uniform_rows()
    value = np.random.default_rng(1).normal(size=len(rows.seat)).astype(np.float32)
    advantage, is_complete = advantages_of(rows, value)
    num_complete = 0
    for path in trajectories(rows, 7):
        if not rows.is_last[path[-1]]:
            assert not is_complete[path].any()
            assert not advantage[path].any()
            continue
        num_complete += len(path)
        assert is_complete[path].all()
        for k, row in enumerate(path):
            # The sum of one-step surprises still to come, each step decayed.
            expected, weight = 0.0, 1.0
            for j in range(k, len(path)):
                is_end = j == len(path) - 1
                ahead = rows.reward[path[j]] if is_end else value[path[j + 1]]
                expected += weight * float(ahead - value[path[j]])
                weight *= DECAY
            assert advantage[row] == pytest.approx(expected, abs=1e-5)
    assert num_complete == is_complete.sum()
    assert 0 < num_complete < len(rows.seat)


def test_only_decisions_of_one_seat_at_one_table_are_linked() -> None:
    rows = uniform_rows()
    linked = np.flatnonzero(rows.following >= 0)
    after = rows.following[linked]
    assert len(linked) > 50
    assert (after > linked).all()
    assert (rows.seat[linked] == rows.seat[after]).all()
    assert (linked % 7 == after % 7).all()
    assert not rows.is_bid[after].any()
    assert not rows.is_last[linked].any()
    assert len(set(after.tolist())) == len(after)


def test_rewards_stand_only_where_a_round_was_settled() -> None:
    rows = uniform_rows()
    assert rows.is_last.any()
    assert not rows.reward[~rows.is_last].any()
    assert (rows.reward[rows.is_last] != 0).mean() > 0.5


def test_a_round_cut_off_by_the_end_of_the_batch_is_left_out() -> None:
    # A round of five cards has more than nine decisions, so that no seat sees its end.
    rollout = Rollout(pack_rules([Rules(num_players=3, cards=[5])]), 2, 9, 3)
    rows = rollout.collect(lambda rows, which: np.zeros((len(which), NUM_ACTIONS), np.float32))
    advantage, is_complete = advantages_of(rows, np.ones(18, np.float32))
    assert not is_complete.any()
    assert not advantage.any()


def test_bids_and_plays_are_normalised_apart() -> None:
    rng = np.random.default_rng(0)
    is_bid = rng.random(500) < 0.2
    advantage = np.where(is_bid, 100 + 50 * rng.normal(size=500), rng.normal(size=500))
    scaled = normalise_by_phase(advantage.astype(np.float32), is_bid)
    for phase in (is_bid, ~is_bid):
        assert scaled[phase].mean() == pytest.approx(0, abs=1e-5)
        assert scaled[phase].std() == pytest.approx(1, abs=1e-4)
        # Order is kept.
        assert (np.argsort(scaled[phase]) == np.argsort(advantage[phase])).all()


def test_a_single_bid_normalises_to_nothing_instead_of_nan() -> None:
    scaled = normalise_by_phase(np.array([5, 1, 3], np.float32), np.array([True, False, False]))
    assert scaled.tolist() == pytest.approx([0, -1, 1])


# --- policy loss ------------------------------------------------------------------------------


def random_batch(size: int = 23) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(2)
    mask = (rng.random((size, NUM_ACTIONS)) < 0.1).astype(np.int8)
    mask[:, 5:7] = 1
    action = np.array([rng.choice(np.flatnonzero(line)) for line in mask])
    return {
        "logits": torch.from_numpy(rng.normal(size=(size, NUM_ACTIONS)).astype(np.float32)),
        "mask": torch.from_numpy(mask),
        "action": torch.from_numpy(action),
        "old_log_chance": torch.from_numpy(np.log(rng.uniform(0.05, 0.9, size)).astype("f4")),
        "advantage": torch.from_numpy(rng.normal(size=size).astype(np.float32)),
    }


def test_policy_loss_equals_a_slow_computation() -> None:
    batch = random_batch()
    terms = policy_loss(**batch, clip=0.2)
    sums = np.zeros(4)
    for k in range(23):
        legal = np.flatnonzero(batch["mask"][k].numpy())
        odds = np.exp(batch["logits"][k].numpy()[legal].astype(np.float64))
        chances = odds / odds.sum()
        chance = chances[legal.tolist().index(int(batch["action"][k]))]
        ratio = chance / math.exp(float(batch["old_log_chance"][k]))
        gain = float(batch["advantage"][k])
        sums[0] -= min(ratio * gain, min(max(ratio, 0.8), 1.2) * gain)
        sums[1] -= (chances * np.log(chances)).sum() / np.log(len(legal))
        sums[2] += ratio - 1 - np.log(ratio)
        sums[3] += abs(ratio - 1) > 0.2
    assert [float(term) for term in terms] == pytest.approx(sums / 23, rel=1e-4)


def test_illegal_actions_have_no_probability_and_no_gradient() -> None:
    batch = random_batch()
    logits = batch["logits"].requires_grad_()
    terms = policy_loss(**batch, clip=0.2)
    (terms.surrogate - terms.entropy).backward()
    assert logits.grad is not None
    illegal = batch["mask"] == 0
    assert not logits.grad[illegal].any()
    assert logits.grad[~illegal].abs().sum() > 0
    chances = masked_log_softmax(logits, batch["mask"]).exp()
    assert not chances[illegal].any()
    assert torch.allclose(chances.sum(1), torch.ones(23))


@pytest.mark.parametrize("size", [1e2, 1e4, 1e8])
def test_extreme_logits_give_finite_losses_and_gradients(size: float) -> None:
    batch = random_batch()
    with torch.no_grad():
        batch["logits"] *= size
        # The policy that acted is the policy at hand: ratios are 1.
        chosen = masked_log_softmax(batch["logits"], batch["mask"])
        batch["old_log_chance"] = chosen.gather(1, batch["action"][:, None])[:, 0]
    logits = batch["logits"].requires_grad_()
    terms = policy_loss(**batch, clip=0.2)
    (terms.surrogate - terms.entropy).backward()
    assert all(torch.isfinite(term) for term in terms)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_entropy_is_one_for_a_uniform_choice_and_zero_for_a_certain_one() -> None:
    batch = random_batch()
    batch["logits"][:] = 3
    assert float(policy_loss(**batch, clip=0.2).entropy) == pytest.approx(1, abs=1e-5)
    batch["logits"][:, 5] = 60
    assert float(policy_loss(**batch, clip=0.2).entropy) == pytest.approx(0, abs=1e-5)


def test_nothing_diverges_and_nothing_is_clipped_under_the_policy_that_acted() -> None:
    batch = random_batch()
    chances = masked_log_softmax(batch["logits"], batch["mask"])
    batch["old_log_chance"] = chances.gather(1, batch["action"][:, None])[:, 0]
    terms = policy_loss(**batch, clip=0.2)
    assert float(terms.divergence) == pytest.approx(0, abs=1e-6)
    assert float(terms.clipped) == 0
    assert float(terms.surrogate) == pytest.approx(-float(batch["advantage"].mean()), abs=1e-6)


def test_value_loss_is_half_the_mean_squared_error() -> None:
    assert float(value_loss(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 3.0]))) == 0.5 * 2.5


def test_imitation_loss_is_the_mean_surprise_at_the_action_and_pulls_towards_it() -> None:
    logits = torch.tensor([[0.5, -1.0, 2.0], [1.0, 1.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]], dtype=torch.int8)
    action = torch.tensor([1, 2])
    loss = imitation_loss(logits, mask, action).surrogate
    first = math.log(math.exp(0.5) + math.exp(-1.0)) + 1.0
    second = math.log(2 * math.exp(1.0) + math.exp(3.0)) - 3.0
    assert float(loss.detach()) == pytest.approx((first + second) / 2, abs=1e-6)
    (slope,) = torch.autograd.grad(loss, [logits])
    assert slope[0, 2] == 0
    assert slope[0, 1] < 0 < slope[0, 0]
    assert slope[1, 2] < 0 < slope[1, 0]
