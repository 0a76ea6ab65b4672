"""Many bytes at once, for kernels: what observations need of a processor's vector instructions.

`Lanes` are 16 or 64 signed bytes in a register, `Flags` as many truth values; they take the
operators of numpy's arrays, which they are under NUMBA_DISABLE_JIT=1, and whole numbers too. No
code here is for one kind of processor: LLVM finds the instructions.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir

from judgement_env._jit import extending, intrinsic, is_compiled, need_bytes, place_of, types

FEW, HALF, MANY = 16, 32, 64
# A suit of thirteen cards has 16 lanes of its own where its cards are counted.
NUM_GROUPS, SUIT_SIZE = MANY // FEW, 13
SUIT_LANES = [FEW * group + k for group in range(NUM_GROUPS) for k in range(SUIT_SIZE)]


if not is_compiled:

    def lanes_at(array: Any, start: int) -> Any:
        """Return the 16 lanes from ``array[start]`` on; undefined past the end of the memory."""
        given = array[start : start + FEW]
        lanes = np.zeros(FEW, np.int8)
        lanes[: len(given)] = given.view(np.int8)
        return lanes

    def put_lanes(out: Any, start: int, lanes: Any) -> None:
        """Write all lanes from ``out[start]`` on."""
        out[start : start + len(lanes)] = lanes.view(out.dtype)

    def spread(bits: Any) -> Any:
        """Return 64 lanes, 0 or 1: bit c of a word in lane c."""
        return (np.uint64(bits) >> np.arange(MANY, dtype=np.uint64) & np.uint64(1)).astype(np.int8)

    def spread_half(bits: Any) -> Any:
        """Return 32 lanes, 0 or 1: bit c of a word in lane c."""
        return spread(bits)[:HALF]

    def spread_suits(bits: Any) -> Any:
        """Return 64 lanes, 0 or 1: 13 bits of a word for each group of 16, whose last are 0."""
        lanes = np.zeros(MANY, np.int8)
        lanes[SUIT_LANES] = spread(bits)[: len(SUIT_LANES)]
        return lanes

    def where(flags: Any, one: Any, other: Any) -> Any:
        """Return the lanes of `one` where a flag is set, else those of `other`; or numbers."""
        return np.where(flags, np.asarray(one, np.int8), np.asarray(other, np.int8))

    def picked(lanes: Any, order: Any) -> Any:
        """Return 16 lanes: lane k is the one that lane k of `order`, from 0 to 15, names."""
        return lanes[order]

    def in_fours(lanes: Any) -> Any:
        """Return 64 lanes, 0 or 1: the four lowest bits of each of 16 lanes."""
        return (lanes[:, np.newaxis] >> np.arange(4) & 1).astype(np.int8).reshape(MANY)

    def sums_above(lanes: Any) -> Any:
        """Return 64 lanes: for each one the sum of those above it in its group of 16."""
        groups = lanes.reshape(NUM_GROUPS, FEW)[:, ::-1]
        return (np.cumsum(groups, 1)[:, ::-1] - groups[:, ::-1]).astype(np.int8).reshape(MANY)

    def put_suits(out: Any, start: int, lanes: Any) -> None:
        """Write the lowest 13 of each group of 16 lanes, 52 bytes."""
        out[start : start + len(SUIT_LANES)] = lanes.view(out.dtype)[SUIT_LANES]

    def gaps(numbers: Any, own: int) -> Any:
        """Return 16 lanes: 128 + numbers[k] - own, from 0 to 255 as unsigned bytes."""
        result = np.zeros(FEW, np.int64)
        result[: len(numbers)] = numbers
        return np.clip(128 + result - own, 0, 255).astype(np.uint8).view(np.int8)

else:

    class Lanes(types.Type):  # type: ignore[misc]
        """The type of signed bytes side by side."""

        def __init__(self, count: int) -> None:
            self.count = count
            super().__init__(f"Lanes({count})")

    class Flags(types.Type):  # type: ignore[misc]
        """The type of truth values side by side."""

        def __init__(self, count: int) -> None:
            self.count = count
            super().__init__(f"Flags({count})")

    def _vector(count: int, bits: int = 8) -> Any:
        return ir.VectorType(ir.IntType(bits), count)

    @extending.register_model(Lanes)
    class _LanesModel(extending.models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, _vector(kind.count))

    @extending.register_model(Flags)
    class _FlagsModel(extending.models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, _vector(kind.count, 1))

    def _shuffled(builder: Any, one: Any, other: Any, places: list[int]) -> Any:
        """Return the lanes of `one` and `other`, counted through, at constant places."""
        mask = ir.Constant(_vector(len(places), 32), places)
        return builder.shuffle_vector(one, other, mask)

    def _splat(context: Any, builder: Any, number: Any, kind: Any, count: int) -> Any:
        """Return lanes that all are a whole number."""
        byte = context.cast(builder, number, kind, types.int8)
        vector = _vector(count)
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), byte, ir.IntType(32)(0))
        return _shuffled(builder, first, first, [0] * count)

    def _is_number(kind: Any) -> bool:
        return isinstance(kind, types.Integer | types.IntegerLiteral)

    def _offer(operation: Any, name: str, kind: Any, result: Any) -> None:
        """Let kernels write `operation` between lanes (or flags), and between lanes and numbers."""

        @intrinsic  # type: ignore[untyped-decorator]
        def combined(typing: Any, one: Any, other: Any) -> Any:
            count = (other if _is_number(one) else one).count

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                left, right = arguments
                if _is_number(one):
                    left = _splat(context, builder, left, one, count)
                if _is_number(other):
                    right = _splat(context, builder, right, other, count)
                if result is kind:
                    return getattr(builder, name)(left, right)
                return builder.icmp_signed(name, left, right)

            return result(count)(one, other), generate

        def write(one: Any, other: Any) -> Any:
            return combined(one, other)

        @extending.overload(operation, inline="always")  # type: ignore[untyped-decorator]
        def offered(one: Any, other: Any) -> Any:
            given = [isinstance(side, kind) for side in (one, other)]
            is_fit = any(given) and all(given[k] or _is_number((one, other)[k]) for k in range(2))
            return write if is_fit else None

    for _operation, _name in (
        (operator.and_, "and_"),
        (operator.or_, "or_"),
        (operator.add, "add"),
        (operator.sub, "sub"),
    ):
        _offer(_operation, _name, Lanes, Lanes)
    for _operation, _name in ((operator.gt, ">"), (operator.lt, "<"), (operator.ne, "!=")):
        _offer(_operation, _name, Lanes, Flags)
    _offer(operator.and_, "and_", Flags, Flags)
    _offer(operator.or_, "or_", Flags, Flags)

    @intrinsic  # type: ignore[untyped-decorator]
    def lanes_at(typing: Any, array: Any, start: Any) -> Any:
        """Return the 16 lanes from ``array[start]`` on; undefined past the end of the memory."""
        need_bytes(array)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = place_of(context, builder, signature, arguments, _vector(FEW))
            return builder.load(place, align=1)

        return Lanes(FEW)(array, types.int64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def put_lanes(typing: Any, out: Any, start: Any, lanes: Any) -> Any:
        """Write all lanes from ``out[start]`` on."""
        need_bytes(out)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = place_of(context, builder, signature, arguments, _vector(lanes.count))
            builder.store(arguments[2], place, align=1)
            return context.get_dummy_value()

        return types.void(out, types.int64, lanes), generate

    def _spread(builder: Any, bits: Any, count: int) -> Any:
        bits = builder.trunc(bits, ir.IntType(count)) if count < MANY else bits
        return builder.zext(builder.bitcast(bits, _vector(count, 1)), _vector(count))

    @intrinsic  # type: ignore[untyped-decorator]
    def spread(typing: Any, bits: Any) -> Any:
        """Return 64 lanes, 0 or 1: bit c of a word in lane c."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _spread(builder, arguments[0], MANY)

        return Lanes(MANY)(types.uint64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def spread_half(typing: Any, bits: Any) -> Any:
        """Return 32 lanes, 0 or 1: bit c of a word in lane c."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _spread(builder, arguments[0], HALF)

        return Lanes(HALF)(types.uint64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def spread_suits(typing: Any, bits: Any) -> Any:
        """Return 64 lanes, 0 or 1: 13 bits of a word for each group of 16, whose last are 0."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = dict(zip(SUIT_LANES, range(len(SUIT_LANES)), strict=True))
            own = [1 << place[k] % 8 if k in place else 0 for k in range(MANY)]
            few = builder.bitcast(arguments[0], _vector(8))
            many = _shuffled(builder, few, few, [place.get(k, 0) // 8 for k in range(MANY)])
            kept = builder.and_(many, ir.Constant(_vector(MANY), own))
            is_set = builder.icmp_signed("!=", kept, ir.Constant(_vector(MANY), [0] * MANY))
            return builder.zext(is_set, _vector(MANY))

        return Lanes(MANY)(types.uint64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def where(typing: Any, flags: Any, one: Any, other: Any) -> Any:
        """Return the lanes of `one` where a flag is set, else those of `other`; or numbers."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            chosen, left, right = arguments
            if _is_number(one):
                left = _splat(context, builder, left, one, flags.count)
            if _is_number(other):
                right = _splat(context, builder, right, other, flags.count)
            return builder.select(chosen, left, right)

        return Lanes(flags.count)(flags, one, other), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def picked(typing: Any, lanes: Any, order: Any) -> Any:
        """Return 16 lanes: lane k is the one that lane k of `order`, from 0 to 15, names."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _picked(builder, *arguments)

        return Lanes(FEW)(lanes, order), generate

    def _picked(builder: Any, lanes: Any, order: Any) -> Any:
        # Lane by lane; where there is an instruction for all of them, LLVM takes it.
        result = ir.Constant(_vector(FEW), ir.Undefined)
        for k in range(FEW):
            number = ir.IntType(32)(k)
            place = builder.zext(builder.extract_element(order, number), ir.IntType(32))
            result = builder.insert_element(result, builder.extract_element(lanes, place), number)
        return result

    @intrinsic  # type: ignore[untyped-decorator]
    def in_fours(typing: Any, lanes: Any) -> Any:
        """Return 64 lanes, 0 or 1: the four lowest bits of each of 16 lanes."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = _vector(MANY)
            lanes = arguments[0]
            wide = _shuffled(builder, lanes, lanes, [k // 4 for k in range(MANY)])
            own = builder.and_(wide, ir.Constant(vector, [1 << k % 4 for k in range(MANY)]))
            is_set = builder.icmp_signed("!=", own, ir.Constant(vector, [0] * MANY))
            return builder.zext(is_set, vector)

        return Lanes(MANY)(lanes), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def sums_above(typing: Any, lanes: Any) -> Any:
        """Return 64 lanes: for each one the sum of those above it in its group of 16."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            zeros = ir.Constant(_vector(MANY), [0] * MANY)

            def lowered(vector: Any, by: int) -> Any:
                places = [k + by if k % FEW + by < FEW else MANY for k in range(MANY)]
                return _shuffled(builder, vector, zeros, places)

            total = lowered(arguments[0], 1)
            for by in (1, 2, 4, 8):
                total = builder.add(total, lowered(total, by))
            return total

        return Lanes(MANY)(lanes), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def put_suits(typing: Any, out: Any, start: Any, lanes: Any) -> Any:
        """Write the lowest 13 of each group of 16 lanes, 52 bytes."""
        need_bytes(out)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            out, start, vector = arguments
            # A group at a time, over the end of the one before; the last 16 bytes end with it.
            for first in (0, SUIT_SIZE, 2 * SUIT_SIZE, len(SUIT_LANES) - FEW):
                lane = first // SUIT_SIZE * FEW
                places = (
                    list(range(lane, lane + FEW)) if first % SUIT_SIZE == 0 else SUIT_LANES[first:]
                )
                after = builder.add(start, start.type(first))
                place = place_of(context, builder, signature, (out, after), _vector(FEW))
                builder.store(_shuffled(builder, vector, vector, places), place, align=1)
            return context.get_dummy_value()

        return types.void(out, types.int64, lanes), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def gaps(typing: Any, numbers: Any, own: Any) -> Any:
        """Return 16 lanes: 128 + numbers[k] - own, from 0 to 255 as unsigned bytes."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = _vector(FEW, 32)
            array = context.make_array(numbers)(context, builder, arguments[0])
            wide = builder.load(builder.bitcast(array.data, kind.as_pointer()), align=4)
            middle = builder.sub(ir.IntType(32)(128), builder.trunc(arguments[1], ir.IntType(32)))
            start = builder.insert_element(ir.Constant(kind, ir.Undefined), middle, middle.type(0))
            total = builder.add(wide, _shuffled(builder, start, start, [0] * FEW))
            least, most = ir.Constant(kind, [0] * FEW), ir.Constant(kind, [255] * FEW)
            total = builder.select(builder.icmp_signed("<", total, least), least, total)
            total = builder.select(builder.icmp_signed(">", total, most), most, total)
            return builder.trunc(total, _vector(FEW))

        return Lanes(FEW)(numbers, types.int64), generate
