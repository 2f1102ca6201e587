"""Values set by hand: one form for one tensor, a link that carries them, and a source's other answers."""

import math
import pickle
import re
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantviz.errors import QuantVizError
from quantviz.lab.page_state import LONGEST
from quantviz.lab.state import LabState, opening
from quantviz.sources import (
    AsMatrix,
    Builtin,
    Edited,
    LocalTensor,
    Normal,
    Upload,
    parse_source,
    with_cell,
    write_source,
)
from quantviz.sources.base import OpenedFiles
from quantviz.sources.edited import MOST_EDITS
from quantviz.sources.typed import Typed, nearest_float32
from quantviz.tensors.lazy import InMemory
from quantviz.text import languages

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
CELLS = st.tuples(st.integers(0, 7), st.integers(0, 7))
LOUD = Builtin("loud_column")
FORM = "edited(builtin(name=loud_column),0.0=-0.0,2.3=0.1)"


def bits(values):
    return [struct.pack("<f", value) for value in values]


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(CELLS, FLOATS), max_size=12), st.randoms())
def test_one_tensor_has_one_form_whatever_the_order(edits, chance):
    source = LOUD
    for cell, value in edits:
        source = with_cell(source, cell, value)
    last = dict(edits)
    x = LOUD.tensor()
    for cell, value in last.items():
        x[cell] = value
    assert torch.equal(source.tensor().view(torch.int32), x.view(torch.int32))
    assert torch.equal(source.open().read((slice(None),) * 2).view(torch.int32), x.view(torch.int32))
    shuffled = list(last.items())
    chance.shuffle(shuffled)
    again = LOUD
    for cell, value in shuffled:
        again = with_cell(again, cell, value)
    assert (again, hash(again), again.key, again.link_text()) == (
        source,
        hash(source),
        source.key,
        source.link_text(),
    )
    # The link brings back each bit.
    assert re.fullmatch(r"[A-Za-z0-9._(),=+-]+", write_source(source))
    read = parse_source(write_source(source))
    assert read == source
    assert [cell for cell, _ in read.edits] == sorted(last)
    assert bits(value for _, value in read.edits) == bits(last[cell] for cell in sorted(last))
    # Put back one by one, it is the source itself.
    for cell in last:
        source = with_cell(source, cell, None)
    assert source is LOUD


def test_minus_zero_is_another_value():
    assert with_cell(LOUD, (0, 0), 0.0) != with_cell(LOUD, (0, 0), -0.0)
    assert with_cell(LOUD, (0, 0), 0.0).key != with_cell(LOUD, (0, 0), -0.0).key


def test_values_are_float32():
    (_, value), *rest = with_cell(LOUD, (0, 0), 0.1).edits
    assert (value, rest) == (nearest_float32(0.1), [])
    assert with_cell(LOUD, (0, 0), 0.1).code(False, "en")[-1] == "x[0, 0] = 0.1"


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("edited(builtin(name=loud_column),8.0=1.0)", "index_out_of_range"),
        ("edited(builtin(name=loud_column),0=1.0)", "index_out_of_range"),
        ("edited(builtin(name=loud_column),0.0.0=1.0)", "index_out_of_range"),
        ("edited(builtin(name=loud_column),0.0=1e39)", "source.edited_value"),
        ("edited(builtin(name=loud_column),0.0=nan)", "text_form_bad_value"),
        ("edited(builtin(name=loud_column),0.0=inf)", "text_form_bad_value"),
        ("edited(builtin(name=loud_column),0.0=)", "text_form_bad_value"),
        ("edited(builtin(name=loud_column),0.0)", "text_form_bad_value"),
        ("edited(builtin(name=loud_column),=1.0)", "source.edited_form"),
        ("edited(builtin(name=loud_column),)", "source.edited_form"),
        ("edited(builtin(name=loud_column),-1.0=1.0)", "source.edited_form"),
        ("edited(builtin(name=loud_column),０.０=1.0)", "source.edited_form"),
        ("edited(builtin(name=loud_column),999999.0=1.0)", "source.edited_form"),
        ("edited(builtin(name=gone),0.0=1.0)", "source.unknown_builtin"),
        ("edited(builtin(name=loud_column),0.0=1.0", "text_form_unreadable"),
        ("edited()", "text_form_unreadable"),
        ("edited", "source.unknown"),
        ("edited.0.0=1.0", "text_form_unreadable"),
        ("edited(upload,0.0=1.0)", "link.upload"),
        ("edited(normal(rows=257,cols=256),0.0=1.0)", "source.edited_too_large"),
        (f"edited({FORM},1.1=1.0)", "source.edited_form"),
        ("edited(as_matrix(builtin(name=loud_column)),1.1=1.0)", "source.edited_form"),
        ("edited(" * 500, "text_form_unreadable"),
        ("edited(" * 200 + "normal" + ")" * 200, "source.edited_form"),
        (
            f"edited(normal,{','.join(f'{i}.{j}=1.0' for i in range(13) for j in range(5))})",
            "source.edited_too_many",
        ),
    ],
)
def test_what_no_link_of_ours_says_is_refused(form, key):
    with pytest.raises(QuantVizError) as caught:
        parse_source(form)
    assert caught.value.key == key
    assert all(caught.value.message(language) for language in languages())
    state, problems = LabState.read({"v": "1", "t": form})
    assert (state, [problem.key for problem in problems]) == (opening(), ["link.part"])


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_damaged_form_is_read_or_refused(data):
    form = list(data.draw(st.sampled_from([FORM, f"as_matrix({FORM})", FORM.replace("builtin", "typed")])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(form) - 1))
        form[at : at + data.draw(st.integers(0, 2))] = data.draw(st.text("0129.,=()-+einfa_", max_size=3))
        form = form or ["("]
    state, problems = LabState.read({"v": "1", "t": "".join(form), "c": "2.3"})
    assert all(problem.message(language) for problem in problems for language in languages())
    # Whatever was read is written and read as the same.
    assert LabState.read(state.written()) == (state, ())
    assert not list(state.source.problems())


