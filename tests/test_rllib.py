"""RLlib itself drives the environment: totals of every seat, masks, training, checkpoints, leagues.

Runs where ray[rllib] is installed (`make test-rllib`).
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgement_env import ENV_VERSION, Rules, Table, make_bot
from judgement_env.arena import one_versus_field
from judgement_env.cards import NUM_ACTIONS
from judgement_env.observation import SIZE
from judgement_env.state import new_tables

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
ray = pytest.importorskip("ray", reason="needs ray[rllib]: pip install 'judgement-env[rllib]'")
torch = pytest.importorskip("torch", reason="needs torch: pip install 'judgement-env[rllib]'")

from ray.rllib.algorithms.algorithm import Algorithm  # noqa: E402
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner  # noqa: E402
from ray.rllib.utils.pre_checks.env import check_multiagent_environments  # noqa: E402

from judgement_env.integrations import rllib  # noqa: E402
from judgement_env.integrations.rllib import (  # noqa: E402
    MultiAgentJudgement,
    load_bot,
    ppo_config,
)

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "rllib.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "rllib_example.py"
# One round of three cards, the trump fixed: what is learnt quickly.
SMALL = Rules.preset("kachuful", cards=[3], trumps=["S"])
THREE_SEATS = Rules.preset("kachuful", num_players=3, cards=[3, 1, 2])
BLIND = Rules.preset("blind-eight", num_players=3, cards=[2, 1, 1])
# Ten thousand decisions: 25 seconds of one core.
ITERATIONS = 5
GAMES: dict[str, dict[str, Any]] = {
    "match": {"rules": THREE_SEATS},
    "match, forced skipped": {"rules": THREE_SEATS, "skip_forced": True},
    "blind round": {"rules": BLIND, "skip_forced": True},
    "one card, forced skipped": {"rules": SMALL.replace(cards=[1]), "skip_forced": True},
    "losses": {"rules": Rules.preset("up-and-down", cards=[2, 1]), "skip_forced": True},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A small Ray of this machine alone; a slow one may need a second try to start it."""
    torch.set_num_threads(1)
    for attempts_left in (2, 1, 0):
        try:
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=100_000_000,
            )
            break
        except Exception:
            ray.shutdown()
            if not attempts_left:
                raise
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def trained(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A short run of PPO: the algorithm, its checkpoint, and the bot of that."""
    config = ppo_config(SMALL, seed=3, hidden=(64, 64))
    algorithm = config.training(train_batch_size_per_learner=2048).build_algo()
    for _ in range(ITERATIONS):
        result = algorithm.train()
    path = tmp_path_factory.mktemp("checkpoint") / "ppo"
    algorithm.save_to_path(path)
    yield {"algorithm": algorithm, "path": path, "bot": load_bot(path), "result": result}
    algorithm.stop()


# --- the environment by itself ----------------------------------------------------------------


def play(env: MultiAgentJudgement, seed: int | None, draws: Any) -> tuple[dict[str, float], int]:
    """One episode of random legal play: what each seat was given, and the decisions asked."""
    given = dict.fromkeys(env.possible_agents, 0.0)
    shown, _ = env.reset(seed=seed)
    for decisions in range(1, 1000):
        ((agent, seen),) = shown.items()
        action = draws.choice(np.flatnonzero(seen["action_mask"]))
        shown, rewards, terminated, truncated, infos = env.step({agent: action})
        assert set(shown) == set(rewards) == set(infos)
        assert not any(truncated.values())
        for seat, reward in rewards.items():
            given[seat] += reward
        if terminated["__all__"]:
            assert set(shown) == set(env.possible_agents)
            return given, decisions
        assert not any(terminated.values())
    raise AssertionError("the episode does not end")


@pytest.mark.parametrize("options", GAMES.values(), ids=GAMES)
def test_every_seat_is_given_its_total_of_the_record(options: dict[str, Any]) -> None:
    env = MultiAgentJudgement(options)
    draws = np.random.default_rng(0)
    for seed in range(20):
        given, _ = play(env, seed, draws)
        assert list(given.values()) == env.record()["totals"]


def test_observations_lie_in_the_space_and_only_the_seat_to_act_has_a_mask() -> None:
    env = MultiAgentJudgement({"rules": SMALL})
    shown, _ = env.reset(seed=1)
    while True:
        for agent, seen in shown.items():
            assert env.get_observation_space(agent).contains(seen)
            assert seen["observation"].shape == (SIZE,)
        if len(shown) > 1:
            assert not any(seen["action_mask"].any() for seen in shown.values())
            break
        ((agent, seen),) = shown.items()
        shown, *_ = env.step({agent: int(seen["action_mask"].argmax())})


def test_skipping_forced_decisions_asks_less_and_leaves_no_seat_out() -> None:
    asked = {}
    for skip_forced in (False, True):
        env = MultiAgentJudgement({"rules": THREE_SEATS, "skip_forced": skip_forced})
        asked[skip_forced] = play(env, 4, np.random.default_rng(0))[1]
    assert asked[False] == 3 * 3 + 3 * (3 + 1 + 2)
    assert asked[True] < asked[False]
    # The last to bid has one bid left and one card: no choice, but asked once all the same.
    one_card = MultiAgentJudgement({"rules": SMALL.replace(cards=[1]), "skip_forced": True})
    assert play(one_card, 1, np.random.default_rng(0))[1] == 4


@pytest.mark.parametrize("options", GAMES.values(), ids=GAMES)
def test_rllibs_check_of_environments_passes(options: dict[str, Any]) -> None:
    for _ in range(5):
        check_multiagent_environments(MultiAgentJudgement(options))


def test_an_illegal_action_is_replaced_and_counted() -> None:
    env = MultiAgentJudgement({"rules": SMALL})
    ((agent, _),) = env.reset(seed=1)[0].items()
    for _ in range(20):
        shown, _, terminated, _, infos = env.step({agent: NUM_ACTIONS - 1})
        if terminated["__all__"]:
            break
        ((agent, _),) = shown.items()
    counts = [infos[seat]["illegal_actions"] for seat in env.possible_agents]
    assert counts == [4, 4, 4, 4]


def test_equal_seeds_deal_alike_and_going_on_deals_anew() -> None:
    hands = []
    env = MultiAgentJudgement({"rules": SMALL})
    for seed in (5, None, 5):
        env.reset(seed=seed)
        hands.append(env.record()["rounds"][0]["hands"])
    assert hands[0] == hands[2] != hands[1]
    table = Table(SMALL, seed=5)
    assert hands[0] == table.record()["rounds"][0]["hands"]


def test_workers_with_seeds_that_meet_deal_differently() -> None:
    seeds = {rllib.worker_seed(seed, worker) for seed in range(20) for worker in range(1, 20)}
    assert len(seeds) == 20 * 19
    assert max(seeds) < 1 << 53


def test_an_environment_goes_on_alike_after_pickling() -> None:
    env = MultiAgentJudgement({"rules": THREE_SEATS, "skip_forced": True})
    shown, _ = env.reset(seed=9)
    ((agent, seen),) = shown.items()
    env.step({agent: int(seen["action_mask"].argmax())})
    copy = pickle.loads(pickle.dumps(env))
    agent = env.env.agent_selection
    action = int(env.env.observe(agent)["action_mask"].argmax())
    ours, theirs = env.step({agent: action}), copy.step({agent: action})
    assert ours[1:] == theirs[1:]
    assert copy.record() == env.record()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "kachuful"}, r"env_config: 'rule' \(allowed: rules, .*did you mean 'rules'"),
        ({"skip_forced": 1}, r"skip_forced: 1 \(allowed: True, False\)"),
        ({"episode": "game"}, r"episode: 'game' \(allowed: match, round\)"),
        ({"num_players": 11}, r"num_players: 11"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiAgentJudgement(options)


def test_a_closed_environment_refuses_a_step_and_is_open_again_after_a_reset() -> None:
    env = MultiAgentJudgement({"rules": SMALL})
    seen, _ = env.reset(seed=4)
    env.close()
    env.close()
    record = env.record()
    (agent,) = seen
    action = int(seen[agent]["action_mask"].argmax())
    with pytest.raises(RuntimeError, match=r"step: the environment is closed, call reset\(\)"):
        env.step({agent: action})
    assert env.record() == record
    seen, _ = env.reset()
    assert env.record()["match"] == record["match"] + 1
    (agent,) = seen
    env.step({agent: int(seen[agent]["action_mask"].argmax())})


def test_a_step_out_of_turn_is_refused() -> None:
    env = MultiAgentJudgement({"rules": SMALL})
    with pytest.raises(RuntimeError, match="no episode has begun"):
        env.step({"player_0": 52})
    ((agent, seen),) = env.reset(seed=1)[0].items()
    other = "player_0" if agent != "player_0" else "player_1"
    action = int(seen["action_mask"].argmax())
    for actions in ({}, {other: action}, {agent: action, other: action}):
        with pytest.raises(ValueError, match=f"allowed: of '{agent}' alone"):
            env.step(actions)
    play(env, 1, np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="the episode is over"):
        env.step({agent: action})


# --- RLlib's own runner -----------------------------------------------------------------------


# By episode: RLlib copies its settings, so a callback reaches only what belongs to a module.
RECORDS: dict[str, tuple[Any, list[int]]] = {}


def keep_record(*, episode: Any, env: Any, env_index: int, **_: Any) -> None:
    inner = env.unwrapped.envs[env_index].unwrapped
    RECORDS[episode.id_] = (inner.record(), list(inner._num_illegal.values()))


@pytest.mark.parametrize("options", GAMES.values(), ids=GAMES)
def test_rllibs_episodes_hold_every_seats_total_however_they_are_cut(
    options: dict[str, Any],
) -> None:
    """Chunks of a few steps cut many episodes while seats wait for what they are due."""
    RECORDS.clear()
    config = ppo_config(seed=1, hidden=(16,), **{"episode": "match", **options})
    config.callbacks(on_episode_end=keep_record)
    config.env_runners(num_envs_per_env_runner=3)
    runner = MultiAgentEnvRunner(config=config)
    given: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _ in range(40):
        for episode in runner.sample(num_timesteps=11):
            for agent, single in episode.agent_episodes.items():
                given[episode.id_][agent] += float(np.sum(single.get_rewards()))
    assert len(RECORDS) >= 6
    for name, (record, num_illegal) in RECORDS.items():
        assert [given[name][agent] for agent in record["players"]] == record["totals"]
        assert not any(num_illegal)
    runner.stop()


def test_thousands_of_sampled_actions_are_all_legal() -> None:
    config = ppo_config(THREE_SEATS, seed=2, hidden=(16,), episode="match", skip_forced=False)
    config.env_runners(num_envs_per_env_runner=16)
    runner = MultiAgentEnvRunner(config=config)
    decisions = 0
    # With and without exploration.
    for explore in (True, False):
        for episode in runner.sample(num_timesteps=1500, explore=explore, force_reset=True):
            for single in episode.agent_episodes.values():
                masks = single.get_observations()["action_mask"]
                taken = np.asarray(single.get_actions())
                assert masks[np.arange(len(taken)), taken].all()
                decisions += len(taken)
    assert decisions >= 2500
    runner.stop()


# --- the policy -------------------------------------------------------------------------------


def made_module(hidden: tuple[int, ...] = (16,)) -> Any:
    env = MultiAgentJudgement({"rules": SMALL})
    spec = rllib.policy_spec(hidden)
    spec.observation_space = env.observation_spaces["player_0"]
    spec.action_space = env.action_spaces["player_0"]
    return spec.build()


@pytest.mark.parametrize("method", ["forward_train", "forward_exploration", "forward_inference"])
def test_illegal_actions_have_no_chance_and_a_row_without_legal_ones_stays_finite(
    method: str,
) -> None:
    module = made_module()
    mask = np.zeros((2, NUM_ACTIONS), np.int8)
    mask[0, [3, 54]] = 1
    seen = {"observation": torch.rand(2, SIZE), "action_mask": torch.from_numpy(mask)}
    logits = getattr(module, method)({"obs": seen})["action_dist_inputs"].detach()
    chances = torch.softmax(logits, dim=1)
    assert chances[0].nonzero().flatten().tolist() == [3, 54]
    # The first policy has no preference.
    assert chances[0, 3] == 0.5
    assert torch.isfinite(logits).all() and torch.isfinite(chances).all()
    distribution = module.get_train_action_dist_cls().from_logits(logits)
    assert torch.isfinite(distribution.entropy()).all()
    assert set(seen) == {"observation", "action_mask"}


def test_a_policy_for_play_alone_has_no_critic_but_gives_values_where_it_learns() -> None:
    module = made_module()
    seen = {"observation": torch.rand(5, SIZE), "action_mask": torch.ones(5, NUM_ACTIONS)}
    assert module.compute_values({"obs": seen}).shape == (5,)
    names = module.get_state(inference_only=True)
    assert names and not any(name.startswith("critic") for name in names)


@pytest.mark.parametrize("hidden", [(), (0,), (16.0,), 16, "16"])
def test_wrong_sizes_are_refused(hidden: Any) -> None:
    with pytest.raises(ValueError, match=r"hidden: .*allowed: a list of whole numbers from 1"):
        rllib.policy_spec(hidden)


# --- training ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_ppo_learns_to_beat_random_players(trained: dict[str, Any]) -> None:
    row = one_versus_field(trained["bot"], make_bot("random", seed=5), SMALL, 4000, seed=7)
    assert row.difference >= 0.5
    assert row.difference.low > 0


@pytest.mark.slow
def test_a_checkpoint_gives_the_policy_that_was_saved(
    trained: dict[str, Any], tmp_path: Path
) -> None:
    path, bot = trained["path"], trained["bot"]
    live = rllib.RLlibBot(trained["algorithm"].get_module("shared"))
    part = load_bot(path / rllib.MODULES / "shared")
    table = Table(SMALL, seed=11)
    while not table.is_over:
        view = table.view(table.seat)
        chances = bot.policy(view)
        assert chances.sum() == pytest.approx(1)
        assert np.flatnonzero(chances).tolist() == table.legal()
        for other in (live, part, load_bot(path, "shared")):
            assert np.array_equal(other.policy(view), chances)
        assert bot.act(view) == chances.argmax()
        table.push(bot.act(view))
    assert bot.name == "rllib:shared"


@pytest.mark.slow
def test_an_algorithm_made_of_a_checkpoint_plays_as_the_bot_and_trains_on(
    trained: dict[str, Any],
) -> None:
    restored = Algorithm.from_checkpoint(str(trained["path"]))
    view = Table(SMALL, seed=12, dealer=0).view(1)
    saved = trained["bot"].policy(view)
    assert np.array_equal(rllib.RLlibBot(restored.get_module("shared")).policy(view), saved)
    restored.train()
    assert not np.array_equal(rllib.RLlibBot(restored.get_module("shared")).policy(view), saved)
    restored.stop()


@pytest.mark.slow
def test_a_league_trains_the_policies_that_are_to_learn(cluster: None) -> None:
    config = ppo_config(
        SMALL, policies=("learner", "past"), train=["learner"], hidden=(16,), seed=4
    )
    config.training(train_batch_size_per_learner=256, minibatch_size=64, num_epochs=1)
    config.env_runners(num_envs_per_env_runner=8)
    algorithm = config.build_algo()

    def weights(name: str) -> list[Any]:
        state = algorithm.learner_group.get_weights([name])[name]
        return [state[key] for key in sorted(state)]

    before = {name: weights(name) for name in ("learner", "past")}
    algorithm.train()
    assert all(map(np.array_equal, before["past"], weights("past")))
    assert not all(map(np.array_equal, before["learner"], weights("learner")))
    rllib.copy_policy(algorithm, "learner", "past")
    assert all(map(np.array_equal, weights("learner"), weights("past")))
    view = Table(SMALL, seed=1, dealer=0).view(1)
    played = [
        rllib.RLlibBot(algorithm.get_module(name)).policy(view) for name in ("learner", "past")
    ]
    assert np.array_equal(*played)
    for unknown in (("none", "past"), ("learner", "none")):
        with pytest.raises(ValueError, match=r"policy: 'none' \(allowed: learner, past\)"):
            rllib.copy_policy(algorithm, *unknown)
    algorithm.stop()


@pytest.mark.slow
def test_a_remote_runner_finds_the_registered_name_and_deals_its_own_cards(cluster: None) -> None:
    name = rllib.register_env("judgement-of-a-test")
    config = ppo_config(SMALL, hidden=(16,), seed=4).environment(name)
    config.env_runners(num_env_runners=1, num_envs_per_env_runner=2)
    config.training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
    algorithm = config.build_algo()
    result = algorithm.train()
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] >= 64
    seeds = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: [env.unwrapped.record()["seed"] for env in runner.env.unwrapped.envs],
        local_env_runner=False,
    )
    # RLlib counts up from the seed and the worker's number.
    assert seeds == [[rllib.worker_seed(4 + 1 + place, 1) for place in range(2)]]
    algorithm.stop()


def test_the_seats_of_a_league_are_dealt_out_evenly_by_the_episodes_id() -> None:
    names = ("a", "b", "c")
    seated: dict[str, list[str]] = defaultdict(list)
    for number in range(300):
        episode = type("Episode", (), {"id_": f"episode {number}"})
        for seat in range(4):
            mapped = rllib.league_seat(names, f"player_{seat}", episode)
            assert mapped == rllib.league_seat(names, f"player_{seat}", episode)
            seated[f"player_{seat}"].append(mapped)
    for members in seated.values():
        assert all(70 <= members.count(name) <= 130 for name in names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": ()}, r"policies: .*allowed: different names, one at least"),
        ({"policies": ("a", "a")}, r"policies: .*allowed: different names, one at least"),
        ({"train": ["b"]}, r"train: 'b' \(allowed: shared\)"),
        ({"reward": "tricks"}, r"reward: 'tricks' \(allowed: points, relative, win\)"),
        ({"skip": True}, r"env_config: 'skip' .*did you mean 'skip_forced'"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_starts(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ppo_config(SMALL, **arguments)


# --- bots -------------------------------------------------------------------------------------


def test_one_view_and_many_rows_get_the_same_answer(tmp_path: Path) -> None:
    module = made_module((16, 8))
    torch.nn.init.normal_(module.actor[-1].weight)
    bot = load_bot(module.save_to_path(tmp_path / "policy"))
    tables = [Table(THREE_SEATS, seed=seed) for seed in range(7)]
    draws = np.random.default_rng(1)
    while not tables[0].is_over:
        rows = new_tables(len(tables))
        for row, table in enumerate(tables):
            rows[row] = table.tables_array[0]
        together = bot.act_rows(tables[0].rules_array, rows, np.arange(len(tables)))
        for table, action in zip(tables, together, strict=True):
            assert bot.act(table.view(table.seat)) == action
            table.push(int(draws.choice(table.legal())))


def test_a_bot_that_draws_repeats_itself_by_its_seed(tmp_path: Path) -> None:
    path = made_module().save_to_path(tmp_path / "policy")
    view = Table(SMALL, seed=3, dealer=0).view(1)
    bots = [load_bot(path, greedy=False, seed=seed) for seed in (1, 1, 2)]
    first, again, other = ([bot.act(view) for _ in range(40)] for bot in bots)
    assert first == again != other
    assert set(first) == set(view.legal)


def test_what_is_no_checkpoint_of_this_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="as an algorithm's checkpoint does"):
        load_bot(tmp_path)
    module = made_module()
    module.model_config["env_version"] = ENV_VERSION + 1
    path = module.save_to_path(tmp_path / "policy")
    with pytest.raises(ValueError, match=f"env_version of the policy is {ENV_VERSION + 1}"):
        load_bot(path)
    for name in ("a", "b"):
        made_module().save_to_path(tmp_path / "league" / rllib.MODULES / name)
    with pytest.raises(ValueError, match=r"policy: None \(allowed: a, b\)"):
        load_bot(tmp_path / "league")
    with pytest.raises(ValueError, match=r"policy: 'c' \(allowed: a, b\)"):
        load_bot(tmp_path / "league", "c")
    assert load_bot(tmp_path / "league", "b").name == "rllib:b"


# --- the page ---------------------------------------------------------------------------------


def test_the_page_shows_the_example_as_it_is() -> None:
    assert EXAMPLE.read_text(encoding="utf-8").strip() in PAGE


def test_the_blocks_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    *blocks, _ = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) >= 3
    assert capsys.readouterr().out == "['player_0', 'player_1', 'player_2', 'player_3']\n"
    assert names["league"].policies_to_train == ["main", "rival"]


@pytest.mark.slow
def test_the_example_runs_and_says_what_it_learnt() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--iterations", "1", "--matches", "200"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"[+-]\d+\.\d\d points a round over random bots", done.stdout)
