"""The page of layers through AppTest: what it says is what the layer is."""

import html
import io
import pickle
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.lab import layer_state
from quantviz.lab.layer_sources import OwnLayer
from quantviz.lab.layer_state import AS_IT_IS, LayerState, SchemePair
from quantviz.layers.built_in import BUILT_IN_LAYERS, BuiltInLayer
from quantviz.layers.captures import Captured, write_capture
from quantviz.layers.integers_of_layer import integers_of, operated_output
from quantviz.layers.methods.chain import Chain, offered_chains
from quantviz.layers.work import products_of
from quantviz.sources import Normal, parse_source
from quantviz.sources.local import FOLDER
from quantviz.sources.tensor_text import parse_tensor
from quantviz.ui.layers import state
from quantviz.ui.layers.tabs import TABS
from quantviz.ui.layers.words import percent
from tests.helpers.controls import value_of, words_of
from tests.helpers.importance_file import write_dat
from tests.helpers.messages import components, let_go
from tests.helpers.sample import sample_of
from tests.helpers.session import (
    act,
    address,
    bodies,
    chart,
    decoded,
    healthy,
    keys_of,
    opened,
    panels,
    spec,
    told,
)

PAGE = "pages/explore/layers.py"


def page(name="loud_input", **params):
    return opened(PAGE, l=f"builtin(name={name})", **({"lang": "en"} | params))


def own_page(**chosen):
    """A page that asks for a layer of one's own, with the list of more choices opened, which AppTest knows
    nothing of.
    """
    at = page("course_w8a32", w="int8_per_row", a="int8_per_row")
    assert keys_of(at, "layers_seed") == []
    at.session_state["layers_more"] = True
    return own(at.run(), **chosen)


def own(at, *pressed, **chosen):
    """Choose parts of a layer of one's own, and press its buttons."""
    return act(
        at, *(f"layers_own_{key}" for key in pressed), **{f"layers_own_{k}": v for k, v in chosen.items()}
    )


def file(name, content):
    if isinstance(content, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, content)
        content = buffer.getvalue()
    return name, content, "application/octet-stream"


def numbers(at):
    line = re.sub(r'<span class="qv-meaning".*?</span>', "", bodies(healthy(at), "qv-layer-numbers")[0])
    return html.unescape(re.sub("<[^>]+>", "", line))


def result_of(name, **more):
    layer = BuiltInLayer(name).open()
    entry = BUILT_IN_LAYERS[name]
    return qv.layer(layer.weight, layer.inputs, entry.weights, entry.inputs, layer.bias, **more)


def shown(errors):
    """An output error as the page writes it."""
    held_back, used = percent(errors.held_back), percent(errors.used)
    return f"{held_back} on tokens held back from choosing scales · {used} on those used"


@pytest.mark.parametrize("name", sample_of(BUILT_IN_LAYERS, 2))
def test_the_numbers_are_the_layers_on_both_sides_of_the_split(name):
    at = page(name)
    assert shown(result_of(name).rel_out) in numbers(at)
    assert address(at)["l"] == f"builtin(name={name})"


def test_the_picture_is_the_multiplication():
    x, w, y = (decoded(trace["z"]) for trace in spec(page(e="x"), "layers_picture")["data"])
    assert np.allclose(x @ w, y, rtol=1e-5)


def test_the_first_cell_is_the_worst_and_then_it_stays():
    at = page(e="error")
    result = result_of("loud_input")
    cell = "{}.{}".format(*divmod(int(result.cells().error.abs().argmax()), 4))
    assert address(at)["c"] == cell
    assert address(act(at, layers_inputs="int8_per_row"))["c"] == cell
    # So do the colours of the error, until they are fitted anew; weights have none but float32's own.
    ends = address(at)["z"]
    assert ends.split("_")[1] == "0.0"
    drawn = [trace["zmax"] for trace in spec(at, "layers_picture")["data"]]
    assert drawn == [float(each) or 1.0 for each in ends.split("_")]
    again = opened(PAGE, **address(at))
    assert (address(again), [*again.warning]) == (address(at), [])
    assert address(act(at, "layers_fit"))["z"] != ends


def test_the_products_of_the_typed_cell_are_listed_by_what_they_contribute():
    at = act(page(), layers_output=2, layers_token=0)
    products = result_of("loud_input").products(0, 2)
    assert at.session_state["layers_products"] is False
    at.session_state["layers_products"] = True
    for place, count in enumerate((3, 4)):
        listed = re.findall(r'data-channel="(\d+)"', bodies(at.run(), "qv-products")[place])
        assert listed == [str(each) for each in products.channels.tolist()][:count]
    assert address(at)["c"] == "0.2"


