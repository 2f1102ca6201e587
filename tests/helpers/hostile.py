"""Files that no sound program would write, made by code, each with what becomes of it: refused with a
sentence, or read as it should be.
"""

import io
import json
import os
import pickle
import re
import struct
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import safetensors.torch
import torch
from PIL import Image

from quantviz.errors import QuantVizError
from quantviz.sources.files import Limits, open_tensors
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

X = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))


def npy(array):
    stream = io.BytesIO()
    numpy.save(stream, array)
    return stream.getvalue()


def npz(compressed=False, **arrays):
    stream = io.BytesIO()
    (numpy.savez_compressed if compressed else numpy.savez)(stream, **arrays)
    return stream.getvalue()


def saved(content, **options):
    stream = io.BytesIO()
    torch.save(content, stream, **options)
    return stream.getvalue()


def csv(x, separator=","):
    return "\n".join(separator.join(map(repr, row)) for row in x.tolist()).encode()


#: One file of each kind that holds X under the name "x".
FILES = {
    "x.npy": npy(X.numpy()),
    "x.npz": npz(x=X.numpy()),
    "packed.npz": npz(compressed=True, x=X.numpy()),
    "x.csv": csv(X),
    "x.tsv": csv(X, "\t"),
    "x.txt": repr(X.tolist()).encode(),
    "x.json": json.dumps(X.tolist()).encode(),
    "named.json": json.dumps({"x": X.tolist()}).encode(),
    "x.pt": saved({"x": X}),
    "alone.pth": saved({"x": torch.nn.Parameter(X)}),
    "old.pt": saved({"x": X}, _use_new_zipfile_serialization=False),
    "x.safetensors": safetensors.torch.save({"x": X}),
    "x.gguf": gguf_file([Entry("x", (5, 6), 0, X.numpy().tobytes())]),
}


