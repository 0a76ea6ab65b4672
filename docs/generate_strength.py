"""Write the tables of docs/strength.md: `python docs/generate_strength.py`.

Figures come from the cards of the models that ship and from docs/strength.json, both written by
`python -m training.measure`. The tables stand between two marks, the rest of the page is written
by hand. A test fails when page and figures disagree.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parts import SHIPPED, with_parts

from judgement_env.arena_result import Estimate, with_half
from judgement_env.ladder_result import marked_down
from judgement_env.rules import PRESETS
from training.card import CARD, key_of

PAGE = Path(__file__).parent / "strength.md"
FIGURES = Path(__file__).parent / "strength.json"
HEAD = ["preset, players", "points", "over them", "in SD", "bids made", "matches won", "matches"]


def measured() -> dict[str, list[dict[str, Any]]]:
    """The rows of each bot, models first."""
    rows = {}
    for bot in SHIPPED:
        card = json.loads((PAGE.parent.parent / bot / CARD).read_text("utf-8"))
        rows[bot] = [with_game(row, card["rules"]) for row in card["measured"]]
    if FIGURES.is_file():
        for bot, kept in json.loads(FIGURES.read_text("utf-8")).items():
            rows[bot] = kept["measured"]
    return rows


def with_game(row: dict[str, Any], rules: list[dict[str, Any]]) -> dict[str, Any]:
    """The row; that of the export, which was played by the card's first rules, with their name."""
    preset, num_players, _ = key_of(row, rules)
    return row if "command" in row else {"preset": preset, "num_players": num_players, **row}


def estimate(row: dict[str, Any], name: str) -> Estimate:
    """A figure of a row with its interval."""
    return Estimate(row[name]["value"], row[name]["low"], row[name]["high"])


def cells(row: dict[str, Any]) -> list[str]:
    """One line of a table."""
    over = with_half(estimate(row, "difference"), "+.2f")
    is_clear = row["difference"]["low"] > 0 or row["difference"]["high"] < 0
    return [
        f"`{row['preset']}`, {row['num_players']}",
        with_half(estimate(row, "points"), ".2f"),
        f"**{over}**" if is_clear else over,
        with_half(estimate(row, "difference_sd"), "+.3f"),
        with_half(estimate(row, "hit_rate"), ".1f", 100) + " %",
        with_half(estimate(row, "win_share"), ".1f", 100) + " %",
        f"{row['matches']:,}",
    ]


def table_of(bot: str, rows: list[dict[str, Any]]) -> str:
    """A bot's tables, one for each opponent; rows without a preset are left to its card."""
    order = list(PRESETS)
    named = [row for row in rows if "preset" in row]
    parts = []
    for opponent in dict.fromkeys(row["opponents"][0] for row in named):
        mine = [row for row in named if row["opponents"][0] == opponent]
        mine.sort(key=lambda row: (order.index(row["preset"]), row["num_players"]))
        lines = marked_down([HEAD, *map(cells, mine)])
        parts.append(f"### `{bot}` alone among `{opponent}`\n\n" + "\n".join(lines))
    if times := sorted(row["milliseconds"] for row in named if "milliseconds" in row):
        middle = times[len(times) // 2]
        parts.append(
            f"One decision of `{bot}`, asked alone: {middle:.3g} ms in the median of these games,"
            f" {times[-1]:.3g} ms in the slowest."
        )
    return "\n\n".join(parts)


def tables() -> str:
    """All tables, as Markdown."""
    parts = [table_of(bot, rows) for bot, rows in measured().items()]
    return "\n\n".join(part for part in parts if part)


def page_with_tables(page: str) -> str:
    """The page with its tables made anew."""
    return with_parts(page, {"tables": f"\n{tables()}\n"}, PAGE.name)


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
