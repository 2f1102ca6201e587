"""The command's frame: its list of verbs, its errors and its exit statuses."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from quantviz import cli
from quantviz.errors import QuantVizError

CONTEXT = click.Context(cli.quantviz)
THERE = cli.quantviz.list_commands(CONTEXT)


def test_help_imports_no_verb_and_nothing_heavy():
    code = """
import sys
from click.testing import CliRunner
from quantviz.cli import quantviz
done = CliRunner().invoke(quantviz, ["--help"])
assert done.exit_code == 0 and "serve" in done.stdout, done
there = {name for name in sys.modules if name.startswith("quantviz.cli.")}
assert there == {"quantviz.cli.output", "quantviz.cli.text_table"}
heavy = {"torch", "numpy", "pandas", "streamlit", "plotly", "pyarrow", "numba"}
assert not heavy & set(sys.modules)
for name in quantviz.list_commands(None):  # what the help of a verb and the shell's completion import
    assert CliRunner().invoke(quantviz, [name, "--help"]).exit_code == 0
    assert not heavy & set(sys.modules), name
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_version_is_told_from_a_clone_too():
    done = CliRunner().invoke(cli.quantviz, ["--version"])
    assert done.exit_code == 0
    assert done.stdout.startswith("quantviz 0.")


@pytest.mark.parametrize("name", THERE)
def test_the_line_of_a_verb_is_its_own(name):
    command = cli.quantviz.get_command(CONTEXT, name)
    assert command.get_short_help_str(200) == cli.VERBS[name]
    assert [each.name for each in command.params].count("lang") == 1


def raising(monkeypatch, error):
    def get_command(*_):
        @click.command(params=[cli._language_option()])
        def command():
            raise error

        return command

    monkeypatch.setattr(cli._Verbs, "get_command", get_command)


def test_an_error_a_person_can_mend_is_its_sentence_alone(monkeypatch):
    error = QuantVizError("unknown_mode", got="\x1b[31m", known="a, b")
    raising(monkeypatch, error)
    for arguments, language in (
        (["x"], "en"),
        (["--lang", "zh", "x"], "zh"),
        (["x", "--lang", "zh"], "zh"),
        (["--lang", "zh", "x", "--lang", "en"], "en"),
    ):
        done = CliRunner().invoke(cli.quantviz, arguments)
        assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"{error.message(language)}\n")


def test_an_interrupt_has_its_own_status(monkeypatch):
    raising(monkeypatch, KeyboardInterrupt())
    done = CliRunner().invoke(cli.quantviz, ["x"])
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "")


def test_a_fault_of_ours_is_not_taken_for_something_found(monkeypatch):
    raising(monkeypatch, ZeroDivisionError("ours"))
    done = CliRunner().invoke(cli.quantviz, ["x"])
    assert done.exit_code == 2
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: ours" in done.stderr


def test_a_closed_pipe_is_silent():
    code = """
import click
from quantviz import cli
from quantviz.cli.output import Output, put
@click.command()
def long():
    for _ in range(100): put(Output("csv"), "x" * 100_000)
cli._Verbs.get_command = lambda *_: long
cli.quantviz(["long"])
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as python:
        assert python.stdout.read(3) == "xxx"
        python.stdout.close()
        assert python.stderr.read() == ""
        assert python.wait(60) == 141
