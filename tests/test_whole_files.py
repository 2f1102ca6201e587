"""Files that are put down whole: half of one is never read, whoever writes it."""

import ast
import contextlib
import os
import stat
from pathlib import Path

import pytest

import quantviz as qv
from quantviz.checkpoints import example
from quantviz.cli.output import Output, put
from quantviz.compiled import kernel_cache
from quantviz.sources.hubs.byte_cache import ByteCache
from quantviz.whole_files import put_whole
from tests.helpers.code import parsed

ROOT = Path(__file__).parents[1] / "quantviz"
ROW = {"tensor": "a.weight", "recipe": "int8_per_row", "status": "ok", "sqnr_db": 41.25}
#: Calls that put a file down, and the modules that may make them: what `put_whole` itself is made of, and
#: folders of one process, where nobody else reads.
WRITES = (
    "write_text",
    "write_bytes",
    "NamedTemporaryFile",
    "mkstemp",
    "fdopen",
    "rename",
    "save_file",
    "savez",
)
MAY = {
    "jobs.py": {"fdopen"},  # a pipe
    "ui/checkpoints/allocating.py": {"write_bytes"},
    "teaching/lessons/thumbnails.py": {"write_text"},  # written while the program is made
    "evaluation/tables.py": {"savez"},  # into memory
    "models/adder_training.py": {"save_file"},  # written while the program is made
    "models/training.py": {"save_file", "write_text"},  # written while the program is made
}


def writes_of(tree):
    """Yield the names of calls that write a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in WRITES:
            yield name
        texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
        if name == "open" and any(str(mode)[:1] in "wxa" and len(str(mode)) < 4 for mode in texts if mode):
            yield name


def test_every_place_that_writes_a_file_puts_it_down_whole():
    found = {path.relative_to(ROOT).as_posix(): set(writes_of(parsed(path))) for path in ROOT.rglob("*.py")}
    found["whole_files.py"].discard("open")
    assert {name: names for name, names in found.items() if names} == MAY


def of_report(folder):
    qv.report([ROW], folder / "place")


def of_command(folder):
    put(Output("json", folder / "place"), "content")


def of_text(folder):
    kernel_cache.kept_text("place", lambda: "made")


def of_example(folder):
    example.example_file()


def of_hub(folder):
    ByteCache(folder, 1000).put("shelf", "place", b"piece")


@pytest.mark.parametrize("write", [of_report, of_command, of_text, of_example, of_hub])
def test_the_old_file_is_there_at_every_moment_and_stays_where_the_disk_is_full(write, tmp_path, monkeypatch):
    """Each writer is stopped in the middle of its file: there is the old content, and nothing besides."""
    monkeypatch.setattr(kernel_cache, "own_folder", lambda name: tmp_path)
    monkeypatch.setattr(example, "own_folder", lambda name: tmp_path)
    (tmp_path / "place").write_text("old")
    opened = Path.open
    stopped = []

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, raw):
            self.file.write(raw[: len(raw) // 2])
            self.file.flush()
            stopped.append((tmp_path / "place").read_text())
            raise OSError(28, os.strerror(28))

    def full(path, mode="r", *more, **named):
        file = opened(path, mode, *more, **named)
        return Full(file) if mode[:1] in "wx" else file

    monkeypatch.setattr(Path, "open", full)
    with contextlib.suppress(OSError, qv.QuantVizError):
        write(tmp_path)
    monkeypatch.undo()
    assert stopped == ["old"]
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["place"]
    assert (tmp_path / "place").read_text() == "old"


def test_a_file_that_is_replaced_keeps_its_mode_and_a_link_its_place(tmp_path):
    place, link = tmp_path / "place", tmp_path / "link"
    put_whole(place, "first")
    place.chmod(0o640)
    link.symlink_to(place)
    put_whole(link, "second")
    assert link.is_symlink()
    assert place.read_text() == "second"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    put_whole("/dev/null", b"bytes")


@pytest.mark.parametrize("path", ["missing/folder.html", ".", "a\0b.html"])
def test_a_report_that_cannot_be_written_says_so(path, tmp_path):
    with pytest.raises(qv.QuantVizError, match="cannot be written"):
        qv.report([ROW], f"{tmp_path}/{path}")
