"""What the benchmark measures, one function a row: ours, the peer in turn with it, the target.

Each takes the plan and whether OpenSpiel is asked for, and returns lines. A peer that cannot be
run is named in the line's notes, and nothing stands in its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from judgement_env.batch import BatchEnv
from judgement_env.bench_clock import (
    Contestant,
    Line,
    Plan,
    Target,
    race,
    thread_clock,
    wall_clock,
)
from judgement_env.bench_peers import (
    CLASSIC,
    agent_iteration,
    classic,
    observe_and_step,
    openspiel_rollouts,
    openspiel_steps,
)
from judgement_env.engine import begin_match
from judgement_env.playouts import play_random, random_actions
from judgement_env.rules import Rules
from judgement_env.state import new_tables, pack_rules

NOT_ASKED: Final = "not compared: --vs openspiel asks for it"
NEEDED: Final = next(iter(CLASSIC))
MEGABYTE: Final = 1e6
CHILD_SECONDS: Final = 600

# --- compiled playouts and batches ----------------------------------------------------------------


def random_playouts(num_decisions: int) -> Contestant:
    """Random play inside the engine, one call for many decisions."""
    rules, tables = pack_rules([Rules.preset("kachuful")]), new_tables(1)
    begin_match(rules[0], tables[0], 0, int(rules[0].num_rounds) - 1, 0)
    state = np.ones(1, np.uint64)

    def play() -> tuple[int, float]:
        start = thread_clock()
        play_random(rules[0], tables[0], num_decisions, state)
        return num_decisions, thread_clock() - start

    return play


def batch_steps(batch: BatchEnv, clock: Callable[[], float] = thread_clock) -> Contestant:
    """Steps of a batch with random actions; these are drawn by a kernel, off the clock.

    Its tables stand at all places of their matches, so that every slice has the same mixture of
    bids, plays and deals.
    """
    batch.reset()
    rules, state = pack_rules(batch.rules), np.ones(1, np.uint64)
    for i in range(batch.num_tables):
        r = rules[int(batch.tables["rules"][i])]
        play_random(r, batch.tables[i], i % _match_length(batch.rules[0]), state)
    batch.refresh()
    actions = np.zeros(batch.num_tables, np.int64)
    num_steps = max(1, 16_384 // batch.num_tables)

    def play() -> tuple[int, float]:
        seconds = 0.0
        for _ in range(num_steps):
            random_actions(rules, batch.tables, state, actions)
            start = clock()
            batch.step(actions)
            seconds += clock() - start
        return num_steps * batch.num_tables, seconds

    return play


def _match_length(rules: Rules) -> int:
    """Decisions of a match without blind rounds."""
    return sum(rules.num_players * (1 + size) for size in rules.sizes)


def measure_playouts(plan: Plan, with_openspiel: bool) -> list[Line]:
    """Random play in the engine against OpenSpiel's C++."""
    ours = random_playouts(100_000)
    what = "random play inside the engine"
    target = Target(ratio=8)
    peers, notes = _openspiel(with_openspiel, lambda: [openspiel_rollouts(500)])
    rates = race([ours, *peers], plan)
    line = Line("playouts", what, RATE, rates[0], target=target, notes=notes)
    return [_against(line, "OpenSpiel, C++ rollouts", rates[1:])]


def measure_batch(plan: Plan, with_openspiel: bool) -> list[Line]:
    """`BatchEnv.step`, observation and mask of every decision written, against OpenSpiel."""
    forms = [("uint8", False), ("float32", False), ("uint8", True), ("float32", True)]
    ours = [
        batch_steps(BatchEnv("kachuful", plan.num_tables, dtype=dtype, copy=copy))
        for dtype, copy in forms
    ]
    peers, notes = _openspiel(
        with_openspiel, lambda: [openspiel_steps(20, False), openspiel_steps(20, True)]
    )
    rates = race([*ours, *peers], plan)
    lines: list[Line] = []
    for (dtype, copy), rate in zip(forms, rates, strict=False):
        what = f"BatchEnv.step, {plan.num_tables:,} tables, {dtype}" + ", copies" * copy
        is_first = not lines
        target = Target(ratio=30) if is_first else None
        line = Line("batch", what, RATE, rate, target=target, notes=notes if is_first else ())
        lines.append(_against(line, "OpenSpiel, observer and mask", rates[4:5]))
    if peers:
        again = Line("batch", lines[0].what, RATE, rates[0])
        lines.append(_against(again, "OpenSpiel, mask copied into an array", rates[5:]))
    return lines


