"""House rules to try: values of each field, rules in which every pair of them meets, strategies.

Rules are plain dicts of fields, as in `tests.reference`; nothing here looks at the package.
"""

import random
from functools import cache
from itertools import combinations
from typing import Any

from hypothesis import strategies as st

from tests.reference import Fields, most_cards, objection, preset, schedule

Pair = tuple[tuple[str, int], tuple[str, int]]


def risky(bid: int, won: int, cards: int) -> int:
    """A scheme no preset has: it depends on all three numbers and may be negative."""
    return 5 * bid + cards if bid == won else won - 3 * bid


def risky_table() -> list[list[list[int]]]:
    """The scheme `risky`, written out as [cards][bid][won] for hands of up to 26 cards."""
    return [
        [[risky(bid, won, cards) for won in range(cards + 1)] for bid in range(cards + 1)]
        for cards in range(27)
    ]


# The values of each field that must meet. `top` counts only beside a pattern of `cards`.
VALUES: dict[str, list[Any]] = {
    "num_players": [2, 3, 4, 5, 6, 7, 8, 9, 10],
    "cards": ["down", "up", "down-up", "up-down", "single", [3, 1, 2, 1], [1], [2, 5, 1]],
    "top": [None, 1, 3, "max"],
    "trumps": [
        ["S", "D", "C", "H"],
        ["H", "NT", "S"],
        ["NT"],
        ["S"],
        ["NT", "S"],
        "turn-up",
    ],
    "hook": [True, False],
    "bidding": ["in-turn", "simultaneous"],
    "scoring": [
        "ten-plus",
        "multiplied",
        "multiplied-penalty",
        "high",
        "medium",
        "low",
        "trick-points",
        risky,
        risky_table(),
    ],
    "sweep_bonus": [0, 10, 3],
    "blind_rounds": [[], [-1], [1]],
    "direction": ["clockwise", "anticlockwise"],
    "packs": [1, 2],
    "suits": [1, 2, 3, 4],
    "ranks": [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    "first_dealer": [None, 0, 1],
}
FIELDS = tuple(VALUES)
# What a field is set to first when a combination has to be made playable.
EASIEST: dict[str, Any] = {
    "cards": "down",
    "top": None,
    "trumps": ["NT"],
    "hook": False,
    "bidding": "in-turn",
    "blind_rounds": [],
    "packs": 2,
    "suits": 4,
    "ranks": 13,
}


def rules_from(choice: dict[str, int]) -> Fields:
    """The fields whose values have these places in `VALUES`."""
    fields = {name: VALUES[name][place] for name, place in choice.items()}
    return preset("kachuful", **{"player_range": [2, 10], **fields})


def is_playable(choice: dict[str, int]) -> bool:
    rules = rules_from(choice)
    # A list of sizes leaves `top` without a meaning, so the two are not asked for together.
    if isinstance(rules["cards"], list) and rules["top"] is not None:
        return False
    return most_cards(rules) > 0 and objection(rules) is None


def _easiest(rest: dict[str, int]) -> dict[str, int]:
    """These values, and in the other fields the ones that rule least out."""
    base = dict.fromkeys(FIELDS, 0)
    for name, value in EASIEST.items():
        base[name] = VALUES[name].index(value)
    return {**base, **rest}


# Other settings that make some pairs playable: a blind round wants one card in its place.
_HELP: tuple[dict[str, int], ...] = (
    {},
    {"cards": VALUES["cards"].index("up")},
    {"cards": VALUES["cards"].index([1])},
    {"cards": VALUES["cards"].index("up-down")},
    {"top": VALUES["top"].index(1)},
    {"num_players": VALUES["num_players"].index(2)},
    {"num_players": VALUES["num_players"].index(2), "top": VALUES["top"].index(1)},
    {"num_players": VALUES["num_players"].index(2), "cards": VALUES["cards"].index([1])},
)


@cache
def playable_pairs() -> tuple[Pair, ...]:
    """Every pair of values of two fields that some playable rules hold."""
    return tuple(pair for pair in all_pairs() if _completion(pair) is not None)


def all_pairs() -> list[Pair]:
    return [
        ((first, i), (second, j))
        for first, second in combinations(FIELDS, 2)
        for i in range(len(VALUES[first]))
        for j in range(len(VALUES[second]))
    ]


def _completion(pair: Pair) -> dict[str, int] | None:
    wanted = dict(pair)
    for help_with in _HELP:
        choice = _easiest({**help_with, **wanted})
        if is_playable(choice):
            return choice
    return None


def pairs_of(choice: dict[str, int]) -> set[Pair]:
    """The pairs of values that meet in one choice of all fields."""
    return set(combinations(((name, choice[name]) for name in FIELDS), 2))


@cache
def covering_rules() -> tuple[Fields, ...]:
    """Playable rules in which every playable pair of values meets, found greedily."""
    rng = random.Random(20)
    missing = set(playable_pairs())
    order = list(playable_pairs())
    rng.shuffle(order)
    rows: list[dict[str, int]] = []
    for pair in order:
        if pair not in missing:
            continue
        row = _completion(pair)
        assert row is not None
        row = _enrich(row, dict(pair), missing, rng)
        rows.append(row)
        missing -= pairs_of(row)
    return tuple(rules_from(row) for row in rows)


def _enrich(
    row: dict[str, int], fixed: dict[str, int], missing: set[Pair], rng: random.Random
) -> dict[str, int]:
    """Change one field after another to the playable value that meets most missing pairs."""
    for _ in range(2):
        for name in rng.sample(FIELDS, len(FIELDS)):
            if name in fixed:
                continue
            options = [{**row, name: place} for place in range(len(VALUES[name]))]
            rng.shuffle(options)
            playable = [option for option in options if is_playable(option)]
            row = max(playable, key=lambda option: len(pairs_of(option) & missing))
    return row


@st.composite
def house_rules(draw: st.DrawFn) -> Fields:
    """Playable rules with any mixture of house rules, beyond the values of `VALUES`."""
    fields: Fields = {
        "num_players": draw(st.integers(2, 10)),
        "player_range": [2, 10],
        "packs": draw(st.integers(1, 2)),
        "suits": draw(st.integers(1, 4)),
        "ranks": draw(st.integers(2, 13)),
        "direction": draw(st.sampled_from(["clockwise", "anticlockwise"])),
        "bidding": draw(st.sampled_from(["in-turn", "simultaneous"])),
        "scoring": draw(st.sampled_from(VALUES["scoring"])),
        "sweep_bonus": draw(st.sampled_from([0, 3, 10])),
    }
    fields["hook"] = fields["bidding"] == "in-turn" and draw(st.booleans())
    fields["first_dealer"] = draw(st.none() | st.integers(0, fields["num_players"] - 1))
    suits = [*"SHDC"[: fields["suits"]], "NT"]
    cycle = st.lists(st.sampled_from(suits), min_size=1, max_size=6)
    fields["trumps"] = draw(st.just("turn-up") | cycle)
    # A pack too small to give everyone a card is made large enough.
    if most_cards(preset("kachuful", **fields)) < 1:
        fields |= {"packs": 2, "suits": 4, "ranks": 13}
    most = most_cards(preset("kachuful", **fields))
    patterns = st.sampled_from(["down", "up", "down-up", "up-down", "single"])
    sizes = st.lists(st.integers(1, min(most, 9)), min_size=1, max_size=6)
    fields["cards"] = draw(patterns | sizes)
    fields["top"] = None
    if isinstance(fields["cards"], str):
        fields["top"] = draw(st.none() | st.integers(1, min(most, 6)))
    rules = preset("kachuful", **fields)
    rules["blind_rounds"] = draw(_blind_rounds(rules))
    assert objection(rules) is None
    return rules


def _blind_rounds(rules: Fields) -> st.SearchStrategy[list[int]]:
    single = [number for number, size in enumerate(schedule(rules), 1) if size == 1]
    if not single:
        return st.just([])
    return st.lists(st.sampled_from(single), unique=True).map(sorted)
