"""Write the tables of docs/bids.md: `python docs/generate_bids.py`.

They stand between two marks, the rest of the page is written by hand. A test fails when the page
and what the bots bid disagree.
"""

from __future__ import annotations

from pathlib import Path

from parts import with_parts

from judgement_env.bid_counts import compared_cells, count_bids
from judgement_env.ladder_result import marked_down
from judgement_env.rules import PRESETS, Rules
from judgement_env.scoring import SCHEMES

PAGE = Path(__file__).parent / "bids.md"
BOTS = ("heuristic+", "models/universal")
MATCHES = 2000
SEED = 1
# Presets whose mirror image bids alike are left out.
SHOWN = [name for name in PRESETS if name != "sweep-ten-anticlockwise"]


def scoring_table(bot: str) -> str:
    """The bids of a bot in hands of seven cards, by scoring."""
    counts = [
        count_bids(bot, Rules(cards=[7], scoring=scheme), matches=MATCHES, seed=SEED)
        for scheme in SCHEMES
    ]
    return "\n".join(marked_down(compared_cells(counts, [f"`{name}`" for name in SCHEMES])))


def preset_table(bot: str) -> str:
    """The bids of a bot in whole matches, by preset."""
    counts = [count_bids(bot, Rules.preset(name), matches=MATCHES, seed=SEED) for name in SHOWN]
    return "\n".join(marked_down(compared_cells(counts, [f"`{name}`" for name in SHOWN])))


def size_table(bot: str) -> str:
    """The bids of a bot in kachuful, by cards a hand."""
    return "\n".join(
        marked_down(count_bids(bot, "kachuful", matches=MATCHES, seed=SEED).to_cells())
    )


def tables() -> str:
    """All tables, as Markdown."""
    parts = []
    for bot in BOTS:
        parts += [
            f"## `{bot}`",
            "Seven cards, spades trump, by scoring:",
            scoring_table(bot),
            "Whole matches, by preset:",
            preset_table(bot),
            "`kachuful`, by cards a hand:",
            size_table(bot),
        ]
    return "\n\n".join(parts)


def page_with_tables(page: str) -> str:
    """The page with its tables made anew."""
    return with_parts(page, {"tables": f"\n{tables()}\n"}, PAGE.name)


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
