from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantviz.errors import QuantVizError

if TYPE_CHECKING:
    from quantviz.quantization.result import QParams, QuantResult
    from quantviz.schemes.calibration import Range
    from quantviz.schemes.granularity import BlockLayout, Shape, Window
    from quantviz.schemes.scheme import Scheme


@dataclass(frozen=True)
class PartPosition:
    """The place of a part in a tensor of `shape`: `index` has a number or slice for each axis."""

    index: Window
    shape: Shape


def as_npz(result: QuantResult, *, within: PartPosition | None = None) -> bytes:
    """Return the result as a .npz file: `x`, `codes`, `x_hat`, `error`, `scale`, `zero_point`, `scheme`.

    The first four have the tensor's shape, scale and zero point one value a block. Where the scale has a
    format of its own in units of a second-level scale, `scale_codes` are its values a block and
    `global_scale` is that scale. Other numbers by which an engine quantizes or dequantizes have their own
    names: `inverse`, `absmax`, `code_scale` (the scale before it was stored), `code_zero_point`, `short` (1
    where a block does not fill up).

    Of a part `within` a larger tensor, scale and zero point are one value a cell, `first` is where it begins,
    one number an axis, and `block` the number of each cell's block in the tensor, counted row by row.
    `scheme` is its text form, empty where it has none. Nothing in it is pickled: `numpy.load` reads it with
    `allow_pickle=False`. The same result gives the same bytes.
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
        scheme=np.array(scheme_text(result.scheme)),
    )
    return buffer.getvalue()


def _part_arrays(result: QuantResult, within: PartPosition) -> dict[str, Any]:
    import numpy as np

    first = np.array([part.start if isinstance(part, slice) else part for part in within.index])
    return {"first": first, "block": _places(result, within)[1]}


def _places(result: QuantResult, within: PartPosition) -> tuple[Any, Any]:
    """Return each cell's index, one array an axis, and its block's number, in the whole tensor."""
    import numpy as np

    from quantviz.tensors import blocks

    places = blocks.flat_indices_of(within.shape, within.index)
    numbers = blocks.block_numbers(places, result.scheme.layout(within.shape))
    return np.unravel_index(places.numpy(), within.shape), numbers.numpy()


def _levels(qparams: QParams) -> dict[str, Any]:
    levels = {
        name: getattr(qparams, name)
        for name in ("scale_codes", "global_scale", "zero_point_codes", "global_zero_point")
    }
    return {name: values for name, values in levels.items() if values is not None}


def as_csv(result: QuantResult, *, within: PartPosition | None = None) -> str:
    r"""Return one line a cell: its place, x, q, x_hat, error, block, scale, zero point and cause.

    Places count from 0, one column an axis; `block` counts the blocks row by row. Of a part `within` a larger
    tensor both are those of the tensor. Floats have the fewest digits that read back as the same number.

    >>> from quantviz import Scheme, quantize
    >>> as_csv(quantize([[0.1, -1.75]], Scheme("int4"))).splitlines()[:2]
    ['axis_0,axis_1,x,q,x_hat,error,block,scale,zero_point,cause', '0,0,0.1,0,0.0,-0.1,0,0.25,0,zeroed']
    """
    import numpy as np

    from quantviz.quantization.explanation import CAUSES, causes
    from quantviz.tensors import blocks

    def words(values: Any) -> list[str]:
        # numpy writes the shortest digits of the dtype itself: 0.1, not float64's 0.10000000149.
        listed: list[str] = np.asarray(values).ravel().astype("U32").tolist()
        return listed

    block_numbers = blocks.block_ids(result.layout, result.shape).numpy().ravel()
    axes, ids = (np.indices(result.shape), block_numbers) if within is None else _places(result, within)
    names = np.array(CAUSES)[causes(result).numpy().ravel()]
    columns = {
        **{f"axis_{axis}": words(places) for axis, places in enumerate(axes)},
        "x": words(result.x.numpy()),
        "q": words(result.q.numpy()),
        "x_hat": words(result.x_hat.numpy()),
        "error": words(result.error.numpy()),
        "block": words(ids),
        "scale": np.array(words(result.qparams.scale.numpy()), dtype=object)[block_numbers].tolist(),
        "zero_point": np.array(words(result.qparams.zero_point.numpy()), dtype=object)[
            block_numbers
        ].tolist(),
        "cause": names.tolist(),
    }
    return (
        "\n".join(itertools.chain([",".join(columns)], map(",".join, zip(*columns.values(), strict=True))))
        + "\n"
    )


#: Columns of the two levels of scale, by their names while codes are made.
_COLUMNS = {"scale_code": "scale_codes", "zero_point_code": "zero_point_codes"}


def scales_table(result: QuantResult) -> dict[str, list[Any]]:
    """Return scale and zero point of each block as columns of equal length, blocks counted row by row.

    `block` and one `axis_<n>` for each axis of the grid are the block's number and place; `lo` and `hi` its
    clipping range (nan where scale and zero point were given); `mse` its mean squared error (nan where no
    element counts) and `clipped` how many of its elements were clipped. Where there are two levels of scale,
    `scale_codes` and `global_scale` are the two; other numbers behind the codes have their names in `as_npz`.
    The words for each column are under `[export.column]`.

    >>> from quantviz import PerChannel, Scheme, quantize
    >>> table = scales_table(quantize([[1.0, -7.0], [14.0, 0.0]], Scheme("int4", granularity=PerChannel(0))))
    >>> table["scale"], table["hi"], table["clipped"]
    ([1.0, 2.0], [1.0, 14.0], [0, 0])
    """
    import torch

    from quantviz.tensors import blocks

    layout = result.layout
    squared = result.error.to(torch.float64).square()
    sizes = blocks.block_sizes(layout)
    if result.counted is not None:
        squared = squared.masked_fill(~result.counted, 0)
        sizes = blocks.block_sums(result.counted, layout)
    known = {
        "mse": blocks.block_sums(squared, layout) / sizes,
        "clipped": blocks.block_sums(result.clipped, layout),
    }
    columns = block_columns(result.qparams, layout, result.range, layout.block_count)
    return columns | {name: value.flatten().tolist() for name, value in known.items()}


def block_columns(
    qparams: QParams, layout: BlockLayout, found: Range | None, most: int
) -> dict[str, list[Any]]:
    """Return the columns of `scales_table` that are known without the result, of the first `most` blocks."""
    import torch

    count = min(layout.block_count, most)
    nothing = torch.full((), torch.nan)
    # Not torch.unravel_index, whose first call imports for 0.3 s.
    places = [
        torch.arange(count) // math.prod(layout.grid_shape[axis + 1 :]) % size
        for axis, size in enumerate(layout.grid_shape)
    ]
    values = {
        "lo": nothing if found is None else found.lo,
        "hi": nothing if found is None else found.hi,
        "scale": qparams.scale,
        **_levels(qparams),
        "zero_point": qparams.zero_point,
        **{_COLUMNS.get(name, name): value for name, value in qparams.others.items()},
    }
    return {
        "block": list(range(count)),
        **{f"axis_{axis}": place.tolist() for axis, place in enumerate(places)},
        **{
            name: (value.flatten()[:count] if value.numel() > 1 else value.flatten().expand(count)).tolist()
            for name, value in values.items()
        },
    }


def metrics_csv(metrics: Mapping[str, float]) -> str:
    """Return one line for each metric: its id, its value in the fewest digits that read back as it, its unit.

    >>> metrics_csv({"mse": 0.25, "sqnr_db": 20.5}).splitlines()
    ['metric,value,unit', 'mse,0.25,x²', 'sqnr_db,20.5,dB']
    """
    from quantviz.evaluation.metric_formulas import METRICS

    return (
        "\n".join(
            [
                "metric,value,unit",
                *(f"{name},{value!r},{METRICS[name].unit}" for name, value in metrics.items()),
            ]
        )
        + "\n"
    )


def scheme_text(scheme: Scheme) -> str:
    """Return the scheme's text form; empty where it has none."""
    try:
        return str(scheme)
    except QuantVizError:
        return ""
