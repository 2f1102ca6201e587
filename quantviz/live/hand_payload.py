"""The ruler under the hand: data with which the browser quantizes a small tensor during a drag.

The browser runs the scheme's own arithmetic (`quantviz.compiled.javascript`): panels, ruler and numbers
follow in the same frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.export.files import scope_of
from quantviz.figures.ruler_detail import RulerDetail
from quantviz.figures.theme import THEMES
from quantviz.lab.moves import HandChoices, hand_choices, range_counts, zero_points
from quantviz.lab.state import LabState
from quantviz.live.hand_words import Looks, format_words, hand_words, ruler_settings, usual_bits
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources.edited import with_cell
from quantviz.text import templates, text

if TYPE_CHECKING:
    from quantviz.analysis.range_error import RangeCurve
    from quantviz.analysis.study import Study
    from quantviz.compiled.javascript import JavaScriptProgram
    from quantviz.quantization.explanation import Explanation
    from quantviz.quantization.operations import NamedTensors
    from quantviz.quantization.result import QuantResult

#: Elements that a browser quantizes within a frame: of any format, and of integers.
MOST_CELLS = 64 * 64
MOST_INTEGERS = 256 * 256
#: Shape and scheme of a larger tensor in the browser: its two ends and the selected cell, in one block.
_THREE = (1, 3)
_ONE_BLOCK = Scheme("int8")

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Mark:
    """A learner's prediction of where a drag leads, set with one tap."""

    #: On the `axis`, or on the slider `bits` or `group`.
    on: str
    #: The value, the bits or the group's size; None as long as it is not marked.
    at: float | None
    #: Whether the learner is to set it: then only sliders beside a mark on the axis can be moved.
    asked: bool


@dataclass(frozen=True)
class LessonRuler:
    """The options of the ruler in a lesson's step."""

    #: The handles that can be moved, of `quantviz.teaching.lessons.drags.HANDLES`.
    moves: tuple[str, ...]
    detail: RulerDetail
    panels: bool
    #: Factor of enlargement on a projector; None elsewhere.
    enlarge: float | None
    #: The learner's prediction, where the question has one.
    mark: Mark | None = None
    #: The places that knobs snap to, of `quantviz.teaching.lessons.drags.SNAPS`.
    snap: tuple[str, ...] = ()
    #: Whether the error curve opens after the first tap, and has its room before.
    curve_comes: bool = False

    def of(self, choices: HandChoices) -> HandChoices:
        none = HandChoices.none()
        return HandChoices(
            choices.formats if "bits" in self.moves else none.formats,
            choices.sizes if "group" in self.moves else none.sizes,
        )

    def handles(self, handles: Mapping[str, bool]) -> dict[str, bool]:
        """Return whether each handle can be moved in the step: none as long as a mark is to be set."""
        if self.mark and self.mark.asked:
            return dict.fromkeys(handles, False)
        names = {*self.moves, *(("zero",) if self.holds_codes else ())}
        return {name: there and name in names for name, there in handles.items()}

    @property
    def holds_codes(self) -> bool:
        """Return whether the values move with the zero point, so that all codes stay."""
        return "held_zero" in self.moves

    def on(self, payload: HandPayload) -> HandPayload:
        bell = self.detail.bell
        return replace(
            payload,
            standing=False,
            with_range=True,
            panels=self.panels,
            holds_codes=self.holds_codes,
            handles=self.handles(payload.handles),
            stage=self.detail.stage,
            room="tooth" in self.moves,
            reserved=1,
            rows=[asdict(row) for row in self.detail.rows],
            bell={"mean": bell[0], "deviation": bell[1]} if bell else None,
            mark=asdict(self.mark) if self.mark else None,
            snap=self.snap,
            curve_comes=self.curve_comes,
        )


