"""What every bot keeps to, as sentences that are checked: `BOT_CHECKS`.

The bot is asked at positions of random matches under all the rules there are, then again in another
order, with copies, on whole tables where it has `act_rows`, and in the arena. Times are told, never
judged. `judgement_env.testing.check_bot` is the way in.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from judgement_env import arena
from judgement_env.bots import Bot, make_bot
from judgement_env.bots.base import BotError
from judgement_env.cards import NUM_ACTIONS, whole_number
from judgement_env.contract import (
    Broken,
    Check,
    Clock,
    Position,
    Subject,
    actions_text,
    answer_text,
    broken,
    positions,
    random_legal,
    rules_text,
    said,
)
from judgement_env.rules import Rules
from judgement_env.state import Array, pack_rules
from judgement_env.table import Table
from judgement_env.view import View, packed

# The probabilities of a float32 network may add up to this far from 1.
TOLERANCE = 1e-4
# Fewer positions for what asks many times.
FEW = 60


class AnyBot(Bot):
    """Anything with `act(view)` as a bot, asked view by view."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = getattr(inner, "name", type(inner).__name__)
        self.has_rows = bool(getattr(inner, "has_rows", False))

    def act(self, view: View) -> int:
        answer: int = self.inner.act(view)
        return answer

    def policy(self, view: View) -> Array | None:
        return self.inner.policy(view) if hasattr(self.inner, "policy") else None

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions: Array = self.inner.act_rows(rules, tables, rows)
        return actions

    def match_over(self, record: dict[str, Any]) -> None:
        if hasattr(self.inner, "match_over"):
            self.inner.match_over(record)

    def close(self) -> None:
        if hasattr(self.inner, "close"):
            self.inner.close()


