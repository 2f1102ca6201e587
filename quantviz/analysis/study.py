"""A tensor of any size under a scheme, with the numbers that a page shows of it.

The whole result of a small tensor is made once. For a large one nothing as large as the tensor is allocated:
ranges and metrics come from streaming passes, and only the part in view is quantized.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.tables import block_columns, scales_table
from quantviz.quantization.cells import part, quantize_cells, quantize_part
from quantviz.quantization.explanation import CellInput, Explanation, explain, explain_cell
from quantviz.quantization.grids import local_step
from quantviz.quantization.input_dtype import on_stored, rounded_to
from quantviz.quantization.qparams import stored_qparams
from quantviz.quantization.quantizer import quantize, quantize_in_ranges
from quantviz.quantization.result import QParams, QuantResult
from quantviz.schemes.calibration import Range
from quantviz.schemes.granularity import BlockLayout, PerGroup, PerTensor, Shape, Window
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import (
    measuring,
    overview,
    ranges,
    regions,
    surveying,
    tensor_facts,
    value_distribution,
)
from quantviz.tensors import blocks
from quantviz.tensors.lazy import InMemory, OwnScales, Stored
from quantviz.tensors.views import MOST_WHOLE, View

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from quantviz.streaming.frames import Patch
    from quantviz.streaming.measuring import Measured
    from quantviz.streaming.overview import Overview
    from quantviz.streaming.surveying import Survey
    from quantviz.streaming.tensor_facts import Facts
    from quantviz.streaming.value_distribution import MagnitudeSpread, ValueHistogram
    from quantviz.tensors.conversion import NonFinite

T = TypeVar("T")
#: Returns the kept result of a name, or makes it.
Keep = Callable[[str, Callable[[], Any]], Any]


@dataclass(frozen=True, eq=False)
class Study:
    """A tensor under a scheme."""

    #: As it is quantized; so are its facts.
    x: Stored
    scheme: Scheme
    facts: Facts
    #: Its non-finite values before that; None if there are none.
    nonfinite: NonFinite | None
    #: Each block's clipping range; none where scale and zero point were given.
    range: Range | None
    qparams: QParams
    #: Of a small tensor only.
    result: QuantResult | None
    notes: tuple[Note, ...]
    #: Keeps results of passes over the tensor, for this scheme and for others.
    keep: Keep
    #: The largest magnitude for scales over all blocks, where it is not the tensor's own.
    tensor_absmax: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        x: Stored,
        scheme: Scheme,
        *,
        facts: Facts | None = None,
        found: Range | QParams | None = None,
        tensor_absmax: torch.Tensor | None = None,
        keep: Keep | None = None,
    ) -> Study:
        """Return the study of a tensor under a scheme.

        `facts`, the blocks' ranges or scales `found`, and their `tensor_absmax` are given where they are
        computed already. `keep` stores results of passes, by names that differ between schemes.

        Raises:
            QuantVizError: As `quantize` does.
        """
        keep = keep or KeptHere()
        x, scheme, said, facts = _as_quantized(x, scheme, facts, keep)
        nonfinite = facts.found
        own = x.own_scales(scheme)
        if own is not None and nonfinite is None:
            return cls._of_own(x, scheme, facts, own, keep)
        if x.count <= MOST_WHOLE:
            if found is None:
                r = measuring.quantized(x, scheme, facts)
            else:
                r = quantize_in_ranges(regions.read_whole(x), scheme, found, tensor_absmax)
            notes = (*said, *r.notes)
            return cls(x, scheme, facts, nonfinite, r.range, r.qparams, r, notes, keep, tensor_absmax)
        notes = (*said, *measuring.nonfinite_notes(x, scheme, facts))
        absmax = facts.absmax if tensor_absmax is None else float(tensor_absmax)
        found = found or keep(_range_key(scheme), lambda: ranges.ranges(x, scheme, absmax=absmax))
        if not scheme.shifted and not scheme.number_format.signed and facts.negative:
            notes = (*notes, Note.of("negatives_clip", count=facts.negative))
        qparams = ranges.qparams(x, scheme, found, absmax=absmax)
        return cls(
            x,
            scheme,
            facts,
            nonfinite,
            found if isinstance(found, Range) else None,
            qparams,
            None,
            notes,
            keep,
            tensor_absmax,
        )

    @classmethod
    def _of_own(cls, x: Stored, scheme: Scheme, facts: Facts, own: OwnScales, keep: Keep) -> Study:
        # The codes are the file's too.
        given = QParams(own.scale, own.zero_point, zero_domain=scheme.zero_domain, stored=True)
        notes = (Note.of("own_scales"),)
        if x.count > MOST_WHOLE:
            params = stored_qparams(given, torch.tensor(facts.absmax), scheme, scheme.layout(x.shape))
            return cls(x, scheme, facts, None, None, params, None, notes, keep)
        r = dataclasses.replace(quantize(regions.read_whole(x), scheme, qparams=given), scheme=scheme)
        return cls(x, scheme, facts, None, None, r.qparams, r, (*r.notes, *notes), keep)

    @classmethod
    def of_result(cls, r: QuantResult) -> Study:
        x = InMemory(r.x, dtype=rounded_to(r.scheme) or "float32")
        facts = tensor_facts.facts(x)
        return cls(x, r.scheme, facts, facts.found, r.range, r.qparams, r, r.notes, KeptHere())

    @property
    def shape(self) -> Shape:
        return self.x.shape

    @property
    def of_file(self) -> bool:
        """Whether scales and codes are those of the tensor's file."""
        return self.x.own_scales(self.scheme) is not None

    @property
    def layout(self) -> BlockLayout:
        return self.scheme.layout(self.shape)

    @property
    def absmax(self) -> float:
        return self.facts.absmax

    @property
    def spread(self) -> MagnitudeSpread:
        return cast(
            "MagnitudeSpread",
            self.keep(f"spread {self.scheme.nonfinite}", lambda: value_distribution.spread(self.x)),
        )

    @property
    def measured(self) -> Measured:
        """Return the metrics of the whole tensor that one pass gives, and the sums along each axis."""
        return cast("Measured", self.keep(f"measured {self.scheme}", self._measured))

    def _measured(self, metrics: Iterable[str] | None = None) -> Measured:
        if self.result is not None:
            return measuring.measured(self.result, by_axis=True, metrics=metrics)
        return measuring.measure(
            self.x, self.scheme, qparams=self.qparams, by_axis=True, metrics=metrics, known=self.facts
        )

    @property
    def nbytes(self) -> int:
        # Besides the tensor.
        r = self.result
        held = [] if r is None else [r.q, r.x_hat, r.error, r.clipped]
        held += [] if self.range is None else [self.range.lo, self.range.hi, self.range.extreme]
        return sum(
            tensor.nbytes
            for tensor in (*held, self.qparams.scale, self.qparams.zero_point, *self.qparams.others.values())
        )

    @property
    def metrics(self) -> dict[str, float]:
        """Return all metrics by id; of a large tensor some take a pass of their own."""
        return dict(
            cast(
                "Measured", self.keep(f"measured all {self.scheme}", lambda: self._measured(METRICS))
            ).metrics
        )

    def measured_part(self, index: Window) -> Measured:
        """Return the measurement of a part, by axis; it is made whole, so `MOST_PART` is the limit."""
        return measuring.measured(self.part(index), by_axis=True)

    @property
    def survey(self) -> Survey:
        """Return histograms and the worst cells, from one more pass."""
        survey = self.keep(
            f"survey {self.scheme}",
            lambda: surveying.survey(self.x, self.scheme, self.qparams, known=self.facts),
        )
        return cast("Survey", survey)

    @property
    def value_histogram(self) -> ValueHistogram | None:
        """Return the histogram of the values, the same for every scheme; None if all are equal."""
        fine = self.fine_histogram
        if fine is None:
            return None
        return fine.joined(value_distribution.BARS)

    @property
    def fine_histogram(self) -> ValueHistogram | None:
        """Return the same in many more bars, to compute with."""
        histogram = self.keep(
            f"value histogram {self.scheme.nonfinite}",
            lambda: value_distribution.histogram_of(
                self.x, self.facts.lo, self.facts.hi, value_distribution.FINE_BARS
            ),
        )
        return cast("ValueHistogram | None", histogram)

    def part(self, index: Window) -> QuantResult:
        """Return the part at `index`, one number or slice an axis, under the whole tensor's scales."""
        if self.result is not None:
            return part(self.result, index)
        return quantize_part(self.x.read(index), self.scheme, self.qparams, self.shape, index)

    def overview(
        self,
        patch: Patch,
        pixels: tuple[int, int],
        how: str,
        view: View,
        loudness: tuple[npt.NDArray[np.float32], int] | None = None,
    ) -> Overview:
        """Return a patch's pixels as `streaming.overview` does. `loudness` never differs for a tensor."""
        seen = f"{patch} {pixels} {how} {dataclasses.replace(view, top=0, left=0, height=None, width=None)}"
        x = self.x
        scheme = self.scheme
        qparams = self.qparams
        known = self.keep(
            f"pooled {scheme.nonfinite} {seen}", lambda: overview.pooled(x, patch, pixels, how, view)
        )
        made = self.keep(
            f"overview {scheme} {seen}",
            lambda: overview.overview(x, scheme, qparams, patch, pixels, how, view, known=known),
        )
        if loudness is not None:
            made = self.keep(
                f"weighted overview {scheme} {seen}",
                lambda: overview.weighted(made, x, scheme, qparams, patch, view, loudness),
            )
        return cast("Overview", made)

    def explain(self, index: Shape) -> Explanation:
        if self.result is not None:
            return explain(self.result, index)
        layout = self.layout
        block = layout.block_of(index, self.shape)
        clip = self.range or self._min_max
        absmax = torch.tensor(self.absmax) if self.tensor_absmax is None else self.tensor_absmax
        ranged = {"lo": clip.lo, "hi": clip.hi, "extreme": clip.extreme} if self.range else {}
        size = layout.size_of(block)
        return explain_cell(
            self.scheme,
            self.qparams,
            CellInput(
                index=index,
                shape=self.shape,
                layout=layout,
                x=self.x.read(index),
                ranged={
                    **{name: grid[block] for name, grid in ranged.items()},
                    **(
                        {
                            "tensor_absmax": absmax,
                            "short": torch.tensor(float(size < layout.block_size)),
                        }
                        if ranged
                        else {}
                    ),
                },
                extreme=clip.extreme[block],
                tensor_absmax=absmax,
                of_other=self.tensor_absmax is not None,
                block_size=size,
                left_out=self._left_out(block) if self.scheme.leaves_out and self.facts.nonfinite else 0,
            ),
        )

    def worst_of_line(self, axis: int, i: int) -> Shape:
        """Return the place of the largest error among the cells at `i` of an axis."""
        return self._worst(
            tuple(slice(i, i + 1) if at_axis == axis else slice(0, n) for at_axis, n in enumerate(self.shape))
        )

    def worst_of_block(self, block: Shape) -> Shape:
        """Return the place of the largest error among a block's cells."""
        layout = self.layout
        if layout.block_count == 1:
            return self.measured.largest_error
        window = layout.window(block)
        if layout.view_shape == self.shape:
            return self._worst(window)
        places = blocks.flat_indices_of(layout.view_shape, window).flatten()
        if self.result is None:
            values = self.block_values(block).flatten()
            errors = quantize_cells(values, self.scheme, self.qparams, self.shape, places).error
        else:
            errors = self.result.error.flatten()[places]
        return regions.place_of(int(places[int(errors.abs().nan_to_num(-1).argmax())]), self.shape)

    def _worst(self, window: tuple[slice, ...]) -> Shape:
        errors = self.part(window).error.abs().nan_to_num(-1)
        inside = regions.place_of(int(errors.argmax()), tuple(errors.shape))
        return tuple(part.start + i for part, i in zip(window, inside, strict=True))

    def scales(self, most: int) -> dict[str, list[Any]]:
        """Return scale and zero point of the first `most` blocks, as columns; of small tensors two more."""
        return (
            block_columns(self.qparams, self.layout, self.range, most)
            if self.result is None
            else scales_table(self.result)
        )

    @property
    def _min_max(self) -> Range:
        # Scale and zero point were given.
        scheme = self.scheme.with_every_value()
        return cast("Range", self.keep(_range_key(scheme), lambda: ranges.ranges(self.x, scheme)))

    def _left_out(self, block: Shape) -> int:
        layout = self.layout
        if layout.block_count == 1:
            return self.facts.nonfinite
        return int((~torch.isfinite(self.block_values(block))).sum())

    def block_values(self, block: Shape) -> torch.Tensor:
        """Return the values of the block at `block` of the grid, as they lie in it."""
        layout = self.layout
        window = layout.window(block)
        if layout.view_shape == self.shape:
            return self.x.read(window)
        places = blocks.flat_indices_of(layout.view_shape, window).flatten()
        # One run of the tensor, but where the elements of a block lie apart.
        together = places.numel() > 0 and int(places[-1] - places[0]) == places.numel() - 1
        ends = [places[[0, -1]].tolist()] if together else [[place, place] for place in places.tolist()]
        return torch.cat([torch.tensor(self.x.run(first, last + 1)) for first, last in ends])

    def alone(self, block: Shape) -> Study:
        """Return the study of a block by itself: its values in a row, under one scale.

        Raises:
            QuantVizError: There is no such block.
        """
        grid = self.layout.grid_shape
        if len(block) != len(grid) or not all(0 <= at < n for at, n in zip(block, grid, strict=True)):
            raise QuantVizError("no_such_block", block=block, grid=grid)
        values = self.block_values(block).flatten()
        return Study.of(InMemory(values, dtype=self.x.dtype), _as_one_block(self.scheme, values.numel()))

    @property
    def largest_step(self) -> float | None:
        """Return the largest step of any cell; None where no block has one, as with scales of 0."""
        if self.result is not None:
            steps = self.result.step_of_cells()
        else:
            # Steps grow with the magnitude, so that a block's largest is where its largest value is.
            extreme = (self.range or self._min_max).extreme.to(torch.float32)
            steps = local_step(extreme, self.qparams.scale.to(torch.float32), self.scheme.number_format)
        usable = steps[(steps > 0) & steps.isfinite()]
        if usable.numel():
            return float(usable.max())
        return None


