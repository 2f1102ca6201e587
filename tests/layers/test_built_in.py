"""The built-in layers: their figures as written, their forms in links, and the file that holds the slices."""

import json
import re
import struct
from functools import cache
from pathlib import Path

import pytest
import torch

import quantviz as qv
from quantviz.lab.layer_sources import OwnLayer, parse_layer, write_layer
from quantviz.layers import built_in, captures
from quantviz.layers.built_in import BUILT_IN_LAYERS, BuiltInLayer
from quantviz.layers.captures import Captured, captured_in, write_capture
from quantviz.layers.layer_numbers import errors_by_moments
from quantviz.sources.builtin import Builtin
from quantviz.streaming.regions import read_whole
from quantviz.text import catalogue, languages
from tests.layers.cut_minilm import OUTPUTS

DATA = Path(built_in.__file__).parent / "data"
SLICES = [name for name, entry in BUILT_IN_LAYERS.items() if entry.stored]
COLUMNS = (
    *("id", "int4_g128, weight SQNR", "int4_g128, float inputs", "int8, per tensor, static"),
    *("… as each batch runs", "int8, per token", "int8, static, SmoothQuant α .5"),
    "int8 with one scale for W, per token",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|---|{'--:|' * (len(COLUMNS) - 1)}\n"


@cache
def rel_out(name, weights, inputs, *, static=True, alpha=None):
    layer = BuiltInLayer(name).open()
    weight = layer.weight
    tokens = layer.inputs
    if alpha is not None:
        weight = read_whole(weight)
        tokens = read_whole(tokens)
        factors = tokens.abs().amax(0) ** alpha / weight.abs().amax(0) ** (1 - alpha)
        weight = weight * factors
        tokens = tokens / factors
    return qv.layer(weight, tokens, weights, inputs, layer.bias, static=static).rel_out.held_back


def row(name):
    numbers = (
        rel_out(name, "int4_g128", None),
        rel_out(name, "int8_per_output", "int8_per_tensor"),
        rel_out(name, "int8_per_output", "int8_per_tensor", static=False),
        rel_out(name, "int8_per_output", "int8_per_token"),
        rel_out(name, "int8_per_output", "int8_per_tensor", alpha=0.5),
        rel_out(name, "int8_per_tensor", "int8_per_token"),
    )
    sqnr = qv.measure(BuiltInLayer(name).open().weight, "int4_g128").metrics["sqnr_db"]
    return f"| `{name}` | {sqnr:.1f} dB | {' | '.join(map(short, numbers))} |\n"


def short(number):
    return f"{number:.1e}".replace("e-0", "e-")


def test_the_readme_has_the_figures():
    assert HEAD + "".join(map(row, SLICES)) in (DATA / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", languages())
def test_the_sentences_have_the_figures(language):
    of = {
        "minilm_1_intermediate": [
            ("int8_per_output", "int8_per_tensor"),
            ("int8_per_output", "int8_per_token"),
        ],
        "minilm_0_output": [("int8_per_tensor", "int8_per_token"), ("int8_per_output", "int8_per_token")],
        "minilm_4_value": [("int4_g128", None), ("int8_per_output", "int8_per_token")],
        "minilm_1_attention_output": [
            ("int8_per_output", "int8_per_tensor"),
            ("int8_per_output", "int8_per_token"),
        ],
    }
    assert list(of) == SLICES
    for name, schemes in of.items():
        said = re.findall(r"[\d.]+ %", BuiltInLayer(name).look(language))
        assert said == [f"{100 * rel_out(name, *pair):.2g} %" for pair in schemes]
    loud, quiet = (
        rel_out("minilm_1_intermediate", "int8_per_output", f"int8_per_{x}") for x in ("tensor", "token")
    )
    assert round(loud / quiet) == 21
    value, output = (rel_out(name, "int4_g128", None) for name in ("minilm_4_value", "minilm_0_output"))
    assert round(value / output) == 48
    assert rel_out("loud_input", "int8_per_tensor", "int4_per_tensor") == pytest.approx(0.87, abs=0.005)


def test_each_effect_has_a_layer_where_it_helps_and_one_where_it_hurts():
    static = ("int8_per_output", "int8_per_tensor")
    assert rel_out(SLICES[0], *static, alpha=0.5) < rel_out(SLICES[0], *static) / 10
    assert rel_out("minilm_0_output", *static, alpha=0.5) > 4 * rel_out("minilm_0_output", *static)
    channels = qv.layer(*tensors("minilm_1_intermediate"), None, None).channels
    assert (channels.loud_inputs, channels.loud_weights) == ((99,), ())
    channels = qv.layer(*tensors("minilm_0_output"), None, None).channels
    assert (channels.loud_inputs, channels.loud_weights) == ((856,), (856,))
    first = read_whole(BuiltInLayer("minilm_1_intermediate").open().inputs)[:, 99].abs()
    assert int((first > 15).sum()) == 15
    assert float(first[first < 15].max()) < 3


def test_second_moments_miss_what_channels_add_up_to():
    ratios = []
    for name in SLICES:
        layer = BuiltInLayer(name).open()
        result = layer.result("int4_g128", None)
        found = errors_by_moments(layer.weight, result.channels.second_moment, "int4_g128")
        ratios.append(round(found.rel_out / result.rel_out.used, 2))
    assert ratios == [2.07, 1.02, 1.07, 1.23]


def tensors(name):
    layer = BuiltInLayer(name).open()
    return layer.weight, layer.inputs


def test_the_layers_of_literals_can_be_checked_by_hand():
    loud = qv.layer(*tensors("loud_input"), "int8_per_tensor", "int4_per_tensor")
    assert loud.inputs.quantized(slice(None)).tolist() == [[0, 0, x, 0] for x in (12, 14, -10, 12)]
    assert float(loud.cells().weights.abs().max()) < 1e-6
    assert float(loud.cells().y_hat[1, 0]) == pytest.approx(0.70)
    assert float(loud.cells().y[1, 0]) == pytest.approx(-0.66 * 0.64 - 0.93 * 0.38 + 0.70 - 0.78 * 1.27)
    loud = qv.layer(*tensors("loud_weight"), "int4_per_tensor", "int8_per_tensor")
    assert loud.weights.quantized(slice(None)).tolist() == [[0] * 4, [0, 0, 7, 0], [0] * 4, [0] * 4]
    assert not loud.cells().y_hat[:, [0, 2, 3]].any()
    assert float(loud.cells().inputs.abs().max()) < 1e-6
    saved = qv.layer(*tensors("loud_weight"), "int4_per_output", "int8_per_tensor")
    assert saved.rel_out.held_back < loud.rel_out.held_back / 3
    notebook = BuiltInLayer("course_w8a32")
    result = qv.layer(*tensors("course_w8a32"), notebook.weights, notebook.inputs)
    assert [round(value, 4) for value in result.cells().y_hat[0].tolist()] == [-2.9965, 3.8768, 9.3957]


@pytest.mark.parametrize("name", BUILT_IN_LAYERS)
def test_a_built_in_layer_is_its_form_its_shape_and_its_words(name):
    source = parse_layer(f"builtin(name={name})")
    assert source == BuiltInLayer(name)
    assert write_layer(source) == f"builtin(name={name})"
    layer = source.open()
    assert layer.shape == source.shape
    assert qv.layer(layer.weight, layer.inputs, source.weights, source.inputs, layer.bias).rel_out.used > 0
    for language in languages():
        assert source.title(language)
        assert source.look(language)


def test_every_built_in_layer_has_words_and_no_other():
    words = {key.split(".")[2] for key in catalogue("en") if key.startswith("layers.built_in.")}
    assert words == set(BUILT_IN_LAYERS)


def test_a_layer_of_two_sources_is_its_form():
    form = "layer(as_matrix(builtin(name=course_w8a32),outputs_axis=1),normal(rows=8,cols=3,seed=1))"
    own = parse_layer(form)
    assert write_layer(own) == form
    layer = own.open()
    assert layer.shape == own.shape == (8, 3, 3)
    assert torch.equal(read_whole(layer.weight), Builtin("course_w8a32").tensor().T)
    biased = parse_layer(
        "layer(normal(rows=7,cols=4),normal(rows=9,cols=4,seed=1),builtin(name=course_vector))"
    )
    assert torch.equal(biased.open().bias, Builtin("course_vector").tensor())
    assert biased.title("en") == "normal × normal"
    assert OwnLayer(own.weight, own.inputs).key == own.key


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("builtin(name=nothing)", "layer.unknown_built_in"),
        ("builtin(shape=3)", "layer.form"),
        ("normal(rows=8,cols=4)", "layer.form"),
        ("layer(normal(rows=8,cols=4))", "layer.form"),
        ("layer()", "layer.form"),
        ("", "layer.form"),
        ("layer(normal(rows=8,cols=4),normal(rows=8,cols=5))", "layer.width"),
        ("layer(normal(rows=8,cols=4),normal(rows=1,cols=4))", "layer.one_token"),
        ("layer(builtin(name=course_vector),normal(rows=8,cols=7))", "layer.weight_axes"),
        ("layer(normal(rows=8,cols=7),builtin(name=course_vector))", "layer.input_axes"),
        ("layer(normal(),normal(),normal())", "layer.bias"),
        ("layer(normal(),nothing())", "source.unknown"),
    ],
)
def test_a_wrong_form_gets_a_sentence(form, key):
    with pytest.raises(qv.QuantVizError) as refused:
        parse_layer(form)
    assert refused.value.key == key
    assert all(refused.value.message(language) for language in languages())


