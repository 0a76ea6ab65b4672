"""The Gymnasium environment and its vector form: Gymnasium's own checks, and SyncVectorEnv."""

from __future__ import annotations

import copy
import inspect
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from judgement_env import Rules, Table, judgement_v0
from judgement_env.cards import CARD_TEXTS
from judgement_env.gym_env import JudgementEnv, JudgementVectorEnv
from judgement_env.seat_batch import SeatBatch
from judgement_env.state import Array
from judgement_env.table import IllegalActionError
from tests.arena_bots import PlaceBot, ViewBot

ROOT = Path(__file__).resolve().parent.parent
ID = "judgement_env:Judgement-v0"
SMALL = Rules.preset("kachuful", num_players=3, cards=[2, 1])


def legal(mask: Array, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(mask)))


def play(env: Any, rng: np.random.Generator, seed: int | None = None) -> tuple[list[float], Any]:
    """An episode of legal actions: its rewards and its last info."""
    _, info = env.reset(seed=seed)
    rewards: list[float] = []
    terminated = False
    while not terminated:
        _, reward, terminated, truncated, info = env.step(legal(info["action_mask"], rng))
        assert truncated is False
        rewards.append(reward)
    return rewards, info


# --- Gymnasium's own checks ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rules": "oh-hell", "seat": 2, "opponents": ["random", "heuristic", "random"]},
        {"illegal_action": "end", "reward": "relative", "dtype": "uint8"},
        {"episode": "round", "reward": "win", "skip_forced": True, "opponent_pool": ["random"]},
        {"rules": {"preset": "blind-eight", "num_players": 3}, "info_record": True},
    ],
    ids=["default", "oh-hell", "end", "round", "blind"],
)
def test_the_environment_passes_gymnasiums_checks_without_a_warning(
    options: dict[str, Any],
) -> None:
    env = gymnasium.make(ID, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_legal_play_through_makes_checker_needs_no_tolerance_for_illegal_actions() -> None:
    env = gymnasium.make(ID, rules=SMALL, illegal_action="raise", opponents=["random", "heuristic"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            play(env, np.random.default_rng(1))
    _, info = env.reset(seed=1)
    assert "illegal_action" not in info
    with pytest.raises(IllegalActionError, match="table 0, seat"):
        env.step(int(np.flatnonzero(info["action_mask"] == 0)[0]))
    space = env.action_space
    assert info["action_mask"][space.sample(info["action_mask"])] == 1


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("first", ["judgement_env", "gymnasium"])
def test_it_is_registered_whichever_package_is_imported_first(first: str) -> None:
    program = (
        f"import {first}\n"
        "import importlib.util; importlib.util.find_spec('gymnasium')\n"
        "import gymnasium, judgement_env, sys\n"
        "assert ['Register' in type(f).__name__ for f in sys.meta_path].count(True) == 0\n"
        "env = gymnasium.make('judgement_env:Judgement-v0', rules='kachuful')\n"
        "many = gymnasium.make_vec('Judgement-v0', num_envs=3)\n"
        "sync = gymnasium.make_vec('Judgement-v0', num_envs=2, vectorization_mode='sync')\n"
        "print(type(env.unwrapped).__name__, type(many).__name__, type(sync).__name__)"
    )
    assert run(program).split() == ["JudgementEnv", "JudgementVectorEnv", "SyncVectorEnv"]


def test_the_package_alone_imports_neither_gymnasium_nor_numpy() -> None:
    program = (
        "import sys, judgement_env\n"
        "print([name for name in ('gymnasium', 'numpy', 'numba') if name in sys.modules])"
    )
    assert run(program).strip() == "[]"


def test_make_hands_on_every_option_and_names_a_wrong_one() -> None:
    env = gymnasium.make(ID, rules="kachuful", num_players=5, seat=4, opponents=["random"] * 4)
    _, info = env.reset(seed=1)
    assert info["seat"] == 4
    assert env.unwrapped.batch.num_players == 5
    assert env.unwrapped.spec is not None
    for options, message in (
        ({"seat": 4}, r"seat: 4 \(allowed"),
        ({"opponents": "nobody"}, "opponents: bot: 'nobody'"),
        ({"opponents": ["random"]}, r"opponents: 1 bot \("),
        ({"opponents": None}, r"opponents: None \(allowed: one bot for all other seats, or 3"),
        ({"opponents": 3}, r"opponents: 3 \(allowed: one bot for all other seats, or 3"),
        ({"opponents": "random", "opponent_pool": ["random"]}, "opponents: .* with opponent_pool"),
        ({"num_players": 11}, r"num_players: 11 \(allowed: a whole number from 2 to 10\)"),
        ({"num_players": 9}, "num_players: 9"),
        ({"num_players": "5"}, "num_players: '5'"),
    ):
        with pytest.raises(ValueError, match=message):
            gymnasium.make(ID, **options)
        with pytest.raises(ValueError, match=message):
            gymnasium.make_vec(ID, num_envs=2, **options)
    with pytest.raises(ValueError, match="render_mode: 'rgb'"):
        JudgementEnv(render_mode="rgb")
    with pytest.raises(TypeError, match="colour"):
        gymnasium.make(ID, colour="red")


# --- one table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", ["points", "relative", "win"])
@pytest.mark.parametrize("seat", range(3))
def test_the_rewards_of_an_episode_are_what_the_record_gives_the_seat(
    seat: int, reward: str
) -> None:
    env = JudgementEnv(SMALL, seat, ["random", "heuristic"], reward=reward, info_record=True)
    rng = np.random.default_rng(2)
    for episode in range(8):
        rewards, info = play(env, rng, seed=40 if episode == 0 else None)
        record = json.loads(info["record"])
        assert record == env.record() and Table.from_record(record).is_over
        assert (record["seed"], record["match"]) == (40, episode)
        totals = record["totals"]
        assert info["totals"].tolist() == totals and info["seat"] == seat
        assert not info["action_mask"].any()
        rest = (sum(totals) - totals[seat]) / 2
        share = 1 / len(record["winners"]) if seat in record["winners"] else 0
        expected = {"points": totals[seat], "relative": totals[seat] - rest, "win": share}
        assert sum(rewards) == pytest.approx(expected[reward], abs=1e-4)


def test_it_deals_and_shows_what_the_aec_environment_does() -> None:
    env = JudgementEnv(SMALL, 1)
    aec = judgement_v0.env(SMALL)
    for seed in (5, None, None):
        observation, info = env.reset(seed=seed)
        aec.reset(seed=seed)
        assert env.record()["rounds"][0]["hands"] == aec.unwrapped.record()["rounds"][0]["hands"]
        while aec.agent_selection != "player_1":
            aec.step(52 + env.view().bids[aec.unwrapped.table.seat or 0])
        seen = aec.observe("player_1")
        np.testing.assert_array_equal(observation, seen["observation"])
        np.testing.assert_array_equal(info["action_mask"], seen["action_mask"])
        np.testing.assert_array_equal(env.action_masks(), seen["action_mask"] == 1)


def test_without_a_seed_the_deals_are_drawn() -> None:
    hands = []
    for _ in range(3):
        env = JudgementEnv(SMALL)
        env.reset()
        hands.append(str(env.record()["rounds"][0]["hands"]))
    assert len(set(hands)) > 1


def test_an_illegal_action_is_noted_and_replaced_or_ends_the_episode() -> None:
    env = JudgementEnv(SMALL, 0)
    env.reset(seed=1)
    _, _, terminated, _, info = env.step(78)
    assert info["illegal_action"] == 1 and not terminated
    _, _, _, _, info = env.step(int(info["action_mask"].argmax()))
    assert info["illegal_action"] == 0
    env = JudgementEnv(SMALL, 0, illegal_action="end", illegal_reward=-3)
    env.reset(seed=1)
    _, reward, terminated, _, info = env.step(78)
    assert (reward, terminated, info["illegal_action"]) == (-3.0, True, 1)


def test_misuse_is_named() -> None:
    env = JudgementEnv(SMALL)
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step(0)
    with pytest.raises(ValueError, match="options: 'deals'"):
        env.reset(options={"deals": []})
    env.reset(seed=1, options={"unknown": 1})
    with pytest.raises(ValueError, match=r"^options: 'x' \(allowed: a dict, or None\)"):
        env.reset(options="x")
    for action, error, message in (
        (None, TypeError, r"action: None \(allowed: a whole number of any dtype\)"),
        (1.5, TypeError, "action: 1.5 "),
        ("AS", TypeError, "action: 'AS' "),
        (True, TypeError, "action: True "),
        ([1, 2], ValueError, r"action: shape \(2,\) \(allowed: a whole number, no array\)"),
        (np.array([52]), ValueError, r"action: shape \(1,\) "),
    ):
        with pytest.raises(error, match=f"^{message}"):
            env.step(action)
    env.step(np.array(52, np.uint8))
    _, info = env.reset(seed=1)
    while info.get("totals") is None:
        info = env.step(np.int32(info["action_mask"].argmax()))[4]
    with pytest.raises(RuntimeError, match="the episode is over"):
        env.step(0)
    env.reset()
    env.close()
    with pytest.raises(RuntimeError, match="step: these tables are closed"):
        env.step(0)


def test_a_copy_goes_on_with_the_same_match() -> None:
    env = JudgementEnv(SMALL, opponents="random")
    _, info = env.reset(seed=3)
    _, _, _, _, info = env.step(int(info["action_mask"].argmax()))
    twin = copy.deepcopy(env)
    while info.get("totals") is None:
        action = int(info["action_mask"].argmax())
        mine, other = env.step(action), twin.step(action)
        np.testing.assert_array_equal(mine[0], other[0])
        assert mine[1:4] == other[1:4]
        info = mine[4]
    assert env.record() == twin.record()


def words(text: str) -> set[str]:
    """The cards a view's text names, "AS" though it writes suits as symbols; not its scores."""
    text = text.split("Scores:")[0]
    for symbol, letter in zip("♣♦♥♠", "CDHS", strict=True):
        text = text.replace(symbol, letter)
    text = text.replace("10", "T")
    return {card for card in CARD_TEXTS if card in text}


@pytest.mark.parametrize("preset", ["kachuful", "blind-eight", "oh-hell"])
def test_render_never_shows_a_hidden_card(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = 0
    for mode in ("ansi", "human"):
        env = JudgementEnv(preset, num_players=4, render_mode=mode)
        rng = np.random.default_rng(0)
        _, info = env.reset(seed=9)
        while info.get("totals") is None:
            text = env.render()
            shown = words(capsys.readouterr().out if mode == "human" else text)
            assert (text is None) == (mode == "human")
            record, view = env.record(), env.view()
            entry = record["rounds"][-1]
            played = {card for trick in entry["tricks"] for card in trick["plays"]}
            hidden = {c for s, hand in enumerate(entry["hands"]) for c in hand if s != view.seat}
            if view.is_blind and view.is_bidding:
                hidden |= set(entry["hands"][view.seat])
            assert shown & (hidden - played) == set()
            texts += 1
            _, _, _, _, info = env.step(legal(info["action_mask"], rng))
        assert env.render() is None or "Won by" in env.render()
    assert texts >= 16


@pytest.mark.parametrize("kind", [JudgementEnv, JudgementVectorEnv])
def test_human_mode_shows_each_position_by_itself(
    kind: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    number = {} if kind is JudgementEnv else {"num_envs": 2}
    env = kind(**number, rules=SMALL, opponents="heuristic", render_mode="human")
    twin = kind(**number, rules=SMALL, opponents="heuristic", render_mode="ansi")
    info = [one.reset(seed=1)[1] for one in (env, twin)][0]
    for _ in range(4):
        shown = twin.render()
        text = shown if isinstance(shown, str) else "\n".join(shown)
        assert capsys.readouterr().out.split() == text.split()
        actions = info["action_mask"].argmax(axis=-1)
        info = [one.step(actions)[4] for one in (env, twin)][0]


# --- N tables -----------------------------------------------------------------------------------


def same(a: Any, b: Any, where: str = "") -> None:
    """Assert that two infos, or parts of them, are alike in keys, types and values."""
    if isinstance(a, dict):
        assert isinstance(b, dict) and a.keys() == b.keys(), (where, set(a) ^ set(b))
        for key in a:
            same(a[key], b[key], f"{where}/{key}")
        return
    assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape, (where, a, b)
    if a.dtype == object:
        for x, y in zip(a, b, strict=True):
            if isinstance(x, np.ndarray):
                same(x, y, where)
            else:
                assert x == y, where
    else:
        np.testing.assert_array_equal(a, b, err_msg=where)


VARIANTS: dict[str, dict[str, Any]] = {
    "match": {"opponents": ["random", "heuristic"], "info_record": True},
    "end": {"illegal_action": "end", "reward": "relative", "dtype": "uint8"},
    "raise": {"illegal_action": "raise", "episode": "round", "reward": "win"},
    "bots": {"opponents": ViewBot(PlaceBot("changing")), "skip_forced": True, "seat": 1},
}


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_vector_environment_does_all_that_gymnasiums_own_does(
    variant: str, mode: AutoresetMode
) -> None:
    options = VARIANTS[variant]
    mine = JudgementVectorEnv(4, SMALL, autoreset_mode=mode, **options)
    theirs = SyncVectorEnv([lambda: JudgementEnv(SMALL, **options)] * 4, autoreset_mode=mode)
    assert mine.num_envs == theirs.num_envs
    for name in ("observation_space", "action_space", "single_observation_space"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert mine.metadata == theirs.metadata
    rng = np.random.default_rng(0)
    ended = 0
    for a, b in zip(mine.reset(seed=30), theirs.reset(seed=30), strict=True):
        same(a, b)
    mask = mine.action_masks()
    for turn in range(60):
        actions = np.array([legal(row, rng) if row.any() else 0 for row in mask])
        if options.get("illegal_action") != "raise" and turn % 5 == 0:
            actions[turn % 4] = rng.integers(79)
        ours = mine.step(actions)
        for a, b in zip(ours, theirs.step(actions), strict=True):
            same(a, b, f"step {turn}")
        done = ours[2]
        ended += done.sum()
        if mode == AutoresetMode.DISABLED and done.any():
            seed = turn if turn % 2 else None
            ours_again = mine.reset(seed=seed, options={"reset_mask": done})
            for a, b in zip(
                ours_again, theirs.reset(seed=seed, options={"reset_mask": done}), strict=True
            ):
                same(a, b, f"reset {turn}")
        mask = mine.action_masks()
        if turn == 40:
            seeds = [3, None, 5, None]
            for a, b in zip(mine.reset(seed=seeds), theirs.reset(seed=seeds), strict=True):
                same(a, b, "reset of all")
            mask = mine.action_masks()
    assert ended > 20
    mine.close()


def test_every_seats_rewards_in_the_vector_environment_add_up_to_its_totals() -> None:
    mine = JudgementVectorEnv(20, SMALL, opponents="random", autoreset_mode="SameStep")
    rng = np.random.default_rng(0)
    _, infos = mine.reset(seed=1)
    sums = np.zeros(20)
    seats: set[int] = set()
    for _ in range(40):
        actions = [legal(mask, rng) for mask in infos["action_mask"]]
        _, rewards, terminations, truncations, infos = mine.step(np.array(actions))
        sums += rewards
        assert not truncations.any()
        for i in np.flatnonzero(terminations).tolist():
            final = infos["final_info"]
            assert sums[i] == final["totals"][i, final["seat"][i]]
            seats.add(int(final["seat"][i]))
            sums[i] = 0
    assert seats == {0, 1, 2}


def test_masks_of_thousands_of_steps_allow_no_illegal_action() -> None:
    mine = gymnasium.make_vec(ID, num_envs=50, rules="kachuful", illegal_action="random")
    _, infos = mine.reset(seed=1)
    mine.action_space.seed(1)
    for _ in range(60):
        masks = tuple(infos["action_mask"])
        actions = [mine.single_action_space.sample(mask if mask.any() else None) for mask in masks]
        infos = mine.step(np.array(actions))[4]
        assert not infos["illegal_action"].any()


def test_gymnasiums_statistics_of_episodes_are_those_of_the_matches() -> None:
    mine = RecordEpisodeStatistics(
        JudgementVectorEnv(3, SMALL, 0, "heuristic", autoreset_mode="SameStep")
    )
    _, infos = mine.reset(seed=1)
    while "final_info" not in infos:
        infos = mine.step(infos["action_mask"].argmax(axis=1))[4]
    np.testing.assert_array_equal(infos["episode"]["r"], infos["final_info"]["totals"][:, 0])


def test_the_vector_environments_arrays_are_its_users_unless_copy_is_false() -> None:
    for is_copied in (True, False):
        mine = JudgementVectorEnv(3, SMALL, copy=is_copied)
        first, infos = mine.reset(seed=1)
        kept = infos["action_mask"]
        second, *_, infos = mine.step(kept.argmax(axis=1))
        assert np.shares_memory(first, second) != is_copied
        assert np.shares_memory(kept, infos["action_mask"]) != is_copied


def test_the_vector_environment_renders_every_learners_view() -> None:
    mine = JudgementVectorEnv(2, SMALL, seat=1, render_mode="ansi")
    mine.reset(seed=1)
    texts = mine.render()
    assert len(texts) == 2 and all("player_1 (you)" in str(text) for text in texts)


def test_misuse_of_the_vector_environment_is_named() -> None:
    mine = JudgementVectorEnv(3, SMALL, autoreset_mode="Disabled")
    with pytest.raises(RuntimeError, match=r"step: call reset\(\) first"):
        mine.step(np.zeros(3, int))
    mine.reset(seed=1)
    with pytest.raises(ValueError, match=r"actions: shape \(2,\)"):
        mine.step(np.zeros(2, int))
    with pytest.raises(TypeError, match="reset_mask: int64"):
        mine.reset(options={"reset_mask": np.array([1, 0, 0])})
    with pytest.raises(ValueError, match="reset_mask: .*0 True"):
        mine.reset(options={"reset_mask": np.zeros(3, np.bool_)})
    with pytest.raises(ValueError, match="seed: 2 seeds"):
        mine.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="options: 'dealer'"):
        mine.reset(options={"dealer": 1})
    with pytest.raises(ValueError, match="^autoreset_mode: 'Sometimes' .allowed: SameStep, NextS"):
        JudgementVectorEnv(3, SMALL, autoreset_mode="Sometimes")
    for number in (0, "3", 2.0):
        with pytest.raises(ValueError, match=r"^num_envs: .* \(allowed: a whole number from 1\)"):
            JudgementVectorEnv(number, SMALL)
    for seed in ("ab", 1.5, -1):
        with pytest.raises(ValueError, match=f"^seed: {seed!r} .allowed: a whole number"):
            mine.reset(seed=seed)
    mine.close()
    with pytest.raises(RuntimeError, match="closed"):
        mine.step(np.zeros(3, int))


def test_opponents_may_be_changed_between_episodes() -> None:
    bot = ViewBot(PlaceBot("lowest"))
    for env in (JudgementEnv(SMALL), JudgementVectorEnv(2, SMALL)):
        env.reset(seed=1)
        env.set_opponent_pool([bot], [1])
        assert len(env.batch.opponents) == 2
        env.reset()
        env.set_opponents(bot)
        assert env.batch.opponents == (bot,)


# --- the docs page ------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "gymnasium.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_page_runs_and_prints(number: int) -> None:
    assert len(EXAMPLES) >= 2
    assert run(EXAMPLES[number]).strip()


def test_the_page_names_every_option_of_its_table_as_the_code_does() -> None:
    section = PAGE.split("## Options")[1].split("##")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.M))))
    assert len(named) >= 10
    assert named <= set(inspect.signature(SeatBatch).parameters)


@pytest.mark.slow
def test_the_example_learns_to_play_better_than_chance() -> None:
    path = ROOT / "docs" / "examples" / "gymnasium_example.py"
    done = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.search(r"([+-][\d.]+) \(95 % interval \+/- ([\d.]+)\)", done.stdout)
    assert found is not None, done.stdout
    difference, error = map(float, found.groups())
    assert difference - error > 0.5
