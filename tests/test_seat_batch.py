"""SeatBatch: one learner a table, which plays as a slow loop over tables and bots does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from judgement_env import Rules, Table
from judgement_env.bots import Bot
from judgement_env.bots.simple import HeuristicBot
from judgement_env.seat_batch import SeatBatch
from judgement_env.state import Array
from judgement_env.view import View
from tests.arena_bots import PlaceBot, ViewBot
from tests.seats import SMALL, draws, rollout

WHEEL = Rules.preset("sweep-ten-anticlockwise", cards=[2, 5])
PACKS = Rules.preset(
    "up-and-down", num_players=5, packs=2, cards=[4, 1], hook=False, bidding="simultaneous"
)
TURNED = Rules.preset("oh-hell", num_players=4, top=3)
REWARDS = ("points", "relative", "win")


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
