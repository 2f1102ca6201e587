"""What a notebook shows of a value: one line, or a small table."""

import copy
import pickle
from html.parser import HTMLParser

import pytest
import torch

import quantviz as qv
from quantviz.schemes.calibration import External
from quantviz.schemes.recipes import as_scheme, recipe_name
from quantviz.text import languages

X = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
RESULT = qv.quantize(X, "int4_g32")
SHOWN = {
    "result": RESULT,
    "result of parameters": qv.quantize(X, "int4_g32", qparams=RESULT.qparams),
    "result of one value": qv.quantize([float("inf"), float("nan")], qv.Scheme(nonfinite="ignore")),
    "explanation": qv.explain(RESULT, (0, 1)),
    "measured": qv.measure(X, "mxfp4"),
}


class Cells(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("value", SHOWN.values(), ids=SHOWN)
def test_a_value_is_one_short_line_and_a_small_table(value):
    assert "\n" not in repr(value)
    assert len(repr(value)) < 250
    html = value._repr_html_()
    assert len(html) < 5000
    assert len(Cells(html).texts) > 5


def test_an_explanation_shows_every_step():
    why = SHOWN["explanation"]
    texts = Cells(why._repr_html_()).texts
    assert [texts[i] for i in range(1, len(texts), 4)] == [step.code_line for step in why.steps]


def test_recipes_are_a_line_each():
    lines = repr(qv.RECIPES).splitlines()
    assert len(lines) == len(qv.RECIPES)
    for line, (name, scheme) in zip(lines, qv.RECIPES.items(), strict=True):
        assert line.split() == [name, str(scheme)]
    texts = Cells(qv.RECIPES._repr_html_()).texts
    assert texts[::3] == list(qv.RECIPES)
    assert texts[2::3] == [str(scheme) for scheme in qv.RECIPES.values()]
    with pytest.raises(TypeError):
        qv.RECIPES["mine"] = qv.Scheme()
    assert copy.deepcopy(qv.RECIPES) == pickle.loads(pickle.dumps(qv.RECIPES)) == qv.RECIPES


@pytest.mark.parametrize(
    "scheme",
    [
        *qv.RECIPES.values(),
        qv.Scheme(calibration=qv.Given(3.5)),
        qv.Scheme("int4").replace(calibration=External()),
    ],
)
def test_the_line_of_a_scheme_is_the_python_that_makes_it(scheme):
    assert eval(repr(scheme), {"Scheme": qv.Scheme, "External": External}) == scheme
    assert eval(repr(scheme.arithmetic), {"Convention": qv.Convention}) == scheme.arithmetic


def test_a_convention_made_by_hand_has_a_line_too():
    mine = qv.Convention("mine")
    assert "mine" in repr(mine)
    assert "mine" in repr(qv.Scheme(convention=mine))


# ---- schemes by what they are called ---------------------------------------------------------------


@pytest.mark.parametrize("name", qv.RECIPES)
def test_a_recipe_goes_by_its_id_and_its_names(name):
    names = {name, name.upper(), f" {name}\n"}
    for language in languages():
        for short in (False, True):
            called = recipe_name(name, language, short=short)
            names |= {called, called.upper()}
    # "ternary" is first of all a number format.
    for each in (each for each in names if each.strip().casefold() not in qv.FORMATS):
        assert as_scheme(each) == qv.RECIPES[name], each


def test_every_verb_takes_what_a_scheme_is_called():
    from quantviz.analysis.engine_comparison import compare
    from quantviz.analysis.recipe_ranking import recipe_rows

    scheme = qv.RECIPES["int4_g32"]
    for called in ("int4_g32", "INT4_G32", "int4 in groups of 32", str(scheme), scheme):
        r = qv.quantize(X, called)
        assert r.scheme == scheme
        assert torch.equal(r.q, RESULT.q)
        assert torch.equal(qv.choose_qparams(X, called).scale, RESULT.qparams.scale)
        assert torch.equal(qv.dequantize(r.q, called, r.qparams), RESULT.x_hat)
        assert qv.measure(X, called).scheme == scheme
        assert compare(X[:2], called, ["course"]).results["course"].scheme == scheme
    assert [row.id for row in recipe_rows(X[:2], current="int4_g32") if row.is_current] == ["int4_g32"]
    assert qv.quantize(X, "q4_0").scheme == qv.RECIPES["q4_0"]


@pytest.mark.parametrize("format_id", qv.FORMATS)
def test_a_format_alone_is_no_scheme_but_names_its_recipes(format_id):
    with pytest.raises(qv.QuantVizError) as refused:
        qv.quantize(X, format_id.upper())
    assert refused.value.key == "scheme_is_format"
    of_format = [name for name, scheme in qv.RECIPES.items() if scheme.format == format_id]
    assert all(name in str(refused.value) for name in of_format)
