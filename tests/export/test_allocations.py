"""An allocation as files of other tools; `tests/test_allocation_exports.py` has the tools read them."""

import json
import re

import pytest

import quantviz as qv
from quantviz.export.allocations import EXPORTS, export_allocation, quantizer_attributes, weight_arguments
from quantviz.schemes.recipes import RECIPE_GROUPS, RECIPES
from tests.helpers.allocations import NAMES, allocation


def test_json_has_everything_that_was_chosen():
    read = json.loads(export_allocation(allocation(["int4_g128"], excluded="*o_proj*"), "json"))
    assert read["choice"] == {name: "int4_g128" for name in NAMES if "o_proj" not in name}
    assert (read["bits"], read["cost"], read["optimal"]) == (600, 6, True)
    assert read["what"] == "smallest weight error at this size"
    assert read["arithmetic"] == {"int4_g128": "course"}


def test_llama_finds_each_tensor_by_one_pattern():
    written = export_allocation(allocation(["q4_k", "q8_0", "gguf_mxfp4"], excluded=NAMES[3]), "llama")
    patterns = dict(line.split("=") for line in written.splitlines())
    found = {
        name: [kind for pattern, kind in patterns.items() if re.search(pattern, name)]
        for name in (
            "blk.0.attn_q.weight",
            "blk.0.attn_k.weight",
            "blk.0.attn_v.weight",
            "blk.0.attn_output.weight",
        )
    }
    assert list(found.values()) == [["q4_k"], ["q8_0"], ["mxfp4"], ["bf16"]]
    assert not [pattern for pattern in patterns if re.search(pattern, "blk.10.attn_q.weight")]


def test_llama_knows_every_type_of_its_files():
    gguf = pytest.importorskip("gguf")
    known = {kind.name.lower() for kind in gguf.GGMLQuantizationType}
    for recipe in RECIPE_GROUPS["gguf"]:
        line = export_allocation(allocation([recipe], ["blk.0.ffn_up.weight"]), "llama")
        assert line.strip().split("=")[1] in known


def test_the_formats_that_a_tool_has_are_told():
    theirs = {name for name, scheme in RECIPES.items() if weight_arguments(scheme)}
    assert {"nvfp4", "mxfp4", "int4_g128", "fp8_e4m3_per_row"} <= theirs
    assert not theirs & {*RECIPE_GROUPS["gguf"], *RECIPE_GROUPS["codebooks"], "int4_per_column", "mxfp6_e2m3"}
    theirs = {name for name, scheme in RECIPES.items() if quantizer_attributes(scheme)}
    assert {"nvfp4", "mxfp4", "mxint8", "mxfp6_e2m3", "int4_g128", "fp8_e4m3_per_row"} <= theirs
    assert not theirs & {*RECIPE_GROUPS["gguf"], *RECIPE_GROUPS["codebooks"], "int4_per_column"}


MISTAKES = {
    "unknown_export": (["q4_k"], NAMES, "gptq"),
    "no_format": (["q4_k"], NAMES, "modelopt"),
    "no_gguf_name": (["q4_k"], ["visual.patch.weight"], "llama"),
    "no_module": (["nvfp4"], ["experts.down"], "modelopt"),
    "not_fused": (["int4_g128", "int8_per_row"], NAMES, "llmcompressor"),
    # Decibels of another arithmetic are not those of the tool's files.
    "other_arithmetic": (["w4a16_g128"], NAMES, "modelopt"),
}


@pytest.mark.parametrize("key", MISTAKES)
def test_what_a_tool_cannot_have_is_named(key):
    recipes, names, form = MISTAKES[key]
    with pytest.raises(qv.QuantVizError) as refused:
        export_allocation(allocation(recipes, names), form)
    assert refused.value.key == f"allocate.{key}"


def test_a_file_says_whose_arithmetic_its_decibels_are_of():
    own = export_allocation(allocation(["w4a16_g128"]), "llmcompressor")
    assert "compressed_tensors" in own.splitlines()[0]
    other = export_allocation(allocation(["int4_g128"]), "modelopt", other_arithmetic=True)
    assert "course" in other.splitlines()[0]


def test_the_exports_are_those_that_are_told():
    assert list(EXPORTS) == ["json", "llama", "llmcompressor", "modelopt"]
