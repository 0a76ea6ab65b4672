"""The TorchRL adapter with the real library: points of every seat, masks, advantages, bots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torchrl", reason="needs torchrl: pip install 'judgement-env[torchrl]'")

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import ActionMask, Compose, RewardSum, TransformedEnv
from torchrl.envs.libs.pettingzoo import PettingZooWrapper
from torchrl.envs.utils import check_env_specs, step_mdp
from torchrl.modules import QValueActor

from judgement_env import Rules, Table, arena, judgement_v0
from judgement_env.integrations.torchrl import ActorBot, JudgementEnv, masked_actor, seat_advantage
from judgement_env.table import IllegalActionError
from tests.libraries import (
    SMALL,
    blocks_of,
    example,
    run_block,
    run_example,
    small_network,
)

pytestmark = pytest.mark.usefixtures("one_thread")
BLOCKS = blocks_of("torchrl")


def assert_replays(data: Any, rules: Rules, seed: int) -> int:
    """Play the steps (N, T) again at tables; each match's rewards are its record's totals."""
    finished = 0
    rewards, done = data["next", "reward"].numpy(), data["next", "done"].numpy()
    for i in range(data.shape[0]):
        match, given = 0, np.zeros(rules.num_players)
        table = Table(rules, seed, table=i)
        for t in range(data.shape[1]):
            assert table.seat == data["seat"][i, t]
            mask = data["action_mask"][i, t].numpy()
            assert np.flatnonzero(mask).tolist() == list(table.legal())
            shown = table.view(table.seat).observation()
            assert np.array_equal(data["observation"][i, t].numpy(), shown)
            table.push(int(data["action"][i, t]))
            given += rewards[i, t]
            assert done[i, t, 0] == table.is_over
            if table.is_over:
                assert given.tolist() == table.record()["totals"]
                finished += 1
                match, given = match + 1, np.zeros(rules.num_players)
                table = Table(rules, seed, table=i, match=match)
    return finished


@pytest.mark.parametrize(
    "options",
    [{}, {"dtype": "uint8", "oracle": True}, {"episode": "round", "skip_forced": True}],
)
def test_the_specs_are_those_of_the_data(options: dict[str, Any]) -> None:
    env = JudgementEnv(["kachuful", "up-and-down"], 3, seed=3, **options)
    check_env_specs(env, break_when_any_done="both", seed=5)


def test_every_seat_is_given_the_totals_of_the_record_and_only_legal_actions_are_drawn() -> None:
    env = JudgementEnv(SMALL, 5, seed=11)
    env.set_seed(4)
    data = env.rollout(150, break_when_any_done=False)
    assert assert_replays(data, SMALL, seed=4) > 5 * 8
    assert (data["next", "reward"].ne(0).sum(-1) > 1).any()


def test_a_collector_of_a_masked_actor_takes_no_illegal_action_and_goes_on_where_it_was() -> None:
    actor = masked_actor(small_network(79))
    collector = Collector(
        JudgementEnv(SMALL, 8, seed=2),
        actor,
        frames_per_batch=480,
        total_frames=2400,
        auto_register_policy_transforms=False,
    )
    parts = [part.clone() for part in collector]
    collector.shutdown()
    data = torch.cat(parts, dim=1)
    assert data.shape == (8, 300)
    assert data["action_mask"].gather(-1, data["action"].unsqueeze(-1)).all()
    assert data["action_log_prob"].isfinite().all()
    assert assert_replays(data, SMALL, seed=2) == 8 * 20


def test_an_ended_episode_shows_nothing_until_it_is_reset() -> None:
    env = JudgementEnv(SMALL, 4, seed=1, oracle=True)
    data = env.rollout(40)
    last = data[:, -1]["next"]
    over = last["done"].squeeze(-1)
    assert over.any()
    assert last["action_mask"][over].all() and (last["seat"][over] == -1).all()
    assert not last["observation"][over].any() and not last["oracle"][over].any()
    assert torch.equal(last["terminated"], last["done"])
    action = torch.from_numpy(env.batch.action_mask.argmax(axis=1))
    with pytest.raises(RuntimeError, match=f"table {int(over.int().argmax())} is over"):
        env.step(TensorDict({"action": action}, [4]))


def test_a_reset_of_some_tables_leaves_the_others_and_skips_no_match() -> None:
    env = JudgementEnv(SMALL, 4, seed=1)
    shown = env.reset()
    for _ in range(3):
        shown = step_mdp(env.rand_step(shown))
    before = env.batch.tables.copy()
    shown["_reset"] = torch.tensor([[True], [False], [False], [True]])
    shown = env.reset(shown)
    assert env.batch.tables["match"].tolist() == [1, 0, 0, 1]
    assert env.batch.tables[1:3].tobytes() == before[1:3].tobytes()
    assert shown["seat"].tolist() == env.batch.seat.tolist()
    for i, match in enumerate([1, 0, 0, 1]):
        table = Table(SMALL, 1, table=i, match=match)
        if match:
            assert np.array_equal(shown["observation"][i], table.view(table.seat).observation())
    # An episode that has ended is followed by the next, also where all tables are reset.
    data = env.rollout(30, auto_reset=False, tensordict=shown)
    over = data[:, -1]["next", "done"].squeeze(-1).numpy()
    played = np.array([1, 0, 0, 1])
    env.reset()
    assert over.any() and not over.all()
    assert env.batch.tables["match"].tolist() == (played + 1).tolist()


def test_a_rollout_may_stop_each_table_at_its_own_end() -> None:
    rules = Rules.preset("kachuful", num_players=3, cards=[3, 1])
    env = JudgementEnv(rules, 6, seed=1, episode="round")
    data = env.rollout(40, break_when_any_done=False, break_when_all_done=True)
    ends = data["next", "done"].squeeze(-1).int().argmax(1)
    # Three bids, and three plays a trick.
    assert set(ends.tolist()) == {5, 11} and data.shape == (6, 12)
    assert (env.batch.tables["match"] == 1).all()


def test_equal_seeds_deal_alike_and_other_seeds_otherwise() -> None:
    env = JudgementEnv(SMALL, 3)
    deals = []
    for seed in (7, 8, 7):
        env.set_seed(seed)
        deals.append(env.reset()["observation"])
    assert torch.equal(deals[0], deals[2])
    assert not torch.equal(deals[0], deals[1])
    assert torch.equal(JudgementEnv(SMALL, 3, seed=8).reset()["observation"], deals[1])


def test_rewards_are_summed_by_the_library_for_every_seat() -> None:
    env = TransformedEnv(JudgementEnv(SMALL, 3, seed=5), Compose(RewardSum(), ActionMask()))
    data = env.rollout(60, break_when_any_done=False)
    done = data["next", "done"].squeeze(-1)
    sums = torch.zeros(3, 3)
    for t in range(60):
        sums = sums + data["next", "reward"][:, t]
        assert torch.equal(data["next", "episode_reward"][:, t], sums)
        sums = sums * ~done[:, t, None]
    assert done.any()


def test_misuse_is_named() -> None:
    with pytest.raises(ValueError, match="^copy: False"):
        JudgementEnv(copy=False)
    with pytest.raises(ValueError, match="^num_tables: 0"):
        JudgementEnv(num_tables=0)
    env = JudgementEnv(SMALL, 2, seed=1)
    actions = TensorDict({"action": torch.tensor([52, 0])}, [2])
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step(actions.clone())
    env.reset()
    before = env.batch.tables.copy()
    with pytest.raises(IllegalActionError, match="table 1"):
        env.step(actions)
    assert env.batch.tables.tobytes() == before.tobytes()


# --- advantages -------------------------------------------------------------------------------


def slow_advantages(data: Any, i: int, gamma: float, lmbda: float) -> dict[int, tuple[float, bool]]:
    """Of each step of table i its advantage and whether it is known, seat by seat."""
    out: dict[int, tuple[float, bool]] = {}
    num_steps = data.shape[1]
    value = data["state_value"][i, :, 0].tolist()
    for seat in range(data["next", "reward"].shape[-1]):
        own = [t for t in range(num_steps) if data["seat"][i, t] == seat]
        for k in reversed(range(len(own))):
            t, given, following = own[k], 0.0, None
            for later in range(t, num_steps):
                if later > t and data["seat"][i, later] == seat:
                    following = later
                    break
                given += float(data["next", "reward"][i, later, seat])
                if data["next", "done"][i, later]:
                    break
            else:
                out[t] = (0.0, False)
                continue
            if following is None:
                out[t] = (given - value[t], True)
            else:
                delta = given + gamma * value[following] - value[t]
                out[t] = (delta + gamma * lmbda * out[following][0], True)
    return out


@pytest.mark.parametrize("options", [{}, {"skip_forced": True}, {"episode": "round"}])
@pytest.mark.parametrize(("gamma", "lmbda"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0)])
def test_advantages_follow_each_seat_by_itself(
    options: dict[str, Any], gamma: float, lmbda: float
) -> None:
    env = JudgementEnv(Rules.preset("kachuful", num_players=3, cards=[3, 2]), 4, seed=6, **options)
    data = env.rollout(53, break_when_any_done=False)
    data["state_value"] = torch.randn(4, 53, 1)
    assert seat_advantage(data, gamma, lmbda) is data
    for i in range(4):
        wanted = slow_advantages(data, i, gamma, lmbda)
        assert sorted(wanted) == list(range(53))
        for t, (advantage, is_known) in wanted.items():
            assert data["has_outcome"][i, t, 0] == is_known
            assert data["advantage"][i, t, 0].item() == pytest.approx(advantage, abs=1e-4)
            target = advantage + data["state_value"][i, t, 0].item()
            assert data["value_target"][i, t, 0].item() == pytest.approx(target, abs=1e-4)
    assert 0 < (~data["has_outcome"]).sum() <= 4 * 3


def test_advantages_without_bootstrap_are_the_points_to_come() -> None:
    env = JudgementEnv(SMALL, 3, seed=9)
    data = env.rollout(100, break_when_any_done=False)
    data["state_value"] = torch.zeros(3, 100, 1)
    seat_advantage(data, 1.0, 1.0)
    for i in range(3):
        end = int(data["next", "done"][i, :, 0].int().argmax()) + 1
        totals = data["next", "reward"][i, :end].sum(0)
        for seat in range(3):
            first = data["seat"][i].tolist().index(seat)
            assert data["advantage"][i, first, 0] == totals[seat]


def test_wrong_arguments_of_advantages_are_named() -> None:
    data = JudgementEnv(SMALL, 3).rollout(5)
    data["state_value"] = torch.zeros(3, 5, 1)
    with pytest.raises(ValueError, match=r"^gamma: 1.5 \(allowed: 0 to 1\)$"):
        seat_advantage(data, 1.5)
    with pytest.raises(ValueError, match=r"^data: shape \(5,\) "):
        seat_advantage(data[0])


# --- bots -------------------------------------------------------------------------------------


def test_an_actor_as_a_bot_answers_views_and_rows_alike() -> None:
    env = JudgementEnv(SMALL, 6, seed=1)
    data = env.rollout(7)
    bot = ActorBot(masked_actor(small_network(79)), "mine")
    tables = [Table(SMALL, 1, table=i) for i in range(6)]
    for t in range(7):
        for i, table in enumerate(tables):
            view = table.view(table.seat)
            rows = np.zeros(1, np.int64)
            action = bot.act(view)
            assert action == bot.act_rows(table.rules_array, table.tables_array, rows)[0]
            chances = bot.policy(view)
            assert chances is not None and chances.shape == (79,)
            assert chances.sum() == pytest.approx(1)
            assert not chances[~view.action_mask().astype(bool)].any()
            assert action == chances.argmax()
            table.push(int(data["action"][i, t]))


def test_a_bot_that_draws_takes_other_actions_too() -> None:
    bot = ActorBot(masked_actor(small_network(79)), greedy=False)
    view = Table("kachuful", 1, dealer=0).view(1)
    drawn = [bot.act(view) for _ in range(60)]
    assert 1 < len(set(drawn)) and set(drawn) <= set(view.legal)
    same = ActorBot(bot.actor, greedy=False)
    assert [same.act(view) for _ in range(60)] == drawn


def test_a_value_based_actor_plays_its_best_legal_action() -> None:
    module = TensorDictModule(small_network(79), ["observation"], ["action_value"])
    bot = ActorBot(
        QValueActor(module, action_space="categorical", action_mask_key="action_mask"), "values"
    )
    view = Table("kachuful", 1, dealer=0).view(1)
    assert bot.act(view) in view.legal
    assert np.flatnonzero(bot.policy(view)).tolist() == [bot.act(view)]


def test_something_that_is_no_actor_is_refused() -> None:
    with pytest.raises(TypeError, match="^actor: Linear reads"):
        ActorBot(nn.Linear(2, 2))


# --- PettingZooWrapper ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL")
@pytest.mark.parametrize("is_grouped", [True, False])
def test_the_library_own_wrapper_gives_every_seat_its_points(is_grouped: bool) -> None:
    inner = judgement_v0.env(SMALL, illegal_action="raise")
    groups = {"seats": list(inner.possible_agents)} if is_grouped else None
    env = PettingZooWrapper(inner, use_mask=True, group_map=groups, seed=3)
    names = ["seats"] if is_grouped else list(inner.possible_agents)
    for _ in range(4):
        data = env.rollout(100)
        assert data["next", "done"].sum() == 1
        rewards = torch.cat([data["next", name, "reward"] for name in names], dim=1)
        record = inner.unwrapped.record()
        assert rewards.sum(0).squeeze(-1).tolist() == record["totals"]
        # Exactly one seat acts at each step, and the record holds its action.
        acting = torch.cat([data[name, "mask"] for name in names], dim=1)
        assert acting.sum(1).eq(1).all()
        masks = torch.cat([data[name, "action_mask"] for name in names], dim=1)
        actions = torch.cat([data[name, "action"] for name in names], dim=1)
        assert masks[acting].gather(1, actions[acting].unsqueeze(1)).all()


@pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL")
def test_the_library_own_wrapper_wants_illegal_actions_to_raise() -> None:
    def wrapped(mode: str) -> PettingZooWrapper:
        inner = judgement_v0.env(SMALL, illegal_action=mode)
        groups = {"seats": list(inner.possible_agents)}
        return PettingZooWrapper(inner, use_mask=True, group_map=groups)

    check_env_specs(wrapped("raise"))
    # An info beside the mask is more than the wrapper can take.
    with pytest.raises(TypeError):
        wrapped("random").reset()


# --- docs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_of_the_page_runs(block: str) -> None:
    run_block(block)


def test_the_example_runs() -> None:
    options = ["--iterations=10", "--tables=4", "--steps=32", "--matches=8"]
    printed = run_example("torchrl", *options)
    assert "iteration 10:" in printed and "over random bots" in printed


@pytest.mark.slow
def test_the_example_learns_to_beat_bots_that_play_at_random() -> None:
    rules = Rules.preset("kachuful", cards=[3])
    actor = example("torchrl").train(rules, tables=64, steps=64, iterations=12, seed=1)
    bots = [ActorBot(actor), "random"]
    result = arena.compare(bots, rules, matches=2000, formats=["one-versus-field"])
    row = result.versus("torchrl", "random")
    assert row.difference >= 0.5 and row.low > 0, row.difference
