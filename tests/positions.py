"""Positions of random matches under every preset, and networks of random weights to judge them."""

from __future__ import annotations

import numpy as np

from judgement_env import PRESETS, Rules
from judgement_env._jit import njit
from judgement_env.bots.inputs import INPUT_SIZE
from judgement_env.cards import NONE, NUM_ACTIONS
from judgement_env.engine import begin_match, draw_below, step, table_key, write_mask
from judgement_env.observation import SIZE, encode, encode_oracle
from judgement_env.state import OVER, Array, new_tables, pack_rules

# Every preset with its fewest and its most players, and house rules no preset has.
RULE_SETS: tuple[Rules, ...] = (
    *(
        rules.replace(num_players=number)
        for rules in PRESETS.values()
        for number in sorted({*rules.player_range, min(5, rules.player_range[1])})
    ),
    Rules(num_players=10, player_range=(2, 10), packs=2, cards=[10, 3], trumps=["NT"]),
    Rules(num_players=4, packs=2, cards=[26, 2], trumps=["S", "NT"]),
    Rules(num_players=2, player_range=(2, 10), cards=[26], trumps="turn-up", packs=2),
    Rules(num_players=5, bidding="simultaneous", hook=False, cards=[6, 1], blind_rounds=[-1]),
    Rules(num_players=3, suits=2, ranks=7, trumps=["H"], direction="anticlockwise", cards=[4, 1]),
)


@njit
def play_randomly(rules: Array, tables: Array, seed: int) -> None:
    """Bring each table to a decision up to two rounds after a round drawn from its schedule."""
    for i in range(tables.shape[0]):
        t = tables[i]
        t.rules = i % rules.shape[0]
        r = rules[t.rules]
        t.key = table_key(np.uint64(seed), i)
        first = draw_below(t.key, 0, r.num_rounds)
        begin_match(r, t, first, r.num_rounds - 1, NONE)
        mask = np.empty(NUM_ACTIONS, np.int8)
        for k in range(1, 1 + draw_below(t.key, 1, 2 * r.num_players * (t.cards + 1))):
            left = draw_below(t.key, 1 + k, write_mask(r, t, mask))
            action = 0
            while left > 0 or not mask[action]:
                left -= mask[action]
                action += 1
            step(r, t, action)
            if t.phase == OVER:
                begin_match(r, t, first, r.num_rounds - 1, NONE)


@njit
def observe(rules: Array, tables: Array, raw: Array, oracle: Array, masks: Array) -> None:
    for i in range(tables.shape[0]):
        t = tables[i]
        r = rules[t.rules]
        encode(r, t, t.seat, raw[i])
        encode_oracle(r, t, t.seat, oracle[i])
        write_mask(r, t, masks[i])


def positions(number: int, seed: int = 0, rule_sets: tuple[Rules, ...] = RULE_SETS) -> list[Array]:
    """Rules (K,), tables (N,), and what their seats to act see: raw, oracle (N, …) and masks."""
    rules, tables = pack_rules(rule_sets), new_tables(number)
    play_randomly(rules, tables, seed)
    raw = np.empty((number, SIZE), np.uint8)
    oracle = np.empty((number, 520), np.uint8)
    masks = np.empty((number, NUM_ACTIONS), np.int8)
    observe(rules, tables, raw, oracle, masks)
    return [rules, tables, raw, oracle, masks]


def random_weights(hidden: tuple[int, ...] = (24, 16), seed: int = 0) -> dict[str, Array]:
    """Weights of a policy with opinions: its probabilities are far from uniform."""
    rng = np.random.default_rng(seed)
    widths = [INPUT_SIZE, *hidden, NUM_ACTIONS]
    weights: dict[str, Array] = {}
    for k, (a, b) in enumerate(zip(widths, widths[1:], strict=False)):
        scale = 0.3 if k == 0 else 1.5 / a**0.5
        weights[f"layers.{k}.weight"] = (scale * rng.normal(size=(a, b))).astype(np.float32)
        weights[f"layers.{k}.bias"] = (0.2 * rng.normal(size=b)).astype(np.float32)
    return weights
