"""What a training program does around its loop: command line, folder, Ctrl-C, parting words.

The loop itself, `train(config, resume, command)`, is each program's own.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import torch
import yaml

from judgement_env.bots.inputs import INPUT_SIZE
from judgement_env.cards import NUM_ACTIONS
from judgement_env.cli import hear_ctrl_c
from judgement_env.scoring import shown
from training.checkpoint import hold, load_checkpoint
from training.config import (
    FIXED,
    FORM,
    Kind,
    RunConfig,
    command_of,
    load_config,
    made_rules,
    to_dict,
)

# Where Linux says what share of the memory a container has: control groups of version 2 and 1.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# Characters of a value, where an error message holds two.
MAX_SHOWN = 80


class Interrupt:
    """Turns the first Ctrl-C into a flag, so that a batch is never left half learned."""

    def __init__(self) -> None:
        """Listen for Ctrl-C and for the polite request to end."""
        self.is_set = False
        numbers = (signal.SIGINT, signal.SIGTERM)
        self.before = {number: signal.signal(number, self._hear) for number in numbers}

    def close(self) -> None:
        """Listen no longer."""
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: Any) -> None:
        self.is_set = True
        print("\nstopping after this batch; once more to stop at once", file=sys.stderr)
        signal.signal(number, signal.default_int_handler)


def _short(value: Any) -> str:
    """A value for an error message that holds two of them: a list of many rules is cut."""
    text = shown(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def check_device(device: str) -> None:
    """Raise ValueError where torch has no such device here."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device: {device!r}: {str(error).splitlines()[0]}") from None


def room() -> int:
    """Return how much memory there is, bytes: the machine's, or a container's share of it."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in LIMITS:
        try:
            size = min(size, int(Path(path).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such file; "max", which is no limit
            continue
    return size


def check_room(config: RunConfig, row: int, critic_inputs: int) -> None:
    """Raise ValueError where the memory of this machine cannot hold a batch or a network.

    `row` is the size of a decision in the batch, bytes. A network is there as weights, their
    average, two means of the optimiser, its first weights, and gradients of each worker, float32
    each.
    """
    allowed, workers = room(), getattr(config, "workers", 1)
    needs = {"tables, steps": config.tables * config.steps * workers * row}
    if hasattr(config, "workers"):
        needs["tables, steps, workers"] = needs.pop("tables, steps")
    for field, first, last in (
        ("hidden", INPUT_SIZE, NUM_ACTIONS),
        ("critic_hidden", critic_inputs, 1),
    ):
        widths = [first, *getattr(config, field), last]
        weights = sum((a + 1) * b for a, b in zip(widths, widths[1:], strict=False))
        needs[field] = 4 * weights * (workers + 5)
    for fields, size in needs.items():
        if size > allowed:
            given = ", ".join(f"{f}: {shown(getattr(config, f))}" for f in fields.split(", "))
            fits = f"what fits the {allowed / 1e9:.0f} GB of memory here"
            raise ValueError(f"{given} (allowed: {fits})")


def go_on_with(program: str, folder: Path, again: Sequence[str] = ()) -> str:
    """Return the command that goes on with a run: `again` or, without it, the program's own."""
    near = os.path.relpath(sys.executable)
    python = sys.executable if near.startswith(os.pardir) else near
    words = again or [program, str(folder / "config.yaml")]
    return shlex.join([python, "-m", *words, "--resume"])


def prepare(
    config: RunConfig, resume: bool, program: str, again: Sequence[str] = ()
) -> tuple[Path, dict[str, Any] | None, IO[str]]:
    """Make the run's folder; return it, the checkpoint to go on from, if any, and its lock."""
    folder = Path("runs") / config.name
    path = folder / "checkpoint.pt"
    saved = None
    if resume:
        saved = load_checkpoint(path)
        other = saved.get("program", "training.train")
        if other != program:
            raise ValueError(f"{folder}: a run of {other}; go on with python -m {other}")
        defaults, now = to_dict(type(config)()), to_dict(config)
        before = {**defaults, **saved["config"], "workers": saved["workers"]}
        for field in [field for field in FIXED if field in now]:
            one, other = now[field], before[field]
            if one != other and not (field == "rules" and made_rules(one) == made_rules(other)):
                raise ValueError(
                    f"{field}: {_short(one)} given, but {folder} was started with {_short(other)};"
                    f" go on with {go_on_with(program, folder, again)}"
                )
    elif path.exists():
        raise ValueError(
            f"{folder}: holds a run already; go on with --resume, choose another --name=NAME,"
            " or delete the folder"
        )
    lock = hold(folder)
    if not resume:
        (folder / "metrics.csv").unlink(missing_ok=True)
    text = yaml.safe_dump(to_dict(config), sort_keys=False)
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    return folder, saved, lock


def say_how_to_go_on(program: str, folder: Path, decisions: int, again: Sequence[str] = ()) -> None:
    """Tell the user of a run that was stopped which command goes on with it."""
    command = go_on_with(program, folder, again)
    hint = f"stopped at {decisions:,} decisions, all saved; go on with:\n  {command}"
    print(hint, file=sys.stderr)


def say_it_is_over(folder: Path) -> None:
    """Tell the user of a run that was over before it began what would make it go on."""
    hint = f"{folder}: at its limit already; go on with a larger --decisions or --minutes"
    print(hint, file=sys.stderr)


def history(before: str, command: str) -> str:
    """Return the commands of a run that was gone on with, in order; one a line."""
    return before if not command or command in before.split("\n") else f"{before}\n{command}"


def help_lines(values: Mapping[str, Any]) -> str:
    """Return options and their values as --help lists them."""
    return "\n".join(f"  --{name}={value}" for name, value in values.items())


def run(
    program: str,
    about: str | None,
    kind: type[Kind],
    train: Callable[[Kind, bool, str], Path],
    arguments: list[str],
) -> int:
    """Run the command line of a training program; return the exit code.

    `about` is its documentation, `kind` its config, `train` what it does with one.
    """
    if not arguments or {"-h", "--help"} & set(arguments):
        print(f"{about}\nFields and defaults:\n{help_lines(to_dict(kind()))}")
        return 0
    paths = [argument for argument in arguments if not argument.startswith("--")]
    options = [a for a in arguments if a.startswith("--") and a != "--resume"]
    try:
        if len(paths) > 1:
            raise ValueError(f"one config file at most, not {' and '.join(paths)}; {FORM}")
        config = load_config(paths[0] if paths else None, options, kind)
    except (ValueError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    resume = "--resume" in arguments
    return carry_out(
        program, train, config, resume, command_of(program, [*paths, *options], resume)
    )


def carry_out(
    program: str, train: Callable[[Kind, bool, str], Path], config: Kind, resume: bool, command: str
) -> int:
    """Train, and say where or, in a line, what went wrong; return the exit code."""
    hear_ctrl_c()
    try:
        folder = train(config, resume, command)
    except MemoryError as error:
        print(f"{program}: {error}; fewer tables or steps need less", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        is_saved = (Path("runs") / config.name / "checkpoint.pt").is_file()
        stands = "the last checkpoint stands" if is_saved else "nothing was saved yet"
        print(f"{program}: stopped at once; {stands}", file=sys.stderr)
        return 130
    print(folder)
    return 0
