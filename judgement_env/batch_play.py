"""The kernels of a batch: episodes begun, actions checked and taken, rows written, table by table.

Every kernel works on the rows of the arrays it is given, so blocks of a batch can be played side by
side; row i depends on table i alone. `BatchEnv` owns the arrays.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import njit, row_of
from judgement_env.cards import NONE
from judgement_env.engine import (
    LOW_HALF,
    apply_action,
    begin_match,
    deal_cards,
    is_legal,
    next_round,
    popcount,
    stream,
    write_mask,
)
from judgement_env.observation import OFFSET, SCALE, SIZE, encode, encode_oracle
from judgement_env.rules import MAX_ROUNDS
from judgement_env.state import Array, RulesRecord, TableRecord

# The deals of a match use streams 0 to MAX_ROUNDS of its key; this one draws the round played.
ROUND_STREAM = MAX_ROUNDS + 1
WIDE_OFFSET: Array = OFFSET.astype(np.float64)
INVERSE: Array = 1 / SCALE.astype(np.float64)

# --- episodes ----------------------------------------------------------------------------------


@njit
def draw_round(match_key: np.uint64, chances: Array) -> int:
    """Return the round (from 0) that an episode of one round plays; its key names the draw.

    `chances` (R,) float64 sums up the rounds' probabilities, so its last value is 1.
    """
    bits = stream(match_key, ROUND_STREAM) & LOW_HALF
    point = float(bits) / float(1 << 32)
    index = 0
    while chances[index] <= point:
        index += 1
    return index


@njit
def begin_episode(r: RulesRecord, t: TableRecord, is_round: bool, chances: Array) -> None:
    """Start a match, or one round drawn from the schedule with the deal of a match's first round.

    So an episode of one round deals as a match of that round alone does.
    """
    if not is_round:
        begin_match(r, t, 0, r.num_rounds - 1, NONE)
        return
    index = draw_round(stream(t.key, t.match), chances)
    begin_match(r, t, index, index, NONE)
    t["round"] = 0
    deal_cards(r, t)
    t["round"] = index


@njit
def write_scaled(raw: Array, out: Array) -> None:
    """Write the float32 form of an observation (SIZE,) uint8 into `out`.

    A product in 64 bits rounds to the same float32 as the division, and is four times as fast.
    """
    for index in range(SIZE):
        out[index] = (np.float64(raw[index]) - WIDE_OFFSET[index]) * INVERSE[index]


@njit
def write_row(
    r: RulesRecord,
    t: TableRecord,
    row: Array,
    has_scaled: bool,
    scaled: Array,
    has_oracle: bool,
    oracle: Array,
) -> None:
    """Write what the seat to act sees into the rows of its table; float and oracle if asked for."""
    encode(r, t, t.seat, row)
    if has_scaled:
        write_scaled(row, scaled)
    if has_oracle:
        encode_oracle(r, t, t.seat, oracle)


@njit
def begin_batch(
    rules: Array, tables: Array, is_round: bool, chances: Array, keys: Array, is_seeded: bool
) -> None:
    """Start an episode at every table: the first of its key, or the one after that in play."""
    for i in range(tables.shape[0]):
        t = tables[i]
        t.match += 1
        if is_seeded:
            t.key = keys[i]
            t.match = 0
        begin_episode(rules[t.rules], t, is_round, row_of(chances, t.rules))


@njit
def show_batch(
    rules: Array, tables: Array, raw: Array, scaled: Array, mask: Array, seat: Array, oracle: Array
) -> None:
    """Write the seat to act, its mask and what it sees, for every table."""
    for i in range(tables.shape[0]):
        t = tables[i]
        r = rules[t.rules]
        seat[i] = t.seat
        write_mask(r, t, row_of(mask, i))
        row = row_of(raw, i % raw.shape[0])
        float_row = row_of(scaled, i)
        oracle_row = row_of(oracle, i)
        write_row(r, t, row, scaled.shape[0] > 0, float_row, oracle.shape[0] > 0, oracle_row)


@njit
def first_illegal(rules: Array, tables: Array, actions: Array) -> int:
    """Return the first table whose action is illegal, NONE where all are legal."""
    for i in range(tables.shape[0]):
        t = tables[i]
        if not is_legal(rules[t.rules], t, actions[i]):
            return i
    return NONE


@njit
def first_foreign(rules: Array, tables: Array) -> int:
    """Return the first table that no match of its rules can have come to, NONE where there is none.

    Cards, trump, rounds, hands and seats are looked at: what kernels rely on.
    """
    for i in range(tables.shape[0]):
        t = tables[i]
        if not 0 <= t.rules < rules.shape[0]:
            return i
        r = rules[t.rules]
        place = t["round"]
        if not 0 <= t.first_round <= place <= t.last_round < r.num_rounds:
            return i
        if t.cards != r.cards[place] or t.is_blind != r.is_blind[place]:
            return i
        if (t.turn_up != NONE) != (r.is_turn_up == 1):
            return i
        if r.is_turn_up == 0 and t.trump != r.trump[place]:
            return i
        if not 0 <= t.dealer < r.num_players or not NONE <= t.seat < r.num_players:
            return i
        for seat in range(t.dealt.shape[0]):
            num_dealt = popcount(t.dealt[seat, 0]) + popcount(t.dealt[seat, 1])
            if num_dealt != (t.cards if seat < r.num_players else 0):
                return i
            if (t.dealt[seat, 0] | t.dealt[seat, 1]) & ~r.deck:
                return i
    return NONE


@njit
def play_on(
    r: RulesRecord, t: TableRecord, action: int, reward: Array, is_round: bool, chances: Array
) -> bool:
    """Apply a legal action and add its points to `reward`; return whether it ended the episode.

    The next round is dealt where it settled one, the next episode where it ended one.
    """
    if not apply_action(r, t, action):
        return False
    for seat in range(r.num_players):
        reward[seat] += t.points[seat]
    if not next_round(r, t):
        return False
    t.match += 1
    begin_episode(r, t, is_round, chances)
    return True


@njit
def only_action(mask: Array) -> int:
    """Return the first legal action of a mask."""
    action = 0
    while not mask[action]:
        action += 1
    return action


@njit
def step_batch(
    rules: Array,
    tables: Array,
    actions: Array,
    is_round: bool,
    chances: Array,
    is_skipping: bool,
    raw: Array,
    scaled: Array,
    mask: Array,
    seat: Array,
    reward: Array,
    done: Array,
    oracle: Array,
) -> None:
    """Apply a legal action at every table and write all that follows.

    `is_skipping` plays decisions that leave no choice too. No match is without a choice (its first
    bid is one), so a step ends one match at most.
    """
    for i in range(tables.shape[0]):
        t = tables[i]
        r = rules[t.rules]
        legal = row_of(mask, i)
        given = row_of(reward, i)
        odds = row_of(chances, t.rules)
        given[:] = 0
        done[i] = play_on(r, t, actions[i], given, is_round, odds)
        while write_mask(r, t, legal) == 1 and is_skipping:
            done[i] |= play_on(r, t, only_action(legal), given, is_round, odds)
        seat[i] = t.seat
        # Rows, not the arrays: counting the references of these took a tenth of the step.
        row = row_of(raw, i % raw.shape[0])
        float_row = row_of(scaled, i)
        oracle_row = row_of(oracle, i)
        write_row(r, t, row, scaled.shape[0] > 0, float_row, oracle.shape[0] > 0, oracle_row)
