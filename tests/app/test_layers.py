"""The page of layers through AppTest: what it says is what the layer is."""

import html
import io
import json
import pickle
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.lab import layer_state
from quantviz.lab.layer_sources import OwnLayer, write_layer
from quantviz.lab.layer_state import LayerState
from quantviz.layers.built_in import BUILT_IN_LAYERS, BuiltInLayer
from quantviz.layers.captures import Captured, write_capture
from quantviz.layers.integers_of_layer import integers_of
from quantviz.layers.methods.chain import offered_chains
from quantviz.schemes.recipes import RECIPES
from quantviz.sources import Normal
from quantviz.sources.local import FOLDER
from quantviz.sources.upload import Upload
from quantviz.ui.layers import state
from quantviz.ui.layers.page import TABS
from quantviz.ui.layers.scaling_pictures import WORSE
from quantviz.ui.layers.words import percent
from tests.helpers.importance_file import write_dat
from tests.helpers.messages import components, events_of, send
from tests.helpers.sample import sample_of
from tests.helpers.session import address, chart, decoded, healthy, opened, panels

PAGE = "pages/explore/layers.py"


def page(name="loud_input", **params):
    return opened(PAGE, l=f"builtin(name={name})", **({"lang": "en"} | params))


def with_more(at):
    """The list of more choices opened, which AppTest knows nothing of."""
    assert "layers_seed" not in {each.key for each in at.number_input}
    at.session_state["layers_more"] = True
    return healthy(at.run())


def numbers(at):
    line = next(each.proto.body for each in at.get("html") if "qv-layer-numbers" in each.proto.body)
    line = re.sub(r'<span class="qv-meaning".*?</span>', "", line)
    return html.unescape(re.sub("<[^>]+>", "", line))


def result_of(name, **more):
    layer = BuiltInLayer(name).open()
    entry = BUILT_IN_LAYERS[name]
    return qv.layer(layer.weight, layer.inputs, entry.weights, entry.inputs, layer.bias, **more)


@pytest.mark.parametrize("name", sample_of(BUILT_IN_LAYERS, 2))
def test_the_numbers_are_the_layers_on_both_sides_of_the_split(name):
    at = page(name)
    used, held_back = result_of(name).rel_out
    assert f"{percent(held_back)} held back · {percent(used)} used" in numbers(at)
    assert address(at)["l"] == f"builtin(name={name})"


def test_the_picture_is_the_multiplication():
    at = page(e="x")
    x, w, y = (decoded(trace["z"]) for trace in json.loads(chart(at, "layers_picture").proto.spec)["data"])
    assert np.allclose(x @ w, y, rtol=1e-5)


def test_the_first_cell_is_the_worst_and_then_it_stays():
    at = page()
    result = result_of("loud_input")
    token, output = divmod(int(result.cells().error.abs().argmax()), 4)
    assert address(at)["c"] == f"{token}.{output}"
    at.selectbox(key="layers_inputs").set_value("int8_per_row").run()
    assert address(healthy(at))["c"] == f"{token}.{output}"
    # So do the colours of the error, until they are fitted anew; weights have none but float32's own.
    ends = address(at)["z"]
    assert ends.split("_")[1] == "0.0"
    assert [trace["zmax"] for trace in json.loads(chart(at, "layers_picture").proto.spec)["data"]] == [
        float(each) or 1.0 for each in ends.split("_")
    ]
    again = opened(PAGE, **address(at))
    assert address(healthy(again)) == address(at)
    assert not again.warning
    at.button(key="layers_fit").click().run()
    assert address(at)["z"] != ends


def test_the_products_of_the_typed_cell_are_listed_by_what_they_contribute():
    at = page()
    at.number_input(key="layers_output").set_value(2).run()
    at.number_input(key="layers_token").set_value(0).run()
    products = result_of("loud_input").products(0, 2)
    table = next(each.proto.body for each in healthy(at).get("html") if "qv-products" in each.proto.body)
    assert re.findall(r'data-channel="(\d+)"', table) == [str(each) for each in products.channels.tolist()]
    assert address(at)["c"] == "0.2"


