from __future__ import annotations

import doctest
import json
import math
import re
import sys
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, arena, ladder, ladder_result
from judgement_env.arena_result import FIELD, FORMATS, MIXED, ONE, ratio_estimate
from judgement_env.bots import Bot, make_bot
from judgement_env.ladder import Ladder, rank
from judgement_env.view import View
from tests.arena_bots import FixedBot, PlaceBot, ViewBot

SMALL = Rules(num_players=3, cards=[4, 2, 3], trumps=["S", "NT"])


def bid_points(bid: int, won: int, cards: int) -> int:
    return 10 * bid + cards


# A seat's points are known from its bid alone.
KNOWN = Rules(num_players=3, cards=[3, 2, 1], hook=False, scoring=bid_points)


def places(*names: str) -> list[Bot]:
    return [PlaceBot(name) for name in names]


def without_times(found: Ladder) -> dict[str, Any]:
    plain = found.to_dict()
    for bot in plain["bots"]:
        del bot["ms"], bot["play_ms"]
    return plain


# --- figures ----------------------------------------------------------------------------------


def test_its_rows_are_those_of_the_arena_whatever_the_passes() -> None:
    bots = places("lowest", "highest", "other")
    found = rank(bots, SMALL, matches=120, seed=5)
    wanted = arena.compare(bots, SMALL, matches=120, seed=5)
    assert len(ladder.passes(40)) == 3
    assert [row.format for row in found.result.rows] == [row.format for row in wanted.rows]
    for row, other in zip(found.result.rows, wanted.rows, strict=True):
        mine, theirs = row.to_dict(), other.to_dict()
        for name in ("sd", "difference_sd"):
            del mine[name], theirs[name]
        assert mine == theirs


def test_a_standing_is_over_all_opponents_with_each_deal_one_observation() -> None:
    found = rank(places("lowest", "highest", "other"), SMALL, matches=60, seed=5)
    mine = found.standing("lowest", ONE)
    pairs = [found.result.versus("lowest", name) for name in ("highest", "other")]
    assert mine.points == pytest.approx(sum(pair.points for pair in pairs) / 2)
    assert mine.difference == pytest.approx(sum(pair.difference for pair in pairs) / 2)
    assert (mine.deals, mine.matches, mine.rounds) == (20, 120, 360)
    assert mine.opponents == ("highest", "other")
    # By hand, from the same deals played one at a time.
    per_deal = np.zeros(20)
    for number in range(20):
        for pair in ("highest", "other"):
            game = ladder.Game(ONE, [0, 1], np.array([[0, 1, 1]] * 20), 3)
            game.deals = number
            game.play(places("lowest", pair), ["a", "b"], SMALL, 5, number + 1, None)
            per_deal[number] += game.sums[0][0, 0, 1]
    n = np.full(20, 18.0)
    moments = [20, n.sum(), per_deal.sum(), (n * n).sum(), n @ per_deal, per_deal @ per_deal]
    expected = ratio_estimate(moments)
    assert [mine.points, mine.points.low, mine.points.high] == pytest.approx(
        [expected, expected.low, expected.high]
    )


def test_bots_with_known_points_get_exactly_those_and_the_strongest_stands_first() -> None:
    found = rank(places("lowest", "highest"), KNOWN, matches=6)
    alone, field = found.standing("highest", ONE), found.standing("highest", FIELD)
    assert [alone.difference, alone.difference.low, alone.difference.high] == [20, 20, 20]
    assert (field.points, field.win_share, field.seats) == (22, 0.5, 2)
    assert [row.bot for row in found.standings] == ["highest", "lowest"] * 2
    assert [bot.bot for bot in found.bots] == ["highest", "lowest"]


def test_sd_is_one_for_the_run_and_the_unit_of_every_difference_in_sd() -> None:
    found = rank(places("lowest", "highest"), KNOWN, matches=6)
    # In half of the matches one seat of three has 10 * cards more, in the others one has less.
    expected = math.sqrt(1 / 4 * (30**2 + 20**2 + 10**2) / 3)
    assert found.sd == pytest.approx(expected)
    for row in (*found.standings, *found.result.rows):
        assert row.sd == found.sd
        assert row.difference_sd == pytest.approx(row.difference / expected)
        assert row.difference_sd.half_width == pytest.approx(row.difference.half_width / expected)


def test_of_two_players_there_is_one_standing_for_each_bot() -> None:
    rules = Rules(num_players=2, player_range=(2, 4), cards=[3, 2])
    found = rank(places("lowest", "highest", "other"), rules, matches=40)
    assert {row.format for row in found.standings} == {ONE, MIXED}
    mine = found.standing("other", ONE)
    pairs = [found.result.versus("other", name) for name in ("lowest", "highest")]
    assert mine.difference == pytest.approx(sum(pair.difference for pair in pairs) / 2)
    assert mine.matches == 80


