"""The content of a file says what it is, whatever it is called. What lies in its place, is cut short or
is of a format that is not read has a sentence of its own, with a way out for who downloaded it.
"""

import hashlib
import os
import re

import pytest
import safetensors.torch
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.checkpoints.model.opening import open_model
from quantviz.checkpoints.offered import checkpoint_path
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.cli import quantviz
from quantviz.cli.lab_source import lab_source, offered
from quantviz.cli.serve import _opening
from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.sources.files import Limits, open_tensors
from quantviz.sources.files.other_formats import OTHER_FORMATS
from quantviz.sources.limits import setting_of
from quantviz.sources.local import FOLDER, list_files, local_version, open_local
from quantviz.text import catalogue, languages
from tests.helpers.hostile import FILES, SAFE, X, initializer, onnx_model, saved


def error_of(content, name=None, **options):
    with pytest.raises(QuantVizError) as caught, open_tensors(content, name, **options) as catalog:
        catalog.load(catalog.names[-1])
    return caught.value


# ---- names that say nothing ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["imatrix.dat", "0a1b2c", "model.onnx", "weights.csv", "x.json", "notes.md", "a.tar"]
)
@pytest.mark.parametrize("kind", ["x.npy", "x.npz", "x.pt", "old.pt", "x.safetensors", "x.gguf"])
def test_a_binary_format_is_known_under_any_name(kind, name, tmp_path):
    (tmp_path / name).write_bytes(FILES[kind])
    for opened in (open_tensors(tmp_path / name), open_tensors(FILES[kind], name)):
        with opened as catalog:
            (found,) = catalog.names
            assert torch.equal(catalog.load(found), X)
    assert [each.shape for each in list_checkpoint(tmp_path / name).entries] == [(6, 5)]


def test_an_onnx_model_is_known_under_any_name():
    with open_tensors(onnx_model(initializer()), "model.bin") as catalog:
        assert catalog.kind == "ONNX"


def test_text_needs_a_name_or_numbers_at_its_beginning():
    with open_tensors(b" [[1.5, 2], [3, 4]]", "values") as catalog:
        assert catalog.load("values").tolist() == [[1.5, 2], [3, 4]]
    with open_tensors(b"-1.5 2\n3 4\n", "out.log") as catalog:
        assert catalog.load("out").tolist() == [[-1.5, 2], [3, 4]]
    assert error_of(b"Epoch 3: loss 1.5\n", "train.log").key == "file.unknown_kind"


@pytest.mark.parametrize("name", ["a.ckpt", "b.pth.tar", "c.sft"])
def test_such_names_are_listed_in_a_folder(name, tmp_path, monkeypatch):
    (tmp_path / name).write_bytes(SAFE if name.endswith("sft") else saved({"x": X}))
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert list_files().files == (name,)
    assert [each.name for each in list_checkpoint(tmp_path).entries] == ["x"]


# ---- what lies in a file's place ----------------------------------------------------------------

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4912345678\n"
IN_PLACE = {
    "is_lfs": (POINTER, ("4.9 GB", "git lfs pull")),
    "is_annex": (b"../../.git/annex/objects/XK/0p/SHA256E-s9--ab/SHA256E-s9--ab", ("git annex get",)),
    "is_page": (b"\n<!doctype html>\n<html lang='en'><title>Sign in</title>", ("/resolve/",)),
    "is_answer": (
        b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
        ("AccessDenied", "login"),
    ),
    "is_zeros": (bytes(10_000), ("zeros",)),
    "empty_file": (b"", ("no bytes",)),
}


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.gguf", "pytorch_model.bin", "m.onnx", "w.npy", "blob"]
)
@pytest.mark.parametrize("key", IN_PLACE)
def test_what_lies_in_a_files_place_is_named(key, name, tmp_path):
    content, words = IN_PLACE[key]
    (tmp_path / name).write_bytes(content)
    for error in (error_of(content, name), error_of(tmp_path / name)):
        assert error.key == f"file.{key}"
        assert all(word in str(error) for word in words), str(error)
    done = CliRunner().invoke(quantviz, ["measure", str(tmp_path / name), "x", "-s", "int8_per_row"])
    assert done.exit_code == 2
    assert words[0] in done.stderr


