"""Hostile uploads in the app: the tensor that was open stays open, a sentence says why, and names are shown
as plain text.
"""

import json
import re

from quantviz.sources.files import open_tensors
from tests.helpers.hostile import CASES, NAMES, UNSEEN, X
from tests.helpers.session import address, numbers, opened


def uploader():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    return at


def give(at, filename, data):
    at.file_uploader(key="tensor_file").set_value((filename, data, "application/octet-stream")).run()
    assert not at.exception, at.exception
    return at


KINDS = (
    "markdown",
    "caption",
    "html",
    "info",
    "warning",
    "error",
    "success",
    "metric",
    "selectbox",
    "code",
    "download_button",
    "plotly_chart",
    "text",
)


def shown(at):
    """What is sent to the page, piece by piece. The names to choose from are looked at by themselves."""
    found = [
        element.proto.SerializeToString().decode("utf-8", "replace")
        for kind in KINDS
        for element in at.get(kind)
    ]
    assert len(found) > 10
    return found


def test_a_bad_upload_leaves_the_open_tensor_open():
    at = give(uploader(), "x.npy", CASES["version3.npy"].content)
    assert not at.error
    before, tiles = address(at), [tile.value for tile in numbers(at)]
    for filename in (
        "bytearray.pt",
        "system.pt",
        "twice.npz",
        "cut100.npy",
        "exponent.json",
        "hidden.csv",
        "tensors2.gguf",
    ):
        give(at, filename, CASES[filename].content)
        (error,) = at.error
        assert filename in error.value.replace("\\", "")
        assert not [
            word for word in ("weights_only", "Traceback", "allow_pickle", "zipfile") if word in error.value
        ]
        assert (address(at), [tile.value for tile in numbers(at)]) == (before, tiles), filename
    # No reader is named like this one, so there is no Python either that would cut a part out of it.
    give(at, "letter.docx", b"PK")
    assert [".npy" in error.value for error in at.error] == [True]
    assert (address(at), [tile.value for tile in numbers(at)]) == (before, tiles)


def test_names_are_shown_as_plain_text():
    at = uploader()
    names = {**NAMES, "surrogate": "\ud800half", "nul": "a\0b"}
    give(at, "x.json", json.dumps({name: X.tolist() for name in names.values()}).encode())
    assert not at.error
    (chooser,) = [box for box in at.selectbox if box.key == "file_tensor"]
    assert len(chooser.options) == len(names)
    assert not [label for label in chooser.options if UNSEEN.search(label)]
    for name in (names["rtl"], names["html"], names["markdown"], names["surrogate"], names["control"]):
        at.selectbox(key="file_tensor").set_value(name).run()
        assert not at.exception
        assert not at.error
        assert not [each for each in shown(at) if re.search("[\u202a-\u202e\u2066-\u2069]", each)]
        # HTML is text in the pieces of HTML that the app itself sends.
        assert not any("<img src=x" in element.proto.body for element in at.get("html"))
    give(at, "\u202e<b>gpj.npy", b"nothing")
    (error,) = at.error
    assert not UNSEEN.search(error.value)
    assert "<b>" not in error.value.replace("\\<b\\>", "")


def test_the_names_are_those_of_the_corpus():
    with open_tensors(CASES["name_rtl.json"].content, "x.json") as catalog:
        assert catalog.names == (NAMES["rtl"],)
