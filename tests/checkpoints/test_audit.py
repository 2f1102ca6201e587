"""A quantized file beside its original: partners, errors, what was undone, and the verdict."""

import contextlib
import json
import sqlite3

import gguf
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

import quantviz as qv
from quantviz.checkpoints.audit import auditing, originals, pair_audit, pair_rows, tensor_audit
from quantviz.checkpoints.model.gguf_names import OtherNames, gguf_names
from quantviz.checkpoints.results import store
from quantviz.checkpoints.scan import scanning
from quantviz.cli import quantviz
from quantviz.streaming import kernel_access, limits
from quantviz.text import languages
from tests.engines import record_llama_cpp
from tests.helpers import layouts
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.twins import write_gguf

ATTENTION = "model.layers.0.self_attn."


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return layouts.write(tmp_path_factory.mktemp("original") / "model.safetensors", layouts.llama())


def gptq_twin(folder, tensors=None, *, change=lambda q: q, version=1, bits=4, declared=None):
    def quantize(base, weight):
        q, zero, scale = layouts.rounded(weight, bits, 32)
        return layouts.gptq(base, change(q), zero.clamp(min=1), scale, bits, version=version)

    tensors = layouts.quantized_by(tensors or layouts.llama(), quantize)
    config = {"quant_method": "gptq", "checkpoint_format": declared or {1: "gptq", 2: "gptq_v2"}[version]}
    folder.mkdir(exist_ok=True)
    return layouts.write(folder / "model.safetensors", tensors, config)


def audited(quantized, original):
    """The audit, after all it says was said in each language."""
    audit = qv.audit(quantized, original)
    for language in languages():
        assert all(audit.messages(language))
        assert all(sentence for row in audit.rows(language) for sentence in row["done"])
    return audit


def of(audit, name):
    return next(each for each in audit.tensors if each.tensor == name)


def test_a_gptq_twin(tmp_path, original):
    audit = audited(gptq_twin(tmp_path), original)
    found = of(audit, f"{ATTENTION}q_proj.weight")
    weight = layouts.llama()[f"{ATTENTION}q_proj.weight"]
    q, zero, scale = layouts.rounded(weight, 4, 32)
    x_hat = (scale.repeat_interleave(32, 1) * (q - zero.repeat_interleave(32, 1))).double()
    error = x_hat - weight
    assert found.metrics["mse"] == pytest.approx(float(error.square().mean()), rel=1e-9)
    assert found.metrics["sqnr_db"] == pytest.approx(
        float(10 * torch.log10(weight.double().square().sum() / error.square().sum())), rel=1e-9
    )
    assert found.metrics["max_abs_error"] == pytest.approx(float(error.abs().max()))
    assert set(found.metrics) == set(qv.METRICS)
    assert found.metrics["effective_bits"] == found.bits == pytest.approx(4 + 20 / 32 + 32 / 64)
    assert (found.status, found.rounding, found.nearest_share) == ("ok", "nearest", 1.0)
    assert (found.layout, found.scheme.format, found.symmetric) == ("gptq", "uint4", False)
    assert (found.scheme.granularity, found.scale_dtype) == (qv.PerGroup(32), "float16")
    assert (found.blocks, found.unused_codes) == (128, 16 - len(q.unique()))
    assert of(audit, "model.norm.weight").status == "same"
    assert audit.unmatched == ((), ())
    assert "7 quantized weights compared (GPTQ, uint4 asymmetric, groups of 32)" in audit.verdict
    assert "rounded to nearest" in audit.verdict


def test_the_table_has_a_row_for_each_tensor(tmp_path, original):
    audit = audited(gptq_twin(tmp_path), original)
    table = audit.table()
    assert len(table) == len(layouts.llama()) == len(audit.tensors)
    assert {"tensor", "original", "status", "rounding", "saturated_blocks", "sqnr_db", "mse"} <= set(table)
    assert table["blocks"].dtype == "Int64"
    assert table.loc[table["tensor"] == "lm_head.weight", "layout"].tolist() == ["plain"]


def test_that_kernels_are_missing_is_said(tmp_path, original, monkeypatch):
    path = gptq_twin(tmp_path)
    monkeypatch.setattr(limits, "FUSED", 2**10)
    assert not any("numba" in sentence for sentence in audited(path, original).messages())
    monkeypatch.setattr(kernel_access, "has_kernels", lambda: False)
    monkeypatch.setattr(scanning, "has_kernels", lambda: False)
    monkeypatch.setattr(kernel_access, "fixed_ready", lambda: False)
    assert sum("numba" in sentence for sentence in audited(path, original).messages()) == 1
    table = qv.scan(original, "int8_per_row", results=tmp_path / "r.sqlite")
    assert sum("numba" in note for note in table.attrs["notes"]) == 1


