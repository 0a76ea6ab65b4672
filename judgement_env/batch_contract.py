"""What a `BatchEnv`, or a wrapper of one, keeps to, as sentences that are checked.

Next to each of its tables a `View` of the position, and in whole matches a `Table` of the same seed
that plays along, say what is true. `judgement_env.testing.check_env` is the way in.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from judgement_env.batch import BatchEnv
from judgement_env.cards import NUM_ACTIONS
from judgement_env.contract import Check, Subject, actions_text, broken, said
from judgement_env.observation import as_float
from judgement_env.state import Array
from judgement_env.table import IllegalActionError, Table
from judgement_env.view import View

# Steps of each check: a match of seven rounds ends within them.
STEPS = 160
SHOWN = ("observation", "action_mask", "seat", "reward", "done")


class BatchSubject(Subject):
    """A batch, the `BatchEnv` inside it, and where the check is."""

    def __init__(self, env: Any, inner: BatchEnv, seed: int) -> None:
        self.env = env
        self.inner = inner
        self.seed = seed

    def reset(self) -> None:
        """Begin match 0 of the seed at every table."""
        self.place = f"seed {self.seed}, reset"
        self.env.reset(seed=self.seed)

    def steps(self, after: Callable[[Array], None] | None = None) -> Iterator[Array]:
        """Before each step the actions (N,) about to be taken, legal by the rules.

        `after` is called with them after each.
        """
        rng = np.random.default_rng(self.seed)
        self.reset()
        for step in range(STEPS):
            self.place = f"seed {self.seed}, step {step}"
            actions = np.array([rng.choice(self.view(i).legal) for i in range(self.num_tables)])
            yield actions
            self.env.step(actions)
            if after is not None:
                after(actions)

    @property
    def num_tables(self) -> int:
        """N."""
        return self.inner.num_tables

    def view(self, i: int) -> View:
        """What the seat to act at table i knows, from the position itself."""
        rules = self.inner.rules[i % len(self.inner.rules)]
        row = self.inner.tables[i : i + 1].copy()
        return View(rules, int(row["seat"][0]), row, (), ())

    def look(self) -> dict[str, Any]:
        """Copies of all that the batch shows."""
        return {name: np.array(getattr(self.env, name)) for name in SHOWN}


def differing(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    """Which array of two looks differs, and at which table."""
    for name, array in one.items():
        if array.shape != other[name].shape or array.dtype != other[name].dtype:
            return f"{name}: {array.dtype} {array.shape}, {other[name].dtype} {other[name].shape}"
        wrong = np.flatnonzero((array != other[name]).reshape(len(array), -1).any(axis=1))
        if len(wrong):
            return f"{name} of table {wrong[0]}"
    return None


def check_shapes(subject: BatchSubject) -> None:
    """Compare shapes after each step."""
    env, n = subject.env, subject.num_tables
    for _ in subject.steps():
        shapes = {
            "observation": (n, env.observation.shape[-1]),
            "action_mask": (n, NUM_ACTIONS),
            "seat": (n,),
            "reward": (n, subject.inner.num_players),
            "done": (n,),
        }
        for name, shape in shapes.items():
            array = getattr(env, name)
            if not isinstance(array, np.ndarray) or array.shape != shape:
                broken(f"{name} is {type(array).__name__} {np.shape(array)} (allowed: {shape})")


def check_masks(subject: BatchSubject) -> None:
    """Compare with a view of each position."""
    for _ in subject.steps():
        for i in range(subject.num_tables):
            view = subject.view(i)
            allowed = np.flatnonzero(subject.env.action_mask[i]).tolist()
            if allowed != list(view.legal):
                broken(
                    f"table {i}: the mask allows {actions_text(allowed)}, the rules"
                    f" {actions_text(view.legal)}"
                )
            if int(subject.env.seat[i]) != view.seat:
                broken(f"table {i}: seat {subject.env.seat[i]}, to act is {view.seat}")


def check_observations(subject: BatchSubject) -> None:
    """Compare with a view of each position."""
    for _ in subject.steps():
        for i in range(subject.num_tables):
            shown = subject.env.observation[i]
            raw = subject.view(i).observation("uint8")
            is_same = shown.dtype == np.uint8 and np.array_equal(shown, raw)
            if not is_same and not np.array_equal(shown, as_float(raw)):
                broken(f"table {i}: the observation is not what seat {subject.env.seat[i]} knows")


def _open(subject: BatchSubject, i: int, match: int) -> Table:
    rules = subject.inner.rules[i % len(subject.inner.rules)]
    return Table(rules, subject.seed, table=i, match=match)


def check_rewards(subject: BatchSubject) -> None:
    """Beside whole matches tables play along; beside single rounds, a copy of the inner batch."""
    if subject.inner.episode != "match":
        _check_round_rewards(subject)
        return
    n = subject.num_tables
    along = [_open(subject, i, 0) for i in range(n)]
    sums = np.zeros((n, subject.inner.num_players))

    def follow(actions: Array) -> None:
        for i in range(n):
            _follow(subject, along[i], int(actions[i]), sums[i], i)
            if along[i].is_over:
                sums[i] = 0
                along[i] = _open(subject, i, along[i].match + 1)

    for _ in subject.steps(follow):
        pass


def _follow(subject: BatchSubject, table: Table, action: int, sums: Array, i: int) -> None:
    """Take table i's action at the table beside it and compare what was given."""
    sums += subject.env.reward[i]
    table.push(action)
    while subject.inner.skip_forced and len(table.legal()) == 1:
        table.push(table.legal()[0])
    if bool(subject.env.done[i]) != table.is_over:
        broken(f"table {i}: done is {subject.env.done[i]}, the match is over: {table.is_over}")
    num_players = table.rules.num_players
    if sums[:num_players].tolist() != table.totals or sums[num_players:].any():
        broken(f"table {i}: rewards came to {sums.tolist()}, the totals are {table.totals}")


