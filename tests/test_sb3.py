"""Stable-Baselines3 and sb3-contrib, the real libraries: points, masks, both ways to play, docs."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sb3_contrib", reason="needs sb3-contrib: pip install 'judgement-env[sb3]'")

import torch
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize
from torch import nn

from judgement_env import Rules, Table, arena, judgement_v0
from judgement_env.bench_sb3 import sb3_native_rate, sb3_wrapper_rate
from judgement_env.bots.inputs import INPUT_COLUMN, suit_places
from judgement_env.bots.neural import NeuralBot
from judgement_env.cards import NUM_ACTIONS, NUM_CARDS
from judgement_env.integrations.sb3 import (
    JudgementVecEnv,
    MaskablePPO,
    Sb3Bot,
    policy_network,
    policy_weights,
)
from judgement_env.observation import AT_HAND, SIZE
from judgement_env.table import IllegalActionError
from tests.libraries import SMALL, blocks_of, example, run_block, run_example

pytestmark = pytest.mark.usefixtures("one_thread")
BLOCKS = blocks_of("sb3")
RELU = {"activation_fn": nn.ReLU, "net_arch": [24, 16]}


def masked_ppo(env: JudgementVecEnv, **changes: Any) -> MaskablePPO:
    options = {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "seed": 3, "device": "cpu"}
    return MaskablePPO("MlpPolicy", env, **{**options, **changes})


def legal(env: JudgementVecEnv) -> Any:
    return env.action_masks().argmax(axis=1)


class Watched(JudgementVecEnv):
    """Notes what the library does with it: each step's masks and actions, and the records."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ended: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
        self.num_actions = self.num_illegal = 0

    def step_wait(self) -> Any:
        allowed = self.action_masks()[np.arange(self.num_envs), self._actions]
        self.num_actions += len(allowed)
        self.num_illegal += int((~allowed).sum())
        result = super().step_wait()
        for i in np.flatnonzero(result[2]).tolist():
            (record,) = self.env_method("terminal_record", indices=i)
            self.ended.append((i, result[3][i], record))
        return result


# --- the VecEnv -------------------------------------------------------------------------------


@pytest.mark.parametrize("canonical", [False, True])
@pytest.mark.parametrize("seat", [None, 0, 1, 2])
def test_the_learner_is_given_the_totals_of_its_seat_and_its_actions_are_legal(
    seat: int | None, canonical: bool
) -> None:
    env = Watched(SMALL, 8, opponents="random", seat=seat, records=True, canonical=canonical)
    model = masked_ppo(env, n_steps=40, stats_window_size=10_000)
    model.learn(640)
    assert env.num_actions == 640 and env.num_illegal == 0
    assert len(env.ended) > 90
    for _, info, record in env.ended:
        assert info["episode"]["r"] == record["totals"][info["seat"]]
        assert info["totals"].tolist() == record["totals"]
        assert seat in (None, info["seat"])
    assert {info["seat"] for _, info, _ in env.ended} == ({0, 1, 2} if seat is None else {seat})
    # What the library says of episodes is what the environment told it.
    told = [episode["r"] for episode in model.ep_info_buffer]
    assert told == [info["episode"]["r"] for _, info, _ in env.ended]


def test_thousands_of_masked_decisions_are_legal_and_their_rewards_add_up() -> None:
    env = Watched("kachuful", 16, opponents=["random", "heuristic", "random"], records=True)
    model = masked_ppo(env, n_steps=200, n_epochs=2, batch_size=400)
    model.learn(3200)
    assert env.num_actions == 3200 and env.num_illegal == 0
    assert len(env.ended) >= 48
    # The buffer is flattened table by table after a rollout was learnt from.
    rewards = (
        model.rollout_buffer.rewards.reshape(16, 200)
        if (model.rollout_buffer.rewards.shape[0] == 3200)
        else model.rollout_buffer.rewards.T
    )
    for i in range(16):
        totals = [rec["totals"][info["seat"]] for j, info, rec in env.ended if j == i]
        whole = sum(info["episode"]["l"] for j, info, _ in env.ended if j == i)
        assert rewards[i, :whole].sum() == sum(totals)