def test_symmetric_zero_points_are_recovered(tmp_path, original):
    def quantize(base, weight):
        return layouts.gptq(base, *layouts.rounded(weight, 4, 32, symmetric=True), 4)

    tensors = layouts.quantized_by(layouts.llama(), quantize)
    audit = audited(layouts.write(tmp_path / "x.safetensors", tensors), original)
    assert all(each.symmetric for each in audit.tensors if each.scheme)
    assert "symmetric" in audit.verdict


@pytest.mark.parametrize("act_order", [False, True])
def test_codes_that_gptq_chose_are_told_from_rounded_ones(tmp_path, original, act_order):
    random = torch.Generator().manual_seed(1)

    def quantize(base, weight):
        inputs = torch.randn(256, weight.shape[1], generator=random) @ torch.randn(
            weight.shape[1], weight.shape[1], generator=random
        )
        q, zero, scale, g_idx = layouts.by_gptq(weight, inputs, 4, 32, act_order=act_order)
        return layouts.gptq(base, q, zero.clamp(min=1), scale, 4, g_idx=g_idx)

    tensors = layouts.quantized_by(layouts.llama(), quantize)
    audit = audited(layouts.write(tmp_path / "x.safetensors", tensors), original)
    weights = [each for each in audit.tensors if each.scheme]
    assert {each.rounding for each in weights} == {"gptq"}
    assert all(each.status == "ok" and each.nearest_share < 0.9 for each in weights)
    assert "as GPTQ does" in audit.verdict
    assert bool(weights[0].notes) == act_order


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.bfloat16, "nearest"), (torch.float32, "other")])
def test_codes_of_quotients_in_half_precision_are_rounded_to_nearest(tmp_path, dtype, rounding):
    """compressed-tensors divides bfloat16 by bfloat16: at 8 bits a quotient is then off by up to a quarter of
    a step, and a tenth of the codes are not the nearest ones.
    """
    weight = torch.randn(64, 256, generator=torch.Generator().manual_seed(8)).bfloat16()
    scale = (weight.abs().unflatten(1, (-1, 128)).amax(2) / 127.5).bfloat16()
    quotients = weight / scale.repeat_interleave(128, 1)
    q = (quotients.round().clamp(-128, 127) + 128).int()
    zero = torch.full(scale.shape, 128, dtype=torch.int32)
    tensors = {f"{ATTENTION}q_proj.weight": weight.to(dtype)}
    (tmp_path / "original").mkdir()
    original = layouts.write(tmp_path / "original" / "x.safetensors", tensors)
    twin = layouts.gptq(f"{ATTENTION}q_proj", q, zero, scale.float(), 8)
    (found,) = audited(layouts.write(tmp_path / "x.safetensors", twin), original).tensors
    assert found.rounding == rounding


def test_codes_that_something_else_chose(tmp_path, original):
    random = torch.Generator().manual_seed(2)

    def change(q):
        return (q + (torch.rand(q.shape, generator=random) < 0.2).int()).clamp(max=15)

    audit = audited(gptq_twin(tmp_path, change=change), original)
    assert {each.rounding for each in audit.tensors if each.scheme} == {"other"}
    assert "something else chose them" in audit.verdict


def test_zero_points_of_the_other_version_are_noticed(tmp_path, original):
    audit = audited(gptq_twin(tmp_path, version=2, declared="gptq"), original)
    assert any("other GPTQ version" in sentence for sentence in audit.messages())
    right = audited(gptq_twin(tmp_path, version=2), original)
    assert not any("other GPTQ version" in sentence for sentence in right.messages())


def test_rotated_weights_are_not_the_same_and_not_ranked(tmp_path, original):
    rotation = torch.linalg.qr(torch.randn(64, 64, generator=torch.Generator().manual_seed(3)))[0]
    tensors = {
        name: tensor @ rotation if "_proj" in name and tensor.shape[1] == 64 else tensor
        for name, tensor in layouts.llama().items()
    }
    audit = audited(gptq_twin(tmp_path, tensors), original)
    statuses = {each.tensor: each.status for each in audit.tensors if each.scheme}
    assert statuses.pop("model.layers.0.mlp.down_proj.weight") == "ok"
    assert set(statuses.values()) == {"not_same"}
    assert audit.verdict.startswith("These are not the same weights. Unlike their originals: 6 of 9")
    for language in languages():
        assert audit.messages(language)[0]


