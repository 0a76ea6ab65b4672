"""What a person at the table may type, what it means, and why it is refused.

An answer is a card ("AS", "as", "10s", "A♠"), a number (the bid, or a card's place in the hand as
listed), or one of `COMMANDS`. What cannot be taken is explained by the rule that forbids it. Reads
and prints nothing itself.

>>> from judgement_env import Table
>>> read_answer("?", Table("kachuful", seed=7, dealer=0).view(1), [])
'help'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from judgement_env.cards import (
    SUIT_NAMES,
    action_from,
    bid_of,
    card_symbol,
    card_text,
    is_bid,
)
from judgement_env.scoring import shown
from judgement_env.view import View

# What a person can ask for, and the words for it.
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "help": ("?", "help"),
    "hint": ("h", "hint"),
    "table": ("t", "table"),
    "scores": ("s", "scores"),
    "rules": ("r", "rules"),
    "quit": ("q", "quit", "exit"),
}
_COMMAND_OF: Final = {word: name for name, words in COMMANDS.items() for word in words}
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Refused(ValueError):
    """An answer that cannot be taken; the text says why, and what can be."""


def read_answer(text: str, view: View, numbered: Sequence[int]) -> int | str:
    """The legal action that an answer means, or the name of a command; Refused says why neither.

    `numbered` holds the cards as the screen lists them, the first being number 1.
    """
    word = " ".join(text.split())
    if word.lower() in _COMMAND_OF:
        return _COMMAND_OF[word.lower()]
    action = _action(word, view, numbered)
    if action not in view.legal:
        raise Refused(f"{_why_not(action, view)} {what_is_open(view)}")
    return action


def what_is_open(view: View) -> str:
    """What the seat to act may do, as a sentence: "You may bid 0 to 5, but not 2."."""
    if view.is_bidding:
        return f"You may bid {bids_open(view)}."
    return f"You may play {_either([card_symbol(card) for card in view.legal])}."


def bids_open(view: View) -> str:
    """The bids this seat may make, in words."""
    bids = [bid_of(action) for action in view.legal]
    if len(bids) <= 2:
        return _either([str(bid) for bid in bids])
    hooked = view.forbidden_bid
    hole = f", but not {hooked}" if bids[0] < hooked < bids[-1] else ""
    return f"{bids[0]} to {bids[-1]}{hole}"


def help_lines(view: View, numbered: Sequence[int]) -> list[str]:
    """What can be typed at this moment."""
    if view.is_bidding:
        what, why = str(bid_of(view.legal[0])), "a number is your bid"
    else:
        card = view.legal[0]
        what = f"{card_text(card).lower()} or {numbered.index(card) + 1}"
        why = f"plays {card_symbol(card)}: a card, or its number in your hand"
    rows = [
        (what, f"{why}. {what_is_open(view)}"),
        ("h", "a hint from the strongest bot there is"),
        ("t", "the table again, with every trick of this round"),
        ("s", "the scores, round by round"),
        ("r", "the rules of this match"),
        ("q", "stops the match"),
    ]
    return [f"  {key:<9} {text}" for key, text in rows]


def _action(word: str, view: View, numbered: Sequence[int]) -> int:
    """The action that a word means, legal or not; Refused where it means none."""
    if view.is_playing and _NUMBER.fullmatch(word):
        place = int(word)
        if not 1 <= place <= len(numbered):
            raise Refused(f"There is no card number {place} in your hand. {what_is_open(view)}")
        return numbered[place - 1]
    try:
        return action_from(word)
    except ValueError:
        kind = "bid" if view.is_bidding else "card"
        said = f"{shown(word)} is no {kind}." if word else "Nothing typed."
        raise Refused(f"{said} {what_is_open(view)} ? shows the rest.") from None


def _why_not(action: int, view: View) -> str:
    """The rule that keeps the seat to act from an action that is not legal, as a sentence."""
    if view.is_bidding:
        if not is_bid(action):
            return f"Cards are played once every bid is in, so {card_symbol(action)} must wait."
        if bid_of(action) > view.num_cards:
            return f"A bid is 0 to {view.num_cards}, the cards in a hand."
        each = "1, the card" if view.num_cards == 1 else f"{view.num_cards}, the cards"
        return (
            f"The hook: you bid last, and {bid_of(action)} would make the bids add up to"
            f" {each} in a hand."
        )
    if is_bid(action):
        return "The bids are in; now a card is due."
    if action not in view.hand:
        return f"You do not hold {card_symbol(action)}."
    return (
        f"{card_symbol(action)} does not follow suit: {SUIT_NAMES[view.led]} were led,"
        f" and you hold {SUIT_NAMES[view.led]}."
    )


def _either(words: Sequence[str]) -> str:
    """Words as a choice: "a", "a or b", "a, b or c"."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
