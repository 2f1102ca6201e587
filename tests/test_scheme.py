"""Scheme: its text form, its one validity rule, its contracts."""

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quantviz as qv

SMALL = st.integers(-4, 3)
GRANULARITIES = st.one_of(
    st.just(qv.PerTensor()),
    st.builds(qv.PerChannel, SMALL),
    st.builds(qv.PerGroup, st.integers(1, 512), SMALL),
    st.builds(qv.PerBlock, st.integers(1, 512), st.integers(1, 512)),
)
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64, min_value=-1e30, max_value=1e30)
CALIBRATIONS = st.one_of(
    st.just(qv.MinMax()),
    st.builds(qv.Percentile, st.floats(50, 100, exclude_min=True)),
    st.tuples(FINITE, FINITE).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: qv.ManualRange(*sorted(pair))),
    st.builds(qv.Given, st.floats(1e-30, 1e30)),
)
CONVENTIONS = st.builds(
    lambda **changes: qv.CONVENTIONS["course"].replace(**changes),
    scale_math=st.sampled_from(["float32", "float64"]),
    zero_in_range=st.booleans(),
    narrow_range=st.booleans(),
    **{"scale.floor": st.floats(0, 1)},
)
SCHEMES = st.builds(qv.Scheme, st.sampled_from(sorted(qv.FORMATS)), st.sampled_from(qv.MODES), GRANULARITIES, CALIBRATIONS, CONVENTIONS)


@given(SCHEMES)
def test_the_text_form_comes_back_exactly(scheme):
    form = str(scheme)
    assert re.fullmatch(r"[A-Za-z0-9._(),=+-]+", form)
    assert qv.Scheme.parse(form) == scheme
    assert hash(qv.Scheme.parse(form)) == hash(scheme)


@pytest.mark.parametrize("recipe", qv.RECIPES)
def test_every_recipe_has_a_text_form_and_can_be_pickled(recipe):
    scheme = qv.RECIPES[recipe]
    assert qv.Scheme.parse(str(scheme)) == scheme == pickle.loads(pickle.dumps(scheme))


@pytest.mark.parametrize("convention", qv.CONVENTIONS)
def test_every_convention_is_its_id_and_says_only_what_differs(convention):
    value = qv.CONVENTIONS[convention]
    assert str(value) == convention == value.id
    assert qv.Convention.parse(convention) == value
    changed = value.replace(scale_math="float32" if value.scale_math == "float64" else "float64")
    assert str(changed) == f"{convention}(scale_math={changed.scale_math})"
    assert qv.Scheme(convention=value) == qv.Scheme(convention=convention)


@pytest.mark.parametrize(
    "registry", [qv.FORMATS, qv.GRANULARITIES, qv.CALIBRATIONS, qv.CONVENTIONS, qv.RECIPES, qv.METRICS], ids=lambda registry: next(iter(registry))
)
def test_ids_are_lower_snake_and_registries_read_only(registry):
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in registry)
    with pytest.raises(TypeError):
        registry["new"] = None


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("int8", "scheme_form_parts"),
        ("int9,symmetric,per_tensor,min_max,course", "unknown_format"),
        ("int8,sideways,per_tensor,min_max,course", "unknown_mode"),
        ("int8,symmetric,per_row,min_max,course", "unknown_granularity"),
        ("int8,symmetric,per_group,min_max,course", "text_form_missing_field"),
        ("int8,symmetric,per_group(size=x),min_max,course", "text_form_bad_value"),
        ("int8,symmetric,per_group(size=4,size=4),min_max,course", "text_form_unreadable"),
        ("int8,symmetric,per_group(width=4),min_max,course", "text_form_unknown_field"),
        ("int8,symmetric,per_group(size=0),min_max,course", "field_too_small"),
        ("int8,symmetric,per_tensor,median,course", "unknown_calibration"),
        ("int8,symmetric,per_tensor,external,course", "unknown_calibration"),
        ("int8,symmetric,per_tensor,percentile(p=40.0),course", "percentile_out_of_range"),
        ("int8,symmetric,per_tensor,percentile(p=1e999),course", "text_form_bad_value"),
        ("int8,symmetric,per_tensor,manual_range(lo=2.0,hi=1.0),course", "manual_range_order"),
        ("int8,symmetric,per_tensor,given(scale=0.0),course", "scale_not_positive"),
        ("int8,symmetric,per_tensor,given(scale=1.0,zero_point=3),course", "zero_point_in_symmetric"),
        ("int8,symmetric,per_tensor,min_max,torch9", "unknown_convention"),
        ("int8,symmetric,per_tensor,min_max,course(ties=odd)", "convention_bad_value"),
        ("int8,symmetric,per_tensor,min_max,course(tie=even)", "text_form_unknown_field"),
        ("int8,symmetric,per_tensor,min_max,course,refuse2", "unknown_nonfinite"),
        ("int8,symmetric,per_tensor,min_max,__import__('os')", "text_form_unreadable"),
    ],
)
def test_bad_forms_are_refused_by_name(form, key):
    with pytest.raises(qv.QuantVizError) as caught:
        qv.Scheme.parse(form)
    assert caught.value.key == key
    assert str(caught.value)
    assert caught.value.message("zh") != str(caught.value)


@given(st.text(alphabet="abint4,()=._-+per_group9", max_size=60))
def test_reading_anything_ends_in_a_scheme_or_a_sentence(form):
    try:
        scheme = qv.Scheme.parse(form)
    except qv.QuantVizError:
        return
    assert qv.Scheme.parse(str(scheme)) == scheme


@given(SCHEMES, st.lists(st.integers(1, 8), min_size=1, max_size=4).map(tuple))
def test_problems_agree_with_layout(scheme, shape):
    problems = scheme.problems(shape)
    if problems:
        with pytest.raises(qv.QuantVizError):
            scheme.granularity.layout(shape)
    else:
        layout = scheme.granularity.layout(shape)
        assert layout.view_shape == shape
        assert tuple(g * b for g, b in zip(layout.grid_shape, layout.block_shape, strict=True)) == shape


def test_errors_survive_pickling():
    error = qv.QuantVizError("unknown_format", got="int9", known="int8")
    again = pickle.loads(pickle.dumps(error))
    assert (again.key, again.params, str(again)) == (error.key, error.params, str(error))
    assert isinstance(error, ValueError)
