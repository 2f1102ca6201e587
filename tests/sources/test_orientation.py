"""Which axis of a weight has its outputs: told by the model, the bias, names and shapes, or by the user. The
same numbers follow by every way in, and a link keeps it.
"""

import itertools
import json

import numpy
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.cli import quantviz
from quantviz.cli.lab_source import lab_source
from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.schemes.orientation import Orientation
from quantviz.sources import AsMatrix, LocalTensor, Normal, parse_source, with_cell
from quantviz.sources.files import Limits, open_tensors
from quantviz.sources.layouts.decoded import model_tensors
from quantviz.sources.local import FOLDER
from quantviz.sources.matrix import as_opened
from quantviz.sources.typed import Typed
from quantviz.tensors import lazy
from quantviz.tensors.lazy import InMemory, Oriented, as_matrix

GENERATOR = torch.Generator().manual_seed(0)


def told(tensors, config=None, tmp_path=None):
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    data = safetensors.torch.save({name: torch.zeros(shape) for name, shape in tensors.items()})
    if tmp_path is None:
        with open_tensors(data, "m.safetensors") as catalog:
            return {name: catalog.orientation(name) for name in tensors}
    (tmp_path / "m.safetensors").write_bytes(data)
    with open_tensors(tmp_path / "m.safetensors") as catalog:
        return {name: catalog.orientation(name) for name in tensors}


# ---- what tells ---------------------------------------------------------------------------------

CONV1D = {"h.0.attn.c_attn.weight": (8, 24), "h.0.attn.c_proj.weight": (8, 8), "h.0.mlp.c_fc.weight": (8, 32)}


def test_the_model_type_tells(tmp_path):
    found = told(CONV1D | {"wte.weight": (50, 8)}, {"model_type": "gpt2"}, tmp_path)
    assert {found[name] for name in CONV1D} == {Orientation((1,), "config")}
    assert found["wte.weight"] == Orientation((0,), "convention")


@pytest.mark.parametrize("axis", [0, 1])
def test_linear_layers_may_have_such_names(axis):
    """nanoGPT's are the other way round: c_attn makes queries, keys and values; a square one is like it."""
    turned = {name: shape[:: 1 if axis else -1] for name, shape in CONV1D.items()}
    found = told(turned)
    assert {each.outputs for each in found.values()} == {(axis,)}
    # Without one that can tell, axis 0 is what PyTorch's layers have.
    assert told({"h.0.attn.c_proj.weight": (8, 8)})["h.0.attn.c_proj.weight"].outputs == (0,)


def test_a_bias_has_a_value_for_each_output():
    found = told(
        {"a.weight": (8, 24), "a.bias": (24,), "b.weight": (24, 8), "b.bias": (24,), "c.weight": (8, 4)}
    )
    assert found["a.weight"] == Orientation((1,), "bias")
    assert found["b.weight"] == Orientation((0,), "bias")
    assert found["c.weight"] == Orientation((0,), "convention")


@pytest.mark.parametrize(
    ("name", "shape", "outputs"),
    [
        ("params/Dense_0/kernel", (8, 24), (1,)),
        ("model.layers.0.q_proj.kernel", (8, 24), (1,)),
        ("dense/kernel:0", (8, 24), (1,)),
        ("conv/kernel", (3, 3, 4, 16), (3,)),
        ("conv1d/kernel", (3, 4, 16), (2,)),
        ("gru/recurrent_kernel", (8, 24), (1,)),
        ("the_kernel", (8, 24), (0,)),
        ("kernel_size.weight", (8, 24), (0,)),
    ],
)
def test_keras_and_jax_call_it_a_kernel(name, shape, outputs):
    found = told({name: shape})[name]
    assert found.outputs == outputs
    assert found.by == ("names" if outputs != (0,) else "guess" if name == "the_kernel" else "convention")


def test_heads_of_attention_are_two_axes_of_outputs():
    found = told({"q/kernel": (16, 4, 8), "q/bias": (4, 8), "o/kernel": (4, 8, 16), "o/bias": (16,)})
    assert (found["q/kernel"].outputs, found["o/kernel"].outputs) == ((1, 2), (2,))
    assert found["q/kernel"].seen((16, 4, 8)) == (32, 16)


