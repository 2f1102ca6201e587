"""Files that are not read: other formats, and substitutes after a failed download. Each is named, with a way
to a file that is read.

A format is added here: one entry of `OTHER_FORMATS` and its sentence `errors.file.is_<id>` in each language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from quantviz.errors import QuantVizError
from quantviz.sources.files.file_data import FileData, clipped, raw_part, size_text
from quantviz.sources.files.zips import member_names
from quantviz.text import visible

_HEAD = 1024
#: Beginnings of archives and packed files; a tar has its own further on.
_PACKED = (
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
    b"PK\x03\x04",
)
_TAR = slice(257, 262), b"ustar"
#: A map of msgpack with a text for its first key.
_MSGPACK = re.compile(rb"(?:[\x81-\x8f]|\xde..|\xdf....)(?:[\xa1-\xbf]|\xd9.|\xda..)[\w./-]", re.DOTALL)
#: llama.cpp's older importance matrix: the number of entries, then the length of a name and the name.
_IMATRIX = re.compile(rb"..\0\0[\x01-\xff]\0\0\0[\x21-\x7e]{4}", re.DOTALL)


@dataclass(frozen=True)
class OtherFormat:
    id: str
    #: Of files, or of folders that are one model.
    suffixes: tuple[str, ...] = ()
    begins: Callable[[bytes], bool] = lambda head: False
    #: Of a zip of it.
    members: tuple[str, ...] = ()
    #: Of a folder of it.
    in_folder: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the key of the error."""
        return f"file.is_{self.id}"

    def problem(self, data: FileData) -> QuantVizError:
        return QuantVizError(self.key, file=clipped(data.name))


def _at(place: int, *marks: bytes) -> Callable[[bytes], bool]:
    return lambda head: head[place : place + len(marks[0])] in marks


#: The formats in the order of checks; a beginning that fits counts before a name.
OTHER_FORMATS = (
    OtherFormat("distcp", (".distcp",), in_folder=(".distcp",)),
    OtherFormat("keras", (".keras",), members=("model.weights.h5",)),
    OtherFormat("hdf5", (".h5", ".hdf5"), _at(0, b"\x89HDF\r\n\x1a\n")),
    # The weights beside the description begin with a count, and a mark stands behind the first 64 bytes.
    OtherFormat("coreml", (".mlmodel", ".mlpackage", ".mlmodelc"), _at(64, b"\xef\xbe\xad\xde")),
    OtherFormat("openvino", (".xml",), lambda head: b"<net " in head, in_folder=(".xml",)),
    OtherFormat("msgpack", (".msgpack",), lambda head: bool(_MSGPACK.match(head))),
    OtherFormat(
        "tensorflow",
        (".pb", ".ckpt.index", ".ckpt.meta", ".data-00000-of-00001"),
        in_folder=("saved_model.pb", ".ckpt.index", ".data-00000-of-00001"),
    ),
    OtherFormat("orbax", (".ocdbt",), in_folder=("manifest.ocdbt", "_CHECKPOINT_METADATA")),
    OtherFormat("ort", (".ort",), _at(4, b"ORTM")),
    OtherFormat("executorch", (".pte",), _at(4, b"ET12")),
    OtherFormat("tensorrt", (".engine", ".plan", ".trt"), _at(0, b"ftrt", b"ptrt")),
    OtherFormat("litert_lm", (".litertlm",), _at(0, b"LITERTLM")),
    OtherFormat("ggml", (".ggml",), _at(0, b"lmgg", b"fmgg", b"tjgg", b"algg")),
    OtherFormat("imatrix", (), lambda head: bool(_IMATRIX.match(head))),
    OtherFormat(
        "archive",
        (".zip", ".tar", ".tgz", ".gz", ".xz", ".zst", ".7z", ".rar", ".nemo"),
        lambda head: head.startswith(_PACKED) or head[_TAR[0]] == _TAR[1],
    ),
)