def test_the_integer_steps_end_in_the_engines_code_and_the_link_keeps_the_engine():
    at = page("minilm_1_intermediate", w="int8_per_row", a="int8_per_column")
    at.button_group(key="layers_tab_choice").set_value("integer").run()
    at.button(key="layers_integer_apply").click().run()
    at.selectbox(key="layers_engine").set_value("fbgemm_avx2").run()
    at.selectbox(key="layers_activation").set_value("relu").run()
    token, output = map(int, address(healthy(at))["c"].split("."))
    assert (address(at)["g"], address(at)["r"]) == ("fbgemm_avx2", "relu")
    stored = BuiltInLayer("minilm_1_intermediate").open()
    layer = qv.layer(stored.weight, stored.inputs, "int8_per_row", "int8_per_tensor", stored.bias)
    why = integers_of(layer, engine="fbgemm_avx2", activation="relu").explain(token, output)
    table = next(each.proto.body for each in at.get("html") if "qv-integers" in each.proto.body)
    gives = [float(each.replace(",", "").replace("−", "-")) for each in re.findall("<b>(.*?)</b>", table)]
    assert gives[:-1] == pytest.approx([float(step.output) for step in why.steps], rel=1e-6)
    assert gives[-1] == pytest.approx(why.y, rel=1e-6)
    assert LayerState.read(address(at))[0].engine == "fbgemm_avx2"


def test_a_choice_is_undone_and_done_again():
    at = page()
    at.selectbox(key="layers_pair").set_value("w8a32").run()
    assert (address(at)["w"], address(at)["a"]) == ("int8_per_row", "none")
    at.button_group(key="layers_tab_choice").set_value("channels").run()
    at.button(key="undo").click().run()
    assert address(at)["t"] == "channels"
    assert (address(at)["w"], address(at)["a"]) == ("int8_per_tensor", "int4_per_tensor")
    at.button(key="redo").click().run()
    assert address(healthy(at))["a"] == "none"


def test_a_link_of_uploads_opens_the_persons_own_layer_or_none_of_its_places():
    big = BuiltInLayer("minilm_0_output")
    own = OwnLayer(Upload("00", "w.npy", (5, 4)), Upload("01", "x.npy", (6, 4)))
    link = {"l": write_layer(own), "w": "int4_per_row", "c": "2.1", "v": "0.4_0.2_0.3", "z": "9.0_1.0_1.0"}
    codecs = state.OWNER.codecs(LayerState(source, layer_state.PAIRS["w8a32"]) for source in (own, big))
    found, problems = LayerState.read(link, **codecs)
    assert (found.source, found.cell, problems) == (own, (2, 1), ())
    stranger, (problem,) = LayerState.read(link)
    assert problem.key == "link.part"
    assert stranger == LayerState.opening().replace(pair=stranger.pair)
    assert stranger.pair.weights == "int4_per_row"


@pytest.mark.parametrize("tab", TABS)
def test_each_tab_opens_in_each_language(tab):
    at = page("course_w8a32", lang="zh")
    at.button_group(key="layers_tab_choice").set_value(tab).run()
    assert not healthy(at).warning
    # The link keeps it.
    assert LayerState.read(address(at))[0].open_tab == tab
    assert tuple(TABS) == layer_state.TABS


def test_a_compared_pair_is_kept_in_the_link():
    at = page()
    at.button_group(key="layers_tab_choice").set_value("compare").run()
    # Chosen and pressed at once: both come in one message.
    at.selectbox(key="layers_inputs").set_value("int8_per_tensor")
    at.button(key="layers_keep").click().run()
    assert address(at)["y"] == "int8_per_tensor!int8_per_tensor"
    at.button(key="layers_drop").click().run()
    assert "y" not in address(healthy(at))


def test_a_link_that_cannot_be_used_says_why_and_the_page_works():
    at = opened(PAGE, l="builtin(name=nothing)", w="int9", lang="en")
    told = " ".join(each.value for each in at.warning)
    assert "the layer" in told
    assert "the scheme of the weights" in told
    assert chart(at, "layers_picture")


