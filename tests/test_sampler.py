"""Worlds dealt by kernels: as likely as those of `worlds`, within what a seat knows, and fair."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table
from judgement_env.observation import knows_hand
from judgement_env.sampler import CHOOSE
from judgement_env.state import Array
from judgement_env.view import View
from judgement_env.worlds import sample_deal
from tests.test_worlds import chi_square_z, played

ROOT = Path(__file__).resolve().parent.parent

HOUSES: dict[str, Rules] = {
    "three": Rules.preset("kachuful", num_players=3, top=4),
    "ten": Rules(num_players=10, player_range=(2, 10), cards=[5, 2]),
    "seven, no trump": Rules.preset("kachuful", num_players=7, trumps=["NT"], top=6),
    "two packs": Rules.preset("kachuful", top=3, packs=2, suits=2, trumps=["S", "NT"]),
    "two packs, long": Rules(num_players=6, packs=2, cards=[15], trumps=["H"]),
    "turned up": Rules.preset("oh-hell", num_players=5, top=5, direction="anticlockwise"),
    "blind": Rules.preset("blind-eight", num_players=4, cards=[2, 1], blind_rounds=[2]),
    "fingers": Rules.preset("kachuful", cards=[3], bidding="simultaneous", hook=False, ranks=4),
    "all dealt": Rules(num_players=4, cards=[13]),
}


def places_of(view: View) -> tuple[list[int], list[tuple[int, int]]]:
    """The cards a seat has not seen, and the hidden hands as sizes and voids, from the record."""
    t, rules = view.tables_array[0], view.rules
    sheet = view.to_dict()["rounds"][-1]
    unseen = Counter(rules.pack)
    sizes = [view.num_cards] * rules.num_players
    for trick in view.history:
        for turn, card in enumerate(trick.plays):
            unseen[card] -= 1
            sizes[(trick.leader + turn * rules.step) % rules.num_players] -= 1
    for seat, card in view.trick:
        unseen[card] -= 1
        sizes[seat] -= 1
    unseen.subtract(view.hand)
    if view.turn_up >= 0:
        unseen[view.turn_up] -= 1
    if sheet["hands"][view.seat] is not None:
        sizes[view.seat] = 0
    voids = [int(word) for word in t["voids"][: rules.num_players]]
    return sorted(unseen.elements()), list(zip(sizes, voids, strict=True))


def hidden(view: View, world: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The hands of a world that the seat does not see."""
    is_open = bool(knows_hand(view.tables_array[0]))
    return tuple(() if seat == view.seat and is_open else cards for seat, cards in enumerate(world))


def states(rules: Rules, matches: int) -> Any:
    """Tables of random matches, before every decision."""
    rng = random.Random(rules.hash)
    for seed in range(matches):
        table = Table(rules, seed=seed)
        while not table.is_over:
            yield table
            table.push(rng.choice(table.legal()))