def measure_threads(plan: Plan, with_openspiel: bool) -> list[Line]:
    """The same batch in two threads and in one, in seconds that pass."""
    one, two = (
        batch_steps(
            BatchEnv("kachuful", plan.num_tables, dtype="uint8", copy=False, threads=threads),
            wall_clock,
        )
        for threads in (1, 2)
    )
    rates = race([two, one], plan)
    notes = [] if (os.cpu_count() or 1) > 1 else ["this machine has one core"]
    what = f"BatchEnv.step, {plan.num_tables:,} tables, uint8, two threads"
    line = Line("threads", what, RATE, rates[0], target=Target(ratio=1.8), notes=notes)
    return [_against(line, "one thread", rates[1:])]


# --- environments stepped from Python -------------------------------------------------------------


def measure_aec(plan: Plan, with_openspiel: bool) -> list[Line]:
    """`judgement_v0.env()` in a plain `agent_iter` loop, against leduc hold'em in the same loop."""
    from judgement_env import judgement_v0

    ours = agent_iteration(judgement_v0.env(), 100)
    line = Line("aec", "AEC env(), agent_iter loop", RATE, (), target=Target(ratio=4))
    return [_against_classic(line, ours, "env", agent_iteration, plan)]


def measure_raw(plan: Plan, with_openspiel: bool) -> list[Line]:
    """`raw_env()`, `observe` and `step` alone, against leduc hold'em's."""
    from judgement_env import judgement_v0

    ours = observe_and_step(judgement_v0.raw_env(), 100)
    target = Target(ratio=2, at_least=100_000)
    line = Line("raw", "AEC raw_env(), observe + step", RATE, (), target=target)
    return [_against_classic(line, ours, "raw_env", observe_and_step, plan)]


def _against_classic(
    line: Line,
    ours: Contestant,
    maker: str,
    loop: Callable[[Any, int], Contestant],
    plan: Plan,
) -> Line:
    """The line measured beside the classic environment that there is."""
    try:
        name, env, reasons = classic(maker)
    except ImportError as error:
        return replace(line, ours=race([ours], plan)[0], notes=[f"no peer: {error}"])
    rates = race([ours, loop(env, 100)], plan)
    notes = [f"{name} runs in place of {NEEDED} ({'; '.join(reasons)})"] if reasons else []
    return replace(
        line,
        ours=rates[0],
        peer_name=name,
        peer=rates[1],
        is_peer_meant=name == NEEDED,
        notes=notes,
    )


def measure_vector(plan: Plan, with_openspiel: bool) -> list[Line]:
    """Gymnasium's vector environment, one learner a table against three heuristic bots."""
    import gymnasium

    num_envs = plan.num_tables // 4
    env = gymnasium.make_vec(
        "judgement_env:Judgement-v0", num_envs=num_envs, opponents="heuristic", copy=False
    )
    rates = race([vector_steps(env)], plan)
    what = f"Gymnasium VectorEnv, {num_envs:,} learners"
    notes = ["decisions of the learners; their three heuristic opponents' are not counted"]
    return [Line("vector", what, RATE, rates[0], target=Target(at_least=50_000), notes=notes)]


def vector_steps(env: Any) -> Contestant:
    """Steps of a Gymnasium vector environment with random legal actions, drawn off the clock."""
    rng = np.random.default_rng(0)
    _, infos = env.reset(seed=0)
    shown = [infos["action_mask"]]

    def play() -> tuple[int, float]:
        mask = shown[0]
        actions = (mask * (rng.random(mask.shape, np.float32) + 1)).argmax(axis=1)
        start = thread_clock()
        _, _, _, _, infos = env.step(actions)
        seconds = thread_clock() - start
        shown[0] = infos["action_mask"]
        return len(actions), seconds

    return play