def _check_round_rewards(subject: BatchSubject) -> None:
    twin = copy.deepcopy(subject.inner)
    twin.reset(seed=subject.seed)

    def follow(actions: Array) -> None:
        twin.step(actions)
        for i in range(subject.num_tables):
            got, expected = subject.env.reward[i].tolist(), twin.reward[i].tolist()
            if got != expected or bool(subject.env.done[i]) != bool(twin.done[i]):
                broken(
                    f"table {i}: reward {got}, done {subject.env.done[i]}; due were {expected},"
                    f" {twin.done[i]}"
                )

    for _ in subject.steps(follow):
        pass


def check_seeded(subject: BatchSubject) -> None:
    """Play again."""
    first = [subject.look() for _ in subject.steps()]
    for one, _ in zip(first, subject.steps(), strict=True):
        if name := differing(one, subject.look()):
            broken(f"the second time it was another: {name}")


def _check_copy(subject: BatchSubject, duplicate: Any, name: str) -> None:
    twin: Any = None
    for k, actions in enumerate(subject.steps()):
        if k == STEPS // 4:
            twin = duplicate(subject.env)
        if twin is None:
            continue
        look = {field: np.array(getattr(twin, field)) for field in SHOWN}
        if part := differing(subject.look(), look):
            broken(f"{name} goes on with another {part}")
        twin.step(actions)


def check_deepcopy(subject: BatchSubject) -> None:
    """Play on with both."""
    _check_copy(subject, copy.deepcopy, "a deepcopy")


def check_pickle(subject: BatchSubject) -> None:
    """Play on with both."""
    _check_copy(subject, lambda env: pickle.loads(pickle.dumps(env)), "a pickle")


def check_illegal(subject: BatchSubject) -> None:
    """Make one row illegal now and then."""
    for k, actions in enumerate(subject.steps()):
        if k % 20:
            continue
        i = k % subject.num_tables
        wrong = actions.copy()
        wrong[i] = next(a for a in range(NUM_ACTIONS) if a not in subject.view(i).legal)
        before, tables = subject.look(), subject.inner.tables.tobytes()
        try:
            subject.env.step(wrong)
        except IllegalActionError:
            if subject.inner.tables.tobytes() != tables or differing(before, subject.look()):
                broken(f"table {i}: IllegalActionError was raised, and something changed")
        except Exception as error:
            broken(f"table {i}: {said(error)} (due: IllegalActionError)")
        else:
            broken(
                f"table {i}: action {wrong[i]} was taken, legal is"
                f" {actions_text(subject.view(i).legal)}"
            )


BATCH_CHECKS: tuple[Check, ...] = (
    Check("shapes", "Its arrays have a row for each table, as documented.", check_shapes),
    Check(
        "masks",
        "Each mask is the legal actions by the rules, each seat the one to act.",
        check_masks,
    ),
    Check(
        "hidden",
        "Each observation is what the seat to act may know, and nothing else.",
        check_observations,
    ),
    Check(
        "rewards",
        "Rewards add up to the totals for every seat, and done is the end of a match.",
        check_rewards,
    ),
    Check("seeded", "The same seed and actions give the same.", check_seeded),
    Check("deepcopy", "A deepcopy goes on with the same matches, on its own.", check_deepcopy),
    Check("pickle", "A pickle goes on with the same matches, on its own.", check_pickle),
    Check(
        "illegal",
        "An illegal action raises IllegalActionError, and nothing of the batch has changed.",
        check_illegal,
    ),
)
