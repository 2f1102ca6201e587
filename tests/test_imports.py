"""The layers: what may be imported where, proven in fresh interpreters."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import quantviz as qv
from tests.helpers.code import nodes, parsed
from tests.helpers.imports import circles, imported_modules, modules, names_imported

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
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCK.format(names=set(blocked)) + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_core_and_the_course_need_only_torch():
    code = """
import torch
import quantviz as qv
from quantviz.quantization.operations import Operation
# Where a process first compares a tensor with a number, torch imports a part of itself.
assert Operation('zero', 'is_zero = x <= 0.5').run({'x': torch.ones(1)}).tolist() == [False]
r = qv.quantize([[1.0, -2.0], [0.5, 4.0]], qv.Scheme('int4', 'asymmetric', qv.PerChannel(0)))
assert len(qv.metrics(r)) == len(qv.METRICS) and qv.explain(r, (0, 1)).steps and qv.RECIPES
found = qv.clipping_curve([[1.0, -2.0]], 'int4_per_tensor')
assert found.exact.minima
try:
    found.table()
except qv.QuantVizError as error:
    assert error.key == 'needs_pandas'
else:
    raise AssertionError
# The course draws only when asked.
from quantviz.teaching.course import *
assert linear_quantization(torch.tensor([1.0, 2.0]))
"""
    done = run(code, ("streamlit", "plotly", "pandas", "PIL", "safetensors"))
    assert done.returncode == 0, done.stderr


#: Imports modules in one process, and names the first after which one is there that must not be.
IMPORTED = """
import importlib, sys
for module in {modules}:
    importlib.import_module("quantviz." + module)
    found = set(sys.modules) & {unwanted} | {{
        name for name in sys.modules if name.startswith("quantviz.") and name.split(".")[1] in {above}
    }}
    assert not found, (module, found)
"""


def check_imported(modules, unwanted=(), above=()):
    """Hold that none of the modules imports packages that are unwanted, or modules of the folders above."""
    done = run(IMPORTED.format(modules=modules, unwanted=set(unwanted), above=tuple(above)), unwanted)
    assert done.returncode == 0, done.stderr


def test_choosing_does_not_import_torch():
    names = ("scheme", "formats", "granularity", "conventions", "calibration", "text_form", "recipes")
    check_imported(
        ("errors", *(f"schemes.{name}" for name in names), "sources", "lab.state", "lab.scenarios"),
        ("torch", "numpy", "streamlit", "plotly", "pandas"),
    )


def test_choosing_and_moving_a_tensor_imports_nothing_heavy():
    code = """
from quantviz.lab.moves import hand_choices, moved
from quantviz.lab.state import opening
from quantviz.sources import SOURCES, Builtin, HubTensor, parse_source, with_cell, write_source
from quantviz.sources.builtin import BUILTINS
from quantviz.sources.files import cut_out_snippet
from quantviz.sources.tensor_text import parse_tensor
from quantviz.sources.typed import Typed
import quantviz.sources.image
assert hand_choices(moved(opening(), {"kind": "range", "lo": -1, "hi": 1})).formats.values
for name in BUILTINS:
    assert Builtin(name).shape
for kind in SOURCES.values():
    source = kind("picture") if kind is Builtin else kind(rows=8)
    assert parse_source(write_source(source)) == source and source.shape and not list(source.problems())
typed = parse_tensor("[[1, 2], [3, 4]]")
assert Typed.from_payload(typed.to_payload()) == parse_tensor(typed.to_text())
assert cut_out_snippet("a.pt", "b")
form = "edited(builtin(name=loud_column),0.0=-0.0,2.3=0.1)"
edited = parse_source(form)
assert write_source(edited) == form and not list(edited.problems())
assert with_cell(edited, (2, 3), 1.5).edits
published = HubTensor.from_text(f"hub(owner/name@{'0123456789abcdef' * 2}01234567,model.safetensors,x,2x2)")
assert published.link_text() and list(published.problems())
"""
    heavy = ("torch", "numpy", "streamlit", "plotly", "pandas", "PIL", "safetensors", "http", "ssl")
    done = run(code, heavy)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_and_choosing_a_scheme_takes_no_time():
    """At most 0.3 s of the processor, Python's own start with it, whatever else the machine does."""
    code = """
import sys, time
import quantviz as qv
took = [time.process_time()]
qv.Scheme("int4", granularity=qv.PerGroup(128))
took.append(time.process_time())
assert max(took) < 0.3, took
assert not {"torch", "numpy"} & set(sys.modules)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_a_system_without_posix_imports_and_quantizes():
    """As far as it can be seen elsewhere, Windows: what its Python lacks is taken away, packages first."""
    code = """
