"""The hidden cards dealt anew: uniform over the deals that fit what a seat knows, never the true
hands handed back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import permutations
from typing import Any

import pytest

from judgement_env import Rules, Table
from judgement_env.deals import Hands
from judgement_env.worlds import deal_unseen, sample_bids, sample_deal

CASES = (
    Rules.preset("kachuful", num_players=3, top=4),
    Rules.preset("kachuful", num_players=4, top=3, packs=2, suits=2, trumps=["S", "NT"]),
    Rules.preset("oh-hell", num_players=5, top=5, direction="anticlockwise"),
    Rules.preset("blind-eight", num_players=4, cards=[2, 1], blind_rounds=[2]),
    Rules.preset("kachuful", cards=[3], bidding="simultaneous", ranks=4, suits=4),
)


def chi_square_z(counts: Counter[Any], weights: dict[Any, int]) -> float:
    """How many standard deviations the chi-square of these counts lies above what chance gives."""
    assert set(counts) <= set(weights)
    draws, total = sum(counts.values()), sum(weights.values())
    expected = {key: draws * weight / total for key, weight in weights.items()}
    chi = sum((counts[key] - mean) ** 2 / mean for key, mean in expected.items())
    degrees = len(weights) - 1
    return (chi - degrees) / (2 * degrees) ** 0.5


def enumerated(
    unseen: list[int], places: list[tuple[int, int]]
) -> dict[tuple[tuple[int, ...], ...], int]:
    """Every deal that breaks no void, found by trying all orders, with its number of ways."""
    found: Counter[tuple[tuple[int, ...], ...]] = Counter()
    size = sum(n for n, _ in places)
    for order in permutations(unseen, size):
        hands, at = [], 0
        for n, _ in places:
            hands.append(tuple(sorted(order[at : at + n])))
            at += n
        if all(
            not voids >> card // 13 & 1
            for hand, (_, voids) in zip(hands, places, strict=True)
            for card in hand
        ):
            found[tuple(hands)] += 1
    return dict(found)


@pytest.mark.parametrize(
    ("unseen", "places"),
    [
        ([37, 38, 49, 50, 51], [(2, 0), (2, 0)]),
        ([36, 37, 38, 49, 50, 51], [(2, 1 << 3), (2, 0)]),
        ([36, 37, 38, 48, 49, 50, 51], [(2, 1 << 3), (1, 1 << 2), (2, 0)]),
        # two packs: equal cards lie side by side, a pair can be had in fewer ways
        ([37, 37, 38, 50, 50, 51], [(2, 1 << 2), (2, 0)]),
        ([11, 12, 24, 38, 51], [(1, 0b0111), (1, 0b1001), (1, 0b0010)]),
    ],
)
def test_each_consistent_deal_comes_as_often_as_the_others(
    unseen: list[int], places: list[tuple[int, int]]
) -> None:
    weights = enumerated(unseen, places)
    assert len(weights) > 3
    rng = random.Random(5)
    counts = Counter(
        tuple(tuple(sorted(hand)) for hand in deal_unseen(unseen, places, rng.random))
        for _ in range(100 * len(weights))
    )
    assert set(counts) == set(weights)
    assert abs(chi_square_z(counts, weights)) < 4


def test_a_sampler_that_ignores_voids_would_be_found_out() -> None:
    unseen, places = [37, 38, 49, 50, 51], [(2, 0), (2, 0)]
    rng = random.Random(5)
    counts = Counter[Any]()
    for _ in range(6000):
        # The first hand favours hearts a little.
        heap = sorted(unseen, key=lambda card: rng.random() + 0.1 * (card > 38))
        counts[tuple(sorted(heap[:2])), tuple(sorted(heap[2:4]))] += 1
    assert chi_square_z(counts, enumerated(unseen, places)) > 10


def test_hands_that_cannot_be_filled_are_refused() -> None:
    with pytest.raises(ValueError, match="places"):
        deal_unseen([50, 51], [(1, 1 << 3)], random.random)
    with pytest.raises(ValueError, match="places"):
        deal_unseen([50, 51], [(3, 0)], random.random)


def played(rules: Rules, seed: int, decisions: int) -> Table:
    rng = random.Random(seed)
    table = Table(rules, seed=seed)
    while table.decisions < decisions and not table.is_over:
        table.push(rng.choice(table.legal()))
    return table


def held(table: Table, seat: int) -> set[int]:
    words = table.tables_array["hand"][0, seat]
    return {card for card in range(52) if int(words[0]) >> card & 1}


def test_a_hidden_card_lands_with_its_true_owner_as_often_as_its_share_of_places() -> None:
    rules = Rules.preset("kachuful", top=5, suits=3, ranks=10, trumps=["S"])
    rng = random.Random(2)
    hits, expected, variance = 0, 0.0, 0.0
    for seed in range(50):
        table = played(rules, seed, 4)
        view = table.view(0)
        unseen = len(rules.pack) - len(view.hand)
        for _ in range(8):
            world = sample_deal(view, rng.random)
            for seat in (1, 2, 3):
                hits += len(held(table, seat) & set(world[seat]))
                # Each of its 5 cards lies in 5 of the unseen places.
                expected += 5 * 5 / unseen
                variance += 25 / unseen * (1 - 5 / unseen) * (unseen - 5) / (unseen - 1)
    assert abs(hits - expected) / variance**0.5 < 4


@pytest.mark.parametrize("rules", CASES, ids=lambda rules: rules.hash)
def test_worlds_hold_what_the_seat_knows_and_break_no_void(rules: Rules) -> None:
    rng = random.Random(rules.hash)
    voids_met = 0
    for seed in range(4):
        table = Table(rules, seed=seed)
        while not table.is_over:
            for seat in range(rules.num_players):
                voids_met += consistent(table, seat, sample_deal(table.view(seat), rng.random))
            table.push(rng.choice(table.legal()))
    assert voids_met > 10


def consistent(table: Table, seat: int, world: Hands) -> int:
    """Check a world against the true table; the number of voids it had to keep to."""
    view, t, rules = table.view(seat), table.tables_array[0], table.rules
    counts = Counter(rules.pack)
    counts.subtract(card for hand in world for card in hand)
    if view.turn_up >= 0:
        counts[view.turn_up] -= 1
    assert min(counts.values()) >= 0
    sheet = table.record()["rounds"][-1]
    assert [len(hand) for hand in world] == [len(hand) for hand in sheet["hands"]]
    gone: list[Counter[int]] = [Counter() for _ in world]
    for leader, cards in [(k.leader, k.plays) for k in view.history]:
        for turn, card in enumerate(cards):
            gone[(leader + turn * rules.step) % rules.num_players][card] += 1
    for player, card in view.trick:
        gone[player][card] += 1
    for player, hand in enumerate(world):
        left = Counter(hand)
        left.subtract(gone[player])
        assert min(left.values()) >= 0
        assert not any(t["voids"][player] >> card // 13 & 1 for card in left.elements())
        if player == seat and view.hand:
            assert sorted(left.elements()) == list(view.hand)
    return sum(int(v).bit_count() for s, v in enumerate(t["voids"]) if s != seat)


def drawn(count: int, draw: Callable[[], Any]) -> Counter[Any]:
    return Counter(draw() for _ in range(count))


def test_in_a_blind_round_the_own_card_is_dealt_anew_too() -> None:
    rules = Rules(num_players=3, cards=[1], blind_rounds=[1], suits=1, ranks=4, trumps=["S"])
    view = Table(rules, seed=3).view(0)
    rng = random.Random(1)
    counts = drawn(4800, lambda: sample_deal(view, rng.random))
    cards = range(48, 52)
    weights = {((a,), (b,), (c,)): 1 for a, b, c in permutations(cards, 3)}
    assert abs(chi_square_z(counts, weights)) < 4


def test_the_turned_up_card_stays_where_it_lies() -> None:
    rules = Rules.preset("oh-hell", num_players=3, top=1, suits=1, ranks=5)
    view = Table(rules, seed=3).view(2)
    rng = random.Random(1)
    others = [card for card in rules.pack if card not in (view.turn_up, view.hand[0])]
    weights = {((a,), (b,), view.hand): 1 for a, b in permutations(others, 2)}
    counts = drawn(3000, lambda: sample_deal(view, rng.random))
    assert abs(chi_square_z(counts, weights)) < 4


def test_hidden_bids_are_drawn_from_all_bids_and_seen_ones_kept() -> None:
    rules = Rules(num_players=4, cards=[2], bidding="simultaneous", hook=False)
    table = Table(rules, seed=1, dealer=3)
    for bid in (2, 0, 1):
        table.push(f"bid {bid}")
    rng = random.Random(3)
    counts = drawn(4500, lambda: sample_bids(table.view(1), rng.random))
    weights = {(a, 0, c, -1): 1 for a in range(3) for c in range(3)}
    assert abs(chi_square_z(counts, weights)) < 4
    table.push("bid 1")
    assert sample_bids(table.view(1), rng.random) == (2, 0, 1, 1)


def worlds(table: Table, seat: int, seed: int) -> Iterable[Hands]:
    rng = random.Random(seed)
    view = table.view(seat)
    return [sample_deal(view, rng.random) for _ in range(3)]


def test_the_true_hidden_cards_change_nothing() -> None:
    """Two deals that look alike to a seat give the same worlds for the same random numbers."""
    rules = Rules.preset("kachuful", num_players=3, top=4, packs=2)
    for seed in range(20):
        table = played(rules, seed, 6)
        actions = table.actions[: table.decisions]
        other = sample_deal(table.view(0), random.Random(seed).random)
        twin = Table(rules, dealer=table.record()["rounds"][0]["dealer"], deals=[other])
        for action in actions:
            twin.push(action)
        assert worlds(twin, 0, seed) == worlds(table, 0, seed)
