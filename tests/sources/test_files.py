"""Files: each format reads back what its own library wrote, windows are the slices, and bad files get a
sentence.
"""

import io
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest
import safetensors.torch
import torch

import quantviz as qv
from quantviz.errors import QuantVizError
from quantviz.sources.files import CATALOGS, READERS, Limits, cut_out_snippet, open_tensors, table
from tests.helpers.hostile import (
    DAMAGED,
    FILES,
    TENSOR,
    X,
    npy,
    npz,
    raw_safetensors,
    saved,
    with_storage_of,
    zipped,
)

WINDOWS = [
    None,
    (),
    (2,),
    (slice(1, 4),),
    (slice(None), 3),
    (slice(1, 6, 2), slice(0, 5, 3)),
    (-1, -1),
    (slice(-2, None), slice(None, -1)),
    (slice(0, 99),),
]


@pytest.mark.parametrize("filename", FILES)
@pytest.mark.parametrize("on_disk", [False, True], ids=["upload", "path"])
def test_every_format_reads_what_was_written(filename, on_disk, tmp_path):
    if on_disk:
        (tmp_path / filename).write_bytes(FILES[filename])
    with open_tensors(tmp_path / filename) if on_disk else open_tensors(FILES[filename], filename) as catalog:
        assert catalog.names == ("x",)
        info = catalog.info("x")
        assert (info.shape, info.count, info.problem, info.source_type) == ((6, 5), 30, None, "")
        assert info.dtype in ("float32", "decimal")
        loaded = [catalog.load("x", window) for window in WINDOWS]
    for window, tensor in zip(WINDOWS, loaded, strict=True):
        assert torch.equal(tensor, X[window or ...]), window
        assert tensor.dtype == torch.float32
        assert not tensor.requires_grad
        assert tensor.untyped_storage().nbytes() <= 4 * 30
        # What was loaded is the caller's own.
        tensor.zero_()


@pytest.mark.parametrize("filename", FILES)
def test_every_format_is_known_by_its_content(filename):
    with open_tensors(FILES[filename]) as catalog:
        assert torch.equal(catalog.load(catalog.names[0]), X)


def test_the_public_name():
    assert qv.open_tensors is open_tensors


@pytest.mark.parametrize(
    "index",
    [
        (6,),
        (-7,),
        (0, 0, 0),
        (slice(3, 3),),
        (slice(None, None, -1),),
        (slice(None, None, 0),),
        ("a",),
        (1.5,),
        (slice("a"),),
        (None,),
    ],
)
@pytest.mark.parametrize("filename", ["x.npy", "x.pt", "x.csv"])
def test_a_window_outside_is_said(filename, index):
    with open_tensors(FILES[filename], filename) as catalog, pytest.raises(QuantVizError) as caught:
        catalog.load("x", index)
    assert caught.value.key == "file.index"


def test_an_unknown_name_gets_the_nearest():
    with (
        open_tensors(saved({f"layers.{i}.weight": X for i in range(20)}), "model.pt") as catalog,
        pytest.raises(QuantVizError) as caught,
    ):
        catalog.info("layers.7.wieght")
    assert caught.value.key == "file.no_tensor"
    assert "'layers.7.weight'" in str(caught.value)


# ---- dtypes -------------------------------------------------------------------------------------

