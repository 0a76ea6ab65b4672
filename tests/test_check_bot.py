"""check_bot passes what is right, and finds every fault that is planted here."""

from __future__ import annotations

import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgement_env import PRESETS, Table, make_bot
from judgement_env.bots import Bot, HeuristicBot
from judgement_env.cli import main
from judgement_env.contract import other_world, positions, rule_sets, world_of
from judgement_env.state import Array
from judgement_env.testing import ContractError, check_bot, load_bot
from judgement_env.view import View
from tests.contracts import FEW, SMALL, found

ROOT = Path(__file__).resolve().parent.parent

# --- bots -------------------------------------------------------------------------------------


class Lowest:
    """The least that is a bot: a method act."""

    def act(self, view: View) -> int:
        return min(view.legal)


def example_command() -> str:
    return f"process:{sys.executable} {ROOT / 'docs' / 'examples' / 'example_bot.py'}"


@pytest.mark.parametrize(
    "spec", ["random", "heuristic", "heuristic+", "models/kachuful", "process"]
)
def test_every_bot_of_the_package_keeps_its_contract(spec: str) -> None:
    sentences = check_bot(example_command() if spec == "process" else spec, rules=FEW)
    assert len(sentences) == 14 and "views" in sentences[-1]


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["heuristic", "heuristic+"])
def test_rules_of_thumb_keep_their_contract_under_all_rules(spec: str) -> None:
    assert len(check_bot(spec, positions=16)) == 14


def test_anything_with_act_is_checked() -> None:
    assert len(check_bot(Lowest(), rules=FEW)) == 14
    assert len(check_bot(HeuristicBot(), rules=SMALL)) == 14


def test_a_bot_that_draws_by_lot_without_a_policy_says_so() -> None:
    class Drawing(Lowest):
        def act(self, view: View) -> int:
            return random.choice(view.legal)

    with pytest.raises(ContractError, match="not deterministic"):
        check_bot(Drawing(), rules=FEW)
    assert check_bot(Drawing(), rules=FEW, deterministic=False)


class Hookless(Lowest):
    """Bids what the hook forbids."""

    def act(self, view: View) -> int:
        return min(view.legal) if view.forbidden_bid == -1 else 52 + view.forbidden_bid


class Floating(Lowest):
    def act(self, view: View) -> Any:
        return float(min(view.legal))


class Speechless(Lowest):
    def act(self, view: View) -> Any:
        return min(view.legal) if view.is_bidding else None


class Failing(Lowest):
    """Expects cards where a blind round shows none."""

    def act(self, view: View) -> int:
        return min(view.legal) if view.hand[0] >= 0 else 0


class Stateful(Lowest):
    """Remembers what it did the last time."""

    calls = 0

    def act(self, view: View) -> int:
        self.calls += 1
        return view.legal[self.calls % len(view.legal)]


class Remembering(Lowest):
    """Keeps a hand by round and moment, and so mixes up matches."""

    def __init__(self) -> None:
        self.first: dict[Any, int] = {}
        self.last: Any = None

    def act(self, view: View) -> int:
        # The same view twice in a row gets the same answer.
        if view.to_json() == self.last:
            return self.answer
        self.last = view.to_json()
        key = (view.round_index, view.seat, view.is_bidding)
        self.first[key] = self.first.get(key, 0) + 1
        self.answer = view.legal[self.first[key] % len(view.legal)]
        return self.answer


class Writing(Lowest):
    """Marks in the view what it has thought of."""

    def act(self, view: View) -> int:
        view.tables_array["total"][0, 0] += 1
        return min(view.legal)


class Bidding(Lowest):
    """Writes to rules that others share."""

    def act(self, view: View) -> int:
        view.rules_array["has_hook"][0] = 7
        return min(view.legal)


class ShortPolicy(Lowest):
    def policy(self, view: View) -> Array:
        policy = np.zeros(79)
        policy[list(view.legal)] = 0.9 / len(view.legal)
        return policy


class WidePolicy(Lowest):
    def policy(self, view: View) -> Array:
        return np.full(79, 1 / 79)


class OtherPolicy(Lowest):
    """Its policy never does what it does."""

    def policy(self, view: View) -> Array:
        policy = np.zeros(79)
        policy[max(view.legal)] = 1
        return policy


class Rows(HeuristicBot):
    """The heuristic with a fault in its rows to come."""


