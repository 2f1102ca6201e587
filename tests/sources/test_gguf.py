"""GGUF: blocks decode to the very bits of `gguf.quants`, windows are the slices, and bad files get a
sentence.
"""

import hashlib
import os
import struct

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from gguf import quants

import quantviz as qv
from quantviz.errors import QuantVizError
from quantviz.sources.files import Limits, open_tensors
from quantviz.sources.files.gguf_blocks import BLOCK_TYPES, OTHER_TYPES, TABLES, decode_blocks, table_of
from quantviz.sources.layouts import quantized_weights
from quantviz.text import languages
from tests.helpers.gguf_file import (
    ARRAY,
    BOOL,
    FLOAT64,
    STRING,
    UINT8,
    UINT32,
    Entry,
    array,
    gguf_file,
    pair,
    string,
)

QUANTIZED = [kind for kind in BLOCK_TYPES.values() if not kind.plain]
#: SHA-256 of the float32 that libggml of llama.cpp v0.5.0 (dequantize_row_…) made of `random_blocks`, NaN as
#: 0x7FC00000, for the types that the package does not decode.
OF_LIBRARY = {
    "Q1_0": "801801105c9a7453e3a19334ca02165486fffc1ed8589f344cb21b6dd500288f",
    "Q2_0": "0066aec58b1a29d863c7da782212b4631e94df32ed5cfdc332ba23a483fd546a",
}
OF_PACKAGE = [kind for kind in QUANTIZED if kind.name not in OF_LIBRARY]
#: Those whose codes, scale and zero point a scheme has too.
SCHEMES = {
    Type.Q4_0: ("int4", "symmetric", 32, "gguf_signed"),
    Type.Q4_1: ("uint4", "asymmetric", 32, "gguf_minimum"),
    Type.Q5_0: ("int5", "symmetric", 32, "gguf_signed"),
    Type.Q5_1: ("uint5", "asymmetric", 32, "gguf_minimum"),
    Type.Q8_0: ("int8", "symmetric", 32, "gguf"),
    Type.TQ1_0: ("ternary", "symmetric", 256, "gguf"),
    Type.TQ2_0: ("ternary", "symmetric", 256, "gguf"),
    Type.MXFP4: ("float4_e2m1fn", "symmetric", 32, "gguf_mx"),
}


def mismatches(ours, theirs):
    """How many values differ in a bit; NaN equals NaN."""
    ours, theirs = (
        ours.float().contiguous(),
        torch.from_numpy(np.array(theirs, dtype=np.float32)).reshape(ours.shape),
    )
    return int(
        ((ours.view(torch.int32) != theirs.view(torch.int32)) & ~(ours.isnan() & theirs.isnan())).sum()
    )


def theirs(raw, number):
    with np.errstate(all="ignore"):
        return quants.dequantize(np.ascontiguousarray(raw), Type(number))


def random_blocks(kind, count=1000):
    return np.random.default_rng(kind.id).integers(0, 256, (count, kind.size), dtype=np.uint8)


# ---- blocks -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [each for each in BLOCK_TYPES.values() if each.name != "Q2_0"], ids=lambda kind: kind.name
)
def test_every_type_is_the_packages(kind):
    assert Type(kind.id).name == kind.name
    assert gguf.GGML_QUANT_SIZES[Type(kind.id)] == (kind.length, kind.size)
    assert BLOCK_TYPES[kind.id] is kind


def test_every_type_of_the_package_is_read_or_refused_by_name():
    assert {each.value: each.name for each in Type} == {
        each.value: BLOCK_TYPES[each].name if each in BLOCK_TYPES else OTHER_TYPES[each] for each in Type
    }
    assert not set(BLOCK_TYPES) & set(OTHER_TYPES)
    assert [OTHER_TYPES[number] for number in (36, 37, 38)] == ["I2_S", "I8_S", "TL1"]  # bitnet.cpp's


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_of_vectors_are_the_packages(name):
    kind = getattr(quants, name)
    kind.init_grid()
    assert np.array_equal(table_of(name).numpy(), kind.grid.reshape(TABLES[name]))


@pytest.mark.parametrize("kind", OF_PACKAGE, ids=lambda kind: kind.name)
def test_random_blocks_decode_to_the_packages_bits(kind):
    raw = random_blocks(kind)
    values = decode_blocks(kind, torch.from_numpy(raw))
    assert (values.dtype, tuple(values.shape)) == (torch.float32, (len(raw), kind.length))
    assert mismatches(values, theirs(raw, kind.id)) == 0
    # The random bytes were worth comparing.
    assert len(values.unique()) > 300
    assert int(torch.isfinite(values).all(dim=1).sum()) > len(raw) // 2


