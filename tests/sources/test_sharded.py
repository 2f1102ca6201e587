"""Sharded models: the index opens the shard that holds a tensor, and only shards beside it."""

import os

import pytest
import safetensors.torch
import torch

from quantviz.errors import QuantVizError
from quantviz.sources.files import Limits, cut_out_snippet, open_tensors
from tests.helpers.sharded import INDEX, A, B, write_model


def refused(path):
    with pytest.raises(QuantVizError) as caught, open_tensors(path) as catalog:
        catalog.load(catalog.names[-1])
    return caught.value


def test_all_shards_are_one_file(tmp_path):
    with open_tensors(write_model(tmp_path)) as catalog:
        assert (catalog.kind, catalog.names) == ("safetensors index", ("a", "b"))
        assert catalog.info("a").shape == (2, 3)
        assert torch.equal(catalog.load("a", (slice(None), 1)), A[:, 1])
        stored = catalog.stored("b")
        with pytest.raises(QuantVizError) as caught:
            catalog.info("c")
    assert caught.value.key == "file.no_tensor"
    # What was stored is still there when everything is closed.
    assert stored.run(0, 4).tolist() == B.tolist()


def test_a_shard_is_opened_when_it_is_asked_for(tmp_path):
    path = write_model(tmp_path)
    (tmp_path / "two.safetensors").unlink()
    with open_tensors(path) as catalog:
        assert catalog.names == ("a", "b")
        assert torch.equal(catalog.load("a"), A)
        with pytest.raises(QuantVizError) as caught:
            catalog.info("b")
    assert (caught.value.key, caught.value.params["file"]) == ("file.missing", "two.safetensors")


@pytest.mark.parametrize(
    ("shard", "key"),
    [
        ("..safetensors", "shard_name"),
        (".hidden.safetensors", "shard_name"),
        ("one\0.safetensors", "shard_outside"),
        ("nowhere.safetensors", "missing"),
        ("circle.safetensors", "not_readable"),
        ("folder.safetensors", "is_folder"),
        ("text.safetensors", "damaged"),
        ("empty.safetensors", "empty_file"),
        ("pointer.safetensors", "is_lfs"),
        ("cut.safetensors", "cut_short"),
        ("one.safetensors", "shard_lacks"),
        (["one.safetensors"], "damaged"),
    ],
)
def test_only_a_shard_beside_the_index_that_holds_the_tensor(tmp_path, shard, key):
    folder = tmp_path / "model"
    folder.mkdir()
    path = write_model(folder, {"a": "one.safetensors", "b": shard}, one={"a": A})
    (folder / "circle.safetensors").symlink_to("circle.safetensors")
    (folder / "folder.safetensors").mkdir()
    (folder / "text.safetensors").write_text("1 2 3 4 5 6")
    (folder / "empty.safetensors").touch()
    (folder / "pointer.safetensors").write_text("version https://git-lfs.github.com/spec/v1\nsize 9\n")
    (folder / "cut.safetensors").write_bytes((folder / "one.safetensors").read_bytes()[:20])
    assert refused(path).key == f"file.{key}"


def test_a_shard_may_be_a_link_as_in_a_cache(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    path = write_model(folder, {"a": "one.safetensors", "b": "link.safetensors"}, one={"a": A})
    safetensors.torch.save_file({"b": B}, tmp_path / "0a1b2c")
    (folder / "link.safetensors").symlink_to(tmp_path / "0a1b2c")
    with open_tensors(path) as catalog:
        assert torch.equal(catalog.load("b"), B)


def test_a_pipe_among_the_shards_keeps_nobody_waiting(tmp_path):
    path = write_model(tmp_path, {"b": "pipe.safetensors"}, one={"a": A})
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert refused(path).key == "file.not_readable"


def test_limits(tmp_path):
    path = write_model(tmp_path)
    for limits, key in (
        (Limits(tensors=1), "file.too_many_tensors"),
        (Limits(header_bytes=10), "file.header_too_large"),
    ):
        with pytest.raises(QuantVizError) as caught, open_tensors(path, limits=limits):
            pass
        assert caught.value.key == key


def test_an_uploaded_index_says_what_to_upload(tmp_path):
    data = write_model(tmp_path).read_bytes()
    for filename in (INDEX, None):
        with open_tensors(data, filename) as catalog:
            assert catalog.names == ("a", "b")
            with pytest.raises(QuantVizError) as caught:
                catalog.info("a")
        assert caught.value.key == "file.shards_elsewhere"


def test_the_snippet_cuts_out_of_the_right_shard(tmp_path, monkeypatch):
    write_model(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(cut_out_snippet(INDEX, "a"), {})
    with open_tensors("cut_out.safetensors") as catalog:
        assert torch.equal(catalog.load("cut_out"), A)
