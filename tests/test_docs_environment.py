"""docs/environment.md says what the code does: its tables are generated, its examples run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from judgement_env import PRESETS, BatchEnv, judgement_v0
from judgement_env.judgement_v0 import STATE_BLOCKS, STATE_SIZE
from judgement_env.observation import BLOCKS, SIZE, SLICES

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = (DOCS / "environment.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_tables", DOCS / "generate_tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(name: str) -> list[list[str]]:
    """The cells of a generated table, without its head."""
    found = re.search(f"<!-- begin {name} -->\n(.*?)\n<!-- end {name} -->", PAGE, re.S)
    assert found is not None
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[1].splitlines()[2:]]


def test_the_tables_of_the_page_are_those_the_code_generates() -> None:
    assert generator().page_with_tables(PAGE) == PAGE, "run: python docs/generate_tables.py"


def test_the_observation_table_names_every_block_where_it_starts() -> None:
    shown = [(row[0].strip("`"), int(row[1])) for row in rows("observation")]
    assert shown == [(block.name, SLICES[block.name].start) for block in BLOCKS]
    last = BLOCKS[-1]
    assert shown[-1][1] + last.size == SIZE
    assert f"({SIZE} values" in PAGE and f"(N, {SIZE})" in PAGE


def test_the_state_table_covers_the_state() -> None:
    starts = [int(row[1]) for row in rows("state")]
    assert starts[-1] + STATE_BLOCKS[-1].size == STATE_SIZE


def test_the_presets_table_names_every_preset_with_its_points() -> None:
    shown = {row[0].strip("`"): row for row in rows("presets")}
    assert list(shown) == list(PRESETS)
    assert "10: 120;" in shown["sweep-ten"][6]
    assert "7: 17;" in shown["kachuful"][6]
    assert "2: 32" in shown["up-and-down"][6] and shown["up-and-down"][6].endswith("-32")


@pytest.mark.parametrize("make", [judgement_v0.raw_env.__init__, BatchEnv.__init__])
def test_every_argument_has_its_row(make: object) -> None:
    import inspect

    for name, parameter in inspect.signature(make).parameters.items():  # type: ignore[arg-type]
        if name != "self":
            default = parameter.default
            shown = f'"{default}"' if isinstance(default, str) else repr(default)
            assert f"| `{name}` | `{shown}` |" in PAGE, name


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(index: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", EXAMPLES[index]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_page_has_its_examples() -> None:
    assert len(EXAMPLES) >= 6
