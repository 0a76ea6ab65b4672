"""Cards, bids and actions as numbers and as text: the one table of action ids.

A card is suit * 13 + rank, suits C D H S = 0..3, ranks 2..A = 0..12. Action 0..51 plays that
card, action 52 + b bids b. Knows nothing of rules: whether an action is legal is the engine's.

>>> card_id("AS"), card_text(51), action_text(54), action_from("bid 2")
(51, 'AS', 'bid 2', 54)
"""

from __future__ import annotations

import operator
import re
from typing import Any, Final

NUM_SUITS: Final = 4
NUM_RANKS: Final = 13
NUM_CARDS: Final = 52
MAX_BID: Final = 26
BID_OFFSET: Final = NUM_CARDS
NUM_ACTIONS: Final = BID_OFFSET + MAX_BID + 1
NONE: Final = -1
NO_TRUMP: Final = 4

SUITS: Final = "CDHS"
RANKS: Final = "23456789TJQKA"
SYMBOLS: Final = "♣♦♥♠"
SUIT_NAMES: Final = ("clubs", "diamonds", "hearts", "spades")
TRUMP_TEXTS: Final = ("C", "D", "H", "S", "NT")

CARD_TEXTS: Final = tuple(rank + suit for suit in SUITS for rank in RANKS)

_SUIT_OF: Final = {
    text: suit for texts in (SUITS, SYMBOLS, "♧♢♡♤") for suit, text in enumerate(texts)
}
_CARD: Final = re.compile(r"(10|[2-9TJQKA])([CDHS♣♦♥♠♧♢♡♤])")
_BID: Final = re.compile(r"(?:BID\s*)?([0-9]{1,9})")
_VARIATION_SELECTORS: Final = str.maketrans("", "", "\ufe0e\ufe0f")


def whole_number(value: Any) -> int | None:
    """The value as an int where its type is an integer's (a bool is none), else None."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def suit_of(card: int) -> int:
    """The suit of a card id: 0..3 = C D H S."""
    return card // NUM_RANKS


def rank_of(card: int) -> int:
    """The rank of a card id: 0..12 = 2..A."""
    return card % NUM_RANKS


def make_card(suit: int, rank: int) -> int:
    """The id of the card of this suit (0..3) and rank (0..12)."""
    return suit * NUM_RANKS + rank


def _upper(text: str) -> str:
    return text.translate(_VARIATION_SELECTORS).strip().upper()


def _card_or_none(text: str) -> int | None:
    match = _CARD.fullmatch(_upper(text))
    if match is None:
        return None
    rank, suit = match.groups()
    return make_card(_SUIT_OF[suit], RANKS.index("T" if rank == "10" else rank))


def card_id(card: str | int) -> int:
    """The id of a card given as text ("AS", "10s", "A♠") or as an id; ValueError if neither."""
    if isinstance(card, str):
        found = _card_or_none(card)
    else:
        found = whole_number(card)
        if found is not None and not 0 <= found < NUM_CARDS:
            found = None
    if found is None:
        raise ValueError(
            f"card: {card!r} (allowed: a rank of {RANKS} then a suit of {SUITS},"
            " such as 'AS', or an id 0 to 51)"
        )
    return found


def card_text(card: int) -> str:
    """The text of a card id, rank then suit: "AS"; ValueError outside 0..51."""
    return CARD_TEXTS[card_id(card)]


def card_symbol(card: int) -> str:
    """The card with its suit as a symbol, as people read it: "A♠", "10♦"."""
    rank = RANKS[rank_of(card_id(card))]
    return ("10" if rank == "T" else rank) + SYMBOLS[suit_of(card)]


def trump_text(trump: int) -> str | None:
    """The trump of a record: "C" "D" "H" "S", or None in no-trump; ValueError outside 0..4."""
    number = whole_number(trump)
    if number is None or not 0 <= number <= NO_TRUMP:
        raise ValueError(
            f"trump: {trump!r} (allowed: 0 to 4, clubs diamonds hearts spades no-trump)"
        )
    return None if number == NO_TRUMP else SUITS[number]


def is_bid(action: int) -> bool:
    """Whether an action id is a bid (else it plays a card)."""
    return BID_OFFSET <= action < NUM_ACTIONS


def bid_action(bid: int) -> int:
    """The action id of a bid; ValueError outside 0..26."""
    number = whole_number(bid)
    if number is None or not 0 <= number <= MAX_BID:
        raise ValueError(f"bid: {bid!r} (allowed: 0 to {MAX_BID})")
    return BID_OFFSET + number


def bid_of(action: int) -> int:
    """The bid that an action id makes; ValueError if it plays a card."""
    number = action_from(action)
    if not is_bid(number):
        raise ValueError(
            f"action: {action!r} plays {action_text(number)} (allowed for a bid: 52 to 78)"
        )
    return number - BID_OFFSET


def action_text(action: int) -> str:
    """The action in words: "bid 2" or "AS"; ValueError outside 0..78."""
    number = action_from(action)
    return f"bid {number - BID_OFFSET}" if is_bid(number) else CARD_TEXTS[number]


def action_from(action: str | int) -> int:
    """The action id of a text ("AS", "bid 2", or "2" for that bid) or of an id; else ValueError."""
    if not isinstance(action, str):
        number = whole_number(action)
        if number is None or not 0 <= number < NUM_ACTIONS:
            raise ValueError(f"action: {action!r} (allowed: 0 to {NUM_ACTIONS - 1})")
        return number
    card = _card_or_none(action)
    if card is not None:
        return card
    match = _BID.fullmatch(_upper(action))
    if match is None or int(match.group(1)) > MAX_BID:
        raise ValueError(
            f"action: {action!r} (allowed: a card such as 'AS', or 'bid 0' to 'bid {MAX_BID}')"
        )
    return BID_OFFSET + int(match.group(1))


def action_to_plain(action: int) -> str | int:
    """The action as records and bot messages write it: a card as text, a bid as its number."""
    number = action_from(action)
    return number - BID_OFFSET if is_bid(number) else CARD_TEXTS[number]


def action_from_plain(value: str | int) -> int:
    """The action id of a card as text or a bid as its number (not an id); else ValueError."""
    return card_id(value) if isinstance(value, str) else bid_action(value)
