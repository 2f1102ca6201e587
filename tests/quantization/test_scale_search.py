"""Scales that an engine searches itself: llama.cpp's K-quants and IQ4, to the bit and by every path."""

import dataclasses
import itertools

import pytest
import torch

import quantviz as qv
from quantviz.analysis import study
from quantviz.analysis.study import Study
from quantviz.compiled.javascript import write_program
from quantviz.compiled.traced_values import Untraceable
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.quantization import scale_search
from quantviz.quantization.scale_search import find_by_torch
from quantviz.schemes.scale_search import WEIGHTED as SEARCHES_WITH_WEIGHTS
from quantviz.streaming import ranges, searches
from quantviz.tensors.lazy import InMemory
from tests.engines import llama_cpp
from tests.engines.compare import mismatches, ulps
from tests.engines.record_llama_cpp import WEIGHTED
from tests.helpers.drawn import normal
from tests.helpers.replay import replay

SEARCHED = tuple(name for name, scheme in qv.RECIPES.items() if scheme.search)
#: Those of llama.cpp.
NAMES = tuple(name for name in SEARCHED if qv.RECIPES[name].search.weighs_columns)
LEVELS = ("scale", "zero_point", "scale_codes", "global_scale", "zero_point_codes", "global_zero_point")


def weighted_error(x, x_hat):
    return float((llama_cpp.importance() * (x_hat - x).double().square()).sum())


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_columns_give_what_llama_cpp_gives(name):
    """Without them, `tests/test_engines.py` compares."""
    for label, x in llama_cpp.tensors():
        answer = llama_cpp.answer(x, name, weighted=True)
        r = qv.quantize(x, name, importance=llama_cpp.importance(), strict=True)
        found = mismatches(answer, r)
        assert not {part: int(where.sum()) for part, where in found.items() if bool(where.any())}, label
        assert r.scheme.calibration == qv.External()


@pytest.mark.parametrize("name", WEIGHTED)
def test_types_that_search_with_weights_alone_give_what_llama_cpp_gives(name):
    changed = 0
    for label, x in llama_cpp.tensors():
        theirs = llama_cpp.weighted_values(x, name)
        r = qv.quantize(x, name, importance=llama_cpp.importance(), strict=True)
        assert not bool((ulps(theirs, r.x_hat) > 0).any()), label
        changed += int((r.x_hat != qv.quantize(x, name, strict=True).x_hat).sum())
    assert changed > 1000


@pytest.mark.parametrize("name", WEIGHTED)
def test_such_a_search_is_the_same_by_every_path(name):
    x, weights = normal(6, 512, seed=3), llama_cpp.importance()
    r = qv.quantize(x, name, importance=weights)
    again = qv.quantize(x, name, qparams=qv.choose_qparams(x, name, importance=weights))
    assert torch.equal(again.q, r.q)
    assert torch.equal(again.x_hat, r.x_hat)
    measured = qv.measure(x, name, importance=weights, path="fused", piece=512)
    assert measured.metrics["mse"] == pytest.approx(qv.metrics(r)["mse"], rel=1e-6)
    for place in ((0, 0), (2, 300), (5, 511)):
        replay(r, place)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [*NAMES, *WEIGHTED])
