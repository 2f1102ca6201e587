"""Pages whose work takes too long: what they say, and that they stand all the same."""

import pytest

import quantviz as qv
from quantviz.sources import parse_source
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.lab.range import range_tab
from tests.helpers.session import healthy, opened, turned


@pytest.mark.parametrize(
    ("tab", "work"), [("blame", (blame_tab, "_found")), ("range", (range_tab, "_compared"))]
)
def test_a_tab_without_what_takes_too_long_says_so_and_the_page_is_there(monkeypatch, tab, work):
    def too_long(*_):
        raise qv.QuantVizError("work.too_long", seconds="44")

    monkeypatch.setattr(*work, too_long)
    at = turned(opened(lang="en"), tab)
    assert ["more than 44 s" in each.value for each in at.warning] == [True]
    assert healthy(at).get("plotly_chart")


def test_a_search_that_takes_too_long_stays_chosen_and_the_page_shows_it_without(monkeypatch):
    from quantviz.ui.components import tensor_cache

    def too_long(name, work):
        raise qv.QuantVizError("work.too_long", seconds="44")

    monkeypatch.setattr(tensor_cache, "heavily", too_long)
    searched = "int4,symmetric,per_group(size=2),mse,course"
    at = healthy(opened(lang="en", t="normal(rows=64,cols=66,seed=98)", s=searched))
    assert any("more than 44 s" in each.value for each in at.warning)
    now = at.session_state["lab_state"].now
    assert str(now.scheme) == searched.replace("mse", "min_max")
    assert str(now.chosen) == searched
    assert any("takes too long here" in each.value for each in at.caption)
    assert at.get("plotly_chart")
    # The choice is not lost: the next tensor, which is small, has it.
    assert str(now.with_source(parse_source("normal(rows=4,cols=4,seed=1)")).scheme) == searched
