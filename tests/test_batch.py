"""BatchEnv: the matches of a Table, whatever the number of rows, and arrays as documented."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

from judgement_env import PRESETS, BatchEnv, Rules, Table
from judgement_env.batch import round_chances
from judgement_env.batch_play import draw_round
from judgement_env.cards import NUM_ACTIONS
from judgement_env.engine import stream, table_key
from judgement_env.observation import ORACLE_SIZE, SIZE, as_float
from judgement_env.state import OVER
from judgement_env.table import IllegalActionError

SHOWN = ("observation", "action_mask", "seat", "reward", "done")


def random_actions(batch: BatchEnv, rng: np.random.Generator) -> Any:
    """One legal action a table, each alike likely."""
    return (rng.random(batch.action_mask.shape) * batch.action_mask).argmax(axis=1)


def pick(mask: Any, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(mask)))


def position(batch: BatchEnv) -> dict[str, Any]:
    """The tables field by field; the records themselves have padding that holds anything."""
    return {field: batch.tables[field].copy() for field in batch.tables.dtype.names or ()}


def shown(batch: BatchEnv) -> dict[str, Any]:
    return {name: getattr(batch, name).copy() for name in SHOWN} | position(batch)


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("num_tables", [1, 7, 64])
def test_row_zero_deals_and_scores_as_a_table_of_that_seed(name: str, num_tables: int) -> None:
    rules = Rules.preset(name)
    batch = BatchEnv(rules, num_tables=num_tables, seed=11)
    batch.reset()
    table = Table(rules, seed=11)
    rng = np.random.default_rng(num_tables)
    totals = np.zeros(rules.num_players)
    while not table.is_over:
        seat = table.seat
        assert batch.seat[0] == seat
        assert np.flatnonzero(batch.action_mask[0]).tolist() == list(table.legal())
        assert np.array_equal(batch.observation[0], table.view(seat).observation())
        actions = random_actions(batch, rng)
        table.push(int(actions[0]))
        batch.step(actions)
        totals += batch.reward[0]
        assert batch.done[0] == table.is_over
    assert totals.tolist() == table.record()["totals"]
    assert batch.tables["match"][0] == 1


@pytest.mark.parametrize("name", PRESETS)
def test_a_row_does_not_depend_on_the_number_of_rows(name: str) -> None:
    batches = [BatchEnv(name, num_tables=n, seed=3) for n in (1, 7, 64)]
    for batch in batches:
        batch.reset()
    for step in range(120):
        actions = np.array(
            [
                pick(mask, np.random.default_rng([step, i]))
                for i, mask in enumerate(batches[2].action_mask)
            ]
        )
        for batch in batches:
            batch.step(actions[: batch.num_tables])
        for batch in batches[:2]:
            n = batch.num_tables
            for field in SHOWN:
                assert np.array_equal(getattr(batch, field), getattr(batches[2], field)[:n]), field


@pytest.mark.parametrize("name", ["kachuful", "blind-eight", "oh-hell"])
def test_a_finished_match_is_followed_by_the_next_one_of_the_same_table(name: str) -> None:
    batch = BatchEnv(name, num_tables=5, seed=2)
    batch.reset()
    rng = np.random.default_rng(0)
    matches = np.zeros(5, int)
    deals = {tuple(batch.tables["dealt"][i].ravel().tolist()) for i in range(5)}
    for _ in range(300):
        batch.step(random_actions(batch, rng))
        matches += batch.done
        assert batch.tables["match"].tolist() == matches.tolist()
        assert (batch.tables["phase"] != OVER).all()
        assert batch.action_mask.any(axis=1).all()
        for i in np.flatnonzero(batch.done):
            assert batch.tables["round"][i] == 0
            assert not batch.tables["total"][i].any()
            deals.add(tuple(batch.tables["dealt"][i].ravel().tolist()))
    assert matches.min() > 0
    assert len(deals) == 5 + matches.sum()


def test_arrays_have_the_documented_shapes_and_dtypes() -> None:
    for dtype in ("float32", "uint8"):
        rules = [
            Rules.preset("kachuful", num_players=3),
            Rules.preset("up-and-down", num_players=6),
        ]
        batch = BatchEnv(rules, num_tables=7, seed=1, dtype=dtype, oracle=True)
        for begin in (batch.reset, lambda batch=batch: batch.step(batch.action_mask.argmax(1))):
            begin()
            found = {
                name: (getattr(batch, name).shape, str(getattr(batch, name).dtype))
                for name in (*SHOWN, "oracle")
            }
            assert found == {
                "observation": ((7, SIZE), dtype),
                "action_mask": ((7, NUM_ACTIONS), "int8"),
                "seat": ((7,), "int32"),
                "reward": ((7, 6), "float32"),
                "done": ((7,), "bool"),
                "oracle": ((7, ORACLE_SIZE), dtype),
            }
    assert batch.tables.shape == (7,)
    assert (batch.num_tables, batch.num_players, batch.rules) == (7, 6, tuple(rules))
    with pytest.raises(AttributeError, match="oracle=False"):
        _ = BatchEnv().oracle


def test_float32_observations_are_the_scaled_uint8_ones() -> None:
    raw = BatchEnv("up-and-down", num_tables=16, seed=5, dtype="uint8", oracle=True)
    scaled = BatchEnv("up-and-down", num_tables=16, seed=5, oracle=True)
    raw.reset()
    scaled.reset()
    rng = np.random.default_rng(3)
    for _ in range(200):
        assert np.array_equal(as_float(raw.observation), scaled.observation)
        assert np.array_equal(raw.oracle, scaled.oracle)
        actions = random_actions(raw, rng)
        raw.step(actions)
        scaled.step(actions)


def test_oracle_shows_every_hand_relative_to_the_seat_to_act() -> None:
    batch = BatchEnv("sweep-ten-anticlockwise", num_tables=3, seed=4, oracle=True)
    batch.reset()
    table = Table(Rules.preset("sweep-ten-anticlockwise"), seed=4)
    hands = batch.oracle[0].reshape(10, 52)
    for relative in range(4):
        seat = (table.seat - relative) % 4
        assert np.flatnonzero(hands[relative]).tolist() == sorted(table.view(seat).hand)
    assert not hands[4:].any()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"])
def test_actions_of_any_integer_dtype_are_taken(dtype: str) -> None:
    one, other = BatchEnv(num_tables=4, seed=1), BatchEnv(num_tables=4, seed=1)
    one.reset()
    other.reset()
    actions = one.action_mask.argmax(axis=1)
    one.step(actions)
    other.step(actions.astype(dtype))
    assert_same(shown(one), shown(other))


def test_a_plain_list_of_integers_is_taken() -> None:
    batch = BatchEnv(num_tables=2, seed=1)
    batch.reset()
    batch.step([52, 53])
    assert sorted(batch.tables["bid_sum"].tolist()) == [0, 1]


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        (np.full(3, 52.0), TypeError, "actions: dtype float64 (allowed: any integer dtype)"),
        (np.ones(3, bool), TypeError, "actions: dtype bool (allowed: any integer dtype)"),
        (np.full(2, 52), ValueError, "actions: shape (2,) (allowed: (3,))"),
        (np.full((3, 1), 52), ValueError, "actions: shape (3, 1) (allowed: (3,))"),
        (52, ValueError, "actions: shape () (allowed: (3,))"),
    ],
)
def test_actions_of_another_shape_or_dtype_are_refused(
    actions: Any, error: type[Exception], message: str
) -> None:
    batch = BatchEnv(num_tables=3, seed=1)
    batch.reset()
    before = shown(batch)
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        batch.step(actions)
    assert_same(before, shown(batch))


@pytest.mark.parametrize("is_copying", [True, False])
@pytest.mark.parametrize("bad", [-1, 0, 79, 78, 2**40, -(2**33)])
def test_an_illegal_action_is_named_and_changes_nothing(bad: int, is_copying: bool) -> None:
    batch = BatchEnv("kachuful", num_tables=5, seed=1, copy=is_copying)
    batch.reset()
    rng = np.random.default_rng(1)
    for _ in range(3):
        batch.step(random_actions(batch, rng))
    before = shown(batch)
    actions = random_actions(batch, rng)
    actions[3] = bad
    with pytest.raises(IllegalActionError) as caught:
        batch.step(actions)
    assert_same(before, shown(batch))
    text = str(caught.value)
    assert "table 3" in text and f"seat {batch.seat[3]}" in text
    words = {0: "2C", 78: "bid 26"}.get(bad, str(bad))
    assert words in text
    legal = np.flatnonzero(batch.action_mask[3]) - 52
    assert ", ".join(f"bid {bid}" for bid in legal) in text


def test_a_bid_that_the_hook_forbids_is_illegal_in_a_batch() -> None:
    batch = BatchEnv(Rules.preset("kachuful", first_dealer=3), num_tables=2, seed=1)
    batch.reset()
    for bid in (2, 2, 2):
        batch.step([52 + bid, 52])
    with pytest.raises(IllegalActionError, match="table 0, .*bid 1"):
        batch.step([53, 52])
    batch.step([54, 52])


def test_stepping_before_reset_is_refused() -> None:
    batch = BatchEnv(num_tables=2)
    for call in (lambda: batch.step([52, 52]), batch.refresh):
        with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
            call()


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("episode", ["match", "round"])
def test_skipping_forced_decisions_equals_playing_them_one_by_one(name: str, episode: str) -> None:
    slow = BatchEnv(name, num_tables=1, seed=8, episode=episode)
    fast = BatchEnv(name, num_tables=1, seed=8, episode=episode, skip_forced=True)
    slow.reset()
    fast.reset()
    rng = np.random.default_rng(6)
    skipped = 0
    for _ in range(400):
        assert np.array_equal(slow.observation, fast.observation)
        assert np.array_equal(slow.action_mask, fast.action_mask)
        assert fast.action_mask.sum() > 1
        action = random_actions(fast, rng)
        fast.step(action)
        slow.step(action)
        reward, done = slow.reward.copy(), slow.done.copy()
        while slow.action_mask.sum() == 1:
            slow.step(slow.action_mask.argmax(axis=1))
            reward += slow.reward
            done |= slow.done
            skipped += 1
        assert np.array_equal(reward, fast.reward)
        assert np.array_equal(done, fast.done)
        assert_same(position(slow), position(fast))
    assert skipped > 50


def test_tables_of_several_rules_each_play_their_own() -> None:
    rules = [
        Rules.preset("kachuful", num_players=3, top=3),
        Rules.preset("up-and-down", num_players=5, top=2),
        Rules.preset("blind-eight", num_players=4),
    ]
    mixed = BatchEnv(rules, num_tables=8, seed=6)
    mixed.reset()
    rng = np.random.default_rng(4)
    history = []
    for _ in range(150):
        actions = random_actions(mixed, rng)
        before = mixed.observation
        mixed.step(actions)
        history.append((before, actions, mixed.reward, mixed.done))
    for i in range(8):
        alone = BatchEnv(rules[i % 3], num_tables=8, seed=6)
        alone.reset()
        for observation, actions, reward, done in history:
            assert np.array_equal(observation[i], alone.observation[i])
            others = alone.action_mask.argmax(axis=1)
            others[i] = actions[i]
            alone.step(others)
            players = rules[i % 3].num_players
            assert np.array_equal(reward[i, :players], alone.reward[i])
            assert not reward[i, players:].any()
            assert done[i] == alone.done[i]


def test_a_round_episode_is_one_round_of_the_schedule_dealt_as_a_match_of_that_round() -> None:
    rules = Rules.preset("up-and-down", top=4)
    batch = BatchEnv(rules, num_tables=9, seed=1, episode="round")
    batch.reset()
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(400):
        for i in np.flatnonzero(batch.tables["num_bids"] == 0):
            t = batch.tables[i]
            assert t.first_round == t.last_round == t["round"]
            plan = rules.schedule[t["round"]]
            assert (t.cards, t.trump, t.is_blind) == plan
            seen.add((int(t["round"]), int(t.dealer)))
            if i == 0 and t.match == 0:
                alone = rules.replace(
                    cards=[plan.cards], trumps=["CDHS"[plan.trump]] if plan.trump < 4 else ["NT"]
                )
                table = Table(alone, seed=1)
                assert table.seat == batch.seat[0]
                hand = np.flatnonzero(batch.observation[0, :52]).tolist()
                assert hand == sorted(table.view(table.seat).hand)
        batch.step(random_actions(batch, rng))
    assert {number for number, _ in seen} == set(range(7))
    assert {dealer for _, dealer in seen} == {0, 1, 2, 3}


def test_every_round_is_drawn_alike_often() -> None:
    chances = round_chances(Rules.preset("kachuful"))
    key = table_key(np.uint64(5), 0)
    counts = np.zeros(7, int)
    for match in range(7000):
        counts[draw_round(np.uint64(stream(key, match)), chances)] += 1
    # 1000 each, standard deviation 29.
    assert abs(counts - 1000).max() < 4 * 29


def test_round_weights_choose_the_rounds() -> None:
    only_last = BatchEnv(num_tables=50, episode="round", round_weights=[0, 0, 0, 0, 0, 0, 1])
    only_last.reset()
    assert set(only_last.tables["cards"]) == {1}
    weights = [[1, 0, 0, 0, 0, 0, 0], [0, 3, 1, 0, 0, 0, 0]]
    both = BatchEnv(
        ["kachuful", "sweep-ten"],
        400,
        episode="round",
        round_weights=np.pad(weights, ((0, 0), (0, 3))),
    )
    both.reset()
    assert set(both.tables["cards"][::2]) == {7}
    sizes = both.tables["cards"][1::2].tolist()
    assert set(sizes) == {9, 8}
    assert 120 < sizes.count(9) < 180


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_tables": 0}, "num_tables: 0 (allowed: a whole number from 1)"),
        ({"num_tables": 2.0}, "num_tables: 2.0 (allowed: a whole number from 1)"),
        ({"episode": "game"}, "episode: 'game' (allowed: match, round)"),
        ({"dtype": "float64"}, "dtype: 'float64' (allowed: float32, uint8)"),
        ({"rules": 3}, "rules: 3 (allowed: one set of rules or a sequence of them)"),
        ({"rules": None}, "rules: None (allowed: one set of rules or a sequence of them)"),
        ({"dtype": "no"}, "dtype: 'no' (allowed: float32, uint8)"),
        ({"rules": []}, "rules: () (allowed: one set of rules or a sequence of them)"),
        ({"round_weights": [1] * 7}, "round_weights: given with episode 'match'"),
        ({"episode": "round", "round_weights": [1, 1]}, "round_weights: [1.0, 1.0] (allowed: 7"),
        ({"episode": "round", "round_weights": [0] * 7}, "round_weights: [0.0"),
        ({"episode": "round", "round_weights": [1] * 6 + [-1]}, "round_weights: [1.0"),
    ],
)
def test_an_argument_out_of_range_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        BatchEnv(**arguments)


def test_a_seed_out_of_range_is_named() -> None:
    for seed in (-1, 2**64, 1.5, "x", True):
        with pytest.raises(ValueError, match="seed"):
            BatchEnv(seed=seed)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="seed"):
            BatchEnv().reset(seed=seed)  # type: ignore[arg-type]


def test_with_copy_each_step_leaves_earlier_arrays_as_they_were() -> None:
    batch = BatchEnv(num_tables=3, seed=1, oracle=True)
    batch.reset()
    before = {name: getattr(batch, name) for name in (*SHOWN, "oracle")}
    kept = {name: value.copy() for name, value in before.items()}
    batch.step(batch.action_mask.argmax(axis=1))
    for name, value in before.items():
        assert np.array_equal(value, kept[name])
        assert not np.shares_memory(value, getattr(batch, name))


def test_without_copy_the_same_arrays_are_written_again() -> None:
    for dtype in ("float32", "uint8"):
        copying = BatchEnv(num_tables=3, seed=1, dtype=dtype, skip_forced=True)
        reusing = BatchEnv(num_tables=3, seed=1, dtype=dtype, skip_forced=True, copy=False)
        copying.reset()
        reusing.reset()
        arrays = {name: getattr(reusing, name) for name in SHOWN}
        rng = np.random.default_rng(0)
        for _ in range(80):
            actions = random_actions(copying, rng)
            copying.step(actions)
            reusing.step(actions)
            assert_same(shown(copying), shown(reusing))
        assert all(getattr(reusing, name) is array for name, array in arrays.items())


def test_reset_goes_on_to_the_next_match_and_a_seed_starts_again() -> None:
    batch = BatchEnv(num_tables=3, seed=1)
    batch.reset()
    first = shown(batch)
    batch.step(batch.action_mask.argmax(axis=1))
    batch.reset()
    assert batch.tables["match"].tolist() == [1, 1, 1]
    assert batch.tables["dealt"].tobytes() != first["dealt"].tobytes()
    batch.reset(seed=1)
    assert_same(first, shown(batch))
    other = BatchEnv(num_tables=3, seed=77)
    other.reset(seed=1)
    assert_same(first, shown(other))


def test_a_batch_without_a_seed_draws_one() -> None:
    one, other = BatchEnv(num_tables=2, seed=None), BatchEnv(num_tables=2, seed=None)
    one.reset()
    other.reset()
    assert one.seed != other.seed
    again = BatchEnv(num_tables=2, seed=one.seed)
    again.reset()
    assert_same(shown(one), shown(again))


def test_a_saved_position_is_taken_up_again() -> None:
    batch = BatchEnv(num_tables=4, seed=1)
    batch.reset()
    rng = np.random.default_rng(1)
    batch.step(random_actions(batch, rng))
    saved = batch.tables.copy()
    before = shown(batch)
    for _ in range(50):
        batch.step(random_actions(batch, rng))
    last = (batch.reward.copy(), batch.done.copy())
    batch.tables[:] = saved
    batch.refresh()
    assert np.array_equal(batch.reward, last[0]) and np.array_equal(batch.done, last[1])
    batch.reward, batch.done = before["reward"], before["done"]
    assert_same(before, shown(batch))


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("is_copying", [True, False])
def test_a_copied_or_pickled_batch_goes_on_alike_and_apart(dtype: str, is_copying: bool) -> None:
    batch = BatchEnv(num_tables=4, seed=1, dtype=dtype, copy=is_copying)
    batch.reset()
    rng = np.random.default_rng(1)
    for _ in range(9):
        batch.step(random_actions(batch, rng))
    twins = [copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))]
    before = shown(batch)
    steps = []
    for _ in range(60):
        steps.append(random_actions(batch, rng))
        batch.step(steps[-1])
    for twin in twins:
        assert_same(before, shown(twin))
        for actions in steps:
            twin.step(actions)
        assert_same(shown(batch), shown(twin))