def _as_one_block(scheme: Scheme, count: int) -> Scheme:
    # One group where engines have groups only.
    try:
        return scheme.replace(granularity=PerTensor())
    except QuantVizError:
        return scheme.replace(granularity=PerGroup(count))


def search(x: Stored, scheme: Scheme, facts: Facts | None = None) -> Range | QParams | None:
    """Return the range, or scale and zero point, of each block that a scheme's calibration finds, for
    `Study.of`; None if scales are those of the tensor's file.

    Raises:
        QuantVizError: As `quantize` does.

    >>> from quantviz.tensors.lazy import InMemory
    >>> search(InMemory(torch.tensor([1.0, -3.0])), Scheme("int4")).lo.tolist()
    [-3.0]
    """
    x, scheme, _, facts = _as_quantized(x, scheme, facts, KeptHere())
    if facts.found is None and x.own_scales(scheme) is not None:
        return None
    if x.count <= MOST_WHOLE:
        return measuring.searched(x, scheme, facts)
    measuring.nonfinite_notes(x, scheme, facts)
    return ranges.ranges(x, scheme, absmax=facts.absmax)


def ask_study(
    x: Stored,
    ask: Callable[[Study], T],
    scheme: Scheme,
    *,
    facts: Facts | None = None,
    found: Range | QParams | None = None,
    block: Shape | None = None,
) -> T:
    """Return the result of `ask` on the study of a tensor, or of one of its blocks alone."""
    study = Study.of(x, scheme, facts=facts, found=found)
    return ask(study if block is None else study.alone(block))


def _as_quantized(
    x: Stored, scheme: Scheme, facts: Facts | None, keep: Keep
) -> tuple[Stored, Scheme, tuple[Note, ...], Facts]:
    original = x
    x, scheme, said = on_stored(original, scheme)
    for problem in scheme.problems(original.shape):
        raise problem
    if x is not original:
        facts = keep(f"facts {x.dtype}", lambda: tensor_facts.facts(x))
    return x, scheme, said, facts or tensor_facts.facts(x)


class KeptHere:
    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]


def _range_key(scheme: Scheme) -> str:
    # All that ranges depend on besides the tensor.
    if not scheme.calibration.of_values:
        return f"range {scheme}"
    parts = (
        scheme.mode,
        scheme.granularity,
        scheme.arithmetic.tail,
        scheme.calibration,
        scheme.range_dtype,
        scheme.nonfinite,
    )
    return f"range {' '.join(map(str, parts))}"
