"""Measure a model in every game it covers and keep the figures in its card.json.

    python -m training.measure models/NAME [--seconds=60] [--processes=2] [--json=FILE]

For each preset of its card and 3, 4, 5, 6, 8 and 10 players, where allowed, the bot plays one
against a field of `heuristic` and of `search:worlds=40`. A row is kept as soon as it is measured;
a second run measures what is missing. `judgement_env.arena` plays; docs/strength.md shows the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, Final

# Until the libraries are loaded, Ctrl-C ends the process without a traceback.
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np

from judgement_env.arena import MAX_MATCHES, make_row
from judgement_env.arena_result import ONE
from judgement_env.arguments import whole
from judgement_env.bots import BotError, make_bot
from judgement_env.cli import hear_ctrl_c, split_bots
from judgement_env.files import check_writable, reason_of
from judgement_env.ladder import Game, decisions_to_time, time_alone
from judgement_env.rules import PRESETS, Rules, make_rules
from judgement_env.scoring import nearest
from training.card import CARD, WEIGHTS, changed, check_rows, covered, key_of
from training.evaluate import Parser

OPPONENTS: Final = ("heuristic", "search:worlds=40")
PLAYERS: Final = (3, 4, 5, 6, 8, 10)
# Rows with figures by cards: those of the usual table; of all others they would fill the card.
USUAL_PLAYERS: Final = 4
SEED: Final = 20_000
# Deals before the pace of a row is known.
FIRST_DEALS: Final = 16

# --- what to measure --------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One row to measure: a bot alone among copies of another."""

    bot: str
    opponent: str
    preset: str
    num_players: int
    matches: int
    seconds: float
    seed: int

    @property
    def key(self) -> tuple[str, int, str]:
        """What tells its row from others of the bot."""
        return self.preset, self.num_players, self.opponent

    @property
    def rules(self) -> Rules:
        """The rules played by."""
        return make_rules(self.preset, self.num_players)


