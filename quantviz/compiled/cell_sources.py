"""The sources that are compiled for a scheme: the traced lines of cells and blocks put into loops."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from quantviz.compiled.hand_written import by_hand
from quantviz.compiled.short_forms import of_numbers, replaced, unsaturated
from quantviz.compiled.tracing import BlockCode, CellCode, words_of
from quantviz.compiled.vector_comparing import GIVEN_TO_COMPARE
from quantviz.compiled.vector_sums import GIVEN, GIVEN_TO_TRY, described
from quantviz.schemes.calibration import FLOAT32_EXACT_INTEGER, FLOAT32_MAX

#: Lines that store the results of a cell, each in an array of its own.
_STORES = (
    "store_i4(q, at, {q})",
    "store_x_hat(x_hat, at, {x_hat})",
    "store_error(error, at, {error})",
    "store_b1(clipped, at, {clipped})",
    "wide = f8({error})",
    "store_f8(steps, at, select(wide == 0.0, f8(0.0), {in_steps}))",
)
STORES_OF_ERRORS = ("store_error(error, at, {error})",)
#: The loop around a cell's lines: a chunk of cells, block after block. Arguments are numbers and addresses of
#: arrays.
_TEMPLATE = """
def cells(
    x, n, flat, offset, length, width, row, bases, params, blocks, floats, integers, tables,
    q, x_hat, error, clipped, steps,
):
    column = (flat - offset) % length
    line = (flat - offset) // length - row
    block = load_i8(bases, line) + column // width
{fixed}
    made = 0
    while made < n:
        size = {reach}
        if size > length - column:
            size = length - column
        if size > n - made:
            size = n - made
{of_block}
        for j in range(size):
            at = made + j
            x_ = load_f4(x, at)
{of_cell}
{stores}
        made += size
        column += size
        if column < length:
            block += {blocks_on}
        elif made < n:
            column = 0
            line += 1
            block = load_i8(bases, line)
"""
#: The loop around a block's lines. It returns whether a block must be looked at more closely: one whose range
#: or zero point may be refused, or whose ends have one magnitude, so that the first of them in the block
#: matters.
_OF_BLOCKS = """
def cells(low, high, count, absmax, floats, integers, tables, out, found):
    tensor_absmax = f4(load_f8(absmax, 0))
{fixed}
    close = False
    for b in range(count):
        least_key, most_key = load_i4(low, b), load_i4(high, b)
        empty = least_key > most_key
        lo = {of}(select(empty, f4(0.0), of_bits(i4(least_key ^ ((least_key >> 31) & 0x7FFFFFFF)))))
        hi = {of}(select(empty, f4(0.0), of_bits(i4(most_key ^ ((most_key >> 31) & 0x7FFFFFFF)))))
        extreme = select(hi > -lo, hi, lo)
        close = close | ((fabs(lo) <= {widest}) & (fabs(hi) <= {widest}) ^ True){ties}
{lines}
        close = close | ((fabs({zero_point}) <= {largest}) ^ True)
{stores}
    store_f8(found, 0, f8(1.0) if close else f8(0.0))
