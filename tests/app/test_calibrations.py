"""A calibration that is added has its control; `tests/lab/test_controls.py` has those that there are."""

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
from tests.helpers.controls import choose, controls
from tests.helpers.session import address, healthy, opened, panels, result


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
    at = opened(t="normal(rows=6,cols=16)", s="int4,symmetric,per_tensor,min_max,course")
    healthy(choose(at, ("calibration", "fraction")))
    assert address(at)["s"] == "int4,symmetric,per_tensor,fraction(part=1.0),course"
    assert controls(at)["range_part"]["label"] == "Part"
    choose(at, ("range_part", 0.5))
    assert address(healthy(at))["s"] == "int4,symmetric,per_tensor,fraction(part=0.5),course"
    assert np.array_equal(panels(at)[1], result(at).q.numpy())
