"""Decisions per second at every layer, beside the peers in the same run: `judgement bench`.

>>> report = run(["playouts"], plan=QUICK)
>>> report.lines[0].row
'playouts'
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from judgement_env import ENV_VERSION, __version__
from judgement_env.bench_clock import FULL, QUICK, Line, Plan, Target
from judgement_env.bench_rows import GROWTH, ROWS
from judgement_env.scoring import nearest

__all__ = ["FULL", "FORMAT", "PEERS", "QUICK", "ROWS", "Report", "machine", "run", "versions"]

FORMAT = "judgement-bench/1"
PEERS = ("openspiel",)
# Whatever takes part in a measurement, or is measured.
LIBRARIES = (
    "numpy",
    "numba",
    "llvmlite",
    "gymnasium",
    "pettingzoo",
    "open-spiel",
    "rlcard",
    "torch",
    "stable-baselines3",
    "sb3-contrib",
)
COMPARED = ("what", "ours", "the peer's", "peer", "ratio", "target", "holds")
GROWN = ("growth", "decisions/s", "ns each", "to the first")
METHOD = (
    "Medians of {repeats} samples. Ours and the peer take turns of {milliseconds:g} ms;",
    "a ratio is of one sample of each, its range in brackets. Seconds are the thread's own;",
    "for two threads and for sb3 they are those that pass.",
)


@dataclass(frozen=True)
class Report:
    """What one run measured, on which machine, with which versions."""

    lines: Sequence[Line]
    plan: Plan
    machine: Mapping[str, Any]
    versions: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON types; `lines` hold medians and all samples."""
        return {
            "format": FORMAT,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "plan": vars(self.plan).copy(),
            "lines": [line.to_dict() for line in self.lines],
        }

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """The report that `to_dict` wrote; ValueError for another format."""
        if data.get("format") != FORMAT:
            raise ValueError(f"format: {data.get('format')!r} (allowed: {FORMAT})")
        lines = [Line.from_dict(line) for line in data["lines"]]
        return cls(lines, Plan(**data["plan"]), data["machine"], data["versions"])

    def __str__(self) -> str:
        compared = [line for line in self.lines if line.row not in GROWTH]
        grown = [line for line in self.lines if line.row in GROWTH]
        parts = [[machine_text(self.machine), versions_text(self.versions)]]
        if compared:
            parts.append(aligned([COMPARED, *map(compared_cells, compared)]))
        if grown:
            parts.append(aligned([GROWN, *map(growth_cells, grown)]))
        notes = [note for line in self.lines for note in line.notes]
        parts.append([f"- {note}" for note in dict.fromkeys(notes)])
        parts.append([method_text(self.plan)])
        return "\n\n".join("\n".join(part) for part in parts if part)


def run(
    rows: Sequence[str] = (),
    *,
    vs: str | None = None,
    plan: Plan = FULL,
    progress: Callable[[int, int | None], None] | None = None,
) -> Report:
    """Measure the rows named, all by default, with OpenSpiel beside where `vs` is "openspiel".

    `progress` is called with how many rows are done of how many. Raises ValueError for a row or a
    peer that there is not.
    """
    if vs is not None and vs not in PEERS:
        raise ValueError(f"vs: {vs!r} (allowed: {', '.join(PEERS)})")
    for name in rows:
        if name not in ROWS:
            raise ValueError(f"row: {name!r}{nearest(name, ROWS)} (allowed: {', '.join(ROWS)})")
    chosen = [name for name in ROWS if name in rows or not rows]
    seen = machine()
    lines: list[Line] = []
    for done, name in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen))
        lines += ROWS[name].measure(plan, vs == "openspiel")
    if progress is not None:
        progress(len(chosen), len(chosen))
    return Report(lines, plan, seen, versions())


# --- the machine ----------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """The processor, its cores and cache, the system; "load": tasks that wanted a core before."""
    return {
        "processor": _cpu_field("model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "cache": _cpu_field("cache size"),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def _cpu_field(name: str) -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in found if key.strip() == name), None)


def versions() -> dict[str, str]:
    """The versions of the package, of Python and of the libraries that are installed."""
    found = {"judgement-env": __version__, "ENV_VERSION": str(ENV_VERSION)}
    found["python"] = ".".join(map(str, sys.version_info[:3]))
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


# --- the tables -----------------------------------------------------------------------------------


def machine_text(seen: Mapping[str, Any]) -> str:
    """The machine in one line."""
    words = [f"{seen['processor']}, {seen['cores']} cores", str(seen["system"])]
    if seen["load"] is not None:
        words.append(f"load {seen['load']:g} before")
    return "; ".join(words)


def versions_text(found: Mapping[str, str]) -> str:
    """The versions in one line."""
    return ", ".join(f"{name} {version}" for name, version in found.items())


def method_text(plan: Plan) -> str:
    """How the figures were taken."""
    milliseconds = plan.seconds * 1000
    return "\n".join(METHOD).format(repeats=plan.repeats, milliseconds=milliseconds)


def number(value: float, unit: str) -> str:
    """A measured value, short: rates with three digits, in k and M."""
    if unit != "decisions/s":
        return f"{value:.2f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:
            digits = max(0, 2 - math.floor(math.log10(max(1, value / size))))
            return f"{value / size:.{digits}f} {letter}"
    return f"{value:.0f}"


def target_text(target: Target | None, unit: str) -> str:
    """What is to be reached, in a few characters."""
    if target is None:
        return ""
    words = []
    if target.ratio is not None:
        words.append(f"{target.ratio:g}x")
    if target.at_least is not None:
        words.append(f">= {number(target.at_least, unit)}")
    if target.at_most is not None:
        words.append(f"<= {target.at_most:g} {unit}")
    return ", ".join(words)


def ratio_text(line: Line) -> str:
    """The median ratio and its range."""
    if line.ratio is None:
        return ""
    return f"{line.ratio:.3g}x [{min(line.ratios):.3g}-{max(line.ratios):.3g}]"


def compared_cells(line: Line) -> tuple[str, ...]:
    """What, ours, the peer's, who that is, ratio, target, whether it holds."""
    ours = number(median(line.ours), line.unit) if line.ours else "-"
    peer = number(median(line.peer), line.unit) if line.peer else "-"
    is_judged = line.target is not None
    verdict = {True: "yes", False: "NO", None: "?" if is_judged else ""}[line.holds]
    target = target_text(line.target, line.unit)
    return line.what, ours, peer, line.peer_name, ratio_text(line), target, verdict


def growth_cells(line: Line) -> tuple[str, ...]:
    """What, decisions a second, nanoseconds each, and the rate beside the first of its group."""
    rate = median(line.ours)
    return line.what, number(rate, line.unit), f"{1e9 / rate:.0f}", ratio_text(line) or "1x"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, columns two spaces apart, a rule under the first row."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]
