"""The documents: each path, link, command, setting and limit that they name is there, and their code can be
read.
"""

import ast
import dataclasses
import importlib
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy
import pytest
import torch

import quantviz as qv
from quantviz.evaluation import metric_formulas
from quantviz.rooms.serving import ROOM_LIMIT_VARIABLE, RoomLimits
from quantviz.schemes import calibration, engines, formats
from quantviz.schemes import scheme as schemes
from quantviz.sources.files import READERS
from quantviz.sources.limits import HUB_LIMIT_VARIABLE, LIMIT_VARIABLE, HubLimits, Limits
from quantviz.teaching.lessons import load
from quantviz.teaching.lessons.check import problems_of
from quantviz.teaching.lessons.model import Lesson
from quantviz.text import languages
from tests.helpers.code import parsed

ROOT = Path(__file__).parent.parent
FOLDERS = (".github", "quantviz", "pages", "tests")
#: All but the lessons, which have tests of their own.
DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(
        [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
    )
    if path.parent.name not in languages()
}
EVERY = pytest.mark.parametrize("name", DOCUMENTS)
TOP = frozenset(path.name for path in ROOT.iterdir())
#: A name that ends so is that of a file of ours wherever it is said to lie.
OURS = (".py", ".md", ".toml", ".css", ".js")
FILES = "quantviz/sources/README.md"
LIMITS, HUB_LIMITS, ROOM_LIMITS = (
    {f"{variable}{each.name.upper()}": f"{each.default:,}" for each in dataclasses.fields(kind)}
    for variable, kind in (
        (LIMIT_VARIABLE, Limits),
        (HUB_LIMIT_VARIABLE, HubLimits),
        (ROOM_LIMIT_VARIABLE, RoomLimits),
    )
)


def without_code(text):
    return re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.M | re.S)


def code(text, language):
    """The blocks of code of a language, but for those inside another block or a list."""
    return [
        body
        for _, found, body in re.findall(r"^(`{3,})(\w*)\n(.*?)^\1$", text, re.M | re.S)
        if found == language
    ]


def named(text):
    """The paths of ours that a document names in backticks, and the tests in them."""
    for token in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", without_code(text)):
        path, _, test = token.partition("::")
        is_ours = path.endswith(OURS) and not path.startswith(".")
        if re.fullmatch(r"[\w.-]+(/[\w.-]*)*", path) and (is_ours or path.split("/")[0] in TOP):
            yield path, test


def slugs(text):
    """The anchors of a document's headings."""
    titles = re.findall(r"^#+ (.+)$", without_code(text), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


#: Names of files that a document tells people to make, or that mean a file of each folder.
GENERIC = {
    ".github/CONTRIBUTING.md": {
        *("23_step_size.md", "glossary.py", "page.py", "state.py", "__init__.py", "test_glossary.py"),
        *("idx.py", "torch_per_token.py", "row_factor.py", "gpt_fast.py"),
    }
}
#: The module that CONTRIBUTING tells people to make.
INVENTED = "quantviz.ui.glossary"


@EVERY
def test_every_path_is_there(name):
    for path, test in named(DOCUMENTS[name]):
        if path not in GENERIC.get(name, ()):
            assert (ROOT / path).exists(), path
            assert not test or re.search(rf"def {test}\b", (ROOT / path).read_text(encoding="utf-8")), (
                f"{path}::{test}"
            )


@EVERY
def test_every_link_leads_somewhere(name):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(DOCUMENTS[name])):
        if not re.match(r"https?://", target):
            path, _, anchor = target.partition("#")
            found = (ROOT / name).parent / path if path else ROOT / name
            assert found.exists(), target
            assert not anchor or anchor in slugs(found.read_text(encoding="utf-8")), target


@EVERY
def test_every_module_that_is_run_is_there(name):
    for module in re.findall(r"python -m ((?:quantviz|tests)[\w.]*\w)", DOCUMENTS[name]):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module


