"""Codes whose scale is missing are not read, by no command and not in the Lab; values in FP8 are values."""

import json

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import quantviz as qv
from quantviz.cli import quantviz
from quantviz.errors import QuantVizError
from quantviz.sources.files import open_tensors
from quantviz.sources.layouts import quantized_weights
from quantviz.sources.local import FOLDER, open_local
from tests.helpers import layouts

NAME = "model.layers.0.mlp.down_proj.weight"
W = torch.randn(48, 64, generator=torch.Generator().manual_seed(3)) * 0.02
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INT8 = (W / W.abs().max() * 127).round().to(torch.int8)


def as_fp8(dtype, largest):
    return (W / W.abs().max() * largest).to(dtype)


def sharded(first, second):
    """A model whose second shard is missing, opened as a folder."""

    def write(folder):
        save_file(first, folder / FIRST)
        places = dict.fromkeys(first, FIRST) | dict.fromkeys(second, SECOND)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        return folder

    return write


def one_shard(first, second):
    """The same with both shards, of which one file is opened."""

    def write(folder):
        sharded(first, second)(folder)
        save_file(second, folder / SECOND)
        return folder / FIRST

    return write


def one_file(tensors, **config):
    def write(folder):
        save_file(tensors, folder / "model.safetensors")
        if config:
            (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
        return folder / "model.safetensors"

    return write


_GPTQ = layouts.gptq(NAME.removesuffix(".weight"), *layouts.rounded(W, 4, 32), 4)
_G_IDX = NAME.removesuffix("weight") + "g_idx"
FP8 = {NAME: as_fp8(torch.float8_e4m3fn, 30)}
SCALE = torch.ones(1)
KINDS = {
    "scale in a missing file": (sharded(FP8, {f"{NAME}_scale_inv": SCALE}), f"_scale_inv' is in '{SECOND}'"),
    "zero points in a missing file": (
        sharded({NAME: INT8, f"{NAME}_scale": SCALE}, {f"{NAME}_zero_point": SCALE.to(torch.int8)}),
        f"_zero_point' is in '{SECOND}', which is not here",
    ),
    "groups in a missing file": (
        sharded({name: x for name, x in _GPTQ.items() if name != _G_IDX}, {_G_IDX: _GPTQ[_G_IDX]}),
        f"g_idx' is in '{SECOND}'",
    ),
    "codes in a missing file": (
        sharded({f"{NAME}_scale_inv": torch.ones(3, 4)}, FP8),
        f"'{NAME}' is in '{SECOND}'",
    ),
    "one file of several": (
        one_shard(FP8, {f"{NAME}_scale_inv": SCALE}),
        f"_scale_inv' is in '{SECOND}', which was not read",
    ),
    "a configuration": (one_file(FP8, quant_method="fp8"), "config.json says"),
    "4 bits of bitsandbytes": (
        one_file({NAME: INT8.view(torch.uint8).reshape(-1, 1)}, quant_method="bitsandbytes"),
        "(bitsandbytes)",
    ),
    "int8 alone": (one_file({NAME: INT8}), "(int8), which in a model are codes"),
    "uint8 in a row": (one_file({NAME: INT8.view(torch.uint8).flatten()}), "(uint8)"),
    "the whole range of E4M3": (one_file({NAME: as_fp8(torch.float8_e4m3fn, 448)}), "reach 448 "),
    "the range of accelerators that end at 240": (
        one_file({NAME: as_fp8(torch.float8_e4m3fn, 240)}),
        "reach 240 ",
    ),
    "a scale that is a power of two": (one_file({NAME: as_fp8(torch.float8_e4m3fn, 288)}), "reach 288 "),
    "the whole range of E5M2": (one_file({NAME: as_fp8(torch.float8_e5m2, 57344)}), "reach 57344 "),
}


def asked(*words):
    return CliRunner().invoke(quantviz, [*map(str, words), "--format", "json"])


@pytest.mark.parametrize("kind", KINDS)
def test_codes_without_a_scale_are_read_by_nothing(tmp_path, monkeypatch, kind):
    write, phrase = KINDS[kind]
    (tmp_path / "q").mkdir()
    (tmp_path / "o").mkdir()
    opened = write(tmp_path / "q")
    save_file({NAME: W, "model.norm.weight": torch.ones(64)}, tmp_path / "o" / "model.safetensors")
    scan = asked("scan", opened, "-r", "int4_g32", "--results", tmp_path / "r", "--no-progress")
    compare = asked("compare", opened, tmp_path / "o")
    measure = asked("measure", opened, NAME, "-s", "int4_g32")
    explain = asked("explain", opened, NAME, "0,0", "-s", "int4_g32")
    for done in (scan, compare, measure, explain):
        assert phrase in done.output, done.output
    assert (scan.exit_code, compare.exit_code) == (1, 1)
    assert measure.exit_code
    assert explain.exit_code
    assert not any(row["status"] == "ok" for row in json.loads(scan.stdout))
    (row,) = (row for row in json.loads(compare.stdout) if row["tensor"] == NAME)
    assert (row["coverage"], row["sqnr_db"]) == ("not_read", None)
    # The Lab offers files alone.
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (file,) = (tmp_path / "q").glob(
        "*00001-of*" if "model-" in phrase or "of several" in kind else "*.safetensors"
    )
    catalog = open_local(f"q/{file.name}")
    with pytest.raises(QuantVizError):
        catalog.stored(NAME)


@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_values_in_fp8_are_measured(tmp_path, dtype, times):
    """Also large ones, such as those of T5's embedding."""
    x = (W * times).to(dtype)
    save_file({NAME: x}, tmp_path / "model.safetensors")
    table = qv.scan(tmp_path / "model.safetensors", ["int4_g32"], results=tmp_path / "r")
    assert list(table["status"]) == ["ok"]
    error = qv.quantize(x.float(), "int4_g32").x_hat - x.float()
    assert table["mse"][0] == pytest.approx(float(error.square().mean()))


def mlx(bits, group):
    x = W.view(48, -1, group)
    low, high = x.amin(-1), x.amax(-1)
    scale = (high - low) / (2**bits - 1)
    codes = ((x - low[..., None]) / scale[..., None]).round().view(48, 64)
    values = (codes.view(48, -1, group) * scale[..., None] + low[..., None]).view(48, 64)
    words = layouts.in_words(codes.int(), bits).view(torch.uint32)
    name = "model.language_model." + NAME.removeprefix("model.").removesuffix("weight")
    return {f"{name}weight": words, f"{name}scales": scale, f"{name}biases": low}, values


EIGHT = {"bits": 8, "group_size": 16}
TAIL = NAME.removesuffix(".weight").removeprefix("model.")


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"quantization": {f"language_model.model.{TAIL}": EIGHT}}, None),
        ({"quantization": {TAIL: EIGHT}}, None),
        ({"quantization": {"model.layers.1.mlp.down_proj": EIGHT}, "text_config": {"hidden_size": 64}}, None),
        ({"quantization": {}, "num_attention_heads": 4, "head_dim": 16}, None),
        # Two layers of that name, and lengths that are none of its own.
        ({"quantization": {f"a.{TAIL}": EIGHT, f"b.{TAIL}": {"bits": 4}}}, "layouts.mlx_several"),
        ({"quantization": {f"a.{TAIL}": EIGHT}, "hidden_size": 128}, "layouts.mlx_several"),
        ({"quantization": {f"a.{TAIL}": {"bits": 6}}, "hidden_size": 64}, None),
        ({"quantization": {"bits": 6}}, "layouts.mlx"),
    ],
)
def test_bits_of_mlx_follow_the_end_of_a_name_or_the_lengths_of_the_model(tmp_path, config, key):
    """8 bits in groups of 16 have the shapes of 4 bits in groups of 32, the settings of all others."""
    tensors, values = mlx(8, 16)
    save_file(tensors, tmp_path / "model.safetensors")
    config["quantization"] = {"bits": 4, "group_size": 32, **config["quantization"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with open_tensors(tmp_path / "model.safetensors") as catalog:
        (weight,) = quantized_weights(catalog)
        if key:
            assert weight.problem.key == key
        else:
            assert torch.equal(weight.coded(0, 48).x_hat, values)