def test_no_cells_is_the_source_itself():
    assert parse_source("edited(builtin(name=loud_column))") == LOUD
    assert Edited.of(LOUD, {}) is LOUD
    assert LOUD.unedited is LOUD
    assert with_cell(LOUD, (1, 1), 2.0).unedited is LOUD


def test_the_longest_link_is_read():
    source = Normal(256, 256, 2**32 - 1, -1.2345678901234567e-10, 1.2345678901234567e-10)
    for i in range(MOST_EDITS):
        source = with_cell(source, (255, 100 + i), -1.1754943508222875e-38)
    state = opening().with_source(source)
    assert sum(map(len, {**state.written(), "lang": "zh"}.values())) < LONGEST / 2
    assert LabState.read(state.written()) == (state, ())


def test_a_matrix_of_it_and_it_in_a_matrix_are_one():
    typed = Typed(tuple(map(float, range(24))), (2, 3, 4))
    upload = Upload("0", "a.pt · w", (2, 3, 4))
    assert with_cell(AsMatrix(typed), (1, 5), -3.0) == AsMatrix(with_cell(typed, (1, 1, 1), -3.0))
    both = with_cell(AsMatrix(upload), (1, 5), -3.0)
    assert both == AsMatrix(with_cell(upload, (1, 1, 1), -3.0))
    assert (both.edits, both.original.edits) == ((((1, 5), -3.0),), (((1, 1, 1), -3.0),))
    assert (both.unedited, both.unedited.original) == (AsMatrix(upload), upload)
    assert with_cell(both, (1, 5), None) == AsMatrix(upload)
    assert both.link_problem().key == "link.upload"
    assert write_source(both) == "upload"
    assert AsMatrix(upload).unedited == AsMatrix(upload)


def test_typed_numbers_are_typed_anew():
    typed = Typed.of([[1.0, math.nan], [3.0, 4.0]])
    assert with_cell(typed, (1, 0), 0.1) == Typed.of([[1.0, math.nan], [0.1, 4.0]])
    assert with_cell(typed, (0, 1), 5).finite
    assert with_cell(typed, (0, 0), None) is typed
    assert parse_source(f"edited({typed.link_text()},1.0=0.1)") == with_cell(typed, (1, 0), 0.1)
    with pytest.raises(QuantVizError):
        with_cell(typed, (2, 0), 1.0)
    with pytest.raises(QuantVizError):
        with_cell(typed, (0, 0), math.inf)
    with pytest.raises(QuantVizError) as caught:
        with_cell(Typed((0.0,) * 257 * 256, (257, 256)), (0, 0), 1.0)
    assert caught.value.key == "source.edited_too_large"


def test_it_answers_as_its_source_does():
    upload = Upload("00", "a.gguf · w", (2, 2))
    local = LocalTensor("a.npy", "x", (2, 2))
    for source in (upload, local, Builtin("course_w8a32"), Normal(4, 4)):
        edited = with_cell(source, (1, 1), 3.5)
        assert (edited.shape, edited.kind, edited.axes) == (source.shape, source.kind, source.axes)
        assert (edited.finite, edited.stored_as) == (source.finite, source.stored_as)
        assert edited.original is edited
        assert edited.place_of((1, 0)) == (1, 0) == edited.cell_of((1, 0))
        assert not edited.shared
        assert edited.stem == f"{source.stem}-edited"
        assert pickle.loads(pickle.dumps(edited)) == edited
        assert edited != source
        problem, own = edited.link_problem(), source.link_problem()
        assert (problem and problem.key) == (own and own.key)
    assert with_cell(LOUD, (0, 0), 1).title("en") == "one loud column, 1 cell changed"
    assert with_cell(with_cell(LOUD, (0, 0), 1), (0, 1), 1).title("en") == "one loud column, 2 cells changed"
    assert "2 个单元格" in with_cell(with_cell(LOUD, (0, 0), 1), (0, 1), 1).title("zh")
    code = with_cell(local, (0, 0), 1.0).code(False, "en")
    assert code[-2:] == ["    x = tensors.load('x')", "x[0, 0] = 1.0"]


def test_an_upload_is_opened_where_it_lies():
    upload, x = Upload("00", "a.npy", (2, 2)), torch.ones(2, 2)

    class Hand(OpenedFiles):
        def uploaded(self, source):
            assert source == upload
            return InMemory(x)

    edited = with_cell(upload, (0, 1), 7.0)
    assert edited.open(Hand()).read((slice(None),) * 2).tolist() == [[1, 7], [1, 1]]
    assert x.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(QuantVizError):
        edited.open()


def test_a_problem_of_either_is_told():
    gone = Edited(Normal(0, 4), (((0, 0), 1.0),))
    assert [problem.key for problem in gone.problems()] == ["source.limits", "index_out_of_range"]