@EVERY
def test_code_can_be_read(name):
    for block in code(DOCUMENTS[name], "python"):
        ast.parse(block)
    for block in code(DOCUMENTS[name], "toml"):
        assert tomllib.loads(block)


@EVERY
def test_every_name_that_is_imported_is_there(name):
    for block in code(DOCUMENTS[name], "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("quantviz", "tests")):
                for alias in node.names if not (node.module or "").startswith(INVENTED) else ():
                    assert is_there(node.module, alias.name), f"{node.module}.{alias.name}"


@EVERY
def test_every_name_of_an_imported_module_is_there(name):
    for block in code(DOCUMENTS[name], "python"):
        tree = ast.parse(block)
        imported = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quantviz")
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = imported.get(node.value.id, "")
                if module and not module.startswith(INVENTED) and find_spec_or_none(module):
                    assert is_there(module, node.attr), f"{module}.{node.attr}"


def is_there(module, name):
    return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None


def test_names_are_found_and_missed():
    assert is_there("quantviz.ui.shell", "session")
    assert is_there("quantviz.ui.shell.tab", "name_tab")
    assert not is_there("quantviz.ui", "session")


@EVERY
def test_every_setting_is_one(name):
    sources = [
        path
        for folder in ("quantviz", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__)
    ]
    known = set(
        re.findall(r'"(QUANTVIZ_\w+)"', "\n".join(path.read_text(encoding="utf-8") for path in sources))
    )
    known |= {*LIMITS, *HUB_LIMITS, *ROOM_LIMITS}
    assert set(re.findall(r"\bQUANTVIZ_\w+", DOCUMENTS[name])) <= known


def test_paths_are_found_and_missed():
    """The search sees what it is for: files, folders, tests; and neither suffixes, other names nor code."""
    text = "`quantviz/no.py` `tests/no/` `pages/a.py::test_b` `no.py` `.npy` `a/b` `x.safetensors` "
    text += "`python -m a.py`\n"
    text += "```sh\n`no.md`\n```\n"
    assert list(named(text)) == [
        ("quantviz/no.py", ""),
        ("tests/no/", ""),
        ("pages/a.py", "test_b"),
        ("no.py", ""),
    ]


# ---- where things are -----------------------------------------------------------------------------


def test_the_folders_are_told_in_their_own_words():
    """To mend it, copy the line that is missing here from the folder's `__init__.py`."""
    section = (
        DOCUMENTS[".github/CONTRIBUTING.md"].partition("\n## Where things are\n")[2].partition("\n## ")[0]
    )
    told = dict(re.findall(r"^\| `(quantviz/[\w/]+)/` \| (.*) \|$", section, re.M))
    own = {}
    for path in (ROOT / "quantviz").rglob("*/__init__.py"):
        says = ast.get_docstring(parsed(path))
        own[path.parent.relative_to(ROOT).as_posix()] = " ".join(says.partition("\n\n")[0].split())
    missing = [f"| `{folder}/` | {says} |" for folder, says in own.items() if told.get(folder) != says]
    assert not missing, f"these lines belong in 'Where things are' of CONTRIBUTING.md: {missing}"
    assert told.keys() == own.keys()


# ---- the page of files and settings ---------------------------------------------------------------


def rows(heading):
    """The rows of the first table below a heading, cells without backticks."""
    lines = DOCUMENTS[FILES].partition(f"\n## {heading}\n")[2].partition("\n## ")[0].splitlines()
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ][2:]


def test_the_table_of_limits_is_what_the_code_has():
    assert {row[0]: row[1] for row in rows("Limits")} == LIMITS
    assert {row[0]: row[1] for row in rows("A published model")} == HUB_LIMITS
    assert {row[0]: row[1] for row in rows("Rooms of classes")} == ROOM_LIMITS
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert f"in megabytes: {config['server']['maxUploadSize']}." in DOCUMENTS[FILES]


