"""What a bot bids: how often each bid comes among copies of it, by cards a hand, and is made.

>>> counts = count_bids("heuristic", "kachuful", matches=20)
>>> counts.cards
[7, 6, 5, 4, 3, 2, 1]
>>> 0 < counts.share(7, 0) < 1
True
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from judgement_env._jit import njit
from judgement_env.arena import MAX_MATCHES, MAX_SEED, RulesLike, seat_bot
from judgement_env.arena_play import BLOCK
from judgement_env.arena_result import aligned
from judgement_env.arguments import whole
from judgement_env.bots import Bot
from judgement_env.cards import NONE
from judgement_env.engine import apply_action, begin_match, is_legal, next_round, table_key
from judgement_env.rule_options import add_rule_options, rule_changes
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import counted
from judgement_env.state import OVER, Array, new_tables, pack_rules
from judgement_env.table import Table

FORMAT = "judgement-bids/1"


@dataclass(frozen=True)
class BidCounts:
    """How often a bot bid and made each bid, among copies of itself."""

    bot: str
    rules: Rules
    seed: int
    matches: int
    bids: Array  # (C+1, C+1) int64, [cards][bid]: seats that bid so
    made: Array  # (C+1, C+1) int64, [cards][bid]: those of them that made it

    @property
    def cards(self) -> list[int]:
        """The hand sizes played, the largest first."""
        return [int(size) for size in np.flatnonzero(self.bids.sum(axis=1))[::-1]]

    def _of(self, counts: Array, cards: int | None) -> Array:
        """The counts by bid of one size, of all where it is None."""
        row: Array = counts.sum(axis=0) if cards is None else counts[cards]
        return row

    def share(self, cards: int | None, bid: int) -> float:
        """The share of a bid among those of a hand size, None for all sizes together."""
        row = self._of(self.bids, cards)
        return float(row[bid] / max(1, row.sum()))

    def mean(self, cards: int | None) -> float:
        """The mean bid of a hand size, None for all sizes together."""
        row = self._of(self.bids, cards)
        return float(row @ np.arange(len(row)) / max(1, row.sum()))

    def hit_rate(self, cards: int | None) -> float:
        """The share of the bids of a hand size that are made, None for all sizes together."""
        return float(self._of(self.made, cards).sum() / max(1, self._of(self.bids, cards).sum()))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; by cards a count for each bid from 0 on."""
        return {
            "format": FORMAT,
            "bot": self.bot,
            "rules": self.rules.to_dict(),
            "seed": self.seed,
            "matches": self.matches,
            "cards": self.cards,
            "bids": [self.bids[size, : size + 1].tolist() for size in self.cards],
            "made": [self.made[size, : size + 1].tolist() for size in self.cards],
        }

    def to_cells(self) -> list[list[str]]:
        """The rows of a table: by cards the share of each bid, the mean bid and bids made."""
        most = int(np.flatnonzero(self.bids.sum(axis=0))[-1])
        cells = [["cards", *(f"bid {bid}" for bid in range(most + 1)), "mean", "made"]]
        for size in (*self.cards, None):
            shares = [
                f"{self.share(size, bid):.1%}" if size is None or bid <= size else ""
                for bid in range(most + 1)
            ]
            name = "all" if size is None else str(size)
            cells.append([name, *shares, f"{self.mean(size):.2f}", f"{self.hit_rate(size):.1%}"])
        return cells

    def __str__(self) -> str:
        head = (
            f"{self.bot} among copies of itself, {self.rules.num_players} players,"
            f" {counted(self.matches, 'match')}, {counted(int(self.bids.sum()), 'bid')}:"
        )
        return "\n".join([head, "", *aligned(self.to_cells(), 1)])


def count_bids(
    bot: str | Bot,
    rules: RulesLike = "kachuful",
    num_players: int | None = None,
    matches: int = 1000,
    seed: int = 1,
) -> BidCounts:
    """Play matches with the bot in every seat and count its bids.

    The same bot and seed give the same counts. Raises ValueError as `arena.compare` does.
    """
    made_rules = make_rules(rules, num_players)
    whole("seed", seed, 0, MAX_SEED)
    whole("matches", matches, 1, MAX_MATCHES)
    size = made_rules.max_cards + 1
    bids, made = np.zeros((size, size), np.int64), np.zeros((size, size), np.int64)
    with ExitStack() as stack:
        seated = seat_bot(bot, seed, stack)
        play = _play_together if seated.has_rows else _play_by_views
        play(seated, made_rules, matches, seed, bids, made)
    name = bot if isinstance(bot, str) else bot.name
    return BidCounts(name, made_rules, seed, matches, bids, made)