def test_a_step_gives_what_a_seat_batch_gives() -> None:
    env = JudgementVecEnv(SMALL, 5, seed=7, opponents="heuristic", reward_scale=0.5)
    twin = JudgementVecEnv(SMALL, 5, seed=7, opponents="heuristic").batch
    seen = env.reset()
    twin.reset()
    assert np.array_equal(seen, twin.observation) and seen.dtype == np.float32
    for _ in range(12):
        kept = seen.copy()
        actions = legal(env)
        after, reward, done, infos = env.step(actions)
        twin.step(actions)
        # The library keeps observations over the step that follows them.
        assert np.array_equal(seen, kept) and after is not seen
        assert np.array_equal(after, twin.observation)
        assert np.array_equal(reward, twin.reward * 0.5) and reward.dtype == np.float32
        assert np.array_equal(done, twin.done)
        for i in range(5):
            assert bool(infos[i]) == bool(done[i])
            if done[i]:
                final = infos[i]["terminal_observation"]
                assert np.array_equal(final, twin.terminal_observation[i])
                assert infos[i]["TimeLimit.truncated"] is False
        seen = after


def test_what_a_wrapper_writes_into_an_info_is_gone_at_the_next_step() -> None:
    env = JudgementVecEnv(SMALL, 3, opponents="random", seat=0)
    env.reset()
    infos = env.step(legal(env))[3]
    infos[1]["note"] = 1
    again = env.step(legal(env))[3]
    assert [info.get("note") for info in again] == [None] * 3
    assert infos[1] == {"note": 1}


def test_canonical_observations_are_the_networks_inputs_and_its_actions_the_same_cards() -> None:
    plain = JudgementVecEnv("kachuful", 6, seed=2, opponents="random")
    env = JudgementVecEnv("kachuful", 6, seed=2, opponents="random", canonical=True)
    generator = np.random.default_rng(1)
    plain.reset()
    seen = env.reset()
    at_hand = int(INPUT_COLUMN[AT_HAND])
    for _ in range(60):
        masks = env.action_masks()
        assert (masks.sum(axis=1) == plain.action_masks().sum(axis=1)).all()
        assert (masks[:, NUM_CARDS:] == plain.action_masks()[:, NUM_CARDS:]).all()
        assert all(env.observation_space.contains(row) for row in seen)
        hands = seen[:, at_hand : at_hand + NUM_CARDS]
        assert (hands[masks[:, :NUM_CARDS]] > 0).all()
        actions = np.array([generator.choice(np.flatnonzero(mask)) for mask in masks])
        ids = [own_id(action, env.batch.observation[i]) for i, action in enumerate(actions)]
        seen, reward, done, _ = env.step(actions)
        _, given, ended, _ = plain.step(np.array(ids))
        assert np.array_equal(reward, given) and np.array_equal(done, ended)
    assert env.batch.tables.tobytes() == plain.batch.tables.tobytes()


