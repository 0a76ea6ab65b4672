"""Writes `tests/golden/*.json`: whole matches as the slow rulebook plays them.

    python -m tests.make_golden

The deals and the actions come from a fixed seed and the play from `tests.reference` alone; of the
package only ENV_VERSION is read. Run it again in the change that bumps ENV_VERSION, and look at
the difference.
"""

import json
import random
from pathlib import Path
from typing import Any

from judgement_env import ENV_VERSION
from tests.reference import Fields, Match, card_action, preset, random_deals

FOLDER = Path(__file__).parent / "golden"

# A table [cards][bid][won] of a user's own: two points a trick won, twenty for a bid made.
OWN_TABLE = [
    [[2 * won + (20 if bid == won else 0) for won in range(cards + 1)] for bid in range(cards + 1)]
    for cards in range(4)
]
FINGERS = {"hook": False, "bidding": "simultaneous"}
WIDE = {"player_range": [2, 10]}
MATCHES: dict[str, Fields] = {
    "blind-eight-3": preset("blind-eight", num_players=3),
    "blind-eight-7": preset("blind-eight", num_players=7),
    "up-and-down-4": preset("up-and-down"),
    "up-and-down-9-medium": preset("up-and-down", num_players=9, scoring="medium"),
    "up-and-down-10-low": preset("up-and-down", num_players=10, scoring="low"),
    "kachuful-3": preset("kachuful", num_players=3),
    "kachuful-4": preset("kachuful"),
    "kachuful-8": preset("kachuful", num_players=8),
    "sweep-ten": preset("sweep-ten"),
    "sweep-ten-anticlockwise": preset("sweep-ten-anticlockwise"),
    "oh-hell-3": preset("oh-hell", num_players=3),
    "oh-hell-7": preset("oh-hell", num_players=7),
    "house-two-packs-fingers": preset(
        "kachuful",
        **WIDE,
        **FINGERS,
        num_players=10,
        packs=2,
        cards="up-down",
        top=3,
        scoring="multiplied-penalty",
        direction="anticlockwise",
    ),
    "house-two-players-largest-hands": preset(
        "kachuful", **WIDE, num_players=2, cards="single", top="max", hook=False, first_dealer=1
    ),
    "house-small-pack-own-scoring": preset(
        "kachuful",
        **WIDE,
        num_players=5,
        suits=2,
        ranks=8,
        cards=[1, 3, 2],
        trumps=["H", "NT"],
        scoring=OWN_TABLE,
        sweep_bonus=5,
    ),
    "house-blind-turn-up": preset(
        "blind-eight",
        num_players=6,
        cards=[2, 1, 1],
        trumps="turn-up",
        blind_rounds=[2, 3],
        direction="anticlockwise",
    ),
    "house-blind-fingers": preset(
        "blind-eight", **FINGERS, num_players=4, cards=[1, 2, 1], blind_rounds=[1, -1]
    ),
}


def played(name: str) -> dict[str, Any]:
    """The record of the match of that name; bids are low enough for some to be made."""
    rules = MATCHES[name]
    rng = random.Random(name)
    deals, turn_ups = random_deals(rules, rng)
    # A record lists the hands of two packs or one by rising card, whatever the order of the deal.
    deals = [[sorted(hand, key=card_action) for hand in hands] for hands in deals]
    dealer = rules["first_dealer"]
    if dealer is None:
        dealer = rng.randrange(rules["num_players"])
    match = Match(rules, deals, dealer, turn_ups)
    while not match.is_over:
        legal = match.legal()
        likely = legal[: 1 + (match.round.cards + 1) // 2] if match.is_bidding else legal
        match.push(rng.choice(likely))
    return match.record(env_version=ENV_VERSION, rules=rules, seed=0, table=0, match=0)


def to_text(record: dict[str, Any]) -> str:
    """The record as JSON, one line for each round, so that a difference can be read."""
    lines = [json.dumps(entry) for entry in record["rounds"]]
    parts = [
        f"{json.dumps(key)}: {json.dumps(value)}"
        for key, value in record.items()
        if key != "rounds"
    ]
    rounds = '"rounds": [\n  ' + ",\n  ".join(lines) + "\n ]"
    parts.insert(list(record).index("rounds"), rounds)
    return "{" + ",\n ".join(parts) + "}\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in MATCHES:
        (FOLDER / f"{name}.json").write_text(to_text(played(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