# --- playing ----------------------------------------------------------------------------------


@njit
def begin_matches(rules: Array, tables: Array, seed: Any, first: int) -> None:
    """Begin match ``first + i`` of the seed at table i."""
    r = rules[0]
    for i in range(tables.shape[0]):
        tables[i].key = table_key(seed, first + i)
        begin_match(r, tables[i], 0, r.num_rounds - 1, NONE)


@njit
def take_counted(
    rules: Array, tables: Array, rows: Array, actions: Array, bids: Array, made: Array
) -> int:
    """Take an action at each of `rows`; count the bids of rounds that are over.

    Return the first place in `rows` whose action is illegal, NONE where all are legal.
    """
    r = rules[0]
    for j in range(rows.shape[0]):
        t = tables[rows[j]]
        if not is_legal(r, t, actions[j]):
            return j
        if apply_action(r, t, actions[j]):
            for seat in range(r.num_players):
                bids[t.cards, t.bid[seat]] += 1
                made[t.cards, t.bid[seat]] += t.bid[seat] == t.won[seat]
            next_round(r, t)
    return NONE


def _play_together(
    bot: Bot, rules: Rules, matches: int, seed: int, bids: Array, made: Array
) -> None:
    packed = pack_rules([rules])
    for first in range(0, matches, BLOCK):
        tables = new_tables(min(BLOCK, matches - first))
        begin_matches(packed, tables, np.uint64(seed), first)
        rows = np.arange(len(tables))
        while len(rows := rows[tables["phase"][rows] != OVER]):
            actions = np.asarray(bot.act_rows(packed, tables, rows), np.int64)
            wrong = take_counted(packed, tables, rows, actions, bids, made)
            if wrong != NONE:
                raise ValueError(f"bot {bot.name}: action {actions[wrong]} is not legal")


def _play_by_views(
    bot: Bot, rules: Rules, matches: int, seed: int, bids: Array, made: Array
) -> None:
    for match in range(matches):
        table = Table(rules, seed, table=match)
        while table.seat is not None:
            table.push(int(bot.act(table.view(table.seat))))
        record = table.record()
        for played in record["rounds"]:
            for bid, won in zip(played["bids"], played["won"], strict=True):
                bids[played["cards"], bid] += 1
                made[played["cards"], bid] += bid == won
        bot.match_over({**record, "seed": None})


# --- the command ------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `judgement bids`."""
    parser.epilog = (
        "bots: random, heuristic, heuristic+, search, ismcts, models/NAME or the folder\n"
        "of a model (with +search behind it, it looks ahead), process:COMMAND.\n"
        "docs/bids.md shows what scoring makes of the bids."
    )
    parser.add_argument("bot", metavar="BOT", help="it sits in every seat")
    parser.add_argument(
        "--matches", type=int, default=1000, metavar="N", help="to play (default: 1000)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the deals (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    add_rule_options(parser)


def main(arguments: argparse.Namespace) -> int:
    """Run `judgement bids` and return its exit status; ValueError for a wrong argument."""
    rules = make_rules(arguments.rules).replace(**rule_changes(arguments))
    counts = count_bids(arguments.bot, rules, matches=arguments.matches, seed=arguments.seed)
    print(json.dumps(counts.to_dict(), indent=1) if arguments.json else counts)
    return 0


def compared_cells(counts: Sequence[BidCounts], names: Sequence[str]) -> list[list[str]]:
    """The rows of a table that sets counts side by side: all sizes of each together."""
    most = max(int(np.flatnonzero(one.bids.sum(axis=0))[-1]) for one in counts)
    cells = [["", *(f"bid {bid}" for bid in range(most + 1)), "mean", "made"]]
    for one, name in zip(counts, names, strict=True):
        shares = [
            f"{one.share(None, bid):.1%}" if bid < len(one.bids) else "" for bid in range(most + 1)
        ]
        cells.append([name, *shares, f"{one.mean(None):.2f}", f"{one.hit_rate(None):.1%}"])
    return cells
