"""A bot for `make_bot("process:python docs/examples/example_bot.py")`: standard library only."""

import json
import sys


def bid(this: dict, seat: int, legal: list) -> int:
    """Return about as many tricks as there are strong cards in the hand."""
    hand = this["hands"][seat] or []  # null in a blind round
    strong = [c for c in hand if c[0] in "AK" or (c[1] == this["trump"] and c[0] in "QJT")]
    return min(legal, key=lambda number: abs(number - 0.7 * len(strong)))


def play(this: dict, seat: int, legal: list) -> str:
    """Return the strongest card while tricks are needed, else the weakest."""
    wants_tricks = this["bids"][seat] > this["won"][seat]
    rank = "23456789TJQKA".index
    by_strength = sorted(legal, key=lambda card: (card[1] == this["trump"], rank(card[0])))
    return by_strength[-1] if wants_tricks else by_strength[0]


for line in sys.stdin:
    message = json.loads(line)
    answer = {"ok": True, "name": "example 1.0"}
    if message["type"] == "act":
        view = message["view"]
        legal = view["legal"]  # bids are numbers, cards are text
        decide = bid if isinstance(legal[0], int) else play
        answer = {"action": decide(view["rounds"][-1], view["seat"], legal)}
    print(json.dumps(answer), flush=True)
