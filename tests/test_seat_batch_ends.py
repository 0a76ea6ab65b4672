"""SeatBatch: the end of an episode, illegal actions, wrong arguments; its arrays and copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from judgement_env import Table, judgement_v0, make_bot
from judgement_env.observation import SIZE
from judgement_env.record import Record
from judgement_env.seat_batch import SeatBatch
from judgement_env.table import IllegalActionError
from tests.arena_bots import FixedBot, PlaceBot
from tests.seats import SMALL, lowest, rollout

# --- the end of an episode ----------------------------------------------------------------------


def test_next_step_deals_in_the_step_after_the_end_and_ignores_the_action_there() -> None:
    same = SeatBatch(SMALL, 3, seed=4, opponents="heuristic")
    late = SeatBatch(SMALL, 3, seed=4, opponents="heuristic", autoreset="next_step")
    same.reset()
    late.reset()
    for _ in range(30):
        same.step(lowest(same.action_mask))
        late.step(lowest(late.action_mask))
        np.testing.assert_array_equal(same.done, late.done)
        np.testing.assert_array_equal(same.reward, late.reward)
        over = np.flatnonzero(late.done)
        if not len(over):
            np.testing.assert_array_equal(same.observation, late.observation)
            continue
        np.testing.assert_array_equal(late.observation[over], same.terminal_observation[over])
        assert not late.action_mask[over].any()
        assert late.seat[over].tolist() == same.terminal_seat[over].tolist()
        assert len(over) == 3
        late.step(np.full(3, 78))
        assert not late.done.any() and not late.reward.any()
        np.testing.assert_array_equal(same.observation, late.observation)


def test_without_autoreset_only_the_tables_named_go_on() -> None:
    batch = SeatBatch(SMALL, 3, seed=4, opponents="heuristic", autoreset="disabled", records=True)
    batch.reset()
    while not batch.done.any():
        batch.step(lowest(batch.action_mask))
    with pytest.raises(RuntimeError, match=r"step: the episode is over at table 0, 1, 2"):
        batch.step([0, 0, 0])
    assert batch.record(1)["winners"] and batch.terminal_record(1) == batch.record(1)
    shown = batch.observation
    batch.reset_tables(np.array([True, False, True]), [None, None, 9])
    assert batch.done.tolist() == [False, True, False]
    np.testing.assert_array_equal(batch.observation[1], shown[1])
    assert batch.tables["match"].tolist() == [1, 0, 0]
    assert [batch.record(i)["seed"] for i in range(3)] == [4, 4, 9]
    assert batch.record(2)["table"] == 0 and batch.record(0)["table"] == 0
    assert not batch.action_mask[1].any() and batch.action_mask[[0, 2]].any(axis=1).all()
    with pytest.raises(RuntimeError, match="over at table 1;"):
        batch.step([0, 0, 0])


def test_an_episode_of_one_round_is_recorded_alone() -> None:
    batch = SeatBatch(SMALL, 6, seed=4, opponents="heuristic", episode="round", records=True)
    batch.reset()
    sizes = set()
    for _ in range(20):
        batch.step(lowest(batch.action_mask))
        for i in np.flatnonzero(batch.done).tolist():
            record = batch.terminal_record(i)
            assert len(record["rounds"]) == 1
            assert record["totals"] == batch.totals[i].tolist() == record["rounds"][0]["points"]
            assert batch.reward[i] == record["totals"][batch.terminal_seat[i]]
            assert Table.from_record(record).is_over
            sizes.add(record["rounds"][0]["cards"])
    assert sizes == {1, 2, 3}
    only = SeatBatch(SMALL, 6, opponents="random", episode="round", round_weights=[0, 1, 0])
    only.reset()
    assert (only.tables["cards"] == 2).all()


def test_seeds_of_their_own_deal_as_the_aec_environment_does() -> None:
    env = judgement_v0.env(SMALL)
    batch = SeatBatch(SMALL, 3, opponents="heuristic", records=True)
    batch.reset([21, 22, 21])
    for i, seed in enumerate([21, 22, 21]):
        env.reset(seed=seed)
        assert batch.record(i)["rounds"][0]["hands"] == env.unwrapped.record()["rounds"][0]["hands"]
        assert batch.record(i)["seed"] == seed and batch.record(i)["table"] == 0
    assert batch.record(0) == batch.record(2)


def test_decisions_without_a_choice_are_played_but_the_first() -> None:
    plain = SeatBatch(SMALL, 4, seed=4, opponents="heuristic", records=True)
    fast = SeatBatch(SMALL, 4, seed=4, opponents="heuristic", records=True, skip_forced=True)
    records: dict[str, list[Record]] = {}
    steps = {}
    for name, batch in (("plain", plain), ("fast", fast)):
        batch.reset()
        records[name], sums = [], np.zeros(4)
        steps[name] = 0
        while len(records[name]) < 12:
            if name == "fast":
                is_first = [
                    r["rounds"][0]["bids"][s] is None and len(r["rounds"]) == 1
                    for r, s in zip(map(batch.record, range(4)), batch.seat, strict=True)
                ]
                assert all((batch.action_mask.sum(axis=1) > 1) | is_first)
            batch.step(lowest(batch.action_mask))
            steps[name] += 1
            sums += batch.reward
            for i in np.flatnonzero(batch.done).tolist():
                assert sums[i] == batch.totals[i, batch.terminal_seat[i]]
                sums[i] = 0
                records[name].append(batch.terminal_record(i))
    by_deal = {(r["table"], r["match"]): r for r in records["plain"]}
    shared = [r for r in records["fast"] if (r["table"], r["match"]) in by_deal]
    assert len(shared) >= 8 and all(by_deal[r["table"], r["match"]] == r for r in shared)
    assert steps["fast"] < 0.8 * steps["plain"]


# --- illegal actions ----------------------------------------------------------------------------


def test_an_illegal_action_raises_naming_everything_and_changes_nothing() -> None:
    batch = SeatBatch(SMALL, 3, seed=1, opponents="heuristic")
    batch.reset()
    before, shown = batch.tables.tobytes(), batch.observation
    actions = lowest(batch.action_mask)
    actions[1] = 60
    with pytest.raises(IllegalActionError, match=r"table 1, seat \d may not bid 8: .*legal: bid"):
        batch.step(actions)
    actions[1] = -4
    with pytest.raises(IllegalActionError, match=r"action: -4 \(allowed: 0 to 78\)"):
        batch.step(actions)
    assert batch.tables.tobytes() == before and batch.observation is shown


def test_a_replaced_action_is_the_one_the_aec_environment_takes() -> None:
    env = judgement_v0.raw_env(SMALL, illegal_action="random")
    env.reset(seed=3)
    batch = SeatBatch(
        SMALL, 1, seat=1, opponents="heuristic", illegal_action="random", records=True
    )
    batch.reset([3])
    bot = make_bot("heuristic")
    rng = np.random.default_rng(0)
    num_replaced = 0
    while env.agents and not env.terminations[env.agent_selection]:
        if env.agent_selection == "player_1":
            action = int(rng.integers(79))
            is_illegal = not batch.action_mask[0, action]
            batch.step([action])
            assert batch.illegal[0] == is_illegal
            num_replaced += is_illegal
        else:
            action = bot.act(env.table.view(env.table.seat or 0))
        env.step(action)
    assert batch.done[0] and batch.terminal_record(0) == env.record() and num_replaced > 5


def test_an_illegal_action_may_end_the_episode_at_its_table_alone() -> None:
    batch = SeatBatch(
        SMALL, 3, seed=1, opponents="heuristic", illegal_action="end", illegal_reward=-7,
        records=True,
    )  # fmt: skip
    batch.reset()
    batch.step(lowest(batch.action_mask))
    shown = batch.observation
    actions = lowest(batch.action_mask)
    actions[2] = 52 + 26
    batch.step(actions)
    assert batch.done.tolist() == [False, False, True] == batch.illegal.tolist()
    assert batch.reward[2] == -7 and batch.terminal_record(2)["winners"] == []
    np.testing.assert_array_equal(batch.terminal_observation[2], shown[2])
    assert batch.tables["match"].tolist() == [0, 0, 1]
    assert batch.action_mask.any(axis=1).all()


# --- arrays, copies, bots -----------------------------------------------------------------------


def test_the_arrays_have_the_shapes_and_types_they_are_said_to_have() -> None:
    for dtype in ("float32", "uint8"):
        batch = SeatBatch(SMALL, 4, opponents="heuristic", dtype=dtype)
        batch.reset()
        batch.step(lowest(batch.action_mask).astype(np.uint8))
        kinds = {
            "observation": ((4, SIZE), dtype),
            "terminal_observation": ((4, SIZE), dtype),
            "action_mask": ((4, 79), "int8"),
            "seat": ((4,), "int32"),
            "terminal_seat": ((4,), "int32"),
            "reward": ((4,), "float32"),
            "done": ((4,), "bool"),
            "illegal": ((4,), "bool"),
            "totals": ((4, 3), "int32"),
        }
        for name, (shape, kind) in kinds.items():
            array = getattr(batch, name)
            assert (array.shape, array.dtype) == (shape, np.dtype(kind)), name
        masks = batch.action_masks()
        assert masks.dtype == np.bool_
        np.testing.assert_array_equal(masks, batch.action_mask == 1)


def test_float_observations_are_the_raw_ones_scaled_at_the_end_too() -> None:
    from judgement_env.observation import as_float

    floats, raws = (
        SeatBatch(SMALL, 4, seed=2, opponents="heuristic", dtype=d) for d in ("float32", "uint8")
    )
    floats.reset()
    raws.reset()
    num_ended = 0
    for _ in range(14):
        np.testing.assert_array_equal(floats.observation, as_float(raws.observation))
        for batch in (floats, raws):
            batch.step(lowest(batch.action_mask))
        for i in np.flatnonzero(raws.done):
            num_ended += 1
            np.testing.assert_array_equal(
                floats.terminal_observation[i], as_float(raws.terminal_observation[i])
            )
    assert num_ended >= 4


def test_arrays_are_new_at_each_step_unless_told_to_be_the_same() -> None:
    for is_copied in (True, False):
        batch = SeatBatch(SMALL, 3, opponents="heuristic", copy=is_copied)
        batch.reset()
        kept = [getattr(batch, name) for name in ("observation", "action_mask", "reward", "done")]
        batch.step(lowest(batch.action_mask))
        now = [getattr(batch, name) for name in ("observation", "action_mask", "reward", "done")]
        assert all(np.shares_memory(a, b) != is_copied for a, b in zip(kept, now, strict=True))
    copies = SeatBatch(SMALL, 3, seed=1, opponents="heuristic", autoreset="next_step")
    same = SeatBatch(SMALL, 3, seed=1, opponents="heuristic", autoreset="next_step", copy=False)
    copies.reset()
    same.reset()
    for _ in range(30):
        for batch in (copies, same):
            batch.step(lowest(batch.action_mask))
        for name in ("terminal_observation", "terminal_seat", "totals", "observation", "reward"):
            np.testing.assert_array_equal(getattr(copies, name), getattr(same, name))


def test_a_copy_and_a_pickle_go_on_with_the_same_match() -> None:
    batch = SeatBatch(SMALL, 3, seed=1, opponents=["random", PlaceBot("highest")], records=True)
    batch.reset()
    rollout(batch, 3, 5)
    others = [copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))]
    ahead = rollout(batch, 3)
    for other in others:
        for a, b in zip(ahead, rollout(other, 3), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("has_rows", [True, False])
@pytest.mark.parametrize("action", [-3, 51, 2.5])
def test_an_opponent_that_answers_nonsense_is_named(has_rows: bool, action: Any) -> None:
    bot = FixedBot(action, has_rows)
    if not has_rows:
        bot.act = lambda view: action  # type: ignore[method-assign]
    batch = SeatBatch(SMALL, 3, opponents=bot)
    with pytest.raises(ValueError, match="opponent 'fixed'"):
        batch.reset()
    with pytest.raises(RuntimeError, match=r"step: call reset\(\) first"):
        batch.step([0, 0, 0])
    batch.set_opponents("heuristic")
    batch.reset()
    assert batch.action_mask.any(axis=1).all()


def test_closing_leaves_bots_that_were_not_made_from_texts() -> None:
    class Closing(PlaceBot):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    bot = Closing("lowest")
    batch = SeatBatch(SMALL, 2, opponents=[bot, "random"])
    batch.reset()
    batch.close()
    assert not bot.is_closed


BOTH = r"opponents: '.*' with opponent_pool \['random'\] \(allowed: one of the two\)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_tables": 0}, "num_tables: 0"),
        ({"seat": 3}, r"seat: 3 \(allowed: a whole number from 0 to 2\)"),
        ({"reward": "money"}, "reward: 'money'"),
        ({"episode": "day"}, "episode: 'day'"),
        ({"autoreset": "never"}, "autoreset: 'never'"),
        ({"illegal_action": "ignore"}, "illegal_action: 'ignore'"),
        ({"dtype": "float64"}, "dtype: 'float64'"),
        ({"seed": -1}, "seed: -1"),
        ({"round_weights": [1, 1, 1]}, "round_weights: given with episode 'match'"),
        ({"opponents": "nobody"}, "opponents: bot: 'nobody'"),
        ({"opponents": ["random"]}, r"opponents: 1 bot \(allowed: one bot for all"),
        ({"opponents": 5}, r"opponents: 5 \(allowed: one bot for all other seats, or 2, one for"),
        ({"opponents": None}, r"opponents: None \(allowed: one bot for all"),
        ({"opponents": b"random"}, "opponents: b'random'"),
        ({"opponents": ["random", 5]}, "opponents: 5"),
        ({"opponent_pool": []}, "opponent_pool: no bot"),
        ({"opponent_pool": ["random"], "pool_weights": [0]}, "pool_weights: "),
        ({"pool_weights": [1]}, "pool_weights: given without opponent_pool"),
        ({"opponent_pool": ["random"], "pool_weights": "a"}, "pool_weights: 'a' .allowed: 1 num"),
        ({"opponent_pool": ["random"], "pool_weights": [1, 0]}, r"pool_weights: \[1.0, 0.0\]"),
        ({"opponent_pool": 3}, r"opponent_pool: 3 \(allowed: a sequence of bots; a bot is a text"),
        ({"opponents": "random", "opponent_pool": ["random"]}, BOTH),
        ({"opponents": "heuristic", "opponent_pool": ["random"]}, BOTH),
        ({"illegal_reward": "a"}, r"illegal_reward: 'a' \(allowed: a finite number\)"),
        ({"illegal_reward": float("nan")}, "illegal_reward: nan"),
        ({"episode": "round", "round_weights": "a"}, "round_weights: 'a' .allowed: 3 numbers"),
        ({"dtype": None}, "dtype: None .allowed: float32, uint8"),
        ({"dtype": object()}, "dtype: <object"),
        ({"num_players": 4}, "num_players"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SeatBatch(SMALL, **{"num_tables": 2, **options})


def test_wrong_calls_are_named() -> None:
    batch = SeatBatch(SMALL, 3, opponents="heuristic")
    with pytest.raises(RuntimeError, match=r"step: call reset\(\) first"):
        batch.step([0, 0, 0])
    with pytest.raises(RuntimeError, match=r"reset_tables: call reset\(\) first"):
        batch.reset_tables(np.ones(3, np.bool_))
    batch.reset()
    for actions, kind, message in (
        ([0.0, 0, 0], TypeError, "actions: dtype float64"),
        ([True] * 3, TypeError, "actions: dtype bool"),
        ([0, 0], ValueError, r"actions: shape \(2,\) \(allowed: \(3,\)\)"),
        ([[0, 0, 0]], ValueError, r"actions: shape \(1, 3\)"),
    ):
        with pytest.raises(kind, match=message):
            batch.step(actions)
    with pytest.raises(ValueError, match="mask: int64"):
        batch.reset_tables([0, 1, 1])
    with pytest.raises(ValueError, match="seed: 2 seeds"):
        batch.reset([1, 2])
    with pytest.raises(ValueError, match="seed: -1"):
        batch.reset([1, 2, -1])
    with pytest.raises(RuntimeError, match="record: .*records=False"):
        batch.record(0)
    with pytest.raises(ValueError, match="view: table: 3"):
        batch.view(3)
    assert batch.view(2).seat == batch.seat[2]
