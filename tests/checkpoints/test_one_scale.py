"""Siblings that engines multiply in one kernel under one scale: what each loses, by arithmetic of its own."""

import json

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import quantviz as qv
from quantviz.cli import quantviz

LEVELS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
DENSE = "model.layers.0.mlp."
EXPERT = "model.layers.0.mlp.experts.3."
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4"}


def siblings(*names_and_sizes):
    random = torch.Generator().manual_seed(3)
    return {name: torch.randn(32, 64, generator=random) * size for name, size in names_and_sizes}


def db(x, x_hat):
    return float(10 * torch.log10(x.double().square().sum() / (x_hat.double() - x).square().sum()))


def nvfp4(weight, scale):
    blocks = weight.view(len(weight), -1, 16)
    of_blocks = (blocks.abs().amax(-1) / 6 / scale).to(torch.float8_e4m3fn)
    shares = blocks / (of_blocks.float() * scale).unsqueeze(-1)
    index = (shares.abs().unsqueeze(-1) - LEVELS).abs().argmin(-1)
    codes = (index + 8 * (shares < 0)).view(weight.shape).to(torch.uint8)
    values = (LEVELS[index] * shares.sign() * of_blocks.float().unsqueeze(-1)).view(weight.shape)
    return codes[:, ::2] | (codes[:, 1::2] << 4), of_blocks, values