FLOAT_DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
def test_small_floats_come_exactly(dtype, tmp_path):
    stored = (
        torch.randint(0, 200, (4, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        .float()
        .to(dtype)
    )
    safetensors.torch.save_file({"x": stored}, tmp_path / "x.safetensors")
    torch.save(stored, tmp_path / "x.pt")
    for path in (tmp_path / "x.safetensors", tmp_path / "x.pt"):
        with open_tensors(path) as catalog:
            assert catalog.info("x").dtype == str(dtype).removeprefix("torch.")
            tensor, notes = catalog.read("x", (slice(1, 4, 2),))
        assert torch.equal(tensor, stored.float()[1:4:2])
        assert notes == ()


@pytest.mark.parametrize(
    "dtype", ["float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt", ".safetensors"])
def test_other_numbers_are_converted_and_counted(dtype, suffix):
    lost = {
        "float64": 0.1,
        "int32": 2**24 + 1,
        "int64": 2**24 + 1,
        "uint32": 2**24 + 1,
        "uint64": 2**24 + 1,
    }.get(dtype)
    array = numpy.array([[1, 2], [3, 100 if lost is None else lost]], dtype=dtype)
    tensor = torch.from_numpy(array)
    data = {
        ".npy": npy(array),
        ".npz": npz(x=array),
        ".pt": saved(tensor),
        ".safetensors": safetensors.torch.save({"x": tensor}),
    }[suffix]
    with open_tensors(data, f"x{suffix}") as catalog:
        loaded, notes = catalog.read("x")
    assert torch.equal(loaded, torch.from_numpy(array.astype("float32")))
    assert notes[0].params == {"dtype": dtype, "changed": int(lost is not None), "count": 4}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_npy_byte_order_and_axis_order(order, layout):
    array = numpy.asarray(numpy.arange(24).reshape(2, 3, 4), dtype=f"{order}i4", order=layout)
    with open_tensors(npy(array), "x.npy") as catalog:
        for window in [
            (),
            (1,),
            (slice(None), 2),
            (0, slice(1, 3), slice(0, 4, 2)),
            (slice(None), slice(None), 3),
        ]:
            assert catalog.load("x", window).tolist() == array[window].tolist(), window


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (2, 3, 4, 5), (1, 1, 1, 1, 1, 2)])
def test_shapes(shape):
    array = numpy.zeros(shape, dtype="float32")
    for data, name in (
        (npy(array), "x.npy"),
        (npz(x=array), "x.npz"),
        (saved(torch.zeros(shape)), "x.pt"),
        (safetensors.torch.save({"x": torch.zeros(shape)}), "x.safetensors"),
    ):
        with open_tensors(data, name) as catalog:
            assert catalog.info("x").shape == catalog.load("x").shape == shape


def test_fp4_is_decoded_two_to_a_byte():
    codes = bytes((low | high << 4) for low, high in ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (15, 10)))
    data = raw_safetensors({"x": {"dtype": "F4", "shape": [3, 4], "data_offsets": [0, 6]}}, codes)
    with open_tensors(data, "x.safetensors") as catalog:
        assert catalog.load("x").tolist() == [[0, 0.5, 1, 1.5], [2, 3, 4, 6], [-0.0, -0.5, -6, -1]]
        assert catalog.load("x", (1, slice(2, 4))).tolist() == [4, 6]


@pytest.mark.parametrize(
    ("data", "filename", "dtype"),
    [
        (npy(numpy.array([True])), "x.npy", "bool"),
        (npy(numpy.array([1j])), "x.npy", "complex128"),
        (npy(numpy.array(["a"])), "x.npy", "string"),
        (npy(numpy.array([b"a"])), "x.npy", "bytes"),
        (npy(numpy.array([{"a": 1}], dtype=object)), "x.npy", "object"),
        (npy(numpy.array(["2026-01-01"], dtype="M8[D]")), "x.npy", "datetime"),
        (npy(numpy.zeros(2, dtype=[("a", "f4"), ("b", "i4")])), "x.npy", "structured"),
        (npy(numpy.zeros(2, dtype=numpy.longdouble)), "x.npy", "float128"),
        (npz(x=numpy.array([True])), "x.npz", "bool"),
        (saved(torch.tensor([True])), "x.pt", "bool"),
        (saved(torch.tensor([1j])), "x.pt", "complex64"),
        (saved(torch.eye(3).to_sparse()), "x.pt", "sparse"),
        (safetensors.torch.save({"x": torch.tensor([True])}), "x.safetensors", "bool"),
        (safetensors.torch.save({"x": torch.tensor([1j])}), "x.safetensors", "complex64"),
        (b'{"x": ["a", "b"]}', "x.json", "str"),
        (b'{"x": [true]}', "x.json", "bool"),
        (b'{"x": [null]}', "x.json", "NoneType"),
    ],
)
def test_what_is_no_real_number_is_listed_but_not_loaded(data, filename, dtype):
    with open_tensors(data, filename) as catalog:
        assert catalog.info("x").dtype == dtype
        assert catalog.info("x").problem
        with pytest.raises(QuantVizError) as caught:
            catalog.load("x")
    assert caught.value.key == "file.not_numbers"


