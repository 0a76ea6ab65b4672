"""The Tianshou adapter with the real library: the learner's points, masks, both ways in, bots."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tianshou", reason="needs tianshou: pip install 'judgement-env[tianshou]'")

import torch
from gymnasium.spaces import Discrete
from tianshou.algorithm import DQN, PPO
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.multiagent.marl import MultiAgentOffPolicyAlgorithm
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.trainer import OnPolicyTrainerParams
from torch import nn

from judgement_env import Rules, Table, arena, judgement_v0
from judgement_env.bots import BotError
from judgement_env.integrations.tianshou import MaskedLogits, PolicyBot, SeatVectorEnv, Values
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
BLOCKS = blocks_of("tianshou")


class Quality(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = small_network(79)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
        return self.layers(torch.as_tensor(obs, dtype=torch.float32)), state


def dqn(horizon: int = 1, epsilon: float = 0.3) -> DQN:
    policy = DiscreteQLearningPolicy(
        model=Quality(), action_space=Discrete(79), eps_training=epsilon, eps_inference=epsilon
    )
    optim = AdamOptimizerFactory(lr=1e-3)
    return DQN(policy=policy, optim=optim, gamma=1.0, n_step_return_horizon=horizon)


def ppo(actor: nn.Module) -> PPO:
    policy = DiscreteActorPolicy(actor=actor, action_space=Discrete(79))
    return PPO(
        policy=policy,
        critic=Values(small_network(1)),
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=1.0,
    )


class Watched(SeatVectorEnv):
    """Notes the record of each episode that ends, with the learner's seat and its table."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ended: list[tuple[int, int, dict[str, Any]]] = []

    def step(self, action: Any, id: Any = None) -> Any:
        result = super().step(action, id)
        rows = self._rows("step", id)
        for i in rows[self.batch.done[rows]].tolist():
            seat = int(self.batch.terminal_seat[i])
            self.ended.append((i, seat, self.batch.terminal_record(i)))
        return result


# --- the vector env ---------------------------------------------------------------------------


@pytest.mark.parametrize("seat", [None, 1])
def test_the_learner_is_given_the_totals_of_its_seat_and_its_actions_are_legal(
    seat: int | None,
) -> None:
    env = Watched(SMALL, 6, seed=3, opponents="random", records=True, seat=seat)
    buffer = VectorReplayBuffer(3000, 6)
    collector = Collector(dqn(), env, buffer, exploration_noise=True)
    collector.reset()
    stats = collector.collect(n_step=1800)
    assert stats.n_collected_episodes == len(env.ended) > 300
    totals = [record["totals"][seat] for _, seat, record in env.ended]
    assert stats.returns.tolist() == totals
    assert {seat for _, seat, _ in env.ended} == ({0, 1, 2} if seat is None else {1})
    matches = [record["match"] for i, _, record in env.ended if i == 2]
    assert matches == list(range(len(matches)))
    data, _ = buffer.sample(0)
    assert data.obs.mask[np.arange(len(data)), data.act].all()
    # The mask of an end is empty, that of every other next decision is not.
    assert (data.obs_next.mask.any(axis=1) == ~data.done).all()
    assert data.done.sum() == len(env.ended)
    assert data.obs_next.obs[data.done].any()


def test_a_transition_leads_from_a_decision_of_the_learner_to_its_next() -> None:
    env = SeatVectorEnv(SMALL, 1, seed=5, opponents="random", seat=2)
    shown, infos = env.reset()
    assert infos.tolist() == [{"env_id": 0}]
    while True:
        assert env.batch.tables["seat"][0] == 2
        action = env.action_space[0].sample()
        following, reward, terminated, truncated, _ = env.step([action])
        assert reward.shape == terminated.shape == (1,) and not truncated.any()
        if terminated[0]:
            assert not following.mask.any()
            break
        assert np.array_equal(following.mask[0], env.batch.view(0).action_mask())
        assert np.array_equal(following.obs[0], env.batch.view(0).observation())
        assert not np.array_equal(following.obs, shown.obs)
        shown = following


