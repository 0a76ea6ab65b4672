"""A bot in another process: one JSON object a line on its standard input, one line back.

The program is started at once, told of each match with `start` and `end`, and asked with `act`;
docs/bots.md has the messages and an example. One that is slow, ends, or answers what nobody may
do is stopped, with all its children, and named in a `BotError`. Threads read and write its pipes,
so no program can make its caller wait longer than the timeouts.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from typing import IO, Any, Final, NoReturn

from judgement_env.bots.base import Bot, BotError, check_turn
from judgement_env.cards import action_from_plain, action_text
from judgement_env.scoring import shown
from judgement_env.view import View

PROTOCOL: Final = 1
MAX_LINE: Final = 1 << 16
ERROR_LINES: Final = 5
# Seconds a program has to end by itself once its input is closed.
GRACE: Final = 0.5


class _Silence(Exception):
    """No line came in time."""


class _Pipes:
    """A running program whose pipes are served by threads."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        self.errors: deque[str] = deque(maxlen=ERROR_LINES)
        self._to_write: queue.Queue[bytes | None] = queue.Queue()
        jobs = (
            (_read, self.process.stdout, self.lines),
            (_write, self.process.stdin, self._to_write),
            (_drain, self.process.stderr, self.errors),
        )
        self._threads = [
            threading.Thread(target=job, args=args, daemon=True) for job, *args in jobs
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, message: bytes, timeout: float) -> bytes | None:
        """Send a line and return the next one, None at the end of the output."""
        self._to_write.put(message)
        try:
            return self.lines.get(timeout=timeout)
        except queue.Empty:
            raise _Silence from None

    def stop(self, grace: float) -> int | None:
        """Close its input, give it `grace` seconds, then kill its process group; its exit code.

        None where it had to be killed.
        """
        self._to_write.put(None)
        has_ended = _ends_within(self.process, grace)
        _kill(self.process)
        code = self.process.wait()
        for thread in self._threads:
            thread.join(GRACE)
            # A pipe that a stray child still holds open is left to its thread.
        if not any(thread.is_alive() for thread in self._threads):
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
        return code if has_ended else None


