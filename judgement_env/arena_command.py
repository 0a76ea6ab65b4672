"""What `judgement arena` takes and does: bots compared, or a whole pool as a ladder.

`cli` hands over here; mistakes of the user are ValueErrors that it prints.

    judgement arena --ladder heuristic models/kachuful
"""

from __future__ import annotations

import argparse

from judgement_env import arena, ladder
from judgement_env.arena_result import FORMATS, Result
from judgement_env.files import check_writable
from judgement_env.ladder_result import Ladder
from judgement_env.progress import progress_of
from judgement_env.rule_options import add_rule_options, rule_changes
from judgement_env.rules import Rules, make_rules


def add_arena(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `judgement arena`."""
    parser.epilog = (
        "bots: random, heuristic, heuristic+, search, ismcts, models/NAME or the folder\n"
        "of a model (with +search behind it, it looks ahead), process:COMMAND."
    )
    parser.add_argument("bots", nargs="*", metavar="BOT", help="two bots or more")
    parser.add_argument(
        "--ladder",
        action="store_true",
        help="put a pool in order: standings, cross-table, ratings, time a decision"
        " (without bots: all that come with the package)",
    )
    parser.add_argument(
        "--matches", type=int, default=2000, metavar="N", help="of each pairing (default: 2000)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the deals (default: 1)"
    )
    parser.add_argument(
        "--formats", metavar="NAMES", help=f"those to play (default: {','.join(FORMATS)})"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as JSON")
    form.add_argument("--markdown", action="store_true", help="print a ladder as Markdown")
    parser.add_argument("--save", metavar="FILE", help="write a ladder there too, as JSON")
    parser.add_argument("--records", metavar="FOLDER", help="write the record of every match there")
    add_rule_options(parser)


def run_arena(arguments: argparse.Namespace) -> bool:
    """Measure and print; False where it was broken off. ValueError for a wrong argument."""
    rules = make_rules(arguments.rules).replace(**rule_changes(arguments))
    _check(arguments)
    with progress_of("matches") as progress:
        measure = _ladder if arguments.ladder else _comparison
        result = measure(arguments, rules, progress)
    if arguments.markdown and isinstance(result, Ladder):
        print(result.to_markdown())
    else:
        print(result.to_json() if arguments.json else result)
    if isinstance(result, Ladder) and arguments.save:
        result.save(arguments.save)
    return not isinstance(result, Ladder) or result.is_complete


def _check(arguments: argparse.Namespace) -> None:
    """Raise ValueError for an option of the other way to measure, or a file not to be written."""
    for option in ("markdown", "save"):
        if getattr(arguments, option) and not arguments.ladder:
            raise ValueError(f"--{option}: goes with --ladder only")
    for option in ("records", "formats"):
        if getattr(arguments, option) and arguments.ladder:
            raise ValueError(f"--{option}: does not go with --ladder")
    if arguments.save:
        check_writable("--save", arguments.save)


def _comparison(
    arguments: argparse.Namespace, rules: Rules, progress: arena.Progress | None
) -> Result:
    return arena.compare(
        arguments.bots,
        rules=rules,
        matches=arguments.matches,
        seed=arguments.seed,
        formats=FORMATS if arguments.formats is None else arguments.formats,
        progress=progress,
        records=arguments.records,
    )


def _ladder(arguments: argparse.Namespace, rules: Rules, progress: arena.Progress | None) -> Ladder:
    return ladder.rank(
        arguments.bots or None,
        rules=rules,
        matches=arguments.matches,
        seed=arguments.seed,
        progress=progress,
    )
