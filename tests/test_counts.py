"""How the code reads, counted: each bound may only be lowered."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.helpers.code import nodes

ROOT = Path(__file__).parents[1]
PATHS = [ROOT / "app.py", *(path for name in ("quantviz", "pages") for path in (ROOT / name).rglob("*.py"))]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Longest function that is read at a glance, in lines, and most parameters of one.
LONG, MANY = 60, 8
#: Where kernels are written: a kernel is one function, however long.
KERNELS = ROOT / "quantviz" / "compiled"
#: A clause whose noun is a riddle: at the start of a docstring, of a comment, or after "Return".
_RIDDLE = r"(?:Return |Returns |Yield )?(?:what|who|that it|that a|that the|there where|of what|where it)\b"
HEADLESS = re.compile(rf"^(?:#: |# )?{_RIDDLE}", re.IGNORECASE)
#: The same in a text that may be a comment: most files have none, and are not read token by token.
PERHAPS = re.compile(rf"(?:#: |# ){_RIDDLE}", re.IGNORECASE)


def docstrings(path):
    for node in nodes(path):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def comments(path):
    """Yield the first line of each block of comments, where some may be headless."""
    before, text = None, path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline) if PERHAPS.search(text) else ():
        if token.type == tokenize.COMMENT:
            if before != token.start[0] - 1:
                yield token.start[0], token.string
            before = token.start[0]


def headless(path):
    """Yield the lines of docstrings and comments that begin with a clause instead of a noun."""
    yield from (
        line for read in (docstrings, comments) for line, words in read(path) if HEADLESS.match(words)
    )


def nested_conditionals(path):
    for node in nodes(path):
        if isinstance(node, ast.IfExp):
            inner = (each for part in ast.iter_child_nodes(node) for each in ast.walk(part))
            yield from (node.lineno for each in inner if isinstance(each, ast.IfExp))


def long_functions(path):
    if KERNELS not in path.parents:
        functions = (node for node in nodes(path) if isinstance(node, FUNCTIONS))
        yield from (node.lineno for node in functions if node.end_lineno - node.lineno >= LONG)


def wide_functions(path):
    for node in nodes(path):
        if isinstance(node, FUNCTIONS):
            given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            if sum(name.arg not in ("self", "cls") for name in given) > MANY:
                yield node.lineno


@pytest.mark.parametrize(
    ("places", "most"), [(headless, 0), (nested_conditionals, 0), (long_functions, 0), (wide_functions, 15)]
)
def test_no_count_is_above_its_bound(places, most):
    found = [f"{path.relative_to(ROOT)}:{line}" for path in PATHS for line in places(path)]
    assert len(found) <= most, found


def test_a_headless_docstring_is_found():
    riddles = ["What is shown.", "Return what a page says.", "Return that it was one.", "#: Who may see it."]
    named = ["Return the errors of a link.", "Show what was found.", "#: The tools.", "Return whatever fits."]
    assert all(HEADLESS.match(words) for words in riddles)
    assert not any(HEADLESS.match(words) for words in named)
