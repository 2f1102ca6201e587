"""Metrics: the cost of a quantization, as numbers.

A metric is added here: one entry in `METRICS`, a formula over `Moments`, and its words in each language. It
is then on the page, in tables and in exports, for tensors of any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch

from quantviz.evaluation.moments import Moments
from quantviz.quantization.result import QuantResult
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import layout_of_runs

#: From moments and the stored bits per element to the metric, a number for each line or block of the moments.
Formula = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Metric:
    """One number that measures the cost of a quantization.

    The formula uses only torch's functions of tensors, so that it can be written down as code like an
    operation.

    >>> from quantviz import Given, quantize
    >>> METRICS["max_abs_error"](quantize([1.0, 2.75], Scheme("int8", calibration=Given(1.0))))
    0.25
    """

    #: Its name in links, tables and files; its words are under `[metrics.<id>]` in `quantviz/text`.
    id: str
    #: Its unit: "x", "x²", "steps", "dB", "share", "bit", "codes" or "" for a plain number.
    unit: str
    formula: Formula

    def of(self, moments: Moments, bits: float = math.nan) -> torch.Tensor:
        """Return the metric of moments, of their shape; `bits` are the stored bits per element."""
        values: torch.Tensor = self.formula(moments, torch.tensor(bits, dtype=torch.float64))
        return values

    def __call__(self, r: QuantResult) -> float:
        return float(self.of(Moments.of(r), bits_per_element(r.scheme, r.tensor_shape)))

    @cached_property
    def reads(self) -> frozenset[str]:
        noting = _Noting()
        self.formula(noting, torch.tensor(1.0))
        return frozenset(noting.names)

    def fits(self, moments: Moments) -> bool:
        """Return whether moments have the sums that the formula reads.

        >>> few = Moments(e2=torch.ones(()), x2=torch.ones(()))
        >>> METRICS["sqnr_db"].fits(few), METRICS["clipping_mse"].fits(few)
        (True, False)
        """
        try:
            self.formula(_Noting(moments), torch.tensor(1.0))
        except (TypeError, AttributeError):  # a sum that is None takes part in no arithmetic
            return False
        return True


class _Noting:
    """Moments that note the names that a formula reads; some may be missing in `given` ones."""

    def __init__(self, given: Moments | None = None) -> None:
        self.names: set[str] = set()
        self._given = given

    def __getattr__(self, name: str) -> torch.Tensor | None:
        self.names.add(name)
        if self._given is not None and getattr(self._given, name) is None:
            return None
        return torch.ones(2, dtype=torch.float64)


def _mse(m: Any, bits: Any) -> Any:
    # Of lines and blocks the two parts of the error are not known.
    return m.e2 / m.cells if m.kept_e2 is None else m.kept_e2 / m.cells + m.clipped_e2 / m.cells


def _sqnr_db(m: Any, bits: Any) -> Any:
    """Return 10·log10(Σx² / Σe²); inf where there is no error, nan where there is no cell."""
    nothing_lost = m.e2 == 0 if m.cells is None else (m.e2 == 0) & (m.cells > 0)
    return torch.where(nothing_lost, math.inf, 10 * torch.log10(m.x2 / m.e2))


def _cosine(m: Any, bits: Any) -> Any:
    """Return the cosine of the angle between x and x̂; nan where one of them is all zero."""
    lengths = torch.sqrt(m.x2) * torch.sqrt(m.x_hat2)
    return torch.where(lengths == 0, math.nan, m.x_x_hat / lengths)


def _unclipped_rmse_steps(m: Any, bits: Any) -> Any:
    """Return the RMS error of unclipped cells in their own steps; 0 where all cells were clipped."""
    kept = m.cells - m.clipped
    return torch.where((kept == 0) & (m.cells > 0), 0.0, torch.sqrt(m.kept_steps2 / kept))


def _zeroed_share(m: Any, bits: Any) -> Any:
    """Return the share of non-zero elements that became 0; 0 where there are none."""
    nonzero = m.cells - m.zeros
    return torch.where(nonzero > 0, m.zeroed / nonzero, 0.0)


def _kurtosis(m: Any, bits: Any) -> Any:
    """Return the fourth moment about the mean over the squared variance (Pearson); nan of a constant."""
    mean = m.x / m.cells
    square = m.x2 / m.cells
    variance = square - mean * mean
    fourth = (
        m.x4 / m.cells
        - 4 * mean * (m.x3 / m.cells)
        + 6 * mean * mean * square
        - 3 * mean * mean * mean * mean
    )
    return torch.where(variance > 0, fourth / (variance * variance), math.nan)


def _code_entropy(m: Any, bits: Any) -> Any:
    """Return Shannon's entropy of the codes, each by itself; nan where there is no cell."""
    shares = m.code_counts / m.cells
    return torch.where(
        m.cells > 0, -torch.where(shares > 0, shares * torch.log2(shares), 0.0).sum(-1), math.nan
    )


