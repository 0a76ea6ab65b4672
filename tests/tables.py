"""Words for tests at a `Table`: bid, play and ask by card and number instead of by action id."""

from typing import Any

from judgement_env import Rules, Table

BID = 52
SUITS = "CDHS"
RANKS = "23456789TJQKA"


def card(text: str) -> int:
    return SUITS.index(text[1]) * 13 + RANKS.index(text[0])


def text(action: int) -> str:
    return RANKS[action % 13] + SUITS[action // 13]


def legal_bids(table: Table) -> list[int]:
    actions = sorted(int(action) for action in table.legal())
    assert all(action >= BID for action in actions)
    return [action - BID for action in actions]


def legal_cards(table: Table) -> set[str]:
    actions = [int(action) for action in table.legal()]
    assert all(action < BID for action in actions)
    return {text(action) for action in actions}


def bid(table: Table, *bids: int) -> None:
    for number in bids:
        table.push(BID + number)


def play(table: Table, *cards: str) -> None:
    for name in cards:
        table.push(card(name))


def play_out(table: Table) -> None:
    """Play the lowest legal card until the round (or the match) is over."""
    rounds = len(table.record()["rounds"])
    while not table.is_over and len(table.record()["rounds"]) == rounds:
        table.push(min(table.legal()))


def round_of(table: Table, number: int = -1) -> dict[str, Any]:
    entry: dict[str, Any] = table.record()["rounds"][number]
    return entry


def seats_asked(table: Table, bids: list[int]) -> list[int]:
    """The seats that make these bids, in order."""
    seats = []
    for number in bids:
        seats.append(int(table.seat))
        bid(table, number)
    return seats


def one_round(hands: list[list[str]], dealer: int = 0, **overrides: Any) -> Table:
    """A match of one round with these hands."""
    fields: dict[str, Any] = {
        "num_players": len(hands),
        "player_range": [2, 10],
        "cards": [len(hands[0])],
        "trumps": ["S"],
    }
    rules = Rules.preset("kachuful", **{**fields, **overrides})
    return Table(rules, seed=1, dealer=dealer, deals=[hands])
