"""SeatBatch: one learner a table, which plays as a slow loop over tables and bots does."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from judgement_env import Rules, Table, judgement_v0, make_bot
from judgement_env.bots import Bot
from judgement_env.bots.simple import HeuristicBot
from judgement_env.observation import SIZE
from judgement_env.record import Record
from judgement_env.seat_batch import SeatBatch
from judgement_env.state import Array
from judgement_env.table import IllegalActionError
from judgement_env.view import View
from tests.arena_bots import FixedBot, PlaceBot, ViewBot

SMALL = Rules.preset("kachuful", num_players=3, cards=[3, 2, 1])
WHEEL = Rules.preset("sweep-ten-anticlockwise", cards=[2, 5])
PACKS = Rules.preset(
    "up-and-down", num_players=5, packs=2, cards=[4, 1], hook=False, bidding="simultaneous"
)
TURNED = Rules.preset("oh-hell", num_players=4, top=3)
REWARDS = ("points", "relative", "win")


def draws(seed: int) -> Any:
    """A chooser of legal actions: of a batch's masks, or of one."""
    rng = np.random.default_rng(seed)

    def choose(mask: Array) -> Array:
        return np.asarray((mask * (1 + rng.random(mask.shape))).argmax(axis=-1))

    return choose


def lowest(mask: Array) -> Array:
    return np.asarray(mask.argmax(axis=-1))


def by_moment(observation: Array, mask: Array) -> int:
    """A legal action that changes from one moment to the next, the same for equal views."""
    legal = np.flatnonzero(mask)
    return int(legal[int(observation.sum(dtype=np.int64)) % len(legal)])


class Step(NamedTuple):
    observation: Array
    mask: Array
    seat: int
    reward: float
    ended: bool
    totals: list[int]


def given(table: Table, seat: int, reward: str) -> float:
    """What the round just settled gives a seat."""
    points = table.last_points or []
    if reward == "win":
        return 1 / len(table.winners) if seat in table.winners else 0.0
    own = float(points[seat])
    return own if reward == "points" else own - (sum(points) - own) / (len(points) - 1)


def slow_match(
    table: Table, seat: int, bots: dict[int, Bot], reward: str
) -> Iterator[tuple[Array, Array, float, bool]]:
    """A learner's turns in one match: view, mask, what it was given, whether it is over.

    Each bot is asked with its own view. The learner plays by `by_moment`.
    """
    gain = 0.0
    while not table.is_over:
        if table.seat == seat:
            raw, mask = table.observe(seat), np.zeros(79, np.int8)
            table.write_mask(mask)
            yield raw, mask, gain, False
            gain = 0.0
            action = by_moment(raw, mask)
        else:
            view = table.view(table.seat or 0)
            action = bots[view.seat].act(view)
        if table.push(action):
            gain += given(table, seat, reward)
    yield table.observe(seat), np.zeros(79, np.int8), gain, True


def placed(rules: Rules, seat: int, bots: list[Bot]) -> dict[int, Bot]:
    """The bots by seat, in order of play after the learner."""
    return {(seat + (k + 1) * rules.step) % rules.num_players: bot for k, bot in enumerate(bots)}


OPPONENTS = {
    "compiled": ("heuristic", "heuristic"),
    "by rows": ("rows", "lowest"),
    "by views": ("views", "heuristic"),
    "mixed": ("views", "rows"),
}


