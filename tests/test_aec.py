"""The PettingZoo environment: its contract, the loop, rewards, reset and its options."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pettingzoo
import pytest
from pettingzoo.test import api_test, render_test, seed_test

from judgement_env import PRESETS, Rules, Table, judgement_v0
from judgement_env.observation import SLICES
from tests.aec import BID, CASES, random_action, seen, steps_to_end


@pytest.fixture(autouse=True)
def _no_contract_warnings() -> Iterator[None]:
    """PettingZoo's tests warn of masks in dicts and of masks that are all zero, on purpose here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        for text in (
            "Observation is not a NumPy array",
            "Observation space for each agent probably should be",
            "Action mask numpy array is all zeros",
            "Action space for each agent",
        ):
            warnings.filterwarnings("ignore", message=text)
        yield


# --- PettingZoo's own checks ------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_api_test_passes(case: str) -> None:
    api_test(judgement_v0.env(**CASES[case]), num_cycles=300)
    api_test(judgement_v0.raw_env(**CASES[case]), num_cycles=300)


@pytest.mark.parametrize("case", CASES)
def test_seed_test_passes(case: str) -> None:
    seed_test(lambda: judgement_v0.env(**CASES[case]), num_cycles=300)


@pytest.mark.parametrize("case", CASES)
def test_render_test_passes(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    render_test(lambda render_mode: judgement_v0.env(**CASES[case], render_mode=render_mode))
    assert capsys.readouterr().out


@pytest.mark.parametrize("case", CASES)
def test_everything_shown_lies_in_its_space(case: str) -> None:
    env = judgement_v0.env(**CASES[case])
    rng = np.random.default_rng(5)
    for seed in range(3):
        env.reset(seed=seed)
        for _ in steps_to_end(env, rng):
            assert env.state_space.contains(env.state())
            for agent in env.possible_agents:
                assert env.observation_space(agent).contains(env.observe(agent))


def test_spaces_are_the_same_objects_each_time_and_known_before_reset() -> None:
    env = judgement_v0.env("kachuful", num_players=3)
    assert env.possible_agents == ["player_0", "player_1", "player_2"]
    for agent in env.possible_agents:
        assert env.observation_space(agent) is env.observation_space(agent)
        assert env.action_space(agent) is env.action_space(agent)
        assert env.action_space(agent).n == 79
        assert list(env.observation_space(agent).spaces) == ["action_mask", "observation"] or list(
            env.observation_space(agent).spaces
        ) == ["observation", "action_mask"]
    assert len({id(env.action_space(agent)) for agent in env.possible_agents}) == 3


def test_metadata_name_and_modes() -> None:
    env = judgement_v0.env()
    assert str(env) == "judgement_v0"
    assert env.metadata["name"] == "judgement_v0"
    assert env.metadata["is_parallelizable"] is False
    assert env.metadata["render_modes"] == ["human", "ansi"]
    assert env.metadata["render_fps"] > 0


@pytest.mark.skipif(not hasattr(pettingzoo, "make"), reason="this PettingZoo has no registry")
def test_pettingzoo_makes_the_environment_by_its_id() -> None:
    env = pettingzoo.make("aec", "judgement/judgement-v0", rules="kachuful", num_players=5)
    assert len(env.possible_agents) == 5
    assert str(env.unwrapped) == "judgement_v0"


# --- the loop ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_usual_loop_gives_each_agent_the_sum_of_its_rewards(case: str) -> None:
    env = judgement_v0.env(**CASES[case])
    rng = np.random.default_rng(1)
    env.reset(seed=4)
    received = dict.fromkeys(env.possible_agents, 0.0)
    given = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        received[agent] += reward
        assert not truncated
        if terminated:
            assert not info["action_mask"].any() and not observation["action_mask"].any()
            env.step(None)
            continue
        assert np.array_equal(observation["action_mask"], info["action_mask"])
        env.step(rng.choice(np.flatnonzero(info["action_mask"])))
        for name, value in env.rewards.items():
            assert type(value) is float
            given[name] += value
    assert env.agents == []
    assert received == given
    totals = env.unwrapped.record()["totals"]
    if env.unwrapped.reward == "points":
        assert list(given.values()) == totals
    elif env.unwrapped.reward == "relative":
        expected = [own - (sum(totals) - own) / (len(totals) - 1) for own in totals]
        assert list(given.values()) == pytest.approx(expected, abs=1e-9)
        assert sum(given.values()) == pytest.approx(0, abs=1e-9)
    else:
        winners = env.unwrapped.record()["winners"]
        assert list(given.values()) == [
            1 / len(winners) if seat in winners else 0 for seat in range(len(totals))
        ]


@pytest.mark.parametrize("name", PRESETS)
def test_points_go_to_every_seat_when_the_round_is_settled_and_at_no_other_time(name: str) -> None:
    env = judgement_v0.raw_env(name)
    env.reset(seed=2)
    rng = np.random.default_rng(0)
    settled = 0
    for _ in steps_to_end(env, rng):
        rounds = [entry for entry in env.record()["rounds"] if entry["points"] is not None]
        if len(rounds) > settled:
            settled += 1
            assert list(env.rewards.values()) == rounds[-1]["points"]
        else:
            assert not any(env.rewards.values())
    assert settled == len(env.rules.schedule)


def test_a_match_is_dealt_and_scored_as_at_a_table() -> None:
    env = judgement_v0.raw_env("up-and-down", num_players=5)
    env.reset(seed=9)
    table = Table(Rules.preset("up-and-down", num_players=5), seed=9)
    rng = np.random.default_rng(0)
    while not table.is_over:
        assert env.agent_selection == f"player_{table.seat}"
        for seat in range(5):
            observation = env.observe(f"player_{seat}")
            assert np.array_equal(observation["observation"], table.view(seat).observation())
            legal = table.legal() if seat == table.seat else []
            assert np.flatnonzero(observation["action_mask"]).tolist() == legal
        action = random_action(env, rng)
        env.step(action)
        table.push(action)
    assert env.record() == table.record()


def test_masks_are_in_the_infos_of_every_live_agent() -> None:
    env = judgement_v0.raw_env("kachuful")
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in steps_to_end(env, rng):
        assert list(env.infos) == env.possible_agents
        for agent, info in env.infos.items():
            mask = info["action_mask"]
            assert mask.dtype == np.int8 and mask.shape == (79,)
            assert np.array_equal(mask, env.observe(agent)["action_mask"])
            is_to_act = agent == env.agent_selection and not env.terminations[agent]
            assert mask.any() == is_to_act


def test_arrays_once_given_never_change() -> None:
    env = judgement_v0.raw_env("kachuful")
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    given: list[Any] = []
    copies: list[Any] = []

    def keep() -> None:
        arrays = [env.state(), *env.observe(env.agent_selection).values()]
        arrays += [info["action_mask"] for info in env.infos.values()]
        given.extend(arrays)
        copies.extend(array.copy() for array in arrays)

    keep()
    for _ in steps_to_end(env, rng):
        keep()
    env.reset()
    keep()
    for array, kept in zip(given, copies, strict=True):
        assert np.array_equal(array, kept)


def test_writing_into_what_was_given_changes_nothing() -> None:
    env, twin = judgement_v0.raw_env("kachuful"), judgement_v0.raw_env("kachuful")
    env.reset(seed=1)
    twin.reset(seed=1)
    for _ in range(30):
        for agent in env.agents:
            env.observe(agent)["action_mask"][:] = 7
            env.observe(agent)["observation"][:] = 7
        env.state()[:] = 7
        assert seen(env) == seen(twin)
        action = int(np.flatnonzero(twin.observe(twin.agent_selection)["action_mask"])[-1])
        env.step(action)
        twin.step(action)


@pytest.mark.parametrize("case", CASES)
def test_observing_any_seat_at_any_time_changes_nothing(case: str) -> None:
    watched, twin = (judgement_v0.raw_env(**CASES[case]) for _ in range(2))
    watched.reset(seed=3)
    twin.reset(seed=3)
    rng = np.random.default_rng(3)
    for _ in steps_to_end(twin, rng):
        action = twin.table.actions[-1]
        for agent in watched.possible_agents:
            watched.observe(agent)
        watched.state()
        watched.record()
        watched.step(action)
    assert seen(watched) == seen(twin)
    while watched.agents:
        watched.step(None)
        for agent in watched.possible_agents:
            assert not watched.observe(agent)["action_mask"].any()
    assert watched.record() == twin.record()
    assert watched.state().tobytes() == twin.state().tobytes()


def test_integers_of_every_kind_are_taken_as_actions() -> None:
    results = []
    for kind in (int, np.int64, np.int32, np.uint8, lambda n: np.array(n), np.int8):
        env = judgement_v0.env("kachuful")
        env.reset(seed=1)
        env.step(kind(BID + 1))
        results.append(seen(env))
    assert all(result == results[0] for result in results)


# --- reset ------------------------------------------------------------------------------------


def test_the_same_seed_deals_the_same_and_reset_without_one_goes_on() -> None:
    env = judgement_v0.env("kachuful")
    records = []
    for seed in (5, None, None, 5, None):
        env.reset(seed=seed)
        records.append(env.unwrapped.record())
    assert [(record["seed"], record["match"]) for record in records] == [
        (5, 0),
        (5, 1),
        (5, 2),
        (5, 0),
        (5, 1),
    ]
    assert records[0] == records[3] and records[1] == records[4]
    assert len({str(record["rounds"]) for record in records}) == 3
    again = Table("kachuful", seed=5, match=2)
    assert records[2] == again.record()


def test_an_environment_never_seeded_draws_its_seed() -> None:
    envs = [judgement_v0.raw_env() for _ in range(2)]
    for env in envs:
        env.reset()
    seeds = [env.record()["seed"] for env in envs]
    assert seeds[0] != seeds[1]
    repeat = judgement_v0.raw_env()
    repeat.reset(seed=seeds[0])
    assert repeat.record() == envs[0].record()


def test_dealer_deals_and_turn_ups_are_taken_from_the_options() -> None:
    rules = Rules.preset("oh-hell", num_players=3, top=2)
    env = judgement_v0.raw_env(rules)
    deals = [[["AS", "KS"], [0, 1], ["2H", "3H"]]]
    options = {"dealer": np.int64(2), "deals": deals, "turn_ups": ["9D"], "something else": 1}
    env.reset(seed=1, options=options)
    entry = env.record()["rounds"][0]
    assert entry["dealer"] == 2
    assert env.agent_selection == "player_0"
    assert entry["hands"] == [["KS", "AS"], ["2C", "3C"], ["2H", "3H"]]
    assert (entry["turn_up"], entry["trump"]) == ("9D", "D")
    hand = env.observe("player_1")["observation"][SLICES["hand"]]
    assert np.flatnonzero(hand).tolist() == [0, 1]
    env.reset(seed=1, options={"deals": None})
    assert env.record() == Table(rules, seed=1).record()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dealer": 4}, "dealer: 4 (allowed: a whole number from 0 to 3)"),
        ({"deals": [[["AS"]] * 4]}, "deals: round 1, seat 0: 1 cards (allowed: 7"),
        ({"turn_ups": ["AS"]}, "turn_ups: round 1: AS (allowed: null"),
        ({"round": 2}, "round: 2 (allowed: in episodes of one round only)"),
    ],
)
def test_a_wrong_option_is_named_and_leaves_the_episode_as_it_was(
    options: dict[str, Any], message: str
) -> None:
    env = judgement_v0.raw_env("kachuful")
    env.reset(seed=1)
    env.step(BID)
    before = seen(env)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        env.reset(seed=2, options=options)
    assert seen(env) == before
    env.reset()
    assert (env.record()["seed"], env.record()["match"]) == (1, 1)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "x"])