def test_a_layer_of_ones_own_opens_and_says_what_it_cannot_be():
    at = with_more(page())
    at.button_group(key="layers_own_inputs").set_value("after_gelu").run()
    at.number_input(key="layers_own_tokens").set_value(8).run()
    at.button(key="layers_own_open").click().run()
    assert address(healthy(at))["l"].startswith("layer(normal(rows=64,cols=64")
    assert "after_gelu" in address(at)["l"]
    at.number_input(key="layers_own_outputs").set_value(4096).run()
    at.number_input(key="layers_own_channels").set_value(4096).run()
    for tokens, told in ((1, "one token"), (1_000_000, "16384"), (4096, "multiplications")):
        at.number_input(key="layers_own_tokens").set_value(tokens).run()
        at.button(key="layers_own_open").click().run()
        assert told in " ".join(each.value for each in healthy(at).warning)


def give(at, key, filename, content):
    at.file_uploader(key=f"layers_own_{key}").set_value((filename, content, "application/octet-stream")).run()
    return healthy(at)


def own_inputs(way):
    """A page that asks for inputs of this origin, for a drawn weight of five outputs."""
    at = with_more(page("course_w8a32", w="int8_per_row", a="int8_per_row"))
    at.button_group(key="layers_own_inputs").set_value(way).run()
    at.number_input(key="layers_own_outputs").set_value(5).run()
    return healthy(at)


def error_shown(weight, inputs, bias=None):
    used, held_back = qv.layer(weight, inputs, "int8_per_output", "int8_per_token", bias).rel_out
    return f"{percent(held_back)} held back · {percent(used)} used"


def drawn_inputs(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(8))


def test_typed_inputs_travel_in_the_link():
    at = own_inputs("typed")
    at.button(key="layers_own_open").click().run()
    assert "no numbers" in " ".join(each.value for each in at.warning)
    # The layer before stays.
    at.text_area(key="layers_own_text").set_value("1 2 3\nnan 1 2").run()
    at.button(key="layers_own_open").click().run()
    assert "NaN or Inf in 1 cell" in " ".join(each.value for each in healthy(at).warning)
    assert address(at)["l"] == "builtin(name=course_w8a32)"
    x = [[0.5, -1.25, 3.0], [2.0, 0.75, -1.0], [1.0, 9.0, 0.125], [-4.0, 0.0, 1.0]]
    at.text_area(key="layers_own_text").set_value(str(x)).run()
    at.button(key="layers_own_open").click().run()
    assert error_shown(Normal(rows=5, cols=3).tensor(), x) in numbers(healthy(at))
    assert not at.warning
    again = opened(PAGE, **address(at))
    assert numbers(healthy(again)) == numbers(at)
    assert address(again) == address(at)


def test_inputs_from_a_file_stay_in_the_session():
    x = drawn_inputs(16, 6)
    file = io.BytesIO()
    np.save(file, x.numpy())
    at = give(own_inputs("file"), "file", "inputs.npy", file.getvalue())
    at.button(key="layers_own_open").click().run()
    assert error_shown(Normal(rows=5, cols=6).tensor(), x) in numbers(healthy(at))
    assert address(at)["l"] == "layer(normal(rows=5,cols=6),upload)"
    assert "inputs.npy" in at.selectbox(key="layers_layer").options[-1]
    other = opened(PAGE, **address(at))
    assert "uploads" in " ".join(each.value for each in healthy(other).warning)
    assert numbers(other) != numbers(at)
    # A session keeps its last uploads only.
    at.session_state["lab_uploads"].clear()
    at.selectbox(key="layers_inputs").set_value("none").run()
    assert "no longer here" in at.error[0].value


def test_a_weight_from_a_file_is_a_matrix_of_outputs_and_says_what_it_cannot_be():
    at = with_more(page("course_w8a32", w="int8_per_row", a="int8_per_row"))
    at.button_group(key="layers_own_weight").set_value("file").run()
    kernel = drawn_inputs(5, 3, 2, 1)
    for weight, told in (
        (torch.ones(6), "W is a matrix"),
        (torch.tensor(1.5), "needs 1 to 4 axes"),
        (kernel, ""),
    ):
        file = io.BytesIO()
        np.save(file, weight.numpy())
        give(at, "weight_file", "weight.npy", file.getvalue())
        at.button(key="layers_own_open").click().run()
        assert told in " ".join(each.value for each in healthy(at).warning)
    assert error_shown(kernel.reshape(5, 6), Normal(rows=64, cols=6, seed=1).tensor()) in numbers(at)
    assert address(at)["l"] == "layer(upload,normal(rows=64,cols=6,seed=1))"
    at.button_group(key="layers_own_inputs").set_value("typed").run()
    at.text_area(key="layers_own_text").set_value("1 2 3\n4 5 6").run()
    at.button(key="layers_own_open").click().run()
    assert "X has 3 inputs for each token, and W has 6" in at.warning[0].value.replace("\\", "")