def test_the_integer_steps_end_in_the_engines_code_and_the_link_keeps_the_engine():
    at = page("minilm_1_intermediate", w="int8_per_row", a="int8_per_column")
    act(act(at, layers_tab_choice="integer"), "layers_integer_apply")
    act(at, layers_engine="fbgemm_avx2", layers_activation="relu")
    token, output = map(int, address(healthy(at))["c"].split("."))
    assert (address(at)["g"], address(at)["r"]) == ("fbgemm_avx2", "relu")
    stored = BuiltInLayer("minilm_1_intermediate").open()
    layer = qv.layer(stored.weight, stored.inputs, "int8_per_row", "int8_per_tensor", stored.bias)
    why = integers_of(layer, engine="fbgemm_avx2", activation="relu").explain(token, output)
    gives = [
        each.replace(",", "").replace("−", "-")
        for each in re.findall("<b>(.*?)</b>", bodies(at, "qv-integers")[0])
    ]
    assert list(map(float, gives)) == pytest.approx(
        [*(float(step.output) for step in why.steps), why.y], rel=1e-6
    )
    # An engine whose operators are known goes on to one, too.
    assert "layers_operator" not in at.session_state
    act(at, layers_engine="onnxruntime", layers_activation="none")
    at.session_state["layers_operator"] = True
    healthy(at.run())
    for operator in ("add", "softmax"):
        if operator != "add":
            act(at, layers_operator_name=operator)
        found = operated_output(layer, integers_of(layer), operator, token, output)
        last = re.findall("<b>(.*?)</b>", bodies(at, "qv-integers")[1])[-1]
        assert int(last.replace("−", "-")) == found.q
    act(at, layers_engine="fbgemm")
    found = operated_output(layer, integers_of(layer, engine="fbgemm"), "layer_norm", token, output)
    last = re.findall("<b>(.*?)</b>", bodies(healthy(at), "qv-integers")[1])[-1]
    assert int(last.replace("−", "-")) == found.q


@pytest.mark.parametrize("tab", TABS)
def test_each_tab_opens(tab):
    at = act(page("course_w8a32", lang="zh"), layers_tab_choice=tab)
    assert not healthy(at).warning
    assert tuple(TABS) == layer_state.TABS


def test_a_compared_pair_is_kept_in_the_link():
    at = act(page(), layers_tab_choice="compare")
    act(at, layers_inputs="int8_per_tensor")
    assert address(act(at, "layers_keep"))["y"] == "int8_per_tensor!int8_per_tensor"
    assert "y" not in address(healthy(act(at, "layers_drop")))


def test_a_layer_of_ones_own_opens_and_says_what_it_cannot_be():
    at = own(own_page(inputs="after_gelu", tokens=8), "open")
    assert address(healthy(at))["l"].startswith("layer(normal(rows=64,cols=64")
    assert "after_gelu" in address(at)["l"]
    own(at, outputs=4096, channels=4096)
    for tokens, said in ((1, "one token"), (1_000_000, "16384"), (4096, "multiplications")):
        assert said in told(own(at, "open", tokens=tokens), "warning")


def error_shown(weight, inputs, bias=None):
    return shown(qv.layer(weight, inputs, "int8_per_output", "int8_per_token", bias).rel_out)


def drawn_inputs(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(8))


def test_typed_inputs_travel_in_the_link():
    at = own(own_page(inputs="typed", outputs=5), "open")
    assert "no numbers" in told(at, "warning")
    # The layer before stays.
    assert "NaN or Inf in 1 cell" in told(own(at, "open", text="1 2 3\nnan 1 2"), "warning")
    assert address(at)["l"] == "builtin(name=course_w8a32)"
    x = [[0.5, -1.25, 3.0], [2.0, 0.75, -1.0], [1.0, 9.0, 0.125], [-4.0, 0.0, 1.0]]
    own(at, "open", text=str(x))
    assert error_shown(Normal(rows=5, cols=3).tensor(), x) in numbers(at)
    assert not at.warning
    again = opened(PAGE, **address(at))
    assert (numbers(again), address(again)) == (numbers(at), address(at))


