"""Calibrations: from the values of a block to its clipping range.

A calibration is added here: one class in `CALIBRATIONS` and its words in each language.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol

from quantviz.errors import QuantVizError
from quantviz.pickling import Picklable

if TYPE_CHECKING:
    import torch

    from quantviz.quantization.result import QParams
    from quantviz.schemes.conventions import Convention
    from quantviz.schemes.formats import NumberFormat

#: Largest finite float32.
FLOAT32_MAX = (2 - 2**-23) * 2.0**127
#: Smallest float32 above zero.
FLOAT32_TINY = 2.0**-149
#: Integers up to here are exact in float32, zero points included.
FLOAT32_EXACT_INTEGER = 2**24


@dataclass(frozen=True, eq=False)
class Range(Picklable):
    """The clipping range of each block, as tensors of the layout's `grid_shape`."""

    #: Lower end.
    lo: torch.Tensor
    #: Upper end.
    hi: torch.Tensor
    #: The first element of largest magnitude, with its sign.
    extreme: torch.Tensor


class BlockValues(Protocol):
    """What a calibration asks of a tensor's blocks: `blocks.Blocks` answers it, and what reads the tensor a
    part at a time.
    """

    def min_max(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return smallest and largest value of each block."""

    def extreme(self) -> torch.Tensor:
        """Return the first element of largest magnitude of each block, with its sign."""

    def magnitudes(self) -> BlockValues:
        """Return the same blocks of |x|."""

    def percentiles(self, *percents: float) -> tuple[torch.Tensor, ...]:
        """Return the `percents` (0 to 100) of each block, interpolated linearly between two values."""

    def mean_magnitude(self) -> torch.Tensor:
        """Return the mean of |x| of each block."""

    def constant(self, value: float) -> torch.Tensor:
        """Return `value` for each block."""

    def runs(self, count: int) -> torch.Tensor:
        """Return the values of each run of `count` neighbouring blocks, 0 where they are left out: (elements
        of a block, count, runs).
        """

    def of_runs(self, values: torch.Tensor) -> torch.Tensor:
        """Return what is known of the blocks of each run, (count, runs), as it lies in the grid."""


class Trial(Protocol):
    """The error that blocks have with a range, or with each of a list of ranges.

    For a list, `lo` and `hi` have one axis, as the answer has, `of` are the blocks' numbers (int64,
    ascending), and `extreme` has one entry for each block.
    """

    def __call__(self, found: Range, of: torch.Tensor | None = None, /) -> torch.Tensor: ...


@dataclass(frozen=True)
class ModeContext:
    """What a calibration may depend on besides the values of a block: the mode alone."""

    mode: str


@dataclass(frozen=True, eq=False)
class Context(ModeContext):
    """What any other calibration is told: what the range is for, and the means to try one."""

    format: NumberFormat
    convention: Convention
    #: The error that blocks have with a range, Σ error² of each, float64 of the layout's `grid_shape`, as the
    #: reference quantizer makes it under this very scheme; infinite where the range would be refused, or the
    #: engine yields no finite number.
    trial: Trial
    #: Makes what is answered in place of a range: scale and zero point, each one for all blocks or one a
    #: block.
    qparams: Callable[[object, object], QParams]
    #: Searches the range of least error: it takes torch, which choosing a scheme does not import.
    least_error: Callable[[BlockValues, Context], Range]
    #: Searches scales as the convention's engine does.
    searched: Callable[[BlockValues, Context], QParams]
    #: What an error counts in each column, where the caller says so.
    importance: torch.Tensor | None = None


class Calibration(Protocol):
    """What every calibration answers."""

    id: ClassVar[str]
    #: Whether the range follows from the values of a block and the mode alone. Such a calibration is handed a
    #: `ModeContext`, and a range that was found once serves other formats too. What any other one finds is
    #: kept for the one scheme.
    of_values: ClassVar[bool]

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        """Yield what is wrong with the fields, for this format, mode and a convention's `zero_domain`."""

    def calibrate(self, blocks: BlockValues, context: Context) -> Range | QParams:
        """Return the clipping range of each block, or its scale and zero point. What a block is given depends
        on no other block.
        """

    def lines(self, mode: str) -> tuple[str, str]:
        """Return how `lo` and `hi` come from `block`, as Python for showing; empty where no line gives them,
        so that they are shown as they were found.
        """


@dataclass(frozen=True)
class MinMax:
    """From the smallest to the largest value of the block."""

    id: ClassVar[str] = "min_max"
    of_values: ClassVar[bool] = True

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        return iter(())

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> Range:
        lo, hi = blocks.min_max()
        return Range(lo, hi, blocks.extreme())

    def lines(self, mode: str) -> tuple[str, str]:
        return "min(block)", "max(block)"


@dataclass(frozen=True)
class Percentile:
    """Leaves out the values beyond the `p`-th percentile, 50 < p ≤ 100.

    Asymmetric cuts both tails, at `100 - p` and at `p`; symmetric cuts |x| at `p`. Between two
    values the percentile is interpolated linearly.
    """

    p: float = field(metadata={"start": 99.0})
    id: ClassVar[str] = "percentile"
    of_values: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _as_plain(self, p=float)

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        if not _is_number(self.p) or not 50 < self.p <= 100:
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
class AbsMean:
    """From -mean(|x|) to mean(|x|): what ternary and binary weights are scaled by (BitNet b1.58, Ma et al.
    2024).
    """

    id: ClassVar[str] = "abs_mean"
    of_values: ClassVar[bool] = True

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        if mode != "symmetric":
            yield QuantVizError("abs_mean_needs_symmetric", mode=mode)

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> Range:
        mean = blocks.mean_magnitude()
        return Range(-mean, mean, blocks.extreme())

    def lines(self, mode: str) -> tuple[str, str]:
        return "-mean(abs(block))", "mean(abs(block))"


