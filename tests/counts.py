"""Counts of how the code reads: `python -m tests.counts` prints them for `quantviz`, `pages` and `app.py`.

`python -m tests.counts headless quantviz/analysis` lists the places of one count below some paths. The bound
of each count is in `tests/test_counts.py`.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.helpers.code import nodes

ROOT = Path(__file__).parents[1]
CODE = ("quantviz", "pages", "app.py")
#: Longest function that is read at a glance, in lines.
LONG = 60
#: Most parameters of a function.
MANY = 8
#: A module of so many lines or fewer is a shard.
SHORT = 60
#: Longest body of a helper that could stand where it is called, in lines.
TINY = 3
#: Where kernels are written: a kernel is one function, however long.
KERNELS = "quantviz/compiled"

#: A clause whose noun is a riddle: at the start of a docstring, of a comment, or after "Return".
HEADLESS = re.compile(
    r"^(?:#: |# )?(?:Return |Returns |Yield )?"
    r"(?:what|who|that it|that a|that the|there where|of what|where it)\b",
    re.IGNORECASE,
)
RETURN_WHAT = re.compile(r"^(?:Return|Yield) (?:what|who|that)\b")
TOLD = re.compile(r"\b(?:tell|tells|told|complain|complains|forgive|forgives|asked|says|knows)\b")

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: The kinds of nodes that some count is of.
COUNTED = (*DOCUMENTED, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.IfExp, ast.Name, ast.Attribute)


@dataclass(frozen=True)
class Module:
    """A file of the code and its syntax tree."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return the nodes of the syntax tree that are counted."""
        return tuple(node for node in nodes(self.path) if isinstance(node, COUNTED))

    @property
    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    @cached_property
    def prose(self) -> tuple[tuple[int, str], ...]:
        """Return each docstring and block of comments, with its line."""
        return tuple(self._prose())

    def _prose(self) -> Iterator[tuple[int, str]]:
        for node in self.nodes:
            if isinstance(node, DOCUMENTED) and (words := ast.get_docstring(node)):
                yield getattr(node, "lineno", 1), words
        before = None
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                if before != token.start[0] - 1:
                    yield token.start[0], token.string
                before = token.start[0]


def modules(paths: tuple[str, ...] = CODE) -> list[Module]:
    """Return the modules below some paths of the repository, by name."""
    files = (
        each
        for path in paths
        for each in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
    )
    return sorted(map(Module, files), key=lambda module: module.name)


def headless(module: Module) -> list[tuple[int, str]]:
    """Return the docstrings and comments that begin with a clause instead of a noun."""
    return [(line, words) for line, words in module.prose if HEADLESS.match(words)]


def parallel(module: Module) -> list[int]:
    """Return the lines where one statement assigns several values that are written beside each other.

    A swap is none: its values are its targets.
    """
    found = []
    for node in module.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        targets = [each for each in node.targets if isinstance(each, ast.Tuple)]
        values = {ast.unparse(value) for value in node.value.elts}
        if any({ast.unparse(each) for each in target.elts} != values for target in targets):
            found.append(node.lineno)
    return found


def assignments(module: Module) -> int:
    """Return the number of assignments."""
    return sum(isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) for node in module.nodes)


def conditionals(module: Module) -> list[int]:
    """Return the lines of conditional expressions."""
    return [node.lineno for node in module.nodes if isinstance(node, ast.IfExp)]


def nested_conditionals(module: Module) -> list[int]:
    """Return the lines of conditional expressions that have another in them."""
    return [
        node.lineno
        for node in module.nodes
        if isinstance(node, ast.IfExp)
        and any(
            isinstance(inner, ast.IfExp) for part in ast.iter_child_nodes(node) for inner in ast.walk(part)
        )
    ]


def long_functions(module: Module) -> list[tuple[str, int]]:
    """Return the functions over `LONG` lines, with their lines; none of kernels."""
    if module.name.startswith(KERNELS):
        return []
    sizes = ((node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in module.functions)
    return [(name, size) for name, size in sizes if size > LONG]


def wide_functions(module: Module) -> list[tuple[str, int]]:
    """Return the functions of more than `MANY` parameters, with their number."""
    found = []
    for node in module.functions:
        given = node.args
        names = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        count = sum(name.arg not in ("self", "cls") for name in names)
        if count > MANY:
            found.append((node.name, count))
    return found


def lines(module: Module) -> int:
    """Return the number of lines with code, comments or docstrings in them."""
    return sum(bool(line.strip()) for line in module.text.splitlines())


def tiny_helpers(module: Module) -> list[str]:
    """Return the private functions of at most `TINY` lines that are called once."""
    named = Counter(node.id for node in module.nodes if isinstance(node, ast.Name))
    named += Counter(node.attr for node in module.nodes if isinstance(node, ast.Attribute))
    found = []
    for node in module.functions:
        body = node.body[1:] if ast.get_docstring(node) else node.body
        size = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        private = node.name.startswith("_") and not node.name.startswith("__")
        if private and size <= TINY and named[node.name] == 1 and not node.decorator_list:
            found.append(node.name)
    return found


def counted() -> dict[str, float]:
    """Return each count, by its name."""
    every = modules()
    size = sum(map(lines, every))
    prose = [words for module in every for _, words in module.prose]
    set_in_all = sum(map(assignments, every))
    return {
        "lines": size,
        "modules": len(every),
        "docstrings and comments": len(prose),
        "headless": sum(len(headless(module)) for module in every),
        "that return what": sum(bool(RETURN_WHAT.match(words)) for words in prose),
        "that tell": sum(bool(TOLD.search(words)) for words in prose),
        "parallel assignments": sum(len(parallel(module)) for module in every),
        "parallel assignments, %": 100 * sum(len(parallel(module)) for module in every) / set_in_all,
        "conditional expressions, per 1000 lines": 1000 * sum(len(conditionals(m)) for m in every) / size,
        "nested ones, per 1000 lines": 1000 * sum(len(nested_conditionals(m)) for m in every) / size,
        f"functions over {LONG} lines": sum(len(long_functions(module)) for module in every),
        f"functions of over {MANY} parameters": sum(len(wide_functions(module)) for module in every),
        f"modules of at most {SHORT} lines": sum(lines(module) <= SHORT for module in every),
        f"private helpers of at most {TINY} lines, called once": sum(len(tiny_helpers(m)) for m in every),
    }


#: The counts whose places can be listed.
PLACES = {
    "headless": headless,
    "parallel": parallel,
    "conditionals": conditionals,
    "nested": nested_conditionals,
    "long": long_functions,
    "wide": wide_functions,
    "tiny": tiny_helpers,
}


def listed(name: str, paths: tuple[str, ...]) -> Iterator[str]:
    """Yield the places of a count: path, line or function, and the words there."""
    for module in modules(paths or CODE):
        for place in PLACES[name](module):
            line, words = place if isinstance(place, tuple) else (place, "")
            yield f"{module.name}:{line} {str(words).splitlines()[0] if words else ''}".rstrip()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*listed(sys.argv[1], tuple(sys.argv[2:])), sep="\n")
        sys.exit()
    for name, count in counted().items():
        print(f"{count:10.2f}  {name}" if isinstance(count, float) else f"{count:10}  {name}")
