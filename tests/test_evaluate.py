from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judgement_env import Rules, make_bot
from judgement_env.arena_result import FORMATS, Result
from judgement_env.bots import SIMPLE
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.rule_options import rule_changes
from judgement_env.rules import FIELDS, make_rules
from training.evaluate import evaluate, load_candidate, main, make_parser

ROOT = Path(__file__).resolve().parent.parent

FAST = ["--num_players=3", "--cards=3,2", "--matches=30"]


def run_dir(folder: Path, **content: Any) -> Path:
    """A run's folder with the checkpoint of a new network."""
    pytest.importorskip("torch")
    from training.checkpoint import save_checkpoint
    from training.model import make_actor

    actor = make_actor([16])
    whole = {"average": actor.state_dict(), "config": {"rules": "kachuful"}, **content}
    save_checkpoint(folder / "checkpoint.pt", whole)
    return folder


def fails(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """The one line of stderr of a command line that is refused."""
    try:
        code: Any = main(arguments)
    except SystemExit as stop:
        code = stop.code
    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert output.err.count("\n") == 1
    return output.err


def test_a_bot_is_measured_in_all_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heuristic", "random", *FAST, "--num_players=4"]) == 0
    text = capsys.readouterr().out
    for title in ("One seat against a field", "A field against one seat", "Mixed tables"):
        assert text.count(title) == 1
    assert "4 players, cards 3 2, scoring ten-plus; seed 1, 8 deals from 4 seats each" in text


def test_an_opponent_named_again_counts_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["random", *["heuristic"] * 3, *FAST, "--json=-"]) == 0
    result = Result.from_dict(json.loads(capsys.readouterr().out))
    assert result.bots == ("random", "heuristic")
    assert [row.format for row in result.rows] == ["one-versus-field", "field-versus-one"]
    assert result.rules == Rules.preset("kachuful", num_players=3, cards=[3, 2])
    assert result.matches == 30


def test_the_formats_wanted_alone_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    game = ["heuristic", "heuristic+", "--cards=2", "--matches=8"]
    assert main([*game, "--json=-"]) == 0
    every = Result.from_dict(json.loads(capsys.readouterr().out))
    for names in ("mixed", "one-versus-field, mixed"):
        assert main([*game, f"--formats={names}", "--json=-"]) == 0
        some = Result.from_dict(json.loads(capsys.readouterr().out))
        wanted = names.split(", ")
        assert [(row.format, row.bot, row.points) for row in some.rows] == [
            (row.format, row.bot, row.points) for row in every.rows if row.format in wanted
        ]


def test_the_heuristic_is_the_usual_opponent_and_options_stand_anywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--matches", "6", "heuristic", "--hook=false", "heuristic", "--json", "-"]) == 0
    twice = json.loads(capsys.readouterr().out)
    assert twice["bots"] == ["heuristic", "heuristic-2"]
    assert twice["rules"]["hook"] is False
    assert main(["heuristic", "--matches=6", "--hook=false", "--json=-"]) == 0
    assert json.loads(capsys.readouterr().out) == twice


def test_json_goes_to_a_file_beside_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    assert main(["heuristic", "random", *FAST, f"--json={file}"]) == 0
    assert "One seat against a field" in capsys.readouterr().out
    result = Result.from_dict(json.loads(file.read_text(encoding="utf-8")))
    assert result.versus("heuristic", "random").rounds == 60


