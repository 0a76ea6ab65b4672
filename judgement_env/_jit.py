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
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import extending as numba_extending
from numba.core import types as numba_types
from numba.extending import intrinsic as numba_intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
# Scratch space of a kernel: enough for a pack of cards.
STACK_BYTES = 128
# ... and for numbers: 36 rows of 32.
STACK_NUMBERS = 1152
# What a cache fetches at a time.
LINE = 64

# numba carries few annotations.
types: Any = numba_types
intrinsic: Any = numba_intrinsic
extending: Any = numba_extending
inlined: Any = numba.njit(inline="always")
carray: Any = getattr(numba, "carray")  # noqa: B009 - numba does not say that it exports it


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
is_compiled: bool = not _settings.DISABLE_JIT
if not is_compiled:
    # 64-bit hashes wrap on purpose; compiled code does so silently, numpy scalars warn.
    np.seterr(over="ignore")
else:
    _settings.CACHE_DIR = str(cache_directory())


def njit(function: Function) -> Function:
    """Compile `function` with numba, cached on disk, free of the interpreter lock."""
    compiled: Any = numba.njit(nogil=True)(function)
    if is_compiled:
        # A kernel typed into an interpreter has no source file to name its cache by.
        with contextlib.suppress(RuntimeError):
            compiled.enable_caching()
    return cast(Function, compiled)


def arithmetic(function: Function) -> Function:
    """Compile a kernel of much float arithmetic, whose sums may be taken in any order.

    Lanes of a vector register then add up side by side, and a product is added in one instruction;
    a division by zero is not looked for.
    """
    flags = {"reassoc", "contract", "nsz"}
    compiled: Any = numba.njit(nogil=True, fastmath=flags, error_model="numpy")(function)
    if is_compiled:
        with contextlib.suppress(RuntimeError):
            compiled.enable_caching()
    return cast(Function, compiled)


def inside(function: Function) -> Function:
    """Compile a kernel into each kernel that calls it.

    A call that LLVM leaves a call hands every array over as seven numbers and counts its owner's
    references: an observation of a dozen such parts took longer for its calls than for its bytes.
    """
    compiled: Any = numba.njit(nogil=True, forceinline=True)(function)
    if is_compiled:
        with contextlib.suppress(RuntimeError):
            compiled.enable_caching()
    return cast(Function, compiled)


# --- what the language lacks: a few bytes on the stack, and bytes written many at a time ---------

BYTE, WORD = ir.IntType(8), ir.IntType(64)