def test_pointers_among_the_shards_and_beside_them_are_named(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"x": "a.safetensors"}}')
    (tmp_path / "a.safetensors").write_bytes(POINTER)
    (entry,) = list_checkpoint(tmp_path).entries
    assert (entry.name, entry.unmeasured.reason.key) == ("x", "file.is_lfs")
    (tmp_path / "model.safetensors.index.json").write_bytes(POINTER)
    assert error_of(tmp_path / "model.safetensors.index.json").key == "file.is_lfs"
    (tmp_path / "config.json").write_bytes(POINTER)
    (tmp_path / "x.safetensors").write_bytes(SAFE)
    with open_tensors(tmp_path / "x.safetensors") as catalog, pytest.raises(QuantVizError) as caught:
        catalog.json_beside("config.json")
    assert caught.value.key == "file.is_lfs"


# ---- cut short ----------------------------------------------------------------------------------


def test_a_download_cut_short_says_what_its_header_asks_for(tmp_path):
    """A sparse file of 4.9 GB in its header, of which 1.2 GB are there."""
    x, y = 600_000_000, 1_856_172_839
    header = (
        f'{{"x":{{"dtype":"F16","shape":[{x}],"data_offsets":[0,{2 * x}]}},'
        f'"y":{{"dtype":"F16","shape":[{y}],"data_offsets":[{2 * x},{2 * (x + y)}]}}}}'
    ).encode()
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(1_210_000_000)
    with open_tensors(path) as catalog:
        # The tensor that is there as a whole is read.
        assert catalog.info("x").problem is None
        assert catalog.load("x", (slice(0, 2),)).tolist() == [0, 0]
        problem = catalog.info("y").problem
    assert problem.key == "file.cut_short"
    assert "4.9 GB" in str(problem)
    assert "1.2 GB" in str(problem)
    entries = {each.name: each for each in list_checkpoint(path).entries}
    assert entries["y"].unmeasured.status == "problem"
    assert "4.9 GB" in str(entries["y"].unmeasured.reason)


CUT = {
    "x.npy": FILES["x.npy"][:-9],
    "header.safetensors": SAFE[:40],
    "last.safetensors": SAFE[:-1],
    "x.gguf": FILES["x.gguf"][:-16],
    "x.onnx": onnx_model(initializer())[:-3],
}


@pytest.mark.parametrize("name", CUT)
def test_every_format_that_can_tell_says_that_it_was_cut_short(name):
    error = error_of(CUT[name], name)
    assert error.key == "file.cut_short", str(error)
    there, wanted = (int(re.sub(r"\D", "", error.params[each])) for each in ("there", "wanted"))
    assert there < wanted
    assert error_of(CUT[name], "blob").key == "file.cut_short"


