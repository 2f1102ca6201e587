"""The server's folder: what lies below it opens by name and link, nothing else does; stored tensors and
limits.
"""

import json
import os
import threading

import numpy
import pytest
import safetensors.torch
import torch

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.sources import LocalTensor, local, parse_source, write_source
from quantviz.sources.files import Limits, open_tensors
from quantviz.sources.local import FOLDER, list_files, open_local
from quantviz.tensors.lazy import InMemory
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.hostile import raw_safetensors
from tests.helpers.sharded import INDEX, write_model

X = torch.randn(6, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with tensors, beside which something secret lies."""
    inside = tmp_path / "data"
    (inside / "sub" / ".cache").mkdir(parents=True)
    safetensors.torch.save_file({"x": X}, inside / "sub" / "m.safetensors")
    numpy.save(inside / "x.npy", X.numpy())
    numpy.save(inside / ".hidden.npy", X.numpy())
    numpy.save(inside / "sub" / ".cache" / "x.npy", X.numpy())
    (inside / "readme.md").write_text("no tensors")
    numpy.save(tmp_path / "secret.npy", X.numpy())
    monkeypatch.setenv(FOLDER, str(inside))
    return inside


def refused(call, *args):
    with pytest.raises(QuantVizError) as caught:
        call(*args)
    return caught.value.key


# ---- the folder ---------------------------------------------------------------------------------


def test_what_is_there_is_listed_and_opens(folder):
    assert list_files() == local.FolderListing(("sub/m.safetensors", "x.npy"), cut_short=False)
    for file in list_files().files:
        source = LocalTensor.of(file, "x")
        assert (source.shape, list(source.problems())) == ((6, 64), [])
        assert torch.equal(source.tensor(), X)
        assert torch.equal(torch.from_numpy(source.stored().run(0, X.numel()).copy()).reshape(6, 64), X)


@pytest.mark.parametrize(
    "file",
    [
        "../secret.npy",
        "sub/../../secret.npy",
        "/etc/passwd",
        ".hidden.npy",
        "sub/.cache/x.npy",
        "sub/../x.npy",
        "..",
        ".",
        "",
        "a" * 5000,
    ],
)
def test_nothing_else_opens_by_name(folder, file):
    assert refused(open_local, file) == "local.outside"


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("nowhere.npy", "local.missing"),
        ("x.npy/y.npy", "local.missing"),
        ("sub", "file.is_folder"),
        ("x\0.npy", "file.not_readable"),
        ("readme.md", "file.unknown_kind"),
    ],
)
def test_what_is_not_there_or_no_file_is_said(folder, file, key):
    assert refused(open_local, file) == key


def test_links_are_followed_inside_the_folder_only(folder):
    (folder / "out.npy").symlink_to(folder.parent / "secret.npy")
    (folder / "out").symlink_to(folder.parent)
    (folder / "in.npy").symlink_to("sub/../x.npy")
    (folder / "to_hidden.npy").symlink_to(".hidden.npy")
    (folder / "circle.npy").symlink_to("circle.npy")
    assert torch.equal(open_local("in.npy").load("in"), X)
    assert {refused(open_local, file) for file in ("out.npy", "out/secret.npy", "to_hidden.npy")} == {
        "local.outside"
    }
    assert refused(open_local, "circle.npy") == "file.not_readable"


def test_a_link_put_there_after_the_look_is_not_followed(folder, monkeypatch):
    """Between the check and the opening somebody swaps the file, or a folder above it."""
    look = local.real_path

    def swapped(file):
        real = look(file)
        target = folder / "x.npy" if file == "x.npy" else folder / "sub"
        target.rename(folder.parent / "moved")
        target.symlink_to(folder.parent / ("secret.npy" if file == "x.npy" else "moved"))
        return real

    monkeypatch.setattr(local, "real_path", swapped)
    assert refused(open_local, "x.npy") == "file.not_readable"
    (folder.parent / "moved").unlink()
    assert refused(open_local, "sub/m.safetensors") == "file.not_readable"


def test_what_cannot_be_read_is_skipped_and_named(folder):
    (folder / "circle.npy").symlink_to("circle.npy")
    (folder / "dangling.pt").symlink_to("gone.pt")
    (folder / "sub" / "out.npy").symlink_to(folder.parent / "secret.npy")
    (folder / "folder.npy").mkdir()
    (folder / "to_folder.npy").symlink_to("sub")
    (folder / "circle").symlink_to("circle")
    listing = list_files()
    assert (listing.files, listing.cut_short) == (("sub/m.safetensors", "x.npy"), False)
    assert listing.skipped == ("circle.npy", "dangling.pt", "sub/out.npy", "to_folder.npy")


def test_what_may_not_be_read_is_skipped_and_named(folder, monkeypatch):
    """As root sees nothing of permissions, the system's answers are set."""
    scan, locked = os.scandir, folder / "locked"
    locked.mkdir()

    def refuse(directory):
        if directory == locked:
            raise PermissionError
        return scan(directory)

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder / "x.npy")
    assert list_files() == local.FolderListing(
        ("sub/m.safetensors",), cut_short=False, skipped=("locked/", "x.npy")
    )


