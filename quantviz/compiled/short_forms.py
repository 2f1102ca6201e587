"""Shorter forms of a cell's lines, for cells that are numbers or that saturation leaves as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from quantviz.compiled.tracing import CellCode, words_of

#: Whole numbers up to this size are all float32.
_EXACT = 2**24


def of_numbers(code: CellCode) -> CellCode:
    """Return the lines for cells whose results are numbers: without NaN, and with codes as whole floats.

    The error of any other cell is NaN, which marks it. If that does not follow, the lines stay as they are.
    >>> import torch
    >>> from quantviz import Scheme
    >>> from quantviz.compiled.tracing import trace_cell
    >>> code = trace_cell(Scheme("int4"), {"scale": torch.float32, "zero_point": torch.int32})
    >>> code.results["x_hat"], code.of_cell[-3], of_numbers(code).of_cell[-3]
    ('t13', 't13 = f4(scale * t12)', 't13 = f4(scale * t7)')
    """
    expressions = {name: kind for name, kind in code.types.items() if kind.startswith("i")}
    lines: dict[str, list[str]] = {"block": [], "cell": []}
    same: dict[str, str] = {}
    whole = {f"f4({name})" for name in expressions}
    assumed = set[str]()
    unhandled = set[str]()
    for where, line in (
        *(("block", line) for line in code.of_block),
        *(("cell", line) for line in code.of_cell),
    ):
        name, _, expression = replaced(line, same).partition(" = ")
        lines[where].append(f"{name} = {expression}")
        expressions[name] = expression
        call, _, inside = expression.rstrip(")").partition("(")
        given = inside.split(", ")
        source = expressions.get(inside, "")
        if call == "f4" and source.startswith("i4(") and source[3:-1] in whole:
            same[name] = source[3:-1]
        elif call == "select" and expressions.get(given[0]) == f"{given[2]} != {given[2]}":
            same[name] = given[2]
            assumed.add(given[2])
        elif _is_whole(expression, whole, code.floats):
            whole.add(name)
        # Results that are NaN if an assumed number is.
        if (
            call == "f4"
            and any(sign in inside for sign in (" + ", " - ", " * ", " / "))
            and (assumed | unhandled) & words_of(inside)
        ):
            unhandled.add(name)
    results = {name: same.get(result, result) for name, result in code.results.items()}
    code_of = expressions[results["q"]].removeprefix("i4(").removesuffix(")")
    if expressions[results["q"]] == f"i4({code_of})" and code_of in whole:
        results["q"] = code_of
    if len(assumed) > 1 or (assumed and results["error"] not in unhandled):
        return code
    return replace(
        code, of_block=tuple(lines["block"]), of_cell=tuple(lines["cell"]), results=MappingProxyType(results)
    )


def _is_whole(expression: str, whole: set[str], floats: Sequence[float]) -> bool:
    """Return whether a line's value is whole, given the names and expressions that are."""
    call, _, inside = expression.rstrip(")").partition("(")
    if call in ("rint", "floor", "ceil", "trunc") or expression in whole:
        return True
    if call == "select":
        return whole.issuperset(inside.split(", ")[1:])
    if call != "f4":
        return False
    if inside.startswith("load_f8(floats, "):
        number = floats[int(inside.rpartition(" ")[2].rstrip(")"))]
        return number.is_integer() and abs(number) <= _EXACT
    # A sum of whole numbers in float32, such as a code and a zero point, is whole too.
    return whole.issuperset(re.split(r" [+-] ", inside))


def unsaturated(code: CellCode) -> CellCode | None:
    """Return the lines of `of_numbers` without saturation; None if codes are no numbers.

    The caller checks that the codes lie between the scheme's ends.

    >>> import torch
    >>> from quantviz import Scheme
    >>> from quantviz.compiled.tracing import trace_cell
    >>> code = of_numbers(trace_cell(Scheme("int4"), {"scale": torch.float32, "zero_point": torch.int32}))
    >>> plain = unsaturated(code)
    >>> plain.of_cell[-3], plain.results["q"], plain.results["clipped"]
    ('t13 = f4(scale * t1)', 't1', 'False')
    """
    made = dict(line.split(" = ", 1) for line in code.of_cell)
    before, _, after = made[code.results["clipped"]].partition(" != ")
    if after != code.results["q"]:
        return None
    lines = tuple(
        replaced(line, {after: before}) if not line.startswith(f"{after} = ") else line
        for line in code.of_cell
    )
    results = {name: before if result == after else result for name, result in code.results.items()} | {
        "clipped": "False"
    }
    return replace(code, of_cell=lines, results=MappingProxyType(results))


def replaced(line: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b\w+\b", lambda found: names.get(found[0], found[0]), line)
