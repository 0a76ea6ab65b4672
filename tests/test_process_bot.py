"""Bots in another process: what they are told, what is made of their answers, how they end."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from judgement_env import Table, make_bot
from judgement_env.bots import BotError
from judgement_env.bots.process import ProcessBot, continues

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "docs" / "examples" / "example_bot.py"

# Answers every message rightly: the first legal action.
HONEST = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "act":
        answer = {"action": message["view"]["legal"][0]}
    else:
        answer = {"ok": True, "name": "honest 2.0"}
    print(json.dumps(answer), flush=True)
"""
# Greets rightly, then does `BODY` with each message to act.
GREETS = """
import json, os, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] != "act":
        print('{"ok": true}', flush=True)
        continue
    legal = message["view"]["legal"]
    BODY
"""


def command(tmp_path: Path, source: str) -> str:
    path = tmp_path / "a bot.py"
    path.write_text(source, encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


def process(tmp_path: Path, source: str, **options: Any) -> ProcessBot:
    bot = make_bot("process:" + command(tmp_path, source), **options)
    assert isinstance(bot, ProcessBot)
    return bot


def small_table(seed: int = 3) -> Table:
    return Table({"num_players": 3, "cards": [2, 1]}, seed=seed, dealer=0)


def play(table: Table, bot: Any) -> None:
    while not table.is_over:
        table.push(bot.act(table.view(table.seat)))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def ends(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not is_running(pid):
            return True
        time.sleep(0.01)
    return False


# --- play -------------------------------------------------------------------------------------


def test_the_example_bot_plays_a_whole_match_against_heuristics() -> None:
    table = Table("kachuful", seed=5)
    with make_bot(f"process:{shlex.quote(sys.executable)} {shlex.quote(str(EXAMPLE))}") as example:
        seats = [example, *(make_bot("heuristic") for _ in range(3))]
        while not table.is_over:
            assert table.seat is not None
            table.push(seats[table.seat].act(table.view(table.seat)))
        example.match_over(table.record())
        assert example.name == "example 1.0"
    assert len(table.record()["rounds"]) == 7
    assert Table.from_record(table.record()).totals == table.totals


@pytest.mark.parametrize("preset", ["blind-eight", "up-and-down", "oh-hell"])
def test_the_example_bot_plays_every_seat_of_other_presets(preset: str) -> None:
    table = Table(preset, seed=5)
    with make_bot(f"process:{shlex.quote(sys.executable)} {shlex.quote(str(EXAMPLE))}") as example:
        play(table, example)
    assert table.is_over


def test_the_example_bot_is_thirty_lines_of_plain_python_and_stands_in_the_docs() -> None:
    source = EXAMPLE.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 30
    assert source in (ROOT / "docs" / "bots.md").read_text(encoding="utf-8")
    lines = source.splitlines()
    imported = {line.split()[1] for line in lines if line.startswith(("import", "from"))}
    assert imported <= {"json", "sys"}


def test_the_example_bot_beats_chance() -> None:
    totals = [0, 0]
    with make_bot(f"process:{shlex.quote(sys.executable)} {shlex.quote(str(EXAMPLE))}") as example:
        seats = [example, *(make_bot("random", seed=k) for k in range(3))]
        for seed in range(8):
            table = Table("kachuful", seed=seed)
            while not table.is_over:
                assert table.seat is not None
                table.push(seats[table.seat].act(table.view(table.seat)))
            totals[0] += table.totals[0]
            totals[1] += max(table.totals[1:])
    assert totals[0] > totals[1]


# --- what a program is told -------------------------------------------------------------------

LOGGING = HONEST.replace(
    "for line in sys.stdin:",
    "log = open(sys.argv[1], 'a')\nfor line in sys.stdin:\n    log.write(line); log.flush()",
)


def logging_bot(tmp_path: Path) -> tuple[ProcessBot, Path]:
    log = tmp_path / "log"
    bot = make_bot(f"process:{command(tmp_path, LOGGING)} {shlex.quote(str(log))}")
    assert isinstance(bot, ProcessBot)
    return bot, log


def messages(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_start_opens_each_match_and_end_closes_it_with_the_record_without_its_seed(
    tmp_path: Path,
) -> None:
    bot, log = logging_bot(tmp_path)
    with bot:
        records = []
        for seed in (3, 4):
            table = small_table(seed)
            play(table, bot)
            bot.match_over(table.record())
            bot.match_over(table.record())
            records.append(table.record())
    told = messages(log)
    kinds = [message["type"] for message in told]
    # 3 bids and 6 cards, then 3 bids and 3 cards; each seat of the bot was asked.
    match = ["start"] + ["act"] * 15 + ["end"]
    assert kinds == match + match
    assert told[0]["protocol"] == 1
    assert told[0]["num_players"] == 3
    assert told[0]["rules"] == records[0]["rules"]
    ends = [message["record"] for message in told if message["type"] == "end"]
    assert ends == [{**record, "seed": None} for record in records]
    assert bot.name == "honest 2.0"


def test_a_view_shows_the_program_nothing_its_seat_may_not_know(tmp_path: Path) -> None:
    bot, log = logging_bot(tmp_path)
    table = small_table()
    with bot:
        play(table, bot)
    for message in messages(log):
        if message["type"] == "act":
            view = message["view"]
            hands = view["rounds"][-1]["hands"]
            assert view["seed"] is None
            assert [s for s in range(3) if hands[s] is not None] == [view["seat"]]


def test_a_match_broken_off_is_closed_with_a_null_record_before_the_next_one(
    tmp_path: Path,
) -> None:
    bot, log = logging_bot(tmp_path)
    with bot:
        for seed in (3, 4):
            table = small_table(seed)
            for _ in range(4):
                table.push(bot.act(table.view(table.seat)))
    kinds = [message["type"] for message in messages(log)]
    assert kinds == ["start", *["act"] * 4, "end", "start", *["act"] * 4]
    assert messages(log)[5]["record"] is None


def test_a_match_goes_on_through_rounds_and_seats_but_not_backwards() -> None:
    table = Table({"num_players": 3, "cards": [2, 1], "bidding": "simultaneous"}, seed=3, dealer=0)
    sheets = []
    while not table.is_over:
        sheets.append(table.view(table.seat).to_dict())
        table.push(table.legal()[-1])
    for k, before in enumerate(sheets):
        for j, after in enumerate(sheets):
            # Before any bid is shown nothing tells the order of two hidden bids.
            if j >= k:
                assert continues(before, after)
            elif k > 3 and len(before["rounds"]) != len(after["rounds"]):
                assert not continues(before, after)
    other = small_table(4).view(1).to_dict()
    assert not continues(small_table(3).view(1).to_dict(), other)


def test_a_program_may_say_what_it_likes_on_its_error_output(tmp_path: Path) -> None:
    noise = "print('x' * 100_000, file=sys.stderr); print(json.dumps({'action': legal[0]}))"
    with process(tmp_path, GREETS.replace("BODY", noise + "; sys.stdout.flush()")) as bot:
        table = small_table()
        play(table, bot)
    assert table.is_over


# --- what is made of wrong answers ------------------------------------------------------------

SAYS = "print({!r}, flush=True)"
WRONG = {
    "an illegal bid": (SAYS.format('{"action": 9}'), "answered bid 9, which seat 1 may not do"),
    "a card it does not hold": (SAYS.format('{"action": "AS"}'), "answered AS, which seat 1"),
    "no card": (SAYS.format('{"action": "ZZ"}'), r"answered {'action': 'ZZ'} \(allowed"),
    "a boolean": (SAYS.format('{"action": true}'), r"answered {'action': True} \(allowed"),
    "a list as action": (SAYS.format('{"action": [1]}'), r"answered {'action': \[1\]} \(allowed"),
    "nothing": (SAYS.format("{}"), r"answered {} \(allowed"),
    "an empty line": (SAYS.format(""), "answered '' to act"),
    "no JSON": (SAYS.format("bid two"), "answered 'bid two' to act"),
    "no object": (SAYS.format("[2]"), r"answered '\[2\]' to act"),
    "bytes that are no text": (
        "sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush()",
        "answered '.*' to act",
    ),
    "a line without end": (
        "sys.stdout.write('x' * 500_000); sys.stdout.flush(); time.sleep(60)",
        "longer than 65536 bytes",
    ),
    "a crash": ("raise ZeroDivisionError('oh no')", "ended its output .*exit code 1.*oh no"),
    "an exit": ("os._exit(7)", "ended its output when it was sent act; exit code 7"),
    "a closed pipe": (
        "os.close(1); time.sleep(60)",
        "ended its output when it was sent act; it was killed",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_program_that_answers_nonsense_or_ends_is_named(tmp_path: Path, case: str) -> None:
    body, message = WRONG[case]
    with process(tmp_path, GREETS.replace("BODY", body), timeout=60) as bot:
        table = small_table()
        with pytest.raises(BotError, match=message) as caught:
            bot.act(table.view(1))
        assert f"process:{command(tmp_path, GREETS.replace('BODY', body))}" in str(caught.value)
        with pytest.raises(BotError, match=message):
            bot.act(table.view(1))


def test_a_slow_program_is_named_and_stopped(tmp_path: Path) -> None:
    bot = process(tmp_path, GREETS.replace("BODY", "time.sleep(600)"), timeout=0.2)
    assert bot._pipes is not None
    pid = bot._pipes.process.pid
    with pytest.raises(BotError, match=r"no answer to act within 0\.2 seconds; it was killed"):
        bot.act(small_table().view(1))
    assert not is_running(pid)


def test_a_program_that_never_reads_is_stopped_though_the_pipe_is_full(tmp_path: Path) -> None:
    table = Table({"num_players": 3, "cards": [1] * 600, "trumps": ["S"]}, seed=1)
    while table.round_index < 590:
        table.push(table.legal()[0])
    assert len(table.view(table.seat).to_json()) > 1 << 16
    source = "import time; input(); print('{\"ok\": true}', flush=True); time.sleep(600)"
    with process(tmp_path, source, timeout=0.3) as bot:
        with pytest.raises(BotError, match="no answer to act within"):
            bot.act(table.view(table.seat))


def test_a_program_that_does_not_answer_start_is_named(tmp_path: Path) -> None:
    with process(tmp_path, "import time; time.sleep(600)", start_timeout=0.2) as bot:
        with pytest.raises(BotError, match=r"no answer to start within 0\.2 seconds"):
            bot.act(small_table().view(1))


def test_a_program_that_refuses_start_is_named(tmp_path: Path) -> None:
    with process(tmp_path, "input(); print('{\"ok\": false}', flush=True); input()") as bot:
        with pytest.raises(BotError, match=r"answered {'ok': False} to start"):
            bot.act(small_table().view(1))


def test_a_program_that_speaks_unasked_is_named(tmp_path: Path) -> None:
    twice = "print(json.dumps({'action': legal[0]}) + chr(10) + 'thinking', flush=True)"
    with process(tmp_path, GREETS.replace("BODY", twice)) as bot:
        table = small_table()
        with pytest.raises(BotError, match="before it was sent act|answered 'thinking' to act"):
            play(table, bot)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("process:no-such-program-anywhere --fast", "cannot be started.*no-such-program-anywhere"),
        ("process:", "cannot be started: an empty command"),
        ("process:'unclosed", "cannot be started: No closing quotation"),
    ],
)
def test_a_program_that_cannot_be_started_is_named(spec: str, message: str) -> None:
    with pytest.raises(BotError, match=message):
        make_bot(spec)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": "fast"}, {"start_timeout": True}])
def test_a_time_limit_is_a_number_of_seconds(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))}: .*seconds above 0"):
        make_bot("process:true", **options)


# --- how it ends ------------------------------------------------------------------------------


def test_close_ends_the_program_and_its_children_and_may_be_repeated(tmp_path: Path) -> None:
    source = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\n" + HONEST
    )
    note = tmp_path / "child"
    bot = make_bot(f"process:{command(tmp_path, source)} {shlex.quote(str(note))}")
    bot.act(small_table().view(1))
    child = int(note.read_text())
    assert is_running(child)
    bot.close()
    bot.close()
    assert ends(child)
    with pytest.raises(BotError, match="was closed"):
        bot.act(small_table().view(1))


def test_a_program_that_keeps_running_after_its_input_is_killed(tmp_path: Path) -> None:
    source = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    bot = process(tmp_path, source)
    assert bot._pipes is not None
    pid = bot._pipes.process.pid
    bot.close()
    assert not is_running(pid)


def test_a_bot_left_open_takes_its_program_with_it(tmp_path: Path) -> None:
    program = (
        "from judgement_env import make_bot\n"
        f"bot = make_bot('process:' + {command(tmp_path, 'import time; time.sleep(600)')!r})\n"
        "print(bot._pipes.process.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert ends(int(done.stdout))


def test_an_action_is_asked_only_of_the_seat_to_act(tmp_path: Path) -> None:
    with process(tmp_path, HONEST) as bot:
        table = small_table()
        with pytest.raises(ValueError, match="seat 0 is not to act"):
            bot.act(table.view(0))
        assert bot.act(table.view(1)) == 52