def test_one_weight_that_differs_is_said_after_the_verdict(tmp_path, original):
    tensors = layouts.llama()
    tensors[f"{ATTENTION}k_proj.weight"] = torch.randn(32, 64)
    tensors["model.norm.weight"] = tensors["model.norm.weight"] + 0.5
    audit = audited(gptq_twin(tmp_path, tensors), original)
    assert audit.verdict.startswith("6 quantized weights")
    assert any("Not the same weights" in each and "k_proj" in each for each in audit.messages())
    assert of(audit, "model.norm.weight").status == "rescaled"


# ---- AWQ ----------------------------------------------------------------------------------------


def awq_twin(folder):
    """AWQ as it is done: norms divided by scales, o and down by those of v and up."""
    random = torch.Generator().manual_seed(4)
    made = layouts.llama()
    base = "model.layers.0."

    def scales(count):
        return torch.exp(torch.randn(count, generator=random))

    for norm, layers in (
        ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
    ):
        own = scales(64)
        made[f"{base}{norm}.weight"] = made[f"{base}{norm}.weight"] / own
        for layer in layers:
            made[f"{base}{layer}.weight"] = made[f"{base}{layer}.weight"] * own
    own = scales(96)
    made[f"{base}mlp.up_proj.weight"] = made[f"{base}mlp.up_proj.weight"] / own.unsqueeze(1)
    made[f"{base}mlp.down_proj.weight"] = made[f"{base}mlp.down_proj.weight"] * own

    def quantize(name, weight):
        return layouts.awq(name, *layouts.rounded(weight, 4, 32))

    tensors = layouts.quantized_by(made, quantize)
    return layouts.write(folder / "model.safetensors", tensors, {"quant_method": "awq", "version": "gemm"})


def test_scales_that_awq_folded_are_found_again(tmp_path, original):
    audit = audited(awq_twin(tmp_path), original)
    weights = {each.tensor.removeprefix("model.layers.0."): each for each in audit.tensors if each.scheme}
    assert {each.status for each in weights.values()} == {"ok"}
    assert all(each.metrics["sqnr_db"] > 15 for each in weights.values())
    done = {name: [note.key for note in each.done] for name, each in weights.items()}
    assert done["self_attn.q_proj.weight"] == done["mlp.gate_proj.weight"] == ["audit.folded_norms"]
    assert done["mlp.up_proj.weight"] == ["audit.folded_norms", "audit.folded_rows"]
    assert done["mlp.down_proj.weight"] == ["audit.folded"]
    assert done["self_attn.o_proj.weight"] == []
    assert weights["self_attn.q_proj.weight"].rounding == "nearest"
    assert any("folded into the norm" in sentence for sentence in audit.messages())
    norms = [each.status for each in audit.tensors if each.tensor.endswith("layernorm.weight")]
    assert (norms, audit.is_sound) == (["folded", "folded"], True)


# ---- GGUF ---------------------------------------------------------------------------------------


def gguf_twin(path, kind=gguf.GGMLQuantizationType.Q8_0, *, architecture="llama", shift=0.0):
    tensors = layouts.llama().items()
    return write_gguf(path, tensors, kind, architecture=architecture, heads=(4, 2), shift=shift)


def test_a_gguf_twin_with_its_names_and_its_order_of_rows(tmp_path, original):
    audit = audited(gguf_twin(tmp_path / "x.gguf"), original)
    weights = [each for each in audit.tensors if each.scheme]
    # 96 columns are three blocks of 32, so that all matrices could be quantized.
    assert len(weights) == 9
    assert {each.status for each in weights} == {"ok"}
    assert min(each.metrics["sqnr_db"] for each in weights) > 40
    assert audit.unmatched == ((), ())
    reordered = {each.original for each in weights if [note.key for note in each.done] == ["audit.reordered"]}
    assert reordered == {f"{ATTENTION}q_proj.weight", f"{ATTENTION}k_proj.weight"}
    assert of(audit, "blk.0.attn_norm.weight").original == "model.layers.0.input_layernorm.weight"
    assert str(weights[0].scheme) == str(qv.RECIPES["q8_0"])
    assert audit.verdict.startswith("9 quantized weights compared (GGUF: 9 × q8_0): ")


