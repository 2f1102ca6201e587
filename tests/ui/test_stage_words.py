"""What the Lab's tabs say, from numbers alone: parts by name, places, marks of a language."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.analysis.engine_comparison import compare
from quantviz.analysis.study import Study
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import stored_bits
from quantviz.lab.classroom import Classroom
from quantviz.lab.state import LabState
from quantviz.sources import Builtin, Normal
from quantviz.tensors.views import View
from quantviz.text import text
from quantviz.ui.components import small_parts
from quantviz.ui.lab import stage
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.lab.compare import compared_engines
from quantviz.ui.lab.numbers.tiles import tiles
from quantviz.ui.lab.picture import tensor_panels
from quantviz.ui.shell import words

#: A tensor of 8 × 8 in the Lab, whose cells, rows and columns are named.
NAMED = LabState(Builtin("loud_column"), qv.Scheme("int4"), View.of((8, 8)), (0, 0))


def test_many_cells_are_named_by_what_they_cost_and_by_where_they_gather():
    numbers = (3, 11, 12, 27, 35, 60)
    suspects = [SimpleNamespace(number=each) for each in (27, 35, 1)]
    blame = SimpleNamespace(parts=qv.Flat(1), suspects=suspects)
    assert blame_tab._costliest_first(blame, numbers) == [27, 35, 3, 11, 12, 60]
    assert blame_tab._gathered(blame, numbers, NAMED) == "4 of these cells lie in column 3."
    assert blame_tab._gathered(blame, (0, 9, 18, 27, 36, 45, 54, 63), NAMED) == ""
    assert blame_tab._gathered(blame, (3, 11), NAMED) == ""


def test_the_costliest_is_named_where_none_is_worth_its_bits():
    """That keeping a column does not pay was told as if none were to blame."""
    costliest = SimpleNamespace(number=6, caused_share=0.112)
    blame = SimpleNamespace(parts=qv.PerChannel(1), costliest=costliest, choice=None, remedies=())
    told = blame_tab._answer(blame, NAMED)
    assert "The costliest is column 6: it alone causes 11 % of the error." in told
    blame.costliest = None
    assert "the error is spread over all of them" in blame_tab._answer(blame, NAMED)


@pytest.mark.parametrize(
    ("parts", "numbers", "view", "lit"),
    [
        (qv.PerChannel(1), (2, 4), View.of((3, 5)), {(0, 2), (1, 2), (2, 2), (0, 4), (1, 4), (2, 4)}),
        (qv.PerChannel(0), (1,), View(0, 1, (0, 0), 1, 3, 2, 2), {(0, 0), (0, 1)}),
        (qv.Flat(1), (4, 8), View(0, 1, (0, 0), 1, 2), {(0, 1)}),
        (qv.PerChannel(0), (1,), View(1, 2, (1, 0, 0)), {(0, 0), (0, 1)}),
        (qv.PerChannel(0), (1,), View(1, 2, (0, 0, 0)), set()),
        (qv.Flat(1), (3, 1), View(1, 2, (1, 0, 0)), {(0, 1)}),
        (qv.Flat(1), (3,), View.of((5,)), {(0, 3)}),
    ],
)
def test_the_cells_in_view_that_belong_to_parts(parts, numbers, view, lit):
    shape = (3, 5) if len(view.at) == 2 else (5,) if len(view.at) == 1 else (2, 1, 2)
    chosen = SimpleNamespace(parts=parts, choice=SimpleNamespace(numbers=numbers))
    seen = blame_tab.parts_in_view(chosen, shape, view)
    assert seen.shape == view.size(shape)
    assert set(zip(*map(list, np.nonzero(seen)), strict=True)) == lit


def test_a_name_keeps_its_small_letters_in_chinese():
    line = text("calibrations.mse_llmcompressor.line", "zh", maxshrink=0.2, grid=100)
    assert words.capital(line).startswith("llm-compressor 的 MSE，")
    assert words.capital("least squared error") == "Least squared error"


def test_names_that_do_not_fit_have_the_marks_of_their_language(monkeypatch):
    shown, problem = [], QuantVizError("no_such_block", block=(1,), grid=(1,))
    folds = []
    monkeypatch.setattr(small_parts.st, "caption", shown.append)
    monkeypatch.setattr(small_parts.st, "expander", lambda label, **_: folds.append(label) or nullcontext())
    for language in ("en", "zh"):
        monkeypatch.setattr(words, "language", lambda _=language: _)
        monkeypatch.setattr(small_parts, "say_error", lambda _: "…")
        refused = ((name, problem) for name in ("a", "b"))
        small_parts.show_refused(refused, "recipes.do_not_fit", shape="2 × 2")
    assert shown == ["Not possible here: a, b. …", "这里不可用：a；b。…"]
    assert folds == ["2 recipes do not fit 2 × 2 · why", "2 个配方不适合 2 × 2 · 原因"]


def test_all_of_some_parts_that_are_to_blame_together_are_named():
    """Of six columns two were "2 more", and no table said which."""
    assert blame_tab._names(qv.PerChannel(1), range(6), NAMED).endswith("0, 1, 2, 3, 4, 5")
    # Of more than one sentence holds, a fold names all.
    few, many = (SimpleNamespace(k=k, numbers=tuple(range(k))) for k in (8, 12))
    blame = SimpleNamespace(parts=qv.PerChannel(1), choice=few)
    assert not blame_tab._all_chosen(blame, NAMED)
    blame.choice = many
    assert "4 more" in blame_tab._names(blame.parts, many.numbers, NAMED)
    assert blame_tab._all_chosen(blame, NAMED).endswith(", ".join(map(str, range(12))))


@pytest.mark.parametrize(
    ("granularity", "shape", "block", "words"),
    [
        (qv.PerGroup(16, axis=1), (4096, 11008), (3999, 687), "row 3999, columns 10992–11007"),
        (qv.PerChannel(1), (64, 128), (0, 5), "column 5"),
        (qv.PerTensor(), (64, 128), (0, 0), "the whole tensor"),
        (qv.PerBlock(4, 8), (3, 64, 128), (1, 2, 0), "axis 0: 1, rows 8–11, columns 0–7"),
        (qv.Flat(64), (64, 128), (3,), "row 1, columns 64–127"),
        (qv.Flat(256), (64, 128), (1,), "rows 2–3"),
        (qv.Flat(192), (6, 128), (1,), "cells (1, 64) to (2, 127)"),
        (qv.Flat(2, strided=True), (4, 8), (0, 2), "from (0, 2) on, every 16 cells"),
    ],
)
def test_a_blocks_place_in_the_tensor_is_told_in_words(monkeypatch, granularity, shape, block, words):
    monkeypatch.setattr(tensor_panels, "say", lambda key, **params: text(key, "en", **params))
    assert tensor_panels.block_words(granularity.layout(shape), shape, View.of(shape), block) == words


@pytest.mark.parametrize(
    ("hidden", "left"),
    [
        ({"tiles.sqnr"}, ["cell", "compare"]),
        ({"range"}, ["cell", "compare"]),
        ({"error"}, ["cell", "range", "compare"]),
        ({"recipes", "compare", "actions"}, ["cell", "range"]),
        ({"range", "recipes", "compare", "actions"}, ["cell"]),
    ],
)
def test_a_tab_that_would_tell_what_is_hidden_is_not_offered(monkeypatch, hidden, left):
    monkeypatch.setattr(stage, "classroom", Classroom)
    monkeypatch.setattr(stage, "visible", lambda part: part not in hidden)
    assert list(stage.offered_tabs(NAMED)) == left


def engines(source, form, other, light="either"):
    """The engines beside each other under a scheme, as the tab Compare has them."""
    scheme = qv.Scheme(form)
    found = compare(source.tensor(), scheme)
    kept = compared_engines.EngineComparisonResults("", found, tuple(found.results), {})
    return compared_engines.ComparisonView(kept, "course", other, light)


def test_where_a_pixel_stands_for_many_cells_the_map_tells_how_many_differ():
    shown = engines(Normal(300, 50), "int3", "torchao")
    lit = compared_engines.seen(shown.lit, View.of((300, 50)))
    pixels = SimpleNamespace(row_edges=np.arange(7, 308, 3), col_edges=np.arange(4, 55, 2))
    shares = compared_engines._lit_share(lit, pixels)
    np.testing.assert_allclose(shares, lit.reshape(100, 3, 25, 2).mean((1, 3)), rtol=1e-6)
    assert 0 < shares.mean() < 1


@pytest.mark.parametrize(
    ("other", "ways"),
    [
        # Only what was not done yet, and what leaves few enough to frame: there code or value light up whole
        # areas.
        (None, ["one", "either"]),
        ("microxcaling", ["either"]),
    ],
)
def test_the_advice_on_too_many_cells_is_what_helps_and_was_not_followed(monkeypatch, other, ways):
    monkeypatch.setattr(words, "language", lambda: "en")
    shown = engines(Normal(128, 128), "int8", other, "code")
    view = View.of((128, 128))
    assert not compared_engines.can_be_framed(shown.lit, view)
    said = [text(f"compare.frame_by_{way}", "en") for way in ways]
    assert compared_engines._ways_to_frame(shown, view) == said


def test_what_is_stored_is_told_for_every_recipe():
    """The tile's parts add up to its number."""
    state, _ = LabState.read({"t": "normal(rows=4,cols=256)", "c": "0.0"})
    x = torch.randn(4, 256, generator=torch.Generator().manual_seed(0))
    for scheme in qv.RECIPES.values():
        r = qv.quantize(x, scheme)
        own = {tile.key: tile for tile in tiles(Study.of_result(r), state.replace(scheme=scheme))}
        stored = stored_bits(scheme)
        blocks, rows = r.layout.block_count, r.shape[0]
        beside = (stored.scale + stored.zero_point) * blocks + stored.row * rows + stored.tensor
        assert own["bits"].raw == stored.code + beside / r.x.numel()
        assert str(stored.scale) in own["bits"].facts["block"]
        assert bool(own["bits"].facts["tensor"]) == bool(stored.tensor or stored.row)
        assert ("0.289" in own["mse"].facts["steps"]) == (scheme.number_format.kind == "integer")