def test_samples_of_the_action_space_are_legal_and_copies_hold_no_table() -> None:
    env = SeatVectorEnv(SMALL, 4, seed=1, opponents="random")
    collector = Collector(dqn(), env, VectorReplayBuffer(800, 4))
    collector.reset()
    collector.collect(n_step=400, random=True)
    data, _ = collector.buffer.sample(0)
    assert data.obs.mask[np.arange(len(data)), data.act].all()
    assert len(set(data.act.tolist())) > 20
    assert type(copy.deepcopy(env.action_space[0])) is Discrete
    assert type(pickle.loads(pickle.dumps(env.action_space[0]))) is Discrete
    assert len(env.action_space) == len(env.observation_space) == len(env) == 4
    assert env.observation_space[0]["obs"].contains(data.obs.obs[0])


def test_collecting_episodes_takes_tables_out_and_goes_on_afterwards() -> None:
    env = Watched(SMALL, 5, seed=2, opponents="random", records=True)
    collector = Collector(dqn(), env, VectorReplayBuffer(500, 5), exploration_noise=True)
    collector.reset()
    stats = collector.collect(n_episode=7)
    assert stats.n_collected_episodes == 7 == len(env.ended)
    assert stats.returns.tolist() == [record["totals"][seat] for _, seat, record in env.ended]
    with pytest.warns(UserWarning, match="n_episode=3"):
        stats = collector.collect(n_episode=3)
    assert stats.n_collected_episodes == 3
    assert {i for i, _, _ in env.ended[7:]} == {0, 1, 2}
    assert collector.collect(n_step=100).n_collected_steps == 100


def test_a_table_left_out_of_a_step_must_be_reset_first() -> None:
    env = SeatVectorEnv(SMALL, 3, seed=2, opponents="random")
    env.reset()
    legal = env.batch.action_mask.argmax(axis=1)
    env.step(legal[[0, 2]], np.array([0, 2]))
    with pytest.raises(RuntimeError, match="table 1 was left out of the step before"):
        env.step(env.batch.action_mask.argmax(axis=1))
    env.reset([1])
    assert env.batch.tables["match"].tolist() == [0, 1, 0]
    for _ in range(9):
        done = env.step(env.batch.action_mask.argmax(axis=1))[2]
        if done.any():
            break
    rows = np.flatnonzero(done)
    with pytest.raises(RuntimeError, match=f"table {rows[0]} is over, reset it first"):
        env.step(env.batch.action_mask.argmax(axis=1))
    before = env.batch.tables.copy()
    shown, _ = env.reset(rows)
    assert env.batch.tables.tobytes() == before.tobytes()
    assert np.array_equal(shown.obs, env.batch.observation[rows])


def test_equal_seeds_deal_alike_and_other_seeds_otherwise() -> None:
    env = SeatVectorEnv(SMALL, 3, opponents="random")
    deals = []
    for seed in (7, 8, 7):
        env.seed(seed)
        deals.append(env.reset()[0].obs)
    assert np.array_equal(deals[0], deals[2])
    assert not np.array_equal(deals[0], deals[1])
    assert np.array_equal(env.reset(seed=8)[0].obs, deals[1])
    assert env.seed([5, 5, 6]) == [5, 5, 6]
    alike = env.reset()[0].obs
    assert np.array_equal(alike[0], alike[1]) and not np.array_equal(alike[0], alike[2])


def hands(env: SeatVectorEnv) -> list[Any]:
    return [env.batch.record(i)["rounds"][0]["hands"] for i in range(env.env_num)]


def test_a_seed_deals_as_its_tables_and_a_list_as_the_aec_environment() -> None:
    env = SeatVectorEnv(SMALL, 3, opponents="random", records=True)
    collector = Collector(dqn(), env, VectorReplayBuffer(300, 3), exploration_noise=True)
    as_tables = [Table(SMALL, 7, table=i).record()["rounds"][0]["hands"] for i in range(3)]
    assert env.seed(np.int64(7)) == [7, 7, 7]
    env.reset()
    assert hands(env) == as_tables
    env.reset()
    assert hands(env) != as_tables
    collector.reset(gym_reset_kwargs={"seed": 7})
    assert hands(env) == as_tables
    assert env.seed([7, 8, 9]) == [7, 8, 9]
    collector.reset()
    aec = judgement_v0.raw_env(SMALL)
    for i, seed in enumerate((7, 8, 9)):
        aec.reset(seed=seed)
        assert hands(env)[i] == aec.record()["rounds"][0]["hands"]
    # What `collect` is given would go to the reset after every end.
    with pytest.raises(ValueError, match=r"^seed: 7 for some tables"):
        collector.collect(n_step=300, gym_reset_kwargs={"seed": 7})


