"""A quantized weight in the server's folder opens as a tensor, with its file's own codes and scales."""

import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.analysis import study as studies
from quantviz.analysis.study import Study
from quantviz.sources.layouts.decoded import CODES, model_tensors
from quantviz.sources.local import LocalTensor, open_local
from quantviz.tensors.lazy import InMemory
from tests.helpers import layouts


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(tmp_path))
    return tmp_path


def gptq_file(folder):
    weight = torch.randn(64, 96, generator=torch.Generator().manual_seed(0))
    q, zero, scale = layouts.rounded(weight, 4, 32)
    zero = zero.clamp(min=1)
    # Not every group uses its first and last codes, so that scales do not follow from the values.
    q[:, :32] = q[:, :32].clamp(4, 11)
    layouts.write(folder / "x.safetensors", layouts.gptq("layer", q, zero, scale, 4))
    return q, zero, scale


def test_a_decoded_weight_is_listed_and_opens(folder):
    q, zero, scale = gptq_file(folder)
    catalog = open_local("x.safetensors")
    assert {"layer.weight", "layer.qweight"} <= set(catalog.names)
    x_hat = scale.repeat_interleave(32, 1) * (q - zero.repeat_interleave(32, 1))
    source = LocalTensor.of("x.safetensors", "layer.weight")
    assert source.shape == (64, 96)
    x = source.open()
    assert torch.equal(x.read((slice(None), slice(None))), x_hat)
    assert torch.equal(x.read((33, slice(3, 9))), x_hat[33, 3:9])
    assert torch.equal(torch.tensor(x.run(100, 5000)), x_hat.flatten()[100:5000])
    assert torch.equal(catalog.load("layer.weight", (slice(1, 40, 3), 5)), x_hat[1:40:3, 5])
    assert "uint4,asymmetric,per_group(size=32)" in str(x.notes[0])


@pytest.mark.parametrize("most_whole", [2**20, 16])
def test_under_the_files_scheme_the_codes_and_scales_are_the_files(folder, monkeypatch, most_whole):
    q, zero, scale = gptq_file(folder)
    monkeypatch.setattr(studies, "MOST_WHOLE", most_whole)
    x = LocalTensor.of("x.safetensors", "layer.weight").open()
    scheme = qv.Scheme.parse("uint4,asymmetric,per_group(size=32),min_max,course")
    study = Study.of(x, scheme)
    part = study.part((slice(0, 64), slice(0, 96)))
    assert torch.equal(part.q, q.to(torch.uint8))
    assert torch.equal(study.qparams.scale, scale)
    assert torch.equal(study.qparams.zero_point, zero)
    assert study.metrics["mse"] == 0
    assert study.of_file
    assert study.explain((3, 40)).q == q[3, 40]
    assert "those of the file" in str(study.notes[-1])
    # Min/max of the values would have given other scales to some groups.
    assert not torch.equal(
        Study.of(InMemory(x.read((slice(None), slice(None)))), scheme).qparams.scale, scale
    )
    other = Study.of(x, qv.Scheme("int4"))
    assert not other.of_file
    assert other.metrics["mse"] > 0


def test_the_name_of_a_weight_means_the_weight_and_its_codes_have_another(folder):
    tensors = layouts.fp8_blocks("a", torch.randn(160, 96), 32)
    config = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    layouts.write(folder / "x.safetensors", tensors, config)
    catalog = open_local("x.safetensors")
    assert torch.equal(catalog.load(f"a.weight{CODES}"), tensors["a.weight"].float())
    scale = tensors["a.weight_scale_inv"]
    wide = scale.repeat_interleave(32, 0).repeat_interleave(32, 1)
    x = catalog.stored("a.weight")
    assert torch.equal(x.read((slice(None), slice(None))), tensors["a.weight"].float() * wide)
    assert catalog.model_names == ("a.weight",)
    with qv.open_tensors(folder / "x.safetensors") as file:
        assert model_tensors(file).tensors_of("a.weight") == ("a.weight", "a.weight_scale_inv")
    assert catalog.stored_bytes("a.weight") == 160 * 96 + 4 * 5 * 3
    # Links have it that were made when codes kept that name.
    assert torch.equal(catalog.load("a.weight:decoded"), catalog.load("a.weight"))
    study = Study.of(x, qv.Scheme("float8_e4m3fn", granularity=qv.PerBlock(32, 32)))
    assert torch.equal(study.part((slice(0, 160), slice(0, 96))).q, tensors["a.weight"].view(torch.uint8))


def test_a_weight_that_cannot_be_decoded_says_why_and_is_not_taken_for_its_codes(folder):
    tensors = layouts.fp8_blocks("a", torch.randn(160, 96), 32)
    layouts.write(folder / "x.safetensors", tensors, {"quant_method": "fp8", "weight_block_size": [48, 48]})
    catalog = open_local("x.safetensors")
    assert catalog.info("a.weight").problem.key == "layouts.scales"
    with pytest.raises(qv.QuantVizError, match="scales of shape"):
        catalog.load("a.weight")
    assert catalog.load(f"a.weight{CODES}").shape == (160, 96)


def test_columns_of_act_order_are_in_their_own_order(folder):
    weight = torch.randn(64, 96, generator=torch.Generator().manual_seed(0))
    q, zero, scale = layouts.rounded(weight, 4, 32)
    g_idx = torch.arange(96).roll(7) // 32
    layouts.write(
        folder / "x.safetensors", layouts.gptq("layer", q, zero.clamp(min=1), scale, 4, g_idx=g_idx)
    )
    x = open_local("x.safetensors").stored("layer.weight")
    assert torch.equal(
        x.read((slice(None), slice(None))), scale[:, g_idx] * (q - zero.clamp(min=1)[:, g_idx])
    )
    assert x.own_scales(qv.Scheme.parse("uint4,asymmetric,per_group(size=32),min_max,course")) is None
    assert "not neighbours" in str(x.notes[0])


def test_a_file_without_quantized_weights_is_as_it_was(folder):
    path = layouts.write(folder / "x.safetensors", {"a.weight": torch.zeros(2, 2)})
    (folder / "config.json").write_text("no json")
    with qv.open_tensors(path) as catalog:
        assert model_tensors(catalog).names == catalog.names


def test_under_a_damaged_configuration_a_weight_says_that_it_is_damaged(folder):
    gptq_file(folder)
    (folder / "config.json").write_text("{")
    problem = open_local("x.safetensors").info("layer.weight").problem
    assert "config.json" in str(problem)


def test_a_tensor_without_a_name_is_no_decoded_weight(tmp_path):
    save_file({"": torch.ones(4, 4)}, tmp_path / "x.safetensors")
    with qv.open_tensors(tmp_path / "x.safetensors") as opened:
        model = model_tensors(opened)
        assert model.names == ("",)
        assert model.stored("").read((0, slice(None))).tolist() == [1.0] * 4
        assert model.load("").tolist() == model.cut("").tolist() == [[1.0] * 4] * 4
        assert model.raw("") is not None
