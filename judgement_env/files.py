"""Files and folders that are there whole under their name, or not at all.

They are written under another name beside it and take their place at the end; where that fails,
what stood there before stays as it was. Who works long for a file asks `check_writable` first.

>>> with whole_file("notes.txt") as file:  # doctest: +SKIP
...     file.write(b"all of it")
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:
    # Not on Windows, where nobody is held back.
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], *, is_lasting: bool = False) -> Iterator[IO[bytes]]:
    """A file to write; it takes its name at the end of the block, unless an exception ends it.

    is_lasting: wait until the disk has it, so that a power cut leaves this file or the one before.
    Raises OSError where it cannot be made or take its name.
    """
    # A link stays one: what it points to is written.
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.is_file() or target.is_dir()):
        # A device or a pipe is no file to replace: it takes what is written as it comes.
        with open(target, "wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with open(handle, "wb") as file:
            yield file
            if is_lasting:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(name, _usual_mode(0o666))
        os.replace(name, target)
    except BaseException as fault:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(fault, OSError) and fault.filename == name:
            # The name of a file that is there no longer tells nobody anything.
            raise OSError(fault.errno, fault.strerror, os.fspath(path)) from None
        raise


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder to fill; it takes its name at the end of the block, unless an exception ends it.

    What stood there is gone then. Raises OSError where it cannot be made or take its name.
    """
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        yield part
        part.chmod(_usual_mode(0o777))
        swap(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def swap(part: Path, folder: Path) -> None:
    """Put `part` in the place of `folder`; where that fails, the old one comes back."""
    old = part.with_name(part.name + ".old")
    if folder.exists():
        os.replace(folder, old)
    try:
        os.replace(part, folder)
    except BaseException:
        if old.exists():
            os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def write_json(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write `content` as JSON to read, all of it or nothing; OSError as `whole_file`."""
    with whole_file(path) as file:
        file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def lock(handle: int, *, is_waiting: bool) -> None:
    """Hold an open file or folder for this process until it closes it.

    is_waiting: wait where another holds it; without it that raises BlockingIOError. Where the
    system has no such locks, nothing is held.
    """
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if is_waiting else fcntl.LOCK_NB))


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep others that enter such a block for this folder waiting until the end of this one."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle, is_waiting=True)
        yield
    finally:
        os.close(handle)


def check_writable(name: str, path: str | os.PathLike[str]) -> None:
    """Raise ValueError naming an argument and its path where no file can be written there."""
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError("it is a folder")
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise ValueError(
            f"{name}: {os.fspath(path)!r} cannot be written: {reason_of(error)}"
        ) from None


def reason_of(error: OSError) -> str:
    """Why a file cannot be used, in words that fit behind a colon."""
    return (error.strerror or str(error)).lower()


def _usual_mode(mode: int) -> int:
    """The mode of other new files; temporary ones are private."""
    umask = os.umask(0)
    os.umask(umask)
    return mode & ~umask
