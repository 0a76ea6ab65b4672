"""The exact play of the last tricks against a search of every card, in plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from judgement_env import PRESETS, Rules, Table
from judgement_env.bots.last_tricks import MAX_EXACT, same_as_lower, settle_exactly
from judgement_env.cards import NUM_RANKS
from judgement_env.state import PLAYING, SETTLED, Array
from judgement_env.view import cards_in
from tests.tables import BID, bid, one_round, play

# Few cards and two of each: copies meet in one trick.
SMALL: dict[str, Any] = {
    "player_range": (2, 10),
    "packs": 2,
    "suits": 2,
    "ranks": 5,
    "cards": [4],
    "trumps": ["H"],
}
RULE_SETS: dict[str, Rules] = {
    **{
        f"{name}, {number} players": rules.replace(
            num_players=number, cards=[4], blind_rounds=[], trumps=rules.trumps[-1:]
        )
        for name, rules in PRESETS.items()
        if not rules.is_turn_up
        for number in sorted({rules.player_range[0], min(5, rules.player_range[1])})
    },
    "oh-hell": PRESETS["oh-hell"].replace(cards=[4], num_players=5),
    "no-trump": Rules(num_players=4, cards=[5], trumps=["NT"]),
    "no-trump, two packs": Rules(**{**SMALL, "num_players": 3, "trumps": ["NT"]}),
    "two packs, 3 players": Rules(**{**SMALL, "num_players": 3}),
    "two packs, 5 players": Rules(**{**SMALL, "num_players": 5}),
    "every trick is paid": Rules(**{**SMALL, "num_players": 4, "scoring": "trick-points"}),
    "misses cost": Rules(num_players=4, cards=[5], scoring="multiplied-penalty"),
    "sweeps are paid": Rules(num_players=4, cards=[3], sweep_bonus=10),
    "anticlockwise": Rules(num_players=4, cards=[4], direction="anticlockwise"),
    "ten players": Rules(num_players=10, player_range=(2, 10), cards=[3]),
}


class Ending(NamedTuple):
    """The end of a round as plain Python has it: each hand a sorted list, copies side by side."""

    hands: tuple[tuple[int, ...], ...]
    won: tuple[int, ...]
    seat: int
    trick: tuple[tuple[int, int], ...]


def winner_of(trick: tuple[tuple[int, int], ...], trump: int) -> int:
    """The seat that wins: by trumps, then by the suit led; of two alike the later one."""
    led = trick[0][1] // NUM_RANKS

    def strength(turn: int) -> tuple[int, int, int]:
        suit, rank = divmod(trick[turn][1], NUM_RANKS)
        return (2 if suit == trump else 1 if suit == led else 0, rank, turn)

    return trick[max(range(len(trick)), key=strength)][0]


class Brute:
    """Every card of every seat is tried; no two are taken to be the same."""

    def __init__(self, rules: Rules, bids: list[int], cards: int, trump: int) -> None:
        self.rules, self.bids, self.cards, self.trump = rules, bids, cards, trump

    def points(self, won: tuple[int, ...]) -> list[int]:
        return [
            int(self.rules.points[self.cards, b, w]) for b, w in zip(self.bids, won, strict=True)
        ]

    def after(self, end: Ending, card: int) -> Ending:
        hands = [list(hand) for hand in end.hands]
        hands[end.seat].remove(card)
        trick = (*end.trick, (end.seat, card))
        won, seat = list(end.won), (end.seat + self.rules.step) % len(hands)
        if len(trick) == len(hands):
            seat = winner_of(trick, self.trump)
            won[seat] += 1
            trick = ()
        return Ending(tuple(map(tuple, hands)), tuple(won), seat, trick)

    def solve(self, end: Ending) -> tuple[int, ...]:
        """The tricks each seat ends with."""
        hand = end.hands[end.seat]
        if not hand:
            return end.won
        following = [c for c in hand if end.trick and c // 13 == end.trick[0][1] // 13]
        best, found = (-np.inf, -np.inf), end.won
        for card in sorted(set(following or hand)):
            won = self.solve(self.after(end, card))
            points = self.points(won)
            own = points[end.seat]
            value = (own, own - (sum(points) - own) / (len(points) - 1))
            if value > best:
                best, found = value, won
        return found


def endings(rules: Rules, number: int, left: int, seed: int) -> Iterator[Table]:
    """Tables with at most `left` tricks to play, at a turn drawn by lot."""
    rng = np.random.default_rng(seed)
    for k in range(number):
        table = Table(rules, seed=seed * 1000 + k)
        cards = int(table.tables_array["cards"][0])
        turn = int(rng.integers(rules.num_players))
        for _ in range(rules.num_players * (1 + max(0, cards - left)) + turn):
            # Bids that can be made, for otherwise most seats have nothing left to gain.
            choices = [action for action in table.legal() if action < BID + 3]
            table.push(int(rng.choice(choices)))
        yield table


def compared(table: Table) -> tuple[list[int], list[int]]:
    """The points of all seats: by the kernel, and by going through every card."""
    rules = table.rules
    row = table.tables_array.copy()
    t = row[0]
    seats = range(rules.num_players)
    hands = tuple(tuple(cards_in(t["hand"][seat])) for seat in seats)
    turn = int(t["turn"])
    plays = t["plays"][t["trick"]][:turn].tolist()
    trick = tuple(
        ((int(t["leader"]) + k * rules.step) % len(hands), c) for k, c in enumerate(plays)
    )
    brute = Brute(rules, t["bid"][: len(hands)].tolist(), int(t["cards"]), int(t["trump"]))
    won = tuple(t["won"][: len(hands)].tolist())
    expected = brute.points(brute.solve(Ending(hands, won, int(t["seat"]), trick)))
    before = row["hand"].copy()
    settle_exactly(table.rules_array[0], row[0])
    assert row["phase"][0] == SETTLED
    assert row["hand"].tolist() == before.tolist()
    assert row["won"][0].sum() == row["cards"][0]
    return row["points"][0, : len(hands)].tolist(), expected


@pytest.mark.parametrize("name", RULE_SETS)
def test_the_last_two_tricks_go_as_a_search_of_every_card_says(name: str) -> None:
    rules = RULE_SETS[name]
    few = rules.num_players > 5
    for table in endings(rules, number=2 if few else 25, left=MAX_EXACT, seed=len(name)):
        assert table.tables_array["phase"][0] == PLAYING
        points, expected = compared(table)
        assert points == expected


def test_the_choice_matters_in_some_of_those_endings() -> None:
    differ = 0
    for table in endings(RULE_SETS["two packs, 3 players"], number=20, left=MAX_EXACT, seed=5):
        results = {tuple(compared(table)[0])}
        for action in table.legal():
            over = table.push(action)
            if not over:
                results.add(tuple(compared(table)[0]))
            table.pop()
        differ += len(results) > 1
    assert differ > 3


def settled(hands: list[list[str]], bids: list[int], plays: list[str]) -> Array:
    """Tricks and points of three seats after an exact end; seat 2 deals and seat 0 bids first."""
    table = one_round(hands, dealer=2)
    bid(table, *bids)
    play(table, *plays)
    row = table.tables_array.copy()
    settle_exactly(table.rules_array[0], row[0])
    return np.array([row["won"][0, :3], row["points"][0, :3]])


def test_a_king_is_thrown_under_the_ace() -> None:
    hands = [["AH", "2H", "2C"], ["KH", "3H", "3C"], ["4H", "5H", "4C"]]
    # Seat 2 leads hearts. The ace takes one of the two tricks; the king, played to that one, none.
    won, points = settled(hands, [1, 0, 0], ["2C", "3C", "4C"])
    assert (won.tolist(), points.tolist()) == ([1, 0, 2], [11, 10, 0])


def test_of_equal_plays_the_one_that_leaves_the_others_least() -> None:
    hands = [["6H", "7C", "2D"], ["5H", "2C", "3D"], ["4H", "3C", "AD"]]
    # Seat 2 has its trick and leads; seat 0 cannot make its bid, but takes what seat 1 wants.
    won, points = settled(hands, [3, 1, 1], ["2D", "3D", "AD"])
    assert (won.tolist(), points.tolist()) == ([2, 0, 1], [0, 0, 11])


def naive_same(cards: set[int], others: set[int]) -> set[int]:
    same = set()
    for card in cards:
        lower = [c for c in cards if c // 13 == card // 13 and c < card]
        if lower and not any(max(lower) <= other <= card for other in others):
            same.add(card)
    return same


def test_cards_with_none_between_them_are_the_same() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(300):
        cards = set(rng.choice(52, rng.integers(1, 14), replace=False).tolist())
        others = set(rng.choice(52, rng.integers(0, 20), replace=False).tolist())
        words = [np.uint64(sum(1 << c for c in part)) for part in (cards, others)]
        bits = int(same_as_lower(*words))
        same = {c for c in range(64) if bits >> c & 1}
        assert same == naive_same(cards, others)
        found += len(same)
    assert found > 200


def test_plain_python_finds_the_same() -> None:
    script = (
        "from tests.test_last_tricks import RULE_SETS, compared, endings\n"
        "for name in ('two packs, 3 players', 'no-trump', 'sweeps are paid'):\n"
        "    for table in endings(RULE_SETS[name], number=4, left=2, seed=3):\n"
        "        points, expected = compared(table)\n"
        "        assert points == expected\n"
        "        print(points)\n"
    )
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[") == 12
