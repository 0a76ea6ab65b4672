"""Every example of the written rules about presets, schedules, the deal, points and the win."""

from typing import Any

import pytest

from judgement_env import Rules, Table
from tests.tables import (
    RANKS,
    bid,
    legal_cards,
    one_round,
    play,
    play_out,
    round_of,
)

# --- the deal and the schedule -------------------------------------------------------


def schedule(rules: Rules) -> list[tuple[int, str | None]]:
    """Cards and trump of every round of a match, as its record tells them."""
    table = Table(rules, seed=2)
    while not table.is_over:
        table.push(table.legal()[0])
    return [(entry["cards"], entry["trump"]) for entry in table.record()["rounds"]]


def test_blind_eight_has_eight_rounds_with_its_own_trump_rotation() -> None:
    expected = [(7, "C"), (6, "H"), (5, "S"), (4, "D"), (3, "C"), (2, "H"), (1, "S"), (1, "D")]
    for players in (3, 4, 5, 6, 7):
        assert schedule(Rules.preset("blind-eight", num_players=players)) == expected


def test_kachuful_has_seven_hands_and_the_first_is_always_spades() -> None:
    expected = [(7, "S"), (6, "D"), (5, "C"), (4, "H"), (3, "S"), (2, "D"), (1, "C")]
    for players in (3, 4, 5, 6, 7):
        assert schedule(Rules.preset("kachuful", num_players=players)) == expected


def test_kachuful_starts_at_six_with_eight_players() -> None:
    expected = [(6, "S"), (5, "D"), (4, "C"), (3, "H"), (2, "S"), (1, "D")]
    assert schedule(Rules.preset("kachuful", num_players=8)) == expected


def test_sweep_ten_deals_ten_down_to_one_with_hearts_spades_diamonds_clubs() -> None:
    trumps = ["H", "S", "D", "C"] * 3
    expected = list(zip(range(10, 0, -1), trumps, strict=False))
    assert schedule(Rules.preset("sweep-ten")) == expected
    assert schedule(Rules.preset("sweep-ten-anticlockwise")) == expected


def test_up_and_down_has_thirteen_rounds_and_the_trump_cycle_carries_on_through_them() -> None:
    sizes = [7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7]
    trumps = ["S", "D", "C", "H", None] * 3
    expected = list(zip(sizes, trumps, strict=False))
    assert schedule(Rules.preset("up-and-down", num_players=4)) == expected


@pytest.mark.parametrize(("players", "top"), [(4, 7), (7, 7), (8, 6), (9, 5), (10, 5)])
def test_up_and_down_starts_with_as_many_cards_as_the_pack_allows_at_most_seven(
    players: int, top: int
) -> None:
    table = Table(Rules.preset("up-and-down", num_players=players), seed=0)
    assert round_of(table)["cards"] == top


@pytest.mark.parametrize("top", [8, 10, 13, "max"])
def test_some_tables_start_at_eight_ten_thirteen_or_the_most_the_pack_allows(top: Any) -> None:
    table = Table(Rules.preset("kachuful", top=top), seed=0)
    assert round_of(table)["cards"] == (13 if top == "max" else top)


@pytest.mark.parametrize(
    ("players", "trumps", "most"),
    [(4, ["S"], 13), (3, ["S"], 17), (4, "turn-up", 12), (2, ["S"], 26)],
)
def test_the_most_cards_each_that_the_pack_allows(players: int, trumps: Any, most: int) -> None:
    rules = Rules.preset(
        "kachuful", num_players=players, player_range=[2, 10], top="max", trumps=trumps
    )
    assert round_of(Table(rules, seed=0))["cards"] == most


def test_counting_up_starts_at_one_card_and_adds_one_every_hand() -> None:
    rules = Rules.preset("kachuful", cards="up")
    assert [size for size, _ in schedule(rules)] == [1, 2, 3, 4, 5, 6, 7]


def test_down_and_back_up_from_seven_is_thirteen_hands_with_one_card_once() -> None:
    rules = Rules.preset("kachuful", cards="down-up")
    assert [size for size, _ in schedule(rules)] == [7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7]
    assert [trump for _, trump in schedule(rules)] == [*"SDCHSDCHSDCHS"]


