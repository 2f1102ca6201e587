"""The ruler under the hand: the data with which the browser quantizes a small tensor during a drag.

The browser runs the scheme's own arithmetic (`quantviz.compiled.javascript`), so that panels, ruler and
numbers follow in the same frame. When the hand lets go, one message goes to the server: see
`quantviz.lab.moves`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.export.files import scope_of
from quantviz.figures.grid_rows import GridRow
from quantviz.figures.theme import THEMES
from quantviz.lab.moves import HandChoices, hand_choices, range_counts, zero_points
from quantviz.lab.state import LabState
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import Shape
from quantviz.schemes.level_count import level_count
from quantviz.schemes.scheme import Scheme
from quantviz.sources.edited import with_cell
from quantviz.ui.components.component import component, told
from quantviz.ui.components.hand_curve import HandCurve
from quantviz.ui.components.ruler import ruler_settings
from quantviz.ui.shell.classroom import enlarge_ruler
from quantviz.ui.shell.words import language, say, theme

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.compiled.javascript import Program
    from quantviz.quantization.explanation import Explanation
    from quantviz.quantization.operations import NamedTensors
    from quantviz.quantization.result import QuantResult

#: Elements that a browser quantizes within a frame: of any format, and of integers.
MOST_CELLS = 64 * 64
MOST_INTEGERS = 256 * 256
_COMPONENT = "quantviz_hand"
_SCRIPT = "hand_component"
#: Shape and scheme of a larger tensor in the browser: its two ends and the selected cell, in one block.
_THREE = (1, 3)
_ONE_BLOCK = Scheme("int8")
#: Reasons why a value is not valid, by the error key of the browser's arithmetic.
_REFUSALS = ("manual_range_order", "range_beyond_float32", "scale_not_positive", "zero_point_too_large")


@dataclass(frozen=True)
class Mark:
    """Mark of the place where a learner expects the answer to a drag, set with one tap."""

    #: On the `axis`, or on the slider `bits` or `group`.
    on: str
    #: The value, the bits or the group's size; None as long as it is not marked.
    at: float | None
    #: Whether the learner is to set it: then only sliders beside a mark on the axis can be moved besides it.
    asked: bool

    def told(self) -> dict[str, object]:
        """Return its message to the browser."""
        return {"on": self.on, "at": self.at, "asked": self.asked}


@dataclass(frozen=True)
class LessonRuler:
    """The options of the ruler in a lesson's step."""

    #: The handles that can be moved, of `quantviz.teaching.lessons.drags.HANDLES`.
    moves: tuple[str, ...]
    #: Other grids below the comb.
    rows: tuple[GridRow, ...]
    #: Mean and deviation of the normal density behind the dots; none where it is not shown.
    bell: tuple[float, float] | None
    #: Amount of detail, of `quantviz.lab.picture_parts.RULER_STAGES`.
    stage: str
    #: Whether the step shows panels.
    panels: bool
    #: Factor of enlargement on a projector; None elsewhere.
    enlarge: float | None
    #: The learner's prediction, where the question has one.
    mark: Mark | None = None
    #: The places that knobs snap to, of `quantviz.teaching.lessons.drags.SNAPS`.
    snap: tuple[str, ...] = ()

    def of(self, choices: HandChoices) -> HandChoices:
        """Return those of `choices` that the step's handles go through."""
        none = HandChoices.none()
        return HandChoices(
            choices.formats if "bits" in self.moves else none.formats,
            choices.sizes if "group" in self.moves else none.sizes,
        )

    def handles(self, handles: Mapping[str, bool]) -> dict[str, bool]:
        """Return the `handles` with whether the step has each: none as long as a mark is to be set."""
        if self.mark and self.mark.asked:
            return dict.fromkeys(handles, False)
        own = {*self.moves, *(("zero",) if self.holds_codes else ())}
        return {name: there and name in own for name, there in handles.items()}

    @property
    def holds_codes(self) -> bool:
        """Return whether the values go along with the zero point, so that all codes stay."""
        return "held_zero" in self.moves

    def told(self) -> dict[str, Any]:
        """Return its data for the browser."""
        mean, deviation = self.bell or (0.0, 0.0)
        return {
            "phone_bar": False,
            "with_range": True,
            "panels": self.panels,
            "holds_codes": self.holds_codes,
            "stage": self.stage,
            "room": "tooth" in self.moves,
            # For the grid from before.
            "reserved": 1,
            "rows": [asdict(row) for row in self.rows],
            "bell": {"mean": mean, "deviation": deviation} if self.bell else None,
            "mark": self.mark.told() if self.mark else None,
            "snap": self.snap,
        }