def measure_sb3(plan: Plan, with_openspiel: bool) -> list[Line]:
    """MaskablePPO, learning included, on ours and on the wrapper of PettingZoo's tutorial."""
    line = Line("sb3", "MaskablePPO, collecting and learning", RATE, (), target=Target(ratio=10))
    seconds, batch = plan.learning_seconds, plan.learning_batch
    changes = {"batch_size": batch // 4}
    ours, peer = [], []
    try:
        from judgement_env import bench_sb3

        tables = min(bench_sb3.TABLES, batch // 2)
        for _ in range(plan.repeats):
            native = bench_sb3.sb3_native_rate(seconds, tables, n_steps=batch // tables, **changes)
            ours.append(native)
            peer.append(bench_sb3.sb3_wrapper_rate(seconds, n_steps=batch, **changes))
    except ImportError as error:
        return [replace(line, notes=[f"not measured: {error}"])]
    notes = [
        "seconds that pass, one thread of torch; ours makes the decisions of one seat against three"
        " heuristic bots, the wrapper those of all seats"
    ]
    return [
        _against(
            replace(line, ours=ours, notes=notes), "the wrapper of PettingZoo's tutorial", [peer]
        )
    ]


# --- memory and starts ----------------------------------------------------------------------------


def measure_memory(plan: Plan, with_openspiel: bool) -> list[Line]:
    """Memory of a large batch, in a process of its own."""
    forms = [("uint8", False), ("float32", False), ("uint8", True), ("float32", True)]
    lines = []
    for dtype, copy in forms:
        program = (
            "from judgement_env.bench_rows import batch_memory;"
            f"print(*batch_memory({plan.many_tables}, {dtype!r}, {copy}))"
        )
        resident, arrays = map(float, _child(program).split())
        what = f"BatchEnv, {plan.many_tables:,} tables, {dtype}" + ", copies" * copy
        target = Target(at_most=500)
        notes = [f"{what}: {arrays / MEGABYTE:.0f} MB of arrays, by tracemalloc"]
        value = resident or arrays
        lines.append(Line("memory", what, "MB", [value / MEGABYTE], target=target, notes=notes))
    return lines


def batch_memory(num_tables: int, dtype: str, copy: bool) -> tuple[int, int]:
    """Bytes that a batch took at most: of the process (0 where that is not known), of arrays.

    The kernels are loaded beforehand, by a small batch, and count as the process's own.
    """
    _play_batch(2, dtype, copy)
    before = _status_bytes("VmRSS")
    tracemalloc.start()
    _play_batch(num_tables, dtype, copy)
    arrays = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return max(0, _status_bytes("VmHWM") - before), arrays


def _play_batch(num_tables: int, dtype: str, copy: bool) -> None:
    batch = BatchEnv("kachuful", num_tables, dtype=dtype, copy=copy)
    batch.reset()
    for _ in range(3):
        batch.step(batch.action_mask.argmax(axis=1))


def _status_bytes(name: str) -> int:
    """A line of the process's status in bytes; 0 where the system tells none."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    found = (line.split() for line in lines if line.startswith(f"{name}:"))
    return next((int(words[1]) * 1024 for words in found), 0)


def measure_starts(plan: Plan, with_openspiel: bool) -> list[Line]:
    """Imports, and starts of a process that finds its kernels compiled."""
    public = "from judgement_env import *"
    step = (
        "from judgement_env import BatchEnv; b = BatchEnv('kachuful', 4); b.reset();"
        " b.step(b.action_mask.argmax(axis=1))"
    )
    rules = "from judgement_env.cli import main; main(['rules'])"
    return [
        _start("import judgement_env", "import judgement_env", 1, plan),
        _start("import of every public name", public, 1, plan),
        _start("a process that steps a BatchEnv", step, 2, plan),
        _start("`judgement rules`", rules, 2, plan),
    ]


def _start(what: str, program: str, limit: float, plan: Plan) -> Line:
    """A program in a process of its own: its processor time, the interpreter's start included."""
    timed = (
        "import time; begin = time.perf_counter()\n"
        f"{program}\n"
        "print()\nprint(time.process_time(), time.perf_counter() - begin)"
    )
    _child(timed)
    samples = [_child(timed).splitlines()[-1].split() for _ in range(plan.repeats)]
    seconds = [float(words[0]) for words in samples]
    passed = sorted(float(words[1]) for words in samples)[plan.repeats // 2]
    notes = [f"{what}: {passed:.2f} s passed on the clock, the interpreter's start left out"]
    return Line("start", what, "s", seconds, target=Target(at_most=limit), notes=notes)


def _child(program: str) -> str:
    """What a program prints that runs in a process of its own."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise RuntimeError(f"a process of the benchmark failed: {last}")
    return done.stdout


# --- how cost grows -------------------------------------------------------------------------------


def measure_tables(plan: Plan, with_openspiel: bool) -> list[Line]:
    """The same step with more and more tables."""
    sizes = [plan.num_tables * factor // 4 for factor in (1, 4, 16, 64)]
    batches = [_batch("kachuful", size) for size in sizes]
    return _growth("tables", [f"{size:,} tables" for size in sizes], batches, plan)


def measure_players(plan: Plan, with_openspiel: bool) -> list[Line]:
    """Rounds of five cards with more and more players, one pack and two."""
    forms = [(packs, players) for packs in (1, 2) for players in (3, 4, 7, 10)]
    batches = []
    for packs, players in forms:
        rules = Rules.preset(
            "kachuful",
            num_players=players,
            packs=packs,
            cards="single",
            top=5,
            player_range=(2, 10),
        )
        batches.append(_batch(rules, plan.num_tables))
    names = [
        f"{players} players, {('one pack', 'two packs')[packs - 1]}" for packs, players in forms
    ]
    return _growth("players", names, batches, plan)


def measure_rounds(plan: Plan, with_openspiel: bool) -> list[Line]:
    """Matches of more and more rounds, of four cards each."""
    counts = (1, 7, 49, 343)
    batches = [
        _batch(Rules.preset("kachuful", cards=[4] * count), plan.num_tables) for count in counts
    ]
    names = [f"{count} rounds a match" if count > 1 else "1 round a match" for count in counts]
    return _growth("rounds", names, batches, plan)


def _batch(rules: str | Rules, num_tables: int) -> Contestant:
    return batch_steps(BatchEnv(rules, num_tables, dtype="uint8", copy=False))


def _growth(
    row: str, names: Sequence[str], batches: Sequence[Contestant], plan: Plan
) -> list[Line]:
    """A line for each batch, beside the first of them."""
    rates = race(batches, plan)
    lines = [Line(row, names[0], RATE, rates[0])]
    for name, rate in zip(names[1:], rates[1:], strict=True):
        lines.append(_against(Line(row, name, RATE, rate), names[0], rates[:1]))
    return lines


# --- all of them ----------------------------------------------------------------------------------

RATE: Final = "decisions/s"


def _openspiel(
    is_asked: bool, make: Callable[[], list[Contestant]]
) -> tuple[list[Contestant], list[str]]:
    """OpenSpiel's contestants where they are asked for and can be had, else none and why."""
    if not is_asked:
        return [], [NOT_ASKED]
    try:
        return make(), []
    except ImportError as error:
        return [], [f"not compared: OpenSpiel is not installed ({error})"]


def _against(line: Line, name: str, peers: Sequence[Sequence[float]]) -> Line:
    """The line beside the first of `peers`, alone where there is none."""
    return replace(line, peer_name=name, peer=peers[0]) if peers else line


class RowKind(NamedTuple):
    """A row that can be asked for."""

    help: str
    measure: Callable[[Plan, bool], list[Line]]


ROWS: Final[Mapping[str, RowKind]] = {
    "playouts": RowKind("random play inside the engine", measure_playouts),
    "batch": RowKind("BatchEnv.step, observations and masks written", measure_batch),
    "threads": RowKind("the same in two threads", measure_threads),
    "aec": RowKind("PettingZoo's env() in an agent_iter loop", measure_aec),
    "raw": RowKind("PettingZoo's raw_env(), observe and step", measure_raw),
    "vector": RowKind("Gymnasium's VectorEnv, heuristic opponents", measure_vector),
    "sb3": RowKind("MaskablePPO of sb3-contrib, learning included", measure_sb3),
    "memory": RowKind("memory of a large BatchEnv", measure_memory),
    "start": RowKind("imports, and starts with kernels compiled", measure_starts),
    "tables": RowKind("growth with the number of tables", measure_tables),
    "players": RowKind("growth with players and packs", measure_players),
    "rounds": RowKind("growth with the rounds of a match", measure_rounds),
}
GROWTH: Final = ("tables", "players", "rounds")