import os, signal, sys
import torch, numba, streamlit, plotly.graph_objects
for name in "register_at_fork fork getuid memfd_create nice sysconf killpg pread O_NOFOLLOW".split():
    delattr(os, name)
for name in ("SIGKILL", "SIGALRM", "SIGXCPU"):
    delattr(signal, name)
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
sys.platform = "win32"
import quantviz as qv
assert all(getattr(qv, name) is not None for name in qv.__all__)
assert qv.measure(torch.randn(64, 64), "int4_g32").metrics["sqnr_db"] > 10
import quantviz.cli.serve, quantviz.jobs, quantviz.rooms.serving, quantviz.ui.lab.page
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_a_page_paints_its_frame_before_torch_comes_in():
    """`warm_up` imports torch, after the frame: a module that needs it at once would hold the frame up."""
    pages = sorted(path.parent.name for path in (ROOT / "quantviz" / "ui").glob("*/page.py"))
    check_imported([f"ui.{page}.page" for page in pages], ("torch", "pandas", "numba"))


def test_the_core_needs_no_link_and_no_source():
    modules = (
        "analysis.study",
        "streaming.overview",
        "evaluation.tables",
        "evaluation.gaussian",
        "figures.panels_data",
        "figures.panels",
        "figures.histograms",
        "figures.recipe_plot",
        "figures.format_values",
        "figures.format_gaps",
    )
    check_imported(modules, ("streamlit",), ("lab", "export", "sources", "teaching", "ui"))


def test_the_arithmetic_of_the_browser_needs_no_numba_and_the_figure_alone_plotly():
    code = """
import sys
import quantviz as qv
from quantviz.compiled.javascript import write_metrics, write_program
assert "fround" in write_program(qv.Scheme("int4")).text and write_metrics().text
assert "plotly" not in sys.modules
qv.plot_quantization_errors
assert "plotly" in sys.modules
"""
    done = run(code, ("numba", "llvmlite", "streamlit"))
    assert done.returncode == 0, done.stderr


