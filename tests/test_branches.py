from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from judgement_env import Rules
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.cards import NUM_ACTIONS
from judgement_env.engine import apply_action, write_mask
from judgement_env.observation import SIZE
from judgement_env.state import Array, pack_rules
from training import branches as branches_module
from training.config import Config
from training.learner import Perceptron, gradients
from training.losses import all_action_advantages, all_action_loss, scale_by_phase
from training.model import make_actor, make_critic
from training.rollout import Rollout
from training.rows import Rows, new_rows, plain_action, round_reward, write_decision
from training.targets import make_targets

RULES = [
    Rules(num_players=3, cards=[3, 1], trumps=["S", "NT"]),
    Rules(num_players=5, cards=[2, 1, 4], scoring="high", direction="anticlockwise"),
]
TABLES, STEPS = 7, 9


def leaning(rows: Rows, which: Array) -> Array:
    """Logits that depend on the row's own inputs, as a network's do."""
    line = np.linspace(-1, 1, NUM_ACTIONS, dtype=np.float32)
    return np.outer(rows.value[which, :9].sum(axis=1), line).astype(np.float32)


def make(share: float, seed: int = 11) -> Rollout:
    return Rollout(pack_rules(RULES), TABLES, STEPS, seed, rule_bot_tables=share, plays_out=True)


def choices_of(r: Any, t: Any) -> list[int]:
    mask = np.empty(NUM_ACTIONS, np.int8)
    write_mask(r, t, mask)
    return np.flatnonzero(mask).tolist()


def likeliest(r: Any, t: Any) -> int:
    """What the leaning policy would rather do."""
    rows, raw, mask = new_rows(1), np.empty(SIZE, np.uint8), np.empty(NUM_ACTIONS, np.int8)
    write_mask(r, t, mask)
    write_decision(r, t, raw, mask, rows, 0)
    logits = np.where(rows.mask[0] > 0, leaning(rows, np.zeros(1, np.int64))[0], -np.inf)
    return int(plain_action(int(logits.argmax()), rows.places[0]))


def worth(rules: Array, tables: Array, i: int, action: int) -> float:
    """The reward of the seat to act after `action`, played on in plain Python among rule bots."""
    copy = tables[i : i + 1].copy()
    t, r = copy[0], rules[copy[0].rules]
    seat = int(t.seat)
    is_settled = apply_action(r, t, action)
    while not is_settled:
        action = likeliest(r, t) if t.seat == seat else heuristic_action(r, t)
        is_settled = apply_action(r, t, action)
    points = t.points[: r.num_players].astype(float)
    others = (points.sum() - points[seat]) / (len(points) - 1)
    return float((points[seat] - others) / (10 * r.unit))


class Watched(Rollout):
    """Keeps the tables as they stood at each row."""

    kept: list[Array]

    def watch(self) -> Rows:
        self.kept = []
        assert self.playouts is not None
        run = self.playouts.run

        def kept_run(tables: Array, *others: Any) -> None:
            self.kept.append(tables.copy())
            run(tables, *others)
            assert (tables == self.kept[-1]).all()

        self.playouts.run = kept_run  # type: ignore[assignment]
        return self.collect(leaning)


def test_among_rule_bots_each_action_is_worth_what_a_plain_replay_says() -> None:
    rollout = Watched(pack_rules(RULES), TABLES, STEPS, 11, rule_bot_tables=1, plays_out=True)
    rows = rollout.watch()
    assert rollout.playouts is not None
    branches = rollout.playouts.branches
    checked = 0
    for step, tables in enumerate(rollout.kept):
        for i in range(TABLES):
            row = step * TABLES + i
            tried = np.flatnonzero(branches.is_tried[row])
            r = rollout.rules[tables[i].rules]
            plain = [int(plain_action(int(a), rows.places[row])) for a in tried]
            assert set(plain) <= set(choices_of(r, tables[i]))
            for canonical, action in zip(tried, plain, strict=True):
                expected = worth(rollout.rules, tables, i, action)
                assert branches.gain[row, canonical] == pytest.approx(expected, abs=1e-6)
                checked += 1
    assert checked > 2 * STEPS * TABLES * 0.8
    assert len(np.unique(branches.gain)) > 5


def test_in_self_play_too_no_table_is_touched_and_gains_are_rewards_of_rounds() -> None:
    rollout = Watched(pack_rules(RULES), TABLES, STEPS, 5, plays_out=True)
    rollout.watch()
    assert rollout.playouts is not None
    branches = rollout.playouts.branches
    assert (branches.gain[~branches.is_tried] == 0).all()
    assert len(np.unique(branches.gain[branches.is_tried])) > 5


def test_the_reward_of_a_round_is_relative_points_in_units() -> None:
    rules = pack_rules([Rules(num_players=3, cards=[1])])
    rollout = Rollout(rules, 1, 1, 0)
    r, t = rollout.rules[0], rollout.tables[0]
    t.points[:3] = [11, 0, 10]
    assert round_reward(r, t, 0, 0.0) == pytest.approx(1.1)
    assert round_reward(r, t, 0, 1.0) == pytest.approx(0.6)
    assert round_reward(r, t, 1, 0.5) == pytest.approx(-0.525)