def test_nan_comes_through_and_beyond_float32_does_not():
    array = numpy.array([[1.0, numpy.nan], [-numpy.inf, 1e300]])
    for data, name in ((npy(array), "x.npy"), (saved(torch.from_numpy(array)), "x.pt")):
        with open_tensors(data, name) as catalog:
            assert str(catalog.load("x", (slice(None), 0)).tolist()) == "[1.0, -inf]"
            with pytest.raises(QuantVizError) as caught:
                catalog.load("x")
        assert caught.value.key == "file.beyond_float32"
        assert (caught.value.params["index"], caught.value.params["count"]) == ((1, 1), 1)


# ---- names and nesting --------------------------------------------------------------------------


def test_nested_state_dicts_get_dotted_names():
    content = {
        "model": {"a.weight": X, "layers": [X[0], {"b": X[1]}]},
        "step": 3,
        "names": ["u", "v"],
        "again": None,
    }
    with open_tensors(saved(content), "model.pt") as catalog:
        assert catalog.names == ("model.a.weight", "model.layers.0", "model.layers.1.b")
        assert torch.equal(catalog.load("model.layers.1.b"), X[1])
    with open_tensors(saved(torch.nn.Linear(3, 2).state_dict()), "linear.pth") as catalog:
        assert catalog.names == ("weight", "bias")
    with open_tensors(
        json.dumps({"a": {"b": [[1, 2]]}, "c": [{"d": [3]}, {"d": [4]}], "e": 5, "f": "g"}).encode(), "m.json"
    ) as catalog:
        assert {name: catalog.load(name).tolist() for name in catalog.names} == {
            "a.b": [[1, 2]],
            "c.0.d": [3],
            "c.1.d": [4],
        }


def test_views_of_one_storage_are_read_right():
    base = torch.arange(12.0)
    with open_tensors(
        saved({"a": base[2:8].reshape(2, 3), "b": base.reshape(3, 4).T, "c": base[:1].expand(5)}), "v.pt"
    ) as catalog:
        assert catalog.load("a").tolist() == [[2, 3, 4], [5, 6, 7]]
        assert catalog.load("b", (1,)).tolist() == [1, 5, 9]
        assert catalog.load("c").tolist() == [0] * 5


def test_names_of_any_kind_stay_plain_text():
    names = ["../../etc/passwd", "<b>bold</b>", "**", "\u202eevil", "a b", "权重", ""]
    with open_tensors(
        safetensors.torch.save({name: X.clone() for name in names}), "n.safetensors"
    ) as catalog:
        assert set(catalog.names) == set(names)
        with pytest.raises(QuantVizError) as caught:
            catalog.info("\u202e" + "x" * 500)
    assert "\u202e" not in str(caught.value)
    assert len(str(caught.value)) < 400
    with open_tensors(npz(**{"../up": X.numpy()}), "n.npz") as catalog:
        assert torch.equal(catalog.load("../up"), X)


def test_a_servers_folders_are_never_shown(tmp_path):
    with pytest.raises(QuantVizError) as caught, open_tensors(tmp_path / "secret" / "x.npy"):
        pass
    assert caught.value.key == "file.missing"
    assert "secret" not in str(caught.value)


# ---- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "notes"),
    [
        ("a,b\n1,2\n3,4\n", (2, 2), ["source.header_skipped"]),
        ('"width","height"\n1,2\n', (2,), ["source.header_skipped"]),
        ("nan,inf\n1,2\n", (2, 2), []),
        ("1,5;2,5\n3,5;4,5\n", (2, 2), ["source.decimal_commas"]),
        ("x;y\n1,5;2,5\n3,5;4,5\n", (2, 2), ["source.header_skipped", "source.decimal_commas"]),
        ("1,5\t2\n3\t4\n", (2, 2), ["source.decimal_commas"]),
        ("1\r\n2\r\n3\r\n", (3, 1), []),
        ("\ufeff1,2\n3,4", (2, 2), []),
        ('"1","2"\n"3","4"', (2, 2), []),
        ("tensor([[1., 2.],\n        [3., 4.]])", (2, 2), []),
        ('"1,5";"2,5"\n3,5;"4"', (2, 2), ["source.decimal_commas"]),
        ('"loss, last";"step 2"\n"1,5"\t"2,5"', (2,), ["source.header_skipped", "source.decimal_commas"]),
        ("x.1;x.2\n1,5;2,5", (2,), ["source.header_skipped", "source.decimal_commas"]),
        ('"","a ""b"""\n1,2', (2,), ["source.header_skipped"]),
        ("2020Q1,2020Q2\n1,2", (2,), ["source.header_skipped"]),
    ],
)
def test_tables(text, shape, notes):
    for encoding in ("utf-8", "utf-16"):
        with open_tensors(text.encode(encoding), "t.csv") as catalog:
            loaded, given = catalog.read("t")
            assert tuple(loaded.shape) == shape
            assert [note.key for note in given] == notes