def test_the_public_surface_is_what_the_package_names():
    typed = {
        alias.name
        for node in nodes(ROOT / "quantviz" / "__init__.py")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quantviz.")
        for alias in node.names
    }
    assert set(qv.__all__) == typed
    assert all(getattr(qv, name) is not None for name in qv.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        qv.no_such_name  # noqa: B018


HOMES = {"plotly": ("quantviz/figures/",), "streamlit": ("quantviz/ui/", "pages/", "app.py")}


@pytest.mark.parametrize("package", HOMES)
def test_each_package_is_imported_only_in_its_layer(package):
    files = [path for folder in ("quantviz", "pages") for path in (ROOT / folder).rglob("*.py")] + [
        ROOT / "app.py"
    ]
    for path in files:
        where = path.relative_to(ROOT).as_posix()
        imported = {name.split(".")[0] for name in names_imported(nodes(path))}
        assert package not in imported or where.startswith(HOMES[package]), where


#: What each folder imports of the others, from the bottom up. An arrow that is not here is drawn nowhere, and
#: one that is here is drawn.
ALLOWED = {
    "text": "",
    "pickling": "",
    "errors": "pickling text",
    "budget": "errors",
    "jobs": "budget errors",
    "public_calls": "errors",
    "quoting": "",
    "version": "",
    "whole_files": "errors",
    "schemes": "errors pickling public_calls text",
    "tensors": "errors public_calls schemes",
    "sources": "budget errors jobs public_calls schemes tensors text whole_files",
    "quantization": "budget errors pickling public_calls schemes tensors text",
    "evaluation": "errors pickling quantization schemes tensors",
    "compiled": "errors evaluation quantization schemes tensors whole_files",
    "streaming": "budget compiled errors evaluation jobs pickling public_calls quantization schemes tensors"
    " text",
    "analysis": "budget errors evaluation public_calls quantization schemes streaming tensors",
    "layers": "analysis budget compiled errors evaluation pickling public_calls quantization schemes sources"
    " streaming tensors text whole_files",
    "checkpoints": "analysis budget compiled errors evaluation jobs layers pickling public_calls"
    " quantization quoting schemes sources streaming tensors text whole_files",
    "models": "checkpoints errors evaluation layers pickling public_calls quantization schemes"
    " sources streaming tensors text whole_files",
    "lab": "errors layers models schemes sources streaming tensors text",
    "figures": "analysis checkpoints errors evaluation layers models public_calls quantization schemes"
    " streaming tensors text",
    "browser": "",
    "export": "checkpoints errors evaluation figures lab models public_calls quantization quoting schemes"
    " sources tensors text whole_files",
    "live": "analysis browser compiled errors evaluation export figures lab layers public_calls quantization"
    " schemes sources tensors text whole_files",
    "teaching": "analysis errors evaluation export figures lab layers models quantization schemes sources"
    " streaming tensors text",
    "rooms": "browser errors lab quoting sources teaching text whole_files",
    "course": "teaching",
    "lessons": "teaching",
    "cli": "analysis checkpoints errors evaluation export figures jobs lab layers live models quantization"
    " quoting schemes sources streaming tensors text version whole_files",
    "__main__": "cli",
    "pytest_plugin": "checkpoints export schemes",
    "ui/shell": "browser budget errors figures jobs lab public_calls rooms schemes sources streaming tensors"
    " text",
    "ui/components": "analysis browser errors evaluation export figures lab layers live quantization"
    " rooms schemes sources streaming teaching tensors text ui/shell",
    "ui/missing": "ui/components ui/shell",
    "ui/lab": "analysis checkpoints errors evaluation export figures lab layers live quantization schemes"
    " sources streaming teaching tensors text ui/components ui/shell whole_files",
    "ui/lessons": "analysis errors figures lab live quantization teaching ui/components ui/lab ui/shell",
    "ui/formats": "errors figures lab quantization schemes text ui/components ui/shell",
    "ui/layers": "browser checkpoints errors evaluation figures lab layers live models schemes"
    " sources tensors text ui/components ui/lab ui/shell",
    "ui/checkpoints": "checkpoints errors export figures jobs lab layers models quoting schemes sources text"
    " ui/components ui/lab ui/layers ui/shell whole_files",
    "ui/golf": "errors figures lab schemes teaching tensors ui/components ui/lab ui/shell",
    "ui/gallery": "browser figures lab live sources teaching ui/components ui/shell",
    "ui/teacher": "analysis errors figures lab rooms teaching text ui/components ui/layers ui/lessons"
    " ui/shell",
    "ui/home": "browser compiled errors figures lab models schemes sources text ui/components ui/lab"
    " ui/shell",
    "ui/drop": "checkpoints errors lab models sources text ui/checkpoints ui/lab ui/layers ui/shell",
}


def _folder(module):
    """Return the room of a module: its first folder, or two of them in ui/."""
    parts = module.split(".")
    return "/".join(parts[1:3]) if parts[1] == "ui" else parts[1]


@cache
def arrows():
    """Return the modules that each module of the package imports, in any way."""
    return {name: imported_modules(nodes(path), modules()) - {name} for name, path in modules().items()}


@pytest.mark.parametrize(
    "code",
    [
        "import quantviz.lab.state",
        "import quantviz.lab.state as state",
        "from quantviz.lab.state import LabState",
        "from quantviz.lab import state",
        "def later():\n    from quantviz.lab import state",
        "def later():\n    import quantviz.lab.state",
        "if TYPE_CHECKING:\n    from quantviz.lab.state import LabState",
        "import_module('quantviz.lab.state')",
        "importlib.import_module('quantviz.lab.state')",
        "__import__('quantviz.lab.state')",
        "WARMED = ('quantviz.lab.state',)",
        "import_module(f'quantviz.lab.{name}')",
    ],
)
def test_every_kind_of_import_is_seen(code):
    assert imported_modules(
        ast.walk(ast.parse(code)), ["quantviz", "quantviz.lab", "quantviz.lab.state"]
    ) == {"quantviz.lab.state"}


@pytest.mark.parametrize(
    "code",
    ["import plotly.io", "def later():\n    from plotly import io", "import_module('plotly.io')"],
)
def test_every_kind_of_import_of_a_package_is_seen(code):
    assert list(names_imported(ast.walk(ast.parse(code)))) == ["plotly.io"]


def test_no_modules_import_each_other():
    """Neither at once, nor in functions, nor for types alone: each module can be read, and moved, without
    those that are made of it.
    """
    assert circles(arrows()) == []


def test_the_app_names_modules_that_are_there():
    """The modules that it hands over to be imported ahead."""
    named = {
        node.value
        for node in nodes(ROOT / "app.py")
        if isinstance(node, ast.Constant) and str(node.value).startswith("quantviz.")
    }
    assert named
    assert named <= set(modules())


def _imported_rooms():
    """Return the folders that each folder imports, from the code."""
    rooms = {room: set() for room in ALLOWED}
    for name, targets in arrows().items():
        if name in ("quantviz", "quantviz.ui"):
            continue
        assert _folder(name) in ALLOWED, f"add {_folder(name)!r} to ALLOWED, below what {name} may import"
        rooms[_folder(name)] |= {_folder(target) for target in targets if target != "quantviz"}
    return {room: targets - {room} for room, targets in rooms.items()}


def test_every_arrow_between_folders_is_an_allowed_one():
    assert _imported_rooms() == {room: set(targets.split()) for room, targets in ALLOWED.items()}


def test_every_arrow_points_down():
    rooms = list(ALLOWED)
    for room, targets in ALLOWED.items():
        for target in targets.split():
            assert rooms.index(target) < rooms.index(room), f"{room} imports {target}"


def test_every_folder_says_what_it_is_for():
    for path in (ROOT / "quantviz").rglob("*"):
        if path.is_dir() and any(path.glob("*.py")):
            init = path / "__init__.py"
            assert init.exists(), f"add {init.relative_to(ROOT)}, whose docstring says what the folder is for"
            assert ast.get_docstring(parsed(init)), path


def _reads_bits(call: ast.Call) -> bool:
    """Whether it is `values.view(torch.int32)`, or numpy's: the same shape, read as another dtype."""
    return (
        len(call.args) == 1
        and isinstance(call.args[0], ast.Attribute)
        and getattr(call.args[0].value, "id", "") in ("torch", "np")
    )


def test_reshaping_is_done_only_in_blocks():
    verbs = {"reshape", "view", "permute", "transpose", "unflatten", "movedim", "swapaxes"}
    above = ("figures", "ui", "sources", "teaching")
    core = [
        path
        for path in (ROOT / "quantviz").rglob("*.py")
        if path.name != "blocks.py" and path.relative_to(ROOT).parts[1] not in above
    ]
    for path in core:
        called = {
            node.func.attr
            for node in nodes(path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not _reads_bits(node)
        }
        assert not called & verbs, path.name


def test_decibels_are_made_in_one_place():
    """A ratio is put into dB by the metric alone: whoever needs SQNR asks for it."""
    makers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "quantviz").rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and any(isinstance(side, ast.Constant) and side.value in (10, 20) for side in (node.left, node.right))
        and any(
            isinstance(side, ast.Call) and getattr(side.func, "attr", "") == "log10"
            for side in (node.left, node.right)
        )
    }
    assert makers == {"quantviz/evaluation/metric_formulas.py"}


def test_no_test_module_imports_another():
    """What tests share is in tests/helpers."""
    for path in (ROOT / "tests").rglob("*.py"):
        where = path.relative_to(ROOT).as_posix()
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom):
                # `from tests import conftest` names a module as `from tests.conftest import x` does.
                names = [node.module or "", *(f"{node.module or ''}.{alias.name}" for alias in node.names)]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            parts = [
                part
                for name in names
                if name.startswith("tests.") or getattr(node, "level", 0)
                for part in name.split(".")
            ]
            assert not [part for part in parts if part == "conftest" or part.startswith("test_")], where