def raw_safetensors(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def raw_npy(header, body=b"", version=b"\x01\x00"):
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + body


def zipped(members, packing=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, body in members:
            archive.writestr(name, body)
    return stream.getvalue()


#: What would turn the text around it or end a line in a log.
UNSEEN = re.compile("[\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: What a file that ran code would have made.
CANARY = Path(tempfile.gettempdir()) / "quantviz_a_file_ran_code"


class Calls:
    """Pickled, a call of that function with these arguments."""

    def __init__(self, function, *args, state=None):
        self.reduced = (function, args) if state is None else (function, args, state)

    def __reduce__(self):
        return self.reduced


def with_storage_of(shape, stride, offset=0):
    """A state dict whose tensor claims a place outside its storage."""
    data = saved({"x": torch.zeros(4)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    stream = io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return ("storage", torch.FloatStorage, "0", "cpu", 4) if value == "STORAGE" else None

    class Fake:
        def __reduce__(self):
            return (torch._utils._rebuild_tensor_v2, ("STORAGE", offset, shape, stride, False, {}))

    Pickler(stream, protocol=2).dump({"x": Fake()})
    return zipped(
        [(name, stream.getvalue() if name.endswith("data.pkl") else body) for name, body in members]
    )


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


NPY_HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }\n"
SAFE = FILES["x.safetensors"]
DAMAGED, TENSOR, AXES = "file.damaged", "file.tensor_damaged", "file.too_many_axes"
CUT, CUT_IN_LIST, ANSWER, ARCHIVE = "file.cut_short", "file.cut_in_list", "file.is_answer", "file.is_archive"
RANGES = "file.ranges"

BAD = {
    # any file
    "empty.npy": (b"", "file.empty_file"),
    "unknown.xyz": (b"hello", "file.unknown_kind"),
    "nosuffix": (b"\x00\x01", "file.unknown_kind"),
    "gguf_is.onnx": (b"GGUF", CUT_IN_LIST),
    # something else in the file's place
    "text_is.onnx": (b"1 2 3 4 5", ANSWER),
    "text_is.npy": (b"1 2 3 4 5", ANSWER),
    "text_is.pt": (b"1 2 3", DAMAGED),
    "text_is.safetensors": (b"1 2 3 4 5 6 7 8", ANSWER),
    "text_is.json": (b"hello", DAMAGED),
    "word_is.safetensors": (b"Entry not found", ANSWER),
    "rtl_is.safetensors": ("Not found \u202eno\u2066\x1b[31m".encode(), ANSWER),
    "json_is.gguf": (b'{"error": "Invalid credentials"}', ANSWER),
    "longtext_is.npz": (b"word " * 2**14, DAMAGED),
    "html_is.pt": (b"<!DOCTYPE html>", "file.is_page"),
    "html_is.csv": (b"\xef\xbb\xbf\n <!-- a -->\n<HTML lang=en><body>", "file.is_page"),
    "lfs_is.safetensors": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4912345678\n",
        "file.is_lfs",
    ),
    "lfs_is.json": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "file.is_lfs"),
    "annex_is.npy": (b"/annex/objects/SHA256E-s10--ab.npy\n", "file.is_annex"),
    "zeros_is.safetensors": (bytes(5000), "file.is_zeros"),
    "zip_is.npz": (zipped([("a.txt", b"x")]), ARCHIVE),
    # formats that are named
    "named.h5": (b"\x89HDF\r\n\x1a\n" + bytes(90), "file.is_hdf5"),
    "named.keras": (zipped([("config.json", b"{}"), ("model.weights.h5", b"x")]), "file.is_keras"),
    "hdf5_is.safetensors": (b"\x89HDF\r\n\x1a\n" + bytes(90), "file.is_hdf5"),
    "named.mlmodel": (b"\x08\x04\x12\x04\x0a\x02ab\xba\x19\x00", "file.is_coreml"),
    "milblob.bin": (
        struct.pack("<II", 1, 2) + bytes(56) + b"\xef\xbe\xad\xde" + bytes(60),
        "file.is_coreml",
    ),
    "named.xml": (b'<?xml version="1.0"?>\n<net name="m" version="11"><layers/></net>', "file.is_openvino"),
    "named.distcp": (FILES["x.pt"] * 2, "file.is_distcp"),
    "named.msgpack": (b"\x81\xa6params\x80", "file.is_msgpack"),
    "msgpack_is.bin": (b"\xde\x00\x20\xa6params\x80", "file.is_msgpack"),
    "named.pb": (b"\x08\x01\x12\x02ab", "file.is_tensorflow"),
    "named.pte": (b"\x10\x00\x00\x00ET12" + bytes(60), "file.is_executorch"),
    "named.ort": (b"\x10\x00\x00\x00ORTM" + bytes(60), "file.is_ort"),
    "ggjt_is.bin": (b"tjgg" + struct.pack("<I", 3) + bytes(60), "file.is_ggml"),
    "imatrix.dat": (struct.pack("<ii", 1, 4) + b"blk.0.ffn" + bytes(60), "file.is_imatrix"),
    "gzip_is.safetensors": (b"\x1f\x8b\x08" + bytes(60), ARCHIVE),
    "named.nemo": (bytes(257) + b"ustar" + bytes(300), ARCHIVE),
    "emptyzip.npz": (zipped([]), DAMAGED),
    # npy
    "short.npy": (FILES["x.npy"][:-1], CUT),
    "headeronly.npy": (FILES["x.npy"][:20], DAMAGED),
    "magiconly.npy": (b"\x93NUMPY", DAMAGED),
    "version.npy": (raw_npy(b"{}", version=b"\x09\x00"), DAMAGED),
    "noheader.npy": (raw_npy(b"{}"), DAMAGED),
    "code.npy": (raw_npy(b"__import__('os').system('true')"), DAMAGED),
    "deep.npy": (raw_npy(b"(" * 60000), DAMAGED),
    "huge.npy": (raw_npy((NPY_HEADER % "1000000000000, 1000000000000").encode()), TENSOR),
    "negative.npy": (raw_npy((NPY_HEADER % "-1, 2").encode(), bytes(8)), DAMAGED),
    "words.npy": (raw_npy((NPY_HEADER % "two, 2").encode(), bytes(8)), DAMAGED),
    "axes.npy": (raw_npy((NPY_HEADER % ("1," * 2000)).encode(), bytes(4)), AXES),
    "longnumber.npy": (raw_npy((NPY_HEADER % ("9" * 5000)).encode()), DAMAGED),
    # npz
    "cut.npz": (FILES["x.npz"][:-30], CUT_IN_LIST),
    "member.npz": (zipped([("x.npy", b"no array")]), TENSOR),
    "shortmember.npz": (zipped([("x.npy", FILES["x.npy"][:-4])]), TENSOR),
    "longmember.npz": (zipped([("x.npy", FILES["x.npy"] + b"more")]), TENSOR),
    "claims.npz": (zipped([("x.npy", raw_npy((NPY_HEADER % "1000000, 1000000").encode()))]), TENSOR),
    "bomb.npz": (
        zipped([("x.npy", raw_npy((NPY_HEADER % "1").encode()) + bytes(10**7))], zipfile.ZIP_DEFLATED),
        TENSOR,
    ),
    "packing.npz": (zipped([("x.npy", FILES["x.npy"])], zipfile.ZIP_LZMA), TENSOR),
    "crc.npz": (FILES["x.npz"].replace(X.numpy().tobytes()[:8], b"\x00" * 8), DAMAGED),
    # safetensors
    "cut.safetensors": (SAFE[:-1], CUT),
    "header.safetensors": (struct.pack("<Q", 2**63) + b"{}" + bytes(8), DAMAGED),
    "array.safetensors": (raw_safetensors(b"[]        "), DAMAGED),
    "nojson.safetensors": (raw_safetensors(b"{abc}     "), DAMAGED),
    "deep.safetensors": (raw_safetensors(b'{"a":' * 50000), DAMAGED),
    "noentries.safetensors": (raw_safetensors({"__metadata__": {"a": "b"}}), "file.empty"),
    "nokeys.safetensors": (raw_safetensors({"x": {}}), DAMAGED),
    "negative.safetensors": (raw_safetensors(entry(shape=(-2,)), bytes(8)), DAMAGED),
    "fraction.safetensors": (raw_safetensors(entry(shape=(2.0,)), bytes(8)), DAMAGED),
    "truth.safetensors": (raw_safetensors(entry(shape=(True,), offsets=(0, 4)), bytes(4)), DAMAGED),
    "outside.safetensors": (raw_safetensors(entry(shape=(4,), offsets=(0, 16)), bytes(8)), CUT),
    "backwards.safetensors": (raw_safetensors(entry(offsets=(8, 0)), bytes(8)), RANGES),
    "size.safetensors": (raw_safetensors(entry(shape=(3,)), bytes(8)), TENSOR),
    "huge.safetensors": (raw_safetensors(entry(shape=(2**40, 2**40)), bytes(8)), TENSOR),
    "dtype.safetensors": (raw_safetensors(entry(dtype="F7"), bytes(8)), "file.not_numbers"),
    "f6.safetensors": (
        raw_safetensors(entry(dtype="F6_E2M3", shape=(4,), offsets=(0, 3)), bytes(3)),
        "file.not_numbers",
    ),
    "listdtype.safetensors": (raw_safetensors(entry(dtype=["F32"]), bytes(8)), DAMAGED),
    "twice.safetensors": (
        raw_safetensors(
            b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
            bytes(4),
        ),
        "file.duplicate_name",
    ),
    # torch
    "pickle.pt": (pickle.dumps(Calls(os.system, f"touch {CANARY}")), "file.python_objects"),
    "zippickle.pt": (saved({"x": X, "exploit": Calls(os.system, f"touch {CANARY}")}), "file.python_objects"),
    "module.pt": (saved(torch.nn.Linear(2, 2)), "file.python_objects"),
    "oldmodule.pt": (
        saved(torch.nn.Linear(2, 2), _use_new_zipfile_serialization=False),
        "file.python_objects",
    ),
    "plainpickle.pt": (pickle.dumps({"a": [1, 2]}, protocol=4), "file.python_objects"),
    "cutpickle.pt": (pickle.dumps({"a": [1, 2]}, protocol=2)[:-3], DAMAGED),
    "notensors.pt": (saved({"step": 3}), "file.empty"),
    "cut.pt": (FILES["x.pt"][:-200], CUT_IN_LIST),
    "half.pt": (FILES["old.pt"][: len(FILES["old.pt"]) // 2], DAMAGED),
    "missing.pt": (zipped([("archive/data.pkl", b"\x80\x02}q\x00.")]), DAMAGED),
    "packed.pt": (
        zipped([("archive/data.pkl", b"\x80\x02}q\x00."), ("archive/version", b"3")], zipfile.ZIP_DEFLATED),
        DAMAGED,
    ),
    "script.pt": (
        zipped([("archive/data.pkl", b"\x80\x02}q\x00."), ("archive/constants.pkl", b"x")]),
        "file.torchscript",
    ),
    "twice.pt": (saved({"a.b": X, "a": {"b": X}}), "file.duplicate_name"),
    # json
    "cut.json": (b"[[1, 2], [3", DAMAGED),
    "ragged.json": (b"[[1, 2], [3]]", "typed.ragged_rows"),
    "mixed.json": (b'[[1, 2], [3, "x"]]', "typed.not_number"),
    "beyond.json": (b"[1e39]", "typed.not_number_beyond"),
    "digits.json": (b"[" + b"9" * 10000 + b"]", DAMAGED),
    "deep.json": (b"[" * 100_000, DAMAGED),
    "deepobjects.json": (b'{"a":' * 100 + b"[1]" + b"}" * 100, "file.too_deep"),
    "axes.json": (b"[[[[[1]]]]]", "typed.axes"),
    "nothing.json": (b'{"a": 1, "b": "c"}', "file.empty"),
    "twice.json": (b'{"a": [1], "a": [2]}', "file.duplicate_name"),
    "dotted.json": (b'{"a.b": [1], "a": {"b": [2]}}', "file.duplicate_name"),
    "latin.json": (b'{"\xe9": [1]}', "file.not_text"),
    # tables
    "word.csv": (b"1,2\n3,x", "typed.no_number"),
    "ragged.csv": (b"1,2\n3", "typed.ragged"),
    "hole.csv": (b"1,,2\n3,4,5", "typed.empty_cell"),
    "beyond.csv": (b"1,1e39", "typed.beyond_float32"),
    "commas.txt": (b"1,5 2,5", "typed.comma_ambiguous"),
    "cutoff.txt": (b"tensor([1., ..., 2.])", "typed.cut_off"),
    "blank.txt": (b"  \n \n", "typed.nothing"),
    "latin.csv": (b"\xe9\n1", "file.not_text"),
}


# ---- the machine language of pickles and zips ---------------------------------------------------


def with_pickle(raw, records=(("0", bytes(16)),), root="archive"):
    """A PyTorch file around a pickle's bytes, with these storages."""
    return zipped(
        [
            (f"{root}/data.pkl", raw),
            *((f"{root}/data/{key}", body) for key, body in records),
            (f"{root}/version", b"3\n"),
        ]
    )


def text(word):
    """The opcode that pushes a text."""
    raw = word.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def call(module, name, args):
    return f"c{module}\n{name}\n".encode() + args + b"R"


def number(value):
    return b"J" + struct.pack("<i", value)


def storage(count=4, key="0", kind="FloatStorage", location="cpu", numeric=number):
    return (
        b"("
        + text("storage")
        + f"ctorch\n{kind}\n".encode()
        + text(key)
        + text(location)
        + numeric(count)
        + b"tQ"
    )


def tensor(shape=(4,), stride=(1,), offset=0, made=None, more=b""):
    numbers = [b"(" + b"".join(map(number, each)) + b"t" for each in (shape, stride)]
    hooks = call("collections", "OrderedDict", b")")
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        b"(" + (made or storage()) + number(offset) + numbers[0] + numbers[1] + b"\x89" + hooks + more + b"t",
    )


def pickled(body):
    return b"\x80\x02" + body + b"."


def state(body, before=b""):
    """A dict of one name and that."""
    return pickled(before + b"}" + text("x") + body + b"s")


def long(value):
    raw = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def old(pickled_object, keys=(), tail=b""):
    """A file as torch wrote them before version 1.6."""
    system = {
        "protocol_version": 1001,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    first = b"".join(pickle.dumps(each, protocol=2) for each in (0x1950A86A20F9469CFC6C, 1001, system))
    return first + pickled_object + pickle.dumps(list(keys), protocol=2) + tail


def doubled(levels):
    """A tuple of twice the same tuple of twice the same tuple …"""
    return b")" + b"".join(b"q" + bytes([level]) + b"h" + bytes([level]) + b"\x86" for level in range(levels))


def raw_zip(members, *, repeat=1, size_of_list=None, comment=b"", entries=None):
    """A zip by hand: (name, method, flags, packed, declared size, crc) each; `repeat` lists them so many
    times.
    """
    body, listed = b"", b""
    for name, method, flags, packed, size, crc in members:
        common = struct.pack("<HHHHHIIIHH", 20, flags, method, 0, 0, crc, len(packed), size, len(name), 0)
        listed += (
            b"PK\x01\x02"
            + struct.pack("<H", 20)
            + common
            + struct.pack("<HHHII", 0, 0, 0, 0, len(body))
            + name
        )
        body += b"PK\x03\x04" + common + name + packed
    listed *= repeat
    count = min(len(members) * repeat, 2**16 - 1) if entries is None else entries
    end = struct.pack(
        "<HHHHIIH",
        0,
        0,
        count,
        count,
        len(listed) if size_of_list is None else size_of_list,
        len(body),
        len(comment),
    )
    return body + listed + b"PK\x05\x06" + end + comment


def stored_member(name, content, **changed):
    method, flags, size = changed.get("method", 0), changed.get("flags", 0), changed.get("size", len(content))
    return (name, method, flags, content, size, changed.get("crc", zlib.crc32(content)))


def deflated(chunk, times):
    """So many times that chunk, packed; its crc and its length."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed, crc = b"", 0
    for _ in range(times):
        packed += pack.compress(chunk)
        crc = zlib.crc32(chunk, crc)
    return packed + pack.flush(), crc, len(chunk) * times


def numpy_header(shape, descr="'<f4'", order="False", pad=0):
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return raw_npy(header + b" " * (pad - len(header) - 1) + b"\n")


def bomb_npz(mebibytes, shape):
    """An array of zeros, packed to a thousandth; what is packed after a full flush may be repeated."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    header = numpy_header(shape)
    front = pack.compress(header) + pack.flush(zlib.Z_FULL_FLUSH)
    zeros = pack.compress(bytes(2**20)) + pack.flush(zlib.Z_FULL_FLUSH)
    return raw_zip(
        [(b"x.npy", 8, 0, front + zeros * mebibytes + pack.flush(), len(header) + mebibytes * 2**20, 0)]
    )


# ---- pictures -----------------------------------------------------------------------------------


def picture(mode="RGB", size=(4, 3), colour=None, kind="PNG", **options):
    stream = io.BytesIO()
    Image.new(mode, size, colour).save(stream, kind, **options)
    return stream.getvalue()


def png(width, height, body=b"", depth=8, colour=2, before=b""):
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)),
        (b"IDAT", body),
        (b"IEND", b""),
    )

    def chunk(kind, raw):
        return struct.pack(">I", len(raw)) + kind + raw + struct.pack(">I", zlib.crc32(kind + raw))

    return b"\x89PNG\r\n\x1a\n" + chunk(*chunks[0]) + before + chunk(*chunks[1]) + chunk(*chunks[2])


def text_chunk(kind, raw):
    return struct.pack(">I", len(raw)) + kind + raw + struct.pack(">I", zlib.crc32(kind + raw))


def many_scans(count, size=(64, 64)):
    """A progressive JPEG whose last scan comes that many times."""
    plain = picture("L", size, 100, "JPEG", progressive=True)
    last = plain.rindex(b"\xff\xda")
    # The tables the scan needs stand before it.
    start = plain.rindex(b"\xff\xc4", 0, last)
    return plain[:-2] + plain[start:-2] * count + b"\xff\xd9"


def animated(kind):
    stream = io.BytesIO()
    frames = [Image.new("L", (4, 3), level) for level in (10, 200)]
    frames[0].save(stream, kind, save_all=True, append_images=frames[1:])
    return stream.getvalue()


# ---- what becomes of them -----------------------------------------------------------------------


class Case(NamedTuple):
    """A file's bytes, or what makes them, and its fate: an error's key, or values or a shape by tensor
    name.
    """

    data: bytes | Callable[[], bytes]
    expected: str | dict[str, Any]
    limits: Limits | None = None

    @property
    def content(self):
        return self.data() if callable(self.data) else self.data


ZEROS = {"x": [0.0] * 4}
TOO_MANY, HEADER, OBJECTS, NUMBERS, LARGE = (
    "file.too_many_tensors",
    "file.header_too_large",
    "file.python_objects",
    "file.not_numbers",
    "file.tensor_too_large",
)
CANARY_COMMAND = f"touch {CANARY}"
NAMES = {
    "html": "<img src=x onerror=alert(1)>",
    "markdown": "**bold** [a](javascript:alert(1)) `code` $x$ :red[no]",
    "rtl": "safe\u202egnp.exe\u2066\u2067\u2068\u2069\u200f",
    "control": "a\x1b[31m\x07\r\nb\x7f",
    "parent": "../../etc/passwd",
    "absolute": "/etc/passwd",
    "windows": "C:\\\\windows\\\\system32",
    "long": "n" * 3000,
    "spaces": "   ",
    "emoji": "权重 🧮 \u0301",
    "python": "'; import os; os.system('true'); '",
    "braces": "{got:,} {0} %s",
}


def cut_at(data, places):
    """The file up to each of these places."""
    return [(place, data[:place]) for place in places]


NPY_BYTES = npy(X.numpy())
CASES = {name: Case(data, expected) for name, (data, expected) in BAD.items()}


#: Of these so many are read in a usual run, by the readers and within the boundary; all in `-m all`.
MOST_IN_A_RUN = 60


def add(name, data, expected, **limits):
    assert name not in CASES, name
    CASES[name] = Case(data, expected, Limits(**limits) if limits else None)


# the content decides, whatever a file is called
for name, kept in (
    ("npy_is.safetensors", FILES["x.npy"]),
    ("npy_is.csv", FILES["x.npy"]),
    ("npy_is.json", FILES["x.npy"]),
    ("npy_is", FILES["x.npy"]),
):
    add(name, kept, {"npy_is": X.tolist()})
for name, kept in (
    ("safetensors_is.npy", SAFE),
    ("x.sft", SAFE),
    ("5fe0c9", SAFE),
    ("imatrix_new.dat", FILES["x.gguf"]),
    ("pt_is.npz", FILES["x.pt"]),
    ("pt_is.txt", FILES["x.pt"]),
    ("x.ckpt", FILES["x.pt"]),
    ("x.pth.tar", FILES["old.pt"]),
    ("npz_is.pt", FILES["x.npz"]),
    ("x.weights", FILES["named.json"]),
):
    add(name, kept, {"x": X.tolist()})
add("numbers.dat", b"1 2\n3 4\n", {"numbers": [[1, 2], [3, 4]]})

# npy
for place, cut in cut_at(NPY_BYTES, (5, 6, 7, 8, 9, 10, 40, 100, 127)):
    add(f"cut{place}.npy", cut, DAMAGED)
add("cut128.npy", NPY_BYTES[:128], CUT)
add("cutlast.npy", NPY_BYTES[:-4], CUT)
add("more.npy", NPY_BYTES + b"more", {"more": X.tolist()})
add("version2.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{}", DAMAGED)
add(
    "version3.npy",
    b"\x93NUMPY\x03\x00" + struct.pack("<I", len(NPY_BYTES[10:128])) + NPY_BYTES[10:],
    {"version3": X.tolist()},
)
add("none.npy", numpy_header("(0,)"), {"none": []})
add("noneofmany.npy", numpy_header("(0, 100000000000000000)"), {"noneofmany": (0, 10**17)})
add("noneoftoomany.npy", numpy_header("(0, 100000000000000000, 100000000000000000)"), DAMAGED)
add("overflow.npy", numpy_header("(4611686018427387904, 4)") + bytes(64), DAMAGED)
add("overflow18.npy", numpy_header("(100000000000000000, 1000)") + bytes(64), TENSOR)
add("wraps.npy", numpy_header("(281474976710656, 65536)") + bytes(64), TENSOR)
add("scalar.npy", numpy_header("()") + struct.pack("<f", 2.5), {"scalar": 2.5})
add("object.npy", numpy_header("(1,)", "'|O'") + pickle.dumps([Calls(os.system, CANARY_COMMAND)]), NUMBERS)
add("sub.npy", numpy_header("(2,)", "('<f4', (2,))") + bytes(16), NUMBERS)
add("record.npy", numpy_header("(2,)", "[('a', '<f4'), ('<b>', '<i4')]") + bytes(16), NUMBERS)
add("big.npy", npy(numpy.array([1.5, -2.0], dtype=">f8")), {"big": [1.5, -2.0]})
add("fortran.npy", npy(numpy.asfortranarray(X.numpy())), {"fortran": X.tolist()})
add("bigfortran.npy", npy(numpy.asfortranarray(X.numpy().astype(">f4"))), {"bigfortran": X.tolist()})
add("widefloat.npy", numpy_header("(1,)", "'<f999999999'") + bytes(8), NUMBERS)
add("nofloat.npy", numpy_header("(1,)", "'<f0'") + bytes(8), NUMBERS)
add("onebyte.npy", numpy_header("(4,)", "'<V1'") + bytes(4), "file.npy_unnamed")
add("onebyte.npz", zipped([("x.npy", numpy_header("(4,)", "'<V1'") + bytes(4))]), "file.npy_unnamed")
add("brain.npy", numpy_header("(2,)", "'<V2'") + struct.pack("<HH", 0x3FC0, 0xC000), {"brain": [1.5, -2.0]})
add(
    "bigbrain.npy",
    numpy_header("(2,)", "'>V2'") + struct.pack(">HH", 0x3FC0, 0xC000),
    {"bigbrain": [1.5, -2.0]},
)
add("shortbrain.npy", numpy_header("(3,)", "'<V2'") + bytes(4), CUT)
add("widebytes.npy", numpy_header("(1,)", "'<V999999999'") + bytes(8), NUMBERS)
add("unit.npy", numpy_header("(1,)", "'<m8[ns]'") + bytes(8), NUMBERS)
add("order.npy", numpy_header("(1,)", order="1") + bytes(4), DAMAGED)
add("fraction.npy", numpy_header("(1.5,)") + bytes(8), DAMAGED)
add("power.npy", numpy_header("(9**9**9,)") + bytes(8), DAMAGED)
add("spaces.npy", raw_npy(b"'shape': (" + b" " * 60_000), DAMAGED)
add("commas.npy", raw_npy(b"'fortran_order': False, 'shape': (" + b"1," * 30_000), DAMAGED)
add("ones.npy", raw_npy(b"'fortran_order': False, 'shape': (" + b"1" * 60_000), DAMAGED)
add("nul.npy", raw_npy(b"\0" * 60_000), DAMAGED)

# npz
NPZ = FILES["x.npz"]
LIST = NPZ.index(b"PK\x01\x02")
for place, cut in cut_at(NPZ, (1, 4, 30, 40, 120, LIST, LIST + 10, len(NPZ) - 22, len(NPZ) - 1)):
    # From the end of the list on, what is left of it is damage.
    add(f"cut{place}.npz", cut, CUT_IN_LIST if 4 <= place <= len(NPZ) - 22 else DAMAGED)
GOOD = stored_member(b"x.npy", NPY_BYTES)
add("twice.npz", raw_zip([GOOD, GOOD]), "file.duplicate_name")
add(
    "others.npz",
    zipped([("readme.txt", b"hello"), ("x.npy", NPY_BYTES), ("folder/", b"")]),
    {"x": X.tolist()},
)
add("locked.npz", raw_zip([stored_member(b"x.npy", NPY_BYTES, flags=1)]), TENSOR)
add("method.npz", raw_zip([stored_member(b"x.npy", NPY_BYTES, method=99)]), TENSOR)
add("bzip2.npz", zipped([("x.npy", NPY_BYTES)], zipfile.ZIP_BZIP2), TENSOR)
add("crc0.npz", raw_zip([stored_member(b"x.npy", NPY_BYTES, crc=0)]), DAMAGED)
add("size.npz", raw_zip([stored_member(b"x.npy", NPY_BYTES, size=2**31)]), TENSOR)
add(
    "cutdeflate.npz",
    raw_zip([(b"x.npy", 8, 0, deflated(NPY_BYTES, 1)[0][:80], len(NPY_BYTES), zlib.crc32(NPY_BYTES))]),
    DAMAGED,
)
add("nodeflate.npz", raw_zip([(b"x.npy", 8, 0, b"\xff" * 200, len(NPY_BYTES), 0)]), DAMAGED)
add("nested.npz", zipped([("inner.npz", NPZ)]), ARCHIVE)
add("zip_is_member.npz", zipped([("x.npy", NPZ)]), TENSOR)
add("listlength.npz", raw_zip([GOOD], size_of_list=2**31), DAMAGED)
add("listofmuch.npz", raw_zip([GOOD], repeat=10, entries=65535), "file.duplicate_name")
add("comment.npz", raw_zip([GOOD], comment=b"PK\x05\x06" + bytes(30)), DAMAGED)
add("trailing.npz", raw_zip([GOOD]) + b"trailing bytes", {"x": X.tolist()})
add("prefixed.npz", b"#!/bin/sh\n" + raw_zip([GOOD]), DAMAGED)
add("noname.npz", raw_zip([stored_member(b".npy", NPY_BYTES)]), {"": X.tolist()})
add("nulname.npz", raw_zip([stored_member(b"x\0.npy", NPY_BYTES)]), ARCHIVE)
add("mixed.npz", npz(bad=numpy.array([1j]), x=X.numpy()), NUMBERS)
add("fortran.npz", npz(x=numpy.asfortranarray(X.numpy().astype(">f8"))), {"x": X.tolist()})
add(
    "object.npz",
    zipped([("x.npy", numpy_header("(1,)", "'|O'") + pickle.dumps([Calls(os.system, CANARY_COMMAND)]))]),
    NUMBERS,
)
add("axes65.npz", zipped([("x.npy", numpy_header("(" + "1, " * 65 + ")") + bytes(4))]), AXES)
add("scalar.npz", npz(x=numpy.float32(2.5)), {"x": 2.5})

# pt
PT = FILES["x.pt"]
for place, cut in cut_at(PT, (1, 2, 30, 64, 300, len(PT) - 22, len(PT) - 1)):
    add(f"cut{place}.pt", cut, CUT_IN_LIST if 4 <= place <= len(PT) - 22 else DAMAGED)
for place, cut in cut_at(FILES["old.pt"], (1, 10, 40, 200)):
    add(f"oldcut{place}.pt", cut, DAMAGED)
add("oldcutlast.pt", FILES["old.pt"][:-4], DAMAGED)
for name, function, args in (
    ("system", os.system, (CANARY_COMMAND,)),
    ("eval", eval, (f"__import__('pathlib').Path({str(CANARY)!r}).touch()",)),
    ("exec", exec, (f"open({str(CANARY)!r}, 'w')",)),
    ("open", open, (str(CANARY), "w")),
    ("popen", subprocess.Popen, (["touch", str(CANARY)],)),
    ("hub", torch.hub.load, ("nobody/nothing", "model")),
    ("load", torch.load, (str(CANARY),)),
    ("getattr", getattr, (X, "dtype")),
):
    add(f"{name}.pt", saved({"x": X, "y": Calls(function, *args)}), OBJECTS)
    add(f"old_{name}.pt", saved(Calls(function, *args), _use_new_zipfile_serialization=False), OBJECTS)
add("text_protocol.pt", with_pickle(b"cos\nsystem\n(S'" + CANARY_COMMAND.encode() + b"'\ntR."), OBJECTS)
add(
    "stack_global.pt",
    with_pickle(
        b"\x80\x04\x8c\x02os\x8c\x06system\x93"
        + b"\x8c"
        + bytes([len(CANARY_COMMAND)])
        + CANARY_COMMAND.encode()
        + b"\x85R."
    ),
    OBJECTS,
)
add("good.pt", with_pickle(state(tensor())), ZEROS)
add("newobj.pt", with_pickle(state(b"ctorch\nTensor\n)\x81")), OBJECTS)
add("build.pt", with_pickle(state(tensor() + b"}" + text("__class__") + text("evil") + b"sb")), OBJECTS)
add(
    "bytearray.pt",
    with_pickle(state(tensor(), b"cbuiltins\nbytearray\n" + long(3 * 10**9) + b"\x85R0")),
    OBJECTS,
)
add(
    "bytearray2.pt",
    with_pickle(
        pickled(
            b"}("
            + text("x")
            + tensor()
            + text("y")
            + call("builtins", "bytearray", long(3 * 10**9) + b"\x85")
            + b"u"
        )
    ),
    OBJECTS,
)
add(
    "punycode.pt",
    with_pickle(
        state(
            call(
                "_codecs", "encode", text("".join(map(chr, range(256, 50_000)))) + text("punycode") + b"\x86"
            )
        )
    ),
    OBJECTS,
)
add(
    "bytes.pt",
    with_pickle(
        pickled(
            b"}("
            + text("x")
            + tensor()
            + text("y")
            + call("_codecs", "encode", text("ab") + text("latin1") + b"\x86")
            + b"u"
        )
    ),
    ZEROS,
)
add("allocates.pt", with_pickle(state(call("torch", "FloatTensor", number(2**31 - 1) + b"\x85"))), OBJECTS)
add(
    "storageof.pt",
    with_pickle(state(call("torch.storage", "UntypedStorage", long(10**12) + b"\x85"))),
    OBJECTS,
)
add("doubledkey.pt", with_pickle(pickled(b"}" + doubled(60) + tensor() + b"s")), OBJECTS)
add("doubledsize.pt", with_pickle(state(call("torch", "Size", doubled(60) + b"\x85"))), OBJECTS)
add(
    "again.pt",
    with_pickle(
        pickled(
            b"]("
            + b"]("
            + b"K\x01" * 5000
            + b"eq\x01"
            + call("collections", "Counter", b"h\x01\x85") * 300
            + b"e"
        )
    ),
    OBJECTS,
)
add("deeplists.pt", with_pickle(pickled(b"]" * 100_000 + b"a" * 99_999)), "file.too_deep")
add("hugememo.pt", with_pickle(pickled(b"}r\xff\xff\xff\xff" + text("x") + tensor() + b"s")), ZEROS)
add("nomemo.pt", with_pickle(pickled(b"h\x07")), DAMAGED)
add("emptystack.pt", with_pickle(pickled(b"R")), DAMAGED)
add("nomark.pt", with_pickle(pickled(b"t")), DAMAGED)
add("nostop.pt", with_pickle(b"\x80\x02}"), DAMAGED)
add("longtext.pt", with_pickle(b"\x80\x02X\xff\xff\xff\xffabc."), DAMAGED)
add("opcode.pt", with_pickle(b"\x80\x02\xff."), DAMAGED)
add("persid.pt", with_pickle(pickled(text("module") + b"Q")), DAMAGED)
add(
    "module_source.pt",
    old(
        pickled(
            b"("
            + text("module")
            + b"ctorch.nn.modules.linear\nLinear\n"
            + text("x.py")
            + text("source")
            + b"tQ"
        )
    ),
    OBJECTS,
)
for claimed in (5, 3, 0, 2**31 - 1):
    add(f"storage{claimed}.pt", with_pickle(state(tensor(made=storage(claimed)))), DAMAGED)
add("storageminus.pt", with_pickle(state(tensor(made=storage(-4)))), OBJECTS)
add("storagehuge.pt", with_pickle(state(tensor(made=storage(2**62, numeric=long)))), DAMAGED)
add("norecord.pt", with_pickle(state(tensor(made=storage(key="7")))), DAMAGED)
add("pathkey.pt", with_pickle(state(tensor(made=storage(key="../../../etc/passwd")))), DAMAGED)
add(
    "pathrecord.pt",
    with_pickle(state(tensor(made=storage(key="../../up"))), [("../../up", bytes(16))]),
    ZEROS,
)
add("pathroot.pt", with_pickle(state(tensor()), root="../../tmp"), DAMAGED)
add("device.pt", with_pickle(state(tensor(made=storage(location="cuda:7")))), ZEROS)
add("nodevice.pt", with_pickle(state(tensor(made=storage(location="<script>")))), ZEROS)
add("kind.pt", with_pickle(state(tensor(made=storage(kind="Tensor")))), DAMAGED)
add("nokind.pt", with_pickle(state(tensor(made=storage(kind="WeirdStorage")))), OBJECTS)
add("outside.pt", with_pickle(state(tensor(offset=1))), DAMAGED)
add("strideout.pt", with_pickle(state(tensor((2,), (100,)))), DAMAGED)
add("axes64.pt", with_pickle(state(tensor((1,) * 64, (1,) * 64))), {"x": (1,) * 64})
add("axes65.pt", with_pickle(state(tensor((1,) * 65, (1,) * 65))), AXES)
add("expanded.pt", with_pickle(state(tensor((2**20, 2**20), (0, 0)))), LARGE)
add("expandedmost.pt", with_pickle(state(tensor((2**31 - 1, 2**31 - 1), (0, 0)))), LARGE)
add("expandedoverflow.pt", with_pickle(state(tensor((2**31 - 1,) * 4, (0,) * 4))), DAMAGED)
add("smallexpanded.pt", with_pickle(state(tensor((3, 2), (0, 1)))), {"x": [[0.0, 0.0]] * 3})
add("negative.pt", with_pickle(state(tensor(more=b"}" + text("neg") + b"\x88s"))), {"x": [-0.0] * 4})
QUANTIZER = b"(ctorch\nper_tensor_affine\nG" + struct.pack(">d", 0.5) + number(0) + b"t"
QUANTIZED = (
    storage(kind="QUInt8Storage")
    + number(0)
    + number(4)
    + b"\x85"
    + number(1)
    + b"\x85"
    + QUANTIZER
    + b"\x89"
    + call("collections", "OrderedDict", b")")
)
add(
    "quantized.pt",
    with_pickle(state(call("torch._utils", "_rebuild_qtensor", b"(" + QUANTIZED + b"t")), [("0", bytes(4))]),
    NUMBERS,
)
add("meta.pt", saved({"x": torch.empty(2, device="meta")}), TENSOR)
add("sparse_and_good.pt", saved({"bad": torch.eye(3).to_sparse(), "x": X}), NUMBERS)
add(
    "attributes.pt",
    with_pickle(state(call("torch._tensor", "_rebuild_from_type_v2", b"(cos\nsystem\nctorch\nTensor\n)}t"))),
    OBJECTS,
)
add(
    "anything_from_type.pt",
    with_pickle(
        state(call("torch._tensor", "_rebuild_from_type_v2", b"(cbuiltins\nset\nctorch\nTensor\n)}t"))
    ),
    OBJECTS,
)
add(
    "overlap.pt",
    raw_zip(
        [stored_member(b"a/data.pkl", state(tensor())), stored_member(b"a/data/0", bytes(16))], repeat=40
    ),
    DAMAGED,
)
add(
    "packedpickle.pt",
    lambda: raw_zip([(b"a/data.pkl", 8, 0, deflated(b"]" * 1000, 1000)[0], 10**6, 0)]),
    DAMAGED,
)
add(
    "twopickles.pt",
    raw_zip(
        [
            stored_member(b"a/data.pkl", state(tensor())),
            stored_member(b"a/data.pkl", pickled(b"]")),
            stored_member(b"a/data/0", bytes(16)),
        ]
    ),
    DAMAGED,
)


def two_lists(*, long):
    """A zip with two lists of members: the last one, which is looked for at the end, and the one it names."""
    evil = pickled(call("__builtin__", "bytearray", b"(" + number(2 * 10**8) + b"t"))
    content, lists, places = b"", [], []
    for raw in (evil, state(tensor())):
        listed = b""
        # Without 64 bits zipfile adds to each place how far the last list lies behind the named one.
        for name, body in ((b"a/data.pkl", raw), (b"a/data/0", bytes(16)), (b"a/version", b"3\n")):
            numbers = (45, 0, 0, 0, 0, zlib.crc32(body), len(body), len(body), len(name), 0)
            listed += struct.pack("<4sH5H3I2H", b"PK\1\2", 45, *numbers)
            place = len(content) if long or not lists else len(content) - len(lists[0])
            listed += struct.pack("<3H2I", 0, 0, 0, 0, place) + name
            content += struct.pack("<4s5H3I2H", b"PK\3\4", *numbers) + name + body
        lists.append(listed)
    for listed in lists:
        places.append(len(content))
        content += listed
        if long:
            content += struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 3, 3, len(listed), places[-1])
    if long:
        first = places[0] + len(lists[0])
        content += struct.pack("<4sIQI", b"PK\6\7", 0, first, 1)
        return content + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
    return content + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 3, 3, len(lists[1]), places[0], 0)


