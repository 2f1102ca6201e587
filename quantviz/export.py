"""What leaves the page: lines of Python that print its numbers, arrays, tables, file names."""

from __future__ import annotations

import io
import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantviz.conventions import CONVENTIONS, Convention
from quantviz.errors import QuantVizError
from quantviz.link import MOST_PART, LabState, View
from quantviz.scheme import Scheme
from quantviz.sources.base import Source, comment, file_code
from quantviz.text import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from quantviz.calibration import Range
    from quantviz.granularity import BlockLayout, Shape, Window
    from quantviz.quantizer import QParams, QuantResult

#: The longest file name, its ending left out.
LONGEST_NAME = 120


# ---- Python -------------------------------------------------------------------------------------


def python_lines(state: LabState, *, language: str = DEFAULT_LANGUAGE) -> str:
    """A script that makes the state's tensor again, quantizes it, and prints the tiles' numbers and the cell's derivation.

    >>> from quantviz.link import opening
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
    made = ["r = Study.of(x, scheme)"] if state.large else ["r = qv.quantize(x, scheme)"]
    lines = [*tensor, f"scheme = {scheme_code(state.scheme)}", *made, ""]
    lines += [comment("export.python.tiles", language), *_tile_lines(state), ""]
    lines += [comment("export.python.cell", language, cell=state.cell), *_cell_lines(state)]
    imports = [line for line in lines if line.startswith("from ")]
    lines = ["import quantviz as qv", *sorted(imports), "", *(line for line in lines if line not in imports)]
    return "\n".join(lines) + "\n"


def scope_of(state: LabState) -> str:
    """Return what the tiles count: the slice in view, where that is one and can be made at once, else the whole tensor."""
    rows, cols = state.view.size(state.source.shape)
    return state.scope if state.sliced and rows * cols <= MOST_PART else "tensor"


def scheme_code(scheme: Scheme) -> str:
    """The scheme as the Python that makes it, `quantviz` being called `qv`.

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
        "convention": _convention_code(scheme.arithmetic),
    }
    if scheme.nonfinite != "refuse":
        fields["nonfinite"] = repr(scheme.nonfinite)
    return "qv.Scheme(\n" + "".join(f"    {name}={value},\n" for name, value in fields.items()) + ")"


def _convention_code(convention: Convention) -> str:
    known = CONVENTIONS.get(convention.id) == convention
    return repr(convention.id) if known else f"qv.Convention.parse({str(convention)!r})"


def _tensor_lines(state: LabState, language: str) -> list[str]:
    """The lines that make `x`: a tensor, or of a large one what it is read from a part at a time."""
    lines = state.source.code(state.large, language)
    if lines is None:
        # The page saves it as it is seen.
        saved = file_name(state.source, state.scheme, "npz")
        lines = [comment("export.python.too_many", language, count=math.prod(state.source.shape)), *file_code(saved, "'x'", False, language)]
    return lines


def _tile_lines(state: LabState) -> list[str]:
    """The five tiles, rounded as the page rounds them: in steps only where all steps of a block are alike."""
    whole, index = scope_of(state) == "tensor", slice_index(state.view, state.source.shape)
    if state.large:
        imports = ["from quantviz.measures import bits_per_element", "from quantviz.study import Study"]
        found, bits = "r.measured.metrics" if whole else f"r.measured_part({index!r}).metrics", "bits_per_element(scheme, x.shape)"
    else:
        imports = [] if whole else ["from quantviz.quantizer import part"]
        found, bits = f"qv.metrics({'r' if whole else f'part(r, {index!r})'})", "qv.METRICS['effective_bits'](r)"
    integers = state.scheme.number_format.kind == "integer"
    return [
        *imports,
        f"m = {found}",
        "print(f\"MSE {m['mse']:.4g}\")",
        "print(f\"RMSE {m['rmse_steps']:.3g} steps\")" if integers else "print(f\"RMSE {m['rmse']:.3g}\")",
        "print(f\"SQNR {m['sqnr_db']:.3g} dB\")",
        "print(f\"rounded to zero {100 * m['zeroed_share']:.3g} %\")",
        "print(f\"clipped {100 * m['clipped_share']:.3g} %\")",
        f'print(f"bits per element {{{bits}:.4g}}")',
    ]


def _cell_lines(state: LabState) -> list[str]:
    return [
        f"why = r.explain({state.cell!r})" if state.large else f"why = qv.explain(r, {state.cell!r})",
        "for step in why.steps:",
        '    print(f"{step.code_line:<44} # {step.output:.8g}")',
        "print(why.cause)",
    ]


