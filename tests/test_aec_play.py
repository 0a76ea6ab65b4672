"""The PettingZoo environment: illegal actions, order of calls, state, rendering, copies."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from pettingzoo.utils import wrappers

from judgement_env import Rules, judgement_v0
from judgement_env.judgement_v0 import STATE_BLOCKS, STATE_SIZE
from judgement_env.observation import SIZE, as_float
from judgement_env.table import IllegalActionError
from tests.aec import BID, CASES, random_action, seen, steps_to_end

# --- illegal actions --------------------------------------------------------------------------

BAD = [-1, 0, 78, 79, 10**30, np.int64(-5)]


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("bad", [*BAD, None, 52.0, "AS", "bid 1", True, np.array([52]), np.nan])
def test_an_illegal_action_raises_and_changes_nothing(bad: Any, wrapped: bool) -> None:
    env = judgement_v0.env() if wrapped else judgement_v0.raw_env()
    env.reset(seed=1)
    env.step(BID + 2)
    before = seen(env)
    with pytest.raises(IllegalActionError) as caught:
        env.step(bad)
    assert isinstance(caught.value, ValueError)
    text = str(caught.value)
    seat = env.agent_selection.removeprefix("player_")
    assert text.startswith((f"seat {seat} may not ", f"seat {seat} cannot do that: action: "))
    assert "legal: bid 0, bid 1, bid 2" in text
    assert seen(env) == before
    env.step(BID)


def test_an_illegal_play_names_the_card_and_the_rule() -> None:
    rules = Rules.preset("kachuful", num_players=3, cards=[2], trumps=["S"])
    env = judgement_v0.env(rules)
    env.reset(options={"dealer": 2, "deals": [[["AH", "2C"], ["KH", "AS"], ["3H", "3C"]]]})
    for bid in (1, 1, 1):
        env.step(BID + bid)
    env.step(38)
    with pytest.raises(IllegalActionError, match=r"seat 1 may not play AS.*legal: KH"):
        env.step(51)
    env.step(37)


def test_an_illegal_action_may_be_replaced_by_a_legal_one_that_the_seed_decides() -> None:
    def played(seed: int) -> tuple[list[int], Any]:
        env = judgement_v0.env("kachuful", illegal_action="random")
        env.reset(seed=seed)
        for agent in env.agent_iter():
            _, _, terminated, _, info = env.last()
            if terminated:
                env.step(None)
                continue
            assert info["illegal_action"] == (len(env.unwrapped.table.actions) >= 4)
            legal = set(env.unwrapped.table.legal())
            env.step(78)
            assert env.infos[agent]["illegal_action"] == 1
            assert env.unwrapped.table.actions[-1] in legal
        return list(env.unwrapped.table.actions), env.unwrapped.record()

    first, other, again = played(1), played(2), played(1)
    assert first == again
    assert first[0] != other[0]
    assert len(set(first[0][:4])) > 1


def test_the_offence_is_forgotten_after_a_legal_action() -> None:
    env = judgement_v0.raw_env("kachuful", illegal_action="random")
    env.reset(seed=1, options={"dealer": 3})
    assert all(info["illegal_action"] == 0 for info in env.infos.values())
    env.step(0)
    assert [info["illegal_action"] for info in env.infos.values()] == [1, 0, 0, 0]
    rng = np.random.default_rng(0)
    for _ in range(3):
        env.step(random_action(env, rng))
        assert env.infos["player_0"]["illegal_action"] == 1
    while env.agent_selection != "player_0":
        env.step(random_action(env, rng))
    env.step(random_action(env, rng))
    assert all(info["illegal_action"] == 0 for info in env.infos.values())


@pytest.mark.parametrize("mode", ["random", "end"])
@pytest.mark.parametrize("bad", [None, 52.0, "AS", np.array([52])])
def test_what_is_no_integer_raises_in_every_mode(mode: str, bad: Any) -> None:
    env = judgement_v0.raw_env(illegal_action=mode)
    env.reset(seed=1)
    before = seen(env)
    with pytest.raises(IllegalActionError):
        env.step(bad)
    assert seen(env) == before


@pytest.mark.parametrize("bad", BAD)
def test_an_illegal_action_may_end_the_episode_for_all(bad: Any) -> None:
    env = judgement_v0.env("kachuful", illegal_action="end")
    env.reset(seed=1, options={"dealer": 3})
    env.step(BID + 1)
    env.step(bad)
    assert env.terminations == dict.fromkeys(env.possible_agents, True)
    assert env.rewards == {"player_0": 0, "player_1": -10, "player_2": 0, "player_3": 0}
    received = {}
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        assert terminated and not truncated
        assert not observation["action_mask"].any() and not info["action_mask"].any()
        assert info["illegal_action"] == (agent == "player_1")
        received[agent] = reward
        env.step(None)
    assert received == {"player_0": 0, "player_1": -10, "player_2": 0, "player_3": 0}
    record = env.unwrapped.record()
    assert record["winners"] == [] and record["rounds"][0]["bids"] == [1, None, None, None]
    assert not env.state()[-10:].any()
    env.reset()
    assert env.agents == env.possible_agents
    assert not any(env.terminations.values())
    other = judgement_v0.env("kachuful", illegal_action="end", illegal_reward=-2.5)
    other.reset(seed=1)
    offender = other.agent_selection
    other.step(bad)
    assert other.rewards[offender] == -2.5


def test_points_given_before_the_episode_is_ended_are_still_received() -> None:
    env = judgement_v0.raw_env("kachuful", illegal_action="end", illegal_reward=-100)
    env.reset(seed=3)
    rng = np.random.default_rng(0)
    while len(env.record()["rounds"]) == 1:
        env.step(random_action(env, rng))
    points = env.record()["rounds"][0]["points"]
    offender = env.agent_selection
    env.step(0)
    expected = [
        float(own) if f"player_{seat}" != offender else -100 for seat, own in enumerate(points)
    ]
    assert list(env._cumulative_rewards.values()) == expected


# --- order of calls ---------------------------------------------------------------------------


def test_calls_before_reset_and_after_the_end_are_refused() -> None:
    env = judgement_v0.raw_env("kachuful", render_mode="ansi")
    for call in (
        lambda: env.step(BID),
        lambda: env.observe("player_0"),
        env.state,
        env.record,
        env.render,
    ):
        with pytest.raises(RuntimeError, match=r"call reset\(\)"):
            call()
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in steps_to_end(env, rng):
        pass
    with pytest.raises(ValueError, match="the only valid action is None"):
        env.step(BID)
    while env.agents:
        env.step(None)
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.step(None)
    env.reset()
    assert env.agent_selection in env.agents
    env.step(BID)


def test_env_enforces_the_order_of_calls() -> None:
    env = judgement_v0.env()
    assert isinstance(env, wrappers.OrderEnforcingWrapper)
    assert type(env.unwrapped) is judgement_v0.raw_env and env.env is env.unwrapped
    with pytest.raises(AttributeError, match="cannot be accessed before reset"):
        _ = env.agent_selection


# --- the state --------------------------------------------------------------------------------


def state_parts(env: Any) -> dict[str, Any]:
    state, parts, start = env.state(), {}, 0
    for block in STATE_BLOCKS:
        part = state[start : start + block.size].reshape(block.shape)
        parts[block.name] = part * block.scale if block.name != "public" else part
        start += block.size
    assert start == STATE_SIZE == len(state)
    return parts


def test_state_holds_all_hands_of_a_blind_round_and_every_hidden_bid() -> None:
    rules = Rules.preset(
        "blind-eight",
        cards=[1],
        blind_rounds=[1],
        bidding="simultaneous",
        num_players=3,
        direction="anticlockwise",
    )
    env = judgement_v0.env(rules)
    env.reset(seed=1, options={"dealer": 0, "deals": [[["AS"], ["2C"], ["3D"]]]})
    env.step(BID + 1)
    parts = state_parts(env)
    # Seats in order of play, which runs from 0 to 2 to 1.
    assert [np.flatnonzero(hand).tolist() for hand in parts["hands"][:3]] == [[51], [14], [0]]
    assert not parts["hands"][3:].any()
    assert np.rint(parts["bids"]).tolist() == [0, 2] + [0] * 8
    assert parts["to_act"].tolist() == [0, 0, 1] + [0] * 7
    assert np.array_equal(parts["public"], env.observe("player_0")["observation"])
    assert len(parts["public"]) == SIZE


def test_state_tells_two_positions_apart_that_differ_in_one_hidden_card() -> None:
    env = judgement_v0.env(Rules.preset("kachuful", num_players=3, cards=[1]))
    states = []
    for card in ("3D", "4D"):
        env.reset(seed=1, options={"dealer": 0, "deals": [[["AS"], ["2C"], [card]]]})
        states.append(env.state())
    assert (states[0] != states[1]).sum() == 2


# --- rendering --------------------------------------------------------------------------------


def test_render_shows_the_acting_seat_or_another_and_no_hidden_card(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rules = Rules.preset("kachuful", num_players=3, cards=[2], trumps=["S"])
    deals = [[["AC", "KC"], ["AD", "KD"], ["AH", "KH"]]]
    texts = {}
    for mode in ("ansi", "human"):
        env = judgement_v0.raw_env(rules, render_mode=mode)
        env.reset(seed=1, options={"dealer": 2, "deals": deals})
        texts[mode] = env.render()
        texts[mode + " 1"] = env.render("player_1")
    assert texts["human"] is None
    # The reset has shown the acting seat's view by itself.
    printed = "\n".join([texts["ansi"], texts["ansi"], texts["ansi 1"]])
    assert capsys.readouterr().out.strip() == printed.strip()
    for key, own in (("ansi", "♣"), ("ansi 1", "♦")):
        shown = re.findall(r"[AK](?:[♣♦♥]|[CDH]\b)", texts[key])
        assert {card[1] for card in shown} <= {own, "CDH♣♦♥"["♣♦♥".index(own)]}
        assert len(set(shown)) >= 2


@pytest.mark.parametrize("illegal_action", ["raise", "end"])
def test_human_mode_shows_each_position_by_itself(
    illegal_action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    env = judgement_v0.raw_env("kachuful", render_mode="human", illegal_action=illegal_action)
    twin = judgement_v0.raw_env("kachuful", render_mode="ansi", illegal_action=illegal_action)
    for one in (env, twin):
        one.reset(seed=1)
    assert capsys.readouterr().out.strip() == str(twin.render()).strip()
    for action in (53, 52) if illegal_action == "raise" else (53, 3):
        for one in (env, twin):
            one.step(action)
        assert capsys.readouterr().out.strip() == str(twin.render()).strip()


def test_render_without_a_mode_warns_and_shows_nothing() -> None:
    env = judgement_v0.raw_env()
    env.reset(seed=1)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


# --- copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_copy_in_mid_round_goes_on_with_the_same_match(case: str, wrapped: bool) -> None:
    make = judgement_v0.env if wrapped else judgement_v0.raw_env
    env = make(**CASES[case])
    rng = np.random.default_rng(7)
    env.reset(seed=7)
    env.reset()
    for _ in range(len(env.possible_agents) + 2):
        if not any(env.terminations.values()):
            env.step(random_action(env, rng))
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    before = seen(env)
    start = len(env.unwrapped.table.actions)
    for _ in steps_to_end(env, rng):
        pass
    rest = list(env.unwrapped.table.actions[start:])
    after = seen(env)
    env.reset()
    next_match = seen(env)
    for twin in twins:
        assert seen(twin) == before
        for action in rest:
            twin.step(action)
        assert seen(twin) == after
        twin.reset()
        assert seen(twin) == next_match


def test_a_copy_before_reset_and_in_another_process_works() -> None:
    env = copy.deepcopy(judgement_v0.env("kachuful"))
    env.reset(seed=1)
    env.step(BID + 1)
    program = (
        "import pickle, sys\n"
        "env = pickle.load(sys.stdin.buffer)\n"
        "env.step(53)\n"
        "print(env.unwrapped.record()['rounds'][0]['bids'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(env), capture_output=True, check=True
    )
    env.step(53)
    assert done.stdout.decode().strip() == str(env.unwrapped.record()["rounds"][0]["bids"])


# --- with PettingZoo's wrappers ---------------------------------------------------------------


@pytest.mark.parametrize("case", ["kachuful", "blind-eight", "rounds"])
def test_random_play_through_pettingzoos_wrappers(case: str) -> None:
    env = wrappers.AssertOutOfBoundsWrapper(judgement_v0.raw_env(**CASES[case]))
    env = wrappers.OrderEnforcingWrapper(wrappers.TerminateIllegalWrapper(env, illegal_reward=-1))
    for seed in range(3):
        env.reset(seed=seed)
        for agent in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            is_over = terminated or truncated
            mask = observation["action_mask"]
            env.step(None if is_over else env.action_space(agent).sample(mask))
        record = env.unwrapped.record()
        assert record["winners"]
    env.reset(seed=1)
    env.step(0)
    assert all(env.terminations.values())


def test_unmasked_sampling_is_survived_by_the_tolerant_modes() -> None:
    from pettingzoo.utils import average_total_reward
    from pettingzoo.utils.conversions import turn_based_aec_to_parallel

    average_total_reward(judgement_v0.env(illegal_action="random"), max_episodes=2, max_steps=300)
    parallel = turn_based_aec_to_parallel(
        wrappers.BaseWrapper(judgement_v0.raw_env(illegal_action="random"))
    )
    parallel.reset(seed=1)
    for _ in range(20):
        parallel.step({agent: parallel.action_space(agent).sample() for agent in parallel.agents})


def test_raw_observations_are_those_of_the_table() -> None:
    env = judgement_v0.raw_env("oh-hell")
    env.reset(seed=5)
    raw = env.table.observe(2)
    assert np.array_equal(as_float(raw), env.observe("player_2")["observation"])
