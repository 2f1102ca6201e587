"""The file of a page without a server: how large it is, and which tensors it can hold."""

from importlib import resources

import pytest
import torch

import quantviz as qv
from quantviz.analysis.study import Study
from quantviz.lab.state import opening
from quantviz.live.hand_words import Looks
from quantviz.live.page_file import heatmap_script
from quantviz.live.standalone import LivePage
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.formulas import HERE
from quantviz.ui.components.lesson_place import LessonPlace
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.step import page_of as page_of_step

#: Bytes of a page with plotly and without it.
WITH_PANELS, WITHOUT = 2_000_000, 400_000
#: The step whose page is the largest of all: `test_no_step_is_larger`.
LARGEST_STEP = ("per_group", 5)


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
    assert len(page.html().encode()) <= WITH_PANELS


def size_of_step(lesson, number):
    """The bytes of a step's page; 0 where its picture is no tensor that a browser quantizes."""
    whole = lessons("en")[lesson]
    step = whole.steps[number - 1]
    scenes = step.scenes(0)
    if HERE not in scenes:
        return 0
    page = page_of_step(Now(LessonPlace(lesson, number - 1), whole, step, scenes, 0))
    return 0 if page.problem else len(page.html().encode())


def test_the_largest_step_of_a_lesson_is_small():
    assert size_of_step(*LARGEST_STEP) <= WITH_PANELS


@pytest.mark.nightly
def test_no_step_is_larger():
    steps = [(name, at) for name, each in lessons("en").items() for at in range(1, len(each.steps) + 1)]
    sizes = {step: size_of_step(*step) for step in steps}
    assert max(sizes, key=sizes.get) == LARGEST_STEP


def test_the_part_of_plotly_s_script_is_a_third_of_it():
    whole = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    assert len(heatmap_script()) < len(whole) / 3


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
