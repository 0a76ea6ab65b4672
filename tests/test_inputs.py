"""Derived inputs say what the position says, worked out again from the decoded observation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from judgement_env.bots.inputs import (
    DERIVED,
    DERIVED_AT,
    INPUT_SIZE,
    MAX_NONZERO,
    PLAIN_SIZE,
    suit_places,
    write_inputs,
)
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.cards import SUITS, card_id
from judgement_env.observation import blocks, decode
from judgement_env.state import Array
from tests.positions import positions

RANKS = 13


def found_in(raw: Array) -> dict[str, list[int]]:
    """The derived inputs that are set, by name, as offsets from where each begins."""
    places = np.empty(4, np.int32)
    column, value = np.empty(MAX_NONZERO, np.uint16), np.empty(MAX_NONZERO, np.float32)
    count = write_inputs(raw, places, column, value)
    found = {}
    for name, size, _ in DERIVED:
        start = DERIVED_AT[name]
        inside = [k for k in range(count) if start <= column[k] < start + size]
        assert all(value[k] == 1 for k in inside)
        found[name] = sorted(int(column[k]) - start for k in inside)
    return found


def expected_of(raw: Array) -> dict[str, list[int]]:
    """The same from words: `decode` and `blocks`."""
    seen, part = decode(raw), blocks(raw)
    places = np.empty(4, np.int32)
    suit_places(raw, places)
    hand = [card_id(text) for text in seen["hand"]]  # type: ignore[attr-defined]
    held = sorted(set(hand))
    strength = part["strength"].astype(int)

    def canonical(cards: list[int]) -> list[int]:
        return sorted(int(places[card // RANKS]) * RANKS + card % RANKS for card in cards)

    trick = [card_id(text) if text else None for text in seen["trick"]]  # type: ignore[attr-defined]
    number = int(seen["num_players"])  # type: ignore[call-overload]
    is_bid, is_play = seen["phase"] == "bid", seen["phase"] == "play"
    trump = None if seen["trump"] is None else SUITS.index(str(seen["trump"]))
    # Cards of each suit that the seat has not seen.
    packs, suits, ranks = (int(part["rules"][k]) for k in (0, 5, 6))
    known = [*hand, *(card_id(c) for cards in seen["gone"] for c in cards)]  # type: ignore[attr-defined]
    known += [card_id(str(seen["turn_up"]))] if seen["turn_up"] else []
    kept = [SUITS.index(s) for s in "SHDC"[:suits]]
    unseen = [
        packs * ranks - sum(c // RANKS == s for c in known) if s in kept else 0 for s in range(4)
    ]
    plays = {name: [] for name in ("beats", "sure", "duck", "cheap", "lowest", "highest")}
    if is_play:
        led = None if seen["led"] is None else SUITS.index(str(seen["led"]))
        legal = [c for c in held if c // RANKS == led] or held
        best = None if seen["winning"] is None else trick[int(seen["winning"])]  # type: ignore[call-overload]
        is_last = sum(card is None for card in trick) == 1

        def takes(card: int) -> bool:
            if best is None:
                return True
            return card >= best if card // RANKS == best // RANKS else card // RANKS == trump

        def is_safe(card: int) -> bool:
            cannot_ruff = trump is None or unseen[trump] == 0 or card // RANKS == trump
            is_boss = strength[card] == 13 and (packs == 1 or known.count(card) == 2)
            return is_last or (is_boss and cannot_ruff)

        def by_suit(cards: list[int], pick: Callable[[list[int]], int]) -> list[int]:
            parts = [[c for c in cards if c // RANKS == s] for s in range(4)]
            return canonical([pick(part) for part in parts if part])

        winners = [c for c in legal if takes(c)]
        beating = winners if best is not None else []
        plays = {
            "beats": canonical(beating),
            "sure": canonical([c for c in winners if is_safe(c)]),
            "duck": by_suit([c for c in legal if not takes(c)], max),
            "cheap": by_suit(beating, min),
            "lowest": by_suit(legal, min),
            "highest": by_suit(legal, max),
        }
    left, cards = int(seen["tricks_left"]), int(seen["cards"])  # type: ignore[call-overload]
    lost = part["lost"].astype(bool)
    need: list[int | None] = list(seen["need"])  # type: ignore[call-overload]
    others = [
        5 * (seat - 1) + (0 if lost[seat] else 1 + min(3, number))
        for seat, number in enumerate(need)
        if seat and number is not None
    ]
    own = [] if need[0] is None or lost[0] else [need[0]]
    wanted = sum(number for seat, number in enumerate(need) if number and not lost[seat])
    bids = [bid for bid in seen["bids"] if bid is not None]  # type: ignore[attr-defined]
    forbidden = seen["forbidden_bid"]
    lengths = [card // RANKS for card in hand]
    bosses = [card for card in hand if strength[card] == 13]

    def near(difference: int) -> int:
        return 7 + max(-7, min(7, difference))

    return {
        "boss": canonical([c for c in held if strength[c] == 13]),
        "second": canonical([c for c in held if strength[c] == 12]),
        "third": canonical([c for c in held if strength[c] == 11]),
        **plays,
        "own_need": [min(13, k) for k in own],
        "own_spare": [min(13, left - k) for k in own],
        "other_need": sorted(others),
        "cards": [min(13, cards)],
        "tricks_left": [min(13, left)],
        "unbid": [near(cards - sum(bids))],
        "unwanted": [near(left - wanted)] if is_play else [],
        "forbidden": [] if forbidden is None else [min(14, int(forbidden))],  # type: ignore[call-overload]
        "after_bid": [number - 1 - len(bids)] if is_bid else [],
        "after_play": [number - 1 - sum(c is not None for c in trick)] if is_play else [],
        "length": sorted(int(places[s]) * 8 + min(7, lengths.count(s)) for s in range(4)),
        "unseen": sorted(int(places[s]) * 10 + min(9, unseen[s]) for s in range(4)),
        "bosses": [min(7, len(bosses))],
        "trump_bosses": [min(7, sum(card // RANKS == trump for card in bosses))],
    }


def test_derived_inputs_say_what_the_position_says() -> None:
    _, _, raw, _, _ = positions(1500, seed=11)
    met: dict[str, set[int]] = {name: set() for name, _, _ in DERIVED}
    for row in raw:
        found = found_in(row)
        assert found == expected_of(row)
        for name, offsets in found.items():
            met[name].update(offsets)
    assert all(len(offsets) > 3 for offsets in met.values()), met
    assert met["sure"] > {0, 12} and met["duck"] > {0, 11} and met["cheap"] > {1, 12}
    assert met["unbid"] > {0, 14} and len(met["other_need"]) > 30


def test_the_derived_inputs_follow_the_plain_ones_without_a_gap() -> None:
    assert min(DERIVED_AT.values()) == PLAIN_SIZE
    assert PLAIN_SIZE + sum(size for _, size, _ in DERIVED) == INPUT_SIZE


def test_a_model_from_before_they_were_there_plays_as_it_did() -> None:
    generator = np.random.default_rng(5)
    weights = {
        "layers.0.weight": generator.normal(size=(PLAIN_SIZE, 16)).astype(np.float32),
        "layers.0.bias": np.zeros(16, np.float32),
        "layers.1.weight": generator.normal(size=(16, 79)).astype(np.float32),
        "layers.1.bias": np.zeros(79, np.float32),
    }
    _, _, raw, _, masks = positions(50, seed=12)
    old = PolicyNetwork(weights).probabilities(raw, masks)
    padded = np.zeros((INPUT_SIZE, 16), np.float32)
    padded[:PLAIN_SIZE] = weights["layers.0.weight"]
    new = PolicyNetwork({**weights, "layers.0.weight": padded}).probabilities(raw, masks)
    assert old == pytest.approx(new, abs=1e-6)