def _read(pipe: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    """Queue every line; None at the end, and after a line longer than the limit."""
    with contextlib.suppress(OSError, ValueError):
        while line := pipe.readline(MAX_LINE + 1):
            lines.put(line)
            if len(line) > MAX_LINE:
                break
    lines.put(None)


def _write(pipe: IO[bytes], messages: queue.Queue[bytes | None]) -> None:
    """Write every message; None closes the pipe. A broken pipe shows in the answers that end."""
    with contextlib.suppress(OSError, ValueError):
        while (message := messages.get()) is not None:
            pipe.write(message)
            pipe.flush()
    with contextlib.suppress(OSError, ValueError):
        pipe.close()


def _drain(pipe: IO[bytes], errors: deque[str]) -> None:
    """Read all the program says on its error output, and keep its last lines."""
    with contextlib.suppress(OSError, ValueError):
        while line := pipe.readline(MAX_LINE):
            if text := line.decode("utf-8", "replace").strip():
                errors.append(text[:200])


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the program ends in time. It is not reaped, so that its group's number stays its."""
    deadline = time.monotonic() + seconds
    while True:
        if hasattr(os, "waitid"):
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if process.returncode is not None or os.waitid(os.P_PID, process.pid, flags):
                return True
        elif process.poll() is not None:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and every process of its group, unless it has been reaped before."""
    if process.returncode is not None:
        return
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


class ProcessBot(Bot):
    """A program that plays: its command, the seconds it has to decide and to answer `start`."""

    def __init__(self, command: str, timeout: float = 10.0, start_timeout: float = 60.0) -> None:
        for field, value in (("timeout", timeout), ("start_timeout", start_timeout)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"{field}: {shown(value)} (allowed: seconds above 0)")
        self.command = command.strip()
        self.name = f"process:{self.command}"
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._is_open = False
        self._last: dict[str, Any] | None = None
        self._reason = ""
        self._pipes: _Pipes | None = None
        try:
            words = shlex.split(self.command)
            if not words:
                raise ValueError("an empty command")
            self._pipes = _Pipes(words)
        except (OSError, ValueError) as error:
            self._reason = f"cannot be started: {error}"
            raise BotError(f"bot {self.name!r} {self._reason}") from None
        # A bot that is dropped, or left open at exit, takes its program with it.
        self._finalizer = weakref.finalize(self, _kill, self._pipes.process)

    def act(self, view: View) -> int:
        """Return what the program answers; BotError where it is not the action of this seat."""
        check_turn(view)
        sheet = view.to_dict()
        self._open(sheet)
        answer = self._ask({"type": "act", "view": sheet}, self._timeout)
        action = self._action(answer)
        if action not in view.legal:
            legal = ", ".join(action_text(a) for a in view.legal)
            words = action_text(action)
            self._fail(f"answered {words}, which seat {view.seat} may not do (legal: {legal})")
        return action

    def start(self, view: View) -> None:
        """Open the view's match now, which `act` does otherwise; BotError where it cannot be."""
        self._open(view.to_dict())

    def match_over(self, record: dict[str, Any]) -> None:
        """Tell the program how the match ended, if it was asked in it."""
        if self._is_open:
            self._end({**record, "seed": None})

    def close(self) -> None:
        """Close the program's input and end it; it has a moment to end by itself."""
        if self._pipes is not None:
            self._pipes.stop(GRACE)
            self._drop("was closed")

    def _open(self, sheet: dict[str, Any]) -> None:
        """Start the match of a view where it is not the one that is open."""
        if self._is_open and self._last is not None and not continues(self._last, sheet):
            self._end(None)
        if not self._is_open:
            self._start(sheet)
        self._last = sheet

    def _start(self, sheet: dict[str, Any]) -> None:
        message = {"type": "start", "protocol": PROTOCOL, "rules": sheet["rules"]}
        num_players = len(sheet["players"])
        answer = self._ask(message | {"num_players": num_players}, self._start_timeout)
        self._check_ok("start", answer)
        if isinstance(answer.get("name"), str) and answer["name"].strip():
            self.name = answer["name"].strip()[:60]
        self._is_open = True

    def _end(self, record: dict[str, Any] | None) -> None:
        self._is_open = False
        self._last = None
        answer = self._ask({"type": "end", "record": record}, self._timeout)
        self._check_ok("end", answer)

    def _check_ok(self, kind: str, answer: dict[str, Any]) -> None:
        if answer.get("ok") is not True:
            self._fail(f'answered {shown(answer)} to {kind} (allowed: {{"ok": true}})')

    def _action(self, answer: dict[str, Any]) -> int:
        plain = answer.get("action")
        if not isinstance(plain, bool) and isinstance(plain, str | int):
            with contextlib.suppress(ValueError):
                return action_from_plain(plain)
        allowed = 'allowed: {"action": "AS"} for a card, {"action": 2} for a bid'
        self._fail(f"answered {shown(answer)} ({allowed})")

    def _ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Send a message and return the object the program answers."""
        if self._pipes is None:
            raise BotError(f"bot {self._title()} {self._reason}")
        kind = message["type"]
        if not self._pipes.lines.empty():
            self._take(self._pipes.lines.get(), f"before it was sent {kind}")
            self._fail(f"wrote a line before it was sent {kind} (allowed: one line for each)")
        line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        try:
            answer = self._pipes.ask(line, timeout)
        except _Silence:
            self._fail(f"gave no answer to {kind} within {timeout:g} seconds")
        text = self._take(answer, f"when it was sent {kind}")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            self._fail(
                f"answered {shown(text.strip())} to {kind} (allowed: one JSON object a line)"
            )
        return data

    def _take(self, line: bytes | None, when: str) -> str:
        """The text of a line; BotError for the end of the output, and for a line too long."""
        if line is None:
            self._fail(f"ended its output {when}")
        if len(line) > MAX_LINE:
            self._fail(f"answered a line longer than {MAX_LINE} bytes {when}")
        return line.decode("utf-8", "replace")

    def _title(self) -> str:
        """Its name, and its command where the name does not say it."""
        own = f"process:{self.command}"
        return repr(own) if self.name == own else f"{self.name!r} ({own})"

    def _drop(self, reason: str) -> None:
        self._pipes = None
        self._is_open = False
        self._reason = reason
        self._finalizer.detach()

    def _fail(self, what: str) -> NoReturn:
        """Stop the program and say what it did, how it ended and what it last complained of."""
        pipes = self._pipes
        if pipes is not None:
            code = pipes.stop(GRACE)
            what += f"; exit code {code}" if code is not None else "; it was killed"
            if pipes.errors:
                what += "; its last error lines: " + " | ".join(pipes.errors)
            self._drop(what)
        raise BotError(f"bot {self._title()} {what}")


# --- one match or another -----------------------------------------------------------------------


def continues(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether a view may be a later one of the same match, of whatever seat.

    Nothing that both show may differ, and nothing played may be missing: a match taken back, or a
    copy of it that took another turn, counts as a new one.
    """
    fields = ("rules", "players", "table", "match")
    if any(before[field] != after[field] for field in fields):
        return False
    if len(after["rounds"]) < len(before["rounds"]):
        return False
    pairs = zip(before["rounds"], after["rounds"], strict=False)
    return all(_round_continues(old, new) for old, new in pairs)


def _round_continues(old: dict[str, Any], new: dict[str, Any]) -> bool:
    fixed = ("cards", "trump", "dealer", "blind", "turn_up")
    if any(old[field] != new[field] for field in fixed):
        return False
    for field in ("hands", "bids"):
        pairs = zip(old[field], new[field], strict=True)
        if any(a != b for a, b in pairs if a is not None and b is not None):
            return False
    if len(new["tricks"]) < len(old["tricks"]):
        return False
    tricks = zip(old["tricks"], new["tricks"], strict=False)
    return all(b["plays"][: len(a["plays"])] == a["plays"] for a, b in tricks)