@dataclass(frozen=True, kw_only=True)
class HandPayload:
    """Data of a ruler under a hand for the browser, to which each part of a page adds: see
    `quantviz/browser/hand/hand.js`.
    """

    # ---- the page: panels and tiles that follow, with their words
    chart: str
    stamp: int
    words: Mapping[str, Any]
    metrics: Mapping[str, Any]
    #: Looks and words of the ruler itself.
    settings: Mapping[str, Any]
    label: str = ""
    #: The number of the last choice in the page's controls that this knows of.
    taken: int = 0
    #: The count of the hand's last move that this knows of; none where no server hears of moves.
    released: int | None = None
    tab: str = ""
    panels: bool = True
    baseline: Mapping[str, str] = field(default_factory=dict)
    # ---- the tensor, flat, and its schemes
    shape: Shape
    selected: int
    seen: Shape = ()
    #: Whether the numbers are those of all that the browser has.
    whole: bool = False
    scheme: str = ""
    symmetric: bool
    #: The schemes with their programs, the present one, and the stops of the sliders among them.
    texts: Sequence[str]
    programs: Sequence[Mapping[str, Any]]
    variants: Sequence[Mapping[str, Any]]
    current: int = 0
    bits: Sequence[int] = ()
    groups: Sequence[int] = ()
    #: Names of the arrays of a search, and what they are.
    found: Mapping[str, Any] | None = None
    #: A range or a scale that was set by hand, where no scheme has it: on a page without a server.
    set: Mapping[str, Any] | None = None
    # ---- the ruler
    handles: Mapping[str, bool]
    with_range: bool = False
    holds_codes: bool = False
    #: Whether the comb has one place whatever stands on it.
    standing: bool = True
    stage: str = "all"
    room: bool = False
    #: Whether a hand makes an outlier of the value, past the ends of the axis.
    outlier: bool = False
    #: Rows of other grids, and how many more have their room before.
    reserved: int = 0
    rows: Sequence[Mapping[str, Any]] = ()
    bell: Mapping[str, float] | None = None
    mark: Mapping[str, Any] | None = None
    snap: Sequence[str] = ()
    #: Words of the cost to other cells.
    pays: Mapping[str, Any] | None = None
    curve: Mapping[str, Any] | None = None
    curve_comes: bool = False
    # ---- of a large tensor
    far: bool = False
    figures: Mapping[str, str] | None = None
    tried: Mapping[str, Any] | None = None
    # ---- of a page without a server
    alone: bool = False
    #: The variant whose range was searched for.
    searched: int = 0

    def header(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def packed(self, arrays: Arrays) -> bytes:
        return pack(self.header(), arrays)


@dataclass(frozen=True, eq=False)
class HandCurve:
    """The error curve as the ruler first shows it."""

    #: Key of its tensor and scheme, so that later results come to the same curve.
    key: str = ""
    #: Whether it is of the selected cell's block alone.
    block: bool = False
    #: Estimates by bits; the scheme's are drawn until there are exact points.
    estimates: Mapping[int, RangeCurve] = field(default_factory=dict)
    #: The upper end of the range of all values.
    whole: float = 0.0
    #: Whether it is against the lower end alone, while the upper one stays.
    lower: bool = False

    def payload(self, bits: int | None = None) -> tuple[dict[str, Any], Arrays]:
        """Return its data for the browser, with the points of `bits` if the browser cannot compute them."""
        others = list(self.estimates.items())
        header: dict[str, Any] = {
            "key": self.key,
            "block": self.block,
            "lower": self.lower,
            "ghosts": [{"bits": each, "whole": self.whole} for each, _ in others],
        }
        arrays: Arrays = {}
        for place, (_, curve) in enumerate(others):
            arrays |= {f"curve.ghosts.{place}.at": curve.at, f"curve.ghosts.{place}.error": curve.mse}
        if bits is not None:
            header["estimate"] = {"estimated": True}
            arrays |= {
                f"curve.estimate.{name}": part for name, part in curve_parts(self.estimates[bits]).items()
            }
        return header, arrays


def curve_parts(curve: RangeCurve) -> Arrays:
    return {"lo": curve.lo, "at": curve.at, "rounding": curve.rounding, "clipping": curve.clipping}


@dataclass(frozen=True, eq=False)
class HandRuler:
    """The ruler under a hand: a state's tensor, and the panels that follow the hand."""

    study: Study
    state: LabState
    #: The key of the panels' container.
    chart: str
    #: The checksum of the panels that show this state.
    stamp: int
    #: The ruler in a sentence, for people who cannot see it.
    label: str
    #: The error against the range, where it is drawn too.
    curve: HandCurve | None = None
    #: Whether nothing may be moved.
    locked: bool = False
    #: The baseline's numbers by the keys of the tiles.
    baseline: Mapping[str, float] | None = None
    #: The open tab of the Lab's stage, with whose sentence the ruler is shown.
    tab: str = ""
    #: The number of the last choice in the page's controls.
    taken: int = 0


def fits_hand(state: LabState) -> bool:
    """Return whether the browser quantizes the state's tensor by itself."""
    return is_light(state.scheme, state.source.shape) and has_program(state.scheme)


def is_light(scheme: Scheme, shape: Shape) -> bool:
    return math.prod(shape) <= (MOST_INTEGERS if scheme.number_format.kind == "integer" else MOST_CELLS)


def has_program(scheme: Scheme) -> bool:
    return program_of(scheme) is not None


def small_payload(
    ruler: HandRuler, looks: Looks, lesson: LessonRuler | None = None, pays: bool = False
) -> tuple[HandPayload, Arrays]:
    from quantviz.figures.panels_data import shown_places

    state = ruler.state
    result = ruler.study.result
    assert result is not None
    seen = shown_places(state.view, state.source.shape)
    # In the Lab the row of the scheme has bits and sizes.
    choices = lesson.of(hand_choices(state)) if lesson and not ruler.locked else HandChoices.none()
    arrays = {"x": result.x.flatten().numpy(), "places": seen.astype(np.int32).ravel()}
    curve = None
    if ruler.curve is not None and range_counts(state.scheme):
        curve, points = ruler.curve.payload()
        arrays |= points
    found = None
    if grids := _searched(result):
        found = {"id": "params" if result.range is None else "ranges", "names": list(grids)}
        arrays |= {f"found_{name}": grid.flatten().double().numpy() for name, grid in grids.items()}
    payload = HandPayload(
        **_of_page(ruler, replace(looks, larger=lesson.enlarge) if lesson else looks),
        **_variants(ruler, choices, looks.language),
        scheme=str(state.scheme),
        shape=state.source.shape,
        selected=int(np.ravel_multi_index(state.cell, state.source.shape)),
        seen=seen.shape,
        # The numbers of a slice are not those of the whole tensor, which the browser has.
        whole=scope_of(state) == "tensor",
        handles=_handles(state, ruler.locked),
        curve=curve,
        found=found,
    )
    if lesson:
        payload = lesson.on(payload)
    return _paying(payload, looks.language) if pays else payload, arrays


def _variants(ruler: HandRuler, choices: HandChoices, language: str) -> dict[str, Any]:
    present = ruler.state.scheme
    schemes = dict.fromkeys((present, *choices.formats.schemes, *choices.sizes.schemes))
    sizes = dict(zip(choices.sizes.schemes, choices.sizes.values, strict=True))
    variants, programs = describe_variants(
        schemes, ruler.state.source.shape, ruler.study.x.dtype, language=language
    )
    places = {each: i for i, each in enumerate(variants)}
    groups = [places[each] for each in choices.sizes.schemes if each in places]
    if groups and places[present] not in groups:
        groups.append(places[present])  # beyond the largest size are the blocks as they are
    return {
        **programs,
        "variants": [each | labels(scheme, sizes.get(scheme), language) for scheme, each in variants.items()],
        "current": places[present],
        "bits": [places[each] for each in reversed(choices.formats.schemes) if each in places],
        "groups": groups,
    }


def labels(scheme: Scheme, size: int | None, language: str) -> dict[str, Any]:
    group = text(f"granularities.{scheme.granularity.id}.short", language) if size is None else str(size)
    return {"bits_label": str(scheme.number_format.bits), "group_label": group, "size": size}


def _paying(payload: HandPayload, language: str) -> HandPayload:
    """Return the data of a ruler on which the value alone can be dragged, with its cost to other cells: the
    ends of the range lie where the largest value does.
    """
    return replace(
        payload,
        # Its ends are drawn where the other tabs have them, on the same axis.
        with_range=payload.handles["range"],
        outlier=True,
        handles={name: name == "value" and free for name, free in payload.handles.items()},
        pays={"hint": text("hand.pays_hint", language), "told": templates("hand", language)["pays"]},
    )


def _searched(result: QuantResult) -> NamedTensors:
    """Return the tensors of a search, which the browser does not do: ranges, or scales and zero points."""
    from quantviz.quantization.result import block_values

    calibration = result.scheme.calibration
    if calibration.of_values or isinstance(calibration, Given):
        return {}
    if result.range is None:
        return block_values(result.qparams)
    return {"lo": result.range.lo, "hi": result.range.hi}


def _found_in_block(study: Study, why: Explanation) -> Mapping[str, float]:
    """Return the range of the selected cell's block, or its scale and zero point where these are searched
    for: of a large tensor the browser does not have the values that they follow from.
    """
    from quantviz.quantization.result import block_values

    if isinstance(study.scheme.calibration, Given):
        return {}
    if why.range is not None:
        return dict(zip(("lo", "hi"), why.range, strict=True))
    return {name: float(grid[why.block]) for name, grid in block_values(study.qparams).items()}


def large_payload(ruler: HandRuler, why: Explanation, looks: Looks) -> tuple[HandPayload, Arrays]:
    """Return the data and the arrays of a large tensor: its ends and the selected cell, as one block, which
    is enough for the comb of a range.
    """
    from quantviz.figures.ruler_data import ruler_of_cell

    study = ruler.study
    scheme = study.scheme
    found = _found_in_block(study, why)
    variants, programs = describe_variants([scheme], _THREE, language=looks.language)
    arrays: Arrays = {
        "x": np.array([study.facts.lo, study.facts.hi, why.x], np.float32),
        "places": np.zeros(0, np.int32),
        **{f"found_{name}": np.array([value], np.float64) for name, value in found.items()},
    }
    curve = None
    if ruler.curve is not None:
        curve, points = ruler.curve.payload(scheme.number_format.bits)
        arrays |= points
    bars = ruler_of_cell(study, why).histogram
    if bars is not None:
        arrays |= {"bar_edges": bars.edges, "bar_counts": bars.counts}
    handles = _handles(ruler.state, True) | {"range": not ruler.locked and range_counts(scheme)}
    kind = "ranges" if "lo" in found else "params"
    payload = HandPayload(
        **_of_page(ruler, replace(looks, larger=None)),
        **programs,
        far=True,
        shape=_THREE,
        selected=2,
        variants=list(variants.values()),
        handles=handles,
        curve=curve,
        found={"id": kind, "names": list(found)} if found else None,
    )
    return payload, arrays


def _of_page(ruler: HandRuler, looks: Looks) -> dict[str, Any]:
    from quantviz.compiled.javascript import write_metrics

    words = templates("hand", looks.language)
    settings = {
        **ruler_settings(looks.theme, looks.language),
        "enlarge": looks.larger or 1.0,
        "wall": bool(looks.larger),
        "votes": looks.votes,
        "colours": THEMES[looks.theme].named("border", "font", "text", "muted", "surface"),
        "all_blocks": words["all_blocks"],
        # By the error key of the browser's arithmetic.
        "refusals": dict(templates("hand.refusals", looks.language)),
    }
    return {
        "chart": ruler.chart,
        "stamp": ruler.stamp,
        "taken": ruler.taken,
        "tab": ruler.tab,
        "label": ruler.label,
        "symmetric": ruler.state.scheme.mode == "symmetric",
        "words": hand_words(ruler.state, looks.language),
        "baseline": {name: number_text(value) for name, value in (ruler.baseline or {}).items()},
        "metrics": write_metrics().packed(),
        "settings": settings,
    }


def number_text(value: float) -> str:
    """Return a number as JavaScript reads it: JSON has no Inf and no NaN."""
    return str(value).replace("inf", "Infinity").replace("nan", "NaN")


def _handles(state: LabState, locked: bool) -> dict[str, bool]:
    free = not locked
    return {
        "range": free and range_counts(state.scheme),
        "zero": free and state.scheme.mode == "asymmetric",
        "tooth": free,
        "value": free and is_editable(state),
    }


def is_editable(state: LabState) -> bool:
    try:
        with_cell(state.source, state.cell, 0.0)
    except QuantVizError:
        return False
    return True


def describe_variants(
    schemes: Iterable[Scheme], shape: Shape, dtype: str | None = None, *, language: str
) -> tuple[dict[Scheme, dict[str, Any]], dict[str, Any]]:
    """Return the facts and words of the schemes whose arithmetic a browser has, and their programs."""
    from quantviz.compiled.javascript import packed_together

    on_input = {each: each.on_input(dtype) if dtype else each for each in schemes}
    programs = {each: program for each in on_input if (program := program_of(on_input[each]))}
    variants = {
        each: {
            "program": at,
            "format_words": format_words(on_input[each], language),
            **_variant_facts(on_input[each], shape),
        }
        for at, each in enumerate(programs)
    }
    return variants, packed_together(programs.values())


@lru_cache(maxsize=512)
def _variant_facts(scheme: Scheme, shape: Shape) -> Mapping[str, Any]:
    from quantviz.compiled.javascript import layout_spec
    from quantviz.evaluation.metric_formulas import bits_per_element
    from quantviz.figures.colour_ranges import range_of_codes
    from quantviz.figures.panels_data import decoded_values

    fmt = scheme.number_format
    bits = bits_per_element(scheme if shape != _THREE else _ONE_BLOCK, shape)
    half = fmt.float_bits if fmt.bits > 8 else None
    every = np.arange(fmt.levels if fmt.kind != "integer" and fmt.bits <= 8 else 0)
    decoded: list[float | None] | None = None
    if len(every):
        values = decoded_values(every.astype(np.uint8), scheme)
        # JSON has no NaN.
        if values is not None:
            decoded = [float(v) if math.isfinite(v) else None for v in values]
    return {
        "format": scheme.format,
        "kind": fmt.kind,
        "symmetric": scheme.mode == "symmetric",
        "range_counts": range_counts(scheme),
        "zero_domain": scheme.zero_domain,
        "zero_points": zero_points(scheme),
        # Of a large tensor three cells are known, in one block.
        "layout": layout_spec((_ONE_BLOCK if shape == _THREE else scheme).layout(shape), shape),
        "bits": bits,
        "bits_text": f"{bits:.4g}",
        "usual_bits": usual_bits(scheme, bits),
        "code_range": range_of_codes(every if len(every) else np.zeros(1), scheme),
        "decoded": decoded,
        # The bits of exponent and mantissa of codes without such a table.
        "half": (half.exponent, half.mantissa) if half else None,
    }


@lru_cache(maxsize=512)
def program_of(scheme: Scheme) -> JavaScriptProgram | None:
    """Return the scheme's arithmetic as JavaScript; None where it cannot be written."""
    from quantviz.compiled.javascript import write_program
    from quantviz.compiled.traced_values import Untraceable

    try:
        return write_program(scheme)
    except Untraceable:
        return None