def test_what_llama_cpp_searches_and_rounds_is_told_as_nearest(tmp_path):
    recorded, inputs = np.load(record_llama_cpp.RECORD), dict(record_llama_cpp.tensors())
    wanted = ("normal", "weights", "zero_blocks", "zeros")
    original = layouts.write(tmp_path / "a.safetensors", {f"{name}.weight": inputs[name] for name in wanted})
    for recipe, (kind, size) in record_llama_cpp.TYPES.items():
        entries, at = [], 0
        for name, x in inputs.items():
            count = x.numel() // 256 * size
            raw = recorded[f"{recipe}_weighted"][at : at + count]
            at += count
            if name in wanted:
                entries.append(Entry(f"{name}.weight", tuple(x.shape[::-1]), kind, raw.tobytes()))
        path = tmp_path / f"{recipe}.gguf"
        path.write_bytes(gguf_file(entries))
        audit = audited(path, original)
        # Where the importance is 0 the library stores a scale of 0, whose codes all stand for one value.
        assert {(each.status, each.rounding) for each in audit.tensors} == {("ok", "nearest")}, recipe
        assert audit.tensors[0].scheme == qv.RECIPES[recipe]
        assert audit.rows()[0]["type"] == recipe


def test_rows_that_were_not_reordered_stay_in_place(tmp_path, original):
    audit = audited(gguf_twin(tmp_path / "x.gguf", architecture="qwen3"), original)
    assert all(each.metrics["sqnr_db"] > 40 and not each.done for each in audit.tensors if each.scheme)


def test_what_llama_cpp_writes_one_by_one_and_the_original_has_as_one(tmp_path):
    apart = layouts.llama()
    q, k, v = (apart.pop(f"{ATTENTION}{name}_proj.weight") for name in "qkv")
    gate, up = (apart.pop(f"model.layers.0.mlp.{name}_proj.weight") for name in ("gate", "up"))
    # InternLM2 has the heads of q that share a head of k and v beside these.
    heads = [x.chunk(2) for x in (q, k, v)]
    one = torch.cat([rows for group in zip(*heads, strict=True) for rows in group])
    base = "model.layers.0."
    together = {f"{base}attention.wqkv.weight": one, f"{base}mlp.gate_up_proj.weight": torch.cat((gate, up))}
    original = layouts.write(tmp_path / "one.safetensors", apart | together)
    audit = audited(gguf_twin(tmp_path / "x.gguf"), original)
    assert audit.is_sound, audit.messages()
    done = {each.tensor: [note.key for note in each.done] for each in audit.tensors if each.match.part}
    assert done == {
        "blk.0.attn_q.weight": ["audit.part_in_turn", "audit.reordered"],
        "blk.0.attn_k.weight": ["audit.part_in_turn", "audit.reordered"],
        "blk.0.attn_v.weight": ["audit.part_in_turn"],
        "blk.0.ffn_gate.weight": ["audit.part"],
        "blk.0.ffn_up.weight": ["audit.part"],
    }
    assert min(each.metrics["sqnr_db"] for each in audit.tensors if each.scheme) > 40


def test_experts_that_llama_cpp_writes_apart_and_the_original_has_as_one(tmp_path):
    chance = torch.Generator().manual_seed(0)
    gate, up = (torch.randn(3, 32, 64, generator=chance) for _ in range(2))
    kind = gguf.GGMLQuantizationType.Q8_0
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "qwen3moe")
    for name, x in (("gate", gate), ("up", up)):
        writer.add_tensor(
            f"blk.0.ffn_{name}_exps.weight", gguf.quants.quantize(x.numpy(), kind), raw_dtype=kind
        )
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    turned = torch.cat((gate, up), 1).mT
    names = {"model.layers.0.mlp.experts.gate_up_proj": turned}
    audit = audited(tmp_path / "x.gguf", layouts.write(tmp_path / "one.safetensors", names))
    assert audit.is_sound, audit.messages()
    assert len(audit.tensors) == 6
    assert min(each.metrics["sqnr_db"] for each in audit.tensors) > 40


