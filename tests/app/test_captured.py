"""The page of checkpoints on a capture of layers, through AppTest: two maps, and the way to a layer."""

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.errors import Note
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import LayerState
from quantviz.layers.captures import Captured, Layers
from quantviz.layers.layer_numbers import best_of_all, output_sqnr_db
from quantviz.layers.methods.chain import as_chain
from quantviz.schemes.recipes import as_scheme
from quantviz.sources import LocalTensor, Normal, write_source
from quantviz.sources.local import FOLDER
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.layers import own_layer
from quantviz.ui.layers.words import percent
from tests.helpers.bad_capture import FAULTS, write_bad_capture
from tests.helpers.session import (
    act,
    address,
    bodies,
    chart,
    healthy,
    opened,
    panels,
    result,
    spec,
    told,
    turned,
    unfolded,
)

PAGE = "pages/explore/checkpoints.py"
PAIR = ("int4_per_row", "int8_per_row")


def drawn(*shape, seed=0):
    return Normal(rows=shape[0], cols=shape[1], seed=seed).tensor()


def layers():
    """A quiet layer, one with a loud input, and one with NaN; a fourth did not run."""
    loud = drawn(16, 8, seed=3)
    loud[:, 2] *= 50
    missing = drawn(16, 8, seed=4)
    missing[3, 3] = torch.nan
    captured = (
        Captured("h.0.up", "linear", drawn(6, 8, seed=1), drawn(16, 8, seed=2), None, 16),
        Captured("h.1.up", "linear", drawn(6, 8, seed=5), loud, None, 16),
        Captured("h.1.down", "linear", drawn(6, 8, seed=6), missing, None, 16),
    )
    return Layers(captured, (Note.of("collect_idle", count=1, names="h.2.up"),))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("captures") / "layers.safetensors"
    layers().save(path)
    loud = drawn(16, 600, seed=8)
    loud[:, 401] *= 50
    wide = Captured("wide", "linear", drawn(150, 600, seed=7), loud, None, 16)
    Layers((wide,), ()).save(path.with_name("wide.safetensors"))
    return path


def errors(name):
    return layers()[name].result(*PAIR).rel_out


def opened_capture(file, **params):
    return opened(PAGE, **{"f": file.name, "pair": "!".join(PAIR), "lang": "en", **params})


def test_a_capture_is_two_maps_and_opens_its_layers(file, monkeypatch):
    monkeypatch.setenv(FOLDER, str(file.parent))
    at = opened_capture(file)
    for name in ("weight_sqnr_db", "output_db"):
        points = spec(at, f"checkpoints_capture_{name}")["data"][1]
        assert (points["x"], points["y"]) == ([0, 0, 1], [0, 1, 1])
        assert points["text"][2] == "×"
    assert points["text"][1] == f"{output_sqnr_db(errors('h.1.up').held_back):.1f}"
    (finding,) = bodies(at, 'class="qv-finding"')
    said = told(at, "markdown") + told(at, "caption")
    worst = max(("h.0.up", "h.1.up"), key=lambda name: errors(name).held_back)
    assert f"Layer {worst} has the largest output error, {percent(errors(worst).held_back)}" in finding
    assert "2 of the file's 3 layers have a number" in said
    assert "no input came to them" in said
    assert "(1): h.2.up" in said
    assert "NaN" in at.dataframe[0].value["reason"][0]
    assert (address(at)["f"], address(at)["pair"]) == (file.name, "!".join(PAIR))
    state, problems = LayerState.read(address(act(at, "checkpoints_capture_open")))
    assert (str(state.pair), problems) == ("!".join(PAIR), ())
    assert state.source.weight.name == f"{worst}.weight"


def test_the_worst_layer_arrives_with_its_best_remedy_which_a_click_takes(file, monkeypatch):
    monkeypatch.setenv(FOLDER, str(file.parent))
    pair = ("int8_per_row", "int8_per_tensor")
    at = act(opened_capture(file, pair="!".join(pair)), "checkpoints_capture_open")
    before, after = (
        layers()["h.1.up"].result("int8_per_row", inputs).rel_out.held_back
        for inputs in ("int8_per_tensor", "int8_per_row")
    )
    (finding,) = bodies(at, 'class="qv-finding"')
    assert "Channel 2 is" in finding
    said = bodies(at, "→")[0].replace("\N{NO-BREAK SPACE}", " ")
    assert (
        f"int8 per token for the inputs: {percent(after)}, {short_number(before / after, 2)} times less"
        in said
    )
    at = act(opened("pages/explore/layers.py", **address(at)), "layers_remedy")
    assert LayerState.read(address(at))[0].pair.inputs == "int8_per_row"
    assert percent(after) in bodies(at, "qv-layer-numbers")[0]


