from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from judgement_env.bots.inputs import (
    CRITIC_SIZE,
    DERIVED,
    INPUT_COLUMN,
    INPUT_SIZE,
    INPUT_STRIDE,
    INPUT_SUIT,
    MAX_NONZERO,
    PLAIN_SIZE,
    RAW_ZERO,
    UNUSED_BLOCKS,
    add_oracle_inputs,
    canonical_action,
    suit_places,
    write_inputs,
)
from judgement_env.bots.policy import PolicyNetwork, first_layer, hidden_layer
from judgement_env.cards import NUM_ACTIONS, NUM_CARDS
from judgement_env.observation import BLOCKS, OFFSET, SCALE, SIZE, SLICES
from judgement_env.state import MAX_CARDS, MAX_PACK, MAX_SEATS, Array
from tests.positions import RULE_SETS, positions, random_weights

TRUMP = SLICES["trump"].start


def inputs_of(raw: Array) -> tuple[Array, dict[int, float]]:
    places = np.empty(4, np.int32)
    column, value = np.empty(2 * MAX_NONZERO, np.uint16), np.empty(2 * MAX_NONZERO, np.float32)
    count = write_inputs(raw, places, column, value)
    assert len(set(column[:count].tolist())) == count
    return places, dict(zip(column[:count].tolist(), value[:count].tolist(), strict=True))


def dealt_order(raw: Array) -> list[tuple[int, int, int]]:
    """What suits are ordered by: trump, own cards as dealt, the sum of their ranks."""
    hand = raw[SLICES["hand"]].astype(int) + raw[SLICES["gone"]][:NUM_CARDS]
    suits = hand.reshape(4, 13)
    return [(int(raw[TRUMP + s]), int(suits[s].sum()), int(suits[s] @ range(13))) for s in range(4)]