def test_weights_that_gpt_2_stores_turned(tmp_path):
    square, wide = torch.randn(64, 64), torch.randn(64, 96)
    names = ("attn.c_proj", "mlp.c_fc")
    tensors = {f"h.0.{name}.weight": x for name, x in zip(names, (square, wide), strict=True)}
    original = layouts.write(tmp_path / "a.safetensors", tensors)
    kind = gguf.GGMLQuantizationType.Q8_0
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "gpt2")
    for name, x in (("attn_output", square), ("ffn_up", wide)):
        values = gguf.quants.quantize(x.T.contiguous().numpy(), kind)
        writer.add_tensor(f"blk.0.{name}.weight", values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    audit = audited(tmp_path / "x.gguf", original)
    assert all(each.metrics["sqnr_db"] > 40 for each in audit.tensors)
    assert [[note.key for note in each.done] for each in audit.tensors] == [["audit.turned"]] * 2


def test_errors_without_codes_are_summed_a_piece_at_a_time(monkeypatch):
    """Of a whole band at once they took 160 MB a thread in float64."""
    x = torch.linspace(-3, 5, 3 * 2**18 + 7).view(1, -1)
    x_hat = x.half().float()
    x[0, 5] = torch.nan
    x_hat[0, 2**19] = 9
    sizes = []

    def noted(own, other, sums=tensor_audit._moments):
        sizes.append(own.numel())
        return sums(own, other)

    monkeypatch.setattr(tensor_audit, "_moments", noted)
    errors = tensor_audit._RowErrors()
    errors.take(x, x_hat)
    assert sizes == [2**18, 2**18, 2**18, 7]
    error = x_hat.double() - x.double()
    assert errors.moments.e2.item() == pytest.approx(error.nan_to_num().square().sum().item())
    assert errors.moments.max_error.item() == error.nan_to_num().abs().max().item()


def test_gemmas_norms_are_compared_with_the_one_that_was_added(tmp_path, original):
    path = gguf_twin(tmp_path / "x.gguf", architecture="gemma2", shift=1.0)
    audit = audited(path, original)
    norms = [each for each in audit.tensors if each.tensor.endswith("norm.weight")]
    blocks = [each for each in norms if each.tensor.startswith("blk")]
    assert [each.status for each in blocks] == ["same", "same"]
    assert {note.key for each in blocks for note in each.done} == {"audit.norm_shift"}


@pytest.mark.parametrize(
    ("architecture", "names"),
    [
        ("LLAMA", layouts.llama()),
        (
            "BERT",
            [
                "embeddings.word_embeddings.weight",
                "embeddings.position_embeddings.weight",
                "embeddings.token_type_embeddings.weight",
                "embeddings.LayerNorm.bias",
                *(
                    f"encoder.layer.0.{name}.weight"
                    for name in (
                        "attention.self.query",
                        "attention.self.key",
                        "attention.self.value",
                        "attention.output.dense",
                        "attention.output.LayerNorm",
                        "intermediate.dense",
                        "output.dense",
                        "output.LayerNorm",
                    )
                ),
            ],
        ),
        (
            "GEMMA2",
            [
                f"model.layers.0.{name}.weight"
                for name in (
                    "input_layernorm",
                    "post_attention_layernorm",
                    "pre_feedforward_layernorm",
                    "post_feedforward_layernorm",
                )
            ],
        ),
        ("QWEN3", [f"model.layers.0.self_attn.{name}_norm.weight" for name in "qk"]),
        ("PHI3", [f"model.layers.0.{name}.weight" for name in ("self_attn.qkv_proj", "mlp.gate_up_proj")]),
        (
            "QWEN2MOE",
            [
                f"model.layers.0.mlp.{name}.weight"
                for name in ("gate", "shared_expert.up_proj", "shared_expert_gate")
            ],
        ),
        (
            "DEEPSEEK2",
            [
                f"model.layers.0.self_attn.{n}.weight"
                for n in ("kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj")
            ],
        ),
        (
            "FALCON",
            [
                "transformer.h.0.self_attention.query_key_value.weight",
                "transformer.h.0.self_attention.dense.weight",
            ],
        ),
        ("GPT2", ["transformer.h.0.ln_1.bias", "transformer.h.0.mlp.c_fc.weight", "transformer.ln_f.weight"]),
    ],
)
def test_names_are_those_of_llama_cpp(architecture, names):
    theirs = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture), 1)
    others, back = OtherNames(tuple(names)), gguf_names(names)
    for name in names:
        stored = theirs.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        assert others.of(stored) == name
        assert back[name] == stored