def test_inputs_after_an_importance_matrix_have_its_squares_and_say_what_they_leave_out(tmp_path):
    squares = np.array([1.0, 0.25, 81.0, 4.0], np.float32)
    matrix = write_dat(tmp_path / "x.dat", {"up": squares, "down": squares[:3]})
    at = give(own_inputs("imatrix"), "imatrix", "x.dat", matrix.read_bytes())
    at.number_input(key="layers_own_tokens").set_value(24).run()
    at.button(key="layers_own_open").click().run()
    (x,) = healthy(at).session_state["lab_uploads"].values()
    x = x.read((slice(None), slice(None)))
    assert x.shape == (24, 4)
    assert np.allclose(x.square().mean(0), squares, rtol=1e-5)
    assert error_shown(Normal(rows=5, cols=4).tensor(), x) in numbers(at)
    assert any("only the mean square of each input of up" in each.value for each in at.caption)
    # Of another number of tokens they are other inputs.
    before = numbers(at)
    at.number_input(key="layers_own_tokens").set_value(12).run()
    at.button(key="layers_own_open").click().run()
    assert numbers(healthy(at)) != before


def test_a_layer_of_an_uploaded_capture_opens_with_its_inputs_and_bias(tmp_path):
    file = tmp_path / "layers.safetensors"
    second = Captured("b.down", "linear", drawn_inputs(3, 6), drawn_inputs(12, 6), drawn_inputs(3), 90)
    write_capture(file, [Captured("a.up", "linear", drawn_inputs(6, 4), drawn_inputs(12, 4)), second])
    at = with_more(page("course_w8a32", w="int8_per_row", a="int8_per_row"))
    at.button_group(key="layers_own_weight").set_value("capture").run()
    at.button(key="layers_own_open").click().run()
    assert "Upload one" in " ".join(each.value for each in healthy(at).warning)
    give(at, "capture", "layers.safetensors", file.read_bytes())
    at.selectbox(key="layers_own_capture_name").set_value("b.down").run()
    at.button(key="layers_own_open").click().run()
    assert error_shown(second.weight, second.inputs, second.bias) in numbers(healthy(at))
    assert address(at)["l"] == "layer(upload,upload,upload)"


def test_a_layer_of_a_capture_in_the_servers_folder_travels_in_the_link(tmp_path, monkeypatch):
    layer = Captured("b.down", "linear", drawn_inputs(3, 6), drawn_inputs(12, 6), None, 90)
    write_capture(tmp_path / "layers.safetensors", [layer])
    save_file({"x": torch.ones(2, 2)}, tmp_path / "other.safetensors")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    at = with_more(page("course_w8a32", w="int8_per_row", a="int8_per_row"))
    at.button_group(key="layers_own_weight").set_value("capture").run()
    at.selectbox(key="layers_own_capture_file").set_value("other.safetensors").run()
    assert "no captured layers" in at.error[0].value
    at.selectbox(key="layers_own_capture_file").set_value("layers.safetensors").run()
    at.button(key="layers_own_open").click().run()
    assert error_shown(layer.weight, layer.inputs) in numbers(healthy(at))
    assert at.selectbox(key="layers_layer").options[-1] == "layers.safetensors · b.down"
    assert numbers(healthy(opened(PAGE, **address(at)))) == numbers(at)


