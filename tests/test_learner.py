from __future__ import annotations

import copy
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from judgement_env.rules import make_rules
from judgement_env.state import Array, pack_rules
from training.adam import EPSILON
from training.config import Config
from training.learner import (
    METRICS,
    Adam,
    KernelLearner,
    Perceptron,
    TorchLearner,
    gradients,
    logits_of,
    make_learner,
)
from training.losses import ILLEGAL
from training.model import Network, make_actor, make_critic
from training.rollout import Rollout
from training.targets import Targets, make_targets
from training.update import update

KINDS = ("taken", "imitated", "tried")
RULES = {"preset": "kachuful", "num_players": 3, "cards": [4, 1, 3]}
CONFIG = Config(
    rules=RULES, tables=9, steps=24, workers=1, minibatch=64, hidden=(24, 9), critic_hidden=(17,)
)


def networks(hidden: tuple[int, ...], critic_hidden: tuple[int, ...]) -> tuple[Network, Network]:
    """Networks whose outputs differ from row to row, so that no gradient is next to zero."""
    torch.manual_seed(3)
    actor, critic = make_actor(hidden), make_critic(critic_hidden)
    with torch.no_grad():
        actor.stack()[-1].weight.mul_(100)
        for parameter in (*actor.parameters(), *critic.parameters()):
            parameter.add_(0.05 * torch.randn_like(parameter))
    return actor, critic


def batch_of(kind: str, actor: Network, critic: Network, config: Config, seed: int = 5) -> Targets:
    """A batch of play; the chances it was played with differ from those of `actor`."""
    plays_out = kind == "tried"
    rollout = Rollout(pack_rules([make_rules(RULES)]), 9, 24, seed, None, 0.25, plays_out)
    older = copy.deepcopy(actor)
    with torch.no_grad():
        for parameter in older.parameters():
            parameter.add_(0.06 * torch.randn_like(parameter))
    rollout.collect(logits_of(older), kind == "imitated")
    return make_targets(Perceptron(critic).values, rollout, config, kind == "imitated")


def close(mine: Array, theirs: Array, tolerance: float = 1e-5) -> bool:
    return float(np.abs(mine - theirs).max()) <= tolerance * float(np.abs(theirs).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("hidden", "critic_hidden"), [((24,), (8,)), ((33, 12), (5, 40)), ((16, 3, 20), (12, 6, 9, 4))]
)
def test_gradients_and_losses_of_the_kernels_equal_those_of_torch(
    kind: str, hidden: tuple[int, ...], critic_hidden: tuple[int, ...]
) -> None:
    config = dataclasses.replace(CONFIG, hidden=hidden, critic_hidden=critic_hidden)
    actor, critic = networks(hidden, critic_hidden)
    targets = batch_of(kind, actor, critic, config)
    # More than one block, in disorder, one row twice.
    which = np.random.default_rng(0).permutation(targets.usable)
    which = np.append(which, which[:1])
    assert len(which) > 64
    expected, parts = gradients(actor, critic, targets, which, config, 0.07)
    learner = KernelLearner(actor, critic, config)
    mine = learner.add_gradients(0, targets, which, 0.07)
    assert mine == pytest.approx(parts, rel=1e-5, abs=1e-4)
    if kind == "taken":
        assert 0 < parts[METRICS.index("clipped")] < len(which)
    found = [part for adam in learner.adams for part in adam.network.parts(adam.grads[0])]
    for got, want in zip(found, expected, strict=False):
        assert close(got.numpy(), want.numpy())
    if kind == "tried":
        assert not learner.adams[1].grads.any()
    else:
        assert len(found) == len(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_steps_of_the_kernels_are_those_of_torch(kind: str) -> None:
    config = dataclasses.replace(CONFIG, workers=2)
    results = []
    for learner_of in (KernelLearner, TorchLearner):
        actor, critic = networks(config.hidden, config.critic_hidden)
        batch = [batch_of(kind, actor, critic, config, seed) for seed in (5, 6)]
        learner = learner_of(actor, critic, config)
        with ThreadPoolExecutor(2) as pool:
            for _ in range(10):
                generators = [np.random.default_rng(k) for k in range(2)]
                metrics = update(pool, learner, batch, generators, config, 0.05, 2e-3)
        steps = [float(s["step"]) for s in learner.state_dict()["state"].values()]
        weights = [p.detach().numpy().copy() for p in (*actor.parameters(), *critic.parameters())]
        results.append((metrics, steps, weights))
    (mine, my_steps, my_weights), (theirs, their_steps, their_weights) = results
    assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-4)
    assert my_steps == their_steps
    assert len(my_steps) == (6 if kind == "tried" else 10)
    assert min(my_steps) >= 20
    begun = networks(config.hidden, config.critic_hidden)
    first = [p.detach().numpy() for network in begun for p in network.parameters()]
    for k, (got, want) in enumerate(zip(my_weights, their_weights, strict=True)):
        moved = np.abs(want - first[k]).max()
        assert np.abs(got - want).max() <= 1e-3 * moved


