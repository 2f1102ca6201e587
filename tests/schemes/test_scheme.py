"""Scheme: its text form, its one validity rule, its contracts."""

import itertools
import math
import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.schemes.conventions import CHOICES
from tests.helpers.offered import offered_schemes, one_of, problems, variant
from tests.helpers.schemes import SCHEMES


@settings(deadline=None, max_examples=60)
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
    scheme = one_of(value)
    assert scheme.replace(convention=convention) == scheme


@pytest.mark.slow
@pytest.mark.parametrize("convention", qv.CONVENTIONS.values(), ids=qv.CONVENTIONS)
def test_every_offered_scheme_and_a_variant_of_each_field_come_back(convention):
    """Whatever the shared steps know can be said in a link: each value of each field, one after the other."""
    for scheme in itertools.islice(offered_schemes(convention), 12):
        assert qv.Scheme.parse(str(scheme)) == scheme
    for name, allowed in CHOICES.items():
        for value in allowed:
            changed = variant(convention, name, value)
            if changed is None:
                continue
            form = str(changed)
            assert re.fullmatch(r"[A-Za-z0-9._(),=+-]+", form)
            assert qv.Convention.parse(form) == changed
            assert (form == convention.id) == (convention.get(name) == value)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        (("int4", "symmetric", qv.PerTensor(), qv.MinMax(), "torch"), "not_offered"),
        (("int8", "symmetric", qv.PerGroup(4), qv.MinMax(), "torch"), "not_offered"),
        (("nf4", "symmetric", qv.Flat(48), qv.MinMax(), "bitsandbytes"), "not_offered"),
        (("int8", "symmetric", qv.PerTensor(), qv.MinMax(), "torchao_float8"), "not_offered"),
        (("uint4", "symmetric", qv.PerGroup(32), qv.MinMax(), "hqq"), "not_offered"),
        (("float8_e4m3fn", "asymmetric", qv.PerTensor(), qv.MinMax(), "course"), "asymmetric_needs_integers"),
        (("nf4", "asymmetric", qv.PerTensor(), qv.MinMax(), "course"), "asymmetric_needs_integers"),
        (("int1", "symmetric", qv.PerTensor(), qv.MinMax(), "course"), "symmetric_needs_positive_code"),
        (
            ("int8", "asymmetric", qv.PerTensor(), qv.schemes.calibration.AbsMean(), "course"),
            "abs_mean_needs_symmetric",
        ),
    ],
)
def test_what_is_not_offered_is_refused_with_what_is(fields, key):
    (problem,) = problems(*fields)
    assert problem.key == key
    if key == "not_offered":
        offer = qv.CONVENTIONS[fields[4]].offer
        listed = {
            "format": offer.formats,
            "mode": offer.modes,
            "granularity": offer.granularities,
            "size": offer.sizes_of(fields[0]),
        }[problem.params["what"]]
        assert problem.params["offered"] == ", ".join(map(str, listed))
    assert str(problem) != problem.message("zh")


