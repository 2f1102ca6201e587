"""What the command prints, and its exit statuses, on small files that are made for it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import quantviz as qv
from quantviz.cli import quantviz
from quantviz.layers.captures import Captured, Layers

#: Numbers are recorded to so many digits: processors add in different orders.
DIGITS = 5
_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")


def command_lines() -> list[str]:
    """Return each command with its status, and below it the lines it prints, or its error."""
    commands = Path(__file__).with_name("commands.txt").read_text(encoding="utf-8").splitlines()
    with _in_folder() as folder:
        return [line for command in commands for line in _lines(command, folder)]


def _lines(command: str, folder: Path) -> Iterator[str]:
    # A space stands between arguments only.
    done = CliRunner().invoke(quantviz, command.split(" "))
    yield f"$ quantviz {command}  [{done.exit_code}]"
    # What else is said may have times in it.
    said = (done.stderr if done.exit_code == 2 else done.stdout).replace(str(folder), "FOLDER")
    yield from (f"  {_NUMBER.sub(_rounded, line)}".rstrip() for line in said.splitlines())


def _rounded(number: re.Match[str]) -> str:
    return number[0] if len(number[0]) <= DIGITS + 2 else f"{float(number[0]):.{DIGITS}g}"


@contextlib.contextmanager
def _in_folder() -> Iterator[Path]:
    """Make the files, and work beside them."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        environment = {"QUANTVIZ_CACHE_DIR": str(folder / "cache"), "COLUMNS": "100", "NO_COLOR": "1"}
        with contextlib.chdir(folder), patch.dict(os.environ, environment):
            _make()
            yield folder


def _values(*shape: int) -> torch.Tensor:
    """Return values that are the same on every machine."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 37 % 101 - 50) / 16.0).reshape(shape)


def _make() -> None:
    q, conv = _values(8, 32), _values(4, 2, 3, 3)
    save_file({"layers.0.q": q, "conv": conv, "odd": _values(3, 5)}, "a.safetensors")
    save_file({"only": q}, "one.safetensors")
    rounded = qv.quantize(q, "int8_per_row").x_hat
    save_file({"layers.0.q": rounded, "conv": conv}, "quantized.safetensors")
    up = Captured("up", "linear", _values(16, 64), _values(40, 64), _values(16), 40)
    Layers((up, Captured("down", "linear", _values(64, 16), _values(40, 16), None, 40))).save(
        "capture.safetensors"
    )
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU())
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(_values(*each.shape))
        qv.capture(model.eval(), [_values(4, 16)], "float.safetensors")
        model[0].weight.copy_(qv.quantize(model[0].weight, "int8_per_row").x_hat)
    qv.capture(model, [_values(4, 16)], "int8.safetensors")
