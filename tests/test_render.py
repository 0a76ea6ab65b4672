"""Views and records as text: what stands there, how it is painted, and that nothing hidden does."""

from __future__ import annotations

import io
import re

import pytest

from judgement_env import Rules, Table
from judgement_env.render import (
    has_color,
    has_symbols,
    render,
    render_round,
    render_scores,
    sorted_hand,
)
from tests.tables import bid, card, one_round, play

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def table_in_play() -> Table:
    table = one_round([["AS", "2H", "3H"], ["KS", "4H", "TC"], ["QS", "6H", "7H"]], dealer=0)
    bid(table, 1, 2, 1)
    play(table, "4H", "7H", "3H", "6H")
    return table


def test_a_view_reads_like_a_table() -> None:
    assert render(table_in_play().view(0), color=False, symbols=False) == "\n".join(
        [
            "Round 1 of 1: 3 cards, trump S spades, player_0 deals",
            "",
            "                   bid  won  needs  total",
            ">  player_0 (you)    1    0      1      0",
            "   player_1          1    0      1      0",
            "   player_2          2    1      1      0",
            "",
            "Trick 1:  player_1 4H  player_2 7H  player_0 3H  -> player_2",
            "Trick 2:  player_2 6H",
            "",
            "Your hand: AS  [2H]",
        ]
    )


def test_symbols_stand_for_suits_where_they_can_be_shown() -> None:
    text = render(table_in_play().view(1), color=False, symbols=True)
    assert "trump ♠ spades" in text
    assert text.endswith("Your hand: K♠  10♣")


def test_colour_changes_nothing_but_colour() -> None:
    view = table_in_play().view(0)
    painted = render(view, color=True, symbols=True)
    assert "\x1b[31;1m2♥\x1b[0m" in painted
    assert ESCAPE.sub("", painted) == render(view, color=False, symbols=True)


def test_a_hand_is_sorted_by_suit_from_high_to_low() -> None:
    hand = [card(text) for text in ("2D", "AS", "3C", "KD", "9S", "4H")]
    assert sorted_hand(hand) == [card(t) for t in ("AS", "9S", "4H", "3C", "KD", "2D")]


def test_the_legal_bids_are_listed_for_the_seat_to_act_only() -> None:
    table = one_round([["2C"], ["3C"], ["4C"]], dealer=0)
    bid(table, 1, 1)
    assert "Your bid:  0 1" in render(table.view(0), False, False)
    assert "Your bid" not in render(table.view(1), False, False)


def test_a_bid_that_cannot_be_made_any_more_is_lost() -> None:
    table = one_round([["2C", "3C"], ["4C", "AS"], ["5C", "6C"]], dealer=0)
    bid(table, 2, 0, 1)
    play(table, "4C", "6C", "2C")
    lines = render(table.view(0), False, False).splitlines()
    assert [line.split()[-2] for line in lines[3:6]] == ["1", "lost", "lost"]


def test_a_turned_up_card_is_shown_and_a_blind_hand_is_not() -> None:
    rules = Rules.preset(
        "blind-eight", num_players=3, cards=[1], blind_rounds=[1], trumps="turn-up"
    )
    hands = [["2C"], ["3C"], ["4C"]]
    table = Table(rules, seed=1, dealer=0, deals=[hands], turn_ups=["7D"])
    text = render(table.view(1), False, False)
    assert text.startswith("Round 1 of 1: 1 card, trump D diamonds (turned up: 7D), blind, ")
    assert "Your hand: face down until every bid is in" in text
    assert not re.search(r"\b[2-9TJQKA][CHS]\b", text)


def test_no_card_appears_that_the_view_does_not_know() -> None:
    table = Table("kachuful", seed=12)
    while not table.is_over:
        for seat in range(4):
            view = table.view(seat)
            known = {*view.hand, *(c for trick in view.history for c in trick.plays)}
            known |= {c for _, c in view.trick}
            text = render(view, False, False, scores=False)
            shown = {card(word) for word in re.findall(r"\b[2-9TJQKA][CDHS]\b", text)}
            assert shown <= known
        table.push(table.legal()[0])


def finished() -> Table:
    rules = Rules.preset("kachuful", num_players=3, cards=[1, 1], trumps=["S", "NT"])
    deals = [[["AS"], ["3C"], ["4C"]], [["2C"], ["3C"], ["4C"]]]
    table = Table(rules, seed=1, dealer=0, deals=deals, players=["Asha", "Ben", "Chitra"])
    bid(table, 0, 0, 0)
    play(table, "3C", "4C", "AS")
    bid(table, 1, 0, 1)
    play(table, "4C", "2C", "3C")
    return table


def test_the_score_sheet_adds_up_and_names_the_winner() -> None:
    lines = render_scores(finished().record(), False, False).splitlines()
    assert lines[0] == "Scores: tricks won/bid, points"
    assert lines[1].split() == ["Round", "Asha", "Ben", "Chitra"]
    assert lines[2].split() == ["1", "1S", "1/0", "+0", "0/0", "+10", "0/0", "+10"]
    assert lines[3].split() == ["2", "1NT", "0/0", "+10", "0/1", "+0", "1/1", "+11"]
    assert lines[4].split() == ["Total", "10", "10", "21"]
    assert lines[5] == "Won by Chitra."
    assert len({len(line) for line in lines[1:5]}) == 1


def test_the_scores_stand_under_a_view_once_a_round_is_settled() -> None:
    table = finished()
    assert "Won by Chitra." in render(table.view(0), False, False)
    assert "Won by" not in render(table.view(0), False, False, scores=False)
    table.pop()
    text = render(table.view(0), False, False)
    assert "1      1S" in text and "2      1NT" not in text


def test_a_round_of_a_record_shows_every_hand_and_trick() -> None:
    assert render_round(finished().record(), 2, False, False) == "\n".join(
        [
            "Round 2: 1 card, no trump, Ben deals",
            "  Asha    bid 0, won 0:  2C",
            "  Ben     bid 1, won 0:  3C",
            "  Chitra  bid 1, won 1:  4C",
            "  Trick 1:  Chitra 4C  Asha 2C  Ben 3C  -> Chitra",
        ]
    )
    with pytest.raises(ValueError, match="round: 3 .*1 to 2"):
        render_round(finished().record(), 3)


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_unless_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal(io.BytesIO(), encoding="utf-8")
    assert has_color(terminal)
    assert not has_color(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_color(terminal)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_color(terminal)


def test_symbols_need_an_encoding_that_holds_them() -> None:
    assert has_symbols(Terminal(io.BytesIO(), encoding="utf-8"))
    assert not has_symbols(Terminal(io.BytesIO(), encoding="latin-1"))
    assert not has_symbols(Terminal(io.BytesIO(), encoding="ascii"))
