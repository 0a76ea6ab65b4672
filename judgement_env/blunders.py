"""Hand-dealt positions where any good player does the same: what does a bot do in them?

The positions stand in `blunders.yaml` with their right answers, a reason and the kind of proof;
the proofs themselves are tests. A position is a whole deal, of which the bot sees its own hand.

>>> position = find("all-cheap-ruff")
>>> print(answer_text(position.right), "-", position.name)
3D - Do not ruff with the ace when the three wins
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from judgement_env.bots import make_bot
from judgement_env.bots.base import Bot
from judgement_env.cards import (
    NO_TRUMP,
    NONE,
    SUITS,
    action_text,
    bid_action,
    card_id,
)
from judgement_env.rules import LAST, PRESETS, Rules
from judgement_env.scoring import nearest
from judgement_env.table import Table
from judgement_env.view import View

FILE: Final = Path(__file__).with_suffix(".yaml")
FORMAT: Final = "judgement-blunders/1"
# How a right answer is known to be right: see the head of the file of positions.
PROOFS: Final = ("sure", "lost", "counted", "judged")
POINTS, MARGIN = GOALS = ("points", "margin")
TOO_WEAK: Final = 1


# --- positions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Position:
    """One position: cards and actions are ids, hands stand by seat, bids and tricks in order."""

    id: str
    name: str
    preset: str
    rules: Rules
    dealer: int
    hands: tuple[tuple[int, ...], ...]
    turn_up: int
    bids: tuple[int, ...]
    tricks: tuple[tuple[int, ...], ...]
    right: tuple[int, ...]
    proof: str
    goal: str
    reason: str

    def table(self) -> Table:
        """A new table at which the position has come up, in the first round of its match."""
        turn_ups = None if self.turn_up == NONE else [self.turn_up]
        table = Table(self.rules, seed=0, dealer=self.dealer, deals=[self.hands], turn_ups=turn_ups)
        for action in self.actions():
            table.push(action)
        return table

    def actions(self) -> Iterator[int]:
        """The bids and plays that lead to it."""
        yield from map(bid_action, self.bids)
        for trick in self.tricks:
            yield from trick

    def view(self) -> View:
        """What the seat to act knows."""
        table = self.table()
        assert table.seat is not None
        return table.view(table.seat)

    def __str__(self) -> str:
        """The position as the seat to act sees it, with answer and reason."""
        view = self.view()
        lines = [
            f"{self.id}: {self.name}",
            f"{self.preset}, {self.rules.num_players} players: {view}",
            f"right: {answer_text(self.right)} ({self.proof})",
            self.reason,
        ]
        finished = [f"seat {t.leader} led {answer_text(t.plays)}" for t in view.history]
        if finished:
            lines.insert(2, "finished " + "; ".join(finished))
        return "\n".join(lines)


@lru_cache(maxsize=1)
def positions() -> tuple[Position, ...]:
    """Every position, in the order of the file."""
    return tuple(_read(entry) for entry in yaml.safe_load(FILE.read_text(encoding="utf-8")))


def find(name: str) -> Position:
    """The position of this id; ValueError where there is none."""
    by_id = {position.id: position for position in positions()}
    if name not in by_id:
        hint = nearest(name, by_id)
        raise ValueError(f"position: {name!r} (allowed: an id `judgement blunders` lists){hint}")
    return by_id[name]


def answer_text(actions: Sequence[int]) -> str:
    """Actions as text, one space between: "AH KH"."""
    return " ".join(action_text(action) for action in actions)


def _read(entry: dict[str, Any]) -> Position:
    hands = tuple(_cards(hand) for hand in entry["hands"])
    rules = Rules.from_dict(entry["rules"])
    right = entry["right"]
    return Position(
        id=entry["id"],
        name=entry["name"],
        preset=entry["rules"]["preset"],
        rules=from_round_on(rules, rules.sizes.index(len(hands[0]))),
        dealer=entry["dealer"],
        hands=hands,
        turn_up=card_id(entry["turn_up"]) if "turn_up" in entry else NONE,
        bids=tuple(int(bid) for bid in str(entry.get("bids", "")).split()),
        tricks=tuple(_cards(trick) for trick in entry.get("tricks", [])),
        right=(bid_action(right),) if isinstance(right, int) else _cards(right),
        proof=entry["proof"],
        goal=entry.get("goal", POINTS),
        reason=entry["reason"],
    )


def _cards(text: str) -> tuple[int, ...]:
    return tuple(card_id(card) for card in text.split())


def from_round_on(rules: Rules, index: int) -> Rules:
    """The rules of a match that begins with round `index` (from 0) of the schedule of `rules`."""
    if index == 0:
        return rules
    rounds = rules.schedule[index:]
    trumps = ["NT" if plan.trump == NO_TRUMP else SUITS[plan.trump] for plan in rounds]
    return rules.replace(
        cards=[plan.cards for plan in rounds],
        top=None,
        trumps=rules.trumps if rules.is_turn_up else trumps,
        blind_rounds=[
            LAST if n == LAST else n - index for n in rules.blind_rounds if n == LAST or n > index
        ],
    )


# --- bots -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """What each bot does in each position: `answers[bot][k]` is its action in `positions[k]`."""

    positions: tuple[Position, ...]
    answers: dict[str, tuple[int, ...]]

    def right(self, bot: str, preset: str | None = None) -> int:
        """How many positions, of one preset if it is named, the bot answers rightly."""
        return sum(
            action in position.right
            for position, action in zip(self.positions, self.answers[bot], strict=True)
            if preset in (None, position.preset)
        )

    def share(self, bot: str) -> float:
        """The share of the positions that the bot answers rightly."""
        return self.right(bot) / len(self.positions)

    def wrong(self, bot: str) -> list[tuple[Position, int]]:
        """The positions the bot answers wrongly, each with its answer."""
        pairs = zip(self.positions, self.answers[bot], strict=True)
        return [(position, action) for position, action in pairs if action not in position.right]

    def by_preset(self) -> dict[str, int]:
        """How many positions there are of each preset."""
        presets = [position.preset for position in self.positions]
        return {name: presets.count(name) for name in PRESETS if name in presets}

    def to_json(self) -> str:
        """Everything as JSON."""
        bots = [
            {
                "bot": bot,
                "right": self.right(bot),
                "share": round(self.share(bot), 4),
                "by_preset": {name: self.right(bot, name) for name in self.by_preset()},
                "wrong": [
                    {
                        "id": position.id,
                        "answer": action_text(action),
                        "right": [action_text(right) for right in position.right],
                    }
                    for position, action in self.wrong(bot)
                ],
            }
            for bot in self.answers
        ]
        plain = {
            "format": FORMAT,
            "positions": [position.id for position in self.positions],
            "by_preset": self.by_preset(),
            "bots": bots,
        }
        return json.dumps(plain, indent=1)

    def text(self, is_wrong_only: bool = False) -> str:
        """A table of all answers, an x beside the wrong ones, and how many are right."""
        bots = list(self.answers)
        rows = [["position", "right", *bots]]
        for k, position in enumerate(self.positions):
            given = [self.answers[bot][k] for bot in bots]
            if is_wrong_only and all(action in position.right for action in given):
                continue
            marked = [action_text(a) + ("" if a in position.right else " x") for a in given]
            rows.append([position.id, answer_text(position.right), *marked])
        for name, number in self.by_preset().items():
            counts = [f"{self.right(bot, name)} right" for bot in bots]
            rows.append([f"{name}, {number} positions", "", *counts])
        shares = [f"{self.right(bot)} right, {self.share(bot):.0%}" for bot in bots]
        rows.append([f"all, {len(self.positions)} positions", "", *shares])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def ask(bots: dict[str, Bot], chosen: Sequence[Position] | None = None) -> Report:
    """Ask each bot, by the name it is shown under, in each position (default: all of them).

    Raises ValueError where a bot answers what the seat may not do.
    """
    asked = positions() if chosen is None else tuple(chosen)
    views = [position.view() for position in asked]
    return Report(
        asked,
        {
            name: tuple(
                _legal(name, bot.act(view), position, view)
                for position, view in zip(asked, views, strict=True)
            )
            for name, bot in bots.items()
        },
    )


def _legal(bot: str, action: int, position: Position, view: View) -> int:
    if action not in view.legal:
        allowed = ", ".join(map(action_text, view.legal))
        raise ValueError(f"{bot}: {action!r} in {position.id} (allowed: {allowed})")
    return int(action)


def chance_share(chosen: Sequence[Position]) -> float:
    """The share of right answers to expect of a bot that takes any legal action."""
    shares = [len(position.right) / len(position.view().legal) for position in chosen]
    return sum(shares) / len(shares)


# --- the command ------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `judgement blunders`."""
    parser.epilog = (
        "bots: random, heuristic, heuristic+, search, ismcts, models/NAME or the folder\n"
        "of a model (with +search behind it, it looks ahead), process:COMMAND.\n"
        "Without bots the positions are listed; docs/blunders.md tells how their\n"
        "answers are known."
    )
    parser.add_argument("bots", nargs="*", metavar="BOT", help="bots to ask")
    parser.add_argument("--preset", metavar="NAME", help="only positions under this preset")
    parser.add_argument("--show", metavar="ID", help="print this position in full, ask in it only")
    parser.add_argument("--wrong", action="store_true", help="only rows where a bot is wrong")
    parser.add_argument("--json", action="store_true", help="print the answers as JSON")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of bots that draw by lot (default: 0)"
    )
    parser.add_argument(
        "--at-least",
        type=float,
        metavar="SHARE",
        help=f"exit status {TOO_WEAK} where a bot has a lower share right, such as 0.95",
    )