@dataclass(frozen=True)
class MSE:
    """The range of least squared error, found by trying many, and more finely around the best.

    The ranges tried lie within the smallest to the largest value.

    What is tried is the scheme itself, so that the range fits its format and its engine's arithmetic. Where
    an engine's scale rule reads the block's value of largest magnitude in place of the range, no range makes
    a difference, and it stays from the smallest to the largest value.
    """

    id: ClassVar[str] = "mse"
    of_values: ClassVar[bool] = False

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        return iter(())

    def calibrate(self, blocks: BlockValues, context: Context) -> Range:
        return context.least_error(blocks, context)

    def lines(self, mode: str) -> tuple[str, str]:
        return "", ""


@dataclass(frozen=True)
class Searched:
    """The search that belongs to the engine's arithmetic, `Convention.search`: it chooses scales, and each is
    kept as a small code of one that several blocks share.
    """

    id: ClassVar[str] = "searched"
    of_values: ClassVar[bool] = False

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        return iter(())

    def calibrate(self, blocks: BlockValues, context: Context) -> QParams:
        return context.searched(blocks, context)

    def lines(self, mode: str) -> tuple[str, str]:
        return "", ""


@dataclass(frozen=True)
class ManualRange:
    """The range `lo` to `hi`, set by hand for every block."""

    lo: float
    hi: float
    id: ClassVar[str] = "manual_range"
    of_values: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _as_plain(self, lo=float, hi=float)

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        if not (_is_number(self.lo) and _is_number(self.hi) and self.lo < self.hi):
            yield QuantVizError("manual_range_order", lo=self.lo, hi=self.hi)

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> Range:
        return Range(blocks.constant(float(self.lo)), blocks.constant(float(self.hi)), blocks.extreme())

    def lines(self, mode: str) -> tuple[str, str]:
        return repr(self.lo), repr(self.hi)


@dataclass(frozen=True)
class Given:
    """Scale and zero point set by hand, the same for every block.

    The notebooks' hard-coded pair is `Given(3.5, -70)`.
    """

    scale: float
    #: A code; where the convention's zero point is a value or a code with a fraction, any number.
    zero_point: int | float = 0
    id: ClassVar[str] = "given"
    of_values: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _as_plain(self, scale=float)
        _as_plain(self, zero_point=float)
        _as_plain(self, zero_point=int)

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        if not _is_number(self.scale) or not FLOAT32_TINY <= self.scale <= FLOAT32_MAX:
            yield QuantVizError("scale_not_positive", got=self.scale)
        whole = zero_domain == "code_int"
        if not _is_number(self.zero_point) or (
            whole
            and (self.zero_point != int(self.zero_point) or abs(self.zero_point) > FLOAT32_EXACT_INTEGER)
        ):
            yield QuantVizError("zero_point_not_integer", got=self.zero_point, largest=FLOAT32_EXACT_INTEGER)
        elif mode == "symmetric" and self.zero_point != 0:
            yield QuantVizError("zero_point_in_symmetric", got=self.zero_point)

    def calibrate(self, blocks: BlockValues, context: Context) -> QParams:
        return context.qparams(self.scale, self.zero_point)

    def lines(self, mode: str) -> tuple[str, str]:
        return "", ""


@dataclass(frozen=True)
class External:
    """Scale and zero point were handed to `quantize(..., qparams=...)`: no text form, no cache."""

    id: ClassVar[str] = "external"
    of_values: ClassVar[bool] = False

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        return iter(())

    def calibrate(self, blocks: BlockValues, context: ModeContext) -> NoReturn:
        raise QuantVizError("external_without_qparams")

    def lines(self, mode: str) -> tuple[str, str]:
        return "", ""


#: Every calibration that can be chosen, by id.
CALIBRATIONS: Mapping[str, type[Calibration]] = MappingProxyType(
    {each.id: each for each in (MinMax, Percentile, MSE, AbsMean, Searched, ManualRange, Given)}
)


def starting(kind: type[Calibration], known: Mapping[str, float]) -> Calibration:
    """Return a calibration to begin with: each field is what is `known` by its name, else its "start" or its
    default, else 1.

    >>> starting(Percentile, {"lo": -3.0}), starting(ManualRange, {"lo": -3.0, "hi": 2.0})
    (Percentile(p=99.0), ManualRange(lo=-3.0, hi=2.0))
    """
    values = {}
    for each in fields(kind):  # type: ignore[arg-type]
        usual = 1.0 if each.default is MISSING else each.default
        values[each.name] = known.get(each.name, each.metadata.get("start", usual))
    return kind(**values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _as_plain(owner: object, **kinds: type) -> None:
    """Convert NumPy scalars and whole floats to Python numbers, so that the text form round-trips; leave the
    rest to `problems`.
    """
    for name, kind in kinds.items():
        value = getattr(owner, name)
        if _is_number(value) and kind(value) == value:
            object.__setattr__(owner, name, kind(value))
