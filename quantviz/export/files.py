from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Collection
from typing import cast

from quantviz.evaluation.tables import scheme_text
from quantviz.export.audit_report import plain
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.state import LabState
from quantviz.schemes.conventions import CONVENTIONS, Convention, find_convention
from quantviz.schemes.scheme import Scheme
from quantviz.sources.base import Source, comment, file_code
from quantviz.tensors.views import MOST_PART
from quantviz.text import DEFAULT_LANGUAGE

#: The longest file name, its ending left out.
LONGEST_NAME = 120
#: The numbers that a script prints: those of the tiles, and the RMSE below the first of them.
PRINTED = (*TILE_PARTS, "rmse")


# ---- Python -------------------------------------------------------------------------------------


def python_lines(
    state: LabState,
    *,
    language: str = DEFAULT_LANGUAGE,
    numbers: Collection[str] = PRINTED,
    cell: bool = True,
    brief: bool = False,
) -> str:
    """Return a script that makes the tensor, quantizes it, and prints the tiles and the cell's derivation.

    `numbers` are the printed ones, of `PRINTED`; with `brief` the scheme is written by `brief_code`.

    >>> from quantviz.lab.state import opening
    >>> print(python_lines(opening()))  # doctest: +ELLIPSIS
    import quantviz as qv
    from quantviz.sources import Builtin
    <BLANKLINE>
    x = Builtin(name='loud_column').tensor()
    scheme = qv.Scheme(
        format='int4',
    ...
    """
    tensor = _tensor_lines(state, language)
    result = ["r = Study.of(x, scheme)"] if state.large else ["r = qv.quantize(x, scheme)"]
    written = brief_code(state.scheme) if brief else scheme_code(state.scheme)
    lines = [*tensor, f"scheme = {written}", *result]
    if numbers:
        lines += ["", comment("export.python.tiles", language), *_tile_lines(state, numbers)]
    if cell:
        lines += ["", comment("export.python.cell", language, cell=state.cell), *_cell_lines(state)]
    imports = [line for line in lines if line.startswith("from ")]
    lines = ["import quantviz as qv", *sorted(imports), "", *(line for line in lines if line not in imports)]
    return "\n".join(lines) + "\n"