def test_inputs_from_a_file_stay_in_the_session():
    x = drawn_inputs(16, 6)
    at = own_page(inputs="file", outputs=5)
    own(at, "open", file=file("inputs.npy", x.numpy()))
    assert error_shown(Normal(rows=5, cols=6).tensor(), x) in numbers(at)
    assert address(at)["l"] == "layer(normal(rows=5,cols=6),upload)"
    assert "inputs.npy" in words_of(at, "layers_layer")[-1]
    other = opened(PAGE, **address(at))
    assert "uploads" in told(other, "warning")
    assert numbers(other) != numbers(at)
    # A session keeps its last uploads only.
    at.session_state["lab_uploads"].clear()
    assert "no longer here" in told(act(at, layers_inputs="none"), "error")


def test_a_weight_from_a_file_is_a_matrix_of_outputs_and_says_what_it_cannot_be():
    at = own_page(weight="file")
    kernel = drawn_inputs(5, 3, 2, 1)
    for weight, said in (
        (torch.ones(6), "W is a matrix"),
        (torch.tensor(1.5), "needs 1 to 4 axes"),
        (kernel, ""),
    ):
        own(at, "open", weight_file=file("weight.npy", weight.numpy()))
        assert said in told(healthy(at), "warning")
    assert error_shown(kernel.reshape(5, 6), Normal(rows=64, cols=6, seed=1).tensor()) in numbers(at)
    assert address(at)["l"] == "layer(upload,normal(rows=64,cols=6,seed=1))"
    own(at, "open", inputs="typed", text="1 2 3\n4 5 6")
    assert "X has 3 inputs for each token, and W has 6" in told(at, "warning")


def test_inputs_after_an_importance_matrix_have_its_squares_and_say_what_they_leave_out(tmp_path):
    squares = np.array([1.0, 0.25, 81.0, 4.0], np.float32)
    matrix = write_dat(tmp_path / "x.dat", {"up": squares, "down": squares[:3]})
    at = own_page(inputs="imatrix", outputs=5)
    own(at, "open", imatrix=file("x.dat", matrix.read_bytes()), tokens=24)
    (x,) = healthy(at).session_state["lab_uploads"].values()
    x = x.read((slice(None), slice(None)))
    assert x.shape == (24, 4)
    assert np.allclose(x.square().mean(0), squares, rtol=1e-5)
    assert error_shown(Normal(rows=5, cols=4).tensor(), x) in numbers(at)
    assert "only the mean square of each input of up" in told(at, "caption")
    # Of another number of tokens they are other inputs.
    before = numbers(at)
    assert numbers(own(at, "open", tokens=12)) != before


def test_a_layer_of_an_uploaded_capture_opens_with_its_inputs_and_bias(tmp_path):
    path = tmp_path / "layers.safetensors"
    second = Captured("b.down", "linear", drawn_inputs(3, 6), drawn_inputs(12, 6), drawn_inputs(3), 90)
    write_capture(path, [Captured("a.up", "linear", drawn_inputs(6, 4), drawn_inputs(12, 4)), second])
    at = own(own_page(weight="capture"), "open")
    assert "Upload one" in told(at, "warning")
    own(at, capture=file("layers.safetensors", path.read_bytes()))
    own(at, "open", capture_name="b.down")
    assert error_shown(second.weight, second.inputs, second.bias) in numbers(at)
    assert address(at)["l"] == "layer(upload,upload,upload)"


def test_a_layer_of_a_capture_in_the_servers_folder_travels_in_the_link(tmp_path, monkeypatch):
    layer = Captured("b.down", "linear", drawn_inputs(3, 6), drawn_inputs(12, 6), None, 90)
    write_capture(tmp_path / "layers.safetensors", [layer])
    save_file({"x": torch.ones(2, 2)}, tmp_path / "other.safetensors")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    at = own(own_page(weight="capture"), capture_file="other.safetensors")
    assert "No weight of this file has its inputs" in told(at, "error")
    own(at, "open", capture_file="layers.safetensors")
    assert error_shown(layer.weight, layer.inputs) in numbers(at)
    assert words_of(at, "layers_layer")[-1] == "layers.safetensors · b.down"
    assert numbers(opened(PAGE, **address(at))) == numbers(at)


@pytest.mark.parametrize(
    ("way", "filename", "said"),
    [("file", "x.npz", "damaged"), ("imatrix", "x.dat", "importance matrix"), ("capture", "x.npy", "layers")],
)
def test_an_upload_that_is_something_else_says_so(way, filename, said):
    at = own_page(**{"weight" if way == "capture" else "inputs": way})
    content = np.ones((2, 2), np.float32) if filename == "x.npy" else b"PK\x03\x04nonsense"
    own(at, **{way: file(filename, content)})
    assert said in told(at, "error")
    assert chart(at, "layers_picture")


