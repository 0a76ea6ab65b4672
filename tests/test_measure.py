"""training.measure: rows for a card, kept one by one, never twice, and made again by a command."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from judgement_env import PRESETS
from training import measure as module
from training.card import covered
from training.evaluate import main as evaluate
from training.measure import SEED, Store, Task, games, main, measure_row

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FAST = ["--presets=oh-hell", "--players=3,4", "--opponents=heuristic,random", "--matches=24"]


def task(**changes: Any) -> Task:
    fields: dict[str, Any] = {
        "bot": "heuristic",
        "opponent": "random",
        "preset": "kachuful",
        "num_players": 3,
        "matches": 60,
        "seconds": 600.0,
        "seed": 5,
    }
    return Task(**(fields | changes))


def card_at(folder: Path, measured: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    rules = [PRESETS["kachuful"].to_dict()]
    path = folder / "card.json"
    path.write_text(json.dumps({"name": "x", "rules": rules, "measured": measured}))
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["measured"]
    return rows


# --- what is measured -------------------------------------------------------------------------


def test_a_card_covers_the_presets_it_names_whatever_the_number_of_players() -> None:
    five = PRESETS["kachuful"].replace(num_players=5).to_dict()
    assert covered([five, PRESETS["oh-hell"].to_dict()]) == ["kachuful", "oh-hell"]
    assert covered([PRESETS["sweep-ten-anticlockwise"].to_dict()]) == ["sweep-ten-anticlockwise"]
    assert covered([PRESETS["kachuful"].replace(hook=False).to_dict()]) == list(PRESETS)
    assert covered([]) == list(PRESETS)


def test_games_are_those_a_preset_is_made_for_the_usual_table_first() -> None:
    found = list(games(["kachuful", "sweep-ten", "up-and-down"], module.PLAYERS))
    assert found[:3] == [("kachuful", 4), ("sweep-ten", 4), ("up-and-down", 4)]
    assert ("kachuful", 8) in found and ("kachuful", 10) not in found
    assert ("up-and-down", 10) in found and ("up-and-down", 3) not in found
    assert [number for preset, number in found if preset == "sweep-ten"] == [4]


# --- a row ------------------------------------------------------------------------------------


def test_the_command_of_a_row_gives_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    row = measure_row(task(bot="heuristic+", opponent="search:worlds=2", matches=30))
    words = row["command"].removeprefix("python -m training.evaluate ").split()
    assert evaluate([*words, "--json=-"]) == 0
    again = json.loads(capsys.readouterr().out)["rows"]
    (same,) = (one for one in again if one["format"] == "one-versus-field")
    for name in ("points", "difference", "difference_sd", "hit_rate", "win_share", "rounds"):
        assert row[name] == same[name], name
    assert (row["matches"], row["deals"]) == (30, 10)
    assert row["milliseconds"] > 0


def test_one_deal_gives_a_row_with_an_open_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    words = [f"--json={file}", "--presets=oh-hell", "--players=4", "--matches=4"]
    assert main(["heuristic", *words, "--opponents=random"]) == 0
    assert "(? to ?) points a round, 4 matches" in capsys.readouterr().out
    (row,) = json.loads(file.read_text("utf-8"))["heuristic"]["measured"]
    assert (row["deals"], row["difference"]["low"]) == (1, None)


def test_what_is_no_regular_file_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main(["heuristic", f"--json={tmp_path / 'pipe'}"]) == 2
    assert "pipe' cannot be read as rows: no regular file" in capsys.readouterr().err


def test_only_the_usual_table_shows_figures_by_cards() -> None:
    assert "by_cards" not in measure_row(task(matches=6))
    four = measure_row(task(num_players=4, matches=8))
    assert [size["cards"] for size in four["by_cards"]] == [7, 6, 5, 4, 3, 2, 1]


def test_a_row_ends_with_its_matches_or_its_time() -> None:
    assert measure_row(task(matches=200))["deals"] == 67
    # Each look at the clock is a second later: 16 deals in the first, no more than doubled after.
    seconds = iter(range(100))
    row = measure_row(task(matches=10**6, seconds=4.0), clock=lambda: next(seconds))
    assert row["deals"] == 16 + 16 + 32 + 21
    assert measure_row(task(matches=10**6, seconds=1e-9))["deals"] == 16
    assert measure_row(task(matches=60, seconds=math.inf))["deals"] == 20


# --- kept rows --------------------------------------------------------------------------------


def test_rows_are_kept_in_order_and_measured_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    words = ["heuristic", f"--json={file}", *FAST]
    assert main([*words, "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4 and not file.exists()
    assert main(words) == 0
    assert "4 of 4 rows measured now" in capsys.readouterr().out
    rows = json.loads(file.read_text())["heuristic"]["measured"]
    assert [(row["num_players"], row["opponents"]) for row in rows] == [
        (4, ["heuristic"]),
        (4, ["random"]),
        (3, ["heuristic"]),
        (3, ["random"]),
    ]
    assert all(row["preset"] == "oh-hell" and row["seed"] == SEED for row in rows)
    before = file.read_bytes()
    assert main(words) == 0
    assert "0 of 4 rows" in capsys.readouterr().out and file.read_bytes() == before
    assert main([*words, "--list"]) == 0
    assert capsys.readouterr().out == f"nothing is missing: {file} has all 4 rows\n"
    assert main(["random", f"--json={file}", *FAST[:2], "--opponents=random", FAST[-1]]) == 0
    both = json.loads(file.read_text())
    assert list(both) == ["heuristic", "random"]
    assert both["heuristic"] == json.loads(before)["heuristic"]


def test_the_row_a_card_has_from_its_export_stays_the_first(tmp_path: Path) -> None:
    first = {"format": "one-versus-field", "bot": "x", "opponents": ["heuristic"], "matches": 7}
    # What `training.evaluate --keep` left behind may be of any rules: it is no row of these.
    other = {**first, "opponents": ["random"], "command": "python -m training.evaluate …"}
    path = card_at(tmp_path / "model", [first, other])
    store = Store(str(path.parent), None)
    assert store.has(("kachuful", 4, "heuristic"))
    assert not store.has(("kachuful", 4, "random"))
    assert not store.has(("kachuful", 5, "heuristic"))
    store.keep(("kachuful", 5, "heuristic"), {"preset": "kachuful", "opponents": ["heuristic"]})
    assert rows_of(path)[:2] == [first, other] and len(rows_of(path)) == 3
    card = json.loads(path.read_text())
    assert card["name"] == "x" and list(card) == ["name", "rules", "measured"]
    store.keep(("kachuful", 4, "heuristic"), {"preset": "kachuful", "num_players": 4} | first)
    assert rows_of(path)[0]["preset"] == "kachuful" and len(rows_of(path)) == 3


def test_what_others_write_meanwhile_stays(tmp_path: Path) -> None:
    path = card_at(tmp_path / "model", [])
    store = Store(str(path.parent), None)
    card = json.loads(path.read_text())
    other = {"command": "python -m training.evaluate …", "opponents": ["random"]}
    path.write_text(json.dumps({**card, "measured": [other]}))
    mine = {"preset": "kachuful", "num_players": 5, "opponents": ["heuristic"]}
    store.keep(("kachuful", 5, "heuristic"), mine)
    assert rows_of(path) == [other, mine] and store.has(("kachuful", 5, "heuristic"))
    # Figures of one model never stand in the card of another.
    path.write_text(json.dumps({**card, "weights_sha256": "other"}))
    with pytest.raises(ValueError, match="card.json: of another model now"):
        store.keep(("kachuful", 5, "heuristic"), mine)
    assert rows_of(path) == []


@pytest.mark.slow
def test_a_signal_to_the_program_alone_ends_it_and_those_it_started(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "training.measure", "heuristic", "--processes=2"]
    file = tmp_path / "rows.json"
    words = [f"--json={file}", "--presets=kachuful,oh-hell", "--players=4", "--matches=900000"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [*command, *words, "--opponents=search:worlds=40"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and len(children.read_text().split()) < 3:
        time.sleep(0.1)
    begun = children.read_text().split()
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in error and "Traceback" not in error
    late = time.monotonic() + 30
    while any(Path(f"/proc/{child}").exists() for child in begun):
        assert time.monotonic() < late
        time.sleep(0.1)


def test_what_is_measured_when_it_breaks_off_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    asked = []

    def second_breaks(task: Task) -> dict[str, Any]:
        asked.append(task.key)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return measure_row(task)

    monkeypatch.setattr(module, "measure_row", second_breaks)
    assert main(["heuristic", f"--json={file}", *FAST]) == 130
    assert "kept" in capsys.readouterr().err
    assert len(json.loads(file.read_text())["heuristic"]["measured"]) == 1
    assert main(["heuristic", f"--json={file}", *FAST]) == 0
    assert len(asked) == 2 + 3
    assert asked[2:] == [asked[1], *asked[3:]]


def test_a_row_that_a_full_disk_does_not_take_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "keep", full)
    assert main(["heuristic", f"--json={tmp_path / 'rows.json'}", *FAST]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("oh-hell, 4 players, against heuristic: ")
    assert "No space left on device" in shown.err and shown.err.count("\n") == 1


def test_rows_measured_side_by_side_are_the_same(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.json", "two.json")]
    for number, file in enumerate(files, 1):
        words = [f"--json={file}", f"--processes={number}", *FAST]
        assert main(["heuristic", *words]) == 0
    one, two = (json.loads(file.read_text())["heuristic"]["measured"] for file in files)
    for rows in (one, two):
        rows.sort(key=lambda row: (row["num_players"], row["opponents"]))
        for row in rows:
            del row["milliseconds"]
    assert one == two


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["heuristic"], "'heuristic' has no card.json"),
        (["nobody", "--json=x.json"], "bot: 'nobody'"),
        (["heuristic", "--json=x.json", "--opponents=nobody"], "bot: 'nobody'"),
        (["heuristic", "--json=x.json", "--presets=kachufool"], "--presets: 'kachufool'"),
        (["heuristic", "--json=x.json", "--players=four"], "--players: 'four'"),
        (["heuristic", "--json=x.json", "--players=11"], "--players: 11"),
        (["heuristic", "--json=x.json", "--presets=sweep-ten", "--players=5"], "--players: 5"),
        (["heuristic", "--json=x.json", "--matches=0"], "--matches: 0"),
        (["heuristic", "--json=x.json", "--seconds=0"], "--seconds: 0"),
        (["heuristic", "--json=x.json", "--processes=0"], "--processes: 0"),
        (["heuristic", "--json=x.json", "--opponents="], "--opponents: ''"),
        (["heuristic", "--json=no/x.json"], "--json: 'no/x.json' cannot be written: no such"),
        (["heuristic", "--json=tests"], "--json: 'tests' cannot be read: is a directory"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(words) == 2
    shown = capsys.readouterr()
    # Nothing was measured before it was found.
    assert shown.out == "" and message in shown.err and shown.err.count("\n") == 1


RULES = json.dumps([PRESETS["kachuful"].to_dict()])
BROKEN = {
    "no JSON": ("{", ": Expecting property name"),
    "no text": ("\udcff", ": 'utf-8' codec can't decode"),
    "a list": ("[1]", " (allowed: "),
    "rows of no bot": ('{"rows": 3}', " (allowed: "),
    "a bot without rows": ('{"random": {}}', " (allowed: "),
    "rows by name": ('{"random": {"measured": {}}}', " (allowed: "),
    "a row that is a number": ('{"random": {"measured": [1]}}', " (allowed: "),
    "a row without opponents": ('{"random": {"measured": [{"preset": "oh-hell"}]}}', " (allowed: "),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_holds_no_rows_is_named_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "rows.json"
    file.write_bytes(before := text.encode(errors="surrogateescape"))
    assert main(["heuristic", f"--json={file}", *FAST]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert shown.err.startswith(f"training.measure: --json: '{file}' cannot be read as rows{said}")
    assert "(allowed: a file that this command wrote, or a new one)" in shown.err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "x", "ru', ": Unterminated string"),
        ("3", " (allowed: "),
        ('{"rules": [3]}', ": rules: 3 (allowed: "),
        ('{"measured": null}', " (allowed: "),
        (f'{{"rules": {RULES}, "measured": [{{"opponents": []}}]}}', " (allowed: "),
    ],
)
def test_a_card_that_is_broken_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    card = tmp_path / "card.json"
    card.write_text(text)
    assert main([str(tmp_path), "--list"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert shown.err.startswith(f"training.measure: bot: '{card}' cannot be read as rows{said}")
    assert "(allowed: the card of a model)" in shown.err


def test_what_is_named_twice_is_measured_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--presets=oh-hell,oh-hell", "--players=4,3,4", "--opponents=random,random"]
    assert main(["heuristic", f"--json={tmp_path / 'x.json'}", *words, "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "oh-hell, 4 players, against random",
        "oh-hell, 3 players, against random",
    ]


# --- pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["strength", "bids"])
def test_a_page_shows_what_was_measured(name: str) -> None:
    path = DOCS / f"generate_{name}.py"
    spec = importlib.util.spec_from_file_location(f"generate_{name}", path)
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert generator.page_with_tables(page) == page, f"run: python docs/generate_{name}.py"
