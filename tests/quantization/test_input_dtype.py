"""The dtype of the input is part of what is quantized: it reaches the arithmetic by every way, or a note says
that it was widened.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis.engine_comparison import compare
from quantviz.analysis.recipe_ranking import recipe_rows
from quantviz.analysis.study import Study
from quantviz.quantization.input_dtype import on_stored
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.granularity import PerChannel
from quantviz.sources.edited import Edited
from quantviz.sources.files import open_tensors
from quantviz.streaming.measuring import measure
from quantviz.tensors.lazy import HalfPrecision, InMemory, Matrix, as_stored
from tests.helpers.drawn import normal
from tests.helpers.golden_codes import half_schemes
from tests.helpers.offered import offered_schemes
from tests.helpers.replay import replay
from tests.helpers.sample import sample_of
from tests.helpers.walked import TENSORS

INT8 = qv.Scheme("int8", granularity=PerChannel(0), convention="torchao")
INT4 = qv.Scheme("int4", granularity=qv.PerGroup(32), convention="torchao")


def keys(r):
    return [note.key for note in r.notes]


def same(one, other):
    return torch.equal(one.q, other.q) and torch.equal(one.x_hat, other.x_hat)


# ---- what a half tensor becomes -------------------------------------------------------------------


def test_torchao_keeps_a_scale_of_bfloat16():
    x = (normal(4, 64) * 0.01).bfloat16()
    r = qv.quantize(x, INT8)
    scale = (x.abs().amax(1) / 127.5).float()
    assert r.qparams.scale.flatten().tolist() == scale.tolist()
    assert torch.equal(r.q, torch.round(x.float() * (1 / scale[:, None])).clamp(-128, 127).to(torch.int8))
    assert torch.equal(r.x_hat, (r.q * scale[:, None]).bfloat16().float())
    assert not same(r, qv.quantize(x.float(), INT8))
    assert str(r.scheme) == "int8,symmetric,per_channel,min_max,torchao(input_dtype=bfloat16)"
    assert keys(r) == ["input_as_engine"]


def test_fewer_bits_are_made_in_bfloat16_alone():
    x = (normal(4, 64) * 0.01).bfloat16()
    r = qv.quantize(x, INT4)
    scale = x.unflatten(1, (2, 32)).abs().amax(-1, keepdim=True) / 7.5
    q = torch.round(x.unflatten(1, (2, 32)) * (1 / scale)).clamp(-8, 7)
    assert scale.dtype == q.dtype == torch.bfloat16
    assert torch.equal(r.q, q.to(torch.int8).flatten(1))
    assert torch.equal(r.x_hat, (q * scale).float().flatten(1))


def test_float16_has_a_floor_of_its_own():
    x = (normal(4, 64) * 1e-4).half()
    assert set(qv.quantize(x, INT4).qparams.scale.flatten().tolist()) == {2.0**-14}
    assert qv.quantize(x.float(), INT4).qparams.scale.max() < 2.0**-14


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "dtype", "key"),
    [
        ("int8,symmetric,per_tensor,min_max,course", "bfloat16", "input_widened"),
        ("int4,symmetric,per_group(size=32),min_max,gguf_signed", "float16", "input_widened_by_engine"),
        ("int8,symmetric,per_tensor,min_max,torch", "bfloat16", "input_not_taken"),
        ("int8,symmetric,per_tensor,min_max,onnxruntime", "bfloat16", "input_not_taken"),
        ("int8,symmetric,per_tensor,min_max,onnxruntime", "float16", "input_as_engine"),
        ("int8,symmetric,per_tensor,min_max,torchao(input_dtype=float32)", "bfloat16", "input_widened"),
        ("float8_e4m3fn,symmetric,per_group(size=32),min_max,torchao_mx", "float16", "input_not_taken"),
        # A 16-bit code is no number of half precision: torchao casts what it cannot hold.
        ("int16,symmetric,per_tensor,min_max,torchao", "float16", "input_widened"),
    ],
)
def test_one_sentence_says_what_became_of_the_dtype(form, dtype, key):
    x = normal(4, 64).to(getattr(torch, dtype))
    found = [qv.quantize(x, form), measure(x, form), measure(as_stored(x)[0], form)]
    found += [
        measure(as_stored(x)[0], form, path="chunked"),
        Study.of(as_stored(x)[0], qv.Scheme.parse(form)),
    ]
    assert {tuple(keys(each)) for each in found} == {(key,)}
    sentences = [found[0].notes[0].message(language) for language in ("en", "zh")]
    assert all(dtype in sentence for sentence in sentences)
    if key != "input_as_engine":
        assert str(found[0].scheme) == form
        assert same(found[0], qv.quantize(x.float(), form))


def test_float32_has_no_note_and_float64_the_one_it_had():
    assert qv.quantize(normal(4, 64), INT8).notes == ()
    r = qv.quantize(normal(4, 64).double() / 3, INT8)
    assert keys(r) == ["stored_as_float32"]
    assert r.scheme == INT8


def test_rules_set_by_hand_stay():
    x = (normal(4, 64) * 0.01).bfloat16()
    changed = INT8.replace(convention=INT8.chosen.replace(**{"scale.floor": 2.0**-7}))
    r = qv.quantize(x, changed)
    assert set(r.qparams.scale.flatten().tolist()) == {2.0**-7}
    assert r.scheme.arithmetic.scale_math == "bfloat16"


# ---- named in the scheme --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_a_dtype_that_the_scheme_names_rounds_any_input(dtype):
    x, half = normal(4, 64), normal(4, 64).to(getattr(torch, dtype))
    for base in (INT8, INT4):
        named = base.replace(convention=base.chosen.replace(input_dtype=dtype))
        wanted, r = qv.quantize(half, base), qv.quantize(x, named)
        assert same(r, wanted)
        assert torch.equal(r.x, half.float())
        assert keys(r) == ["rounded_to_dtype"]
        assert keys(qv.quantize(half.float(), named)) == keys(qv.quantize(half, named)) == []
        for path in ("reference", "chunked", "fused"):
            found = measure(InMemory(x), named, path=path)
            assert found.metrics["mse"] == pytest.approx(measure(half, base).metrics["mse"], rel=1e-6)


def test_no_code_wraps_around_where_its_dtype_has_no_number_for_the_last_one():
    """float16 has no 32767: clamped there it is 32768, and as int16 -32768."""
    x = torch.linspace(-1, 1, 512)
    asked = [
        scheme
        for convention in qv.CONVENTIONS.values()
        for scheme in (*half_schemes(convention), *named_by_hand(convention))
        if scheme.format in ("int16", "uint16") and not scheme.search and scheme.granularity.single
    ]
    assert {scheme.chosen.id for scheme in asked} >= {"torch_qat", "onnxruntime", "litert"}
    for scheme in asked:
        assert bool((qv.quantize(x, scheme).q.to(torch.int64).diff() >= 0).all()), scheme


def named_by_hand(convention):
    """Schemes of 16 bits whose convention names each dtype of half precision, or computes in it."""
    for scheme in offered_schemes(convention, ("int16", "uint16")):
        for dtype in HALVES:
            for field in ("input_dtype", "apply_dtype"):
                yield scheme.replace(convention=scheme.chosen.replace(**{field: dtype}))


def test_what_half_precision_cannot_hold_is_refused():
    scheme = qv.Scheme.parse("int8,symmetric,per_tensor,min_max,torchao(input_dtype=float16)")
    with pytest.raises(qv.QuantVizError) as caught:
        qv.quantize([1.0, 1e6], scheme)
    assert caught.value.key == "input_beyond_dtype"
    assert "1000000.0" in str(caught.value)
    assert "float16" in str(caught.value)


def test_a_scheme_goes_with_the_dtype_of_its_input():
    form = str(INT8)
    assert str(INT8.on_input("bfloat16")) == form.replace("torchao", "torchao(input_dtype=bfloat16)")
    assert INT8.on_input("bfloat16").on_input("float16") == INT8.on_input("bfloat16")
    for dtype in ("float32", "float64", "int8"):
        assert INT8.on_input(dtype) is INT8
    for scheme in (INT8, INT8.on_input("float16")):
        assert qv.Scheme.parse(str(scheme)) == scheme
    assert INT8.on_input("float16").chosen.id == INT8.on_input("float16").arithmetic.id == "torchao"


# ---- how the dtype travels ------------------------------------------------------------------------


def test_any_array_of_half_precision_is_one():
    x = normal(4, 64)
    wanted = qv.quantize(x.bfloat16(), INT4)
    for given in (x.numpy().astype(ml_dtypes.bfloat16), [row.bfloat16() for row in x]):
        assert same(qv.quantize(given, INT4), wanted)
    assert same(qv.quantize(x.numpy().astype(np.float16), INT4), qv.quantize(x.half(), INT4))


@pytest.mark.parametrize("dtype", HALVES)
def test_files_keep_the_dtype(dtype, tmp_path):
    from safetensors.torch import save_file

    x = normal(8, 64).to(getattr(torch, dtype))
    save_file({"w": x, "f": normal(8, 64)}, tmp_path / "in.safetensors")
    with open_tensors(tmp_path / "in.safetensors") as tensors:
        stored = tensors.stored("w")
        assert (stored.dtype, tensors.stored("f").dtype) == (dtype, "float32")
        assert torch.equal(tensors.load("w"), x)
        assert tensors.load("w", (slice(0, 2),)).dtype == x.dtype
        assert (tensors.load("f").dtype, tensors.read("w").tensor.dtype) == (torch.float32, torch.float32)
        wanted = qv.quantize(x, INT4)
        assert same(qv.quantize(tensors.load("w"), INT4), wanted)
        assert measure(stored, INT4).metrics == measure(x, INT4).metrics
        assert measure(stored, INT4).scheme == wanted.scheme
        assert same(Study.of(stored, INT4).result, wanted)
        assert Matrix(stored).dtype == dtype


def test_views_of_a_tensor_have_its_dtype():
    x = InMemory(normal(4, 64).bfloat16().float(), dtype="bfloat16")
    assert Matrix(x).dtype == "bfloat16"
    assert HalfPrecision(x, "float16").dtype == "float16"
    assert on_stored(x, INT8)[0] is x
    assert isinstance(on_stored(x, INT8.on_input("float16"))[0], HalfPrecision)


def test_engines_are_compared_on_the_tensor_as_it_is_stored():
    x = (normal(4, 64) * 0.01).bfloat16()
    found = compare(x, qv.Scheme("int8"), ["course", "torchao", "torch"])
    assert {name: keys(r) for name, r in found.results.items()} == {
        "course": ["input_widened"],
        "torchao": ["input_as_engine"],
        "torch": ["input_not_taken"],
    }
    assert same(found.results["torchao"], qv.quantize(x, qv.Scheme("int8", convention="torchao")))


def test_recipes_are_named_as_they_were_asked():
    x = normal(4, 64).bfloat16()
    rows = recipe_rows(x, current=INT8, recipes={"own": INT8})
    assert rows[0].scheme == INT8
    assert rows[0].mse == qv.metrics(qv.quantize(x, INT8))["mse"]


def test_a_cell_that_is_set_has_the_dtype_of_its_tensor(tmp_path, monkeypatch):
    from safetensors.torch import save_file

    from quantviz.sources import LocalTensor

    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(tmp_path))
    save_file({"w": normal(4, 8).bfloat16()}, tmp_path / "half.safetensors")
    source = Edited.of(LocalTensor.of("half.safetensors", "w"), {(1, 2): 0.3})
    stored = source.open()
    assert stored.dtype == "bfloat16"
    assert stored.read((1, 2)).item() == torch.tensor(0.3).bfloat16().item() == source.tensor()[1, 2].item()


# ---- every engine ---------------------------------------------------------------------------------


def test_every_step_in_half_precision_replays(subtests):
    """The derivation names each cast to half precision and from it, without which its lines give other
    numbers.
    """
    # Building them takes longer than trying some: they are no parameters, which each process would build.
    schemes = [scheme for each in qv.CONVENTIONS.values() for scheme in half_schemes(each)]
    for scheme in sample_of(schemes, 24):
        with subtests.test(str(scheme)):
            dtype = getattr(torch, scheme.chosen.input_dtype)
            for name, place in itertools.product(("normal", "one_sided", "ties"), (7, 200)):
                x = TENSORS[name].to(dtype)
                r = qv.quantize(x, scheme.replace(convention=qv.CONVENTIONS[scheme.chosen.id]))
                assert r.scheme == scheme
                replay(r, (1, place))
            assert torch.isfinite(r.x_hat).all()


@pytest.mark.parametrize("convention", qv.CONVENTIONS.values(), ids=qv.CONVENTIONS)
def test_what_half_precision_changes_is_an_arithmetic(convention):
    for dtype, format_id in itertools.product(HALVES, convention.offer.formats or qv.FORMATS):
        found = convention.half_input_of(dtype, format_id)
        effective = convention.replace(input_dtype=dtype).in_effect(format_id)
        assert list(effective.problems()) == []
        changed = dict(found.changes) if found else {}
        assert {name: now for name, (_, now) in convention.differences(effective).items()} == {
            name: dtype if value == "input" else value for name, value in changed.items()
        }
        assert found is None or found.taken or not found.changes
