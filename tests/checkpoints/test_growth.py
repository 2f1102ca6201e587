"""What a checkpoint's names pass through takes work in proportion to them: their number, and their length."""

import itertools
import json
import struct
import tracemalloc

import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.checkpoints.audit.matching import matched_by_ends
from quantviz.checkpoints.model.gguf_names import gguf_names
from quantviz.checkpoints.model.tensor_names import place_of_name, short_names
from quantviz.checkpoints.model_map import model_map
from quantviz.checkpoints.profiles.siblings import fused_groups
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.sources.files.catalog import Catalog
from quantviz.sources.limits import LONGEST_NAME
from tests.helpers.growth import RECIPES, SHAPES, WORKS, both, calls_of, columns_of, model_of, rows_of
from tests.helpers.sample import sample_of

#: Tensors that are counted with, and the calls that twice as many may make: nearly four times as many is what
#: grows with their square.
COUNT, MOST = 150, 2.4


@pytest.mark.parametrize(("work", "shape"), sample_of(itertools.product(WORKS, SHAPES), 16))
def test_twice_the_tensors_take_twice_the_calls(work, shape):
    def calls(count):
        work_of = WORKS[work](SHAPES[shape](count))
        work_of()  # what is made once is made
        return calls_of(work_of)

    once, twice = calls(COUNT), calls(2 * COUNT)
    assert twice <= MOST * once, f"{COUNT} tensors take {once} calls, twice as many {twice}"


def test_the_counter_sees_comparisons_of_names():
    names = SHAPES["kinds"](COUNT)
    assert calls_of(lambda: [names.index(name) for name in names]) > COUNT**2 / 2


@pytest.mark.parametrize("part", ["q_proj", "experts.3", "a"])
def test_the_longest_name_takes_no_more_memory_than_many_short_ones(part):
    """Work on one name that grew with the square of its length took 3 GB for one of 35,000 characters."""

    def peak(length):
        names = [(f"{part}." * length)[: length - 6] + "weight", "b.weight"]
        tracemalloc.start()
        short_names(names)
        fused_groups(names)
        gguf_names(names)
        place_of_name(names[0])
        matched_by_ends(dict.fromkeys(names, (8, 8)), {f"module.{name}": (8, 8) for name in names})
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(LONGEST_NAME // 2)
    assert peak(LONGEST_NAME) < 2.4 * peak(LONGEST_NAME // 2)


def test_a_picture_of_many_layers_and_kinds_is_no_larger_than_the_tensors_need():
    data = model_map(model_of(both(4000)), RECIPES[0])
    assert len(data.rows) * len(data.kinds) <= 2**19
    assert data.crowded == 4000 - sum(square.count for square in data.squares) > 0
    assert model_map(model_of(both(200)), RECIPES[0]).crowded == 0


def quantized_shards(folder, count):
    """Write weights in FP8 with their scales, as Kimi and DeepSeek have them, in two shards and an index."""
    shards = {}
    for k in range(count):
        tensors = shards.setdefault(f"model-{k % 2 + 1:05}-of-00002.safetensors", {})
        name = f"model.layers.{k // 8}.mlp.experts.{k % 8}.up_proj.weight"
        tensors[name] = torch.ones(4, 4).to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = torch.ones(1, 1)
    folder.mkdir()
    for file, tensors in shards.items():
        save_file(tensors, folder / file)
    index = folder / "model.safetensors.index.json"
    where = {name: file for file, tensors in shards.items() for name in tensors}
    index.write_text(json.dumps({"weight_map": where}))
    method = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
    (folder / "config.json").write_text(json.dumps({"quantization_config": method}))
    return index


def test_names_of_an_index_are_not_listed_again_for_each_tensor(tmp_path, monkeypatch):
    """Listing the names takes as long as there are names: for each of Kimi's 138,241 it took ten minutes."""
    listed = []
    names = Catalog.names.fget
    monkeypatch.setattr(Catalog, "names", property(lambda self: listed.append(self) or names(self)))

    def lists(count):
        index = quantized_shards(tmp_path / str(count), count)
        listed.clear()
        assert sum(entry.decoded for entry in list_checkpoint(index).entries) == count
        audit = qv.audit(index, index)
        assert len(audit.tensors) >= count
        return len(listed)

    assert lists(16) == lists(32)


def a_file(path, name):
    header = json.dumps({name: {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    return path


def test_a_name_that_is_too_long_is_no_key(tmp_path):
    longest, longer = "x" * LONGEST_NAME, "x" * (LONGEST_NAME + 1)
    with qv.open_tensors(a_file(tmp_path / "a.safetensors", longest)) as catalog:
        assert catalog.names == (longest,)

    def opened():
        with qv.open_tensors(a_file(tmp_path / "b.safetensors", longer)) as catalog:
            return catalog

    tries = [
        opened,
        lambda: qv.allocate(columns_of([longer]), bits_per_weight=4),
    ]
    for each in tries:
        with pytest.raises(qv.QuantVizError, match=r"4,?096") as caught:
            each()
        assert len(str(caught.value)) < 400
    # In a report such a row is one with a problem, and its name is not there.
    assert "x" * 200 not in qv.report(rows_of([longer]))
