"""One file of HTML that works without a server: a tensor's panels, its ruler, its numbers and the words of a
cell, with the arithmetic of its schemes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.lab.moves import hand_choices, hand_choices_of
from quantviz.lab.state import LabState
from quantviz.live.cells import bridge_state, pack_cells
from quantviz.live.hand_payload import (
    MOST_CELLS,
    MOST_INTEGERS,
    HandCurve,
    HandPayload,
    HandRuler,
    LessonRuler,
    describe_variants,
    has_program,
    is_light,
    labels,
    small_payload,
)
from quantviz.live.hand_words import Looks
from quantviz.live.page_file import CHART, live_html, live_values, with_named_programs
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.schemes.text_form import split_outside_parentheses
from quantviz.sources.typed import Typed
from quantviz.tensors.views import View

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import PanelsData

#: Widths in pixels for which the panels are laid out: a page takes the widest that has room.
_WIDTHS = (288, 328, 358, 398, 540, 620, 740, 860, 1060, 1300)
#: The five numbers, in the order of the Lab.
_NUMBERS = ("mse", "sqnr", "zeroed", "clipped", "bits")


@dataclass(frozen=True, eq=False)
class LiveStep:
    """The parts of a page for a lesson's step."""

    ruler: LessonRuler
    #: The error against the range, where the step shows it.
    curve: HandCurve | None
    #: Whether the ruler may be told in a sentence, which names the selected cell's code.
    labelled: bool
    #: Keeps only the step's panels.
    panels: Callable[[PanelsData], PanelsData]
    #: The parts of the picture that it shows, of `LessonStep.show`.
    shown: Collection[str]
    #: HTML of the step's words and its questions.
    said: tuple[Markup, ...]


@dataclass(frozen=True, eq=False)
class LivePage:
    study: Study
    title: str
    #: The selected cell.
    cell: Shape
    looks: Looks
    #: Whether the page has the panels, of which plotly is nine tenths.
    panels: bool = True
    #: Whether the page tells the window around it its height and what was chosen.
    told: bool = False
    #: The lesson's step that it shows; None outside of lessons.
    step: LiveStep | None = None
    #: Whether its theme is that of the reader's system.
    follows: bool = True
    #: Whether it stands in a page that has the scripts.
    framed: bool = False

    @classmethod
    def of(cls, study: Study, title: str, looks: Looks) -> LivePage:
        """Return the page of a study, which explains the cell of the largest error."""
        errors = study.result.error.nan_to_num().abs() if study.result is not None else None
        at = 0 if errors is None else int(errors.argmax())
        cell: list[int] = []
        for length in reversed(study.shape):
            cell.insert(0, at % length)
            at //= length
        return cls(study, title, tuple(cell), looks)

    def in_frame(self, theme: str) -> LivePage:
        """Return the page in the colours of a theme, for a window around it that it tells what was chosen."""
        return replace(self, looks=replace(self.looks, theme=theme), told=True, follows=False)

    @property
    def problem(self) -> QuantVizError | None:
        """Return the error where a browser cannot quantize the tensor by itself; None where it can."""
        study = self.study
        shape = study.shape
        if study.of_file or (study.result is not None and study.result.own_codes):
            return QuantVizError("live.own_codes")
        small = study.result is not None and 1 <= len(shape) <= 4
        if small and is_light(study.scheme, shape) and has_program(study.scheme):
            return None
        most = MOST_INTEGERS if study.scheme.number_format.kind == "integer" else MOST_CELLS
        return QuantVizError("live.not_by_itself", shape=shape, scheme=str(study.scheme), most=most)

    def html(self) -> str:
        """Return the page.

        Raises:
            QuantVizError: The browser cannot quantize the tensor under the scheme by itself.
        """
        step = self.step
        return live_html(
            self._parts,
            self.looks,
            kind="tensor",
            hint="live.hint_of_step" if step else "live.hint",
            follows=self.follows,
            title=self.title,
            chart=CHART,
            panels=self.panels,
            framed=self.framed,
            numbers=[key for key in _NUMBERS if not step or f"tiles.{key}" in step.shown],
            step=step,
            said=step.said if step else (),
            place=",".join(map(str, self.cell)),
            notes=[note.message(self.looks.language) for note in self.study.notes],
        )

    def _parts(self, theme: str) -> tuple[dict[str, bytes], list[str]]:
        """Return the page's data in the colours of a theme, and the texts of its programs."""
        from quantviz.figures.panels_data import study_panels

        state = self._state()
        step = self.step
        looks = replace(self.looks, theme=theme)
        data = replace(study_panels(self.study), error_held=True)
        data = step.panels(data) if step else data
        lesson = step.ruler if step else None
        curve = step.curve if step else HandCurve()
        ruler = HandRuler(self.study, state, CHART, data.stamp, self._label(), curve)
        payload, arrays = small_payload(ruler, looks, lesson)
        payload = _alone(payload, _schemes_in_reach(state, lesson), ruler, looks.language)
        header, texts = with_named_programs(payload.header())
        page = {"told": self.told, "chart": CHART, **self._chart(data, state, theme)}
        # Of a dark page there is the header alone: the values are no part of it.
        traces = page["figure"]["data"] if self.panels else []
        drawn = {f"figure.data.{at}.z": _values_of(each) for at, each in enumerate(traces) if "z" in each}
        parts = {"page": pack(page, drawn), "hand": pack(header, arrays)}
        if self.panels:
            parts["cells"] = pack_cells(data, CHART, theme)
        return parts, texts

    def _state(self) -> LabState:
        """Return the Lab's state of the tensor, whatever its source: all of it in view."""
        if self.problem:
            raise self.problem
        shape = self.study.shape
        assert self.study.result is not None
        source = Typed(tuple(self.study.result.x.flatten().tolist()), shape)
        return LabState(source, self.study.scheme, View.of(shape), self.cell)

    def _label(self) -> str:
        from quantviz.figures.ruler_data import ruler_of_cell, ruler_sentence

        why = self.study.explain(self.cell)
        if why.cause == "left_out" or (self.step and not self.step.labelled):
            return ""
        picture = ruler_of_cell(self.study, why)
        if self.step:
            picture = replace(picture, stage=self.step.ruler.detail.stage)
        return ruler_sentence(why, picture, self.study.qparams, self.looks.language)

    def _chart(self, data: PanelsData, state: LabState, theme: str) -> Mapping[str, Any]:
        from quantviz.figures.arrangement import PanelsStyle
        from quantviz.figures.panels import panels_figure

        if not self.panels:
            return {}
        styles = [PanelsStyle(self.looks.language, theme, width) for width in _WIDTHS]
        figures = [json.loads(panels_figure(data, style).to_json()) for style in styles]  # type: ignore[no-untyped-call]
        return {
            "figure": {
                "data": figures[0]["data"],
                "layouts": {style.width: each["layout"] for style, each in zip(styles, figures, strict=True)},
                # A double click shows the whole matrix; plotly's own buttons would cover the titles.
                "config": {"displayModeBar": False, "doubleClick": False, "showTips": False},
            },
            "state": bridge_state(CHART, data, styles[0], selected=state.view.place(self.cell)),
        }


