"""What a path or an address of a checkpoint stands for: parts of a split GGUF, folders, links to files."""

import struct

import gguf
import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.checkpoints.model.opening import known_as, open_checkpoint
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.text import languages
from tests.helpers import layouts
from tests.helpers.gguf_file import STRING, UINT32, Entry, gguf_file, pair, string
from tests.helpers.sharded import write_model

#: llama.cpp's whole numbers of two and of four bytes.
UINT16, INT32 = 2, 5


def key_of(call, *args, **named):
    with pytest.raises(qv.QuantVizError) as caught:
        call(*args, **named)
    assert all(caught.value.message(language) for language in languages())
    return caught.value.key


def opened(path):
    with open_checkpoint(path) as catalog:
        return {name: catalog.load(name) for name in catalog.names}


def split_gguf(folder, tensors, *, most):
    """Write tensors by the package's own writer, so many a part at most; return the parts."""
    folder.mkdir()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 4)
    writer = gguf.GGUFWriter(folder / "x.gguf", "llama", split_max_tensors=most)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    for name, tensor in tensors.items():
        stored = names.get_name(name, try_suffixes=(".weight",))
        kind = gguf.GGMLQuantizationType.Q8_0
        if tensor.dim() == 2:
            writer.add_tensor(stored, gguf.quants.quantize(tensor.numpy(), kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, tensor.numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.iterdir())


def part(number, count, *names, value=1.0):
    """Return a part as gguf-split writes it, its number counted from 0; the first has the metadata."""
    metadata = [
        *([pair("general.architecture", STRING, string("llama"))] if number == 0 else []),
        pair("split.no", UINT16, struct.pack("<H", number)),
        pair("split.count", UINT16, struct.pack("<H", count)),
        pair("split.tensors.count", INT32, struct.pack("<i", 2)),
    ]
    return gguf_file([Entry(name, (2,), 0, struct.pack("<2f", value, 0)) for name in names], metadata)


def write_parts(folder, *parts, count=None):
    folder.mkdir(exist_ok=True)
    paths = [folder / f"m-{k + 1:05d}-of-{count or len(parts):05d}.gguf" for k in range(len(parts))]
    for path, content in zip(paths, parts, strict=True):
        path.write_bytes(content)
    return paths


def test_a_split_gguf_is_one_checkpoint_whichever_part_is_named(tmp_path):
    tensors = layouts.llama()
    parts = split_gguf(tmp_path / "split", tensors, most=4)
    assert len(parts) == 3
    assert parts[1].name == "x-00002-of-00003.gguf"
    (whole,) = split_gguf(tmp_path / "whole", tensors, most=0)
    wanted = opened(whole)
    for path in (tmp_path / "split", *parts):
        found = opened(path)
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
        entries = list_checkpoint(path).entries
        assert [entry.name for entry in entries] == list(wanted)
        assert {entry.file for entry in entries} == set(map(str, parts))
    with open_checkpoint(parts[2]) as joined, open_checkpoint(whole) as alone:
        joined, alone = joined.file, alone.file
        assert joined.metadata["llama.attention.head_count"] == alone.metadata["llama.attention.head_count"]
        joined.expect(joined.names)
        for name in joined.names:
            assert joined.block_type(name) == alone.block_type(name)
            assert joined.stored_bytes(name) == alone.stored_bytes(name)
            assert joined.raw(name).size == alone.raw(name).size
            assert torch.equal(joined.cut(name, (slice(0, 2),)), alone.cut(name, (slice(0, 2),)))
    scans = [qv.scan(path, ["int8_per_row"], results=tmp_path / "r.sqlite") for path in (parts[1], whole)]
    assert scans[0].drop(columns="file").equals(scans[1].drop(columns="file"))
    assert (scans[0].status == "ok").sum() == 9  # all matrices
    original = layouts.write(tmp_path / "original.safetensors", tensors)
    one, other = (qv.audit(path, original) for path in (parts[1], whole))
    # The converter's order of rows is undone by the first part's metadata.
    assert one.table().equals(other.table())
    assert one.unmatched == ((), ())


def test_parts_that_are_missing_or_others(tmp_path):
    whole = write_parts(tmp_path / "a", part(0, 2), part(1, 2, "a", "b"))
    # The first part may hold the metadata alone.
    assert list(opened(whole[0])) == list(opened(tmp_path / "a")) == ["a", "b"]
    assert [entry.name for entry in list_checkpoint(whole[0]).entries] == ["a", "b"]
    lost = write_parts(tmp_path / "b", part(0, 2, "a"), part(1, 2, "b"))
    lost[1].unlink()
    for path in (lost[0], tmp_path / "b"):
        assert key_of(opened, path) == "file.missing"
        (there, missing) = list_checkpoint(path).entries
        assert (there.name, there.unmeasured) == ("a", None)
        assert (missing.name, missing.unmeasured.reason.key) == (lost[1].name, "file.missing")
    mixed = write_parts(tmp_path / "c", part(0, 3, "a"), part(0, 3, "b"), part(2, 3, "a"))
    assert key_of(opened, mixed[2]) == key_of(opened, tmp_path / "c") == "checkpoint.other_part"
    reasons = [
        entry.unmeasured and entry.unmeasured.reason.key for entry in list_checkpoint(mixed[0]).entries
    ]
    assert reasons == [None, "checkpoint.other_part", "checkpoint.duplicate"]
    mixed[1].write_bytes(part(1, 3, "b"))
    assert key_of(opened, mixed[0]) == "audit.twice"
    # What is no part of its own words is a file by itself, as is one whose name says nothing.
    alone = write_parts(tmp_path / "d", gguf_file([Entry("a", (2,), 0, bytes(8))]), count=3)
    assert list(opened(alone[0])) == ["a"]
    renamed = tmp_path / "renamed.gguf"
    renamed.write_bytes(part(1, 2, "b"))
    assert list(opened(renamed)) == ["b"]
    empty = write_parts(tmp_path / "e", gguf_file([], [pair("split.count", UINT32, bytes(4))]), count=2)
    assert key_of(opened, empty[0]) == key_of(list_checkpoint, empty[0]) == "file.empty"
    empty[0].write_bytes(b"not GGUF")
    assert key_of(opened, empty[0]) == key_of(list_checkpoint, empty[0]) == "file.is_answer"


def test_a_folder_of_several_models_is_no_checkpoint(tmp_path):
    for name in ("q4", "q8"):
        (tmp_path / f"{name}.gguf").write_bytes(gguf_file([Entry("a", (2,), 0, bytes(8))]))
    assert key_of(opened, tmp_path) == key_of(list_checkpoint, tmp_path) == "audit.folder"


def test_shards_that_are_links_are_followed_by_a_scan(tmp_path):
    (tmp_path / "blobs").mkdir()
    index = write_model(tmp_path / "blobs")
    (tmp_path / "snapshot").mkdir()
    for file in sorted((tmp_path / "blobs").iterdir()):
        (tmp_path / "snapshot" / file.name).symlink_to(file)
    listed = list_checkpoint(tmp_path / "snapshot").entries
    assert [(each.name, each.unmeasured) for each in listed] == [("a", None), ("b", None)]
    assert listed[0].file == str(tmp_path / "snapshot" / "one.safetensors")
    assert list(opened(tmp_path / "snapshot" / index.name)) == ["a", "b"]


def test_a_folder_is_known_by_its_index_or_by_the_one_file_that_is_its_model(tmp_path):
    """So that the page shows what the command has scanned, by whichever name."""
    names = (
        "model.safetensors.index.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    )
    for name in names:
        (tmp_path / name).write_bytes(b"")
    assert known_as(tmp_path) == known_as(tmp_path / names[0]) == str(tmp_path.resolve() / names[0])
    (tmp_path / names[0]).unlink()
    assert known_as(tmp_path) == str(tmp_path.resolve())
    (tmp_path / "one").mkdir()
    assert known_as(tmp_path / "one") == str(tmp_path.resolve() / "one")
    (tmp_path / "one" / "model.safetensors").write_bytes(b"")
    assert known_as(tmp_path / "one") == str(tmp_path.resolve() / "one" / "model.safetensors")