add("twolists.pt", two_lists(long=False), DAMAGED)
add("twolistslong.pt", two_lists(long=True), DAMAGED)
add(
    "othercase.pt",
    zipped(
        [
            ("a/data.pkl", state(tensor())),
            ("a/DATA.PKL", pickled(call("__builtin__", "bytearray", b"(" + number(2 * 10**8) + b"t"))),
            ("a/data/0", bytes(16)),
        ]
    ),
    DAMAGED,
)
add(
    "tuplekey.pt",
    with_pickle(
        state(
            tensor(
                made=b"("
                + text("storage")
                + b"ctorch\nFloatStorage\n"
                + doubled(60)
                + text("cpu")
                + number(4)
                + b"tQ"
            )
        )
    ),
    OBJECTS,
)
add("comments.csv", b"<!---->" * 70 + b"1,2\n3,4", "typed.no_number")
add("almostanumber.csv", b"1" * 99_000 + b"x\n1\n", {"almostanumber": [1.0]})
# A zip whose comment is longer than half of it is an archive, and not cut.
add(
    "comment.zip",
    b"PK\3\4" + bytes(996) + b"PK\5\6" + bytes(16) + struct.pack("<H", 58_978) + bytes(58_978),
    "file.is_archive",
)
add("oldhuge.pt", old(state(tensor(made=storage(2**31 - 1))), ["0"], struct.pack("<q", 2**31 - 1)), DAMAGED)
add(
    "oldminus.pt",
    old(
        state(
            tensor(
                made=b"("
                + text("storage")
                + b"ctorch\nFloatStorage\n"
                + text("0")
                + text("cpu")
                + number(4)
                + b"NtQ"
            )
        ),
        ["0"],
        struct.pack("<q", -4),
    ),
    DAMAGED,
)
add("ints.pt", saved({"step": 3, "x": 2.5}), "file.empty")
add("numpyscalar.pt", saved({"x": numpy.float64(1.0)}), OBJECTS)
add(
    "big_endian.pt",
    zipped(
        [
            ("a/data.pkl", state(tensor())),
            ("a/data/0", struct.pack(">f", 2.5) * 4),
            ("a/byteorder", b"big"),
            ("a/version", b"3"),
        ]
    ),
    {"x": [2.5] * 4},
)