def test_an_index_opens_beside_shards_that_cannot_be_read(folder):
    (folder / "model").mkdir()
    write_model(folder / "model")
    index = f"model/{INDEX}"
    before = local.local_version(index)
    (folder / "model" / "circle.safetensors").symlink_to("circle.safetensors")
    (folder / "model" / "dangling.safetensors").symlink_to("gone")
    assert local.local_version(index) != before
    catalog = open_local(index)
    assert catalog.load(catalog.names[0]).numel()


def test_pipes_and_devices_keep_nobody_waiting(folder):
    os.mkfifo(folder / "pipe.npy")
    assert refused(open_local, "pipe.npy") == "file.not_readable"
    assert "pipe.npy" not in list_files().files
    assert list_files().skipped == ("pipe.npy",)


def test_an_index_opens_the_shards_beside_it(folder):
    write_model(folder / "sub")
    assert torch.equal(open_local(f"sub/{INDEX}").load("b"), torch.arange(4.0))
    (folder / "sub" / "two.safetensors").unlink()
    (folder / "sub" / "two.safetensors").symlink_to(folder.parent / "secret.npy")
    assert refused(open_local(f"sub/{INDEX}").load, "b") == "local.outside"


def test_every_format_opens_from_the_folder(folder):
    torch.save({"x": X}, folder / "x.pt")
    numpy.savez(folder / "x.npz", x=X.numpy())
    (folder / "x.gguf").write_bytes(gguf_file([Entry("x", (64, 6), 0, X.numpy().tobytes())]))
    for file in ("x.pt", "x.npz", "x.gguf"):
        catalog = open_local(file)
        assert torch.equal(catalog.load("x"), X)
        assert torch.equal(catalog.stored("x").read((slice(1, 3), 5)), X[1:3, 5])


def test_the_list_has_an_end(folder, monkeypatch):
    monkeypatch.setattr(local, "MOST_LISTED", 1)
    assert list_files().cut_short
    assert len(list_files().files) == 1
    monkeypatch.setattr(local, "DEEPEST", 0)
    monkeypatch.setattr(local, "MOST_LISTED", 10)
    assert list_files() == local.FolderListing(("x.npy",), cut_short=True)


def test_without_the_variable_there_is_no_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(FOLDER, raising=False)
    assert list_files().files == ()
    assert refused(open_local, "x.npy") == "local.not_set"
    monkeypatch.setenv(FOLDER, str(tmp_path / "nowhere"))
    assert refused(open_local, "x.npy") == "local.no_folder"


# ---- links --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x", "", "层.0 权重", "</script>", "\u202e\x00\ud800", "a.b(c),d=e"])
def test_the_text_form_holds_any_name(name):
    source = LocalTensor(f"文件 {name}.npy", name, (2, 3))
    form = write_source(source)
    assert set(form) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._(),=+-")
    assert LocalTensor.from_payload(form.removeprefix("local.")) == source


def test_a_link_opens_the_tensor_or_says_what_is_missing(folder, monkeypatch):
    source = LocalTensor.of("sub/m.safetensors", "x")
    state, problems = LabState.read({"v": "1", "t": write_source(source)})
    assert (state.source, problems) == (source, ())
    assert LabState.read(state.written())[0] == state
    for wrong, key in (
        (LocalTensor("gone.npy", "gone", (2,)), "local.missing"),
        (LocalTensor("sub/m.safetensors", "y", (2,)), "file.no_tensor"),
        (LocalTensor("sub/m.safetensors", "x", (2,)), "local.other_shape"),
        (LocalTensor("../secret.npy", "secret", (6, 64)), "local.outside"),
    ):
        assert refused(parse_source, write_source(wrong)) == key
        assert refused(wrong.stored) == key
    monkeypatch.delenv(FOLDER)
    assert refused(parse_source, write_source(source)) == "local.not_set"


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "!",
        "AAAA",
        "W10",
        "WyJhIl0",
        "WyJhIiwiYiIsMF0",
        "WyJhIiwiYiIsMS41XQ",
        "WyJhIiwiYiIsMSwxLDEsMSwxLDFd",
        "WzEsMiwzXQ",
        "W" * 3000,
    ],
)
def test_damaged_payloads(payload):
    assert refused(LocalTensor.from_payload, payload) == "local.payload_damaged"


