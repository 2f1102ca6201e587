"""Every source keeps the contract: words in both languages, a text form, a shape, a tensor of that shape."""

import ast
from pathlib import Path

import pytest
import torch

import quantviz
from quantviz.errors import QuantVizError
from quantviz.sources import SOURCES, Builtin, parse_source, write_source
from quantviz.sources.builtin import BUILTINS
from quantviz.text import catalogue, languages
from tests.helpers.code import nodes, parsed

EXAMPLES = [
    *map(Builtin, BUILTINS),
    *(kind(rows=17, cols=9, seed=3) for id_, kind in SOURCES.items() if id_ != "builtin"),
]


@pytest.mark.parametrize("source", EXAMPLES, ids=write_source)
def test_a_source_keeps_the_contract(source):
    assert parse_source(write_source(source)) == source
    assert hash(parse_source(write_source(source))) == hash(source)
    assert not list(source.problems())
    tensor = source.tensor()
    assert tensor.dtype == torch.float32
    assert tuple(tensor.shape) == source.shape
    assert bool(torch.isfinite(tensor).all())
    assert torch.equal(tensor, source.tensor())
    # Nobody's changes reach the next caller.
    tensor.zero_()
    assert source.tensor().abs().sum() > 0


@pytest.mark.parametrize("language", languages())
def test_every_source_has_words(language):
    words = catalogue(language)
    for key in (*SOURCES, *(f"builtin.{name}" for name in BUILTINS)):
        assert words[f"sources.{key}.name"]
    for kind in SOURCES.values():
        for field in getattr(kind, "limits", ()):
            assert words[f"source_fields.{field}"]


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("nothing", "source.unknown"),
        ("builtin(name=nothing)", "source.unknown_builtin"),
        ("builtin", "text_form_missing_field"),
        ("normal(rows=16385)", "source.limits"),
        ("normal(cols=0)", "source.limits"),
        ("normal(rows=-1)", "source.limits"),
        ("normal(rows=2.5)", "text_form_bad_value"),
        ("normal(seed=4294967296)", "source.limits"),
        ("normal(seed=-1)", "source.limits"),
        ("normal(std=-1)", "source.limits"),
        ("normal(mean=1e31)", "source.limits"),
        ("normal(mean=nan)", "text_form_bad_value"),
        ("normal(mean=1e999)", "text_form_bad_value"),
        ("normal(colour=3)", "text_form_unknown_field"),
        ("uniform(lo=2,hi=1)", "source.order"),
        ("student_t(df=0.5)", "source.limits"),
        ("loud_rows(every=0)", "source.limits"),
        ("one_outlier(rows=4,row=4)", "source.place"),
        ("one_outlier(row=16384)", "source.limits"),
        ("normal(rows=4097,cols=4096)", "source.too_many"),
        ("all_positive(scale=0)", "source.limits"),
        ("loud_channels(cols=4,channels=5)", "source.channels"),
        ("loud_channels(channels=-1)", "source.limits"),
        ("after_gelu(std=-1)", "source.limits"),
        ("normal(", "text_form_unreadable"),
    ],
)
def test_what_cannot_be_is_refused(form, key):
    with pytest.raises(QuantVizError) as caught:
        parse_source(form)
    assert caught.value.key == key
    for language in languages():
        assert caught.value.message(language)


@pytest.mark.parametrize(
    "bad",
    [
        {"rows": 2.0},
        {"rows": True},
        {"rows": "8"},
        {"seed": None, "rows": None},
        {"std": "1"},
        {"std": float("nan")},
    ],
)
def test_wrong_types_are_problems_not_crashes(bad):
    source = SOURCES["normal"](**bad)
    if None not in bad.values():
        assert list(source.problems())
        with pytest.raises(QuantVizError):
            source.tensor()


def test_the_largest_numbers_stay_in_float32():
    big = 1e30
    for id_, fields in {
        "normal": {"mean": big, "std": big},
        "laplace": {"mean": -big, "scale": big},
        "uniform": {"lo": -big, "hi": big},
        "student_t": {"df": 1.0},
        "bimodal": {"distance": big, "std": big},
        "loud_rows": {"every": 1, "factor": big},
        "loud_columns": {"every": 1, "factor": -big},
        "one_outlier": {"value": big},
        "all_positive": {"scale": big},
        "loud_channels": {"channels": 512, "factor": -big},
        "after_gelu": {"mean": -big, "std": big},
    }.items():
        assert bool(torch.isfinite(SOURCES[id_](rows=512, cols=512, **fields).tensor()).all()), id_


#: The controls of one kind of source, which show and change what only that kind has: the text that was typed,
#: a file of the folder or of a published model and a tensor in it, the name of a built-in tensor.
CONTROLS = {
    *(("sidebar.py", "Typed"), ("files.py", "LocalTensor"), ("sidebar.py", "Builtin")),
    ("files.py", "HubTensor"),
}


def test_nobody_asks_a_source_for_its_class():
    """Sources answer for themselves: outside their package only the controls of one kind look whether a
    source is theirs.
    """
    package = Path(quantviz.__file__).parent
    classes = {
        node.name
        for path in (package / "sources").glob("*.py")
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef)
        and {ast.unparse(base) for base in node.bases} & {"Source", "Derived", "InFile", "_Random"}
    }
    assert {"Upload", "Typed", "LocalTensor", "AsMatrix", "Builtin", "Normal"} <= classes
    asked = {
        (path.name, name.id)
        for path in package.rglob("*.py")
        if package / "sources" not in path.parents
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        for name in ast.walk(node.args[1])
        if isinstance(name, ast.Name) and name.id in classes
    }
    assert asked == CONTROLS