def test_a_copied_or_pickled_env_goes_on_alike() -> None:
    env = SeatVectorEnv(SMALL, 3, seed=4, opponents="random")
    env.reset()
    env.step(env.batch.action_mask.argmax(axis=1))
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    actions = env.batch.action_mask.argmax(axis=1)
    shown, reward, *_ = env.step(actions)
    for twin in twins:
        found, given, *_ = twin.step(actions)
        assert np.array_equal(found.obs, shown.obs) and np.array_equal(given, reward)


def test_misuse_is_named() -> None:
    for name in ("copy", "autoreset"):
        with pytest.raises(ValueError, match=f"^{name}: .*leave it out"):
            SeatVectorEnv(SMALL, **{name: "x"})
    env = SeatVectorEnv(SMALL, 2, seed=1, opponents="random")
    env.reset()
    before = env.batch.tables.copy()
    for call, error, message in (
        (lambda: env.step([52]), ValueError, r"^action: shape \(1,\) \(allowed: \(2,\)\)"),
        (lambda: env.step([52], [2]), ValueError, r"^step: tables \[2\] \(allowed: 0 to 1"),
        (lambda: env.reset([1, 1]), ValueError, r"^reset: tables \[1, 1\]"),
        (lambda: env.reset([1], seed=3), ValueError, "^seed: 3 for some tables"),
        (lambda: env.seed("seven"), ValueError, "^seed: 'seven'"),
        (lambda: env.seed([1]), ValueError, "^seed: 1 seeds .allowed: one, or 2"),
        (lambda: env.step([52, 0]), IllegalActionError, "table 1"),
        (lambda: env.get_env_attr("rules"), AttributeError, "'rules' .*allowed: action_space"),
        (lambda: env.set_env_attr("rules", 1), AttributeError, "set_env_attr: 'rules'"),
    ):
        with pytest.raises(error, match=message):
            call()
        assert env.batch.tables.tobytes() == before.tobytes()
    assert len(env.render()) == 2
    env.close()
    with pytest.raises(RuntimeError, match="close"):
        env.step([52, 52])


# --- policy gradients -------------------------------------------------------------------------


