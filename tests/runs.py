"""What the tests of training programs share: a run that ended, one that is stopped, its figures."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class StopAfter:
    """Stands in for Ctrl-C: heard after some batches."""

    batches = 2

    def __init__(self) -> None:
        self.asked = 0

    @property
    def is_set(self) -> bool:
        self.asked += 1
        return self.asked > self.batches

    def close(self) -> None:
        pass


def metrics_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def finished_run(
    train: Callable[..., Path], config: Any, command: str, factory: pytest.TempPathFactory
) -> Path:
    """The folder of a run that reached its limit."""
    before, folder = Path.cwd(), factory.mktemp("finished")
    os.chdir(folder)
    try:
        return train(config, command=command).absolute()
    finally:
        os.chdir(before)


def copied(finished: Path) -> Path:
    """A copy of a run's folder where a program looks for the run "tiny"."""
    return Path(shutil.copytree(finished, Path("runs") / "tiny"))
