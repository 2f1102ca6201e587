"""The maps of a capture's layers: an error beside outputs that are all 0 is the worst of all."""

import math

from quantviz.figures.layer_map import error_maps


def row(name, db, reason=None):
    errors = {"rel_out_held_back": 10 ** (-db / 10), "rel_out_used": 0.1, "loud_input": 0}
    known = {"status": "ok", "weight_sqnr_db": 20.0, "output_db": db}
    return {"layer": name, "reason": reason, **known, **errors}


def test_an_error_without_outputs_has_the_strongest_colour():
    rows = [row("h.0.up", 30.0), row("h.1.up", -math.inf, "all <0>"), row("h.2.up", math.inf)]
    _, outputs = error_maps(rows)
    heat, points = outputs.data
    assert [line[0] for line in heat.z] == [0, 1, 0]
    assert list(points.text) == ["30.0", "−∞", "∞"]
    assert "all &lt;0&gt;" in points.hovertext[1]


def test_layers_without_numbers_are_named_in_their_squares():
    rows = [row("conv", 30.0), row("net.upsample<1>", 20.0), row("h.0.up", 10.0)]
    _, outputs = error_maps(rows)
    assert list(outputs.data[1].text) == ["conv<br>30.0", "…ample&lt;1&gt;<br>20.0", "10.0"]
