"""Comparison of a file's codes and values with those nearest to the original, a band of rows at a time."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from quantviz.evaluation.moments import Moments, number_of
from quantviz.quantization.qparams import largest_magnitude, stored_qparams
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QParams, QuantResult
from quantviz.schemes.calibration import External
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.programs import Program, program_of
from quantviz.tensors import blocks


@dataclass(frozen=True, eq=False)
class Band:
    """Some rows of a weight: the file's codes, values and scales, and the original values."""

    scheme: Scheme
    x: torch.Tensor
    q: torch.Tensor
    x_hat: torch.Tensor
    #: One number a block; 0 if all codes of the block have the same value.
    scale: torch.Tensor
    zero_point: torch.Tensor
    #: A code counts as nearest up to so many steps, and so much of the original's value.
    slack: tuple[float, float]

    @property
    def params(self) -> QParams:
        """Return scale and zero point, with scales of 0 replaced by 1 so that nothing is divided by 0."""
        scale = torch.where(self.scale == 0, 1.0, self.scale)
        return QParams(scale, self.zero_point, zero_domain=self.scheme.zero_domain, stored=True)


@dataclass(frozen=True, eq=False)
class Compared:
    """The comparison of a band with its original."""

    moments: Moments
    #: Number of codes in each column that are nearest to the original's value.
    near: torch.Tensor
    #: Number of blocks, and of those in which saturation would change a code.
    blocks: int
    saturated: int


def result_of_band(band: Band) -> tuple[QuantResult, torch.Tensor]:
    """Return the file's codes and values as a result, and whether each code is nearest to the original's
    value.

    `clipped` is true where rounding to nearest with the file's scales would leave the range of the codes.
    """
    own = band.x
    nearest = quantize(own, band.scheme.replace(nonfinite="ignore"), qparams=band.params)
    error = torch.where(torch.isfinite(own), band.x_hat - own, math.nan)
    of_steps, of_x = band.slack
    slack = of_steps * nearest.step_of_cells()
    slack = slack + of_x * own.abs() if of_x else slack
    as_near = ~(error.abs() > nearest.error.abs() + slack)  # cells that are left out count as near
    apart = _apart(band, nearest)
    as_near = as_near if apart is None else as_near | apart
    made = dataclasses.replace(nearest, q=band.q, x_hat=band.x_hat, error=error, own_codes=True)
    return made, as_near


def _apart(band: Band, like: QuantResult) -> torch.Tensor | None:
    """Return whether each cell's block has one value for all codes, bool; none if there is no such block."""
    stored = blocks.to_grid(band.scale, like.layout)
    if stored is None or not bool((stored == 0).any()):
        return None
    return blocks.expand(stored, like.layout, like.shape) == 0


def compared(band: Band, *, finite: bool, count: int) -> Compared:
    """Return the comparison of a band of a weight with its original.

    Compiled code computes it if there is any, all values are finite, and the weight is large enough; counts
    are those of the reference, and sums agree to 1e-9.

    Args:
        band: The rows.
        finite: Whether all values are finite.
        count: The number of elements of the whole weight.
    """
    kernels = finite and count > limits.FUSED and kernel_access.fixed_ready()
    found = _by_kernel(band) if kernels else None
    return by_reference(band) if found is None else found


def by_reference(band: Band) -> Compared:
    """Return the comparison of a band, computed by the reference."""
    r, as_near = result_of_band(band)
    saturated = int((blocks.block_sums(r.clipped, r.layout) > 0).sum())
    return Compared(Moments.of(r), as_near.sum(0), r.layout.block_count, saturated)


@lru_cache(maxsize=64)
def _given(scheme: Scheme, shape: Shape) -> Scheme | None:
    """Return the scheme with given scales; none if kernels cannot compare under it."""
    given = scheme.replace(nonfinite="ignore", calibration=External())
    return None if given.number_format.bits > 8 or any(given.problems(shape)) else given


def _by_kernel(band: Band) -> Compared | None:
    """Return the comparison by compiled code; none if there is no code, or if a number is not finite."""
    scheme = _given(band.scheme, tuple(band.x.shape))
    if scheme is None:
        return None
    layout = scheme.layout(tuple(band.x.shape))
    if len(layout.view_shape) != 2:
        return None
    absmax = largest_magnitude(band.x) if scheme.arithmetic.scale.global_rule else torch.tensor(0.0)
    params = stored_qparams(band.params, absmax, scheme, layout)
    program = program_of(scheme, params, layout)
    if program is None:
        return None
    stored = blocks.to_grid(band.scale, layout)
    apart = np.empty(0, np.bool_)
    if stored is not None and bool((stored == 0).any()):
        cells = blocks.expand(stored, layout, tuple(band.x.shape)) == 0
        apart = cells.expand(band.x.shape).flatten().numpy()
    return _run(band, scheme, program, params, apart)


def _run(band: Band, scheme: Scheme, program: Program, params: QParams, apart: np.ndarray) -> Compared | None:
    from quantviz.compiled.comparing import compare
    from quantviz.compiled.driving import CELLS_TOGETHER
    from quantviz.compiled.result_sums import SUMS, TABLES

    layout = scheme.layout(tuple(band.x.shape))
    levels = scheme.number_format.levels
    near = np.zeros(band.x.shape[1], np.int64)
    hit = np.zeros(layout.block_count, np.bool_)
    counts = np.zeros((TABLES, 256), np.int64)
    sums = np.zeros(len(SUMS))
    x, x_hat = (each.contiguous().flatten().numpy() for each in (band.x, band.x_hat))
    largest, of_nearest = compare(
        program.steps_address(),
        x,
        x_hat,
        band.q.contiguous().flatten().view(torch.uint8).numpy(),
        program.place(layout, 0, x.size, 0),
        (program.of_blocks(params), layout.block_count, *program.constants),
        Buffers(CELLS_TOGETHER).arrays,
        np.array(band.slack, np.float32),
        apart,
        scheme.number_format.code_min,
        near,
        hit,
        counts,
        sums,
    )
    if not math.isfinite(_of_bits(of_nearest)):
        return None
    found = dict(zip(SUMS, map(number_of, sums.tolist()), strict=True))
    # The first codes are those of the format: a code has no other byte.
    of_codes = torch.from_numpy(counts.sum(0)[:levels]).to(torch.float64)
    moments = Moments(
        **found,
        cells=number_of(x.size),
        e2=found["kept_e2"] + found["clipped_e2"],
        max_error=number_of(_of_bits(largest)),
        codes_seen=(of_codes > 0).to(torch.float64),
        code_counts=of_codes,
    )
    return Compared(moments, torch.from_numpy(near), layout.block_count, int(hit.sum()))


def _of_bits(bits: int) -> float:
    """Return the float32 of some bits.

    >>> _of_bits(0x3F800000)
    1.0
    """
    return float(np.int32(bits).view(np.float32))
