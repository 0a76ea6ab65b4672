"""Rare deals: whole hands of the pack, even for the seats without a rare hand, repeatable."""

from __future__ import annotations

import numpy as np
import pytest

from judgement_env import Rules
from judgement_env.cards import BID_OFFSET, NONE, NUM_ACTIONS
from judgement_env.engine import begin_match, popcount, table_key
from judgement_env.state import Array, new_tables, pack_rules
from training.config import Config
from training.rare_deals import deal_rare, rare_seat
from training.rollout import Rollout, begin_tables
from training.rows import Rows
from training.targets import make_targets

GAMES = {
    "kachuful": Rules(),
    "two packs": Rules(num_players=6, packs=2, cards=[9, 3]),
    "turn-up": Rules(num_players=5, trumps="turn-up", cards=[7, 2]),
    "no trump": Rules(num_players=3, trumps=["NT"], cards=[10, 1]),
    "short pack": Rules(num_players=3, suits=3, ranks=8, trumps=["S", "H", "D"], cards=[7, 4]),
    "whole pack": Rules(num_players=4, cards=[13]),
}


def uniform(rows: Rows, which: Array) -> Array:
    return np.zeros((len(which), NUM_ACTIONS), np.float32)


def cards_of(words: Array) -> list[int]:
    """The cards of a hand, one entry a copy."""
    return [c for c in range(52) for word in words if int(word) >> c & 1]


@pytest.mark.parametrize("name", GAMES)
def test_the_hands_are_of_the_pack_and_whole(name: str) -> None:
    rules = GAMES[name]
    r, t = pack_rules([rules])[0], new_tables(1)[0]
    pack = sorted(r.pack[: r.pack_size].tolist())
    for match in range(60):
        t.key, t.match = table_key(np.uint64(3), 0), match
        begin_match(r, t, match % r.num_rounds, r.num_rounds - 1, NONE)
        turned, trump = int(t.turn_up), int(t.trump)
        deal_rare(r, t, match % r.num_players)
        assert (int(t.turn_up), int(t.trump)) == (turned, trump)
        hands = [cards_of(t.hand[seat]) for seat in range(r.num_players)]
        assert [len(hand) for hand in hands] == [int(t.cards)] * r.num_players
        assert (t.hand == t.dealt).all()
        left = pack.copy()
        for card in [card for hand in hands for card in hand] + [turned] * (turned != NONE):
            left.remove(card)


def test_rare_hands_hold_what_even_ones_hardly_do() -> None:
    r, tables = pack_rules([Rules(cards=[7], trumps=["S"])])[0], new_tables(1)
    t = tables[0]
    trumps, most = [], []
    for match in range(4000):
        t.key, t.match = table_key(np.uint64(1), 0), match
        begin_match(r, t, 0, 0, NONE)
        deal_rare(r, t, 2)
        trumps.append(popcount(t.hand[2, 0] >> np.uint64(39)))
        most.append(
            max(popcount(t.hand[2, 0] >> np.uint64(13 * s) & np.uint64(8191)) for s in range(4))
        )
    # Of even hands of seven 0.1 % hold six trumps or more, 0.5 % six of any suit.
    assert np.mean(np.array(trumps) >= 6) > 0.05
    assert np.mean(np.array(most) >= 6) > 0.1
    assert np.mean(np.array(trumps) == 0) > 0.1


def test_the_other_cards_come_evenly() -> None:
    """Beside a hand that leans, each card it lacks is as likely in any other hand, or undealt."""
    r, t = pack_rules([Rules(cards=[7])])[0], new_tables(1)[0]
    rounds = 20_000
    held, expected = np.zeros((3, 52)), np.zeros(52)
    for match in range(rounds):
        t.key, t.match = table_key(np.uint64(5), 0), match
        begin_match(r, t, 0, 0, NONE)
        deal_rare(r, t, 1)
        for place, seat in enumerate((0, 2, 3)):
            held[place, cards_of(t.hand[seat])] += 1
        lacking = np.ones(52)
        lacking[cards_of(t.hand[1])] = 0
        expected += lacking * 7 / 45
    # Of 156 counts, normal to the eye, none lies further out than about four deviations.
    assert np.abs((held - expected) / np.sqrt(expected)).max() < 4.2


def test_the_share_of_rounds_is_the_one_asked_for_and_any_seat_may_have_the_hand() -> None:
    r, t = pack_rules([Rules()])[0], new_tables(1)[0]
    seats = []
    for match in range(8000):
        t.key, t.match = table_key(np.uint64(9), 0), match
        begin_match(r, t, match % 7, 6, NONE)
        seats.append(rare_seat(r, t, 0.2, NONE))
        assert rare_seat(r, t, 0.2, 3) == (NONE if seats[-1] == NONE else 3)
        assert rare_seat(r, t, 0.0, NONE) == NONE
        assert rare_seat(r, t, 1.0, NONE) != NONE
    counts = np.bincount(np.array(seats) + 1, minlength=5)
    assert abs(counts[1:].sum() / 8000 - 0.2) < 0.015
    assert np.abs(counts[1:] - 400).max() < 80