@pytest.mark.parametrize("episode", ["match", "round"])
def test_a_seed_out_of_range_is_named(seed: Any, episode: str) -> None:
    with pytest.raises(ValueError, match="^seed: "):
        judgement_v0.env(episode=episode).reset(seed=seed)


@pytest.mark.parametrize("name", PRESETS)
def test_a_round_episode_is_the_round_asked_for_and_its_record_stands_alone(name: str) -> None:
    env = judgement_v0.raw_env(name, episode="round")
    rng = np.random.default_rng(0)
    for number, plan in enumerate(env.rules.schedule, 1):
        env.reset(seed=number, options={"round": number})
        for _ in steps_to_end(env, rng):
            pass
        record = env.record()
        (entry,) = record["rounds"]
        assert (entry["cards"], entry["blind"]) == (plan.cards, plan.is_blind)
        if name != "oh-hell":
            assert entry["trump"] == (None if plan.trump == 4 else "CDHS"[plan.trump])
        assert Table.from_record(record).record() == record
        assert entry["points"] == record["totals"]


def test_round_episodes_draw_every_round_and_every_dealer() -> None:
    env = judgement_v0.raw_env("up-and-down", episode="round")
    env.reset(seed=0)
    drawn = set()
    for _ in range(300):
        (entry,) = env.record()["rounds"]
        drawn.add((entry["cards"], entry["trump"], entry["dealer"]))
        env.reset()
    plans = {
        (plan.cards, None if plan.trump == 4 else "CDHS"[plan.trump]) for plan in env.rules.schedule
    }
    assert {(cards, trump) for cards, trump, _ in drawn} == plans
    assert {dealer for _, _, dealer in drawn} == {0, 1, 2, 3}