def test_experts_in_one_tensor_have_partners_of_their_own():
    names = [f"model.layers.2.mlp.experts.{expert}.up_proj.weight" for expert in range(3)]
    others = OtherNames((*names, "model.layers.2.block_sparse_moe.experts.1.w2.weight"))
    assert others.of("blk.2.ffn_up_exps.weight[1]") == names[1]
    assert others.of("blk.2.ffn_down_exps.weight[1]").endswith("experts.1.w2.weight")
    assert others.of("blk.2.ffn_gate_exps.weight[1]") is None
    assert others.of("blk.2.unknown.weight") is None


def test_a_result_has_the_files_own_codes(tmp_path, original):
    random = torch.Generator().manual_seed(2)

    def change(q):
        return (q + (torch.rand(q.shape, generator=random) < 0.2).int()).clamp(max=15)

    name = f"{ATTENTION}q_proj.weight"
    path = gptq_twin(tmp_path, change=change)
    r = qv.audited_result(path, original, name)
    assert torch.equal(r.x, layouts.llama()[name])
    assert qv.metrics(r)["mse"] == pytest.approx(of(audited(path, original), name).metrics["mse"])
    plain = qv.quantize(r.x, r.scheme, qparams=r.qparams)
    other = tuple(int(i) for i in (plain.q != r.q).nonzero()[0])
    why = qv.explain(r, other)
    assert (why.q, why.x_hat) == (int(r.q[other]), float(r.x_hat[other]))
    assert why.step("own_code").output == int(r.q[other])
    same = tuple(int(i) for i in (plain.q == r.q).nonzero()[0])
    assert qv.explain(r, same).step("own_code") is None
    with pytest.raises(qv.QuantVizError, match=r"v_proj.*the nearest of 7"):
        qv.audited_result(path, original, f"{ATTENTION}x_proj.weight")


# ---- all else -----------------------------------------------------------------------------------


@pytest.mark.parametrize("twin", [gptq_twin, awq_twin])
def test_bands_give_what_the_whole_gives(tmp_path, original, twin, monkeypatch):
    folder = tmp_path / "twin"
    folder.mkdir()
    path = twin(folder)
    whole = audited(path, original)
    monkeypatch.setattr(originals, "ELEMENTS_PER_CHUNK", 2048)
    for one, other in zip(whole.tensors, audited(path, original).tensors, strict=True):
        assert dict(one.metrics) == pytest.approx(dict(other.metrics), rel=1e-9, nan_ok=True)
        assert (one.blocks, one.saturated_blocks, one.rounding) == (
            other.blocks,
            other.saturated_blocks,
            other.rounding,
        )


def test_saturated_blocks_and_unused_codes_are_counted(tmp_path):
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(5)).clamp(-1.5, 1.5)
    x[3, 40] = 100.0  # one value that the scale does not reach, in the second of two groups
    scale = torch.full((64, 2), 0.25)
    q = (torch.round(x / 0.25) + 8).clamp(0, 15).int()
    original = layouts.write(tmp_path / "a.safetensors", {"w.weight": x})
    twin = tmp_path / "twin"
    twin.mkdir()
    path = layouts.write(twin / "b.safetensors", layouts.gptq("w", q, torch.full((64, 2), 8), scale, 4))
    found = audited(path, original).tensors[0]
    assert (found.blocks, found.saturated_blocks, found.rounding) == (128, 1, "nearest")
    assert found.unused_codes == 16 - len(q.unique())
    assert found.metrics["clipped_share"] == 1 / x.numel()


def test_what_is_not_finite_in_the_original_is_left_out(tmp_path):
    x = torch.randn(16, 32)
    tensors = layouts.gptq("w", *layouts.rounded(x, 4, 32), 4)
    x[2, 3] = torch.nan
    twin = tmp_path / "twin"
    twin.mkdir()
    original = layouts.write(tmp_path / "a.safetensors", {"w.weight": x})
    found = audited(layouts.write(twin / "b.safetensors", tensors), original).tensors[0]
    assert found.status == "ok"
    assert np.isfinite(found.metrics["sqnr_db"])