def test_stacked_experts_tell_by_their_shapes():
    gate_up, down = "l.0.mlp.experts.gate_up_proj", "l.0.mlp.experts.down_proj"
    assert told({gate_up: (4, 16, 48), down: (4, 24, 16)})[down] == Orientation((0, 2), "shapes")
    assert told({gate_up: (4, 48, 16), down: (4, 16, 24)})[gate_up] == Orientation((0, 1), "shapes")
    assert told({gate_up: (4, 48, 16)})[gate_up].by == "guess"


def test_what_nothing_tells_is_a_guess_and_said(tmp_path):
    numpy.save(tmp_path / "w.npy", numpy.zeros((4, 64), "f4"))
    with open_tensors(tmp_path / "w.npy") as catalog:
        assert catalog.orientation("w") == Orientation((0,), "guess")
    done = CliRunner().invoke(quantviz, ["measure", str(tmp_path / "w.npy"), "-s", "int8_per_row"])
    assert "--outputs-axis 1" in done.stderr
    done = CliRunner().invoke(
        quantviz, ["measure", str(tmp_path / "w.npy"), "-s", "int8_per_row", "--outputs-axis", "0"]
    )
    assert "--outputs-axis" not in done.stderr


# ---- the view -----------------------------------------------------------------------------------

SHAPES = [
    ((6, 40), (1,)),
    ((3, 2, 5, 8), (3,)),
    ((3, 4, 10), (0, 2)),
    ((3, 4, 10), (1, 2)),
    ((3, 4, 10), (0, 1)),
]


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("shape", "outputs"), SHAPES)
def test_the_view_has_the_values_of_the_turned_tensor(shape, outputs, small, monkeypatch):
    monkeypatch.setattr(lazy, "_MOST_TRANSPOSED_WHOLE", 2**22 if small else 0)
    x = torch.randn(shape, generator=GENERATOR)
    rest = [axis for axis in range(len(shape)) if axis not in outputs]
    expected = x.permute(*outputs, *rest).flatten(0, len(outputs) - 1).flatten(1)
    axes = outputs if len(outputs) > 1 else outputs[0]
    assert torch.equal(as_matrix(x, axes), expected)
    seen = as_matrix(InMemory(x), axes)
    assert seen.shape == tuple(expected.shape)
    rows, columns = seen.shape
    for start, stop in ((0, rows * columns), (columns + 1, 3 * columns - 2), (5, 6)):
        assert torch.equal(torch.from_numpy(seen.run(start, stop).copy()), expected.flatten()[start:stop])
    for window in ((slice(1, rows), slice(1, 3)), (2, slice(None)), (slice(0, rows, 2), 1), (1, 1)):
        index = tuple(
            part if isinstance(part, int) else slice(*part.indices(n))
            for part, n in zip(window, seen.shape, strict=True)
        )
        assert torch.equal(seen.read(index), expected[window])
    orientation = Orientation(outputs)
    for cell in itertools.product(range(0, rows, 3), range(0, columns, 3)):
        place = orientation.place_of(cell, shape)
        assert x[place] == expected[cell]
        assert orientation.cell_of(place, shape) == cell


def test_a_turned_tensor_of_a_file_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(lazy, "_MOST_TRANSPOSED_WHOLE", 0)
    x = torch.randn(64, 48, generator=GENERATOR).bfloat16()
    safetensors.torch.save_file({"x": x}, tmp_path / "x.safetensors")
    with open_tensors(tmp_path / "x.safetensors", limits=Limits(elements=1000)) as catalog:
        seen = Oriented(catalog.stored("x"), Orientation((1,)))
    assert seen.dtype == "bfloat16"
    found = numpy.concatenate([seen.run(at, at + 100) for at in range(0, 3000, 100)])
    assert numpy.array_equal(found, x.float().T.contiguous().numpy().ravel()[:3000])


