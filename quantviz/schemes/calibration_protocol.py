"""What a calibration answers and is told: the protocols that `calibration` and `engine_calibrations` fill."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from quantviz.errors import QuantVizError
from quantviz.pickling import Picklable

if TYPE_CHECKING:
    import torch

    from quantviz.quantization.result import QParams
    from quantviz.schemes.conventions import Convention
    from quantviz.schemes.formats import NumberFormat


@dataclass(frozen=True, eq=False)
class Range(Picklable):
    """The clipping range of each block, as tensors of the layout's `grid_shape`."""

    #: Lower end.
    lo: torch.Tensor
    #: Upper end.
    hi: torch.Tensor
    #: The first element of largest magnitude, with its sign.
    extreme: torch.Tensor


class Part(Protocol):
    """Some blocks of a tensor, gone through as often as need be. Zeros that fill a block up are none of its
    values.
    """

    @property
    def numbers(self) -> torch.Tensor:
        """Return which blocks these are, counted row-major over the grid, int64 (k,)."""

    @property
    def ends(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return smallest and largest value of each, float32 (k,); 0 where it has none."""

    def added_up(self, of_rows: Callable[..., torch.Tensor], *of_blocks: torch.Tensor) -> torch.Tensor:
        """Return the sum (k, m) of what `of_rows` makes of one stretch of each block after the other.

        It is called with the values, float32 (k, n) with NaN where a block has no more of them, and with
        each of `of_blocks` (k,) as (k, 1); its answers are (k, m). Where stretches begin and end follows from
        the block's own size, so that sums have the same bits whatever else is looked at.
        """

    def joined(
        self,
        of_rows: Callable[..., torch.Tensor],
        join: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        *of_blocks: torch.Tensor,
    ) -> torch.Tensor:
        """Return the same, joined in another way than by adding up."""


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
        """Return the values of each run of `count` neighbouring blocks, or of all of a row for 0; 0 where
        they are left out: (elements of a block, count, runs).
        """

    def of_runs(self, values: torch.Tensor) -> torch.Tensor:
        """Return what is known of the blocks of each run, (count, runs), as it lies in the grid."""

    def by_parts(
        self, answer: Callable[[Part], tuple[torch.Tensor, ...]], count: int, most: int
    ) -> tuple[torch.Tensor, ...]:
        """Return the `count` numbers a block that `answer` gives, (k,) each, of at most `most` blocks at a
        time: float64 of the layout's `grid_shape`.
        """


class Trial(Protocol):
    """The error that blocks have with a range, or with each of a list of ranges: Σ |error|^`power`.

    For a list, `lo` and `hi` have one axis, as the answer has, `of` are the blocks' numbers (int64,
    ascending), and `extreme` has one entry for each block.
    """

    def __call__(
        self, found: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0
    ) -> torch.Tensor: ...


@dataclass(frozen=True)
class ModeContext:
    """What a calibration may depend on besides the values of a block: the mode alone."""

    mode: str


@dataclass(frozen=True, eq=False)
class Context(ModeContext):
    """What any other calibration is told: what the range is for, and the means to try one."""

    format: NumberFormat
    convention: Convention
    #: The error that blocks have with a range, Σ error² of each or another power, float64 of the layout's
    #: `grid_shape`, as the reference quantizer makes it under this very scheme; infinite where the range
    #: would be refused, or the engine yields no finite number.
    trial: Trial
    #: Makes what is answered in place of a range: scale and zero point, each one for all blocks or one a
    #: block.
    qparams: Callable[[object, object], QParams]
    #: Computes what a calibration says by the function that stands for its class: it takes torch, which
    #: choosing a scheme does not import.
    compute: Callable[[Calibration, BlockValues, Context], Range | QParams]
    #: Returns the largest magnitude of the whole tensor.
    absmax: Callable[[], torch.Tensor]
    #: What an error counts in each column, where the caller says so.
    importance: torch.Tensor | None = None
    #: Returns between which values x̂ lies in the blocks of a list of ranges, as `trial` takes it; none where
    #: that is not known.
    reach: Callable[[Range, torch.Tensor], tuple[torch.Tensor, torch.Tensor] | None] | None = None
    #: Finds what an engine's own search finds of each block by itself; none for the reference's way.
    find: Callable[..., tuple[torch.Tensor, ...]] | None = None


class Calibration(Protocol):
    """What every calibration answers."""

    id: ClassVar[str]
    #: Whether the range follows from the values of a block and the mode alone. Such a calibration is handed a
    #: `ModeContext`, and a range that was found once serves other formats too. What any other one finds is
    #: kept for the one scheme.
    of_values: ClassVar[bool]
    #: Whether it is asked of all blocks of a tensor together, as one whose search looks at the whole tensor
    #: must be. Any other is asked of some blocks at a time: what a block is given depends on no other block.
    together: ClassVar[bool]

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        """Yield what is wrong with the fields, for this format, mode and a convention's `zero_domain`."""

    def calibrate(self, blocks: BlockValues, context: Context) -> Range | QParams:
        """Return the clipping range of each block, or its scale and zero point."""

    def lines(self, mode: str) -> tuple[str, str]:
        """Return how `lo` and `hi` come from `block`, as Python for showing; empty where no line gives them,
        so that they are shown as they were found.
        """


class Computed:
    """A calibration whose range, or scale and zero point, the function computes that stands for its class."""

    of_values: ClassVar[bool] = False
    together: ClassVar[bool] = False

    def problems(
        self, fmt: NumberFormat, mode: str, zero_domain: str = "code_int"
    ) -> Iterator[QuantVizError]:
        return iter(())

    def calibrate(self, blocks: BlockValues, context: Context) -> Range | QParams:
        return context.compute(self, blocks, context)  # type: ignore[arg-type]

    def lines(self, mode: str) -> tuple[str, str]:
        return "", ""


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def as_plain(owner: object, **kinds: type) -> None:
    """Convert NumPy scalars and whole floats to Python numbers, so that the text form round-trips; leave the
    rest to `problems`.
    """
    for name, kind in kinds.items():
        value = getattr(owner, name)
        if is_number(value) and kind(value) == value:
            object.__setattr__(owner, name, kind(value))
