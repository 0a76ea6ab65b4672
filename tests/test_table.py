"""A `Table`: moves and their refusals, deals given by hand, the way back, copies, and views."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table
from judgement_env.cards import NONE
from judgement_env.observation import SIZE, as_float
from judgement_env.table import IllegalActionError
from judgement_env.view import Trick, View, encode_row
from tests.tables import bid, card, legal_cards, one_round, play

FIELDS: dict[str, dict[str, Any]] = {
    "blind-eight": {"preset": "blind-eight", "num_players": 5},
    "up-and-down": {"preset": "up-and-down", "top": 3},
    "kachuful": {"preset": "kachuful", "num_players": 3},
    "sweep-ten-anticlockwise": {"preset": "sweep-ten-anticlockwise", "top": 4},
    "oh-hell": {"preset": "oh-hell", "num_players": 7},
    "two packs": {"preset": "kachuful", "packs": 2, "suits": 2, "ranks": 5, "trumps": ["S", "NT"]},
    "fingers": {"preset": "kachuful", "bidding": "simultaneous", "top": 3},
    "two packs, blind, fingers, turned up": {
        "preset": "blind-eight",
        "cards": [2, 1, 3],
        "blind_rounds": [2],
        "packs": 2,
        "ranks": 3,
        "trumps": "turn-up",
        "bidding": "simultaneous",
    },
}
HANDS = [["AS", "2H", "3H"], ["KS", "4H", "5C"], ["QS", "6H", "7H"]]


def three_cards(**overrides: Any) -> Table:
    """Seat 1 is next to the dealer and leads."""
    return one_round(HANDS, dealer=0, **overrides)


def played(name: str, seed: int, decisions: int | None = None) -> Table:
    """A table after so many random actions, or at the end."""
    table = Table(FIELDS[name], seed=seed)
    rng = random.Random(seed)
    while not table.is_over and table.decisions != decisions:
        table.push(rng.choice(table.legal()))
    return table


def refusal(table: Table, action: Any) -> IllegalActionError:
    """The error of an action that is not allowed, which must leave everything as it was."""
    before, decisions = table.tables_array.tobytes(), table.decisions
    with pytest.raises(IllegalActionError) as caught:
        table.push(action)
    assert (table.tables_array.tobytes(), table.decisions) == (before, decisions)
    assert caught.value.seat == table.seat
    assert caught.value.legal == table.legal()
    return caught.value


# --- moves ------------------------------------------------------------------------------------


def test_actions_may_be_ids_or_text() -> None:
    table = three_cards()
    assert table.push("bid 2") is False
    assert table.push("1") is False
    assert table.push(np.int64(53)) is False
    table.push("5♣")
    assert table.view(0).trick == ((1, card("5C")),)


def test_push_tells_when_a_round_is_settled_and_the_points_stay_to_be_read() -> None:
    table = Table("kachuful", seed=3, dealer=0)
    assert table.last_points is None
    settled = 0
    while not table.is_over:
        before = table.totals
        if table.push(table.legal()[0]):
            settled += 1
            points = table.last_points
            assert points is not None
            assert table.totals == [b + p for b, p in zip(before, points, strict=True)]
            assert table.record()["rounds"][settled - 1]["points"] == points
    assert settled == 7
    assert table.seat is None
    assert table.legal() == []
    assert table.winners == [s for s in range(4) if table.totals[s] == max(table.totals)]


def test_a_blind_round_plays_itself_after_the_last_bid() -> None:
    rules = Rules.preset("blind-eight", num_players=3, cards=[1], blind_rounds=[1])
    table = Table(rules, seed=1, dealer=0, deals=[[["AC"], ["2C"], ["3C"]]])
    table.push("bid 0")
    table.push("bid 0")
    assert table.push("bid 0") is True
    assert table.is_over
    assert table.record()["rounds"][0]["tricks"] == [
        {"leader": 1, "plays": ["2C", "3C", "AC"], "winner": 0}
    ]


@pytest.mark.parametrize(
    ("bids", "action", "words"),
    [
        ([], "bid 4", "seat 1 may not bid 4: with 3 cards a bid is 0 to 3"),
        ([], "5C", "seat 1 may not play 5C: bidding is not over, so a bid is due"),
        ([1, 1], "bid 1", "seat 0 may not bid 1: the hook forbids it"),
        ([1, 1, 0], "bid 1", "seat 1 may not bid 1: bidding is over, so a card is due"),
        ([1, 1, 0], "AS", "seat 1 may not play AS: the seat does not hold it"),
    ],
)
def test_a_refused_action_names_seat_action_and_rule(
    bids: list[int], action: str, words: str
) -> None:
    table = three_cards()
    bid(table, *bids)
    assert words in str(refusal(table, action))


def test_a_revoke_is_refused_naming_the_suit_and_the_legal_cards() -> None:
    table = three_cards()
    bid(table, 1, 1, 0)
    play(table, "4H")
    error = refusal(table, "QS")
    assert str(error) == (
        "seat 2 may not play QS: it must follow suit: it holds hearts (legal: 6H, 7H)"
    )
    assert error.action == "QS"
    assert error.legal == [card("6H"), card("7H")]


def test_nothing_is_allowed_once_the_match_is_over() -> None:
    table = played("kachuful", 1)
    assert "nobody may bid 0: the match is over (legal: nothing)" in str(refusal(table, "bid 0"))
    refusal(table, "AS")


@pytest.mark.parametrize("action", ["XX", "bid 27", "", 79, -1, 10**30, 2.0, True, None])
def test_what_is_no_action_at_all_is_refused_likewise(action: Any) -> None:
    assert "(allowed: " in str(refusal(three_cards(), action))


def test_an_illegal_action_error_survives_pickling() -> None:
    error = refusal(three_cards(), "AS")
    other = pickle.loads(pickle.dumps(error))
    assert (str(other), other.seat, other.action, other.legal) == (
        str(error),
        error.seat,
        error.action,
        error.legal,
    )


# --- what is given ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "7"])
def test_a_seed_is_a_whole_number_below_two_to_the_64(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed: .* from 0 to 18446744073709551615"):
        Table("kachuful", seed=seed)


def test_the_largest_seed_is_kept_exactly() -> None:
    table = Table("kachuful", seed=2**64 - 1)
    assert Table.from_record(json.loads(json.dumps(table.record()))).record() == table.record()


def test_without_a_seed_one_is_drawn_and_named_in_the_record() -> None:
    first, second = Table("kachuful"), Table("kachuful")
    assert first.seed != second.seed
    again = Table("kachuful", seed=first.record()["seed"])
    assert again.record() == first.record()


def test_match_and_table_name_other_deals_of_the_same_seed() -> None:
    hands = [
        Table("kachuful", seed=7, **which).record()["rounds"][0]["hands"]
        for which in ({}, {"match": 1}, {"table": 1})
    ]
    assert hands[0] != hands[1] != hands[2] != hands[0]
    record = Table("kachuful", seed=7, match=2, table=5, players=list("abcd")).record()
    assert (record["match"], record["table"], record["players"]) == (2, 5, list("abcd"))
    assert Table.from_record(record).record() == record


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dealer": 4}, "dealer: 4 .*from 0 to 3"),
        ({"dealer": -1}, "dealer: -1"),
        ({"match": -1}, "match: -1"),
        ({"players": ["a"]}, "players: .*4 names"),
        ({"deals": 5}, "deals: 5"),
        ({"deals": [None] * 8}, "deals: 8 rounds .*at most 7"),
        ({"deals": [[["AS"]]]}, "deals: round 1: 1 hands .*4 hands"),
        ({"deals": [None, [["AS"], [], [], []]]}, "deals: round 2, seat 0: 1 cards .*6"),
        ({"turn_ups": ["AS"]}, "turn_ups: round 1: AS .*turn no card up"),
    ],
)
def test_arguments_that_cannot_be_are_refused_by_name(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Table("kachuful", seed=1, **arguments)


@pytest.mark.parametrize(
    ("hands", "turn_up", "words"),
    [
        ([["AS"], ["AS"], ["2C"]], None, "round 1, seat 1: AS .*one of each card"),
        ([["AS"], ["KS"], ["XX"]], None, "round 1, seat 2: card: 'XX'"),
        ([["AS"], ["KS"], [52]], None, "round 1, seat 2: card: 52"),
        ([["AS"], ["KS"], ["QS"]], "KS", "round 1, seat 1: KS .*taken already"),
        (None, "XX", "turn_ups: round 1: card: 'XX'"),
    ],
)
def test_cards_dealt_twice_or_not_in_the_pack_are_refused_naming_the_seat(
    hands: Any, turn_up: str | None, words: str
) -> None:
    rules = Rules.preset("oh-hell", num_players=3, top=1)
    with pytest.raises(ValueError, match=words):
        Table(rules, seed=1, deals=[hands], turn_ups=[turn_up])


def test_a_small_pack_and_two_packs_are_held_to_their_cards() -> None:
    small = Rules.preset("kachuful", num_players=3, ranks=3, cards=[1])
    with pytest.raises(ValueError, match="round 1, seat 0: JS .*12 cards of the pack, QC"):
        Table(small, deals=[[["JS"], ["QS"], ["AS"]]])
    double = Rules.preset("kachuful", num_players=3, packs=2, cards=[1])
    Table(double, deals=[[["JS"], ["JS"], ["AS"]]])
    with pytest.raises(ValueError, match="round 1, seat 2: JS .*2 of each card"):
        Table(double, deals=[[["JS"], ["JS"], ["JS"]]])


def test_rounds_that_are_not_given_are_drawn_as_if_nothing_were_given() -> None:
    drawn, given = Table("kachuful", seed=9), Table("kachuful", seed=9)
    hands = drawn.record()["rounds"][0]["hands"]
    swapped = [hands[1], hands[0], hands[2], hands[3]]
    given = Table("kachuful", seed=9, deals=[swapped])
    assert given.record()["rounds"][0]["hands"] == swapped
    for table in (drawn, given):
        while table.round_index == 0:
            table.push(table.legal()[0])
    assert drawn.record()["rounds"][1]["hands"] == given.record()["rounds"][1]["hands"]


def test_a_given_deal_gets_its_turn_up_from_the_cards_left_by_the_seed() -> None:
    rules = Rules.preset("oh-hell", num_players=3, top=4, suits=1)
    hands = [["2S", "3S", "4S", "5S"], ["6S", "7S", "8S", "9S"], ["TS", "JS", "QS", "KS"]]
    assert Table(rules, seed=1, deals=[hands]).record()["rounds"][0]["turn_up"] == "AS"
    rules = Rules.preset("oh-hell", num_players=3, top=1)
    drawn = [
        Table(rules, seed=seed, deals=[[["AS"], ["KS"], ["QS"]]]).view(0).turn_up
        for seed in [*range(40), *range(40)]
    ]
    assert drawn[:40] == drawn[40:]
    assert len(set(drawn)) > 10
    assert not set(drawn) & {card("AS"), card("KS"), card("QS")}


def test_a_given_turn_up_is_left_out_of_the_deal_and_makes_trump() -> None:
    rules = Rules.preset("oh-hell", num_players=3, suits=1, ranks=4, top=1)
    for seed in range(30):
        table = Table(rules, seed=seed, turn_ups=["KS"])
        entry = table.record()["rounds"][0]
        assert (entry["turn_up"], entry["trump"]) == ("KS", "S")
        assert sorted(sum(entry["hands"], [])) == ["AS", "JS", "QS"]


def test_the_dealer_may_not_contradict_the_rules() -> None:
    rules = Rules.preset("kachuful", first_dealer=2)
    assert Table(rules, seed=1, dealer=2).view(0).dealer == 2
    with pytest.raises(ValueError, match="dealer: 1 .*first_dealer"):
        Table(rules, seed=1, dealer=1)


# --- the way back, and copies -----------------------------------------------------------------


@pytest.mark.parametrize("name", FIELDS)
def test_every_action_can_be_taken_back_to_the_very_start(name: str) -> None:
    table = Table(FIELDS[name], seed=5)
    rng = random.Random(5)
    states: list[Any] = []
    while not table.is_over:
        states.append((table.get_state(), table.record()))
        table.push(rng.choice(table.legal()))
    taken = list(table.actions)
    final = table.record()
    for state, record in reversed(states):
        assert table.pop() == taken[len(table.actions)]
        assert table.get_state() == state
        assert table.record() == record
    with pytest.raises(IndexError, match="no bid or play has been made"):
        table.pop()
    for action in taken:
        table.push(action)
    assert table.record() == final


def copies(table: Table) -> list[Table]:
    restored = Table("sweep-ten", seed=0)
    restored.set_state(pickle.loads(pickle.dumps(table.get_state())))
    return [
        table.clone(),
        copy.copy(table),
        copy.deepcopy(table),
        pickle.loads(pickle.dumps(table)),
        restored,
    ]


@pytest.mark.parametrize("decisions", [0, 2, 4, 17, 40, None])
def test_a_copy_goes_on_by_itself_and_deals_the_same_cards(decisions: int | None) -> None:
    table = played("blind-eight", 11, decisions)
    record = table.record()
    for other in copies(table):
        assert other.record() == record
        assert other.decisions == table.decisions
        again = table.clone()
        while not other.is_over:
            assert other.legal() == again.legal()
            other.push(other.legal()[-1])
            again.push(again.legal()[-1])
        assert other.record() == again.record()
        while other.decisions:
            other.pop()
        assert other.record() == Table(FIELDS["blind-eight"], seed=11).record()
        assert table.record() == record


# --- views ------------------------------------------------------------------------------------


def test_a_view_tells_what_lies_on_the_table() -> None:
    table = three_cards()
    bid(table, 1, 2, 1)
    play(table, "4H", "7H", "3H", "6H")
    view = table.view(0)
    assert (view.seat, view.seat_to_act, view.leader, view.led) == (0, 0, 2, 2)
    assert view.hand == (card("2H"), card("AS"))
    assert view.legal == (card("2H"),)
    assert view.bids == (1, 1, 2)
    assert view.won == (0, 0, 1)
    assert view.trick == ((2, card("6H")),)
    assert view.history == (Trick(1, (card("4H"), card("7H"), card("3H")), 2),)
    assert (view.trump, view.turn_up, view.dealer) == (3, NONE, 0)
    assert (view.num_cards, view.round_index, view.is_blind) == (3, 0, False)
    assert view.is_playing and not view.is_bidding and not view.is_over
    assert table.view(1).legal == ()
    assert table.view(1).action_mask().sum() == 0
    assert view.action_mask().nonzero()[0].tolist() == [card("2H")]
    assert str(view).endswith("legal 2H")


def test_a_view_names_the_bid_the_hook_forbids() -> None:
    table = three_cards()
    bid(table, 1, 0)
    assert table.view(0).forbidden_bid == 2
    table.push("bid 0")
    assert table.view(0).forbidden_bid == NONE


def test_a_view_does_not_change_when_the_match_goes_on() -> None:
    table = three_cards()
    view, other = table.view(1), table.view(1)
    before = pickle.dumps(other)
    bid(table, 1, 2, 1)
    play(table, "5C")
    assert pickle.dumps(view) == before
    assert (view.legal, view.trick, view.bids) == ((52, 53, 54, 55), (), (NONE,) * 3)
    assert legal_cards(table) == {"QS", "6H", "7H"}


def test_nobody_sits_outside_the_table() -> None:
    for seat in (3, -1):
        with pytest.raises(ValueError, match="seat: .*from 0 to 2"):
            three_cards().view(seat)


def test_an_observation_comes_as_float32_or_raw() -> None:
    view = three_cards().view(1)
    assert view.observation().dtype == np.float32
    assert np.array_equal(as_float(view.observation("uint8")), view.observation())
    with pytest.raises(ValueError, match="dtype: 'int64'"):
        view.observation("int64")


@pytest.mark.parametrize("name", FIELDS)
def test_the_redacted_record_encodes_like_the_true_one(name: str) -> None:
    for seed in range(4):
        table = Table(FIELDS[name], seed=seed)
        rng = random.Random(seed)
        true, redacted = np.empty((2, SIZE), np.uint8)
        while True:
            for seat in range(table.rules.num_players):
                view = table.view(seat)
                encode_row(table.rules_array, table.tables_array, seat, true)
                encode_row(view.rules_array, view.tables_array, seat, redacted)
                assert np.array_equal(true, redacted)
                assert view.legal == (tuple(table.legal()) if seat == table.seat else ())
            if table.is_over:
                break
            table.push(rng.choice(table.legal()))


@pytest.mark.parametrize("name", FIELDS)
def test_a_view_holds_no_hidden_card_bid_or_key(name: str) -> None:
    for decisions in range(0, 30, 3):
        table = played(name, 2, decisions)
        for seat in range(table.rules.num_players):
            view = table.view(seat)
            t = view.tables_array[0]
            assert t["key"] == 0
            face_down = view.is_blind and view.is_bidding
            for other in range(table.rules.num_players):
                if other != seat or face_down:
                    assert not t["hand"][other].any()
                    plays = [card for turn in view.history for card in turn.plays]
                    plays += [card for _, card in view.trick]
                    dealt = int(t["dealt"][other, 0]) | int(t["dealt"][other, 1])
                    assert all(c in plays for c in range(52) if dealt >> c & 1)
                if other != seat and table.rules.is_simultaneous and view.is_bidding:
                    assert view.bids[other] == NONE
            for settled in view._settled:
                assert np.frombuffer(settled, t.dtype)["key"][0] == 0


def test_views_of_tables_that_differ_in_hidden_things_are_the_same_bytes() -> None:
    hands = [["AS", "2H", "3H"], ["KS", "4H", "5C"], ["QS", "6H", "7H"]]
    others = [["9D", "2H", "TD"], ["KS", "4H", "5C"], ["2C", "6H", "3C"]]
    tables = []
    for seed, deal in ((1, hands), (2, others)):
        rules = Rules.preset("kachuful", num_players=3, cards=[3, 2], trumps=["S"])
        table = Table(rules, seed=seed, dealer=0, deals=[deal])
        bid(table, 1, 2, 1)
        play(table, "4H", "6H", "2H")
        tables.append(table)
    views: list[View] = [table.view(1) for table in tables]
    assert pickle.dumps(views[0]) == pickle.dumps(views[1])
    assert vars(views[0]).keys() == vars(views[1]).keys()
    assert views[0].to_json() == views[1].to_json()
    assert pickle.dumps(tables[0].view(0)) != pickle.dumps(tables[1].view(0))


def test_which_copy_of_a_card_a_seat_has_played_is_not_told() -> None:
    """Two packs: one seat holds both nines, then one; what it played looks alike."""
    rules = Rules.preset("kachuful", num_players=3, packs=2, cards=[2], trumps=["S"])
    seen = []
    for second in ("9H", "2C"):
        deal = [["3H", "4H"], ["9H", second], ["5H", "6H"]]
        table = Table(rules, seed=1, dealer=0, deals=[deal])
        bid(table, 0, 0, 0)
        play(table, "9H")
        seen.append(pickle.dumps(table.view(2)))
    assert seen[0] == seen[1]


def test_a_pickled_view_is_the_same_view() -> None:
    view = played("two packs, blind, fingers, turned up", 3, 9).view(1)
    other: View = pickle.loads(pickle.dumps(view))
    assert (other.hand, other.legal, other.to_json()) == (view.hand, view.legal, view.to_json())
    assert np.array_equal(other.observation(), view.observation())
