"""The slow rulebook against scenarios worked out by hand from the rules."""

import random

import pytest

from tests.reference import (
    FIRST_BID,
    PRESET_NAMES,
    Match,
    action_card,
    card_action,
    most_cards,
    objection,
    pack_of,
    points,
    preset,
    random_deals,
    schedule,
    winning_play,
)


def bids(*numbers: int) -> list[int]:
    return [FIRST_BID + number for number in numbers]


def cards(*texts: str) -> list[int]:
    return sorted(card_action(text) for text in texts)


def play(match: Match, *texts: str) -> None:
    for text in texts:
        match.push(card_action(text))


def two_card_match(**overrides: object) -> Match:
    rules = preset("kachuful", num_players=3, cards=[2, 1], trumps=["S", "D"], **overrides)
    deals = [
        [["2H", "AH"], ["KH", "3S"], ["2S", "AC"]],
        [["2C"], ["3D"], ["4C"]],
    ]
    return Match(rules, deals, first_dealer=0)


def test_card_ids_follow_clubs_diamonds_hearts_spades_and_two_to_ace() -> None:
    assert [card_action(card) for card in ("2C", "AC", "2D", "2H", "2S", "AS")] == [
        0,
        12,
        13,
        26,
        39,
        51,
    ]
    assert all(card_action(action_card(action)) == action for action in range(52))


