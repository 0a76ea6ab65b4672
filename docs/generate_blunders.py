"""Write the tables of docs/blunders.md: `python docs/generate_blunders.py`.

Each stands between a line `<!-- begin NAME -->` and a line `<!-- end NAME -->`; the rest of the
page is written by hand. A test fails when the page and the positions, or what the shipped bots do
in them, disagree.
"""

from __future__ import annotations

from pathlib import Path

from parts import SHIPPED, with_parts

from judgement_env.blunders import Position, answer_text, ask, chance_share, positions
from judgement_env.bots import make_bot
from judgement_env.cards import NO_TRUMP, NONE, SUITS, action_text

PAGE = Path(__file__).parent / "blunders.md"


def row(position: Position) -> str:
    """One line of the table."""
    view = position.view()
    trump = "NT" if view.trump == NO_TRUMP else SUITS[view.trump]
    hand = answer_text(view.hand) or "face down"
    trick = answer_text([card for _, card in view.trick])
    bids = " ".join("-" if bid == NONE else str(bid) for bid in view.bids)
    cells = [
        f"`{position.id}`",
        f"{position.preset}, {position.rules.num_players}",
        f"{view.num_cards} {trump}",
        hand,
        f"{bids}; {' '.join(map(str, view.won))}",
        trick,
        answer_text(position.right),
        position.proof,
        position.reason,
    ]
    return f"| {' | '.join(cells)} |"


def position_table() -> str:
    """All positions, as Markdown."""
    head = (
        "| id | preset, players | cards, trump | hand | bids; won | trick | right | proof | why |"
    )
    return "\n".join([head, "|" + "---|" * 9, *map(row, positions())])


def figure_table() -> str:
    """How many answers of each bot that comes with the package are right, and which are not."""
    specs = ["heuristic", "heuristic+", *SHIPPED]
    report = ask({spec: make_bot(spec) for spec in specs})
    number = len(report.positions)
    lines = [
        "| bot | right | share | wrong, and what it does there |",
        "|---|---|---|---|",
        f"| chance | | {chance_share(report.positions):.0%} | |",
    ]
    for spec in specs:
        wrong = ", ".join(
            f"`{position.id}` ({action_text(action)})" for position, action in report.wrong(spec)
        )
        right = f"{report.right(spec)} of {number}"
        lines.append(f"| `{spec}` | {right} | {report.share(spec):.0%} | {wrong} |")
    return "\n".join(lines)


TABLES = {"figures": figure_table, "positions": position_table}


def page_with_tables(page: str) -> str:
    """The page with its tables made anew."""
    return with_parts(page, {name: make() for name, make in TABLES.items()}, PAGE.name)


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
