"""Deals given by hand: checked against the rules, completed from the round's own draws.

`deals[round][seat]` is a list of cards and `turn_ups[round]` a card, as text or ids; a round that
is null or missing is drawn by the engine. Where only one of the two is given, the other is drawn
here from the cards left, by the key of the round, so that the same seed always completes it alike.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from judgement_env.cards import NONE, NUM_RANKS, card_id, card_text
from judgement_env.engine import draw_below, stream
from judgement_env.rules import Rules
from judgement_env.scoring import shown
from judgement_env.state import Array

# A stream of the round's key that the engine's own draws (at most a few thousand) never reach.
_COMPLETION: Final = 1 << 20

Hands = tuple[tuple[int, ...], ...]


class Deal(NamedTuple):
    """What is given of one round: card ids by seat, None = drawn; the turned-up card, NONE = drawn
    (or no such card in these rules)."""

    hands: Hands | None
    turn_up: int


def read_deals(rules: Rules, deals: Any, turn_ups: Any, name: str = "deals") -> dict[int, Deal]:
    """What is given of each round, by index from 0.

    Raises ValueError naming round and seat where a hand has the wrong size or a card that is not
    in the pack, or not that often.
    """
    given_hands = _by_round(rules, name, deals)
    given_turn_ups = _by_round(rules, "turn_ups", turn_ups)
    read = {}
    for index in sorted(given_hands.keys() | given_turn_ups.keys()):
        left = Counter(rules.pack)
        turn_up = NONE
        if index in given_turn_ups:
            where = f"turn_ups: round {index + 1}"
            if not rules.is_turn_up:
                _refuse(where, given_turn_ups[index], "null, as these rules turn no card up")
            turn_up = _take(where, given_turn_ups[index], left, rules)
        hands = None
        if index in given_hands:
            hands = _read_hands(
                rules, f"{name}: round {index + 1}", given_hands[index], index, left
            )
        read[index] = Deal(hands, turn_up)
    return read


def complete(rules: Rules, round_key: int, deal: Deal, index: int) -> tuple[Hands, int]:
    """The hands and the turned-up card (NONE where the rules turn none) of a round partly given."""
    left = Counter(rules.pack)
    hands, turn_up = deal
    for hand in hands or ():
        left.subtract(hand)
    if turn_up != NONE:
        left[turn_up] -= 1
    stock = sorted(left.elements())
    key = np.uint64(stream(np.uint64(round_key), _COMPLETION))
    if hands is None:
        size = rules.sizes[index]
        drawn = [_draw(key, k, stock) for k in range(size * rules.num_players)]
        hands = tuple(
            tuple(drawn[seat * size : (seat + 1) * size]) for seat in range(rules.num_players)
        )
    elif rules.is_turn_up and turn_up == NONE:
        turn_up = _draw(key, 0, stock)
    return hands, turn_up


def lay(row: Array, hands: Hands, turn_up: int) -> None:
    """Put these hands, and the turned-up card with its trump, into a freshly dealt row (1,)."""
    words = np.zeros(row["hand"].shape[1:], np.uint64)  # (P, packs)
    for seat, hand in enumerate(hands):
        for card, copies in Counter(hand).items():
            words[seat, :copies] |= np.uint64(1 << card)
    row["hand"][0] = words
    row["dealt"][0] = words
    if turn_up != NONE:
        row["turn_up"][0] = turn_up
        row["trump"][0] = turn_up // NUM_RANKS


def _draw(key: np.uint64, counter: int, stock: list[int]) -> int:
    return stock.pop(draw_below(key, counter, len(stock)))


def _by_round(rules: Rules, name: str, value: Any) -> dict[int, Any]:
    if value is None:
        return {}
    items = _items(name, value, "a list by round, null where a round is drawn")
    if len(items) > rules.num_rounds:
        _refuse(name, f"{len(items)} rounds", f"at most {rules.num_rounds}, the rounds of a match")
    return {index: item for index, item in enumerate(items) if item is not None}


def _read_hands(rules: Rules, where: str, value: Any, index: int, left: Counter[int]) -> Hands:
    allowed = f"{rules.num_players} hands, by seat"
    hands = _items(where, value, allowed)
    if len(hands) != rules.num_players:
        _refuse(where, f"{len(hands)} hands", allowed)
    read = []
    for seat, hand in enumerate(hands):
        at = f"{where}, seat {seat}"
        size = rules.sizes[index]
        cards = _items(at, hand, f"{size} cards")
        if len(cards) != size:
            _refuse(at, f"{len(cards)} cards", f"{size} in this round")
        read.append(tuple(_take(at, card, left, rules) for card in cards))
    return tuple(read)


def _take(where: str, value: Any, left: Counter[int], rules: Rules) -> int:
    try:
        card = card_id(value)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    text = card_text(card)
    if card not in left:
        low = card_text(rules.pack[0])
        _refuse(where, text, f"the {len(rules.pack)} cards of the pack, {low} the lowest")
    if left[card] == 0:
        copies = f"{rules.packs} of each card" if rules.packs > 1 else "one of each card"
        _refuse(where, text, f"{copies}, and {text} is taken already")
    left[card] -= 1
    return card


def _items(where: str, value: Any, allowed: str) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        _refuse(where, value, allowed)
    return list(value)


def _refuse(where: str, value: Any, allowed: str) -> NoReturn:
    text = value if isinstance(value, str) else shown(value)
    raise ValueError(f"{where}: {text} (allowed: {allowed})")
