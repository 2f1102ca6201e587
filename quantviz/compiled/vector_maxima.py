"""The largest number of each stretch of a row, with its places, by vector instructions."""

from __future__ import annotations

from collections.abc import Callable

from numba import types

from quantviz.compiled.lanes import WIDTH, Lanes, Loops, further, intrinsic, ir, select


@intrinsic
def largest_of_stretches(typing, values, begin, count, most, first, last):
    """Find the largest int32 of each of `count` stretches of `values`, and where its first and last are.

    No value is negative. Stretch j goes from begin[j] to before begin[j + 1]; all are int32 at addresses.
    After the values `WIDTH` more can be read.
    """

    def generate(context, builder, signature, args):
        loops = Loops(builder)
        address, begins, number, *out = (Lanes(builder, "i8", value, wide=False) for value in args)
        none = number.constant(0, "i8")
        lanes = Lanes(
            builder, "i8", ir.Constant(ir.VectorType(ir.IntType(64), WIDTH), list(range(WIDTH))), wide=True
        )

        def stretch(j: Lanes) -> None:
            left, right = (loops.memory.load("i4", begins, at).to("i8") for at in (j, j + 1))

            def parts(body: Callable[[Lanes, Lanes], None]) -> None:
                """Run `body` on all lanes of the stretch, with -1 in lanes beyond its end."""
                place = loops.place("i8", left)

                def once() -> None:
                    at = loops.get(place)
                    body(at, select(lanes < right - at, loops.memory.load("i4", address, at, wide=True), -1))
                    loops.put(place, at + WIDTH)

                loops.whilst(lambda: loops.get(place) < right, once)

            size = loops.place("i4", 0, wide=True)
            parts(lambda _, found: loops.extend(size, found, ">"))
            largest = loops.get(size).joined(further(">"))
            near = loops.place("i8", -1)
            far = loops.place("i8", -1)

            def look(at: Lanes, found: Lanes) -> None:
                mask = (found == largest).mask()
                lowest = at + at.of("i8", builder.cttz(mask.value, ir.Constant(ir.IntType(1), 0)))
                highest = at + 63 - at.of("i8", builder.ctlz(mask.value, ir.Constant(ir.IntType(1), 0)))
                loops.put(near, select((loops.get(near) < 0) & (mask != 0), lowest, loops.get(near)))
                loops.put(far, select(mask != 0, highest, loops.get(far)))

            parts(look)
            for to, value in zip(out, (largest, loops.get(near), loops.get(far)), strict=True):
                loops.memory.store("i4", to, j, value.to("i4"))

        loops.stepped(none, number, 1, stretch)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 6), generate