@dataclass(frozen=True, eq=False)
class LivePages:
    """One tensor under several schemes, or several tensors, side by side in one page."""

    pages: tuple[LivePage, ...]
    title: str = ""
    #: Whether its theme is that of the reader's system.
    follows: bool = True

    @property
    def problem(self) -> QuantVizError | None:
        return next((each.problem for each in self.pages if each.problem), None)

    def html(self) -> str:
        """Return the page.

        Raises:
            QuantVizError: The browser cannot quantize the tensor under one of the schemes by itself.
        """
        return live_html(
            self._parts,
            self.pages[0].looks,
            kind="frames",
            follows=self.follows,
            hint="live.hint_of_frames",
            title=self.title,
            chart=CHART,
        )

    def values(self) -> dict[str, Any]:
        """Return the values of the template `live_scripts.html`, for a page that shows several tensors."""
        return live_values(self._parts, self.pages[0].looks, kind="apart")

    def _parts(self, theme: str) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Return each page as a part; one that follows has the colours of both themes, so that the dark part
        is empty.
        """
        pages = () if self.follows and theme == "dark" else self.pages
        page = partial(replace, told=True, framed=True, follows=self.follows)
        framed = [page(each).html().encode() for each in pages]
        return {f"frame{at}": page for at, page in enumerate(framed)}, ()


def _values_of(trace: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Take the values out of a heatmap's JSON, which keeps their shape."""
    z = trace.pop("z")
    if not isinstance(z, dict):
        z = np.array(z, np.float32)
        trace["shape"] = z.shape
        return z
    trace["shape"] = [int(length) for length in z["shape"].split(", ")]
    return np.frombuffer(base64.b64decode(z["bdata"]), np.dtype(z["dtype"]))


def _alone(
    payload: HandPayload, rows: Sequence[tuple[Scheme, ...]], ruler: HandRuler, language: str
) -> HandPayload:
    """Return the ruler's data with all schemes that its handles lead to; `rows` are those with the same
    groups.
    """
    state, study = ruler.state, ruler.study
    every = dict.fromkeys((state.scheme, *(each for row in rows for each in row)))
    known, programs = describe_variants(every, study.shape, study.x.dtype, language=language)
    places = {each: i for i, each in enumerate(known)}
    variants = []
    for scheme, facts in known.items():
        row = next((row for row in rows if scheme in row), ())
        column = [each for row in rows for each in row if each.format == scheme.format]
        size = getattr(scheme.granularity, "size", None)
        variants.append(
            {
                **facts,
                **labels(scheme, size, language),
                "scheme": str(scheme),
                "around": around_calibration(scheme),
                "bits": [places[each] for each in reversed(row) if each in places],
                "groups": [places[each] for each in column if each in places],
            }
        )
    now = places[state.scheme]
    searches = payload.found is not None
    return replace(
        payload,
        **programs,
        variants=variants,
        current=now,
        searched=now,
        bits=variants[now]["bits"],
        groups=variants[now]["groups"],
        alone=True,
        standing=False,
        with_range=True,
        # A search would go on from another value.
        handles={**payload.handles, "value": payload.handles["value"] and not searches},
    )


def _schemes_in_reach(state: LabState, lesson: LessonRuler | None) -> list[tuple[Scheme, ...]]:
    """Return the schemes that the sliders of bits and of a group's size lead to, a row for each size; of a
    lesson's step those of its handles. Where the range is searched there are none: the browser does not
    search.
    """
    scheme = state.scheme
    calibration = scheme.calibration
    if not calibration.of_values and not isinstance(calibration, Given):
        return []
    moves = lesson.moves if lesson else ("bits", "group")
    sizes = hand_choices(state).sizes.schemes if "group" in moves else ()
    rows = [*sizes, *([scheme] if scheme not in sizes else [])]
    if "bits" not in moves:
        return [(each,) for each in rows]
    return [hand_choices_of(each, state.source.shape).formats.schemes or (each,) for each in rows]


def around_calibration(scheme: Scheme) -> list[str]:
    parts = split_outside_parentheses(str(scheme))
    return [",".join((*parts[:3], "")), ",".join(("", *parts[4:]))]