def test_going_up_first_and_then_down_plays_the_turning_size_once() -> None:
    rules = Rules.preset("kachuful", cards="up-down", top=4)
    assert [size for size, _ in schedule(rules)] == [1, 2, 3, 4, 3, 2, 1]


def test_everyone_gets_the_same_number_of_different_cards_of_the_pack() -> None:
    entry = round_of(Table(Rules.preset("kachuful", num_players=7), seed=3))
    dealt = [name for hand in entry["hands"] for name in hand]
    assert [len(hand) for hand in entry["hands"]] == [7] * 7
    assert len(set(dealt)) == 49


def test_a_pack_of_one_suit_is_spades_and_the_two_is_dropped_first() -> None:
    rules = Rules.preset(
        "kachuful", num_players=2, player_range=[2, 10], suits=1, ranks=4, top="max", trumps=["S"]
    )
    hands = round_of(Table(rules, seed=0))["hands"]
    assert {name for hand in hands for name in hand} == {"JS", "QS", "KS", "AS"}


def test_a_pack_of_three_suits_leaves_the_clubs_out() -> None:
    rules = Rules.preset(
        "kachuful", num_players=3, suits=3, ranks=2, cards=[2], trumps=["S", "H", "D"]
    )
    hands = round_of(Table(rules, seed=0))["hands"]
    assert {name for hand in hands for name in hand} == {"KS", "AS", "KH", "AH", "KD", "AD"}


def test_two_packs_hold_every_card_twice() -> None:
    rules = Rules.preset(
        "kachuful",
        num_players=2,
        packs=2,
        player_range=[2, 10],
        suits=1,
        ranks=4,
        cards=[4],
        trumps=["S"],
    )
    hands = round_of(Table(rules, seed=0))["hands"]
    assert sorted(hands[0] + hands[1]) == sorted(["JS", "QS", "KS", "AS"] * 2)


# --- the dealer ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "step"), [("kachuful", 1), ("sweep-ten", 1), ("sweep-ten-anticlockwise", -1)]
)
def test_the_deal_passes_one_seat_in_the_direction_of_play(name: str, step: int) -> None:
    table = Table(Rules.preset(name), seed=4, dealer=2)
    while not table.is_over:
        table.push(table.legal()[0])
    dealers = [entry["dealer"] for entry in table.record()["rounds"]]
    assert dealers == [(2 + step * place) % 4 for place in range(len(dealers))]


def test_player_one_starts_the_first_game_player_two_the_second_and_so_on() -> None:
    table = Table(Rules.preset("up-and-down"), seed=4, dealer=3)
    starters = []
    for _ in range(5):
        starters.append(int(table.seat))
        play_out(table)
    assert starters == [0, 1, 2, 3, 0]


def test_the_first_dealer_is_drawn_from_the_seed_unless_fixed() -> None:
    rules = Rules.preset("kachuful", num_players=5)
    drawn = {round_of(Table(rules, seed=seed))["dealer"] for seed in range(60)}
    assert drawn == {0, 1, 2, 3, 4}
    fixed = Rules.preset("kachuful", num_players=5, first_dealer=3)
    assert {round_of(Table(fixed, seed=seed))["dealer"] for seed in range(20)} == {3}


# --- points and the end --------------------------------------------------------------


def settled(preset: str, hands: list[list[str]], bids: list[int], **overrides: Any) -> list[int]:
    """The points of a round in which seat 0 leads and every seat plays its hand in order."""
    rules = Rules.preset(
        preset,
        num_players=len(hands),
        cards=[len(hands[0])],
        hook=False,
        trumps=["S"],
        blind_rounds=[],
        **overrides,
    )
    table = Table(rules, seed=0, dealer=len(hands) - 1, deals=[hands])
    bid(table, *bids)
    hands = [list(hand) for hand in hands]
    while not table.is_over:
        allowed = legal_cards(table)
        name = next(held for held in hands[table.seat] if held in allowed)
        hands[table.seat].remove(name)
        play(table, name)
    return list(round_of(table)["points"])


