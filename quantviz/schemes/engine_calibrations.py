"""Calibrations that search as an engine or a paper does, with its own parameters.

Each docstring describes the package's own computation, with its surprises: they are reproduced.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.calibration_protocol import ComputedCalibration, Problems, is_number
from quantviz.schemes.formats import entry_of

if TYPE_CHECKING:
    from quantviz.schemes.formats import NumberFormat

#: Most bins of a histogram: each takes memory and time, and float32 cannot distinguish more.
MOST_BINS = 2**16
#: Most steps of a search.
MOST_STEPS = 2**12


def _limited(default: float, least: float | str, most: float | str) -> Any:
    # Limits are numbers, or names of the fields that have them.
    return field(default=default, metadata={"limits": (least, most)})


class _WholeTensorCalibration(ComputedCalibration):
    id: ClassVar[str]
    together: ClassVar[bool] = True
    #: Whether symmetric mode, and integer formats, are required.
    symmetric_only: ClassVar[bool] = False
    integers_only: ClassVar[bool] = False

    def problems(self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int") -> Problems:
        yield from self._misfits(fmt, mode)
        yield from self._beyond_limits()

    def _misfits(self, fmt: NumberFormat, mode: str) -> Problems:
        if self.symmetric_only and mode != "symmetric":
            yield QuantVizError("calibration_needs_symmetric", calibration=self.id, mode=mode)
        if self.integers_only and fmt.kind != "integer":
            yield QuantVizError("calibration_needs_integers", calibration=self.id, format=entry_of(fmt.id))

    def _beyond_limits(self) -> Problems:
        # A field whose default is whole must be whole.
        for each in fields(self):  # type: ignore[arg-type]
            least, most = (
                getattr(self, end) if isinstance(end, str) else end
                for end in each.metadata.get("limits", (None, None))
            )
            # A limit that is no number is the error of its own field.
            if not is_number(least) or not is_number(most):
                continue
            got = getattr(self, each.name)
            whole = isinstance(each.default, int)
            if not is_number(got) or not least <= got <= most or (whole and not isinstance(got, int)):
                key = "calibration_field_whole" if whole else "calibration_field"
                yield QuantVizError(
                    key, calibration=self.id, field=each.name, got=got, least=least, most=most
                )


@dataclass(frozen=True)
class MSETorch(_WholeTensorCalibration):
    """torch's `HistogramObserver`: ends move in, by quantiles, until the modelled error first rises.

    It models 256 cells, or 65536 for formats of more than 8 bits, however few codes there are: the range for
    4 bits is that for 8. With few values it removes one bin at most.
    """

    bins: int = _limited(2048, 2, MOST_BINS)
    id: ClassVar[str] = "mse_torch"


@dataclass(frozen=True)
class MSELLMCompressor(_WholeTensorCalibration):
    """llm-compressor's `memoryless_mse`: the whole range times 1, 0.99 … 0.81, the least Σ|error|^2.4.

    2.4 is not the square. It stops when `patience` steps in a row have made no block of the whole tensor
    better: how far one block is searched depends on the others.
    """

    maxshrink: float = _limited(0.2, 0.0, 1.0)
    grid: float = _limited(100.0, 1.0, MOST_STEPS)
    patience: int = _limited(5, 1, MOST_STEPS)
    norm: float = _limited(2.4, 0.1, 16.0)
    expand: float = _limited(1.0, 1.0, 16.0)
    id: ClassVar[str] = "mse_llmcompressor"

    @property
    def steps(self) -> int:
        return int(self.maxshrink * self.grid)


@dataclass(frozen=True)
class MSEModelopt(_WholeTensorCalibration):
    """modelopt's algorithm "mse": the largest magnitude times 0.25 … 4 in steps of 0.1, the least Σ error².

    Steps are made smaller so that they reach the end: 39 points from 0.25 to 4, 0.0987 apart.
    """

    start: float = _limited(0.25, 0.01, 16.0)
    stop: float = _limited(4.0, "start", 16.0)
    step: float = _limited(0.1, 0.005, 16.0)
    id: ClassVar[str] = "mse_modelopt"
    symmetric_only: ClassVar[bool] = True
    together: ClassVar[bool] = False


@dataclass(frozen=True)
class EntropyTensorRT(_WholeTensorCalibration):
    """TensorRT's search as modelopt has it: the clip of the histogram of |x| that changes its distribution
    least (Kullback–Leibler).

    The last of several least divergences counts, the first bin is overwritten by the second, and a clip
    without values below it has no divergence, which counts as the least.
    """

    bins: int = _limited(2048, 2, MOST_BINS)
    start_bin: int = _limited(128, 1, "bins")
    stride: int = _limited(1, 1, MOST_BINS)
    id: ClassVar[str] = "entropy_tensorrt"
    symmetric_only: ClassVar[bool] = True
    integers_only: ClassVar[bool] = True


@dataclass(frozen=True)
class EntropyONNXRuntime(_WholeTensorCalibration):
    """onnxruntime's entropy calibration: a window that grows from the middle of the histogram, and the one
    whose distribution changes least in `quantized_bins` cells.

    With its own 128 bins and 128 cells one window is left, the whole: by default it is from the smallest to
    the largest value (onnxruntime issues 9597 and 10571).
    """

    bins: int = _limited(128, 2, MOST_STEPS * 2)
    quantized_bins: int = _limited(128, 1, "bins")
    id: ClassVar[str] = "entropy_onnxruntime"


@dataclass(frozen=True)
class PercentileONNXRuntime(_WholeTensorCalibration):
    """onnxruntime's percentile of a histogram: the left edge of the bin in which it lies.

    Symmetric it is of |x|, asymmetric (100 - p) / 2 is cut off at each end, and nothing lies beyond the
    smallest and the largest value.
    """

    p: float = _limited(99.999, 0.0, 100.0)
    bins: int = _limited(2048, 2, MOST_BINS)
    id: ClassVar[str] = "percentile_onnxruntime"


@dataclass(frozen=True)
class PercentileModelopt(_WholeTensorCalibration):
    """modelopt's percentile of the histogram of |x| from 0: the left edge of the bin in which it lies."""

    p: float = _limited(99.99, 0.0, 100.0)
    bins: int = _limited(2048, 2, MOST_BINS)
    id: ClassVar[str] = "percentile_modelopt"
    symmetric_only: ClassVar[bool] = True


