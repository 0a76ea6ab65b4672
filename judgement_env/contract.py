"""What the shipped checks are made of: sentences, how one is found broken, positions to try.

A contract is a list of `Check`s, each a sentence and a function that looks for a case against it.
`hold` runs them and stops at the first broken one. The positions cover every preset at every number
of players and house rules that no preset has; `other_world` deals what a seat cannot see anew.

>>> len(rule_sets()) > 30
True
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from judgement_env.cards import (
    NONE,
    NUM_ACTIONS,
    action_text,
    bid_action,
    card_text,
    whole_number,
)
from judgement_env.record import Record
from judgement_env.rules import PRESETS, Rules
from judgement_env.scoring import nearest, shown
from judgement_env.table import Table
from judgement_env.view import View
from judgement_env.worlds import sample_bids, sample_deal

Report = Callable[[str], None]

HOUSE_RULES: tuple[dict[str, Any], ...] = (
    {"num_players": 2, "player_range": (2, 10), "cards": [26, 1], "trumps": ["H", "NT"]},
    {"num_players": 10, "player_range": (2, 10), "packs": 2, "cards": [10, 2]},
    {"num_players": 4, "packs": 2, "cards": [26], "trumps": ["NT"], "hook": False},
    {"num_players": 3, "cards": "up-down", "top": "max", "trumps": "turn-up"},
    {"num_players": 5, "hook": False, "bidding": "simultaneous", "cards": [5, 1, 3]},
    {"num_players": 4, "packs": 2, "hook": False, "bidding": "simultaneous", "trumps": "turn-up"},
    {"num_players": 5, "cards": [1, 4, 1, 1], "blind_rounds": [1, 3, -1]},
    {"num_players": 3, "cards": [1, 3, 1], "blind_rounds": [1, -1], "trumps": "turn-up"},
    {"num_players": 6, "direction": "anticlockwise", "cards": "down-up", "trumps": ["NT", "S"]},
    {"num_players": 3, "suits": 2, "ranks": 7, "trumps": ["S", "H"], "top": 4},
    {"num_players": 3, "suits": 1, "ranks": 13, "trumps": ["S"], "cards": [4, 1]},
    {"scoring": "multiplied-penalty", "sweep_bonus": 5, "first_dealer": 2},
    {"scoring": "medium", "cards": "up", "hook": False},
    {"scoring": "low", "cards": "single", "top": 13},
)


class ContractError(AssertionError):
    """A sentence of a contract that does not hold.

    `sentence` is the sentence, `seen` what was seen instead, `place` where: seed and decision.
    `record` is the match up to there, or None: ``Table.from_record(error.record)`` is the position.
    """

    def __init__(self, sentence: str, seen: str, place: str = "", record: Record | None = None):
        super().__init__(sentence, seen, place, record)
        self.sentence = sentence
        self.seen = seen
        self.place = place
        self.record = record

    def __str__(self) -> str:
        at = f"\n  at: {self.place}" if self.place else ""
        return f"does not hold: {self.sentence}\n  seen: {self.seen}{at}"


class Broken(Exception):
    """A case against the sentence that is being checked: what was seen."""


def broken(seen: str) -> NoReturn:
    """Give up the sentence that is being checked."""
    raise Broken(seen)


class Subject:
    """What is checked. `place` and `table` say where the check is, for the message."""

    place: str = ""
    table: Table | None = None

    @property
    def position(self) -> Record | None:
        """The record of the match up to here, where there is a match."""
        return None if self.table is None else self.table.record()


class Check(NamedTuple):
    """One sentence; `name` is what `skip` names it by."""

    name: str
    sentence: str
    run: Callable[[Any], None]


def hold(
    checks: Sequence[Check], subject: Subject, skip: Sequence[str], report: Report | None
) -> list[str]:
    """Run the checks; the sentences that hold. Raises ContractError for the first that does not.

    `report` is called with each sentence that holds, `skip` names checks to leave out; ValueError
    where it names none.
    """
    names = [check.name for check in checks]
    if isinstance(skip, str):
        raise ValueError(f"skip: {shown(skip)} (allowed: a list of names, [{shown(skip)}])")
    for name in skip:
        if name not in names:
            allowed = ", ".join(names)
            raise ValueError(f"skip: {shown(name)} (allowed: {allowed}){nearest(name, names)}")
    held = []
    for check in checks:
        if check.name in skip:
            continue
        subject.place, subject.table = "", None
        try:
            check.run(subject)
        except Exception as error:
            seen = str(error) if isinstance(error, Broken) else said(error)
            cause = None if isinstance(error, Broken) else error
            raise ContractError(check.sentence, seen, subject.place, subject.position) from cause
        held.append(check.sentence)
        if report is not None:
            report(check.sentence)
    return held


def said(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def frozen(value: Any) -> Any:
    """A value as something that compares exactly and stays as it is, arrays by their bytes."""
    if isinstance(value, Mapping):
        return {key: frozen(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, list | tuple):
        return [frozen(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def actions_text(actions: Sequence[int]) -> str:
    """Actions in words."""
    return ", ".join(action_text(action) for action in actions) or "nothing"


def answer_text(answer: Any) -> str:
    """What was answered, in words where it is an action."""
    number = whole_number(answer)
    if number is None or not 0 <= number < NUM_ACTIONS:
        return shown(answer)
    return f"{shown(answer)} ({action_text(number)})"


# --- rules and positions ----------------------------------------------------------------------


def rule_sets() -> tuple[Rules, ...]:
    """Every preset at every number of players it is made for, and the house rules above."""
    presets = [
        rules.replace(num_players=number)
        for rules in PRESETS.values()
        for number in range(rules.player_range[0], rules.player_range[1] + 1)
    ]
    return (*presets, *(Rules(**fields) for fields in HOUSE_RULES))


def rules_text(rules: Rules) -> str:
    """Rules in a few words: how they differ from the preset, or the defaults, nearest to them."""
    for name, preset in PRESETS.items():
        if rules.num_players in range(preset.player_range[0], preset.player_range[1] + 1):
            if rules == preset.replace(num_players=rules.num_players):
                return f"{name} with {rules.num_players} players"
    usual = Rules().to_dict()
    changed = [f"{k}={v!r}" for k, v in rules.to_dict().items() if v != usual[k]]
    return f"Rules({', '.join(text if len(text) < 60 else text[:59] + '…' for text in changed)})"


class Position(NamedTuple):
    """A seat to act in some match; `table` is its own."""

    table: Table
    place: str

    @property
    def view(self) -> View:
        """A new view of the seat to act."""
        return self.table.view(self.table.seat or 0)


def num_decisions(rules: Rules) -> list[int]:
    """How many decisions each round of a match has."""
    return [rules.num_players * (1 if plan.is_blind else plan.cards + 1) for plan in rules.schedule]


def random_legal(table: Table, rng: random.Random) -> int:
    """A legal action of the seat to act."""
    return rng.choice(table.legal())


def sample_decisions(rules: Rules, number: int, rng: random.Random) -> set[int]:
    """About `number` decisions of a match: half of them bids, the first hook's among them."""
    counts = num_decisions(rules)
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    bids = [start + k for start in starts for k in range(rules.num_players)]
    plays = sorted(set(range(sum(counts))) - set(bids))
    chosen = {rules.num_players - 1, *rng.sample(bids, min(len(bids), number - number // 2))}
    return chosen | set(rng.sample(plays, min(len(plays), number // 2)))


def positions(all_rules: Sequence[Rules], seed: int, number: int) -> Iterator[Position]:
    """About `number` positions of one match of random play under each of the rules."""
    for k, rules in enumerate(all_rules):
        rng = random.Random(f"{seed} {k}")
        wanted = sample_decisions(rules, number, rng)
        table = Table(rules, seed=seed + k)
        while wanted:
            if table.decisions in wanted:
                wanted.remove(table.decisions)
                place = f"{rules_text(rules)}, seed {seed + k}, decision {table.decisions}"
                yield Position(table.clone(), f"{place}, seat {table.seat}")
            table.push(random_legal(table, rng))


# --- another world ----------------------------------------------------------------------------


class World(NamedTuple):
    """A way the cards may lie, and the actions that lead to the position."""

    dealer: int
    deals: list[list[list[str]]]
    turn_ups: list[str | None] | None
    actions: list[int]


def world_of(table: Table) -> World:
    """How the cards lie at this table, rounds to come left out."""
    rounds = table.record()["rounds"]
    turn_ups = [entry["turn_up"] for entry in rounds] if table.rules.is_turn_up else None
    deals = [entry["hands"] for entry in rounds]
    return World(rounds[0]["dealer"], deals, turn_ups, list(table.actions))


def other_world(table: Table, seat: int, rng: random.Random) -> World:
    """A world that `seat` cannot tell from this one at a match in progress.

    The others' cards, the cards set aside, its own ones while they lie face down, and bids that it
    may not know are drawn anew, such that every play so far stays legal.
    """
    world, view = world_of(table), table.view(seat)
    hands = [[card_text(card) for card in hand] for hand in sample_deal(view, rng.random)]
    actions = list(world.actions)
    if view.is_bidding:
        bids = sample_bids(view, rng.random)
        made = sum(bid != NONE for bid in bids)
        for k in range(made):
            bidder = (view.dealer + (k + 1) * table.rules.step) % table.rules.num_players
            actions[len(actions) - made + k] = bid_action(bids[bidder])
    return world._replace(deals=[*world.deals[:-1], hands], actions=actions)


# --- time -------------------------------------------------------------------------------------


class Clock:
    """Adds up how long calls take; nothing is judged by it."""

    def __init__(self) -> None:
        self.calls = 0
        self.total = 0.0
        self.longest = 0.0

    def timed(self, call: Callable[[Any], Any], given: Any) -> Any:
        """The result of a call."""
        start = time.perf_counter()
        result = call(given)
        spent = time.perf_counter() - start
        self.calls += 1
        self.total += spent
        self.longest = max(self.longest, spent)
        return result

    def __str__(self) -> str:
        mean = 1000 * self.total / max(1, self.calls)
        return f"{mean:.2f} ms on average, {1000 * self.longest:.2f} ms at most"
