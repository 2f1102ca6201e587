"""Substitutes for a file of tensors after a failed download: a pointer, a web page, zeros.

The user sees the right name and a size of zero to a few kilobytes, so each has an error of its own.
"""

from __future__ import annotations

import re

from quantviz.errors import QuantVizError
from quantviz.sources.files.file_data import FileData, clipped, size_text
from quantviz.text import visible

#: Bytes at the beginning of a file that are read.
_HEAD = 512
#: The beginnings of pointers: those of git-lfs and of its predecessor, and those of git-annex.
_LFS = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")
_ANNEX = re.compile(rb"/?(\.\./)*(\.git/)?annex/objects/[\w./%-]+\s*\Z")
_LFS_SIZE = re.compile(rb"^size (\d{1,18})\s*$", re.MULTILINE)
#: The beginnings of web pages, and of a server's answers in place of a file.
_PAGE = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_XML_ANSWER = re.compile(rb"\s*(<\?xml[^>]*>\s*)?<(Error|ErrorResponse)\b")
#: Shortest and longest answer of a server, in bytes, and characters of it that an error repeats.
_SHORTEST_ANSWER = 8
_LONGEST_ANSWER = 2**16
_SHOWN = 60
#: Control characters that a text may have.
_IN_TEXTS = frozenset(b"\t\n\r\f\x1b")


def stand_in(data: FileData) -> QuantVizError | None:
    """Return the error for a substitute in place of a file; none if it may be the file itself."""
    head = bytes(data.part(0, _HEAD)).removeprefix(b"\xef\xbb\xbf")
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
        return data.error("is_zeros")
    return None


def answer_in_place(data: FileData) -> QuantVizError | None:
    """Return the error of a short text under a name that promises no text; none for any other content."""
    head = bytes(data.part(0, _HEAD)).removeprefix(b"\xef\xbb\xbf")
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
    said = " ".join(head.decode("utf-8", "replace").split())
    start = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
    return data.error("is_answer", start=visible(clipped(start)))
