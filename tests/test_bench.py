"""The benchmark runs, says what it compared and with what; how fast anything is, is not tested."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from judgement_env import BatchEnv, Rules, Table, bench, bench_rows, judgement_v0
from judgement_env.bench_clock import Line, Plan, Target, race
from judgement_env.bench_peers import CLASSIC, agent_iteration, observe_and_step
from judgement_env.bench_rows import ROWS
from judgement_env.cli import main
from judgement_env.engine import begin_match, is_legal, step, table_key
from judgement_env.playouts import nth_card, play_random, random_action, random_actions
from judgement_env.state import Array, new_tables, pack_rules

ROOT = Path(__file__).resolve().parent.parent
TINY = Plan(
    repeats=2,
    slices=1,
    seconds=0,
    num_tables=8,
    many_tables=64,
    learning_batch=64,
    learning_seconds=0.001,
)
QUICK_ROWS = [row for row in ROWS if row not in ("sb3", "memory", "start")]


def state_of(number: int) -> Array:
    return np.array([number], np.uint64)


def table_of(rules: Rules, seed: int) -> tuple[Any, Any]:
    """The rules and one table of match 0 of a seed, as kernels take them."""
    packed, tables = pack_rules([rules]), new_tables(1)
    tables["key"] = table_key(np.uint64(seed), 0)
    begin_match(packed[0], tables[0], 0, rules.num_rounds - 1, -1)
    return packed[0], tables[0]


# --- random play ----------------------------------------------------------------------------------


def test_the_nth_card_has_n_cards_of_the_word_below_it() -> None:
    rng = random.Random(1)
    for size in (1, 2, 4, 5, 6, 9, 13, 26, 52):
        cards = sorted(rng.sample(range(52), size))
        word = np.uint64(sum(1 << card for card in cards))
        assert [nth_card(word, n) for n in range(size)] == cards


@pytest.mark.parametrize("name", ["kachuful", "up-and-down", "oh-hell", "blind-eight"])
def test_random_play_is_legal_and_the_engines_own_from_match_to_match(name: str) -> None:
    rules = Rules.preset(name, num_players=5)
    r, t = table_of(rules, 3)
    other = table_of(rules, 3)[1]
    state = state_of(11)
    for _ in range(900):
        before = state[0]
        play_random(r, t, 1, state)
        assert state[0] != before
        action = random_action(r, other, state[0])
        assert is_legal(r, other, action)
        if step(r, other, action) and other.phase == 3:
            other.match += 1
            begin_match(r, other, 0, rules.num_rounds - 1, -1)
        assert t.tobytes() == other.tobytes()
    assert t.match >= 2


def test_many_random_decisions_are_as_many_single_ones() -> None:
    rules = Rules.preset("kachuful", num_players=3)
    r, t = table_of(rules, 5)
    other = table_of(rules, 5)[1]
    state, other_state = state_of(2), state_of(2)
    play_random(r, t, 400, state)
    for _ in range(400):
        play_random(r, other, 1, other_state)
    assert t.tobytes() == other.tobytes() and state[0] == other_state[0]


def test_random_play_scores_as_a_table_does() -> None:
    rules = Rules.preset("kachuful")
    r, t = table_of(rules, 7)
    table = Table(rules, seed=7)
    state = state_of(1)
    while not table.is_over:
        assert t.match == 0 and t.seat == table.seat
        assert t.total[:4].tolist() == list(table.view(0).totals)
        before = t.copy()
        play_random(r, t, 1, state)
        table.push(random_action(r, before, state[0]))
    assert t.match == 1 and t.points[:4].tolist() == [0] * 4
    assert any(table.record()["totals"])


@pytest.mark.parametrize("decision", [0, 3, 4, 9])
def test_every_legal_action_is_drawn_as_often_as_every_other(decision: int) -> None:
    # The first bid, the last one, which the hook restricts, a lead, and a card that follows.
    table = Table("kachuful", seed=4)
    r, t = table_of(Rules.preset("kachuful"), 4)
    for _ in range(decision):
        action = table.legal()[0]
        table.push(action)
        step(r, t, action)
    legal = [int(action) for action in table.legal()]
    assert len(legal) > 1
    rng = np.random.default_rng(2)
    words = rng.integers(0, 1 << 63, 20_000, dtype=np.uint64) << np.uint64(1)
    counts = Counter(int(random_action(r, t, word)) for word in words)
    assert sorted(counts) == legal
    expected = len(words) / len(legal)
    # Chi-square; its mean is the degrees of freedom, and 30 is out of reach of at most 7 of them.
    assert sum((counts[a] - expected) ** 2 / expected for a in legal) < 30


def test_the_generator_itself_draws_evenly() -> None:
    # The same position again and again, the words being those of one long run.
    r, t = table_of(Rules.preset("kachuful"), 4)
    tables = np.repeat(np.atleast_1d(np.asarray(t)), 20_000)
    actions = np.zeros(len(tables), np.int64)
    random_actions(pack_rules([Rules.preset("kachuful")]), tables, state_of(5), actions)
    counts = np.bincount(actions - 52, minlength=8)
    assert len(counts) == 8
    assert ((counts - 2500) ** 2 / 2500).sum() < 30


def test_random_actions_of_a_batch_are_legal_whatever_the_rules_of_a_table() -> None:
    rules = [Rules.preset("kachuful", num_players=3), Rules.preset("up-and-down", num_players=7)]
    batch = BatchEnv(rules, num_tables=7, seed=1)
    batch.reset()
    actions, state = np.zeros(7, np.int64), state_of(9)
    packed = pack_rules(rules)
    seen: set[int] = set()
    for _ in range(400):
        random_actions(packed, batch.tables, state, actions)
        assert batch.action_mask[np.arange(7), actions].all()
        seen |= set(actions.tolist())
        batch.step(actions)
    assert len(seen) > 50


PLAIN = """
import hashlib
import numpy as np
from judgement_env import Rules
from judgement_env.engine import begin_match
from judgement_env.playouts import play_random
from judgement_env.state import new_tables, pack_rules
rules, tables = pack_rules([Rules.preset("kachuful", num_players=5)]), new_tables(1)
begin_match(rules[0], tables[0], 0, 6, 2)
state = np.array([3], np.uint64)
play_random(rules[0], tables[0], 300, state)
print(hashlib.sha256(tables.tobytes() + state.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_uncompiled_random_play_is_the_same() -> None:
    rules = pack_rules([Rules.preset("kachuful", num_players=5)])
    tables, state = new_tables(1), state_of(3)
    begin_match(rules[0], tables[0], 0, 6, 2)
    play_random(rules[0], tables[0], 300, state)
    here = hashlib.sha256(tables.tobytes() + state.tobytes()).hexdigest()
    done = subprocess.run(
        [sys.executable, "-c", PLAIN],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == here, done.stderr


# --- taking time ----------------------------------------------------------------------------------


def test_contestants_take_turns_and_a_rate_is_the_sum_over_its_slices() -> None:
    order: list[str] = []

    def contestant(name: str, seconds: list[float]) -> Any:
        taken = iter([1.0, *seconds])

        def play() -> tuple[int, float]:
            order.append(name)
            return 12, next(taken)

        return play

    plan = Plan(repeats=2, slices=2, seconds=2)
    rates = race([contestant("a", [2, 4, 2, 2]), contestant("b", [1, 1, 3, 2, 1, 1])], plan)
    assert "".join(order) == "ab" + "abb" + "ab" + "ab" + "abb"
    assert rates == [[4.0, 6.0], [36 / 5, 36 / 4]]


def test_a_target_holds_fails_or_cannot_be_said() -> None:
    assert Target(ratio=2).is_met(5, 2.0) is True
    assert Target(ratio=2).is_met(5, 1.9) is False
    assert Target(ratio=2).is_met(5, None) is None
    assert Target(ratio=2, at_least=10).is_met(9, 3.0) is False
    assert Target(ratio=2, at_least=10).is_met(11, None) is None
    assert Target(at_most=1).is_met(1.1, None) is False
    assert Target(at_most=1).is_met(0.9, None) is True


def test_the_ratio_is_the_median_of_paired_samples_not_of_medians() -> None:
    line = Line("x", "x", "decisions/s", [1, 20, 300], "peer", [1, 2, 300], Target(ratio=2))
    assert line.ratios == [1, 10, 1] and line.ratio == 1
    assert line.holds is False
    assert Line("x", "x", "s", [1], target=Target(ratio=2)).holds is None
    stand_in = Line("x", "x", "s", [9], "other", [1], Target(ratio=2), is_peer_meant=False)
    assert stand_in.ratio == 9 and stand_in.holds is None


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", QUICK_ROWS)
def test_a_row_runs_and_says_what_it_measured(row: str) -> None:
    report = bench.run([row], plan=TINY)
    assert report.lines and {line.row for line in report.lines} == {row}
    for line in report.lines:
        assert len(line.ours) == TINY.repeats and min(line.ours) > 0
        assert len(line.peer) in (0, TINY.repeats)
        assert line.what in str(report)
    lines = json.loads(report.to_json())["lines"]
    assert [line["what"] for line in lines] == [line.what for line in report.lines]


@pytest.mark.slow
@pytest.mark.parametrize("row", ["memory", "start"])
def test_a_row_with_processes_of_its_own_runs(row: str) -> None:
    report = bench.run([row], plan=TINY)
    assert len(report.lines) == 4
    for line in report.lines:
        assert min(line.ours) > 0 and line.holds is not None or line.target is None


@pytest.mark.slow
def test_maskable_ppo_is_measured_beside_the_wrapper() -> None:
    pytest.importorskip("sb3_contrib", reason="needs the extra sb3")
    (line,) = bench.run(["sb3"], plan=TINY).lines
    assert len(line.ours) == len(line.peer) == TINY.repeats and line.ratio is not None


@pytest.mark.parametrize("row", ["playouts", "batch"])
def test_openspiel_is_measured_where_it_is_asked_for(row: str) -> None:
    pytest.importorskip("pyspiel", reason="needs the extra openspiel")
    report = bench.run([row], vs="openspiel", plan=TINY)
    assert all(line.peer_name.startswith("OpenSpiel") and line.ratio for line in report.lines)
    assert report.lines[0].holds is not None
    alone = bench.run([row], plan=TINY).lines
    assert not any(line.peer for line in alone)
    assert alone[0].notes == ["not compared: --vs openspiel asks for it"]


def test_openspiel_missing_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    (line,) = bench.run(["playouts"], vs="openspiel", plan=TINY).lines
    assert line.holds is None and not line.peer
    assert line.notes[0].startswith("not compared: OpenSpiel is not installed")


def without_classics(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in CLASSIC.values():
        monkeypatch.setitem(sys.modules, f"pettingzoo.classic.{module}", None)


@pytest.mark.parametrize("row", ["aec", "raw"])
def test_no_classic_environment_is_said_so(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_classics(monkeypatch)
    (line,) = bench.run([row], plan=TINY).lines
    assert line.ours and not line.peer and line.ratio is None
    assert all(name in line.notes[0] for name in CLASSIC)


def test_another_classic_environment_is_named_and_decides_no_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_classics(monkeypatch)
    stand_in = ModuleType("tictactoe")
    vars(stand_in)["env"] = judgement_v0.env
    monkeypatch.setitem(sys.modules, f"pettingzoo.classic.{CLASSIC['tictactoe_v3']}", stand_in)
    (line,) = bench.run(["aec"], plan=TINY).lines
    assert line.peer_name == "tictactoe_v3" and line.ratio is not None
    assert line.holds is None and "leduc_holdem_v4" in line.notes[0]


def test_sb3_missing_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "judgement_env.integrations.sb3", None)
    (line,) = bench.run(["sb3"], plan=TINY).lines
    assert not line.ours and line.holds is None and line.notes[0].startswith("not measured")


def test_loops_count_the_decisions_that_matches_have() -> None:
    rules = Rules.preset("kachuful", num_players=3, cards=[2, 1])
    length = 3 * (2 + 1) + 3 * (1 + 1)
    assert agent_iteration(judgement_v0.env(rules), 1)()[0] == length
    assert observe_and_step(judgement_v0.raw_env(rules), length + 1)()[0] == 2 * length


def test_tables_of_a_measured_batch_stand_at_all_places_of_their_matches() -> None:
    batch = BatchEnv("kachuful", num_tables=280, dtype="uint8", copy=False)
    bench_rows.batch_steps(batch)
    places = set(zip(batch.tables["round"], batch.tables["trick"], strict=True))
    assert places == {(i, trick) for i in range(7) for trick in range(7 - i)}


# --- the report -----------------------------------------------------------------------------------


def test_a_report_survives_json() -> None:
    report = bench.run(["threads", "rounds"], plan=TINY)
    data = json.loads(report.to_json())
    assert data["format"] == "judgement-bench/1"
    assert set(data) == {"format", "machine", "versions", "plan", "lines"}
    assert data["versions"]["numba"] and data["machine"]["cores"]
    for line in data["lines"]:
        assert set(line["samples"]) == {"ours", "peer", "ratio"}
    assert bench.Report.from_dict(data).to_dict() == data
    with pytest.raises(ValueError, match="format: 'other'"):
        bench.Report.from_dict({**data, "format": "other"})


def test_figures_are_short() -> None:
    rate = "decisions/s"
    shown = [bench.number(value, rate) for value in (12.3, 999, 1234, 99_960, 999_700, 41_234_567)]
    assert shown == ["12", "999", "1.23 k", "100.0 k", "1.00 M", "41.2 M"]
    assert bench.number(0.123, "s") == "0.12 s" and bench.number(299.6, "MB") == "300 MB"
    assert bench.target_text(Target(ratio=2, at_least=1e5), rate) == "2x, >= 100 k"
    assert bench.target_text(Target(at_most=500), "MB") == "<= 500 MB"


def test_the_command_prints_a_table_or_json_and_refuses_what_there_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "QUICK", TINY)
    assert main(["bench", "playouts", "--quick"]) == 0
    assert "random play inside the engine" in capsys.readouterr().out
    assert main(["bench", "playouts", "--quick", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["lines"]) == 1
    assert main(["bench", "playout", "--quick"]) == 2
    assert "did you mean 'playouts'?" in capsys.readouterr().err
    with pytest.raises(ValueError, match="vs: 'rlcard'"):
        bench.run([], vs="rlcard")


def test_the_page_shows_the_report_beside_it() -> None:
    path = ROOT / "docs" / "generate_performance.py"
    spec = importlib.util.spec_from_file_location("generate_performance", path)
    assert spec is not None and spec.loader is not None
    generate: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    text = generate.PAGE.read_text(encoding="utf-8")
    report = generate.read_report()
    assert {line.row for line in report.lines} == set(ROWS)
    assert generate.page_with_tables(text, report) == text