def tar_as_torch():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in ("\x80\x02", "../../evil", "storages"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    return b"\x80\x02" + stream.getvalue()[2:]


add("tar.pt", tar_as_torch(), DAMAGED)

# json
add("nan.json", b"[NaN, Infinity, -Infinity, 1.5]", {"nan": [float("nan"), float("inf"), float("-inf"), 1.5]})
add("exponent.json", b"[1e999]", "typed.not_number_beyond")
add("bigint.json", b"[1" + b"0" * 400 + b"]", "typed.not_number_beyond")
add("bom.json", b"\xef\xbb\xbf[1, 2]", {"bom": [1, 2]})
add("utf16.json", "[1, 2]".encode("utf-16"), DAMAGED)
add("nul.json", b"[1, 2]\0", DAMAGED)
add("comma.json", b"[1, 2,]", DAMAGED)
add("comment.json", b"[1, /* two */ 2]", DAMAGED)
add("two.json", b"[1] [2]", DAMAGED)
add("single.json", b"{}", "file.empty")
add("emptylist.json", b"[]", {"emptylist": []})
add("emptylists.json", b"[[], []]", {"emptylists": (2, 0)})
add("hex.json", b"[0x10]", DAMAGED)
add("words.json", b'["=1+1", 2]', NUMBERS)
add("long.json", b'[1, "' + b"w" * 100_000 + b'"]', "typed.not_number")
add("listincell.json", b"[1, [2]]", "typed.not_number")
add("objectincell.json", b'[1, {"a": [2]}]', "typed.not_number")
add("surrogate.json", b'{"\\ud800": [1]}', {"\ud800": [1]})
add("nulname.json", b'{"a\\u0000b": [1]}', {"a\0b": [1]})
add("noname.json", b'{"": [1]}', {"noname": [1]})
add("open.json", b'{"a": ' * 1000, DAMAGED)
add("deepinlist.json", b'{"a": ' + b"[" * 900 + b"1" + b"]" * 900 + b"}", AXES)
add(
    "longnames.json",
    lambda: b'{"' + b"n" * 2**20 + b'": {' + b",".join(b'"%d": []' % i for i in range(100)) + b"}}",
    HEADER,
)
add(
    "scalarsbelow.json",
    lambda: b'{"' + b"n" * 2**22 + b'": {' + b",".join(b'"%d": 0' % i for i in range(200_000)) + b"}}",
    "file.empty",
)
add("brackets.json", lambda: b"[" + b"[]," * 2**21 + b"[]]", "file.too_many_lists")

# tables
add("formula.csv", b"=1+1,2", "typed.no_number")
add("command.csv", b"=cmd|' /C calc'!A0,2", "typed.no_number")
add("exponent.csv", b"1,1e999", "typed.beyond_float32")
add("locale.csv", b"1,5;2,5\n3,5;4,5\n", {"locale": [[1.5, 2.5], [3.5, 4.5]]})
add("thousands.csv", b"1,000.5;2,000.5", {"thousands": [[1, 0.5], [2, 0.5]]})
add("percent.csv", b"50%,20%", "typed.no_number")
add("quote.csv", b'"1,2\n3,4', "typed.unclosed_quote")
add("quotelate.csv", lambda: b"1,2\n" * 2**18 + b'"1,2\n', "typed.unclosed_quote")
add("quotes.csv", b'"' * 100_000, "typed.no_number")
add("utf16.csv", "1,2\n3,4".encode("utf-16"), {"utf16": [[1, 2], [3, 4]]})
add("utf16cut.csv", "1,2\n3,4".encode("utf-16")[:-1], "file.not_text")
add("utf16bare.csv", "1,2\n3,4".encode("utf-16-le"), DAMAGED)
add("utf32.csv", "1,2\n3,4".encode("utf-32"), DAMAGED)
add("nul.csv", b"1,2\n\0,4", DAMAGED)
add("latenul.csv", b"1,2\n" * 2000 + b"\0,4", "typed.no_number")
add("macintosh.csv", b"1,2\r3,4\r", {"macintosh": [[1, 2], [3, 4]]})
add("header.csv", b"a,b,c\n", "typed.no_number")
add("separators.csv", b"," * 100_000, "typed.only_separators")
add("nothing.csv", b"\n" * 100_000, "typed.nothing")
add("digits.csv", b"1" * 100_000, "typed.no_number")
add("hexadecimal.csv", b"0x10,2", "typed.no_number")
add("underscore.csv", b"1_000,2", "typed.no_number")
add("complex.csv", b"1+2j,2", "typed.no_number")
add("brackets.txt", b"[" * 100_000, "typed.only_separators")
add("closed.txt", b"1 2]", "typed.unopened")
add("markup.csv", b"<b>1</b>,2", "typed.no_number")
add("rtl.csv", "\u202e1,2".encode(), "typed.no_number")
add("code.txt", b"__import__('os').system('true')", "typed.no_number")
add("call.txt", b"tensor([1., 2.], device=__import__('os'))", "typed.unclosed")
add("infs.csv", lambda: b"1,inf\n-Infinity,nan\n" * 2**16, {"infs": (2**17, 2)})
add("hidden.csv", lambda: b"1,2\n" * 2**18 + b"1,1e39\n", "typed.beyond_float32")
add("hidden999.csv", lambda: b"1,inf\n" * (2**20 // 6 + 1) + b"1,1e999\n", "typed.beyond_float32")
add("halves.csv", lambda: b"1,2\n" * 2**19 + b"1,2,3\n", "typed.ragged")
add("longlocale.csv", lambda: b"1,5;2,5\n" * (2**17 + 1), {"longlocale": (2**17 + 1, 2)})
add("longloose.csv", lambda: b"1,5;2,\n" * (2**20 // 7 + 1), "typed.ragged")
add("longbrackets.txt", lambda: b"[" + b"1, " * 2**19 + b"2]", "file.slow_table")

# gguf
ONE = Entry("x", (2,), 0, struct.pack("<2f", 1.5, -2.0))
GGUF = gguf_file([ONE])
for place, cut in cut_at(GGUF, (3, 4, 7, 8, 12, 16, 20, 24, 30, 33, 40, 50, 56)):
    add(f"cut{place}.gguf", cut, CUT_IN_LIST if place >= 4 else DAMAGED)
add("cutlast.gguf", gguf_file([ONE])[:64], CUT)
add("magic.gguf", gguf_file([ONE], magic=b"GGML"), DAMAGED)
add("version1.gguf", gguf_file([ONE], version=1), "file.gguf_version")
add("version0.gguf", gguf_file([ONE], version=0), "file.gguf_version")
add("version99.gguf", gguf_file([ONE], version=99), "file.gguf_version")
add("bigendian.gguf", b"GGUF" + struct.pack(">IQQ", 3, 1, 0) + bytes(64), "file.gguf_big_endian")
for count in (2, 99_999):
    add(f"tensors{count}.gguf", gguf_file([ONE], tensors=count), DAMAGED)
for count in (500_001, 2**63, 2**64 - 1):
    add(f"tensors{count}.gguf", gguf_file([ONE], tensors=count), TOO_MANY)
for count in (1, 2**32, 2**64 - 1):
    add(f"pairs{count}.gguf", gguf_file([ONE], pairs=count), DAMAGED)
for kind in (4, 36, 43, 2**31, 2**32 - 1):
    add(f"type{kind}.gguf", gguf_file([ONE._replace(kind=kind)]), "file.gguf_type")
for axes in ((), (1,) * 5, (1,) * 1000):
    add(f"axes{len(axes)}.gguf", gguf_file([ONE._replace(axes=axes)]), DAMAGED)
for name, axes in (
    ("long", (2**63,)),
    ("wraps", (2**32, 2**32)),
    ("most", (2**64 - 1,) * 4),
    ("wrapstonone", (2**63, 2)),
    ("mostofnone", (2**64 - 1, 0)),
    ("more", (30,)),
):
    add(f"axes_{name}.gguf", gguf_file([ONE._replace(axes=axes)]), CUT if name == "more" else TENSOR)
add("axes_none.gguf", gguf_file([ONE._replace(axes=(0, 2))]), {"x": (2, 0)})
add("axes_nonewraps.gguf", gguf_file([ONE._replace(axes=(0, 2**62, 2**62))]), DAMAGED)
for name, offset in (("odd", 1), ("outside", 2**20), ("end", 2**64 - 32)):
    add(f"offset_{name}.gguf", gguf_file([ONE._replace(offset=offset)]), CUT if name == "outside" else TENSOR)
add("row.gguf", gguf_file([Entry("x", (33,), 8, bytes(68))]), "file.gguf_row")
add("row_k.gguf", gguf_file([Entry("x", (128, 2), 12, bytes(144))]), "file.gguf_row")
add("axesmillion.gguf", GGUF.replace(struct.pack("<IQ", 1, 2), struct.pack("<IQ", 10**6, 2)), DAMAGED)
add("twice.gguf", gguf_file([ONE, ONE]), "file.duplicate_name")
add("overlap.gguf", gguf_file([ONE, ONE._replace(name="y", offset=0)]), {"x": [1.5, -2.0], "y": [1.5, -2.0]})
add("utf8.gguf", gguf_file([ONE._replace(name=b"\xff\xfe")]), DAMAGED)
add("surrogate.gguf", gguf_file([ONE._replace(name=b"\xed\xa0\x80")]), DAMAGED)
add("longname.gguf", gguf_file([ONE._replace(name="n" * 2000)]), DAMAGED)
add("nulname.gguf", gguf_file([ONE._replace(name="a\0b")]), {"a\0b": [1.5, -2.0]})
add("noname.gguf", gguf_file([ONE._replace(name="")]), {"": [1.5, -2.0]})
for alignment in (0, 3, 2**31):
    expected = DAMAGED if alignment < 2**31 else CUT
    add(
        f"alignment{alignment}.gguf",
        gguf_file([ONE], [pair("general.alignment", UINT32, struct.pack("<I", alignment))]),
        expected,
    )
add("alignmenttext.gguf", gguf_file([ONE], [pair("general.alignment", STRING, string("32"))]), DAMAGED)
add(
    "alignment1.gguf",
    gguf_file([ONE], [pair("general.alignment", UINT32, struct.pack("<I", 1))], alignment=1),
    {"x": [1.5, -2.0]},
)
for name, value in (
    ("text", struct.pack("<Q", 2**63)),
    ("textmost", struct.pack("<Q", 2**64 - 1)),
):
    add(f"{name}.gguf", gguf_file([ONE], [pair("a", STRING, value)]), CUT_IN_LIST)
add("key.gguf", gguf_file([ONE], [struct.pack("<Q", 2**40) + bytes(20)]), DAMAGED)
add("kind.gguf", gguf_file([ONE], [pair("a", 13, bytes(8))]), DAMAGED)
for kind, name in ((UINT8, "bytes"), (STRING, "texts"), (ARRAY, "arrays"), (99, "unknown")):
    add(
        f"array_{name}.gguf",
        gguf_file([ONE], [pair("a", ARRAY, array(kind, 2**60, bytes(8)))]),
        DAMAGED if name == "unknown" else CUT_IN_LIST,
    )
NESTED = b""
for _ in range(6):
    NESTED = array(ARRAY, 1, NESTED)
add("nested.gguf", gguf_file([ONE], [pair("a", ARRAY, NESTED)]), DAMAGED)
add("nested20000.gguf", gguf_file([ONE], [pair("a", ARRAY, array(ARRAY, 1, b"") * 20_000)]), DAMAGED)
METADATA = [
    pair("general.truth", BOOL, b"\x01"),
    pair("general.number", FLOAT64, struct.pack("<d", 1.5)),
    pair("tokenizer.ggml.tokens", ARRAY, array(STRING, 3, string("a") + string("权重") + string(""))),
]
add("metadata.gguf", gguf_file([ONE], METADATA, version=2), {"x": [1.5, -2.0]})
add("cutmetadata.gguf", gguf_file([ONE], METADATA)[:60], CUT_IN_LIST)
add("nothing.gguf", gguf_file([], METADATA), "file.empty")
add("keyutf8.gguf", gguf_file([ONE], [pair(b"\xff\xfe", UINT8, b"\0")]), DAMAGED)
add(
    "header.gguf",
    gguf_file([ONE], [pair("a", ARRAY, array(UINT8, 4096, bytes(4096)))]),
    HEADER,
    header_bytes=1000,
)

TWO = struct.pack("<2f", 1.5, -2.0)

# safetensors
for place, cut in cut_at(SAFE, (1, 7, 8, 9, 30)):
    add(f"cut{place}.safetensors", cut, CUT if place >= 9 else DAMAGED)
add("hugeheader.safetensors", struct.pack("<Q", 2**64 - 1) + b"{}" + bytes(20), DAMAGED)
add("headerover.safetensors", struct.pack("<Q", 2**26 + 1) + b"{" + b" " * 2**26 + b"}", HEADER)
add("none.safetensors", raw_safetensors(entry(shape=(0,), offsets=(0, 0))), {"x": []})
add("noneofmany.safetensors", raw_safetensors(entry(shape=(0, 2**62), offsets=(0, 0))), {"x": (0, 2**62)})
add("noneoftoomany.safetensors", raw_safetensors(entry(shape=(0, 2**62, 2**62), offsets=(0, 0))), DAMAGED)
add("wraps.safetensors", raw_safetensors(entry(shape=(2**32, 2**32), offsets=(0, 0))), TENSOR)
add("number63.safetensors", raw_safetensors(entry(shape=(2**63,), offsets=(0, 2**63)), bytes(8)), DAMAGED)
add("fp4odd.safetensors", raw_safetensors(entry("F4", (3,), (0, 1)), bytes(1)), TENSOR)
add(
    "nan.safetensors",
    raw_safetensors(b'{"x":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', bytes(8)),
    DAMAGED,
)
add("threeoffsets.safetensors", raw_safetensors(entry(offsets=(0, 8, 16)), bytes(16)), DAMAGED)
for label, *places in (
    ("overlap", (0, 8), (4, 12)),
    ("same", (0, 8), (0, 8)),
    ("within", (0, 16), (4, 8)),
    ("hole", (0, 8), (12, 20)),
    ("late", (8, 16)),
    ("nothing_within", (0, 8), (4, 4)),
):
    ranged = {
        str(number): {"dtype": "F32", "shape": [(stop - start) // 4], "data_offsets": [start, stop]}
        for number, (start, stop) in enumerate(places)
    }
    add(f"{label}.safetensors", raw_safetensors(ranged, bytes(max(stop for _, stop in places))), RANGES)
add("rest.safetensors", raw_safetensors(entry(), bytes(9)), "file.rest")
add(
    "unsorted.safetensors",
    raw_safetensors(
        {"b": entry(offsets=(8, 16))["x"], "a": entry()["x"], "none": entry(shape=(0,), offsets=(8, 8))["x"]},
        bytes(8) + TWO,
    ),
    {"b": [1.5, -2.0], "a": [0.0, 0.0], "none": []},
)
add("axes64.safetensors", raw_safetensors(entry(shape=(1,) * 64, offsets=(0, 4)), bytes(4)), {"x": (1,) * 64})
add("axes65.safetensors", raw_safetensors(entry(shape=(1,) * 65, offsets=(0, 4)), bytes(4)), AXES)
add("axes_huge64.safetensors", raw_safetensors(entry(shape=(2**62,) * 64, offsets=(0, 4)), bytes(4)), TENSOR)
add("longdtype.safetensors", raw_safetensors(entry("F" * 10**6), bytes(8)), NUMBERS)
add(
    "textshape.safetensors",
    raw_safetensors(b'{"x":{"dtype":"F32","shape":"12","data_offsets":[0,8]}}', bytes(8)),
    DAMAGED,
)
add("rtldtype.safetensors", raw_safetensors(entry("\u202eF32<b>")), NUMBERS)
add(
    "surrogate.safetensors",
    raw_safetensors(b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    {"\ud800": [0.0]},
)
add(
    "digits.safetensors",
    raw_safetensors(b'{"x":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}', bytes(8)),
    DAMAGED,
)

# onnx


def varint(value):
    """A protocol buffer's number."""
    raw = b""
    while value > 127:
        raw += bytes([value & 127 | 128])
        value >>= 7
    return raw + bytes([value])


def field(place, content):
    """A field of a message: a number, or bytes."""
    if isinstance(content, int):
        return varint(place << 3) + varint(content)
    return varint(place << 3 | 2) + varint(len(content)) + content


def initializer(name="x", dims=(2,), kind=1, raw=TWO, more=b""):
    named = name.encode("utf-8", "surrogatepass") if isinstance(name, str) else name
    return (
        b"".join(field(1, length) for length in dims)
        + field(2, kind)
        + field(8, named)
        + field(9, raw)
        + more
    )


def onnx_model(*initializers, more=b""):
    return field(1, 8) + field(7, b"".join(field(5, each) for each in initializers) + more)


ONNX = onnx_model(initializer())
HALVES = {"x": [1.5, -2.0]}
add("good.onnx", ONNX, HALVES)
for place, cut in cut_at(ONNX, (1, 2, 3, 5, 10, 20, len(ONNX) - 1)):
    add(f"cut{place}.onnx", cut, CUT if place > 3 else DAMAGED)
add("more.onnx", ONNX + b"\xff\xff", DAMAGED)
add("twographs.onnx", ONNX + ONNX, DAMAGED)
add("nograph.onnx", field(1, 8), DAMAGED)
add("nothing.onnx", field(7, b""), "file.empty")
add("graphlength.onnx", field(1, 8) + b"\x3a" + varint(2**63) + bytes(8), DAMAGED)
add("endless.onnx", field(1, 8) + b"\x3a" + b"\xff" * 40, DAMAGED)
add("wire.onnx", field(1, 8) + b"\x3b\x00", DAMAGED)
add("zerofield.onnx", field(1, 8) + b"\x02\x00" + ONNX, DAMAGED)
add("initializernumber.onnx", field(1, 8) + field(7, field(5, 3)), DAMAGED)
for label, dims, expected in (
    ("more", (3,), TENSOR),
    ("fewer", (1,), TENSOR),
    ("negative", (2**64 - 1,), DAMAGED),
    ("huge", (2**62, 2**62), TENSOR),
    ("wraps", (2**32, 2**32), TENSOR),
    ("most", (1,) * 63 + (2,), {"x": (1,) * 63 + (2,)}),
    ("many", (1,) * 65, AXES),
    ("huge_many", (2**62,) * 5000, AXES),
    ("none", (0,), TENSOR),
):
    add(f"dims_{label}.onnx", onnx_model(initializer(dims=dims)), expected)
add("noneofmany.onnx", onnx_model(initializer(dims=(0, 2**62), raw=b"")), {"x": (0, 2**62)})
for label, kind in (("none", 0), ("text", 8), ("complex", 14), ("unknown", 99), ("most", 2**31)):
    add(f"kind_{label}.onnx", onnx_model(initializer(kind=kind)), NUMBERS)
add(
    "external.onnx",
    onnx_model(
        initializer(
            raw=b"", more=field(13, field(1, b"location") + field(2, b"../../etc/passwd")) + field(14, 1)
        )
    ),
    "file.shard_outside",
)
add("segment.onnx", onnx_model(initializer(more=field(3, field(1, 0) + field(2, 1)))), TENSOR)
add("twice.onnx", onnx_model(initializer(), initializer()), "file.duplicate_name")
add("twodata.onnx", onnx_model(initializer(more=field(4, struct.pack("<2f", 1, 2)))), TENSOR)
add("noname.onnx", onnx_model(initializer("")), {"": [1.5, -2.0]})
add("surrogate.onnx", onnx_model(initializer("\ud800")), DAMAGED)
add("longname.onnx", onnx_model(initializer("n" * 2**17)), DAMAGED)
add("sparse_many.onnx", field(1, 8) + field(7, field(15, field(1, initializer()) + field(3, 1) * 65)), AXES)
add("sparse.onnx", field(1, 8) + field(7, field(15, field(1, initializer()) + field(3, 4))), NUMBERS)
add(
    "ints.onnx",
    onnx_model(field(1, 2) + field(2, 7) + field(8, b"x") + field(7, varint(3) + varint(2**64 - 5))),
    {"x": [3.0, -5.0]},
)
add("badints.onnx", onnx_model(field(1, 2) + field(2, 7) + field(8, b"x") + field(7, b"\xff" * 20)), DAMAGED)
ONE_FLOAT = field(1, 1) + field(2, 1) + field(8, b"x")
TWO_INTS = field(1, 2) + field(2, 6) + field(8, b"x")
for label, fields, expected in (
    ("no_data", ONE_FLOAT, TENSOR),
    ("another_field", ONE_FLOAT + field(10, bytes(8)), TENSOR),
    ("number", ONE_FLOAT + field(9, 3), DAMAGED),
    (
        "pieces",
        field(1, 5000) + field(2, 1) + field(8, b"x") + (varint(4 << 3 | 5) + bytes(4)) * 5000,
        DAMAGED,
    ),
    ("fewer_ints", TWO_INTS + field(5, b"\x01"), TENSOR),
    ("more_ints", TWO_INTS + field(5, b"\x01" * 3), TENSOR),
    ("large_int", field(1, 1) + field(2, 3) + field(8, b"x") + field(5, varint(200)), TENSOR),
    ("large_code", field(1, 1) + field(2, 27) + field(8, b"x") + field(5, varint(64)), TENSOR),
    ("half_int", field(1, 1) + field(2, 6) + field(8, b"x") + field(5, b"\x81"), DAMAGED),
    ("eleven_bytes", b"\x08" + b"\xff" * 10 + b"\x01", DAMAGED),
    ("ten_bytes", b"\x08" + b"\x80" * 9 + b"\x02", DAMAGED),
):
    add(f"fields_{label}.onnx", onnx_model(fields), expected)
add("unknownfield.onnx", field(7, b"") + field(77, b""), DAMAGED)
add("group.onnx", field(7, varint(5 << 3 | 3)), DAMAGED)
add("length64.onnx", field(7, varint(5 << 3 | 2) + varint(2**64 - 1)), DAMAGED)
add("fivetensors.onnx", onnx_model(*(initializer(str(i)) for i in range(5))), TOO_MANY, tensors=4)
add("header.onnx", ONNX, HEADER, header_bytes=10)
NESTED_GRAPH = field(5, initializer("w"))
for _ in range(40):
    NESTED_GRAPH = field(1, field(4, b"If") + field(5, field(1, b"then") + field(6, NESTED_GRAPH)))
add("nested.onnx", field(1, 8) + field(7, NESTED_GRAPH), "file.too_deep")
add("nodenumber.onnx", field(1, 8) + field(7, field(1, 3)), DAMAGED)
add("attributetensor.onnx", field(1, 8) + field(7, field(1, field(5, field(5, 3)))), DAMAGED)
add("functionname.onnx", ONNX + field(25, field(1, b"\xff")), DAMAGED)


def onnx_node(operator, *inputs, out=b"y", more=b""):
    return field(1, b"".join(field(1, each) for each in inputs) + field(2, out) + field(4, operator) + more)


def external(**entries):
    pairs = (field(13, field(1, key.encode()) + field(2, value)) for key, value in entries.items())
    return onnx_model(initializer(raw=b"", more=b"".join(pairs) + field(14, 1)))


for label, entries in (
    ("absolute", {"location": b"/etc/passwd"}),
    ("windows", {"location": b"C:\\windows"}),
    ("hidden", {"location": b".ssh/id"}),
    ("nothing", {}),
    ("nul", {"location": b"a\0b"}),
    ("address", {"location": b"file://etc/passwd"}),
):
    add(f"external_{label}.onnx", external(**entries), "file.shard_outside")
add("external_offset.onnx", external(location=b"x.data", offset=b"-1"), TENSOR)
add("external_length.onnx", external(location=b"x.data", length=b"9" * 40), TENSOR)
# Nodes that say nothing sensible of a weight.
for label, nodes in (
    ("circle", onnx_node(b"Identity", b"x", out=b"a") + onnx_node(b"Identity", b"a", out=b"a")),
    ("perm", onnx_node(b"Transpose", b"x", more=field(5, field(1, b"perm") + field(8, varint(9) * 3)))),
    ("dequantize", onnx_node(b"DequantizeLinear", b"x", b"x", b"x")),
    ("n_bits", onnx_node(b"MatMulNBits", b"x", b"x", b"x")),
    ("no_inputs", onnx_node(b"DequantizeLinear") + onnx_node(b"MatMul") + onnx_node(b"QLinearConv")),
):
    add(f"node_{label}.onnx", field(1, 8) + field(7, field(5, initializer()) + nodes), HALVES)
add("node_name.onnx", field(1, 8) + field(7, onnx_node(b"MatMul", b"\xff\xfe")), DAMAGED)
add("deep.onnx", field(1, 8) + field(7, b"\x2a\x7f" * 500), DAMAGED)

# tflite


def flat(root=8, body=b""):
    return struct.pack("<I", root) + b"TFL3" + body


def flat_table(*slots, size=None, back=None):
    """A table at byte 8 whose list of fields comes right behind its first number."""
    fields = struct.pack("<HH", 4 + 2 * len(slots) if size is None else size, 8)
    fields += b"".join(struct.pack("<H", slot) for slot in slots)
    return struct.pack("<i", -4 if back is None else back) + fields


for label, data in (
    ("magiconly", flat()),
    ("root", flat(2**32 - 1, bytes(40))),
    ("fields", flat(8, flat_table(back=2**31 - 1))),
    ("fieldsbefore", flat(8, flat_table(back=1000))),
    ("vector", flat(8, flat_table(0, 0, 40) + bytes(100))),
    ("offset", flat(8, flat_table(0, 0, 20) + b"\xff" * 40)),
    ("size", flat(8, flat_table(size=65_535) + bytes(10))),
):
    add(f"{label}.tflite", data, "file.empty" if label in ("vector", "size") else DAMAGED)
add("itself.tflite", flat(8, flat_table(0, 0, 14) + struct.pack("<II", 4, 2**30)), DAMAGED)


def index_of(**shards):
    return json.dumps({"metadata": {"total_size": 8}, "weight_map": shards}).encode()


# the list of shards, of either kind: what it names must lie beside it
for shard_suffix in (".safetensors", ".bin"):
    index = f"{shard_suffix}.index.json"
    for label, shard in (
        ("parent", "../other"),
        ("absolute", "/etc/passwd"),
        ("windows", "..\\other"),
        ("folder", "a/b"),
        ("hidden", ""),
        ("address", "http://localhost/x"),
        ("rtl", "\u202e<b>/x"),
    ):
        add(f"{label}{index}", index_of(x=shard + shard_suffix), "file.shard_name")
    add(f"suffix{index}", index_of(x="passwd"), "file.shard_name")
    add(f"itself{index}", index_of(x="x" + index), "file.shard_name")
    add(f"number{index}", b'{"weight_map": {"x": 3}}', DAMAGED)
    add(f"list{index}", b'{"weight_map": ["x"]}', DAMAGED)
    add(f"null{index}", b'{"weight_map": null}', DAMAGED)
    add(f"empty{index}", b'{"weight_map": {}}', "file.empty")
    add(f"numbers{index}", b"[1, 2]", DAMAGED)
    add(f"nomap{index}", b'{"x": [1]}', DAMAGED)
    add(f"cut{index}", index_of(x=f"a{shard_suffix}")[:-3], DAMAGED)
    add(f"twice{index}", b'{"weight_map": {"x": "a.bin", "x": "b.bin"}}', "file.duplicate_name")
    add(f"deep{index}", b'{"weight_map": ' + b"[" * 100_000, DAMAGED)

# names, in every format that has them
for label, name in NAMES.items():
    add(
        f"name_{label}.npz",
        raw_zip([stored_member((name + ".npy").encode(), NPY_BYTES, flags=0x800)]),
        {name: X.tolist()},
    )
    add(f"name_{label}.pt", saved({name: X}), {name: X.tolist()})
    add(f"name_{label}.json", json.dumps({name: [1, 2]}).encode(), {name: [1, 2]})
    add(f"name_{label}.safetensors", safetensors.torch.save({name: X.clone()}), {name: X.tolist()})
    if len(name) < 1000:
        add(f"name_{label}.gguf", gguf_file([ONE._replace(name=name)]), {name: [1.5, -2.0]})
    add(f"name_{label}.onnx", onnx_model(initializer(name)), {name: [1.5, -2.0]})

# limits that somebody set lower
THREE = {name: X.clone() for name in "abc"}
for label, made, expected, limit in (
    ("three.npz", npz(a=X, b=X, c=X), TOO_MANY, {"tensors": 2}),
    ("three.pt", saved([X, X, X]), TOO_MANY, {"tensors": 2}),
    ("three.safetensors", safetensors.torch.save(THREE), TOO_MANY, {"tensors": 2}),
    ("three.json", b'{"a":[1],"b":[1],"c":[1]}', TOO_MANY, {"tensors": 2}),
    ("header.safetensors", SAFE, HEADER, {"header_bytes": 10}),
    ("header.pt", PT, HEADER, {"header_bytes": 10}),
    ("bytes.json", FILES["x.json"], "file.too_large", {"json_bytes": 10}),
    ("bytes.csv", FILES["x.csv"], "file.too_large", {"table_bytes": 10}),
    ("depth.pt", saved({"a": {"b": {"c": {"d": {"e": X}}}}}), "file.too_deep", {"depth": 3}),
    ("depth.json", b'{"a":{"b":{"c":{"d":{"e":[1]}}}}}', "file.too_deep", {"depth": 3}),
):
    add(f"limit_{label}", made, expected, **limit)

#: Files that ask for time or memory. Each is opened and read in a process of its own that may not have much.
BOMBS = {
    "ratio.npz": Case(lambda: bomb_npz(1024, "(1,)"), TENSOR),
    "toolarge.npz": Case(lambda: bomb_npz(1200, f"({1200 * 2**18},)"), LARGE),
    "honest.npz": Case(lambda: bomb_npz(64, f"({64 * 2**18},)"), DAMAGED),
    "members.npz": Case(lambda: raw_zip([GOOD], repeat=501_500), TOO_MANY),
    "headers.npz": Case(
        lambda: raw_zip(
            [
                (b"%d.npy" % i, 8, 0, *((d := deflated(numpy_header("(0,)", pad=65_000), 1))[0], d[2], d[1]))
                for i in range(1100)
            ]
        ),
        HEADER,
    ),
    "lists.pt": Case(lambda: with_pickle(pickled(b"]" * 2**24)), OBJECTS),
    "sets.pt": Case(lambda: with_pickle(pickled(b"\x8f" * 2**22)), OBJECTS),
    "nones.pt": Case(lambda: with_pickle(pickled(b"N" * 2**24)), OBJECTS),
    "objects.pt": Case(
        lambda: with_pickle(pickled(call("collections", "OrderedDict", b")") * 2**20)), OBJECTS
    ),
    "longnames.pt": Case(
        lambda: with_pickle(
            pickled(
                b"}"
                + text("n" * 2**20)
                + b"}("
                + b"".join(text(str(i)) + b"]" for i in range(100_000))
                + b"us"
            )
        ),
        OBJECTS,
    ),
    "names.pt": Case(
        lambda: with_pickle(
            pickled(
                b"}" + text("n" * 50_000) + b"}(" + b"".join(text(str(i)) + b"]" for i in range(5000)) + b"us"
            )
        ),
        HEADER,
    ),
    "oldlists.pt": Case(lambda: old(pickled(b"]" * 2**24)), OBJECTS),
    "lists.json": Case(lambda: b"[" + b"[]," * 5 * 10**6 + b"[]]", "file.too_many_lists"),
    "zeros.json": Case(lambda: b"[" + b"0," * (8 * 10**6) + b"0]", {"zeros": (8 * 10**6 + 1,)}),
    "line.csv": Case(lambda: b"0.5 " * 8 * 10**6, {"line": (8 * 10**6,)}),
    "columns.csv": Case(lambda: b"1," * (10**7 - 1) + b"1", {"columns": (10**7,)}),
    "slow.csv": Case(lambda: b"1,\xef\xbc\x92\n" * 2**21, "file.slow_table"),
    "long.txt": Case(lambda: b"9" * 2**24, "file.slow_table"),
    "arrays.gguf": Case(
        lambda: gguf_file([ONE], [pair("a", ARRAY, array(STRING, 2**21, bytes(8 * 2**21)))]),
        {"x": [1.5, -2.0]},
    ),
    "names.gguf": Case(
        lambda: gguf_file([ONE._replace(name=f"{i}{'n' * 900}") for i in range(4000)]),
        {"0" + "n" * 900: [1.5, -2.0]},
    ),
    "nodes.onnx": Case(lambda: field(1, 8) + field(7, field(1, field(4, b"If") * 30) * 2**17), HEADER),
    "constants.onnx": Case(
        lambda: (
            field(1, 8)
            + field(7, field(1, field(4, b"Constant") + field(5, field(5, initializer()))) * 500_001)
        ),
        HEADER,
    ),
    # A list of a million graphs that are all the same table.
    "graphs.tflite": Case(
        lambda: flat(
            8,
            flat_table(0, 0, 12)
            + struct.pack("<II", 4, 2**22)
            + b"".join(struct.pack("<I", 2**32 - (4 * i + 16)) for i in range(2**22)),
        ),
        DAMAGED,
    ),
    "matmuls.onnx": Case(
        lambda: field(1, 8) + field(7, onnx_node(b"MatMul", b"x" * 100, b"w") * 2**18), HEADER
    ),
    # Each node makes the value that every other takes.
    "chain.onnx": Case(
        lambda: (
            field(1, 8)
            + field(
                7,
                field(5, initializer(dims=(1, 2))) + onnx_node(b"Identity", b"x", out=b"x") * 10**5,
            )
        ),
        {"x": (1, 2)},
    ),
    "texts.gguf": Case(
        lambda: gguf_file([ONE], [pair("a", ARRAY, array(STRING, 2**60, bytes(2**26)))]), HEADER
    ),
    "names.safetensors": Case(
        lambda: raw_safetensors(
            {f"{i}": entry(shape=(1,), offsets=(4 * i, 4 * i + 4))["x"] for i in range(500_001)},
            bytes(2_000_004),
        ),
        TOO_MANY,
    ),
    "fields.onnx": Case(lambda: field(1, 8) + field(7, field(5, field(1, 1) * 2**21)), HEADER),
    "initializers.onnx": Case(lambda: onnx_model(*(initializer(str(i)) for i in range(500_001))), HEADER),
    "header.safetensors": Case(
        lambda: raw_safetensors(b'{"x":' + b"[" * 2**24 + b"}"), "file.too_many_lists"
    ),
    "axes.safetensors": Case(
        lambda: raw_safetensors(entry(shape=(1,) * 300_000, offsets=(0, 4)), bytes(4)), AXES
    ),
    "product.safetensors": Case(
        lambda: raw_safetensors(entry(shape=(2**62,) * 50_000, offsets=(0, 4)), bytes(4)), AXES
    ),
    "axes.pt": Case(lambda: with_pickle(state(tensor((1,) * 300_000, (1,) * 300_000))), AXES),
    "lists.safetensors": Case(
        lambda: raw_safetensors(b'{"x":[' + b"[]," * 2**23 + b"[]]}"), "file.too_many_lists"
    ),
}

#: Pictures, or what makes them, and what becomes of them: an error's key, or the shape.
PICTURES = {
    "empty.png": (b"", "image.unreadable"),
    "cut.png": (picture()[:40], "image.unreadable"),
    "cutdata.png": (picture(size=(60, 50))[:-30], "image.unreadable"),
    "checksum.png": (picture().replace(b"IDAT", b"IDAt"), "image.unreadable"),
    "bomb.png": (png(100_000, 100_000, zlib.compress(bytes(1000))), "image.too_large"),
    "wide.png": (png(2**31 - 1, 1, zlib.compress(bytes(1000))), "image.too_large"),
    "most.png": (png(2**16, 2**16, b""), "image.too_large"),
    "justtoolarge.png": (png(8000, 8000, zlib.compress(bytes(1000))), "image.too_large"),
    "nosize.png": (png(0, 0, zlib.compress(b"")), "image.unreadable"),
    "nodata.png": (png(100, 100, zlib.compress(b"")), "image.unreadable"),
    "depth.png": (png(2, 2, zlib.compress(bytes(100)), depth=77), "image.unreadable"),
    "text_bomb.png": (
        lambda: png(
            2, 2, zlib.compress(bytes(14)), before=text_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**26)))
        ),
        "image.unreadable",
    ),
    "profile_bomb.png": (
        lambda: png(
            2, 2, zlib.compress(bytes(14)), before=text_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(2**26)))
        ),
        "image.unreadable",
    ),
    "palette.png": (picture("P"), (3, 4)),
    "transparent.png": (picture("RGBA", colour=(0, 0, 0, 0)), (3, 4)),
    "deep.png": (picture("I;16", colour=40_000), (3, 4)),
    "animated.png": (animated("PNG"), (3, 4)),
    "animated.gif": (animated("GIF"), "image.unreadable"),
    "is_bmp.png": (picture(kind="BMP"), "image.unreadable"),
    "is_tiff.png": (picture(kind="TIFF"), "image.unreadable"),
    "is_webp.png": (picture(kind="WEBP"), "image.unreadable"),
    "is_postscript.png": (picture(kind="EPS"), "image.unreadable"),
    "is_script.png": (
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        "image.unreadable",
    ),
    "is_zip.png": (FILES["x.npz"], "image.unreadable"),
    "cmyk.jpg": (picture("CMYK", kind="JPEG"), (3, 4)),
    "cut.jpg": (picture(size=(100, 100), kind="JPEG")[:-100], "image.unreadable"),
    "scans.jpg": (many_scans(50), (64, 64)),
    "manyscans.jpg": (lambda: many_scans(10_000), "image.unreadable"),
    "<b>\u202e.png": (b"no", "image.unreadable"),
}


#: Words of libraries: torch's recommend the switch that runs a file's code.
LIBRARY_WORDS = (
    "weights_only",
    "pickle",
    "Traceback",
    "zipfile",
    "allow_pickle",
    "add_safe_globals",
    "numpy.load",
    "Error",
    "/tmp",
    "torch.load",
)


def fate(data, filename, limits=None, opening=open_tensors):
    """The error that the file gives, or its tensors by name."""
    try:
        with opening(data, filename, limits=limits) as catalog:
            for name in catalog.names[:100]:
                catalog.orientation(name)
            return {name: catalog.load(name) for name in catalog.names[:100]}
    except QuantVizError as error:
        return error


def innermost(error):
    problem = error.params.get("problem")
    return problem if isinstance(problem, QuantVizError) else error


def check(found, case, filename):
    if isinstance(case.expected, str):
        assert isinstance(found, QuantVizError), found
        assert innermost(found).key == case.expected, str(found)
        assert found.__cause__ is None
        check_words(found, filename)
        return
    assert not isinstance(found, QuantVizError), str(found)
    for name, expected in case.expected.items():
        if isinstance(expected, tuple):
            assert tuple(found[name].shape) == expected
        else:
            assert torch.equal(
                found[name].nan_to_num(nan=7.5),
                torch.tensor(expected, dtype=torch.float32).nan_to_num(nan=7.5),
            )


def check_words(error, filename):
    """One to three short sentences in each language that name the file, with nothing in them that acts or
    hides.
    """
    for language in languages():
        said = error.message(language)
        assert repr(filename) in said, said
        assert len(said) < 420, said
        assert len(re.findall(r"[.!?](?= |$)|[。！？]", said)) >= 1
        assert not UNSEEN.search(said), said
        assert not [word for word in LIBRARY_WORDS if word in said.replace(filename, "")], said
