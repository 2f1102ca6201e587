"""The stage's tabs in the Lab: which are there, which is open, and what a press there changes."""

import html
import re

import pytest

import quantviz as qv
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.lab.compare import compare_tab
from quantviz.ui.lab.range import range_tab
from tests.helpers.controls import controls, value_of, words_of
from tests.helpers.session import (
    act,
    address,
    bodies,
    numbers,
    opened,
    packed,
    result,
    turned,
)


def tabs(at):
    return [words_of(at, field) for field in controls(at) if field == "stage_tab"]


def in_tab(name, **params):
    """The Lab with a tab of the stage open."""
    return turned(opened(**{"lang": "en", **params}), name)


def test_only_the_open_tab_is_computed(monkeypatch):
    made = []
    parts = {"range": (range_tab, "_compared"), "blame": (blame_tab, "_found")}
    parts["compare"] = (compare_tab, "recipe_rows_of")
    for tab, (module, name) in parts.items():
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, real=real, tab=tab: made.append(tab) or real(*given))
    at = opened()
    assert made == []
    for tab in parts:
        made.clear()
        turned(at, tab)
        assert set(made) == {tab}


@pytest.mark.parametrize(
    ("rule", "found"),
    [("min_max,course", "ranges"), ("mse,course", "ranges"), ("given(scale=0.25),course", None)],
)
def test_the_ruler_of_a_large_tensor_has_the_range_of_the_cells_own_block(rule, found):
    """The browser has three of its values: the range that these would have is the whole tensor's. Of a float
    format more than 64 × 64 are large.
    """
    scheme = f"float4_e2m1fn,symmetric,{'per_tensor' if found is None else 'per_group(size=65)'},{rule}"
    at = opened(t="one_outlier(rows=80,cols=130,row=60,col=31)", s=scheme, c="40.7", lang="en")
    header, arrays = packed(at, "-hand")
    assert header["far"]
    if found is None:
        assert header["found"] is None
        return
    assert header["found"] == {"id": found, "names": ["lo", "hi"]}
    ends = tuple(arrays[f"found_{name}"].item() for name in header["found"]["names"])
    block = qv.explain(result(at), (40, 7))
    assert ends == block.range


def test_the_tab_stays_open_while_the_scheme_changes_and_is_not_in_the_link():
    at = in_tab("range")
    before = address(at)
    act(at, bits=8)
    assert value_of(at, "stage_tab") == "range"
    assert address(at).keys() == before.keys()


def test_a_link_that_compares_engines_opens_the_comparison():
    at = opened(m="all")
    assert value_of(at, "stage_tab") == "compare"
    assert at.button(key="compare_open")
    # Who turns away from it is not brought back by each run.
    act(at, stage_tab="cell", bits=8)
    assert value_of(at, "stage_tab") == "cell"
    assert address(at)["m"] == "all"


@pytest.mark.parametrize(("tab", "key"), [("range", "range_use"), ("compare", "recipe_use")])
def test_an_answer_changes_the_scheme_unless_that_is_locked(tab, key):
    """What each brings is in `tests/ui/test_stage_tabs.py`."""
    assert in_tab(tab, k="lock-scheme").button(key=key).disabled
    at = in_tab(tab)
    before = address(at)["s"]
    assert address(act(at, key))["s"] != before


def test_a_projector_shows_the_cell_and_no_tabs():
    at = opened(k="projector", m="all")
    assert tabs(at) == []
    assert bodies(at, "qv-sentence")
    assert bodies(at, "qv-compare")


# ---- the numbers, the sections and the phone's bar ----------------------------------------------


def test_a_number_s_change_is_green_where_it_is_better():
    at = opened(b="int8,symmetric,per_tensor,min_max,course", lang="en")
    assert [number.key for number in numbers(at)] == ["mse", "sqnr", "zeroed", "clipped", "bits"]
    assert all(len(number.meaning) > 20 and number.line for number in numbers(at))
    body = bodies(at, "qv-numbers")[0]
    changes = re.findall(r'<em class="([\w-]*)"', html.unescape(body))
    assert changes == ["qv-worse", "qv-worse", "qv-worse", "", "qv-better"]
    assert body.count('tabindex="0"') == 5
