"""Every example of the written rules about bids, the hook, tricks, packs and the blind round."""

from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table
from tests.tables import (
    bid,
    card,
    legal_bids,
    legal_cards,
    one_round,
    play,
    play_out,
    round_of,
    seats_asked,
)

# --- bidding and the hook ------------------------------------------------------------


def test_bidding_goes_clockwise_from_the_dealers_left_and_the_dealer_is_last() -> None:
    table = Table(Rules.preset("kachuful", num_players=5), seed=1, dealer=3)
    assert seats_asked(table, [0, 0, 0, 0, 0]) == [4, 0, 1, 2, 3]


def test_bidding_goes_the_other_way_round_anticlockwise() -> None:
    table = Table(Rules.preset("sweep-ten-anticlockwise"), seed=1, dealer=1)
    assert seats_asked(table, [0, 0, 0, 0]) == [0, 3, 2, 1]
    assert table.seat == 0


def test_a_bid_is_anything_from_zero_to_the_number_of_cards() -> None:
    table = Table(Rules.preset("kachuful"), seed=1)
    assert legal_bids(table) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_bids_said_aloud_are_known_to_later_bidders() -> None:
    table = Table(Rules.preset("kachuful"), seed=1, dealer=0)
    bid(table, 3, 1)
    assert list(table.view(3).bids) == [-1, 3, 1, -1]


@pytest.mark.parametrize("bids", [(3, 1, 2), (0, 4, 2)])
def test_with_seven_cards_and_six_bid_the_dealer_may_bid_anything_but_one(
    bids: tuple[int, ...],
) -> None:
    for name in ("kachuful", "up-and-down", "blind-eight"):
        table = Table(Rules.preset(name), seed=1)
        bid(table, *bids)
        assert legal_bids(table) == [0, 2, 3, 4, 5, 6, 7]


def test_with_five_cards_and_four_bid_the_dealer_may_not_bid_one() -> None:
    table = Table(Rules.preset("sweep-ten", top=5), seed=1)
    bid(table, 1, 2, 1)
    assert legal_bids(table) == [0, 2, 3, 4, 5]