def test_the_compiled_search_finds_what_the_reference_finds(name, weighted):
    """Bit for bit, of all that was recorded of llama.cpp, in more blocks than 16 and in fewer."""
    scheme, weights = qv.RECIPES[name], llama_cpp.importance()
    if scheme.search is None and not weighted:
        pytest.skip("it searches only where columns have weights")
    search = scheme.search or SEARCHES_WITH_WEIGHTS[scheme.arithmetic.weighted_search][scheme.format]
    tensors = [x for _, x in llama_cpp.tensors()]
    size = scheme.layout(tensors[0].shape).block_size
    code = searches.code_of(scheme, tensors[0].shape, weighted=weighted)
    for x in (torch.cat(tensors), torch.cat(tensors)[5:6]):
        values, own = (
            each.reshape(-1, search.run or 512 // size, size).permute(2, 1, 0) for each in (x, weights)
        )
        asked = values, own if weighted else None, search, scheme.number_format
        for found, wanted in zip(searches.find(code, *asked), find_by_torch(*asked), strict=True):
            # The smallest value of a block may be 0 or -0: what is stored of it has the same bits.
            assert torch.equal(found.nan_to_num(), wanted.nan_to_num())
            assert torch.equal(found.isnan(), wanted.isnan())


def test_a_large_tensor_is_searched_by_compiled_code(monkeypatch):
    x, scheme = InMemory(normal(4, 2**18 + 256, seed=5)), qv.RECIPES["q4_k"]
    compiled = ranges.ranges(x, scheme)
    monkeypatch.setattr(ranges, "finder", lambda *_, **__: None)
    wanted = ranges.ranges(x, scheme)
    for part in LEVELS:
        assert torch.equal(getattr(compiled, part), getattr(wanted, part))
    assert searches.finder(scheme, x.shape, weighted=False) is not None
    assert searches.finder(qv.RECIPES["int4_g128"], x.shape, weighted=False) is None


def test_infinite_values_are_left_to_the_reference(monkeypatch):
    scheme = qv.RECIPES["q6_k"]
    values = normal(1, 256, seed=2).reshape(1, 16, 16).permute(2, 1, 0).clone()
    values[3, 2, 0] = torch.inf
    asked = values, None, scheme.search, scheme.number_format
    found = searches.find(searches.code_of(scheme, (1, 256)), *asked)
    assert torch.equal(found[0].nan_to_num(), find_by_torch(*asked)[0].nan_to_num())


def test_weights_of_columns_lessen_the_weighted_error():
    x = dict(llama_cpp.tensors())["normal"]
    for name in NAMES:
        own, plain = (qv.quantize(x, name, importance=w).x_hat for w in (llama_cpp.importance(), None))
        assert weighted_error(x, own) < weighted_error(x, plain), name


def test_codes_under_a_scale_of_0_are_all_that_differs():
    """llama.cpp leaves there what its search tried last, we write code 0; no value depends on it."""
    differing = dict.fromkeys(NAMES, 0)
    for name, (_, x), weighted in itertools.product(NAMES, llama_cpp.tensors(), (False, True)):
        kept = llama_cpp.answer(x, name, weighted=weighted, searched_codes=True)
        r = qv.quantize(x, name, importance=llama_cpp.importance() if weighted else None, strict=True)
        scale = r.scale_of_cells()
        # Sums of squares beyond float32 give no scale at all; then the code is that of NaN.
        where = (kept.codes != r.q) & ~scale.isnan()
        differing[name] += int(where.sum())
        assert not (where & (scale != 0)).any(), name
        assert torch.equal(r.x_hat[where], kept.x_hat[where]), name
    # A block that is quiet beside a loud one of its run: the loud one's unit is too coarse for its scale.
    assert differing["q3_k"] > 0
    quiet = torch.cat([torch.full((1, 32), 1e-3), torch.full((1, 224), 1.0)], dim=1) * normal(1, 256).sign()
    assert qv.quantize(quiet, "q3_k").qparams.scale.flatten().tolist()[:2] == [0, 0]
    assert set(qv.quantize(quiet, "q3_k").q[0, :32].tolist()) == {0}


@pytest.mark.parametrize(
    ("name", "bits"),
    {
        **{"q2_k": 2.625, "q3_k": 3.4375, "q4_k": 4.5, "q5_k": 5.5, "q6_k": 6.5625},
        **{"iq4_nl": 4.5, "iq4_xs": 4.25},
    }.items(),
)
def test_a_weight_costs_what_it_does_in_a_file(name, bits):
    assert bits_per_element(qv.RECIPES[name], (4, 512)) == bits
    assert bits == llama_cpp.TYPES[name][1] * 8 / 256


def weights(name):
    """No weights of columns, and some where the search heeds them."""
    w = torch.rand(1024, generator=torch.Generator().manual_seed(2))
    return (None, w) if name in NAMES else (None,)


@pytest.mark.parametrize("name", SEARCHED)
def test_any_number_of_blocks_at_a_time_and_any_path_give_the_same(name, monkeypatch):
    x = normal(6, 1024, seed=4)
    if name not in NAMES:
        # The tensor's own largest magnitude counts in each row.
        x[:, 0] = 5.0
    asked = [(qv.choose_qparams(x, name, importance=w), w) for w in weights(name)]
    few = {
        key: dataclasses.replace(method, blocks_per_chunk=48) for key, method in scale_search._METHODS.items()
    }
    monkeypatch.setattr(scale_search, "_METHODS", few)
    for own, importance in asked:
        read = ranges.ranges(InMemory(x), qv.RECIPES[name], piece=2048, importance=importance)
        line = ranges.ranges(InMemory(x[0].clone()), qv.RECIPES[name], piece=512, importance=importance)
        for level in LEVELS:
            if getattr(own, level) is not None:
                assert torch.equal(getattr(own, level), getattr(read, level)), level
                assert torch.equal(getattr(own, level)[0], getattr(line, level)), level


@pytest.mark.parametrize("name", SEARCHED)
def test_measured_in_pieces_it_is_the_reference(name):
    x = normal(8, 1024, seed=5)
    for importance in weights(name):
        whole = qv.metrics(qv.quantize(x, name, importance=importance))
        found = qv.measure(InMemory(x), name, importance=importance, path="chunked", piece=2048)
        for metric in ("mse", "clipped_share", "effective_bits", "zeroed_share"):
            assert found.metrics[metric] == pytest.approx(whole[metric], rel=1e-6), metric


def test_groups_along_another_axis_are_searched_the_same():
    x = normal(512, 3, seed=6)
    scheme = qv.RECIPES["q4_k"]
    across = qv.quantize(x, scheme.replace(granularity=qv.PerGroup(32, axis=0)))
    assert torch.equal(across.x_hat, qv.quantize(x.T.contiguous(), scheme).x_hat.T)
    with pytest.raises(qv.QuantVizError) as caught:
        qv.quantize(x, across.scheme, importance=torch.ones(3))
    assert caught.value.key == "importance_not_heeded"


def test_a_derivation_begins_with_both_levels():
    r = qv.quantize(normal(2, 512), "q4_k")
    why = replay(r, (1, 300))
    assert [step.code_line.partition(" = ")[0] for step in why.steps][:6] == [
        "global_scale",
        "scale_code",
        "global_zero_point",
        "zero_point_code",
        "scale",
        "zero_point",
    ]
    assert why.step("scale_two_levels").code_line == "scale = global_scale * scale_code"
    # What was handed over as it is stored is told with its levels too; of a part they are not known.
    again = qv.quantize(r.x, "q4_k", qparams=r.qparams)
    assert torch.equal(again.q, r.q)
    assert replay(again, (1, 300)).steps == why.steps


@pytest.mark.parametrize(
    ("ask", "key"),
    [
        (lambda x: qv.quantize(x[:, :64], "q4_k"), "run_does_not_divide"),
        (lambda x: qv.quantize(x[:, :40], "iq4_nl"), "group_does_not_divide"),
        (lambda x: qv.RECIPES["q4_k"].replace(calibration=qv.MinMax()), "search_wanted"),
        (lambda x: qv.RECIPES["q4_0"].replace(calibration=qv.Searched()), "search_missing"),
        (lambda x: qv.RECIPES["q4_k"].replace(mode="symmetric"), "not_offered"),
        (lambda x: qv.quantize(x, "q4_k", importance=torch.ones(7)), "importance_shape"),
        (lambda x: qv.quantize(x, "q4_k", importance=-torch.ones(256)), "importance_negative"),
        (lambda x: qv.quantize(x, "q8_0", importance=torch.ones(256)), "importance_not_heeded"),
        (
            lambda x: qv.quantize(x, "q4_k", importance=[1.0] * 256, qparams=qv.choose_qparams(x, "q4_k")),
            "importance_and_qparams",
        ),
        (
            lambda x: qv.measure(x, "q4_k", importance=[1.0] * 256, qparams=qv.choose_qparams(x, "q4_k")),
            "importance_and_qparams",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(ask, key):
    with pytest.raises(qv.QuantVizError) as caught:
        ask(normal(2, 256))
    assert caught.value.key == key
    assert all(caught.value.message(language) for language in ("en", "zh"))


def test_a_browser_leaves_it_to_the_server():
    for name in SEARCHED:
        with pytest.raises(Untraceable):
            write_program(qv.RECIPES[name])


def test_a_large_tensor_is_studied_as_a_small_one(monkeypatch):
    x = normal(4, 1024, seed=8)
    for name in ("q4_k", "iq4_xs", "nvfp4_four_over_six"):
        whole = Study.of(InMemory(x), qv.RECIPES[name])
        monkeypatch.setattr(study, "MOST_WHOLE", 16)
        large = Study.of(InMemory(x), qv.RECIPES[name])
        monkeypatch.undo()
        assert large.result is None
        assert repr(large.explain((3, 700)).steps) == repr(whole.explain((3, 700)).steps)
        assert large.measured.metrics["mse"] == pytest.approx(whole.measured.metrics["mse"], rel=1e-6)
        assert large.largest_step == whole.largest_step
        columns = whole.scales(5)
        assert all(repr(columns[name][:5]) == repr(values) for name, values in large.scales(5).items())
        if name not in NAMES:
            continue
        handed = qv.quantize(x, name, importance=torch.ones(1024))
        assert eval(repr(handed.scheme), {"Scheme": qv.Scheme, "External": qv.External}) == handed.scheme


def test_one_block_is_blamed_without_a_range():
    x = normal(1, 32)
    x[0, 3] = 20
    assert qv.blame(x, "iq4_nl")


def test_a_block_becomes_four_or_six_by_its_error():
    """Three blocks of values that NVFP4 has: with the largest at 6, at 4, and at either."""
    six, four = [6.0, 3.0, 1.5, 0.5] * 4, [4.0, 3.0, 2.0, 1.0] * 4
    x = torch.tensor([six, [value * 1.5 for value in four], [0.0] * 16, four])
    r = qv.quantize(x, "nvfp4_four_over_six")
    assert r.qparams.scale_codes.flatten().tolist() == [256.0, 384.0, 0.0, 256.0]
    assert torch.equal(r.x_hat[:2], x[:2])
    assert r.q[2].eq(0).all()
    # Plain NVFP4 has no room for 4 · 1.5 = 6 to be 4 of something larger.
    assert not torch.equal(qv.quantize(x, "nvfp4").x_hat, x)
    for index in ((0, 1), (1, 2), (2, 5), (3, 3)):
        replay(r, index)
    with pytest.raises(qv.QuantVizError) as caught:
        qv.quantize(x, "nvfp4_four_over_six", importance=torch.ones(16))
    assert caught.value.key == "importance_not_heeded"


def test_scales_of_two_levels_of_integers():
    """QServe: a float16 scale a row for codes up to ±119, and whole scales for groups of these."""
    x = torch.tensor([[119.0, -119.0, 20.0, 5.0], [0.25, 0.5, -0.25, 0.0]])
    r = qv.quantize(x, "uint4,asymmetric,per_group(size=2),searched,qserve")
    rows = r.qparams.global_scale[:, 0]
    assert rows.tolist() == [1.0, float(torch.tensor(0.5 / 119).half())]
    assert r.qparams.scale_codes.tolist() == [[16, 1], [8, 4]]
    # x̂ is (q - z) · the group's scale · the row's.
    whole = (r.q - r.qparams.zero_point.repeat_interleave(2, 1)) * r.qparams.scale_codes.repeat_interleave(
        2, 1
    )
    assert torch.equal(r.x_hat, whole * rows[:, None])
    assert whole.abs().max() <= 127