def test_every_setting_of_the_package_is_told():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "quantviz").rglob("*.py")]
    known = set(re.findall(r'"(QUANTVIZ_\w+)"', "\n".join(sources)))
    known -= {LIMIT_VARIABLE, HUB_LIMIT_VARIABLE, ROOM_LIMIT_VARIABLE}
    assert {row[0] for row in rows("Settings")} == known


def test_the_defaults_of_what_is_shared_are_those_of_the_code():
    from quantviz.ui.shell.shared_cache import _DEFAULTS

    told = {row[0]: row[1] for row in rows("Settings")}
    assert {name: told[name] for name in _DEFAULTS} == {
        name: f"{value:,}" for name, value in _DEFAULTS.items()
    }


def test_every_suffix_that_is_read_is_told():
    told = {suffix for row in rows("What can be read") for suffix in row[0].split(", ")}
    other = told ^ {*READERS, ".png", ".jpg", ".jpeg"}
    assert not other, f"the table 'What can be read' of {FILES} and READERS differ in {sorted(other)}"


# ---- the bounds ------------------------------------------------------------------------------------


def bounds_told():
    """The bounds in the table of SECURITY.md: the number as it is printed there, by the constant's name."""
    section = DOCUMENTS[".github/SECURITY.md"].partition("\n## Bounds\n")[2].partition("\n## ")[0]
    return {name: told for told, name in re.findall(r"^\|[^|]+\| (\S+) \| `([\w.]+)` \|$", section, re.M)}


def bound_named(name):
    """The value of a constant by its dotted name: of a module, or the default of a dataclass's field."""
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        if find_spec_or_none(".".join(parts[:at])):
            value = importlib.import_module(".".join(parts[:at]))
            for part in parts[at:]:
                value = getattr(value, part)
            return value
    raise AssertionError(f"there is no module for {name}")


def find_spec_or_none(module):
    try:
        return find_spec(module)
    except ModuleNotFoundError:  # what stands before its last dot is no package
        return None


def test_the_table_of_bounds_is_what_the_code_has():
    told = bounds_told()
    assert told == {name: f"{bound_named(name):,}" for name in told}


#: How a bound is called wherever it stands, and the parts of the package in which such a one is of what is
#: shown or worked on at a time, and not of what comes from outside.
BOUND = re.compile(r"_?(MOST|LONGEST|WIDEST|DEEPEST|LARGEST)(_|$)")
INNER = {"analysis", "cli", "compiled", "evaluation", "figures", "quantization", "teaching", "ui"}


def bounds_there():
    """The bounds that the code has, by the constants' names."""
    for path in (ROOT / "quantviz").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts)
        tree = parsed(path)
        if parts[-1] == "bounds" or parts[1] not in INNER:
            stored = (each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and is_stored(each))
            for name in stored:
                if BOUND.match(name) or (parts[-1] == "bounds" and name.isupper() and name[0] != "_"):
                    value = getattr(importlib.import_module(module), name)
                    if isinstance(value, int) and not isinstance(value, bool):
                        yield f"{module}.{name}"
        for each in tree.body:
            if isinstance(each, ast.ClassDef) and each.name.endswith("Limits"):
                for line in each.body:
                    if isinstance(line, ast.AnnAssign):
                        yield f"{module}.{each.name}.{line.target.id}"


def is_stored(name):
    """Whether something is given this name."""
    return isinstance(name.ctx, ast.Store)


def test_every_bound_of_the_code_is_told():
    """To mend it, add a row to the table "Bounds" of SECURITY.md for each constant that is missing there."""
    assert set(bounds_there()) - set(bounds_told()) == set()


# ---- what is walked through works -----------------------------------------------------------------


def walked(section, language="python"):
    """The first block of code of a section of CONTRIBUTING.md."""
    return code(DOCUMENTS[".github/CONTRIBUTING.md"].partition(f"\n## {section}\n")[2], language)[0]


def test_the_format_is_one():
    (fmt,) = eval(walked("Add a format"), dict(vars(formats)))
    assert (fmt.bits, fmt.value_max, fmt.has_nan) == (8, 30.0, True)