def test_round_episodes_deal_as_row_zero_of_a_batch() -> None:
    from judgement_env import BatchEnv

    env = judgement_v0.raw_env("up-and-down", episode="round")
    batch = BatchEnv("up-and-down", num_tables=3, seed=6, episode="round")
    env.reset(seed=6)
    batch.reset()
    rng = np.random.default_rng(0)
    for _ in range(20):
        while True:
            observation = env.observe(env.agent_selection)
            assert np.array_equal(observation["observation"], batch.observation[0])
            assert np.array_equal(observation["action_mask"], batch.action_mask[0])
            actions = batch.action_mask.argmax(axis=1)
            actions[0] = random_action(env, rng)
            env.step(actions[0])
            batch.step(actions)
            assert list(env.rewards.values()) == batch.reward[0].tolist()
            if batch.done[0]:
                assert all(env.terminations.values())
                break
        env.reset()


@pytest.mark.parametrize("number", [0, 8, -1, 1.0, "1"])
def test_a_round_that_is_not_in_the_schedule_is_refused(number: Any) -> None:
    env = judgement_v0.raw_env("kachuful", episode="round")
    with pytest.raises(ValueError, match=re.escape("(allowed: a whole number from 1 to 7)")):
        env.reset(seed=1, options={"round": number})


