from __future__ import annotations

import doctest
import json
import math
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table, arena
from judgement_env.arena_play import rotate
from judgement_env.arena_result import Estimate, Result, ratio_estimate, t_quantile
from judgement_env.bots import Bot, make_bot
from tests.arena_bots import FixedBot, PlaceBot, ViewBot

# Three sizes, three seats: nothing is equal to anything by chance.
SMALL = Rules(num_players=3, cards=[4, 2, 3], trumps=["S", "NT"])


def bid_points(bid: int, won: int, cards: int) -> int:
    return 10 * bid + cards


# A seat's points are known from its bid alone.
KNOWN = Rules(num_players=3, cards=[3, 2, 1], hook=False, scoring=bid_points)


# --- known figures ----------------------------------------------------------------------------


def test_bots_with_known_points_give_exactly_those() -> None:
    result = arena.compare([PlaceBot("lowest"), PlaceBot("highest")], KNOWN, matches=7)
    low = result.versus("lowest", "highest")
    high = result.versus("highest", "lowest")
    assert [low.points, low.points.low, low.points.high] == [2, 2, 2]
    assert [high.points, high.points.low, high.points.high] == [22, 22, 22]
    assert [low.difference, low.low, low.high] == [-20, -20, -20]
    assert [low.win_share, high.win_share] == [0.0, 1.0]
    field = result.versus("highest", "lowest", format="field-versus-one")
    assert [field.points, field.difference, field.win_share] == [22, 20, 0.5]
    assert (field.seats, field.rounds) == (2, 9 * 3 * 2)


def test_matches_are_rounded_up_to_every_seat_of_each_deal() -> None:
    result = arena.compare([PlaceBot("lowest"), PlaceBot("highest")], KNOWN, matches=7)
    row = result.versus("lowest", "highest")
    assert (result.matches, result.deals) == (9, 3)
    assert (row.matches, row.deals, row.rounds, row.seats) == (9, 3, 27, 1)


def test_figures_by_cards_are_those_of_rounds_of_that_size() -> None:
    result = arena.compare([PlaceBot("lowest"), PlaceBot("highest")], KNOWN, matches=3)
    sizes = result.versus("highest", "lowest").by_cards
    assert [(s.cards, s.rounds, float(s.points)) for s in sizes] == [
        (3, 3, 33.0),
        (2, 3, 22.0),
        (1, 3, 11.0),
    ]
    assert [float(s.difference) for s in sizes] == [30.0, 20.0, 10.0]


def test_sd_is_of_points_about_the_mean_of_their_hand_size() -> None:
    # One seat of three has 10 * cards more: its variance among them is 2/9 of that squared.
    row = arena.compare([PlaceBot("lowest"), PlaceBot("highest")], KNOWN, matches=3).versus(
        "highest", "lowest"
    )
    expected = math.sqrt(2 / 9 * (30**2 + 20**2 + 10**2) / 3)
    assert row.sd == pytest.approx(expected)
    assert row.difference_sd == pytest.approx(20 / expected)
    assert row.by_cards[0].sd == pytest.approx(30 * math.sqrt(2 / 9))


def test_a_shared_win_is_split() -> None:
    rules = Rules(num_players=3, cards=[1], scoring=lambda bid, won, cards: 5)
    row = arena.compare([PlaceBot("lowest"), PlaceBot("highest")], rules, matches=30).rows[0]
    assert (row.win_share, row.win_share.low, row.win_share.high) == pytest.approx((1 / 3,) * 3)


# --- fairness ---------------------------------------------------------------------------------


