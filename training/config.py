"""What a training run is told: a dataclass of defaults, a YAML file of differences, options.

>>> load_config(None, ["--seed=3", "--hidden=64,64"]).hidden
(64, 64)
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import yaml

from judgement_env.arena import MAX_MATCHES
from judgement_env.rules import PRESETS, Rules, make_rules
from judgement_env.scoring import shown

# What a run cannot change half-way: its tables and networks are made of it, or were.
FIXED = ("rules", "seed", "tables", "workers", "hidden", "critic_hidden", "start")
# How options are written; a space ends one, so that the rest of it looks like a file.
FORM = "options have the form --field=value, in quotes where the value holds spaces"
# Deals are named by 1,000 * seed + worker, in 64 bits with a sign.
MAX_SEED = 1 << 53
MAX_WORKERS = 1000
# No such run would end in a life; beyond are but typing errors.
MAX_COUNT = 10**15

# Fields that are one of a few words.
CHOICES = {"advantages": ("critic", "playouts"), "teacher": ("heuristic", "heuristic+")}


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """What every training run is told. Times are minutes; rates end where they say, linearly."""

    # The run writes to runs/<name>.
    name: str = "run"
    # Preset, rules file, or a mapping of rule fields.
    rules: Any = "kachuful"
    seed: int = 0
    # The run ends at the first of the two; 0 = no such limit.
    decisions: int = 10_000_000
    minutes: float = 0.0
    # Tables of each worker, and decisions of each table in one batch.
    tables: int = 256
    steps: int = 128
    device: str = "cpu"
    hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    epochs: int = 1
    # Decisions of one step of the optimiser, over all workers.
    minibatch: int = 4096
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.0
    clip: float = 0.2
    entropy: float = 0.05
    final_entropy: float = 0.0
    value_weight: float = 0.5
    gae_lambda: float = 0.95
    max_gradient: float = 0.5
    evaluate_every: float = 1.0
    evaluate_matches: int = 400
    checkpoint_every: float = 1.0


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """A run of `training.train`; `rules` may be a list of rules, which share out the tables."""

    # Threads that play and learn side by side; 0 = one for each core this process may use.
    workers: int = 0
    bid_weight: float = 2.0
    # Weight of the other seats' mean points in the reward: 0 = own points, 1 = the lead over them.
    relative: float = 1.0
    # Weight of the gain in the chance to win the match in the reward, beside the round's points.
    match_weight: float = 0.0
    # Each batch's weights enter the average that is evaluated and exported with 1 - this.
    averaging: float = 0.9
    # Decisions of a rule bot to imitate first; the policy starts from them, not from nothing.
    imitation: int = 0
    # The rule bot that is imitated: "heuristic" or "heuristic+".
    teacher: str = "heuristic"
    # Share of tables at which all seats but one are the rule bot.
    rule_bot_tables: float = 0.0
    # Share of the rounds dealt so that one seat gets a hand seldom seen; it alone learns from them,
    # half of these hands bid by lot, and one play in twenty is taken so.
    rare_deals: float = 0.0
    # Where advantages come from: "critic" (generalised advantage estimation of the actions taken)
    # or "playouts" (every legal action played to the end of the round, no critic).
    advantages: str = "critic"
    # A model folder whose policy the actor starts from, or a run's folder, whose critic comes too;
    # "" = random weights.
    start: str = ""
    # A model folder whose bot plays all seats but one, at tables without rule bots; "" = self-play.
    field: str = ""


Kind = TypeVar("Kind", bound=RunConfig)


def _checked(config: Kind) -> Kind:
    """Return `config`; raise ValueError for a value outside its range."""
    least = {
        "decisions": 0,
        "minutes": 0,
        "tables": 1,
        "steps": 8,
        "workers": 0,
        "epochs": 1,
        "minibatch": 64,
        "learning_rate": 0,
        "final_learning_rate": 0,
        "clip": 0.001,
        "entropy": 0,
        "final_entropy": 0,
        "bid_weight": 0,
        "value_weight": 0,
        "gae_lambda": 0,
        "max_gradient": 1e-6,
        "relative": 0,
        "match_weight": 0,
        "averaging": 0,
        "imitation": 0,
        "rule_bot_tables": 0,
        "rare_deals": 0,
        "evaluate_every": 0,
        "evaluate_matches": 0,
        "checkpoint_every": 0,
        "seed": 0,
        "past_every": 0,
        "past_kept": 1,
        "past_share": 0,
        "reward_scale": 1e-6,
    }
    most = {
        "decisions": MAX_COUNT,
        "tables": MAX_COUNT,
        "steps": MAX_COUNT,
        "workers": MAX_WORKERS,
        "epochs": MAX_COUNT,
        "minibatch": MAX_COUNT,
        "imitation": MAX_COUNT,
        "evaluate_matches": MAX_MATCHES,
        "seed": MAX_SEED,
        "past_every": MAX_COUNT,
        "past_kept": MAX_COUNT,
        "gae_lambda": 1,
        "relative": 1,
        "match_weight": 1,
        "averaging": 0.9999,
        "rule_bot_tables": 1,
        "rare_deals": 1,
        "past_share": 0.99,
    }
    for field in [field.name for field in dataclasses.fields(config) if field.name in least]:
        low, high, value = least[field], most.get(field), getattr(config, field)
        if not math.isfinite(value) or value < low or (high is not None and value > high):
            allowed = f"at least {low}" if high is None else f"{low} to {high:,}"
            raise ValueError(f"{field}: {shown(value)} is not {allowed}")
    for field in ("hidden", "critic_hidden"):
        if not getattr(config, field) or min(getattr(config, field)) < 1:
            raise ValueError(f"{field}: {getattr(config, field)} is not a list of widths from 1")
    if not config.decisions and not config.minutes:
        raise ValueError("decisions: 0 with minutes 0 would never end; set one of them")
    for field, choices in CHOICES.items():
        if (chosen := getattr(config, field, choices[0])) not in choices:
            raise ValueError(f"{field}: {shown(chosen)} is not one of {', '.join(choices)}")
    if not config.name or "/" in config.name or config.name.startswith("."):
        raise ValueError(f"name: {config.name!r} is not the name of a folder")
    return config


def _typed(field: dataclasses.Field[Any], value: Any) -> Any:
    """Return `value` as the type of the field's default; raise ValueError where it is another."""
    kind = type(field.default)
    if field.type == "Any":
        return value
    if kind is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        widths = [_number(part) for part in (parts if isinstance(parts, list | tuple) else [parts])]
        if any(width is None or not float(width).is_integer() for width in widths):
            raise ValueError(f"{field.name}: {shown(value)} is not a list of whole numbers")
        return tuple(int(width) for width in widths if width is not None)
    number = None if kind is str else _number(value)
    if kind is float and number is not None:
        return float(number)
    if kind is int and number is not None and (isinstance(number, int) or number.is_integer()):
        return int(number)
    if kind is str and isinstance(value, str):
        return value
    choices = CHOICES.get(field.name, ())
    wanted = f"one of {', '.join(choices)}" if choices else f"of type {kind.__name__}"
    raise ValueError(f"{field.name}: {shown(value)} is not {wanted}")


