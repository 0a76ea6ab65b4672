"""N tables as one environment: plain arrays in, plain arrays out, and one compiled call a step.

Each table asks one seat at a time; a table whose match ends deals its next one at once. Row i of a
batch deals as table i of its seed, whatever the number of rows. The rules of play are the engine's.

    >>> batch = BatchEnv("kachuful", num_tables=3, seed=0)
    >>> batch.reset()
    >>> batch.step(batch.action_mask.argmax(axis=1))
    >>> batch.observation.shape, batch.reward.shape
    ((3, 894), (3, 4))
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from judgement_env._jit import njit
from judgement_env.cards import NONE, NUM_ACTIONS, action_text, is_bid, whole_number
from judgement_env.engine import (
    LOW_HALF,
    apply_action,
    begin_match,
    deal_cards,
    is_legal,
    next_round,
    stream,
    table_key,
    write_mask,
)
from judgement_env.observation import (
    OFFSET,
    ORACLE_SIZE,
    SCALE,
    SIZE,
    encode,
    encode_oracle,
)
from judgement_env.record import SEEDS
from judgement_env.rules import MAX_ROUNDS, Rules, make_rules
from judgement_env.scoring import shown
from judgement_env.state import Array, RulesRecord, TableRecord, new_tables, pack_rules
from judgement_env.table import IllegalActionError
from judgement_env.view import View, explain

RulesLike = str | os.PathLike[str] | Rules | Mapping[str, Any]

EPISODES = ("match", "round")
DTYPES = ("float32", "uint8")
# The deals of a match use streams 0 to MAX_ROUNDS of its key; this one draws the round played.
ROUND_STREAM = MAX_ROUNDS + 1
WIDE_OFFSET: Array = OFFSET.astype(np.float64)
INVERSE: Array = 1 / SCALE.astype(np.float64)

# --- kernels ----------------------------------------------------------------------------------


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
    r: RulesRecord, t: TableRecord, raw: Array, scaled: Array, oracle: Array, i: int
) -> None:
    """Write what the seat to act at table i sees; `scaled` and `oracle` of no rows are left out.

    `raw` has a row for each table, or one for all where only the float32 form is wanted.
    """
    row = raw[i % raw.shape[0]]
    encode(r, t, t.seat, row)
    if scaled.shape[0]:
        write_scaled(row, scaled[i])
    if oracle.shape[0]:
        encode_oracle(r, t, t.seat, oracle[i])


@njit
def begin_batch(
    rules: Array, tables: Array, is_round: bool, chances: Array, seed: np.uint64, is_seeded: bool
) -> None:
    """Start an episode at every table: the first of a seed, or the one after that in play."""
    for i in range(tables.shape[0]):
        t = tables[i]
        t.match += 1
        if is_seeded:
            t.key = table_key(seed, i)
            t.match = 0
        begin_episode(rules[t.rules], t, is_round, chances[t.rules])


@njit
def show_batch(
    rules: Array, tables: Array, raw: Array, scaled: Array, mask: Array, seat: Array, oracle: Array
) -> None:
    """Write the seat to act, its mask and what it sees, for every table."""
    for i in range(tables.shape[0]):
        t = tables[i]
        seat[i] = t.seat
        write_mask(rules[t.rules], t, mask[i])
        write_row(rules[t.rules], t, raw, scaled, oracle, i)


@njit
def first_illegal(rules: Array, tables: Array, actions: Array) -> int:
    """Return the first table whose action is illegal, NONE where all are legal."""
    for i in range(tables.shape[0]):
        t = tables[i]
        if not is_legal(rules[t.rules], t, actions[i]):
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
        reward[i, :] = 0
        done[i] = play_on(r, t, actions[i], reward[i], is_round, chances[t.rules])
        while write_mask(r, t, mask[i]) == 1 and is_skipping:
            forced = only_action(mask[i])
            done[i] |= play_on(r, t, forced, reward[i], is_round, chances[t.rules])
        seat[i] = t.seat
        write_row(r, t, raw, scaled, oracle, i)


# --- the environment --------------------------------------------------------------------------


class BatchEnv:
    """N tables that are stepped together; what they show is read from the attributes.

    observation: Array  # (N, D) float32 or uint8, what the seat to act sees
    action_mask: Array  # (N, 79) int8, 1 = legal for it
    seat: Array         # (N,) int32, the seat to act
    reward: Array       # (N, P) float32, points the last step gave to each seat
    done: Array         # (N,) bool, the last step ended an episode; the next one has begun
    oracle: Array       # (N, 520) as observation, all hands by relative seat; only if asked for
    tables: Array       # (N,) TABLE_RECORD, the position itself, hidden cards and keys included
    """

    def __init__(
        self,
        rules: RulesLike | Sequence[RulesLike] = "kachuful",
        num_tables: int = 1,
        seed: int | None = 0,
        *,
        episode: str = "match",
        dtype: str = "float32",
        skip_forced: bool = False,
        oracle: bool = False,
        copy: bool = True,
        round_weights: Any = None,
    ) -> None:
        """Make the tables; nothing is dealt before `reset`.

        rules: one set of rules, or K of them: table i plays the one of index i % K.
        seed: names the deals; None draws one.
        episode: "match", or "round": one round of the schedule, drawn anew each time.
        round_weights: how likely each round is in round episodes, (R,) or (K, R); all alike if
            None.
        dtype: of observations, "float32" or "uint8" (raw values, a quarter of the size).
        skip_forced: play decisions that leave no choice inside the step that leads to them.
        oracle: also write all hands, for a critic during training.
        copy: each step makes new arrays; False writes into the same ones again and again.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        self.rules: tuple[Rules, ...] = _all_rules(rules)
        count = whole_number(num_tables)
        if count is None or count < 1:
            raise ValueError(f"num_tables: {num_tables!r} (allowed: a whole number from 1)")
        self.num_tables = count
        self.num_players = max(r.num_players for r in self.rules)
        self.seed = check_seed(seed)
        self.episode = _choice("episode", episode, EPISODES)
        self.dtype = np.dtype(_choice("dtype", dtype, DTYPES))
        self.skip_forced = bool(skip_forced)
        self.copy = bool(copy)
        self.tables = new_tables(count)
        self.tables["rules"] = np.arange(count) % len(self.rules)
        self._packed = pack_rules(self.rules)
        if round_weights is not None and episode != "round":
            raise ValueError("round_weights: given with episode 'match' (allowed: with 'round')")
        self._chances = _all_chances(self.rules, round_weights)
        self._has_oracle = bool(oracle)
        self._has_begun = False
        self._make_arrays()

    def _make_arrays(self) -> None:
        n = self.num_tables
        self.observation: Array = np.zeros((n, SIZE), self.dtype)
        self.action_mask: Array = np.zeros((n, NUM_ACTIONS), np.int8)
        self.seat: Array = np.full(n, NONE, np.int32)
        self.reward: Array = np.zeros((n, self.num_players), np.float32)
        self.done: Array = np.zeros(n, np.bool_)
        self._oracle: Array = np.zeros((n if self._has_oracle else 0, ORACLE_SIZE), self.dtype)
        is_raw = self.dtype == np.uint8
        self._raw: Array = self.observation if is_raw else np.zeros((1, SIZE), np.uint8)
        self._scaled: Array = np.zeros((0, SIZE), np.float32) if is_raw else self.observation

    @property
    def oracle(self) -> Array:
        """All hands by relative seat of the seat to act, (N, 520); asked for with oracle=True."""
        if not self._has_oracle:
            raise AttributeError("oracle: this batch was made with oracle=False")
        return self._oracle

    def reset(self, seed: int | None = None) -> None:
        """Start an episode at every table, and zero `reward` and `done`.

        The first reset, and one with a seed, starts with match 0 of the seed; any other goes on
        with the table's next match.
        """
        is_seeded = seed is not None or not self._has_begun
        if seed is not None:
            self.seed = check_seed(seed)
        key = np.uint64(self.seed)
        is_round = self.episode == "round"
        begin_batch(self._packed, self.tables, is_round, self._chances, key, is_seeded)
        self._has_begun = True
        if self.copy:
            self._make_arrays()
        self.reward[:] = 0
        self.done[:] = False
        self._show()

    def step(self, actions: Any) -> None:
        """Take one action at every table; `actions` (N,) of any integer dtype.

        Raises IllegalActionError for an action that is not legal, TypeError or ValueError for
        another dtype or shape, RuntimeError before the first reset; nothing has changed then.
        """
        self._need_begun("step")
        chosen = self._checked(actions)
        if self.copy:
            self._make_arrays()
        step_batch(
            self._packed,
            self.tables,
            chosen,
            self.episode == "round",
            self._chances,
            self.skip_forced,
            self._raw,
            self._scaled,
            self.action_mask,
            self.seat,
            self.reward,
            self.done,
            self._oracle,
        )

    def refresh(self) -> None:
        """Write observation, mask, seat and oracle anew after `tables` was changed by hand."""
        self._need_begun("refresh")
        if self.copy:
            reward, done = self.reward, self.done
            self._make_arrays()
            self.reward, self.done = reward, done
        self._show()

    def _show(self) -> None:
        show_batch(
            self._packed,
            self.tables,
            self._raw,
            self._scaled,
            self.action_mask,
            self.seat,
            self._oracle,
        )

    def _need_begun(self, method: str) -> None:
        if not self._has_begun:
            raise RuntimeError(f"{method}: call reset() first")

    def _checked(self, actions: Any) -> Array:
        given = np.asarray(actions)
        if given.dtype.kind not in "iu":
            raise TypeError(f"actions: dtype {given.dtype} (allowed: any integer dtype)")
        if given.shape != (self.num_tables,):
            raise ValueError(f"actions: shape {given.shape} (allowed: ({self.num_tables},))")
        chosen = given.astype(np.int64)
        i = int(first_illegal(self._packed, self.tables, chosen))
        if i != NONE:
            self._refuse(i, given[i].item())
        return chosen

    def _refuse(self, i: int, action: int) -> NoReturn:
        """Say which rule keeps table i from `action`, as a Table would."""
        rules = self.rules[i % len(self.rules)]
        view = View(rules, int(self.tables["seat"][i]), self.tables[i : i + 1].copy(), (), ())
        if 0 <= action < NUM_ACTIONS:
            words = action_text(action) if is_bid(action) else f"play {action_text(action)}"
            what = f"may not {words}: {explain(view, action)}"
        else:
            what = f"cannot do that: action: {action} (allowed: 0 to {NUM_ACTIONS - 1})"
        legal = ", ".join(action_text(a) for a in view.legal)
        raise IllegalActionError(
            f"table {i}, seat {view.seat} {what} (legal: {legal})",
            view.seat,
            action,
            list(view.legal),
        )