def test_equal_bots_that_draw_nothing_differ_by_exactly_nothing() -> None:
    row = arena.compare(["heuristic", "heuristic"], SMALL, matches=60).rows[0]
    assert [row.difference, row.low, row.high] == [0, 0, 0]
    assert row.win_share == pytest.approx(1 / 3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_interval_of_equal_bots_holds_nothing(seed: int) -> None:
    result = arena.compare(["random", "random"], SMALL, matches=900, seed=seed)
    row = result.versus("random", "random-2")
    assert row.low < 0 < row.high
    assert row.high - row.low < 2
    assert row.win_share.low < 1 / 3 < row.win_share.high


def test_one_against_a_field_is_the_field_against_one_seen_from_the_other_side() -> None:
    result = arena.compare(["heuristic", "random"], SMALL, matches=300)
    one = result.versus("heuristic", "random")
    field = result.versus("random", "heuristic", format="field-versus-one")
    assert one.difference == pytest.approx(-field.difference, abs=1e-12)
    assert one.low == pytest.approx(-field.high, abs=1e-12)
    assert one.win_share + 2 * field.win_share == pytest.approx(1)


def test_every_place_of_a_line_up_sits_once_in_every_seat() -> None:
    seating = rotate(np.array([[0, 1, 2, 3, 4], [4, 4, 0, 1, 2]]))
    assert seating.shape == (10, 5)
    for seat in range(5):
        assert sorted(seating[:5, seat]) == [0, 1, 2, 3, 4]
        assert sorted(seating[5:, seat]) == [0, 1, 2, 4, 4]
    # Who follows whom does not change.
    assert all({(a, (a + 1) % 5) for a, _ in pairwise(row)} for row in seating[:5].tolist())
    assert all((row[(s + 1) % 5] - row[s]) % 5 == 1 for row in seating[:5] for s in range(5))


def test_a_deal_is_the_same_from_every_seat_and_in_every_format() -> None:
    bots = [ViewBot(PlaceBot("lowest")), ViewBot(PlaceBot("highest"))]
    arena.compare(bots, SMALL, matches=6, seed=9)
    records = bots[0].records
    assert len(records) == 2 * 6
    for table in (0, 1):
        same = [record for record in records if record["table"] == table]
        dealt = Table(SMALL, 9, table=table).record()["rounds"][0]
        assert len(same) == 6
        assert all(record["rounds"][0]["hands"] == dealt["hands"] for record in same)
        assert {record["rounds"][0]["dealer"] for record in same} == {dealt["dealer"]}
        places = [record["players"].index("lowest") for record in same[:3]]
        assert sorted(places) == [0, 1, 2]


def test_mixed_tables_seat_every_bot_as_often_as_every_other() -> None:
    lineups = arena.mixed_lineups(3, 4, 30, seed=5)
    assert np.bincount(lineups.ravel()).tolist() == [40, 40, 40]
    per_table = np.array([np.bincount(line, minlength=3) for line in lineups])
    assert set(np.unique(per_table)) == {1, 2}
    many = arena.mixed_lineups(7, 3, 70, seed=5)
    assert np.bincount(many.ravel()).tolist() == [30] * 7
    assert all(len(set(line)) == 3 for line in many.tolist())


def test_mixed_tables_are_balanced_in_their_differences() -> None:
    result = arena.compare(["heuristic", "random", PlaceBot("other")], SMALL, matches=60)
    rows = [result.mixed(name) for name in result.bots]
    assert sum(row.difference * row.deals for row in rows) == pytest.approx(0, abs=1e-9)
    assert sum(row.win_share for row in rows) == pytest.approx(1)


# --- the ways of play agree -------------------------------------------------------------------

RULES = {
    "small": SMALL,
    "blind": Rules.preset("blind-eight", num_players=3),
    "turned-up": Rules.preset("oh-hell", num_players=5, top=4),
    "two-packs": Rules(num_players=3, cards=[3, 2], packs=2, direction="anticlockwise"),
    "simultaneous": Rules(num_players=4, cards=[3, 1], bidding="simultaneous", hook=False),
    "two-players": Rules(num_players=2, player_range=(2, 10), cards=[3, 2]),
}


@pytest.mark.parametrize("name", RULES)
def test_lock_step_and_views_give_the_same_figures(name: str) -> None:
    bots: list[Bot] = [PlaceBot("other"), make_bot("heuristic"), PlaceBot("highest")]
    together = arena.compare(bots, RULES[name], matches=8, seed=3)
    by_views = arena.compare([ViewBot(bot) for bot in bots], RULES[name], matches=8, seed=3)
    assert by_views.to_json() == together.to_json()
    assert len({row.points for row in together.rows}) > 3


def test_neither_the_block_nor_a_second_run_changes_a_digit() -> None:
    bots: list[str | Bot] = ["heuristic", PlaceBot("other"), PlaceBot("lowest")]
    first = arena.compare(bots, SMALL, matches=90)
    for block in (1, 7, 24):
        assert arena.compare(bots, SMALL, matches=90, block=block).to_json() == first.to_json()
    assert arena.compare(bots, SMALL, matches=90, seed=2).to_json() != first.to_json()
    for row in arena.compare(bots, SMALL, matches=90, block=7).rows:
        assert [vars(row.difference), row.win_share] in [
            [vars(other.difference), other.win_share] for other in first.rows
        ]


def test_bots_asked_by_views_are_told_of_each_match_once_and_not_of_its_seed() -> None:
    bots = [ViewBot(PlaceBot("lowest")), ViewBot(PlaceBot("highest"))]
    arena.compare(bots, SMALL, matches=6, formats="one-versus-field")
    for bot in bots:
        assert len(bot.records) == 12
        assert {record["seed"] for record in bot.records} == {None}
        assert all(record["winners"] for record in bot.records)


def test_a_bot_that_sat_nowhere_has_no_figures() -> None:
    bots = ["heuristic", "heuristic+", "random", PlaceBot("lowest")]
    result = arena.compare(bots, Rules(num_players=3, cards=[1]), matches=1, formats="mixed")
    lines = [line for line in str(result).splitlines() if " 3 others " in line]
    assert sum(line.split()[-5:] == ["-"] * 5 for line in lines) == 1, result
    assert "nan" not in str(result)


def test_one_versus_field_is_the_row_that_compare_gives() -> None:
    row = arena.one_versus_field(PlaceBot("other"), make_bot("heuristic"), SMALL, 20, seed=4)
    result = arena.compare([PlaceBot("other"), "heuristic"], SMALL, matches=20, seed=4)
    assert row == result.versus("other", "heuristic")
    assert row.matches == 21


# --- intervals --------------------------------------------------------------------------------


def play_deal(bots: list[Bot], seats: list[int], seed: int, deal: int) -> list[list[int]]:
    """Points by round and seat of one match, played without the arena."""
    table = Table(SMALL, seed, table=deal)
    rounds = []
    while not table.is_over:
        seat = table.seat
        assert seat is not None
        if table.push(bots[seats[seat]].act(table.view(seat))):
            rounds.append(list(table.last_points or ()))
    return rounds


def test_the_interval_is_that_of_the_means_of_the_deals() -> None:
    bots: list[Bot] = [make_bot("heuristic"), PlaceBot("other")]
    means = []
    for deal in range(20):
        differences = []
        for seat in range(3):
            seats = [0 if s == seat else 1 for s in range(3)]
            for points in play_deal(bots, seats, 6, deal):
                others = [p for s, p in enumerate(points) if s != seat]
                differences.append(points[seat] - np.mean(others))
        means.append(np.mean(differences))
    half = 2.093 * np.std(means, ddof=1) / math.sqrt(20)
    row = arena.compare(bots, SMALL, matches=60, seed=6).versus("heuristic", "other")
    assert row.difference == pytest.approx(np.mean(means), abs=1e-12)
    assert row.difference.half_width == pytest.approx(half, rel=1e-4)


def test_deals_of_unequal_weight_are_weighed_by_what_they_hold() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 4, 50) * 3.0
    y = n * rng.normal(2, 1, 50)
    moments = [50, n.sum(), y.sum(), n @ n, n @ y, y @ y]
    estimate = ratio_estimate(moments)
    mean = sum(y) / sum(n)
    residuals = [a - mean * b for a, b in zip(y, n, strict=True)]
    error = math.sqrt(50 / 49 * sum(r * r for r in residuals)) / sum(n)
    assert estimate == pytest.approx(mean)
    assert estimate.half_width == pytest.approx(2.00958 * error, rel=1e-4)
    # And that is what drawing deals again and again gives.
    picks = rng.integers(0, 50, (4000, 50))
    spread = (y[picks].sum(axis=1) / n[picks].sum(axis=1)).std()
    assert error == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (30, 2.042), (1000, 1.962)]
)
def test_the_quantile_is_students(degrees: int, t: float) -> None:
    assert t_quantile(degrees) == pytest.approx(t, rel=2e-3)


