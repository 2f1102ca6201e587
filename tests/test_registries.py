"""Each kind of thing has one registry; every other list of its names is here, with its reason.

A list that repeats a registry goes stale in silence when something is added. So a list elsewhere is derived
from the registry, or is a choice among its entries that an addition may well stay out of.
"""

import ast
import re

import pytest

import quantviz as qv
from quantviz.checkpoints.profiles import PROFILES
from quantviz.lab.scenarios import SCENARIOS
from quantviz.layers.built_in import BUILT_IN_LAYERS
from quantviz.layers.methods.chain import METHODS
from quantviz.sources.layouts import LAYOUTS
from quantviz.teaching.bug_handles import HANDLES
from quantviz.teaching.gallery import BUGS
from quantviz.teaching.golf import HOLES
from quantviz.ui.layers.method_tab import PICTURES
from tests.helpers import ROOT
from tests.helpers.code import nodes

#: A list is one of a registry's from so many names on, if they are half of it.
FEWEST = 3
#: Registries with their homes: the files of their entries. Formats are left out: dtypes of files bear the
#: same names.
REGISTRIES = {
    "methods": (METHODS, ()),
    "metrics": (qv.METRICS, ()),
    "granularities": (qv.GRANULARITIES, ("quantviz/schemes/engines.py",)),
    "calibrations": (qv.CALIBRATIONS, ()),
    "conventions": (qv.CONVENTIONS, ("quantviz/schemes/recipes.py",)),
    "recipes": (qv.ALL_RECIPES, ("quantviz/schemes/recipes.py", "quantviz/checkpoints/profiles")),
    "profiles": (PROFILES, ("quantviz/schemes/recipes.py",)),
    "layouts": (LAYOUTS, ("quantviz/sources/layouts/__init__.py", "quantviz/schemes/recipes.py")),
    "integer engines": (qv.INTEGER_ENGINES, ()),
    "built-in layers": (BUILT_IN_LAYERS, ("quantviz/layers/built_in.py",)),
    "scenarios": (SCENARIOS, ("quantviz/lab/scenarios.py",)),
    "bugs": (BUGS, ()),
    "holes": (HOLES, ()),
}
#: Lists elsewhere, by registry and file, each with the reason why an addition is not in it by itself.
ELSEWHERE = {
    ("methods", "quantviz/ui/layers/method_tab.py"): "pictures, which need streamlit: held below",
    ("methods", "quantviz/ui/checkpoints/captured.py"): "chosen at first, as each takes its time",
    ("methods", "quantviz/models/predicting.py"): "schemes that are tried, some of each kind",
    ("recipes", "quantviz/models/predicting.py"): "schemes that are tried, some of each kind",
    ("metrics", "quantviz/analysis/sampled_part.py"): "the numbers of one plot, measured of every recipe",
    ("metrics", "quantviz/checkpoints/results/stored_rows.py"): "a row without them is a damaged one",
    ("metrics", "quantviz/models/run_difference.py"): "of tensors that have no codes",
    ("metrics", "quantviz/streaming/measuring.py"): "the numbers of a line of repr",
    ("metrics", "quantviz/teaching/lessons/formulas.py"): "their digits, as tiles show them",
    ("metrics", "quantviz/ui/checkpoints/answer.py"): "as many columns as the page is wide",
    ("metrics", "quantviz/ui/lab/numbers/tiles.py"): "the tiles; all metrics are below the fold",
    ("metrics", "quantviz/browser/hand/hand.js"): "the numbers of the tiles while a hand moves",
    ("integer engines", "quantviz/quantization/code_norms.py"): "those of torch, which have one kernel of it",
    ("recipes", "quantviz/lab/attention_state.py"): "the recipes of a menu; a link takes any",
    ("recipes", "quantviz/lab/layer_state.py"): "the recipes of a menu; a link takes any",
    ("recipes", "quantviz/ui/checkpoints/model_state.py"): "formats of weights whose bits are not chosen",
    ("recipes", "quantviz/ui/checkpoints/state.py"): "chosen at first, as each takes its time",
    ("integer engines", "quantviz/quantization/code_sums.py"): "engines whose sums and averages are known",
    ("conventions", "quantviz/schemes/scheme.py"): "engines with an option for 7 bits",
    ("bugs", "quantviz/teaching/bug_handles.py"): "bugs that one number decides: held below",
}
#: Names between brackets, each with a comma.
_OF_JAVASCRIPT = re.compile(r"\[((?:\s*\"[\w.]+\",?)+\s*)\]")


def lists_of(path):
    """The literal lists, tuples, sets and keys of mappings in a file: the texts among their items."""
    if path.suffix == ".js":
        source = path.read_text(encoding="utf-8")
        yield from (re.findall(r'"([\w.]+)"', inside) for inside in _OF_JAVASCRIPT.findall(source))
        return
    for node in nodes(path):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            yield [
                each.value for each in items if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]


@pytest.fixture(scope="module")
def found():
    """The lists of names, by registry and file, outside of a registry's home."""
    there = {}
    paths = [path for ending in ("py", "js") for path in (ROOT / "quantviz").rglob(f"*.{ending}")]
    for path in [*paths, *(ROOT / "pages").rglob("*.py"), ROOT / "app.py"]:
        name = path.relative_to(ROOT).as_posix()
        for texts in lists_of(path):
            # A chain of methods, and a scheme, begin with a name.
            heads = {each.partition("(")[0] for each in texts}
            for registry, (ids, homes) in REGISTRIES.items():
                names = heads & set(ids)
                elsewhere = not name.startswith(homes or ("-",))
                if len(names) >= max(FEWEST, len(heads) / 2) and elsewhere:
                    there[registry, name] = sorted(names)
    return there


def test_no_list_repeats_a_registry(found):
    """To mend it, derive the list from the registry; or give the reason in `ELSEWHERE`."""
    new = {place: names for place, names in found.items() if place not in ELSEWHERE}
    assert not new, f"these lists go stale with the next addition: {new}"
    assert not ELSEWHERE.keys() - found.keys(), "reasons of lists that are gone"


def test_every_method_has_a_picture():
    assert PICTURES.keys() == METHODS.keys(), (
        f"add the picture of {set(METHODS) - set(PICTURES)} to PICTURES of quantviz/ui/layers/method_tab.py"
    )


def test_handles_are_of_bugs():
    assert HANDLES.keys() <= BUGS.keys()
