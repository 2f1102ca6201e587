"""What lies beside the tensors of a model, and what is uploaded with it: settings, indexes, importance
matrices; with values that are none, or damaged at random. Each is read, or is a sentence.
"""

import itertools
import json
import random

import pytest
import torch
from safetensors.torch import save_file

from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.errors import QuantVizError
from quantviz.text import languages
from quantviz.ui.checkpoints.importance import keep
from tests.helpers.importance_file import write_dat
from tests.helpers.sample import sample_of

METHODS = (
    "gptq",
    "awq",
    "fp8",
    "compressed-tensors",
    "bitsandbytes",
    "hqq",
    "quanto",
    "torchao",
    "mxfp4",
    None,
)
FIELDS = (
    "bits",
    "group_size",
    "weight_block_size",
    "config_groups",
    "quant_method",
    "version",
    "format",
    "sym",
)
VALUES = (
    None,
    True,
    -1,
    0,
    2**63,
    10**400,
    1.5,
    "4",
    [],
    {},
    "x" * 10**5,
    [[1]],
    {"a": 1},
    "\ud800",
    "../..",
)
NAMES = ("a.dat", "../../a.gguf", "a\0b.gguf", "\ud800.dat", "x" * 5000)


def answered(work):
    """Whether a piece of work has an answer; else it says why not, shortly, and as text that can be sent."""
    try:
        work()
    except QuantVizError as raised:
        problem = raised
    else:
        return True
    assert all(0 < len(problem.message(language).encode()) < 8000 for language in languages())
    return False


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    part = "model.layers.0.up_proj"
    tensors = {
        f"{part}.qweight": torch.zeros(16, 64, dtype=torch.int32),
        f"{part}.qzeros": torch.zeros(1, 8, dtype=torch.int32),
        f"{part}.scales": torch.ones(1, 64, dtype=torch.float16),
        f"{part}.g_idx": torch.zeros(128, dtype=torch.int32),
        "a.weight": torch.ones(128, 128).to(torch.float8_e4m3fn),
        "a.weight_scale_inv": torch.ones(1, 1),
    }
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_settings_of_a_quantized_model_with_values_that_are_none(model):
    usual = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
    settings = [
        {"quantization_config": {**usual, "quant_method": method, field: value}}
        for method, field, value in itertools.product(METHODS, FIELDS, VALUES)
    ]
    settings += [each for value in VALUES for each in (value, {"quantization_config": value})]
    read = 0
    for said in sample_of(settings, 150):
        (model / "config.json").write_text(json.dumps(said))
        read += answered(lambda: str(list_checkpoint(model).entries))
    (model / "config.json").unlink()
    assert read


def test_an_index_with_values_that_are_none(model):
    index = model / "model.safetensors.index.json"
    shards = (
        *VALUES,
        "model.safetensors",
        "/etc/passwd",
        "a/../../b.safetensors",
        "model.safetensors\0",
        ".",
    )
    maps = [each for shard in shards for each in (shard, {"a.weight": shard}, [shard])]
    fates = set()
    for said in [*sample_of(maps, 40), {"a.weight": "model.safetensors"}]:
        index.write_text(json.dumps({"weight_map": said}))
        fates.add(answered(lambda: list_checkpoint(index)))
    index.unlink()
    assert fates == {True, False}


def test_an_importance_matrix_that_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "whole.dat"
    write_dat(path, {f"blk.{k}.ffn_up.weight": [1.0, 2.0, 3.0] for k in range(3)})
    whole, fates = path.read_bytes(), []
    for seed in sample_of(range(1000), 60):
        chance, content = random.Random(seed), bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.choice((0, 127, 128, 255))
        del content[chance.choice((len(content), chance.randrange(len(content)))) :]
        name = chance.choice(NAMES)
        fates.append(answered(lambda: keep(name, bytes(content))))  # noqa: B023
    assert set(fates) == {True, False}
    # Of what was uploaded nothing lies elsewhere, and the last few alone are kept.
    assert {each.parent.name for each in tmp_path.rglob("*") if each.is_file()} == {tmp_path.name, "imatrix"}
