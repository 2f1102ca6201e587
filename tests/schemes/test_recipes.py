"""The recipes on a tensor, and which one to take."""

import functools
import math

import pytest
import torch

import quantviz as qv
from quantviz.analysis.recipe_ranking import (
    CURRENT,
    RecipeRow,
    answer,
    pareto_front,
    priced_bits,
    recipe_rows,
    row_of,
)
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.lab.scenarios import SCENARIOS
from quantviz.schemes.recipes import ALL_RECIPES, RECIPE_GROUPS, RECIPES, current_recipe
from quantviz.sources import Builtin
from quantviz.streaming.measuring import measured
from tests.helpers.drawn import normal


def row(name, bits, sqnr_db, format_id="int8"):
    return RecipeRow(name, qv.Scheme(format_id), bits=bits, sqnr_db=sqnr_db)


def test_a_row_says_what_the_metrics_say():
    x = normal(32, 256)
    rows = recipe_rows(x, current=RECIPES["int4_g32"])
    assert (
        [each.id for each in rows]
        == list(RECIPES)
        == [name for group in RECIPE_GROUPS.values() for name in group]
    )
    for each in rows:
        m = qv.metrics(qv.quantize(x, RECIPES[each.id]))
        assert (each.own_bits, each.sqnr_db, each.zeroed_share, each.mse) == (
            m["effective_bits"],
            m["sqnr_db"],
            m["zeroed_share"],
            m["mse"],
        )
        assert each.fits
        assert each.bits == bits_per_element(each.scheme, (4096, 4096))
        assert each.is_current == (each.id == "int4_g32")


def test_a_small_tensor_is_priced_as_a_large_one():
    """A scale for each column of 8 × 8 costs 2 bits, and next to nothing on a real weight."""
    for size, asked, bits in ((8, None, 4 + 16 / 4096), (8, (8, 8), 6.0), (256, None, 4 + 16 / 256)):
        x = normal(size, size)
        found = {row.id: row for row in recipe_rows(x, current=qv.Scheme(), priced_as=asked)}
        assert found["int4_per_column"].bits == bits
        assert found["int4_per_column"].own_bits == 4 + 16 / size
    # Groups that no usual layer has cost what they cost here.
    assert priced_bits(qv.Scheme("int4", granularity=qv.PerGroup(6)), (4, 6)) == pytest.approx(4 + 16 / 6)


def test_what_does_not_fit_says_why():
    rows = {each.id: each for each in recipe_rows(normal(8, 48), current=qv.Scheme())}
    for name in ("int8_g32", "int8_g128", "int4_g32", "int4_g128"):
        assert not rows[name].fits
        assert isinstance(rows[name].problem, QuantVizError)
        assert rows[name].problem.key == "group_does_not_divide"
        assert math.isnan(rows[name].mse)
    assert rows["int8_per_tensor"].fits


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_what_its_engine_offers(name):
    """Each can be used on a usual layer, and only the variant that is named so changes an engine's rules."""
    scheme = RECIPES[name]
    assert scheme.problems((4096, 4096)) == ()
    changed = qv.CONVENTIONS[scheme.arithmetic.id].differences(scheme.arithmetic)
    variants = {
        "nvfp4_one_level": {"scale.global_rule"},
        "tq1_0": {"code_bits"},
        "openvino_fq_weights": {"narrow_range"},
    }
    assert set(changed) == variants.get(name, set())


def test_bits_are_those_of_the_files_and_papers():
    """GGUF: bytes of a block over its values; MX: 8 bits for 32 values; NVFP4: 8 bits for 16, and 32 for the
    tensor.
    """
    expected = {
        "q4_0": 18 * 8 / 32,
        "q4_1": 20 * 8 / 32,
        "q5_0": 22 * 8 / 32,
        "q5_1": 24 * 8 / 32,
        "q8_0": 34 * 8 / 32,
        "gguf_mxfp4": 17 * 8 / 32,
    }
    expected |= {
        "tq1_0": 54 * 8 / 256,
        "tq2_0": 66 * 8 / 256,
        "mxfp4": 4.25,
        "mxfp6_e3m2": 6.25,
        "mxfp8_e4m3": 8.25,
        "nf4_64": 4.5,
    }
    expected |= {"nvfp4_one_level": 4.5, "nvfp4": 4.5 + 32 / (32 * 256)}
    for name, bits in expected.items():
        assert bits_per_element(RECIPES[name], (32, 256)) == bits, name


def test_one_axis_has_no_rows_and_columns():
    x = normal(256)
    rows = recipe_rows(x, current=qv.Scheme("int8", granularity=qv.PerChannel(0)))
    lines = {name for name, scheme in RECIPES.items() if isinstance(scheme.granularity, qv.PerChannel)}
    assert {row.id for row in rows if row.problem and row.problem.key == "recipe_needs_lines"} == lines
    assert not any(row.is_current for row in rows)
    assert all(math.isfinite(row.sqnr_db) for row in rows if row.fits)


def test_a_loud_column_is_best_served_by_a_scale_for_each():
    x = Builtin("loud_column").tensor()
    found = {row.id: row for row in recipe_rows(x, current=qv.Scheme())}
    assert found["int4_per_column"].sqnr_db > 20 > found["int4_per_row"].sqnr_db
    assert answer(found.values()).choice.id == "int4_per_column"


