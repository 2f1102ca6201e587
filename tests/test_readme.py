"""The README's Python prints what the README says, and its commands are the two it promises."""

import contextlib
import dataclasses
import io
import re
import tomllib
from pathlib import Path

from quantviz.sources.limits import LIMIT_VARIABLE, Limits
from quantviz.sources.local import FOLDER
from tests.helpers.readme import blocks

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_prints_what_is_said():
    (code,), (printed,) = blocks("python"), blocks("text")
    assert len(code.strip().splitlines()) == 4
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {})
    assert output.getvalue() == printed


def test_there_are_two_commands_and_they_install_what_they_need():
    start, test = blocks("sh")
    assert start.count("\n") == test.count("\n") == 1
    assert "-r requirements.txt" in start
    assert "streamlit run app.py" in start
    assert "-r tests/requirements.txt" in test
    assert "pytest" in test


def test_what_it_names_is_there():
    for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README) + re.findall(r"tests\.bench\.\w+", README):
        path = ROOT / name if "/" in name else ROOT / (name.replace(".", "/") + ".py")
        assert path.is_file(), name


def test_its_table_of_limits_is_what_the_code_has():
    table = re.findall(r"^\| `(QUANTVIZ_MAX_\w+)` \| ([\d,]+) \|", README, re.M)
    limits = {f"{LIMIT_VARIABLE}{each.name.upper()}": f"{each.default:,}" for each in dataclasses.fields(Limits)}
    assert dict(table) == limits
    upload = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))["server"]["maxUploadSize"]
    assert f"in megabytes: {upload}." in README
    assert FOLDER in README


def test_everything_installed_is_pinned():
    for listing in ("requirements.txt", "tests/requirements.txt"):
        lines = [line for line in (ROOT / listing).read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), listing
