"""OpenSpiel's C++ `oh_hell` plays the `oh-hell` preset's deals: same legal actions and returns.

Its differences are of form only: a card is rank*4 + suit, suits in the order C D S H;
the number of tricks, the dealer, each card and the turned-up card are chance nodes; cards go round
the table from seat 0.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from tests.reference import FIRST_BID, Match, action_card, card_action, preset

pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed")

NUM_ROUNDS = 2000


@cache
def game(players: int) -> Any:
    return pyspiel.load_game(
        "oh_hell", {"players": players, "off_bid_penalty": False, "points_per_trick": 1}
    )


@cache
def card_names(players: int) -> dict[str, int]:
    """OpenSpiel's chance action of every card, read off its names ("ST" is our "TS")."""
    state = game(players).new_initial_state()
    state.apply_action(state.legal_actions()[0])
    state.apply_action(0)
    actions = state.legal_actions()
    assert len(actions) == 52
    return {state.action_to_string(action)[::-1]: action for action in actions}


def sizes(players: int) -> list[int]:
    """The numbers of tricks OpenSpiel may choose."""
    return list(game(players).new_initial_state().legal_actions())


def rounds(seed: int, count: int) -> Iterator[tuple[int, int, int, list[list[str]], str]]:
    """Players, cards each, dealer, hands and turned-up card of `count` random rounds."""
    rng = random.Random(seed)
    for index in range(count):
        players = 3 + index % 5
        cards = rng.choice(sizes(players))
        pack = rng.sample(sorted(card_names(players)), players * cards + 1)
        hands = [pack[seat:-1:players] for seat in range(players)]
        yield players, cards, rng.randrange(players), hands, pack[-1]


def dealt(players: int, cards: int, dealer: int, hands: list[list[str]], turn_up: str) -> Any:
    """An OpenSpiel state of this deal, the first seat about to bid."""
    state = game(players).new_initial_state()
    names = card_names(players)
    state.apply_action(cards)
    state.apply_action(dealer)
    for place in range(cards):
        for seat in range(players):
            state.apply_action(names[hands[seat][place]])
    state.apply_action(names[turn_up])
    assert not state.is_chance_node()
    return state


def compare(make: Callable[..., Any], final_points: Callable[[Any], list[int]], count: int) -> int:
    """Play `count` rounds on both sides with the same actions; the number of decisions."""
    rng = random.Random(count)
    decisions = 0
    for deal in rounds(11, count):
        players, cards, dealer, hands, turn_up = deal
        names = card_names(players)
        theirs = dealt(*deal)
        ours = make(players, cards, dealer, hands, turn_up)
        while not theirs.is_terminal():
            legal = {
                action if action >= FIRST_BID else names[action_card(action)]: action
                for action in ours.legal()
            }
            assert ours.seat == theirs.current_player(), deal
            assert sorted(legal) == theirs.legal_actions(), deal
            action = rng.choice(sorted(legal))
            theirs.apply_action(action)
            ours.push(legal[action])
            decisions += 1
        assert ours.is_over, deal
        assert final_points(ours) == theirs.returns(), deal
    return decisions


def test_cards_have_the_names_we_expect() -> None:
    names = card_names(4)
    assert len(names) == 52
    assert {card_action(name) for name in names} == set(range(52))
    assert [names[card] for card in ("2C", "2D", "2S", "2H", "3C", "AH")] == [0, 1, 2, 3, 4, 51]


@pytest.mark.parametrize(("players", "most"), [(3, 17), (4, 12), (5, 10), (6, 8), (7, 7)])
def test_hand_sizes_are_one_to_what_the_pack_allows(players: int, most: int) -> None:
    assert sizes(players) == list(range(1, most + 1))


def test_the_slow_rulebook_agrees_with_openspiel() -> None:
    def make(players: int, cards: int, dealer: int, hands: list[list[str]], turn_up: str) -> Match:
        rules = preset("oh-hell", num_players=players, top=cards)
        return Match(rules, [hands], dealer, [turn_up])

    assert compare(make, lambda match: match.totals, 300) > 5000


def test_the_preset_agrees_with_openspiel_over_two_thousand_rounds() -> None:
    from judgement_env import Rules, Table

    @cache
    def rules(players: int, cards: int) -> Rules:
        return Rules.preset("oh-hell", num_players=players, top=cards)

    def make(players: int, cards: int, dealer: int, hands: list[list[str]], turn_up: str) -> Table:
        return Table(
            rules(players, cards), seed=0, dealer=dealer, deals=[hands], turn_ups=[turn_up]
        )

    decisions = compare(make, lambda table: list(table.record()["totals"]), NUM_ROUNDS)
    assert decisions > 40_000
