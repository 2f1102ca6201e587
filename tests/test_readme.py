"""The README is short, its Python prints what it says, its commands are the two it promises, and its headline
is the table's.
"""

import contextlib
import io
import re
from pathlib import Path

import quantviz as qv
from tests.engines import WAYS
from tests.engines.__main__ import COLUMNS, cells_of, rows_of
from tests.engines.__main__ import README as ENGINES
from tests.helpers.readme import blocks

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: What is on the screen before anybody scrolls.
FIRST_LINES = 40


def test_it_is_short():
    assert len(README.encode()) <= 7000


def test_the_python_prints_what_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    codes, printed = blocks("python"), blocks("text")
    assert len(codes) == len(printed) == 2
    for code, wanted in zip(codes, printed, strict=True):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, "README.md", "exec"), {})
        assert output.getvalue() == wanted
    assert qv.Layers.open("layers.safetensors").names == ("0", "2")


def test_there_are_two_commands_and_they_install_what_they_need():
    start, test = blocks("sh")
    assert start.count("\n") == test.count("\n") == 1
    assert "-r requirements.txt -e ." in start
    assert "streamlit run app.py" in start
    assert "-r tests/requirements.txt" in test
    assert "pytest" in test


def test_continuous_integration_finds_the_test_command():
    (command,) = re.findall(r"grep -E '(.*?)' README\.md", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert re.findall(command + r".*\n", README, re.M) == [blocks("sh")[1]]


def test_its_headline_is_what_the_engines_table_says():
    page = ENGINES.read_text(encoding="utf-8")
    rows = [dict(zip(COLUMNS, cells_of(line), strict=True)) for line in rows_of(page, "engines")]
    values = sum(int(row[way].replace(",", "")) for row in rows for way in WAYS if row[way] != "–")
    differences = sum(
        int(count)
        for row in rows
        for way in WAYS
        for count in row[f"≠ in {way}"].split(" / ")
        if count != "–"
    )
    headline = (
        f"{len(rows)} engine configurations, {values / 1e6:.0f} million values, {differences} differences"
    )
    first = "\n".join(README.splitlines()[:FIRST_LINES])
    assert f"[{headline}](tests/engines/README.md)" in first
    assert headline in page


def test_everything_installed_is_pinned():
    for listing in ("requirements.txt", "tests/requirements.txt"):
        lines = [
            line
            for line in (ROOT / listing).read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")
        ]
        assert all(re.fullmatch(r"[\w.-]+(\[\w+\])?==[\w.]+", line) for line in lines), listing