"""


def params_of(code: CellCode) -> tuple[str, ...]:
    """Return the names of the block parameters that the lines read, in the order of the arguments."""
    return tuple(sorted({*code.params, "scale"}))


def sources_of(
    code: CellCode,
    by_element: bool,
    blocks: BlockCode | None,
    sums: CellCode,
    *,
    counted: bool,
    errors: bool,
) -> tuple[str, ...]:
    """Return the sources of all that is compiled for these cells, their sums and, if given, their blocks.

    Args:
        code: The lines of cells.
        by_element: Whether blocks have one element along the last axis.
        blocks: The lines of blocks.
        sums: The lines of cells that sums are made by.
        counted: Whether these count codes.
        errors: Whether to add a source that stores errors alone.
    """
    of_blocks = (source_of_blocks(blocks, params_of(code)),) if blocks else ()
    of_errors = (source_of_cells(code, by_element, STORES_OF_ERRORS),) if errors else ()
    # Schemes that differ in numbers only have the same sources.
    return tuple(
        map(
            sys.intern,
            (
                source_of_cells(code, by_element),
                *sources_of_sums(sums, by_element, counted=counted),
                *of_errors,
                *of_blocks,
            ),
        )
    )


def source_of_cells(code: CellCode, by_element: bool, stores: tuple[str, ...] = _STORES) -> str:
    known = params_of(code)
    loads = [
        f"{name} = {code.types[name]}(load_f8(params, {i} * blocks + block{' + j' if by_element else ''}))"
        for i, name in enumerate(known)
    ]
    index = ["index = flat + at"] if any("index" in words_of(line) for line in code.of_cell) else []
    fixed, of_block = _parted(code)
    of_block = [*loads, *of_block]
    of_cell = [*index, *map(_renamed, code.of_cell)]
    results = {name: _renamed(code.results[name]) for name in ("q", "x_hat", "error", "clipped")}
    results["in_steps"] = (
        "wide * inverse_step" if code.step_of_block else f"wide / f8({code.results['step']})"
    )
    return _TEMPLATE.format(
        fixed=_indented(fixed, 1),
        reach="n" if by_element else "width - column % width",
        of_block=_indented(() if by_element else of_block, 2),
        of_cell=_indented([*of_block, *of_cell] if by_element else of_cell, 3),
        stores=_indented((store.format(**results) for store in stores), 3),
        blocks_on="size" if by_element else "1 if column % width == 0 else 0",
    )


def sources_of_sums(code: CellCode, by_element: bool, *, counted: bool = False) -> list[str]:
    if by_hand("sums") and "inverse_gap" in code.results:  # short already
        return [_source_of_sums(code, by_element, counted)]
    # If lines compute a cell's exponent, as float formats do, 16 cells side by side need more registers than
    # there are: no gain, or a loss.
    if not by_hand("sums") or any("exponent(" in line for line in code.of_cell):
        return []
    code = of_numbers(code)
    plain = unsaturated(code)
    return [_source_of_sums(each, by_element, counted) for each in (code, plain) if each]


def _source_of_sums(code: CellCode, by_element: bool, counted: bool) -> str:
    """Return the source of the loops that give sums: it holds their description, from which they follow."""
    plain = _described(code, by_element) | {
        name: _renamed(code.results[name]) for name in ("q", "x_hat", "error", "clipped")
    }
    plain["counted"] = counted
    return _source_of_loops("summing", plain, GIVEN)


def source_of_comparison(code: CellCode) -> str:
    code = of_numbers(code)
    plain = _described(code, by_element=False) | {
        name: _renamed(code.results[name]) for name in ("error", "clipped", "step")
    }
    return _source_of_loops("comparing", plain, GIVEN_TO_COMPARE)


def source_of_trials(code: CellCode) -> str:
    plain = _described(code, by_element=False) | {
        "error": _renamed(code.results["error"]),
        "step_of_block": False,
    }
    return _source_of_loops("trying", plain, GIVEN_TO_TRY)


def _described(code: CellCode, by_element: bool) -> dict[str, Any]:
    return described(code, params_of(code), by_element, *_parted(code), map(_renamed, code.of_cell))


def _source_of_loops(makes: str, plain: dict[str, Any], names: tuple[str, ...]) -> str:
    given = ", ".join(names)
    return f"loops = {makes}({plain!r}, small)\n\n\ndef cells({given}):\n    loops({given})\n"


def source_of_blocks(code: BlockCode, names: tuple[str, ...]) -> str:
    # Blocks whose ends have one magnitude are marked only if the order of the ends matters.
    ties = " | (hi == -lo)" if "extreme" in code.reads else ""
    zero_point = code.results["zero_point"]
    return _OF_BLOCKS.format(
        fixed=_indented(code.fixed, 1),
        lines=_indented(code.lines, 2),
        of=code.of,
        widest=f"{code.of}({FLOAT32_MAX / 2!r})",
        largest=FLOAT32_EXACT_INTEGER,
        ties=ties,
        zero_point=f"f8({zero_point})",
        stores=_indented(
            [f"store_f8(out, {i} * count + b, f8({code.results[name]}))" for i, name in enumerate(names)], 2
        ),
    )


def _parted(code: CellCode) -> tuple[list[str], list[str]]:
    """Return the lines that follow from numbers alone, and those that follow from the block."""
    fixed = [line for line in code.of_block if not _reads_block(line, code)]
    of_block = [line for line in code.of_block if _reads_block(line, code)]
    return fixed, [
        *of_block,
        *([f"inverse_step = 1.0 / f8({code.results['step']})"] if code.step_of_block else []),
    ]


def _reads_block(line: str, code: CellCode) -> bool:
    """Return whether a line depends on parameters of the block, not on numbers alone."""
    known = set(params_of(code))
    for each in code.of_block:
        name, _, expression = each.partition(" = ")
        if words_of(expression) & known:
            known.add(name)
    return line.partition(" = ")[0] in known


def _renamed(line: str) -> str:
    """Rename x in a line: there x is the array, and a cell of it is x_."""
    return replaced(line, {"x": "x_"})


def _indented(lines: Iterable[str], depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines) or "    " * depth + "pass"