def _number(value: Any) -> int | float | None:
    """Return the number a field was given, None for none; YAML reads 1e-3 as text."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return math.inf
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@overload
def config_from(values: Mapping[str, Any]) -> Config: ...
@overload
def config_from(values: Mapping[str, Any], kind: type[Kind]) -> Kind: ...
def config_from(values: Mapping[str, Any], kind: Any = Config) -> Any:
    """Return the defaults with `values` over them; ValueError for unknown fields, wrong values."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name in values:
        if name not in fields:
            near = difflib.get_close_matches(str(name), fields, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; fields are {', '.join(fields)}"
            raise ValueError(f"{name}: no such field of a training config{hint}")
    return _checked(kind(**{name: _typed(fields[name], v) for name, v in values.items()}))


@overload
def load_config(path: str | Path | None, options: Sequence[str] = ...) -> Config: ...
@overload
def load_config(path: str | Path | None, options: Sequence[str], kind: type[Kind]) -> Kind: ...
def load_config(path: str | Path | None, options: Sequence[str] = (), kind: Any = Config) -> Any:
    """Return the config of a YAML file with ``--field=value`` options over it.

    Raises ValueError naming the file or option and what is wrong with it, FileNotFoundError where
    there is no such file.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            loaded = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
        except RecursionError:
            raise ValueError(f"{path}: not YAML: nested too deeply") from None
        except FileNotFoundError:
            raise FileNotFoundError(f"{path}: there is no such config file; {FORM}") from None
        if loaded is not None and not isinstance(loaded, dict):
            raise ValueError(f"{path}: holds a {type(loaded).__name__}, not fields and values")
        values.update(loaded or {})
        try:
            config_from(values, kind)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    for option in options:
        name, equals, text = option.removeprefix("--").partition("=")
        if not option.startswith("--") or not equals:
            raise ValueError(f"{option}: {FORM}")
        if name == "resume":
            raise ValueError(f"{option}: --resume takes no value")
        name = name.replace("-", "_")
        try:
            # A run may be called 7 or on; only the other fields are read as YAML.
            values[name] = (
                text if name in ("name", "device", "start", "field") else yaml.safe_load(text)
            )
        # Numbers of thousands of digits and dates such as 2026-13-01 are plain ValueErrors.
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise ValueError(f"{option[:60]}: not YAML: {' '.join(str(error).split())}") from None
    return config_from(values, kind)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """Return `config` as plain YAML and JSON types."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(config).items()
    }


def plain_rules(given: Any) -> tuple[Any, Rules]:
    """Return rules as plain data that depends on no other file, and the rules themselves."""
    made = make_rules(given)
    return given if isinstance(given, dict) or given in PRESETS else made.to_dict(), made


def made_rules(given: Any) -> list[Rules]:
    """Return the rules of a config's field, one set of them or a list."""
    return [make_rules(one) for one in (given if isinstance(given, list) else [given])]


def resolve(config: Config) -> tuple[Config, list[Rules]]:
    """Return the config as plain data that depends on no other file or machine; its rules."""
    given = config.rules if isinstance(config.rules, list) else [config.rules]
    if not given:
        raise ValueError("rules: [] holds no rules to play by")
    plain, made = map(list, zip(*map(plain_rules, given), strict=True))
    rules = plain if isinstance(config.rules, list) else plain[0]
    workers = config.workers or len(os.sched_getaffinity(0))
    return dataclasses.replace(config, rules=rules, workers=workers), made


def command_of(program: str, arguments: Sequence[str], resume: bool = False) -> str:
    """Return a command as runs keep it, without the folders of this machine."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in arguments]
    return command_line(program, [*words, *(["--resume"] if resume else [])])


def command_line(program: str, arguments: Sequence[str]) -> str:
    """Return what to type for a program of this package."""
    return shlex.join(["python", "-m", program, *arguments])
