"""Measure a bot: python -m training.evaluate CANDIDATE [OPPONENT …] [options]

The candidate, a run, a checkpoint of one or any bot, plays the opponents from every seat: alone
in a field of each, as a field against each, and at mixed tables. Prints points a round, bids made
and matches won with their 95 % intervals. `judgement_env.arena` plays and measures.

    python -m training.evaluate runs/quick heuristic --matches=4000 --json=quick.json
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

# Until the libraries are loaded, Ctrl-C ends the process without a traceback.
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from judgement_env import arena
from judgement_env.arena_result import FORMATS, Result
from judgement_env.arguments import whole
from judgement_env.bots import Bot, BotError, make_bot
from judgement_env.bots.neural import NeuralBot, read_card
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.cli import hear_ctrl_c, nobody_reads_on
from judgement_env.files import check_writable, whole_file
from judgement_env.rule_options import add_rule_options, rule_changes
from judgement_env.rules import PRESETS, Rules, make_rules
from training.card import CARD, changed, check_rows, merge
from training.config import command_line

PROGRAM = "training.evaluate"
CHECKPOINT = "checkpoint.pt"
DEFAULT_OPPONENT = "heuristic"

# --- the candidate ----------------------------------------------------------------------------


def checkpoint_of(spec: str) -> Path | None:
    """The checkpoint that `spec` names, a file or the folder of a run; None for another bot."""
    path = Path(spec)
    if path.is_file():
        return path
    inside = path / CHECKPOINT
    return inside if inside.is_file() else None


def bot_of_checkpoint(path: Path, name: str) -> tuple[Bot, Any]:
    """The averaged policy of a checkpoint as a bot, and the rules (or list of them) it trained on.

    Raises ValueError where the file is no whole checkpoint or fits this version no longer.
    """
    # Only here is torch needed: an exported bot is measured without it.
    from training.checkpoint import load_checkpoint
    from training.export import actor_weights

    content = load_checkpoint(path)
    try:
        network = PolicyNetwork(actor_weights(content))
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: holds no policy that fits this version: {error}") from None
    return NeuralBot.from_network(network, name), content.get("config", {}).get("rules")


def load_candidate(spec: str, seed: int = 0) -> tuple[Bot, Any]:
    """The bot that `spec` names, and the rules it was trained on or None.

    Raises ValueError or FileNotFoundError that name the candidate.
    """
    checkpoint = checkpoint_of(spec)
    if checkpoint is not None:
        return bot_of_checkpoint(checkpoint, spec)
    path = Path(spec)
    if path.is_dir() and not (path / CARD).is_file():
        raise ValueError(
            f"candidate: {spec!r} (allowed: a run with its {CHECKPOINT}, a model folder with its"
            " card.json, or a bot such as heuristic)"
        )
    bot = make_bot(spec, seed=seed)
    card = getattr(bot, "card", None)
    return bot, card.get("rules") if isinstance(card, dict) else None


# --- measuring --------------------------------------------------------------------------------


def evaluate(
    candidate: str,
    opponents: Sequence[str] = (DEFAULT_OPPONENT,),
    rules: str | Rules | None = None,
    changes: dict[str, Any] | None = None,
    matches: int = 2000,
    seed: int = 1,
    progress: arena.Progress | None = None,
    formats: str | Sequence[str] = FORMATS,
) -> Result:
    """Play the candidate against each opponent; see `arena.compare` for what comes of it.

    rules: None takes those the candidate was trained on (of several the first), else kachuful.
    changes: fields of the rules that differ. An opponent named twice counts once.
    """
    bot, trained_on = load_candidate(candidate, seed)
    with bot:
        trained = trained_on[0] if isinstance(trained_on, list) and trained_on else trained_on
        made = make_rules(rules or trained or "kachuful").replace(**(changes or {}))
        # A list would take the bot's own name; the result shall show what was asked for.
        bot.name = candidate
        return arena.compare(
            [bot, *dict.fromkeys(opponents)],
            made,
            matches=matches,
            seed=seed,
            formats=formats,
            only_first=True,
            progress=progress,
        )


# --- the card ---------------------------------------------------------------------------------


def check_card(candidate: str) -> None:
    """Raise ValueError where the candidate has no card, or one that cannot be written."""
    path = Path(candidate) / CARD
    if not path.is_file():
        allowed = "a model's folder, without +search; python -m training.export makes one of a run"
        raise ValueError(f"--keep: {candidate!r} has no {CARD} (allowed: {allowed})")
    card = read_card(Path(candidate))
    try:
        check_rows({"measured": [], **card})
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"--keep: {path}: measured holds no rows: {error}") from None
    check_writable("--keep", path)


def keep_rows(candidate: str, result: Result, command: str) -> None:
    """Put the candidate's rows into its card, with the seed and the command that gives them again.

    Rows of the same matches are replaced.
    """
    told = {"rules": result.rules.to_dict(), "seed": result.seed, "command": command}
    new = [{**row.to_dict(), **told} for row in result.rows if row.bot == candidate]
    with changed(Path(candidate) / CARD) as card:
        merge(card.setdefault("measured", []), new, card.get("rules", []))


# --- command line -----------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def make_parser() -> argparse.ArgumentParser:
    """The command line of this module."""
    parser = Parser(
        prog="training.evaluate",
        usage="python -m training.evaluate CANDIDATE [OPPONENT …] [options]",
        description="Measure a bot against others, every deal from every seat.",
        epilog="bots: random, heuristic, heuristic+, search, ismcts, models/NAME or the folder of"
        " a model (with +search behind it, it looks ahead), process:COMMAND.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "candidate", metavar="CANDIDATE", help=f"the folder of a run, a {CHECKPOINT}, or a bot"
    )
    parser.add_argument(
        "opponents",
        metavar="OPPONENT",
        nargs="*",
        default=[],
        help=f"bots; one named again counts once (default: {DEFAULT_OPPONENT})",
    )
    parser.add_argument(
        "--matches", type=int, default=2000, metavar="N", help="of each format (default: 2000)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the deals (default: 1)"
    )
    parser.add_argument(
        "--formats",
        metavar="NAMES",
        default=",".join(FORMATS),
        help="those to play (default: %(default)s)",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the result there too; - prints it alone"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="put the figures and the command into the model's card as well",
    )
    parser.add_argument(
        "--rules",
        metavar="NAME|FILE",
        help=f"{', '.join(PRESETS)}, or a YAML file (default: what it was trained on, or kachuful)",
    )
    add_rule_options(parser, with_file=False)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    hear_ctrl_c()
    words = list(sys.argv[1:] if arguments is None else arguments)
    given = make_parser().parse_intermixed_args(words)
    is_live = sys.stderr.isatty()
    try:
        _check_target(given.json)
        if given.keep:
            check_card(given.candidate)
        whole("--seed", given.seed, 0, arena.MAX_SEED)
        result = evaluate(
            given.candidate,
            given.opponents or [DEFAULT_OPPONENT],
            given.rules,
            rule_changes(given),
            given.matches,
            given.seed,
            _show_progress if is_live else None,
            given.formats,
        )
        if is_live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        return hand_over(result, given, words)
    except (ValueError, OSError, BotError) as error:
        print(f"{PROGRAM}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130


def hand_over(result: Result, given: argparse.Namespace, words: Sequence[str]) -> int:
    """Keep, write and print the figures, each whatever became of the others; the exit code."""

    def keep() -> None:
        if given.keep:
            keep_rows(given.candidate, result, command_line(PROGRAM, words_kept(words)))

    def write() -> None:
        if given.json not in (None, "-"):
            with whole_file(given.json) as file:
                file.write(f"{result.to_json()}\n".encode())

    def show() -> None:
        print(result.to_json() if given.json == "-" else result, flush=True)

    code = 0
    for option, deed in (("--keep: ", keep), ("--json: ", write), ("", show)):
        try:
            deed()
        except BrokenPipeError:
            code = code or nobody_reads_on()
        except (ValueError, OSError) as error:
            print(f"{PROGRAM}: {option}{' '.join(str(error).split())}", file=sys.stderr)
            code = 2
    return code


def _check_target(file: str | None) -> None:
    """Refuse a file that cannot be written before anything is played."""
    if file in (None, "-"):
        return
    path = Path(file)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"--json: {file!r} (allowed: a file in a folder that exists, or -)")
    if path.is_file() or not path.exists():
        check_writable("--json", path)


def words_kept(words: Sequence[str]) -> list[str]:
    """The arguments that give the same figures, without those that keep them somewhere.

    What lies below the current folder is named from there.
    """
    here = f"{Path.cwd()}{os.sep}"
    given = iter(word.removeprefix(here) for word in words)
    kept = []
    for word in given:
        if word == "--json":
            next(given)
        elif word != "--keep" and not word.startswith("--json="):
            kept.append(word)
    return kept


def _show_progress(done: int, total: int) -> None:
    print(f"\r{done:,} of {total:,} matches", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
