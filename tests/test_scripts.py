"""The pages' JavaScript: how modules are joined into one script, and what the joiner refuses."""

import re

import pytest

from quantviz.browser import FOLDER, join_modules, read_script

#: What a component is registered with; the modules they import are in folders.
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.js"))
MODULES = sorted(FOLDER.rglob("*.js"))


@pytest.fixture
def write(tmp_path):
    """`write({"a.js": source, ...})` writes modules and returns the path of the first."""

    def write_modules(modules):
        for name, source in modules.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(source, encoding="utf-8")
        return tmp_path / next(iter(modules))

    return write_modules


def test_a_script_without_imports_stays_as_it_is(write):
    source = "const a = 1;\n\nexport default function () {\n  return a;\n}\n"
    assert join_modules(write({"a.js": source})) == source


def test_modules_come_once_each_and_after_what_they_import(write):
    entry = write(
        {
            "entry.js": 'import {\n  left,\n  Right,\n} from "./parts/middle.js";\nimport "./base.js";\n\n'
            "export default () => left(Right);\n",
            "parts/middle.js": 'import { BASE } from "../base.js";\n\n'
            "export async function left() {}\n\nexport class Right {\n  base = BASE;\n}\n",
            "base.js": "// The base.\nexport const BASE = 1;\n",
        }
    )
    assert join_modules(entry) == (
        "// The base.\nconst BASE = 1;\n"
        "\n\nasync function left() {}\n\nclass Right {\n  base = BASE;\n}\n"
        "\n\nexport default () => left(Right);\n"
    )


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        pytest.param(
            {"a.js": 'import { b } from "./b.js";\n', "b.js": 'import { a } from "./a.js";\n'},
            "circle: a.js → b.js → a.js",
            id="a circle",
        ),
        pytest.param(
            {
                "a.js": 'import { b } from "./b.js";\nfunction same() {}\n',
                "b.js": "export const b = 1;\nconst same = 2;\n",
            },
            "a.js and b.js both declare same",
            id="one name twice",
        ),
        pytest.param(
            {"a.js": 'import { c } from "./b.js";\n', "b.js": "export const b = 1;\nconst c = 2;\n"},
            r"b.js does not export \['c'\] to a.js",
            id="a name that is not exported",
        ),
        pytest.param(
            {"a.js": 'import { b as c } from "./b.js";\n', "b.js": "export const b = 1;\n"},
            r"does not export \['b as c'\]",
            id="another name for an import",
        ),
        pytest.param(
            {"a.js": 'import { b } from "./b.js";\n', "b.js": "export const b = 1;\nexport default b;\n"},
            "b.js is imported, so it cannot have a default export",
            id="a default export inside",
        ),
        pytest.param(
            {"a.js": 'import * as b from "./b.js";\n', "b.js": ""}, "cannot be joined", id="import *"
        ),
        pytest.param({"a.js": 'import { b } from "plotly";\n'}, "cannot be joined", id="a package"),
        pytest.param({"a.js": "const a = 1;\nexport { a };\n"}, "cannot be joined", id="a list of exports"),
        pytest.param({"a.js": "const { a } = window;\n"}, "cannot be joined", id="names taken apart"),
    ],
)
def test_what_cannot_be_joined_is_refused(write, modules, said):
    with pytest.raises(AssertionError, match=said):
        join_modules(write(modules))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_joined_script_imports_nothing_and_exports_one_function_at_most(name):
    script = read_script(name)
    assert not re.findall(r"^import\b.*", script, re.MULTILINE)
    assert all(
        re.match(r"export default (function |lasting\(\w+\);)", line)
        for line in re.findall(r"^export .*", script, re.MULTILINE)
    )
    # Some act on the page as soon as they are loaded, and are no component's function.
    assert script.count("export default") == (
        name not in ("alone", "connection", "drop", "history", "printing", "sidebar")
        and name not in ("stage_tabs", "theme", "tooltips")
    )


def test_every_module_is_part_of_a_script():
    joined = "\n".join(map(read_script, SCRIPTS))
    for path in MODULES:
        last = path.read_text(encoding="utf-8").rstrip().rpartition("\n\n")[2]
        assert re.sub(r"^export (?!default)", "", last, flags=re.MULTILINE) in joined, path
