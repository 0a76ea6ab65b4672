"""Points under every scheme: the figures of the rule sources, tables and functions of one's own."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules
from judgement_env.scoring import SCHEMES, points_table


def points(rules: Rules, bid: int, won: int, cards: int) -> int:
    return int(rules.points[cards, bid, won])


def own_points(bid: int, won: int, cards: int) -> int:
    return 3 * bid + cards if bid == won else -won


def test_kachuful_scores_its_table_of_examples() -> None:
    rules = Rules.preset("kachuful")
    examples = [(0, 0, 10), (2, 2, 12), (4, 4, 14), (4, 3, 0), (1, 2, 0), (7, 7, 17)]
    assert [points(rules, bid, won, 7) for bid, won, _ in examples] == [p for *_, p in examples]


@pytest.mark.parametrize("name", ["sweep-ten", "sweep-ten-anticlockwise"])
def test_a_sweep_is_worth_120_then_76_then_21(name: str) -> None:
    rules = Rules.preset(name)
    assert points(rules, 10, 10, 10) == 120
    assert (rules.schedule[4].cards, points(rules, 6, 6, 6)) == (6, 76)
    assert points(rules, 1, 1, 1) == 21


def test_sweep_ten_scores_10_for_a_made_0_13_for_a_made_3_and_0_for_a_miss() -> None:
    rules = Rules.preset("sweep-ten")
    assert [points(rules, 0, 0, 10), points(rules, 3, 3, 10)] == [10, 13]
    assert [points(rules, 3, 2, 10), points(rules, 3, 4, 10)] == [0, 0]
    assert points(rules, 10, 9, 10) == 0


def test_blind_eight_scores_10_for_0_and_1_and_10_a_trick_from_2() -> None:
    rules = Rules.preset("blind-eight")
    assert [points(rules, bid, bid, 7) for bid in range(8)] == [10, 10, 20, 30, 40, 50, 60, 70]
    assert points(rules, 4, 3, 7) == points(rules, 4, 5, 7) == points(rules, 0, 1, 7) == 0


def test_high_wins_or_loses_32_for_a_bid_of_2() -> None:
    rules = Rules.preset("up-and-down")
    assert (points(rules, 2, 2, 7), points(rules, 2, 3, 7), points(rules, 2, 0, 7)) == (
        32,
        -32,
        -32,
    )
    assert (points(rules, 0, 0, 7), points(rules, 0, 1, 7)) == (10, -10)


def test_medium_gives_10_a_trick_so_0_for_a_made_0() -> None:
    rules = Rules.preset("up-and-down", scoring="medium")
    assert [points(rules, bid, bid, 7) for bid in (0, 1, 2, 7)] == [0, 10, 20, 70]
    assert points(rules, 2, 3, 7) == 0


def test_low_gives_twice_the_bid_and_5() -> None:
    rules = Rules.preset("up-and-down", scoring="low")
    assert [points(rules, bid, bid, 7) for bid in (0, 1, 2, 7)] == [5, 7, 9, 19]
    assert points(rules, 2, 3, 7) == 0


def test_oh_hell_gives_1_a_trick_and_10_more_when_exact() -> None:
    rules = Rules.preset("oh-hell")
    assert [points(rules, 0, 0, 7), points(rules, 3, 3, 7), points(rules, 3, 5, 7)] == [10, 13, 5]


def test_multiplied_penalty_takes_10_for_every_trick_over_or_under() -> None:
    rules = Rules.preset("kachuful", scoring="multiplied-penalty")
    assert [points(rules, 0, 0, 7), points(rules, 3, 3, 7)] == [10, 30]
    assert [points(rules, 3, won, 7) for won in (0, 2, 4, 7)] == [-30, -10, -10, -40]
    assert points(rules, 0, 2, 7) == -20


@pytest.mark.parametrize("scoring", [*SCHEMES, own_points])
def test_a_sweep_bonus_adds_to_any_scheme_only_where_every_trick_is_bid_and_won(
    scoring: Any,
) -> None:
    plain = points_table(scoring, 0, 6)
    raised = points_table(scoring, 7, 6)
    cards, bid, won = np.nonzero(raised - plain)
    assert cards.tolist() == bid.tolist() == won.tolist() == [1, 2, 3, 4, 5, 6]
    assert [int((raised - plain)[c, c, c]) for c in range(1, 7)] == [7 * c for c in range(1, 7)]


@pytest.mark.parametrize("scoring", SCHEMES)
def test_points_are_a_read_only_int32_table_that_is_0_where_nothing_can_happen(
    scoring: str,
) -> None:
    table = Rules.preset("kachuful", scoring=scoring).points
    assert table.shape == (8, 8, 8)
    assert table.dtype == np.dtype(np.int32)
    cards, bid, won = np.indices(table.shape)
    assert not table[(bid > cards) | (won > cards)].any()
    with pytest.raises(ValueError, match="read-only"):
        table[1, 1, 1] = 5


def test_a_scoring_function_becomes_its_table() -> None:
    rules = Rules.preset("kachuful", scoring=own_points)
    assert isinstance(rules.scoring, tuple) and len(rules.scoring) == 8
    assert [len(rows or ()) for rows in rules.scoring] == [0, 2, 3, 4, 5, 6, 7, 8]
    assert points(rules, 2, 2, 5) == 11
    assert points(rules, 2, 4, 5) == -4
    table = [[[own_points(b, w, c) for w in range(8)] for b in range(8)] for c in range(8)]
    assert Rules.preset("kachuful", scoring=table) == rules
    assert Rules.preset("kachuful", scoring=np.array(table)) == rules
    assert Rules.from_dict(json.loads(json.dumps(rules.to_dict()))) == rules


def test_a_scoring_table_may_leave_out_sizes_that_are_not_played() -> None:
    table = [None, [[5, -5], [-5, 6]], [], [[1] * 4] * 4]
    rules = Rules(cards=[3, 1], scoring=table)
    assert (points(rules, 1, 1, 1), points(rules, 3, 0, 3), points(rules, 2, 2, 2)) == (6, 1, 0)


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ("hihg", r"scoring: 'hihg' .*ten-plus, .*did you mean 'high'"),
        (7, r"scoring: 7 .*allowed: ten-plus"),
        (None, r"scoring: None .*allowed"),
        (True, r"scoring: True .*allowed"),
        ({}, r"scoring: \{\} .*allowed"),
        ([], r"no entry for hands of 1 cards .*covers the sizes \[1, 2\]"),
        ([[], [[1, 1], [1, 1]]], r"no entry for hands of 2 cards"),
        ([[], [[1, 1]], []], r"1 bids .* hands of 1 cards .*at least 2"),
        ([[], [[1], [1, 1]]], r"1 entries in the row of bid 0 .* 1 cards"),
        ([[], [[1, 0.5], [1, 1]]], r"scoring: 0.5 for bid 0, won 1, cards 1 .*-1000000 to 1000000"),
        ([[], [[1, "a"], [1, 1]]], r"scoring: 'a' for bid 0, won 1"),
        ([[], [[1, float("nan")], [1, 1]]], r"scoring: nan for bid 0, won 1"),
        ([[], [[1, float("inf")], [1, 1]]], r"scoring: inf for"),
        ([[], [[1, True], [1, 1]]], r"scoring: True for"),
        ([[], [[1, None], [1, 1]]], r"scoring: None for"),
        ([[], [[1, 1_000_001], [1, 1]]], r"scoring: 1000001 for"),
        ([[], 5], r"scoring: 5 inside the table .*\[cards\]\[bid\]\[won\]"),
        (lambda bid, won, cards: 1 / 3, r"scoring: 0.333.* for bid 0, won 0, cards 1"),
        (lambda bid, won, cards: bid == won, r"scoring: True for bid 0"),
        (lambda bid, won, cards: -1_000_001, r"scoring: -1000001 for"),
        (lambda bid, won, cards: 1 // (bid - won), r"function failed for bid 0, won 0, cards 1"),
        (lambda bid: bid, r"function failed for .*function of \(bid, won, cards\)"),
    ],
)
def test_points_that_are_no_whole_numbers_for_every_hand_are_refused(
    scoring: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Rules(cards=[2, 1], scoring=scoring)


def test_a_bonus_may_not_lift_points_over_the_limit() -> None:
    with pytest.raises(ValueError, match=r"scoring: 1000002 for bid 1, won 1, cards 1"):
        Rules(cards=[1], scoring=lambda bid, won, cards: 1_000_000, sweep_bonus=2)