@pytest.mark.parametrize(
    ("name", "players", "sizes"),
    [
        ("blind-eight", 5, [7, 6, 5, 4, 3, 2, 1, 1]),
        ("up-and-down", 4, [7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7]),
        ("up-and-down", 8, [6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6]),
        ("up-and-down", 10, [5, 4, 3, 2, 1, 2, 3, 4, 5]),
        ("kachuful", 3, [7, 6, 5, 4, 3, 2, 1]),
        ("kachuful", 8, [6, 5, 4, 3, 2, 1]),
        ("sweep-ten", 4, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ("oh-hell", 7, [7]),
    ],
)
def test_presets_have_their_schedules(name: str, players: int, sizes: list[int]) -> None:
    assert schedule(preset(name, num_players=players)) == sizes


def test_up_then_down_plays_the_turning_size_once() -> None:
    assert schedule(preset("kachuful", cards="up-down", top=3)) == [1, 2, 3, 2, 1]
    assert schedule(preset("kachuful", cards="up", top=4)) == [1, 2, 3, 4]


def test_the_most_cards_keep_one_back_for_the_turned_up_card() -> None:
    assert most_cards(preset("kachuful", num_players=4)) == 13
    assert most_cards(preset("kachuful", num_players=3)) == 17
    assert most_cards(preset("kachuful", num_players=4, trumps="turn-up")) == 12
    assert most_cards(preset("kachuful", num_players=2)) == 26
    assert most_cards(preset("kachuful", num_players=3, packs=2)) == 26


def test_small_packs_keep_spades_longest_and_drop_the_two_first() -> None:
    assert set(pack_of(preset("kachuful", suits=1, ranks=3))) == {"QS", "KS", "AS"}
    suits = {card[1] for card in pack_of(preset("kachuful", suits=3))}
    assert suits == {"S", "H", "D"}
    assert len(pack_of(preset("kachuful", packs=2))) == 104


def test_bidding_starts_next_to_the_dealer_who_is_last() -> None:
    match = two_card_match()
    seats = []
    for bid in (1, 1, 1):
        seats.append(match.seat)
        match.push(FIRST_BID + bid)
    assert seats == [1, 2, 0]
    assert match.seat == 1


def test_anticlockwise_play_bids_leads_plays_and_deals_the_other_way() -> None:
    match = two_card_match(direction="anticlockwise")
    seats = []
    for bid in (1, 1, 1):
        seats.append(match.seat)
        match.push(FIRST_BID + bid)
    assert seats == [2, 1, 0]
    play(match, "AC", "KH", "2H")
    assert match.round.tricks[0].winner == 2
    play(match, "2S", "3S", "AH")
    assert match.rounds[0].tricks[1].winner == 1
    assert match.round.dealer == 2


def test_the_hook_takes_one_bid_from_the_dealer_only() -> None:
    match = two_card_match()
    assert match.legal() == bids(0, 1, 2)
    match.push(FIRST_BID)
    assert match.legal() == bids(0, 1, 2)
    match.push(FIRST_BID + 1)
    assert match.legal() == bids(0, 2)


def test_the_hook_rules_nothing_out_once_the_bids_exceed_the_cards() -> None:
    match = two_card_match()
    match.push(FIRST_BID + 2)
    match.push(FIRST_BID + 1)
    assert match.legal() == bids(0, 1, 2)


def test_suit_is_followed_and_a_void_seat_plays_anything() -> None:
    match = two_card_match()
    for bid in (1, 1, 1):
        match.push(FIRST_BID + bid)
    assert match.legal() == cards("KH", "3S")
    play(match, "KH")
    assert match.legal() == cards("2S", "AC")
    play(match, "AC")
    assert match.legal() == cards("2H", "AH")
    play(match, "2H")
    assert match.round.tricks[0].winner == 1
    assert match.seat == 1


def test_a_match_adds_up_and_ties_share_the_win() -> None:
    match = two_card_match()
    for bid in (1, 1, 1):
        match.push(FIRST_BID + bid)
    play(match, "KH", "AC", "2H", "3S", "2S", "AH")
    assert match.rounds[0].won == [0, 2, 0]
    assert match.rounds[0].points == [0, 0, 0]
    assert (match.round.dealer, match.round.trump, match.seat) == (1, "D", 2)
    for bid in (0, 0):
        match.push(FIRST_BID + bid)
    assert match.legal() == bids(0)
    match.push(FIRST_BID)
    play(match, "4C", "2C", "3D")
    assert match.totals == [10, 0, 10]
    assert match.is_over
    assert match.winners == [0, 2]
    assert match.seat is None
    assert match.legal() == []


@pytest.mark.parametrize(
    ("plays", "trump", "place"),
    [
        (["KS", "QS", "2S", "AS"], "D", 3),
        (["KS", "QS", "2S", "TS"], "D", 0),
        (["KS", "AH", "2D", "AS"], "D", 2),
        (["KS", "3D", "2D", "AS"], "D", 1),
        (["KS", "AH", "AC", "AD"], None, 0),
        (["5H", "9H", "9H", "2H"], "S", 2),
        (["5H", "9S", "9S", "AH"], "S", 2),
        (["5H", "5C", "5H"], None, 2),
    ],
)
def test_who_takes_the_trick(plays: list[str], trump: str | None, place: int) -> None:
    assert winning_play(plays, trump) == place


@pytest.mark.parametrize(
    ("scoring", "bonus", "cards_each", "bid", "won", "expected"),
    [
        ("ten-plus", 0, 7, 7, 7, 17),
        ("ten-plus", 0, 7, 4, 3, 0),
        ("ten-plus", 10, 10, 10, 10, 120),
        ("ten-plus", 10, 6, 6, 6, 76),
        ("ten-plus", 10, 1, 1, 1, 21),
        ("multiplied", 0, 7, 0, 0, 10),
        ("multiplied", 0, 7, 4, 4, 40),
        ("multiplied-penalty", 0, 7, 2, 5, -30),
        ("high", 0, 7, 2, 2, 32),
        ("high", 0, 7, 2, 1, -32),
        ("high", 0, 7, 0, 1, -10),
        ("medium", 0, 7, 0, 0, 0),
        ("medium", 0, 7, 3, 3, 30),
        ("low", 0, 7, 3, 3, 11),
        ("low", 0, 7, 3, 2, 0),
        ("trick-points", 0, 7, 3, 3, 13),
        ("trick-points", 0, 7, 3, 2, 2),
    ],
)
def test_points_of_each_scheme(
    scoring: str, bonus: int, cards_each: int, bid: int, won: int, expected: int
) -> None:
    rules = preset("kachuful", scoring=scoring, sweep_bonus=bonus)
    assert points(rules, cards_each, bid, won) == expected


def test_a_blind_round_hides_every_hand_until_the_last_bid_and_plays_itself() -> None:
    rules = preset("blind-eight", num_players=3, cards=[1], blind_rounds=[1], trumps=["D"])
    match = Match(rules, [[["2D"], ["AC"], ["KC"]]], first_dealer=2)
    for _ in range(3):
        seat = match.seat
        assert seat is not None
        assert match.view(seat)["rounds"][0]["hands"] == [None, None, None]
        match.push(match.legal()[0])
    assert match.is_over
    assert match.round.tricks[0].plays == ["2D", "AC", "KC"]
    assert match.round.won == [1, 0, 0]


def test_simultaneous_bids_are_hidden_until_all_are_in() -> None:
    match = two_card_match(hook=False, bidding="simultaneous")
    match.push(FIRST_BID + 1)
    assert match.view(2)["rounds"][0]["bids"] == [None, None, None]
    assert match.view(1)["rounds"][0]["bids"] == [None, 1, None]
    match.push(FIRST_BID + 1)
    assert match.legal() == bids(0, 1, 2)
    match.push(FIRST_BID)
    assert match.view(2)["rounds"][0]["bids"] == [0, 1, 1]


def test_identical_cards_are_one_action() -> None:
    rules = preset("kachuful", num_players=2, player_range=[2, 10], cards=[2], packs=2)
    match = Match(rules, [[["AH", "AH"], ["KH", "2C"]]], first_dealer=1)
    match.push(FIRST_BID)
    match.push(FIRST_BID)
    assert match.legal() == cards("AH")
    play(match, "AH", "KH")
    assert match.legal() == cards("AH")


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"num_players": 11, "player_range": [2, 11]}, "num_players"),
        ({"num_players": 9}, "num_players"),
        ({"top": 14}, "cards"),
        ({"cards": [3, -1]}, "cards"),
        ({"cards": [3], "blind_rounds": [1]}, "blind_rounds"),
        ({"bidding": "simultaneous"}, "hook"),
        ({"suits": 2, "top": 2}, "trumps"),
        ({"first_dealer": 4}, "first_dealer"),
        ({"packs": 3}, "packs, suits or ranks"),
    ],
)
def test_what_cannot_be_played_is_objected_to(overrides: dict[str, object], field: str) -> None:
    assert objection(preset("kachuful", **overrides)) == field


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_random_matches_come_to_an_end_with_every_trick_won(name: str) -> None:
    rng = random.Random(3)
    rules = preset(name)
    assert objection(rules) is None
    deals, turn_ups = random_deals(rules, rng)
    match = Match(rules, deals, rng.randrange(4), turn_ups)
    while not match.is_over:
        match.push(rng.choice(match.legal()))
    assert [sum(entry.won) for entry in match.rounds] == schedule(rules)
    assert match.totals == [
        sum(entry.points[s] for entry in match.rounds if entry.points) for s in range(4)
    ]