def crew(kinds: tuple[str, str], count: int) -> list[Bot]:
    made: dict[str, Bot] = {
        "heuristic": HeuristicBot(),
        "rows": PlaceBot("changing"),
        "lowest": PlaceBot("lowest"),
        "views": ViewBot(PlaceBot("changing")),
    }
    return [made[kinds[k % 2]] for k in range(count)]


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("kinds", OPPONENTS)
@pytest.mark.parametrize("rules", [SMALL, WHEEL, PACKS, TURNED], ids=["3", "wheel", "packs", "up"])
def test_a_batch_plays_what_a_loop_over_tables_and_bots_plays(
    rules: Rules, kinds: str, reward: str
) -> None:
    bots = crew(OPPONENTS[kinds], rules.num_players - 1)
    batch = SeatBatch(rules, 5, seed=11, opponents=bots, reward=reward, dtype="uint8")
    batch.reset()
    matches = [0] * 5

    def begin(i: int) -> Any:
        table = Table(rules, 11, table=i, match=matches[i])
        seat = int(batch.seat[i])
        return slow_match(table, seat, placed(rules, seat, bots), reward)

    slow = [begin(i) for i in range(5)]
    turns = [next(one) for one in slow]
    for _ in range(40):
        for i, (raw, mask, _, _) in enumerate(turns):
            np.testing.assert_array_equal(batch.observation[i], raw)
            np.testing.assert_array_equal(batch.action_mask[i], mask)
        batch.step([by_moment(raw, mask) for raw, mask, _, _ in turns])
        for i in range(5):
            raw, _, gain, is_over = turns[i] = next(slow[i])
            assert batch.reward[i] == pytest.approx(gain, abs=1e-6)
            assert batch.done[i] == is_over
            if is_over:
                np.testing.assert_array_equal(batch.terminal_observation[i], raw)
                matches[i] += 1
                slow[i] = begin(i)
                turns[i] = next(slow[i])
            else:
                assert not batch.terminal_observation[i].any()
    assert min(matches) > 0


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("seat", range(3))
def test_the_rewards_of_a_match_add_up_to_what_the_record_says(seat: int, reward: str) -> None:
    batch = SeatBatch(
        SMALL, 7, seed=3, seat=seat, opponents=["random", "heuristic"], reward=reward, records=True
    )
    batch.reset()
    choose = draws(0)
    sums = np.zeros(7)
    ended = 0
    for _ in range(60):
        batch.step(choose(batch.action_mask))
        assert (batch.seat == seat).all()
        sums += batch.reward
        for i in np.flatnonzero(batch.done).tolist():
            record = batch.terminal_record(i)
            totals, winners = record["totals"], record["winners"]
            rest = sum(totals) - totals[seat]
            expected = {
                "points": totals[seat],
                "relative": totals[seat] - rest / 2,
                "win": 1 / len(winners) if seat in winners else 0,
            }
            assert sums[i] == pytest.approx(expected[reward], abs=1e-4)
            assert batch.totals[i].tolist() == totals
            assert batch.terminal_seat[i] == seat
            assert Table.from_record(record).totals == totals
            sums[i] = 0
            ended += 1
    assert ended > 20


def rollout(batch: SeatBatch, rows: int, steps: int = 40) -> list[Array]:
    """Everything shown of the first tables, the learner playing its lowest action."""
    shown = []
    for _ in range(steps):
        batch.step(lowest(batch.action_mask))
        for name in ("observation", "action_mask", "seat", "reward", "done", "totals"):
            shown.append(getattr(batch, name)[:rows].copy())
    return shown