def test_all_formats_are_played_and_mixed_tables_seat_the_whole_pool() -> None:
    found = rank(["heuristic", "random", "random"], matches=16, seed=3)
    assert found.result.bots == ("heuristic", "random", "random-2")
    assert {row.format for row in found.standings} == set(FORMATS)
    assert (
        found.standing("heuristic").rounds
        + sum(found.standing(name).rounds for name in ("random", "random-2"))
        == 16 * 7 * 4
    )
    assert found.standing("heuristic").low > 0
    assert found.bots[0].bot == "heuristic"


# --- the same each time -----------------------------------------------------------------------


def test_the_same_seed_gives_the_same_figures_chance_included() -> None:
    first, second, other = (
        rank(["heuristic", "random"], SMALL, matches=120, seed=seed) for seed in (4, 4, 5)
    )
    assert without_times(first) == without_times(second)
    assert without_times(first)["result"]["rows"] != without_times(other)["result"]["rows"]


def test_bots_asked_by_views_give_the_figures_of_lock_step() -> None:
    together = rank(places("lowest", "other"), SMALL, matches=12)
    apart = rank([ViewBot(bot) for bot in places("lowest", "other")], SMALL, matches=12)
    assert without_times(together)["standings"] == without_times(apart)["standings"]


def test_passes_double_up_to_all_deals() -> None:
    assert ladder.passes(1) == [1]
    assert ladder.passes(16) == [16]
    assert ladder.passes(17) == [16, 17]
    assert ladder.passes(100) == [16, 32, 64, 100]


# --- broken off -------------------------------------------------------------------------------


class Stopping(PlaceBot):
    """Ctrl-C comes while it has been asked for so many matches."""

    def __init__(self, name: str, asks: int) -> None:
        super().__init__(name)
        self.asks = asks

    def act_rows(self, rules: Any, tables: Any, rows: Any) -> Any:
        self.asks -= len(rows)
        if self.asks < 0:
            raise KeyboardInterrupt
        return super().act_rows(rules, tables, rows)