# ---- the file ----


def test_the_slices_are_those_of_the_script():
    assert sorted(entry.stored for entry in BUILT_IN_LAYERS.values() if entry.stored) == sorted(OUTPUTS)
    assert (DATA / "minilm.safetensors").stat().st_size <= 3_000_000
    assert "Apache License" in (DATA / "LICENSE").read_text(encoding="utf-8")


def some_layers():
    weight = torch.arange(6.0).reshape(2, 3)
    inputs = torch.arange(12.0).reshape(4, 3)
    return [
        Captured("b", "linear", weight.half(), inputs.bfloat16(), torch.tensor([1.0, 2.0]), 9),
        Captured("a.0", "conv2d", weight, inputs, None, 4),
    ]


def test_written_layers_are_read_again(tmp_path):
    path = tmp_path / "layers.safetensors"
    write_capture(path, some_layers())
    with qv.open_tensors(path) as catalog:
        found = captured_in(catalog)
        assert catalog.info("b.weight").dtype == "float16"
    for layer, again in zip(some_layers(), found, strict=True):
        assert (again.name, again.kind, again.seen, again.shape) == (
            layer.name,
            layer.kind,
            layer.seen,
            layer.shape,
        )
        assert torch.equal(read_whole(again.weight), layer.weight.float())
        assert torch.equal(read_whole(again.inputs), layer.inputs.float())
        assert (again.bias is None) == (layer.bias is None)
    from safetensors import safe_open

    with safe_open(path, "pt") as other:
        assert torch.equal(other.get_tensor("b.inputs"), some_layers()[0].inputs)
        assert other.metadata()["format"] == captures.FORMAT