def test_blind_rounds_have_none() -> None:
    r, t = pack_rules([Rules(cards=[1, 1], blind_rounds=[1])])[0], new_tables(1)[0]
    t.key = table_key(np.uint64(1), 0)
    begin_match(r, t, 0, 1, NONE)
    assert rare_seat(r, t, 1.0, NONE) == NONE
    begin_match(r, t, 1, 1, NONE)
    assert rare_seat(r, t, 1.0, NONE) != NONE


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_only_the_seat_with_the_rare_hand_learns(share: float) -> None:
    """At rule bots' tables that is the learner; elsewhere every seat learns of an even deal."""
    rules = pack_rules([Rules(cards=[4, 2])])
    rollout = Rollout(rules, 12, 40, 3, rule_bot_tables=share, rare_deals=0.5)
    rows = rollout.collect(uniform)
    own = rows.is_own.reshape(40, 12)
    assert own[:, : round(share * 12)].all()
    rest = own[:, round(share * 12) :]
    assert 0.35 < rest.mean() < 0.9
    without = Rollout(rules, 12, 40, 3, rule_bot_tables=share).collect(uniform)
    assert without.is_own.all()


def test_a_resumed_rollout_deals_the_same_rare_hands() -> None:
    rules = pack_rules([Rules(cards=[4, 2])])
    first, second = (Rollout(rules, 5, 16, 3, rare_deals=0.5) for _ in range(2))
    first.collect(uniform)
    second.set_state(first.get_state())
    a, b = first.collect(uniform), second.collect(uniform)
    assert (a.action == b.action).all()
    assert (a.is_own == b.is_own).all()
    assert not a.is_own.all()


def test_the_first_round_may_be_rare_too() -> None:
    rules = pack_rules([Rules(cards=[7])])
    even, rare = new_tables(50), new_tables(50)
    begin_tables(rules, even, 4, Rollout(rules, 1, 8, 0).seating)
    begin_tables(rules, rare, 4, Rollout(rules, 1, 8, 0, rare_deals=1.0).seating)
    assert (even["hand"] != rare["hand"]).any(axis=(1, 2)).all()
    assert (even["trump"] == rare["trump"]).all()


def test_half_the_rare_hands_bid_by_lot_with_the_chances_the_policy_gives() -> None:
    rules = pack_rules([Rules(cards=[4], hook=False)])
    logits = np.zeros(NUM_ACTIONS, np.float32)
    logits[BID_OFFSET] = 12.0

    def sure_of_none(rows: Rows, which: Array) -> Array:
        return np.tile(logits, (len(which), 1))

    rollout = Rollout(rules, 64, 160, 3, rare_deals=0.4)
    rows = rollout.collect(sure_of_none)
    rare = rows.is_bid & rows.is_own & ~is_even(rows, 64)
    bids = np.bincount(rows.action[rare] - BID_OFFSET, minlength=5) / rare.sum()
    assert rare.sum() > 300
    assert bids[0] == pytest.approx(0.6, abs=0.1)
    assert bids[1:] == pytest.approx([0.1] * 4, abs=0.06)
    total = np.log(np.exp(12.0) + 4)
    expected = logits[rows.action[rare]] - total
    assert rows.log_chance[rare] == pytest.approx(expected, abs=1e-4)
    # Nobody else does: neither at even deals nor beside a rare hand.
    assert (rows.action[rows.is_bid & ~rare] == BID_OFFSET).mean() > 0.999
    # Of a rare hand's plays one in twenty falls by lot.
    plays = ~rows.is_bid & rows.is_own
    assert 0.05 * 0.05 < rows.is_explored[plays].mean() < 0.05
    assert not rows.is_explored[~rows.is_own].any()


def is_even(rows: Rows, num_tables: int) -> Array:
    """Rows of rounds in which every seat learns."""
    own = rows.is_own.reshape(-1, num_tables)
    even = np.zeros_like(own)
    for table in range(num_tables):
        bidding = rows.is_bid.reshape(-1, num_tables)[:, table]
        begins = np.flatnonzero(bidding & np.r_[True, ~bidding[:-1]])
        for begin, end in zip(begins, np.r_[begins[1:], len(own)], strict=True):
            even[begin:end, table] = own[begin:end, table].all()
    return even.ravel()


def test_unlikely_bids_by_lot_teach_only_where_they_did_better_than_foreseen() -> None:
    logits = np.zeros(NUM_ACTIONS, np.float32)
    logits[BID_OFFSET + 1] = 6.0

    def nearly_sure_of_one(rows: Rows, which: Array) -> Array:
        return np.tile(logits, (len(which), 1))

    def values_of(rows: Rows) -> Array:
        return np.zeros(len(rows.action), np.float32)

    rollout = Rollout(pack_rules([Rules(cards=[3])]), 32, 64, 5, rare_deals=0.6)
    rows = rollout.collect(nearly_sure_of_one)
    usable = np.zeros(len(rows.action), np.bool_)
    # Without a critic's values an advantage is the reward to come.
    targets = make_targets(values_of, rollout, Config(gae_lambda=1.0))
    usable[targets.usable] = True
    by_lot = rows.is_explored & rows.is_own
    unlikely = by_lot & (rows.log_chance < np.log(0.02))
    assert unlikely.sum() > 30
    assert (targets.returns[unlikely & usable] >= 0).all()
    assert (unlikely & usable).any()
    # The others are learned from whatever came of them, where their round was settled.
    likely = by_lot & ~unlikely
    assert (targets.returns[likely & usable] < 0).any()
    assert (targets.returns[~by_lot & rows.is_bid & usable] < 0).any()
