"""Write the generated tables of docs/environment.md: `python docs/generate_tables.py`.

Each table stands between a line `<!-- begin NAME -->` and a line `<!-- end NAME -->`; the rest of
the page is written by hand. A test fails when the page and the code disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from parts import with_parts

from judgement_env import PRESETS
from judgement_env.judgement_v0 import STATE_BLOCKS
from judgement_env.observation import BLOCKS, Block
from judgement_env.state import Array

PAGE = Path(__file__).parent / "environment.md"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def block_rows(blocks: Iterable[Block]) -> Iterable[list[str]]:
    """Name, first place, shape, raw and float form, meaning of each block in order."""
    start = 0
    for block in blocks:
        shape = "×".join(map(str, block.shape))
        offset = f" - {block.offset}" if block.offset else ""
        scaled = f"(raw{offset}) / {block.scale:g}" if offset else f"raw / {block.scale:g}"
        if block.scale == 1 and not block.offset:
            scaled = "raw"
        yield [f"`{block.name}`", str(start), shape, scaled, block.meaning]
        start += block.size


def observation_table() -> str:
    """The blocks of an observation."""
    return table(
        ["block", "from", "shape", "float32", "meaning of the raw value"], block_rows(BLOCKS)
    )


def state_table() -> str:
    """The blocks of `state()`."""
    rows = [
        [*row[:3], "as above" if row[0] == "`public`" else row[3], row[4]]
        for row in block_rows(STATE_BLOCKS)
    ]
    return table(["block", "from", "shape", "float32", "meaning of the raw value"], rows)


def points_text(points: Array, cards: int) -> str:
    """What a few bids earn in a round of so many cards."""
    made = [f"{bid}: {points[cards, bid, bid]}" for bid in (0, 1, 2, cards)]
    return f"{', '.join(made)}; missed 2 by one: {points[cards, 2, 1]}"


def presets_table() -> str:
    """The presets, as four players play them."""
    rows = []
    for name, rules in PRESETS.items():
        low, high = rules.player_range
        trumps = "turned up" if rules.is_turn_up else " ".join(rules.trumps)
        blind = [str(i) for i, plan in enumerate(rules.schedule, 1) if plan.is_blind]
        rows.append(
            [
                f"`{name}`",
                str(low) if low == high else f"{low}–{high}",
                " ".join(map(str, rules.sizes)),
                trumps,
                rules.direction,
                f"`{rules.scoring}`"
                + (f" + {rules.sweep_bonus} a trick" * (rules.sweep_bonus > 0)),
                points_text(rules.points, rules.max_cards),
                ", ".join(blind) or "none",
            ]
        )
    head = ["preset", "players", "cards, 4 players", "trumps", "direction", "scoring"]
    return table([*head, "points of bids made, largest round", "blind rounds"], rows)


TABLES = {"presets": presets_table, "observation": observation_table, "state": state_table}


def page_with_tables(text: str) -> str:
    """The page with every generated table written anew."""
    return with_parts(text, {name: make() for name, make in TABLES.items()}, PAGE.name)


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