TAKES_ALL = [["AS", "KS", "QS", "JS"], ["2C", "3C", "4C", "5C"], ["2D", "3D", "4D", "5D"]]


def test_a_bid_of_four_made_exactly_is_forty_points_in_blind_eight_and_a_made_zero_ten() -> None:
    assert settled("blind-eight", TAKES_ALL, [4, 0, 1]) == [40, 10, 0]


def test_a_bid_of_four_made_exactly_scores_fourteen_in_kachuful() -> None:
    assert settled("kachuful", TAKES_ALL, [4, 0, 2]) == [14, 10, 0]
    assert settled("kachuful", TAKES_ALL, [3, 0, 0]) == [0, 10, 10]


def test_multiplied_penalty_takes_ten_for_every_trick_over_or_under() -> None:
    rows = settled("kachuful", TAKES_ALL, [1, 3, 0], scoring="multiplied-penalty")
    assert rows == [-30, -30, 10]


def sweep(top: int) -> list[int]:
    """Points when seat 0 bids and wins every trick of a round of `top` cards, all others bid 0."""
    names = [rank + suit for suit in "HCDS" for rank in reversed(RANKS)]
    hands = [names[seat * 13 : seat * 13 + top] for seat in range(4)]
    rules = Rules.preset("sweep-ten", cards=[top], hook=False)
    table = Table(rules, seed=0, dealer=3, deals=[hands])
    bid(table, top, 0, 0, 0)
    while not table.is_over:
        table.push(max(table.legal()))
    return list(table.record()["totals"])


def test_round_one_of_sweep_ten_swept_is_a_hundred_and_twenty_points() -> None:
    assert sweep(10) == [120, 10, 10, 10]


def test_a_six_card_sweep_is_seventy_six_points() -> None:
    assert sweep(6) == [76, 10, 10, 10]


def test_a_one_card_sweep_is_twenty_one_points() -> None:
    assert sweep(1) == [21, 10, 10, 10]


def test_scores_add_up_over_all_rounds_and_the_highest_total_wins() -> None:
    table = Table(Rules.preset("blind-eight"), seed=11)
    while not table.is_over:
        table.push(table.legal()[len(table.legal()) // 2])
    record = table.record()
    totals = [sum(entry["points"][seat] for entry in record["rounds"]) for seat in range(4)]
    assert record["totals"] == totals
    assert record["winners"] == [seat for seat in range(4) if totals[seat] == max(totals)]


def test_players_tied_for_the_top_share_the_win() -> None:
    table = one_round([["AS"], ["2C"], ["3C"]], dealer=2, hook=False)
    bid(table, 0, 0, 0)
    play(table, "AS", "2C", "3C")
    assert table.record()["totals"] == [0, 10, 10]
    assert table.record()["winners"] == [1, 2]


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"top": 14}, "top"),
        ({"num_players": 11, "player_range": [2, 11]}, "player_range"),
        ({"num_players": 11}, "num_players"),
        ({"cards": [3, 1], "blind_rounds": [1]}, "blind_rounds"),
        ({"cards": [3, -1]}, "cards"),
        ({"colour": "red"}, "colour"),
        ({"suits": 1}, "trumps"),
    ],
)
def test_what_cannot_be_played_is_refused_naming_the_field(
    overrides: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValueError, match=field):
        Rules.preset("kachuful", **overrides)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("blind-eight", 3, 7),
        ("up-and-down", 4, 10),
        ("kachuful", 3, 8),
        ("sweep-ten", 4, 4),
        ("sweep-ten-anticlockwise", 4, 4),
        ("oh-hell", 3, 7),
    ],
)
def test_a_preset_is_refused_outside_its_players_unless_the_range_is_lifted(
    name: str, low: int, high: int
) -> None:
    assert Table(Rules.preset(name, num_players=low), seed=0).seat is not None
    assert Table(Rules.preset(name, num_players=high), seed=0).seat is not None
    for players in (low - 1, high + 1):
        with pytest.raises(ValueError, match="num_players"):
            Rules.preset(name, num_players=players)
    wider = Rules.preset(name, num_players=2, player_range=[2, 10])
    assert len(round_of(Table(wider, seed=0))["hands"]) == 2
