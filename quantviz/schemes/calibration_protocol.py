"""The protocols of calibrations and their inputs."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from quantviz.errors import QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.choices import Mode, SchemeZeroDomain

if TYPE_CHECKING:
    import torch

    from quantviz.schemes.conventions import Convention
    from quantviz.schemes.formats import NumberFormat


Problems = Iterator[QuantVizError]
#: Annotations that are not evaluated are texts.
_PLAIN: dict[Any, type] = {int: int, "int": int, float: float, "float": float}


@dataclass(frozen=True, eq=False)
class Range(Picklable):
    """The clipping range of each block, as tensors of the layout's `grid_shape`."""

    lo: torch.Tensor
    hi: torch.Tensor
    #: The first element of largest magnitude, with its sign.
    extreme: torch.Tensor


@dataclass(frozen=True, eq=False)
class QParams(Picklable):
    """Scale and zero point, one per block.

    Made by hand, both may be numbers, nested lists or tensors: one for all blocks or one a block.
    """

    #: Effective scale of each block, of the layout's `grid_shape`.
    scale: Any
    #: The code (or shift) of the value 0, of the same shape.
    zero_point: Any = 0
    #: The scale's own codes, where the scale is itself quantized.
    scale_codes: Any = None
    #: The second-level scale: of the tensor, or of the run that a block is in.
    global_scale: Any = None
    #: The meaning of the zero point: "none", "code_int", "code_float", "value" or "value_middle".
    zero_domain: SchemeZeroDomain = "code_int"
    #: Other values of each block that codes are computed with, by their names in the operations.
    others: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    #: Whether an engine has made and stored them, as `choose_qparams` has: used as they are, with a scale
    #: that may be negative or 0. Others are rounded to the convention's scale format.
    stored: bool = False
    #: The two levels of the zero point, where it has two.
    zero_point_codes: Any = None
    global_zero_point: Any = None


class BlockSource(Protocol):
    """Some blocks of a tensor, readable any number of times. Padding does not count as values."""

    @property
    def numbers(self) -> torch.Tensor:
        """Return the numbers of the blocks, counted row-major over the grid, int64 (k,)."""

    @property
    def ends(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return smallest and largest value of each, float32 (k,); 0 where it has none."""

    def added_up(self, of_rows: Callable[..., torch.Tensor], *of_blocks: torch.Tensor) -> torch.Tensor:
        """Return the sum (k, m) of the results of `of_rows` over the blocks, one stretch after the other.

        It is called with the values, float32 (k, n) with NaN where a block has no more of them, and with
        each of `of_blocks` (k,) as (k, 1); it returns (k, m). A block's own size alone decides where its
        stretches begin and end, so that sums have the same bits whatever other blocks are read.
        """

    def joined(
        self,
        of_rows: Callable[..., torch.Tensor],
        join: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        *of_blocks: torch.Tensor,
    ) -> torch.Tensor:
        """Return the results of `of_rows` over the blocks, (k, m), combined by `join` instead of a sum."""


class BlockValues(Protocol):
    """The statistics of a tensor's blocks that calibrations use."""

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
        """Return the values of each run of `count` neighbouring blocks, or of all of a row for 0; 0 where
        they are left out: (elements of a block, count, runs).
        """

    def of_runs(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of the blocks of each run, (count, runs), in the shape of the grid."""

    def by_parts(
        self, answer: Callable[[BlockSource], tuple[torch.Tensor, ...]], count: int, most: int
    ) -> tuple[torch.Tensor, ...]:
        """Return the results of `answer` for all blocks: `count` tensors, float64 of `grid_shape`.

        `answer` gets at most `most` blocks at a time and returns `count` tensors (k,).
        """


class RangeTrial(Protocol):
    """The error that blocks have with a range, or with each of a list of ranges: Σ |error|^`power`.

    For a list, `lo` and `hi` have one axis, as the answer has, `of` are the blocks' numbers (int64,
    ascending), and `extreme` has one entry for each block.
    """

    def __call__(
        self, ranges: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0
    ) -> torch.Tensor: ...


@dataclass(frozen=True)
class ModeContext:
    mode: Mode


@dataclass(frozen=True, eq=False)
class Context(ModeContext):
    format: NumberFormat
    convention: Convention
    #: Σ |error|^power of blocks with a range under this very scheme, float64 of `grid_shape`; infinite where
    #: the range would be refused, or the engine yields no finite number.
    trial: RangeTrial
    #: Makes the result that replaces a range: one scale and zero point for all blocks, or one a block.
    qparams: Callable[[object, object], QParams]
    #: Computes the ranges by the calibration's class; apart, since choosing a scheme does not import torch.
    compute: Callable[[Calibration, BlockValues, Context], Range | QParams]
    absmax: Callable[[], torch.Tensor]
    #: The weights of the errors by column, if the caller gives any.
    importance: torch.Tensor | None = None
    #: The ends of x̂ in the blocks of a list of ranges, as `trial` takes it; none where not known.
    reach: Callable[[Range, torch.Tensor], tuple[torch.Tensor, torch.Tensor] | None] | None = None
    #: An engine's own search on each block by itself; none for the reference.
    find: Callable[..., tuple[torch.Tensor, ...]] | None = None


class Calibration(ABC):
    """The base of every calibration: a frozen dataclass, whose fields are its parameters.

    Everything but `id` and `calibrate` has a default.
    """

    id: ClassVar[str]
    #: Whether the range follows from the block's values and the mode alone. It is computed once and serves
    #: other formats too; others get a `Context`, and are cached for their one scheme.
    of_values: ClassVar[bool] = True
    #: Whether all blocks come together, for a search over the whole tensor. Else a block's result depends on
    #: no other block.
    together: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain = {each.name: _PLAIN.get(each.type) for each in fields(self)}  # type: ignore[arg-type]
        as_plain(self, **{name: kind for name, kind in plain.items() if kind})

    def problems(self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int") -> Problems:
        """Yield an error for each bad field, for this format, mode and a convention's `zero_domain`."""
        return iter(())

    @abstractmethod
    def calibrate(self, blocks: BlockValues, context: Any) -> Range | QParams:
        """Return the clipping range of each block, or its scale and zero point.

        `context` is a `ModeContext` where the range is `of_values`, else a `Context`.
        """

    def lines(self, mode: str) -> tuple[str, str]:
        """Return Python expressions of `lo` and `hi` in terms of `block`; empty to show the found values."""
        return "", ""


class ComputedCalibration(Calibration):
    of_values: ClassVar[bool] = False

    def calibrate(self, blocks: BlockValues, context: Context) -> Range | QParams:
        return context.compute(self, blocks, context)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def as_plain(owner: object, **kinds: type) -> None:
    # NumPy scalars and whole floats: the text form round-trips. `problems` refuses the rest.
    for name, kind in kinds.items():
        value = getattr(owner, name)
        if is_number(value) and kind(value) == value:
            object.__setattr__(owner, name, kind(value))