def test_a_method_in_the_link_opens_its_picture_and_says_what_it_brings():
    at = page("loud_weight", w="int4_per_row", m="gptq")
    layer = BuiltInLayer("loud_weight").open()
    error = qv.layer(layer.weight, layer.inputs, "int4_per_row", "int8_per_tensor", method="gptq").rel_out
    assert shown(error) in numbers(at)
    assert percent(error.held_back) in told(at, "markdown")
    assert address(at)["m"] == "gptq"
    assert "Rounds one column after the other" in told(at, "caption")
    assert "The method GPTQ chose the codes" in told(at, "caption")
    assert len(words_of(at, "layers_method_choice")) == len(offered_chains())
    ranked = healthy(act(at, "layers_method_rank")).dataframe[-1].value
    assert "GPTQ" in list(ranked["method"])
    # Where it is cancelled, what was measured stays, and it is said how much that is.
    ranking = at.session_state["layers_methods_ranked"]
    every = len(ranking.found)
    del ranking.found["signround"]
    said = told(healthy(at.run()), "markdown")
    assert f"Cancelled: {every - 1} of {every} methods are measured" in said
    assert len(at.dataframe[-1].value) == len(ranked) - 1
    assert len(healthy(act(at, "layers_method_go_on")).dataframe[-1].value) == len(ranked)
    assert "m" not in address(healthy(act(at, layers_method_choice="nearest")))


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
    written = told(page(m=method, lang=lang), "markdown")
    assert said in written
    # A rounding that nothing was found better than has no step.
    assert ("keeps its nearest code" in written) == ((method, lang) == ("signround", "en"))


def test_where_the_weight_is_exact_nothing_is_left_to_win():
    layer = OwnLayer(parse_tensor("127 1 -3 6\n5 -127 64 7"), parse_source("normal(rows=16,cols=4)"))
    chosen = LayerState(layer, SchemePair("int8_per_tensor", AS_IT_IS), method="gptq").written()
    at = healthy(opened(PAGE, lang="en", t="method", **chosen))
    assert "no error for GPTQ to make smaller" in told(at, "markdown")


def test_a_method_that_cannot_work_leaves_the_choice_of_another():
    at = act(page(t="method"), layers_method_choice="four_over_six")
    assert "NVFP4" in told(at, "error")
    assert address(healthy(act(at, layers_method_choice="gptq")))["m"] == "gptq"


def test_a_packages_method_sets_its_fields_and_a_chain_that_is_one_shows_it():
    at = page(t="method", m="gptq(order=activation,cleared=after)", w="int4_per_row")
    assert value_of(at, "layers_method_package") == "llm-compressor: GPTQModifier"
    act(at, layers_method_package="modelopt: smoothquant")
    assert address(healthy(at))["m"] == "smoothquant(variant=modelopt)"
    act(at, layers_method_choice="rotation")
    assert value_of(healthy(at), "layers_method_package") == ""


def test_a_methods_slider_is_its_parameter_in_the_link():
    at = act(page("loud_input", w="int4_per_row", m="llm_int8"), layers_llm_int8_threshold=4.0)
    assert address(healthy(at))["m"] == "llm_int8(threshold=4.0)"


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
    for place, link in ((99, method), (stop, f"{method}({chosen})")):
        assert address(healthy(let_go(at, place)))["m"] == link


def test_one_knob_of_a_rotation_is_under_the_hand_at_a_time():
    at = act(page("loud_input", w="int4_per_row", m="rotation"), layers_rotation_knob="angle")
    assert address(healthy(let_go(at, 1)))["m"] == "rotation(angle=5.0)"


def test_each_smaller_method_has_its_picture_and_its_sentence():
    at = page("loud_input", w="int4_per_row", m="smoothquant")
    for method, key, said in (
        ("double_quantization", "layers_double_change", "stored in 8 bits"),
        ("llm_int8", "layers_llm_int8", "float16"),
        ("bias_correction", "layers_bias_errors", "take off the mean"),
        ("higgs", "layers_higgs", "lie close"),
        ("kmeans", "layers_kmeans", "where the weights are"),
        ("awq_clip", "layers_awq_clip_loss", "blocks are clipped"),
        ("svdquant", "layers_course", "α of the smoothing: "),
        ("loftq", "layers_course", "round: 5"),
        ("learned_clips", "layers_course", "at the one kept (step: "),
        ("gptq", "layers_likeness", "most alike"),
    ):
        assert chart(healthy(act(at, layers_method_choice=method)), key).proto.spec
        assert said in told(at, "markdown")
    act(at, layers_method_choice="equalization")
    assert any(name.startswith("quantviz_dial") for name in components(healthy(at)).values())
    assert "as far in the inputs" in told(at, "markdown")
    at = page("minilm_4_value", w="nvfp4", m="four_over_six")
    assert chart(at, "layers_ends").proto.spec
    assert "end at 4" in told(at, "markdown")


