"""Rules: one frozen value that holds every house rule, one field each, checked when it is made.

A preset is a value of `Rules`; a rules file names a preset and the fields that differ. What
follows from the fields (schedule, pack, points) is derived here once and only read elsewhere;
how the game is played is the engine's.

>>> Rules.preset("kachuful", num_players=8).schedule[0]
RoundPlan(cards=6, trump=3, is_blind=False)
"""

from __future__ import annotations

import hashlib
import json
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import yaml
from numpy.typing import NDArray

from judgement_env.cards import (
    MAX_BID,
    NO_TRUMP,
    NONE,
    NUM_RANKS,
    NUM_SUITS,
    SUITS,
    SYMBOLS,
    TRUMP_TEXTS,
    make_card,
    whole_number,
)
from judgement_env.scoring import Scoring, nearest, normal_scoring, points_table, shown

MIN_PLAYERS: Final = 2
MAX_PLAYERS: Final = 10
MAX_PACKS: Final = 2
MIN_RANKS: Final = 2
MAX_ROUNDS: Final = 1000
MAX_SWEEP_BONUS: Final = 10_000
USUAL_TOP: Final = 7
LAST: Final = -1

ORDERS: Final = ("down", "up", "down-up", "up-down", "single")
TURN_UP: Final = "turn-up"
BIDDINGS: Final = ("in-turn", "simultaneous")
DIRECTIONS: Final = ("clockwise", "anticlockwise")
SUITS_KEPT: Final = "SHDC"


class RoundPlan(NamedTuple):
    """One round of the schedule; trump 0..3 = C D H S, 4 = no-trump, -1 = turned up."""

    cards: int
    trump: int
    is_blind: bool


