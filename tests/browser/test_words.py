"""What the browser writes while a hand moves something are the server's own words: the cell's sentence, the
second lines of the numbers, the title of the codes, the label of the error's colours.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import quantviz as qv
from quantviz.analysis.study import Study
from quantviz.browser import read_script
from quantviz.compiled.javascript import layout_spec, write_metrics
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.export.cell_words import sentence
from quantviz.figures.arrangement import PanelsStyle
from quantviz.figures.numbers import WRITING, digits_for, number, text_width
from quantviz.figures.panels import panels_figure
from quantviz.figures.panels_data import result_panels
from quantviz.lab.state import LabState, opening
from quantviz.live.hand_payload import number_text
from quantviz.live.hand_words import format_words, usual_bits, word_templates
from quantviz.quantization.explanation import causes
from quantviz.text import languages, templates, text
from quantviz.ui.lab.numbers.tiles import Tile, change_against, tiles
from quantviz.ui.shell import run_facts
from tests.helpers.browser_arithmetic import (
    HARD,
    SCRIPT,
    Cases,
    answer,
    calibrated_schemes,
    fitting,
    numbers,
    unusual,
)
from tests.helpers.golden_codes import golden_schemes
from tests.helpers.sample import sample_of
from tests.helpers.walked import TENSORS

WRITTEN = dataclasses.asdict(WRITING)
#: Gives the words of each case: of each cell its sentence, and the lines, in each language.
WORDS = """
window.worded = ({programs, layouts, tensors, cases, metrics, tables, writing}) => {
  const made = api.unpacked(programs).map(api.makeArithmetic);
  const laid = layouts.map(api.makeLayout);
  const values = tensors.map(floats);
  const formulas = api.makeParts(metrics);
  return cases.map(({program, layout, tensor, calibration, cells, formats, variant}) => {
    const r = api.quantizeTensor(made[program], values[tensor], laid[layout], {calibration});
    if (r.refused) return {refused: r.refused};
    const moments = api.momentsOf(r);
    const found = {...r, moments, metrics: api.metricsOf(formulas, moments, variant.bits, METRICS)};
    return tables.map((words, k) => ({
      sentences: cells.map((cell) =>
        sentenceOf(explainCell(made[program], r, laid[layout], cell), words, formats[k], writing)),
      lines: linesOf(found, words, variant, formulas.sqnr_db, writing),
    }));
  });
};
Object.assign(window, { metricChanges, digitsFor, edgeScales, labelsOfErrors });
Object.assign(window, { plainNumber, roomOf, textWidth, titleOf });
"""


@pytest.fixture(scope="module")
def page(blank_with):
    return blank_with(read_script("hand_component") + SCRIPT + WORDS)


@pytest.fixture(params=languages())
def spoken(request):
    """The language of the session."""
    token = run_facts._FACTS.set({"language": request.param})
    yield request.param
    run_facts._FACTS.reset(token)


def test_numbers_are_written_alike(page):
    values = [*numbers(), 1234500.0, 99995.0, 0.00009999951]
    for digits, plus in ((3, "+"), (4, ""), (8, "")):
        got = page.evaluate(
            "([values, digits, plus, writing]) => values.map((v) => plainNumber(v, digits, writing, plus))",
            [values, digits, plus, WRITTEN],
        )
        wanted = [number(value, digits, signed=bool(plus)) for value in values]
        wrong = [each for each in zip(values, got, wanted, strict=True) if each[1] != each[2]]
        assert not wrong, (digits, wrong[:5])
    strange = page.evaluate("(w) => [NaN, Infinity, -Infinity].map((v) => plainNumber(v, 4, w))", WRITTEN)
    assert strange == [number(float(each)) for each in ("nan", "inf", "-inf")]
    pairs = list(zip(values, reversed(values), strict=True))
    got = page.evaluate("(pairs) => pairs.map(([value, step]) => digitsFor(value, step))", pairs)
    assert got == [digits_for(*pair) for pair in pairs]
    titles = [each for language in languages() for each in templates("panels.title", language).values()]
    got = page.evaluate("(titles) => titles.map((each) => textWidth(each, 14))", titles)
    assert got == pytest.approx([text_width(title, 14) for title in titles])


def walked():
    """Schemes of every kind on tensors of every kind, thinly."""
    golden = (scheme for scheme in golden_schemes() if not scheme.search)
    tensors = itertools.cycle({**TENSORS, **HARD, **unusual()}.items())
    for scheme in (*sample_of(golden, 20), *sample_of(calibrated_schemes(), 6)):
        for name, x in itertools.islice(tensors, 2):
            if not x.isfinite().all():
                scheme = scheme.replace(nonfinite="ignore")
            if not scheme.problems(tuple(x.shape)) and fitting(scheme, x):
                yield scheme, name, x


def one_of_each_cause(r):
    """The first cell of each outcome that there is."""
    return np.unique(causes(r).numpy().ravel(), return_index=True)[1].tolist()


def wordings(page, walk):
    """Return each scheme of a walk with its result, the cells, and the browser's words for them."""
    cases, found = Cases(), []
    for scheme, name, x in walk:
        r = answer(x, scheme)
        if isinstance(r, qv.QuantVizError):
            continue
        shape, cells = tuple(x.shape), one_of_each_cause(r)
        bits = bits_per_element(scheme, shape)
        variant = {
            "kind": scheme.number_format.kind,
            "bits": bits,
            "usual_bits": usual_bits(scheme, bits),
            "layout": layout_spec(scheme.layout(shape), shape),
        }
        formats = [format_words(scheme, language) for language in languages()]
        cases.add(scheme, name, x, r, cells=cells, formats=formats, variant=variant)
        found.append((scheme, name, r, cells))
    source = opening().source
    tables = [
        {
            **word_templates(language),
            "axes": [{"axis": axis, "one": source.axes.words(axis, "one", language)} for axis in (0, 1)],
        }
        for language in languages()
    ]
    given = {**cases.given(), "metrics": write_metrics().packed(), "tables": tables, "writing": WRITTEN}
    made = page.evaluate("(given) => worded(given)", given)
    return list(zip(found, made, strict=True))


