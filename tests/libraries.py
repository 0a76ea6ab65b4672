"""What the tests of the adapters share: a short match, small networks, the page and the example."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from judgement_env import Rules
from judgement_env.observation import SIZE

ROOT = Path(__file__).resolve().parent.parent
SMALL = Rules.preset("kachuful", num_players=3, cards=[2, 1])


def small_network(outputs: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(SIZE, 16), nn.Tanh(), nn.Linear(16, outputs))


def blocks_of(library: str) -> list[str]:
    """The Python blocks of a library's page."""
    page = (ROOT / "docs" / f"{library}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)


def run_block(block: str) -> str:
    """Run a block of a page in a new process, with one thread of torch; what it prints."""
    program = "import sys; sys.path.insert(0, '')\nimport torch; torch.set_num_threads(1)\n" + block
    return _run([sys.executable, "-c", program])


def _example_file(library: str) -> Path:
    return ROOT / "docs" / "examples" / f"{library}_example.py"


def example(library: str) -> ModuleType:
    """The example of a library as a module."""
    spec = importlib.util.spec_from_file_location(f"{library}_example", _example_file(library))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_example(library: str, *options: str) -> str:
    """Run the example of a library as its page says; what it prints."""
    return _run([sys.executable, str(_example_file(library)), *options])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
