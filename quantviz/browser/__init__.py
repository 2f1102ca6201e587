"""The JavaScript of the pages, each script joined with the modules it imports, and `packing`, which packs the
numbers that Python sends it. Without streamlit.

Streamlit takes a component's script as one text, and serves folders of files only for installed packages. So
the files here are ES modules, which a linter and an editor understand, and Python joins them: it puts each
module after those it imports, and strips the imports and exports between them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent

_IMPORT = re.compile(r'^import (?:\{([^}]*)\} from )?"(\.[^"]*)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)
_DECLARATION = r"(?:async )?(?:function\*? |class |const |let |var )(\w+)"
#: Names that a module declares, and those of them that others may import.
_DECLARED = re.compile(f"^(?:export )?{_DECLARATION}", re.MULTILINE)
_EXPORTED = re.compile(f"^export {_DECLARATION}", re.MULTILINE)
#: Ways to import, export and declare that the joiner does not understand.
_REFUSED = re.compile(r"^(?:import\b|export [{*]|(?:export )?(?:const|let|var) [\[{]).*", re.MULTILINE)


@cache
def read_script(name: str) -> str:
    """Return the script of this folder called `name` and all it imports as one text.

    Modules import each other as `import { name } from "./module.js";` and export by `export function`,
    `export class` or `export const`. They share one scope once they are joined, so no two of them may declare
    the same name. Only the script itself keeps its `export default`.
    """
    return join_modules(FOLDER / f"{name}.js")


def join_modules(entry: Path) -> str:
    """Return a module and all it imports as one text, each module after those it imports.

    Raises:
        AssertionError: If the modules import each other in a circle, declare the same name twice, import a
            name that is not exported, or are written in a way that the joiner does not understand.
    """
    exports: dict[Path, set[str]] = {}
    texts: list[str] = []
    homes: dict[str, Path] = {}

    def add(module: Path, importers: tuple[Path, ...]) -> None:
        circle = " → ".join(each.name for each in (*importers, module))
        assert module not in importers, f"modules import each other in a circle: {circle}"
        if module in exports:
            return
        source = module.read_text(encoding="utf-8")
        for names, path in _IMPORT.findall(source):
            imported = (module.parent / path).resolve()
            add(imported, (*importers, module))
            missing = {name.strip() for name in names.split(",")} - exports[imported] - {""}
            assert not missing, f"{imported.name} does not export {sorted(missing)} to {module.name}"
        body = _IMPORT.sub("", source)
        refused = _REFUSED.search(body)
        assert not refused, f"{module.name} has a line that cannot be joined: {refused and refused[0]}"
        main = not importers or "export default" not in body
        assert main, f"{module.name} is imported, so it cannot have a default export"
        for name in _DECLARED.findall(body):
            assert name not in homes, f"{module.name} and {homes[name].name} both declare {name}"
            homes[name] = module
        exports[module] = set(_EXPORTED.findall(body))
        texts.append(_EXPORT.sub("", body))

    add(entry.resolve(), ())
    return "\n".join(texts)
