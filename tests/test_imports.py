"""The layers: what may be imported where, proven in fresh interpreters."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import quantviz as qv

ROOT = Path(__file__).parent.parent
BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {names!r}:
            raise ImportError('blocked: ' + name)
sys.meta_path.insert(0, Blocked())
"""


def run(code, blocked=()):
    return subprocess.run([sys.executable, "-W", "error", "-c", BLOCK.format(names=set(blocked)) + code], cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_the_core_needs_only_torch():
    code = """
import quantviz as qv
r = qv.quantize([[1.0, -2.0], [0.5, 4.0]], qv.Scheme('int4', 'asymmetric', qv.PerChannel(0)))
assert len(qv.metrics(r)) == len(qv.METRICS) and qv.explain(r, (0, 1)).steps and qv.RECIPES
"""
    done = run(code, ("streamlit", "plotly", "pandas", "PIL", "safetensors"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "module", ["errors", "scheme", "formats", "granularity", "conventions", "calibration", "textform", "recipes", "link", "sources", "scenarios"]
)
def test_choosing_does_not_import_torch(module):
    done = run(
        f"import quantviz.{module}\nimport sys\nassert not {{'torch', 'numpy', 'streamlit', 'plotly', 'pandas'}} & set(sys.modules)",
        ("torch", "numpy", "streamlit", "plotly", "pandas"),
    )
    assert done.returncode == 0, done.stderr


def test_the_core_needs_no_link_and_no_source():
    """Each begins with nothing of the package imported; torch, numpy and plotly stay, which take most of the time."""
    modules = (
        "study",
        "overview",
        "tables",
        "gaussian",
        "figures.panels_data",
        "figures.panels",
        "figures.histograms",
        "figures.recipe_plot",
        "figures.formats",
    )
    done = run(
        f"import importlib, sys\nfor module in {modules}:\n"
        "    for name in [name for name in sys.modules if name.split('.')[0] == 'quantviz']:\n        del sys.modules[name]\n"
        "    importlib.import_module('quantviz.' + module)\n    found = [name for name in sys.modules if name.startswith('quantviz.')]\n"
        "    above = [name for name in found if name.split('.')[1] in ('link', 'export', 'scenarios', 'sources', 'address', 'ui')]\n"
        "    assert found and not above, (module, above)",
        ("streamlit",),
    )
    assert done.returncode == 0, done.stderr


def test_plotly_is_imported_only_by_the_figure():
    code = "import quantviz as qv, sys\nqv.quantize([1.0], qv.Scheme())\nassert 'plotly' not in sys.modules"
    done = run(f"{code}\nqv.plot_quantization_errors\nassert 'plotly' in sys.modules")
    assert done.returncode == 0, done.stderr


def test_the_course_draws_only_when_asked():
    done = run("import torch\nfrom quantviz.course import *\nassert linear_quantization(torch.tensor([1.0, 2.0]))", ("streamlit", "plotly", "pandas"))
    assert done.returncode == 0, done.stderr


def test_the_public_surface_is_what_the_package_names():
    tree = ast.parse((ROOT / "quantviz" / "__init__.py").read_text(encoding="utf-8"))
    typed = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quantviz.") for alias in node.names}
    assert set(qv.__all__) == typed
    assert all(getattr(qv, name) is not None for name in qv.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        qv.no_such_name  # noqa: B018


HOMES = {"plotly": ("quantviz/figures/",), "streamlit": ("quantviz/ui/", "pages/", "app.py")}


@pytest.mark.parametrize("package", HOMES)
def test_each_package_is_imported_only_in_its_layer(package):
    files = [path for folder in ("quantviz", "pages") for path in (ROOT / folder).rglob("*.py")] + [ROOT / "app.py"]
    for path in files:
        where = path.relative_to(ROOT).as_posix()
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for name in (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            )
        }
        assert package not in imported or where.startswith(HOMES[package]), where


#: From the bottom up: a module imports only from its own rank or below.
RANKS = {
    "text": 0, "parts": 0, "pickling": 0, "shown": 0,
    "errors": 1,
    "classroom": 2, "textform": 2, "byhand": 2, "kernel_cache": 2, "numerals": 2,
    "formats": 3, "granularity": 3, "tensors": 3, "warming": 3,
    "axes": 4, "views": 4, "conventions": 4, "blocks": 4, "grids": 4, "calibration": 4, "search": 4,
    "scheme": 5, "format_facts": 5, "stored": 5,
    "arithmetic": 6, "recipes": 6,
    "quantizer": 7, "sources": 7,
    "moments": 8, "measures": 8, "explanation": 8, "tables": 8, "scenarios": 8,
    "comparison": 9, "kernels": 9, "compiled": 9, "tally": 9, "tracing": 9, "lanes": 9, "binning": 9, "pooling": 9, "trials": 9,
    "plainly": 10, "overview": 10, "ranking": 10, "gaussian": 10,
    "study": 11, "compiling": 11,
    "figures": 12,
    "link": 13, "export": 13, "address": 13,
    "course": 14, "lessons": 14, "bugs": 14,
    "ui": 15, "cli": 15,
}  # fmt: skip


def test_dependencies_point_down():
    for path in (ROOT / "quantviz").rglob("*.py"):
        own = path.relative_to(ROOT / "quantviz").parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        only_types = {
            inner for node in ast.walk(tree) if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING" for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node not in only_types and (node.module or "").startswith("quantviz"):
                parts = (node.module or "").split(".")
                for target in [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]:
                    assert RANKS[target] <= RANKS[own], f"{path.name} imports {target}"


def _reads_bits(call: ast.Call) -> bool:
    """Whether it is `values.view(torch.int32)`, or numpy's: the same shape, read as another dtype."""
    return len(call.args) == 1 and isinstance(call.args[0], ast.Attribute) and getattr(call.args[0].value, "id", "") in ("torch", "np")


def test_reshaping_is_done_only_in_blocks():
    verbs = {"reshape", "view", "permute", "transpose", "unflatten", "movedim", "swapaxes"}
    core = [path for path in (ROOT / "quantviz").glob("*.py") if path.name != "blocks.py"]
    for path in core:
        called = {
            node.func.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not _reads_bits(node)
        }
        assert not called & verbs, path.name


def test_decibels_are_made_in_one_place():
    """A ratio is put into dB by the metric alone: whoever needs SQNR asks for it."""
    makers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "quantviz").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and any(isinstance(side, ast.Constant) and side.value in (10, 20) for side in (node.left, node.right))
        and any(isinstance(side, ast.Call) and getattr(side.func, "attr", "") == "log10" for side in (node.left, node.right))
    }
    assert makers == {"quantviz/measures.py"}


def test_no_test_module_imports_another():
    """What tests share is in tests/helpers."""
    for path in (ROOT / "tests").rglob("*.py"):
        where = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                # `from tests import conftest` names a module as `from tests.conftest import x` does.
                names = [node.module or "", *(f"{node.module or ''}.{alias.name}" for alias in node.names)]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            parts = [part for name in names if name.startswith("tests.") or getattr(node, "level", 0) for part in name.split(".")]
            assert not [part for part in parts if part == "conftest" or part.startswith("test_")], where
