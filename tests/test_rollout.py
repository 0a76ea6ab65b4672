from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from judgement_env import Rules
from judgement_env.bots import make_bot
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.cards import BID_OFFSET, NUM_ACTIONS, NUM_CARDS
from judgement_env.engine import apply_action, begin_match, next_round, table_key, write_mask
from judgement_env.state import Array, new_tables, pack_rules
from training.config import CHOICES
from training.objective import make_objective
from training.rollout import Rollout
from training.rows import Rows, new_rows, sample_actions

# Three and five seats, sizes with rounds in which some seats have no choice at all.
RULES = [
    Rules(num_players=3, cards=[3, 1], trumps=["S", "NT"]),
    Rules(num_players=5, cards=[2, 1, 4], scoring="high", direction="anticlockwise"),
]
TABLES, STEPS = 7, 60


def uniform(rows: Rows, which: Array) -> Array:
    return np.zeros((len(which), NUM_ACTIONS), np.float32)


def leaning(rows: Rows, which: Array) -> Array:
    """Logits that depend on the row's own inputs, as a network's do."""
    line = np.linspace(-1, 1, NUM_ACTIONS, dtype=np.float32)
    return np.outer(rows.value[which, :9].sum(axis=1), line).astype(np.float32)


def make(rel: float = 0.0, share: float = 0.0, rules: list[Rules] = RULES) -> Rollout:
    packed = pack_rules(rules)
    return Rollout(packed, TABLES, STEPS, 11, make_objective(packed, rel), share)


