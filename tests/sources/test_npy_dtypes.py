"""NumPy arrays of ml_dtypes: bfloat16 and E5M2 are told by the header, all else of one byte by a switch."""

import io

import ml_dtypes
import numpy
import pytest
import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.formats import FORMATS
from quantviz.sources.files import open_tensors
from quantviz.sources.files.npy import _NAMED, STORED_AS
from quantviz.sources.local import FOLDER, local_version
from quantviz.text import languages

VALUES = numpy.array([[0.5, -1.0, 1.5, 2.0], [-2.0, 0.0, 1.0, -0.5]], "f4")
KINDS = [name for name in _NAMED[1] if hasattr(ml_dtypes, name) and name not in ("int8", "uint8")]


def saved(array, kind="npy"):
    stream = io.BytesIO()
    (numpy.save if kind == "npy" else numpy.savez_compressed)(stream, array)
    return stream.getvalue(), f"x.{kind}"


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2"])
def test_what_the_header_tells(name, kind, order):
    array = numpy.asarray(VALUES.astype(getattr(ml_dtypes, name)), order=order)
    with open_tensors(*saved(array, kind)) as catalog:
        (found,) = catalog.names
        assert (catalog.info(found).dtype, catalog.info(found).problem) == (name, None)
        assert catalog.load(found).tolist() == VALUES.tolist()
        assert catalog.load(found, (1, slice(1, 3))).tolist() == VALUES[1, 1:3].tolist()
        assert catalog.stored(found).run(2, 5).tolist() == VALUES.ravel()[2:5].tolist()


@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.parametrize("name", KINDS)
def test_what_a_switch_tells(name, kind, monkeypatch):
    """Every code of each type, NaN as NaN."""
    codes = numpy.arange(1 << FORMATS[name].bits, dtype="u1")
    array = codes.view(getattr(ml_dtypes, name))
    content = saved(array, kind)
    expected = torch.from_numpy(array.astype("f4")).nan_to_num(nan=12345)
    if not array.dtype.str.endswith("f1"):
        with open_tensors(*content) as catalog:
            problem = catalog.info(catalog.names[0]).problem
        assert problem.key == "file.npy_unnamed"
        assert all(STORED_AS in problem.message(language) for language in languages())
    monkeypatch.setenv(STORED_AS, name)
    with open_tensors(*content) as catalog:
        assert catalog.info(catalog.names[0]).dtype == name
        assert torch.equal(catalog.load(catalog.names[0]).nan_to_num(nan=12345), expected)
    monkeypatch.delenv(STORED_AS)
    with open_tensors(*content, stored_as=name) as catalog:
        assert torch.equal(catalog.load(catalog.names[0]).nan_to_num(nan=12345), expected)


def test_two_bytes_without_a_name_need_a_switch_too(monkeypatch):
    content = saved(VALUES.astype(ml_dtypes.bfloat16).view("V2"))
    with open_tensors(*content) as catalog:
        assert catalog.info("x").problem.key == "file.npy_unnamed"
    # What is named for arrays of one byte is not for these, and does not stop them from being listed.
    with open_tensors(*content, stored_as="float8_e4m3fn") as catalog:
        assert catalog.info("x").problem.key == "file.npy_unnamed"
    with open_tensors(*content, stored_as="bfloat16") as catalog:
        assert catalog.load("x").tolist() == VALUES.tolist()


def test_a_type_that_is_not_known_is_said(monkeypatch):
    content = saved(VALUES.astype(ml_dtypes.float8_e4m3fn))
    with pytest.raises(QuantVizError) as caught, open_tensors(*content, stored_as="float9"):
        pass
    assert caught.value.key == "file.npy_dtype"
    # Arrays with a dtype of their own do not ask.
    with open_tensors(*saved(VALUES), stored_as="float9") as catalog:
        assert catalog.load("x").tolist() == VALUES.tolist()


def test_bytes_of_other_lengths_are_no_numbers():
    with open_tensors(*saved(numpy.zeros(3, "V3"))) as catalog:
        assert catalog.info("x").problem.key == "file.not_numbers"


def test_another_type_is_another_version(tmp_path, monkeypatch):
    numpy.save(tmp_path / "x.npy", VALUES.astype(ml_dtypes.float8_e4m3fn))
    monkeypatch.setenv(FOLDER, str(tmp_path))
    found = set()
    for name in ("float8_e4m3fn", "float8_e4m3fnuz"):
        monkeypatch.setenv(STORED_AS, name)
        found.add(local_version("x.npy"))
    assert len(found) == 2
