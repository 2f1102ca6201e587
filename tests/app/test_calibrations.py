"""Every calibration chosen by its control: the numbers are those of its scheme, and its link opens it
again.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import quantviz as qv
from quantviz import text
from quantviz.lab import controls as lab_controls
from quantviz.schemes import calibration as calibrations
from quantviz.schemes import scheme as schemes
from quantviz.schemes.calibration import Calibration, Range
from quantviz.text import catalogue
from tests.helpers.controls import choose, controls, words_of
from tests.helpers.session import address, healthy, opened, panels, result

TENSORS = ("normal(rows=6,cols=16)", "builtin(name=course_3x3)")


def chosen(at, name):
    return choose(at, ("calibration", name))


def codes_and_errors(at):
    r = result(at)
    _, q, x_hat, error = panels(at)
    assert np.array_equal(q, r.q.numpy())
    assert np.array_equal(x_hat, r.x_hat.numpy())
    assert np.allclose(error, r.error.numpy())
    return r


def test_zero_points_of_hqq_are_chosen_under_its_convention():
    at = opened(t=TENSORS[0], s="uint4,asymmetric,per_channel,min_max,hqq")
    healthy(chosen(at, "hqq"))
    assert address(at)["s"] == "uint4,asymmetric,per_channel,hqq,hqq"
    r = codes_and_errors(at)
    assert r.range is None
    assert np.array_equal(panels(opened(**address(at)))[1], r.q.numpy())


def test_an_engine_that_searches_scales_takes_no_range():
    at = opened(t="normal(rows=2,cols=256)", s=str(qv.RECIPES["q4_k"]))
    assert words_of(at, "calibration") == ["The engine's own search"]
    assert result(healthy(at)).scheme == qv.RECIPES["q4_k"]
    choose(at, ("convention", "gguf_minimum"))
    assert address(healthy(at))["s"] == "uint4,asymmetric,per_group(size=32),min_max,gguf_minimum"
    assert len(words_of(at, "calibration")) == len(qv.CALIBRATIONS) - 1


@dataclass(frozen=True)
class Fraction(Calibration):
    """A part of the whole range."""

    part: float
    id: ClassVar[str] = "fraction"

    def calibrate(self, blocks, context):
        lo, hi = blocks.min_max()
        return Range(lo * self.part, hi * self.part, blocks.extreme())

    def lines(self, mode):
        return f"min(block) * {self.part!r}", f"max(block) * {self.part!r}"


def test_one_that_is_added_has_its_control(monkeypatch):
    registry = {**qv.CALIBRATIONS, "fraction": Fraction}
    for module in (calibrations, schemes, lab_controls):
        monkeypatch.setattr(module, "CALIBRATIONS", registry)
    words = {"name": "Fraction", "line": "{part} of it", "help": "a part of it", "fields.part": "Part"}
    own = {**catalogue("en"), **{f"calibrations.fraction.{key}": value for key, value in words.items()}}
    monkeypatch.setattr(text, "catalogue", lambda language: own)
    at = opened(t=TENSORS[0], s="int4,symmetric,per_tensor,min_max,course")
    healthy(chosen(at, "fraction"))
    assert address(at)["s"] == "int4,symmetric,per_tensor,fraction(part=1.0),course"
    assert controls(at)["range_part"]["label"] == "Part"
    choose(at, ("range_part", 0.5))
    assert address(healthy(at))["s"] == "int4,symmetric,per_tensor,fraction(part=0.5),course"
    codes_and_errors(at)