def test_a_range_too_wide_is_a_problem_of_the_row():
    rows = recipe_rows([[3e38, 0.0]], current=qv.Scheme())
    refused = [
        each for each in rows if each.id in RECIPE_GROUPS["integers"] and each.id.endswith("per_tensor")
    ]
    assert {each.problem.key for each in refused} == {"range_beyond_float32"}
    assert answer(refused) is None


def test_the_current_scheme_is_known_by_what_it_does():
    assert current_recipe(RECIPES["int8_per_row"], (4, 4)) == "int8_per_row"
    assert current_recipe(qv.Scheme("int4", granularity=qv.PerGroup(32, axis=1)), (64, 64)) == "int4_g32"
    assert current_recipe(qv.Scheme("int4", granularity=qv.PerChannel(-2)), (64, 64)) == "int4_per_row"
    # An engine's own too; where it has the scheme of another, the one that all lists have.
    assert current_recipe(ALL_RECIPES["w4a16_g128"], (64, 256)) == "w4a16_g128"
    assert current_recipe(ALL_RECIPES["ct_fp8_per_row"], (64, 64)) == "fp8_e4m3_per_row"
    assert current_recipe(qv.Scheme("int4", granularity=qv.PerGroup(32, axis=0)), (64, 64)) is None
    assert current_recipe(qv.Scheme("int4", "asymmetric"), (64, 64)) is None
    assert current_recipe(qv.Scheme("int4", calibration=qv.Percentile(99.0)), (64, 64)) is None
    # Groups as long as a row are rows; the recipe that was chosen is the one that is marked.
    assert [
        each.id for each in recipe_rows(normal(4, 32), current=RECIPES["int4_g32"]) if each.is_current
    ] == ["int4_g32"]


def test_the_row_of_a_result_at_hand():
    r = qv.quantize(normal(8, 8), qv.Scheme("int3", "asymmetric"))
    own = row_of(measured(r))
    assert (own.id, own.is_current, own.scheme) == (CURRENT, True, r.scheme)
    assert own.mse == qv.metrics(r)["mse"]


@functools.cache
def rows_of(name):
    scenario = SCENARIOS[name]
    return recipe_rows(scenario.source.tensor(), current=scenario.scheme)


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_beats_the_front(name):
    rows = rows_of(name)
    front = pareto_front(rows)
    assert [each.bits for each in front] == sorted(each.bits for each in front)
    assert [each.sqnr_db for each in front] == sorted(each.sqnr_db for each in front)
    for each in rows:
        if each.fits:
            assert any(best.bits <= each.bits and best.sqnr_db >= each.sqnr_db for best in front)
    for best in front:
        assert not any(
            each.fits
            and each.bits <= best.bits
            and each.sqnr_db >= best.sqnr_db
            and (each.bits, each.sqnr_db) != (best.bits, best.sqnr_db)
            for each in rows
        )


def test_the_answer_is_the_fewest_bits_that_reach_the_target():
    rows = (
        row("a", 8.0, 38.0),
        row("b", 4.5, 21.0, "int4"),
        row("c", 4.1, 19.0, "int4"),
        row("d", 8.5, 30.0),
    )
    found = answer(rows, 20.0)
    assert (found.choice.id, found.reached, [each.id for each in found.others]) == ("b", True, ["a"])
    assert answer(rows, 30.0).choice.id == "a"
    assert [each.id for each in answer(rows, 30.0).others] == ["b"]
    missed = answer(rows, 50.0)
    assert (missed.choice.id, missed.reached) == ("a", False)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("target", [10.0, 20.0, 40.0])
def test_the_answer_keeps_its_word(name, target):
    rows = rows_of(name)
    found = answer(rows, target)
    reaching = [each for each in rows if each.fits and each.sqnr_db >= target]
    assert found.reached == bool(reaching)
    if reaching:
        assert found.choice.bits == min(each.bits for each in reaching)
    else:
        assert found.choice.sqnr_db == max(each.sqnr_db for each in rows if each.fits)
    assert all(each.scheme.format != found.choice.scheme.format for each in found.others)


def test_no_error_at_all_is_the_best_there_is():
    rows = recipe_rows(torch.zeros(4, 4), current=qv.Scheme())
    found = answer(rows)
    assert found.choice.sqnr_db == math.inf
    assert found.choice.bits == min(each.bits for each in rows if each.sqnr_db == math.inf)


def test_no_rows_give_no_answer():
    assert answer(()) is None
    assert pareto_front(()) == ()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("awq_int4_g128", "uint4,asymmetric,per_group(size=128),min_max,awq"),
        ("gptq_int4_g128", "uint4,symmetric,per_group(size=128),min_max,gptq"),
        ("openvino_int8_sym", "int8,symmetric,per_channel(axis=0),min_max,nncf_weights"),
        ("openvino_int4_asym_g128", "uint4,asymmetric,per_group(size=128),min_max,nncf_weights"),
        ("mlx_q4_g64", "uint4,asymmetric,per_group(size=64),min_max,mlx"),
        ("coreml_int4_g32", "int4,symmetric,per_group(size=32),min_max,coreml"),
    ],
)
def test_the_weights_of_an_engine_have_a_name(name, form):
    assert RECIPES[name] == qv.Scheme.parse(form)
    x = normal(4, 128)
    assert torch.equal(qv.quantize(x, name).q, qv.quantize(x, form).q)