@pytest.mark.parametrize("name", ["x.npz", "x.pt"])
def test_a_zip_without_its_list_was_cut_short(name):
    for content in (FILES[name][:-30], FILES[name][: len(FILES[name]) // 2]):
        assert error_of(content, name).key == error_of(content, "blob").key == "file.cut_in_list"


# ---- formats that are named ---------------------------------------------------------------------


def test_every_format_that_is_not_read_has_its_sentence_and_a_way_out():
    for each in OTHER_FORMATS:
        for language in languages():
            sentence = QuantVizError(each.key, file="some.model").message(language)
            assert "some.model" in sentence
            assert len(sentence) < 400
        assert not each.suffixes or error_of(b"\x01\x02\x03\x04", f"m{each.suffixes[0]}").key == each.key


def test_folders_of_such_formats_are_named(tmp_path):
    for folder, file, key in (
        ("Model.mlpackage", "Manifest.json", "coreml"),
        ("dcp", "__0_0.distcp", "distcp"),
        ("saved", "saved_model.pb", "tensorflow"),
        ("orbax", "manifest.ocdbt", "orbax"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_bytes(b"{}")
        with pytest.raises(QuantVizError) as caught:
            list_checkpoint(tmp_path / folder)
        assert caught.value.key == f"file.is_{key}"
        assert folder in str(caught.value)


def test_openvinos_weights_are_told_by_the_file_beside_them(tmp_path):
    (tmp_path / "openvino_model.bin").write_bytes(bytes([1, 2, 3, 4]) * 100)
    assert error_of(tmp_path / "openvino_model.bin").key == "file.damaged"
    (tmp_path / "openvino_model.xml").write_text('<?xml version="1.0"?><net name="m" version="11"/>')
    assert error_of(tmp_path / "openvino_model.bin").key == "file.is_openvino"
    assert error_of(tmp_path / "openvino_model.xml").key == "file.is_openvino"


# ---- a cache of links ---------------------------------------------------------------------------


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A model in Hugging Face's cache: a snapshot of links to files without a suffix."""
    monkeypatch.delenv(FOLDER, raising=False)
    model = tmp_path / ".cache" / "models--o--n"
    blobs, snapshot = model / "blobs", model / "snapshots" / "0123abcd"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    weights = {f"layers.{i}.weight": torch.full((8, 32), float(i + 1)) for i in range(2)}
    files = {
        f"model-0000{i + 1}-of-00002.safetensors": safetensors.torch.save({name: weights[name]})
        for i, name in enumerate(weights)
    }
    listed = ", ".join(f'"{name}": "{file}"' for name, file in zip(weights, files, strict=True))
    files["model.safetensors.index.json"] = f'{{"weight_map": {{{listed}}}}}'.encode()
    for name, content in files.items():
        blob = blobs / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        os.symlink(f"../../blobs/{blob.name}", snapshot / name)
    return snapshot


def test_a_cache_of_links_opens_by_every_way_in(cached):
    index, shard = cached / "model.safetensors.index.json", cached / "model-00002-of-00002.safetensors"
    names = ["layers.0.weight", "layers.1.weight"]
    with open_tensors(index) as catalog:
        assert [catalog.load(name)[0, 0] for name in catalog.names] == [1, 2]
    with open_tensors(shard.resolve()) as catalog:
        assert catalog.names == ("layers.1.weight",)
    for path in (index, cached):
        assert [each.name for each in list_checkpoint(path).entries] == names
        assert not any(each.unmeasured for each in list_checkpoint(path).entries)
    for path in (index, shard, shard.resolve()):
        table = qv.scan(path, ["int8_per_row"], results=cached.parent / "r.sqlite")
        assert set(table.status) == {"ok"}


@pytest.mark.parametrize("file", ["model.safetensors.index.json", "model-00002-of-00002.safetensors", None])
def test_link_and_serve_give_an_address_that_opens(cached, file, monkeypatch):
    path = cached / file if file else (cached / "model-00002-of-00002.safetensors").resolve()
    done = CliRunner().invoke(
        quantviz, ["link", str(path), "layers.1.weight", "-s", "int8_per_row", "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    source, folder = lab_source(str(path), "layers.1.weight")
    environment, _ = _served(path, monkeypatch)
    assert environment[FOLDER] == folder == str(path.parent if file is None else cached.parents[1])
    monkeypatch.setenv(FOLDER, folder)
    assert list(source.problems()) == []
    assert source.tensor()[0, 0] == 2
    state, problems = LabState.read({"t": source.link_text()})
    assert not problems
    assert state.source == source


def _served(path, monkeypatch):
    from quantviz.cli import serve

    with monkeypatch.context() as patch:
        patch.setattr(serve.subprocess, "Popen", lambda *args, **options: None)
        return _opening(str(path), None, None, ["--server.port", "8999", "--server.headless", "true"])


def test_a_served_snapshot_offers_the_model(cached, monkeypatch):
    environment, _ = _served(cached, monkeypatch)
    monkeypatch.setenv(FOLDER, environment[FOLDER])
    index = "snapshots/0123abcd/model.safetensors.index.json"
    assert index in list_files().files
    assert list_files().skipped == ()
    assert open_local(index).load("layers.1.weight")[0, 0] == 2
    before = local_version(index)
    os.utime((cached / "model-00001-of-00002.safetensors").resolve(), ns=(1, 1))
    assert local_version(index) != before
    # The page of models scans it by the links' names.
    found = checkpoint_path(index)
    assert [each.name for each in list_checkpoint(found).entries] == ["layers.0.weight", "layers.1.weight"]


def test_only_a_cache_of_links_widens_the_folder_that_is_offered(tmp_path, monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    (tmp_path / "far" / "x.safetensors").write_bytes(SAFE)
    (tmp_path / "near" / "link.safetensors").symlink_to(tmp_path / "far" / "x.safetensors")
    place = offered(tmp_path / "near" / "link.safetensors")
    assert (place.folder, place.below, place.known) == (tmp_path / "far", "x.safetensors", False)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    place = offered(tmp_path / "near" / "link.safetensors")
    assert (place.folder, place.below, place.known) == (tmp_path, "near/link.safetensors", True)
    # A hidden folder below the one that is named is not offered by it.
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.safetensors").write_bytes(SAFE)
    assert offered(tmp_path / ".hidden" / "x.safetensors").folder == tmp_path / ".hidden"


# ---- limits -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_limits_lie_above_published_models(tmp_path):
    """An index as Kimi K2's: 138,241 tensors and 20 MB."""
    name = "model.layers.{}.mlp.experts.{}.self_attn_and_a_longer_name.{}.down_proj.weight_packed_scale_inv"
    names = [name.format(i % 61, i // 61, "x" * 20) for i in range(138_241)]
    text = ",".join(f'"{each}":"model-{i % 61:05d}-of-000061.safetensors"' for i, each in enumerate(names))
    index = f'{{"metadata":{{}},"weight_map":{{{text}}}}}'.encode()
    assert 18e6 < len(index) < 28e6
    with open_tensors(index, "model.safetensors.index.json") as catalog:
        assert len(catalog.names) == 138_241
    entries = b",".join(
        b'"%s":{"dtype":"I8","shape":[1],"data_offsets":[%d,%d]}' % (each[:60].encode() + b"%d" % i, i, i + 1)
        for i, each in enumerate(names)
    )
    header = b"{" + entries + b"}"
    with open_tensors(
        len(header).to_bytes(8, "little") + header + bytes(138_241), "m.safetensors"
    ) as catalog:
        assert len(catalog.names) == 138_241


def test_every_refusal_of_a_limit_names_the_setting_that_lifts_it(monkeypatch):
    nested = saved({"a": {"b": {"c": X}}})
    refused = {
        "file_bytes": (SAFE, "x.safetensors"),
        "elements": (SAFE, "x.safetensors"),
        "tensors": (saved({"a": X, "b": X}), "x.pt"),
        "header_bytes": (SAFE, "x.safetensors"),
        "brackets": (b"[[1],[2]]", "x.json"),
        "table_bytes": (b"1 2 3", "x.csv"),
        "json_bytes": (b"[[1],[2]]", "x.json"),
        "depth": (nested, "x.pt"),
    }
    assert set(refused) == set(Limits.__dataclass_fields__)
    for limit, (content, name) in refused.items():
        setting = setting_of(limit)
        monkeypatch.setenv(setting, "1")
        error = error_of(content, name)
        monkeypatch.delenv(setting)
        assert error.params.get("setting") == setting, (limit, error.key)
        for language in languages():
            assert setting in error.message(language)
    # And with it set high enough the file opens.
    with open_tensors(nested, "x.pt") as catalog:
        assert catalog.names == ("a.b.c",)


def test_no_remedy_is_only_for_who_made_the_file():
    """Most people downloaded it: they cannot save it again."""
    for key, sentence in catalogue("en").items():
        if key.startswith(("errors.file.", "errors.layouts.")):
            assert not re.search(
                r"\bSave (it|the file|the tensor) again\b(?! if it is your own)", sentence
            ), key


def test_the_way_out_of_a_distributed_checkpoint(tmp_path):
    import torch.distributed.checkpoint as distributed
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match="single process"):
        distributed.save({"model": {"a.weight": x}}, checkpoint_id=tmp_path / "folder", no_dist=True)
    (part,) = (tmp_path / "folder").glob("*.distcp")
    for path in (part, tmp_path / "folder"):
        with pytest.raises(QuantVizError, match="dcp_to_torch FOLDER"), open_model(path):
            pass
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "weights.pt")
    with open_model(tmp_path / "weights.pt") as model:
        assert torch.equal(model.tensors.load("model.a.weight"), x)
