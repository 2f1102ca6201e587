"""Hostile uploads in the app: the tensor that was open stays open, a sentence says why, and names are shown
as plain text.
"""

import json
import re

from quantviz.sources.files import open_tensors
from tests.helpers.controls import words_of
from tests.helpers.hostile import CASES, NAMES, UNSEEN, X
from tests.helpers.session import act, address, bodies, numbers, opened, upload


def test_a_bad_upload_leaves_the_open_tensor_open():
    at = upload(opened(), "x.npy", CASES["version3.npy"].content)
    assert not at.error
    before = (address(at), numbers(at))
    bad = (
        "bytearray.pt",
        "system.pt",
        "twice.npz",
        "cut100.npy",
        "exponent.json",
        "hidden.csv",
        "tensors2.gguf",
    )
    for filename in bad:
        upload(at, filename, CASES[filename].content)
        (error,) = at.error
        assert filename in error.value.replace("\\", "")
        assert not re.search("weights_only|Traceback|allow_pickle|zipfile", error.value)
        assert (address(at), numbers(at)) == before, filename
    # No reader is named like this one, so there is no Python either that would cut a part out of it.
    upload(at, "letter.docx", b"PK")
    assert [".npy" in error.value for error in at.error] == [True]
    assert (address(at), numbers(at)) == before


def test_names_are_shown_as_plain_text():
    names = {**NAMES, "surrogate": "\ud800half", "nul": "a\0b"}
    content = json.dumps({name: X.tolist() for name in names.values()}).encode()
    at = upload(opened(), "x.json", content)
    assert not at.error
    labels = words_of(at, "file_tensor")
    assert len(labels) == len(names)
    assert not [label for label in labels if UNSEEN.search(label)]
    for name in (names["rtl"], names["html"], names["markdown"], names["surrogate"], names["control"]):
        act(at, file_tensor=name)
        assert not at.error
        # All that is sent, but for the names to choose from, which are looked at by themselves.
        sent = [str(getattr(node, "proto", "")) for node in at._tree]
        sent = [each for each in sent if "file_tensor_choice" not in each]
        assert not [each for each in sent if re.search("[\u202a-\u202e\u2066-\u2069]", each)]
        # HTML is text in the pieces of HTML that the app itself sends.
        assert not bodies(at, "<img src=x")
    upload(at, "\u202e<b>gpj.npy", b"nothing")
    (error,) = at.error
    assert not UNSEEN.search(error.value)
    assert "<b>" not in error.value.replace("\\<b\\>", "")


def test_the_names_are_those_of_the_corpus():
    with open_tensors(CASES["name_rtl.json"].content, "x.json") as catalog:
        assert catalog.names == (NAMES["rtl"],)
