"""The Lab's state and its link, which the address bar must reopen on any machine, in any language.

The link carries permanent ids and numbers only, never words of a language, and is read as data: parts that
cannot be read or opened are named and left out, the rest is kept.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quantviz.errors import Note, QuantVizError
from quantviz.lab.layer_sources import parse_weight
from quantviz.lab.page_state import Codec, PageState, Reading, codec, field, one_of
from quantviz.lab.scenarios import FIRST, SCENARIOS
from quantviz.schemes import text_form
from quantviz.schemes.arithmetic_changes import TensorTraits, changes_since
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source, write_source
from quantviz.tensors.views import ERROR_RANGES, ERROR_VIEWS, MOST_WHOLE, POOLS, SCOPES, VALUE_SCALES, View

#: Conventions that the present one is compared with: every other one, or one by its id.
ALL = "all"
COMPARED = (ALL, *CONVENTIONS)
#: The versions of links, each with the number of the arithmetic that it was made with; the last is today's.
VERSIONS = {"1": 1, "2": 2}
VERSION = "2"
#: Most schemes that are compared, the present one among them, and the character between two of them in a
#: link: no scheme's text has it.
MOST_COMPARED = 8
_BETWEEN = "~"
#: Cells a side that links of before had in view at most, where they named a corner.
_WINDOW_OF_OLD_LINKS = 512
#: How the colours of x are spread by old links, which do not contain it; so a link without this part means
#: this, unless it contains nothing of the state at all.
_SCALE_OF_OLD_LINKS = "linear"


def _write_place(place: Shape) -> str:
    return ".".join(map(str, place))


def _read_place(form: str) -> Shape:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9}){0,3}", form, re.ASCII):
        raise QuantVizError("link.place", got=form)
    return tuple(int(number) for number in form.split("."))


def _write_view(view: View) -> str:
    axes = (view.cols,) if view.rows is None else (view.rows, view.cols)
    # A window that reaches to the matrix' end has a 0 for its length.
    window = (view.top, view.left, view.height or 0, view.width or 0)
    return "_".join((_write_place(axes), _write_place(view.at), _write_place(window)))


def _read_view(form: str, reading: Reading[LabState]) -> View:
    shape = reading.state.source.shape
    axes, at, corner = (
        _read_place(part) for part in (form.split("_") if form.count("_") == 2 else ("x",) * 3)
    )
    if len(corner) not in (2, 4) or len(axes) > 2:
        raise QuantVizError("link.place", got=form)
    # Old links have a corner alone, and the window of their time.
    lengths = corner[2:] or ((_WINDOW_OF_OLD_LINKS,) * 2 if any(corner) else (0, 0))
    view = View(
        axes[0] if len(axes) == 2 else None,
        axes[-1],
        at,
        *corner[:2],
        *(length or None for length in lengths),
    )
    if not view.fits(shape):
        raise QuantVizError("link.view", got=form, shape=shape)
    return view


def _read_cell(form: str, reading: Reading[LabState]) -> Shape:
    shape = reading.state.source.shape
    place = _read_place(form)
    if len(place) != len(shape) or any(i >= n for i, n in zip(place, shape, strict=True)):
        raise QuantVizError("index_out_of_range", index=place, shape=shape)
    return place


def _read_scheme(form: str, reading: Reading[LabState]) -> Scheme:
    scheme = Scheme.parse(form)
    # A scheme for the tensor that could not be opened need not fit this one.
    for problem in () if "t" in reading.lost else scheme.problems(reading.state.source.shape):
        raise problem
    return scheme


def _read_compared(form: str, reading: Reading[LabState]) -> Scheme:
    return _read_scheme(form, reading).fitted(reading.state.source.shape)


def _read_others(form: str, reading: Reading[LabState]) -> tuple[Scheme, ...]:
    forms = form.split(_BETWEEN)
    if len(forms) >= MOST_COMPARED:
        raise QuantVizError("link.others", got=len(forms), most=MOST_COMPARED - 1)
    return tuple(_read_compared(each, reading) for each in forms)


def _read_held(form: str) -> float:
    value: float = text_form.read_value(form, float)
    if value <= 0:
        raise QuantVizError("text_form_bad_value", got=form, wanted="> 0")
    return value


def weight_codec(*, present: bool) -> Codec:
    """Return the codec of the tensor; that of a file has to be there, unless it need not be `present`."""
    return codec(lambda form: parse_weight(form, present=present), write_source)


@dataclass(frozen=True)
class LabState(PageState):
    """Everything a person has chosen in the Lab."""

    page = "lab"

    source: Source = field(link="t", codec=weight_codec(present=True), always=True)
    scheme: Scheme = field(link="s", codec=Codec(_read_scheme, lambda scheme, _: str(scheme)), always=True)
    view: View = field(
        link="a", codec=Codec(_read_view, lambda view, _: _write_view(view)), of="t", looks=True
    )
    #: The selected cell, one number an axis.
    cell: Shape = field(
        link="c", codec=Codec(_read_cell, lambda cell, _: _write_place(cell)), of="t", looks=True, always=True
    )
    #: The schemes that the present one is compared with: A; and B, C … after it.
    baseline: Scheme | None = field(
        None, link="b", codec=Codec(_read_compared, lambda scheme, _: str(scheme or ""))
    )
    others: tuple[Scheme, ...] = field(
        (), link="y", codec=Codec(_read_others, lambda schemes, _: _BETWEEN.join(map(str, schemes)))
    )
    error_view: str = field("signed", link="e", codec=one_of(lambda: ERROR_VIEWS))
    error_range: str = field("held", link="r", codec=one_of(lambda: ERROR_RANGES))
    #: The held end of the error's colours; none until it has been measured for this tensor.
    held: float | None = field(None, link="h", codec=codec(_read_held, repr), of="t", looks=True)
    scope: str = field("tensor", link="o", codec=one_of(lambda: SCOPES))
    #: One of `COMPARED`; none where conventions are not compared.
    compared: str | None = field(None, link="m", codec=one_of(lambda: COMPARED))
    #: The value that a pixel of many cells shows, one of `POOLS`.
    pool: str = field(POOLS[0], link="p", codec=one_of(lambda: POOLS))
    #: How the colours of x and x̂ are spread, one of `VALUE_SCALES`.
    value_scale: str = field(
        VALUE_SCALES[0],
        link="x",
        codec=Codec(
            one_of(lambda: VALUE_SCALES).read, lambda name, _: "" if name == _SCALE_OF_OLD_LINKS else name
        ),
        always=True,
    )
    #: The scheme that was chosen, where `scheme` stands in for it because it does not fit this tensor, has
    #: codes for another sign, or a search that takes too long here. No link carries it.
    chosen: Scheme | None = field(None, compare=False)

    @property
    def sliced(self) -> bool:
        """Whether only a part of the tensor is in view."""
        shape = self.source.shape
        return len(shape) > 2 or self.view.size(shape) != self.view.matrix(shape)

    @property
    def large(self) -> bool:
        """Whether the tensor is too large for the result of all of it to be made at once."""
        return math.prod(self.source.shape) > MOST_WHOLE

    @property
    def remembered(self) -> tuple[Scheme, ...]:
        """Return A, B, C …"""
        return (self.baseline, *self.others) if self.baseline else ()

    @property
    def contenders(self) -> tuple[Scheme, ...]:
        """Return the compared schemes: A, B, C …, and the present one if there is room for it."""
        return tuple(dict.fromkeys((*self.remembered, self.scheme)))[:MOST_COMPARED]

    def remembering(self, schemes: Iterable[Scheme]) -> LabState:
        """Return the state with these as A, B, C …; no scheme is there twice.

        >>> opening().remembering([Scheme("int8"), Scheme("int2"), Scheme("int8")]).others
        (Scheme.parse('int2,symmetric,per_tensor,min_max,course'),)
        """
        first, *others = tuple(dict.fromkeys(schemes))[:MOST_COMPARED] or (None,)
        return self.replace(baseline=first, others=tuple(others))

    def replace(self, **changes: Any) -> LabState:
        """Return the state with `changes`; another scheme is a choice of its own."""
        if "scheme" in changes and "chosen" not in changes:
            changes["chosen"] = self._chosen_under(changes["scheme"])
        return dataclasses.replace(self, **changes)

    def _chosen_under(self, scheme: Scheme) -> Scheme | None:
        """Return the chosen scheme that waits for a fitting tensor, if only the range or NaN rule changed."""
        same_but_range = {name: getattr(scheme, name) for name in ("calibration", "nonfinite")}
        return (
            self.chosen.replace(**same_but_range)
            if self.chosen and self.scheme.replace(**same_but_range) == scheme
            else None
        )

    def with_scheme(self, scheme: Scheme) -> LabState:
        """Choose a scheme: where it does not fit the tensor the nearest stands in for it, until a tensor
        comes that it fits.
        """
        fitted = scheme.fitted(self.source.shape)
        return self.replace(scheme=fitted, chosen=scheme if fitted != scheme else None)

    def with_source(self, source: Source) -> LabState:
        """Return the state with another tensor.

        The chosen scheme is kept as far as it fits; parts that belong to the old tensor are dropped. A
        picture has no values below 0: codes without a sign stand in for those of another tensor there, and
        the other way round.
        """
        shape = source.shape
        fitting = [each for each in self.remembered if not each.problems(shape)]
        cell = (0,) * len(shape)
        state = dataclasses.replace(
            self, source=source, view=View.of(shape), cell=cell, held=None, chosen=None
        ).remembering(fitting)
        chosen = self.chosen or self.scheme
        of_tensor = chosen
        if source.unedited.picture:
            # A sign that was chosen for a picture is kept for the next one.
            if self.chosen or not self.source.unedited.picture:
                of_tensor = chosen.for_picture()
        elif self.source.unedited.picture:
            of_tensor = chosen.for_both_signs()
        state = state.with_scheme(of_tensor)
        return state if of_tensor == chosen else state.replace(scheme=state.scheme, chosen=chosen)

    @classmethod
    def opening(cls) -> LabState:
        """Return the state of the first scenario."""
        return opening()

    @classmethod
    def read(cls, params: Mapping[str, str], **codecs: Codec) -> tuple[LabState, tuple[QuantVizError, ...]]:
        """Return the state of a link, and an error for each part that could not be used; see `PageState`.

        >>> state, problems = LabState.read({"v": "1", "s": "int9,symmetric,per_tensor,min_max,course"})
        >>> state == opening().replace(value_scale="linear"), *problems  # doctest: +ELLIPSIS
        (True, QuantVizError('link.part'))
        >>> print(problems[0])  # doctest: +ELLIPSIS
        This part of the link could not be used: the scheme. Unknown number format: got 'int9'. ...
        """
        state, problems = super().read(params, **codecs)
        if params.get("v", VERSION) in VERSIONS:
            return state, problems
        return state, (QuantVizError("link.version", got=params["v"], known=", ".join(VERSIONS)), *problems)

    def completed(self, reading: Reading[LabState]) -> LabState:
        """Return a link's state; open fields follow from its tensor, or from the link's version."""
        first = opening()
        shape = self.source.shape
        named = reading.params.keys() - reading.lost
        same = self.source.unedited == first.source
        scheme = self.scheme if "s" in named or same else first.scheme.fitted(shape)
        old = "x" not in named and "t" not in reading.lost and has_state(reading.params)
        state = self.replace(
            view=self.view if "a" in named else View.of(shape),
            cell=self.cell if "c" in named or same else (0,) * len(shape),
            value_scale=_SCALE_OF_OLD_LINKS if old else self.value_scale,
        )
        return state.remembering(filter(None, (self.baseline, *self.others))).with_scheme(scheme)

    def usual(self) -> LabState:
        shape = self.source.shape
        return LabState(self.source, self.scheme, View.of(shape), (0,) * len(shape))

    def written(self) -> dict[str, str]:
        """Return the state as parameters of a link.

        >>> opening().written()["s"]
        'int4,symmetric,per_tensor,min_max,course'
        """
        return {"v": VERSION, **super().written()}

    def looking(self, step: tuple[LabState, LabState], now: LabState) -> LabState:
        """Return this state once a step is undone: cells of another tensor mean nothing."""
        return super().looking(step, now) if now.source == self.source else self


def opening(scenario_id: str = FIRST) -> LabState:
    """Return the state a scenario opens with."""
    scenario = SCENARIOS[scenario_id]
    shape = scenario.source.shape
    return LabState(scenario.source, scenario.scheme, View.of(shape), scenario.cell, scenario.baseline)


def has_state(params: Iterable[str]) -> bool:
    """Return whether an address has any part of the state.

    >>> has_state({"t": "builtin(name=picture)", "lang": "en"}), has_state({"lang": "en"})
    (True, False)
    """
    return not {"v", *LabState.parameters()}.isdisjoint(params)


def change_notes(params: Mapping[str, str], state: LabState, tensor: TensorTraits) -> tuple[Note, ...]:
    """Return a note for each correction of the arithmetic of the link's schemes since it was made, as far as
    it concerns a tensor. A link without a version counts as one of the first.

    >>> params = {"s": "int8,symmetric,per_tensor,percentile(p=99.9),onnxruntime"}
    >>> state = LabState.read(params)[0]
    >>> [str(note) for note in change_notes(params, state, TensorTraits())]  # doctest: +ELLIPSIS
    ['This link was made before onnxruntime was corrected: ...']
    >>> change_notes({**params, "v": "2"}, state, TensorTraits())
    ()
    """
    number = VERSIONS.get(params.get("v", "1"), VERSIONS[VERSION])
    named = ((state.chosen or state.scheme,) if "s" in params else ()) + (
        state.remembered if "b" in params or "y" in params else ()
    )
    found = (
        Note.of("mended", convention=scheme.chosen.id, what=Note.of(f"mended_{key}"))
        for scheme in named
        for key in changes_since(number, scheme, tensor)
    )
    # Several schemes may have the same correction.
    return tuple({str(note): note for note in found}.values())