@pytest.mark.parametrize("axis", [2, -3, True, "1", (0, 1), (1, 1), ()])
def test_what_is_no_axis_of_outputs_is_said(axis):
    with pytest.raises(QuantVizError) as caught:
        as_matrix(torch.zeros(3, 4), axis)
    assert caught.value.key == "as_matrix_outputs"


# ---- links --------------------------------------------------------------------------------------


def test_a_link_keeps_the_outputs_and_old_links_mean_what_they_meant():
    x = Typed(tuple(range(24)), (2, 3, 4))
    for outputs in ((1,), (2,), (0, 2)):
        source = AsMatrix(x, outputs)
        assert parse_source(source.link_text()) == source
        assert torch.equal(source.tensor(), as_matrix(x.tensor(), outputs))
        assert source.place_of(source.cell_of((1, 2, 3))) == (1, 2, 3)
        code = source.code(False, "en")
        scope = {"qv": qv}
        exec("\n".join(code), scope)
        assert torch.equal(scope["x"], source.tensor())
    old = f"as_matrix({x.link_text()})"
    assert parse_source(old) == AsMatrix(x)
    assert AsMatrix(x).link_text() == old
    assert len({AsMatrix(x, outputs).key for outputs in ((0,), (1,), (2,), (0, 2))}) == 4


@pytest.mark.parametrize("form", ["9", "x", "", "0.1.2.3", "1)", "1,2"])
def test_a_wrong_axis_in_a_link_is_said(form):
    text = Typed((1.0, 2.0), (1, 2)).link_text()
    with pytest.raises(QuantVizError):
        parse_source(f"as_matrix({text},outputs_axis={form})")


def test_a_view_of_a_view_is_refused():
    """Its cells would be others than said, and a link of 140 of them held the server for seconds."""
    text = Normal(rows=8, cols=4).link_text()
    for count in (2, 140):
        with pytest.raises(QuantVizError) as caught:
            parse_source("as_matrix(" * count + text + ",outputs_axis=1)" * count)
        assert caught.value.key == "source.as_matrix"


def test_a_cell_set_by_hand_is_the_tensors_own():
    x = Normal(rows=8, cols=4)
    edited = with_cell(AsMatrix(x, (1,)), (2, 5), 9.0)
    assert edited.shape == (4, 8)
    assert edited.tensor()[2, 5] == 9
    assert x.tensor()[5, 2] != 9
    assert edited.original.tensor()[5, 2] == 9
    assert edited.unedited == AsMatrix(x, (1,))
    assert dict(edited.edits) == {(2, 5): 9.0}
    assert parse_source(edited.link_text()) == edited
    assert as_opened(x, Orientation((1,))) == AsMatrix(x, (1,))
    assert as_opened(x, Orientation((3,))) == x


# ---- every way in gives the same numbers ----------------------------------------------------------


@pytest.fixture
def gpt2(tmp_path, monkeypatch):
    """A model whose layers are Conv1D with loud inputs."""
    monkeypatch.delenv(FOLDER, raising=False)
    loud = torch.exp(torch.randn(128, 1, generator=GENERATOR))
    weights = {
        "h.0.attn.c_attn.weight": torch.randn(128, 384, generator=GENERATOR) * loud,
        "h.0.attn.c_proj.weight": torch.randn(128, 128, generator=GENERATOR) * loud,
    }
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    return tmp_path / "model.safetensors", weights


def sqnr(x, scheme):
    return qv.metrics(qv.quantize(x, qv.RECIPES[scheme]))["sqnr_db"]


def cli(*arguments):
    done = CliRunner().invoke(quantviz, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["int4_g128", "int8_per_row"])