@pytest.mark.parametrize(
    ("way", "file", "told"),
    [("file", "x.npz", "damaged"), ("imatrix", "x.dat", "importance matrix"), ("capture", "x.npy", "layers")],
)
def test_an_upload_that_is_something_else_says_so(way, file, told):
    at = with_more(page())
    control = "weight" if way == "capture" else "inputs"
    at.button_group(key=f"layers_own_{control}").set_value(way).run()
    array = io.BytesIO()
    np.save(array, np.ones((2, 2), np.float32))
    content = array.getvalue() if file == "x.npy" else b"PK\x03\x04nonsense"
    uploader = at.file_uploader(key=f"layers_own_{way}")
    uploader.set_value((file, content, "application/octet-stream")).run()
    assert not at.exception
    assert told in at.error[0].value
    assert chart(at, "layers_picture")


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("layer(normal(rows=4,cols=8),normal(rows=4,cols=4))", "8 for each output"),
        ("layer(normal(rows=4,cols=4),normal(rows=1,cols=4))", "one token"),
        ("layer(normal(rows=4,cols=4))", "A layer is written as"),
    ],
)
def test_a_link_to_tensors_that_are_no_layer_says_why(form, told):
    at = opened(PAGE, l=form, lang="en")
    assert told in " ".join(each.value for each in at.warning).replace("\\", "")


def test_a_message_from_an_older_address_takes_no_change_back():
    """One that the browser sent before the last answer came: the picture's height, or a second click."""
    at = page(w="int4_per_row", a="none")
    first = address(at)

    def show(parameters):
        at.query_params.clear()
        for name, value in parameters.items():
            at.query_params[name] = value

    at.selectbox(key="layers_weights").set_value("int8_per_row").run()
    second = address(at)
    show(first)
    assert address(healthy(at.run())) == second
    show(first)
    at.button(key="undo").click().run()
    assert address(healthy(at))["w"] == "int4_per_row"
    show(second)
    at.button(key="redo").click().run()
    assert address(healthy(at))["w"] == "int8_per_row"
    # The browser's Back marks it: then it is what the person goes back to, and an undo.
    show({**first, "went": "1"})
    assert address(healthy(at.run())) == first
    assert not at.button(key="redo").disabled


def test_a_method_in_the_link_opens_its_picture_and_says_what_it_brings():
    at = page("loud_weight", w="int4_per_row", m="gptq")
    layer = BuiltInLayer("loud_weight").open()
    error = qv.layer(layer.weight, layer.inputs, "int4_per_row", "int8_per_tensor", method="gptq").rel_out
    assert f"{percent(error.held_back)} held back · {percent(error.used)} used" in numbers(at)
    said = percent(error.held_back).replace(" ", "\u00a0")
    assert any(said in each.value.replace("\\", "") for each in at.markdown)
    assert address(at)["m"] == "gptq"
    captions = " ".join(each.value for each in at.caption)
    assert "Rounds one column after the other" in captions
    assert "The method GPTQ chose the codes" in captions
    assert len(at.selectbox(key="layers_method_choice").options) == len(offered_chains())
    at.button(key="layers_method_rank").click().run()
    ranked = healthy(at).dataframe[-1].value
    assert "GPTQ" in list(ranked["method"])
    # Where it is cancelled, what was measured stays, and it is said how much that is.
    ranking = at.session_state["layers_methods_ranked"]
    every = len(ranking.found)
    del ranking.found["signround"]
    at.run()
    said = " ".join(each.value for each in healthy(at).markdown).replace("\\", "")
    assert f"Cancelled: {every - 1} of {every} methods are measured" in said
    assert len(at.dataframe[-1].value) == len(ranked) - 1
    at.button(key="layers_method_go_on").click().run()
    assert len(healthy(at).dataframe[-1].value) == len(ranked)
    at.selectbox(key="layers_method_choice").set_value("nearest").run()
    assert "m" not in address(healthy(at))


@pytest.mark.parametrize(
    ("method", "lang", "said"),
    [
        ("signround", "en", "does not change with SignRound: on the tokens held back it stays 87.0 %"),
        ("signround", "zh", "没有变化，在留出的 token 上仍为 87.0 %"),
        ("low_rank", "en", "87.0 % with Low rank and with rounding to nearest: they differ only beyond"),
        ("low_rank", "zh", "与就近舍入同为 87.0 %，只在所示位数之后才有差别"),
    ],
)
def test_errors_alike_in_the_digits_shown_are_not_called_less_or_more(method, lang, said):
    errors = [seen.rel_out for seen in (result_of("loud_input"), result_of("loud_input", method=method))]
    assert (errors[0] == errors[1]) == (method == "signround")
    written = " ".join(each.value for each in page(m=method, lang=lang).markdown)
    assert said in written.replace("\\", "").replace("\u00a0", " ")
    # A rounding that nothing was found better than has no step.
    assert ("keeps its nearest code" in written) == ((method, lang) == ("signround", "en"))