def slice_index(view: View, shape: Shape) -> tuple[slice | int, ...]:
    """The index of the slice in view, its axes in the tensor's order.

    >>> slice_index(View.of((2, 3, 4)), (2, 3, 4))
    (0, slice(0, 3, None), slice(0, 4, None))
    """
    rows, cols = view.size(shape)
    picked: list[slice | int] = list(view.at)
    picked[view.cols] = slice(view.left, view.left + cols)
    if view.rows is not None:
        picked[view.rows] = slice(view.top, view.top + rows)
    return tuple(picked)


# ---- arrays and tables --------------------------------------------------------------------------


@dataclass(frozen=True)
class Within:
    """Where a part lies in a tensor of `shape`: at `index`, one number or slice for each axis."""

    index: Window
    shape: Shape


def as_npz(result: QuantResult, *, within: Within | None = None) -> bytes:
    """The result as a .npz file: `x`, `codes`, `x_hat`, `error`, `scale`, `zero_point`, `scheme`.

    The first four have the tensor's shape, scale and zero point one value a block. Where the scale has a
    format of its own in units of a second-level scale, `scale_codes` are its values a block and
    `global_scale` is that scale. What else an engine makes codes with or gets values back by has its own
    name: `inverse`, `absmax`, `code_scale` (the scale before it was stored), `code_zero_point`, `short` (1
    where a block does not fill up). Of a part `within` a larger tensor, scale and zero point are one value a cell,
    `first` is where it begins, one number an axis, and `block` the number of each cell's block in the tensor, counted row by row.
    `scheme` is its text form, empty where it has none. Nothing in it is pickled: `numpy.load` reads it
    with `allow_pickle=False`. The same result gives the same bytes.
    """
    import numpy as np

    buffer = io.BytesIO()
    np.savez(
        buffer,
        x=result.x.numpy(),
        codes=result.q.numpy(),
        x_hat=result.x_hat.numpy(),
        error=result.error.numpy(),
        scale=result.qparams.scale.numpy(),
        zero_point=result.qparams.zero_point.numpy(),
        **{name: values.numpy() for name, values in _levels(result.qparams).items()},
        **{name: values.numpy() for name, values in result.qparams.others.items()},
        **({} if within is None else _part_arrays(result, within)),
        scheme=np.array(_scheme_text(result.scheme)),
    )
    return buffer.getvalue()


def _part_arrays(result: QuantResult, within: Within) -> dict[str, Any]:
    """Where a part begins, and the block of each of its cells."""
    import numpy as np

    first = np.array([part.start if isinstance(part, slice) else part for part in within.index])
    return {"first": first, "block": _places(result, within)[1]}


def _places(result: QuantResult, within: Within) -> tuple[Any, Any]:
    """The index of each cell, one array an axis, and the number of its block, all of the result's shape: in the tensor that it is a part of."""
    import numpy as np

    from quantviz import blocks

    places = blocks.flat_indices_of(within.shape, within.index)
    numbers = blocks.block_numbers(places, result.scheme.layout(within.shape))
    return np.unravel_index(places.numpy(), within.shape), numbers.numpy()


def _levels(qparams: QParams) -> dict[str, Any]:
    """The two levels of a scale, where it has two."""
    levels = {"scale_codes": qparams.scale_codes, "global_scale": qparams.global_scale}
    return {name: values for name, values in levels.items() if values is not None}


def as_csv(result: QuantResult, *, within: Within | None = None) -> str:
    r"""One line a cell: its place, x, q, x_hat, error, block, scale, zero point and cause.

    Places count from 0, one column an axis; `block` counts the blocks row by row. Of a part `within` a larger tensor both are
    those of the tensor. Floats have the fewest digits that read back as the same number.

    >>> from quantviz import quantize
    >>> as_csv(quantize([[0.1, -1.75]], Scheme("int4"))).splitlines()[:2]
    ['axis_0,axis_1,x,q,x_hat,error,block,scale,zero_point,cause', '0,0,0.1,0,0.0,-0.1,0,0.25,0,zeroed']
    """
    import numpy as np

    from quantviz import blocks
    from quantviz.explanation import CAUSES, causes

    def words(values: Any) -> list[str]:
        # numpy writes the shortest digits of the dtype itself: 0.1, not float64's 0.10000000149.
        listed: list[str] = np.asarray(values).ravel().astype("U32").tolist()
        return listed

    own = blocks.block_ids(result.layout, result.shape).numpy().ravel()
    axes, ids = (np.indices(result.shape), own) if within is None else _places(result, within)
    names = np.array(CAUSES)[causes(result).numpy().ravel()]
    columns = {
        **{f"axis_{axis}": words(places) for axis, places in enumerate(axes)},
        "x": words(result.x.numpy()),
        "q": words(result.q.numpy()),
        "x_hat": words(result.x_hat.numpy()),
        "error": words(result.error.numpy()),
        "block": words(ids),
        "scale": np.array(words(result.qparams.scale.numpy()), dtype=object)[own].tolist(),
        "zero_point": np.array(words(result.qparams.zero_point.numpy()), dtype=object)[own].tolist(),
        "cause": names.tolist(),
    }
    return "\n".join(itertools.chain([",".join(columns)], map(",".join, zip(*columns.values(), strict=True)))) + "\n"