def test_ppo_honours_masks_with_masked_logits() -> None:
    env = SeatVectorEnv(SMALL, 8, seed=1, opponents="random")
    algorithm = ppo(MaskedLogits(small_network(79)))
    buffer = VectorReplayBuffer(1600, 8)
    collector = Collector(algorithm, env, buffer)
    collector.reset()
    before = [weight.clone() for weight in algorithm.policy.parameters()]
    params = OnPolicyTrainerParams(
        training_collector=collector,
        max_epochs=3,
        epoch_num_steps=400,
        collection_step_num_env_steps=400,
        update_step_num_repetitions=2,
        show_progress=False,
        verbose=False,
    )
    algorithm.run_training(params)
    assert collector.collect_step >= 1200
    after = list(algorithm.policy.parameters())
    assert any(not torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert all(weight.isfinite().all() for weight in after)


def test_without_masked_logits_ppo_is_stopped_by_the_first_illegal_action() -> None:
    class Unmasked(MaskedLogits):
        def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
            return self.network(torch.as_tensor(obs.obs)), state

    algorithm = ppo(Unmasked(small_network(79)))
    collector = Collector(algorithm, SeatVectorEnv(SMALL, 8, seed=1), VectorReplayBuffer(800, 8))
    collector.reset()
    with pytest.raises(IllegalActionError):
        collector.collect(n_step=200)
    with pytest.raises(BotError, match="does not read the mask"):
        bot = PolicyBot(algorithm, greedy=False)
        for seed in range(50):
            bot.act(Table(SMALL, seed, dealer=0).view(1))


# --- bots -------------------------------------------------------------------------------------


def test_a_policy_as_a_bot_answers_views_and_rows_alike() -> None:
    masked = ppo(MaskedLogits(small_network(79)))
    for bot in (PolicyBot(dqn(), "values"), PolicyBot(masked.policy, "chances")):
        for seed in range(4):
            table = Table(SMALL, seed)
            while not table.is_over:
                view = table.view(table.seat)
                action = bot.act(view)
                rows = np.zeros(1, np.int64)
                assert action in view.legal
                assert action == bot.act_rows(table.rules_array, table.tables_array, rows)[0]
                chances = bot.policy(view)
                assert chances.sum() == pytest.approx(1)
                assert not chances[~view.action_mask().astype(bool)].any()
                assert action == chances.argmax()
                assert bot.name != "values" or chances[action] == 1
                table.push(action)


def test_a_bot_that_draws_takes_other_actions_too() -> None:
    bot = PolicyBot(ppo(MaskedLogits(small_network(79))), greedy=False)
    view = Table("kachuful", 1, dealer=0).view(1)
    drawn = {bot.act(view) for _ in range(60)}
    assert 1 < len(drawn) and drawn <= set(view.legal)


def test_something_that_is_no_policy_is_refused() -> None:
    with pytest.raises(TypeError, match="^policy: str"):
        PolicyBot("dqn")


# --- PettingZooEnv ----------------------------------------------------------------------------


def collected(horizon: int) -> tuple[Any, Any, list[PettingZooEnv], Collector]:
    """Three DQNs, one a seat, and what they played through the library's own wrapper."""
    inner = [PettingZooEnv(judgement_v0.env(SMALL)) for _ in range(3)]
    for seed, env in enumerate(inner):
        env.reset(seed=seed)
    env = DummyVectorEnv([lambda one=one: one for one in inner])
    algorithm = MultiAgentOffPolicyAlgorithm(
        algorithms=[dqn(horizon) for _ in range(3)], env=inner[0]
    )
    buffer = VectorReplayBuffer(3 * 90, 3)
    collector = Collector(algorithm, env, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=3 * 75)
    return algorithm, buffer, inner, collector


def test_the_library_own_wrapper_gives_every_seat_its_points_and_honours_masks() -> None:
    _, buffer, _, _ = collected(1)
    data, _ = buffer.sample(0)
    assert data.obs.mask[np.arange(len(data)), data.act].all()
    # Two rounds: 3 bids and 6 plays, 3 bids and 3 plays; row 0 began with seed 0.
    match = buffer[np.arange(15)]
    assert match.done.tolist() == [False] * 14 + [True]
    # The wrapper resets itself once when it is made, once above and once in the collector.
    table = Table(SMALL, 0, match=1)
    for action in match.act:
        table.push(int(action))
    assert match.rew.sum(axis=0).tolist() == table.record()["totals"]


def test_a_horizon_of_a_whole_match_makes_the_interleaved_returns_right() -> None:
    # One step ahead is another seat's turn: returns are right only if they never look there.
    algorithm, buffer, inner, _ = collected(15)
    indices = np.arange(15)
    batch = algorithm._preprocess_batch(buffer[indices], buffer, indices)
    rewards, agents = buffer[indices].rew, buffer[indices].obs.agent_id
    for seat, agent in enumerate(inner[0].agents):
        own = np.flatnonzero(agents == agent)
        wanted = [rewards[t:, seat].sum() for t in own]
        assert np.allclose(np.asarray(batch[agent].returns).ravel(), wanted)


# --- docs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_of_the_page_runs(block: str) -> None:
    run_block(block)


def test_the_example_runs() -> None:
    options = ["--epochs=1", "--tables=16", "--matches=8"]
    printed = run_example("tianshou", *options)
    assert "points a round over random bots" in printed


@pytest.mark.slow
def test_the_example_learns_to_beat_bots_that_play_at_random() -> None:
    rules = Rules.preset("kachuful", cards=[3])
    algorithm = example("tianshou").train(rules, tables=64, epochs=3, opponents="random", seed=1)
    bots = [PolicyBot(algorithm), "random"]
    result = arena.compare(bots, rules, matches=2000, formats=["one-versus-field"])
    row = result.versus("tianshou", "random")
    assert row.difference >= 0.5 and row.low > 0, row.difference
