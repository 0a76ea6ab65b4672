"""The one place that imports numba.

`njit` compiles a kernel without the interpreter lock and caches it in a directory named by a hash
of every kernel source: numba notices an edit of the file a kernel stands in, but not of a file it
calls into. With ``NUMBA_DISABLE_JIT=1`` the kernels run as plain Python, with the same results.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel_hash() -> str:
    """Return a short hash of the sources that hold kernels, numba's version included."""
    digest = hashlib.sha256(numba.__version__.encode())
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if b"_jit" in source:
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + source)
    return digest.hexdigest()[:16]


def cache_directory() -> Path:
    """Return a writable directory for compiled kernels.

    JUDGEMENT_CACHE_DIR names it, or else the user's cache directory; where that cannot be written
    it is a new one of this process, for a shared one could hold code of somebody else.
    """
    base = os.environ.get("JUDGEMENT_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    directory = root / "judgement-env" / kernel_hash()
    try:
        is_new = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError:
        print(
            f"judgement_env: {directory} cannot be written; its kernels are compiled anew each time"
            " (JUDGEMENT_CACHE_DIR names another place)",
            file=sys.stderr,
        )
        temporary = Path(tempfile.mkdtemp(prefix="judgement-env-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return temporary
    if is_new:
        print(
            "judgement_env: its kernels are compiled for this machine, each on first use;"
            " the first runs take up to a minute longer",
            file=sys.stderr,
        )
    return directory


_settings: Any = numba.config
if _settings.DISABLE_JIT:
    # 64-bit hashes wrap on purpose; compiled code does so silently, numpy scalars warn.
    np.seterr(over="ignore")
else:
    _settings.CACHE_DIR = str(cache_directory())


def njit(function: Function) -> Function:
    """Compile `function` with numba, cached on disk, free of the interpreter lock."""
    compiled: Any = numba.njit(nogil=True)(function)
    if not _settings.DISABLE_JIT:
        # A kernel typed into an interpreter has no source file to name its cache by.
        with contextlib.suppress(RuntimeError):
            compiled.enable_caching()
    return cast(Function, compiled)
