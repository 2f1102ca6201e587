"""Quantized weights in files are decoded bit for bit: by the layouts' definitions, and by the libraries that
are installed.
"""

import json

import gguf
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import quantviz as qv
from quantviz.quantization.quantizer import values_of_codes
from quantviz.quantization.result import QParams
from quantviz.sources.files.gguf_blocks import BLOCK_TYPES, decode_blocks
from quantviz.sources.layouts import LAYOUTS, NAMED, quantized_weights
from quantviz.sources.layouts.decoded import model_tensors
from quantviz.streaming.comparing import WeightBand
from quantviz.text import catalogue, languages, text
from tests.engines.record_layouts import RECORD
from tests.helpers import ROOT, layouts
from tests.helpers.sample import sample_of
from tests.helpers.written_layouts import CASES, SAID, TENSORS, written


def weights_of(path):
    """Every quantized weight of a file, decoded in bands of its smallest step and at once."""
    found = {}
    with qv.open_tensors(path) as catalog:
        for weight in quantized_weights(catalog):
            if weight.problem:
                found[weight.name] = weight, None
                continue
            rows = weight.shape[0]
            whole = weight.coded(0, rows)
            step = weight.row_step
            for coded in (weight.coded, weight.read()) if weight.read else (weight.coded,):
                bands = [coded(at, min(at + step, rows)) for at in range(0, rows, step)]
                for part in ("q", "x_hat") if weight.scheme else ("x_hat",):
                    joined = torch.cat([getattr(band, part) for band in bands])
                    assert torch.equal(joined, getattr(whole, part))
            assert whole.x_hat.shape == weight.shape
            if weight.scheme is None:
                found[weight.name] = weight, whole
                continue
            # What is told of scales and codes is all that the values are made of.
            assert whole.q.shape == weight.shape
            params = QParams(whole.scale, whole.zero_point, stored=True)
            again = values_of_codes(whole.q, weight.scheme, params)
            # A value that is a small difference of two numbers has the error of these.
            most = float(whole.x_hat.abs().max()) if weight.scheme.mode == "asymmetric" else 0.0
            assert torch.allclose(again, whole.x_hat, rtol=1e-6, atol=1e-6 * most)
            if whole.given is None:  # a comparison computes the values itself
                parts = whole.q, None, whole.scale, whole.zero_point
                assert torch.equal(
                    WeightBand(weight.scheme, whole.x_hat, *parts, (0.0, 0.0)).x_hat, whole.x_hat
                )
            found[weight.name] = weight, whole
    return found


