"""`quantviz explain`: every step of the arithmetic of one cell, as in the Lab's card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.output import Output, language, put, room, with_output, write
from quantviz.cli.tensors import open_tensor, schemes_named, takes_outputs_axis, takes_scheme
from quantviz.cli.text_table import text_table
from quantviz.schemes.orientation import Orientation

if TYPE_CHECKING:
    from quantviz.export.cell_words import DerivationLine
    from quantviz.quantization.explanation import Explanation


@click.command()
@click.argument("file")
@click.argument("names", nargs=-1, required=True, metavar="[TENSOR] CELL")
@takes_scheme
@takes_outputs_axis
@with_output()
def explain(
    file: str, names: tuple[str, ...], scheme: str, outputs_axis: Orientation | None, output: Output
) -> None:
    """Print every step of the arithmetic of one cell.

    FILE is a file of tensors, an index of shards, a folder, or the address of one, such as
    https://host/model.safetensors or s3://bucket/model/; or a source such as 'builtin(name=picture)'.
    TENSOR is a name in it, and may be left out where there is only one. CELL is one number for each axis,
    counted from 0: 3,7. The table is what the Lab tells; JSON has all numbers in full.
    """
    from quantviz.analysis.study import Study
    from quantviz.export.cell_words import derivation, sentence
    from quantviz.text import text

    if len(names) > 2:
        raise click.UsageError("Give FILE, TENSOR and CELL.")
    chosen = open_tensor(file, names[0] if len(names) == 2 else None, outputs_axis)
    (named,) = schemes_named((scheme,)).values()
    why = Study.of(chosen.stored, named).explain(chosen.cell(names[-1]))

    def say(key: str, /, **params: object) -> str:
        return text(key, language(), **params)

    lines = list(derivation(why, say))
    if output.format == "table":
        place = say("cell.place", place=", ".join(map(str, why.index)))
        put(output, f"{place} {sentence(why, say)}\n\n{_table(lines, say, room(output))}\n")
    elif output.format == "json":
        steps = [_record(line) for line in lines]
        write(output, {"tensor": chosen.name, **_facts(why), "sentence": sentence(why, say), "steps": steps})
    else:
        write(output, [_record(line) for line in lines if line.step])


def _table(lines: list[DerivationLine], say: Any, width: int | None) -> str:
    """Return the steps as a table, with the sentences between them as lines over its whole width.

    Where a terminal is too narrow for the columns, each step has two lines.
    """
    rows = [
        [line.words, line.step.code_line, line.numbers, f"{line.gives} {line.step.dtype}"]
        for line in lines
        if line.step
    ]
    names = [say(f"cell.{name}") for name in ("step", "line", "numbers", "gives")]
    table, left_out = text_table(names, rows, width)
    head, *each = table.split("\n")
    if left_out:
        head = ""
        each = [f"{words}\n    {line}  →  {gives}" for words, line, _, gives in rows]
    steps = iter(each)
    body = (
        next(steps) if line.step else say("cli.fact", words=line.words, told=line.numbers) for line in lines
    )
    return "\n".join([head, *body] if head else body)


def _facts(why: Explanation) -> dict[str, Any]:
    return {
        "scheme": str(why.scheme),
        "cell": why.index,
        "block": why.block,
        "block_size": why.block_size,
        "block_count": why.block_count,
        "range": why.range,
        "scale": why.scale,
        "zero_point": why.zero_point,
        "x": why.x,
        "before_rounding": why.before_rounding,
        "neighbours": why.neighbours,
        "tie": why.tie,
        "code": why.q,
        "code_bits": "".join(why.bits),
        "value": why.value,
        "x_hat": why.x_hat,
        "error": why.error,
        "cause": why.cause,
    }


def _record(line: DerivationLine) -> dict[str, Any]:
    if line.step is None:
        return {"words": line.words, "told": line.numbers}
    return {
        "step": line.step.key,
        "words": line.words,
        "line": line.step.code_line,
        "numbers": dict(line.step.inputs),
        "gives": line.step.output,
        "dtype": line.step.dtype,
    }