def scales_table(result: QuantResult) -> dict[str, list[Any]]:
    """Scale and zero point of each block, as columns of equal length, blocks counted row by row.

    `block` and one `axis_<n>` for each axis of the grid say which block; `lo` and `hi` its clipping range
    (nan where scale and zero point were given); `mse` its mean squared error (nan where no element counts) and `clipped` how many of its
    elements were clipped. Where there are two levels of scale, `scale_codes` and `global_scale` are the two;
    what else codes are made with has the names that it has in `as_npz`.
    The words for each column are under `[export.column]`.

    >>> from quantviz import PerChannel, quantize
    >>> table = scales_table(quantize([[1.0, -7.0], [14.0, 0.0]], Scheme("int4", granularity=PerChannel(0))))
    >>> table["scale"], table["hi"], table["clipped"]
    ([1.0, 2.0], [1.0, 14.0], [0, 0])
    """
    import torch

    from quantviz import blocks

    layout = result.layout
    squared, sizes = result.error.to(torch.float64).square(), blocks.block_sizes(layout)
    if result.counted is not None:
        squared, sizes = squared.masked_fill(~result.counted, 0), blocks.block_sums(result.counted, layout)
    known = {"mse": blocks.block_sums(squared, layout) / sizes, "clipped": blocks.block_sums(result.clipped, layout)}
    columns = block_columns(result.qparams, layout, result.range, layout.block_count)
    return columns | {name: value.flatten().tolist() for name, value in known.items()}


def block_columns(qparams: QParams, layout: BlockLayout, found: Range | None, most: int) -> dict[str, list[Any]]:
    """The columns of `scales_table` that are known without the result, of the first `most` blocks."""
    import torch

    count = min(layout.block_count, most)
    nothing = torch.full((), torch.nan)
    # Not torch.unravel_index, whose first call imports for 0.3 s.
    places = [torch.arange(count) // math.prod(layout.grid_shape[axis + 1 :]) % size for axis, size in enumerate(layout.grid_shape)]
    values = {
        "lo": nothing if found is None else found.lo,
        "hi": nothing if found is None else found.hi,
        "scale": qparams.scale,
        **_levels(qparams),
        "zero_point": qparams.zero_point,
        **qparams.others,
    }
    return {
        "block": list(range(count)),
        **{f"axis_{axis}": place.tolist() for axis, place in enumerate(places)},
        **{name: (value.flatten()[:count] if value.numel() > 1 else value.flatten().expand(count)).tolist() for name, value in values.items()},
    }


def _scheme_text(scheme: Scheme) -> str:
    try:
        return str(scheme)
    except QuantVizError:
        return ""


# ---- names --------------------------------------------------------------------------------------


def file_name(source: Source, scheme: Scheme, ending: str) -> str:
    """A name for a file with this tensor under this scheme, of `[A-Za-z0-9._+-]` only.

    >>> from quantviz.sources import Builtin
    >>> file_name(Builtin("loud_column"), Scheme("int4"), "csv")
    'loud_column_int4-symmetric-per_tensor-min_max-course.csv'
    """
    return f"{_named(f'{source.stem}_{_scheme_text(scheme)}', LONGEST_NAME)}.{ending}"


def picture_name(source: Source, scheme: Scheme | None, sqnr_db: float | None) -> str:
    """A name without an ending for a picture of this tensor, under this scheme and with this SQNR as far as they may be told.

    >>> from quantviz.sources import Builtin
    >>> picture_name(Builtin("loud_column"), Scheme("int4"), 15.34), picture_name(Builtin("loud_column"), None, None)
    ('loud_column_int4-symmetric-per_tensor-min_max-course_15.3dB', 'loud_column')
    """
    stem = source.stem if scheme is None else f"{source.stem}_{_scheme_text(scheme)}"
    end = "" if sqnr_db is None or math.isnan(sqnr_db) else f"_{sqnr_db:.1f}dB"
    return _named(stem, LONGEST_NAME - len(end)) + end


def _named(name: str, longest: int) -> str:
    """`name` with what may stand in a file's name."""
    return re.sub(r"[^A-Za-z0-9._+]+|\.{2,}", "-", name).strip("-._")[:longest].rstrip("-._")
