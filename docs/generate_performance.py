"""Write the measured tables of docs/performance.md from docs/performance.json.

    judgement bench --vs openspiel --json > docs/performance.json
    python docs/generate_performance.py

Each table stands between a line `<!-- begin NAME -->` and a line `<!-- end NAME -->`; the rest of
the page is written by hand. A test fails when the page and the report disagree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from parts import with_parts

from judgement_env import bench
from judgement_env.bench_rows import GROWTH

PAGE = Path(__file__).parent / "performance.md"
REPORT = Path(__file__).parent / "performance.json"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine_lines(report: bench.Report) -> str:
    """Where it was measured, with which versions, and how."""
    parts = [
        f"Measured on {bench.machine_text(report.machine)}.",
        f"Versions: {bench.versions_text(report.versions)}.",
        bench.method_text(report.plan),
    ]
    return "\n\n".join(parts)


def compared_table(report: bench.Report) -> str:
    """Every line beside its peer and its target, then their notes."""
    lines = [line for line in report.lines if line.row not in GROWTH]
    notes = [note for line in lines for note in line.notes]
    listed = "".join(f"\n- {note}" for note in dict.fromkeys(notes))
    return table(bench.COMPARED, [bench.compared_cells(line) for line in lines]) + f"\n{listed}"


def growth_table(report: bench.Report) -> str:
    """How a decision's cost changes with tables, players, packs and rounds."""
    lines = [line for line in report.lines if line.row in GROWTH]
    head = ["what", "decisions/s", "ns a decision", "rate to the first of its group"]
    return table(head, [bench.growth_cells(line) for line in lines])


PARTS = {"machine": machine_lines, "compared": compared_table, "growth": growth_table}


def page_with_tables(text: str, report: bench.Report) -> str:
    """The page with every generated part written anew."""
    return with_parts(text, {name: make(report) for name, make in PARTS.items()}, PAGE.name)


def read_report() -> bench.Report:
    """The report beside the page."""
    return bench.Report.from_dict(json.loads(REPORT.read_text(encoding="utf-8")))


if __name__ == "__main__":
    page = page_with_tables(PAGE.read_text(encoding="utf-8"), read_report())
    PAGE.write_text(page, encoding="utf-8")