def test_with_ten_cards_and_five_three_and_one_bid_the_dealer_may_not_bid_one() -> None:
    table = Table(Rules.preset("sweep-ten-anticlockwise"), seed=1)
    bid(table, 5, 3, 1)
    assert legal_bids(table) == [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_the_hook_falls_on_the_dealer_only() -> None:
    table = Table(Rules.preset("kachuful"), seed=1)
    bid(table, 3)
    assert legal_bids(table) == [0, 1, 2, 3, 4, 5, 6, 7]
    bid(table, 4)
    assert legal_bids(table) == [0, 1, 2, 3, 4, 5, 6, 7]
    bid(table, 0)
    assert legal_bids(table) == [1, 2, 3, 4, 5, 6, 7]


def test_nothing_is_ruled_out_when_the_bids_already_exceed_the_cards() -> None:
    table = Table(Rules.preset("kachuful"), seed=1)
    bid(table, 3, 3, 2)
    assert legal_bids(table) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_the_dealer_may_not_bid_all_when_nobody_bid_anything() -> None:
    table = Table(Rules.preset("kachuful"), seed=1)
    bid(table, 0, 0, 0)
    assert legal_bids(table) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("others", [(0, 0), (1, 0), (1, 1)])
def test_the_dealer_always_has_a_legal_bid_even_with_one_card(others: tuple[int, int]) -> None:
    table = one_round([["2C"], ["3C"], ["4C"]])
    bid(table, *others)
    assert legal_bids(table) == {0: [0], 1: [1], 2: [0, 1]}[sum(others)]


def test_without_the_dealers_rule_the_bids_may_add_up() -> None:
    table = Table(Rules.preset("kachuful", hook=False), seed=1)
    bid(table, 3, 1, 2)
    assert legal_bids(table) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_finger_bidding_has_no_dealers_rule_and_hides_bids_until_all_are_in() -> None:
    rules = Rules.preset("kachuful", hook=False, bidding="simultaneous")
    table = Table(rules, seed=1, dealer=0)
    bid(table, 3, 1, 2)
    assert legal_bids(table) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert list(table.view(0).bids) == [-1, -1, -1, -1]
    assert list(table.view(2).bids) == [-1, -1, 1, -1]
    bid(table, 1)
    assert all(list(table.view(seat).bids) == [1, 3, 1, 2] for seat in range(4))


def test_asking_for_finger_bidding_and_the_hook_is_an_error() -> None:
    with pytest.raises(ValueError, match="hook"):
        Rules.preset("kachuful", hook=True, bidding="simultaneous")


# --- play ----------------------------------------------------------------------------


def test_the_seat_next_to_the_dealer_leads_with_any_card() -> None:
    table = one_round([["2C", "3C"], ["4C", "AS"], ["5C", "6C"]], dealer=0)
    bid(table, 0, 0, 0)
    assert table.seat == 1
    assert legal_cards(table) == {"4C", "AS"}


def test_the_winner_of_a_trick_leads_the_next() -> None:
    table = one_round([["2C", "3C"], ["4C", "AS"], ["5C", "6C"]], dealer=0)
    bid(table, 0, 0, 0)
    play(table, "4C", "6C", "2C")
    assert table.seat == 2
    assert round_of(table)["tricks"][0] == {"leader": 1, "plays": ["4C", "6C", "2C"], "winner": 2}


def test_suit_must_be_followed_by_whoever_can() -> None:
    table = one_round([["AD", "AS", "2D"], ["5D", "6D", "7C"], ["3D", "KS", "QS"]], dealer=2)
    bid(table, 0, 0, 0)
    play(table, "AD")
    assert legal_cards(table) == {"5D", "6D"}
    play(table, "5D")
    assert legal_cards(table) == {"3D"}


def test_who_cannot_follow_may_cut_or_throw_away_and_has_no_duty_to_trump() -> None:
    table = one_round([["AD", "2D"], ["5S", "7C"], ["3D", "KS"]], dealer=2)
    bid(table, 0, 0, 0)
    play(table, "AD")
    assert legal_cards(table) == {"5S", "7C"}


def test_nobody_ever_has_to_beat_a_trump_already_on_the_trick() -> None:
    table = one_round([["AD", "2D"], ["5S", "7C"], ["2S", "KS"]], dealer=2)
    bid(table, 0, 0, 0)
    play(table, "AD", "5S")
    assert legal_cards(table) == {"2S", "KS"}


def test_a_diamond_trump_cuts_a_club_lead_unless_someone_cuts_higher() -> None:
    hands = [["AC"], ["2D"], ["KC"], ["3H"]]
    table = one_round(hands, dealer=3, trumps=["D"])
    bid(table, 0, 0, 0, 0)
    play(table, "AC", "2D", "KC", "3H")
    assert round_of(table)["won"] == [0, 1, 0, 0]
    hands = [["AC"], ["2D"], ["KC"], ["3D"]]
    table = one_round(hands, dealer=3, trumps=["D"])
    bid(table, 0, 0, 0, 0)
    play(table, "AC", "2D", "KC", "3D")
    assert round_of(table)["won"] == [0, 0, 0, 1]


def test_with_no_trump_played_the_highest_card_of_the_suit_led_wins() -> None:
    table = one_round([["9C"], ["AH"], ["TC"], ["KD"]], dealer=3)
    bid(table, 0, 0, 0, 0)
    play(table, "9C", "AH", "TC", "KD")
    assert round_of(table)["won"] == [0, 0, 1, 0]


def test_the_king_of_spades_wins_and_leads_when_all_follow_and_nobody_has_the_ace() -> None:
    hands = [["KS", "2C"], ["QS", "3C"], ["2S", "4C"], ["TS", "5C"]]
    table = one_round(hands, dealer=1, direction="anticlockwise", trumps=["H"])
    bid(table, 0, 0, 0, 0)
    play(table, "KS", "TS", "2S", "QS")
    assert round_of(table)["tricks"][0]["winner"] == 0
    assert table.seat == 0


def test_your_only_club_is_the_ace_and_clubs_are_led_so_the_trick_is_yours() -> None:
    table = one_round([["2C", "3C"], ["AC", "5D"], ["4C", "6C"]], dealer=2, trumps=["H"])
    bid(table, 0, 0, 0)
    play(table, "2C")
    assert legal_cards(table) == {"AC"}
    play(table, "AC", "4C")
    assert round_of(table)["won"] == [0, 1, 0]


def test_ace_king_queen_jack_ten_and_so_on_down_to_two() -> None:
    order = ["AH", "KH", "QH", "JH", "TH", "9H", "8H", "7H", "6H", "5H", "4H", "3H", "2H"]
    for higher, lower in zip(order, order[1:], strict=False):
        table = one_round([[lower], [higher]], dealer=1)
        bid(table, 0, 0)
        play(table, lower, higher)
        assert round_of(table)["won"] == [0, 1]


def test_in_a_no_trump_round_the_highest_card_of_the_suit_led_always_wins() -> None:
    table = one_round([["2C"], ["AS"], ["AH"], ["AD"]], dealer=3, trumps=["NT"])
    bid(table, 0, 0, 0, 0)
    assert round_of(table)["trump"] is None
    play(table, "2C", "AS", "AH", "AD")
    assert round_of(table)["won"] == [1, 0, 0, 0]


def test_tricks_go_round_anticlockwise_where_the_table_plays_so() -> None:
    hands = [["2C", "2D"], ["3C", "3D"], ["4C", "4D"], ["5C", "5D"]]
    table = one_round(hands, dealer=0, direction="anticlockwise")
    bid(table, 0, 0, 0, 0)
    seats = []
    for name in ("5C", "4C", "3C", "2C"):
        seats.append(int(table.seat))
        play(table, name)
    assert seats == [3, 2, 1, 0]
    assert table.seat == 3


def test_every_card_in_the_hand_is_played() -> None:
    table = Table(Rules.preset("kachuful"), seed=1)
    while len(table.record()["rounds"]) == 1:
        table.push(table.legal()[-1])
    entry = round_of(table, 0)
    assert len(entry["tricks"]) == 7
    played = sorted(name for trick in entry["tricks"] for name in trick["plays"])
    assert played == sorted(name for hand in entry["hands"] for name in hand)


# --- two packs, a turned-up card, the blind round ------------------------------------


def test_identical_cards_are_one_action() -> None:
    table = one_round([["AH", "AH"], ["KH", "2H"], ["QH", "3C"]], dealer=2, packs=2)
    bid(table, 0, 0, 0)
    assert list(table.legal()) == [card("AH")]
    play(table, "AH", "2H", "QH")
    assert list(table.legal()) == [card("AH")]
    assert [card("AH")] == list(table.view(0).hand)


def test_if_both_copies_of_a_card_land_in_one_trick_the_later_one_wins() -> None:
    table = one_round([["AH", "4C"], ["AH", "2H"], ["KH", "3C"]], dealer=2, packs=2)
    bid(table, 0, 0, 0)
    play(table, "AH", "AH", "KH")
    assert round_of(table)["tricks"][0]["winner"] == 1
    play(table, "2H")
    assert legal_cards(table) == {"3C"}
    play(table, "3C", "4C")
    assert round_of(table)["won"] == [0, 2, 0]


def test_of_two_identical_trumps_the_later_one_wins_too() -> None:
    table = one_round([["AH"], ["9S"], ["2C"], ["9S"]], dealer=3, packs=2)
    bid(table, 0, 0, 0, 0)
    play(table, "AH", "9S", "2C", "9S")
    assert round_of(table)["won"] == [0, 0, 0, 1]


def test_identical_cards_of_a_suit_not_led_never_win() -> None:
    table = one_round([["2H"], ["AC"], ["AC"]], dealer=2, packs=2)
    bid(table, 0, 0, 0)
    play(table, "2H", "AC", "AC")
    assert round_of(table)["won"] == [1, 0, 0]


def test_the_turned_up_card_is_seen_by_everyone_and_its_suit_is_trump() -> None:
    rules = Rules.preset("oh-hell", num_players=3, top=1)
    table = Table(rules, dealer=2, deals=[[["AC"], ["2D"], ["KC"]]], turn_ups=["7D"])
    assert round_of(table)["turn_up"] == "7D"
    assert round_of(table)["trump"] == "D"
    assert all(table.view(seat).turn_up == card("7D") for seat in range(3))
    bid(table, 1, 1, 0)
    play(table, "AC", "2D", "KC")
    assert table.record()["rounds"][0]["won"] == [0, 1, 0]
    assert table.record()["totals"] == [0, 11, 10]


def test_oh_hell_is_one_round_of_seven_cards_with_one_point_a_trick_and_ten_when_exact() -> None:
    table = Table(Rules.preset("oh-hell"), seed=6)
    while not table.is_over:
        table.push(table.legal()[-1])
    entry = round_of(table)
    assert len(table.record()["rounds"]) == 1
    assert entry["cards"] == 7
    assert entry["points"] == [
        won + (10 if won == made else 0)
        for won, made in zip(entry["won"], entry["bids"], strict=True)
    ]


def blind_table(**overrides: Any) -> Table:
    rules = Rules.preset("blind-eight", num_players=3, cards=[2, 1], **overrides)
    deals = [[["2C", "3C"], ["4C", "5C"], ["6C", "7C"]], [["2H"], ["AC"], ["KH"]]]
    table = Table(rules, seed=0, dealer=0, deals=deals)
    bid(table, 0, 0, 1)
    play_out(table)
    return table


def test_in_the_blind_round_no_view_shows_any_card_until_every_bid_is_in() -> None:
    table = blind_table()
    assert round_of(table)["blind"]
    for number in (0, 1, 1):
        for seat in range(3):
            view = table.view(seat)
            assert len(view.hand) == 0
            assert not {"2H", "AC", "KH"} & set(view.to_json().replace('"', " ").split())
        bid(table, number)
    assert table.is_over


def test_in_the_blind_round_two_deals_look_the_same_to_their_owners() -> None:
    rules = Rules.preset("blind-eight", num_players=3, cards=[1])
    tables = [
        Table(rules, seed=0, dealer=0, deals=[hands])
        for hands in ([["2H"], ["AC"], ["KH"]], [["3S"], ["4S"], ["5S"]])
    ]
    for number in (0, 1, 1):
        for seat in range(3):
            one, other = (table.view(seat) for table in tables)
            assert np.array_equal(one.observation(), other.observation())
        for table in tables:
            bid(table, number)


def test_the_blind_trick_is_played_by_itself_led_next_to_the_dealer() -> None:
    table = blind_table()
    assert round_of(table)["dealer"] == 1
    bid(table, 0, 0, 0)
    assert table.is_over
    trick = round_of(table)["tricks"]
    # Hearts are trump in the second round; seat 2, next to the dealer, leads.
    assert trick == [{"leader": 2, "plays": ["KH", "2H", "AC"], "winner": 2}]


def test_the_hook_still_holds_in_the_blind_round() -> None:
    table = blind_table()
    bid(table, 1, 0)
    assert legal_bids(table) == [1]


def test_only_the_last_of_the_eight_rounds_is_blind() -> None:
    table = Table(Rules.preset("blind-eight"), seed=5)
    while not table.is_over:
        table.push(table.legal()[0])
    assert [entry["blind"] for entry in table.record()["rounds"]] == [False] * 7 + [True]