@pytest.mark.parametrize(
    ("text", "key", "got"),
    [
        ('"1,234.5",17.5', "typed.separator_in_cell", '"1,234.5"'),
        ('a,b\n"1,000",5.5', "typed.separator_in_cell", '"1,000"'),
        ('"1,000";5.5', "typed.separator_in_cell", '"1,000"'),
        ('"1,5","2,5"', "typed.separator_in_cell", '"1,5"'),
        ("0x1F,0x2F\n1,2", "typed.no_number", "0x1F"),
        ("x,1_000\n1,2", "typed.no_number", "x"),
        ('"a,b\n1,2', "typed.unclosed_quote", None),
    ],
)
def test_what_may_be_meant_as_a_number_is_refused_and_not_read_otherwise(text, key, got, monkeypatch):
    # A long table is one of more than a block.
    monkeypatch.setattr(table, "_BLOCK", 2**12)
    for whole in (text, text + "\n" + "1,2\n" * 2**10):
        with pytest.raises(QuantVizError) as caught, open_tensors(whole.encode(), "t.csv"):
            pass
        problem = caught.value.params["problem"]
        assert (problem.key, problem.params.get("got")) == (key, got)


@pytest.mark.nightly
def test_long_tables_of_quoted_cells_are_read_like_others():
    for line, row in (
        ('"1.5","-2"', [1.5, -2]),
        ('"1,5";"2,5"', [1.5, 2.5]),
        ('"1,5"\t2,5', [1.5, 2.5]),
        ('"1" "2"', [1, 2]),
    ):
        with open_tensors((f"{line}\n" * 2**18).encode(), "long.csv") as catalog:
            assert torch.equal(catalog.load("long"), torch.tensor([row]).expand(2**18, 2))


def test_long_tables_are_read_in_blocks_and_errors_keep_their_lines():
    lines = ["0.5,1.5,2.5,3.5"] * 70_000
    expected = torch.tensor([[0.5, 1.5, 2.5, 3.5]]).expand(70_000, 4)
    for text in ("\n".join(lines), "\n".join(lines).replace(",", "; "), "a,b,c,d\n" + "\n".join(lines)):
        with open_tensors(text.encode(), "long.csv") as catalog:
            assert torch.equal(catalog.load("long"), expected)
    for place, bad, key in (
        (69_000, "0.5,1.5,2.5,x", "typed.no_number"),
        (69_000, "0.5,1.5,2.5", "typed.ragged"),
        (69_999, "1e39,1,1,1", "typed.beyond_float32"),
        (69_000, '"1,000",1.5,2.5,3.5', "typed.separator_in_cell"),
        (69_000, '"0.5,1.5,2.5,3.5', "typed.unclosed_quote"),
        (69_000, '"0.5"1,1.5,2.5,3.5', "typed.no_number"),
        (69_000, '0.5,"1.5""",2.5,3.5', "typed.no_number"),
    ):
        lines[place], good = bad, lines[place]
        with pytest.raises(QuantVizError) as caught, open_tensors("\n".join(lines).encode(), "long.csv"):
            pass
        problem = caught.value.params["problem"]
        assert (problem.key, problem.params["line"]) == (key, place + 1)
        lines[place] = good


# ---- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "filename", [name for name in FILES if not name.endswith(("csv", "tsv", "txt", "json"))]
)
def test_too_large_tensors_are_listed_and_windows_of_them_load(filename):
    with open_tensors(FILES[filename], filename, limits=Limits(elements=20)) as catalog:
        assert catalog.info("x").shape == (6, 5)
        with pytest.raises(QuantVizError) as caught:
            catalog.load("x")
        assert caught.value.key == "file.tensor_too_large"
        if not filename.endswith(".npz"):
            assert torch.equal(catalog.load("x", (slice(0, 4),)), X[:4])