def test_the_convention_is_one():
    """`tests/test_additions.py` asks its engine."""
    (row,) = eval(walked("Add an engine"), dict(vars(engines)))
    convention = qv.Convention(**vars(row))
    assert not list(convention.problems())
    scheme = qv.Scheme("int8", "symmetric", qv.PerChannel(0), convention=convention)
    assert qv.quantize([[0.0, 1.5], [-3.0, 1.0]], scheme).q.tolist() == [[0, 127], [-127, 42]]


def test_the_metric_is_one():
    (metric,) = eval(walked("Add a metric"), dict(vars(metric_formulas)))
    r = qv.quantize([1.0, -2.0, 0.3], qv.Scheme("int4"))
    share = r.error.double().norm() / r.x.double().norm()
    assert metric(r) == pytest.approx(share.item())


def test_the_calibration_is_one(monkeypatch):
    names = {**vars(formats), **vars(calibration)}
    exec(walked("Add a calibration"), names)
    kind = names["Fraction"]
    for module in (calibration, schemes):
        monkeypatch.setattr(module, "CALIBRATIONS", {**qv.CALIBRATIONS, kind.id: kind})
    half = qv.Scheme("int8", "asymmetric", calibration=kind(0.5))
    assert qv.Scheme.parse(str(half)) == half
    # A number of NumPy becomes one of Python, so that the text form can be read again.
    of_numpy = qv.Scheme("int8", "asymmetric", calibration=kind(numpy.float64(0.5)))
    assert str(of_numpy) == str(half)
    found = qv.choose_qparams([-2.0, 4.0], half)
    assert found.scale.item() == pytest.approx(3 / 255)
    assert [problem.params["got"] for problem in kind(1.5).problems(qv.FORMATS["int8"], "symmetric")] == [1.5]


def test_the_lesson_is_one(tmp_path):
    (tmp_path / "23_step_size.md").write_text(walked("Add a lesson", "markdown"), encoding="utf-8")
    (found,) = load(tmp_path).values()
    assert isinstance(found, Lesson), str(found)
    assert not [str(problem) for problem in problems_of(found, "step_size")]


# ---- the licence ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_commands_python_runs(tmp_path, monkeypatch, capsys):
    """Each block of the command's page, one after the other, with the names that it does not define."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    node = onnx.helper.make_node("Cast", ["input_ids"], ["y"], to=onnx.TensorProto.FLOAT)
    ends = [
        onnx.helper.make_tensor_value_info(name, kind, [2])
        for name, kind in (("input_ids", onnx.TensorProto.INT64), ("y", onnx.TensorProto.FLOAT))
    ]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), "model.onnx")
    draw = torch.Generator().manual_seed(0)
    weight, inputs, bias = (torch.randn(shape, generator=draw) for shape in ((8, 16), (4, 16), (8,)))
    given = {
        "qv": qv,
        "model": torch.nn.Linear(16, 8),
        "quantized": torch.nn.Linear(16, 8),
        "batches": [inputs],
    }
    codes = torch.arange(8, dtype=torch.int8)[None]
    given |= {"weight": weight, "inputs": inputs, "bias": bias, "ids": [1, 2], "codes": codes}
    for block in code(DOCUMENTS["quantviz/cli/README.md"], "python"):
        exec(compile(block, "quantviz/cli/README.md", "exec"), given)
    steps = capsys.readouterr().out.splitlines()
    assert len(steps) > 8
    assert int(steps[-1].split()[-1]) == int(given["found"].q[0, 5])
    assert qv.Layers.open("capture.safetensors").names == ("Linear",)
    assert [each.status for each in qv.compare_runs("float.safetensors", "int8.safetensors").of("int8")]


def test_the_licence_is_there_and_named():
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("MIT License\n")
    assert "Copyright (c) 2026 QuantViz contributors" in licence
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("MIT", ["LICENSE"])
