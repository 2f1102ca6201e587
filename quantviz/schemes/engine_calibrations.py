"""Calibrations that search as an engine or a paper does, with its own parameters.

Each docstring describes the package's own computation, with its surprises: they are reproduced. The functions
that compute the ranges are in the reference, `Context.compute`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.calibration_protocol import Computed, is_number

if TYPE_CHECKING:
    from quantviz.schemes.formats import NumberFormat

#: Most bins of a histogram: each takes memory and time, and float32 cannot distinguish more.
MOST_BINS = 2**16
#: Most steps of a search.
MOST_STEPS = 2**12


class _Computed(Computed):
    """The base class of calibrations that search the whole tensor."""

    id: ClassVar[str]
    together: ClassVar[bool] = True

    def _outside(self, name: str, least: float, most: float) -> Iterator[QuantVizError]:
        """Yield an error if a field is not a number from `least` to `most`, whole if `least` is an int."""
        got = getattr(self, name)
        whole = isinstance(least, int)
        if (
            not is_number(got)
            or not least <= got <= most
            or (whole and not (isinstance(got, int) and not isinstance(got, bool)))
        ):
            yield QuantVizError(
                "calibration_field_whole" if whole else "calibration_field",
                calibration=self.id,
                field=name,
                got=got,
                least=least,
                most=most,
            )

    def _symmetric_only(self, mode: str) -> Iterator[QuantVizError]:
        if mode != "symmetric":
            yield QuantVizError("calibration_needs_symmetric", calibration=self.id, mode=mode)

    def _integers_only(self, fmt: NumberFormat) -> Iterator[QuantVizError]:
        if fmt.kind != "integer":
            yield QuantVizError("calibration_needs_integers", calibration=self.id, format=fmt.id)


@dataclass(frozen=True)
class MSETorch(_Computed):
    """torch's `HistogramObserver`: ends move in, by quantiles, until the modelled error first rises.

    It models 256 cells, or 65536 for formats of more than 8 bits, however few codes there are: the range for
    4 bits is that for 8. With few values it removes one bin at most.
    """

    bins: int = 2048
    id: ClassVar[str] = "mse_torch"

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        return self._outside("bins", 2, MOST_BINS)


@dataclass(frozen=True)
class MSELLMCompressor(_Computed):
    """llm-compressor's `memoryless_mse`: the whole range times 1, 0.99 … 0.81, the least Σ|error|^2.4.

    2.4 is not the square. It stops when `patience` steps in a row have made no block of the whole tensor
    better: how far one block is searched depends on the others.
    """

    maxshrink: float = 0.2
    grid: float = 100.0
    patience: int = 5
    norm: float = 2.4
    expand: float = 1.0
    id: ClassVar[str] = "mse_llmcompressor"

    @property
    def steps(self) -> int:
        """Return the largest number of ranges to try."""
        return int(self.maxshrink * self.grid)

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        fields = (
            *self._outside("maxshrink", 0.0, 1.0),
            *self._outside("grid", 1.0, MOST_STEPS),
            *self._outside("patience", 1, MOST_STEPS),
            *self._outside("norm", 0.1, 16.0),
            *self._outside("expand", 1.0, 16.0),
        )
        yield from fields


@dataclass(frozen=True)
class MSEModelopt(_Computed):
    """modelopt's algorithm "mse": the largest magnitude times 0.25 … 4 in steps of 0.1, the least Σ error².

    Steps are made smaller so that they reach the end: 39 points from 0.25 to 4, 0.0987 apart.
    """

    start: float = 0.25
    stop: float = 4.0
    step: float = 0.1
    id: ClassVar[str] = "mse_modelopt"
    together: ClassVar[bool] = False

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        yield from self._symmetric_only(mode)
        fields = (
            *self._outside("start", 0.01, 16.0),
            *self._outside("stop", 0.01, 16.0),
            *self._outside("step", 0.005, 16.0),
        )
        yield from fields
        if not fields and self.stop < self.start:
            yield from self._outside("stop", self.start, 16.0)


@dataclass(frozen=True)
class EntropyTensorRT(_Computed):
    """TensorRT's search as modelopt has it: the clip of the histogram of |x| that changes its distribution
    least (Kullback–Leibler).

    The last of several least divergences counts, the first bin is overwritten by the second, and a clip
    without values below it has no divergence, which counts as the least.
    """

    bins: int = 2048
    start_bin: int = 128
    stride: int = 1
    id: ClassVar[str] = "entropy_tensorrt"

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        yield from self._symmetric_only(mode)
        yield from self._integers_only(fmt)
        yield from self._outside("bins", 2, MOST_BINS)
        if is_number(self.bins):
            yield from self._outside("start_bin", 1, max(int(self.bins), 1))
        yield from self._outside("stride", 1, MOST_BINS)


@dataclass(frozen=True)
class EntropyONNXRuntime(_Computed):
    """onnxruntime's entropy calibration: a window that grows from the middle of the histogram, and the one
    whose distribution changes least in `quantized_bins` cells.

    With its own 128 bins and 128 cells one window is left, the whole: by default it is from the smallest to
    the largest value (onnxruntime issues 9597 and 10571).
    """

    bins: int = 128
    quantized_bins: int = 128
    id: ClassVar[str] = "entropy_onnxruntime"

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        yield from self._outside("bins", 2, MOST_STEPS * 2)
        if is_number(self.bins):
            yield from self._outside("quantized_bins", 1, max(int(self.bins), 1))


@dataclass(frozen=True)
class PercentileONNXRuntime(_Computed):
    """onnxruntime's percentile of a histogram: the left edge of the bin in which it lies.

    Symmetric it is of |x|, asymmetric (100 - p) / 2 is cut off at each end, and nothing lies beyond the
    smallest and the largest value.
    """

    p: float = 99.999
    bins: int = 2048
    id: ClassVar[str] = "percentile_onnxruntime"

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        yield from self._outside("p", 0.0, 100.0)
        yield from self._outside("bins", 2, MOST_BINS)


@dataclass(frozen=True)
class PercentileModelopt(_Computed):
    """modelopt's percentile of the histogram of |x| from 0: the left edge of the bin in which it lies."""

    p: float = 99.99
    bins: int = 2048
    id: ClassVar[str] = "percentile_modelopt"

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        yield from self._symmetric_only(mode)
        yield from self._outside("p", 0.0, 100.0)
        yield from self._outside("bins", 2, MOST_BINS)