class OtherRows(Rows):
    def act(self, view: View) -> int:
        return min(view.legal)


class PeekingRows(Rows):
    """Counts the cards of the next seat."""

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = super().act_rows(rules, tables, rows)
        for j, row in enumerate(rows):
            t = tables[row]
            seat = (int(t["seat"]) + 1) % 3
            if t["phase"] == 0 and int(t["hand"][seat, 0]) % 3:
                actions[j] = 52 + (actions[j] == 52)
        return actions


class WritingRows(Rows):
    def act(self, view: View) -> int:
        return HeuristicBot().act(view)

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = super().act_rows(rules, tables, rows)
        tables["voids"][rows] = 15
        return actions


class ShapelessRows(Rows):
    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        return super().act_rows(rules, tables, rows).astype(np.float64)

    def act(self, view: View) -> int:
        return int(super().act(view))


class NeighbourRows(Rows):
    """The answer in one row changes with the number of rows."""

    def act(self, view: View) -> int:
        return int(super().act_rows(view.rules_array, view.tables_array, np.zeros(1, np.int64))[0])

    def act_rows(self, rules: Array, tables: Array, rows: Array) -> Array:
        actions = super().act_rows(rules, tables, rows)
        return actions if len(rows) == len(tables) and rows[0] == 0 else np.roll(actions, 1)


class Greedy(Lowest):
    """Spoils the record it is shown."""

    def match_over(self, record: dict[str, Any]) -> None:
        record["totals"][0] += 1


class Learning(Lowest):
    """Plays another way after a match."""

    place = 0

    def act(self, view: View) -> int:
        return view.legal[self.place]

    def match_over(self, record: dict[str, Any]) -> None:
        self.place = -1


class Unclosable(Lowest):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class Nameless(Bot):
    name = ""

    def act(self, view: View) -> int:
        return min(view.legal)


BOT_FAULTS: dict[type[Any], str] = {
    Nameless: "It has a name",
    Hookless: "Its answer is legal",
    Floating: "It answers every view",
    Speechless: "It answers every view",
    Failing: "It answers every view",
    Stateful: "It gives the same view the same answer",
    Remembering: "It gives the same view the same answer",
    Writing: "It leaves the view as it was",
    Bidding: "It leaves the view as it was",
    ShortPolicy: "Its policy",
    WidePolicy: "Its policy",
    OtherPolicy: "Its policy",
    OtherRows: "act_rows, where it has it, answers on the whole table",
    PeekingRows: "act_rows, where it has it, answers on the whole table",
    WritingRows: "act_rows, where it has it, answers whole numbers",
    ShapelessRows: "act_rows, where it has it, answers whole numbers",
    NeighbourRows: "act_rows, where it has it, answers each row for itself",
    Greedy: "It takes the record",
    Learning: "It takes the record",
    Unclosable: "It closes",
}


@pytest.mark.parametrize("bot", BOT_FAULTS, ids=lambda bot: bot.__name__)
def test_a_fault_planted_in_a_bot_is_found(bot: type[Any]) -> None:
    with pytest.raises(ContractError) as error:
        check_bot(bot(), rules=FEW, positions=20)
    assert found(error).startswith(BOT_FAULTS[bot]), error.value


def test_an_error_carries_the_match_up_to_the_position() -> None:
    with pytest.raises(ContractError) as error:
        check_bot(Hookless(), rules=FEW)
    assert error.value.record is not None
    table = Table.from_record(error.value.record)
    assert f"decision {table.decisions}, seat {table.seat}" in error.value.place
    assert Hookless().act(table.view(table.seat or 0)) not in table.legal()
    assert str(error.value).startswith("does not hold: Its answer is legal")


def test_what_has_no_act_is_no_bot() -> None:
    with pytest.raises(ValueError, match=r"bot: .*method act\(view\)"):
        check_bot(object())


# --- positions and worlds ---------------------------------------------------------------------


def test_positions_cover_every_preset_at_every_number_of_players() -> None:
    rules = rule_sets()
    assert len(set(rules)) == len(rules)
    for name, preset in PRESETS.items():
        low, high = preset.player_range
        for number in range(low, high + 1):
            assert preset.replace(num_players=number) in rules, name
    kinds = {(r.packs, r.is_simultaneous, r.is_turn_up, bool(r.blind_rounds)) for r in rules}
    assert len(kinds) >= 6