def test_95_of_100_intervals_hold_the_truth() -> None:
    # Bots that draw by lot all alike: the truth is 0.
    rules = Rules(num_players=3, cards=[2])
    results = [arena.compare(["random", "random"], rules, matches=90, seed=s) for s in range(200)]
    held = sum(row.low <= 0 <= row.high for row in (result.rows[0] for result in results))
    assert 181 <= held <= 198


def test_one_deal_leaves_the_interval_open() -> None:
    result = arena.compare(["heuristic", "random"], SMALL, matches=1)
    row = result.rows[0]
    assert (row.deals, row.low, row.high) == (1, -math.inf, math.inf)
    plain = json.loads(result.to_json())["rows"][0]["difference"]
    assert (plain["low"], plain["high"]) == (None, None)
    assert vars(row.hit_rate) == {"low": -math.inf, "high": math.inf}
    assert str(result).count("±?") == 4 * len(result.rows)


def test_an_estimate_is_a_number_that_survives_pickling() -> None:
    estimate = pickle.loads(pickle.dumps(Estimate(0.5, 0.25, 1.5)))
    assert (estimate, estimate.low, estimate.high, estimate.half_width) == (0.5, 0.25, 1.5, 1.0)
    assert f"{estimate:+.1f}" == "+0.5"
    assert vars(estimate.scaled(2)) == {"low": 0.5, "high": 3.0}
    assert vars(estimate.within(0, 1)) == {"low": 0.25, "high": 1.0}
    assert Estimate(0.1, -0.1, 0.3).within(0, 1).half_width == 0.2


