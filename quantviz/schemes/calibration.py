"""Calibrations: from the values of a block to its clipping range.

A calibration is added here: one class in `CALIBRATIONS` and its words in each language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NoReturn

from quantviz.errors import QuantVizError
from quantviz.schemes.calibration_protocol import BlockSource as BlockSource
from quantviz.schemes.calibration_protocol import BlockValues as BlockValues
from quantviz.schemes.calibration_protocol import Calibration as Calibration
from quantviz.schemes.calibration_protocol import ComputedCalibration, Problems, QParams, as_plain, is_number
from quantviz.schemes.calibration_protocol import Context as Context
from quantviz.schemes.calibration_protocol import ModeContext as ModeContext
from quantviz.schemes.calibration_protocol import Range as Range
from quantviz.schemes.calibration_protocol import RangeTrial as RangeTrial
from quantviz.schemes.engine_calibrations import ENGINE_CALIBRATIONS

if TYPE_CHECKING:
    from quantviz.schemes.formats import NumberFormat

FLOAT32_MAX = (2 - 2**-23) * 2.0**127
FLOAT32_TINY = 2.0**-149
#: Integers up to here are exact in float32, zero points included.
FLOAT32_EXACT_INTEGER = 2**24


@dataclass(frozen=True)
class MinMax(Calibration):
    """The range from the smallest to the largest value of the block."""

    id: ClassVar[str] = "min_max"

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> Range:
        lo, hi = blocks.min_max()
        return Range(lo, hi, blocks.extreme())

    def lines(self, mode: str) -> tuple[str, str]:
        return "min(block)", "max(block)"


@dataclass(frozen=True)
class Percentile(Calibration):
    """The range up to the `p`-th percentile, 50 < p ≤ 100; values beyond are clipped.

    Asymmetric cuts both tails, at `100 - p` and at `p`; symmetric cuts |x| at `p`. Percentiles are
    interpolated linearly.
    """

    p: float = field(metadata={"start": 99.0})
    id: ClassVar[str] = "percentile"

    def problems(self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int") -> Problems:
        if not is_number(self.p) or not 50 < self.p <= 100:
            yield QuantVizError("percentile_out_of_range", got=self.p)

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> Range:
        extreme = blocks.extreme()
        if context.mode == "symmetric":
            (top,) = blocks.magnitudes().percentiles(self.p)
            return Range(-top, top, extreme)
        lo, hi = blocks.percentiles(100 - self.p, self.p)
        return Range(lo, hi, extreme)

    def lines(self, mode: str) -> tuple[str, str]:
        if mode == "symmetric":
            return f"-percentile(abs(block), {self.p!r})", f"percentile(abs(block), {self.p!r})"
        return f"percentile(block, 100 - {self.p!r})", f"percentile(block, {self.p!r})"


@dataclass(frozen=True)
class AbsMean(Calibration):
    """The range ±mean(|x|): ternary and binary weights (BitNet b1.58, Ma et al. 2024)."""

    id: ClassVar[str] = "abs_mean"

    def problems(self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int") -> Problems:
        if mode != "symmetric":
            yield QuantVizError("abs_mean_needs_symmetric", mode=mode)

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> Range:
        mean = blocks.mean_magnitude()
        return Range(-mean, mean, blocks.extreme())

    def lines(self, mode: str) -> tuple[str, str]:
        return "-mean(abs(block))", "mean(abs(block))"


@dataclass(frozen=True)
class MSE(ComputedCalibration):
    """The range of least squared error, found by trying many, and more finely around the best.

    Trials lie between the smallest and the largest value, and run the scheme itself. If an engine's scale
    rule reads the value of largest magnitude in place of the range, the range stays the whole.
    """

    id: ClassVar[str] = "mse"


@dataclass(frozen=True)
class Searched(ComputedCalibration):
    """The engine's own search, `Convention.search`: it stores scales as small codes of a shared scale."""

    id: ClassVar[str] = "searched"


@dataclass(frozen=True)
class ManualRange(Calibration):
    """The range `lo` to `hi`, set by hand for every block."""

    lo: float
    hi: float
    id: ClassVar[str] = "manual_range"

    def problems(self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int") -> Problems:
        if not (is_number(self.lo) and is_number(self.hi) and self.lo < self.hi):
            yield QuantVizError("manual_range_order", lo=self.lo, hi=self.hi)

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> Range:
        return Range(blocks.constant(float(self.lo)), blocks.constant(float(self.hi)), blocks.extreme())

    def lines(self, mode: str) -> tuple[str, str]:
        return repr(self.lo), repr(self.hi)


@dataclass(frozen=True)
class Given(Calibration):
    """Scale and zero point set by hand, the same for every block.

    The notebooks' hard-coded pair is `Given(3.5, -70)`.
    """

    scale: float
    #: A code; for conventions whose zero point is a value or a code with a fraction, any number.
    zero_point: int | float = 0
    id: ClassVar[str] = "given"
    of_values: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        as_plain(self, zero_point=float)
        as_plain(self, zero_point=int)

    def problems(self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int") -> Problems:
        if not is_number(self.scale) or not FLOAT32_TINY <= self.scale <= FLOAT32_MAX:
            yield QuantVizError("scale_not_positive", got=self.scale)
        whole = zero_domain == "code_int"
        if not is_number(self.zero_point) or (
            whole
            and (self.zero_point != int(self.zero_point) or abs(self.zero_point) > FLOAT32_EXACT_INTEGER)
        ):
            yield QuantVizError("zero_point_not_integer", got=self.zero_point, largest=FLOAT32_EXACT_INTEGER)
        elif mode == "symmetric" and self.zero_point != 0:
            yield QuantVizError("zero_point_in_symmetric", got=self.zero_point)

    def calibrate(self, blocks: BlockValues, context: Context) -> QParams:
        return context.qparams(self.scale, self.zero_point)


@dataclass(frozen=True)
class External(Calibration):
    """Scale and zero point from `quantize(..., qparams=...)`: no text form, no cache."""

    id: ClassVar[str] = "external"
    of_values: ClassVar[bool] = False

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> NoReturn:
        raise QuantVizError("external_without_qparams")


#: Every calibration that can be chosen, by id.
CALIBRATIONS: Mapping[str, type[Calibration]] = MappingProxyType(
    {
        kind.id: kind
        for kind in (MinMax, Percentile, MSE, AbsMean, *ENGINE_CALIBRATIONS, Searched, ManualRange, Given)
    }
)


def starting(kind: type[Calibration], known: Mapping[str, float]) -> Calibration:
    """Return a calibration with initial values: from `known` by name, else "start", the default, or 1.

    >>> starting(Percentile, {"lo": -3.0}), starting(ManualRange, {"lo": -3.0, "hi": 2.0})
    (Percentile(p=99.0), ManualRange(lo=-3.0, hi=2.0))
    """
    values = {}
    for parameter in fields(kind):  # type: ignore[arg-type]
        usual = 1.0 if parameter.default is MISSING else parameter.default
        values[parameter.name] = known.get(parameter.name, parameter.metadata.get("start", usual))
    return kind(**values)
