"""The controls of the Lab's scheme as data: what each offers, and the scheme that a choice leads to."""

import contextlib
from dataclasses import dataclass
from typing import ClassVar

import pytest

import quantviz as qv
from quantviz.lab import controls
from quantviz.lab.controls import CONTROLS, calibrations, granularities, with_calibration
from quantviz.lab.state import LabState
from quantviz.schemes import calibration as ranges
from quantviz.schemes import scheme as schemes
from quantviz.schemes.calibration import Calibration, Range
from quantviz.schemes.recipes import RECIPES


def state_of(scheme, tensor="normal(rows=2,cols=256)"):
    state, problems = LabState.read({"t": tensor, "s": scheme})
    assert problems == ()
    return state


BEGUN = state_of("int4,symmetric,per_tensor,min_max,course")


def chosen(state, key, choice):
    return state.with_scheme(CONTROLS[key].scheme(state, choice))


def test_each_control_leads_to_its_scheme():
    state = state_of("int4,symmetric,per_tensor,min_max,course", "builtin(name=loud_column)")
    for key, choice, scheme in (
        ("bits", "8", "int8,symmetric,per_tensor"),
        ("mode", "asymmetric", "int8,asymmetric,per_tensor"),
        ("format", "integer_unsigned", "uint8,asymmetric,per_tensor"),
        ("granularity", "column", "uint8,asymmetric,per_channel(axis=1)"),
        ("granularity", "group", "uint8,asymmetric,per_group("),
        ("group_size", 2, "uint8,asymmetric,per_group(size=2)"),
        ("group_axis", 0, "uint8,asymmetric,per_group(size=2,axis=0)"),
        ("granularity", "block", "uint8,asymmetric,per_block("),
        ("block_rows", 8, "uint8,asymmetric,per_block(rows=8,cols=4)"),
        ("granularity", "flat", "uint8,asymmetric,flat("),
        ("flat_size", 16, "uint8,asymmetric,flat(size=16)"),
        ("flat_strided", True, "uint8,asymmetric,flat(size=16,strided=true)"),
    ):
        assert choice in CONTROLS[key].choices(state)
        state = chosen(state, key, choice)
        assert str(state.scheme).startswith(scheme)


@pytest.mark.parametrize("name", qv.CONVENTIONS)
def test_each_engine_leaves_only_what_it_offers(name):
    """And each choice that is left leads to a scheme of the tensor, or is refused with a sentence."""
    now, offer = chosen(BEGUN, "convention", name), qv.CONVENTIONS[name].offer
    assert now.scheme.convention == qv.CONVENTIONS[name]
    assert set(CONTROLS["mode"].choices(now)) <= set(offer.modes or qv.MODES)
    kinds = {granularities(now)[each].id for each in CONTROLS["granularity"].choices(now)}
    assert now.scheme.granularity.id in kinds
    assert kinds <= {*(offer.granularities or kinds)}
    for key in CONTROLS.keys() - {"convention", "recipe"}:
        for choice in CONTROLS[key].choices(now):
            with contextlib.suppress(qv.QuantVizError):
                scheme = CONTROLS[key].scheme(now, choice)
                assert not scheme.problems(now.source.shape), (key, choice)
                assert scheme.format in (offer.formats or qv.FORMATS)
                assert qv.Scheme.parse(str(scheme)) == scheme


def test_each_recipe_and_each_format_is_set():
    for name in CONTROLS["recipe"].choices(BEGUN):
        assert chosen(BEGUN, "recipe", name).scheme == RECIPES[name]
    for choice in CONTROLS["format"].choices(BEGUN):
        for bits in CONTROLS["bits"].choices(now := chosen(BEGUN, "format", choice)):
            found = chosen(now, "bits", bits).scheme.number_format
            assert found.family == now.scheme.number_format.family
            assert (found.family == "integer") == choice.startswith("integer_")


@pytest.mark.parametrize(
    ("button", "large"),
    [("group", qv.PerGroup(128, -1)), ("block", qv.PerBlock(128, 128)), ("flat", qv.Flat(64))],
)
def test_blocks_of_a_layer_begin_as_large_as_they_usually_are(monkeypatch, button, large):
    state = state_of("int4,symmetric,per_channel,min_max,course", "normal(rows=256,cols=384)")
    assert chosen(state, "granularity", button).scheme.granularity != large
    monkeypatch.setattr("quantviz.lab.state.MOST_WHOLE", 1000)
    assert chosen(state, "granularity", button).scheme.granularity == large


#: What int4 under the notebooks' convention is refused with.
REFUSED = {
    "symmetric": {"hqq"},
    "asymmetric": {"abs_mean", "mse_modelopt", "entropy_tensorrt", "percentile_modelopt", "octav", "hqq"},
}


@pytest.mark.parametrize("mode", qv.MODES)
@pytest.mark.parametrize("tensor", ["normal(rows=6,cols=16)", "builtin(name=course_3x3)"])
def test_every_calibration_is_chosen_and_its_link_opens_it_again(tensor, mode):
    state, refused = state_of(f"int4,{mode},per_tensor,min_max,course", tensor), set()
    for name in calibrations(state):
        try:
            known = {"lo": -1.0, "hi": 2.0, "scale": 0.5, "zero_point": 0}
            now = state.with_scheme(with_calibration(state, name, known))
            qv.quantize(now.source.tensor(), now.scheme)
        except qv.QuantVizError:
            refused.add(name)
            continue
        assert (now.scheme.calibration.id, now.scheme.mode) == (name, mode)
        assert LabState.read(now.written()) == (now, ())
    assert refused == REFUSED[mode]


def test_an_engine_that_searches_scales_takes_no_range():
    state = state_of(str(RECIPES["q4_k"]))
    assert tuple(calibrations(state)) == ("searched",)
    now = chosen(state, "convention", "gguf_minimum")
    assert str(now.scheme) == "uint4,asymmetric,per_group(size=32),min_max,gguf_minimum"
    assert set(calibrations(now)) == qv.CALIBRATIONS.keys() - {"searched"}


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


def test_a_calibration_that_is_added_is_offered_computed_and_in_the_link(monkeypatch):
    for module in (ranges, schemes, controls):
        monkeypatch.setattr(module, "CALIBRATIONS", {**qv.CALIBRATIONS, "fraction": Fraction})
    assert "fraction" in calibrations(BEGUN)
    now = BEGUN.with_scheme(with_calibration(BEGUN, "fraction", {}))
    assert state_of(str(now.scheme)) == now
    assert str(now.scheme) == "int4,symmetric,per_tensor,fraction(part=1.0),course"
    half = now.with_scheme(now.scheme.replace(calibration=Fraction(0.5))).scheme
    x = now.source.tensor()
    assert qv.quantize(x, half).qparams.scale == qv.quantize(x, BEGUN.scheme).qparams.scale / 2