def written(folder, weights, tensors, quantization):
    for part in ("q", "original"):
        (folder / part).mkdir()
    save_file(tensors, folder / "q" / "model.safetensors")
    (folder / "q" / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    save_file(weights, folder / "original" / "model.safetensors")
    return folder / "q", folder / "original"


def nvfp4_files(folder, weights, layout, scales):
    tensors = {}
    for name, weight in weights.items():
        base = name.removesuffix(".weight")
        codes, of_blocks, _ = nvfp4(weight, scales[name])
        if layout == "modelopt":
            tensors |= {name: codes, f"{name}_scale": of_blocks, f"{name}_scale_2": scales[name].clone()}
        else:
            tensors |= {f"{base}.weight_packed": codes, f"{name}_scale": of_blocks}
            tensors[f"{base}.weight_global_scale"] = (1 / scales[name]).reshape(1)
    return written(folder, weights, tensors, MODELOPT if layout == "modelopt" else {})


def fp8_files(folder, weights):
    tensors = {}
    for name, weight in weights.items():
        scale = weight.abs().max() / 448
        tensors |= {name: (weight / scale).to(torch.float8_e4m3fn), f"{name}_scale": scale.reshape(1)}
    return written(folder, weights, tensors, {})


def audited(files):
    audit = qv.audit(*files)
    return audit, {each.tensor: each for each in audit.tensors}


@pytest.mark.parametrize("layout", ["modelopt", "compressed_tensors"])
@pytest.mark.parametrize("prefix", [DENSE, EXPERT])
def test_one_global_scale_stands_for_those_of_all(tmp_path, layout, prefix):
    gate, up = f"{prefix}gate_proj.weight", f"{prefix}up_proj.weight"
    weights = siblings((gate, 0.02), (up, 0.11))
    scales = {name: weight.abs().max() / (448 * 6) for name, weight in weights.items()}
    audit, found = audited(nvfp4_files(tmp_path, weights, layout, scales))
    # Experts take the first one; of others the largest number in the file, by which one layout divides.
    taken = up if prefix == DENSE and layout == "modelopt" else gate
    harmed = gate if taken == up else up
    expected = db(weights[harmed], nvfp4(weights[harmed], scales[harmed])[2] * scales[taken])
    assert found[harmed].fused_sqnr_db == pytest.approx(expected, abs=1e-4)
    assert expected < 2 < 20 < found[harmed].metrics["sqnr_db"]
    assert found[taken].fused_sqnr_db is None  # it has the file's own values
    assert any(f"{harmed} has {expected:.1f} dB" in sentence for sentence in audit.messages())
    assert audit.is_complete
    assert not audit.is_sound


def test_fp8_is_quantized_again_at_the_largest_scale(tmp_path):
    prefix = "model.layers.0.self_attn."
    q, k, v = (f"{prefix}{each}_proj.weight" for each in "qkv")
    weights = siblings((q, 0.05), (k, 0.017), (v, 0.003))
    files = fp8_files(tmp_path, weights)
    audit, found = audited(files)
    largest = weights[q].abs().max() / 448
    lost = {}
    for name, weight in weights.items():
        scale = weight.abs().max() / 448
        half = ((weight / scale).to(torch.float8_e4m3fn).to(torch.float16) * scale.half()).float()
        again = (half / largest).to(torch.float8_e4m3fn).float() * largest
        expected = db(weight, again)
        lost[name] = db((weight / scale).to(torch.float8_e4m3fn).float() * scale, again)
        assert found[name].fused_sqnr_db == pytest.approx(expected, abs=0.01)
    assert found[k].metrics["sqnr_db"] - found[k].fused_sqnr_db > 2
    assert audit.is_sound  # it loses some decibels, not the weight
    assert any("quantize them again at the largest scale" in sentence for sentence in audit.messages())
    notes = qv.scan(files[0], "int8_per_row", results=tmp_path / "r.sqlite").attrs["notes"]
    worst = min(lost, key=lost.__getitem__)
    assert any("in 1 group" in note and f"{worst} has {lost[worst]:.1f} dB" in note for note in notes)
    worst = min(found.values(), key=lambda each: each.fused_sqnr_db)
    for bound, status in ((worst.fused_sqnr_db + 0.1, 1), (worst.fused_sqnr_db - 0.1, 0)):
        command = ["compare", *map(str, files), "--results", str(tmp_path / "c"), "--fail-under", str(bound)]
        done = CliRunner().invoke(quantviz, command)
        assert done.exit_code == status, done.output
        assert ("the SQNR is" in done.stderr) == bool(status)


def test_siblings_of_one_scale_and_weights_of_rows_lose_nothing(tmp_path):
    gate, up = f"{DENSE}gate_proj.weight", f"{DENSE}up_proj.weight"
    weights = siblings((gate, 0.02), (up, 0.11))
    one = weights[up].abs().max() / (448 * 6)
    audit, found = audited(nvfp4_files(tmp_path, weights, "modelopt", {gate: one, up: one}))
    assert all(each.fused_sqnr_db is None for each in found.values())
    assert not any("siblings" in sentence.casefold() for sentence in audit.messages())
    notes = qv.scan(tmp_path / "q", "int8_per_row", results=tmp_path / "r.sqlite").attrs["notes"]
    assert not any("siblings" in note.casefold() for note in notes)


def test_a_siblings_new_scale_is_not_overlooked(tmp_path):
    gate, up = f"{EXPERT}gate_proj.weight", f"{EXPERT}up_proj.weight"
    weights = siblings((gate, 0.11), (up, 0.11))
    one = weights[up].abs().max() / (448 * 6)
    for folder, scale in (("a", one), ("b", one / 2)):
        (tmp_path / folder).mkdir()
        nvfp4_files(tmp_path / folder, weights, "modelopt", {gate: scale, up: one})
    results = tmp_path / "r.sqlite"
    audit = qv.audit(tmp_path / "a" / "q", tmp_path / "a" / "original", results=results)
    assert audit.is_sound
    new = tmp_path / "b" / "q" / "model.safetensors"
    new.replace(tmp_path / "a" / "q" / "model.safetensors")
    audit = qv.audit(tmp_path / "a" / "q", tmp_path / "a" / "original", results=results)
    again = qv.audit(tmp_path / "a" / "q", tmp_path / "a" / "original", results=results)
    assert audit.messages() == again.messages()
    assert any("siblings" in sentence.casefold() for sentence in again.messages())
