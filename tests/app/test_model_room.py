"""The page of a model that runs through AppTest: what it says is what a run gives."""

import quantviz as qv
from quantviz.figures.numbers import short_number
from quantviz.models.model_schemes import LayerSchemes, scheme_of_bits
from quantviz.ui.checkpoints.model_state import METHODS, ModelState, model_address
from tests.helpers import session
from tests.helpers.session import address, chart, healthy

PAGE = "pages/explore/checkpoints.py"


def test_the_page_says_what_a_run_gives():
    at = session.opened(PAGE, f="model:character_twin", bits="3", part="attention", lang="en")
    run = qv.run("character_twin", LayerSchemes(scheme_of_bits(3)))
    said = " ".join(each.proto.body for each in at.get("html"))
    assert f"at character {run.first_difference + 1}" in said
    assert short_number(run.loss) in said
    assert short_number(run.kl) in said
    assert "loud: channels 5, 43, 90, 111" in said
    at.button(key="models_save").click().run()
    healthy(at)
    assert address(at)["method"] == "gptq"
    at.button_group(key="models_part").set_value("depth").run()
    healthy(at)
    at.select_slider(key="models_bits").set_value(16).run()
    healthy(at)
    assert {"bits": "16", "part": "depth"}.items() <= address(at).items()


def test_each_layer_has_its_cost_and_its_bits():
    at = session.opened(PAGE, f="model:character", part="mix", lang="zh")
    table = next(each.proto.body for each in at.get("html") if "qv-mixes" in each.proto.body)
    assert "444444 · 444444 · 444444 · 444444" in table
    at.button_group(key="models_part").set_value("layers").run()
    healthy(at)
    assert chart(at, "models_map")


def test_a_state_is_its_address():
    state = ModelState(2, "g32", METHODS[-1], "int8_token", "int4", "rel_out", "mix", 3, 1)
    assert len(model_address(state)) == 9
    assert model_address(ModelState()) == {}
