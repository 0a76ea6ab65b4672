"""Data sets: every row is what the table says, shards are whole, broken records are named."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgement_env import Rules, Table, arena
from judgement_env import dataset as datasets
from judgement_env import record as records
from judgement_env.cards import BID_OFFSET
from judgement_env.cli import main
from judgement_env.dataset import DatasetError, Shard, read_dataset, rows_of, write_dataset
from judgement_env.observation import decode

ROOT = Path(__file__).resolve().parent.parent
ALL_RULES = {
    "kachuful": Rules(num_players=3, cards=[3, 2, 1]),
    "blind": Rules(num_players=3, cards=[2, 1, 1], blind_rounds=[2]),
    "turned up, anticlockwise": Rules(
        num_players=4, cards=[2, 3], trumps="turn-up", direction="anticlockwise"
    ),
    "fingers, two packs": Rules(
        num_players=3, cards=[3, 1], packs=2, hook=False, bidding="simultaneous"
    ),
    "all cards out": Rules(num_players=2, player_range=(2, 10), cards=[4], suits=1, ranks=8,
                           trumps=["S"], scoring="high"),
}  # fmt: skip


def match(rules: Rules, seed: int, decisions: int | None = None) -> Table:
    rng = random.Random(seed)
    table = Table(rules, seed=seed)
    while not table.is_over and table.decisions != decisions:
        table.push(rng.choice(table.legal()))
    return table


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Twelve records: each of the rules, played three times, in one folder."""
    folder = tmp_path / "records"
    folder.mkdir()
    paths = []
    for k, rules in enumerate([*ALL_RULES.values()] * 3):
        paths.append(folder / f"{k:03d}.json")
        records.write(match(rules, seed=k).record(), paths[-1])
    return paths


def together(path: Path) -> dict[str, Any]:
    """All shards of a data set as one."""
    shards = list(read_dataset(path))
    arrays = {
        name: np.concatenate([getattr(shard, name) for shard in shards]) for name in datasets.FIELDS
    }
    return arrays


def rebuilt(shards: list[Shard]) -> Iterator[dict[str, Any]]:
    """The records that the arrays tell of, from the arrays and what is said of each match."""
    told = {m["match"]: (m, shard.rules[m["rules"]]) for shard in shards for m in shard.matches}
    for number, (about, rules) in sorted(told.items()):
        rows = [(shard, k) for shard in shards for k in np.flatnonzero(shard.match == number)]
        deals, turn_ups, dealer = [], [], None
        for shard, k in rows:
            if shard.round[k] < len(deals):
                continue
            # The first decision of a round: every hand is whole.
            seat = int(shard.seat[k])
            if dealer is None:
                place = int(shard.observation[k][816:826].argmax())
                dealer = (seat + place * rules.step) % rules.num_players
            hands = shard.oracle[k].reshape(10, 52)
            by_seat: list[list[int]] = [[] for _ in range(rules.num_players)]
            for place in range(rules.num_players):
                cards = [c for c in range(52) for _ in range(hands[place][c])]
                by_seat[(seat + place * rules.step) % rules.num_players] = cards
            deals.append(by_seat)
            turn_up = decode(shard.observation[k])["turn_up"]
            turn_ups.append(turn_up)
        table = Table(
            rules,
            seed=about["seed"],
            dealer=dealer,
            deals=deals,
            turn_ups=turn_ups if rules.is_turn_up else None,
            match=about["number"],
            table=about["table"],
            players=about["players"],
        )
        for shard, k in rows:
            table.push(int(shard.action[k]))
        yield table.record()


# --- what the rows say ------------------------------------------------------------------------


@pytest.mark.parametrize("shard_size", [None, 1, 7, 40, 10_000])
def test_replaying_the_arrays_gives_the_records_back(
    files: list[Path], tmp_path: Path, shard_size: int | None
) -> None:
    summary = write_dataset(files, tmp_path / "out.npz", shard_size=shard_size)
    shards = list(read_dataset(tmp_path / "out.npz"))
    assert list(rebuilt(shards)) == [records.read(path) for path in files]
    assert summary.decisions == sum(map(len, shards))
    assert summary.matches == len(files) and len(summary.files) == len(shards)
    if shard_size is not None:
        assert [len(shard) for shard in shards[:-1]] == [shard_size] * (len(shards) - 1)
        assert 1 <= len(shards[-1]) <= shard_size


