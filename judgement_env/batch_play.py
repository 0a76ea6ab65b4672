"""The kernels of a batch: episodes begun, actions checked and taken, rows written, table by table.

Every kernel works on the rows of the arrays it is given, so blocks of a batch can be played side by
side; row i depends on table i alone. `BatchEnv` owns the arrays.
"""

from __future__ import annotations

import numpy as np

from judgement_env._jit import add_to, fetch, inside, njit, row_of
from judgement_env.cards import BID_OFFSET, NONE, NUM_ACTIONS
from judgement_env.engine import (
    LOW_HALF,
    ONE,
    apply_action,
    begin_match,
    deal_cards,
    legal_actions,
    next_round,
    popcount,
    put_mask,
    stream,
)
from judgement_env.observation import OFFSET, SCALE, SIZE, SLICES, encode, encode_oracle
from judgement_env.rules import MAX_ROUNDS
from judgement_env.state import Array, RulesRecord, TableRecord

# The deals of a match use streams 0 to MAX_ROUNDS of its key; this one draws the round played.
ROUND_STREAM = MAX_ROUNDS + 1
WORD_BITS = 64
# Where the threads of a batch count, a line of a cache apart: rows claimed, and rows finished.
CLAIMED, FINISHED, COUNTERS = 0, 8, 16
WIDE_OFFSET: Array = OFFSET.astype(np.float64)
INVERSE: Array = 1 / SCALE.astype(np.float64)
# Of an observation only these are scaled: the strengths, and all after the voids.
SCALED_FROM, SCALED_TO = SLICES["strength"].start, SLICES["strength"].stop
SCALED_AGAIN: int = SLICES["void"].stop

# Tables whose records the processor fetches before they are played: at 16,384 tables, more than
# the caches hold, a step takes 15 % less time; at a thousand it makes no difference.
AHEAD = 3

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

    A product in 64 bits rounds to the same float32 as the division, and is four times as fast; what
    counts cards is a number as it stands.
    """
    for index in range(SCALED_FROM, SCALED_TO):
        out[index] = np.float64(raw[index]) * INVERSE[index]
    for index in range(SCALED_FROM):
        out[index] = np.float32(raw[index])
    for index in range(SCALED_TO, SCALED_AGAIN):
        out[index] = np.float32(raw[index])
    for index in range(SCALED_AGAIN, SIZE):
        out[index] = (np.float64(raw[index]) - WIDE_OFFSET[index]) * INVERSE[index]


@inside
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
        begin_episode(rules[np.uintp(t.rules)], t, is_round, row_of(chances, t.rules))


@njit
def show_batch(
    rules: Array,
    tables: Array,
    raw: Array,
    scaled: Array,
    mask: Array,
    legal: Array,
    seat: Array,
    oracle: Array,
    progress: Array,
    chunk: int,
) -> None:
    """Write the seat to act, its mask and what it sees, for the tables this thread claims."""
    num_tables = tables.shape[0]
    start = claimed(progress, chunk)
    while start < num_tables:
        stop = min(start + chunk, num_tables)
        for i in range(start, stop):
            t = tables[i]
            r = rules[np.uintp(t.rules)]
            seat[i] = t.seat
            put_legal(r, t, row_of(mask, i), row_of(legal, i))
            row = row_of(raw, min(i, raw.shape[0] - 1))
            float_row = row_of(scaled, i)
            oracle_row = row_of(oracle, i)
            write_row(r, t, row, scaled.shape[0] > 0, float_row, oracle.shape[0] > 0, oracle_row)
        add_to(progress, FINISHED, stop - start)
        start = claimed(progress, chunk)


@inside
def put_legal(r: RulesRecord, t: TableRecord, mask: Array, legal: Array) -> int:
    """Write the mask of the seat to act, and as bits in `legal` (2,); return how many are legal."""
    cards, bids = legal_actions(r, t)
    put_mask(cards, bids, mask)
    legal[0] = cards | bids << np.uint64(BID_OFFSET)
    legal[1] = bids >> np.uint64(WORD_BITS - BID_OFFSET)
    return popcount(cards | bids)


@njit
def first_illegal(legal: Array, actions: Array) -> int:
    """Return the first table whose action is not one of `legal` (N, 2) uint64; NONE for none.

    Bits that were written with the masks take a fifth of the time of asking the tables again.
    """
    for i in range(actions.shape[0]):
        action = actions[i]
        if action < 0 or action >= NUM_ACTIONS:
            return i
        word = legal[i, np.uintp(action // WORD_BITS)]
        if not word >> np.uint64(action % WORD_BITS) & ONE:
            return i
    return NONE


# --- several threads ---------------------------------------------------------------------------


@inside
def claimed(progress: Array, chunk: int) -> int:
    """Return the first of the next `chunk` rows that no thread has claimed."""
    return add_to(progress, CLAIMED, chunk)


@njit
def await_rows(progress: Array, num_rows: int) -> None:
    """Wait until all rows are done; threads that have claimed some are at work on them.

    A thread that sleeps until it is told so would often wake later than the rows are done.
    """
    while add_to(progress, FINISHED, 0) < num_rows:
        pass


@njit
def first_foreign(rules: Array, tables: Array) -> int:
    """Return the first table that no match of its rules can have come to, NONE where there is none.

    Cards, trump, rounds, hands and seats are looked at: what kernels rely on.
    """
    for i in range(tables.shape[0]):
        t = tables[i]
        if not 0 <= t.rules < rules.shape[0]:
            return i
        r = rules[np.uintp(t.rules)]
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


@inside
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
    begin_episode(r, t, is_round, row_of(chances, t.rules))
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
    legal: Array,
    seat: Array,
    reward: Array,
    done: Array,
    oracle: Array,
    progress: Array,
    chunk: int,
) -> None:
    """Apply a legal action at every table this thread claims, and write all that follows.

    `reward` must be zero. `is_skipping` plays decisions that leave no choice too. No match is
    without a choice (its first bid is one), so a step ends one match at most.
    """
    num_tables = tables.shape[0]
    start = claimed(progress, chunk)
    while start < num_tables:
        stop = min(start + chunk, num_tables)
        for i in range(start, stop):
            fetch(tables, min(i + AHEAD, num_tables - 1))
            t = tables[i]
            r = rules[np.uintp(t.rules)]
            shown = row_of(mask, i)
            bits = row_of(legal, i)
            given = row_of(reward, i)
            action = int(actions[i])
            is_done = False
            while True:
                is_done |= play_on(r, t, action, given, is_round, chances)
                num_legal = put_legal(r, t, shown, bits)
                if not is_skipping or num_legal != 1:
                    break
                action = only_action(shown)
            done[i] = is_done
            seat[i] = t.seat
            # Rows, not the arrays: counting the references of these took a tenth of the step.
            row = row_of(raw, min(i, raw.shape[0] - 1))
            float_row = row_of(scaled, i)
            oracle_row = row_of(oracle, i)
            write_row(r, t, row, scaled.shape[0] > 0, float_row, oracle.shape[0] > 0, oracle_row)
        add_to(progress, FINISHED, stop - start)
        start = claimed(progress, chunk)