BAD = [
    ("format", "other", "capture.no_layers"),
    *(
        ("layers", listed, "capture.damaged")
        for listed in (
            "", "{}", "[]", "[1]", "[" * 100_000, '[{"name": "b"}]',
            '[{"name": 3, "kind": "linear", "seen": 1}]',
            '[{"name": "b", "kind": "rnn", "seen": 1}]', '[{"name": "b", "kind": "linear", "seen": -1}]',
            '[{"name": "b", "kind": "linear", "seen": true}]',
            '[{"name": "b", "kind": "linear", "seen": 9223372036854775808}]',
            '[{"name": "b", "kind": "linear", "seen": 1}, {"name": "b", "kind": "linear", "seen": 1}]',
        )
    ),
    ("layers", '[{"name": "c", "kind": "linear", "seen": 1}]', "file.no_tensor"),
    ("layers", '[{"name": "c", "kind": "linear", "seen": 1, "catalog": 2}]', "file.no_tensor"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "key"), BAD, ids=range(len(BAD)))
def test_a_damaged_list_of_layers_gets_a_sentence(tmp_path, text, value, key):
    path = tmp_path / "layers.safetensors"
    write_capture(path, some_layers())
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    header["__metadata__"][text] = value
    written = json.dumps(header).encode()
    damaged = struct.pack("<Q", len(written)) + written + raw[8 + length :]
    with qv.open_tensors(damaged, "x.safetensors") as catalog, pytest.raises(qv.QuantVizError) as refused:
        captured_in(catalog)
    assert refused.value.key == key


def test_tensors_of_other_sizes_than_a_layers_get_a_sentence(tmp_path):
    path = tmp_path / "layers.safetensors"
    wide = Captured("b", "linear", torch.ones(2, 3), torch.ones(4, 5))
    long = Captured("b", "linear", torch.ones(2, 3), torch.ones(4, 3), torch.ones(7))
    for layer, key in ((wide, "layer.width"), (long, "layer.bias")):
        write_capture(path, [layer])
        with qv.open_tensors(path) as catalog, pytest.raises(qv.QuantVizError) as refused:
            captured_in(catalog)
        assert refused.value.key == key
    with pytest.raises(qv.QuantVizError):
        write_capture(tmp_path, some_layers())
