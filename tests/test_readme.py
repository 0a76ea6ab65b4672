"""README says what is true: its examples run, its figures are those of the model card."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
COMMANDS = [
    line
    for block in re.findall(r"^```console\n(.*?)^```", README, re.M | re.S)
    for line in block.splitlines()
]


def test_readme_opens_with_an_example_of_ten_lines() -> None:
    assert len(EXAMPLES[0].strip().splitlines()) <= 10


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_readme_runs_and_prints(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES[number]], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_judgement_command_of_readme_is_one_the_program_has() -> None:
    named = [shlex.split(line)[1] for line in COMMANDS if line.startswith(".venv/bin/judgement ")]
    assert len(named) >= 4
    for name in set(named):
        done = subprocess.run(
            [sys.executable, "-m", "judgement_env.cli", name, "--help"],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert done.returncode == 0, name


def test_the_files_readme_links_to_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_the_strength_readme_states_is_that_of_the_model_card() -> None:
    card = json.loads((ROOT / "models" / "kachuful" / "card.json").read_text(encoding="utf-8"))
    command = re.search(
        r"^    (python -m training\.evaluate models/kachuful heuristic .*)$", README, re.M
    )
    assert command is not None
    rows = [row for row in card["measured"] if row.get("command") == command[1]]
    measured = rows[0]["difference"]
    stated = re.search(r"\*\*\+([0-9.]+)\*\* \(95 % interval \+([0-9.]+) to \+([0-9.]+)\)", README)
    assert stated is not None
    expected = [measured[name] for name in ("value", "low", "high")]
    assert [float(text) for text in stated.groups()] == pytest.approx(expected, abs=0.005)