def fits_hand(state: LabState) -> bool:
    """Return whether the browser quantizes the state's tensor by itself."""
    most = MOST_INTEGERS if state.scheme.number_format.kind == "integer" else MOST_CELLS
    return math.prod(state.source.shape) <= most and has_program(state.scheme)


def has_program(scheme: Scheme) -> bool:
    """Return whether the browser has the scheme's arithmetic."""
    return _program(scheme) is not None


def show_hand(
    study: Study,
    state: LabState,
    *,
    key: str,
    chart: str,
    stamp: int,
    label: str,
    curve: HandCurve | None,
    locked: bool,
    on_release: Callable[[], None],
    lesson: LessonRuler | None = None,
    pays: bool = False,
) -> None:
    """Show the ruler of the selected cell's block, whose handles change the scheme or a value.

    Args:
        study: The state's tensor under its scheme, small enough: see `fits_hand`.
        state: The Lab's state.
        key: Names the component, for `released`.
        chart: The key of the panels' container, which follow the hand.
        stamp: The checksum of the panels that show this state.
        label: The ruler in a sentence, for people who cannot see it.
        curve: The error against the range, where it is drawn too.
        locked: Whether nothing may be moved.
        on_release: Called before the page runs when the hand has let go; `released(key)` returns the change.
        lesson: Settings of the ruler in a lesson's step.
        pays: Whether a line below the ruler shows the cost to the other cells during a drag of the value.
    """
    component(_COMPONENT, _SCRIPT)(
        key=key,
        data=pack(*_told_browser(study, state, chart, stamp, label, curve, locked, lesson, pays)),
        on_release_change=on_release,
    )


def show_far_hand(
    study: Study,
    state: LabState,
    why: Explanation,
    *,
    key: str,
    chart: str,
    stamp: int,
    label: str,
    curve: HandCurve | None,
    locked: bool,
    figures: Mapping[str, str],
    tried: Mapping[str, str] | None,
    on_release: Callable[[], None],
) -> None:
    """Show the ruler of a large tensor: its range can be dragged, and the server sums the error meanwhile.

    `why` explains the selected cell, `curve` is the error against the range, where it is shown, `figures` are
    the numbers above the panels by their keys, and `tried` those under the range that `asked(key)` returned;
    else as `show_hand`.
    """
    component(_COMPONENT, _SCRIPT)(
        key=key,
        data=pack(
            *_told_of_large(study, state, why, chart, stamp, label, curve, locked, figures, tried, asked(key))
        ),
        on_release_change=on_release,
    )


def asked(key: str) -> Mapping[str, Any] | None:
    """Return the range that a hand has come to on a large tensor in this run: `lo`, `hi` and a `number`."""
    message: Mapping[str, Any] | None = told(key, _SCRIPT, "try")
    return message


def released(key: str) -> Mapping[str, Any] | None:
    """Return the message of a hand that let go in this run: see `moves.moved`."""
    message: Mapping[str, Any] | None = told(key, _SCRIPT, "release")
    return message


