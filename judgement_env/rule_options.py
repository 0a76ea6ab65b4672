"""Rules as options of a command line: one for each field of `Rules`, their values read as YAML.

A list may be written with commas, and an option wins over the preset or file it changes.

>>> rule_value("cards", "5,4,3"), rule_value("hook", "false"), rule_value("trumps", "S,NT")
([5, 4, 3], False, ['S', 'NT'])
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

import yaml

from judgement_env.rules import FIELDS, PRESETS

# What each rule is, for --help; the values a field takes are in its error message too.
RULE_HELP: Final[Mapping[str, tuple[str, str]]] = {
    "num_players": ("N", "players at the table, 2 to 10"),
    "player_range": ("LOW,HIGH", "the numbers of players the rules are made for"),
    "cards": ("SIZES", "down, up, down-up, up-down, single, or a list such as 5,4,3"),
    "top": ("N", "the largest hand: a number, max, or null for the usual 7"),
    "trumps": ("SUITS", "the trump cycle, of C D H S NT, such as S,D,NT; or turn-up"),
    "hook": ("BOOL", "the last bidder may not make the bids add up to the cards"),
    "bidding": ("HOW", "in-turn or simultaneous"),
    "scoring": (
        "SCHEME",
        "ten-plus, multiplied, multiplied-penalty, high, medium, low, trick-points, or a table",
    ),
    "sweep_bonus": ("POINTS", "added per trick bid, where a seat bids and wins all; 0 = none"),
    "blind_rounds": ("ROUNDS", "rounds bid without seeing the card, such as 1,-1; [] = none"),
    "direction": ("WAY", "clockwise or anticlockwise"),
    "packs": ("N", "packs shuffled together, 1 or 2"),
    "suits": ("N", "suits in the pack, 1 to 4: spades, hearts, diamonds, clubs"),
    "ranks": ("N", "ranks in the pack, 2 to 13; the lowest are left out first"),
    "first_dealer": ("SEAT", "who deals first, or null = drawn"),
}
LISTS: Final = ("player_range", "cards", "trumps", "blind_rounds")
WORDS_FOR_LISTS: Final = ("down", "up", "down-up", "up-down", "single", "turn-up")


def add_rule_options(parser: argparse.ArgumentParser, with_file: bool = True) -> None:
    """An option for each field of Rules, in the namespace as `rule_NAME` only where given."""
    group = parser.add_argument_group(
        "rules", "Each rule is an option; it wins over the preset or the file."
    )
    if with_file:
        group.add_argument(
            "--rules",
            default="kachuful",
            metavar="NAME|FILE",
            help=f"{', '.join(PRESETS)}, or a YAML file (default: kachuful)",
        )
    for name in FIELDS:
        metavar, text = RULE_HELP[name]
        names = [f"--{name}"] + ([f"--{name.replace('_', '-')}"] if "_" in name else [])
        group.add_argument(
            *names,
            dest=f"rule_{name}",
            metavar=metavar,
            default=argparse.SUPPRESS,
            help=text,
        )


def rule_changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of Rules given as options, their values read as YAML; lists may go by commas."""
    given = {name: text for name, text in vars(arguments).items() if name.startswith("rule_")}
    return {
        name.removeprefix("rule_"): rule_value(name.removeprefix("rule_"), text)
        for name, text in given.items()
    }


def rule_value(field: str, text: str) -> Any:
    """The value of a field as typed: "5,4,3", "S,NT", "false", "null"; ValueError if broken."""
    try:
        value = yaml.safe_load(text)
        if field not in LISTS or isinstance(value, list) or text in WORDS_FOR_LISTS:
            return value
        if isinstance(value, str) and "," in value:
            return [yaml.safe_load(part) for part in value.strip(" ,").split(",")]
    except (yaml.YAMLError, RecursionError):
        raise ValueError(f"{field}: {text!r} (allowed: a value as in YAML)") from None
    return [] if value is None else [value]