@pytest.mark.parametrize(
    "registry",
    [qv.FORMATS, qv.GRANULARITIES, qv.CALIBRATIONS, qv.CONVENTIONS, qv.RECIPES, qv.METRICS],
    ids=lambda registry: next(iter(registry)),
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


@settings(deadline=None, max_examples=60)
@given(SCHEMES, st.lists(st.integers(1, 8), min_size=1, max_size=4).map(tuple))
def test_problems_agree_with_layout(scheme, shape):
    problems = scheme.problems(shape)
    if problems:
        with pytest.raises(qv.QuantVizError):
            scheme.layout(shape)
    else:
        layout = scheme.layout(shape)
        assert math.prod(layout.view_shape) == math.prod(shape)
        assert layout.view_shape == shape or isinstance(scheme.granularity, qv.Flat)
        assert layout.grid_shape == tuple(
            -(-n // b) for n, b in zip(layout.view_shape, layout.block_shape, strict=True)
        )
        if scheme.arithmetic.tail == "refuse":
            assert layout.tail == "refuse"
            assert all(n % b == 0 for n, b in zip(layout.view_shape, layout.block_shape, strict=True))


@settings(deadline=None, max_examples=60)
@given(SCHEMES, st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple))
def test_a_fitted_scheme_fits(scheme, shape):
    fitted = scheme.fitted(shape)
    assert fitted.problems(shape) == ()
    assert (fitted == scheme) == (scheme.problems(shape) == ())
    # The notebooks, to whom a scheme falls back, have no search of their own.
    searches = scheme.search and not fitted.search
    calibration = qv.MinMax() if searches else scheme.calibration
    assert (fitted.format, fitted.mode, fitted.calibration) == (scheme.format, scheme.mode, calibration)


def test_what_an_engine_has_no_block_for_is_left_to_the_notebooks():
    groups = qv.Scheme("int4", granularity=qv.PerGroup(32), convention="gguf_signed")
    assert groups.fitted((4, 64)) is groups
    assert groups.fitted((5,)) == qv.Scheme("int4", granularity=qv.PerGroup(5))
    coarser = qv.Scheme("int4", granularity=qv.PerGroup(128), convention="litert_blockwise")
    assert coarser.fitted((4, 96)).granularity == qv.PerGroup(32)


def test_errors_survive_pickling():
    error = qv.QuantVizError("unknown_format", got="int9", known="int8")
    again = pickle.loads(pickle.dumps(error))
    assert (again.key, again.params, str(again)) == (error.key, error.params, str(error))
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("convention", "granularity"),
    [
        ("bitsandbytes", qv.Flat(64)),
        ("bitsandbytes_dynamic8", qv.Flat(4096)),
        ("torchao_mx", qv.PerGroup(32)),
        ("onnxruntime_nbits", qv.PerGroup(128)),
        ("modelopt_nvfp4", qv.PerGroup(16)),
        ("gguf", qv.PerGroup(32)),
    ],
)
def test_what_has_no_size_becomes_blocks_of_the_usual_one(convention, granularity):
    assert qv.Scheme("int8").adapted(convention, (64, 1024)).granularity == granularity


def test_a_size_goes_with_a_format():
    assert [
        problem.key for problem in problems("int8", "symmetric", qv.PerGroup(256), qv.MinMax(), "gguf")
    ] == ["not_offered"]
    assert (
        str(qv.Scheme("ternary", granularity=qv.PerGroup(256)).adapted("gguf", (4, 256)))
        == "ternary,symmetric,per_group(size=256),min_max,gguf"
    )


def test_where_no_size_fits_the_sizes_there_are_are_named():
    with pytest.raises(qv.QuantVizError) as refused:
        qv.Scheme("int4").adapted("gguf_signed", (3, 7))
    assert (refused.value.key, refused.value.params["sizes"]) == ("no_offered_size_fits", "32")


@pytest.mark.parametrize("wrong", ["per_row", qv.PerGroup])
def test_what_is_no_granularity_or_calibration_is_told_what_one_is(wrong):
    for changes, key in (
        ({"granularity": wrong}, "granularity_wanted"),
        ({"calibration": wrong}, "calibration_wanted"),
    ):
        with pytest.raises(qv.QuantVizError) as caught:
            qv.Scheme("int4", **changes)
        assert caught.value.key == key
        assert "must be an object such as qv." in str(caught.value)
        assert all(hasattr(qv, name) for name in re.findall(r"\bqv\.(\w+)", str(caught.value)))
        assert "Did you mean" not in str(caught.value)


def test_a_convention_is_taken_in_its_text_form():
    narrow = qv.CONVENTIONS["modelopt"].replace(narrow_range=True)
    for form in (str(narrow), "ModelOpt (narrow_range=true)"):
        assert qv.Scheme(convention=form).chosen == narrow
        assert qv.Scheme().replace(convention=form).chosen == narrow
        assert qv.Scheme().adapted(form, (4, 64)).chosen == narrow
    for form, key in (
        ("modelopt(narow=true)", "text_form_unknown_field"),
        ("model(x=1)", "unknown_convention"),
    ):
        with pytest.raises(qv.QuantVizError) as caught:
            qv.Scheme(convention=form)
        assert caught.value.key == key


def test_a_recipe_where_a_scheme_is_read_is_told_apart():
    for call in (lambda: qv.Scheme("q4_0"), lambda: qv.Scheme.parse("int4_g32")):
        with pytest.raises(qv.QuantVizError, match=r"qv\.RECIPES"):
            call()


def test_a_number_too_long_for_the_text_form_names_the_largest():
    with pytest.raises(qv.QuantVizError, match="at most 999999999999999999"):
        qv.Scheme.parse(f"int4,symmetric,per_group(size={10**18}),min_max,course")