def place_of(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
    """Return a pointer to `kind` at element `start` of the array, the first two arguments."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())


def need_bytes(array: Any) -> None:
    """Refuse to compile for an array of other than bytes."""
    if array.dtype.bitwidth != 8:
        raise TypeError(f"an array of bytes is needed, not of {array.dtype}")


if not is_compiled:

    def stack_bytes() -> Any:
        """Return an array (128,) int8 of undefined content."""
        return np.empty(STACK_BYTES, np.int8)

    def stack_numbers() -> Any:
        """Return an array (1152,) float64 of undefined content."""
        return np.empty(STACK_NUMBERS)

    def row_of(array: Any, i: int) -> Any:
        """Return row i of an array (N, D) in C order; nothing of an array without rows."""
        return array[i : i + 1].reshape(-1)

    def spread_bits(out: Any, start: int, bits: Any) -> None:
        """Write bit c of `bits` as ``out[start + c]``, 0 or 1, for c of 0..63."""
        out[start : start + 64] = (np.uint64(bits) >> np.arange(64, dtype=np.uint64)) & np.uint64(1)

    def read_word(array: Any, start: int) -> Any:
        """Return the 8 bytes from ``array[start]`` on as a word, the first one lowest."""
        return np.frombuffer(array[start : start + 8].tobytes(), "<u8")[0]

    def write_word(out: Any, start: int, word: Any) -> None:
        """Write the 8 bytes of a word from ``out[start]`` on, the lowest first."""
        out[start : start + 8] = np.frombuffer(np.array(word, "<u8").tobytes(), out.dtype)

    def fetch(array: Any, i: int) -> None:
        """Have the processor fetch record i of an array (N,), soon to be written to."""

    _one_at_a_time = threading.Lock()

    def fetch_ahead(array: Any, start: int) -> None:
        """Have the processor fetch the line of element `start` of a flat array, soon to be read."""

    def add_to(counters: Any, k: int, number: int) -> int:
        """Add to ``counters[k]``, one thread at a time; return what was there before."""
        with _one_at_a_time:
            before = int(counters[k])
            counters[k] = before + number
        return before

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def _stack_pointer(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            with builder.goto_entry_block():
                space = builder.alloca(ir.ArrayType(BYTE, STACK_BYTES))
            return builder.bitcast(space, BYTE.as_pointer())

        return types.CPointer(types.int8)(), generate

    @inlined  # type: ignore[untyped-decorator]
    def stack_bytes() -> Any:
        """Return an array (128,) int8 of undefined content in the frame of the kernel that asks."""
        return carray(_stack_pointer(), STACK_BYTES)

    @intrinsic  # type: ignore[untyped-decorator]
    def _number_pointer(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            with builder.goto_entry_block():
                space = builder.alloca(ir.ArrayType(ir.DoubleType(), STACK_NUMBERS))
            return builder.bitcast(space, ir.DoubleType().as_pointer())

        return types.CPointer(types.float64)(), generate

    @inlined  # type: ignore[untyped-decorator]
    def stack_numbers() -> Any:
        """Return an array (1152,) float64 of undefined content in the frame of the kernel."""
        return carray(_number_pointer(), STACK_NUMBERS)

    @intrinsic  # type: ignore[untyped-decorator]
    def _row_pointer(typing: Any, array: Any, i: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole = context.make_array(signature.args[0])(context, builder, arguments[0])
            width = builder.extract_value(whole.shape, 1)
            return builder.gep(whole.data, [builder.mul(arguments[1], width)])

        return types.CPointer(array.dtype)(array, types.int64), generate

    @inlined  # type: ignore[untyped-decorator]
    def row_of(array: Any, i: int) -> Any:
        """Return row i of an array (N, D) in C order, whose owner must outlive the row.

        A row taken as ``array[i]`` counts its owner's references with locked instructions, at each
        call it is passed to: more than writing the row costs.
        """
        return carray(_row_pointer(array, i), array.shape[1])

    @intrinsic  # type: ignore[untyped-decorator]
    def spread_bits(typing: Any, out: Any, start: Any, bits: Any) -> Any:
        """Write bit c of `bits` as ``out[start + c]``, 0 or 1, for c of 0..63.

        Into bytes, a dozen vector instructions whatever the bits; a loop takes ten times as long.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            flags = builder.bitcast(arguments[2], ir.VectorType(ir.IntType(1), 64))
            wide = ir.VectorType(context.get_data_type(out.dtype), 64)
            convert = builder.uitofp if isinstance(out.dtype, types.Float) else builder.zext
            place = place_of(context, builder, signature, arguments, wide)
            builder.store(convert(flags, wide), place, align=1)
            return context.get_dummy_value()

        return types.void(out, types.int64, types.uint64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def read_word(typing: Any, array: Any, start: Any) -> Any:
        """Return the 8 bytes from ``array[start]`` on as a word, the first one lowest."""
        need_bytes(array)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(place_of(context, builder, signature, arguments, WORD), align=1)

        return types.uint64(array, types.int64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def write_word(typing: Any, out: Any, start: Any, word: Any) -> Any:
        """Write the 8 bytes of a word from ``out[start]`` on, the lowest first."""
        need_bytes(out)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = place_of(context, builder, signature, arguments, WORD)
            builder.store(arguments[2], place, align=1)
            return context.get_dummy_value()

        return types.void(out, types.int64, types.uint64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def fetch(typing: Any, array: Any, i: Any) -> Any:
        """Have the processor fetch record i of an array (N,), soon to be written to."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            byte, number = BYTE.as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
            record = builder.bitcast(place_of(context, builder, signature, arguments, BYTE), byte)
            for start in range(0, array.dtype.size, LINE):
                line = builder.gep(record, [WORD(start)])
                # for writing, into the nearest cache, data
                builder.call(prefetch, [line, number(1), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def fetch_ahead(typing: Any, array: Any, start: Any) -> Any:
        """Have the processor fetch the line of element `start` of a flat array, soon to be read."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            byte, number = BYTE.as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
            place = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            line = builder.bitcast(builder.gep(place, [arguments[1]]), byte)
            # for reading, into the nearest cache, data
            builder.call(prefetch, [line, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def add_to(typing: Any, counters: Any, k: Any, number: Any) -> Any:
        """Add to ``counters[k]``, one thread at a time; return what was there before."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = place_of(context, builder, signature, arguments, WORD)
            return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

        return types.int64(counters, types.int64, types.int64), generate
