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

import functools
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, NoReturn

import numpy as np

from judgement_env.arguments import choice, dtype_name, refuse, summed_chances, whole
from judgement_env.batch_play import (
    COUNTERS,
    await_rows,
    begin_batch,
    first_foreign,
    first_illegal,
    show_batch,
    step_batch,
)
from judgement_env.cards import NONE, NUM_ACTIONS, action_text, is_bid, whole_number
from judgement_env.engine import table_key
from judgement_env.observation import ORACLE_SIZE, SIZE
from judgement_env.record import SEEDS
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import shown
from judgement_env.state import Array, new_tables, pack_rules
from judgement_env.table import IllegalActionError
from judgement_env.view import View, explain

RulesLike = str | os.PathLike[str] | Rules | Mapping[str, Any]

EPISODES = ("match", "round")
DTYPES = ("float32", "uint8")
# The tables that a thread claims at a time: enough to be worth it, and many claims for each.
LEAST_CHUNK = 32
CHUNKS = 16
# What a caller may own, besides `oracle`.
SHOWN = ("observation", "action_mask", "seat", "reward", "done")


class BatchEnv:
    """N tables that are stepped together; what they show is read from the attributes.

    Before the first `reset` all is 0, and every seat -1.

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
        seed: int | Sequence[int] | Array | None = 0,
        *,
        episode: str = "match",
        dtype: str = "float32",
        skip_forced: bool = False,
        oracle: bool = False,
        copy: bool = True,
        buffers: Mapping[str, Array] | None = None,
        threads: int = 1,
        rules_of: Any = None,
        round_weights: Any = None,
    ) -> None:
        """Make the tables; nothing is dealt before `reset`.

        rules: one set of rules, or K of them: table i plays the one of index i % K.
        rules_of: (N,) integers, the index into `rules` of each table instead; `restart` changes it.
        seed: names the deals, table i dealing as table i of the seed; None draws one. Or N seeds,
            table i dealing as the only table of seed i.
        episode: "match", or "round": one round of the schedule, drawn anew each time.
        round_weights: how likely each round is in round episodes, (R,) or (K, R); all alike if
            None.
        dtype: of observations, "float32" or "uint8" (raw values, a quarter of the size).
        skip_forced: play decisions that leave no choice inside the step that leads to them.
        oracle: also write all hands, for a critic during training.
        copy: each step makes new arrays; False writes into the same ones again and again.
        buffers: arrays of your own to write into, by attribute name, shaped and typed as the
            attribute and in C order; the other attributes are then written in place too.
        threads: blocks of tables played side by side; results are the same for any number.
        Raises ValueError naming the argument, its value and what is allowed.
        """
        self.rules: tuple[Rules, ...] = all_rules(rules)
        self.num_tables = whole("num_tables", num_tables, 1)
        self.num_players = max(r.num_players for r in self.rules)
        self.seed, self._keys = _all_keys(seed, self.num_tables)
        self.episode = choice("episode", episode, EPISODES)
        self.dtype = np.dtype(dtype_name(dtype, DTYPES))
        self.skip_forced = bool(skip_forced)
        self.copy = bool(copy) and buffers is None
        self.threads = min(whole("threads", threads, 1), self.num_tables)
        self.tables = new_tables(self.num_tables)
        self.tables["rules"] = np.arange(self.num_tables) % len(self.rules)
        if rules_of is not None:
            self.tables["rules"] = self._checked_rules(rules_of, self.num_tables)
        self._packed = pack_rules(self.rules)
        self._has_oracle = bool(oracle)
        self._has_begun = False
        self._chances = _all_chances(self.rules, None)
        if round_weights is not None:
            self.set_round_weights(round_weights)
        # The actions that were shown to be legal, as bits: steps are checked against these.
        self._legal = np.zeros((self.num_tables, 2), np.uint64)
        self._make_arrays()
        self._own({} if buffers is None else buffers)

    def _make_arrays(self) -> None:
        n = self.num_tables
        self.observation: Array = np.zeros((n, SIZE), self.dtype)
        self.action_mask: Array = np.zeros((n, NUM_ACTIONS), np.int8)
        self.seat: Array = np.full(n, NONE, np.int32)
        self.reward: Array = np.zeros((n, self.num_players), np.float32)
        self.done: Array = np.zeros(n, np.bool_)
        self._oracle: Array = np.zeros((n if self._has_oracle else 0, ORACLE_SIZE), self.dtype)
        self._link_rows()

    def _link_rows(self) -> None:
        """Have the kernels write to `observation`: raw values at once, or by way of one raw row."""
        is_raw = self.dtype == np.uint8
        self._raw: Array = self.observation if is_raw else np.zeros((self.threads, SIZE), np.uint8)
        self._scaled: Array = np.zeros((0, SIZE), np.float32) if is_raw else self.observation

    def _own(self, buffers: Mapping[str, Array]) -> None:
        """Take the caller's arrays in the place of those made here."""
        if not isinstance(buffers, Mapping):
            raise ValueError(f"buffers: {type(buffers).__name__} (allowed: arrays by name)")
        names = [*SHOWN, "oracle"] if self._has_oracle else list(SHOWN)
        for name, buffer in buffers.items():
            if name not in names:
                raise ValueError(f"buffers: {name!r} (allowed: {', '.join(names)})")
            attribute = "_oracle" if name == "oracle" else name
            wanted = getattr(self, attribute)
            if not isinstance(buffer, np.ndarray):
                raise ValueError(f"buffers[{name!r}]: {type(buffer).__name__} (allowed: an array)")
            if buffer.shape != wanted.shape or buffer.dtype != wanted.dtype:
                raise ValueError(
                    f"buffers[{name!r}]: shape {buffer.shape}, dtype {buffer.dtype}"
                    f" (allowed: {wanted.shape}, {wanted.dtype})"
                )
            if not (buffer.flags.c_contiguous and buffer.flags.writeable):
                raise ValueError(f"buffers[{name!r}]: not writeable memory in C order")
            setattr(self, attribute, buffer)
        given = list(buffers)
        for one, other in itertools.combinations(given, 2):
            if np.shares_memory(buffers[one], buffers[other]):
                raise ValueError(f"buffers: {one!r} and {other!r} share memory")
        self._link_rows()

    @property
    def oracle(self) -> Array:
        """All hands by relative seat of the seat to act, (N, 520); asked for with oracle=True."""
        if not self._has_oracle:
            raise AttributeError("oracle: this batch was made with oracle=False")
        return self._oracle

    def reset(self, seed: int | Sequence[int] | Array | None = None) -> None:
        """Start an episode at every table, and zero `reward` and `done`.

        The first reset, and one with a seed, starts with match 0 of the seed; any other goes on
        with the table's next match.
        """
        is_seeded = seed is not None or not self._has_begun
        if seed is not None:
            self.seed, self._keys = _all_keys(seed, self.num_tables)
        is_round = self.episode == "round"
        begin_batch(self._packed, self.tables, is_round, self._chances, self._keys, is_seeded)
        self._has_begun = True
        if self.copy:
            self._make_arrays()
        self.reward[:] = 0
        self.done[:] = False
        self._show()

    def restart(self, which: Any, rules_of: Any = None) -> None:
        """Start the next episode at some tables, leaving theirs unfinished.

        which: (N,) bool or (M,) indices; rules_of: (M,) indices into `rules` to play by from now
        on. `reward` and `done` of these tables become zero. Raises ValueError for tables or rules
        that do not exist.
        """
        self._need_begun("restart")
        chosen = self._checked_tables(which)
        part = self.tables[chosen]
        if rules_of is not None:
            part["rules"] = self._checked_rules(rules_of, len(chosen))
        is_round = self.episode == "round"
        begin_batch(self._packed, part, is_round, self._chances, part["key"].copy(), False)
        self.tables[chosen] = part
        self._shown_anew(chosen)

    def save(self, which: Any = None) -> Array:
        """Return copies (M,) of tables, all or those chosen: positions that `restore` goes back to.

        which: (N,) bool or (M,) indices.
        """
        self._need_begun("save")
        return self.tables[self._checked_tables(which)]

    def restore(self, saved: Array, which: Any = None) -> None:
        """Go back to saved positions, at all tables or those chosen; they may be others' positions.

        saved: (M,) tables as `save` returns them, or (1,) for all of them. What the
        batch shows of these tables is written anew, their `reward` and `done` become zero. Raises
        ValueError for another shape, and for tables of other rules as far as they show.
        """
        self._need_begun("restore")
        chosen = self._checked_tables(which)
        given = np.asarray(saved)
        if given.dtype != self.tables.dtype or given.shape not in ((len(chosen),), (1,)):
            raise ValueError(
                f"saved: shape {given.shape}, dtype {str(given.dtype)[:20]}"
                f" (allowed: ({len(chosen)},) tables of save(), or one for all)"
            )
        if i := int(first_foreign(self._packed, given)) + 1:
            raise ValueError(
                f"saved: table {i - 1} is of other rules than this batch plays"
                " (allowed: tables saved under the same rules, in the same order)"
            )
        self.tables[chosen] = given
        self._shown_anew(chosen)

    def set_round_weights(self, weights: Any) -> None:
        """Say how likely each round is in the round episodes that begin from now on.

        weights: (R,) or (K, R), from 0; None makes all alike. ValueError where they are not.
        """
        if self.episode != "round":
            raise ValueError(
                f"round_weights: given with episode {self.episode!r} (allowed: with 'round')"
            )
        self._chances = _all_chances(self.rules, weights)

    def step(self, actions: Any) -> None:
        """Take one action at every table; `actions` (N,) of any integer dtype.

        Raises IllegalActionError for an action that is not legal, TypeError or ValueError for
        another dtype or shape, RuntimeError before the first reset; nothing has changed then.
        """
        self._need_begun("step")
        chosen = self._checked(actions)
        if self.copy:
            self._make_arrays()
        else:
            self.reward.fill(0)

        def play(thread: int, progress: Array, chunk: int) -> None:
            step_batch(
                self._packed,
                self.tables,
                chosen,
                self.episode == "round",
                self._chances,
                self.skip_forced,
                self._raw_of(thread),
                self._scaled,
                self.action_mask,
                self._legal,
                self.seat,
                self.reward,
                self.done,
                self._oracle,
                progress,
                chunk,
            )

        self._share(play)

    def refresh(self) -> None:
        """Write observation, mask, seat and oracle anew after `tables` was changed by hand."""
        self._need_begun("refresh")
        if self.copy:
            reward, done = self.reward, self.done
            self._make_arrays()
            self.reward, self.done = reward, done
        self._show()

    def _shown_anew(self, chosen: Array) -> None:
        self.refresh()
        if self.copy:
            self.reward, self.done = self.reward.copy(), self.done.copy()
        self.reward[chosen] = 0
        self.done[chosen] = False

    def _show(self) -> None:
        def write(thread: int, progress: Array, chunk: int) -> None:
            show_batch(
                self._packed,
                self.tables,
                self._raw_of(thread),
                self._scaled,
                self.action_mask,
                self._legal,
                self.seat,
                self._oracle,
                progress,
                chunk,
            )

        self._share(write)

    def _raw_of(self, thread: int) -> Array:
        """Return where a thread writes raw values: each in its row, or all in one of its own."""
        return self._raw[thread : thread + 1] if len(self._scaled) else self._raw

    def _share(self, work: Callable[[int, Array, int], None]) -> None:
        """Have `work` done by all threads, this one among them, a chunk of the tables at a time.

        Chunks are claimed, so a thread that wakes late or is held up leaves more to the others.
        """
        progress = np.zeros(COUNTERS, np.int64)
        if self.threads == 1:
            work(0, progress, self.num_tables)
            return
        chunk = max(LEAST_CHUNK, self.num_tables // (CHUNKS * self.threads))
        for thread in range(1, self.threads):
            _helpers(self.threads - 1).put(functools.partial(work, thread, progress, chunk))
        work(0, progress, chunk)
        await_rows(progress, self.num_tables)

    def _need_begun(self, method: str) -> None:
        if not self._has_begun:
            raise RuntimeError(f"{method}: call reset() first")

    def _checked(self, actions: Any) -> Array:
        given = np.asarray(actions)
        if given.dtype.kind not in "iu":
            raise TypeError(f"actions: dtype {given.dtype} (allowed: any integer dtype)")
        if given.shape != (self.num_tables,):
            raise ValueError(f"actions: shape {given.shape} (allowed: ({self.num_tables},))")
        chosen = given.astype(np.int64, copy=False)

        i = int(first_illegal(self._legal, chosen))
        if i != NONE:
            self._refuse(i, given[i].item())
        return chosen

    def _checked_tables(self, which: Any) -> Array:
        """Return the indices of the tables chosen, all for None."""
        if which is None:
            return np.arange(self.num_tables)
        given = np.asarray(which)
        if given.dtype == np.bool_ and given.shape == (self.num_tables,):
            return np.flatnonzero(given)
        is_index = given.ndim == 1 and (given.dtype.kind in "iu" or not given.size)
        if not is_index or (given.size and not 0 <= given.min() <= given.max() < self.num_tables):
            raise ValueError(
                f"which: {shown(given.tolist())} (allowed: {self.num_tables} truth values,"
                f" or indices from 0 to {self.num_tables - 1})"
            )
        return given.astype(np.int64)

    def _checked_rules(self, rules_of: Any, count: int) -> Array:
        """Return indices into `rules`, `count` of them."""
        given = np.asarray(rules_of)
        last = len(self.rules) - 1
        is_fit = given.shape == (count,) and given.dtype.kind in "iu"
        if not is_fit or (count and not 0 <= given.min() <= given.max() <= last):
            raise ValueError(
                f"rules_of: {shown(given.tolist())} (allowed: {count} indices from 0 to {last})"
            )
        return given

    def _refuse(self, i: int, action: int) -> NoReturn:
        """Say which rule keeps table i from `action`, as a Table would."""
        rules = self.rules[int(self.tables["rules"][i])]
        view = View(rules, int(self.tables["seat"][i]), self.tables[i : i + 1].copy(), (), ())
        raise IllegalActionError(refusal(i, view, action), view.seat, action, list(view.legal))


def refusal(i: int, view: View, action: int) -> str:
    """Return what an IllegalActionError says: table, seat, the rule broken, what is legal."""
    if 0 <= action < NUM_ACTIONS:
        words = action_text(action) if is_bid(action) else f"play {action_text(action)}"
        what = f"may not {words}: {explain(view, action)}"
    else:
        what = f"cannot do that: action: {action} (allowed: 0 to {NUM_ACTIONS - 1})"
    legal = ", ".join(action_text(a) for a in view.legal)
    return f"table {i}, seat {view.seat} {what} (legal: {legal})"


def check_seed(seed: Any) -> int:
    """Return the seed, one drawn from the system if None; ValueError outside 0..2^64-1."""
    if seed is None:
        # It fits a double, so that every reader of a record keeps all its digits.
        return secrets.randbits(53)
    number = whole_number(seed)
    if number is None or not 0 <= number < SEEDS:
        raise ValueError(f"seed: {shown(seed)} (allowed: a whole number from 0 to {SEEDS - 1})")
    return number


def _all_keys(seed: Any, num_tables: int) -> tuple[Any, Array]:
    """Return the seed or the list of them, and the key (N,) uint64 each table gets of it."""
    if seed is None or np.ndim(seed) == 0:
        one = check_seed(seed)
        return one, np.array([table_key(np.uint64(one), i) for i in range(num_tables)], np.uint64)
    seeds = [check_seed(s) for s in np.asarray(seed).tolist()]
    if len(seeds) != num_tables:
        raise ValueError(f"seed: {len(seeds)} seeds (allowed: one, or {num_tables})")
    return seeds, np.array([table_key(np.uint64(s), 0) for s in seeds], np.uint64)


@functools.cache
def _helpers(count: int) -> SimpleQueue[Callable[[], None]]:
    """Return where `count` threads, shared by all batches, wait for work; so a batch pickles."""
    queue: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def help_out() -> None:
        # What numpy warns of is a thread's own: uncompiled kernels wrap 64-bit hashes on purpose.
        np.seterr(over="ignore")
        while True:
            queue.get()()

    for _ in range(count):
        threading.Thread(target=help_out, name="judgement-batch", daemon=True).start()
    return queue


# A child of fork has no threads but its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def all_rules(rules: RulesLike | Sequence[RulesLike]) -> tuple[Rules, ...]:
    """Return one set of rules or several of them; ValueError where there is none."""
    if isinstance(rules, str | os.PathLike | Rules | Mapping):
        return (make_rules(rules),)
    if not isinstance(rules, Iterable):
        refuse("rules", rules, "one set of rules or a sequence of them")
    made = tuple(make_rules(one) for one in rules)
    if not made:
        raise ValueError("rules: () (allowed: one set of rules or a sequence of them)")
    return made


def round_chances(rules: Rules, weights: Any = None) -> Array:
    """Return (R,) float64, the rounds' probabilities summed up; all alike if `weights` is None.

    Raises ValueError where `weights` are not one number from 0 for each round, or all 0.
    """
    each = "one a round of the schedule"
    return summed_chances("round_weights", weights, rules.num_rounds, each, is_padded=True)


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