@pytest.mark.parametrize("name", OF_LIBRARY)
def test_blocks_that_the_package_does_not_decode_have_the_librarys_bits(name):
    (kind,) = (each for each in QUANTIZED if each.name == name)
    values = decode_blocks(kind, torch.from_numpy(random_blocks(kind))).contiguous().numpy()
    bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
    assert hashlib.sha256(bits.astype("<u4").tobytes()).hexdigest() == OF_LIBRARY[name]


def test_a_block_of_another_length_under_the_same_number_is_refused_by_name():
    """PrismML's Q2_0 has 128 values and 34 bytes a block: read as llama.cpp's, it runs into the next one."""
    tensor = Entry("a", (128, 64), 42, bytes(34 * 64))
    with open_tensors(gguf_file([tensor, tensor._replace(name="b")]), "prism.gguf") as catalog:
        problems = [catalog.info(name).problem for name in catalog.names]
    assert [problem.key for problem in problems] == ["file.gguf_type", "file.cut_short"]
    assert "Q2_0 (128)" in problems[0].message()
    # No tensor of another type may do so either.
    long = Entry("a", (256, 64), Type.Q6_K, bytes(32))
    with open_tensors(gguf_file([long, quantized_entry(BLOCK_TYPES[2], 999, 9)[0]]), "x.gguf") as catalog:
        assert catalog.info("a").problem.key == "file.tensor_damaged"


@pytest.mark.parametrize("kind", OF_PACKAGE, ids=lambda kind: kind.name)
def test_every_bit_is_where_the_package_looks_for_it(kind):
    """Some blocks, and each of their bits flipped alone."""
    flips = np.eye(8 * kind.size, dtype=bool)
    for block in random_blocks(kind, 2):
        raw = block ^ np.packbits(flips, axis=1)
        values = decode_blocks(kind, torch.from_numpy(raw))
        assert mismatches(values, theirs(raw, kind.id)) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["F32", "F16"])
def test_plain_floats(dtype):
    number = Type.F32 if dtype == np.float32 else Type.F16
    raw = np.random.default_rng(0).integers(0, 256, (5000, np.dtype(dtype).itemsize), dtype=np.uint8)
    assert mismatches(BLOCK_TYPES[number].decode(torch.from_numpy(raw)), theirs(raw, number)) == 0


