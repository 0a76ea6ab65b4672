"""A person against bots in the terminal, from the first deal to the winner.

Asks on one stream and tells on another, a terminal or not, so a script can play. The screen's words
are `narrate`'s, the meaning of answers `prompts`'. Whatever ends a match, its record is saved.

    play(Rules(), ["heuristic"] * 3, seed=7)
"""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, TextIO

from judgement_env import record as records
from judgement_env.arena import unique_names
from judgement_env.bots import Bot, BotError, make_bot, shipped_models
from judgement_env.cards import NONE, SUIT_NAMES, action_from, bid_of, card_symbol, is_bid
from judgement_env.files import check_writable, reason_of
from judgement_env.narrate import Narrator, ink_of, printable
from judgement_env.prompts import Refused, bids_open, help_lines, read_answer
from judgement_env.record import Record
from judgement_env.render import Ink, heading, seat_lines
from judgement_env.rules import Rules
from judgement_env.scoring import shown
from judgement_env.table import IllegalActionError, Table
from judgement_env.view import View

YOU: Final = "you"
# Short enough for a table of ten at 80 columns.
MAX_NAME: Final = 14
TERMINAL_DELAY: Final = 0.3
SEEDS: Final = 1_000_000
INTERRUPTED: Final = 130
BEST_MODEL: Final = "kachuful"


class Stopped(Exception):
    """The person asked to stop."""


def play(
    rules: Rules,
    bots: Sequence[str],
    *,
    seat: int = 0,
    seed: int | None = None,
    save: str | None = None,
    color: str = "auto",
    delay: float | None = None,
    answers: TextIO | None = None,
    out: TextIO | None = None,
) -> int:
    """Play one match and return the exit status: 0, or 130 where Ctrl-C ended it.

    `bots` sit in the seats that are not the person's, in order. `seed` None is drawn, and told.
    `save` names the file of the record. Raises ValueError for a wrong seat, seed, number of bots or
    a file that cannot be written, all before the first card, and BotError where a bot breaks down.
    """
    answers, out = answers or sys.stdin, out or sys.stdout
    if not 0 <= seat < rules.num_players:
        raise ValueError(f"seat: {seat} (allowed: 0 to {rules.num_players - 1})")
    if len(bots) != rules.num_players - 1:
        raise ValueError(f"bots: {len(bots)} (allowed: {rules.num_players - 1}, one for each seat)")
    if save is not None:
        check_writable("--save", save)
    seed = secrets.randbelow(SEEDS) if seed is None else seed
    with ExitStack() as stack:
        made: dict[str, Bot] = {}
        for spec in bots:
            if spec not in made:
                made[spec] = stack.enter_context(make_bot(spec, seed=len(made)))
        compile_kernels(rules, list(made.values()))
        seated = [made[spec] for spec in bots]
        names = short_names([bot.name for bot in seated])
        names.insert(seat, YOU)
        table = Table(rules, seed=seed, players=names)
        is_tty = answers.isatty() and out.isatty()
        pause = (TERMINAL_DELAY if is_tty else 0.0) if delay is None else delay
        narrator = Narrator(out, ink_of(color, out), names, pause, out.isatty())
        game = Game(table, seat, [*seated[:seat], None, *seated[seat:]], narrator, answers, is_tty)
        return _finish(game, seed, save, list(made.values()))


def _finish(game: Game, seed: int, save: str | None, bots: Sequence[Bot]) -> int:
    """Play to the end, however it comes; save, and say so."""
    status, table, narrator = 0, game.table, game.narrator
    try:
        game.run()
        narrator.match_over(table.record())
        for bot in bots:
            bot.match_over(table.record() | {"seed": None})
    except Stopped:
        narrator.line("You stopped before the end of the match.")
    except EOFError:
        narrator.line("")
        narrator.line("No more input: the match stops before its end.")
    except KeyboardInterrupt:
        status = INTERRUPTED
        narrator.line("")
        narrator.line("Interrupted: the match stops before its end.")
    finally:
        if save is not None:
            _save(table.record(), save)
    narrator.line(f"The same cards again: --seed {seed}.")
    if save is not None:
        narrator.line(f"Record saved: {save}", is_whole=True)
        narrator.line(f"To see it: judgement replay {shlex.quote(save)}", is_whole=True)
    return status


def compile_kernels(rules: Rules, bots: Sequence[Bot]) -> None:
    """Let bots that are kernels decide once, so that no wait for a compiler interrupts a match."""
    table = Table(rules, seed=0)
    view = table.view(table.seat or 0)
    for bot in bots:
        if bot.has_rows:
            bot.act(view)


def _save(record: Record, path: str) -> None:
    try:
        records.write(record, path)
    except OSError as error:
        raise ValueError(f"--save: {path!r} cannot be written: {reason_of(error)}") from None


def best_bot() -> str:
    """The strongest bot that comes with the package."""
    return f"models/{BEST_MODEL}" if BEST_MODEL in shipped_models() else "heuristic"


def short_names(names: Sequence[str]) -> list[str]:
    """Names for the screen: printable, short, no two alike and none like the person's."""
    cut = []
    for name in names:
        clean = printable(name)
        words = clean.rpartition("/")[2] if clean.startswith("process:") else clean
        cut.append(words[: MAX_NAME - 2].strip() or "bot")
    return unique_names([YOU, *cut])[1:]


