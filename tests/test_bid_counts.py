"""How often each bid comes among copies of a bot, and what scoring makes of the bids."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table, make_bot
from judgement_env.bid_counts import BidCounts, compared_cells, count_bids
from judgement_env.bots import Bot
from judgement_env.cli import main
from tests.tables import BID, one_round

SMALL = Rules.preset("kachuful", num_players=3, cards=[3, 2])
MATCHES = 1500


class ByViews(Bot):
    """The heuristic, asked view by view."""

    name = "by-views"

    def __init__(self) -> None:
        self.bot = make_bot("heuristic")
        self.records: list[dict[str, Any]] = []

    def act(self, view: Any) -> int:
        return self.bot.act(view)

    def match_over(self, record: dict[str, Any]) -> None:
        self.records.append(record)


class Wrong(Bot):
    name = "wrong"
    has_rows = True

    def act_rows(self, rules: Any, tables: Any, rows: Any) -> Any:
        return np.full(len(rows), 78)


def test_bids_are_counted_by_cards_and_how_many_are_made() -> None:
    counts = count_bids("heuristic", SMALL, matches=7, seed=4)
    bids = np.zeros((4, 4), int)
    made = np.zeros((4, 4), int)
    bot = make_bot("heuristic")
    for match in range(7):
        table = Table(SMALL, seed=4, table=match)
        while table.seat is not None:
            table.push(bot.act(table.view(table.seat)))
        for played in table.record()["rounds"]:
            for bid, won in zip(played["bids"], played["won"], strict=True):
                bids[played["cards"], bid] += 1
                made[played["cards"], bid] += bid == won
    assert np.array_equal(counts.bids, bids) and np.array_equal(counts.made, made)
    assert counts.cards == [3, 2] and counts.bids.sum() == 7 * 2 * 3
    assert counts.share(3, 1) == bids[3, 1] / 21
    assert counts.mean(2) == (bids[2] @ range(4)) / 21
    assert counts.hit_rate(None) == made.sum() / 42


def test_a_bot_without_rows_is_counted_alike_and_shown_each_match() -> None:
    bot = ByViews()
    by_views = count_bids(bot, SMALL, matches=5, seed=4)
    together = count_bids("heuristic", SMALL, matches=5, seed=4)
    assert np.array_equal(by_views.bids, together.bids)
    assert by_views.bot == "by-views" and len(bot.records) == 5
    assert all(record["seed"] is None for record in bot.records)


def test_an_illegal_action_is_refused() -> None:
    with pytest.raises(ValueError, match="bot wrong: action 78 is not legal"):
        count_bids(Wrong(), SMALL, matches=2)


def test_a_table_shows_each_bid_by_cards(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bids", "heuristic", "--num_players=3", "--cards=3,2", "--matches=7", "--seed=4"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "heuristic among copies of itself, 3 players, 7 matches, 42 bids:" in shown
    lines = [line.split() for line in shown.splitlines() if line.strip()][1:]
    assert lines[0][:3] == ["cards", "bid", "0"] and lines[0][-2:] == ["mean", "made"]
    assert [line[0] for line in lines[1:]] == ["3", "2", "all"]
    assert main([*words, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["format"] == "judgement-bids/1" and plain["cards"] == [3, 2]
    assert [len(row) for row in plain["bids"]] == [4, 3]
    assert sum(map(sum, plain["bids"])) == 42


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["heuristik"], "did you mean 'heuristic'"),
        (["heuristic", "--matches=0"], "matches: 0"),
        (["heuristic", "--seed=-1"], "seed: -1"),
        (["heuristic", "--rules=kachufool"], "rules: 'kachufool'"),
    ],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["bids", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


# --- what scoring makes of the bids -----------------------------------------------------------

BOTS = ["heuristic+", "models/universal"]


def counts_under(bot: str, preset: str, **changes: Any) -> BidCounts:
    return count_bids(bot, Rules.preset(preset, **changes), matches=MATCHES, seed=3)


@pytest.mark.parametrize("bot", BOTS)
def test_where_a_bid_of_nothing_is_worth_nothing_it_is_rare(bot: str) -> None:
    medium = counts_under(bot, "up-and-down", scoring="medium")
    kachuful = counts_under(bot, "kachuful")
    assert medium.share(None, 0) < kachuful.share(None, 0) / 2
    assert medium.share(7, 0) < kachuful.share(7, 0) / 2


@pytest.mark.parametrize("bot", BOTS)
def test_where_points_grow_with_the_bid_higher_bids_are_risked(bot: str) -> None:
    multiplied = counts_under(bot, "kachuful", scoring="multiplied")
    ten_plus = counts_under(bot, "kachuful")
    # Of 42,000 bids a mean is known to about 0.005.
    assert multiplied.mean(None) > ten_plus.mean(None) + 0.05
    for cards in (7, 5, 3):
        assert multiplied.mean(cards) > ten_plus.mean(cards)


@pytest.mark.parametrize("bot", BOTS)
def test_a_hand_that_wins_every_trick_bids_the_sweep(bot: str) -> None:
    mine = [f"{rank}H" for rank in "AKQJT98765"]
    others = [[f"{rank}{suit}" for rank in "23456789TJ"] for suit in "CDS"]
    # The rules of sweep-ten, in its first round.
    rules = {"trumps": ["H"], "sweep_bonus": 10, "cards": [10]}
    table = one_round([others[0], mine, *others[1:]], dealer=0, **rules)
    assert table.rules.points[10, 10, 10] == 120
    assert table.seat == 1
    assert make_bot(bot).act(table.view(1)) == BID + 10


def test_counts_are_set_side_by_side() -> None:
    few = count_bids("heuristic", SMALL, matches=3, seed=4)
    more = count_bids("heuristic", SMALL.replace(cards=[5]), matches=3, seed=4)
    cells = compared_cells([few, more], ["few", "more"])
    assert [row[0] for row in cells] == ["", "few", "more"]
    assert len({len(row) for row in cells}) == 1
