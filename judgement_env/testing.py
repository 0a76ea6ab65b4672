"""The contract of environments and bots, for people who wrap the one or write the other.

`check_env` and `check_bot` look for a case against each sentence of it. They return the sentences
that hold, or raise `ContractError` for the first that does not: it names the sentence, what was
seen, and the seed and decision where. The sentences are in `env_contract` and `bot_contract`.

>>> check_bot("random", rules="kachuful")[0]
'It has a name, which is text.'
"""

from __future__ import annotations

import os
import runpy
from collections.abc import Mapping, Sequence
from typing import Any

from judgement_env.bot_contract import BOT_CHECKS, AnyBot, BotSubject
from judgement_env.bots import PROCESS, Bot, make_bot
from judgement_env.contract import ContractError, Report, hold, rule_sets, said
from judgement_env.env_contract import checks_of
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import shown

__all__ = ["ContractError", "check_bot", "check_env", "load_bot"]

RulesLike = str | os.PathLike[str] | Rules | Mapping[str, Any]


def check_env(
    env: Any, *, seed: int = 0, skip: Sequence[str] = (), report: Report | None = None
) -> list[str]:
    """Check an environment, or a wrapper of one, and return the sentences that hold.

    env: `judgement_v0.env` or `raw_env`, a `BatchEnv`, a `gym_env.JudgementEnv`, or what wraps one
        and has the inner one as its `unwrapped`. It is reset many times.
    skip: names of checks to leave out, where a wrapper changes something on purpose ("rewards").
    report: called with each sentence that holds, as soon as it does.
    Raises ContractError for the first sentence that does not hold, ValueError for something that
    is no environment of this package.
    """
    checks, subject = checks_of(env, seed)
    return hold(checks, subject, skip, report)


def check_bot(
    bot: str | Bot | Any,
    *,
    rules: RulesLike | Sequence[RulesLike] | None = None,
    seed: int = 0,
    deterministic: bool | None = None,
    positions: int = 8,
    skip: Sequence[str] = (),
    report: Report | None = None,
) -> list[str]:
    """Check a bot and return the sentences that hold, and last how long its answers took.

    bot: what `make_bot` takes, a `Bot`, or anything with `act(view)`. It is closed at the end.
    rules: those it is asked under; all presets, numbers of players and house rules if None.
    deterministic: False for a bot that draws by lot and has no policy to show it.
    positions: how many under each of the rules. skip, report: as for `check_env`.
    Raises ContractError for the first sentence that does not hold.
    """
    spec = os.fspath(bot) if isinstance(bot, str | os.PathLike) else None
    if spec is None and not callable(getattr(bot, "act", None)):
        raise ValueError(f"bot: {shown(bot)} (allowed: a bot's description, or a method act(view))")
    made = make_bot(spec, seed=seed) if spec is not None else bot
    if not isinstance(made, Bot):
        made = AnyBot(made)
    if positions < 1:
        raise ValueError(f"positions: {positions!r} (allowed: a whole number from 1)")
    try:
        subject = BotSubject(made, _all_rules(rules), seed, positions, deterministic, spec)
        held = hold(BOT_CHECKS, subject, skip, report)
    finally:
        if spec is not None:
            made.close()
    held.append(f"(It answered {subject.clock.calls} views in {subject.clock}.)")
    if report is not None:
        report(held[-1])
    return held


def load_bot(text: str) -> str | Any:
    """The bot that "FILE.py:NAME" makes, NAME a class or function; any other text stays as it is.

    Raises ValueError naming the file where it cannot be run or holds no such thing.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py") or text.startswith(PROCESS):
        return text
    try:
        found = runpy.run_path(file)
    except Exception as error:
        raise ValueError(f"bot: {file!r} cannot be run: {said(error)}") from error
    if not callable(found.get(name)):
        raise ValueError(f"bot: {file!r} has no class or function {name!r}")
    return found[name]()


def _all_rules(rules: RulesLike | Sequence[RulesLike] | None) -> tuple[Rules, ...]:
    if rules is None:
        return rule_sets()
    if isinstance(rules, str | os.PathLike | Rules | Mapping):
        return (make_rules(rules),)
    made = tuple(make_rules(one) for one in rules)
    if not made:
        raise ValueError("rules: () (allowed: one set of rules or a sequence of them)")
    return made
