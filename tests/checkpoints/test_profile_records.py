"""Profiles against files that engines' own tools wrote: which tensors are quantized, and whole sizes."""

import json
import math

import pytest
import torch
from safetensors.torch import save_file

from quantviz.checkpoints.allocation.allocating import allocate
from quantviz.checkpoints.allocation.file_size import file_sizes
from quantviz.checkpoints.profiles import PROFILES
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.checkpoints.results.typed_tables import COLUMNS, TypedTable
from quantviz.checkpoints.scan.listing import Entry, TensorListing
from quantviz.checkpoints.scan.recipes import recipes_named
from quantviz.checkpoints.scan.selection import Selection, selected
from quantviz.evaluation.metric_formulas import stored_size
from tests.helpers import ROOT

#: What `tests/engines/record_profiles.py` recorded, by engine.
RECORDED = json.loads((ROOT / "tests/engines/recorded/profiles.json").read_text(encoding="utf-8"))
MODELS = RECORDED.pop("models")
WIDTHS = {"bfloat16": 2, "float32": 4}
#: Recipes that no tool on a CPU writes files of: what they need is in the profiles' page.
NOT_RECORDED = {"torchao_int4_g128", "torchao_int4_g32", "torchao_fp8_per_tensor"}
CASES = [(engine, model) for engine, answer in RECORDED.items() for model in answer["models"]]


def entries_of(engine, model, path):
    """Return the tensors that the tool was given, in a file of the size that it had."""
    answer = RECORDED[engine]["models"][model]
    source = path / f"source{PROFILES[engine].files.suffix}"
    with source.open("wb") as file:
        file.truncate(answer.get("source", 0))
    width = WIDTHS[answer["dtype"]]
    # A tool's file may have no tensor of some, such as biases that are parts of operations.
    stored = next(iter(answer["recipes"].values()))["bytes"] if answer["recipes"] else ()
    return [
        Entry(name, str(source), answer["dtype"], tuple(shape), math.prod(shape) * width)
        for (name, shape), size in zip(MODELS[model], stored, strict=bool(stored))
        if size is not None
    ]


@pytest.mark.parametrize(("engine", "model"), CASES)
def test_tensors_and_whole_files_are_those_of_the_tool(engine, model, tmp_path):
    entries = entries_of(engine, model, tmp_path)
    for recipe, written in RECORDED[engine]["models"][model]["recipes"].items():
        named = recipes_named(recipe)
        found = selected(TensorListing(tuple(entries[::-1])), Selection(engine), named).entries[::-1]
        stored = [size for size in written["bytes"] if size is not None]
        theirs = {each.name for each, size in zip(entries, stored, strict=True) if size != each.size}
        ours = {each.name for each in found if each.unmeasured is None and each.schemes([named[0][1]])[0]}
        assert ours == theirs, recipe
        size = file_sizes(found, named, PROFILES[engine].files)[recipe]
        assert size == pytest.approx(written["size"], rel=1e-3), recipe


def test_a_file_that_a_tool_does_not_write_has_no_size(tmp_path):
    """torchao's NVFP4 ends with an error at the head of 999 rows, which 16 does not divide."""
    entries = entries_of("torchao", "deep", tmp_path)
    named = [*recipes_named("torchao_mxfp4"), *recipes_named("nvfp4")]
    found = selected(TensorListing(tuple(entries)), Selection("torchao"), named).entries
    assert file_sizes(found, named, PROFILES["torchao"].files).keys() == {"torchao_mxfp4"}


@pytest.mark.parametrize(("layers", "width"), [(3, 256), (12, 512), (30, 128)])
def test_a_whole_file_is_foretold_of_a_model_that_is_in_no_record(layers, width, tmp_path):
    """What a header takes was measured on the record's files: another one is written here, as
    compressed-tensors names and lays out its parts, by the package that it writes with.
    """
    written, entries = {}, []

    def keep(name, *shape):
        written[name] = torch.ones(shape, dtype=torch.bfloat16)
        entries.append(Entry(name, str(tmp_path / "x.safetensors"), "bfloat16", shape, 2 * math.prod(shape)))

    keep("model.embed_tokens.weight", 1000, width)
    for layer in range(layers):
        for part in ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"):
            name = f"model.layers.{layer}.{part}"
            keep(f"{name}.weight", width, width)
            del written[f"{name}.weight"]
            written[f"{name}.weight_packed"] = torch.ones(width, width // 8, dtype=torch.int32)
            written[f"{name}.weight_scale"] = torch.ones(width, width // 128, dtype=torch.bfloat16)
            written[f"{name}.weight_shape"] = torch.tensor([width, width])
        keep(f"model.layers.{layer}.input_layernorm.weight", width)
    save_file(written, tmp_path / "x.safetensors", {"format": "pt"})
    named = recipes_named("w4a16_g128")
    found = selected(TensorListing(tuple(entries)), Selection("vllm"), named).entries
    size = file_sizes(found, named, PROFILES["vllm"].files)["w4a16_g128"]
    assert size == pytest.approx((tmp_path / "x.safetensors").stat().st_size, rel=1e-3)


@pytest.mark.parametrize(("engine", "model"), [case for case in CASES if PROFILES[case[0]].export])
def test_an_allocation_for_a_tool_counts_what_the_tool_writes(engine, model, tmp_path):
    entries = entries_of(engine, model, tmp_path)
    for recipe, written in RECORDED[engine]["models"][model]["recipes"].items():
        named = recipes_named(recipe)
        rows = []
        for entry in selected(TensorListing(tuple(entries)), Selection(engine), named).entries:
            scheme = named[0][1]
            is_ok = entry.unmeasured is None and entry.schemes([scheme])[0] is not None
            row = ResultRow(
                entry.name,
                recipe,
                "ok" if is_ok else "left_aside",
                shape=entry.shape,
                dtype=entry.dtype,
                bits=stored_size(scheme, entry.seen) if is_ok else None,
                scheme=str(scheme),
                file=entry.file,
                numbers={"cost": 1.0},
            )
            rows.append(row)
        if not any(row.status == "ok" for row in rows):
            continue
        found = allocate(TypedTable((*COLUMNS, "cost"), tuple(rows)), gigabytes=1.0, files_of=engine)
        assert (found.bits + found.choices.kept_bits) / 8 == pytest.approx(written["size"], rel=1e-3), recipe


@pytest.mark.parametrize("engine", RECORDED)
def test_every_recipe_of_a_profile_was_asked_of_the_tool(engine):
    asked = {recipe for answer in RECORDED[engine]["models"].values() for recipe in answer["recipes"]}
    assert set(PROFILES[engine].recipes) == asked | (set(PROFILES[engine].recipes) & NOT_RECORDED)


def test_every_profile_has_a_record():
    # That of llama.cpp's mixtures has its own, `llama_presets.json`.
    assert set(PROFILES) == {*RECORDED, "llama_cpp"}


def test_a_recipe_that_the_tool_refuses_has_no_size(tmp_path):
    entry = Entry("a.q_proj.weight", str(tmp_path / "m.safetensors"), "float32", (8, 96), 8 * 96 * 4)
    named = recipes_named(["w4a16_g128", "w8a8_per_row"])
    found = selected(TensorListing((entry,)), Selection("vllm"), named).entries
    assert set(file_sizes(found, named, PROFILES["vllm"].files)) == {"w8a8_per_row"}