def games(presets: Sequence[str], players: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Each preset with each number of players it is made for, the usual table first."""
    order = sorted(players, key=lambda number: (number != USUAL_PLAYERS, number))
    for number in order:
        for preset in presets:
            low, high = PRESETS[preset].player_range
            if low <= number <= high:
                yield preset, number


# --- measuring --------------------------------------------------------------------------------


def measure_row(task: Task, clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """Play a task for its time or up to its matches; return its row as plain data.

    Deals are played from the first one on, so that the same number of matches gives the same
    figures. The time of a decision is that of one asked alone.
    """
    rules = task.rules
    with make_bot(task.bot, seed=task.seed) as bot, make_bot(task.opponent, task.seed + 1) as field:
        milliseconds = time_alone(bot, decisions_to_time(rules, task.seed))
        bots, names = [bot, field], [task.bot, task.opponent]
        most = -(-task.matches // rules.num_players)
        lineup = np.ones(rules.num_players, np.int64)
        lineup[0] = 0
        lineups = np.broadcast_to(lineup, (most, rules.num_players))
        # What is compiled on first use is no part of the pace.
        Game(ONE, [0, 1], lineups, rules.num_players).play(bots, names, rules, task.seed, 1, None)
        game = Game(ONE, [0, 1], lineups, rules.num_players)
        begun = clock()
        step = FIRST_DEALS
        while game.deals < most:
            game.play(bots, names, rules, task.seed, min(most, game.deals + step), None)
            spent = clock() - begun
            left = task.seconds - spent
            if left <= 0:
                break
            # As many as there is time for, but never more than have been played so far.
            step = max(1, int(min(game.deals, game.deals / max(spent, 1e-9) * left)))
    row = make_row(game.measured, 0, names, ONE, (task.opponent,))
    return _plain_row(task, row.to_dict(), milliseconds)


def _plain_row(task: Task, row: dict[str, Any], milliseconds: float) -> dict[str, Any]:
    if task.num_players != USUAL_PLAYERS:
        del row["by_cards"]
    matches = row["matches"]
    command = (
        f"python -m training.evaluate {task.bot} {task.opponent} --rules={task.preset}"
        f" --num_players={task.num_players} --formats={ONE} --matches={matches}"
        f" --seed={task.seed}"
    )
    return {
        "preset": task.preset,
        "num_players": task.num_players,
        **row,
        "seed": task.seed,
        "milliseconds": round(milliseconds, 4),
        "command": command,
    }


class Store:
    """The file that rows are kept in: a model's card, or a file for bots that have none."""

    def __init__(self, bot: str, file: str | None) -> None:
        """Read it; ValueError where it cannot hold rows of this bot."""
        self.is_card = is_card = file is None
        self.bot = bot
        self.argument = "bot" if is_card else "--json"
        self.path = Path(bot) / CARD if file is None else Path(file)
        if is_card and not self.path.is_file():
            raise ValueError(
                f"bot: {bot!r} has no {CARD} (allowed: a model's folder, or --json=FILE for others)"
            )
        self.content = self._read(is_card)
        place = self.content if is_card else self.content.setdefault(bot, {})
        self.rows: list[dict[str, Any]] = place.setdefault("measured", [])
        self.rules: list[dict[str, Any]] = place.get("rules", [])

    def _read(self, is_card: bool) -> dict[str, Any]:
        """What the file holds, nothing where there is none yet; ValueError where it is no such."""
        allowed = (
            "the card of a model" if is_card else "a file that this command wrote, or a new one"
        )
        try:
            if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
                # A device might give bytes without end.
                raise ValueError("no regular file")
            content: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            for place in [{"measured": [], **content}] if is_card else content.values():
                check_rows(place)
        except FileNotFoundError:
            return {}
        except OSError as error:
            fault = f"cannot be read: {reason_of(error)}"
        except ValueError as error:
            fault = f"cannot be read as rows: {error}"
        except (AttributeError, LookupError, TypeError):
            fault = "cannot be read as rows"
        else:
            return content
        raise ValueError(f"{self.argument}: {str(self.path)!r} {fault} (allowed: {allowed})")

    def check_writable(self) -> None:
        """Raise ValueError where no row could be kept."""
        check_writable(self.argument, self.path)

    def missing(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks that have no row yet."""
        return [task for task in tasks if not self.has(task.key)]

    def has(self, key: tuple[str, int, str]) -> bool:
        """Whether a row is there."""
        return any(key_of(row, self.rules) == key for row in self.rows)

    def keep(self, key: tuple[str, int, str], row: dict[str, Any]) -> None:
        """Put a row in the place of the one before, or behind all others, and write the file.

        What others have written since it was read stays; ValueError where the model is another now.
        """
        with changed(self.path, may_be_new=not self.is_card) as content:
            if self.is_card and content.get(WEIGHTS) != self.content.get(WEIGHTS):
                raise ValueError(
                    f"{self.path}: of another model now than when measuring began; measure it again"
                )
            place = content if self.is_card else content.setdefault(self.bot, {})
            self.rows = place.setdefault("measured", [])
            for at, old in enumerate(self.rows):
                if key_of(old, self.rules) == key:
                    self.rows[at] = row
                    break
            else:
                self.rows.append(row)


def measure(
    store: Store,
    tasks: Sequence[Task],
    processes: int = 1,
    report: Callable[[str], None] | None = None,
) -> int:
    """Measure each task that has no row yet and keep its row; return how many there were."""
    missing = store.missing(tasks)
    if missing:
        store.check_writable()

    def keep(task: Task, row: dict[str, Any]) -> None:
        # Said first: figures that a full disk does not take are on the screen at least.
        if report is not None:
            report(line_of(row))
        store.keep(task.key, row)

    if processes == 1:
        for task in missing:
            keep(task, measure_row(task))
        return len(missing)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        waiting: dict[Future[dict[str, Any]], Task] = {
            pool.submit(measure_row, task): task for task in missing
        }
        try:
            for future in as_completed(waiting):
                keep(waiting[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Ctrl-C reaches them as well, a signal to this process alone does not.
            for child in active_children():
                child.terminate()
            raise
    return len(missing)


def line_of(row: dict[str, Any]) -> str:
    """A row in words, one line."""
    over = row["difference"]
    # One deal says nothing about how far deals lie apart.
    ends = [f"{over[end]:+.3f}" if over[end] is not None else "?" for end in ("low", "high")]
    return (
        f"{row['preset']}, {row['num_players']} players, against {row['opponents'][0]}:"
        f" {over['value']:+.3f} ({' to '.join(ends)}) points a round,"
        f" {row['matches']:,} matches, {row['milliseconds']:.2f} ms a decision"
    )


# --- command line -----------------------------------------------------------------------------


def make_parser() -> argparse.ArgumentParser:
    """The command line of this module."""
    parser = Parser(
        prog="training.measure",
        usage="python -m training.measure BOT [options]",
        description="Measure a bot in every preset it covers; its card keeps the figures.",
        allow_abbrev=False,
    )
    parser.add_argument("bot", metavar="BOT", help="a model's folder; with --json any bot")
    parser.add_argument(
        "--presets", metavar="NAMES", help="with commas, or all (default: those of its card)"
    )
    parser.add_argument(
        "--players",
        default=",".join(map(str, PLAYERS)),
        metavar="NUMBERS",
        help="with commas (default: %(default)s)",
    )
    parser.add_argument(
        "--opponents",
        default=",".join(OPPONENTS),
        metavar="BOTS",
        help="with commas (default: %(default)s)",
    )
    parser.add_argument(
        "--matches",
        type=int,
        default=30_000,
        metavar="N",
        help="of a row, at most (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        metavar="S",
        help="for a row, at most, after its first deals (default: 60)",
    )
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="rows side by side (default: 1)"
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, metavar="N", help="of the deals (default: %(default)s)"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="keep the rows there instead of in the model's card"
    )
    parser.add_argument(
        "--list", action="store_true", help="print what is missing, measure nothing"
    )
    return parser


def make_tasks(given: argparse.Namespace, rules: Sequence[dict[str, Any]]) -> list[Task]:
    """All rows that are asked for; ValueError naming what is wrong."""
    presets = covered(rules)
    if given.presets is not None:
        presets = list(PRESETS) if given.presets == "all" else given.presets.split(",")
    for name in presets:
        if name not in PRESETS:
            hint = nearest(name, PRESETS)
            raise ValueError(f"--presets: {name!r} (allowed: all, {', '.join(PRESETS)}){hint}")
    try:
        players = [int(number) for number in given.players.split(",")]
    except ValueError:
        allowed = "whole numbers with commas between"
        raise ValueError(f"--players: {given.players!r} (allowed: {allowed})") from None
    for number in players:
        whole("--players", number, 2, 10)
    whole("--matches", given.matches, 1, MAX_MATCHES)
    whole("--processes", given.processes, 1, 64)
    whole("--seed", given.seed, 0, 1 << 62)
    if not given.seconds > 0:
        raise ValueError(f"--seconds: {given.seconds:g} (allowed: a number above 0)")
    opponents = split_bots(given.opponents, "--opponents")
    for spec in {given.bot, *opponents}:
        make_bot(spec).close()
    tasks = [
        Task(given.bot, opponent, preset, number, given.matches, given.seconds, given.seed)
        for preset, number in games(presets, players)
        for opponent in opponents
    ]
    if not tasks:
        raise ValueError(
            f"--players: {given.players} (allowed: numbers that one of {', '.join(presets)} has)"
        )
    # What is named twice counts once.
    return list({task.key: task for task in tasks}.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    hear_ctrl_c()
    given = make_parser().parse_args(arguments)
    given.bot = given.bot.rstrip("/")
    try:
        store = Store(given.bot, given.json)
        tasks = make_tasks(given, store.rules)
        if given.list:
            missing = store.missing(tasks)
            for task in missing:
                print(f"{task.preset}, {task.num_players} players, against {task.opponent}")
            if not missing:
                print(f"nothing is missing: {store.path} has all {len(tasks)} rows")
            return 0
        number = measure(store, tasks, given.processes, lambda line: print(line, flush=True))
    except (ValueError, OSError, BotError) as error:
        print(f"training.measure: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("training.measure: interrupted; rows measured so far are kept", file=sys.stderr)
        return 130
    print(f"{number} of {len(tasks)} rows measured now, the others were there: {store.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
