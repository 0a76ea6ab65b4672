"""Bots that look ahead: fair, the same from a view as from the table, right where it is sure."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table, arena, make_bot
from judgement_env._jit import njit
from judgement_env.bots import Bot
from judgement_env.bots.beliefs import (
    NUM_WORK,
    PLAYED,
    WORLD,
    begin_worlds,
    fits_bids,
    imagine,
    is_certain,
    roll_out,
)
from judgement_env.bots.ismcts import NODE_RECORD, IsmctsBot, add_node, is_decided, open_choices
from judgement_env.bots.rule_player import heuristic_action
from judgement_env.bots.search import SearchBot, merge_equals
from judgement_env.bots.simple import HeuristicBot
from judgement_env.cards import NONE
from judgement_env.engine import apply_action, write_mask
from judgement_env.observation import unseen_words
from judgement_env.sampler import WORLDS_RECORD
from judgement_env.state import Array, Bits, new_tables
from judgement_env.testing import check_bot
from tests.positions import RULE_SETS, positions
from tests.tables import bid, card, one_round, play, text


def bots() -> list[Bot]:
    return [SearchBot(seed=3, worlds=6), IsmctsBot(seed=3, iterations=40)]


# --- what every bot keeps to ------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["search:worlds=3", "ismcts:iterations=8"])
def test_it_keeps_to_all_that_bots_keep_to(spec: str) -> None:
    assert len(check_bot(spec, positions=2)) > 8


@pytest.mark.parametrize("bot", bots(), ids=lambda bot: bot.name)
def test_it_answers_from_a_view_as_from_the_whole_table(bot: Bot) -> None:
    compared = 0
    for number, rules in enumerate(RULE_SETS):
        table = Table(rules, seed=number)
        rng = np.random.default_rng(number)
        for _ in range(24):
            if table.is_over:
                break
            if rng.random() < 0.5:
                rows = np.zeros(1, np.int64)
                whole = bot.act_rows(table.rules_array, table.tables_array, rows)
                assert bot.act(table.view(table.seat or 0)) == whole[0]
                compared += 1
            table.push(int(rng.choice(table.legal())))
    assert compared > 100


@pytest.mark.parametrize("bot", bots(), ids=lambda bot: bot.name)
def test_a_row_does_not_depend_on_the_others(bot: Bot) -> None:
    rules, tables, *_ = positions(90, seed=4)
    rows = np.flatnonzero(tables["seat"] >= 0)
    together = bot.act_rows(rules, tables, rows)
    alone = [bot.act_rows(rules, tables, rows[k : k + 1])[0] for k in range(0, len(rows), 7)]
    assert together[::7].tolist() == alone
    assert bot.act_rows(rules, tables, rows[::-1])[::-1].tolist() == together.tolist()


@pytest.mark.parametrize("kind", [SearchBot, IsmctsBot])
def test_equal_seeds_give_equal_answers_and_others_other_ones(kind: type[Any]) -> None:
    rules, tables, *_ = positions(200, seed=5)
    rows = np.flatnonzero(tables["seat"] >= 0)
    first, again, other = (
        kind(seed, 4).act_rows(rules, tables, rows).tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_make_bot_knows_them_and_their_options() -> None:
    search, ismcts = make_bot("search:worlds=7", seed=5), make_bot("ismcts", iterations=9)
    assert isinstance(search, SearchBot)
    assert (search.worlds, int(search.seed)) == (7, 5)
    assert isinstance(ismcts, IsmctsBot)
    assert ismcts.iterations == 9
    assert make_bot("search").worlds == 40  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"option 'depth' of 'search' \(allowed: worlds, exact\)"):
        make_bot("search:depth=3")
    assert (search.exact, ismcts.exact) == (1, 2)
    assert make_bot("search:exact=2").exact == 2  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"exact: 3 \(allowed: a whole number from 1 to 2\)"):
        make_bot("ismcts:exact=3")
    with pytest.raises(ValueError, match=r"worlds: 0 \(allowed: a whole number from 1 to"):
        make_bot("search:worlds=0")
    with pytest.raises(ValueError, match=r"iterations: 2.5 \(allowed: a whole number"):
        make_bot("ismcts:iterations=2.5")
    with pytest.raises(ValueError, match=r"seed: -1 \(allowed: a whole number from 0"):
        make_bot("search", seed=-1)


# --- sure cases -------------------------------------------------------------------------------

SURE = [SearchBot(seed=1, worlds=40), IsmctsBot(seed=1, iterations=400)]


@pytest.mark.parametrize("bot", SURE, ids=lambda bot: bot.name)
def test_three_highest_trumps_bid_three(bot: Bot) -> None:
    hands = [["2C", "3C", "4C"], ["AS", "KS", "QS"], ["2D", "3D", "4D"], ["2H", "3H", "4H"]]
    table = one_round(hands, dealer=0)
    assert bot.act(table.view(1)) == 52 + 3


@pytest.mark.parametrize("bot", SURE, ids=lambda bot: bot.name)
def test_who_needs_every_trick_leads_the_highest_trump(bot: Bot) -> None:
    hands = [
        ["2C", "3C", "4C", "5C"],
        ["AS", "KS", "QS", "4S"],
        ["2D", "3D", "4D", "5D"],
        ["2H", "3H", "4H", "5H"],
    ]
    table = one_round(hands, dealer=0)
    bid(table, 4, 0, 0, 1)
    assert text(bot.act(table.view(1))) in ("AS", "KS", "QS")


@pytest.mark.parametrize("bot", SURE, ids=lambda bot: bot.name)
def test_the_last_to_play_takes_the_trick_it_needs_and_leaves_the_one_it_does_not(bot: Bot) -> None:
    hands = [["AH", "2H"], ["5H", "2C"], ["6H", "3C"], ["7H", "4C"]]
    table = one_round(hands, dealer=0)
    bid(table, 0, 0, 0, 1)
    play(table, "5H", "6H", "7H")
    assert text(bot.act(table.view(0))) == "AH"
    table = one_round(hands, dealer=0)
    bid(table, 0, 0, 1, 0)
    play(table, "5H", "6H", "7H")
    # The ace falls to nobody later: hearts led again would have to be higher.
    assert text(bot.act(table.view(0))) == "2H"


@pytest.mark.parametrize("bot", SURE, ids=lambda bot: bot.name)
def test_a_decision_without_a_choice_needs_no_worlds(bot: Bot) -> None:
    table = one_round([["2C"], ["3C"], ["4C"]], dealer=0)
    bid(table, 0, 0)
    # The hook leaves the dealer two bids or one; then every card is forced.
    table.push(table.legal()[0])
    assert text(bot.act(table.view(1))) == "3C"


def test_it_beats_chance_by_far() -> None:
    for bot in bots():
        row = arena.one_versus_field(bot, make_bot("random"), Rules(cards=[4]), matches=120, seed=2)
        assert row.difference.low > 2


@pytest.mark.slow
def test_forty_worlds_beat_the_rules_of_thumb_they_play_on_by() -> None:
    bot = SearchBot(seed=1)
    row = arena.one_versus_field(bot, HeuristicBot(), Rules(cards=[7]), matches=6000, seed=9)
    assert row.difference.low > 0.2


# --- parts ------------------------------------------------------------------------------------


@njit
def left_after_merging(rules: Array, tables: Array, keep: int, mask: Array) -> None:
    write_mask(rules[0], tables[0], mask)
    merge_equals(rules[0], tables[0], keep, mask)


def merged(table: Table, keep: str) -> set[str]:
    mask = np.zeros(79, np.int8)
    left_after_merging(table.rules_array, table.tables_array, card(keep), mask)
    return {text(int(action)) for action in np.flatnonzero(mask)}


def test_cards_with_nothing_between_them_are_tried_once() -> None:
    hands = [
        ["2H", "3H", "9D", "AD"],
        ["7C", "8C", "TC", "2S"],
        ["9C", "3D", "5D", "6D"],
        ["JC", "4D", "7H", "8H"],
    ]
    table = one_round(hands, dealer=0)
    bid(table, 1, 1, 1, 0)
    # The nine is unseen, so eight and ten differ; of seven and eight the one to keep stays.
    assert merged(table, "8C") == {"8C", "TC", "2S"}
    assert merged(table, "2S") == {"7C", "TC", "2S"}
    play(table, "TC", "9C", "JC", "2H")
    # Jack to jack: all between are gone, and what lies between no longer matters.
    assert table.seat == 3
    assert merged(table, "4D") == {"4D", "7H"}
    play(table, "7H", "3H", "2S", "3D")
    assert table.seat == 1
    assert merged(table, "7C") == {"7C"}


def test_a_card_of_the_trick_between_two_keeps_them_apart() -> None:
    table = one_round([["5H", "2C"], ["6H", "3C"], ["4H", "7H"]], dealer=0)
    bid(table, 1, 0, 0)
    play(table, "6H")
    assert table.seat == 2
    # The five is unseen too; were it gone, the six on the table would keep 4 and 7 apart.
    assert merged(table, "4H") == {"4H", "7H"}


def test_in_two_packs_a_second_copy_keeps_neighbours_apart() -> None:
    hands = [["7C", "8C"], ["2D", "3D"], ["4D", "5D"]]
    for packs, left in ((1, {"7C"}), (2, {"7C", "8C"})):
        table = one_round(hands, dealer=2, packs=packs)
        bid(table, 0, 0, 0)
        assert merged(table, "7C") == left


@njit
def fitting(rules: Array, tables: Array, work: Array, stock: Array, number: int) -> float:
    """The share of likely worlds, of `number`, that fit the bids at once when asked again."""
    r, t = rules[0], tables[0]
    viewer = int(t.seat)
    ways = begin_worlds(r, t, viewer, work, stock[0])
    state = np.uint64(5)
    fit = 0
    for _ in range(number):
        state = imagine(r, viewer, work, stock[0], ways, state)
        work[PLAYED] = work[WORLD]
        fit += int(fits_bids(r, work[WORLD], work[PLAYED], viewer, state))
    return fit / number


@njit
def fair(rules: Array, tables: Array, worlds: Array, viewer: int) -> float:
    """The share of fair worlds (W,) that fit the bids."""
    r = rules[0]
    again = worlds.copy()
    fit = 0
    for k in range(worlds.shape[0]):
        fit += int(fits_bids(r, worlds[k], again[k], viewer, np.uint64(k)))
    return fit / worlds.shape[0]


def test_likely_worlds_fit_the_bids_more_often_than_fair_ones() -> None:
    gained = []
    for seed in range(12):
        table = Table(Rules(cards=[7]), seed=seed)
        for _ in range(7):
            table.push(HeuristicBot().act(table.view(table.seat or 0)))
        view = table.view(table.seat or 0)
        work, stock = new_tables(NUM_WORK), np.zeros(1, WORLDS_RECORD)
        likely = fitting(view.rules_array, view.tables_array, work, stock, 100)
        worlds = view.sample_tables(np.random.default_rng(seed), 100)
        gained.append(likely - fair(view.rules_array, view.tables_array, worlds, view.seat))
    assert np.mean(gained) > 0.2


def test_bids_that_are_hidden_are_filled_in_and_say_nothing() -> None:
    rules = Rules(cards=[5], bidding="simultaneous", hook=False)
    table = Table(rules, seed=1, dealer=3)
    for number in (5, 5, 5):
        bid(table, number)
    view = table.view(3)
    work, stock = new_tables(NUM_WORK), np.zeros(1, WORLDS_RECORD)
    fitting(view.rules_array, view.tables_array, work, stock, 3)
    bids = work["bid"][WORLD, :4].tolist()
    # What the rule player would have bid, not the five that each did; the own is still to come.
    assert bids[3] == -1
    assert all(0 <= number < 4 for number in bids[:3])
    assert work["bid_sum"][WORLD] == sum(bids[:3])


@njit
def rolled_out(rules: Array, tables: Array, rows: Array, work: Array, exact: int) -> int:
    """How many of `rows` come to other points for the seat to act than by the rule player alone."""
    different = 0
    for j in range(len(rows)):
        r = rules[tables[rows[j]].rules]
        seat = int(tables[rows[j]].seat)
        work[0] = tables[rows[j]]
        work[1] = tables[rows[j]]
        while not apply_action(r, work[0], heuristic_action(r, work[0])):
            pass
        roll_out(r, work[1], 1 << seat, exact)
        different += int(work[0].points[seat] != work[1].points[seat])
    return different


def test_a_rollout_that_ends_early_gives_the_same_points() -> None:
    rules, tables, *_ = positions(400, seed=8)
    rows = np.flatnonzero(tables["seat"] >= 0)
    assert rolled_out(rules, tables, rows, new_tables(2), 1) == 0
    assert 0 < rolled_out(rules, tables, rows, new_tables(2), 2) < len(rows) / 2


@njit
def certain(rules: Array, tables: Array, who: int) -> bool:
    return is_certain(rules[0], tables[0], who)


def test_points_are_certain_once_no_trick_can_change_them() -> None:
    hands = [["AH", "2H", "2C"], ["KH", "3H", "3C"], ["4H", "5H", "4C"]]
    table = one_round(hands, dealer=2)
    bid(table, 0, 3, 1)
    tables = [certain(table.rules_array, table.tables_array, 1 << seat) for seat in range(3)]
    assert tables == [False, False, False]
    play(table, "AH", "3H", "4H")
    # Seat 0 is over its bid and seat 1 can no longer take three; seat 2 can still take its one.
    tables = [certain(table.rules_array, table.tables_array, 1 << seat) for seat in range(3)]
    assert tables == [True, True, False]
    assert certain(table.rules_array, table.tables_array, 0b011)
    assert not certain(table.rules_array, table.tables_array, 0b101)


@njit
def open_bits(rules: Array, tables: Array, viewer: int) -> Bits:
    unseen, _ = unseen_words(rules[0], tables[0], viewer)
    return open_choices(rules[0], tables[0], viewer, unseen)


def test_a_tree_has_one_branch_for_cards_that_do_the_same() -> None:
    hands = [["2C", "5D"], ["7C", "9C"], ["4C", "6D"]]
    table = one_round(hands, dealer=0)
    bid(table, 1, 1, 1)
    names = []
    for viewer in (1, 0):
        bits = int(open_bits(table.rules_array, table.tables_array, viewer))
        names.append({text(c) for c in range(52) if bits >> c & 1})
    # Seat 1 has not seen the eight; in a world in which nobody holds it the two do the same.
    assert names == [{"7C", "9C"}, {"7C"}]


@pytest.mark.parametrize("name", ["search", "ismcts"])
def test_who_has_nothing_to_gain_any_more_plays_by_the_rules_of_thumb(name: str) -> None:
    hands = [["AH", "2H", "2C"], ["KH", "3H", "3C"], ["4H", "5H", "4C"]]
    table = one_round(hands, dealer=2)
    bid(table, 0, 3, 1)
    play(table, "AH", "3H", "4H")
    view = table.view(0)
    assert make_bot(name, seed=4).act(view) == HeuristicBot().act(view)


SCRIPT = """
import numpy as np
from judgement_env import Rules, Table, make_bot
names = ["search:worlds=2", "search:worlds=2,exact=2", "ismcts:iterations=6"]
two_packs = Rules(cards=[2], packs=2, suits=2, ranks=5, trumps=["S"])
for rules in (Rules(num_players=3, cards=[3]), two_packs):
    table = Table(rules, seed=5)
    while not table.is_over:
        print([make_bot(name).act(table.view(table.seat)) for name in names])
        world = table.view(table.seat).sample_worlds(np.random.default_rng(1), 2)
        print(world)
        table.push(table.legal()[-1])
"""


def test_plain_python_gives_the_same_answers_and_worlds() -> None:
    answers = []
    for disabled in ("0", "1"):
        env = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
        answers.append(done.stdout)
    assert answers[0] == answers[1]
    assert answers[0].count("[") > 20


def test_a_tree_is_decided_once_no_other_action_can_catch_up() -> None:
    nodes = np.zeros(4, NODE_RECORD)
    nodes[0]["child"] = NONE
    for number, visits in ((1, 9), (2, 30), (3, 12)):
        add_node(nodes, number, 0, number, 0)
        nodes[number]["visits"] = visits
    assert not is_decided(nodes, 18)
    assert is_decided(nodes, 17)