# --- the result -------------------------------------------------------------------------------


def test_a_result_comes_back_from_json() -> None:
    result = arena.compare(["heuristic", "random", "heuristic"], SMALL, matches=30)
    plain = json.loads(result.to_json())
    again = Result.from_dict(plain)
    assert again.to_dict() == plain == result.to_dict()
    assert str(again) == str(result)
    assert (plain["env_version"], plain["seed"], plain["matches"]) == (result.env_version, 1, 30)
    assert Rules.from_dict(plain["rules"]) == SMALL
    assert plain["bots"] == ["heuristic", "random", "heuristic-2"]
    # Six ordered pairs seen from both sides, and three bots at mixed tables.
    assert len(plain["rows"]) == 6 * 2 + 3


def test_a_result_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match=r"format: 'elo/3' \(allowed: judgement-arena/1\)"):
        Result.from_dict({"format": "elo/3"})


def test_a_result_finds_its_rows_by_name() -> None:
    result = arena.compare(["heuristic", "random"], SMALL, matches=3)
    with pytest.raises(ValueError, match="bot: 'search' .allowed: heuristic, random."):
        result.versus("search", "random")
    with pytest.raises(ValueError, match="heuristic has no row of 'mixed'"):
        result.mixed("heuristic")


def test_the_printed_table_is_aligned_and_fits_a_terminal() -> None:
    bots: list[str | Bot] = ["heuristic", PlaceBot("runs/a/long/path/to/some/checkpoint"), "random"]
    text = str(arena.compare(bots, "sweep-ten", matches=40))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert text.count("wins %\n") == 3
    assert "path/to/some/checkpoint" not in text
    assert "…some/checkpoint" in text
    head = next(k for k, line in enumerate(lines) if line.startswith("One seat")) + 1
    ends = {len(line) for line in lines[head : head + 7]}
    assert len(ends) == 1


