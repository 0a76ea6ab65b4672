"""What a training program does around its loop: command line, folder, Ctrl-C, parting words.

The loop itself, `train(config, resume, command)`, is each program's own.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
import yaml

from training.checkpoint import hold, load_checkpoint
from training.config import FIXED, Kind, RunConfig, load_config, to_dict


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


def check_device(device: str) -> None:
    """Raise ValueError where torch has no such device here."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device: {device!r}: {str(error).splitlines()[0]}") from None


def prepare(
    config: RunConfig, resume: bool, program: str
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
        before, now = {**saved["config"], "workers": saved["workers"]}, to_dict(config)
        for field in [field for field in FIXED if field in now]:
            if now[field] != before.get(field):
                raise ValueError(
                    f"{field}: {now[field]} given, but {folder} was started with"
                    f" {before.get(field)}; go on with {folder / 'config.yaml'}"
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


def say_how_to_go_on(program: str, folder: Path, decisions: int) -> None:
    """Tell the user of a run that was stopped which command goes on with it."""
    near = os.path.relpath(sys.executable)
    python = sys.executable if near.startswith(os.pardir) else near
    again = shlex.join([python, "-m", program, str(folder / "config.yaml"), "--resume"])
    hint = f"stopped at {decisions:,} decisions, all saved; go on with:\n  {again}"
    print(hint, file=sys.stderr)


def say_it_is_over(folder: Path) -> None:
    """Tell the user of a run that was over before it began what would make it go on."""
    hint = f"{folder}: at its limit already; go on with a larger --decisions or --minutes"
    print(hint, file=sys.stderr)


def history(before: str, command: str) -> str:
    """Return the commands of a run that was gone on with, in order; one a line."""
    return before if not command or command in before.split("\n") else f"{before}\n{command}"


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
        fields = "\n".join(f"  --{name}={value}" for name, value in to_dict(kind()).items())
        print(f"{about}\nFields and defaults:\n{fields}")
        return 0
    paths = [argument for argument in arguments if not argument.startswith("--")]
    options = [a for a in arguments if a.startswith("--") and a != "--resume"]
    try:
        if len(paths) > 1:
            raise ValueError(f"one config file at most, not {' and '.join(paths)}")
        config = load_config(paths[0] if paths else None, options, kind)
        files = [Path(path).name if Path(path).is_absolute() else path for path in paths]
        resume = ["--resume"] if "--resume" in arguments else []
        command = shlex.join(["python", "-m", program, *files, *options, *resume])
        folder = train(config, bool(resume), command)
    except (ValueError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{program}: stopped at once; the last checkpoint stands", file=sys.stderr)
        return 130
    print(folder)
    return 0