def notebook_text(state: LabState, title: str, *, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a Jupyter notebook of a state that is not large: its script, and the figure of its result.

    >>> from quantviz.lab.state import opening
    >>> [cell["cell_type"] for cell in json.loads(notebook_text(opening(), "x"))["cells"]]
    ['markdown', 'code', 'code']
    """
    drawn = "qv.plot_quantization_errors(\n    r.x, r.q, r.x_hat, dtype=r.q.dtype, n_bits={bits}, result=r\n)"
    cells = [
        ("markdown", f"# {plain(title)}"),
        ("code", python_lines(state, language=language).rstrip()),
        ("code", drawn.format(bits=state.scheme.number_format.bits)),
    ]
    of_code: dict[str, object] = {"execution_count": None, "outputs": []}
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": kind,
                    "id": f"cell-{number}",
                    "metadata": {},
                    "source": source.splitlines(keepends=True),
                    **(of_code if kind == "code" else {}),
                }
                for number, (kind, source) in enumerate(cells)
            ],
            "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        ensure_ascii=False,
        indent=1,
    )


def scope_of(state: LabState) -> str:
    """Return the scope of the tiles' metrics: "tensor", or "slice" where `state.scope` is and the slice in
    view is small enough to compute at once.
    """
    rows, cols = state.view.size(state.source.shape)
    return state.scope if state.sliced and rows * cols <= MOST_PART else "tensor"


def scheme_code(scheme: Scheme) -> str:
    """Return the scheme as the Python that makes it, `quantviz` being called `qv`.

    >>> print(scheme_code(Scheme("uint4", "asymmetric")))
    qv.Scheme(
        format='uint4',
        mode='asymmetric',
        granularity=qv.PerTensor(),
        calibration=qv.MinMax(),
        convention='course',
    )
    """
    fields = {
        "format": repr(scheme.format),
        "mode": repr(scheme.mode),
        "granularity": f"qv.{scheme.granularity!r}",
        "calibration": f"qv.{scheme.calibration!r}",
        "convention": _convention_code(scheme.chosen),
    }
    if scheme.nonfinite != "refuse":
        fields["nonfinite"] = repr(scheme.nonfinite)
    return "qv.Scheme(\n" + "".join(f"    {name}={value},\n" for name, value in fields.items()) + ")"


def brief_code(scheme: Scheme) -> str:
    """Return the scheme as Python without names of fields, and without default values at the end.

    >>> brief_code(Scheme("int4")), brief_code(Scheme("int1", "asymmetric"))
    ("qv.Scheme('int4')", "qv.Scheme('int1', 'asymmetric')")
    """
    # Not a scheme of the default values: int1 has no symmetric one.
    usual = {field.name: field.default for field in dataclasses.fields(Scheme)}
    given = [repr(scheme.format)]
    values = [
        (repr(scheme.mode), scheme.mode == usual["mode"]),
        (f"qv.{scheme.granularity!r}", scheme.granularity == usual["granularity"]),
        (f"qv.{scheme.calibration!r}", scheme.calibration == usual["calibration"]),
        (
            _convention_code(scheme.chosen),
            scheme.chosen == find_convention(cast(str, usual["convention"]), scheme.format),
        ),
        (repr(scheme.nonfinite), scheme.nonfinite == usual["nonfinite"]),
    ]
    while values and values[-1][1]:
        values.pop()
    return f"qv.Scheme({', '.join([*given, *(code for code, _ in values)])})"


def _convention_code(convention: Convention) -> str:
    known = CONVENTIONS.get(convention.id) == convention
    return repr(convention.id) if known else f"qv.Convention.parse({str(convention)!r})"


def _tensor_lines(state: LabState, language: str) -> list[str]:
    """Return the lines that make `x`: a tensor, or for a large one a `Stored` that is read in parts."""
    lines = state.source.code(state.large, language)
    if lines is None:
        # The page saves it as it is seen.
        saved = file_name(state.source, state.scheme, "npz")
        lines = [
            comment("export.python.too_many", language, count=math.prod(state.source.shape)),
            *file_code(saved, "'x'", False, language),
        ]
    return lines


def _tile_lines(state: LabState, numbers: Collection[str]) -> list[str]:
    """Return the lines for the tiles that `numbers` names, rounded as on the page.

    An RMSE is given in steps only where all steps of a block are equal.
    """
    whole = scope_of(state) == "tensor"
    index = state.view.index_of(state.source.shape)
    if state.large:
        imports = [
            "from quantviz.evaluation.metric_formulas import bits_per_element",
            "from quantviz.analysis.study import Study",
        ]
        found = "r.measured.metrics" if whole else f"r.measured_part({index!r}).metrics"
        bits = "bits_per_element(scheme, x.shape)"
    else:
        imports = [] if whole else ["from quantviz.quantization.cells import part"]
        found = f"qv.metrics({'r' if whole else f'part(r, {index!r})'})"
        bits = "qv.METRICS['effective_bits'](r)"
    integers = state.scheme.number_format.kind == "integer"
    rmse = "print(f\"RMSE {m['rmse_steps']:.3g} steps\")" if integers else "print(f\"RMSE {m['rmse']:.3g}\")"
    lines = {
        "tiles.mse": "print(f\"MSE {m['mse']:.4g}\")",
        "rmse": rmse,
        "tiles.sqnr": "print(f\"SQNR {m['sqnr_db']:.3g} dB\")",
        "tiles.zeroed": "print(f\"rounded to zero {100 * m['zeroed_share']:.3g} %\")",
        "tiles.clipped": "print(f\"clipped {100 * m['clipped_share']:.3g} %\")",
        "tiles.bits": f'print(f"bits per element {{{bits}:.4g}}")',
    }
    return [*imports, f"m = {found}", *(line for name, line in lines.items() if name in numbers)]


def _cell_lines(state: LabState) -> list[str]:
    return [
        f"why = r.explain({state.cell!r})" if state.large else f"why = qv.explain(r, {state.cell!r})",
        "for step in why.steps:",
        '    print(f"{step.code_line:<44} # {step.output:.8g}")',
        "print(why.cause)",
    ]


# ---- names --------------------------------------------------------------------------------------


def file_name(source: Source, scheme: Scheme, ending: str) -> str:
    """Return a name for a file with this tensor under this scheme, of `[A-Za-z0-9._+-]` only.

    >>> from quantviz.sources import Builtin
    >>> file_name(Builtin("loud_column"), Scheme("int4"), "csv")
    'loud_column_int4-symmetric-per_tensor-min_max-course.csv'
    """
    return f"{_named(f'{source.stem}_{scheme_text(scheme)}', LONGEST_NAME)}.{ending}"


def picture_name(source: Source, scheme: Scheme | None, sqnr_db: float | None) -> str:
    """Return a file name without an ending for a picture; scheme and SQNR are named unless they are
    hidden.

    >>> from quantviz.sources import Builtin
    >>> picture_name(Builtin("loud_column"), Scheme("int4"), 15.34)
    'loud_column_int4-symmetric-per_tensor-min_max-course_15.3dB'
    >>> picture_name(Builtin("loud_column"), None, None)
    'loud_column'
    """
    stem = source.stem if scheme is None else f"{source.stem}_{scheme_text(scheme)}"
    end = "" if sqnr_db is None or math.isnan(sqnr_db) else f"_{sqnr_db:.1f}dB"
    return _named(stem, LONGEST_NAME - len(end)) + end


def _named(name: str, longest: int) -> str:
    """Return `name` with hyphens for characters that may not stand in a file's name."""
    return re.sub(r"[^A-Za-z0-9._+]+|\.{2,}", "-", name).strip("-._")[:longest].rstrip("-._")