def test_a_method_that_cannot_work_leaves_the_choice_of_another():
    at = page(t="method")
    at.selectbox(key="layers_method_choice").set_value("four_over_six").run()
    assert "NVFP4" in at.error[0].value
    at.selectbox(key="layers_method_choice").set_value("gptq").run()
    assert address(healthy(at))["m"] == "gptq"


def test_a_packages_method_sets_its_fields_and_a_chain_that_is_one_shows_it():
    at = page(t="method", m="gptq(order=activation,cleared=after)", w="int4_per_row")
    choice = at.selectbox(key="layers_method_package")
    assert choice.value == "llm-compressor: GPTQModifier"
    choice.set_value("modelopt: smoothquant").run()
    assert address(healthy(at))["m"] == "smoothquant(variant=modelopt)"
    at.selectbox(key="layers_method_choice").set_value("rotation").run()
    assert healthy(at).selectbox(key="layers_method_package").value == ""


@pytest.mark.parametrize(
    ("method", "field", "value"),
    [
        ("llm_int8", "threshold", 4.0),
    ],
)
def test_a_methods_slider_is_its_parameter_in_the_link(method, field, value):
    at = page("loud_input", w="int4_per_row", m=method)
    healthy(at).select_slider(key=f"layers_{method}_{field}").set_value(value).run()
    assert address(healthy(at))["m"] == f"{method}({field}={value})"


@pytest.mark.parametrize(
    ("method", "stop", "chosen"),
    [
        ("smoothquant", 2, "alpha=0.2"),
        ("awq", 3, "ratio=0.15"),
        ("rotation", 0, "block=2"),
        ("low_rank", 1, "rank=2"),
    ],
)
def test_a_methods_dial_is_let_go_at_a_value_that_the_link_has(method, stop, chosen):
    at = page("loud_input", w="int4_per_row", m=method)
    dial = next(place for place, name in components(at).items() if name.startswith("quantviz_dial"))
    send(at, events_of(dial, json.dumps([{"event": "stop", "value": 99}])))
    assert address(healthy(at))["m"] == method
    send(at, events_of(dial, json.dumps([{"event": "stop", "value": stop}])))
    assert address(healthy(at))["m"] == f"{method}({chosen})"


def test_one_knob_of_a_rotation_is_under_the_hand_at_a_time():
    at = page("loud_input", w="int4_per_row", m="rotation")
    dials = [name for name in components(at).values() if name.startswith("quantviz_dial")]
    assert len(dials) == 1
    at.segmented_control(key="layers_rotation_knob").set_value("angle").run()
    [dial] = [place for place, name in components(healthy(at)).items() if name.startswith("quantviz_dial")]
    send(at, events_of(dial, json.dumps([{"event": "stop", "value": 1}])))
    assert address(healthy(at))["m"] == "rotation(angle=5.0)"


def test_each_smaller_method_has_its_picture_and_its_sentence():
    at = page("loud_input", w="int4_per_row", m="smoothquant")
    for method, key, said in (
        ("double_quantization", "layers_double_change", "stored in 8 bits"),
        ("llm_int8", "layers_llm_int8", "float16"),
        ("bias_correction", "layers_bias_errors", "take off the mean"),
        ("equalization", "layers_equalization_channels", "as far in the inputs"),
        ("higgs", "layers_higgs", "lie close"),
        ("kmeans", "layers_kmeans", "where the weights are"),
        ("awq_clip", "layers_awq_clip_loss", "blocks are clipped"),
        ("gptq", "layers_likeness", "most alike"),
    ):
        at.selectbox(key="layers_method_choice").set_value(method)
        assert chart(healthy(at.run()), key).proto.spec
        assert any(said in each.value for each in at.markdown)
    at = page("minilm_4_value", w="nvfp4", m="four_over_six")
    assert chart(healthy(at), "layers_ends").proto.spec
    assert any("end at 4" in each.value for each in at.markdown)