def other_format(data: FileData) -> OtherFormat | None:
    """Return the format of a file that no reader reads.

    Weights may have no mark of their own: OpenVINO's `.bin` is recognized by the `.xml` beside it.
    """
    head = bytes(data.part(0, _HEAD))
    members = member_names(data)
    # A zip whose list of members cannot be read is damage.
    for each in OTHER_FORMATS if members or not head.startswith(b"PK") else ():
        if each.begins(head) or set(each.members) & set(members):
            return each
    if data.suffix == ".bin" and data.is_beside(f"{data.stem}.xml"):
        return next(each for each in OTHER_FORMATS if each.id == "openvino")
    return other_format_named(data.name)


def other_format_named(name: str) -> OtherFormat | None:
    """>>> other_format_named("Model.mlpackage").id
    'coreml'
    """
    return next((each for each in OTHER_FORMATS if name.lower().endswith(each.suffixes or ("\0",))), None)


def other_format_of_folder(folder: str, names: Iterable[str]) -> OtherFormat | None:
    """Return the format by the folder's name and the files in it."""
    there = tuple(names)
    by_files = (
        each
        for each in OTHER_FORMATS
        if each.in_folder and any(name.endswith(each.in_folder) for name in there)
    )
    return next(by_files, None) or other_format_named(folder)


# ---- substitutes for a file ---------------------------------------------------------------------
# A pointer, a web page or zeros have the right name and a size of zero to a few kilobytes.

_SUBSTITUTE_HEAD = 512
#: The beginnings of pointers: those of git-lfs and of its predecessor, and those of git-annex.
_LFS = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")
_ANNEX = re.compile(rb"/?(\.\./)*(\.git/)?annex/objects/[\w./%-]+\s*\Z")
_LFS_SIZE = re.compile(rb"^size (\d{1,18})\s*$", re.MULTILINE)
#: The beginnings of web pages, and of a server's answers in place of a file.
#: A comment ends at its first end: with any other, some dozen comments would take hours.
_PAGE = re.compile(
    rb"\s*(?>(?><!--.*?-->)\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_XML_ANSWER = re.compile(rb"\s*(<\?xml[^>]*>\s*)?<(Error|ErrorResponse)\b")
#: Shortest and longest answer of a server, in bytes, and characters of it that an error repeats.
_SHORTEST_ANSWER = 8
_LONGEST_ANSWER = 2**16
_SHOWN = 60
_IN_TEXTS = frozenset(b"\t\n\r\f\x1b")


def stand_in(data: FileData) -> QuantVizError | None:
    """Return the error for a substitute in place of a file."""
    head = bytes(data.part(0, _SUBSTITUTE_HEAD)).removeprefix(b"\xef\xbb\xbf")
    if head.startswith(_LFS):
        size = _LFS_SIZE.search(head)
        return data.error("is_lfs", size=size_text(int(size[1])) if size else "?")
    if _ANNEX.match(head):
        return data.error("is_annex")
    if _PAGE.match(head):
        return data.error("is_page")
    if _XML_ANSWER.match(head):
        return _answer(data, head)
    if len(head) >= 64 and not any(head):
        return raw_part(data.name) or data.error("is_zeros")
    return None


def answer_in_place(data: FileData) -> QuantVizError | None:
    """Return the error of a short text under a name that promises no text."""
    head = bytes(data.part(0, _SUBSTITUTE_HEAD)).removeprefix(b"\xef\xbb\xbf")
    return _answer(data, head) if _SHORTEST_ANSWER <= data.size <= _LONGEST_ANSWER and is_text(head) else None


def is_text(head: bytes) -> bool:
    """Return whether the beginning of a file is text, as UTF-8.

    >>> is_text("Entry not found, 没有".encode()), is_text(b"a\\x00b")
    (True, False)
    """
    if any(byte < 32 and byte not in _IN_TEXTS for byte in head):
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character may be cut where the beginning ends.
        return error.reason == "unexpected end of data"
    return True


def _answer(data: FileData, head: bytes) -> QuantVizError:
    words = " ".join(head.decode("utf-8", "replace").split())
    start = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
    return data.error("is_answer", start=visible(clipped(start)))