def saying(language):
    return lambda key, /, **values: text(key, language, **values)


def test_the_sentence_of_a_cell_is_the_servers(page):
    seen = set()
    wrong = []
    for (scheme, name, r, cells), made in wordings(page, walked()):
        assert "refused" not in made, (scheme, name, made)
        for cell, (k, language) in itertools.product(cells, enumerate(languages())):
            why = qv.explain(r, tuple(map(int, np.unravel_index(cell, r.shape))))
            seen.add(why.cause)
            got = made[k]["sentences"][cells.index(cell)]
            wanted = sentence(why, saying(language))
            if got != wanted:
                wrong.append((str(scheme), name, cell, got, wanted))
    assert not wrong, (len(wrong), wrong[:5])
    assert len(seen) == 5


def test_the_second_lines_are_the_servers(page, spoken):
    state = LabState.read({"t": "normal(rows=4,cols=256)", "c": "0.0"})[0]
    schemes = [
        qv.Scheme("int4"),
        qv.Scheme("uint4", "asymmetric", qv.PerGroup(8), qv.Percentile(90.0), nonfinite="ignore"),
        qv.Scheme("float8_e4m3fn", granularity=qv.PerChannel(0)),
        qv.Scheme("nf4", granularity=qv.PerGroup(64)),
    ]
    tensors = {name: TENSORS[name] for name in ("normal", "constant", "zeros", "zero_blocks", "ties")}
    walk = [(scheme, *x) for scheme in schemes for x in tensors.items()]
    walk += [(schemes[1], *x) for x in unusual().items()]
    for (scheme, name, r, _), made in wordings(page, walk):
        # Values that are not finite are of another width.
        own = state if r.shape == (4, 256) else LabState.read({"t": "normal(rows=4,cols=32)", "c": "0.0"})[0]
        wanted = {tile.key: tile.line for tile in tiles(Study.of_result(r), own.replace(scheme=scheme))}
        assert made[languages().index(spoken)]["lines"] == wanted, (str(scheme), name)


def test_the_changes_against_a_baseline_are_the_servers(page, spoken):
    raws = {
        "mse": [0.0, 1.2345, 1.2345 + 1e-12, 33.3, math.nan],
        "sqnr": [-3.0, 18.94, 18.942, math.inf, math.nan],
        "zeroed": [0.0, 0.8281, 1.0, 1e-7, 0.5],
        "clipped": [0.0, 0.25, 0.001, 0.5, 1.0],
        "bits": [4.0, 4.125, 8.0, 4.0625, 2.5],
    }
    for shift in range(5):
        now = {key: values[shift] for key, values in raws.items()}
        before = {key: values[0] if key == "bits" else values[1] for key, values in raws.items()}
        got = page.evaluate(
            """([now, before, words, writing]) => {
                const [mse, sqnr_db, zeroed_share, clipped_share, bits] = Object.values(now).map(Number);
                const metrics = { mse, sqnr_db, zeroed_share, clipped_share };
                return metricChanges(metrics, bits, before, words, writing);
            }""",
            [
                {key: number_text(value) for key, value in now.items()},
                {key: number_text(value) for key, value in before.items()},
                dict(word_templates(spoken)),
                WRITTEN,
            ],
        )
        for key, value in now.items():
            tile, other = (Tile(key, "", "", {}, raw) for raw in (value, before[key]))
            words, better = change_against(tile, other)
            if key == "mse" and shift == 2:  # the same but for the order of a sum
                words, better = change_against(other, other)
            assert got[key] == {"text": words, "better": better}, (key, value)


