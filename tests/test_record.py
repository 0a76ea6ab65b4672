"""Records: written, read, replayed, and refused where they break a rule or have no shape."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgement_env import ENV_VERSION, PRESETS, Rules, Table
from judgement_env.record import FIELDS, parse, read, to_text, write
from tests.tables import bid, one_round, play

Change = Callable[[dict[str, Any]], Any]
HOUSE: dict[str, dict[str, Any]] = {
    **{name: {"preset": name} for name in PRESETS},
    "two packs, fingers, blind": {
        "preset": "kachuful",
        "num_players": 3,
        "packs": 2,
        "suits": 2,
        "ranks": 4,
        "trumps": ["NT", "S"],
        "bidding": "simultaneous",
        "cards": [3, 1],
        "blind_rounds": [2],
    },
}


def finished(name: str, seed: int) -> Table:
    table = Table(HOUSE[name], seed=seed)
    rng = random.Random(seed)
    while not table.is_over:
        table.push(rng.choice(table.legal()))
    return table


def known_match() -> dict[str, Any]:
    """Two rounds of three seats; seat 1 leads the first trick."""
    rules = Rules.preset("kachuful", num_players=3, cards=[2, 1], trumps=["S", "H"])
    deals = [[["AS", "2H"], ["KS", "4H"], ["QS", "6H"]], [["2C"], ["3C"], ["4C"]]]
    table = Table(rules, seed=4, dealer=0, deals=deals)
    bid(table, 1, 0, 2)
    play(table, "4H", "6H", "2H", "QS", "AS", "KS")
    bid(table, 1, 0, 1)
    play(table, "4C", "2C", "3C")
    return table.record()


def test_a_record_reads_like_the_match() -> None:
    record = known_match()
    assert list(record) == list(FIELDS)
    assert record["format"] == "judgement-record/1"
    assert record["env_version"] == ENV_VERSION
    assert record["rounds"][0] == {
        "cards": 2,
        "trump": "S",
        "dealer": 0,
        "blind": False,
        "turn_up": None,
        "hands": [["2H", "AS"], ["4H", "KS"], ["6H", "QS"]],
        "bids": [2, 1, 0],
        "tricks": [
            {"leader": 1, "plays": ["4H", "6H", "2H"], "winner": 2},
            {"leader": 2, "plays": ["QS", "AS", "KS"], "winner": 0},
        ],
        "won": [1, 0, 1],
        "points": [0, 0, 0],
    }
    assert record["totals"] == [10, 0, 11]
    assert record["winners"] == [2]


def test_a_match_in_progress_has_nulls_where_nothing_happened_yet() -> None:
    table = one_round([["2C", "3C"], ["4C", "AS"], ["5C", "6C"]], dealer=0)
    entry = table.record()["rounds"][0]
    assert (entry["bids"], entry["tricks"], entry["points"]) == ([None] * 3, [], None)
    bid(table, 0, 1, 2)
    assert table.record()["rounds"][0]["tricks"] == []
    play(table, "4C", "6C")
    record = table.record()
    entry = record["rounds"][0]
    assert entry["bids"] == [2, 0, 1]
    assert entry["tricks"] == [{"leader": 1, "plays": ["4C", "6C"], "winner": None}]
    assert (entry["won"], entry["points"]) == ([0, 0, 0], None)
    assert (record["totals"], record["winners"]) == ([0, 0, 0], [])
    play(table, "2C")
    assert len(table.record()["rounds"][0]["tricks"]) == 1


@pytest.mark.parametrize("name", HOUSE)
def test_every_prefix_of_a_match_is_written_read_and_played_on(name: str) -> None:
    table = finished(name, 6)
    full, actions = table.record(), table.actions
    while True:
        record = table.record()
        again = Table.from_record(parse(to_text(record)))
        assert again.record() == record
        assert again.legal() == table.legal()
        count = table.decisions
        if count % 7 == 0:
            assert Table.from_record(full, decisions=count).record() == record
            for action in actions[count:]:
                again.push(action)
            assert again.record() == full
        if count == 0:
            break
        table.pop()


def test_a_record_without_its_seed_is_replayed_and_keeps_none() -> None:
    record = known_match()
    for changed in ({**record, "seed": None}, {k: v for k, v in record.items() if k != "seed"}):
        table = Table.from_record(changed)
        assert table.record() == {**record, "seed": None}
        assert Table.from_record(changed, decisions=2).seat == 0


def test_rules_in_a_record_may_name_their_preset() -> None:
    record = finished("kachuful", 2).record()
    assert Table.from_record({**record, "rules": {"preset": "kachuful"}}).record() == record


@pytest.mark.parametrize("decisions", [-1, 16, 1.5, True])
def test_decisions_count_from_none_to_all(decisions: Any) -> None:
    with pytest.raises(ValueError, match="decisions: .*from 0 to 15"):
        Table.from_record(known_match(), decisions=decisions)


def test_a_record_goes_into_a_file_whole_and_comes_back(tmp_path: Path) -> None:
    record = known_match()
    path = tmp_path / "match.json"
    path.write_text("old")
    write(record, path)
    assert read(path) == record
    assert [p.name for p in tmp_path.iterdir()] == ["match.json"]
    assert json.loads(path.read_text(encoding="utf-8")) == record
    with pytest.raises(TypeError):
        write({**record, "players": {1, 2}}, path)
    assert read(path) == record
    assert [p.name for p in tmp_path.iterdir()] == ["match.json"]


def test_a_file_that_holds_no_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "match.json"
    with pytest.raises(FileNotFoundError, match=r"match\.json' does not exist"):
        read(path)
    path.write_text('{"format": ')
    with pytest.raises(ValueError, match=r"match\.json: record: broken JSON"):
        read(path)


def put(*path: Any) -> Change:
    """A change of the record: the last argument goes where the others lead."""

    def change(record: dict[str, Any]) -> None:
        place: Any = record
        for key in path[:-2]:
            place = place[key]
        place[path[-2]] = path[-1]

    return change


SHAPES: list[tuple[str, Change, str]] = [
    ("format", put("format", "judgement-record/2"), "format: .*judgement-record/1"),
    ("no field", lambda r: r.pop("totals"), "no field 'totals'"),
    ("unknown field", put("total", 1), "unknown field 'total'"),
    ("seed", put("seed", -1), "seed: -1 .*from 0 to"),
    ("players", put("players", ["a"]), "players: .*2 to 10"),
    ("rules", put("rules", 3), "rules: 3"),
    ("rounds", put("rounds", []), "rounds: .*1 to 1000"),
    ("round", put("rounds", 1, 7), "round 2: 7"),
    ("trump", put("rounds", 0, "trump", "X"), "round 1: trump: 'X'"),
    ("blind", put("rounds", 0, "blind", 0), "round 1: blind: 0"),
    ("hand", put("rounds", 0, "hands", 1, ["AS"]), "round 1: hand of seat 1: .*2 cards"),
    ("card", put("rounds", 0, "hands", 1, 0, "1S"), "round 1: hand of seat 1: '1S'"),
    ("hidden hand", put("rounds", 0, "hands", 1, None), "round 1: hand of seat 1: None"),
    ("bid", put("rounds", 0, "bids", 1, 3), "round 1: bids of seat 1: 3 .*0 to 2"),
    ("bids", put("rounds", 0, "bids", [1, 2]), "round 1: bids: .*3 bids"),
    ("leader", put("rounds", 0, "tricks", 1, "leader", 3), "round 1, trick 2: leader: 3"),
    ("plays", put("rounds", 0, "tricks", 1, "plays", []), "round 1, trick 2: plays: .*1 to 3"),
    ("winner", put("rounds", 0, "tricks", 0, "winner", 9), "round 1, trick 1: winner: 9"),
    ("won", put("rounds", 1, "won", [0, 0, 2]), "round 2: won of seat 2: 2"),
    ("totals", put("totals", [1]), "totals: .*3 whole numbers"),
    ("winners", put("winners", [3]), "winners: 3"),
]


@pytest.mark.parametrize(("change", "words"), [s[1:] for s in SHAPES], ids=[s[0] for s in SHAPES])
def test_a_record_without_its_shape_is_refused_naming_the_place(change: Change, words: str) -> None:
    record = known_match()
    change(record)
    with pytest.raises(ValueError, match="record: " + words):
        Table.from_record(record)


def swap_plays(record: dict[str, Any]) -> None:
    """Seat 2 throws its queen of spades on hearts though it holds the six."""
    tricks = record["rounds"][0]["tricks"]
    tricks[0]["plays"][1], tricks[1]["plays"][0] = "QS", "6H"


def drop_second_round(record: dict[str, Any]) -> None:
    del record["rounds"][1:]
    record.update(totals=[0, 0, 0], winners=[])


BROKEN: list[tuple[str, Change, str]] = [
    ("revoke", swap_plays, r"round 1, trick 1: seat 2 may not play QS: .*follow suit.*hearts"),
    ("hook", put("rounds", 0, "bids", [1, 1, 0]), "round 1: seat 0 may not bid 1: the hook"),
    ("bid out of turn", put("rounds", 0, "bids", 1, None), "round 1: bids: .*in turn"),
    ("bid missing", put("rounds", 0, "bids", 0, None), "round 1, trick 1: .*seat 0, whose turn"),
    ("not held", put("rounds", 0, "tricks", 0, "plays", 1, "7H"), "round 1, trick 1: .*not hold"),
    ("dealt twice", put("rounds", 0, "hands", 1, ["AS", "4H"]), "hands: round 1, seat 1: AS"),
    ("leader", put("rounds", 0, "tricks", 1, "leader", 0), "round 1, trick 2: .*whose turn it is"),
    ("winner", put("rounds", 0, "tricks", 0, "winner", 1), "round 1, trick 1: winner: 1 .*2, by"),
    ("open trick", put("rounds", 0, "tricks", 1, "winner", None), "round 1, trick 2: winner"),
    ("won", put("rounds", 0, "won", [0, 1, 1]), "round 1: won"),
    ("points", put("rounds", 1, "points", [0, 0, 0]), "round 2: points"),
    ("dealer", put("rounds", 1, "dealer", 2), "round 2: dealer: 2 .*1, by its rules"),
    ("trump", put("rounds", 0, "trump", "C"), "round 1: trump: 'C'"),
    ("blind", put("rounds", 1, "blind", True), "round 2: blind"),
    ("turn-up", put("rounds", 0, "turn_up", "2C"), "round 1: turn_up"),
    ("totals", put("totals", [0, 0, 0]), "totals"),
    ("winners", put("winners", [0, 1]), "winners"),
    ("unplayed round", drop_second_round, "rounds: 1 rounds .*2, as a round"),
    ("early round", put("rounds", 0, "tricks", 1, "plays", ["QS"]), "round 2: begun before"),
    ("num_players", put("rules", "num_players", 4), "players: .*4 names"),
    ("rules", put("rules", "packs", 3), "rules: packs: 3"),
    ("first dealer", put("rules", "first_dealer", 1), "round 1: dealer: 0 .*1, by its rules"),
    ("sizes", put("rules", "cards", [2, 2]), "round 2: cards: 1 .*2, by its rules"),
    ("too many", put("rules", "cards", [2]), "rounds: 2 rounds .*at most 1"),
    ("scoring", put("rules", "scoring", "high"), "round 1: points"),
]


@pytest.mark.parametrize(("change", "words"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_a_record_that_breaks_a_rule_is_refused_naming_round_and_trick(
    change: Change, words: str
) -> None:
    record = known_match()
    before = copy.deepcopy(record)
    change(record)
    assert record != before
    with pytest.raises(ValueError, match="record: " + words):
        Table.from_record(record)


def test_a_played_card_of_a_blind_round_is_checked_too() -> None:
    rules = Rules.preset("blind-eight", num_players=3, cards=[1], blind_rounds=[1])
    table = Table(rules, seed=1, dealer=0, deals=[[["AC"], ["2C"], ["3C"]]])
    bid(table, 0, 0, 0)
    record = table.record()
    record["rounds"][0]["tricks"][0]["plays"] = ["2C", "AC", "3C"]
    with pytest.raises(ValueError, match="round 1, trick 1: plays"):
        Table.from_record(record)


def test_a_record_is_the_callers_own() -> None:
    table = one_round([["2C"], ["3C"], ["4C"]])
    table.record()["rounds"][0]["hands"][0].append("AS")
    table.record()["totals"][0] = 99
    assert table.record()["rounds"][0]["hands"][0] == ["2C"]
    assert table.totals == [0, 0, 0]


def test_text_nested_without_end_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="record: broken JSON: nested too deeply"):
        parse("[" * 100_000)
