"""Every import in the package's code: at the top, in a function, for types alone, by a string."""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from tests.helpers import ROOT

PACKAGE = "quantviz"
#: Functions whose first argument names a module.
_BY_NAME = ("import_module", "__import__", "run_module")


@cache
def modules() -> Mapping[str, Path]:
    """Return the file of each module of the package, by the module's dotted name."""
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files)
    return {name.removesuffix(".__init__"): path for name, path in zip(names, files, strict=True)}


def names_imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the dotted name of everything that some code imports, of any package: at the top of a module, in
    a function, for types alone, or by a call with a string.

    `from a import b` yields `a.b`, whether b is a module or a name in a.
    """
    for node in nodes:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                assert not node.level, "modules are imported by their whole names"
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            case ast.Call(func=ast.Name(id=function) | ast.Attribute(attr=function)):
                first = node.args[0] if node.args else None
                if function in _BY_NAME and isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value


def _named(nodes: Iterable[ast.AST], known: Collection[str]) -> Iterator[str]:
    """Yield the modules that strings name: `import_module`, a process or a list of modules may get them.

    An f-string names all modules that its fields can stand for.
    """
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if text.startswith(f"{PACKAGE}.") and text in known:
                yield text
            case ast.JoinedStr(values=parts):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)
                if text.startswith(f"{PACKAGE}."):
                    yield from (name for name in known if fnmatchcase(name, text))


def imported_modules(nodes: Iterable[ast.AST], known: Collection[str]) -> set[str]:
    """Return the modules of the package, all of them `known`, that some code imports or names in a string.

    `from a.b import c` counts for `a.b.c` where that is a module, else for `a.b`, and never for `a`: that
    Python runs a package's `__init__` on the way to its modules makes no circle.
    """
    each = tuple(nodes)
    found = set(_named(each, known))
    for name in names_imported(each):
        found.add(name if name in known else name.rpartition(".")[0])
    return found & set(known)


def circles(arrows: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the groups of modules each of which can be reached from each other, by Tarjan's algorithm.

    >>> circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a", "d"]})
    [['b', 'c']]
    """
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        path.append(name)
        for target in arrows.get(name, ()):
            if target not in order:
                visit(target)
                lowest[name] = min(lowest[name], lowest[target])
            elif target in path:
                lowest[name] = min(lowest[name], order[target])
        if lowest[name] == order[name]:
            group = path[path.index(name) :]
            del path[path.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in arrows:
        if name not in order:
            visit(name)
    return sorted(found)