def test_an_interrupt_gives_what_is_done_so_far() -> None:
    whole = rank(places("lowest", "highest", "other"), SMALL, matches=48)
    asks = next(bot.decisions for bot in whole.bots if bot.bot == "lowest")
    # Of 120 deals the first 16 of all games are over then, the next 16 of some.
    bots = [Stopping("lowest", asks * 3 // 2), *places("highest", "other")]
    found = rank(bots, SMALL, matches=360)
    assert not found.is_complete
    assert 7 * 48 <= found.matches < found.planned == 7 * 360
    assert {row.deals for row in found.result.rows} <= {16, 32}
    assert f"stopped after {found.matches} of 2,520 matches" in str(found)
    # What is there is what a shorter run gives.
    short = {(row.format, row.bot, row.opponents): row for row in whole.result.rows}
    same = [row for row in found.result.rows if row.deals == 16 and row.format != MIXED]
    assert same
    for row in same:
        assert row.points == short[row.format, row.bot, row.opponents].points


def test_an_interrupt_before_the_first_game_is_over_goes_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        rank([Stopping("lowest", 5), PlaceBot("highest")], SMALL, matches=48)


# --- ratings and times ------------------------------------------------------------------------


def test_without_openskill_there_are_no_ratings_and_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openskill", None)
    monkeypatch.setitem(sys.modules, "openskill.models", None)
    monkeypatch.delitem(sys.modules, "judgement_env.ratings", raising=False)
    found = rank(places("lowest", "highest"), KNOWN, matches=3)
    assert {bot.mu for bot in found.bots} == {None}
    text = str(found)
    assert "No ratings: judgement_env.ratings needs openskill; pip install" in text
    assert len([line for line in text.splitlines() if "openskill" in line]) == 1


def test_ratings_order_bots_as_their_matches_do() -> None:
    pytest.importorskip("openskill")
    found = rank(["random", "heuristic", *places("lowest")], matches=60, seed=2)
    by_name = {bot.bot: bot.mu for bot in found.bots}
    assert by_name["heuristic"] > max(by_name["random"], by_name["lowest"])
    assert all(bot.sigma is not None and 0 < bot.sigma < 25 / 3 for bot in found.bots)


def test_a_bot_that_sits_twice_is_rated_by_the_mean_and_equals_stay_equal() -> None:
    pytest.importorskip("openskill")
    from judgement_env.ratings import Rating, rate

    seating = np.array([[0, 0, 1, 1]] * 8)
    even = np.array([[9, 5, 9, 5]] * 8)
    first, second = rate(2, seating, even)
    assert first.mu == pytest.approx(second.mu)
    better = rate(3, seating, np.array([[9, 8, 2, 1]] * 8))
    assert better[0].mu > 25 > better[1].mu
    assert better[2] == Rating(25.0, 25 / 3)


def test_time_is_of_decisions_with_a_choice() -> None:
    views = ladder.decisions_to_time(SMALL, 1)
    assert len(views) >= ladder.TIMED
    assert all(len(view.legal) > 1 for view in views)
    assert {view.is_bidding for view in views} == {True, False}
    found = rank(places("lowest", "highest"), SMALL, matches=3)
    assert all(bot.ms is not None and bot.ms > 0 for bot in found.bots)
    assert all(bot.play_ms is not None and bot.decisions > 9 for bot in found.bots)


class Sleepless(Bot):
    """Counts how often it is asked."""

    name = "sleepless"
    asked = 0

    def act(self, view: View) -> int:
        self.asked += 1
        return view.legal[0]


def test_a_bid_and_a_card_are_asked_for_before_the_clock_runs() -> None:
    views, bot = ladder.decisions_to_time(SMALL, 1), Sleepless()
    assert ladder.time_alone(bot, views) > 0
    assert bot.asked == len(views) + 2


# --- what is printed --------------------------------------------------------------------------


def test_it_prints_standings_cross_table_and_times() -> None:
    text = str(rank(places("lowest", "highest", "other"), SMALL, matches=12))
    for title in (*ladder_result.TITLES.values(), ladder_result.CROSS_TITLE, "SD of a seat's"):
        assert title in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    start = lines.index(ladder_result.CROSS_TITLE)
    assert lines[start + 1].split() == [
        "alone",
        *[line.split()[0] for line in lines[start + 2 :][:3]],
    ]
    # Nobody plays a field of its own.
    for k, line in enumerate(lines[start + 2 :][:3]):
        cells = re.split(r"\s{2,}", line.strip())
        assert cells[1 + k] == "-"


def test_markdown_has_a_table_for_each_table_of_the_text() -> None:
    found = rank(places("lowest", "highest"), KNOWN, matches=3)
    lines = found.to_markdown().splitlines()
    rules = [line for line in lines if line.startswith("|:---|")]
    assert len(rules) == len([line for line in lines if line.startswith("**")]) == 4
    for line in lines:
        if line.startswith("|"):
            assert line.count("|") in {rule.count("|") for rule in rules}
    assert ladder_result.marked_down([["a"], ["x|y"]]) == ["| a |", "|:---|", "| x\\|y |"]


def test_a_ladder_comes_back_from_json() -> None:
    found = rank(["heuristic", "random"], SMALL, matches=6)
    again = Ladder.from_dict(json.loads(found.to_json()))
    assert again.to_dict() == found.to_dict()
    assert str(again) == str(found)
    with pytest.raises(ValueError, match=r"^format: 'other' \(allowed: judgement-ladder/1\)$"):
        Ladder.from_dict({"format": "other"})


def test_a_standing_that_is_not_there_is_refused_by_name() -> None:
    found = rank(places("lowest", "highest"), KNOWN, matches=3)
    with pytest.raises(ValueError, match=r"^standing: 'nobody mixed' \(allowed: highest one-"):
        found.standing("nobody")


# --- what goes in -----------------------------------------------------------------------------


def test_the_pool_is_every_bot_and_model_of_the_package() -> None:
    pool = ladder.default_pool()
    assert pool[:2] == ["random", "heuristic"]
    assert "models/kachuful" in pool
    for spec in pool:
        make_bot(spec).close()


@pytest.mark.parametrize(
    ("bots", "options", "message"),
    [
        (["random"], {}, r"^bots: \['random'\] \(allowed: a list of two bots or more\)$"),
        ("random", {}, r"^bots: 'random' \(allowed: a list"),
        (["random", "nobody"], {}, "^bot: 'nobody'"),
        (["random", "random"], {"matches": 0}, r"^matches: 0 \(allowed: a whole number from 1"),
        (["random", "random"], {"seed": -1}, "^seed: -1"),
        (["random", "random"], {"rules": "poker"}, "poker"),
    ],
)
def test_what_cannot_be_ranked_is_refused(bots: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rank(bots, **options)


def test_a_bot_that_breaks_the_rules_is_named() -> None:
    with pytest.raises(ValueError, match="^bot fixed: "):
        rank([FixedBot(78, has_rows=True), PlaceBot("lowest")], SMALL, matches=3)


def test_progress_counts_all_that_is_played() -> None:
    seen: list[tuple[int, int | None]] = []
    found = rank(
        places("lowest", "highest"),
        SMALL,
        matches=60,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (found.planned, found.planned) == (found.matches, 2 * 60)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_the_examples_in_the_docstrings_run() -> None:
    for module in (ladder, ladder_result):
        assert doctest.testmod(module).failed == 0