class BotSubject(Subject):
    """A bot with the positions it is asked at, and what it answered there the first time."""

    def __init__(
        self,
        bot: Bot,
        all_rules: Sequence[Rules],
        seed: int,
        number: int,
        is_deterministic: bool | None,
        spec: str | None,
    ) -> None:
        self.bot = bot
        self.all_rules = tuple(all_rules)
        self.seed = seed
        self.spec = spec
        self.asked = list(positions(self.all_rules, seed, number))
        self.answers: list[Any] = []
        self.clock = Clock()
        self.is_deterministic = is_deterministic

    def at(self, position: Position) -> View:
        """Take note of where the check is; a new view of the position."""
        self.place, self.table = position.place, position.table
        return position.view

    def few(self) -> list[int]:
        """Places in `asked` of a few positions, spread over all rules."""
        step = max(1, len(self.asked) // FEW)
        return list(range(0, len(self.asked), step))


# --- answers ----------------------------------------------------------------------------------


def check_name(subject: BotSubject) -> None:
    """Its name is text."""
    name = subject.bot.name
    if not isinstance(name, str) or not name:
        broken(f"name: {name!r}")


def check_answers(subject: BotSubject) -> None:
    """Ask at every position, and keep the answers."""
    # What is loaded or compiled at the first call is no thinking time.
    subject.bot.act(subject.at(subject.asked[0]))
    for position in subject.asked:
        view = subject.at(position)
        answer = subject.clock.timed(subject.bot.act, view)
        if whole_number(answer) is None or not 0 <= int(answer) < NUM_ACTIONS:
            broken(f"act answered {answer!r} (allowed: a whole number from 0 to {NUM_ACTIONS - 1})")
        subject.answers.append(int(answer))


def check_legal(subject: BotSubject) -> None:
    """Hold the answers against the rules."""
    for position, answer in zip(subject.asked, subject.answers, strict=True):
        view = subject.at(position)
        if answer not in view.legal:
            broken(f"act answered {answer_text(answer)}, legal is {actions_text(view.legal)}")


def _trace(view: View) -> tuple[Any, ...]:
    """All that a view holds, as bytes."""
    state = view.__getstate__()
    state["rules"] = state["rules"].to_dict()
    return (repr(state), view.hand, view.legal, view.to_json())


def check_view_kept(subject: BotSubject) -> None:
    """Compare views before and after they were given to it."""
    for position in subject.asked:
        view = subject.at(position)
        before = _trace(view)
        subject.bot.act(view)
        subject.bot.policy(view)
        after = _trace(view)
        # Equal rules share one array, spoilt since the first answer perhaps; it must not stay so.
        if view.rules_array.tobytes() != pack_rules([view.rules]).tobytes():
            packed.cache_clear()
            broken("the view's rules_array was written to")
        if after[0] != before[0]:
            broken("the view's tables_array, or another part of it, was written to")
        if after != before:
            broken("the view says something else after act")


# --- no state ---------------------------------------------------------------------------------


def _draws(subject: BotSubject) -> bool:
    """Whether the bot draws by lot; it may where its policy says so, or the caller does."""
    if subject.is_deterministic is not None:
        return not subject.is_deterministic
    for index in subject.few():
        position = subject.asked[index]
        view = subject.at(position)
        if all(subject.bot.act(position.view) == subject.answers[index] for _ in range(4)):
            continue
        policy = subject.bot.policy(view)
        if policy is not None and np.count_nonzero(np.asarray(policy)) > 1:
            return True
        again = [int(subject.bot.act(position.view)) for _ in range(4)]
        broken(
            f"asked again it answered {actions_text(again)}, the first time"
            f" {actions_text([subject.answers[index]])}; a bot that draws by lot needs a policy"
            " that shows it, or is checked as not deterministic"
        )
    return False


def check_same_answer(subject: BotSubject) -> None:
    """Ask again in another order; find out whether it draws by lot."""
    subject.is_deterministic = not _draws(subject)
    if not subject.is_deterministic:
        return
    order = list(range(len(subject.asked)))
    random.Random(subject.seed).shuffle(order)
    for index in order:
        view = subject.at(subject.asked[index])
        answer = int(subject.bot.act(view))
        if answer != subject.answers[index]:
            broken(
                f"it answered {actions_text([answer])} where it had answered"
                f" {actions_text([subject.answers[index]])}, views of other matches in between"
            )


def check_policy(subject: BotSubject) -> None:
    """Hold its probabilities against the rules and its answers."""
    has_policy = None
    for position, answer in zip(subject.asked, subject.answers, strict=True):
        view = subject.at(position)
        given = subject.bot.policy(view)
        if has_policy not in (None, given is not None):
            broken("policy gave None at some views, probabilities at others")
        has_policy = given is not None
        if given is not None:
            _check_probabilities(np.asarray(given), view, answer)


def _check_probabilities(policy: Array, view: View, answer: int) -> None:
    if policy.shape != (NUM_ACTIONS,) or policy.dtype.kind != "f":
        broken(f"policy is {policy.dtype} of shape {policy.shape} (allowed: floats, (79,))")
    if not np.isfinite(policy).all() or policy.min() < 0:
        broken("policy holds a probability that is negative or no number")
    wrong = [int(a) for a in np.flatnonzero(policy) if int(a) not in view.legal]
    if wrong:
        broken(f"policy gives {actions_text(wrong)} a chance, legal is {actions_text(view.legal)}")
    if abs(float(policy.sum()) - 1) > TOLERANCE:
        broken(f"policy adds up to {float(policy.sum()):.6g}")
    if policy[answer] == 0:
        broken(f"act answered {actions_text([answer])}, which has no chance by its policy")


def check_made_again(subject: BotSubject) -> None:
    """Make it twice from its description."""
    if subject.spec is None:
        return
    with ExitStack() as stack:
        twins = [stack.enter_context(make_bot(subject.spec, seed=subject.seed)) for _ in "ab"]
        for index in subject.few():
            position = subject.asked[index]
            subject.at(position)
            first, second = [int(twin.act(position.view)) for twin in twins]
            if first != second:
                broken(f"one answered {actions_text([first])}, the other {actions_text([second])}")


# --- rows -------------------------------------------------------------------------------------


def _rows(subject: BotSubject) -> tuple[Array, Array, Array]:
    """All positions as the rows of one array, hidden cards included."""
    index = {rules: k for k, rules in enumerate(dict.fromkeys(subject.all_rules))}
    tables = np.concatenate([position.table.tables_array for position in subject.asked])
    tables["rules"] = [index[position.table.rules] for position in subject.asked]
    return pack_rules(list(index)), tables, np.arange(len(tables))


def _ask_rows(subject: BotSubject, rules: Array, tables: Array, rows: Array) -> Array:
    actions = np.asarray(subject.bot.act_rows(rules, tables, rows))
    if actions.shape != rows.shape or actions.dtype.kind not in "iu":
        broken(
            f"act_rows gave {actions.dtype} of shape {actions.shape}"
            f" (allowed: whole numbers of shape {rows.shape})"
        )
    return actions


def check_rows_kept(subject: BotSubject) -> None:
    """Compare what act_rows was given before and after."""
    if not subject.bot.has_rows:
        return
    given = _rows(subject)
    before = [array.tobytes() for array in given]
    _ask_rows(subject, *given)
    for name, array, kept in zip(("rules", "tables", "rows"), given, before, strict=True):
        if array.tobytes() != kept:
            broken(f"act_rows wrote to its argument {name}")


def check_rows_agree(subject: BotSubject) -> None:
    """Hold act_rows, on whole tables, against act on views."""
    if not subject.bot.has_rows:
        return
    rules, tables, rows = _rows(subject)
    actions = _ask_rows(subject, rules, tables, rows)
    for row, action in enumerate(actions.tolist()):
        view = subject.at(subject.asked[row])
        if action not in view.legal:
            broken(f"act_rows answered {answer_text(action)}, legal is {actions_text(view.legal)}")
        if subject.is_deterministic and action != subject.answers[row]:
            broken(
                f"act_rows answered {actions_text([action])} from the whole table, act"
                f" {actions_text([subject.answers[row]])} from the view"
            )


def check_rows_alone(subject: BotSubject) -> None:
    """Ask for the rows in another order, and for a few of them."""
    if not subject.bot.has_rows or not subject.is_deterministic:
        return
    rules, tables, _ = _rows(subject)
    order = np.random.default_rng(subject.seed).permutation(len(tables))
    for rows in (order, order[: len(order) // 3], order[:1]):
        actions = _ask_rows(subject, rules, tables, rows)
        for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
            subject.at(subject.asked[row])
            if action != subject.answers[row]:
                broken(
                    f"asked with {len(rows)} rows in another order it answered"
                    f" {actions_text([action])} instead of {actions_text([subject.answers[row]])}"
                )


# --- matches ----------------------------------------------------------------------------------


def _finished(rules: Rules, seed: int) -> Table:
    rng = random.Random(f"{seed}")
    table = Table(rules, seed=seed)
    while not table.is_over:
        table.push(random_legal(table, rng))
    return table


def check_match_over(subject: BotSubject) -> None:
    """Give it records of finished matches, then ask again."""
    for k, rules in enumerate(dict.fromkeys(subject.all_rules)):
        if k % 5:
            continue
        subject.table = table = _finished(rules, subject.seed + k)
        subject.place = f"{rules_text(rules)}, seed {subject.seed + k}, the end"
        record = {**table.record(), "seed": None}
        before = copy.deepcopy(record)
        subject.bot.match_over(record)
        if record != before:
            broken("match_over changed the record")
    if not subject.is_deterministic:
        return
    for index in subject.few():
        view = subject.at(subject.asked[index])
        answer = int(subject.bot.act(view))
        if answer != subject.answers[index]:
            broken(
                f"after matches had ended it answered {actions_text([answer])} where it had"
                f" answered {actions_text([subject.answers[index]])}"
            )


def check_arena(subject: BotSubject) -> None:
    """Let it play in the arena against chance."""
    opponent = make_bot("random", seed=subject.seed)
    for rules in (subject.all_rules[0], subject.all_rules[-1]):
        few = rules.replace(cards=list(rules.sizes[-3:]), top=None, blind_rounds=[])
        subject.place = f"{rules_text(few)}, seed {subject.seed}"
        field = [subject.bot, opponent]
        try:
            result = arena.compare(field, few, matches=1, seed=subject.seed, only_first=True)
        except (ValueError, BotError) as error:
            raise Broken(said(error)) from None
        name = arena.unique_names(field)[0]
        if not any(row.bot == name and row.rounds > 0 for row in result.rows):
            broken(f"the arena has no figures of {name!r}")


def check_closes(subject: BotSubject) -> None:
    """Close it twice."""
    for time in ("first", "second"):
        try:
            subject.bot.close()
        except Exception as error:
            broken(f"close, called for the {time} time: {said(error)}")


BOT_CHECKS: tuple[Check, ...] = (
    Check("name", "It has a name, which is text.", check_name),
    Check(
        "answers",
        "It answers every view of a seat to act with one action id, a whole number from 0 to 78.",
        check_answers,
    ),
    Check(
        "legal",
        "Its answer is legal: every preset, every number of players, every house rule.",
        check_legal,
    ),
    Check("view", "It leaves the view as it was.", check_view_kept),
    Check(
        "stateless",
        "It gives the same view the same answer, whatever it is asked in between"
        " (or draws by lot, and its policy shows it).",
        check_same_answer,
    ),
    Check(
        "policy",
        "Its policy, where it has one, is 79 probabilities that add up to 1, none of them for an"
        " action that is not legal, and its answers have a chance by it.",
        check_policy,
    ),
    Check("seeded", "Made twice with the same seed, it gives the same answers.", check_made_again),
    Check(
        "rows-kept",
        "act_rows, where it has it, answers whole numbers, one a row, and writes to no argument.",
        check_rows_kept,
    ),
    Check(
        "rows-agree",
        "act_rows, where it has it, answers on the whole table as act does on the view: it reads"
        " nothing that the seat may not know.",
        check_rows_agree,
    ),
    Check(
        "rows-alone",
        "act_rows, where it has it, answers each row for itself: order and number of the rows"
        " change nothing.",
        check_rows_alone,
    ),
    Check(
        "match-over",
        "It takes the record of each finished match, leaves it as it is, and learns nothing of it.",
        check_match_over,
    ),
    Check("arena", "It plays matches in the arena.", check_arena),
    Check("closes", "It closes, and a second time too.", check_closes),
)