@pytest.mark.parametrize(
    ("name", "method", "by_the_weight"),
    [("loud_input", "smoothquant", False), ("minilm_1_intermediate", "higgs", True)],
)
def test_a_weights_sqnr_is_named_where_the_method_rounds_it(name, method, by_the_weight):
    at = page(name, w="int4_per_row", m=method)
    lesson = next(each.value for each in healthy(at).markdown if "rounding to nearest" in each.value)
    assert "it does not help" not in lesson
    assert ("own SQNR" in lesson) == by_the_weight


def test_the_errors_of_a_stored_format_are_drawn_and_told():
    at = healthy(page("minilm_4_value", w="int4_per_row", a="none", t="method", m="stored"))
    said = told(at, "caption")
    assert "Stored as fp8_e4m3_per_tensor, the weight leaves an output error of 0.0648" in said


def test_a_method_that_takes_long_works_in_another_process(monkeypatch):
    keys = []

    def far(key, work, on_share, products):
        keys.append(key)
        return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))()))

    monkeypatch.setattr(state, "heavily", far)
    layer = BuiltInLayer("loud_weight").open()
    monkeypatch.setattr(state, "HEAVY_PRODUCTS", products_of(Chain(), layer.shape) + 1)
    form = "adaround(steps=10)"
    at = page("loud_weight", w="int4_per_row", m=form)
    found = qv.layer(layer.weight, layer.inputs, "int4_per_row", "int8_per_tensor", method=form).rel_out
    assert f"{percent(found.held_back)} on tokens held back" in numbers(at)
    assert len(keys) == 1
    assert form in keys[0]

    def too_long(key, work, on_share, products):
        raise qv.QuantVizError("work.too_long", seconds="20")

    monkeypatch.setattr(state, "heavily", too_long)
    # One that no other test has computed: it would be kept.
    held = at.session_state["layers_state"]
    at.session_state["layers_state"] = held.take(held.now.replace(method="adaround(steps=11)"))
    assert "Choose another method" in told(at.run(), "error")


def test_a_page_may_wait_for_several_layers_one_after_the_other(monkeypatch):
    worked = []

    def far(key, work, on_share=None, products=0.0):
        worked.append(key)
        return work()

    monkeypatch.setattr(state, "heavily", far)
    monkeypatch.setattr(state, "HEAVY_PRODUCTS", 2**10)
    # Nothing is kept: each that a picture asks for is worked out anew.
    monkeypatch.setattr(state, "kept_fact", lambda key, make, **more: make())
    healthy(page("loud_weight", t="compare"))
    layers = [key for key in worked if key.startswith("layer ")]
    assert len(layers) > len(set(layers)) > 3


def test_the_lab_weights_the_error_of_any_layers_weight_by_its_inputs(tmp_path):
    def weighted(at):
        act(at, layers_tab_choice="channels")
        # *More* of the Lab, which the button opens.
        at.session_state["more"] = True
        act(at, "layers_in_lab")
        assert "√H" in told(healthy(at), "caption")
        return panels(at)[3]

    at, rms = page(), BuiltInLayer("loud_input").open().inputs.double().square().mean(0).sqrt()
    expected = result_of("loud_input").weights.changes(slice(None)) * rms
    np.testing.assert_allclose(weighted(at), expected, rtol=1e-5)
    # It opens at the worst cell of what the layer sees.
    assert address(at)["c"] == "{}.{}".format(*divmod(int(expected.abs().argmax()), expected.shape[1]))
    assert address(at)["t"] == "weight_of(builtin(name=loud_input))"
    np.testing.assert_array_equal(panels(opened(**address(at)))[3], panels(at)[3])
    # Those of an upload stay in the session.
    path = tmp_path / "layers.safetensors"
    write_capture(path, [Captured("up", "linear", drawn_inputs(6, 4), drawn_inputs(12, 4))])
    at = own(own_page(weight="capture"), "open", capture=file("layers.safetensors", path.read_bytes()))
    rms = drawn_inputs(12, 4).double().square().mean(0).sqrt()
    error = qv.quantize(drawn_inputs(6, 4), "int8_per_row").error
    np.testing.assert_allclose(weighted(at), error * rms, rtol=1e-5)
    assert address(at)["t"] == "upload"
