"""The file of a page without a server: how large it is, and which tensors it can hold."""

import pytest
import torch

import quantviz as qv
from quantviz.analysis.study import Study
from quantviz.lab.state import opening
from quantviz.live.hand_words import Looks
from quantviz.live.standalone import LivePage

#: Bytes of a page with plotly and without it.
WITH_PANELS, WITHOUT = 2_000_000, 400_000


def page_of(x, scheme, **options):
    return LivePage.of(Study.of_result(qv.quantize(x, scheme)), "x", Looks("zh", "dark"), **options)


@pytest.mark.parametrize(("panels", "most"), [(True, WITH_PANELS), (False, WITHOUT)])
def test_a_page_is_small(panels, most):
    state = opening()
    study = Study.of(state.source.open(), state.scheme)
    page = LivePage(study, "x", state.cell, Looks("en"), panels).html()
    assert len(page.encode()) <= most


def test_the_largest_tensor_of_any_format_leaves_it_small():
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    page = page_of(x, qv.Scheme("nf4", granularity=qv.PerGroup(16)))
    assert len(page.html().encode()) <= 2**21


@pytest.mark.parametrize(
    ("shape", "scheme"), [((65, 64), "nf4,symmetric,per_tensor,min_max,course"), ((257, 256), "int4_per_row")]
)
def test_a_tensor_that_a_browser_cannot_hold_is_refused_with_the_way_out(shape, scheme):
    page = page_of(torch.ones(shape), scheme)
    with pytest.raises(qv.QuantVizError, match="at most"):
        page.html()


def test_it_opens_at_the_cell_of_the_largest_error():
    x = torch.tensor([[0.0, 7.0, 1.0], [0.2, 2.0, 3.4]])
    assert page_of(x, "int4_per_tensor").cell == (1, 2)