#: Every metric by id. All are computed in float64; of no cells means are nan.
METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        each.id: each
        for each in (
            Metric("mse", "x²", _mse),
            Metric("rmse", "x", lambda m, bits: torch.sqrt(_mse(m, bits))),
            Metric(
                "rmse_steps",
                "steps",
                lambda m, bits: torch.sqrt((m.kept_steps2 + m.clipped_steps2) / m.cells),
            ),
            Metric("unclipped_rmse_steps", "steps", _unclipped_rmse_steps),
            Metric("max_abs_error", "x", lambda m, bits: torch.where(m.max_error < 0, math.nan, m.max_error)),
            # The bias: the mean of x̂ - x.
            Metric("mean_error", "x", lambda m, bits: m.e / m.cells),
            # Source notebook 002: torch.norm(x - x_hat).
            Metric("l2_norm_error", "x", lambda m, bits: torch.sqrt(m.e2)),
            Metric("sqnr_db", "dB", _sqnr_db),
            Metric("cosine", "", _cosine),
            Metric("clipped_share", "share", lambda m, bits: m.clipped / m.cells),
            Metric("zeroed_share", "share", _zeroed_share),
            Metric("nonzero_share", "share", lambda m, bits: (m.cells - m.zeros) / m.cells),
            Metric("levels_used", "codes", lambda m, bits: m.codes_seen.sum(-1)),
            Metric("rounding_mse", "x²", lambda m, bits: m.kept_e2 / m.cells),
            Metric("clipping_mse", "x²", lambda m, bits: m.clipped_e2 / m.cells),
            Metric("effective_bits", "bit", lambda m, bits: bits),
            Metric("kurtosis", "", _kurtosis),
            Metric("code_entropy", "bit", _code_entropy),
        )
    }
)


def metrics_of(moments: Moments, bits: float, wanted: Collection[str]) -> dict[str, float]:
    return {name: float(METRICS[name].of(moments, bits)) for name in wanted}


def sqnr_db_of_lines(lines: Moments) -> torch.Tensor:
    """Return the SQNR of each line or block in dB; inf without error, nan where x is all zero."""
    assert lines.x2 is not None
    return torch.where(lines.x2 > 0, METRICS["sqnr_db"].of(lines), math.nan)


def bits_per_element(scheme: Scheme, shape: tuple[int, ...]) -> float:
    """Return `effective_bits` of a tensor of `shape`.

    >>> from quantviz import PerGroup
    >>> bits_per_element(Scheme("int3", granularity=PerGroup(16)), (256, 256))
    4.0

    MatMulNBits stores whole blocks, 32 codes for the 20 of this row:

    >>> bits_per_element(Scheme("uint4", granularity=PerGroup(32), convention="onnxruntime_nbits"), (1, 20))
    8.0

    QServe keeps 8 bits of scale and 8 of zero point for each group, and 16 of scale for each row:

    >>> from quantviz import RECIPES
    >>> bits_per_element(RECIPES["qserve_int4_g128"], (4096, 4096)) == 4 + 16 / 128 + 16 / 4096
    True
    """
    return _bits_of_tensor(scheme, shape) / math.prod(shape)


def stored_size(scheme: Scheme, shape: tuple[int, ...]) -> int:
    """Return the bits that a tensor of `shape` takes as a scheme stores it; part of a bit takes all of it.

    >>> from quantviz import PerGroup
    >>> stored_size(Scheme("int4", granularity=PerGroup(128)), (4096, 4096)) / 4096**2
    4.125
    """
    return math.ceil(_bits_of_tensor(scheme, shape))


def _bits_of_tensor(scheme: Scheme, shape: tuple[int, ...]) -> float:
    stored = stored_bits(scheme)
    layout = scheme.layout(shape)
    codes = stored.code * (layout.padded_size if stored.whole else math.prod(shape))
    of_blocks = (stored.scale + stored.zero_point) * layout.block_count
    rows = layout_of_runs(layout, 0).block_count if stored.row else 0
    return codes + of_blocks + stored.row * rows + stored.tensor


@dataclass(frozen=True)
class StoredBits:
    """Sizes of the stored parts of a quantized tensor, in bits."""

    #: Of each element.
    code: float
    #: Of each block, with its share of the bits of a run of blocks.
    scale: float
    zero_point: float
    #: Of the whole tensor: its second-level scale.
    tensor: int
    #: Of each row of blocks: its second-level scale.
    row: int = 0
    #: Whether a block that does not fill up is stored whole, with codes for its padding.
    whole: bool = False


def stored_bits(scheme: Scheme) -> StoredBits:
    """Return the sizes of the parts that a scheme stores.

    >>> stored_bits(Scheme("int4", "asymmetric"))
    StoredBits(code=4, scale=16, zero_point=4, tensor=0, row=0, whole=False)
    """
    convention = scheme.arithmetic
    fmt = scheme.number_format
    scale: float = convention.scale_bits
    zero_point: float = (convention.zero_bits or fmt.bits) if scheme.mode == "asymmetric" else 0
    if scheme.search is not None:
        scale = scheme.search.scale_bits
        zero_point = scheme.search.scale_bits * scheme.search.has_minimum
    whole = convention.tail_stored == "whole" or (
        convention.tail_stored == "whole_if_integer" and fmt.kind == "integer"
    )
    return StoredBits(
        convention.code_bits or fmt.bits,
        scale,
        zero_point,
        # A codebook of its own is stored with it, at 16 bits a value.
        (32 if convention.scale.global_rule else 0) + (0 if fmt.id in FORMATS else 16 * fmt.levels),
        scheme.search.run_bits if scheme.search is not None and scheme.search.run == 0 else 0,
        whole,
    )