@pytest.mark.parametrize("name", ["h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight"])
def test_scan_measure_explain_and_the_lab_take_the_outputs_for_rows(
    gpt2, name, scheme, tmp_path, monkeypatch
):
    path, weights = gpt2
    right, wrong = sqnr(weights[name].T.contiguous(), scheme), sqnr(weights[name], scheme)
    assert abs(right - wrong) > 0.5
    table = qv.scan(path, [scheme], results=tmp_path / "r.sqlite")
    row = table[table.tensor == name].iloc[0]
    assert row.sqnr_db == pytest.approx(right, abs=1e-6)
    assert row["shape"] == tuple(weights[name].shape)
    # The place of the largest error is the tensor's own.
    x = weights[name]
    error = (qv.quantize(x.T.contiguous(), qv.RECIPES[scheme]).error.T).abs()
    assert float(error[row.max_error_at]) == pytest.approx(float(error.max()))
    (measured,) = json.loads(cli("measure", path, name, "-s", scheme, "--format", "json").stdout)
    assert measured["sqnr_db"] == pytest.approx(right, abs=1e-6)
    (as_stored,) = json.loads(
        cli("measure", path, name, "-s", scheme, "--outputs-axis", "0", "--format", "json").stdout
    )
    assert as_stored["sqnr_db"] == pytest.approx(wrong, abs=1e-6)
    why = json.loads(cli("explain", path, name, "100,3", "-s", scheme, "--format", "json").stdout)
    assert why["x"] == pytest.approx(float(x[3, 100]))
    source, folder = lab_source(str(path), name)
    assert isinstance(source, AsMatrix)
    monkeypatch.setenv(FOLDER, folder)
    state, problems = LabState.read({"t": source.link_text(), "s": str(qv.RECIPES[scheme])})
    assert not problems
    assert sqnr(state.source.tensor(), scheme) == pytest.approx(right, abs=1e-6)
    # A link that was made before shows it as it is stored.
    plain = LocalTensor(path.name, name, tuple(x.shape))
    assert torch.equal(parse_source(plain.link_text()).tensor(), x)


def test_what_was_measured_the_other_way_round_is_not_taken_for_it(gpt2, tmp_path):
    path, _ = gpt2
    (path.parent / "config.json").unlink()
    found = {}
    for model_type in ("gpt2", "nano"):
        (path.parent / "config.json").write_text(json.dumps({"model_type": model_type}))
        # c_attn tells for both where the model does not, so the square one alone is compared.
        name = "h.0.attn.c_proj.weight"
        safetensors.torch.save_file({name: gpt2[1][name]}, path)
        found[model_type] = qv.scan(path, ["int8_per_row"], results=tmp_path / "r.sqlite").sqnr_db[0]
    assert found["gpt2"] == pytest.approx(sqnr(gpt2[1][name].T.contiguous(), "int8_per_row"), abs=1e-6)
    assert found["nano"] == pytest.approx(sqnr(gpt2[1][name], "int8_per_row"), abs=1e-6)


@pytest.mark.slow
def test_an_audit_compares_with_the_original_turned(gpt2, tmp_path):
    path, weights = gpt2
    tensors = {}
    for name, x in weights.items():
        turned = x.T.contiguous()
        scale = turned.abs().amax(1, keepdim=True) / 127
        tensors[name] = (turned / scale).round().to(torch.int8)
        tensors[f"{name}_scale"] = scale
    (tmp_path / "quantized").mkdir()
    safetensors.torch.save_file(tensors, tmp_path / "quantized" / "model.safetensors")
    found = qv.audit(tmp_path / "quantized", path)
    for each in found.tensors:
        assert each.status == "ok", each
        right = sqnr(weights[each.original].T.contiguous(), "int8_per_row")
        assert each.metrics["sqnr_db"] == pytest.approx(right, abs=0.05)
        assert "audit.turned_inputs" in [note.key for note in each.done]


def test_decoded_weights_are_outputs_by_inputs(gpt2):
    path, _ = gpt2
    with open_tensors(path) as catalog:
        model = model_tensors(catalog)
        assert model.orientation("h.0.attn.c_attn.weight") == Orientation((1,), "config")


# ---- what somebody says ---------------------------------------------------------------------------


@pytest.fixture
def untold(tmp_path):
    """Weights in a .npz, of which nothing tells which axis has the outputs."""
    x = torch.randn(128, 64, generator=GENERATOR) * torch.exp(torch.randn(128, 1, generator=GENERATOR))
    numpy.savez(tmp_path / "w.npz", first=x.numpy(), second=x.numpy() + 1, bias=numpy.zeros(64, "f4"))
    return tmp_path / "w.npz", {"first": x, "second": x + 1}