def test_what_is_wrong_with_one_tensor_is_in_its_row(tmp_path, original):
    tensors = layouts.llama()
    tensors[f"{ATTENTION}q_proj.weight"] = torch.randn(64, 32)
    tensors["extra.weight"] = torch.zeros(3)
    del tensors["lm_head.weight"]
    path = gptq_twin(tmp_path, tensors)
    audit = audited(path, original)
    found = of(audit, f"{ATTENTION}q_proj.weight")
    assert (found.status, found.reason.key) == ("problem", "audit.shapes")
    assert audit.unmatched == (("extra.weight",), ("lm_head.weight",))
    assert any("Without a partner: 1 in the quantized file, 1 in the original" in m for m in audit.messages())
    done = CliRunner().invoke(quantviz, ["compare", str(path), str(original)])
    assert done.exit_code == 1
    assert "(64, 32)" in done.stderr
    # The tensor that has no partner is named in its line.
    assert any("lm_head.weight" in line and "unmatched" in line for line in done.stdout.splitlines())


def test_a_folder_of_shards_without_an_index(tmp_path, original):
    tensors = list(layouts.llama().items())
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, part in enumerate((tensors[:5], tensors[5:])):
        layouts.write(folder / f"{number}.safetensors", dict(part))
    audit = audited(gptq_twin(tmp_path / "twin"), folder)
    assert audit.unmatched == ((), ())
    layouts.write(folder / "2.safetensors", dict(tensors[:1]))
    with pytest.raises(qv.QuantVizError, match=r"0\.safetensors.*2\.safetensors"):
        audited(gptq_twin(tmp_path / "twin"), folder)
    with pytest.raises(qv.QuantVizError, match="2 folders below it can be read"):
        audited(tmp_path, original)


def test_experts_are_compared_with_those_of_the_original(tmp_path):
    x = torch.randn(3, 8, 32, generator=torch.Generator().manual_seed(0))
    original = layouts.write(tmp_path / "original.safetensors", {"model.mlp.experts.up_proj.weight": x})
    scale = x.abs().amax(-1, keepdim=True) / 127
    codes = torch.round(x / scale).to(torch.int8)
    base = "mlp.experts.up_proj.weight"
    twin = layouts.write(tmp_path / "x.safetensors", {base: codes, f"{base}_scale": scale})
    audit = audited(twin, original)
    assert [each.tensor for each in audit.tensors] == [f"{base}[{k}]" for k in range(3)]
    assert [each.original for each in audit.tensors] == [f"model.{base}[{k}]" for k in range(3)]
    assert audit.unmatched == ((), ())
    for k, each in enumerate(audit.tensors):
        assert each.metrics["mse"] == pytest.approx(float((codes[k] * scale[k] - x[k]).square().mean()))
        assert (each.rounding, each.status) == ("nearest", "ok")
        assert torch.equal(qv.audited_result(twin, original, each.tensor).x, x[k])
    # An expert more than the original has is one without a partner.
    original = layouts.write(tmp_path / "less.safetensors", {"model.mlp.experts.up_proj.weight": x[:2]})
    assert audited(twin, original).unmatched == ((f"{base}[2]",), ())


def test_files_that_are_links_are_followed(tmp_path, original):
    (tmp_path / "blobs").mkdir()
    path = gptq_twin(tmp_path / "blobs", version=2)
    (tmp_path / "snapshot").mkdir()
    for file in ("model.safetensors", "config.json"):
        (tmp_path / "snapshot" / file).symlink_to(path.parent / file)
    assert audited(tmp_path / "snapshot", original).tensors[0].rounding == "nearest"


def test_files_of_two_models_have_no_partners(tmp_path, original):
    other = layouts.write(tmp_path / "x.safetensors", {"conv.weight": torch.zeros(2, 2)})
    with pytest.raises(qv.QuantVizError, match=r"conv\.weight"):
        audited(other, original)


def test_who_gives_the_original_first_is_told_so(tmp_path, original):
    with pytest.raises(qv.QuantVizError, match=r"has no quantized weight and .* has 7: give the quantized"):
        audited(original, gptq_twin(tmp_path))


