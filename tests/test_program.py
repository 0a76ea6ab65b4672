"""The program around a training run: what it goes on with, what it refuses, how it stops."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from judgement_env import Rules
from tests.runs import copied, finished_run
from tests.test_train import TINY, error_of, started
from training import program
from training import train as train_module
from training.checkpoint import load_checkpoint, save_checkpoint
from training.train import main, train

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that reached its limit."""
    return finished_run(train, TINY, "python -m training.train own.yaml", tmp_path_factory)


# --- going on ---------------------------------------------------------------------------------


def test_what_differs_from_a_run_that_is_resumed_is_told_in_a_short_line(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(finished)
    rules = Rules(num_players=5).to_dict()
    for field, given in (("rules", yaml.safe_dump(rules, default_flow_style=True)), ("tables", 9)):
        options = ["runs/tiny/config.yaml", "--resume", f"--{field}={given}"]
        error = error_of(options, capsys)
        assert f"{field}: " in error
        assert error.endswith("-m training.train runs/tiny/config.yaml --resume")
        assert len(error) < 400


def test_the_same_rules_in_other_words_go_on(finished: Path) -> None:
    copied(finished)
    same = [Rules.preset("kachuful", num_players=3, cards=[2, 1, 3]).to_dict()]
    assert TINY.rules != same
    train(dataclasses.replace(TINY, rules=same), resume=True)


def test_a_run_made_before_a_field_was_there_goes_on(finished: Path) -> None:
    path = copied(finished) / "checkpoint.pt"
    saved = load_checkpoint(path)
    del saved["config"]["start"]
    save_checkpoint(path, {k: v for k, v in saved.items() if k != "format"})
    train(TINY, resume=True)


# --- Ctrl-C -----------------------------------------------------------------------------------


def is_mapped(process: subprocess.Popen[str], library: str) -> bool:
    try:
        return library in Path(f"/proc/{process.pid}/maps").read_text("utf-8")
    except OSError:
        return False


@pytest.mark.parametrize("module", ["training.train", "training.exploit"])
def test_ctrl_c_while_the_libraries_load_is_quiet(module: str) -> None:
    process = started([sys.executable, "-m", module])
    while process.poll() is None and not is_mapped(process, "libtorch"):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert "Traceback" not in error
    # What a shell calls 130.
    assert process.returncode == -signal.SIGINT


def test_ctrl_c_at_once_says_whether_anything_was_saved(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_module, "rehearse", interrupt)
    assert main(["--name=new", "--tables=2", "--workers=1"]) == 130
    assert capsys.readouterr().err == "training.train: stopped at once; nothing was saved yet\n"
    folder = copied(finished)
    assert main([str(folder / "config.yaml"), "--resume"]) == 130
    assert "stopped at once; the last checkpoint stands" in capsys.readouterr().err


# --- refusing ---------------------------------------------------------------------------------


def test_what_there_is_no_memory_for_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(*arguments: Any) -> None:
        raise MemoryError("Unable to allocate 435 GiB")

    monkeypatch.setattr(train_module, "rehearse", fill)
    error = error_of(["--tables=2", "--workers=1"], capsys)
    assert "Unable to allocate 435 GiB; fewer tables or steps need less" in error


def test_a_container_has_less_room_than_its_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = program.room()
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(program, "LIMITS", (str(tmp_path / "none"), str(limit)))
    cases = (("max\n", machine), (f"{machine * 9}\n", machine), ("2000000\n", 2_000_000))
    for content, room in cases:
        limit.write_text(content, encoding="ascii")
        assert program.room() == room
    error = error_of(["--tables=9", "--workers=1"], capsys)
    assert "tables: 9, steps: 128, workers: 1 (allowed: what fits the 0 GB of memory" in error


def test_the_largest_seed_trains() -> None:
    folder = train(dataclasses.replace(TINY, seed=2**53, workers=2, decisions=256))
    assert load_checkpoint(folder / "checkpoint.pt")["decisions"] == 256
