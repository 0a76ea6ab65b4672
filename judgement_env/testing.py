"""The contract of environments and bots, for people who wrap the one or write the other.

`check_env` and `check_bot` look for a case against each sentence of it. They return the sentences
that hold, or raise `ContractError` for the first that does not: it names the sentence, what was
seen, and the seed and decision where. The sentences are in `env_contract` and `bot_contract`.

>>> check_bot("random", rules="kachuful")[0]
'It has a name, which is text.'
"""

from __future__ import annotations

import inspect
import os
import runpy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judgement_env.arguments import whole
from judgement_env.batch import RulesLike, all_rules
from judgement_env.bot_contract import BOT_CHECKS, AnyBot, BotSubject
from judgement_env.bots import PROCESS, Bot, make_bot
from judgement_env.bots.process import ProcessBot
from judgement_env.contract import ContractError, Report, hold, rule_sets, said
from judgement_env.env_contract import checks_of
from judgement_env.scoring import shown

__all__ = ["ContractError", "check_bot", "check_env", "load_bot"]


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
    Raises ContractError for the first sentence that does not hold, ValueError for what is no bot,
    BotError for a program that does not answer `start`.
    """
    spec = os.fspath(bot) if isinstance(bot, str | os.PathLike) else None
    if spec is None and not callable(getattr(bot, "act", None)):
        raise ValueError(f"bot: {shown(bot)} (allowed: a bot's description, or a method act(view))")
    number = whole("positions", positions, 1)
    asked = rule_sets() if rules is None else all_rules(rules)
    made = make_bot(spec, seed=seed) if spec is not None else bot
    if not isinstance(made, Bot):
        made = AnyBot(made)
    try:
        subject = BotSubject(made, asked, seed, number, deterministic, spec)
        if isinstance(made, ProcessBot):
            # What does not speak the protocol at all is no bot that could break a sentence.
            made.start(subject.asked[0].view)
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

    Raises ValueError naming the file where it cannot be run, holds no such thing, or where what it
    holds makes no bot.
    """
    file, colon, name = text.rpartition(":")
    if text.startswith(PROCESS) or os.path.isdir(text):
        return text
    if text.endswith(".py"):
        raise ValueError(f"bot: {text!r} names no bot in the file (allowed: {text}:NAME)")
    if not colon or not file.endswith(".py"):
        return text
    try:
        found = runpy.run_path(file)
    except (Exception, SystemExit) as error:
        raise ValueError(f"bot: {file!r} cannot be run: {said(error)}") from error
    maker = found.get(name)
    if not callable(maker):
        raise ValueError(f"bot: {file!r} has no class or function {name!r}{_those_of(found)}")
    return _made(text, maker)


def _those_of(found: Mapping[str, Any]) -> str:
    """The classes and functions a file has of its own, in words."""
    own = [name for name, value in found.items() if _is_made_by_running(value)]
    return f" (allowed: {', '.join(own)})" if own else ""


def _is_made_by_running(value: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == "<run_path>"


def _made(text: str, maker: Callable[[], Any]) -> Any:
    """What a class or function called without arguments makes; ValueError where it is no bot."""
    try:
        inspect.signature(maker).bind()
    except TypeError as error:
        raise ValueError(
            f"bot: {text!r} is called with arguments: {error} (allowed: what is called without;"
            " a function that makes the bot can give them)"
        ) from None
    # Without a signature, as of some compiled classes, the call itself has to show it.
    except ValueError:
        pass
    try:
        bot = maker()
    except Exception as error:
        raise ValueError(f"bot: {text!r} cannot be made: {said(error)}") from error
    if not callable(getattr(bot, "act", None)):
        raise ValueError(
            f"bot: {text!r} makes a {type(bot).__name__} without a method act(view)"
            " (allowed: what has one)"
        )
    return bot