# ---- tensors that outlive their file's being open -------------------------------------------------

GENERATOR = torch.Generator().manual_seed(1)
CODES = torch.randint(0, 119, (6, 64), generator=GENERATOR, dtype=torch.uint8)
STORED = {
    **{str(dtype): X.to(dtype) for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64)},
    **{
        str(dtype): CODES.view(dtype)
        for dtype in (
            torch.float8_e4m3fn,
            torch.float8_e5m2,
            torch.float8_e4m3fnuz,
            torch.float8_e5m2fnuz,
            torch.float8_e8m0fnu,
        )
    },
    **{
        str(dtype): CODES.to(dtype)
        for dtype in (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.int64)
    },
}
#: What float32 may not hold is converted with a count, once.
COUNTED = ("torch.float64", "torch.int32", "torch.int64")


@pytest.mark.parametrize("on_disk", [True, False], ids=["path", "upload"])
@pytest.mark.parametrize("dtype", STORED)
def test_stored_reads_parts_and_outlives_the_file(dtype, on_disk, tmp_path):
    x = STORED[dtype]
    data = safetensors.torch.save({"x": x})
    # A tensor of one byte before it, so that no element lies where its size asks for.
    entry = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["x"] | {
        "data_offsets": [1, x.nbytes + 1]
    }
    moved = raw_safetensors(
        {"pad": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "x": entry},
        b"\0" + data[len(data) - x.nbytes :],
    )
    expected = x.float()
    for content in (data, moved):
        (tmp_path / "x.safetensors").write_bytes(content)
        with (
            open_tensors(tmp_path / "x.safetensors")
            if on_disk
            else open_tensors(content, "x.safetensors") as catalog
        ):
            stored = catalog.stored("x")
            assert stored.notes == catalog.read("x").notes
        assert isinstance(stored, InMemory) == (dtype in COUNTED)
        assert stored.shape == (6, 64)
        assert torch.equal(torch.from_numpy(stored.run(5, 301).copy()), expected.flatten()[5:301])
        assert torch.equal(stored.read((slice(1, 4), 7)), expected[1:4, 7])
        assert torch.equal(stored.read((slice(None), slice(2, 9))), expected[:, 2:9])
        assert stored.run(0, 384).flags.c_contiguous
        assert stored.run(0, 384).flags.aligned


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_stored_npy(order, layout, tmp_path):
    numpy.save(tmp_path / "x.npy", numpy.asarray(X.numpy(), dtype=f"{order}f4", order=layout))
    with open_tensors(tmp_path / "x.npy") as catalog:
        stored = catalog.stored("x")
    assert isinstance(stored, InMemory) == (layout == "F")
    assert stored.run(60, 70).tolist() == X.flatten()[60:70].tolist()
    assert torch.equal(stored.read((slice(2, 5), slice(1, 3))), X[2:5, 1:3])


def test_stored_floats_are_a_view_of_the_file(tmp_path):
    numpy.save(tmp_path / "x.npy", X.numpy())
    with open_tensors(tmp_path / "x.npy") as catalog:
        stored = catalog.stored("x")
    assert stored.run(0, 384).ctypes.data + 4 * 100 == stored.run(100, 384).ctypes.data
    assert not stored.run(0, 384).flags.writeable