@pytest.mark.parametrize(
    "options",
    [
        {"opponents": "random"},
        {"opponent_pool": ["random", "heuristic", PlaceBot("highest")]},
        {"opponents": "heuristic", "episode": "round", "seat": 1},
    ],
    ids=["random", "pool", "rounds"],
)
def test_a_table_plays_the_same_whatever_stands_beside_it(options: dict[str, Any]) -> None:
    few, many = (SeatBatch(SMALL, n, seed=5, **options) for n in (2, 9))
    few.reset()
    many.reset()
    for a, b in zip(rollout(few, 2), rollout(many, 2), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_same_seed_gives_the_same_episodes_and_another_gives_others() -> None:
    batch = SeatBatch(SMALL, 4, seed=5, opponents="random")
    batch.reset()
    first = rollout(batch, 4)
    batch.reset(seed=5)
    again = rollout(batch, 4)
    batch.reset(seed=6)
    other = rollout(batch, 4)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_drawn_seat_changes_from_match_to_match_and_takes_every_place() -> None:
    batch = SeatBatch(SMALL, 60, seed=1, opponents="random")
    batch.reset()
    assert np.bincount(batch.seat, minlength=3).min() > 8
    before = batch.seat.copy()
    batch.reset()
    assert 20 < (before != batch.seat).sum() < 58


def test_random_opponents_take_every_legal_action_as_often() -> None:
    rules = Rules.preset("kachuful", num_players=3, cards=[3], first_dealer=0, hook=False)
    batch = SeatBatch(rules, 1200, seed=1, seat=0, opponents="random")
    batch.reset()
    for bids in batch.tables["bid"][:, 1:3].T:
        counts = np.bincount(bids, minlength=4)
        assert len(counts) == 4 and abs(counts - 300).max() < 60


class Watched(ViewBot):
    """A bot by views that notes the seats and matches it is asked in."""

    def __init__(self, name: str) -> None:
        super().__init__(PlaceBot(name))
        self.seats: set[int] = set()
        self.matches: set[int] = set()

    def act(self, view: View) -> int:
        self.seats.add(view.seat)
        self.matches.add(int(view.table_record["match"]))
        return super().act(view)


@pytest.mark.parametrize("rules", [SMALL, WHEEL], ids=["clockwise", "anticlockwise"])
def test_opponents_sit_after_the_learner_in_order_of_play(rules: Rules) -> None:
    bots = [Watched(str(k)) for k in range(rules.num_players - 1)]
    batch = SeatBatch(rules, 2, seed=1, seat=1, opponents=bots)
    batch.reset()
    rollout(batch, 2, 12)
    for k, bot in enumerate(bots):
        assert bot.seats == {(1 + (k + 1) * rules.step) % rules.num_players}


def test_a_pool_is_drawn_anew_by_seat_and_match_as_likely_as_its_weights() -> None:
    pool = [PlaceBot("lowest"), PlaceBot("highest"), "heuristic"]
    batch = SeatBatch(SMALL, 300, seed=2, seat=0, opponent_pool=pool, pool_weights=[1, 3, 0])
    batch.reset()
    seated = batch._seats["bot"][:, 1:3]
    names = np.array([bot.name for bot in batch.opponents])[seated]
    assert set(names.ravel()) == {"lowest", "highest"}
    assert 0.68 < (names == "highest").mean() < 0.82
    assert 0.25 < (names[:, 0] != names[:, 1]).mean() < 0.5
    before = seated.copy()
    batch.reset()
    assert 0.25 < (batch._seats["bot"][:, 1:3] != before).mean() < 0.5


def test_new_opponents_sit_down_at_the_next_episode_and_old_ones_play_theirs_out() -> None:
    old, new = Watched("lowest"), Watched("highest")
    batch = SeatBatch(SMALL, 3, seed=2, opponents="heuristic", autoreset="next_step")
    batch.reset()
    batch.set_opponents(old)
    assert [bot.name for bot in batch.opponents] == ["heuristic", "lowest"]
    batch.reset()
    rollout(batch, 3, 2)
    batch.set_opponent_pool([new])
    assert set(batch.opponents) == {old, new}
    rollout(batch, 3, 12)
    assert (old.matches, new.matches) == ({1}, {2})
    # The old bot is forgotten once it sits nowhere, and both were shown whole matches.
    batch.set_opponent_pool([new, "random"])
    assert old not in batch.opponents
    assert len(old.records) == 3
    assert all(Table.from_record(r).is_over for r in old.records + new.records)
    assert {r["seed"] for r in old.records} == {None}


def test_opponents_are_shown_their_own_hands_only() -> None:
    class Peeking(Bot):
        name = "peeking"
        num_views = 0

        def act(self, view: View) -> int:
            hands = view.tables_array["hand"][0, : view.rules.num_players]
            others = [s for s in range(view.rules.num_players) if s != view.seat]
            assert not hands[others].any() and hands[view.seat].any()
            assert view.tables_array["key"][0] == 0
            assert view.seat_to_act == view.seat
            self.num_views += 1
            return view.legal[0]

    bot = Peeking()
    batch = SeatBatch(SMALL, 2, seed=1, opponents=bot)
    batch.reset()
    rollout(batch, 2, 15)
    assert bot.num_views > 30


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


def test_a_closed_batch_says_so_and_leaves_bots_that_it_did_not_make() -> None:
    class Closing(PlaceBot):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    bot = Closing("lowest")
    batch = SeatBatch(SMALL, 2, opponents=[bot, "random"])
    batch.reset()
    batch.close()
    batch.close()
    assert not bot.is_closed
    for call in (batch.reset, lambda: batch.step([0, 0])):
        with pytest.raises(RuntimeError, match="closed"):
            call()


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
        ({"opponents": ["random"]}, r"opponents: 1 bots \(allowed: one for all"),
        ({"opponents": 5}, r"opponents: 5 \(allowed: a sequence of bots\)"),
        ({"opponents": ["random", 5]}, "opponents: 5"),
        ({"opponent_pool": []}, "opponent_pool: no bot"),
        ({"opponent_pool": ["random"], "pool_weights": [0]}, "pool_weights: "),
        ({"pool_weights": [1]}, "pool_weights: given without opponent_pool"),
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