@pytest.mark.parametrize("width", [380, 1060])
def test_the_title_of_the_codes_is_the_servers(page, spoken, width):
    x = TENSORS["normal"][:, :16].reshape(8, 8)
    for format_id, granularity in itertools.product(
        ("int4", "nf4", "float8_e4m3fn"),
        (qv.PerTensor(), qv.PerChannel(0), qv.PerChannel(1), qv.PerGroup(2), qv.PerBlock(4, 8)),
    ):
        scheme = qv.Scheme(format_id, granularity=granularity)
        data = result_panels(qv.quantize(x, scheme))
        drawn = panels_figure(data, PanelsStyle(width=width, language=spoken)).to_dict()["layout"]
        wanted = next(each for each in drawn["annotations"] if each.get("name") == "q")
        assert data.blocks is not None
        live = {
            **{name: getattr(data, name) for name in ("top", "left")},
            **dict(zip(("rows", "cols"), data.shape, strict=True)),
            "blockOf": data.blocks.ids.ravel().tolist(),
            "scale": data.blocks.scale.astype(float).ravel().tolist(),
            "writing": WRITTEN,
        }
        variant = {"kind": scheme.number_format.kind, "format_words": format_words(scheme, spoken)}
        got = page.evaluate(
            """([live, variant, words, meta]) => {
                const room = roomOf(meta);
                return titleOf({ ...live, edge: edgeScales(live, room) }, variant, words, room);
            }""",
            [live, variant, dict(word_templates(spoken)), drawn["meta"]],
        )
        assert got == {"text": wanted["text"], "size": wanted["font"]["size"]}, str(scheme)


#: The labels at the ends of the error's colours; the errors are as they are shown.
LABELS = """([live, reach, words, writing]) => {
    live.error_view = { signed: true, over: null };
    return labelsOfErrors(live, reach, words, writing);
}"""


def labels_of(page, spoken, data, width, live):
    """The labels of the error's colours as the browser writes them, and as the server does."""
    drawn = panels_figure(data, PanelsStyle(width=width, language=spoken)).to_dict()["layout"]
    given = [live, drawn["meta"]["reach"], dict(word_templates(spoken)), WRITTEN]
    got = [label and label["text"] for label in page.evaluate(LABELS, given)]
    return got, list(drawn["coloraxis4"]["colorbar"]["ticktext"])


@pytest.mark.parametrize("follows", ["fit", "half_step", "same_as_x"])
def test_the_labels_of_colours_that_follow_something_are_the_servers(page, spoken, follows):
    r = qv.quantize(TENSORS["normal"][:, :16].reshape(8, 8), qv.Scheme("int4"))
    for view, width in itertools.product(("signed", "absolute"), (380, 1060)):
        data = dataclasses.replace(result_panels(r, error_view=view), error_follows=follows)
        lo, hi = data.error_range
        live = {"error": [], "scales": {"error": {"lo": lo, "hi": hi}}}
        got, wanted = labels_of(page, spoken, data, width, live)
        assert got == wanted, (view, width)
        assert " " in wanted[0]


@pytest.mark.parametrize("width", [380, 1060])
def test_the_label_of_held_colours_is_the_servers(page, spoken, width):
    r = qv.quantize(TENSORS["normal"][:, :16].reshape(8, 8), qv.Scheme("int4"))
    seen = set()
    for view, times in itertools.product(("signed", "absolute", "steps"), (0.5, 0.996, 1.0, 2.345, 123.4)):
        plain = result_panels(r, error_view=view)
        reach = float(np.abs(plain.shown_error).max())
        # Colours are held at a number of three digits.
        data = result_panels(r, error_view=view, error_range=float(f"{reach / times:.3g}"))
        live = {"error": data.shown_error.ravel().tolist()}
        (got, *_), (wanted, *_) = labels_of(page, spoken, data, width, live)
        assert got == wanted, (view, times)
        seen.add(wanted.partition(" ")[2])
    assert len(seen) >= 3
    fitted = panels_figure(result_panels(r), PanelsStyle(width=width)).to_dict()["layout"]
    assert "reach" not in fitted["meta"]
