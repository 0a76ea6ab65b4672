"""How far a long piece of work is, shown on a terminal and nowhere else.

with progress_of("matches") as progress:
    arena.compare(["heuristic", "random"], progress=progress)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_of(things: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Something to call with how many things are done of how many, None off a terminal.

    A bar where `rich` is installed, else one line that counts.
    """
    if not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        try:
            yield lambda done, total: _show_count(done, total, things)
        finally:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(things)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show_count(done: int, total: int | None, things: str) -> None:
    of = "" if total is None else f" of {total:,}"
    print(f"\r{done:,}{of} {things}", end="", file=sys.stderr, flush=True)