# --- the constructor --------------------------------------------------------------------------


def test_rules_may_be_a_name_rules_a_dict_or_a_file(tmp_path: Any) -> None:
    path = tmp_path / "house.yaml"
    path.write_text("preset: kachuful\nnum_players: 5\nhook: false\n", encoding="utf-8")
    rules = Rules.preset("kachuful", num_players=5, hook=False)
    for given in (rules, rules.to_dict(), str(path), path):
        env = judgement_v0.raw_env(given)
        assert env.rules == rules
        assert env.possible_agents == [f"player_{seat}" for seat in range(5)]
        with pytest.raises(ValueError, match="num_players"):
            judgement_v0.raw_env(given, num_players=4)
    assert len(judgement_v0.env("kachuful").possible_agents) == 4
    assert len(judgement_v0.env("kachuful", num_players=8).possible_agents) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "score"}, "reward: 'score' (allowed: points, relative, win)"),
        ({"episode": "game"}, "episode: 'game' (allowed: match, round)"),
        ({"illegal_action": None}, "illegal_action: None (allowed: raise, random, end)"),
        ({"render_mode": "rgb_array"}, "render_mode: 'rgb_array' (allowed: human, ansi)"),
        ({"rules": "kachufool"}, "rules: 'kachufool'"),
        ({"illegal_reward": "low"}, "illegal_reward: 'low' (allowed: a finite number)"),
        ({"illegal_reward": float("inf")}, "illegal_reward: inf (allowed: a finite number)"),
    ],
)
def test_an_argument_out_of_range_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        judgement_v0.env(**arguments)


@pytest.mark.parametrize("agent", ["player_4", 0, None, ["player_0"]])
def test_an_agent_that_does_not_sit_there_is_named(agent: Any) -> None:
    env = judgement_v0.raw_env("kachuful", render_mode="ansi")
    env.reset(seed=1)
    seats = r"\(allowed: player_0, player_1, player_2, player_3\)"
    calls = [env.observe, env.observation_space, env.action_space, judgement_v0.env().action_space]
    # Without an agent, render shows the view of the one to act.
    for call in calls if agent is None else [*calls, env.render]:
        with pytest.raises(ValueError, match=f"^agent: {re.escape(repr(agent))} {seats}$"):
            call(agent)


def test_options_that_are_no_dict_are_named() -> None:
    with pytest.raises(ValueError, match=r"^options: 3 \(allowed: a dict, or None\)"):
        judgement_v0.env().reset(options=3)
