"""A tensor's error without some of its parts: every number is that of a real quantization."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.analysis.study import Study
from quantviz.analysis.touched_blocks import TouchedBlocks
from quantviz.evaluation.metric_formulas import bits_per_element, sqnr_db_of_lines, stored_bits
from quantviz.evaluation.moments import Moments, number_of
from quantviz.quantization.cells import quantize_cells
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QParams
from quantviz.schemes.calibration import MinMax, Range
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.granularity import BlockLayout, Granularity, PerChannel, Shape, Window
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.hadamard import hadamard_transform
from quantviz.streaming.measuring import measure
from quantviz.streaming.ranges import qparams, ranges
from quantviz.streaming.regions import place_of, read_window
from quantviz.streaming.tensor_facts import Facts, facts
from quantviz.tensors.blocks import block_sums, expand, flat_indices_of, viewed
from quantviz.tensors.conversion import NonFinite
from quantviz.tensors.lazy import InMemory, Over, Stored, Values, as_stored

Array = npt.NDArray[Any]
Numbers = tuple[int, ...]

#: Of parts of any size.
_ENDS = Scheme("int8", convention=CONVENTIONS["course"].replace(tail="short"), nonfinite="ignore")
#: For each cell kept apart.
KEPT_BITS = 16
#: Remaining noise is a difference of sums down to this share: sums over large tensors agree to 1e-6.
_TOLD_BY_DIFFERENCE = 1e-3
#: Points of AWQ's grid; of a large tensor's as many as quantize so many cells, and the fewest.
_STEPS = 20
_CELLS_FOLDED = 2**23
_FEWEST_STEPS = 4
#: Bounds the factor of a column of zeros.
_LEAST_MAGNITUDE = 1e-4


class LeftOut(Over):
    """The same tensor with NaN, or another value, at some places: scales are found without NaN."""

    def __init__(self, stored: Stored, places: Array, fill: float = math.nan) -> None:
        super().__init__(stored)
        #: Flat, int64 (n,), ascending.
        self._places = places
        self._fill = fill

    def run(self, start: int, stop: int) -> Values:
        values = self._stored.run(start, stop)
        first, last = np.searchsorted(self._places, (start, stop))
        if first == last:
            return values
        values = np.array(values)
        values[self._places[first:last] - start] = self._fill
        return values

    def read(self, index: Window) -> torch.Tensor:
        flat = flat_indices_of(self.shape, index)
        out = torch.isin(flat, torch.from_numpy(self._places), assume_unique=True)
        return self._stored.read(index).masked_fill(out, self._fill)


class Rotated(Over):
    """The same tensor with runs of `size` neighbours along the last axis turned by a Hadamard matrix.

    Sums of squares stay. `size` is a power of two that divides the last axis.
    """

    def __init__(self, stored: Stored, size: int) -> None:
        super().__init__(stored)
        self._dtype = "float32"
        self._size = size

    def run(self, start: int, stop: int) -> Values:
        first = start // self._size * self._size
        last = -(-stop // self._size) * self._size
        values = hadamard_transform(torch.from_numpy(np.array(self._stored.run(first, last))), self._size)
        return np.asarray(values.numpy()[start - first : stop - first])

    def read(self, index: Window) -> torch.Tensor:
        flat = flat_indices_of(self.shape, index)
        first = int(flat.min())
        last = int(flat.max())
        return torch.from_numpy(np.array(self.run(first, last + 1)))[flat - first]


class ScaledColumns(Over):
    """A matrix with each column times a factor.

    >>> x = InMemory(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> ScaledColumns(x, torch.tensor([1.0, 0.5])).run(1, 4).tolist()
    [1.0, 3.0, 2.0]
    """

    def __init__(self, stored: Stored, factors: torch.Tensor) -> None:
        super().__init__(stored)
        self._dtype = "float32"
        self._factors = factors

    def run(self, start: int, stop: int) -> Values:
        columns = torch.arange(start, stop) % len(self._factors)
        return np.asarray(self._stored.run(start, stop) * self._factors[columns].numpy())

    def read(self, index: Window) -> torch.Tensor:
        return self._stored.read(index) * self._factors[index[-1]]


def decibels(signal: float, noise: float) -> float:
    """Return the SQNR of Σx² and Σe² in dB; inf without error, nan without signal."""
    return float(sqnr_db_of_lines(Moments(x2=number_of(signal), e2=number_of(noise))))


#: Of one more bit per element, which halves the step, in dB.
DB_PER_BIT = decibels(4.0, 1.0)


class Counterfactuals:
    """The errors of a tensor under a scheme as they would be without some of its parts."""

    def __init__(self, x: Any, scheme: Scheme | str, parts: Granularity, study: Study | None = None) -> None:
        scheme = as_scheme(scheme)
        self.study = study or Study.of(as_stored(x)[0], scheme)
        #: As the scheme was given, and for the tensor's dtype.
        self._own = self.study.scheme
        self.scheme = scheme
        self.parts = parts
        result = self.study.result
        self.x = self.study.x if result is None else InMemory(result.x, dtype=self.study.x.dtype)
        self.layout: BlockLayout = parts.layout(self.x.shape, "short")
        self._ignoring = self._own.replace(nonfinite="ignore")
        # A finite tensor needs no arithmetic for NaN, which takes longer.
        self._finite = self._ignoring if self.study.facts.nonfinite else self._own
        #: Of the whole tensor.
        self.made = 0
        self._noises: dict[Numbers, float] = {}
        self._parts: dict[int, tuple[float, float]] = {}

    @property
    def count(self) -> int:
        return self.layout.block_count

    @property
    def of_cells(self) -> bool:
        return self.layout.block_size == 1

    @property
    def axis(self) -> int | None:
        """Return the axis of parts that are channels, else None."""
        return self.parts.axis % len(self.x.shape) if isinstance(self.parts, PerChannel) else None

    @cached_property
    def noise(self) -> float:
        return _number(self.study.measured.moments.e2)

    def share(self, noise: float) -> float:
        """Return some Σe² as a share of the tensor's; 0 if that has no error."""
        return noise / self.noise if self.noise else 0.0

    @cached_property
    def signal(self) -> float:
        return _number(self.study.measured.moments.x2)

    @cached_property
    def bits(self) -> float:
        """Return the bits an element, scales included."""
        return bits_per_element(self._own, self.x.shape)

    @cached_property
    def magnitudes(self) -> Array:
        """Return the largest |x| of each part, float64 (parts,)."""
        ends: Any = ranges(self.x, _ENDS.replace(granularity=self.parts))
        return torch.maximum(-ends.lo, ends.hi).flatten().to(torch.float64).numpy()

    @cached_property
    def suffered(self) -> Array | None:
        """Return Σe² of each part's own cells, float64; none for parts of a large tensor but channels."""
        error = None if self.study.result is None else self.study.result.error
        if error is not None:
            counted = torch.isfinite(self.x.read((slice(None),) * len(self.x.shape)))
            squares = error.to(torch.float64).square().masked_fill(~counted, 0)
            return block_sums(squares, self.layout).flatten().numpy()
        if self.axis is None:
            return None
        lines = self.study.measured.axes[self.axis].e2
        assert lines is not None
        return lines.numpy()

    # ---- parts --------------------------------------------------------------------------------

    def place(self, number: int) -> Shape:
        return place_of(number, self.layout.grid_shape)

    def window(self, number: int) -> tuple[slice, ...]:
        """Return the slices of a part in the view that `layout` divides."""
        return self.layout.window(self.place(number))

    def places(self, numbers: Iterable[int]) -> Array:
        """Return the flat places of their cells, ascending."""
        indices = [
            flat_indices_of(self.layout.view_shape, self.window(number)).flatten().numpy()
            for number in numbers
        ]
        return np.sort(np.concatenate(indices)) if indices else np.zeros(0, np.int64)

    def values(self, numbers: Iterable[int]) -> torch.Tensor:
        """Return their values, float32 (parts, cells of a part), short ones filled up with NaN."""
        rows = [read_window(self.x, self.layout, self.window(number)).flatten() for number in numbers]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=math.nan)

    def absmax_of(self, numbers: Numbers) -> float:
        """Return the largest finite magnitude; 0 in no parts."""
        if not numbers:
            return 0.0
        if not self.of_cells:
            return float(self.magnitudes[list(numbers)].max())
        return float(self.values(numbers).nan_to_num(0.0, 0.0, 0.0).abs().max())

    def suffered_by(self, numbers: Iterable[int]) -> float:
        """Return Σe² of their cells under the current scheme."""
        numbers = tuple(numbers)
        if self.suffered is not None:
            return float(self.suffered[list(numbers)].sum())
        return sum(self._noise_of_part(number, self.study.qparams) for number in numbers)

    def _noise_of_part(self, number: int, params: QParams) -> float:
        window = self.window(number)
        values = read_window(self.x, self.layout, window).flatten()
        places = flat_indices_of(self.layout.view_shape, window).flatten()
        error = quantize_cells(values, self._ignoring, params, self.x.shape, places).error
        return float(error[torch.isfinite(values)].to(torch.float64).square().sum())

    def signal_of(self, numbers: Iterable[int]) -> float:
        return sum(self._of_part(number)[0] for number in numbers)

    def _of_part(self, number: int) -> tuple[float, float]:
        # Σx² of a part, and Σe² in 16 bits.
        if number not in self._parts:
            values = self.values((number,))
            values = values[torch.isfinite(values)]
            errors = values.to(self.kept_as).to(torch.float64) - values
            self._parts[number] = float(values.to(torch.float64).square().sum()), float(errors.square().sum())
        return self._parts[number]

    # ---- trials -------------------------------------------------------------------------------

    def noise_without(self, numbers: Numbers) -> float:
        """Return Σe² of the other cells with scales found without some parts."""
        if not numbers:
            return self.noise
        if numbers not in self._noises:
            self.made += 1
            touched = self._blocks.noise_without(self.places(numbers)) if self._blocks else None
            if touched is not None:
                self._noises[numbers] = touched
            elif self.study.result is not None:
                fill, scheme = (0.0, self._own) if self._zeros_cost_nothing else (math.nan, self._ignoring)
                self._noises[numbers] = _noise_of(self.study.result.x, self.places(numbers), fill, scheme)
            elif self._zeros_cost_nothing:
                without = LeftOut(self.x, self.places(numbers), 0.0)
                self._noises[numbers] = self._measured(without, self._own, numbers)
            else:
                # Scales first: sums that ignore NaN take many times as long.
                self._noises[numbers] = self._noise_of_others(numbers, self.params_without(numbers))
        return self._noises[numbers]

    def _measured(
        self, x: Stored, scheme: Scheme, numbers: Numbers = (), params: QParams | None = None
    ) -> float:
        x_facts = self._facts(x, numbers) if numbers else self.study.facts
        measured = measure(x, scheme, qparams=params, metrics=("mse",), known=x_facts)
        return _number(measured.moments.e2)

    def _noise_of_others(self, numbers: Numbers, params: QParams) -> float:
        places = self.places(numbers)
        if self.study.facts.nonfinite:
            return self._measured(LeftOut(self.x, places), self._ignoring, numbers, params)
        total = self._measured(LeftOut(self.x, places, 0.0), self._own, numbers, params)
        zeros = torch.zeros(len(places))
        at = torch.from_numpy(places)
        error = quantize_cells(zeros, self._own, params, self.x.shape, at).error
        return max(total - float(error.to(torch.float64).square().sum()), 0.0)

    @cached_property
    def _blocks(self) -> TouchedBlocks | None:
        return TouchedBlocks.of(self.study)

    @cached_property
    def _zeros_cost_nothing(self) -> bool:
        # Zeros stand for left-out cells if they have no error and change no scale.
        scheme = self._own
        if (
            self.study.facts.nonfinite
            or scheme.mode != "symmetric"
            or scheme.calibration != MinMax()
            or scheme.arithmetic.ties == "stochastic"
        ):
            return False
        probe = scheme.fitted((2, 64))
        zeros = torch.zeros(2, 64)
        zeros[0, 1] = 1.0
        zeros[1, 2] = -3.0
        return probe.calibration == MinMax() and not bool(quantize(zeros, probe).x_hat[zeros == 0].any())

    def costliest(self, most: int) -> Iterator[Numbers]:
        """Yield, of the sets tried with at most `most` parts, the costliest of each size."""
        sizes = sorted({len(numbers) for numbers in self._noises if len(numbers) <= most})
        for size in sizes:
            sets = [numbers for numbers in self._noises if len(numbers) == size]
            yield min(sets, key=lambda numbers: self._noises[numbers] + self.suffered_by(numbers))

    def without(self, numbers: Iterable[int]) -> LeftOut:
        return LeftOut(self.x, self.places(numbers))

    def kept(self, numbers: Numbers) -> torch.Tensor:
        """Return x̂, float32, with some parts in 16 bits and scales found without them."""
        everything = (slice(None),) * len(self.x.shape)
        places = torch.from_numpy(self.places(numbers))
        x_hat = quantize(self.without(numbers).read(everything), self._ignoring).x_hat.flatten()
        originals = self.x.read(everything).flatten()[places]
        x_hat[places] = originals.to(self.kept_as).to(x_hat.dtype)
        return viewed(x_hat, self.x.shape)

    def others_noise(self, numbers: Numbers) -> float:
        """Return Σe² of the cells outside the parts under the current scheme."""
        left = self.noise - self.suffered_by(numbers)
        if left >= _TOLD_BY_DIFFERENCE * self.noise or not self.noise:
            return max(left, 0.0)
        self.made += 1
        return self._noise_of_others(numbers, self.study.qparams)

    def others_signal(self, numbers: Iterable[int]) -> float:
        """Return Σx² of the cells outside the parts."""
        return max(self.signal - self.signal_of(numbers), 0.0)

    def kept_noise(self, numbers: Iterable[int]) -> float:
        """Return Σe² of the parts in 16 bits."""
        return sum(self._of_part(number)[1] for number in numbers)

    def noise_keeping(self, numbers: Numbers) -> float:
        """Return Σe² of the whole tensor with some parts in 16 bits."""
        return self.noise_without(numbers) + self.kept_noise(numbers)

    @cached_property
    def kept_as(self) -> torch.dtype:
        """Return float16, or bfloat16 if a value is beyond that."""
        return torch.float16 if self.study.absmax <= torch.finfo(torch.float16).max else torch.bfloat16

    def kept_bits(self, numbers: Numbers) -> float:
        """Return the bits an element that keeping parts adds: 16 a value in place of codes, and their places.

        A single cell's code stays where it is.
        """
        code = 0.0 if self.of_cells else stored_bits(self._own).code
        return (len(self.places(numbers)) * (KEPT_BITS - code) + self.place_bits(numbers)) / self.x.count

    def place_bits(self, numbers: Numbers) -> float:
        # Their numbers are stored.
        return len(numbers) * math.ceil(math.log2(max(self.count, 1)))

    def clipped_noise(self, numbers: Numbers) -> float:
        """Return Σe² of the tensor with some parts clipped to the range of the scales without them."""
        self.made += 1
        return self._measured(self.x, self._finite, params=self.params_without(numbers))

    def params_without(self, numbers: Numbers) -> QParams:
        without = self.without(numbers)
        absmax = facts(without).absmax if self._own.arithmetic.scale.depends_on_tensor else None
        return qparams(without, self._ignoring, absmax=absmax)

    def range_without(self, numbers: Numbers) -> Range | None:
        """Return the blocks' ranges without some parts; none where scales were given."""
        if self._own.arithmetic.scale.depends_on_tensor:
            return None
        block_ranges = ranges(self.without(numbers), self._ignoring)
        return block_ranges if isinstance(block_ranges, Range) else None

    def noise_under(self, scheme: Scheme) -> float:
        self.made += 1
        return self._measured(self.x, scheme.replace(nonfinite=self._finite.nonfinite))

    def rotated_noise(self) -> float | None:
        """Return Σe² of the tensor quantized after a Hadamard rotation along its last axis.

        Turning back leaves Σe² as it is. None where the axis has no factor of 2, or not all is finite.
        """
        length = self.x.shape[-1]
        size = length & -length
        if size < 2 or self.study.facts.nonfinite:
            return None
        self.made += 1
        return _number(measure(Rotated(self.x, size), self._own, metrics=("mse",)).moments.e2)

    def folded_noise(self) -> float | None:
        """Return Σe² of a matrix with AWQ's scaling of columns, found from the weights alone.

        Columns are scaled before quantizing and back after it, which the layer before does for nothing.
        Factors are w̄^(r − 1), as llm-compressor's `duo_scaling` has them where all inputs are alike: w̄ is the
        mean of |w| over the largest |w| of its block, r the best of a grid, at whose end nothing is scaled.
        None where no scaling has less, or not all is finite.
        """
        if len(self.x.shape) != 2 or self.study.facts.nonfinite:
            return None
        steps = max(min(_STEPS, _CELLS_FOLDED // self.x.count), _FEWEST_STEPS)
        relative = self._relative_magnitudes()
        noises = [self._scaled_noise(relative ** (step / steps - 1)) for step in range(steps)]
        return min(noises) if min(noises) < self.noise else None

    def _relative_magnitudes(self) -> torch.Tensor:
        # The mean of |w| over its block's largest, of each column.
        ends: Any = ranges(self.x, _ENDS.replace(granularity=self._own.granularity))
        largest = torch.maximum(-ends.lo, ends.hi).clamp(min=_LEAST_MAGNITUDE)
        values = self.x.read((slice(None), slice(None))).abs()
        layout = _ENDS.replace(granularity=self._own.granularity).layout(self.x.shape)
        means = (values / expand(largest, layout, self.x.shape)).mean(0)
        return means.clamp(min=_LEAST_MAGNITUDE)

    def _scaled_noise(self, factors: torch.Tensor) -> float:
        factors = factors / (factors.max() * factors.min()).sqrt()
        self.made += 1
        measured = measure(ScaledColumns(self.x, factors), self._own, metrics=("mse",), by_axis=True)
        of_columns = measured.axes[1].e2
        assert of_columns is not None
        return float((of_columns / factors.to(torch.float64).square()).sum())

    def apart_noise(self, numbers: Numbers, scheme: Scheme, *, each_its_own: bool) -> tuple[float, int]:
        """Return Σe² of some parts as a tensor of their own, and how many scales it takes.

        `scheme` is fitted to it. Channels lie along their axis as before unless each has its own scale; other
        parts are rows.
        """
        axis = self.axis
        windows = [read_window(self.x, self.layout, self.window(number)) for number in numbers]
        values = self.values(numbers) if axis is None or each_its_own else torch.cat(windows, axis)
        fitted = scheme.on_input(self.x.dtype).replace(nonfinite="ignore").fitted(tuple(values.shape))
        measured = measure(values, fitted, metrics=("mse",))
        return _number(measured.moments.e2), measured.layout.block_count

    def _facts(self, without: Stored, numbers: Numbers) -> Facts:
        # From the whole's facts where possible.
        if self._own.arithmetic.scale.depends_on_tensor:
            return facts(without)
        whole = self.study.facts
        count = len(self.places(numbers))
        place = place_of(int(self.places(numbers[:1])[0]), self.x.shape)
        nonfinite = NonFinite(whole.nonfinite + count, 0, 0, place, math.nan)
        return Facts(whole.lo, whole.hi, whole.largest, nonfinite, whole.negative)


def _noise_of(x: torch.Tensor, places: Array, fill: float, scheme: Scheme) -> float:
    # NaN is left out.
    values = x.clone()
    viewed(values, (-1,))[torch.from_numpy(places)] = fill
    return float(quantize(values, scheme).error.to(torch.float64).square().nansum())


def _number(values: torch.Tensor | None) -> float:
    assert values is not None
    return float(values)
