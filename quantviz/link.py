"""The Lab's state and its link: what the address bar must reopen, on any machine, in any language.

The link carries permanent ids and numbers only, never words of a language, and is read as data: what
cannot be read or had is named and left out, the rest is kept.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, cast

from quantviz import textform
from quantviz.conventions import CONVENTIONS
from quantviz.errors import QuantVizError
from quantviz.granularity import Shape
from quantviz.scenarios import FIRST, SCENARIOS
from quantviz.scheme import Scheme
from quantviz.sources import AsMatrix, Source, parse_source, write_source
from quantviz.sources.matrix import original
from quantviz.sources.typed import Typed

#: How the error is shown.
ERROR_VIEWS = ("signed", "absolute", "relative", "steps")
#: How far the error's colours reach.
ERROR_RANGES = ("held", "fit", "half_step", "same_as_x")
#: How the colours of x and x̂ are spread over their values: evenly to the largest, by the logarithm beyond a linear middle, or evenly
#: to the 99th percentile of the magnitudes.
VALUE_SCALES = ("linear", "symlog", "percentile")
#: What the tiles count.
SCOPES = ("tensor", "slice")
#: What the present convention is compared with: every other one, or one by its id.
ALL = "all"
COMPARED = (ALL, *CONVENTIONS)
#: The version of the link's form.
VERSION = "1"
#: A longer link was not made by us.
LONGEST = 4000
#: What a pixel of many cells shows of them: the value of largest magnitude, their mean, their root mean square.
POOLS = ("largest", "mean", "rms")
#: Elements up to which the result for a whole tensor is made at once: it takes some five times the tensor's memory.
MOST_WHOLE = 2**20
#: Elements up to which a part of a larger tensor is made.
MOST_PART = 2**20
#: Cells a side that links of before had in view at most, where they named a corner.
_WINDOW_OF_OLD_LINKS = 512

_T = TypeVar("_T")


@dataclass(frozen=True)
class View:
    """Which part of a tensor is seen: a matrix of two of its axes, the others held at `at`, and a window of it.

    Rows and columns count from the matrix' first.

    >>> View.of((4, 6))
    View(rows=0, cols=1, at=(0, 0), top=0, left=0, height=None, width=None)
    """

    #: The axis shown as rows; none for a tensor of one axis.
    rows: int | None
    #: The axis shown as columns.
    cols: int
    #: One place for each axis; those of `rows` and `cols` are ignored.
    at: Shape
    #: The first row and column of the window.
    top: int = 0
    left: int = 0
    #: How many rows and columns it has; none for all that follow.
    height: int | None = None
    width: int | None = None

    @classmethod
    def of(cls, shape: Shape) -> View:
        """The usual view: the last two axes, the others at 0, all of the matrix."""
        return cls(len(shape) - 2 if len(shape) > 1 else None, len(shape) - 1, (0,) * len(shape))

    def fits(self, shape: Shape) -> bool:
        """Whether a tensor of `shape` can be seen so."""
        axes = range(len(shape))
        ends = all(length is None or length > 0 for length in (self.height, self.width))
        if len(shape) == 1:
            return self.rows is None and self.cols == 0 and len(self.at) == 1 and 0 <= self.left < shape[0] and self.top == 0 and ends
        return (
            self.rows is not None
            and self.rows in axes
            and self.cols in axes
            and self.rows != self.cols
            and len(self.at) == len(shape)
            and all(0 <= i < n for i, n in zip(self.at, shape, strict=True))
            and 0 <= self.top < shape[self.rows]
            and 0 <= self.left < shape[self.cols]
            and ends
        )

    def matrix(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns of the matrix that the window is cut from."""
        return 1 if self.rows is None else shape[self.rows], shape[self.cols]

    def size(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns of the window."""
        rows, cols = self.matrix(shape)
        return min(rows - self.top, self.height or rows), min(cols - self.left, self.width or cols)

    def window(self, top: int, left: int, rows: int, cols: int, shape: Shape) -> View:
        """The same matrix seen through another window, brought inside it.

        >>> View.of((100, 200)).window(90, -5, 20, 50, (100, 200))
        View(rows=0, cols=1, at=(0, 0), top=80, left=0, height=20, width=50)
        >>> View.of((100, 200)).window(0, 0, 100, 300, (100, 200)) == View.of((100, 200))
        True
        """
        all_rows, all_cols = self.matrix(shape)
        rows, cols = max(1, min(rows, all_rows)), max(1, min(cols, all_cols))
        return dataclasses.replace(
            self,
            top=max(0, min(top, all_rows - rows)),
            left=max(0, min(left, all_cols - cols)),
            height=rows if rows < all_rows else None,
            width=cols if cols < all_cols else None,
        )

    def showing(self, index: Shape, shape: Shape) -> View:
        """The nearest view in which the cell at `index` is seen: the same one where it is, else as large a window around it.

        >>> View.of((100, 200)).window(0, 0, 10, 10, (100, 200)).showing((50, 3), (100, 200))
        View(rows=0, cols=1, at=(0, 0), top=45, left=0, height=10, width=10)
        """
        matrix = dataclasses.replace(self, at=tuple(0 if axis in (self.rows, self.cols) else i for axis, i in enumerate(index)))
        if matrix.seen(index, shape):
            return matrix
        rows, cols = self.size(shape)
        row, col = matrix.place(index) or (0, 0)
        top = self.top if self.top <= row < self.top + rows else row - rows // 2
        left = self.left if self.left <= col < self.left + cols else col - cols // 2
        return matrix.window(top, left, rows, cols, shape)

    def index(self, row: int, col: int) -> Shape:
        """The place in the tensor of the cell at `row`, `col` of the matrix.

        >>> View(2, 0, (0, 5, 0)).index(1, 3)
        (3, 5, 1)
        """
        place = list(self.at)
        place[self.cols] = col
        if self.rows is not None:
            place[self.rows] = row
        return tuple(place)

    def place(self, index: Shape) -> tuple[int, int] | None:
        """Row and column of the matrix at which the cell at `index` lies; none where it is not in this matrix."""
        row, col = 0 if self.rows is None else index[self.rows], index[self.cols]
        return (row, col) if self.index(row, col) == index else None

    def seen(self, index: Shape, shape: Shape) -> tuple[int, int] | None:
        """The same where it lies in the window, else none."""
        place = self.place(index)
        rows, cols = self.size(shape)
        inside = place and self.top <= place[0] < self.top + rows and self.left <= place[1] < self.left + cols
        return place if inside else None


@dataclass(frozen=True)
class Upload:
    """A tensor that lies only in one person's session: no link can carry it."""

    #: Digest of the content, so that another file is another source.
    digest: str
    #: The tensor's name in the file.
    name: str
    shape: Shape
    id: ClassVar[str] = "upload"


@dataclass(frozen=True)
class LabState:
    """Everything a person has chosen in the Lab."""

    source: Source | Upload
    scheme: Scheme
    view: View
    #: The selected cell, one number an axis.
    cell: Shape
    baseline: Scheme | None = None
    error_view: str = "signed"
    error_range: str = "held"
    #: The held end of the error's colours; none until it has been measured for this tensor.
    held: float | None = None
    scope: str = "tensor"
    #: One of `COMPARED`; none where conventions are not compared.
    compared: str | None = None
    #: What a pixel of many cells shows, one of `POOLS`.
    pool: str = POOLS[0]
    #: How the colours of x and x̂ are spread, one of `VALUE_SCALES`.
    value_scale: str = VALUE_SCALES[0]
    #: The scheme that was chosen, where it does not fit this tensor and `scheme` stands in for it. No link carries it.
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

    def replace(self, **changes: Any) -> LabState:
        """The same state but for `changes`; another scheme is a choice of its own."""
        if "scheme" in changes and "chosen" not in changes:
            changes["chosen"] = self._chosen_under(changes["scheme"])
        return dataclasses.replace(self, **changes)

    def _chosen_under(self, scheme: Scheme) -> Scheme | None:
        """The chosen scheme, still waiting for a tensor that it fits, when only the range or what is done with NaN and Inf has changed."""
        same_but_range = {name: getattr(scheme, name) for name in ("calibration", "nonfinite")}
        return self.chosen.replace(**same_but_range) if self.chosen and self.scheme.replace(**same_but_range) == scheme else None

    def with_scheme(self, scheme: Scheme) -> LabState:
        """Choose a scheme: where it does not fit the tensor the nearest stands in for it, until a tensor comes that it fits."""
        fitted = scheme.fitted(self.source.shape)
        return self.replace(scheme=fitted, chosen=scheme if fitted != scheme else None)

    def with_source(self, source: Source | Upload) -> LabState:
        """Another tensor: the chosen scheme is kept as far as it fits, what belongs to the old tensor is dropped."""
        shape = source.shape
        baseline = self.baseline if self.baseline and not self.baseline.problems(shape) else None
        kept = (baseline, self.error_view, self.error_range, None, self.scope, self.compared, self.pool, self.value_scale)
        return LabState(source, self.scheme, View.of(shape), (0,) * len(shape), *kept).with_scheme(self.chosen or self.scheme)


def opening(scenario_id: str = FIRST) -> LabState:
    """The state a scenario opens with."""
    scenario = SCENARIOS[scenario_id]
    shape = scenario.source.shape
    return LabState(scenario.source, scenario.scheme, View.of(shape), scenario.cell, scenario.baseline)


def write_link(state: LabState, language: str | None = None) -> dict[str, str]:
    """The state as query parameters: ids and numbers only.

    >>> write_link(opening())["s"]
    'int4,symmetric,per_tensor,min_max,course'
    """
    usual = LabState(state.source, state.scheme, View.of(state.source.shape), (0,) * len(state.source.shape))
    parts = {
        "v": VERSION,
        "t": _write_source(state.source),
        "s": str(state.scheme),
        "c": _write_place(state.cell),
        "b": str(state.baseline) if state.baseline else None,
        "a": _write_view(state.view) if state.view != usual.view else None,
        "e": state.error_view if state.error_view != usual.error_view else None,
        "r": state.error_range if state.error_range != usual.error_range else None,
        "h": repr(state.held) if state.held is not None else None,
        "o": state.scope if state.scope != usual.scope else None,
        "m": state.compared,
        "p": state.pool if state.pool != usual.pool else None,
        "x": state.value_scale if state.value_scale != usual.value_scale else None,
        "lang": language,
    }
    return {name: value for name, value in parts.items() if value is not None}


def read_link(params: Mapping[str, str]) -> tuple[LabState, tuple[QuantVizError, ...]]:
    """The state a link asks for, and by name what of it cannot be had.

    >>> state, problems = read_link({"v": "1", "s": "int9,symmetric,per_tensor,min_max,course"})
    >>> state == opening(), *problems  # doctest: +ELLIPSIS
    (True, QuantVizError('link.part'))
    >>> print(problems[0])  # doctest: +ELLIPSIS
    This part of the link could not be used: the scheme. Unknown number format: got 'int9'. ...
    """
    if sum(len(value) for value in params.values()) > LONGEST:
        return opening(), (QuantVizError("link.too_long", longest=LONGEST),)
    problems: list[QuantVizError] = []

    def part(name: str, read: Callable[[str], _T], usual: _T) -> _T:
        if name not in params:
            return usual
        try:
            return read(params[name])
        except QuantVizError as problem:
            problems.append(QuantVizError("link.part", part=QuantVizError(f"link.names.{name}"), reason=problem))
            return usual

    first = opening()
    if params.get("v", VERSION) != VERSION:
        problems.append(QuantVizError("link.version", got=params["v"], known=VERSION))
    source = part("t", read_source, first.source)
    shape = source.shape
    same = source == first.source
    lost = bool(problems)
    if lost:  # without the tensor its cell, view and colours mean nothing: only the scheme is worth keeping
        params = {name: value for name, value in params.items() if name not in ("c", "a", "h")}

    def fitting(form: str) -> Scheme:
        # One that was made for the tensor that cannot be had need not fit this one.
        return Scheme.parse(form) if lost else _fitting(Scheme.parse(form), shape)

    scheme = part("s", fitting, first.scheme if same else first.scheme.fitted(shape))
    state = LabState(
        source=source,
        scheme=scheme,
        view=part("a", lambda form: _read_view(form, shape), View.of(shape)),
        cell=part("c", lambda form: _read_cell(form, shape), first.cell if same else (0,) * len(shape)),
        baseline=part("b", lambda form: fitting(form).fitted(shape), None),
        error_view=part("e", lambda form: _one_of(form, ERROR_VIEWS), "signed"),
        error_range=part("r", lambda form: _one_of(form, ERROR_RANGES), "held"),
        held=part("h", _read_held, None),
        scope=part("o", lambda form: _one_of(form, SCOPES), "tensor"),
        compared=part("m", lambda form: _one_of(form, COMPARED), None),
        pool=part("p", lambda form: _one_of(form, POOLS), POOLS[0]),
        value_scale=part("x", lambda form: _one_of(form, VALUE_SCALES), VALUE_SCALES[0]),
    )
    return state.with_scheme(scheme), tuple(problems)


def read_source(form: str) -> Source:
    """The source whose text form is `form`; `as_matrix(…)` around another form is a view of that one."""
    head, _, inner = form.partition("(")
    if head == AsMatrix.id and inner.endswith(")"):
        matrix = AsMatrix(read_source(inner[:-1]))
        for problem in matrix.problems():
            raise problem
        return matrix
    if form.startswith("typed."):
        return Typed.from_payload(form.removeprefix("typed."))
    if form.startswith(Upload.id):
        raise QuantVizError("link.upload")
    return parse_source(form)


def link_problem(source: Source | Upload) -> QuantVizError | None:
    """Why a link cannot carry this tensor, where it cannot."""
    source = original(source)
    if isinstance(source, Upload):
        return QuantVizError("link.upload")
    if isinstance(source, Typed) and len(source.values) > 256:
        return QuantVizError("link.typed_too_large", count=len(source.values))
    return None


def _write_source(source: Source | Upload) -> str:
    if isinstance(original(source), Upload) or link_problem(source):
        return Upload.id
    if isinstance(source, AsMatrix):
        return f"{AsMatrix.id}({_write_source(source.source)})"
    return f"typed.{source.to_payload()}" if isinstance(source, Typed) else write_source(cast("Source", source))


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
    axes, at, corner = (_read_place(part) for part in (form.split("_") if form.count("_") == 2 else ("x",) * 3))
    if len(corner) not in (2, 4) or len(axes) > 2:
        raise QuantVizError("link.place", got=form)
    # Links of before have a corner alone, and the window that there was then.
    lengths = corner[2:] or ((_WINDOW_OF_OLD_LINKS,) * 2 if any(corner) else (0, 0))
    view = View(axes[0] if len(axes) == 2 else None, axes[-1], at, *corner[:2], *(length or None for length in lengths))
    if not view.fits(shape):
        raise QuantVizError("link.view", got=form, shape=shape)
    return view


def _read_cell(form: str, shape: Shape) -> Shape:
    place = _read_place(form)
    if len(place) != len(shape) or any(i >= n for i, n in zip(place, shape, strict=True)):
        raise QuantVizError("index_out_of_range", index=place, shape=shape)
    return place


def _read_held(form: str) -> float:
    value: float = textform.read_value(form, float)
    if value <= 0:
        raise QuantVizError("text_form_bad_value", got=form, wanted="> 0")
    return value


def _one_of(form: str, known: tuple[str, ...]) -> str:
    if form not in known:
        raise QuantVizError("link.choice", got=form, known=", ".join(known))
    return form


def _fitting(scheme: Scheme, shape: Shape) -> Scheme:
    for problem in scheme.problems(shape):
        raise problem
    return scheme