@pytest.mark.parametrize("name", HOUSES)
def test_worlds_hold_what_the_seat_knows_and_break_no_void(name: str) -> None:
    rng = np.random.default_rng(3)
    voids_met = 0
    for number, table in enumerate(states(HOUSES[name], 2)):
        view = table.view(number % table.rules.num_players)
        unseen, places = places_of(view)
        worlds = view.sample_worlds(rng, 3)
        assert len(worlds) == 3
        for world in worlds:
            assert len(world) == view.rules.num_players
            left = Counter(unseen)
            for seat, cards in enumerate(hidden(view, world)):
                size, voids = places[seat]
                assert len(cards) == size
                assert list(cards) == sorted(cards)
                assert not any(voids >> card // 13 & 1 for card in cards)
                left.subtract(cards)
                voids_met += bin(voids).count("1") * bool(size)
            assert min(left.values(), default=0) >= 0
            if places[view.seat][0] == 0:
                assert world[view.seat] == view.hand
    assert voids_met > 10 or name in ("ten", "blind")


# The rules of a small table, and voids by seat: bit s set = holds none of suit s (C D H S).
BOUND: tuple[tuple[Rules, tuple[int, ...]], ...] = (
    (Rules(num_players=4, suits=3, ranks=3, cards=[2], trumps=["S"]), (0, 0, 0, 0)),
    (Rules(num_players=4, suits=3, ranks=3, cards=[2], trumps=["S"]), (0, 0b1000, 0, 0)),
    (Rules(num_players=4, suits=4, ranks=3, cards=[2], trumps=["NT"]), (0, 0b0001, 0b1001, 0)),
    (Rules(num_players=4, suits=4, ranks=3, cards=[2]), (0, 0b0110, 0b1000, 0b0011)),
    (Rules(num_players=4, suits=4, ranks=3, cards=[2]), (0, 0b0100, 0b0100, 0b1001)),
    (Rules(num_players=4, suits=4, ranks=4, cards=[2]), (0, 0b0111, 0b1101, 0b0001)),
    (Rules(num_players=3, packs=2, suits=2, ranks=4, cards=[3], trumps=["S"]), (0, 0b1000, 0b0100)),
    (
        Rules(num_players=4, packs=2, suits=3, ranks=2, cards=[2], trumps=["NT"]),
        (0, 0b1000, 0b0100, 0b0010),
    ),
    (
        Rules(num_players=5, player_range=(2, 10), suits=4, ranks=3, cards=[1], trumps="turn-up"),
        (0, 0b0001, 0b0010, 0b0100, 0b1000),
    ),
    (
        Rules(num_players=5, suits=4, ranks=2, cards=[1], blind_rounds=[1]),
        (0, 0b0001, 0b0010, 0b0100, 0b1000),
    ),
)


def all_worlds(
    unseen: list[int], places: list[tuple[int, int]]
) -> Counter[tuple[tuple[int, ...], ...]]:
    """Every deal of the physical cards that breaks no void, by the cards it shows."""
    found: Counter[tuple[tuple[int, ...], ...]] = Counter()

    def fill(left: tuple[int, ...], hands: tuple[tuple[int, ...], ...]) -> None:
        if len(hands) == len(places):
            found[hands] += 1
            return
        size, voids = places[len(hands)]
        free = [k for k, card in enumerate(left) if not voids >> card // 13 & 1]
        for chosen in combinations(free, size):
            rest = tuple(card for k, card in enumerate(left) if k not in chosen)
            fill(rest, (*hands, tuple(left[k] for k in chosen)))

    fill(tuple(unseen), ())
    return found


@pytest.mark.parametrize(("rules", "voids"), BOUND)
def test_each_consistent_deal_comes_as_often_as_the_others(
    rules: Rules, voids: tuple[int, ...]
) -> None:
    table = Table(rules, seed=2)
    # Voids shown by nobody yet: what a deal must keep to, without the plays that led to it.
    table.tables_array["voids"][0, : len(voids)] = voids
    view = table.view(0)
    weights = all_worlds(*places_of(view))
    assert len(weights) > 10
    worlds = view.sample_worlds(np.random.default_rng(5), 15 * len(weights))
    counts = Counter(hidden(view, world) for world in worlds)
    assert abs(chi_square_z(counts, dict(weights))) < 4.5


LONG = (
    (Rules(num_players=5, cards=[8]), (0, 0b0001, 0b1010, 0b0100, 0b1000)),
    (Rules(num_players=5, cards=[8], trumps=["NT"]), (0, 0b0011, 0b0011, 0b0100, 0)),
    (Rules(num_players=6, packs=2, cards=[12]), (0, 0b0001, 0b1010, 0b0100, 0b1000, 0b0110)),
)


@pytest.mark.parametrize(("rules", "voids"), LONG)
def test_long_hands_with_voids_hold_suits_as_the_slow_sampler_deals_them(
    rules: Rules, voids: tuple[int, ...]
) -> None:
    table = Table(rules, seed=3)
    table.tables_array["voids"][0, : len(voids)] = voids
    view = table.view(0)
    rng = random.Random(4)
    fast = suits_held(view.sample_worlds(rng, 800))
    slow = suits_held([sample_deal(view, rng.random) for _ in range(400)])
    spread = np.sqrt(fast.var(axis=0) / 800 + slow.var(axis=0) / 400)
    assert (abs(fast.mean(axis=0) - slow.mean(axis=0)) <= 4.5 * spread + 1e-12).all()
    # Pairs of suits too: how one hand is split over them.
    pairs = [np.einsum("wps,wpt->wpst", counts, counts).astype(float) for counts in (fast, slow)]
    spread = np.sqrt(pairs[0].var(axis=0) / 800 + pairs[1].var(axis=0) / 400)
    assert (abs(pairs[0].mean(axis=0) - pairs[1].mean(axis=0)) <= 4.5 * spread + 1e-12).all()


def suits_held(worlds: Any) -> Array:
    """How many cards of each suit each seat holds: (W, P, 4)."""
    counts = [
        [[sum(card // 13 == suit for card in hand) for suit in range(4)] for hand in world]
        for world in worlds
    ]
    return np.array(counts)


def held(table: Table, seat: int) -> set[int]:
    word = int(table.tables_array["hand"][0, seat, 0])
    return {card for card in range(52) if word >> card & 1}


@pytest.mark.parametrize("decisions", [0, 4, 8])
def test_a_hidden_card_lands_with_its_true_owner_as_often_as_its_share_of_places(
    decisions: int,
) -> None:
    rules = Rules.preset("kachuful", top=7)
    rng = np.random.default_rng(decisions)
    hits, expected, variance = 0, 0.0, 0.0
    union: set[int] = set()
    for seed in range(300):
        table = played(rules, seed, decisions)
        view = table.view(seed % 4)
        unseen, places = places_of(view)
        if any(voids for size, voids in places if size):
            continue
        for world in view.sample_worlds(rng, 8):
            for seat, (size, _) in enumerate(places):
                if size:
                    hits += len(held(table, seat) & set(world[seat]))
                    expected += size * size / len(unseen)
                    share = size / len(unseen)
                    variance += (
                        size * share * (1 - share) * (len(unseen) - size) / (len(unseen) - 1)
                    )
                    union |= set(world[seat]) if seed == 0 else set()
    assert expected > 2000
    assert abs(hits - expected) / variance**0.5 < 4
    # 8 worlds of one view together hold far more cards than one.
    assert len(union) > 3 * 7


@pytest.mark.parametrize("name", HOUSES)
def test_the_true_hidden_cards_change_nothing(name: str) -> None:
    """The same position with the hidden cards dealt otherwise: the same worlds, bit for bit."""
    rules = HOUSES[name]
    changed = 0
    for number, table in enumerate(states(rules, 1)):
        view = table.view(number % rules.num_players)
        twin = table.clone()
        world = view.sample_tables(random.Random(number), 1)
        for field in ("hand", "dealt"):
            twin.tables_array[field] = world[field]
        twin.tables_array["key"] += np.uint64(12345)
        changed += twin.tables_array["hand"].tobytes() != table.tables_array["hand"].tobytes()
        again = twin.view(view.seat)
        one = view.sample_tables(random.Random(7), 5)
        assert again.sample_tables(random.Random(7), 5).tobytes() == one.tobytes()
        assert view.sample_tables(random.Random(8), 5).tobytes() != one.tobytes() or (
            len(enumerated_few(view)) == 1
        )
    assert changed > 3


def enumerated_few(view: View) -> set[Any]:
    """Some of the worlds of a view."""
    return set(view.sample_worlds(random.Random(1), 50))


def test_cards_as_dealt_are_those_held_and_those_played() -> None:
    for table in states(HOUSES["two packs"], 2):
        view = table.view(table.seat or 0)
        for world in view.sample_tables(np.random.default_rng(1), 2):
            twin = table.clone()
            twin.tables_array["hand"][0] = world["hand"]
            twin.tables_array["dealt"][0] = world["dealt"]
            for seat in range(4):
                assert (
                    twin.view(seat).to_dict()["rounds"][-1]["tricks"]
                    == (view.to_dict()["rounds"][-1]["tricks"])
                )
            assert (twin.observe(view.seat) == table.observe(view.seat)).all()
            counts = [sum(int(w).bit_count() for w in words) for words in world["dealt"][:4]]
            assert counts == [view.num_cards] * 4


def test_hidden_bids_stay_hidden() -> None:
    table = Table(HOUSES["fingers"], seed=1, dealer=3)
    table.push("bid 2")
    worlds = table.view(1).sample_tables(random.Random(1), 2)
    assert worlds["bid"][:, 0].tolist() == [-1, -1]
    assert worlds["bid_sum"].tolist() == [0, 0]


def test_one_number_is_drawn_whatever_the_count() -> None:
    view = Table("kachuful", seed=1).view(0)
    few, many = np.random.default_rng(4), np.random.default_rng(4)
    assert view.sample_worlds(few, 2) == view.sample_worlds(many, 30)[:2]
    assert few.random() == many.random()
    assert view.sample_worlds(few, 0) == []


def test_wrong_arguments_are_named() -> None:
    view = Table("kachuful", seed=1).view(0)
    for count in (-1, 2.5, "3", True):
        with pytest.raises(ValueError, match=r"count: .* \(allowed: a whole number from 0"):
            view.sample_worlds(random.Random(1), count)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"rng: 7 \(allowed: a numpy.random.Generator"):
        view.sample_worlds(7, 1)  # type: ignore[arg-type]


def test_binomials_are_exact_as_far_as_a_double_goes() -> None:
    assert CHOOSE[52, 13] == 635013559600
    assert CHOOSE[5, 6] == 0
    assert CHOOSE[104, 104] == 1


def test_the_example_in_the_docs_runs() -> None:
    page = (ROOT / "docs" / "bots.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    (example,) = [block for block in blocks if "sample_worlds" in block]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("AS by seat: [")
