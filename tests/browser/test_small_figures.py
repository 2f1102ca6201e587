"""No words run into each other or out of the histograms and the recipe plot, at any width."""

import json

import pytest

import quantviz as qv
from quantviz.analysis.recipe_ranking import recipe_rows, row_of
from quantviz.figures.histograms import HISTOGRAM_CONFIG, histogram_data, histogram_figure
from quantviz.figures.recipe_plot import RecipePlotStyle, recipe_plot_figure
from quantviz.lab.scenarios import SCENARIOS
from quantviz.streaming.measuring import measured
from quantviz.text import languages
from tests.helpers.sample import sample_of

WIDTHS = (340, 700, 1100)

#: Pairs of texts whose boxes overlap by more than a pixel, and texts that stick out of the picture.
CROWDED = """root => {
    const frame = root.getBoundingClientRect();
    const shown = [...root.querySelectorAll("text")]
        .filter(each => each.textContent.trim() && each.getClientRects().length)
        .map(each => [each.textContent.trim(), each.getBoundingClientRect()])
        .filter(([, box]) => box.width > 0);
    const found = [];
    shown.forEach(([words, box], i) => {
        const sideways = box.left < frame.left - 1 || box.right > frame.right + 1;
        const upright = box.top < frame.top - 2 || box.bottom > frame.bottom + 2;
        if (sideways || upright) found.push(["outside", words]);
        for (const [other, its] of shown.slice(i + 1)) {
            const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
            const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
            // Boxes are as high as a line, words are not: lines may come closer than their boxes.
            if (across > 1 && down > 0.4 * Math.min(box.height, its.height)) found.push([words, other]);
        }
    });
    return found;
}"""


def results():
    for name, scenario in SCENARIOS.items():
        yield name, qv.quantize(scenario.source.tensor(), scenario.scheme), scenario.cell
    x = SCENARIOS["clip_one_percent"].source.tensor()[:16, :32]
    yield "int16", qv.quantize(x, qv.Scheme("int16", "asymmetric")), (1, 2)
    yield "tiny", qv.quantize(x * 1e-9, qv.Scheme("uint16", "asymmetric")), (3, 3)
    yield "far_clipped", qv.quantize(x, qv.Scheme("int4", calibration=qv.ManualRange(-0.01, 0.01))), (2, 2)
    yield "all_zero", qv.quantize(x * 0, qv.Scheme("int4")), (0, 0)


RESULTS = {name: (r, cell) for name, r, cell in results()}


def crowded(page, selector):
    return page.locator(selector).evaluate(CROWDED)


def test_crowding_is_noticed(new_page):
    page = new_page()
    words = "".join(
        f"<text x='{x}' y='20'>{said}</text>"
        for x, said in ((10, "some words"), (40, "other words"), (380, "beyond"))
    )
    page.set_content(f"<body style='margin:0'><svg role='img' width='400' height='40'>{words}</svg></body>")
    assert crowded(page, "svg[role=img]") == [["some words", "other words"], ["outside", "beyond"]]


def figures(r, language):
    data = histogram_data(r)
    yield "values", histogram_figure(data, "values", language=language)
    yield "errors", histogram_figure(data, "errors", language=language)
    yield "values_log", histogram_figure(data, "values", language=language, log_counts=True)
    yield (
        "recipes",
        recipe_plot_figure(
            recipe_rows(r.x, current=r.scheme), row_of(measured(r)), RecipePlotStyle(language)
        ),
    )


@pytest.mark.nightly
@pytest.mark.parametrize("language", sample_of(languages(), 1))
def test_the_plots_have_room_on_a_phone(new_page, language):
    from plotly.offline import get_plotlyjs

    page = new_page(width=1100, height=300)
    page.set_content("<body style='margin:0'><div id='plot'></div></body>")
    page.add_script_tag(content=get_plotlyjs())
    for name, (r, _) in RESULTS.items():
        for kind, figure in figures(r, language):
            figure.layout.width = WIDTHS[0]
            page.evaluate(
                "([figure, config]) => Plotly.newPlot('plot', figure.data, figure.layout, config)",
                [json.loads(figure.to_json()), dict(HISTOGRAM_CONFIG)],
            )
            assert page.locator("#plot text").count() > 6
            assert crowded(page, "#plot .svg-container") == [], (name, kind)
