"""Any state of the Lab that a link can carry, for hypothesis to draw."""

import math

from hypothesis import strategies as st

from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import COMPARED, LabState
from quantviz.sources import Builtin, Normal, OneOutlier, with_cell
from quantviz.sources.base import MOST_EDITABLE
from quantviz.sources.typed import Typed
from quantviz.tensors.views import ERROR_RANGES, ERROR_VIEWS, POOLS, SCOPES, VALUE_SCALES, View
from tests.helpers.schemes import SCHEMES

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@st.composite
def typed_tensors(draw):
    shape = draw(SHAPES)
    count = 1
    for length in shape:
        count *= length
    return (
        Typed(tuple(draw(st.lists(FLOATS, min_size=count, max_size=count))), shape)
        if count <= 256
        else Typed((0.0,), (1,))
    )


OWN_SOURCES = st.one_of(
    st.sampled_from([scenario.source for scenario in SCENARIOS.values()]),
    st.builds(Normal, st.integers(1, 64), st.integers(1, 64), st.integers(0, 2**32 - 1)),
    st.just(OneOutlier(rows=8, cols=8, row=1)),
    st.just(Builtin("course_vector")),
    typed_tensors(),
)


@st.composite
def edited(draw):
    """Return a source with cells set by hand, where it is small enough for that."""
    source = draw(OWN_SOURCES)
    if math.prod(source.shape) > MOST_EDITABLE:
        return source
    for _ in range(draw(st.integers(0, 4))):
        source = with_cell(source, tuple(draw(st.integers(0, n - 1)) for n in source.shape), draw(FLOATS))
    return source


SOURCES = OWN_SOURCES | edited()


@st.composite
def states(draw):
    source = draw(SOURCES)
    shape = source.shape
    view = View.of(shape)
    if len(shape) > 2:
        rows, cols = draw(st.permutations(range(len(shape))))[:2]
        view = View(rows, cols, tuple(draw(st.integers(0, n - 1)) for n in shape))
    corner, lengths = (
        draw(st.tuples(*(st.integers(-3, 40),) * 2)),
        draw(st.tuples(*(st.integers(1, 40),) * 2)),
    )
    view = view.window(*corner, *lengths, shape)
    held = draw(st.lists(SCHEMES.map(lambda scheme: scheme.fitted(shape)), max_size=3, unique=True))
    return LabState(
        source=source,
        scheme=draw(SCHEMES).fitted(shape),
        view=view,
        cell=tuple(draw(st.integers(0, n - 1)) for n in shape),
        baseline=held[0] if held else None,
        others=tuple(held[1:]),
        error_view=draw(st.sampled_from(tuple(ERROR_VIEWS))),
        error_range=draw(st.sampled_from(ERROR_RANGES)),
        held=draw(st.none() | st.floats(1e-30, 1e30)),
        scope=draw(st.sampled_from(SCOPES)),
        compared=draw(st.none() | st.sampled_from(COMPARED)),
        pool=draw(st.sampled_from(POOLS)),
        value_scale=draw(st.sampled_from(VALUE_SCALES)),
    )