def test_bfloat16():
    raw = np.arange(2**16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    assert mismatches(BLOCK_TYPES[Type.BF16].decode(torch.from_numpy(raw)), theirs(raw, Type.BF16)) == 0


def test_many_blocks_at_once_are_the_same():
    kind = BLOCK_TYPES[Type.TQ1_0]
    raw = torch.from_numpy(random_blocks(kind, 10_000))
    assert torch.equal(
        decode_blocks(kind, raw)[9_000:].nan_to_num(), decode_blocks(kind, raw[9_000:]).nan_to_num()
    )


def weights():
    """Rows of different loudness, a constant row and a row of zeros."""
    x = torch.randn(24, 512, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 3, 24)[:, None]
    x[3], x[4] = 0.75, 0.0
    return x


@pytest.mark.parametrize("number", SCHEMES, ids=lambda number: number.name)
def test_what_the_package_quantizes_is_what_our_scheme_gives(number):
    x = weights()
    packed = quants.quantize(x.numpy(), number)
    kind = BLOCK_TYPES[number]
    read = decode_blocks(kind, torch.from_numpy(packed.reshape(-1, kind.size))).reshape(x.shape)
    assert mismatches(read, theirs(packed, number)) == 0
    form, mode, size, convention = SCHEMES[number]
    scheme = qv.Scheme(form, mode, qv.PerGroup(size, axis=1), convention=convention)
    assert mismatches(read, qv.quantize(x, scheme).x_hat.numpy()) == 0


# ---- reading ------------------------------------------------------------------------------------

ONE = Entry("x", (2,), 0, bytes(8))
METADATA = [
    pair("general.architecture", STRING, string("llama")),
    pair("general.truth", BOOL, b"\x01"),
    pair("general.number", FLOAT64, struct.pack("<d", 1.5)),
    pair("tokenizer.ggml.tokens", ARRAY, array(STRING, 3, string("a") + string("权重") + string(""))),
    pair("tokenizer.ggml.scores", ARRAY, array(UINT8, 5, bytes(5))),
    pair("nested", ARRAY, array(ARRAY, 2, array(UINT32, 1, bytes(4)) + array(STRING, 1, string("b")))),
]


def quantized_entry(kind, rows=6, blocks=3, name="w"):
    raw = random_blocks(kind, rows * blocks)
    return Entry(name, (blocks * kind.length, rows), kind.id, raw.tobytes()), decode_blocks(
        kind, torch.from_numpy(raw)
    ).reshape(rows, -1)


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda kind: kind.name)
def test_windows_of_quantized_tensors(kind):
    entry, whole = quantized_entry(kind)
    length = kind.length
    windows = [
        None,
        (2,),
        (-1, -1),
        (slice(1, 4),),
        (slice(None), 3),
        (slice(0, 6, 4), slice(length - 1, 2 * length + 1, 3)),
        (0, slice(2 * length, None)),
    ]
    windows += [(slice(None), slice(5, 7)), (slice(2, 5), slice(length, 2 * length))]
    with open_tensors(gguf_file([entry], METADATA), "w.gguf") as catalog:
        info = catalog.info("w")
        assert (info.dtype, info.source_type, info.shape, info.problem) == (
            kind.name,
            kind.name,
            (6, 3 * length),
            None,
        )
        assert [note.params for note in info.notes] == [{"type": kind.name, "bits": 8 * kind.size / length}]
        loaded = [catalog.load("w", window) for window in windows]
        assert catalog.read("w", (0,)).notes == info.notes
    for window, tensor in zip(windows, loaded, strict=True):
        assert tensor.dtype == torch.float32
        assert tensor.shape == whole[window or ...].shape
        assert mismatches(tensor, whole[window or ...].numpy()) == 0, window


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (Type.F16, "float16"),
        (Type.BF16, "bfloat16"),
        (Type.F64, "float64"),
        (Type.I8, "int8"),
        (Type.I16, "int16"),
        (Type.I32, "int32"),
        (Type.I64, "int64"),
    ],
)
def test_plain_tensors_have_their_own_dtype(number, dtype):
    stored = torch.arange(-60, 60).reshape(2, 3, 4, 5).to(getattr(torch, dtype))
    entry = Entry("x", (5, 4, 3, 2), number, bytes(stored.contiguous().view(torch.uint8).numpy()))
    with open_tensors(gguf_file([entry]), "x.gguf") as catalog:
        assert (catalog.info("x").dtype, catalog.info("x").source_type) == (dtype, "")
        assert torch.equal(catalog.load("x"), stored.float())
        assert torch.equal(catalog.load("x", (1, slice(0, 3, 2), 2)), stored.float()[1, 0:3:2, 2])