def renamed(raw: Array, mask: Array, new: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """The same position with suit s called ``new[s]``; and the number each action has then."""
    out, action = raw.copy(), np.arange(NUM_ACTIONS)
    for name, step in (("hand", 13), ("strength", 13), ("table", 13), ("gone", 13), ("void", 1)):
        here, there = raw[SLICES[name]].reshape(-1, 4, step), out[SLICES[name]]
        there.reshape(-1, 4, step)[:, list(new)] = here
    for name in ("led", "trump"):
        out[SLICES[name]][list(new)] = raw[SLICES[name]][:4]
    suit = raw[SLICES["trick_suit"]].astype(int)
    out[SLICES["trick_suit"]] = np.where(suit > 0, np.array(new)[suit - 1] + 1, 0)
    action[:NUM_CARDS] = np.repeat(new, 13) * 13 + np.tile(range(13), 4)
    other = np.empty_like(mask)
    other[action] = mask
    return out, other, action


# --- canonical suits --------------------------------------------------------------------------


def test_renaming_suits_renames_the_policy_and_changes_nothing_else() -> None:
    _, _, raw, _, masks = positions(600)
    network = PolicyNetwork(random_weights())
    names = list(itertools.permutations(range(4)))
    distinct = [i for i in range(600) if len(set(dealt_order(raw[i]))) == 4]
    assert len(distinct) > 100
    before = network.probabilities(raw[distinct], masks[distinct])
    for k, i in enumerate(distinct):
        other, mask, action = renamed(raw[i], masks[i], names[k % 24])
        after = network.probabilities(other[None], mask[None])[0]
        # Not bit by bit: the first layer sums the same numbers in another order.
        assert after[action] == pytest.approx(before[k], abs=2e-5)


def test_renaming_leaves_the_inputs_of_the_network_as_they_are() -> None:
    _, _, raw, _, masks = positions(300, seed=1)
    is_trump = raw[:, TRUMP : TRUMP + 4].any(axis=1)
    seen = {True: 0, False: 0}
    for i in range(300):
        if len(set(dealt_order(raw[i]))) == 4:
            other, _, _ = renamed(raw[i], masks[i], (2, 3, 1, 0))
            assert inputs_of(other)[1] == inputs_of(raw[i])[1]
            seen[bool(is_trump[i])] += 1
    assert min(seen.values()) > 5


def test_the_trump_suit_comes_first_and_the_others_by_length_then_ranks() -> None:
    _, _, raw, _, _ = positions(300, seed=2)
    for line in raw:
        places = np.empty(4, np.int32)
        suit_places(line, places)
        assert sorted(places) == [0, 1, 2, 3]
        keys = dealt_order(line)
        order = sorted(range(4), key=lambda s: (keys[s], -s), reverse=True)
        assert [order.index(s) for s in range(4)] == places.tolist()


def test_a_round_keeps_its_order_of_suits_while_cards_are_played() -> None:
    raw = np.zeros(SIZE, np.uint8)
    raw[TRUMP + 1] = 1
    hand, gone = SLICES["hand"].start, SLICES["gone"].start
    raw[[hand + 3, hand + 7, hand + 30]] = 1
    places = np.empty(4, np.int32)
    suit_places(raw, places)
    assert places.tolist() == [1, 0, 2, 3]
    raw[[hand + 3, hand + 7]] = 0
    raw[[gone + 3, gone + 7]] = 1
    suit_places(raw, places)
    assert places.tolist() == [1, 0, 2, 3]


def test_canonical_actions_are_a_renaming_of_cards_that_keeps_bids() -> None:
    places = np.array([2, 0, 3, 1], np.int32)
    mapped = [canonical_action(action, places) for action in range(NUM_ACTIONS)]
    assert sorted(mapped) == list(range(NUM_ACTIONS))
    assert mapped[NUM_CARDS:] == list(range(NUM_CARDS, NUM_ACTIONS))
    assert mapped[13 + 5] == 5


# --- inputs -----------------------------------------------------------------------------------


def test_every_value_but_the_suits_by_number_feeds_an_input_of_its_own() -> None:
    unused = {j for name in UNUSED_BLOCKS for j in range(*SLICES[name].indices(SIZE))}
    assert {j for j in range(SIZE) if INPUT_COLUMN[j] < 0} == unused
    used = [j for j in range(SIZE) if j not in unused]
    columns = [INPUT_COLUMN[j] + max(0, INPUT_SUIT[j]) * INPUT_STRIDE[j] for j in used]
    assert sorted(columns) == list(range(PLAIN_SIZE))


def test_a_value_alone_is_read_by_the_input_it_feeds() -> None:
    for j in range(SIZE):
        raw = RAW_ZERO.copy()
        raw[j] += 1
        places, every = inputs_of(raw)
        found = {column: value for column, value in every.items() if column < PLAIN_SIZE}
        if INPUT_COLUMN[j] < 0:
            assert not found
            continue
        column = int(INPUT_COLUMN[j])
        if INPUT_SUIT[j] >= 0:
            column += int(places[INPUT_SUIT[j]] * INPUT_STRIDE[j])
        if TRUMP <= j < TRUMP + 4:
            column = int(INPUT_COLUMN[TRUMP])
        assert found == {column: pytest.approx((raw[j] - OFFSET[j]) / SCALE[j], abs=1e-7)}


def test_inputs_of_real_positions_hold_every_used_value() -> None:
    _, _, raw, _, _ = positions(300, seed=3)
    for line in raw:
        _, found = inputs_of(line)
        expected = sorted(((line - OFFSET) / SCALE)[(INPUT_COLUMN >= 0) & (line != RAW_ZERO)])
        plain = [value for column, value in found.items() if column < PLAIN_SIZE]
        assert sorted(plain) == pytest.approx(expected, abs=1e-6)


def test_the_buffers_hold_the_fullest_position_there_can_be() -> None:
    # Every card lies in one hand or is gone, the own hand counts twice; all else might be non-zero.
    by_card = sum(b.size for b in BLOCKS if b.name in ("hand", "strength", "table", "gone"))
    plain = 2 * MAX_CARDS + MAX_PACK + MAX_SEATS + SIZE - by_card
    # A card held may be the first, second or third highest left, and may beat the trick's best.
    derived = 2 * MAX_CARDS + sum(1 for _, size, _ in DERIVED if size != NUM_CARDS) + 4 + MAX_SEATS
    assert plain + derived <= MAX_NONZERO
    assert CRITIC_SIZE < 2**16


def test_random_play_never_fills_the_buffers() -> None:
    _, _, raw, oracle, _ = positions(6000, seed=4)
    places = np.empty(4, np.int32)
    column, value = np.zeros(2 * MAX_NONZERO, np.uint16), np.empty(2 * MAX_NONZERO, np.float32)
    most = 0
    for line, hands in zip(raw, oracle, strict=True):
        count = write_inputs(line, places, column, value)
        assert column[:count].max() < INPUT_SIZE
        both = add_oracle_inputs(hands, places, column, value, count)
        assert (column[count:both] >= INPUT_SIZE + NUM_CARDS).all()
        assert (column[count:both] < CRITIC_SIZE).all()
        assert both - count == np.count_nonzero(hands[NUM_CARDS:])
        most = max(most, both)
    assert 150 < most <= MAX_NONZERO


# --- the network ------------------------------------------------------------------------------


def test_probabilities_sum_to_one_on_legal_actions_only() -> None:
    _, _, raw, _, masks = positions(400, seed=5)
    before = masks.copy()
    chances = PolicyNetwork(random_weights()).probabilities(raw, masks)
    assert chances.shape == (400, NUM_ACTIONS)
    assert chances.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert not chances[masks == 0].any()
    assert (masks == before).all()
    assert (chances.max(axis=1) > 0.5).mean() > 0.2


def test_a_row_does_not_depend_on_the_others() -> None:
    _, _, raw, _, masks = positions(40, seed=6)
    network = PolicyNetwork(random_weights())
    together = network.probabilities(raw, masks)
    for i in range(40):
        alone = network.probabilities(raw[i : i + 1], masks[i : i + 1])[0]
        assert alone == pytest.approx(together[i], abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.2, 1.0])
