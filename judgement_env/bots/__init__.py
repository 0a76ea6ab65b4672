"""Bots: things that answer a view with an action, and `make_bot` that makes one from a text.

>>> make_bot("heuristic").name
'heuristic'
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any, Final

from judgement_env.arguments import whole
from judgement_env.bots.base import Bot, BotError
from judgement_env.bots.ismcts import IsmctsBot
from judgement_env.bots.process import ProcessBot
from judgement_env.bots.search import MAX_SEED, SearchBot
from judgement_env.bots.sharp_player import SharpBot
from judgement_env.bots.simple import HeuristicBot, RandomBot
from judgement_env.scoring import nearest, shown

__all__ = ["Bot", "BotError", "make_bot", "shipped_models"]

PROCESS: Final = "process:"
MODELS: Final = "models/"
STRONG: Final = "+search"
CARD: Final = "card.json"
SIMPLE: Final[dict[str, Any]] = {
    "random": RandomBot,
    "heuristic": HeuristicBot,
    "heuristic+": SharpBot,
    "search": SearchBot,
    "ismcts": IsmctsBot,
}
# Bots that draw nothing by lot.
NO_SEED: Final = ("heuristic", "heuristic+")
KNOWN: Final = (
    *SIMPLE,
    "models/NAME",
    "models/NAME+search",
    "the folder of a model",
    "process:COMMAND",
)


def make_bot(spec: str | os.PathLike[str], seed: int = 0, **options: Any) -> Bot:
    """Return the bot of this description; `seed` is for bots that draw by lot.

    "random", "heuristic" and "heuristic+"; "search" (options `worlds`, `exact`) and "ismcts"
    (`iterations`, `exact`), which look ahead; "models/NAME" or any folder of a model, with
    "+search" behind it a model that looks ahead (`worlds`, `tau`); "process:COMMAND", a program
    that speaks the protocol of docs/bots.md (`timeout` and `start_timeout`, in seconds). A name may
    carry options: "NAME:key=value,key=value". Raises ValueError for an unknown description,
    option or seed, BotError where a program cannot be started.
    """
    text = os.fspath(spec)
    if not isinstance(text, str) or not text:
        raise ValueError(f"bot: {shown(spec)} (allowed: {', '.join(KNOWN)})")
    whole("seed", seed, 0, MAX_SEED)
    if text.startswith(PROCESS):
        return _call(PROCESS, ProcessBot, text.removeprefix(PROCESS), **options)
    name, given = _split(text)
    options = {**given, **options}
    if name in SIMPLE:
        return _call(name, SIMPLE[name], *([] if name in NO_SEED else [seed]), **options)
    is_strong = name.endswith(STRONG) and not Path(name).is_dir()
    base = name.removesuffix(STRONG) if is_strong else name
    if base in SIMPLE:
        raise ValueError(f"bot: {name!r} (allowed: {MODELS}NAME{STRONG})")
    folder = _model_folder(base)
    from judgement_env.bots.neural import NeuralBot

    if not is_strong:
        return _call(name, NeuralBot, folder, seed, **options)
    from judgement_env.bots.net_search import NetSearchBot

    return _call(name, NetSearchBot, NeuralBot(folder), seed, **options)


def shipped_models() -> dict[str, Path]:
    """Return the folders of the models that come with the package, by name."""
    package = Path(__file__).resolve().parent.parent
    for home in (package / "models", package.parent / "models"):
        found = {path.parent.name: path.parent for path in sorted(home.glob(f"*/{CARD}"))}
        if found:
            return found
    return {}


def _call(name: str, kind: Any, /, *args: Any, **options: Any) -> Bot:
    """The bot of this kind; options are those of its arguments that `args` leave."""
    names = list(inspect.signature(kind).parameters)[len(args) :]
    for option in options:
        if option not in names:
            allowed = ", ".join(names) or "none"
            raise ValueError(f"bot: option {option!r} of {name!r} (allowed: {allowed})")
    bot: Bot = kind(*args, **options)
    return bot


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the options of "NAME:key=value,…"; a folder that exists is all name."""
    name, colon, tail = text.rpartition(":")
    if not colon or "=" not in tail or Path(text).is_dir():
        return text, {}
    options: dict[str, Any] = {}
    for part in tail.split(","):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not key.isidentifier():
            raise ValueError(f"bot: option {part!r} of {text!r} (allowed: key=value)")
        if key in options:
            raise ValueError(f"bot: option {key!r} of {text!r} comes twice (allowed: once)")
        options[key] = _value(value.strip())
    return name, options


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _model_folder(name: str) -> Path:
    """The folder of a model: the path given, else the shipped model; ValueError if neither."""
    path = Path(name)
    if path.is_dir():
        if not (path / CARD).is_file():
            raise ValueError(
                f"bot: the folder {name!r} holds no {CARD} (allowed: a model's folder)"
            )
        return path
    models = shipped_models()
    if name.startswith(MODELS) and name.removeprefix(MODELS) in models:
        return models[name.removeprefix(MODELS)]
    names = [*SIMPLE, *(MODELS + model for model in models), *KNOWN[-3:]]
    hint = nearest(name, names[:-3])
    raise ValueError(f"bot: {name!r} (allowed: {', '.join(names)}){hint}")
