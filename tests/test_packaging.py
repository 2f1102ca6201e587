"""The wheel: it holds all that the package reads, and the README's Python and the app run from it alone."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import quantviz as qv
from tests.helpers.ports import free_port

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements(listing):
    lines = (ROOT / listing).read_text(encoding="utf-8").splitlines()
    return {
        each.name: each for each in (Requirement(line) for line in lines if line and not line.startswith("#"))
    }


def declared(*extras):
    """The package's own ranges and those of its extras, by name."""
    of_extras = PROJECT["optional-dependencies"]
    listed = [*PROJECT["dependencies"], *(each for extra in extras for each in of_extras[extra])]
    return {each.name: each for each in map(Requirement, listed) if each.name != PROJECT["name"]}


def test_the_pins_are_within_the_ranges():
    app, tests = requirements("requirements.txt"), requirements("tests/requirements.txt")
    ranges = declared(*PROJECT["optional-dependencies"])
    assert declared("fast", "figures", "app").keys() == app.keys()
    # What the app does without is installed for the tests.
    assert ranges.keys() - app.keys() <= tests.keys()
    for name, pin in ((name, app.get(name) or tests[name]) for name in ranges):
        (only,) = pin.specifier
        assert only.operator == "=="
        assert ranges[name].specifier.contains(only.version), name


def numbers(version):
    return tuple(map(int, version.split(".")))


def test_the_version_is_the_same_everywhere_and_has_its_changes():
    changes = (ROOT / ".github" / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / ".github" / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.M)[0] == PROJECT["version"]
    assert re.findall(r"^version: (\S+)", citation, re.M) == [PROJECT["version"]]
    assert qv.__version__ == PROJECT["version"]


def test_an_old_name_warns_until_its_last_version(monkeypatch):
    for name, (new, end) in qv._RENAMED.items():
        assert new in qv.__all__
        assert name not in qv.__all__
        assert numbers(end) > numbers(PROJECT["version"]), f"remove quantviz.{name}"
    monkeypatch.setitem(qv._RENAMED, "quantise", ("quantize", "9.0"))
    with pytest.warns(DeprecationWarning, match=r"quantviz\.quantize now; the old name goes in version 9\.0"):
        assert qv.quantise is qv.quantize


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_verbs(shell):
    """What Click's script for the shell asks the command for when somebody has typed `quantviz sc`."""
    at = {"COMP_WORDS": "quantviz sc", "COMP_CWORD": "sc" if shell == "fish" else "1"}
    env = {**os.environ, "_QUANTVIZ_COMPLETE": f"{shell}_complete", **at}
    code = "import sys; from quantviz.cli import main; sys.argv = ['quantviz']; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert "scan" in done.stdout
    assert "serve" not in done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("quantviz-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with nothing in it but the installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder)
    return folder


def run(installed, *command, cwd, **more):
    env = {**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, cwd=cwd, env=env, **more
    )


def test_the_wheel_has_every_file_of_the_package_and_the_app(wheel):
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "quantviz", "pages", "app.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        name if name.startswith("quantviz/") else f"quantviz/_app/{name}"
        for name in files.stdout.split()
        if (ROOT / name).exists()
    }
    assert wanted | {"quantviz/_app/.streamlit/config.toml", "quantviz/py.typed"} <= names
    assert not [name for name in names if name.startswith("tests")]


def test_the_wheel_brings_its_licence(wheel):
    with zipfile.ZipFile(wheel) as files:
        (folder,) = {
            name.partition("/")[0]
            for name in files.namelist()
            if name.partition("/")[0].endswith(".dist-info")
        }
        assert files.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        told = files.read(f"{folder}/METADATA").decode().splitlines()
    assert {"License-Expression: MIT", "License-File: LICENSE"} <= set(told)


@pytest.mark.nightly
def test_the_readmes_python_runs_from_the_wheel_alone(installed, tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, printed = (
        "".join(re.findall(rf"```{language}\n(.*?)```", text, re.S)) for language in ("python", "text")
    )
    done = run(
        installed,
        "-c",
        f"{code}\nassert qv.__file__.startswith({str(installed)!r}), qv.__file__",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


@pytest.mark.nightly
def test_the_apps_pages_run_from_the_wheel_alone(installed, tmp_path):
    pages = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "pages").rglob("*.py"))
    code = f"""
import quantviz, pathlib
from streamlit.testing.v1 import AppTest
from quantviz.cli.serve import app_file
assert str(app_file()).startswith({str(installed)!r}), app_file()
at = AppTest.from_file(str(app_file()), default_timeout=120).run()
for page in {pages}:
    at.query_params.clear()  # as a browser does, which AppTest keeps
    at.switch_page(page).run()
    said = [each.value for each in (*at.exception, *at.error)]
    assert not said and len(at.main), (page, said)
"""
    done = run(installed, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("place", ["wheel", pytest.param("clone", marks=pytest.mark.nightly)])
def test_the_command_serves(installed, tmp_path, place):
    port = free_port()
    options = ["--server.port", str(port), "--server.address", "127.0.0.1", "--server.headless", "true"]
    server = subprocess.Popen(
        [sys.executable, "-m", "quantviz", "serve", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed if place == "wheel" else ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        health = ""
        for _ in range(900):
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer,
            ):
                health = answer.read().decode()
                break
            time.sleep(0.1)
        assert health == "ok"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    # Of this an installer makes the command.
    (told,) = installed.glob("*.dist-info/entry_points.txt")
    assert "quantviz = quantviz.cli:main" in told.read_text(encoding="utf-8")


def test_help_is_there_at_once_and_the_core_is_enough_for_it(installed, tmp_path):
    code = "import sys; from quantviz.cli import main; sys.argv = ['quantviz', '--help']\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    done = run(
        installed,
        "-c",
        f"{code}assert not {{'torch', 'numpy', 'streamlit', 'pandas'}} & set(sys.modules)",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout


def test_without_streamlit_the_command_says_what_to_install(installed, tmp_path):
    code = "import sys; sys.modules['streamlit'] = None; import importlib.util as u; found = u.find_spec; "
    code += "import quantviz.cli.serve as s; "
    code += "s.find_spec = lambda name: None if name == 'streamlit' else found(name); "
    code += "from quantviz.cli import main; sys.argv = ['quantviz', 'serve']; main()"
    done = run(installed, "-c", code, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "The app needs more than the core package: streamlit cannot be imported. "
        'Run pip install "quantviz[app]".'
    )