@pytest.mark.parametrize(("bits", "version"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (8, 1)])
@pytest.mark.parametrize("act_order", [False, True])
def test_gptq(tmp_path, bits, version, act_order):
    random = torch.Generator().manual_seed(bits)
    rows, columns, group = 64, 96, 32
    q = torch.randint(0, 1 << bits, (rows, columns), generator=random)
    zero = torch.randint(1, 1 << bits, (rows, columns // group), generator=random)
    scale = torch.rand(rows, columns // group, generator=random).half().float() + 0.125
    g_idx = torch.arange(columns) // group
    if act_order:
        g_idx = g_idx[torch.randperm(columns, generator=random)]
    tensors = layouts.gptq("a.q_proj", q, zero, scale, bits, version=version, g_idx=g_idx)
    config = {"quant_method": "gptq", "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}
    path = layouts.write(tmp_path / "x.safetensors", tensors, config)
    weight, coded = weights_of(path)["a.q_proj.weight"]
    expected = scale.half().float()[:, g_idx] * (q - zero[:, g_idx]).float()
    order = weight.columns if act_order else torch.arange(columns)
    assert (weight.columns is not None) == act_order == bool(weight.notes)
    assert torch.equal(coded.x_hat, expected[:, order])
    assert torch.equal(coded.q, q[:, order].to(torch.uint8))
    assert torch.equal(coded.zero_point, zero.int())
    assert (weight.layout, weight.scale_dtype) == ("gptq", "float16")
    assert weight.stored_bits == pytest.approx(bits + (bits + 16) / group + 32 / rows)


def test_gptq_without_a_configuration_is_read_by_its_zero_points(tmp_path):
    q = torch.randint(0, 16, (8, 32))
    middle, scale = torch.full((8, 1), 8), torch.ones(8, 1)
    for version in (1, 2):
        tensors = layouts.gptq("x", q, middle, scale, 4, version=version)
        _, coded = weights_of(layouts.write(tmp_path / f"{version}.safetensors", tensors))["x.weight"]
        assert torch.equal(coded.x_hat, (q - 8).float())


def test_awq(tmp_path):
    q, zero = torch.randint(0, 16, (48, 64)), torch.randint(0, 16, (48, 2))
    scale = torch.rand(48, 2).half().float()
    path = layouts.write(
        tmp_path / "x.safetensors", layouts.awq("up", q, zero, scale), {"quant_method": "awq"}
    )
    weight, coded = weights_of(path)["up.weight"]
    wide = [each.repeat_interleave(32, dim=1) for each in (scale, zero)]
    assert weight.layout == "awq"
    assert torch.equal(coded.q, q.to(torch.uint8))
    assert torch.equal(coded.x_hat, wide[0] * (q - wide[1]))


@pytest.mark.parametrize("size", [128, 32])
def test_fp8_by_blocks(tmp_path, size):
    x = torch.randn(160, 96)
    tensors = layouts.fp8_blocks("a", x, size)
    config = {"quant_method": "fp8", "weight_block_size": [size, size]}
    weight, coded = weights_of(layouts.write(tmp_path / "x.safetensors", tensors, config))["a.weight"]
    scale = tensors["a.weight_scale_inv"].repeat_interleave(size, 0)[:160].repeat_interleave(size, 1)[:, :96]
    assert torch.equal(coded.x_hat, tensors["a.weight"].float() * scale)
    assert weight.layout == "fp8_blocks"
    assert torch.equal(coded.q, tensors["a.weight"].view(torch.uint8))


with safe_open(RECORD, "pt") as record:
    CONFIGS = json.loads(record.metadata()["configs"])
    RECORDED = {name: record.get_tensor(name) for name in record.keys()}  # noqa: SIM118 (no mapping)


@pytest.mark.parametrize("case", CONFIGS)
def test_what_libraries_laid_out_and_read_back(tmp_path, case):
    tensors = {f"x.{name[len(case) + 1 :]}": t for name, t in RECORDED.items() if name.startswith(f"{case}/")}
    theirs = tensors.pop("x.expected")
    path = layouts.write(tmp_path / "x.safetensors", tensors, CONFIGS[case])
    found = weights_of(path)
    assert list(found) == (["x.weight"] if theirs.dim() == 2 else ["x.weight[0]", "x.weight[1]"])
    for k, (weight, coded) in enumerate(found.values()):
        assert weight.layout == CONFIGS[case]["quant_method"].replace("-", "_")
        # A library rounds to the dtype it computes in, we do not.
        assert torch.equal(coded.x_hat.to(theirs.dtype), theirs if theirs.dim() == 2 else theirs[k])
        spent = sum(t.numel() * t.itemsize for t in tensors.values())
        if case.startswith(("experts", "awq")):
            assert weight.stored_bits == pytest.approx(8 * spent / theirs.numel())


@pytest.mark.parametrize("case", CASES)
def test_what_each_library_wrote_and_read_back(tmp_path, case):
    """By the versions of the packages that the record names."""
    own, theirs = written(case, tmp_path / "x.safetensors")
    found = weights_of(tmp_path / "x.safetensors")
    assert [str(weight.problem) for weight, _ in found.values() if weight.problem] == []
    values = torch.stack([coded.x_hat for _, coded in found.values()])
    assert values.shape == (theirs if theirs.dim() == 3 else theirs.unsqueeze(0)).shape
    # MLX fuses the product with the sum, and what ModelOpt's layers compute has a scale that it divides by;
    # others round in the same places.
    slack = 1e-6 if case.startswith(("mlx_affine", "modelopt_int")) else 0.0
    assert torch.allclose(values, theirs.float(), rtol=slack, atol=slack * float(theirs.abs().max()))
    for weight, _ in found.values():
        assert weight.layout in LAYOUTS
        taken = {name for name in own if name in weight.parts}
        spent = sum(own[name].numel() * own[name].itemsize for name in taken)
        assert weight.stored_bits == pytest.approx(8 * spent / theirs.numel())


def test_the_record_names_what_wrote_it():
    assert set(json.loads(SAID["producers"])) >= {
        "mlx",
        "torchao",
        "hqq",
        "optimum-quanto",
        "nvidia-modelopt",
        "comfy-kitchen",
    }
    assert SAID["command"] == "python -m tests.engines.record_written_layouts"


@pytest.mark.parametrize(
    "kind", [each for each in BLOCK_TYPES.values() if each.recipe], ids=lambda kind: kind.name
)
def test_gguf_blocks_come_apart_into_what_they_are_made_of(kind):
    raw = torch.randint(
        0, 256, (64, kind.size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )
    if kind.name == "TQ2_0":
        raw[:, :64] &= 0xAA  # 3 is no code
    codes, scale, zero = kind.parts(raw)
    fmt = qv.RECIPES[kind.recipe].number_format
    values = torch.tensor([fmt.value(code) for code in range(fmt.code_min, fmt.code_max + 1)])
    wide = kind.length // scale.shape[1]
    made = scale.repeat_interleave(wide, 1) * values[codes.int() - fmt.code_min]
    made = made if zero is None else made + zero.repeat_interleave(wide, 1)
    expected = decode_blocks(kind, raw)
    finite = torch.isfinite(expected) & torch.isfinite(made)
    assert finite.sum() > 0.9 * finite.numel()
    assert torch.equal(made[finite], expected[finite])
    assert str(codes.dtype).removeprefix("torch.") == (
        "int8" if fmt.signed and fmt.kind == "integer" else "uint8"
    )


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_1", "Q8_0"])
def test_a_gguf_and_its_experts(tmp_path, name):
    kind = gguf.GGMLQuantizationType[name]
    x = np.random.default_rng(0).standard_normal((2, 6, 64), dtype=np.float32)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    for tensor, values in (("blk.0.ffn_up.weight", x[0]), ("blk.0.ffn_up_exps.weight", x)):
        writer.add_tensor(tensor, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.add_head_count(4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = weights_of(tmp_path / "x.gguf")
    assert list(found) == [
        "blk.0.ffn_up.weight",
        "blk.0.ffn_up_exps.weight[0]",
        "blk.0.ffn_up_exps.weight[1]",
    ]
    for at, key in ((0, "blk.0.ffn_up.weight"), (1, "blk.0.ffn_up_exps.weight[1]")):
        theirs = gguf.quants.dequantize(gguf.quants.quantize(x[at], kind), kind)
        assert np.array_equal(found[key][1].x_hat.numpy(), theirs)
    with qv.open_tensors(tmp_path / "x.gguf") as catalog:
        assert catalog.metadata["general.architecture"] == "llama"
        assert catalog.metadata["llama.attention.head_count"] == 4


@pytest.mark.parametrize("name", ["IQ1_M", "IQ2_XXS", "IQ3_S"])
def test_a_gguf_of_vectors_is_values_without_a_scheme(tmp_path, name):
    kind = next(each for each in BLOCK_TYPES.values() if each.name == name)
    raw = np.random.default_rng(0).integers(0, 64, (6, kind.size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_tensor("blk.0.ffn_up.weight", raw, raw_dtype=gguf.GGMLQuantizationType[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ((weight, coded),) = weights_of(tmp_path / "x.gguf").values()
    assert (weight.scheme, weight.problem, weight.stored_bits) == (None, None, kind.bits)
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[name])
    assert np.array_equal(coded.x_hat.numpy(), theirs, equal_nan=True)


def test_what_does_not_fit_is_told_by_weight_and_not_decoded(tmp_path):
    good = layouts.gptq("good", torch.zeros(8, 32).int(), torch.ones(8, 1).int(), torch.ones(8, 1), 4)
    uneven = layouts.gptq(
        "uneven", torch.zeros(8, 32).int(), torch.ones(8, 2).int(), torch.ones(8, 2), 4, g_idx=torch.zeros(32)
    )
    tensors = {
        **good,
        **uneven,
        "awq.qweight": torch.zeros(32, 4, dtype=torch.int32),
        "awq.qzeros": torch.zeros(2, 4, dtype=torch.int32),
        "awq.scales": torch.zeros(2, 16, dtype=torch.float16),
        "int8.weight": torch.zeros(8, 10, dtype=torch.int8),
        "int8.weight_scale": torch.ones(8, 3),
        "nf4.weight": torch.zeros(16, 1, dtype=torch.uint8),
        "nf4.weight.absmax": torch.zeros(1),
        "nf4.weight.quant_map": torch.zeros(16),
        "nf4.weight.quant_state.bitsandbytes__nf4": torch.tensor(list(b"[1"), dtype=torch.uint8),
        "packed.weight_packed": torch.zeros(8, 3, dtype=torch.int32),
        "packed.weight_scale": torch.ones(8, 1),
    }
    found = weights_of(layouts.write(tmp_path / "x.safetensors", tensors))
    problems = {name: weight.problem for name, (weight, _) in found.items() if weight.problem}
    assert set(found) - set(problems) == {"good.weight"}
    assert len(problems) == 5
    for name, problem in problems.items():
        for language in languages():
            assert name.split(".")[0] in problem.message(language)


def hostile():
    """Weights whose parts do not fit together, each in another way."""
    words = {"qweight": (0, 8), "qzeros": (1, 1), "scales": (1, 8)}
    yield "empty", {f"w.{name}": torch.zeros(shape, dtype=torch.int32) for name, shape in words.items()}
    state = torch.tensor(list(b'{"shape": [1e9, 2], "blocksize": 0}'), dtype=torch.uint8)
    for raw in (state, torch.full((2**17,), ord("["), dtype=torch.uint8)):
        parts = {"w.weight": torch.zeros(4, 1, dtype=torch.uint8), "w.weight.absmax": torch.zeros(1)}
        yield (
            "state",
            {**parts, "w.weight.quant_map": torch.zeros(16), "w.weight.quant_state.bitsandbytes__nf4": raw},
        )
    eight = torch.zeros(4, 4, dtype=torch.int8)
    yield (
        "zero scales",
        {"w.weight": torch.zeros(0, 4, dtype=torch.int8), "w.weight_scale": torch.zeros(0, 1)},
    )
    yield "zero points", {"w.weight": eight, "w.weight_scale": torch.zeros(4, 9)}
    shape = torch.zeros(2**16, dtype=torch.int64)
    packed = torch.zeros(4, 1, dtype=torch.int32)
    yield "shape", {"w.weight_packed": packed, "w.weight_scale": torch.ones(4, 1), "w.weight_shape": shape}

    three = torch.zeros(2, 4, 4, dtype=torch.int8)
    for scales in ((4, 1), (3, 4, 1), (1,), (2, 4, 3)):
        yield "experts", {"w.weight": three, "w.weight_scale": torch.ones(scales)}
        words = {"w.weight_packed": torch.zeros(2, 4, 1, dtype=torch.int32)}
        lengths = torch.tensor([2, 4, 4])
        yield "experts", {**words, "w.weight_scale": torch.ones(scales), "w.weight_shape": lengths}
    yield (
        "no expert",
        {
            "w.weight": torch.zeros(2**40, 0, 4, dtype=torch.int8),
            "w.weight_scale": torch.ones(1),
        },
    )


#: A weight of layouts of which the records have none: its tensors and its configuration.
SAMPLES = {
    "fp8_blocks": (layouts.fp8_blocks("x", torch.ones(64, 64), 32), {"weight_block_size": [32, 32]}),
    "comfy": (
        {"x.weight": torch.ones(4, 4).to(torch.float8_e4m3fn), "x.scale_weight": torch.ones(())},
        {},
    ),
}


def samples():
    """A weight of each layout that lies in modules: its tensors by name, and its configuration."""
    for case, config in CONFIGS.items():
        tensors = {
            f"x.{name[len(case) + 1 :]}": value
            for name, value in RECORDED.items()
            if name.startswith(f"{case}/") and not name.endswith("/expected")
        }
        yield case, tensors, config
    for case, (tensors, config) in SAMPLES.items():
        yield case, tensors, config


def unknown_siblings():
    """A name for an unknown tensor beside each sample, by how the layout calls its own."""
    for case, tensors, config in samples():
        yield case, tensors, config, {}
    for case, said in CASES.items():
        prefix = f"{case}/"
        own = {f"x.{name.removeprefix(prefix)}": x for name, x in TENSORS.items() if name.startswith(prefix)}
        own.pop("x.expected")
        yield case, own, said["config"], said["header"]
    gemma = {"x.weight": torch.ones(4, 4, dtype=torch.uint8), "x.weight_scale": torch.ones(4, 1)}
    yield "gemma", gemma, {"quant_method": "gemma", "num_bits": 2}, {}


def misfits():
    """Weights of the recorded cases with one tensor of another shape, or a number that lies."""
    for case, own, config, header in unknown_siblings():
        said = {"config": config, "header": header}
        for name, tensor in own.items():
            if tensor.numel() > 1 and not name.endswith(("_scale_2", "bias", "dtype")):
                yield case, {**own, name: tensor.flatten()[:-1].clone()}, said
                yield case, {**own, name: torch.zeros(0, *tensor.shape[1:], dtype=tensor.dtype)}, said
            elif name.endswith((".axis", ".nbits")):
                yield case, {**own, name: torch.tensor(2**31 - 1, dtype=torch.int32)}, said


MISFITS = list(misfits())


@pytest.mark.parametrize(
    ("case", "place"), sample_of([(case, place) for place, (case, *_) in enumerate(MISFITS)], 40)
)
def test_parts_of_another_length_are_told_or_read_in_bounds(tmp_path, case, place):
    _, tensors, said = MISFITS[place]
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, tmp_path / "x.safetensors", metadata=said["header"] or None)
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": said["config"]}))
    for weight, _ in weights_of(tmp_path / "x.safetensors").values():
        assert weight.problem is None or weight.problem.key.startswith(("layouts.", "file.")), case


@pytest.mark.parametrize(
    "said", ["{", "[]", '{"_type": 3}', '{"_type": "Int8Tensor", "_data": [1]}', "9" * 70000]
)
def test_a_header_that_lies_of_torchao_is_damage(tmp_path, said):
    tensors = {"x._weight_qdata": torch.zeros(4, 4, dtype=torch.int8), "x._weight_scale": torch.ones(4, 1)}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"x.weight": said})
    ((weight, _),) = weights_of(tmp_path / "x.safetensors").values()
    assert weight.problem.key in ("layouts.damaged", "layouts.torchao")


@pytest.mark.parametrize(("case", "tensors"), list(hostile()))
def test_parts_that_do_not_fit_together_are_damage(tmp_path, case, tensors):
    config = {"config_groups": ["no", "groups"], "checkpoint_format": ["gptq"]}
    found = weights_of(layouts.write(tmp_path / "x.safetensors", tensors, config))
    assert len(found) == (2 if case == "experts" else 1)
    assert all(weight.problem.key.startswith("layouts.") for weight, _ in found.values()), case


@pytest.mark.parametrize("group", [None, 0, 7, 8, 128, "32", True])
def test_gemv_needs_the_size_of_a_group(tmp_path, group):
    case = "awq_gemv_64"
    tensors = {f"x.{name}": RECORDED[f"{case}/{name}"] for name in ("qweight", "qzeros", "scales")}
    path = layouts.write(tmp_path / "x.safetensors", tensors, {**CONFIGS[case], "group_size": group})
    ((weight, _),) = weights_of(path).values()
    if group == 8:  # eight groups of 8 fit, as no file tells otherwise
        assert weight.problem is None
    else:
        assert weight.problem.key == "layouts.awq"


def test_another_format_of_gptq_is_refused(tmp_path):
    tensors = layouts.gptq("x", torch.zeros(8, 32).int(), torch.ones(8, 1).int(), torch.ones(8, 1), 4)
    path = layouts.write(tmp_path / "x.safetensors", tensors, {"checkpoint_format": "gptq_p"})
    ((weight, _),) = weights_of(path).values()
    assert "gptq_p" in str(weight.problem)


def test_a_configuration_that_is_damaged_is_told(tmp_path):
    tensors = layouts.gptq("x", torch.zeros(8, 32).int(), torch.ones(8, 1).int(), torch.ones(8, 1), 4)
    path = layouts.write(tmp_path / "x.safetensors", tensors)
    (tmp_path / "config.json").write_text("{")
    with qv.open_tensors(path) as catalog, pytest.raises(qv.QuantVizError, match=r"config\.json"):
        quantized_weights(catalog)


def test_the_table_of_layouts_has_every_one():
    page = (ROOT / "quantviz/sources/README.md").read_text(encoding="utf-8")
    section = page.partition("## Quantized weights")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
    names = catalogue("en")
    decoded = [
        names.get(f"notes.layouts.names.{layout}", layout) for layout in LAYOUTS if layout not in NAMED
    ]
    assert sorted(rows[1:]) == sorted(decoded), "a row for each layout, under Quantized weights"
    named = section.partition("Named and not read")[2].partition("\n\n")[0]
    assert all(text(f"notes.layouts.names.{layout}") in named for layout in NAMED)


def test_json_beside_is_found_for_shards_too(tmp_path):
    layouts.write(tmp_path / "a.safetensors", {"x": torch.zeros(2)}, {"quant_method": "gptq"})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))
    with qv.open_tensors(index) as catalog:
        assert catalog.json_beside("config.json") == {"quantization_config": {"quant_method": "gptq"}}
        assert catalog.json_beside("none.json") is None
        # Each weight of MLX asks for it: it is read once.
        assert catalog.json_beside("config.json") is catalog.json_beside("config.json")
        assert catalog.stored_bytes("x") == 8
        assert catalog.cut("x", (slice(0, 1),)).shape == (1,)


@pytest.mark.parametrize(("case", "tensors", "config", "header"), list(unknown_siblings()))
def test_a_weight_with_an_unknown_sibling_is_not_read(tmp_path, case, tensors, config, header):
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, tmp_path / "known.safetensors", metadata=header or None)
    known = weights_of(tmp_path / "known.safetensors")
    assert known
    assert not any(weight.problem for weight, _ in known.values())
    mystery = "x.gate_up_proj_mystery" if case == "gpt_oss" else "x.weight_mystery"
    save_file({**tensors, mystery: torch.ones(4)}, tmp_path / "more.safetensors", metadata=header or None)
    ((weight, _),) = weights_of(tmp_path / "more.safetensors").values()
    assert mystery in str(weight.problem), case
    assert weight.problem.key in ("layouts.sibling", "layouts.unknown")


def test_every_layout_in_modules_has_a_sample_of_an_unknown_sibling(tmp_path):
    held = set()
    for case, tensors, config, header in unknown_siblings():
        path = tmp_path / f"{case}.safetensors"
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata=header or None
        )
        (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
        with qv.open_tensors(path) as catalog:
            held |= {weight.layout for weight in quantized_weights(catalog)}
    decoded = {layout.id for layout in LAYOUTS.values() if any(form.read for form in layout.forms)}
    assert held == decoded, f"add a weight of {decoded - held} to SAMPLES"


@pytest.mark.parametrize("layout", NAMED)
def test_layouts_of_kernels_are_named_and_not_read(tmp_path, layout):
    """Their tensors are called so by

    - EXL2: https://github.com/turboderp/exllamav2 exllamav2/module.py (b9c025b);
    - EXL3: https://github.com/turboderp-org/exllamav3 exllamav3/modules/linear.py (4f8ad01);
    - AQLM: https://github.com/Vahe1994/AQLM inference_lib/src/aqlm/inference.py (e79a896);
    - QuIP#: https://github.com/Cornell-RelaxML/quip-sharp lib/linear/quantized_linear.py (1d8f873);
    - VPTQ: https://github.com/microsoft/VPTQ vptq/layers/vqlinear.py (950716d);
    - SpQR: https://github.com/Vahe1994/SpQR inference_lib/src/spqr_quant/inference.py (543d10e);
    - Marlin: https://github.com/IST-DASLab/marlin marlin/__init__.py (0f102e1);
    - MLC: https://github.com/mlc-ai/mlc-llm python/mlc_llm/quantization/group_quantization.py (79d603f);
    - Nunchaku: https://github.com/nunchaku-tech/nunchaku nunchaku/models/linear.py (3a3cc3d);
    - HIGGS and EETQ: transformers 5.24, integrations/higgs.py and integrations/eetq.py;
    - SINQ 0.2, sinq/sinqlinear_hf.py; FP-Quant 0.3.2, fp_quant/module/linear.py;
    - Quark: transformers 5.24, quantizers/quantizer_quark.py.
    """
    for form in NAMED[layout]:
        tensors = {
            f"x.{part}": torch.zeros(4, 4, dtype=getattr(torch, dtypes[0]))
            for part, dtypes in form.parts.items()
        }
        below = {
            "vptq": "centroids.weight",
            "sinq": "meta.scale",
            "quark": "weight_quantizer.scale",
        }.get(layout, "lut")
        # Whatever else lies in the module, or right below, is none of the model's tensors.
        tensors |= {f"x.{each}": torch.zeros(8, 8) for each in (below, "hessian", "scales_of_scales")}
        config = {"quant_method": layout}
        ((weight, _),) = weights_of(layouts.write(tmp_path / "x.safetensors", tensors, config)).values()
        assert set(weight.parts) == set(tensors)
        assert (weight.layout, weight.problem.key) == (layout, "layouts.kernels")
        assert text(f"notes.layouts.names.{layout}") in str(weight.problem)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("config", [{"quant_method": "quark"}, None])
def test_quarks_quantizers_are_named(tmp_path, dtype, config):
    tensors = {"x.weight": torch.ones(4, 4).to(dtype), "x.weight_quantizer.scale": torch.ones(())}
    ((weight, _),) = weights_of(layouts.write(tmp_path / "x.safetensors", tensors, config)).values()
    assert set(weight.parts) == set(tensors)
    assert (weight.layout, weight.problem.key) == ("quark", "layouts.kernels")


def test_fbgemms_experts_have_scales_of_outputs(tmp_path):
    """As many inputs as outputs: the shapes do not tell the axis."""
    tensors = {}
    right = {}
    for name, shape in (("gate_up_proj", (2, 1, 16)), ("down_proj", (2, 16, 1))):
        codes, scale = torch.randn(2, 16, 16).to(torch.float8_e4m3fn), torch.rand(shape) + 0.5
        tensors |= {f"experts.{name}": codes, f"experts.{name}_scale": scale}
        right |= {f"experts.{name}[{k}]": codes[k].float() * scale[k].flatten() for k in (0, 1)}
    path = layouts.write(tmp_path / "x.safetensors", tensors, {"quant_method": "fbgemm_fp8"})
    found = weights_of(path)
    assert {name: weight.problem for name, (weight, _) in found.items()} == dict.fromkeys(right)
    assert all(torch.equal(coded.x_hat, right[name]) for name, (_, coded) in found.items())
    assert all(weight.scheme.granularity == qv.PerChannel(1) for weight, _ in found.values())


@pytest.mark.parametrize(("bits", "dtype"), [(8, torch.int8), (4, torch.uint8), (2, torch.uint8)])
@pytest.mark.parametrize("codes", ["weight", "embedding_quantized"])
@pytest.mark.parametrize("by_patterns", [False, True])
def test_gemmas_own_layout(tmp_path, bits, dtype, codes, by_patterns):
    q = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (8, 64), dtype=torch.int8)
    scale = torch.rand(8, 1) + 0.5
    fields = (q.to(torch.int16) + 2 ** (bits - 1)).reshape(8, -1, 8 // bits)
    packed = sum(fields[..., k] << (bits * k) for k in range(8 // bits)).to(torch.uint8)
    scales = {"weight": "weight_scale", "embedding_quantized": "embedding_scale"}[codes]
    tensors = {
        **{f"x.{codes}": q if bits == 8 else packed, f"x.{scales}": scale},
        "x.input_activation_scale": torch.ones(()),
    }
    settings = {"quant_method": "gemma", "num_bits": bits}
    if by_patterns:
        settings |= {"num_bits": 8, "module_quant_configs": {"x": {"num_bits": bits}}}
    path = layouts.write(tmp_path / "x.safetensors", tensors)
    config = {"hidden_size": 64, "quantization_config": settings}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ((name, (weight, coded)),) = weights_of(path).items()
    assert (name, weight.layout, weight.problem) == ("x.weight", "gemma", None)
    assert str(weight.scheme.format) == f"int{bits}"
    assert torch.equal(coded.x_hat, q.float() * scale)


def test_mlxs_codes_as_transformers_writes_them(tmp_path):
    q = torch.randint(0, 16, (8, 64))
    words = sum(q.reshape(8, 8, 8)[..., k].to(torch.int64) << (4 * k) for k in range(8)).to(torch.uint32)
    scale, bias = torch.rand(8, 1), torch.rand(8, 1)
    tensors = {"x.weight": words, "x.scales": scale, "x.qbiases": bias}
    config = {"quant_method": "metal", "bits": 4, "group_size": 64}
    ((weight, coded),) = weights_of(layouts.write(tmp_path / "x.safetensors", tensors, config)).values()
    assert (weight.layout, weight.problem) == ("mlx", None)
    assert torch.equal(coded.x_hat, q.float() * scale + bias)


def _quanto_without_a_bias(folder, layer, config):
    own, theirs = written("quanto_int4", folder / "x.safetensors")
    renamed = {name.replace("x.", f"model.layers.0.{layer}.", 1): t for name, t in own.items()}
    renamed.pop(f"model.layers.0.{layer}.bias")
    save_file(renamed, folder / "x.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    ((weight, coded),) = weights_of(folder / "x.safetensors").values()
    return weight, coded, theirs


@pytest.mark.parametrize(
    ("layer", "config"),
    [
        ("self_attn.q_proj", {"hidden_size": 256}),
        ("mlp.down_proj", {"hidden_size": 64, "intermediate_size": 256}),
        ("self_attn.o_proj", {"hidden_size": 64, "num_attention_heads": 8, "head_dim": 32}),
        ("self_attn.o_proj", {"text_config": {"d_model": 256}}),
    ],
)
def test_rows_of_quanto_without_a_bias_follow_from_the_configuration(tmp_path, layer, config):
    weight, coded, theirs = _quanto_without_a_bias(tmp_path, layer, config)
    assert weight.problem is None
    assert torch.equal(coded.x_hat, theirs.float())


@pytest.mark.parametrize(
    "config", [{}, [], {"hidden_size": 100}, {"hidden_size": "256"}, {"hidden_size": 2**40}]
)
def test_a_configuration_that_does_not_tell_quantos_rows_is_said(tmp_path, config):
    weight, _, _ = _quanto_without_a_bias(tmp_path, "self_attn.q_proj", config)
    assert weight.problem.key == "layouts.no_shape"


@pytest.mark.parametrize(
    ("packing", "less"), [("auto_round:auto_gptq", 1), ("auto_round", 0), ("auto_round:gptqmodel", 0)]
)
def test_autorounds_packing_format_tells_the_zero_points(tmp_path, packing, less):
    q, zero = torch.randint(0, 16, (8, 32)), torch.randint(1, 16, (8, 1))
    tensors = layouts.gptq("x", q, zero, torch.ones(8, 1), 4, version=2 - less)
    config = {"quant_method": "auto-round", "bits": 4, "packing_format": packing}
    ((weight, coded),) = weights_of(layouts.write(tmp_path / "x.safetensors", tensors, config)).values()
    assert weight.layout == "gptq"
    assert torch.equal(coded.x_hat, (q - zero).float())
    other = layouts.write(
        tmp_path / "y.safetensors", tensors, {**config, "packing_format": "auto_round:other"}
    )
    ((weight, _),) = weights_of(other).values()
    assert "auto_round:other" in str(weight.problem)


@pytest.mark.parametrize("order", ["act_order", "in_place", "damaged"])
def test_groups_of_compressed_tensors_follow_g_idx(tmp_path, order):
    q, scale = torch.randint(0, 16, (8, 64)), torch.rand(8, 2) + 0.5
    g_idx = torch.arange(64).flip(0) // 32 if order == "act_order" else torch.full((64,), -1)
    if order == "damaged":
        g_idx[0] = 7
    tensors = {
        "x.weight_packed": layouts.in_words(q, 4),
        "x.weight_scale": scale,
        "x.weight_shape": torch.tensor([8, 64]),
        "x.weight_g_idx": g_idx.int(),
    }
    ((weight, coded),) = weights_of(layouts.write(tmp_path / "x.safetensors", tensors)).values()
    if order == "damaged":
        assert weight.problem.key == "layouts.groups"
        return
    group = g_idx if order == "act_order" else torch.arange(64) // 32
    values = coded.x_hat if weight.columns is None else coded.x_hat[:, weight.columns.argsort()]
    assert torch.equal(values, scale[:, group] * (q - 8))


@pytest.mark.parametrize("shared", [torch.ones(()), torch.ones(1)])
def test_bytes_of_scales_beside_a_scale_of_all_are_no_exponents(tmp_path, shared):
    """AutoRound's E5M3 scales are bytes too; codes of 6 bits lie in bytes too."""
    codes = {"x.weight_packed": torch.zeros(4, 32, dtype=torch.uint8)}
    for scales in (torch.zeros(4, 4, dtype=torch.uint8), torch.zeros(4, 2, dtype=torch.uint8)):
        tensors = {**codes, "x.weight_scale": scales, "x.weight_global_scale": shared}
        ((weight, _),) = weights_of(layouts.write(tmp_path / "x.safetensors", tensors)).values()
        assert weight.problem.key == "layouts.scales"


@pytest.mark.parametrize("rows", [1, 2, 16])
def test_a_row_may_be_one_group(tmp_path, rows):
    """Then the scales look like those of rows, and those of one row like one for all."""
    drawn = torch.Generator().manual_seed(rows)
    scale = torch.rand(rows, 1, generator=drawn) + 0.5
    codes = torch.randint(0, 16, (rows, 16), generator=drawn, dtype=torch.uint8)
    pairs = codes[:, 0::2] | codes[:, 1::2] << 4
    values = qv.dequantize(codes, "float4_e2m1fn,symmetric,per_tensor,min_max,course", QParams(1.0))
    nvfp4 = {"a.weight": pairs, "a.weight_scale": scale.to(torch.float8_e4m3fn), "a.weight_scale_2": scale[0]}
    signed = torch.randint(-8, 8, (2 * rows, 32), generator=drawn)
    nibbles = (signed & 15).to(torch.uint8)
    int4 = {"b.weight": nibbles[0::2] | nibbles[1::2] << 4, "b.weight_scale": scale.repeat(2, 1)}
    config = {"quant_method": "modelopt"}
    found = weights_of(layouts.write(tmp_path / "x.safetensors", {**nvfp4, **int4}, config))
    expected = values * (nvfp4["a.weight_scale"].float() * scale[0])
    assert torch.equal(found["a.weight"][1].x_hat, expected)
    assert torch.equal(found["b.weight"][1].x_hat, signed * scale.repeat(2, 1))


def test_codes_that_no_layout_claims_are_weights_that_are_not_read(tmp_path):
    tensors = {
        "a.weight": torch.zeros(4, 4, dtype=torch.int8),
        "a.lattice": torch.zeros(4),
        "b.weight": torch.zeros(4, 4).to(torch.float8_e4m3fn),
        "b.lattice": torch.zeros(4),
        "plain.weight": torch.zeros(4, 4).to(torch.float8_e4m3fn),
        "plain.bias": torch.zeros(4),
        "attn.bias": torch.zeros(4, 4, dtype=torch.uint8),
        "attn.masked_bias": torch.zeros(1),
        "norm.weight": torch.zeros(4),
        "norm.num_batches_tracked": torch.zeros(1, dtype=torch.int64),
    }
    found = weights_of(layouts.write(tmp_path / "x.safetensors", tensors))
    assert list(found) == ["a.weight", "b.weight"]
    assert all(weight.problem.key == "layouts.unknown" for weight, _ in found.values())


def test_a_weight_without_a_scheme_is_audited_by_its_values(tmp_path):
    kind = next(each for each in BLOCK_TYPES.values() if each.name == "IQ2_XXS")
    raw = np.random.default_rng(0).integers(0, 256, (64, kind.size), dtype=np.uint8)
    raw[:, :2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    values = torch.from_numpy(gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind.name]))
    name = "blk.0.ffn_up.weight"
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType[kind.name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    own = values + 0.1 * values.std() * torch.randn(values.shape, generator=torch.Generator().manual_seed(0))
    (tmp_path / "original").mkdir()
    original = layouts.write(tmp_path / "original" / "y.safetensors", {name: own})
    (found,) = [each for each in qv.audit(tmp_path / "x.gguf", original).tensors if each.tensor == name]
    right = 10 * torch.log10(own.double().square().sum() / (values - own).double().square().sum())
    assert found.metrics["sqnr_db"] == pytest.approx(float(right), abs=1e-6)
    assert (found.scheme, found.rounding, found.status) == (None, "", "ok")
    for language in languages():
        assert "GGUF" in qv.audit(tmp_path / "x.gguf", original).messages(language)[0]
    with pytest.raises(qv.QuantVizError, match="no codes"):
        qv.audited_result(tmp_path / "x.gguf", original, name)
    with qv.open_tensors(tmp_path / "x.gguf") as catalog:
        stored = model_tensors(catalog).stored(name)
        assert torch.equal(stored.read((slice(3, 9), slice(0, 5))), values[3:9, :5])
        assert stored.own_scales(qv.Scheme("int4")) is None
        assert all(note.message(language) for note in stored.notes for language in languages())
