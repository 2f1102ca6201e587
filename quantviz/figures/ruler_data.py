"""The data of a ruler: a block's values, where they land, and the comb of codes they land on.

`quantviz/browser/ruler` draws it. A cell's block comes from a study, small or large; a block with more values
than can be seen apart is a histogram.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quantviz.figures.colour_ranges import Array
from quantviz.figures.numbers import digits_for, number, short_number
from quantviz.figures.ruler_detail import GridRow
from quantviz.quantization.code_to_value import value_operations
from quantviz.quantization.explanation import Explanation
from quantviz.quantization.grids import GRIDS
from quantviz.quantization.operations import run_operations
from quantviz.quantization.result import block_values
from quantviz.schemes.formats import MOST_KEPT, NumberFormat
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.value_distribution import ValueHistogram, histogram_of
from quantviz.tensors import blocks
from quantviz.tensors.lazy import InMemory
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.analysis.range_error import RangeCurve
    from quantviz.analysis.study import Study
    from quantviz.quantization.result import QParams, QuantResult

#: Each is a dot; the script draws no more.
MOST_DOTS = 2000
#: Formats with a comb of codes.
MOST_BITS = 8
#: Of the axis, beyond its outermost marks.
_ROOM = 0.04
#: All are in view; as in `ruler/places.js`.
FEW_TEETH = 16
#: Codes are shown so far beyond the values, as a part of their extent.
_BEYOND = 0.35
#: Cells of a large tensor's block that are read for its histogram.
_MOST_READ = 2**20


@dataclass(frozen=True)
class Single:
    """The numbers by which the browser lands a ruler's only value while it moves."""

    #: The ends at which x is held, half a gap after the outer values.
    held: tuple[float, float]
    #: Whether the axis is a stretch of the format, which stays while x is well inside.
    part: bool
    #: Of each level's code.
    bits: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RulerPicture:
    """A block's values over the comb of its codes. Values are in the units of x."""

    #: The ends of the axis.
    domain: tuple[float, float]
    #: float32; of a block of more than `MOST_DOTS` values the selected one alone.
    values: Array
    #: Where each of `values` lands, float32, and whether it was clipped, uint8.
    landed: Array
    clipped: Array
    #: The selected cell's place in `values`, or -1.
    selected: int
    #: Of the whole block.
    histogram: ValueHistogram | None
    #: Of each code, ascending, float64; empty beyond 8 bits.
    levels: Array
    #: Names of `levels`.
    codes: tuple[str, ...]
    #: The place in `levels` of 0, or -1.
    zero: int
    #: None where scale and zero point were given.
    range: tuple[float, float] | None
    #: Both ends move together.
    symmetric: bool
    #: Against the range's upper end, below the comb.
    curve: RangeCurve | None = None
    #: Of a ruler of one value, which is lower and shows the error as a number too.
    single: Single | None = None
    rows: tuple[GridRow, ...] = ()
    #: Mean and deviation of a normal density behind the dots.
    bell: tuple[float, float] | None = None
    #: One of `quantviz.lab.picture_parts.RULER_STAGES`.
    stage: str = "all"

    def alone(self) -> RulerPicture:
        # For pages that hide the others' codes.
        alone = slice(self.selected, self.selected + 1) if self.selected >= 0 else slice(0)
        return replace(
            self,
            values=self.values[alone],
            landed=self.landed[alone],
            clipped=self.clipped[alone],
            selected=min(self.selected, 0),
            histogram=None,
        )

    def for_script(
        self,
        settings: Mapping[str, Any],
        label: str,
        *,
        movable: bool = False,
        words: Mapping[str, str] | None = None,
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the picture for JSON, and the arrays by their paths in it.

        `settings` are every ruler's colours and words, `words` this picture's own. `label` describes it for
        people who cannot see it. `movable` lets the user drag the selected value.
        """
        arrays = {
            "values": self.values,
            "landed": self.landed,
            "clipped": self.clipped,
            "levels": self.levels,
        }
        if self.histogram is not None:
            arrays |= {"histogram.edges": self.histogram.edges, "histogram.counts": self.histogram.counts}
        if self.curve is not None:
            parts = {"at": self.curve.at, "rounding": self.curve.rounding, "clipping": self.curve.clipping}
            arrays |= {f"curve.{name}": part for name, part in parts.items()}
        picture = {
            "domain": self.domain,
            "selected": self.selected,
            "histogram": None if self.histogram is None else {},
            "codes": self.codes,
            "zero": self.zero,
            "range": None if self.range is None else dict(zip(("lo", "hi"), self.range, strict=True)),
            "symmetric": self.symmetric,
            "handles": {"range": False, "value": movable},
            "curve": None if self.curve is None else {"now": None},
            "words": {"label": label, **(words or {})},
            "rows": [asdict(row) for row in self.rows],
            "bell": None if self.bell is None else dict(zip(("mean", "deviation"), self.bell, strict=True)),
            "single": None if self.single is None else asdict(self.single),
            "stage": self.stage,
        }
        header = {"settings": settings, "picture": picture}
        return header, {f"picture.{way}": array for way, array in arrays.items()}


def bare_axis(lo: float, hi: float) -> RulerPicture:
    # Of round numbers, without values and codes.
    room = _ROOM * (hi - lo) or abs(hi) / 2 or 0.5
    none = np.zeros(0, np.float32)
    ends = float(lo - room), float(hi + room)
    clipped = np.zeros(0, np.uint8)
    return RulerPicture(ends, none, none, clipped, -1, None, none, (), -1, None, False, stage="codes")


def ruler_of_cell(study: Study, explanation: Explanation) -> RulerPicture:
    """Return the ruler of the explained cell's block.

    >>> from quantviz import Scheme, quantize
    >>> from quantviz.analysis.study import Study
    >>> study = Study.of_result(quantize([[1.0, 0.1], [-2.0, 0.7]], Scheme("int2")))
    >>> picture = ruler_of_cell(study, study.explain((1, 1)))
    >>> picture.levels.tolist(), picture.codes, picture.zero
    ([-4.0, -2.0, 0.0, 2.0], ('−2', '−1', '0', '1'), 2)
    >>> picture.values.tolist() == [1.0, 0.10000000149011612, -2.0, 0.699999988079071], picture.selected
    (True, 3)
    """
    if study.result is not None:
        return ruler_of_result(study.result, explanation)
    picture = _picture(explanation, study.qparams)
    if study.layout.block_count == 1:
        ends = study.facts.lo, study.facts.hi
        return replace(picture, domain=_domain(picture, ends), histogram=study.value_histogram)
    if study.layout.size_of(explanation.block) > _MOST_READ:
        return picture
    return _with_values(picture, study.block_values(explanation.block))


def _with_values(picture: RulerPicture, values: torch.Tensor) -> RulerPicture:
    ends = _ends(values)
    return replace(
        picture, domain=_domain(picture, ends), histogram=histogram_of(InMemory(values.contiguous()), *ends)
    )


def ruler_of_result(r: QuantResult, explanation: Explanation) -> RulerPicture:
    picture = _picture(explanation, r.qparams)
    block = explanation.block
    layout = r.layout

    def of_block(values: torch.Tensor) -> torch.Tensor:
        return blocks.block_values(values, layout, block)

    x = of_block(r.x)
    picture = _with_values(picture, x)
    if len(x) > MOST_DOTS:
        return picture
    finite = torch.isfinite(x)
    places = of_block(torch.arange(r.x.numel()).reshape(r.shape))[finite]
    flat = int(np.ravel_multi_index(explanation.index, r.shape)) if r.shape else 0
    at = (places == flat).nonzero()
    return replace(
        picture,
        values=x[finite].numpy(),
        landed=of_block(r.x_hat)[finite].numpy(),
        clipped=of_block(r.clipped)[finite].numpy().astype(np.uint8),
        selected=int(at[0]) if len(at) else -1,
    )


def _picture(why: Explanation, qparams: QParams) -> RulerPicture:
    levels, codes = _levels(why.scheme, qparams, why.block)
    exact = np.flatnonzero(levels == 0)
    alone = why.cause != "left_out" and math.isfinite(why.x) and math.isfinite(why.x_hat)
    picture = RulerPicture(
        domain=(0.0, 1.0),
        values=np.array([why.x] if alone else [], dtype=np.float32),
        landed=np.array([why.x_hat] if alone else [], dtype=np.float32),
        clipped=np.array([why.cause == "clipped"] if alone else [], dtype=np.uint8),
        selected=0 if alone else -1,
        histogram=None,
        levels=levels,
        codes=codes,
        zero=int(exact[0]) if len(exact) else -1,
        range=_range(why),
        symmetric=why.scheme.mode == "symmetric",
    )
    ends = (why.x, why.x) if alone else (0.0, 0.0)
    return replace(picture, domain=_domain(picture, ends))


def _range(why: Explanation) -> tuple[float, float] | None:
    # Symmetric, the range around 0 that the scale is made of.
    if why.range is None or why.scheme.mode != "symmetric":
        return why.range
    end = max(map(abs, why.range))
    return -end, end


def _levels(scheme: Scheme, qparams: QParams, block: Shape) -> tuple[Array, tuple[str, ...]]:
    """Return a block's values of codes, ascending, and the codes' names.

    The operations that dequantize give them, so that x lands on x̂ bit for bit.
    """
    fmt = scheme.number_format
    if fmt.bits > MOST_BITS:
        return np.zeros(0), ()
    codes = _codes(scheme)
    values = _values(scheme, qparams, block, codes)
    # A scale near float32's end takes the outer codes beyond it, and one of 0 all codes to one place.
    _, first = np.unique(values, return_index=True)
    kept = first[np.isfinite(values[first])]
    unscaled = [fmt.value(codes[i]) for i in kept]
    return values[kept], tuple(short_number(value, 4) for value in unscaled)


def _values(scheme: Scheme, qparams: QParams, block: Shape, codes: Sequence[int]) -> Array:
    params_by_name = {name: values[block] for name, values in block_values(qparams).items()}
    grid = GRIDS[scheme.number_format.kind].decode(torch.tensor(codes), scheme.number_format)
    values_of_codes = run_operations(value_operations(scheme), {**params_by_name, "q": grid})["x_hat"]
    return values_of_codes.to(torch.float64).expand(len(codes)).numpy()


def _codes(scheme: Scheme) -> Sequence[int]:
    # Of two codes with the same number the later.
    fmt = scheme.number_format
    return range(scheme.code_min, scheme.code_max + 1) if fmt.kind == "integer" else _finite_codes(fmt)


@functools.lru_cache(maxsize=MOST_KEPT)
def _finite_codes(fmt: NumberFormat) -> tuple[int, ...]:
    return tuple(dict(fmt.finite).values())


def _ends(values: torch.Tensor) -> tuple[float, float]:
    # Of finite values; 0 without any.
    if not len(values):
        return 0.0, 0.0
    lo, hi = (float(end) for end in values.aminmax())
    if math.isfinite(lo) and math.isfinite(hi):
        return lo, hi
    return _ends(values[torch.isfinite(values)])


def _domain(picture: RulerPicture, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the axis: all values, where they land, the range, and codes not far outside."""
    shown = [*ends, *picture.landed.astype(np.float64), *(picture.range or ())]
    lo = min(shown)
    hi = max(shown)
    levels = picture.levels
    if 0 < len(levels) <= FEW_TEETH:
        lo = min(lo, levels[0])
        hi = max(hi, levels[-1])
    elif len(levels):
        reach = _BEYOND * (hi - lo)
        near = levels[(levels >= lo - reach) & (levels <= hi + reach)]
        # At least one code on each side, so that a step is seen.
        below = levels[levels < lo]
        above = levels[levels > hi]
        sides = [*below[-1:], *above[:1]] if len(near) < 2 else []
        lo = min(lo, *near, *sides)
        hi = max(hi, *near, *sides)
    room = _ROOM * (hi - lo) or abs(hi) / 2 or 0.5
    return float(lo - room), float(hi + room)


def ruler_sentence(
    why: Explanation, picture: RulerPicture, qparams: QParams, language: str = DEFAULT_LANGUAGE
) -> str:
    """Return a cell's ruler in words for people who cannot see it; not for a left-out cell."""
    if picture.stage != "all":
        return _early_sentence(why, picture, language)
    scheme = why.scheme
    fmt = why.scheme.number_format
    integers = fmt.kind == "integer"
    codes = _codes(scheme)
    if why.cause == "clipped":
        key = "clipped"
    elif why.error == 0:
        key = "exact"
    else:
        key = "landed" if _is_nearest(why, picture) else "elsewhere"
    first, last = sorted(_ends_of_codes(why, qparams, (codes[0], codes[-1])), key=lambda end: end[1])
    bits = " ".join(filter(None, why.bits))
    return text(
        f"ruler.sentence.{key}",
        language,
        x=number(why.x, digits_for(why.x, why.local_step)),
        x_hat=number(why.x_hat, digits_for(why.x_hat, why.local_step)),
        code=number(why.q, 8)
        if integers
        else text("ruler.code_of", language, bits=bits, value=number(why.value, 6)),
        error=number(why.error, signed=True),
        count=len(codes) if integers else len(fmt.finite),
        first=number(first[0], 8),
        last=number(last[0], 8),
        low=number(first[1]),
        high=number(last[1]),
    )


def _early_sentence(why: Explanation, picture: RulerPicture, language: str) -> str:
    # Parts that are not drawn yet have no words.
    key = "codes" if picture.stage in ("codes", "values") else "dots"
    low, high = (number(float(end)) for end in (picture.values.min(), picture.values.max()))
    names = {"x": number(why.x, digits_for(why.x, why.local_step)), "low": low, "high": high}
    if key == "codes":
        names["code"] = number(why.q, 8)
    return text(f"ruler.sentence.{key}", language, **names)


def _ends_of_codes(
    why: Explanation, qparams: QParams, codes: tuple[int, int]
) -> Iterator[tuple[float, float]]:
    # Before any scale, and in the units of x.
    values = _values(why.scheme, qparams, why.block, codes).tolist()
    for code, value in zip(codes, values, strict=True):
        unscaled = why.scheme.number_format.value(code)
        # A scale near float32's end takes the outer codes beyond it: Python's arithmetic is wider.
        beyond = why.x_hat + why.scale * (unscaled - why.value)
        yield unscaled, value if math.isfinite(value) else beyond


def _is_nearest(why: Explanation, picture: RulerPicture) -> bool:
    """Return whether no code is nearer to x; of many bits, whether x was rounded to the nearest."""
    if not len(picture.levels):
        return why.rounding.to_the_nearest
    away = np.abs(picture.levels - why.x)
    return bool((away >= abs(why.error) * (1 - 1e-5)).all())