def test_a_hidden_layer_is_the_matrix_product_of_what_is_positive(share: float) -> None:
    generator = np.random.default_rng(4)
    x = generator.normal(size=(9, 37)).astype(np.float32)
    x = np.where(generator.random(x.shape) < share, np.abs(x), -np.abs(x)).astype(np.float32)
    weight = generator.normal(size=(37, 11)).astype(np.float32)
    bias = generator.normal(size=11).astype(np.float32)
    out = np.full((9, 11), 99, np.float32)
    hidden_layer(x, weight, bias, out)
    assert out == pytest.approx(np.maximum(x, 0) @ weight + bias, abs=1e-5)


def test_weights_that_do_not_fit_are_refused_with_both_shapes() -> None:
    weights = random_weights((8,))
    for name, change, words in (
        ("layers.0.weight", np.zeros((INPUT_SIZE - 1, 8)), f"({INPUT_SIZE - 1}, 8).*({INPUT_SIZE}"),
        ("layers.1.bias", np.zeros(5), "(5,).*(8, outputs)"),
        ("layers.1.weight", np.zeros(8), "(8,).*(8, outputs)"),
    ):
        with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
            PolicyNetwork({**weights, name: change})
    for name in ("layers.0.bias", "layers.1.bias"):
        with pytest.raises(ValueError, match=f"no tensor {name}"):
            PolicyNetwork({k: v for k, v in weights.items() if k != name})
    short = {**weights, "layers.1.weight": np.zeros((8, 7)), "layers.1.bias": np.zeros(7)}
    with pytest.raises(ValueError, match=f"7 logits, not {NUM_ACTIONS}"):
        PolicyNetwork(short)
    with pytest.raises(ValueError, match="layer"):
        PolicyNetwork({})


def test_uncompiled_kernels_give_the_same_probabilities() -> None:
    code = (
        "from tests.positions import *; from judgement_env.bots.policy import PolicyNetwork;"
        "_, _, raw, _, masks = positions(12, 7);"
        "p = PolicyNetwork(random_weights((4,))).probabilities(raw, masks);"
        "print(raw.sum(), ' '.join(f'{x:.4f}' for x in p.max(axis=1)))"
    )
    outputs = []
    for is_disabled in ("0", "1"):
        environ = {**os.environ, "NUMBA_DISABLE_JIT": is_disabled}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert len(outputs[0].split()) == 13


def test_the_positions_come_from_every_preset_and_many_table_sizes() -> None:
    _, tables, raw, _, masks = positions(400, seed=8)
    assert set(tables["rules"]) == set(range(len(RULE_SETS)))
    assert {rules.num_players for rules in RULE_SETS} >= {2, 3, 4, 5, 7, 8, 10}
    assert (masks.sum(axis=1) >= 1).all()
    assert 0.1 < masks[:, NUM_CARDS:].any(axis=1).mean() < 0.6
    assert raw[:, SLICES["phase"]].any(axis=1).all()


@pytest.mark.parametrize("width", [1, 5, 64])
def test_the_first_layer_is_the_dense_product_of_the_rows_chosen(width: int) -> None:
    generator = np.random.default_rng(6)
    counts = np.array([0, 3, 8, 11, 30, 17], np.int32)
    column, value = np.zeros((6, 40), np.uint16), np.zeros((6, 40), np.float32)
    dense = np.zeros((6, 61), np.float32)
    for row, count in enumerate(counts):
        column[row, :count] = generator.choice(61, count, replace=False)
        value[row, :count] = dense[row, column[row, :count]] = generator.normal(size=count)
    weight = generator.normal(size=(61, width)).astype(np.float32)
    bias = generator.normal(size=width).astype(np.float32)
    rows = np.tile([4, 0, 4, 3, 2, 5, 1], 3)
    out = np.empty((17, width), np.float32)
    first_layer(column, value, counts, rows, 2, weight, bias, out)
    assert out == pytest.approx(dense[rows[2:19]] @ weight + bias, abs=1e-5)