def test_each_row_is_what_the_table_says_at_that_decision(
    files: list[Path], tmp_path: Path
) -> None:
    write_dataset(files, tmp_path / "out.npz")
    rows = together(tmp_path / "out.npz")
    k = 0
    for number, path in enumerate(files):
        record = records.read(path)
        whole = Table.from_record(record)
        for decision, action in enumerate(whole.actions):
            table = Table.from_record(record, decisions=decision)
            seat, view = table.seat, table.view(table.seat or 0)
            entry = record["rounds"][table.round_index]
            assert (rows["observation"][k] == view.observation("uint8")).all()
            assert np.flatnonzero(rows["action_mask"][k]).tolist() == table.legal()
            assert (rows["oracle"][k] == table.observe_all_hands(view.seat)).all()
            assert rows["action"][k] == action and rows["seat"][k] == seat
            assert rows["is_bid"][k] == (action >= BID_OFFSET)
            assert rows["won"][k] == entry["won"][view.seat]
            assert rows["points"][k] == entry["points"][view.seat]
            assert rows["match"][k] == number and rows["decision"][k] == decision
            assert rows["round"][k] == table.round_index
            k += 1
    assert k == len(rows["action"])


def test_the_arrays_have_the_types_and_shapes_that_are_listed(
    files: list[Path], tmp_path: Path
) -> None:
    write_dataset(files[:2], tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as archive:
        assert set(archive) == {*datasets.FIELDS, "meta"}
        for name, (dtype, shape, _) in datasets.FIELDS.items():
            assert archive[name].dtype == dtype and archive[name].shape[1:] == shape
            assert len(archive[name]) == len(archive["action"])
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    for name, (dtype, shape, meaning) in datasets.FIELDS.items():
        row = f"({', '.join(['D', *map(str, shape)])}{',' if not shape else ''})"
        assert f"| `{name}` | {row} {dtype} | {meaning} |" in page, name


def test_decisions_that_leave_no_choice_can_be_left_out(files: list[Path], tmp_path: Path) -> None:
    write_dataset(files, tmp_path / "all.npz")
    write_dataset(files, tmp_path / "real.npz", skip_forced=True)
    everything, real = together(tmp_path / "all.npz"), together(tmp_path / "real.npz")
    is_real = everything["action_mask"].sum(axis=1) > 1
    assert 0 < is_real.sum() < len(is_real)
    for name in datasets.FIELDS:
        assert (real[name] == everything[name][is_real]).all()


def test_rounds_that_were_not_finished_are_left_out(tmp_path: Path) -> None:
    rules = ALL_RULES["kachuful"]
    for decisions in range(1, 24):
        table = match(rules, seed=4, decisions=decisions)
        settled = sum(e["points"] is not None for e in table.record()["rounds"])
        assert len(list(rows_of(table))) == {0: 0, 1: 12, 2: 21}[settled]
    half = match(rules, seed=4, decisions=15).record()
    summary = write_dataset([half], tmp_path / "out.npz")
    assert (summary.decisions, summary.unfinished_rounds) == (12, 1)
    assert "; 1 unfinished round left out" in str(summary)
    with pytest.raises(DatasetError, match=r"no decision in 1 record\n"):
        write_dataset([match(rules, seed=4, decisions=3).record()], tmp_path / "none.npz")
    assert not (tmp_path / "none.npz").exists()


def test_folders_and_records_are_taken_like_files(files: list[Path], tmp_path: Path) -> None:
    write_dataset(files, tmp_path / "a.npz")
    write_dataset([files[0].parent], tmp_path / "b.npz")
    write_dataset((records.read(path) for path in files), tmp_path / "c.npz")
    first = together(tmp_path / "a.npz")
    for name in ("b.npz", "c.npz"):
        other = together(tmp_path / name)
        assert all((first[field] == other[field]).all() for field in datasets.FIELDS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match=r"no \*\.json"):
        write_dataset([tmp_path / "empty"], tmp_path / "d.npz")


def test_rows_wait_on_disk_not_in_memory(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "CHUNK", 3)
    held: list[int] = []
    flush = datasets._Spool.flush

    def counted(spool: datasets._Spool) -> None:
        held.append(len(spool.rows))
        flush(spool)

    monkeypatch.setattr(datasets._Spool, "flush", counted)
    write_dataset(files, tmp_path / "out.npz", shard_size=50)
    assert max(held) == 3 and len(held) > 20
    assert list(rebuilt(list(read_dataset(tmp_path / "out.npz"))))[3] == records.read(files[3])


# --- broken records ---------------------------------------------------------------------------


def spoilt(path: Path, target: Path) -> None:
    """A record in which a trick of the first round is won by another seat."""
    record = json.loads(path.read_text(encoding="utf-8"))
    trick = record["rounds"][0]["tricks"][1]
    trick["winner"] = (trick["winner"] + 1) % len(record["players"])
    target.write_text(json.dumps(record), encoding="utf-8")


def test_a_broken_record_is_named_by_file_round_and_trick(
    files: list[Path], tmp_path: Path
) -> None:
    spoilt(files[5], files[5])
    with pytest.raises(DatasetError, match=r"005\.json: record: round 1, trick 2: winner"):
        write_dataset(files, tmp_path / "out.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


def test_what_is_whole_before_a_broken_record_stays_and_is_told(
    files: list[Path], tmp_path: Path
) -> None:
    spoilt(files[5], files[5])
    with pytest.raises(DatasetError) as error:
        write_dataset(files, tmp_path / "out.npz", shard_size=10)
    assert "out-00000.npz to out-" in error.value.__notes__[0]
    with pytest.raises(DatasetError, match="writing was broken off"):
        list(read_dataset(tmp_path / "out.npz"))
    left = list(read_dataset(tmp_path / "out.npz", partial=True))
    assert left and all(len(shard) == 10 for shard in left)


def test_broken_records_can_be_left_out_and_are_counted(files: list[Path], tmp_path: Path) -> None:
    spoilt(files[5], files[5])
    files[2].write_text("{", encoding="utf-8")
    files[3].unlink()
    summary = write_dataset(files, tmp_path / "out.npz", keep_going=True)
    assert summary.matches == len(files) - 3 and len(summary.skipped) == 3
    assert "002.json: record: broken JSON" in summary.skipped[0]
    assert "003.json' does not exist" in summary.skipped[1]
    assert "round 1, trick 2" in summary.skipped[2]
    good = [path for k, path in enumerate(files) if k not in (2, 3, 5)]
    again = list(rebuilt(list(read_dataset(tmp_path / "out.npz"))))
    assert again == [records.read(path) for path in good]
    with pytest.raises(DatasetError, match="no decision in 1 record, 1 of them broken"):
        write_dataset([files[2]], tmp_path / "none.npz", keep_going=True)


# --- files ------------------------------------------------------------------------------------


def test_a_data_set_is_replaced_only_when_asked(files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    write_dataset(files, out, shard_size=10)
    before = len(list(tmp_path.glob("out-*.npz")))
    for size in (None, 10):
        with pytest.raises(DatasetError, match=r"out-00000\.npz is there already"):
            write_dataset(files, out, shard_size=size)
    write_dataset(files, out, shard_size=30, overwrite=True)
    assert 1 < len(list(tmp_path.glob("out-*.npz"))) < before
    write_dataset(files, out, overwrite=True)
    assert list(tmp_path.glob("out*.npz")) == [out]
    assert len(together(out)["action"])


def test_a_missing_file_of_a_data_set_is_named(files: list[Path], tmp_path: Path) -> None:
    write_dataset(files, tmp_path / "out.npz", shard_size=20)
    assert len(list(read_dataset(tmp_path / "out-00001.npz"))) == 1
    (tmp_path / "out-00001.npz").unlink()
    with pytest.raises(DatasetError, match=r"out-00001\.npz is missing"):
        list(read_dataset(tmp_path / "out.npz"))
    with pytest.raises(DatasetError, match="does not exist"):
        list(read_dataset(tmp_path / "other.npz"))


def test_a_file_that_is_no_data_set_is_refused(files: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    write_dataset(files[:1], path)
    whole = path.read_bytes()
    array = tmp_path / "array.npy"
    np.save(array, np.zeros(3))
    for content, words in (
        (files[0].read_bytes(), r"it is JSON, as a record is, .* \(allowed: a .npz file\)"),
        (array.read_bytes(), "it is a single array"),
        (b"", "it is empty"),
        (b"x" * 100, "it is something else"),
    ):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=rf"out\.npz is no data set, {words}"):
            list(read_dataset(path))
    for content in (b"", whole[: len(whole) // 2], b"x" * 100):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"out\.npz is no data set"):
            list(read_dataset(path))
    np.savez(path, action=np.zeros(3))
    with pytest.raises(DatasetError, match="no data set"):
        list(read_dataset(path))


def test_another_layout_of_observations_is_refused(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(files[:1], tmp_path / "out.npz")
    monkeypatch.setattr(datasets, "layout_hash", lambda: "another")
    with pytest.raises(DatasetError, match="this package's another"):
        list(read_dataset(tmp_path / "out.npz"))


def test_wrong_arguments_are_refused(files: list[Path], tmp_path: Path) -> None:
    for out, size, said in (
        ("out.zip", None, "ends in .npz"),
        (".npz", None, "ends in .npz"),
        ("none/out.npz", None, "does not exist"),
        ("out.npz", 0, "shard_size: 0"),
        ("out.npz", 2.5, "shard_size: 2.5"),
    ):
        with pytest.raises(DatasetError, match=said):
            write_dataset(files, tmp_path / out, shard_size=size)  # type: ignore[arg-type]


class Full(OSError):
    """The disk is full."""


@pytest.mark.parametrize("where", ["waiting", "final"])
def test_a_full_disk_leaves_no_half_of_a_file(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    calls = 0

    def fail(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 30:
            raise Full(28, "No space left on device")
        real(*args)

    if where == "waiting":
        real: Any = datasets._Spool.flush
        monkeypatch.setattr(datasets, "CHUNK", 2)
        monkeypatch.setattr(datasets._Spool, "flush", fail)
    else:
        real = datasets._copy_array
        monkeypatch.setattr(datasets, "_copy_array", fail)
    with pytest.raises(DatasetError, match=r"could not be written: .*No space left") as error:
        write_dataset(files, tmp_path / "out.npz", shard_size=20)
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert all(name.startswith("out-") for name in left)
    assert ("out-00000.npz" in left) == (f"{left[0]}" in str(error.value) if left else False)
    for path in left:
        assert len(list(read_dataset(tmp_path / path))[0]) == 20


def test_an_interruption_leaves_whole_files_and_says_which(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    calls = 0
    real = datasets.rows_of

    def interrupted(table: Table, skip_forced: bool = False) -> Iterator[dict[str, Any]]:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        yield from real(table, skip_forced)

    monkeypatch.setattr(datasets, "rows_of", interrupted)
    words = ["dataset", *map(str, files), str(tmp_path / "out.npz"), "--shard-size=20"]
    assert main(words) == 130
    error = capsys.readouterr().err
    assert error.startswith("judgement dataset: interrupted; out-00000.npz")
    assert re.search("(is|are) whole", error) and error.count("\n") == 1
    left = [path for path in tmp_path.iterdir() if path.is_file()]
    assert left and all(len(list(read_dataset(path))[0]) == 20 for path in left)


# --- the commands -----------------------------------------------------------------------------


def test_matches_of_the_arena_become_a_data_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = str(tmp_path / "records"), str(tmp_path / "out.npz")
    words = ["arena", "heuristic", "random", "--cards=3,2", "--num_players=3", "--matches=6"]
    assert main([*words, "--records", folder]) == 0
    first = capsys.readouterr().out
    assert main(words) == 0 and capsys.readouterr().out == first
    kept = sorted(Path(folder).iterdir())
    # A bot alone among the other's, both ways.
    assert [path.name for path in kept] == [f"{k:06d}.json" for k in range(12)]
    seats = [records.read(path)["players"] for path in kept]
    assert seats[0] == ["heuristic", "random", "random"]
    assert sum(names.count("heuristic") for names in seats) == 18
    assert main(["dataset", *map(str, kept), out, "--shard-size", "100"]) == 0
    assert capsys.readouterr().out.startswith("252 decisions of 12 matches in ")
    assert sum(map(len, read_dataset(out))) == 252
    assert main(["arena", "heuristic", "random", "--records", folder]) == 2
    assert "holds files already" in capsys.readouterr().err


@pytest.mark.parametrize("number", [0, 3])
def test_an_interrupted_arena_leaves_no_empty_folder_and_says_what_it_left(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = arena.play_format

    def interrupted(*given: Any) -> Any:
        *others, keep = given
        kept = 0

        def keep_some(record: Any) -> None:
            nonlocal kept
            if kept == number:
                raise KeyboardInterrupt
            keep(record)
            kept += 1

        return real(*others, keep_some)

    monkeypatch.setattr(arena, "play_format", interrupted)
    folder = tmp_path / "deep" / "records"
    words = ["arena", "heuristic", "random", "--cards=2", "--matches=8", f"--records={folder}"]
    assert main(words) == 130
    error = capsys.readouterr().err
    if number:
        assert error == f"judgement arena: interrupted; 3 records in '{folder}'\n"
        assert len(list(folder.iterdir())) == 3
    else:
        assert error == "judgement arena: interrupted\n"
        assert not list(tmp_path.iterdir())


def test_arena_records_are_the_same_however_matches_are_played(tmp_path: Path) -> None:
    from judgement_env.bots import HeuristicBot
    from tests.arena_bots import PlaceBot, ViewBot

    rules = Rules(num_players=3, cards=[4, 1, 2], blind_rounds=[2])
    for name, wrap in (("rows", lambda bot: bot), ("views", ViewBot)):
        bots = [wrap(HeuristicBot()), wrap(PlaceBot("highest"))]
        arena.compare(bots, rules, matches=9, seed=3, records=tmp_path / name)
    texts = [
        [path.read_text(encoding="utf-8") for path in sorted((tmp_path / name).iterdir())]
        for name in ("rows", "views")
    ]
    assert texts[0] == texts[1] and len(texts[0]) == 18
    for text in texts[0]:
        record = json.loads(text)
        drawn = Table(rules, seed=3, table=record["table"]).record()["rounds"][0]
        assert Table.from_record(record).is_over
        assert record["rounds"][0]["hands"] == drawn["hands"]


def test_the_command_says_what_is_broken(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt(files[5], files[5])
    out = str(tmp_path / "out.npz")
    assert main(["dataset", str(files[0].parent), out]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "round 1, trick 2" in error
    assert "nothing was written to" in error
    assert main(["dataset", str(files[0].parent), out, "--keep-going"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("left out: ") and "; 1 broken record left out" in shown.out


def test_nothing_but_the_result_is_printed_where_nobody_looks(
    files: list[Path], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "judgement_env.cli", "dataset", *files, tmp_path / "out.npz"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count("\n") == 1


@pytest.mark.parametrize("has_rich", [True, False])
def test_progress_is_shown_on_a_terminal(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_rich: bool
) -> None:
    if has_rich:
        pytest.importorskip("rich", reason="the extra 'train' brings rich")
    else:
        monkeypatch.setitem(sys.modules, "rich", None)
        monkeypatch.setitem(sys.modules, "rich.console", None)
    main_end, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as error:
        monkeypatch.setattr(sys, "stderr", error)
        assert main(["dataset", *map(str, files), str(tmp_path / "out.npz")]) == 0
        error.flush()
        text = os.read(main_end, 100_000).decode()
    os.close(main_end)
    assert ("of 15 records" in text) == (not has_rich)
    assert "records" in text


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    commands = page.partition("```console\n")[2].partition("```")[0]
    for line in commands.splitlines():
        words = line.removeprefix("judgement ").replace("--matches 2000", "--matches 4").split()
        done = subprocess.run(
            [sys.executable, "-m", "judgement_env.cli", *words],
            capture_output=True, text=True, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    blocks = page.split("```python\n")[1:]
    assert len(blocks) >= 2
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", block.partition("```")[0]],
            capture_output=True, text=True, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
