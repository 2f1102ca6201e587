"""The front door's programs, written once and read by later processes."""

import contextlib
import itertools
import json
import os
import subprocess
import sys

import pytest

from quantviz.compiled.javascript import _SchemeWriter, packed_together, write_program
from quantviz.compiled.kept_programs import kept_programs
from quantviz.compiled.traced_values import Untraceable
from quantviz.errors import QuantVizError
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import PerChannel, PerGroup, PerTensor
from quantviz.schemes.scheme import Scheme
from tests.helpers import ROOT

SEVERAL = (PerChannel(0), PerGroup(32), PerGroup(16))

WITHOUT_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ImportError("blocked")
sys.meta_path.insert(0, Blocked())
"""
SHOW = """
from quantviz.ui.home.page import play_data
print(len(play_data("en", "light")), len(play_data("zh", "dark")))
"""


def run(code, cache):
    env = {**os.environ, "QUANTVIZ_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
    )


@pytest.mark.nightly
def test_a_later_process_needs_no_torch_for_the_front_door(tmp_path):
    refused = run(WITHOUT_TORCH + SHOW, tmp_path)
    assert "blocked" in refused.stderr, "nobody has written them"
    first = run(SHOW, tmp_path)
    assert first.returncode == 0, first.stderr
    later = run(WITHOUT_TORCH + SHOW, tmp_path)
    assert later.returncode == 0, later.stderr
    assert later.stdout == first.stdout


def test_what_is_kept_is_what_the_code_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path))
    schemes, called = [Scheme("uint5"), Scheme("int6")], []
    programs = kept_programs(schemes, lambda: called.append("before"))
    assert dict(programs) == json.loads(json.dumps(packed_together(map(write_program, schemes))))
    assert called == ["before"]
    (file,) = tmp_path.rglob("programs-*.txt")
    assert json.loads(file.read_text(encoding="utf-8")) == dict(programs)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file], "nothing half written is left"


def test_schemes_that_differ_in_their_blocks_share_a_program():
    a, b = (write_program(Scheme("int4", granularity=each)) for each in SEVERAL[:2])
    assert a is b is not write_program(Scheme("int4"))


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_shared_program_is_that_of_each_scheme(convention):
    for name, granularity in itertools.product(FORMATS, (*SEVERAL, PerTensor())):
        with contextlib.suppress(QuantVizError, Untraceable):
            scheme = Scheme(name, "symmetric", granularity, convention=convention)
            assert _SchemeWriter(scheme).program().packed() == write_program(scheme).packed()