class Played:
    """The rounds of a rollout, played again in plain Python from its actions alone."""

    def __init__(self, rollout: Rollout, rows: Rows) -> None:
        self.rounds: list[dict[str, Any]] = []
        for i in range(TABLES):
            self.play_table(rollout, rows, i)

    def play_table(self, rollout: Rollout, rows: Rows, i: int) -> None:
        rules, tables = rollout.rules, new_tables(1)
        number = len(rules)
        r, t = rules[i % number], tables[0]
        t.key, t.rules = table_key(np.uint64(11), i), i % number
        begin_match(r, t, (i // number) % r.num_rounds, r.num_rounds - 1, -1)
        latest: dict[int, int] = {}
        mask = np.empty(NUM_ACTIONS, np.int8)
        step = 0
        # What follows the last decision kept is played when the next batch begins.
        while step < STEPS:
            seat, num_legal = int(t.seat), write_mask(r, t, mask)
            if i < rollout.seating.num_rule_bot and seat != (i + t.match) % r.num_players:
                action = heuristic_action(r, t)
            elif num_legal == 1:
                action = int(mask.argmax())
            else:
                row = step * TABLES + i
                assert rows.seat[row] == seat
                assert rows.is_bid[row] == (t.num_bids < r.num_players)
                assert rows.mask[row].sum() == num_legal
                latest[seat] = row
                action = int(rows.action[row])
                if action < BID_OFFSET:
                    suit = rows.places[row].tolist().index(action // 13)
                    action = suit * 13 + action % 13
                assert mask[action]
                step += 1
            if apply_action(r, t, action):
                points = t.points[: r.num_players].tolist()
                made = (t.bid == t.won)[: r.num_players].tolist()
                kept = {"cards": int(t.cards), "points": points, "made": made, "last": latest}
                self.rounds.append({**kept, "unit": int(r.unit)})
                latest = {}
                if next_round(r, t):
                    t.match += 1
                    begin_match(r, t, 0, r.num_rounds - 1, -1)


# --- rewards ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_own_points_reach_the_last_real_decision_and_the_rest_is_in_the_tally(share: float) -> None:
    rollout = make(rel=0, share=share)
    rows = rollout.collect(leaning)
    played = Played(rollout, rows).rounds
    rewarded, forced = 0.0, 0
    for one in played:
        for seat, points in enumerate(one["points"]):
            if seat in one["last"]:
                row = one["last"][seat]
                assert rows.is_last[row]
                assert rows.reward[row] == pytest.approx(points / (10 * one["unit"]), abs=1e-6)
                rewarded += float(rows.reward[row]) * 10 * one["unit"]
            else:
                forced += points
    assert rewarded + forced == pytest.approx(rollout.tally.points.sum(), rel=1e-5)
    assert rows.is_last.sum() == sum(len(one["last"]) for one in played)
    assert any(len(one["last"]) < len(one["points"]) for one in played)


def test_the_tally_counts_every_seat_of_every_round() -> None:
    rollout = make()
    played = Played(rollout, rollout.collect(leaning)).rounds
    for cards in range(1, 5):
        mine = [one for one in played if one["cards"] == cards]
        assert len(mine) > 3
        assert rollout.tally.rounds[cards] == sum(len(one["points"]) for one in mine)
        assert rollout.tally.made[cards] == sum(sum(one["made"]) for one in mine)
        assert rollout.tally.points[cards] == sum(sum(one["points"]) for one in mine)
        assert rollout.tally.bids[cards].sum() == rollout.tally.rounds[cards]


def test_relative_rewards_of_a_round_sum_to_zero_where_every_seat_decided() -> None:
    rollout = make(rel=1)
    rows = rollout.collect(leaning)
    num_full = 0
    for one in Played(rollout, rows).rounds:
        points = one["points"]
        for seat, row in one["last"].items():
            others = (sum(points) - points[seat]) / (len(points) - 1)
            expected = (points[seat] - others) / (10 * one["unit"])
            assert rows.reward[row] == pytest.approx(expected, abs=1e-6)
        if len(one["last"]) == len(points):
            num_full += 1
            total = sum(rows.reward[row] for row in one["last"].values())
            assert total == pytest.approx(0, abs=1e-5)
    assert num_full > 10


# --- whose decisions are kept -----------------------------------------------------------------


def test_with_rule_bots_one_seat_a_match_is_kept_at_those_tables() -> None:
    rollout = make(share=3 / TABLES)
    rows = rollout.collect(uniform)
    seats = rows.seat.reshape(STEPS, TABLES)
    for i in range(TABLES):
        num_players = RULES[i % 2].num_players
        if i < 3:
            assert seats[0, i] == i % num_players
            moves = np.diff(seats[:, i]) % num_players
            assert set(moves.tolist()) <= {0, 1}
        else:
            assert set(seats[:, i].tolist()) == set(range(num_players))


def test_forced_decisions_are_kept_nowhere() -> None:
    rows = make().collect(uniform)
    assert (rows.mask.sum(axis=1) >= 2).all()
    chosen = rows.mask[np.arange(len(rows.action)), rows.action]
    assert chosen.all()
    assert (rows.is_bid == (rows.action >= NUM_CARDS)).all()


@pytest.mark.parametrize("teacher", CHOICES["teacher"])
def test_while_imitating_every_seat_plays_as_the_teacher_does(teacher: str) -> None:
    bot = make_bot(teacher)
    rollout = Rollout(pack_rules(RULES), TABLES, STEPS, 11, teacher=bot)
    rows = rollout.collect(None, is_imitating=True)
    rules, tables = rollout.rules, new_tables(1)
    for i in range(TABLES):
        r, t = rules[i % 2], tables[0]
        t.key, t.rules = table_key(np.uint64(11), i), i % 2
        begin_match(r, t, (i // 2) % r.num_rounds, r.num_rounds - 1, -1)
        mask = np.empty(NUM_ACTIONS, np.int8)
        step = 0
        while step < STEPS and t.match == 0:
            action = int(bot.act_rows(rules, tables, np.zeros(1, np.int64))[0])
            if write_mask(r, t, mask) > 1:
                row = step * TABLES + i
                kept = int(rows.action[row])
                if kept < BID_OFFSET:
                    kept = rows.places[row].tolist().index(kept // 13) * 13 + kept % 13
                assert (rows.seat[row], kept) == (t.seat, action)
                step += 1
            if apply_action(r, t, action) and next_round(r, t):
                break
        assert step > 0
    assert rollout.inference_seconds == 0


def test_batches_start_with_rounds_of_every_size() -> None:
    rollout = Rollout(pack_rules([Rules()]), 14, 8, 1)
    assert sorted(rollout.tables["cards"]) == sorted([*range(1, 8)] * 2)


# --- drawing actions --------------------------------------------------------------------------


def drawn(logits: Array, mask: Array, number: int) -> Rows:
    rows = new_rows(number)
    rows.mask[:] = mask
    uniform = np.random.default_rng(3).random(number)
    sample_actions(np.tile(logits, (number, 1)), uniform, rows, 0)
    return rows


def test_actions_are_drawn_by_the_softmax_of_the_legal_logits() -> None:
    logits = np.random.default_rng(0).normal(0, 1, NUM_ACTIONS).astype(np.float32)
    legal = [0, 3, 17, 51, 52, 78]
    mask = np.zeros(NUM_ACTIONS, np.int8)
    mask[legal] = 1
    # An illegal action with a huge logit is no temptation.
    logits[4] = 500
    rows = drawn(logits, mask, 20_000)
    odds = np.exp(logits[legal].astype(np.float64))
    expected = 20_000 * odds / odds.sum()
    counts = np.array([(rows.action == action).sum() for action in legal])
    assert counts.sum() == 20_000
    # The 99.9 % point of chi-square with five degrees of freedom.
    assert ((counts - expected) ** 2 / expected).sum() < 20.5
    for action, share in zip(legal, expected / 20_000, strict=True):
        stored = rows.log_chance[rows.action == action]
        assert stored == pytest.approx(np.log(share), abs=1e-5)


def test_the_ends_of_the_unit_interval_draw_legal_actions() -> None:
    logits = np.zeros((2, NUM_ACTIONS), np.float32)
    logits[:, 9] = -40
    rows = new_rows(2)
    rows.mask[:, [7, 9]] = 1
    sample_actions(logits, np.array([0.0, np.nextafter(1, 0)]), rows, 0)
    assert rows.action[0] == 7
    assert rows.action[1] in (7, 9)


# --- going on ---------------------------------------------------------------------------------


def test_a_saved_rollout_goes_on_exactly() -> None:
    one, other = make(rel=1, share=0.3), make(rel=1, share=0.3)
    one.collect(leaning)
    state = one.get_state()
    expected = [array.copy() for array in one.collect(leaning)]
    other.set_state(state)
    for name, array, here in zip(Rows._fields, expected, other.collect(leaning), strict=True):
        if name not in ("column", "value"):
            assert (array == here).all(), name
    assert (one.tables == other.tables).all()
    for row in range(0, len(expected[0]), 17):
        size = expected[3][row]
        assert (expected[0][row, :size] == other.rows.column[row, :size]).all()
        assert (expected[1][row, :size] == other.rows.value[row, :size]).all()


def test_a_state_of_another_number_of_tables_is_refused() -> None:
    state = Rollout(pack_rules(RULES), 3, 8, 1).get_state()
    with pytest.raises(ValueError, match="3 saved, 7 wanted"):
        make().set_state(state)


def test_tables_of_another_version_are_refused() -> None:
    state = make().get_state()
    state["tables"] = state["tables"][:-8]
    with pytest.raises(ValueError, match=r"another version .*--start"):
        make().set_state(state)


def test_the_same_seed_gives_the_same_batch_and_another_seed_another() -> None:
    batches = [Rollout(pack_rules(RULES), 5, 20, seed).collect(uniform) for seed in (1, 1, 2)]
    assert (batches[0].action == batches[1].action).all()
    assert (batches[0].action != batches[2].action).any()