def test_positions_hold_bids_and_plays_of_each_of_the_rules() -> None:
    found = list(positions(FEW, seed=3, number=8))
    assert 3 * 6 <= len(found) <= 3 * 10
    for rules in FEW:
        views = [p.view for p in found if p.table.rules == rules]
        assert {view.is_bidding for view in views} == {True, False}
        assert all(view.seat_to_act == view.seat for view in views)


@pytest.mark.parametrize("index", range(len(rule_sets())))
def test_another_world_looks_the_same_and_is_another(index: int) -> None:
    rng = random.Random(index)
    changed = 0
    for position in positions(rule_sets()[index : index + 1], seed=index, number=6):
        table = position.table
        for seat in range(table.rules.num_players):
            world = other_world(table, seat, rng)
            other = Table(
                table.rules, seed=99, dealer=world.dealer, deals=world.deals,
                turn_ups=world.turn_ups,
            )  # fmt: skip
            for action in world.actions:
                other.push(action)
            assert other.view(seat).to_json() == table.view(seat).to_json()
            changed += world != world_of(table)
    assert changed


# --- the command ------------------------------------------------------------------------------


def test_the_command_prints_the_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "heuristic", "--rules=kachuful", "--cards=3,2", "--positions=4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 14 and all(line.startswith("ok  ") for line in lines)


def test_the_command_checks_a_class_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "class Mine:\n    def act(self, view):\n        return view.legal[0]\n"
        "class Broken:\n    def act(self, view):\n        return 52\n",
        encoding="utf-8",
    )
    assert main(["check", f"{path}:Mine", "--cards=2"]) == 0
    assert main(["check", f"{path}:Broken", "--cards=2"]) == 1
    assert "does not hold: Its answer is legal" in capsys.readouterr().out
    assert load_bot("models/kachuful") == "models/kachuful"


FILE_OF_BOTS = """
import os
class Needing:
    def __init__(self, depth): ...
    def act(self, view): ...
class Idle: ...
def failing(): raise RuntimeError("no disk")
def nothing(): return None
number = 3
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":Needing", r":Needing' is called with arguments: missing .*'depth' \(allowed: "),
        ("", r"mine.py' names no bot in the file \(allowed: .*mine.py:NAME\)"),
        (":Idle", r":Idle' makes a Idle without a method act\(view\)"),
        (":nothing", r":nothing' makes a NoneType without a method act\(view\)"),
        (":failing", r":failing' cannot be made: RuntimeError: no disk"),
        (":number", r"no class or function 'number' \(allowed: Needing, Idle, failing, nothing\)"),
        (":Other", r"no class or function 'Other' \(allowed: Needing, "),
    ],
)
def test_what_makes_no_bot_is_one_line_and_status_2(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE_OF_BOTS, encoding="utf-8")
    assert main(["check", f"{path}{name}", "--cards=2"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert re.search(message, err), err


def test_a_file_that_ends_the_program_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import sys\nsys.exit('usage: mine')\n", encoding="utf-8")
    with pytest.raises(ValueError, match="cannot be run: SystemExit: usage: mine"):
        load_bot(f"{path}:Mine")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("import sys", "ended its output"),
        ("print('hello')", "answered 'hello' to start"),
        ("print({})", "answered {} to start"),
    ],
)
def test_a_program_that_does_not_speak_the_protocol_is_no_bot_to_check(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = f"input(); {command}"
    spec = f"process:{shlex.join([sys.executable, '-c', program])}"
    assert main(["check", spec, "--cards=2"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert message in err


def test_the_examples_of_the_docs_run() -> None:
    for page in ("bots.md", "environment.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        section = text.partition("## Check your ")[2].partition("\n## ")[0]
        example = section.partition("```python\n")[2].partition("```")[0]
        assert "check_" in example
        done = subprocess.run(
            [sys.executable, "-c", example], capture_output=True, text=True, cwd=ROOT, timeout=600
        )
        assert done.returncode == 0, done.stderr


def test_make_bot_twice_gives_the_same_answers() -> None:
    views = [position.view for position in positions(FEW, seed=5, number=8)]
    first, second = [[int(bot.act(v)) for v in views] for bot in map(make_bot, ["random"] * 2)]
    assert first == second