def test_the_best_method_of_each_layer_is_found_on_request_and_opens_its_layer(file, monkeypatch):
    monkeypatch.setenv(FOLDER, str(file.parent))
    at = opened_capture(file)
    count = len(at.dataframe)
    act(at, checkpoints_methods_choice=["gptq", "awq"])
    assert "--methods gptq,awq" in at.code[0].value
    act(at, "checkpoints_methods_begin")
    assert len(at.dataframe) == count + 1
    chains = [as_chain(each) for each in ("gptq", "awq")]
    best = {row["layer"]: row for row in best_of_all(layers(), *map(as_scheme, PAIR), chains)}
    found = at.dataframe[0].value
    names = sorted(("h.1.up", "h.0.up"), key=lambda name: -best[name]["times_less"])
    assert list(found["layer"]) == names
    assert list(found["times_less"]) == pytest.approx([best[name]["times_less"] for name in names])
    assert list(found["best"]) == pytest.approx([100 * best[name]["rel_out_held_back"] for name in names])
    # Where it is cancelled, it is said how many layers are measured, and one can go on.
    del at.session_state["checkpoints_methods_search"].found["h.0.up", "awq"]
    assert "Cancelled: 1 of 2 layers are measured" in told(at.run(), "markdown")
    assert list(at.dataframe[0].value["layer"]) == ["h.1.up"]
    assert len(act(at, "checkpoints_methods_go_on").dataframe[0].value) == 2
    # Other methods, another search.
    assert act(at, checkpoints_methods_choice=["gptq"]).button(key="checkpoints_methods_begin")
    act(at, checkpoints_methods_choice=[])
    assert healthy(at).button(key="checkpoints_methods_begin").disabled


def test_the_page_names_faulty_layers_and_clears_an_error_once_it_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    write_bad_capture(tmp_path / "bad.safetensors")
    at = opened_capture(tmp_path / "bad.safetensors", pair="int8_per_row!int8_per_row")
    assert f"1 of the file's {1 + len(FAULTS)} layers have a number" in told(at, "caption")
    reasons = at.dataframe[0].value.set_index("layer")["reason"]
    assert all(part in reasons[name] for name, part in FAULTS.items())
    with monkeypatch.context() as small:
        small.setattr(own_layer, "MOST_WORK", 1)
        act(at, "checkpoints_capture_open")
    (refused,) = (each.value for each in at.warning)
    assert "multiplications" in refused
    # The error is of this page, and of that click alone.
    at.switch_page("pages/explore/layers.py").run()
    assert refused not in [each.value for each in healthy(at).warning]
    at.switch_page(PAGE).run()
    assert [each.value for each in at.warning] == [refused]
    assert not act(at, checkpoints_capture_weights="int4_per_row").warning


SCHEME = "int4,symmetric,per_channel(axis=0),min_max,course"


def of_captured(file, name):
    return write_source(LocalTensor.of(file, name))


def test_the_lab_weights_the_error_of_a_captured_weight_by_its_inputs(file, monkeypatch):
    monkeypatch.setenv(FOLDER, str(file.parent))
    at = opened(t=of_captured(file.name, "h.1.up.weight"), s=SCHEME, e="seen", lang="en")
    rms = layers()["h.1.up"].inputs.double().square().mean(0).sqrt()
    np.testing.assert_allclose(panels(at)[3], result(at).error * rms, rtol=1e-5)
    assert "√H" in told(unfolded(at), "caption")
    # So it is where a pixel stands for many cells.
    at = opened(t=of_captured("wide.safetensors", "wide.weight"), s=SCHEME, e="seen", lang="en")
    assert "rms of its inputs, largest of" in chart(at, "panels_chart").proto.spec
    assert "√H" in told(unfolded(at), "caption")
    at = opened(**address(at), p="rms")
    assert "error |x" in chart(at, "panels_chart").proto.spec
    assert "can only show the error itself" in told(unfolded(at), "caption")
    # Of a tensor without inputs the error is shown as it is.
    at = opened(t="normal(rows=4,cols=4,seed=1)", s=SCHEME, e="seen", lang="en")
    np.testing.assert_array_equal(panels(at)[3], result(at).error)
    assert "without inputs" in told(unfolded(at), "caption")


def test_blame_offers_scaling_by_the_inputs_of_a_captured_weight(file, monkeypatch):
    monkeypatch.setenv(FOLDER, str(file.parent))
    form, loud = of_captured(file.name, "h.1.up.weight"), layers()["h.1.up"]

    def sentence(form, scheme=SCHEME):
        return told(turned(opened(t=form, s=scheme, lang="en"), "blame"), "markdown")

    def gain(weight, inputs, scheme):
        found = (qv.layer(weight, inputs, scheme, None, method=each) for each in (None, "awq"))
        before, after = (output_sqnr_db(each.rel_out.held_back) for each in found)
        assert after > before + 1
        return f"SQNR of the outputs from {before:.3g} to {after:.3g} dB"

    said = sentence(form)
    assert gain(loud.weight, loud.inputs, SCHEME) in said
    assert "scales are from 12 tokens of this capture, decibels from the 4 held back" in said
    assert "evenly spaced" not in said
    assert "by the activations" not in sentence("normal(rows=6,cols=8,seed=5)")
    # Of a large weight some outputs and tokens are tried, and that is said.
    monkeypatch.setattr(blame_tab, "_MOST_WEIGHTS", 2 * 8)
    monkeypatch.setattr(blame_tab, "_MOST_INPUTS", 8 * 8)
    scheme = SCHEME.replace("int4", "int3")
    said = sentence(form, scheme)
    assert gain(loud.weight[::3], loud.inputs[::2], scheme) in said
    assert "scales are from 6 tokens of this capture, decibels from the 2 held back" in said
    assert "Tried on 2 of the weight's 6 outputs" in said