def test_figures_that_cannot_be_written_are_printed_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    file.write_text("old")

    def fail(part: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(os, "replace", fail)
    assert main(["heuristic", "random", *FAST, f"--json={file}"]) == 2
    shown = capsys.readouterr()
    assert "One seat against a field" in shown.out
    assert "No space left on device" in shown.err and shown.err.count("\n") == 1
    assert str(file) in shown.err
    # What stood there before is whole.
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def model_dir(folder: Path) -> Path:
    """A model's folder without the file of its card's figures: a new network."""
    from training.export import export

    run_dir(folder / "run", config={"rules": "kachuful"}, decisions=0, seconds=0.0, workers=1)
    return export(folder / "run", folder / "model", matches=0)


def test_what_is_kept_stands_in_the_card_with_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = model_dir(tmp_path)
    words = [str(folder), "heuristic", *FAST, "--keep", "--json", "-"]
    before = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert main([*words, "--seed=3"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert main([*words, "--seed=4"]) == 0
    assert main([*words, "--seed=3"]) == 0
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    kept = card.pop("measured")
    assert card == {name: value for name, value in before.items() if name != "measured"}
    # Asked for again, in other words even, a row is there once.
    monkeypatch.chdir(tmp_path)
    words = [
        str(folder),
        "--keep",
        "heuristic",
        "--seed",
        "3",
        *FAST,
        "--formats",
        ",".join(FORMATS),
    ]
    assert main(words) == 0
    again = json.loads((folder / "card.json").read_text(encoding="utf-8"))["measured"]
    assert [row["points"] for row in again] == [row["points"] for row in kept]
    assert [row["seed"] for row in kept] == [3, 3, 4, 4]
    assert [(row["format"], row["points"]) for row in kept[:2]] == [
        (row["format"], row["points"]) for row in result["rows"]
    ]
    assert all(row["rules"] == result["rules"] for row in kept)
    # What lies below the current folder is named from there, all else as it was.
    for row, name in ((kept[0], str(folder)), (again[0], "model")):
        command = shlex.split(row["command"])
        assert command[:4] == ["python", "-m", "training.evaluate", name]
        assert "--keep" not in command and "--json" not in command
    assert shlex.split(kept[0]["command"])[4:] == ["heuristic", *FAST, "--seed=3"]
    assert make_bot(str(folder)).name == "model"


def test_figures_are_kept_though_nobody_reads_them_or_a_file_is_full(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = model_dir(tmp_path)
    words = [str(folder), "heuristic", *FAST, "--keep"]
    assert main([*words, "--json=/dev/full"]) == 2
    shown = capsys.readouterr()
    assert "--json: [Errno 28] No space left" in shown.err and shown.err.count("\n") == 1
    assert "One seat against a field" in shown.out
    assert len(json.loads((folder / "card.json").read_text())["measured"]) == 2
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "training.evaluate", *words, "--seed=9"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stderr) == (141, "")
    assert len(json.loads((folder / "card.json").read_text())["measured"]) == 4

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("training.card.write_json", full)
    assert main([*words, "--seed=10"]) == 2
    shown = capsys.readouterr()
    assert "--keep: [Errno 28] No space left" in shown.err
    assert "One seat against a field" in shown.out


def test_figures_are_kept_in_a_card_only(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = fails(capsys, ["heuristic", *FAST, "--keep"])
    assert (
        "--keep: 'heuristic' has no card.json (allowed: a model's folder, without +search" in said
    )
    path = model_dir(tmp_path) / "card.json"
    card = json.loads(path.read_text())
    for rows in (None, [1], [None], "x", {}, [{"rules": {}}]):
        path.write_text(json.dumps({**card, "measured": rows}))
        before = path.read_text()
        assert "card.json: measured holds no rows" in fails(
            capsys, [str(path.parent), *FAST, "--keep"]
        )
        assert path.read_text() == before


def test_a_run_and_its_checkpoint_are_the_same_bot(tmp_path: Path) -> None:
    folder = run_dir(tmp_path / "run")
    rules = Rules(num_players=3, cards=[3, 2])
    by_run = evaluate(str(folder), ["random"], rules, matches=30)
    by_file = evaluate(str(folder / "checkpoint.pt"), ["random"], rules, matches=30)
    assert by_run.bots == (str(folder), "random")
    assert by_run.rows[0].points == by_file.rows[0].points
    bot, _ = load_candidate(str(folder))
    assert isinstance(bot.network, PolicyNetwork)  # type: ignore[attr-defined]


@pytest.mark.parametrize("several", [False, True])
def test_a_run_is_measured_by_the_rules_it_was_trained_on(tmp_path: Path, several: bool) -> None:
    trained = Rules(num_players=3, cards=[2, 1]).to_dict()
    rules: Any = [trained, "kachuful"] if several else trained
    folder = run_dir(tmp_path, config={"rules": rules})
    assert evaluate(str(folder), matches=3).rules == Rules.from_dict(trained)
    changed = evaluate(str(folder), changes={"hook": False}, matches=3)
    assert changed.rules == Rules.from_dict({**trained, "hook": False})
    assert evaluate(str(folder), rules="kachuful", matches=4).rules == Rules()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: CANDIDATE"),
        (["nobody"], "bot: 'nobody' (allowed: "),
        (["heuristic", "nobody"], "bot: 'nobody' (allowed: "),
        (["heuristic", "--rules=kachufool"], "rules: 'kachufool' (allowed: "),
        (["heuristic", "--rules=missing.yaml"], "missing.yaml"),
        (["heuristic", "--cards=99"], "cards: 99 (allowed: "),
        (["heuristic", "--num_players=11"], "num_players: 11 (allowed: "),
        (["heuristic", "--matches=0"], "matches: 0 (allowed: "),
        (["heuristic", "--matches=many"], "--matches: invalid int value: 'many'"),
        (["heuristic", "--seed=-1"], "--seed: -1 (allowed: a whole number from 0 to "),
        (["random", "--seed=-1"], "--seed: -1 (allowed: a whole number from 0 to "),
        (["heuristic", "--colour=red"], "--colour=red"),
        (["heuristic", "--formats=one,mixed"], "formats: 'one' (allowed: one-versus-field, "),
        (["heuristic", "--formats="], "formats: '' (allowed: one-versus-field, "),
        (
            ["heuristic", "--formats=mixed", "--num_players=3"],
            "formats: 'mixed' (allowed with 2 bo",
        ),
        (["heuristic", "--json=no/such/folder/x.json"], "--json: 'no/such/folder/x.json'"),
        (["process:/does/not/exist", *FAST], "cannot be started"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in fails(capsys, arguments)


def test_a_folder_without_a_bot_says_what_would_be_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    error = fails(capsys, [str(tmp_path)])
    assert "allowed: a run with its checkpoint.pt, a model folder with its card.json" in error


def test_a_damaged_checkpoint_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = run_dir(tmp_path) / "checkpoint.pt"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "not a whole checkpoint" in fails(capsys, [str(tmp_path)])
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    error = fails(capsys, [str(tmp_path)])
    assert f"{path}: not a whole checkpoint" in error and "damaged at " in error
    run_dir(tmp_path, average={})
    assert f"{path}: holds no policy that fits this version" in fails(capsys, [str(tmp_path)])


def test_help_names_every_option() -> None:
    command = [sys.executable, "-m", "training.evaluate", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    shown = set(re.findall(r"--[a-z_]+", done.stdout))
    named = {
        "--matches",
        "--seed",
        "--formats",
        "--json",
        "--rules",
        *(f"--{name}" for name in FIELDS),
    }
    assert named - shown == set()
    bots = " ".join(done.stdout.partition("\nbots: ")[2].split())
    assert [bot for bot in SIMPLE if f"{bot}, " not in bots] == []
    assert "+search" in bots and "process:COMMAND" in bots


def test_commands_in_the_page_on_evaluation_are_understood() -> None:
    page = Path(__file__).parent.parent / "docs" / "evaluation.md"
    commands = re.findall(r"^    python -m training\.evaluate (.+)$", page.read_text("utf-8"), re.M)
    assert len(commands) >= 3
    for command in commands:
        given = make_parser().parse_intermixed_args(shlex.split(command))
        assert given.candidate
        assert make_rules(given.rules or "kachuful").replace(**rule_changes(given))
