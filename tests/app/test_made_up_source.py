"""A source is one class in the registry and its words: it is then in the Lab, its links and its scripts,
without another edit.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.session import APP

ROOT = Path(__file__).parents[2]

PROGRAM = """
import dataclasses, io, contextlib
from types import MappingProxyType
from typing import ClassVar
import quantviz.sources, quantviz.text
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import Source
from quantviz.sources.random import Bounds

@dataclasses.dataclass(frozen=True)
class Ramp(Source):
    rows: int = 3
    slope: float = 2.0
    id: ClassVar[str] = "ramp"
    kind: ClassVar[str] = "random"
    limits: ClassVar = MappingProxyType({"rows": Bounds(1, 99), "slope": Bounds(-5.0, 5.0)})

    @property
    def shape(self) -> Shape:
        return (self.rows, 4)

    def tensor(self):
        import torch
        return (torch.arange(self.rows * 4.0) * self.slope).reshape(self.shape)

# The registry's one entry, and the words.
quantviz.sources.SOURCES = MappingProxyType({**quantviz.sources.SOURCES, Ramp.id: Ramp})
quantviz.sources.Ramp = Ramp
words = {
    "sources.ramp.name": "A made-up ramp",
    "source_fields.slope": "Slope",
}
real = quantviz.text.catalogue
table = {language: MappingProxyType({**real(language), **words}) for language in ("en", "zh")}
quantviz.text.catalogue = table.__getitem__

from streamlit.testing.v1 import AppTest

from tests.helpers.controls import choose, words_of

at = AppTest.from_file(APP, default_timeout=120)
at.run()
at.switch_page("pages/lab/playground.py").run()
choose(at, ("kind", "random"))
assert "A made-up ramp" in words_of(at, "distribution"), words_of(at, "distribution")
choose(at, ("distribution", "ramp"))
assert not at.exception and not at.error
state = at.session_state["lab_state"].now
assert state.source == Ramp(rows=32), state.source  # what both have is kept
choose(at, ("random_slope", 3.0))
state = at.session_state["lab_state"].now
assert state.source == Ramp(32, 3.0) and not at.exception
assert any("A made-up ramp" in each.proto.body for each in at.get("html"))

from quantviz.export.files import file_name, python_lines
from quantviz.lab.state import LabState
link = state.written()
assert link["t"] == "ramp(rows=32,slope=3.0)" and LabState.read(link) == (state, ())
with contextlib.redirect_stdout(io.StringIO()) as out:
    exec(python_lines(state), {"__name__": "__main__"})
assert "SQNR" in out.getvalue() and file_name(state.source, state.scheme, "csv").startswith("ramp_")
"""


@pytest.mark.nightly
def test_a_made_up_source_is_in_the_lab_by_its_entry_alone():
    done = subprocess.run(
        [sys.executable, "-c", f"APP = {str(APP)!r}\n{PROGRAM}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
