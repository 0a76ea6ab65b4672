"""Cards and actions as text and as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from judgement_env import cards
from judgement_env.cards import (
    action_from,
    action_from_plain,
    action_text,
    action_to_plain,
    bid_action,
    bid_of,
    card_id,
    card_symbol,
    card_text,
    is_bid,
    rank_of,
    suit_of,
    trump_text,
)


def test_there_are_79_actions_52_cards_and_the_bids_0_to_26() -> None:
    assert (cards.NUM_CARDS, cards.MAX_BID, cards.NUM_ACTIONS) == (52, 26, 79)
    assert (cards.BID_OFFSET, cards.NONE, cards.NO_TRUMP) == (52, -1, 4)


def test_a_card_is_suit_times_13_plus_rank() -> None:
    assert card_id("2C") == 0
    assert card_id("AC") == 12
    assert card_id("7D") == 13 + 5
    assert card_id("TH") == 2 * 13 + 8
    assert card_id("AS") == 51


def test_every_card_survives_text_and_back() -> None:
    for card in range(52):
        assert card_id(card_text(card)) == card
        assert card_id(card_symbol(card)) == card
        assert suit_of(card) * 13 + rank_of(card) == card
    assert len({card_text(card) for card in range(52)}) == 52


@pytest.mark.parametrize("text", ["AS", "as", "As", " aS ", "A♠", "a♠\ufe0f", "A♤"])
def test_the_ace_of_spades_may_be_typed_in_many_ways(text: str) -> None:
    assert card_id(text) == 51


@pytest.mark.parametrize("text", ["TD", "10d", "10D", "10♦", "td"])
def test_ten_may_be_typed_as_t_or_10(text: str) -> None:
    assert card_id(text) == 13 + 8


@pytest.mark.parametrize(
    "value", ["", "A", "SA", "1S", "11S", "AX", "A S", "AS KS", 52, -1, None, True, 3.0, "bid 2"]
)
def test_what_is_no_card_is_refused_by_its_value(value: Any) -> None:
    with pytest.raises(ValueError, match=r"card: .*allowed: .*'AS'") as error:
        card_id(value)
    assert repr(value) in str(error.value)


def test_ids_of_numpy_are_taken() -> None:
    assert card_id(np.int8(51)) == 51  # type: ignore[arg-type]
    assert action_from(np.uint8(54)) == 54  # type: ignore[arg-type]


def test_actions_0_to_51_play_that_card_and_52_plus_b_bids_b() -> None:
    for action in range(79):
        assert is_bid(action) == (action >= 52)
        assert action_from(action_text(action)) == action
        assert action_from_plain(action_to_plain(action)) == action
    assert action_text(52) == "bid 0"
    assert action_text(78) == "bid 26"
    assert action_text(51) == "AS"
    assert bid_action(7) == 59
    assert bid_of(59) == 7


def test_a_bid_is_read_with_or_without_its_word() -> None:
    assert action_from("bid 2") == action_from("BID 2") == action_from(" 2 ") == 54
    assert action_from("10") == 62
    assert action_from("10s") == card_id("TS")


def test_in_records_a_card_is_text_and_a_bid_a_number() -> None:
    assert action_to_plain(51) == "AS"
    assert action_to_plain(54) == 2
    assert action_from_plain(2) == 54
    assert action_from_plain("2C") == 0


@pytest.mark.parametrize(
    "value", [79, -1, None, True, 2.0, "bid", "bid 27", "bid -1", "pass", "27"]
)
def test_what_is_no_action_is_refused_by_its_value(value: Any) -> None:
    with pytest.raises(ValueError, match="action: .*allowed") as error:
        action_from(value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("value", [27, -1, True, "x", 1.5])
def test_a_bid_outside_0_to_26_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="bid: .*allowed: 0 to 26"):
        bid_action(value)


def test_a_card_is_no_bid() -> None:
    with pytest.raises(ValueError, match="plays AS"):
        bid_of(51)


def test_suits_and_trumps_have_letters_and_symbols() -> None:
    assert cards.SYMBOLS == "♣♦♥♠"
    assert [trump_text(trump) for trump in range(5)] == ["C", "D", "H", "S", None]
    with pytest.raises(ValueError, match="trump: -1"):
        trump_text(-1)