def test_adam_moves_parameters_as_torch_does() -> None:
    network, _ = networks((7, 5), (4,))
    other = copy.deepcopy(network)
    flat = Perceptron(network)
    adam, theirs = Adam(flat, 3), torch.optim.Adam(other.parameters(), eps=EPSILON)
    rng = np.random.default_rng(1)
    for step in range(20):
        size = np.float32(10.0 ** rng.integers(-4, 2))
        parts = size * rng.normal(size=adam.grads.shape).astype("f4")
        adam.grads[:] = parts
        rate = 1e-2 / (step + 1)
        squares = sum(adam.sum(worker) for worker in range(3))
        assert squares == pytest.approx(float((parts.sum(0) ** 2).sum()), rel=1e-4)
        adam.steps += 1
        for worker in range(3):
            adam.step(worker, 0.5, rate)
        assert not adam.grads.any()
        for p, grad in zip(
            other.parameters(), flat.parts(np.float32(0.5) * parts.sum(0)), strict=True
        ):
            p.grad = grad
        theirs.param_groups[0]["lr"] = rate
        theirs.step()
        for mine, want in zip(network.parameters(), other.parameters(), strict=True):
            assert close(mine.detach().numpy(), want.detach().numpy(), 1e-6)


def test_the_optimiser_goes_on_from_the_state_of_the_other_kind() -> None:
    states: list[dict[str, Any]] = []
    for first, second in ((KernelLearner, TorchLearner), (TorchLearner, KernelLearner)):
        actor, critic = networks(CONFIG.hidden, CONFIG.critic_hidden)
        targets = batch_of("taken", actor, critic, CONFIG)
        with ThreadPoolExecutor(1) as pool:
            learner = first(actor, critic, CONFIG)
            learner.step(pool, [(targets, targets.usable)], 0.1, 1e-2)
            later = second(actor, critic, CONFIG)
            later.load_state_dict(copy.deepcopy(learner.state_dict()))
            later.step(pool, [(targets, targets.usable)], 0.1, 1e-2)
        states.append(later.state_dict()["state"])
    for mine, theirs in zip(*(state.values() for state in states), strict=True):
        assert float(mine["step"]) == float(theirs["step"]) == 2
        for name in ("exp_avg", "exp_avg_sq"):
            assert mine[name].shape == theirs[name].shape
            assert close(mine[name].numpy(), theirs[name].numpy(), 1e-4)


def test_a_learner_that_has_made_no_step_can_be_gone_on_with() -> None:
    actor, critic = networks((6,), (4,))
    config = dataclasses.replace(CONFIG, hidden=(6,), critic_hidden=(4,))
    learner = make_learner(actor, critic, config)
    assert isinstance(learner, KernelLearner)
    learner.load_state_dict(learner.state_dict())
    assert [adam.steps for adam in learner.adams] == [0, 0]


@pytest.mark.parametrize("hidden", [(5,), (24, 70), (9, 8, 7)])
def test_outputs_of_the_kernels_equal_those_of_torch(hidden: tuple[int, ...]) -> None:
    actor, critic = networks(hidden, hidden)
    rows = batch_of("taken", actor, critic, CONFIG).rows
    reference = TorchLearner(actor, critic, CONFIG)
    which = np.arange(len(rows.action))[::-2].copy()
    mask = rows.mask[which] > 0
    mine, theirs = Perceptron(actor).logits(rows, which), reference.logits_of(rows, which)
    assert close(mine[mask], theirs[mask])
    assert (mine[~mask] == ILLEGAL).all()
    assert Perceptron(actor).logits(rows, which[:0]).shape == (0, 79)
    assert close(Perceptron(critic).values(rows), reference.values_of(rows))


def test_a_module_and_its_perceptron_share_their_parameters() -> None:
    actor, critic = networks((5, 4), (3,))
    before = [p.detach().numpy().copy() for p in actor.parameters()]
    flat = Perceptron(actor)
    assert all(
        (p.detach().numpy() == b).all() for p, b in zip(actor.parameters(), before, strict=True)
    )
    actor.load_state_dict({k: v + 1 for k, v in actor.state_dict().items()})
    assert flat.params == pytest.approx(np.concatenate([(b + 1).ravel() for b in before]))
    flat.params[:] = 0
    assert not any(p.detach().numpy().any() for p in actor.parameters())
    # A copy stays as it is.
    average = copy.deepcopy(actor)
    flat.params[:] = 2
    assert not any(p.detach().numpy().any() for p in average.parameters())


def test_a_step_without_rows_changes_nothing() -> None:
    for learner_of in (KernelLearner, TorchLearner):
        actor, critic = networks(CONFIG.hidden, CONFIG.critic_hidden)
        targets = batch_of("taken", actor, critic, CONFIG)
        before = [p.detach().numpy().copy() for p in actor.parameters()]
        with ThreadPoolExecutor(1) as pool:
            metrics = learner_of(actor, critic, CONFIG).step(
                pool, [(targets, np.zeros(0, np.int64))], 0.1, 1.0
            )
        assert (metrics == np.zeros(len(METRICS))).all()
        assert all(
            (p.detach().numpy() == b).all() for p, b in zip(actor.parameters(), before, strict=True)
        )