def test_a_window_of_a_large_tensor_reads_only_its_rows(tmp_path):
    """A sparse file of 16 GB: reading more than the window would be noticed."""
    rows, cols = 2**16, 2**16
    header = json.dumps(
        {"x": {"dtype": "F32", "shape": [rows, cols], "data_offsets": [0, 4 * rows * cols]}}
    ).encode()
    with (tmp_path / "large.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.seek(8 + len(header) + 4 * (60_000 * cols + 7))
        file.write(struct.pack("<f", 2.5))
        file.truncate(8 + len(header) + 4 * rows * cols)
    with open_tensors(tmp_path / "large.safetensors") as catalog:
        assert catalog.load("x", (slice(59_999, 60_001), slice(6, 9))).tolist() == [[0, 0, 0], [0, 2.5, 0]]
        with pytest.raises(QuantVizError) as caught:
            catalog.load("x")
        assert caught.value.key == "file.tensor_too_large"


# ---- hostile and damaged files ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "stride", "offset"),
    [
        ((1000,), (1,), 0),
        ((4,), (1000,), 0),
        ((4,), (1,), 10**6),
        ((2**20, 2**20), (2**20, 1), 0),
        ((4,), (-1,), 3),
        ((4,), (1,), -1),
    ],
)
def test_tensors_that_claim_more_than_their_storage(shape, stride, offset):
    with (
        pytest.raises(QuantVizError) as caught,
        open_tensors(with_storage_of(shape, stride, offset), "claims.pt") as catalog,
    ):
        catalog.load("x")
    assert caught.value.key in (TENSOR, DAMAGED)


def test_a_tensor_inside_its_storage_is_read():
    with open_tensors(with_storage_of((3,), (1,), 1), "inside.pt") as catalog:
        assert catalog.load("x").tolist() == [0, 0, 0]


def test_a_stride_of_zero_is_bounded():
    with (
        open_tensors(with_storage_of((2**20, 2**20), (0, 0)), "zero.pt") as catalog,
        pytest.raises(QuantVizError) as caught,
    ):
        catalog.load("x")
    assert caught.value.key == "file.tensor_too_large"


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(QuantVizError) as caught, open_tensors(tmp_path / "x.npy"):
        pass
    assert caught.value.key == "file.is_folder"


# ---- registry and snippets ----------------------------------------------------------------------


def test_every_reader_keeps_the_contract():
    for reader in CATALOGS:
        assert reader.kind
        assert all(READERS[suffix] is reader for suffix in reader.suffixes)
        assert len(reader.snippet.splitlines()) == 3


@pytest.mark.parametrize("reader", CATALOGS)
def test_every_reader_reads_what_was_written(reader):
    """Above, by its file in `FILES`, or in a test module named as its own."""
    module = reader.__module__.rpartition(".")[2]
    here = any(name.endswith(reader.suffixes) for name in FILES)
    assert here or Path(__file__).with_name(f"test_{module}.py").exists(), (
        f"add a file that {reader.__name__} reads to FILES of tests/helpers/hostile.py, "
        f"or tests to tests/sources/test_{module}.py"
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    "filename", ["x.npy", "x.npz", "x.csv", "named.json", "x.pt", "x.safetensors", "x.gguf"]
)
def test_the_snippets_cut_out_what_they_say(filename, tmp_path):
    (tmp_path / filename).write_bytes(FILES[filename])
    lines = cut_out_snippet(filename, "x")
    assert len(lines.splitlines()) == 3
    subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, check=True)
    (written,) = tmp_path.glob("cut_out.*")
    with open_tensors(written) as catalog:
        # pandas takes the first row for names, which this file has none of.
        expected = X[1:] if filename == "x.csv" else X
        assert torch.allclose(catalog.load("cut_out")[-5:], expected[-5:])


def test_a_snippet_quotes_names():
    code = cut_out_snippet("we\"ird'\\.pt", "'] + __import__('os').name + ['")
    compile(code, "snippet", "exec")
    with pytest.raises(QuantVizError) as caught:
        cut_out_snippet("model.h5")
    assert caught.value.key == "file.unknown_kind"


