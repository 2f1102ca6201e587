"""What mkdocs does with the pages: it takes documents of the repository in, and runs the examples of its own.

A link in a page is one of the repository, so that it works on GitHub too; here it leads to the page of the
site, where the file has one. Every block of Python of the site's own pages runs, and every `quantviz` of its
consoles; a block of text below must be what was printed. A `figure` that a block makes, or a file that it
calls `page`, is shown below it.
"""

from __future__ import annotations

import contextlib
import io
import posixpath
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from click.testing import CliRunner
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from plotly.offline import get_plotlyjs

import quantviz as qv
from quantviz.cli import quantviz

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OWN = ".github/site/pages/"
_HOSTS = "laptop", "jupyterhub", "space", "community_cloud"
#: Documents of the repository, and their pages here.
TAKEN = {
    "quantviz/cli/README.md": "command.md",
    "quantviz/sources/README.md": "files.md",
    "tests/engines/README.md": "engines.md",
    ".github/deploy/README.md": "deploy.md",
    **{
        f".github/deploy/{name}.md": f"{name}.md"
        for name in ("laptop", "jupyterhub", "space", "community_cloud")
    },
    ".github/CHANGELOG.md": "changes.md",
    ".github/CONTRIBUTING.md": "contributing.md",
    ".github/SECURITY.md": "security.md",
}
PAGES = TAKEN | {f"{OWN}{path.name}": path.name for path in (HERE / "pages").glob("*.md")}
_FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1\n", re.M | re.S)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
_PLOTLY = "plotly.min.js"


def on_files(files: Files, config: Any) -> Files:
    """Add the documents, the reference and plotly's script."""
    made = {page: (ROOT / path).read_text(encoding="utf-8") for path, page in TAKEN.items()}
    made["reference.md"] = "\n".join(_reference())
    for name, content in {**made, _PLOTLY: get_plotlyjs()}.items():
        files.append(File.generated(config, name, content=content))
    return files


def _reference() -> Iterator[str]:
    """Yield the page of the public names: each with its signature and docstring."""
    yield "# Public names\n\nAll are in `quantviz`, here `import quantviz as qv`.\n"
    for name in sorted(qv.__all__, key=str.lower):
        yield f"::: quantviz.{qv._HOME_OF[name]}.{name}\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page with its examples run and its links led to pages of the site."""
    name = page.file.src_uri
    path = next((path for path, uri in PAGES.items() if uri == name), "")
    if path.startswith(OWN):
        markdown = Examples(name).run(markdown)
    parts = re.split(r"(^(`{3,}).*?^\2\n)", f"{markdown}\n", flags=re.M | re.S)
    # Of three parts the first is outside of blocks, the second a block, the third its fence.
    return "".join(
        re.sub(_LINK, lambda link: _linked(path, link), part) if at % 3 == 0 else part
        for at, part in enumerate(parts)
        if at % 3 < 2
    )


def _linked(path: str, link: re.Match[str]) -> str:
    words, target, anchor = link[1], link[2], link[3] or ""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
    if found in PAGES:
        return f"[{words}]({PAGES[found]}{anchor})"
    return words if f"`{found}`" in words else f"{words} (`{found}`)"


class FencedExamples(griffe.Extension):
    """Makes the examples of a docstring blocks of code, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put the docstring of a class, a function or an attribute in its form for the site."""
        if obj.docstring:
            fenced = re.sub(r"^>>>.*(?:\n.+)*", r"```pycon\n\g<0>\n```", obj.docstring.value, flags=re.M)
            obj.docstring.value = fenced


class Examples:
    """The examples of one page, which share their names and a folder."""

    def __init__(self, page: str) -> None:
        self._page = page
        self._names: dict[str, Any] = {}
        self._printed = ""
        self._has_plotly = False

    def run(self, markdown: str) -> str:
        """Return the page with what its blocks have drawn."""
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            return _FENCE.sub(self._block, markdown)

    def _block(self, block: re.Match[str]) -> str:
        language, code = block[2], block[3]
        if language == "text":
            if code != self._printed:
                raise PluginError(f"{self._page} has\n{code}\nand its example prints\n{self._printed}")
            return block[0]
        if language == "console":
            self._printed = "".join(map(self._command, code.splitlines()))
        if language != "python":
            return block[0]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, self._page, "exec"), self._names)
        self._printed = printed.getvalue()
        return block[0] + "".join(self._drawn())

    def _command(self, line: str) -> str:
        """Run a line of a console; return what it prints. 1 is a finding, which an example may have."""
        words = shlex.split(line, comments=True)
        if words[:1] != ["quantviz"]:
            raise PluginError(f"{self._page}: only quantviz runs here, not {line}")
        done = CliRunner().invoke(quantviz, words[1:], env={"COLUMNS": "100"})
        if done.exit_code not in (0, 1):
            raise PluginError(f"{self._page}: {line}\n{done.output}")
        return done.stdout

    def _drawn(self) -> Iterator[str]:
        """Yield the figure that a block has made, or the page that it has written."""
        figure = self._names.pop("figure", None)
        if figure is not None:
            if not self._has_plotly:
                yield f'\n<script src="{_PLOTLY}"></script>\n'
                self._has_plotly = True
            figure.update_layout(width=_WIDTH)
            figure.update_annotations(font_size=_LETTERS)
            yield f"\n{figure.to_html(full_html=False, include_plotlyjs=False)}\n"
        page = self._names.pop("page", None)
        if page is not None:
            yield f'\n<iframe title="{page}" srcdoc="{_quoted(Path(page))}" style="{_FRAME}"></iframe>\n'


#: Pixels of a page's column and of a panel's title in it.
_WIDTH, _LETTERS = 830, 11
_FRAME = "width: 100%; height: 36rem; border: 1px solid #c9d3da; background: #fff"


def _quoted(path: Path) -> str:
    """Return a page as an attribute's value in one line, which Markdown leaves as it is."""
    words = path.read_text(encoding="utf-8")
    for sign, written in (("&", "&amp;"), ('"', "&quot;"), ("\n", "&#10;")):
        words = words.replace(sign, written)
    return words