@pytest.mark.parametrize(
    ("rules", "count"), [(SMALL, 0), (Rules(cards=[2]), 2), (RULES["two-players"], 0)]
)
def test_two_bots_meet_half_and_half_where_there_are_seats_for_it(rules: Rules, count: int) -> None:
    result = arena.compare(["heuristic", "random"], rules, matches=8)
    assert sum(row.format == "mixed" for row in result.rows) == count
    if count:
        assert result.mixed("random").seats == 2


def test_of_two_players_each_is_alone_in_the_same_matches() -> None:
    result = arena.compare(["heuristic", "random"], RULES["two-players"], matches=8)
    first, second = result.rows
    assert (first.format, second.format) == ("one-versus-field", "one-versus-field")
    assert first.difference == -second.difference


def test_only_first_leaves_out_what_does_not_concern_it() -> None:
    bots: list[str | Bot] = ["heuristic", "random", PlaceBot("lowest")]
    full = arena.compare(bots, SMALL, matches=9)
    part = arena.compare(bots, SMALL, matches=9, only_first=True)
    assert [(r.format, r.bot, r.opponents) for r in part.rows] == [
        ("one-versus-field", "heuristic", ("random",)),
        ("one-versus-field", "heuristic", ("lowest",)),
        ("field-versus-one", "heuristic", ("random",)),
        ("field-versus-one", "heuristic", ("lowest",)),
        ("mixed", "heuristic", ("random", "lowest")),
        ("mixed", "random", ("heuristic", "lowest")),
        ("mixed", "lowest", ("heuristic", "random")),
    ]
    assert part.versus("heuristic", "lowest") == full.versus("heuristic", "lowest")


def test_progress_counts_all_that_is_played() -> None:
    seen: list[tuple[int, int]] = []
    arena.compare(
        ["heuristic", "random"], SMALL, matches=12, block=6, progress=lambda *now: seen.append(now)
    )
    assert seen == [(6, 24), (12, 24), (18, 24), (24, 24)]


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bots", "options", "message"),
    [
        (["heuristic"], {}, "bots: .*allowed: a list of two bots or more"),
        ("heuristic", {}, "bots: 'heuristic' .*two bots or more"),
        (["heuristic", "random"], {"matches": 0}, "matches: 0 .allowed: a whole number from 1"),
        (["heuristic", "random"], {"matches": 1.5}, "matches: 1.5 "),
        (["heuristic", "random"], {"seed": -1}, "seed: -1 .allowed: a whole number from 0"),
        (["heuristic", "random"], {"block": 0}, "block: 0 "),
        (["heuristic", "random"], {"num_players": 9}, "num_players: 9 "),
        (["heuristic", "random"], {"formats": ["elo"]}, "formats: 'elo' .allowed: one-versus"),
        (["heuristic", "heuristik"], {}, "bot: 'heuristik'.*did you mean 'heuristic'"),
    ],
)
def test_what_cannot_be_compared_is_refused(bots: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arena.compare(bots, **options)


@pytest.mark.parametrize("has_rows", [True, False])
def test_a_bot_that_breaks_the_rules_is_named(has_rows: bool) -> None:
    with pytest.raises(ValueError, match="bot fixed: .*play AS|bot fixed: AS is not legal"):
        arena.compare([FixedBot(51, has_rows), "heuristic"], SMALL, matches=3)


@pytest.mark.parametrize("answer", [0.5, [1, 2]])
def test_a_bot_that_answers_no_whole_numbers_is_named(answer: Any) -> None:
    bot = FixedBot(0, True)
    bot.act_rows = lambda rules, tables, rows: np.asarray(answer)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="bot fixed: act_rows gave .* whole numbers of shape"):
        arena.compare([bot, "heuristic"], SMALL, matches=3)


def test_bots_made_from_a_text_are_closed_and_given_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(Bot, "close", lambda bot: closed.append(bot.name))
    arena.compare(["heuristic", PlaceBot("lowest")], SMALL, matches=3)
    assert closed == ["heuristic"]


def test_the_page_on_evaluation_runs() -> None:
    page = Path(__file__).parent.parent / "docs" / "evaluation.md"
    done = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert done.attempted >= 8
    assert done.failed == 0