@pytest.mark.parametrize("number", [2, 12, 39])
def test_stored_quantized_blocks(number):
    from quantviz.sources.files.gguf_blocks import BLOCK_TYPES

    kind = BLOCK_TYPES[number]
    raw = torch.randint(0, 60, (4 * 512 // kind.length, kind.size), generator=GENERATOR, dtype=torch.uint8)
    with open_tensors(gguf_file([Entry("x", (512, 4), number, raw.numpy().tobytes())]), "x.gguf") as catalog:
        whole, stored = catalog.load("x"), catalog.stored("x")
    assert whole.shape == (4, 512)
    assert torch.equal(torch.from_numpy(stored.run(33, 1500)), whole.flatten()[33:1500])
    assert torch.equal(stored.read((slice(1, 3), slice(250, 300))), whole[1:3, 250:300])
    assert stored.notes[0].key == "source.dequantized"


def test_stored_is_safe_for_many_threads(tmp_path):
    x = X.bfloat16().expand(64, 6, 64).contiguous()
    safetensors.torch.save_file({"x": x}, tmp_path / "x.safetensors")
    with open_tensors(tmp_path / "x.safetensors") as catalog:
        stored = catalog.stored("x")
    right = []

    def read(start):
        right.extend(
            torch.equal(torch.from_numpy(stored.run(at, at + 999)), x.flatten()[at : at + 999].float())
            for at in range(start, 20_000, 1234)
        )

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 4 * 17
    assert all(right)


@pytest.mark.parametrize("shape", [(), (0, 3), (1, 1, 1, 1, 1, 2)])
def test_only_one_to_five_axes_can_be_stored(shape):
    with open_tensors(safetensors.torch.save({"x": torch.zeros(shape)}), "x.safetensors") as catalog:
        assert refused(catalog.stored, "x") == ("input_empty" if 0 in shape else "input_dims")


def test_a_file_that_was_changed_is_not_read_any_more(tmp_path):
    """Cut short, a mapped file would end the process."""
    path = tmp_path / "x.npy"
    numpy.save(path, X.numpy())
    with open_tensors(path) as catalog:
        stored = catalog.stored("x")
        os.truncate(path, 200)
        assert (
            refused(stored.run, 0, 10)
            == refused(stored.read, (0, 0))
            == refused(stored.check)
            == refused(catalog.load, "x")
            == "file.changed"
        )
    # Another file in its place is another file: what is mapped stays what it was.
    numpy.save(path, X.numpy())
    with open_tensors(path) as catalog:
        stored = catalog.stored("x")
    numpy.save(tmp_path / "new.npy", numpy.zeros(3))
    (tmp_path / "new.npy").rename(path)
    assert stored.run(0, 3).tolist() == X.flatten()[:3].tolist()


def test_another_file_is_another_version(folder):
    source = LocalTensor.of("x.npy", "x")
    before = source.version
    assert source.version == before
    os.utime(folder / "x.npy", ns=(1, 1))
    assert source.version != before


def test_a_tensor_of_any_size_may_be_opened_but_not_read_at_once():
    with open_tensors(
        safetensors.torch.save({"x": X}), "x.safetensors", limits=Limits(elements=100)
    ) as catalog:
        assert refused(catalog.load, "x") == "file.tensor_too_large"
        stored = catalog.stored("x")
    assert refused(stored.read, (slice(None), slice(None))) == "file.tensor_too_large"
    assert stored.read((slice(0, 1), slice(None))).shape == (1, 64)
    with open_tensors(
        safetensors.torch.save({"x": X.double()}), "x.safetensors", limits=Limits(elements=100)
    ) as catalog:
        assert refused(catalog.stored, "x") == "file.tensor_too_large"


# ---- limits as settings -------------------------------------------------------------------------


def test_the_environment_sets_limits(monkeypatch):
    assert Limits.of_environment() == Limits()
    monkeypatch.setenv("QUANTVIZ_MAX_ELEMENTS", "100")
    monkeypatch.setenv("QUANTVIZ_MAX_FILE_BYTES", "2000")
    assert Limits.of_environment() == Limits(elements=100, file_bytes=2000)
    with open_tensors(safetensors.torch.save({"x": X}), "x.safetensors") as catalog:
        assert refused(catalog.load, "x") == "file.tensor_too_large"
    for data in (safetensors.torch.save({"x": X, "y": X + 1}), bytes(3000)):
        with pytest.raises(QuantVizError) as caught, open_tensors(data, "x.safetensors"):
            pass
        assert caught.value.key == "file.too_large"


@pytest.mark.parametrize("value", ["", "0", "-1", "1e9", "ten", "1.5", " 5", "9" * 30])
def test_a_bad_setting_is_said(monkeypatch, value):
    monkeypatch.setenv("QUANTVIZ_MAX_TENSORS", value)
    with pytest.raises(QuantVizError) as caught:
        Limits.of_environment()
    assert (caught.value.key, caught.value.params["variable"]) == ("limit_setting", "QUANTVIZ_MAX_TENSORS")