@pytest.mark.parametrize(
    ("content", "filename", "key", "way_out"),
    [
        (None, None, "no_path", "file's path"),
        (3, None, "no_path", "file's path"),
        (["x.npy"], None, "no_path", "file's path"),
        (io.BytesIO(b"1 2"), None, "no_path", "file.read()"),
        ("", None, "no_path", "file's path"),
        (b"1 2", 3, "no_filename", "Give a name"),
        (b"1 2", b"x.npy", "no_filename", "Give a name"),
        (b"", None, "empty_file", "choose another"),
        (".", None, "is_folder", "one file in it"),
        (Path(), None, "is_folder", "one file in it"),
        ("nowhere.npy", None, "missing", "Check its name"),
        (str(Path(__file__) / "x.npy"), None, "missing", "Check its name"),
        ("a\0b.npy", None, "not_readable", "Check that it is a file"),
    ],
)
def test_misuse_of_open_tensors_is_told_the_way_out(content, filename, key, way_out):
    with pytest.raises(QuantVizError) as caught, open_tensors(content, filename):
        pass
    assert caught.value.key == f"file.{key}"
    assert way_out in str(caught.value)


@pytest.mark.parametrize("name", [None, 3, ["x"], "y"])
def test_what_is_no_name_of_a_tensor_is_told_the_names(name):
    with open_tensors(FILES["x.npz"], "x.npz") as catalog, pytest.raises(QuantVizError) as caught:
        catalog.load(name)
    assert caught.value.params["nearest"] == "'x'"


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_directory_of_an_archive_is_read_once_however_many_members_are_read(packing, monkeypatch):
    made = []
    before = zipfile.ZipFile.__init__
    data = zipped([(f"{number}.npy", FILES["x.npy"]) for number in range(2000)], packing)
    monkeypatch.setattr(zipfile.ZipFile, "__init__", lambda *args, **more: made.append(before(*args, **more)))
    with open_tensors(data, "many.npz") as catalog:
        assert {catalog.info(name).shape for name in catalog.names} == {(6, 5)}
        assert all(torch.equal(catalog.load(name), X) for name in ("0", "999", "1999"))
    assert len(made) == 2  # one to recognise it


@pytest.mark.parametrize("filename", FILES)
@pytest.mark.parametrize("on_disk", [False, True], ids=["upload", "path"])
def test_a_file_that_was_closed_says_so(filename, on_disk, tmp_path):
    (tmp_path / filename).write_bytes(FILES[filename])
    with open_tensors(tmp_path / filename) if on_disk else open_tensors(FILES[filename], filename) as catalog:
        kept = catalog.stored("x")
    for call in (catalog.load, catalog.read, catalog.stored):
        with pytest.raises(QuantVizError) as caught:
            call("x")
        assert caught.value.key == "file.closed"
    assert torch.equal(kept.read((slice(None), slice(None))), X)
    assert filename in repr(catalog)
    assert "closed" in repr(catalog)
    assert "shape=(6, 5)" in repr(kept)
    assert "float32" in repr(kept)


def test_open_tensors_wants_a_with_block(tmp_path):
    with pytest.raises(QuantVizError) as caught:
        open_tensors(3)
    assert caught.value.key == "file.no_path"
    opened = open_tensors(FILES["x.npy"], "x.npy")
    assert "with block" in repr(opened)
    for name in ("names", "load", "stored"):
        with pytest.raises(QuantVizError) as caught:
            getattr(opened, name)
        assert caught.value.key == "file.not_entered"
    assert not hasattr(opened, "shape")
    with opened as catalog:
        assert catalog.names == ("x",)


def test_a_table_too_slow_to_read_names_the_limit_it_hits(monkeypatch):
    monkeypatch.setattr(table, "_BLOCK", 64)
    monkeypatch.setattr(table, "_SLOW", 96)
    monkeypatch.setattr(table, "_fast", lambda block, decimal_comma: None)
    with pytest.raises(QuantVizError) as caught, open_tensors(b'"1","2"\n' * 40, "x.csv"):
        pass
    assert (caught.value.key, caught.value.params["most"]) == ("file.slow_table", 96)


@pytest.mark.parametrize("packed", [False, True])
def test_the_directory_of_an_npz_is_read_once(packed, monkeypatch):
    from quantviz.sources.files import npz as module

    content = io.BytesIO()
    (numpy.savez_compressed if packed else numpy.savez)(
        content, a=X.numpy(), b=numpy.asfortranarray(X.numpy())
    )
    with open_tensors(content.getvalue(), "x.npz") as catalog:
        monkeypatch.setattr(module, "opened_zip", None)
        for name in catalog.names:
            assert torch.equal(catalog.load(name), X)
            assert torch.equal(catalog.load(name, (slice(1, 3),)), X[1:3])
