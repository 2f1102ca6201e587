"""Every calibration chosen by its control: the numbers are those of its scheme, and its link opens it
again.
"""

import dataclasses
import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import quantviz as qv
from quantviz import text
from quantviz.lab import controls as lab_controls
from quantviz.schemes import calibration as calibrations
from quantviz.schemes import scheme as schemes
from quantviz.schemes.calibration import Calibration, Range, starting
from quantviz.text import catalogue
from tests.helpers.controls import choose, controls, words_of
from tests.helpers.sample import sample_of
from tests.helpers.session import address, healthy, keys_of, numbers, opened, panels, result

TENSORS = ("normal(rows=6,cols=16)", "builtin(name=course_3x3)")


#: What int4 under the notebooks' convention is refused with.
REFUSED = {
    "symmetric": {"hqq"},
    "asymmetric": {"abs_mean", "mse_modelopt", "entropy_tensorrt", "percentile_modelopt", "octav", "hqq"},
}


def chosen(at, name):
    return choose(at, ("calibration", name))


def codes_and_errors(at):
    r = result(at)
    _, q, x_hat, error = panels(at)
    assert np.array_equal(q, r.q.numpy())
    assert np.array_equal(x_hat, r.x_hat.numpy())
    assert np.allclose(error, r.error.numpy())
    return r


@pytest.mark.nightly
@pytest.mark.parametrize(("tensor", "mode"), sample_of(itertools.product(TENSORS, qv.MODES), 1))
def test_every_calibration_can_be_chosen_and_shared(tensor, mode):
    at = opened(t=tensor, s=f"int4,{mode},per_tensor,min_max,course")
    refused = set()
    for name in (each for each in qv.CALIBRATIONS if each != qv.Searched.id):
        before = address(at)["s"]
        chosen(at, name)
        assert not at.exception, name
        if at.error:
            assert address(at)["s"] == before
            refused.add(name)
            chosen(at, "min_max")
            continue
        scheme = qv.Scheme.parse(address(at)["s"])
        assert (scheme.calibration.id, scheme.mode) == (name, mode)
        r = codes_and_errors(at)
        assert r.scheme == scheme
        again = opened(**address(at))
        assert controls(again)["calibration"]["value"] == name
        assert np.array_equal(panels(again)[1], panels(at)[1])
        assert [tile.value for tile in numbers(again)] == [tile.value for tile in numbers(at)]
        assert float(numbers(at)[0].value) == float(f"{qv.metrics(r)['mse']:.4g}")
        fields = {f"range_{field.name}" for field in dataclasses.fields(scheme.calibration)}
        assert fields == {*keys_of(at, "range_")} - {"range_expander"}
    assert refused == REFUSED[mode]


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


def test_each_begins_with_numbers_that_it_takes():
    for name, kind in qv.CALIBRATIONS.items():
        begun = starting(kind, {"lo": -1.0, "hi": 2.0, "scale": 0.5, "zero_point": 0})
        assert begun.id == name
        mode, zero_domain = ("asymmetric", "code_float") if name == "hqq" else ("symmetric", "code_int")
        assert not list(begun.problems(qv.FORMATS["int4"], mode, zero_domain))


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