class Game:
    """A match under way: its table, the bots by seat (None = the person), screen and answers."""

    def __init__(
        self,
        table: Table,
        seat: int,
        bots: Sequence[Bot | None],
        narrator: Narrator,
        answers: TextIO,
        is_tty: bool,
    ) -> None:
        self.table = table
        self.seat = seat
        self.bots = bots
        self.narrator = narrator
        self.answers = answers
        self.is_tty = is_tty
        self._advisor: Bot | None = None

    def run(self) -> None:
        """Play the match out."""
        self._open_round()
        while (acting := self.table.seat) is not None:
            bot = self.bots[acting]
            if bot is None:
                self._move(acting, self._ask())
            else:
                self._move(acting, self._bot_action(bot, acting))

    def _bot_action(self, bot: Bot, seat: int) -> int:
        view = self.table.view(seat)
        action = bot.act(view)
        if action not in view.legal:
            raise BotError(
                f"{bot.name} in seat {seat} answered {shown(action)}, which is not legal"
            )
        return int(action)

    # What happens, and how it is told.

    def _open_round(self) -> None:
        self.narrator.line()
        self.narrator.line(heading(self._view(), self.narrator.ink))

    def _view(self) -> View:
        return self.table.view(self.seat)

    def _move(self, seat: int, action: int) -> None:
        before = self._view()
        number = len(before.history) + 1
        is_settled = self._push(seat, action)
        if not is_bid(action):
            self.narrator.card(number, seat, action)
        elif before.rules.is_simultaneous:
            self.narrator.bid(seat, bid_of(action) if seat == self.seat else None)
        else:
            self.narrator.bid(seat, bid_of(action))
        if is_settled:
            self._settle(before)
            return
        after = self._view()
        if before.is_bidding and after.is_playing and after.rules.is_simultaneous:
            self.narrator.all_bids(after.bids)
        if len(after.history) == number:
            self.narrator.trick_won(number, after.history[-1].winner)

    def _push(self, seat: int, action: int) -> bool:
        try:
            return self.table.push(action)
        except IllegalActionError as error:
            raise BotError(f"seat {seat}: {error}") from None

    def _settle(self, before: View) -> None:
        """Tell the end of a round, which the table has left behind."""
        index = before.round_index
        entry = self.table.record()["rounds"][index]
        last = len(entry["tricks"])
        if before.is_bidding:
            if before.rules.is_simultaneous:
                self.narrator.all_bids(entry["bids"])
            self._tell_blind_trick(entry)
        self.narrator.trick_won(last, entry["tricks"][-1]["winner"])
        self.narrator.round_over(index + 1, entry, self.table.totals)
        if not self.table.is_over:
            self._pause()
            self._open_round()

    def _tell_blind_trick(self, entry: Record) -> None:
        trick, step = entry["tricks"][0], self.table.rules.step
        self.narrator.line("The cards are turned up and play themselves.")
        for turn, card in enumerate(trick["plays"]):
            seat = (trick["leader"] + turn * step) % self.table.rules.num_players
            self.narrator.card(1, seat, action_from(card))

    def _pause(self) -> None:
        """Wait until the points have been read, where there is a reader."""
        if self.is_tty:
            self.narrator.prompt("Enter for the next round, q to stop:")
            if self._read().strip().lower() in ("q", "quit", "exit"):
                raise Stopped

    # The person.

    def _ask(self) -> int:
        """Show the table and ask until the answer is an action."""
        view = self._view()
        numbered = self._show(view)
        while True:
            self.narrator.prompt(_question(view, self.narrator.ink))
            try:
                answer = read_answer(self._read(), view, numbered)
            except Refused as error:
                self.narrator.line(str(error))
                continue
            if isinstance(answer, int):
                return answer
            self._serve(answer, view, numbered)

    def _show(self, view: View) -> list[int]:
        """Show what the person decides by; the cards as numbered."""
        self.narrator.line()
        self.narrator.lines(seat_lines(view, self.narrator.ink))
        numbered, lines = self.narrator.numbered_hand(view)
        if view.is_blind and view.is_bidding:
            lines = ["Hand:  face down until every bid is in"]
        self.narrator.lines(lines)
        return numbered

    def _serve(self, command: str, view: View, numbered: Sequence[int]) -> None:
        """Do what the person asked for besides a move."""
        narrator = self.narrator
        if command == "quit":
            raise Stopped
        if command == "help":
            narrator.lines(help_lines(view, numbered))
        elif command == "hint":
            narrator.line(self._hint(view))
        elif command == "table":
            narrator.line(heading(view, narrator.ink))
            narrator.past_tricks(view)
            self._show(view)
        elif command == "scores":
            narrator.lines(narrator.score_sheet(view.to_dict()))
        else:
            narrator.lines(view.rules.describe(narrator.width).splitlines())

    def _hint(self, view: View) -> str:
        """What the strongest bot there is would do."""
        if self._advisor is None:
            self._advisor = make_bot(best_bot())
        action = int(self._advisor.act(view))
        move = f"bid {bid_of(action)}" if is_bid(action) else f"play {card_symbol(action)}"
        return f"{self._advisor.name} would {move}."

    def _read(self) -> str:
        """One line of answers; typed ones stand on the screen already, others are shown."""
        text = self.answers.readline()
        if not text:
            raise EOFError
        if not self.is_tty:
            self.narrator.line(text.strip())
        return text


def _question(view: View, ink: Ink) -> str:
    if view.is_bidding:
        return f"Your bid ({bids_open(view)}; ? for help):"
    led = "you lead" if view.led == NONE else f"{SUIT_NAMES[view.led]} led"
    trick = f"Trick {len(view.history) + 1} of {view.num_cards}"
    return f"{trick}, {ink.trump(view.trump)}, {led}. Your card (? for help):"
