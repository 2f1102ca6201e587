"""Engines, recipes, formats and rules in the Lab: what can be chosen, and what is said where it cannot."""

import itertools

import numpy as np
import pytest

import quantviz as qv
from quantviz.schemes.conventions import CONVENTION_GROUPS, FIELDS
from quantviz.schemes.recipes import ALL_RECIPES
from quantviz.text import catalogue
from tests.helpers.controls import choose, controls, words_of
from tests.helpers.session import act, address, control, healthy, keys_of, opened, panels, told, unfolded

#: Blocks of 256 fit, and it is small.
WIDE = "normal(rows=2,cols=256)"


def test_engines_are_listed_by_purpose():
    """What they are found by is in `tests/schemes/test_names.py`."""
    names = [*itertools.chain(*CONVENTION_GROUPS.values())]
    for language in ("en", "zh"):
        at, words = opened(lang=language, t=WIDE), catalogue(language)
        for name, label in zip(names, words_of(at, "convention"), strict=True):
            assert label.startswith(words[f"conventions.{name}.name"])
            assert label.endswith(words[f"purposes.{qv.CONVENTIONS[name].purpose}"])


def test_what_an_engine_changes_is_said_and_what_it_cannot_take_is_refused():
    at = act(opened(t=WIDE, s="int3,symmetric,per_channel,min_max,course"), convention="gguf_signed")
    said = next(caption.value for caption in at.caption if "Set instead" in caption.value).replace("\\", "")
    assert "GGUF Q4_0, Q5_0 does not offer INT3, one scale for each row" in said
    assert "INT4, one scale for each group of 32" in said
    at = act(opened(lang="zh"), convention="gguf_signed")
    assert "32" in at.error[0].value
    assert controls(at)["convention"]["value"] == "course"
    assert address(at)["s"] == "int4,symmetric,per_tensor,min_max,course"
    assert len(panels(at)) == 4


def test_a_recipe_is_recognized_and_refused_where_it_does_not_fit():
    """What each sets is in `tests/lab/test_controls.py`."""
    own = "uint3,asymmetric,per_tensor,percentile(p=99.0),course"
    assert controls(opened(t=WIDE, s=own))["recipe"]["value"] == "own"
    # An engine's recipe, as a scan links to it, stands first among the others while the scheme is that.
    of_engine = opened(t=WIDE, s=str(ALL_RECIPES["w4a16_g128"]), lang="en")
    assert controls(of_engine)["recipe"]["value"] == "w4a16_g128"
    assert words_of(of_engine, "recipe")[0] == "vLLM W4A16 in groups of 128"
    at = act(opened(lang="en"), recipe="q4_0")
    assert "1, 2, 4, 8" in told(at, "error")
    assert address(at)["s"] == "int4,symmetric,per_tensor,min_max,course"


@pytest.mark.nightly
def test_each_rule_can_be_changed_and_stands_in_the_link():
    scheme = "int8,asymmetric,per_group(size=16),min_max,torchao"
    at = unfolded(opened(t="normal(rows=2,cols=32)", s=scheme), "rules")
    assert {f"rule_{name.replace('.', '_')}" for name in FIELDS} <= set(keys_of(at))
    for key, value, rules in (
        ("rule_ties", "stochastic", "(ties=stochastic)"),
        ("rule_seed", 7, "(ties=stochastic,seed=7)"),
        ("rule_scale_format", "float16", "(ties=stochastic,seed=7,scale.format=float16)"),
        ("rule_scale_format", "None", "(ties=stochastic,seed=7)"),
    ):
        act(unfolded(at, "rules"), **{key: value})
        assert address(healthy(at))["s"] == scheme + rules
        assert np.array_equal(panels(opened(**address(at)))[1], panels(at)[1])
    assert address(act(at, "rules_as_engine"))["s"] == scheme


def test_a_rule_that_cannot_be_is_a_sentence_beside_it():
    scheme = "int4,symmetric,per_group(size=32),min_max,onnxruntime_blocked"
    at = unfolded(opened(t="normal(rows=2,cols=40)", s=scheme), "rules")
    choose(at, ("rule_tail", "refuse"))
    assert not at.exception
    assert "32" in at.error[0].value
    assert controls(at)["rule_tail"]["value"] == "short"
    assert address(at)["s"] == scheme


def test_a_scale_by_hand_has_the_zero_point_that_the_engine_has():
    at = opened(t=WIDE, s="uint4,asymmetric,per_group(size=32),min_max,gguf_minimum")
    act(at, calibration="given")
    assert qv.Scheme.parse(address(healthy(at))["s"]).calibration.zero_point < 0
    assert "zero_point=-0.5" in address(act(at, range_zero_point=-0.5))["s"]
    act(at, convention="bitsandbytes")
    assert address(healthy(at))["s"].startswith("nf4,symmetric,flat(size=32),given(scale=")


def test_locked_schemes_keep_every_new_control():
    at = unfolded(opened(t=WIDE, s="int4,symmetric,per_tensor,min_max,course", k="lock-scheme"), "rules")
    drawn = ("format", "recipe", "convention", "granularity", "rule_ties", "rule_scale_format", "rule_seed")
    for key in drawn:
        assert controls(at)[key]["disabled"], key
    assert control(at, "rules_as_engine").disabled


def test_other_blocks_begin_with_their_own_range():
    """A range that was dragged is one for the whole tensor: each column is not clipped to it."""
    at = opened(s="int4,symmetric,per_tensor,manual_range(lo=-10.0,hi=10.0),course", lang="en")
    scheme = qv.Scheme.parse(address(act(at, granularity="column"))["s"])
    assert (scheme.granularity, scheme.calibration) == (qv.PerChannel(1), qv.MinMax())
    assert "was for the blocks as they were. It is now: " in told(at, "caption")
    act(at, "undo")
    assert qv.Scheme.parse(address(healthy(at))["s"]).calibration == qv.ManualRange(-10.0, 10.0)


def test_a_link_of_before_says_that_its_arithmetic_was_corrected_until_the_scheme_is_another_one():
    form = "int8,symmetric,per_tensor,percentile(p=99.0),onnxruntime"
    at = opened(v="1", t="normal(rows=8,cols=64,seed=1)", s=form)
    said = catalogue("en")["notes.mended"].partition("{")[0]
    assert said in told(at, "info")
    assert "−128" in told(at, "info")
    assert address(at)["v"] == "2"
    assert said not in told(act(at, convention="course"), "info")
