"""The `judgement` command: play, replay, rules, arena, blunders, bot, bench, check, dataset.

Reads the command line, makes rules and bots of it, and hands over; what a command needs is imported
when it runs. A mistake of the user is one line on stderr and exit status 2, Ctrl-C is 130, a reader
that goes away is 141; a traceback is a bug of this package.

    judgement rules kachuful --num_players=8
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from judgement_env import __version__
from judgement_env.files import reason_of
from judgement_env.progress import progress_of

if TYPE_CHECKING:
    from judgement_env.rules import Rules

BROKEN_CONTRACT: Final = 1
USAGE_ERROR: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MAX_DELAY: Final = 60.0
WIDTH: Final = 80


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _Command(NamedTuple):
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; argparse exits on its own errors."""
    given = list(sys.argv[1:] if argv is None else argv)
    _be_lenient(sys.stdin, sys.stdout, sys.stderr)
    try:
        arguments = _parsed(given)
        status = COMMANDS[arguments.command].run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return nobody_reads_on()
    except KeyboardInterrupt as stop:
        print(f"judgement {given[0]}: interrupted{_notes(stop)}", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
            # What is left to print would fail once more when the interpreter ends.
            nobody_reads_on()
            error = ValueError(f"the output cannot be written: {reason_of(error)}")
        if not _is_expected(error):
            raise
        text = " ".join(f"{error}{_notes(error)}".split())
        print(f"judgement {given[0]}: {text}", file=sys.stderr)
        return USAGE_ERROR


def hear_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, where a program let it end itself while loading."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def nobody_reads_on() -> int:
    """Let what is still printed go nowhere, also when the interpreter ends; return the status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _is_expected(error: Exception) -> bool:
    """Whether an error speaks of what the user gave, not of a fault of the package."""
    bots = sys.modules.get("judgement_env.bots.base")
    is_bot_error = bots is not None and isinstance(error, bots.BotError)
    return is_bot_error or isinstance(error, FileNotFoundError | ValueError)


def _notes(error: BaseException) -> str:
    """What was noted about an error on its way up."""
    return "".join(f"; {note}" for note in getattr(error, "__notes__", ()))


def _be_lenient(*streams: Any) -> None:
    """Let a stream show and take what its encoding lacks as a question mark, never fail."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


# --- the parser -------------------------------------------------------------------------------


def _parsed(given: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="judgement",
        description="The card game Judgement (Kachuful, Oh Hell): play it, measure bots at it.",
        epilog="judgement COMMAND --help tells of each.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"judgement-env {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in given if not word.startswith("-")), "")
    for name, command in COMMANDS.items():
        child = commands.add_parser(
            name,
            help=command.help,
            description=command.help[0].upper() + command.help[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        # The options of the others would cost their imports.
        if name == chosen:
            command.add_arguments(child)
    arguments, unknown = parser.parse_known_args(given or ["--help"])
    if unknown:
        _refuse_unknown(commands.choices[arguments.command], unknown[0])
    return arguments


def _refuse_unknown(parser: argparse.ArgumentParser, word: str) -> NoReturn:
    from judgement_env.scoring import nearest

    options = [text for action in parser._actions for text in action.option_strings]
    kind = "option" if word.startswith("-") else "argument"
    parser.error(f"unknown {kind} {word!r}{nearest(word.partition('=')[0], options)}")


# --- play -------------------------------------------------------------------------------------


def _add_play(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "bots: random, heuristic, heuristic+, search, ismcts, models/NAME or the folder\n"
        "of a model (with +search behind it, it looks ahead), process:COMMAND.\n"
        "While you play, ? shows what you can type."
    )
    parser.add_argument(
        "--bots",
        metavar="BOT,BOT,…",
        help="the other seats, in order (default: the bot that comes with the package)",
    )
    parser.add_argument(
        "--seat", type=int, default=0, metavar="N", help="your seat, from 0 (default: 0)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="deal the cards of this seed")
    parser.add_argument("--save", metavar="FILE", help="write the record of the match there")
    _add_screen_options(parser)
    parser.add_argument(
        "--delay",
        type=float,
        metavar="SECONDS",
        help="pause after each move of a bot (default: 0.3 on a terminal, else 0)",
    )
    from judgement_env.rule_options import add_rule_options

    add_rule_options(parser)


def _add_screen_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto: where the terminal has it and NO_COLOR is not set (default)",
    )


def _run_play(arguments: argparse.Namespace) -> int:
    delay = arguments.delay
    if delay is not None and not 0 <= delay <= MAX_DELAY:
        raise ValueError(f"--delay: {delay} (allowed: 0 to {MAX_DELAY:g} seconds)")
    specs = None if arguments.bots is None else split_bots(arguments.bots)
    rules = _rules_for(arguments, specs)
    from judgement_env import play

    specs = fill_seats(specs or [play.best_bot()], rules)
    return play.play(
        rules,
        specs,
        seat=arguments.seat,
        seed=arguments.seed,
        save=arguments.save,
        color=arguments.color,
        delay=delay,
    )


def split_bots(text: str, option: str = "--bots") -> list[str]:
    """The bots of "A,B,C"; a bot's own options, "search:worlds=64,exact=2", stay with it."""
    import csv

    specs: list[str] = []
    for part in next(csv.reader([text]), []):
        is_option = part.partition("=")[0].strip().isidentifier() and "=" in part
        if is_option and specs and ":" in specs[-1] and not specs[-1].startswith("process:"):
            specs[-1] += "," + part
        else:
            specs.append(part.strip())
    if not specs or not all(specs):
        raise ValueError(f"{option}: {text!r} (allowed: bots with commas between, none empty)")
    return specs


def fill_seats(specs: Sequence[str], rules: Rules) -> list[str]:
    """A bot for every seat but one, the last repeated; ValueError where there are too many."""
    others = rules.num_players - 1
    if len(specs) > others:
        raise ValueError(
            f"--bots: {len(specs)} bots (allowed: at most {others}, as these rules seat"
            f" {rules.num_players} and one seat is yours)"
        )
    return [*specs, *[specs[-1]] * (others - len(specs))]


def _rules_for(arguments: argparse.Namespace, specs: Sequence[str] | None) -> Rules:
    """The rules asked for; where nothing fixes the number of players, a seat more than bots."""
    from judgement_env.rule_options import rule_changes
    from judgement_env.rules import make_rules

    changes = rule_changes(arguments)
    rules = make_rules(arguments.rules)
    if specs is None or "num_players" in changes or _fixes_players(arguments.rules):
        return rules.replace(**changes)
    try:
        return rules.replace(**changes, num_players=len(specs) + 1)
    except ValueError as error:
        if not str(error).startswith("num_players:"):
            raise
        if len(specs) == 1:
            return rules.replace(**changes)
        too_few = len(specs) + 1 < rules.num_players
        hint = "; with --num_players=N the last bot fills the seats" if too_few else ""
        raise ValueError(
            f"--bots: {len(specs)} and you make {len(specs) + 1} seats: {error}{hint}"
        ) from None


def _fixes_players(rules: str) -> bool:
    """Whether rules that have been read without fault are a file that sets num_players."""
    import yaml

    from judgement_env.rules import PRESETS

    if rules in PRESETS or not os.path.isfile(rules):
        return False
    with open(rules, encoding="utf-8") as file:
        return "num_players" in yaml.safe_load(file)


# --- replay -----------------------------------------------------------------------------------


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "record", metavar="FILE", help="a record, as `judgement play --save` writes"
    )
    parser.add_argument("--round", type=int, metavar="N", help="this round only, from 1")
    parser.add_argument("--step", action="store_true", help="wait for Enter after each trick")
    parser.add_argument(
        "--seat", type=int, metavar="N", help="only what this seat could see at each moment"
    )
    parser.add_argument("--verify", action="store_true", help="check the record, show no round")
    _add_screen_options(parser)


def _run_replay(arguments: argparse.Namespace) -> int:
    from judgement_env import replay

    return replay.replay(
        arguments.record,
        number=arguments.round,
        is_stepping=arguments.step,
        seat=arguments.seat,
        is_check_only=arguments.verify,
        color=arguments.color,
    )


# --- rules ------------------------------------------------------------------------------------


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME|FILE",
        help="a preset or a YAML file to show in full (default: list the presets)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="every field, as JSON")
    form.add_argument("--yaml", action="store_true", help="every field, as a rules file")
    from judgement_env.rule_options import add_rule_options

    add_rule_options(parser, with_file=False)


def _run_rules(arguments: argparse.Namespace) -> int:
    from judgement_env.rule_options import rule_changes
    from judgement_env.rules import PRESETS, make_rules

    changes = rule_changes(arguments)
    if arguments.name is None and not changes:
        chosen = dict(PRESETS)
        if not arguments.json and not arguments.yaml:
            print("\n".join(_preset_list(chosen)))
            return 0
        _print_plain({name: rules.to_dict() for name, rules in chosen.items()}, arguments.json)
        return 0
    rules = make_rules(arguments.name or "kachuful").replace(**changes)
    if arguments.json or arguments.yaml:
        _print_plain(rules.to_dict(), arguments.json)
    else:
        print(rules.describe(WIDTH))
    return 0


def _preset_list(presets: Mapping[str, Rules]) -> list[str]:
    rows = [("preset", "players", "scoring", "cards a hand, round by round")]
    for name, rules in presets.items():
        low, high = rules.player_range
        players = str(low) if low == high else f"{low}-{high}"
        rows.append((name, players, str(rules.scoring), " ".join(map(str, rules.sizes))))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    note = "For 4 players. `judgement rules NAME` shows one in full, `judgement play --rules NAME`"
    return [*lines, "", note, "plays it; --help lists the rules that can be changed."]


def _print_plain(data: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        import json

        fields = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in data.items()]
        print("{\n" + ",\n".join(fields) + "\n}")
    else:
        import yaml

        print(yaml.safe_dump(data, sort_keys=False, default_flow_style=None), end="")


# --- arena ------------------------------------------------------------------------------------


def _add_arena(parser: argparse.ArgumentParser) -> None:
    from judgement_env.arena_command import add_arena

    add_arena(parser)


def _run_arena(arguments: argparse.Namespace) -> int:
    from judgement_env.arena_command import run_arena

    return 0 if run_arena(arguments) else INTERRUPTED


# --- bot --------------------------------------------------------------------------------------


def _add_bot(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "It answers JSON lines on standard input with JSON lines on standard output;\n"
        "docs/bots.md has the messages. Errors and prints go to the error output."
    )
    parser.add_argument("bot", metavar="BOT", help="as in docs/bots.md: heuristic, models/NAME, …")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of a bot that draws by lot (default: 0)"
    )


def _run_bot(arguments: argparse.Namespace) -> int:
    from judgement_env import serve
    from judgement_env.bots import make_bot

    with make_bot(arguments.bot, seed=arguments.seed) as bot:
        serve.serve(bot, sys.stdin, sys.stdout)
    return 0


# --- blunders ---------------------------------------------------------------------------------


def _add_blunders(parser: argparse.ArgumentParser) -> None:
    from judgement_env import blunders

    blunders.add_arguments(parser)


def _run_blunders(arguments: argparse.Namespace) -> int:
    from judgement_env import blunders

    return blunders.main(arguments)


# --- bids -------------------------------------------------------------------------------------


def _add_bids(parser: argparse.ArgumentParser) -> None:
    from judgement_env import bid_counts

    bid_counts.add_arguments(parser)


def _run_bids(arguments: argparse.Namespace) -> int:
    from judgement_env import bid_counts

    return bid_counts.main(arguments)


# --- bench ------------------------------------------------------------------------------------


def _add_bench(parser: argparse.ArgumentParser) -> None:
    from judgement_env.bench import PEERS, ROWS

    parser.epilog = "rows (default: all):\n" + "\n".join(
        f"  {name:10}{row.help}" for name, row in ROWS.items()
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="measure these only")
    parser.add_argument("--vs", choices=PEERS, help="run it beside, where the table has it")
    parser.add_argument("--quick", action="store_true", help="short samples: a rough picture")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _run_bench(arguments: argparse.Namespace) -> int:
    from judgement_env import bench

    with progress_of("rows") as progress:
        report = bench.run(
            arguments.rows,
            vs=arguments.vs,
            plan=bench.QUICK if arguments.quick else bench.FULL,
            progress=progress,
        )
    print(report.to_json() if arguments.json else report)
    return 0


# --- check ------------------------------------------------------------------------------------


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "bots: random, heuristic, heuristic+, search, ismcts, models/NAME or the folder\n"
        "of a model (with +search behind it, it looks ahead), process:COMMAND, or\n"
        "FILE.py:NAME, a class or a function in a file that makes a bot: anything with\n"
        "act(view). Without rules, it is asked under all presets and many house rules.\n"
        "Exit status 1 where a sentence does not hold."
    )
    parser.add_argument("bot", metavar="BOT", help="the bot to check")
    parser.add_argument(
        "--rules", metavar="NAME|FILE", help="under these rules only: a preset or a YAML file"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of deals (default: 0)")
    parser.add_argument(
        "--positions", type=int, default=8, metavar="N", help="under each of the rules (default: 8)"
    )
    parser.add_argument(
        "--random",
        action="store_true",
        help="it draws by lot, and has no policy that shows it",
    )
    from judgement_env.rule_options import add_rule_options

    add_rule_options(parser, with_file=False)


def _run_check(arguments: argparse.Namespace) -> int:
    from judgement_env import testing
    from judgement_env.rule_options import rule_changes
    from judgement_env.rules import make_rules

    changes = rule_changes(arguments)
    is_named = arguments.rules is not None or bool(changes)
    try:
        testing.check_bot(
            testing.load_bot(arguments.bot),
            rules=make_rules(arguments.rules or "kachuful").replace(**changes)
            if is_named
            else None,
            seed=arguments.seed,
            deterministic=False if arguments.random else None,
            positions=arguments.positions,
            report=lambda sentence: print(f"ok  {sentence}", flush=True),
        )
    except testing.ContractError as error:
        print(error)
        return BROKEN_CONTRACT
    return 0


# --- dataset ----------------------------------------------------------------------------------


def _add_dataset(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "records: files as `judgement play --save` and `judgement arena --records` write\n"
        "them, or folders of such files. docs/datasets.md describes the arrays."
    )
    parser.add_argument("records", nargs="+", metavar="RECORD", help="files or folders of records")
    parser.add_argument("out", metavar="OUT.npz", help="the file to write")
    parser.add_argument(
        "--shard-size",
        type=int,
        metavar="N",
        help="decisions a file: OUT-00000.npz, OUT-00001.npz, … (default: all in one)",
    )
    parser.add_argument(
        "--skip-forced", action="store_true", help="leave out decisions with one legal action"
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="leave out broken records, and say which"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the files of that name")


def _run_dataset(arguments: argparse.Namespace) -> int:
    from judgement_env import dataset

    with progress_of("records") as progress:
        summary = dataset.write_dataset(
            arguments.records,
            arguments.out,
            shard_size=arguments.shard_size,
            skip_forced=arguments.skip_forced,
            keep_going=arguments.keep_going,
            overwrite=arguments.overwrite,
            progress=progress,
        )
    for reason in summary.skipped:
        print(f"left out: {reason}", file=sys.stderr)
    print(summary)
    return 0


COMMANDS: Final[Mapping[str, _Command]] = {
    "play": _Command("play a match against bots in the terminal", _add_play, _run_play),
    "replay": _Command("check the record of a match and show it", _add_replay, _run_replay),
    "rules": _Command("list the presets, or show rules in full", _add_rules, _run_rules),
    "arena": _Command("measure bots against each other", _add_arena, _run_arena),
    "bids": _Command("count what a bot bids, and how much of it is made", _add_bids, _run_bids),
    "blunders": _Command("ask bots where any good player agrees", _add_blunders, _run_blunders),
    "bot": _Command("serve a bot to another program", _add_bot, _run_bot),
    "bench": _Command("measure decisions a second, beside other engines", _add_bench, _run_bench),
    "check": _Command("check that a bot keeps to what bots must", _add_check, _run_check),
    "dataset": _Command("turn records of matches into arrays", _add_dataset, _run_dataset),
}

if __name__ == "__main__":
    sys.exit(main())
