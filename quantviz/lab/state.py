"""The Lab's state and its link, which the address bar must reopen on any machine, in any language.

The link carries permanent ids and numbers only, never words of a language, and is read as data: parts that
cannot be read or opened are named and left out, the rest is kept.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from quantviz.errors import Note, QuantVizError
from quantviz.lab.layer_sources import parse_weight
from quantviz.lab.scenarios import FIRST, SCENARIOS
from quantviz.schemes import text_form
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.granularity import Shape
from quantviz.schemes.mended import AboutTensor, mends_since
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source, write_source
from quantviz.tensors.views import ERROR_RANGES, ERROR_VIEWS, MOST_WHOLE, POOLS, SCOPES, VALUE_SCALES, View

#: Conventions that the present one is compared with: every other one, or one by its id.
ALL = "all"
COMPARED = (ALL, *CONVENTIONS)
#: The versions of links, each with the number of the arithmetic that it was made with; the last is today's.
VERSIONS = MappingProxyType({"1": 1, "2": 2})
VERSION = "2"
#: A longer link was not made by us.
LONGEST = 4000
#: Most schemes that are compared, the present one among them, and the character between two of them in a
#: link: no scheme's text has it.
MOST_HELD = 8
_BETWEEN = "~"
#: Cells a side that links of before had in view at most, where they named a corner.
_WINDOW_OF_OLD_LINKS = 512
#: How the colours of x are spread by old links, which do not contain it; so a link without this part means
#: this, unless it contains nothing of the state at all.
_SCALE_OF_OLD_LINKS = "linear"
#: The parts of a link that are the state's.
_PARTS = frozenset("vtscbyaerhomp")

_T = TypeVar("_T")


@dataclass(frozen=True)
class LabState:
    """Everything a person has chosen in the Lab."""

    source: Source
    scheme: Scheme
    view: View
    #: The selected cell, one number an axis.
    cell: Shape
    #: The schemes that the present one is compared with: A; and B, C … after it.
    baseline: Scheme | None = None
    others: tuple[Scheme, ...] = ()
    error_view: str = "signed"
    error_range: str = "held"
    #: The held end of the error's colours; none until it has been measured for this tensor.
    held: float | None = None
    scope: str = "tensor"
    #: One of `COMPARED`; none where conventions are not compared.
    compared: str | None = None
    #: The value that a pixel of many cells shows, one of `POOLS`.
    pool: str = POOLS[0]
    #: How the colours of x and x̂ are spread, one of `VALUE_SCALES`.
    value_scale: str = VALUE_SCALES[0]
    #: The scheme that was chosen, where `scheme` stands in for it because it does not fit this tensor, has
    #: codes for another sign, or a search that takes too long here. No link carries it.
    chosen: Scheme | None = field(default=None, compare=False)

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
        return tuple(dict.fromkeys((*self.remembered, self.scheme)))[:MOST_HELD]

    def remembering(self, schemes: Iterable[Scheme]) -> LabState:
        """Return the state with these as A, B, C …; no scheme is there twice.

        >>> opening().remembering([Scheme("int8"), Scheme("int2"), Scheme("int8")]).others
        (Scheme.parse('int2,symmetric,per_tensor,min_max,course'),)
        """
        first, *others = tuple(dict.fromkeys(schemes))[:MOST_HELD] or (None,)
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


def opening(scenario_id: str = FIRST) -> LabState:
    """Return the state a scenario opens with."""
    scenario = SCENARIOS[scenario_id]
    shape = scenario.source.shape
    return LabState(scenario.source, scenario.scheme, View.of(shape), scenario.cell, scenario.baseline)


def write_link(state: LabState, language: str | None = None) -> dict[str, str]:
    """Return the state as query parameters: ids and numbers only.

    >>> write_link(opening())["s"]
    'int4,symmetric,per_tensor,min_max,course'
    """
    usual = LabState(state.source, state.scheme, View.of(state.source.shape), (0,) * len(state.source.shape))
    parts = {
        "v": VERSION,
        "t": write_source(state.source),
        "s": str(state.scheme),
        "c": _write_place(state.cell),
        "b": str(state.baseline) if state.baseline else None,
        "y": _BETWEEN.join(map(str, state.others)) or None,
        "a": _unless(_write_view(usual.view), _write_view(state.view)),
        "e": _unless(usual.error_view, state.error_view),
        "r": _unless(usual.error_range, state.error_range),
        "h": repr(state.held) if state.held is not None else None,
        "o": _unless(usual.scope, state.scope),
        "m": state.compared,
        "p": _unless(usual.pool, state.pool),
        "x": _unless(_SCALE_OF_OLD_LINKS, state.value_scale),
        "lang": language,
    }
    return {name: value for name, value in parts.items() if value is not None}


def _unless(usual: str, value: str) -> str | None:
    """Return a value of a link; None where it is the usual one, which a link leaves out."""
    return None if value == usual else value


class _Parts:
    """The parts of a link, and an error for each of those that could not be used."""

    def __init__(self, params: Mapping[str, str]) -> None:
        self.params = params
        self.problems: list[QuantVizError] = []

    def read(self, name: str, read: Callable[[str], _T], usual: _T) -> _T:
        """Return the value of a part; the usual one where the link does not have it or it cannot be used."""
        if name not in self.params:
            return usual
        try:
            return read(self.params[name])
        except QuantVizError as problem:
            names = QuantVizError(f"link.names.{name}")
            self.problems.append(QuantVizError("link.part", part=names, reason=problem))
            return usual

    def one_of(self, name: str, known: Collection[str], usual: str) -> str:
        return self.read(name, lambda form: _one_of(form, known), usual)


def read_link(
    params: Mapping[str, str], *, present: bool = True
) -> tuple[LabState, tuple[QuantVizError, ...]]:
    """Return the state of a link, and an error for each part of it that could not be used.

    A tensor in a file that is not there cannot be used, unless it need not be `present`.

    >>> state, problems = read_link({"v": "1", "s": "int9,symmetric,per_tensor,min_max,course"})
    >>> state == opening().replace(value_scale="linear"), *problems  # doctest: +ELLIPSIS
    (True, QuantVizError('link.part'))
    >>> print(problems[0])  # doctest: +ELLIPSIS
    This part of the link could not be used: the scheme. Unknown number format: got 'int9'. ...
    """
    if sum(len(value) for value in params.values()) > LONGEST:
        return opening(), (QuantVizError("link.too_long", longest=LONGEST),)
    parts = _Parts(params)
    first = opening()
    if params.get("v", VERSION) not in VERSIONS:
        parts.problems.append(QuantVizError("link.version", got=params["v"], known=", ".join(VERSIONS)))
    source = parts.read("t", lambda form: parse_weight(form, present=present), first.source)
    shape = source.shape
    same = source.unedited == first.source
    lost = bool(parts.problems)
    if lost:  # without the tensor its cell, view and colours mean nothing: only the scheme is worth keeping
        parts.params = {name: value for name, value in params.items() if name not in ("c", "a", "h")}

    def fitting(form: str) -> Scheme:
        # A scheme for the tensor that could not be opened need not fit this one.
        scheme = Scheme.parse(form)
        for problem in () if lost else scheme.problems(shape):
            raise problem
        return scheme

    scale = _SCALE_OF_OLD_LINKS
    if lost or parts.params.keys().isdisjoint(_PARTS):
        scale = first.value_scale
    scheme = parts.read("s", fitting, first.scheme if same else first.scheme.fitted(shape))
    state = LabState(
        source=source,
        scheme=scheme,
        view=parts.read("a", lambda form: _read_view(form, shape), View.of(shape)),
        cell=parts.read("c", lambda form: _read_cell(form, shape), first.cell if same else (0,) * len(shape)),
        error_view=parts.one_of("e", ERROR_VIEWS, first.error_view),
        error_range=parts.one_of("r", ERROR_RANGES, first.error_range),
        held=parts.read("h", _read_held, None),
        scope=parts.one_of("o", SCOPES, first.scope),
        compared=parts.read("m", lambda form: _one_of(form, COMPARED), None),
        pool=parts.one_of("p", POOLS, first.pool),
        value_scale=parts.one_of("x", VALUE_SCALES, scale),
    )
    a = parts.read("b", lambda form: fitting(form).fitted(shape), None)
    no_others: tuple[Scheme, ...] = ()
    others = parts.read(
        "y", lambda form: _read_others(form, lambda each: fitting(each).fitted(shape)), no_others
    )
    state = state.remembering((a, *others) if a else others)
    return state.with_scheme(scheme), tuple(parts.problems)


def mended(params: Mapping[str, str], state: LabState, tensor: AboutTensor) -> tuple[Note, ...]:
    """Return a note for each correction of the arithmetic of the link's schemes since it was made, as far as
    it concerns a tensor. A link without a version counts as one of the first.

    >>> params = {"s": "int8,symmetric,per_tensor,percentile(p=99.9),onnxruntime"}
    >>> [str(note) for note in mended(params, read_link(params)[0], AboutTensor())]  # doctest: +ELLIPSIS
    ['This link was made before onnxruntime was corrected: ...']
    >>> mended({**params, "v": "2"}, read_link(params)[0], AboutTensor())
    ()
    """
    number = VERSIONS.get(params.get("v", "1"), VERSIONS[VERSION])
    named = ((state.chosen or state.scheme,) if "s" in params else ()) + (
        state.remembered if "b" in params or "y" in params else ()
    )
    found = (
        Note.of("mended", convention=scheme.chosen.id, what=Note.of(f"mended_{key}"))
        for scheme in named
        for key in mends_since(number, scheme, tensor)
    )
    # Several schemes may have the same correction.
    return tuple({str(note): note for note in found}.values())


def has_state(params: Iterable[str]) -> bool:
    """Return whether an address has any part of the state.

    >>> has_state({"t": "builtin(name=picture)", "lang": "en"}), has_state({"lang": "en"})
    (True, False)
    """
    return not _PARTS.union("x").isdisjoint(params)


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


def _read_view(form: str, shape: Shape) -> View:
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


def _read_cell(form: str, shape: Shape) -> Shape:
    place = _read_place(form)
    if len(place) != len(shape) or any(i >= n for i, n in zip(place, shape, strict=True)):
        raise QuantVizError("index_out_of_range", index=place, shape=shape)
    return place


def _read_others(form: str, read: Callable[[str], Scheme]) -> tuple[Scheme, ...]:
    forms = form.split(_BETWEEN)
    if len(forms) >= MOST_HELD:
        raise QuantVizError("link.others", got=len(forms), most=MOST_HELD - 1)
    return tuple(map(read, forms))


def _read_held(form: str) -> float:
    value: float = text_form.read_value(form, float)
    if value <= 0:
        raise QuantVizError("text_form_bad_value", got=form, wanted="> 0")
    return value


def _one_of(form: str, known: Collection[str]) -> str:
    if form not in known:
        raise QuantVizError("link.choice", got=form, known=", ".join(known))
    return form
