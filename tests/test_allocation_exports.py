"""An allocation's exports, read by the tools that they are for."""

import fnmatch
import re

import pytest
import torch
import yaml

from quantviz.checkpoints.profiles import PROFILES
from quantviz.export.allocations import export_allocation, quantizer_attributes, suited, weight_arguments
from quantviz.schemes.recipes import ALL_RECIPES
from tests.helpers.allocations import NAMES, allocation
from tests.helpers.meaningful_names import NAMES as NAMES_THAT_MEAN_SOMETHING

pytestmark = pytest.mark.filterwarnings("ignore")


def test_compressed_tensors_reads_the_recipe_of_llmcompressor():
    quantization = pytest.importorskip("compressed_tensors.quantization")
    chosen = ["w4a16_g128", "w4a16_g128", "w4a16_g128", "w8a8_per_row", "ct_fp8_per_tensor"]
    written = export_allocation(allocation(chosen, NAMES[:5], excluded=NAMES[4]), "llmcompressor")
    modifier = yaml.safe_load(written)["quant_stage"]["quant_modifiers"]["QuantizationModifier"]
    assert modifier["ignore"] == ["model.layers.1.self_attn.q_proj"]
    read = quantization.QuantizationConfig(config_groups=modifier["config_groups"])
    groups = list(read.config_groups.values())
    assert [len(group.targets) for group in groups] == [3, 1]
    assert groups[0].targets[0] == "model.layers.0.self_attn.q_proj"
    assert (groups[0].weights.num_bits, groups[0].weights.group_size) == (4, 128)
    assert groups[1].weights.strategy == "channel"
    for scheme in ALL_RECIPES.values():
        if arguments := weight_arguments(scheme):
            assert quantization.QuantizationArgs(**arguments).strategy == arguments["strategy"]
    # The profile's recipes are the presets of their names.
    for recipe, preset in PRESETS.items():
        theirs = quantization.preset_name_to_scheme(preset, ["Linear"]).weights
        ours = quantization.QuantizationArgs(**weight_arguments(ALL_RECIPES[recipe]))
        fields = ["num_bits", "type", "symmetric", "strategy", "group_size", "block_structure"]
        fields += ["scale_dtype"] if theirs.scale_dtype else []
        assert all(getattr(ours, field) == getattr(theirs, field) for field in fields), recipe
    assert set(PRESETS) == set(PROFILES["vllm"].recipes)


#: The presets of compressed-tensors by the profile's recipes.
PRESETS = {
    "w4a16_g128": "W4A16",
    "w4a16_asym_g128": "W4A16_ASYM",
    "w8a16_g128": "W8A16",
    "w8a8_per_row": "W8A8",
    "ct_fp8_per_tensor": "FP8",
    "ct_fp8_per_row": "FP8_DYNAMIC",
    "ct_fp8_block": "FP8_BLOCK",
    "ct_nvfp4": "NVFP4A16",
    "ct_mxfp4": "MXFP4A16",
    "ct_mxfp8": "MXFP8A16",
}


@pytest.mark.nightly
def test_modelopt_reads_its_configuration():
    config = pytest.importorskip("modelopt.torch.quantization.config")
    recipes = [name for name, scheme in ALL_RECIPES.items() if quantizer_attributes(scheme)]
    assert set(recipes) >= set(PROFILES["modelopt"].recipes)
    names = [f"model.layers.{layer}.mlp.down_proj.weight" for layer in range(len(recipes))]
    written = export_allocation(allocation(recipes, names), "modelopt", other_arithmetic=True)
    read = config.QuantizeConfig(**yaml.safe_load(written))
    assert read.quant_cfg[0].enable is False
    by_recipe = dict(zip(recipes, read.quant_cfg[1:], strict=True))
    assert by_recipe["nvfp4"].cfg.num_bits == (2, 1)
    assert by_recipe["nvfp4"].cfg.block_sizes == {-1: 16, "type": "dynamic", "scale_bits": (4, 3)}
    assert by_recipe["int8_per_row"].cfg.axis == 0
    module = f"model.layers.{recipes.index('int4_g128')}.mlp.down_proj"
    assert by_recipe["int4_g128"].quantizer_name == f"{module}.weight_quantizer"


@pytest.mark.parametrize(
    ("form", "recipe", "joins"),
    [
        ("llmcompressor", "w4a16_g128", True),
        # Its export_hf_checkpoint refuses query, key and value in several formats.
        ("modelopt", "modelopt_int4_g128", True),
        ("llama", "q4_0", False),
    ],
)
def test_a_tool_that_joins_layers_needs_one_recipe_for_them(form, recipe, joins):
    table = {"tensor": NAMES[:3], "recipe": [recipe] * 3, "bits": [100] * 3, "cost": [1.0] * 3}
    assert suited(table, form).joins is joins


def test_names_are_no_patterns_and_no_classes_to_the_tools():
    match = pytest.importorskip("compressed_tensors.utils.match").is_match
    plain = [name for name in NAMES_THAT_MEAN_SOMETHING if name and not re.search("[\ud800-\udfff]", name)]
    names = list(dict.fromkeys((*plain, *(f"model.{name}" for name in plain))))
    chosen = allocation(["int4_g128"], [f"{name}.weight" for name in names])
    stage = yaml.safe_load(export_allocation(chosen, "llmcompressor", other_arithmetic=True))["quant_stage"]
    [group] = stage["quant_modifiers"]["QuantizationModifier"]["config_groups"].values()
    entries = yaml.safe_load(export_allocation(chosen, "modelopt", other_arithmetic=True))["quant_cfg"][1:]
    linear, quantizers = torch.nn.Linear(1, 1), [f"{name}.weight_quantizer" for name in names]
    for at, (name, target, entry) in enumerate(zip(names, group["targets"], entries, strict=True)):
        some = [name, "x", *names[:: 1 + at % 7]]
        assert {other for other in some if match(other, linear, [target])} == {name}
        assert fnmatch.filter(quantizers, entry["quantizer_name"]) == [f"{name}.weight_quantizer"]