def main(arguments: argparse.Namespace) -> int:
    """Run `judgement blunders` and return its exit status; ValueError for a wrong argument."""
    chosen = _chosen(arguments.preset, arguments.show)
    least = arguments.at_least
    if least is not None and not 0 <= least <= 1:
        raise ValueError(f"--at-least: {least:g} (allowed: a share from 0 to 1)")
    if arguments.seed < 0:
        raise ValueError(f"--seed: {arguments.seed} (allowed: a whole number from 0)")
    if not arguments.bots and (least is not None or arguments.json or arguments.wrong):
        raise ValueError("bots: none (allowed: one or more with --json, --wrong and --at-least)")
    if arguments.show is not None and not arguments.json:
        print(chosen[0])
    elif not arguments.bots:
        print(_listing(chosen))
    if not arguments.bots:
        return 0
    bots = {}
    try:
        for spec in dict.fromkeys(arguments.bots):
            bots[spec] = make_bot(spec, seed=arguments.seed)
        report = ask(bots, chosen)
    finally:
        for bot in bots.values():
            bot.close()
    print(report.to_json() if arguments.json else report.text(arguments.wrong))
    is_too_weak = least is not None and any(report.share(bot) < least for bot in bots)
    return TOO_WEAK if is_too_weak else 0


def _chosen(preset: str | None, show: str | None) -> tuple[Position, ...]:
    chosen = positions() if show is None else (find(show),)
    if preset is None:
        return chosen
    known = {position.preset for position in positions()}
    if preset not in known:
        names = [name for name in PRESETS if name in known]
        hint = nearest(preset, names)
        raise ValueError(f"--preset: {preset!r} (allowed: {', '.join(names)}){hint}")
    if show is not None:
        raise ValueError(f"--preset: {preset!r} (allowed: nothing beside --show, one position)")
    return tuple(position for position in chosen if position.preset == preset)


def _listing(chosen: Sequence[Position]) -> str:
    width = max(len(position.id) for position in chosen)
    lines = [f"{position.id.ljust(width)}  {position.name}" for position in chosen]
    end = f"{len(chosen)} positions; any legal action would be right in {chance_share(chosen):.0%}"
    return "\n".join([*lines, "", end])
