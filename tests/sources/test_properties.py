"""Laws of every reader: what its format's usual writer wrote comes back, whole and by windows."""

import json
import math

import numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantviz.sources.files import open_tensors
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.hostile import csv, npy, npz, saved

FEW = settings(max_examples=25, deadline=None)
SHAPES = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)
FULL_SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
SEEDS = st.integers(0, 2**32 - 1)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
#: What torch and numpy both have.
DTYPES = st.sampled_from(
    [
        "float64",
        "float32",
        "float16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ]
)
SMALL_FLOATS = st.sampled_from(
    [
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e4m3fnuz,
        torch.float8_e8m0fnu,
    ]
)


def filled(shape, seed, dtype="float32"):
    """Random bits as values of that dtype, those beyond float32 brought back."""
    bits = numpy.random.default_rng(seed).bytes(math.prod(shape) * numpy.dtype(dtype).itemsize)
    values = numpy.frombuffer(bits, dtype=dtype).reshape(shape).copy()
    if dtype == "float64":
        with numpy.errstate(over="ignore", invalid="ignore"):
            values = values.astype("float32").astype("float64")
    return values


@st.composite
def windows(draw, shape):
    """A number or slice for some of the axes, none of them empty."""
    window = []
    for length in shape[: draw(st.integers(0, len(shape)))]:
        if not length:
            window.append(slice(None))
            continue
        start = draw(st.integers(0, length - 1))
        if draw(st.booleans()):
            window.append(start - draw(st.sampled_from((0, length))))
        else:
            window.append(slice(start, draw(st.integers(start + 1, length + 2)), draw(st.integers(1, 3))))
    return tuple(window)


def same(found, expected):
    return torch.equal(
        found.nan_to_num(nan=0.125), expected.to(torch.float32).nan_to_num(nan=0.125)
    ) and torch.equal(found.isnan(), expected.isnan())


def comes_back(data, filename, name, expected, window):
    """`expected` is the tensor that was written, as float32."""
    with open_tensors(data, filename) as catalog:
        assert catalog.info(name).shape == tuple(expected.shape)
        assert same(catalog.load(name), expected)
        assert same(catalog.load(name, window), expected[window])
        if expected.numel():
            stored = catalog.stored(name)
            flat = torch.from_numpy(stored.run(0, stored.count).copy())
            assert same(flat, expected.flatten())
            middle = len(flat) // 2
            assert same(torch.from_numpy(stored.run(middle, len(flat)).copy()), expected.flatten()[middle:])


@FEW
@given(st.data(), SHAPES, DTYPES, SEEDS, st.sampled_from("CF"), st.sampled_from("<>"))
def test_numpy(data, shape, dtype, seed, order, byte_order):
    values = filled(shape, seed, dtype)
    written = numpy.asarray(values, dtype=numpy.dtype(dtype).newbyteorder(byte_order), order=order)
    expected, window = torch.from_numpy(values.astype("float32")), data.draw(windows(shape))
    comes_back(npy(written), "x.npy", "x", expected, window)
    comes_back(npz(compressed=bool(seed % 2), x=written), "x.npz", "x", expected, window)


@FEW
@given(st.data(), SHAPES, DTYPES, SEEDS, NAMES)
def test_safetensors_and_torch(data, shape, dtype, seed, name):
    written, window = torch.from_numpy(filled(shape, seed, dtype)), data.draw(windows(shape))
    expected = written.to(torch.float32)
    comes_back(safetensors.torch.save({name: written}), "x.safetensors", name, expected, window)
    comes_back(saved({name: written}), "x.pt", name, expected, window)
    if dtype not in ("uint16", "uint32", "uint64"):  # torch itself cannot read these in its older form
        comes_back(
            saved({name: written}, _use_new_zipfile_serialization=False), "x.pt", name, expected, window
        )
    # Other strides than those of rows.
    turned = written.permute(*reversed(range(len(shape))))
    comes_back(saved([turned]), "x.pt", "0", turned.to(torch.float32), ())


@FEW
@given(st.data(), FULL_SHAPES, SMALL_FLOATS, SEEDS)
def test_small_floats(data, shape, dtype, seed):
    raw = torch.from_numpy(filled((*shape, dtype.itemsize), seed, "uint8"))
    written, window = raw.view(dtype).reshape(shape), data.draw(windows(shape))
    comes_back(
        safetensors.torch.save({"x": written}), "x.safetensors", "x", written.to(torch.float32), window
    )
    comes_back(saved(written), "x.pt", "x", written.to(torch.float32), window)


@FEW
@given(st.data(), FULL_SHAPES, SEEDS, NAMES)
def test_json(data, shape, seed, name):
    written, window = torch.from_numpy(filled(shape, seed)), data.draw(windows(shape))
    comes_back(json.dumps({name: written.tolist()}).encode(), "x.json", name, written, window)
    comes_back(json.dumps(written.tolist()).encode(), "x.json", "x", written, window)


@FEW
@given(
    st.data(),
    st.integers(2, 6),
    st.integers(1, 6),
    SEEDS,
    st.sampled_from(["x.csv", "x.tsv", "x.txt"]),
    st.sampled_from([",", ";", "\t", " ", ", "]),
)
def test_tables(data, rows, columns, seed, filename, separator):
    written, window = torch.from_numpy(filled((rows, columns), seed)), data.draw(windows((rows, columns)))
    comes_back(csv(written, separator), filename, "x", written, window)
    comes_back(
        b"\xef\xbb\xbf" + csv(written, separator).replace(b"\n", b"\r\n") + b"\r\n",
        filename,
        "x",
        written,
        window,
    )
    comes_back(repr(written.tolist()).encode("utf-16"), filename, "x", written, window)


@FEW
@given(
    st.data(),
    FULL_SHAPES,
    st.sampled_from(
        [(0, "float32"), (1, "float16"), (24, "int8"), (25, "int16"), (26, "int32"), (28, "float64")]
    ),
    SEEDS,
    NAMES,
)
def test_gguf(data, shape, kind, seed, name):
    values, window = filled(shape, seed, kind[1]), data.draw(windows(shape))
    comes_back(
        gguf_file([Entry(name, shape[::-1], kind[0], values.tobytes())]),
        "x.gguf",
        name,
        torch.from_numpy(values.astype("float32")),
        window,
    )