@dataclass(frozen=True)
class OCTAV(_WholeTensorCalibration):
    """The clip of least modelled error, by Newton's steps (Sakr et al. 2022): s ← Σ|x|[|x| > s] / (4^-b / 3 ·
    #(0 < |x| ≤ s) + #(|x| > s)), a twelfth for formats without a sign.

    Steps that alternate between two clips forever end at the one with the smaller modelled error. With
    `count_zeros` zeros are among those kept, as in ai-edge-quantizer, which takes 10 steps from s = 1 and
    ends at either of two such clips.
    """

    count_zeros: bool = False
    id: ClassVar[str] = "octav"
    symmetric_only: ClassVar[bool] = True
    integers_only: ClassVar[bool] = True

    def problems(self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int") -> Problems:
        yield from super().problems(fmt, mode, zero_domain)
        if not isinstance(self.count_zeros, bool):
            yield QuantVizError(
                "calibration_field_switch", calibration=self.id, field="count_zeros", got=self.count_zeros
            )


class _ACIQ(_WholeTensorCalibration):
    """The clip of least error of a family of distributions, 2^b cells around the mean (Banner et al. 2019).

    Symmetric, the middle is 0 and not the mean. No end lies beyond the smallest or the largest value.
    """

    integers_only: ClassVar[bool] = True


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
class HQQ(_WholeTensorCalibration):
    """HQQ's half-quadratic splitting: scales from the whole range, then only the zero points are made better,
    towards the least Σ|error|^`p`.

    All blocks stop when the mean |error| of the whole tensor no longer falls, and keep the zero points of the
    very round that failed. The package (0.2.8) has a growth of `beta` by 1.01 a round in its settings that it
    never applies: `kappa` is 1.
    """

    p: float = _limited(0.7, 0.1, 1.0)
    beta: float = _limited(10.0, 1e-3, 1e6)
    kappa: float = _limited(1.0, 1.0, 2.0)
    steps: int = _limited(20, 1, MOST_STEPS)
    id: ClassVar[str] = "hqq"
    integers_only: ClassVar[bool] = True

    def problems(self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int") -> Problems:
        yield from self._misfits(fmt, mode)
        if mode != "asymmetric" or zero_domain != "code_float":
            yield QuantVizError("hqq_needs_float_zero", mode=mode, zero_domain=zero_domain)
        yield from self._beyond_limits()


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