def test_unlikely_actions_are_tried_by_lot_and_a_single_candidate_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def certain(rows: Rows, which: Array) -> Array:
        first = rows.mask[which].argmax(axis=1)
        logits = np.zeros((len(which), NUM_ACTIONS), np.float32)
        logits[np.arange(len(which)), first] = 20
        return logits

    rollout = Rollout(pack_rules(RULES), 300, 8, 2, plays_out=True)
    rows = rollout.collect(certain)
    assert rollout.playouts is not None
    tried = rollout.playouts.branches.is_tried
    is_explored = tried.any(axis=1)
    assert (tried[is_explored] == (rows.mask[is_explored] > 0)).all()
    assert is_explored.mean() == pytest.approx(branches_module.EXPLORED, abs=0.02)
    log_chances = rollout.playouts.branches.log_chances
    chances = np.exp(log_chances.astype(np.float64)) * rows.mask
    assert chances.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_advantages_of_the_actions_tried_average_zero_under_the_policy() -> None:
    rollout = make(share=0.5)
    rollout.collect(leaning)
    assert rollout.playouts is not None
    branches = rollout.playouts.branches
    advantage = all_action_advantages(branches.gain, branches.log_chances, branches.is_tried)
    chances = np.exp(branches.log_chances) * branches.is_tried
    assert (chances * advantage).sum(axis=1) == pytest.approx(0, abs=1e-5)
    assert (advantage[~branches.is_tried] == 0).all()
    is_bid = rollout.rows.is_bid
    scaled = scale_by_phase(advantage, branches.is_tried, is_bid)
    for phase in (is_bid, ~is_bid):
        squares = (scaled[phase] ** 2).sum() / branches.is_tried[phase].sum()
        assert squares == pytest.approx(1, rel=1e-3)


def test_the_loss_has_the_gradient_of_the_expected_advantage() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, NUM_ACTIONS, generator=generator, dtype=torch.float64)
    mask = (torch.rand(6, NUM_ACTIONS, generator=generator) < 0.1).double()
    mask[:, :2] = 1
    advantage = torch.randn(6, NUM_ACTIONS, generator=generator, dtype=torch.float64) * mask
    logits.requires_grad_()
    old = torch.log_softmax(torch.where(mask > 0, logits, -1e9), 1).detach() * mask
    loss = all_action_loss(logits, mask, old, advantage, 0.2)
    (mine,) = torch.autograd.grad(loss.surrogate, logits)
    log_chances = torch.log_softmax(torch.where(mask > 0, logits, -1e9), 1)
    weight = (old.exp() * mask).clamp(min=0.01)
    (expected,) = torch.autograd.grad(-(weight * log_chances * advantage).sum(1).mean(), logits)
    assert torch.allclose(mine, expected, atol=1e-9)
    assert float(loss.divergence.detach()) == pytest.approx(0, abs=1e-12)
    assert loss.clipped.item() == 0


def test_beyond_the_clip_nothing_more_is_to_be_gained() -> None:
    logits = torch.tensor([[1.0, 0.0]], requires_grad=True)
    mask, old = torch.ones(1, 2), torch.log(torch.tensor([[0.5, 0.5]]))
    better = all_action_loss(logits, mask, old, torch.tensor([[1.0, -1.0]]), 0.2)
    assert torch.autograd.grad(better.surrogate, logits)[0].abs().max() == 0
    assert better.clipped.item() == pytest.approx(1)
    worse = all_action_loss(logits, mask, old, torch.tensor([[-1.0, 1.0]]), 0.2)
    assert torch.autograd.grad(worse.surrogate, logits)[0].abs().max() > 0.1


def test_the_critic_has_nothing_to_learn_from_play_outs() -> None:
    rollout = make(share=0.5)
    rollout.collect(leaning)
    actor, critic = make_actor((8,)), make_critic((8,))
    config = Config(advantages="playouts", bid_weight=1)
    targets = make_targets(Perceptron(critic).values, rollout, config)
    assert rollout.playouts is not None
    assert (targets.usable == np.flatnonzero(rollout.playouts.branches.is_tried.any(1))).all()
    total, metrics = gradients(actor, critic, targets, targets.usable, config, 0.1)
    assert len(total) == len(list(actor.parameters()))
    assert metrics[1] == 0
    assert np.isfinite(metrics).all()


def test_an_action_given_up_has_a_bounded_way_back() -> None:
    mask, old = torch.ones(1, 2), torch.log(torch.tensor([[1.0 - 1e-12, 1e-12]]))
    for raised in (0.0, 12.0):
        for gain in (1.0, -1.0):
            logits = torch.tensor([[27.631 - raised, 0.0]], requires_grad=True)
            loss = all_action_loss(logits, mask, old, torch.tensor([[0.0, gain]]), 0.2)
            (slope,) = torch.autograd.grad(loss.surrogate, logits)
            # Raised beyond the clip, it is only to be brought down again.
            expected = 0.0 if raised and gain > 0 else -0.01 * gain
            assert slope[0, 1].item() == pytest.approx(expected, abs=1e-4)