def own_id(action: int, raw: Any) -> int:
    """The id of an action in canonical suits, seen raw observation (SIZE,)."""
    if action >= NUM_CARDS:
        return int(action)
    places = np.zeros(4, np.int32)
    suit_places(raw, places)
    (suit,) = np.flatnonzero(places == action // 13)
    return int(suit) * 13 + int(action) % 13


def test_seeds_name_the_deals_as_in_the_aec_environment() -> None:
    env = JudgementVecEnv(SMALL, 3, opponents="random", seat=1, records=True)
    env.seed(40)
    first = env.reset()
    assert not np.array_equal(first, env.reset())
    env.seed(40)
    assert np.array_equal(first, env.reset())
    for i, record in enumerate(env.env_method("record")):
        aec = judgement_v0.env(SMALL)
        aec.reset(seed=40 + i)
        assert record["rounds"][0]["hands"] == aec.unwrapped.record()["rounds"][0]["hands"]
    # MaskablePPO passes its seed on.
    masked_ppo(env, seed=40)._setup_learn(1)
    assert [record["seed"] for record in env.env_method("record")] == [40, 41, 42]


def test_equal_seeds_learn_the_same() -> None:
    def weights() -> dict[str, Any]:
        env = JudgementVecEnv(SMALL, 4, opponents="random", canonical=True)
        return policy_weights(masked_ppo(env, policy_kwargs=RELU).learn(128))

    first, second = weights(), weights()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_copied_or_pickled_env_goes_on_alike() -> None:
    env = JudgementVecEnv(SMALL, 3, seed=4, opponents="random", canonical=True)
    env.reset()
    env.step(legal(env))
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    actions = legal(env)
    seen, reward, done, _ = env.step(actions)
    for twin in twins:
        found, given, ended, _ = twin.step(actions)
        assert np.array_equal(found, seen) and np.array_equal(given, reward)
        assert np.array_equal(ended, done)


def test_masks_are_found_where_the_library_looks_for_them() -> None:
    env = JudgementVecEnv(SMALL, 4, opponents="random")
    env.reset()
    for one in (env, VecMonitor(VecNormalize(env, norm_obs=False))):
        assert is_masking_supported(one)
        assert np.array_equal(get_action_masks(one), env.action_masks())
        assert one.has_attr("action_masks") and not one.has_attr("no_such_thing")
    some = env.env_method("action_masks", indices=[2, 0])
    assert np.array_equal(some, env.action_masks()[[2, 0]])
    assert env.get_attr("render_mode") == [None] * 4
    assert env.get_attr("action_masks", 1)[0]().shape == (4, NUM_ACTIONS)


def test_statistics_stand_in_the_infos_without_a_monitor() -> None:
    env = JudgementVecEnv(SMALL, 4, opponents="random", reward_scale=0.1)
    assert env.env_is_wrapped(Monitor) == [True] * 4
    assert env.env_is_wrapped(VecNormalize, indices=2) == [False]
    model = masked_ppo(env)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        returns, lengths = evaluate_masked(model, env, 8, return_episode_rewards=True, warn=True)
    assert len(returns) == 8 and set(lengths) == {5}
    # Points, not scaled ones: 10 and more for a bid made.
    assert max(returns) >= 10 and all(points == int(points) for points in returns)


def test_views_and_records_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    env = JudgementVecEnv(SMALL, 2, opponents="random", render_mode="ansi")
    env.reset()
    texts = env.env_method("render")
    assert len(texts) == 2 and "trump" in texts[0].lower()
    assert [view.seat for view in env.env_method("view")] == env.batch.seat.tolist()
    assert env.record(1)["format"] == "judgement-record/1"
    loud = JudgementVecEnv(SMALL, 1, opponents="random", render_mode="human")
    loud.reset()
    loud.render()
    assert "trump" in capsys.readouterr().out.lower()


def test_misuse_is_named() -> None:
    for name in ("copy", "autoreset"):
        with pytest.raises(ValueError, match=f"^{name}: .*leave it out"):
            JudgementVecEnv(SMALL, **{name: "x"})
    with pytest.raises(ValueError, match="^dtype: 'uint8' with canonical"):
        JudgementVecEnv(SMALL, canonical=True, dtype="uint8")
    for scale in (0, -1, "a", None, float("nan"), float("inf"), np.ones(2), True):
        with pytest.raises(ValueError, match=r"^reward_scale: .* \(allowed: a number above 0\)"):
            JudgementVecEnv(SMALL, reward_scale=scale)
    with pytest.raises(ValueError, match="^num_envs: 0 .allowed: a whole number from 1"):
        JudgementVecEnv(SMALL, 0)
    with pytest.raises(ValueError, match=r"^opponents: 'random' with opponent_pool \['heuristic'"):
        JudgementVecEnv(SMALL, opponents="random", opponent_pool=["heuristic"])
    with pytest.raises(ValueError, match="^render_mode: 'rgb_array'"):
        JudgementVecEnv(SMALL, render_mode="rgb_array")
    for canonical in (False, True):
        env = JudgementVecEnv(SMALL, 2, opponents="random", canonical=canonical)
        with pytest.raises(RuntimeError, match="reset"):
            env.step(np.array([52, 52]))
        env.reset()
        before = env.batch.tables.copy()
        for call, error, message in (
            (lambda env=env: env.step(np.array([52])), ValueError, r"shape \(1,\)"),
            (lambda env=env: env.step(np.array([52.0, 52.0])), TypeError, "dtype float64"),
            (lambda env=env: env.step(np.array([52, 0])), IllegalActionError, "table 1"),
            (lambda env=env: env.step(np.array([52, 79])), IllegalActionError, "action: 79"),
            (lambda env=env: env.step_wait(), RuntimeError, r"step_async\(actions\) first"),
            (lambda env=env: env.set_attr("rules", 1), AttributeError, "set_attr: 'rules'"),
            (lambda env=env: env.env_method("close"), AttributeError, "env_method: 'close'"),
            (lambda env=env: env.env_method("view", 1), TypeError, "takes no arguments"),
            (lambda env=env: env.get_attr("render_mode", 2), IndexError, "indices: 2"),
            (lambda env=env: env.get_attr("nothing"), AttributeError, "nothing"),
            (lambda env=env: env.set_options({"dealer": 1}), ValueError, "options: .*dealer"),
        ):
            with pytest.raises(error, match=message):
                call()
            assert env.batch.tables.tobytes() == before.tobytes()
        env.close()
        env.close()
        with pytest.raises(RuntimeError, match="closed"):
            env.step(np.array([52, 52]))


def test_opponents_can_be_changed_from_the_next_episode_on() -> None:
    env = JudgementVecEnv(SMALL, 3, opponents="random", seat=0)
    model = masked_ppo(env).learn(48)
    kept = io.BytesIO()
    model.save(kept)
    past = Sb3Bot(MaskablePPO.load(kept, device="cpu"), "past")
    env.set_opponent_pool(["heuristic", past], [1, 3])
    model.learn(96, reset_num_timesteps=False)
    assert [bot.name for bot in env.batch.opponents][-2:] == ["heuristic", "past"]
    env.set_opponents("heuristic")
    model.learn(48, reset_num_timesteps=False)


# --- models without masks ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["random", "end"])
@pytest.mark.parametrize("algorithm", [DQN, PPO, A2C])
def test_models_without_masks_learn_where_illegal_actions_are_let_pass(
    algorithm: Any, mode: str
) -> None:
    env = JudgementVecEnv(
        SMALL, 4, opponents="random", dtype="uint8", illegal_action=mode, illegal_reward=-3
    )
    options: dict[str, Any] = {"n_steps": 32}
    if algorithm is DQN:
        options = {"buffer_size": 512, "learning_starts": 64, "train_freq": 4}
    model = algorithm("MlpPolicy", env, seed=1, device="cpu", **options)
    if algorithm is PPO:
        model.batch_size = 32
    model.learn(256)
    generator = np.random.default_rng(1)
    infos = [env.step(np.where(generator.random(4) < 0.2, 3, legal(env)))[3] for _ in range(40)]
    # An illegal step says so.
    marks = [info.get("illegal_action") for step in infos for info in step]
    assert set(marks) == {None, 1}
    ends = [info["episode"] for step in infos for info in step if "episode" in info]
    assert ends and (mode == "random" or min(end["r"] for end in ends) == -3)
    points, _ = evaluate_policy(model, env, 6)
    assert np.isfinite(points)
    bot = Sb3Bot(model)
    table = Table(SMALL, 5)
    while not table.is_over:
        table.push(bot.act(table.view(table.seat)))


def test_models_without_masks_are_stopped_by_default() -> None:
    env = JudgementVecEnv(SMALL, 8, opponents="random")
    with pytest.raises(IllegalActionError):
        PPO("MlpPolicy", env, n_steps=64, device="cpu").learn(512)


# --- bots -------------------------------------------------------------------------------------


@pytest.mark.parametrize("canonical", [False, True])
def test_a_model_as_a_bot_answers_views_and_rows_as_the_model_does(canonical: bool) -> None:
    env = JudgementVecEnv("kachuful", 8, opponents="random", canonical=canonical)
    model = masked_ppo(env).learn(256)
    bot = Sb3Bot(model, "mine")
    seen = env.reset()
    tables, rows = env.batch.tables.copy(), np.arange(8)
    rules = env.batch.view(0).rules_array
    actions, _ = model.predict(seen, deterministic=True, action_masks=env.action_masks())
    chosen = bot.act_rows(rules, tables, rows)
    if canonical:
        pairs = zip(actions, env.batch.observation, strict=True)
        actions = [own_id(action, raw) for action, raw in pairs]
    assert np.array_equal(chosen, actions)
    for seed in range(4):
        table = Table("kachuful", seed)
        while not table.is_over:
            view = table.view(table.seat)
            chances = bot.policy(view)
            assert chances.shape == (79,) and chances.sum() == pytest.approx(1, abs=1e-5)
            assert not chances[~view.action_mask().astype(bool)].any()
            action = bot.act(view)
            assert action == chances.argmax() and action in view.legal
            again = bot.act_rows(table.rules_array, table.tables_array, np.zeros(1, np.int64))
            assert again[0] == action
            table.push(action)


def test_a_bot_that_draws_takes_each_action_as_often_as_its_policy_says() -> None:
    env = JudgementVecEnv("kachuful", 1, opponents="random")
    bot = Sb3Bot(masked_ppo(env, batch_size=16), greedy=False, seed=5)
    view = Table("kachuful", 1, dealer=0).view(1)
    rows = np.zeros(4000, np.int64)
    drawn = bot.act_rows(view.rules_array, view.tables_array, rows)
    often = np.bincount(drawn, minlength=79) / 4000
    assert np.abs(often - bot.policy(view)).max() < 0.03


def test_what_is_no_model_of_ours_is_refused() -> None:
    with pytest.raises(TypeError, match="^model: str"):
        Sb3Bot("ppo")
    with pytest.raises(ValueError, match=r"^model: observations of shape \(4,\)"):
        Sb3Bot(PPO("MlpPolicy", "CartPole-v1", device="cpu"))
    env = JudgementVecEnv(SMALL, 2, opponents="random", illegal_action="random")
    with pytest.raises(ValueError, match="^greedy: False of a DQN"):
        Sb3Bot(DQN("MlpPolicy", env, buffer_size=10, device="cpu"), greedy=False)
    with pytest.raises(ValueError, match=f"^model: it reads {SIZE} values"):
        policy_weights(masked_ppo(env))
    env = JudgementVecEnv(SMALL, 2, opponents="random", canonical=True, illegal_action="random")
    with pytest.raises(ValueError, match="a layer Tanh .*activation_fn"):
        policy_weights(masked_ppo(env))
    with pytest.raises(ValueError, match="^model: a DQNPolicy"):
        policy_weights(DQN("MlpPolicy", env, buffer_size=10, device="cpu"))


# --- export -----------------------------------------------------------------------------------


def test_the_network_made_of_a_model_gives_the_same_probabilities() -> None:
    env = JudgementVecEnv("kachuful", 32, opponents="random", canonical=True)
    model = masked_ppo(env, policy_kwargs=RELU, learning_rate=0.01, n_epochs=4).learn(1024)
    bots = Sb3Bot(model), NeuralBot.from_network(policy_network(model))
    seen = env.reset()
    rules = env.batch.view(0).rules_array
    spread = 0.0
    for _ in range(60):
        rows = np.arange(32)
        one, other = (bot.policy_rows(rules, env.batch.tables, rows) for bot in bots)
        assert np.abs(one - other).max() < 1e-4
        spread = max(spread, float(one.max()))
        # The library's own probabilities, in canonical suits, are the same numbers.
        tensor, _ = model.policy.obs_to_tensor(seen)
        with torch.no_grad():
            found = model.policy.get_distribution(tensor, env.action_masks()).distribution.probs
        assert np.allclose(np.sort(found.numpy(), axis=1), np.sort(one, axis=1), atol=1e-4)
        actions, _ = model.predict(seen, action_masks=env.action_masks())
        seen = env.step(actions)[0]
    # It has learnt something, so that the agreement is not that of uniform policies.
    assert spread > 0.5


def test_a_network_made_of_a_model_stays_as_it_is_when_the_model_learns_on() -> None:
    env = JudgementVecEnv(SMALL, 8, opponents="random", canonical=True)
    model = masked_ppo(env, policy_kwargs=RELU)
    weights = policy_weights(model)
    before = {name: array.copy() for name, array in weights.items()}
    model.learn(256)
    assert all(np.array_equal(weights[name], before[name]) for name in weights)
    after = policy_weights(model)
    assert not any(np.array_equal(after[name], before[name]) for name in weights)


# --- speed, docs, learning --------------------------------------------------------------------


def test_both_loops_of_the_bench_learn() -> None:
    small = {"n_steps": 32, "batch_size": 32, "n_epochs": 1}
    assert sb3_native_rate(0.01, tables=4, **small) > 0
    assert sb3_wrapper_rate(0.01, **small) > 0


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_of_the_page_runs(block: str) -> None:
    run_block(block)


def test_the_example_runs(tmp_path: Path) -> None:
    options = ["--decisions=4096", "--matches=8", f"--export={tmp_path / 'mine'}"]
    printed = run_example("sb3", *options)
    assert "points a round over random bots" in printed
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {
        "card.json",
        "policy.onnx",
        "policy.safetensors",
    }


@pytest.mark.slow
def test_the_example_learns_to_beat_bots_that_play_at_random() -> None:
    rules = Rules.preset("kachuful", cards=[3])
    model = example("sb3").train(rules, tables=128, decisions=60_000, opponents="random", seed=1)
    bots = [Sb3Bot(model), "random"]
    result = arena.compare(bots, rules, matches=2000, formats=["one-versus-field"])
    more = result.versus("sb3", "random").difference
    assert more >= 0.5 and more.low > 0, more
