"""Any scheme, for hypothesis to draw."""

import contextlib
import dataclasses

from hypothesis import assume
from hypothesis import strategies as st

import quantviz as qv
from quantviz.schemes.conventions import CHOICES
from quantviz.schemes.engine_calibrations import ENGINE_CALIBRATIONS, OCTAV, MSELLMCompressor, MSETorch
from tests.helpers.offered import problems

SMALL = st.integers(-4, 3)
SIZES = st.integers(1, 512)
GRANULARITIES = {
    "per_tensor": st.just(qv.PerTensor()),
    "per_channel": st.builds(qv.PerChannel, SMALL),
    "per_group": st.builds(qv.PerGroup, SIZES, SMALL),
    "per_block": st.builds(qv.PerBlock, SIZES, SIZES),
    "flat": st.builds(qv.Flat, SIZES, st.booleans()),
}
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64, min_value=-1e30, max_value=1e30)
CALIBRATIONS = st.one_of(
    st.just(qv.MinMax()),
    st.just(qv.MSE()),
    st.builds(qv.Percentile, st.floats(50, 100, exclude_min=True)),
    st.tuples(FINITE, FINITE)
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: qv.ManualRange(*sorted(pair))),
    st.builds(qv.Given, st.floats(1e-30, 1e30)),
    st.sampled_from(
        [*(kind() for kind in ENGINE_CALIBRATIONS), MSETorch(64), OCTAV(True), MSELLMCompressor(norm=2.0)]
    ),
)


@st.composite
def schemes(draw, ids=tuple(qv.CONVENTIONS)):
    """Any scheme that some convention offers, its arithmetic changed a little."""
    convention = qv.CONVENTIONS[draw(st.sampled_from(ids))]
    names = draw(
        st.sets(
            st.sampled_from(
                ["scale_math", "zero_in_range", "narrow_range", "ties", "seed", "scale.floor", "scale.format"]
            ),
            max_size=3,
        )
    )
    for name in names:
        value = draw({"seed": st.integers(0, 2**40), "scale.floor": st.floats(0, 1)}.get(name, choices(name)))
        # Some fields need another one's value.
        with contextlib.suppress(qv.QuantVizError):
            convention = convention.replace(**{name: value})
    offer = convention.offer
    format_id = draw(st.sampled_from(sorted(offer.formats or qv.FORMATS)))
    granularity = draw(st.one_of(*(GRANULARITIES[name] for name in offer.granularities or GRANULARITIES)))
    if offer.sizes_of(format_id) and hasattr(granularity, "size"):
        granularity = dataclasses.replace(granularity, size=draw(st.sampled_from(offer.sizes_of(format_id))))
    calibration = qv.Searched() if convention.search else draw(CALIBRATIONS)
    modes = [mode for mode in qv.MODES if not problems(format_id, mode, granularity, calibration, convention)]
    assume(modes)
    return qv.Scheme(format_id, draw(st.sampled_from(modes)), granularity, calibration, convention)


def choices(name):
    return st.sampled_from(CHOICES.get(name, (None,)))


SCHEMES = schemes()