def test_a_scan_takes_the_axis_by_name_and_says_what_it_guessed(untold, tmp_path):
    path, weights = untold

    def found(**options):
        table = qv.scan(path, ["int8_per_row"], results=tmp_path / "r.sqlite", **options)
        return {row.tensor: row.sqnr_db for row in table.itertuples()}, table.attrs["notes"]

    as_stored = {name: sqnr(x, "int8_per_row") for name, x in weights.items()}
    turned = {name: sqnr(x.T.contiguous(), "int8_per_row") for name, x in weights.items()}
    numbers, notes = found()
    assert {name: numbers[name] for name in weights} == pytest.approx(as_stored, abs=1e-5)
    assert any("Of 2 weights nothing tells" in note for note in notes)
    numbers, notes = found(outputs_axis=1)
    assert {name: numbers[name] for name in weights} == pytest.approx(turned, abs=1e-5)
    assert any("as you said" in note for note in notes)
    numbers, notes = found(outputs_axis={"sec*": 1})
    assert numbers["first"] == pytest.approx(as_stored["first"], abs=1e-5)
    assert numbers["second"] == pytest.approx(turned["second"], abs=1e-5)
    assert any("Of 1 weight nothing tells" in note for note in notes)
    # What was said once is not kept.
    assert found()[0]["second"] == pytest.approx(as_stored["second"], abs=1e-5)


def test_the_command_takes_the_axis_too(untold, tmp_path):
    path, weights = untold
    results = ("--results", tmp_path / "r.sqlite", "--format", "jsonl")
    done = cli(
        "scan", path, "-r", "int8_per_row", "--outputs-axis", "fir*=1", "--outputs-axis", "second=0", *results
    )
    rows = {row["tensor"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows["first"]["sqnr_db"] == pytest.approx(
        sqnr(weights["first"].T.contiguous(), "int8_per_row"), abs=1e-5
    )
    assert rows["second"]["sqnr_db"] == pytest.approx(sqnr(weights["second"], "int8_per_row"), abs=1e-5)
    assert "nothing tells" not in done.stderr


@pytest.mark.parametrize("form", ["x", "first=", "=1", "first=9", "0.1.2.3"])
def test_the_command_says_what_is_no_axis(untold, form):
    done = CliRunner().invoke(
        quantviz, ["scan", str(untold[0]), "-r", "int8_per_row", "--outputs-axis", form]
    )
    assert done.exit_code == 2
    assert "axis of outputs" in done.stderr


@pytest.mark.parametrize(
    ("named", "key"),
    [
        ({"third": 1}, "outputs_unknown"),
        (5, "outputs_axis"),
        (-1, "outputs_axis"),
        ("1", "outputs_axis"),
        ({"first": ()}, "outputs_axis"),
        (True, "outputs_axis"),
    ],
)
def test_a_wrong_axis_is_said(untold, named, key, tmp_path):
    with pytest.raises(QuantVizError) as caught:
        qv.scan(untold[0], ["int8_per_row"], results=tmp_path / "r.sqlite", outputs_axis=named)
    assert caught.value.key == f"checkpoint.{key}"


def test_an_audit_takes_the_axis_of_the_original(tmp_path):
    """A square weight, of which no shape tells."""
    x = torch.randn(64, 64, generator=GENERATOR)
    numpy.savez(tmp_path / "original.npz", **{"a.w": x.numpy()})
    scale = x.T.abs().amax(1, keepdim=True) / 127
    codes = (x.T / scale).round().to(torch.int8).contiguous()
    safetensors.torch.save_file({"a.w.weight": codes, "a.w.weight_scale": scale}, tmp_path / "q.safetensors")
    numpy.savez(tmp_path / "original.npz", **{"a.w.weight": x.numpy()})
    found = qv.audit(tmp_path / "q.safetensors", tmp_path / "original.npz", outputs_axis=1)
    (each,) = found.tensors
    assert each.status == "ok"
    assert each.metrics["sqnr_db"] == pytest.approx(sqnr(x.T.contiguous(), "int8_per_row"), abs=0.05)