@dataclass(frozen=True)
class OCTAV(_Computed):
    """The clip of least modelled error, by Newton's steps (Sakr et al. 2022): s ← Σ|x|[|x| > s] / (4^-b / 3 ·
    #(0 < |x| ≤ s) + #(|x| > s)), a twelfth for formats without a sign.

    Steps that alternate between two clips forever end at the one with the smaller modelled error. With
    `count_zeros` zeros are among those kept, as in ai-edge-quantizer, which takes 10 steps from s = 1 and
    ends at either of two such clips.
    """

    count_zeros: bool = False
    id: ClassVar[str] = "octav"

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        yield from self._symmetric_only(mode)
        yield from self._integers_only(fmt)
        if not isinstance(self.count_zeros, bool):
            yield QuantVizError(
                "calibration_field_switch", calibration=self.id, field="count_zeros", got=self.count_zeros
            )


class _ACIQ(_Computed):
    """The clip of least error of a family of distributions with 2^b cells around the mean (Banner et al.
    2019).

    Symmetric, the middle is 0 and not the mean. No end lies beyond the smallest or the largest value.
    """

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        return self._integers_only(fmt)


@dataclass(frozen=True)
class ACIQGauss(_ACIQ):
    """ACIQ for a Gaussian: the clip is a multiple of the standard deviation.

    The authors' first code guesses that deviation from the smallest and the largest value; here it is the
    values' own.
    """

    id: ClassVar[str] = "aciq_gauss"


@dataclass(frozen=True)
class ACIQLaplace(_ACIQ):
    """ACIQ for a Laplace distribution: the clip is a multiple of the mean distance from the mean."""

    id: ClassVar[str] = "aciq_laplace"


@dataclass(frozen=True)
class HQQ(_Computed):
    """HQQ's half-quadratic splitting: scales from the whole range, then only the zero points are made better,
    towards the least Σ|error|^`p`.

    All blocks stop when the mean |error| of the whole tensor no longer falls, and keep the zero points of the
    very round that failed. The package (0.2.8) has a growth of `beta` by 1.01 a round in its settings that it
    never applies: `kappa` is 1.
    """

    p: float = 0.7
    beta: float = 10.0
    kappa: float = 1.0
    steps: int = 20
    id: ClassVar[str] = "hqq"

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        yield from self._integers_only(fmt)
        if mode != "asymmetric" or zero_domain != "code_float":
            yield QuantVizError("hqq_needs_float_zero", mode=mode, zero_domain=zero_domain)
        yield from self._outside("p", 0.1, 1.0)
        yield from self._outside("beta", 1e-3, 1e6)
        yield from self._outside("kappa", 1.0, 2.0)
        yield from self._outside("steps", 1, MOST_STEPS)


#: All of them.
ENGINE_CALIBRATIONS = (
    MSETorch,
    MSELLMCompressor,
    MSEModelopt,
    EntropyTensorRT,
    EntropyONNXRuntime,
    PercentileONNXRuntime,
    PercentileModelopt,
    OCTAV,
    ACIQGauss,
    ACIQLaplace,
    HQQ,
)