def _told_browser(
    study: Study,
    state: LabState,
    chart: str,
    stamp: int,
    label: str,
    curve: HandCurve | None,
    locked: bool,
    lesson: LessonRuler | None,
    pays: bool,
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    from quantviz.compiled.javascript import packed_together
    from quantviz.figures.panels_data import shown_places

    result = study.result
    scheme = state.scheme
    shape = state.source.shape
    assert result is not None
    choices = HandChoices.none() if locked else hand_choices(state)
    if lesson:
        choices = lesson.of(choices)
    schemes = list(dict.fromkeys((scheme, *choices.formats.schemes, *choices.sizes.schemes)))
    # Each as it is for the dtype of the tensor.
    own = {each: each.on_input(study.x.dtype) for each in schemes}
    programs = {each: program for each in schemes if (program := _program(own[each]))}
    places = {each: i for i, each in enumerate(programs)}
    sizes = dict(zip(choices.sizes.schemes, choices.sizes.values, strict=True))
    header: dict[str, Any] = {
        **_common(state, chart, stamp, label),
        "shape": shape,
        "selected": int(np.ravel_multi_index(state.cell, shape)),
        # The numbers of a slice are not those of the whole tensor, which the browser has.
        "whole": scope_of(state) == "tensor",
        **packed_together(programs.values()),
        "variants": [_variant(own[each], shape, i, sizes.get(each)) for each, i in places.items()],
        "current": places[scheme],
        "bits": [places[each] for each in reversed(choices.formats.schemes) if each in places],
        "groups": _with_present(
            [places[each] for each in choices.sizes.schemes if each in places], places[scheme]
        ),
        "handles": lesson.handles(_handles(state, locked)) if lesson else _handles(state, locked),
        "curve": None,
        **(lesson.told() if lesson else {}),
    }
    if pays:
        # The value alone can be dragged: the ends of the range lie where the largest one does.
        header |= {"bits": [], "groups": [], "with_range": True, "room": True}
        header["handles"] = {name: name == "value" and free for name, free in header["handles"].items()}
        filled_in = ("before", "value", "zeroed_before", "zeroed", "times", "count")
        header["pays"] = {
            "hint": say("hand.pays_hint"),
            "told": say("hand.pays", **{name: f"{{{name}}}" for name in filled_in}),
        }
    larger = lesson.enlarge if lesson else enlarge_ruler()
    header["settings"] |= {"enlarge": larger or 1.0, "wall": bool(larger)}
    seen = shown_places(state.view, shape)
    header["seen"] = seen.shape
    arrays = {"x": result.x.flatten().numpy(), "places": seen.astype(np.int32).ravel()}
    if curve is not None and range_counts(scheme):
        header["curve"], points = curve.told()
        arrays |= points
    found = _found(result)
    if found:
        header["found"] = {"id": "params" if result.range is None else "ranges", "names": list(found)}
        arrays |= {f"found_{name}": grid.flatten().double().numpy() for name, grid in found.items()}
    return header, arrays


def _found(result: QuantResult) -> NamedTensors:
    """Return the tensors of a search, which the browser does not do: ranges, or scales and zero points."""
    from quantviz.quantization.result import block_values

    calibration = result.scheme.calibration
    if calibration.of_values or isinstance(calibration, Given):
        return {}
    if result.range is None:
        return block_values(result.qparams)
    return {"lo": result.range.lo, "hi": result.range.hi}


def _with_present(groups: list[int], present: int) -> list[int]:
    """Return the variants of the handle of a group's size: beyond the largest are the blocks as they are."""
    return groups if not groups or present in groups else [*groups, present]


def _told_of_large(
    study: Study,
    state: LabState,
    why: Explanation,
    chart: str,
    stamp: int,
    label: str,
    curve: HandCurve | None,
    locked: bool,
    figures: Mapping[str, str],
    tried: Mapping[str, str] | None,
    question: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    from quantviz.compiled.javascript import packed_together
    from quantviz.figures.ruler_data import ruler_of_cell

    # The ends of the tensor and the selected cell, as one block: enough for the comb that a range gives.
    scheme = study.scheme
    shape = _THREE
    lo, hi = why.range or (study.facts.lo, study.facts.hi)
    bars = ruler_of_cell(study, why).histogram
    program = _program(scheme)
    assert program is not None
    handles = {**_handles(state, True), "range": not locked and range_counts(scheme)}
    header: dict[str, Any] = {
        **_common(state, chart, stamp, label),
        "far": True,
        "whole": False,
        "shape": shape,
        "selected": 2,
        **packed_together([program]),
        "variants": [_variant(scheme, shape, 0, None)],
        "current": 0,
        "bits": [],
        "groups": [],
        "handles": handles,
        "curve": None,
        "figures": dict(figures),
        "tried": {"number": question["number"], "figures": dict(tried)} if question and tried else None,
    }
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "x": np.array([study.facts.lo, study.facts.hi, why.x], np.float32),
        "places": np.zeros(0, np.int32),
        "found_lo": np.array([lo], np.float64),
        "found_hi": np.array([hi], np.float64),
    }
    if curve is not None:
        header["curve"], points = curve.told(scheme.number_format.bits)
        arrays |= points
    if bars is not None:
        arrays |= {"bar_edges": bars.edges, "bar_counts": bars.counts}
    return header, arrays


def _common(state: LabState, chart: str, stamp: int, label: str) -> dict[str, Any]:
    """Return the data of a tensor of any size for the browser."""
    from quantviz.compiled.javascript import write_metrics

    own = THEMES[theme()]
    refusals = {
        name: say(f"hand.refusals.{name}", got="{got}", largest="{largest}") for name in (*_REFUSALS, "other")
    }
    return {
        "chart": chart,
        "stamp": stamp,
        "label": label,
        "symmetric": state.scheme.mode == "symmetric",
        "phone_bar": True,
        "panels": True,
        "with_range": False,
        "holds_codes": False,
        "stage": "all",
        "room": False,
        "reserved": 0,
        "rows": [],
        "bell": None,
        "mark": None,
        "snap": (),
        "pays": None,
        "metrics": write_metrics().packed(),
        "settings": {
            **ruler_settings(theme(), language()),
            "colours": {"border": own.border, "font": own.font, "text": own.text, "surface": own.surface},
            "all_blocks": say("hand.all_blocks", count="{count}"),
            "refusals": refusals,
        },
    }


def _handles(state: LabState, locked: bool) -> dict[str, bool]:
    free = not locked
    return {
        "range": free and range_counts(state.scheme),
        "zero": free and state.scheme.mode == "asymmetric",
        "tooth": free,
        "value": free and _editable(state),
    }


def can_drag_value(state: LabState) -> bool:
    """Return whether the hand can drag the selected value: the browser has all, and it can be edited."""
    return fits_hand(state) and _editable(state)


def _editable(state: LabState) -> bool:
    try:
        with_cell(state.source, state.cell, 0.0)
    except QuantVizError:
        return False
    return True


def _variant(scheme: Scheme, shape: Shape, program: int, size: int | None) -> dict[str, Any]:
    label = say(f"granularities.{scheme.granularity.id}.short") if size is None else str(size)
    fmt = scheme.number_format
    return {
        "program": program,
        "size": size,
        "group_label": label,
        "phone_bits": say("phone.bits", bits=fmt.bits),
        "phone_levels": say("phone.levels", levels=f"{level_count(scheme):,}"),
        **_variant_facts(scheme, shape),
    }


@lru_cache(maxsize=512)
def _variant_facts(scheme: Scheme, shape: Shape) -> Mapping[str, Any]:
    """Return the facts of a scheme for the browser beyond its program."""
    from quantviz.compiled.javascript import layout_spec
    from quantviz.evaluation.metric_formulas import bits_per_element
    from quantviz.figures.colour_ranges import range_of_codes
    from quantviz.figures.panels_data import decoded_values

    fmt = scheme.number_format
    bits = bits_per_element(scheme if shape != _THREE else _ONE_BLOCK, shape)
    every = np.arange(2**fmt.bits if fmt.kind != "integer" and fmt.bits <= 8 else 0)
    decoded: list[float | None] | None = None
    if len(every):
        values = decoded_values(every.astype(np.uint8), scheme)
        # JSON has no NaN.
        if values is not None:
            decoded = [float(v) if math.isfinite(v) else None for v in values]
    return {
        "format": scheme.format,
        "zero_domain": scheme.zero_domain,
        "zero_points": zero_points(scheme),
        # Of a large tensor three cells are known, in one block.
        "layout": layout_spec((_ONE_BLOCK if shape == _THREE else scheme).layout(shape), shape),
        "bits": bits,
        "bits_text": f"{bits:.4g}",
        "bits_label": str(fmt.bits),
        "code_range": range_of_codes(every if len(every) else np.zeros(1), scheme),
        "decoded": decoded,
    }


@lru_cache(maxsize=512)
def _program(scheme: Scheme) -> Program | None:
    from quantviz.compiled.javascript import write_program
    from quantviz.compiled.traced_values import Untraceable

    try:
        return write_program(scheme)
    except Untraceable:
        return None