@dataclass(frozen=True)
class Rules:
    """Every rule of a match. The defaults are kachuful with 4 players.

    Making one raises ValueError, naming field, value and allowed range, for every combination
    that cannot be played. Lists are kept as tuples, a scoring function as its table, so that
    rules compare, hash, pickle and write to JSON by value.
    """

    num_players: int = 4
    player_range: Sequence[int] = (3, 8)
    cards: str | Sequence[int] = "down"
    top: int | str | None = None
    trumps: str | Sequence[str] = ("S", "D", "C", "H")
    hook: bool = True
    bidding: str = "in-turn"
    scoring: Scoring = "ten-plus"
    sweep_bonus: int = 0
    blind_rounds: Sequence[int] = ()
    direction: str = "clockwise"
    packs: int = 1
    suits: int = NUM_SUITS
    ranks: int = NUM_RANKS
    first_dealer: int | None = None

    def __post_init__(self) -> None:
        _check_pack(self)
        _check_players(self)
        _check_seating(self)
        _check_trumps(self)
        _check_cards(self)
        _check_bidding(self)
        _check_blind_rounds(self)
        _check_scoring(self)

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Rules:
        """The preset of that name with some fields changed; ValueError as for the constructor.

        Two fields give way where only their opposite is asked for: a list of `cards` drops the
        preset's `top`, and simultaneous `bidding` its `hook`.
        """
        if not isinstance(name, str) or name not in PRESETS:
            _refuse("preset", name, ", ".join(PRESETS), nearest(name, PRESETS))
        return PRESETS[name].replace(**overrides)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rules:
        """Rules from plain data: fields over the `preset` it names, else over the defaults."""
        if not isinstance(data, Mapping):
            _refuse("rules", data, "a mapping of fields: " + ", ".join(FIELDS))
        changes = dict(data)
        if "preset" in changes:
            name = changes.pop("preset")
            return cls.preset(name, **_known(changes, also=("preset",)))
        return cls().replace(**_known(changes, also=("preset",)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Rules:
        """Rules from a YAML file of a `preset` and the fields that differ.

        Raises FileNotFoundError where there is no such file, and ValueError naming the file
        (and the line, for broken YAML) where its content is no playable set of rules.
        """
        return _from_file(Path(path), None)

    def replace(self, **changes: Any) -> Rules:
        """These rules with some fields changed, checked anew; sizes not fixed by `top` follow."""
        _known(changes)
        values = {name: getattr(self, name) for name in FIELDS} | changes
        if "top" not in changes and not isinstance(values["cards"], str):
            values["top"] = None
        if "hook" not in changes and changes.get("bidding") == "simultaneous":
            values["hook"] = False
        return type(self)(**values)

    def only_round(self, index: int) -> Rules:
        """The rules of a match of one round alone, round `index` (from 0) of the schedule."""
        cards, trump, is_blind = self.schedule[index]
        text = "NT" if trump == NO_TRUMP else SUITS[trump]
        return self.replace(
            cards=[cards],
            top=None,
            trumps=TURN_UP if self.is_turn_up else [text],
            blind_rounds=[1] if is_blind else [],
        )

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain JSON types; `from_dict` of it gives equal rules."""
        return {name: _plain(getattr(self, name)) for name in FIELDS}

    @cached_property
    def hash(self) -> str:
        """Twelve hex digits that name these rules, the same on every machine."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def pack(self) -> tuple[int, ...]:
        """The id of every physical card, ascending; with two packs each id twice, side by side."""
        kept = sorted(SUITS.index(suit) for suit in SUITS_KEPT[: self.suits])
        ranks = range(NUM_RANKS - self.ranks, NUM_RANKS)
        return tuple(make_card(s, r) for s in kept for r in ranks for _ in range(self.packs))

    @property
    def is_turn_up(self) -> bool:
        """Whether trump is the suit of a card turned up after the deal."""
        return self.trumps == TURN_UP

    @property
    def is_simultaneous(self) -> bool:
        """Whether no seat sees another's bid until all are in."""
        return self.bidding == "simultaneous"

    @property
    def step(self) -> int:
        """What leads from a seat to the next one to play: +1 clockwise, -1 anticlockwise."""
        return 1 if self.direction == "clockwise" else -1

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Cards a hand of every round."""
        if not isinstance(self.cards, str):
            return tuple(self.cards)
        most = most_cards(self)
        top = most if self.top == "max" else self.top
        if not isinstance(top, int):
            top = min(USUAL_TOP, most)
        up, down = tuple(range(1, top + 1)), tuple(range(top, 0, -1))
        return {
            "down": down,
            "up": up,
            "down-up": down + up[1:],
            "up-down": up + down[1:],
            "single": (top,),
        }[self.cards]

    @cached_property
    def schedule(self) -> tuple[RoundPlan, ...]:
        """The rounds of the match in order."""
        blind = {self.num_rounds if number == LAST else number for number in self.blind_rounds}
        return tuple(
            RoundPlan(size, _trump_of(self, index), index + 1 in blind)
            for index, size in enumerate(self.sizes)
        )

    @property
    def num_rounds(self) -> int:
        """Rounds in a match."""
        return len(self.sizes)

    @property
    def max_cards(self) -> int:
        """Cards a hand of the largest round."""
        return max(self.sizes)

    @cached_property
    def points(self) -> NDArray[np.int32]:
        """Points, read-only: int32 (C+1, C+1, C+1), C = max_cards, indexed [cards][bid][won]."""
        table = points_table(self.scoring, self.sweep_bonus, self.max_cards)
        table.flags.writeable = False
        return table

    def describe(self, width: int = 0) -> str:
        """Every rule in words, a line each, with the schedule; broken at `width` if it is set."""
        lines = [f"{name + ':':<13} {text}" for name, text in _described(self)]
        if width > 0:
            lines = [textwrap.fill(line, width, subsequent_indent=" " * 14) for line in lines]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in FIELDS)

    def __copy__(self) -> Rules:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Rules:
        return self


FIELDS: Final = tuple(field.name for field in fields(Rules))


def most_cards(rules: Rules) -> int:
    """The most cards a hand: what the pack allows, less a card to turn up, and at most 26."""
    left = 1 if rules.is_turn_up else 0
    return min(MAX_BID, (_pack_size(rules) - left) // rules.num_players)


def make_rules(
    rules: str | os.PathLike[str] | Rules | Mapping[str, Any], num_players: int | None = None
) -> Rules:
    """Rules from a preset's name, Rules, a dict or the path of a YAML file.

    `num_players` None keeps the rules' own (4 for a preset). A number applies where the rules
    fix none, and raises ValueError where they fix another; so do unplayable rules. A missing
    file raises FileNotFoundError.
    """
    if num_players is not None:
        _check_whole("num_players", num_players, MIN_PLAYERS, MAX_PLAYERS)
    if isinstance(rules, Rules):
        return _agreed(rules, rules.num_players, num_players)
    if isinstance(rules, Mapping):
        return _from_mapping(rules, num_players)
    if isinstance(rules, str) and rules in PRESETS:
        return _from_mapping({"preset": rules}, num_players)
    if isinstance(rules, str) and not _looks_like_path(rules):
        allowed = f"{', '.join(PRESETS)}, or the path of a YAML file"
        _refuse("rules", rules, allowed, nearest(rules, PRESETS))
    if not isinstance(rules, str | os.PathLike):
        _refuse("rules", rules, "a preset's name, Rules, a dict, or the path of a YAML file")
    return _from_file(Path(rules), num_players)


def _looks_like_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or os.sep in text or Path(text).is_file()


def _agreed(rules: Rules, fixed: int, num_players: int | None) -> Rules:
    if num_players is not None and num_players != fixed:
        _refuse("num_players", num_players, f"{fixed}, which the rules fix")
    return rules


def _from_mapping(data: Mapping[str, Any], num_players: int | None) -> Rules:
    if num_players is None:
        return Rules.from_dict(data)
    if "num_players" in data:
        rules = Rules.from_dict(data)
        return _agreed(rules, rules.num_players, num_players)
    return Rules.from_dict({**data, "num_players": num_players})


class _UniqueKeys(yaml.SafeLoader):
    """Safe YAML that refuses a field given twice; the plain loader silently keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                problem = f"the field {key.value!r} is given twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _from_file(path: Path, num_players: int | None) -> Rules:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(f"rules file: {str(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"rules file: {str(path)!r} cannot be read as text: {error}") from None
    try:
        data = yaml.load(text, _UniqueKeys)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}{_line_of(error)}: broken YAML: {_problem_of(error)}") from None
    except RecursionError:
        raise ValueError(f"{path}: broken YAML: nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path}: {shown(data)} (allowed: lines of 'field: value')")
    try:
        return _from_mapping(data, num_players)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _line_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f", line {mark.line + 1}"


def _problem_of(error: Exception) -> str:
    return " ".join(str(getattr(error, "problem", None) or error).split())


def _known(changes: Mapping[str, Any], also: Iterable[str] = ()) -> dict[str, Any]:
    for name in changes:
        if name not in FIELDS:
            names = (*also, *FIELDS)
            hint = nearest(str(name), names)
            raise ValueError(f"unknown field {shown(name)} (allowed: {', '.join(names)}){hint}")
    return dict(changes)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _refuse(field: str, value: Any, allowed: str, hint: str = "") -> NoReturn:
    raise ValueError(f"{field}: {shown(value)} (allowed: {allowed}){hint}")


def _set(rules: Rules, field: str, value: Any) -> None:
    object.__setattr__(rules, field, value)


def _check_whole(field: str, value: Any, low: int, high: int, note: str = "") -> int:
    number = whole_number(value)
    if number is None or not low <= number <= high:
        _refuse(field, value, f"a whole number from {low} to {high}{note}")
    return number


def _check_choice(field: str, value: Any, names: tuple[str, ...], note: str = "") -> None:
    if not isinstance(value, str) or value not in names:
        hint = nearest(value, names) if isinstance(value, str) else ""
        _refuse(field, value, ", ".join(names) + note, hint)


def _items(field: str, value: Any, allowed: str) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple | range):
        _refuse(field, value, allowed)
    return list(value)


def _pack_size(rules: Rules) -> int:
    return rules.packs * rules.suits * rules.ranks


def _check_pack(rules: Rules) -> None:
    _set(rules, "packs", _check_whole("packs", rules.packs, 1, MAX_PACKS))
    _set(rules, "suits", _check_whole("suits", rules.suits, 1, NUM_SUITS))
    _set(rules, "ranks", _check_whole("ranks", rules.ranks, MIN_RANKS, NUM_RANKS))


def _check_players(rules: Rules) -> None:
    allowed = f"two whole numbers, low then high, from {MIN_PLAYERS} to {MAX_PLAYERS}"
    bounds = [whole_number(item) for item in _items("player_range", rules.player_range, allowed)]
    whole = [bound for bound in bounds if bound is not None]
    if len(bounds) != 2 or len(whole) != 2:
        _refuse("player_range", rules.player_range, allowed)
    low, high = whole
    if not MIN_PLAYERS <= low <= high <= MAX_PLAYERS:
        _refuse("player_range", rules.player_range, allowed)
    _set(rules, "player_range", (low, high))
    note = ""
    if (low, high) != (MIN_PLAYERS, MAX_PLAYERS):
        note = f", the player_range of these rules, itself within {MIN_PLAYERS} to {MAX_PLAYERS}"
    _set(rules, "num_players", _check_whole("num_players", rules.num_players, low, high, note))


def _check_seating(rules: Rules) -> None:
    _check_choice("direction", rules.direction, DIRECTIONS)
    if rules.first_dealer is not None:
        last = rules.num_players - 1
        seat = whole_number(rules.first_dealer)
        if seat is None or not 0 <= seat <= last:
            _refuse("first_dealer", rules.first_dealer, f"a seat from 0 to {last}, or null = drawn")
        _set(rules, "first_dealer", seat)


def _check_trumps(rules: Rules) -> None:
    if isinstance(rules.trumps, str) and rules.trumps == TURN_UP:
        return
    kept = SUITS_KEPT[: rules.suits]
    texts = [text for text in TRUMP_TEXTS if text == "NT" or text in kept]
    allowed = f"a list of {' '.join(texts)}, or '{TURN_UP}'"
    cycle = _items("trumps", rules.trumps, allowed)
    if not 1 <= len(cycle) <= MAX_ROUNDS:
        _refuse("trumps", rules.trumps, f"{allowed}; 1 to {MAX_ROUNDS} of them")
    for trump in cycle:
        if isinstance(trump, str) and trump in SUITS and trump not in kept:
            _refuse("trumps", trump, f"{' '.join(texts)}, with suits {rules.suits} in the pack")
        if not isinstance(trump, str) or trump not in texts:
            _refuse("trumps", trump, allowed)
    _set(rules, "trumps", tuple(cycle))


def _check_cards(rules: Rules) -> None:
    most = most_cards(rules)
    turned = ", one left to turn up" if rules.is_turn_up else ""
    pack = f" for {rules.num_players} players and a pack of {_pack_size(rules)} cards{turned}"
    if most < 1:
        fewest = _pack_size(rules) - (1 if rules.is_turn_up else 0)
        _refuse(
            "num_players",
            rules.num_players,
            f"at most {fewest} with the pack of {_pack_size(rules)}{turned}",
        )
    if isinstance(rules.cards, str):
        _check_choice("cards", rules.cards, ORDERS, ", or a list of sizes")
        if rules.top is not None and not (isinstance(rules.top, str) and rules.top == "max"):
            top = whole_number(rules.top)
            if top is None or not 1 <= top <= most:
                _refuse("top", rules.top, f"a whole number from 1 to {most}{pack}, 'max' or null")
            _set(rules, "top", top)
        return
    if rules.top is not None:
        _refuse("top", rules.top, f"null, as cards is a list; or cards one of {', '.join(ORDERS)}")
    sizes = _items("cards", rules.cards, f"{', '.join(ORDERS)}, or a list of sizes")
    if not 1 <= len(sizes) <= MAX_ROUNDS:
        _refuse("cards", rules.cards, f"a list of 1 to {MAX_ROUNDS} sizes")
    _set(rules, "cards", tuple(_check_whole("cards", size, 1, most, pack) for size in sizes))


def _check_bidding(rules: Rules) -> None:
    if not isinstance(rules.hook, bool):
        _refuse("hook", rules.hook, "true or false")
    _check_choice("bidding", rules.bidding, BIDDINGS)
    if rules.hook and rules.is_simultaneous:
        _refuse("hook", True, "false with bidding 'simultaneous', which has no last bidder")


def _check_blind_rounds(rules: Rules) -> None:
    last = rules.num_rounds
    allowed = f"a list of round numbers from 1 to {last}, or {LAST} for the last round"
    numbers = []
    for item in _items("blind_rounds", rules.blind_rounds, allowed):
        number = whole_number(item)
        if number is None or not (1 <= number <= last or number == LAST):
            _refuse("blind_rounds", item, allowed)
        size = rules.sizes[number - 1 if number > 0 else LAST]
        if size != 1:
            _refuse("blind_rounds", number, f"only rounds of 1 card; that round has {size}")
        if number not in numbers:
            numbers.append(number)
    _set(rules, "blind_rounds", tuple(sorted(numbers)))


def _check_scoring(rules: Rules) -> None:
    bonus = _check_whole("sweep_bonus", rules.sweep_bonus, 0, MAX_SWEEP_BONUS)
    _set(rules, "sweep_bonus", bonus)
    _set(rules, "scoring", normal_scoring(rules.scoring, rules.sizes))
    if not isinstance(rules.scoring, str):
        points_table(rules.scoring, bonus, rules.max_cards)


def _trump_of(rules: Rules, index: int) -> int:
    if rules.is_turn_up:
        return NONE
    return TRUMP_TEXTS.index(rules.trumps[index % len(rules.trumps)])


def _trump_shown(trump: int) -> str:
    if trump == NONE:
        return "?"
    return "NT" if trump == NO_TRUMP else SYMBOLS[trump]


def _described(rules: Rules) -> list[tuple[str, str]]:
    low, high = rules.player_range
    order = rules.cards if isinstance(rules.cards, str) else "as listed"
    top = "" if rules.top is None else f", top {rules.top}"
    rounds = " ".join(
        f"{plan.cards}{_trump_shown(plan.trump)}{' blind' if plan.is_blind else ''}"
        for plan in rules.schedule
    )
    trumps = "turned up after the deal" if rules.is_turn_up else " ".join(rules.trumps)
    hook = "on: the dealer may not make the bids add up to the cards" if rules.hook else "off"
    scoring = rules.scoring if isinstance(rules.scoring, str) else "a table of its own"
    bonus = (
        f"{rules.sweep_bonus} a trick for bidding and winning all" if rules.sweep_bonus else "none"
    )
    blind = ", ".join(str(i + 1) for i, plan in enumerate(rules.schedule) if plan.is_blind)
    pack = f"{len(rules.pack)} cards: {rules.packs} x {rules.suits} suits x {rules.ranks} ranks"
    dealer = "drawn" if rules.first_dealer is None else f"seat {rules.first_dealer}"
    return [
        ("players", f"{rules.num_players} (made for {low} to {high})"),
        ("cards", f"{order}{top}, {rules.num_rounds} rounds: {rounds}"),
        ("trumps", trumps),
        ("hook", hook),
        ("bidding", str(rules.bidding)),
        ("scoring", scoring),
        ("sweep bonus", bonus),
        ("blind rounds", blind or "none"),
        ("direction", rules.direction),
        ("pack", pack),
        ("first dealer", dealer),
    ]


_SWEEP_TEN = Rules(player_range=(4, 4), top=10, trumps=("H", "S", "D", "C"), sweep_bonus=10)

PRESETS: Final[Mapping[str, Rules]] = MappingProxyType(
    {
        "blind-eight": Rules(
            player_range=(3, 7),
            cards=(7, 6, 5, 4, 3, 2, 1, 1),
            trumps=("C", "H", "S", "D"),
            scoring="multiplied",
            blind_rounds=(LAST,),
        ),
        "up-and-down": Rules(
            player_range=(4, 10),
            cards="down-up",
            trumps=("S", "D", "C", "H", "NT"),
            scoring="high",
        ),
        "kachuful": Rules(),
        "sweep-ten": _SWEEP_TEN,
        "sweep-ten-anticlockwise": _SWEEP_TEN.replace(direction="anticlockwise"),
        "oh-hell": Rules(
            player_range=(3, 7), cards="single", trumps="turn-up", scoring="trick-points"
        ),
    }
)