def test_the_command(tmp_path, original, monkeypatch):
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path / "cache"))
    path = str(gptq_twin(tmp_path))
    done = CliRunner().invoke(quantviz, ["compare", path, str(original), "--format", "json"])
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == len(layouts.llama())
    assert rows[0]["rounding"] == "nearest"
    assert done.stderr.startswith("7 quantized weights compared")
    failing = CliRunner().invoke(
        quantviz, ["compare", path, str(original), "--fail-under", "30", "--lang", "zh"]
    )
    assert failing.exit_code == 1
    assert failing.stderr.startswith("已比较 7 个量化权重")
    assert CliRunner().invoke(quantviz, ["compare", path, str(tmp_path / "none.safetensors")]).exit_code == 2
    table = CliRunner().invoke(quantviz, ["compare", path, str(original)]).stdout
    assert len(table.splitlines()) >= len(rows)

    def interrupted(*_, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(auditing, "audited", interrupted)
    stopped = CliRunner().invoke(quantviz, ["compare", path, str(original), "--verify"])
    assert (stopped.exit_code, "Go on with: " in stopped.stderr) == (130, True)


def test_an_audit_goes_on_where_it_was_and_reads_only_what_is_missing(tmp_path, original, monkeypatch):
    """In two shards, of which one is changed: what was found of the other is not read again."""
    folder = tmp_path / "twin"
    whole = load_file(gptq_twin(folder))
    (folder / "model.safetensors").unlink()
    of_attention = {name: tensor for name, tensor in whole.items() if "self_attn" in name}
    rest = {name: tensor for name, tensor in whole.items() if "self_attn" not in name}
    layouts.write(folder / "a.safetensors", of_attention)
    layouts.write(folder / "b.safetensors", rest)
    compared = []

    def noted(pair, *models, **named):
        compared.append(pair.item.name)
        return pair_audit.audited(pair, *models, **named)

    monkeypatch.setattr(auditing, "audited", noted)
    monkeypatch.setattr(store, "_TICK_NS", 0)
    results, every = tmp_path / "results.sqlite", sorted(layouts.llama())

    def stopped(done, count):
        if done == 3:
            raise KeyboardInterrupt

    def run(**named):
        compared.clear()
        audit = qv.audit(folder, original, results=results, **named)
        return [audit.rows("zh"), audit.messages(), audit.account.coverage("original")], sorted(compared)

    with pytest.raises(KeyboardInterrupt):
        run(report=stopped)
    first, told = compared[:], []
    found, again = run(report=lambda done, count: told.append(done))
    # Pairs that were begun ahead until it was stopped are not stored.
    assert 3 <= len(first) < len(every)
    assert (told[0], len(again), sorted({*first, *again})) == (3, len(every) - 3, every)
    assert run() == (found, [])
    assert run(outputs_axis={}) == (found, []), "as the command names none"
    assert run(verify=True) == (found, every)
    # A file that has changed, though its header is the same, is compared anew, and it alone.
    of_attention[f"{ATTENTION}q_proj.qweight"] ^= 1
    layouts.write(folder / "a.safetensors", of_attention)
    changed, again = run()
    assert again == [name for name in every if "self_attn" in name]
    assert changed != found
    # Without one of today's metrics a row is of another version.
    with monkeypatch.context() as patch:
        patch.setattr(pair_rows, "METRICS", {**qv.METRICS, "new": None})
        assert run() == (changed, every)
    # A row that does not parse is none, nor is one without a number that the findings name.
    for name in ("rounding", "sqnr_db", "cosine"):
        with contextlib.closing(sqlite3.connect(results)) as opened, opened:
            opened.execute(f"UPDATE measured SET numbers = replace(numbers, '\"{name}\"', '\"x\"')")
        assert run() == (changed, every)


def test_an_original_that_is_quantized_itself_is_decoded(tmp_path):
    """FP8 by blocks is all that some makers publish; what is made from it is compared with its values."""
    weight = torch.randn(64, 96, generator=torch.Generator().manual_seed(6)) * 0.02
    tensors = layouts.fp8_blocks("model.layer", weight, 32)
    config = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    (tmp_path / "original").mkdir()
    original = layouts.write(tmp_path / "original" / "x.safetensors", tensors, config)
    wide = tensors["model.layer.weight_scale_inv"].repeat_interleave(32, 0).repeat_interleave(32, 1)
    x = tensors["model.layer.weight"].float() * wide
    q, zero, scale = layouts.rounded(x, 8, 32)
    twin = layouts.write(
        tmp_path / "x.safetensors", layouts.gptq("model.layer", q, zero.clamp(min=1), scale, 8)
    )
    audit = audited(twin, original)
    (found,) = audit.tensors
    error = (scale.repeat_interleave(32, 1) * (q - zero.repeat_interleave(32, 1))).double() - x
    assert found.metrics["mse"] == pytest.approx(float(error.square().mean()))
    assert (found.status, audit.unmatched) == ("ok", ((), ()))