def check_seed(seed: Any) -> int:
    """Return the seed, one drawn from the system if None; ValueError outside 0..2^64-1."""
    if seed is None:
        # It fits a double, so that every reader of a record keeps all its digits.
        return secrets.randbits(53)
    number = whole_number(seed)
    if number is None or not 0 <= number < SEEDS:
        raise ValueError(f"seed: {shown(seed)} (allowed: a whole number from 0 to {SEEDS - 1})")
    return number


def _all_rules(rules: RulesLike | Sequence[RulesLike]) -> tuple[Rules, ...]:
    if isinstance(rules, str | os.PathLike | Rules | Mapping):
        return (make_rules(rules),)
    made = tuple(make_rules(one) for one in rules)
    if not made:
        raise ValueError("rules: () (allowed: one set of rules or a sequence of them)")
    return made


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    text = str(np.dtype(value)) if name == "dtype" and not isinstance(value, str) else value
    if text not in allowed:
        raise ValueError(f"{name}: {value!r} (allowed: {', '.join(allowed)})")
    return str(text)


def round_chances(rules: Rules, weights: Any = None) -> Array:
    """Return (R,) float64, the rounds' probabilities summed up; all alike if `weights` is None.

    Raises ValueError where `weights` are not one number from 0 for each round, or all 0.
    """
    size = rules.num_rounds
    row = np.ones(size) if weights is None else np.asarray(weights, np.float64)
    is_row = row.ndim == 1 and len(row) >= size and bool(np.isfinite(row).all())
    if not is_row or row.min() < 0 or row[size:].any() or not row.any():
        raise ValueError(
            f"round_weights: {row.tolist()} (allowed: {size} numbers from 0,"
            " one a round of the schedule, not all 0)"
        )
    chances: Array = np.cumsum(row[:size]) / row.sum()
    # Rounding must not let a draw fall past the last round that can be drawn.
    chances[np.flatnonzero(row)[-1] :] = 1
    return chances


def _all_chances(rules: tuple[Rules, ...], weights: Any) -> Array:
    """Return (K, R) float64: `round_chances` of each, filled up with 1."""
    rows: list[Any] = [weights] * len(rules)
    if weights is not None and np.ndim(weights) == 2:
        rows = list(weights)
    if len(rows) != len(rules):
        raise ValueError(f"round_weights: {len(rows)} rows (allowed: {len(rules)}, one a rule set)")
    chances = np.ones((len(rules), max(r.num_rounds for r in rules)))
    for k, r in enumerate(rules):
        chances[k, : r.num_rounds] = round_chances(r, rows[k])
    return chances
