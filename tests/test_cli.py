"""The `judgement` command: options, help, and one line for every mistake."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from judgement_env import PRESETS, Rules, Table, __version__
from judgement_env import record as records
from judgement_env.bots import SIMPLE
from judgement_env.cli import COMMANDS, fill_seats, main, split_bots
from judgement_env.rule_options import RULE_HELP, rule_value
from judgement_env.rules import FIELDS

ROOT = Path(__file__).resolve().parent.parent
THREE = "heuristic,heuristic,heuristic"


def run(*words: str, typed: str = "", folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "judgement_env.cli", *words],
        input=typed,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        timeout=300,
    )


def status_of(*words: str) -> int:
    """The exit status, argparse's own exits included."""
    try:
        return main(words)
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.fixture
def no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))


# --- help -------------------------------------------------------------------------------------


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("--help") == 0 and status_of() == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n    {name} " in text


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_on_every_option(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(name, "--help") == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    if name in ("play", "arena", "rules"):
        for field in FIELDS:
            assert f"--{field} " in text and f"--{field.replace('_', '-')} " in text
    assert tuple(RULE_HELP) == FIELDS


@pytest.mark.parametrize("name", ["play", "arena", "bids", "blunders", "check"])
def test_a_command_that_takes_bots_lists_them_all(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(name, "--help") == 0
    listed = capsys.readouterr().out.partition("\nbots: ")[2].replace("\n", " ")
    for bot in SIMPLE:
        assert f"{bot}, " in listed
    assert "models/NAME" in listed and "+search" in listed and "process:COMMAND" in listed


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("--version") == 0
    assert capsys.readouterr().out == f"judgement-env {__version__}\n"


def test_help_imports_neither_numpy_nor_numba_nor_yaml() -> None:
    program = (
        "import sys\nfrom judgement_env.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'yaml', 'judgement_env.rules'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True)


# --- mistakes ---------------------------------------------------------------------------------

MISTAKES = {
    "no such command": (["paly"], "invalid choice: 'paly'"),
    "no such option": (["play", "--hok=false"], "option '--hok=false'; did you mean '--hook'"),
    "no such argument": (["play", "house.yaml"], "unknown argument 'house.yaml'"),
    "no such preset": (["play", "--rules", "kachufool"], "did you mean 'kachuful'"),
    "no such file": (["rules", "none.yaml"], "rules file: 'none.yaml' does not exist"),
    "an unplayable rule": (["rules", "--top", "14"], "top: 14 (allowed: a whole number"),
    "a rule that is no value": (["rules", "--cards", "[1"], "cards: '[1' (allowed: a value"),
    "hook and bids at once": (["play", "--hook=true", "--bidding=simultaneous"], "hook: True"),
    "a blind round of 7": (["play", "--blind_rounds", "1"], "blind_rounds: 1"),
    "too many players": (["arena", "random", "heuristic", "--num_players=11"], "num_players: 11"),
    "no such bot": (["play", "--bots", f"{THREE[:-9]}heuristik"], "did you mean 'heuristic'"),
    "an empty bot": (["play", "--bots", "heuristic,,random"], "--bots: 'heuristic,,random'"),
    "too few bots": (["play", "--rules=up-and-down", "--bots=random,random"], "make 3 seats"),
    "too many bots": (["play", "--rules=sweep-ten", "--bots", f"{THREE},random"], "5 seats"),
    "more bots than players": (["play", "--num_players", "3", "--bots", THREE], "--bots: 3 bots"),
    "no model there": (["play", "--bots", "models/none,random,random"], "'models/none'"),
    "no program there": (["play", "--bots", "process:/no/such/program,random,random"], "/no/such"),
    "a seat too far": (["play", "--seat", "4", "--bots", THREE], "seat: 4 (allowed: 0 to 3)"),
    "a word for a seat": (["play", "--seat", "north"], "invalid int value: 'north'"),
    "a negative seed": (["play", "--seed", "-1", "--bots", THREE], "seed: -1"),
    "an endless delay": (["play", "--delay", "inf"], "--delay: inf (allowed: 0 to 60 seconds)"),
    "a folder to save in": (["play", "--save", ".", "--bots", THREE], "--save: '.' cannot"),
    "one bot in the arena": (["arena", "heuristic"], "two bots or more"),
    "no bots in the arena": (["arena"], "two bots or more"),
    "no matches": (["arena", "heuristic", "random", "--matches", "0"], "matches: 0"),
    "one bot on a ladder": (["arena", "--ladder", "heuristic"], "two bots or more"),
    "half a ladder": (["arena", "heuristic", "random", "--save=x"], "--save: goes with --ladder"),
    "a ladder saved nowhere": (
        ["arena", "--ladder", "heuristic", "random", "--matches=4", "--save=no/x.json"],
        "--save: 'no/x.json' cannot be written: no such file or directory",
    ),
    "a ladder saved as a folder": (
        ["arena", "--ladder", "heuristic", "random", "--matches=4", "--save=."],
        "--save: '.' cannot be written: it is a folder",
    ),
    "records of a ladder": (["arena", "--ladder", "--records", "x"], "--records: does not go"),
    "formats of a ladder": (["arena", "--ladder", "--formats=mixed"], "--formats: does not go"),
    "no such format": (
        ["arena", "heuristic", "random", "--formats=two"],
        "formats: 'two' (allowed: one-versus-field, field-versus-one, mixed)",
    ),
    "two forms at once": (["arena", "--json", "--markdown"], "not allowed with argument --json"),
    "a negative seed of a bot": (["bot", "random", "--seed=-1"], "seed: -1 (allowed: a whole"),
    "no bot to serve": (["bot", "heuristik"], "did you mean 'heuristic'"),
    "no record": (["replay", "none.json"], "record file: 'none.json' does not exist"),
    "a folder as a record": (["replay", "."], "record file: '.' cannot be read"),
}  # fmt: skip


@pytest.mark.usefixtures("no_input")
@pytest.mark.parametrize(("words", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line_on_stderr_and_status_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(*words) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert shown.err.startswith("judgement") and said in shown.err


@pytest.mark.usefixtures("no_input")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("preset: kachuful\nhook: [\n", "line 3: broken YAML"),
        ("preset: kachuful\nhok: true\n", "unknown field 'hok'"),
        ("cards: [60]\n", "cards: 60"),
    ],
)
@pytest.mark.parametrize(
    "command", [["play", "--rules"], ["rules"], ["arena", "x", "y", "--rules"]]
)
def test_a_broken_rules_file_is_named(
    command: list[str], text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "house.yaml"
    path.write_text(text, encoding="utf-8")
    assert status_of(*command, str(path)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(path) in error and said in error


@pytest.mark.usefixtures("no_input")
def test_a_model_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "card.json").write_text('{"format": "other"}', encoding="utf-8")
    for bots in (f"{tmp_path},random,random", f"random,random,{tmp_path / 'card.json'}"):
        assert status_of("play", "--bots", bots) == 2
        shown = capsys.readouterr()
        assert shown.err.count("\n") == 1 and str(tmp_path) in shown.err and shown.out == ""


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "judgement-record/1"}'])
def test_what_is_no_record_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "match.json"
    path.write_text(text, encoding="utf-8")
    assert status_of("replay", str(path)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(path) in error


def test_a_record_that_breaks_a_rule_is_refused_by_round_and_trick(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table(Rules(cards=[2]), seed=1)
    while not table.is_over:
        table.push(table.legal()[0])
    record = table.record()
    plays = record["rounds"][0]["tricks"][1]["plays"]
    plays[0], plays[1] = plays[1], plays[0]
    records.write(record, tmp_path / "match.json")
    assert status_of("replay", str(tmp_path / "match.json"), "--verify") == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert "round 1, trick 2" in shown.err


def test_a_fault_of_the_package_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(arguments: object) -> int:
        raise KeyError("fault")

    monkeypatch.setitem(COMMANDS, "rules", COMMANDS["rules"]._replace(run=broken))  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="fault"):
        main(["rules"])


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    command = f"{sys.executable} -m judgement_env.cli rules --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == "" and done.returncode in (0, 141)


@pytest.mark.parametrize("words", ["rules", "arena heuristic random --matches=4 --json"])
def test_output_that_a_full_disk_does_not_take_is_one_line_and_code_2(words: str) -> None:
    command = [sys.executable, "-m", "judgement_env.cli", *words.split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    program = f"judgement {words.split()[0]}"
    assert done.stderr == f"{program}: the output cannot be written: no space left on device\n"
    assert done.returncode == 2


# --- rules ------------------------------------------------------------------------------------


def test_rules_lists_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    text = capsys.readouterr().out
    for name in PRESETS:
        assert re.search(rf"^{name} +\d", text, re.MULTILINE)


@pytest.mark.parametrize("name", PRESETS)
def test_rules_shows_a_preset_in_words_and_as_data(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules", name]) == 0
    assert " ".join(capsys.readouterr().out.split()) == " ".join(PRESETS[name].describe().split())
    assert main(["rules", name, "--json"]) == 0
    assert Rules.from_dict(json.loads(capsys.readouterr().out)) == PRESETS[name]
    assert main(["rules", name, "--yaml"]) == 0
    path = tmp_path / "same.yaml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert Rules.load(path) == PRESETS[name]


def test_all_presets_can_be_had_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(PRESETS)
    assert main(["rules", "--yaml"]) == 0
    assert list(yaml.safe_load(capsys.readouterr().out)) == list(PRESETS)


OPTIONS = {
    "num_players": ("5", 5),
    "player_range": ("2,10", (2, 10)),
    "cards": ("5,4,3", (5, 4, 3)),
    "top": ("max", "max"),
    "trumps": ("S,NT", ("S", "NT")),
    "hook": ("false", False),
    "bidding": ("simultaneous", "simultaneous"),
    "scoring": ("multiplied", "multiplied"),
    "sweep_bonus": ("10", 10),
    "blind_rounds": ("-1", (-1,)),
    "direction": ("anticlockwise", "anticlockwise"),
    "packs": ("2", 2),
    "suits": ("4", 4),
    "ranks": ("8", 8),
    "first_dealer": ("2", 2),
}


@pytest.mark.parametrize("field", FIELDS)
def test_every_rule_is_an_option(field: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, value = OPTIONS[field]
    expected = Rules(**{field: value, **({"hook": False} if field == "bidding" else {})})
    for words in ([f"--{field}={text}"], [f"--{field.replace('_', '-')}", text]):
        assert main(["rules", "--json", *words]) == 0
        assert Rules.from_dict(json.loads(capsys.readouterr().out)) == expected


def test_a_rule_given_as_an_option_wins_over_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "house.yaml"
    path.write_text("preset: kachuful\nnum_players: 5\ntop: 4\n", encoding="utf-8")
    assert main(["rules", str(path), "--json", "--num_players=6", "--top=null"]) == 0
    rules = Rules.from_dict(json.loads(capsys.readouterr().out))
    assert (rules.num_players, rules.top) == (6, None)


def test_values_of_rules_are_read_as_yaml_or_lists_with_commas() -> None:
    assert rule_value("cards", "7") == [7] and rule_value("cards", "down-up") == "down-up"
    assert rule_value("cards", "[3, 2]") == [3, 2] and rule_value("cards", "3, 2,") == [3, 2]
    assert rule_value("trumps", "H") == ["H"] and rule_value("trumps", "turn-up") == "turn-up"
    assert rule_value("blind_rounds", "[]") == [] and rule_value("top", "null") is None
    assert rule_value("scoring", "[[], [[5, 0], [0, 9]]]") == [[], [[5, 0], [0, 9]]]


# --- play and arena ---------------------------------------------------------------------------


def test_bots_go_by_commas_and_keep_their_own_options() -> None:
    assert split_bots("models/kachuful, heuristic") == ["models/kachuful", "heuristic"]
    assert split_bots("search:worlds=64,seed=2,random") == ["search:worlds=64,seed=2", "random"]
    assert split_bots('"process:bot --weights 1,2",random') == [
        "process:bot --weights 1,2",
        "random",
    ]
    assert split_bots("process:bot --a=1,random") == ["process:bot --a=1", "random"]


def test_the_last_bot_fills_the_seats_that_are_left() -> None:
    assert fill_seats(["random", "heuristic"], Rules(num_players=5)) == [
        "random",
        "heuristic",
        "heuristic",
        "heuristic",
    ]


@pytest.mark.usefixtures("no_input")
@pytest.mark.parametrize(
    ("words", "players"),
    [
        (["--bots", "heuristic,random"], ["you", "heuristic", "random"]),
        (["--bots", "random", "--num_players", "4"], ["you", "random", "random-2", "random-3"]),
        (["--bots", "random,random,random", "--seat=3"], ["random", "random-2", "random-3", "you"]),
        (["--bots", "heuristic", "--rules", "{file}"], ["you", *["heuristic"] * 2]),
        (["--bots", "random"], ["you", "random", "random-2", "random-3"]),
    ],
)
def test_seats_are_one_more_than_bots_unless_the_rules_fix_them(
    words: list[str], players: list[str], tmp_path: Path
) -> None:
    file, path = tmp_path / "house.yaml", tmp_path / "match.json"
    file.write_text("preset: kachuful\nnum_players: 3\n", encoding="utf-8")
    words = [word.format(file=file) for word in words]
    assert main(["play", *words, "--save", str(path)]) == 0
    seated = records.read(path)["players"]
    assert [re.sub(r"^(heuristic)-\d$", r"\1", name) for name in seated] == players


def test_the_same_seed_deals_the_same_match_in_another_process(tmp_path: Path) -> None:
    words = ["play", "--bots", "random,heuristic", "--cards", "2,1", "--seed", "4", "--color=never"]
    typed = "0\n1\n" * 60
    runs = [run(*words, "--save", f"{k}.json", typed=typed, folder=tmp_path) for k in range(2)]
    assert [done.returncode for done in runs] == [0, 0] and runs[0].stderr == ""
    first, second = (records.read(tmp_path / f"{k}.json") for k in range(2))
    assert first == second and first["winners"]
    done = run("replay", "0.json", "--color", "always", folder=tmp_path)
    assert done.returncode == 0 and "\x1b[" in done.stdout and "Round 2" in done.stdout


def test_the_arena_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["arena", "heuristic", "random", "--matches", "8", "--seed", "2", "--cards", "2,1"]
    assert main(words) == 0
    table = capsys.readouterr().out
    assert "heuristic" in table and "random" in table
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["bots"] == ["heuristic", "random"]
    assert Rules.from_dict(data["rules"]).cards == (2, 1)


def test_a_ladder_prints_its_tables_in_the_form_asked_for_and_saves_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["arena", "--ladder", "heuristic", "random", "--matches", "8", "--cards", "2,1"]
    file = tmp_path / "ladder.json"
    assert main([*words, "--save", str(file)]) == 0
    text = capsys.readouterr().out
    assert "Mixed tables" in text and "Ratings and time a decision" in text
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert saved["format"] == "judgement-ladder/1" and saved["matches_played"] == 8 * 3
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["result"] == saved["result"] and data["standings"] == saved["standings"]
    assert main([*words, "--markdown"]) == 0
    assert "|:---|---:|" in capsys.readouterr().out


def test_a_ladder_that_is_broken_off_prints_what_is_done_and_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from judgement_env.bots import HeuristicBot

    once = HeuristicBot.act_rows
    asked = 0

    def stopping(self: HeuristicBot, rules: Any, tables: Any, rows: Any) -> Any:
        nonlocal asked
        # Matches of many tables are played only after decisions were asked alone for their time.
        asked += len(rows) > 1
        if asked > 40:
            raise KeyboardInterrupt
        return once(self, rules, tables, rows)

    monkeypatch.setattr(HeuristicBot, "act_rows", stopping)
    words = ["arena", "--ladder", "heuristic", "random", "--matches", "400", "--cards", "2,1"]
    assert main(words) == 130
    shown = capsys.readouterr()
    assert "stopped after " in shown.out and "of 1,200 matches" in shown.out
    assert shown.err == ""