@pytest.mark.parametrize(
    ("name", "method", "by_the_weight"),
    [("loud_input", "smoothquant", False), ("minilm_1_intermediate", "higgs", True)],
)
def test_a_weights_sqnr_is_named_where_the_method_rounds_it(name, method, by_the_weight):
    at = page(name, w="int4_per_row", m=method)
    lesson = next(each.value for each in healthy(at).markdown if "rounding to nearest" in each.value)
    assert "it does not help" not in lesson
    assert ("own SQNR" in lesson) == by_the_weight


def test_a_method_that_takes_long_works_in_another_process(monkeypatch):
    keys = []

    def far(key, work, on_share):
        keys.append(key)
        return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))()))

    monkeypatch.setattr(state, "heavily", far)
    monkeypatch.setattr(state, "HEAVY_PRODUCTS", 10 * 4**3)
    form = "adaround(steps=10)"
    at = page("loud_weight", w="int4_per_row", m=form)
    layer = BuiltInLayer("loud_weight").open()
    found = qv.layer(layer.weight, layer.inputs, "int4_per_row", "int8_per_tensor", method=form).rel_out
    assert f"{percent(found.held_back)} held back" in numbers(healthy(at))
    assert len(keys) == 1
    assert form in keys[0]

    def too_long(key, work, on_share):
        raise qv.QuantVizError("work.too_long", seconds="20")

    monkeypatch.setattr(state, "heavily", too_long)
    # One that no other test has computed: it would be kept.
    held = at.session_state["layers_state"]
    at.session_state["layers_state"] = held.take(held.now.replace(method="adaround(steps=11)"))
    at.run()
    assert any("Choose another method" in each.value for each in at.error)


@pytest.mark.parametrize(
    ("method", "shape", "long"),
    [
        ("gptq", (320, 384, 256), False),
        ("gptq", (320, 1536, 128), True),
        ("adaround", (32, 48, 8), False),
        ("rotation+adaround", (320, 384, 256), True),
        ("rotation", (320, 2**14, 2**14), False),
        ("nearest", (320, 2**14, 2**14), False),
    ],
)
def test_long_methods_are_those_of_many_multiplications(method, shape, long):
    assert state.is_long(method, shape) == long


def test_smoothquant_leads_to_a_layer_that_it_makes_worse():
    worse, problems = LayerState.read({**WORSE, "m": "smoothquant"})
    assert not problems
    assert worse.source == BuiltInLayer("minilm_0_output")
    assert worse.pair.schemes() == (RECIPES["int8_per_row"], RECIPES["int8_per_tensor"])


def test_the_lab_weights_the_error_of_any_layers_weight_by_its_inputs(tmp_path):
    at = page()
    at.segmented_control(key="layers_tab_choice").set_value("channels").run()
    layer = BuiltInLayer("loud_input").open()
    rms = layer.inputs.double().square().mean(0).sqrt()

    def weighted(at):
        at.button(key="layers_in_lab").click().run()
        assert "√H" in " ".join(each.value for each in healthy(at).caption)
        return panels(at)[3]

    expected = result_of("loud_input").weights.changes(slice(None)) * rms
    np.testing.assert_allclose(weighted(at), expected, rtol=1e-5)
    # It opens at the worst cell of what the layer sees.
    assert address(at)["c"] == "{}.{}".format(*divmod(int(expected.abs().argmax()), expected.shape[1]))
    assert address(at)["t"] == "weight_of(builtin(name=loud_input))"
    again = opened(**address(at))
    np.testing.assert_array_equal(panels(again)[3], panels(at)[3])
    # Those of an upload stay in the session.
    file = tmp_path / "layers.safetensors"
    write_capture(file, [Captured("up", "linear", drawn_inputs(6, 4), drawn_inputs(12, 4))])
    at = with_more(page("course_w8a32", w="int8_per_row", a="int8_per_row"))
    at.button_group(key="layers_own_weight").set_value("capture").run()
    give(at, "capture", "layers.safetensors", file.read_bytes())
    at.button(key="layers_own_open").click().run()
    at.segmented_control(key="layers_tab_choice").set_value("channels").run()
    rms = drawn_inputs(12, 4).double().square().mean(0).sqrt()
    error = qv.quantize(drawn_inputs(6, 4), "int8_per_row").error
    np.testing.assert_allclose(weighted(at), error * rms, rtol=1e-5)
    assert address(at)["t"] == "upload"