def test_a_file_of_the_packages_own_writer(tmp_path):
    x = weights()
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_custom_alignment(64)
    writer.add_token_list(["<s>", "词", "c"] * 50)
    writer.add_token_scores([0.5] * 150)
    for number in SCHEMES:
        writer.add_tensor(f"blk.0.{number.name}.weight", quants.quantize(x.numpy(), number), raw_dtype=number)
    writer.add_tensor("norm.weight", x[0, :7].numpy())
    writer.add_tensor("four", x.reshape(2, 12, 16, 32).numpy().astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    with open_tensors(tmp_path / "model.gguf") as catalog:
        assert set(catalog.names) == set(read)
        for name, tensor in read.items():
            assert catalog.info(name).shape == tuple(reversed(tensor.shape.tolist()))
            assert mismatches(catalog.load(name), quants.dequantize(tensor.data, tensor.tensor_type)) == 0
        assert torch.equal(catalog.load("four", (1, 2)), x.reshape(2, 12, 16, 32).half().float()[1, 2])


def test_only_the_window_of_a_large_tensor_is_read(tmp_path):
    """32 GiB of zeros that take no room on the disk, with something in one row."""
    kind, side = BLOCK_TYPES[Type.Q4_K], 2**18
    header = gguf_file([Entry("w", (side, side), kind.id)])
    row, raw = 100_000, random_blocks(kind, 2)
    with (tmp_path / "large.gguf").open("wb") as file:
        file.write(header)
        file.seek(len(header) + row * side // kind.length * kind.size + 3 * kind.size)
        file.write(raw.tobytes())
        os.truncate(file.fileno(), len(header) + side * side // kind.length * kind.size)
    expected = decode_blocks(kind, torch.from_numpy(raw)).flatten().numpy()
    with open_tensors(tmp_path / "large.gguf") as catalog:
        assert mismatches(catalog.load("w", (row, slice(3 * 256, 5 * 256))), expected) == 0
        window = catalog.load("w", (slice(row - 1, row + 2), slice(3 * 256 + 10, 3 * 256 + 20)))
        assert mismatches(window[1], expected[10:20]) == 0
        assert not window[0].any()
        with pytest.raises(QuantVizError) as caught:
            catalog.load("w")
    assert caught.value.key == "file.tensor_too_large"


def test_one_tensor_that_cannot_be_read_does_not_close_the_others():
    good, whole = quantized_entry(BLOCK_TYPES[Type.Q6_K], name="good")
    entries = [
        Entry("old", (256, 2), Type.Q8_K),
        Entry("new", (32,), 77),
        Entry("beyond", (256, 9999), Type.Q6_K),
        Entry("ragged", (255, 2), Type.Q6_K),
        good,
    ]
    with open_tensors(gguf_file(entries), "some.gguf") as catalog:
        problems = {
            name: catalog.info(name).problem.key for name in catalog.names if catalog.info(name).problem
        }
        assert problems == {
            "old": "file.gguf_type",
            "new": "file.gguf_type",
            "beyond": "file.cut_short",
            "ragged": "file.gguf_row",
        }
        assert mismatches(catalog.load("good"), whole.numpy()) == 0
        with pytest.raises(QuantVizError) as caught:
            catalog.load("old")
    for language in languages():
        message = caught.value.message(language)
        assert "Q8_K" in message
        assert all(kind.name in message for kind in QUANTIZED)


def test_a_scale_that_lies_apart_is_told():
    entries = [quantized_entry(BLOCK_TYPES[Type.NVFP4], name=name)[0] for name in ("a.weight", "b.weight")]
    with open_tensors(gguf_file([*entries, Entry("a.scale", (1,), Type.F32, bytes(4))]), "n.gguf") as catalog:
        notes = {name: [note.key for note in catalog.info(name).notes] for name in catalog.names}
        assert notes == {
            "a.weight": ["source.dequantized", "source.scale_apart"],
            "b.weight": ["source.dequantized"],
            "a.scale": [],
        }
        assert "'a.scale'" in str(catalog.info("a.weight").notes[1])


def test_names_are_plain_text():
    names = ["../../etc/passwd", "<b>bold</b>", "**", "\u202eevil", "权重", ""]
    with open_tensors(
        gguf_file([Entry(name, (1,), Type.F32, bytes(4)) for name in names]), "n.gguf"
    ) as catalog:
        assert catalog.names == tuple(names)
        with pytest.raises(QuantVizError) as caught:
            catalog.load("\u202eevil", (5,))
    assert "\u202e" not in str(caught.value)


def test_experts_are_counted_as_tensors():
    """Each takes a weight of its own: of 18 bytes of the file a thousand of memory."""
    content = gguf_file([Entry("x", (32, 1, 200), Type.Q4_0, bytes(200 * 18))])
    with open_tensors(content, "x.gguf", limits=Limits(tensors=200)) as catalog:
        assert len(quantized_weights(catalog)) == 200
    with open_tensors(content, "x.gguf", limits=Limits(tensors=199)) as catalog:
        with pytest.raises(QuantVizError) as caught:
            quantized_weights(catalog)
        assert caught.value.key == "file.too_many_tensors"


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(version):
    with open_tensors(gguf_file([ONE], METADATA, version=version), "x.gguf") as catalog:
        assert catalog.load("x").tolist() == [0, 0]


def test_another_alignment_is_kept_to():
    x = torch.arange(3.0)
    metadata = [pair("general.alignment", UINT32, struct.pack("<I", 256))]
    entries = [
        Entry("a", (3,), Type.F32, x.numpy().tobytes()),
        Entry("b", (3,), Type.F32, (x + 5).numpy().tobytes()),
    ]
    with open_tensors(gguf_file(entries, metadata, alignment=256), "x.gguf") as catalog:
        assert torch.equal(catalog.load("a"), x)
        assert torch.equal(catalog.load("b"), x + 5)
