"""Names as people type them: in text forms, of recipes, of formats and of engines."""

import pytest

import quantviz as qv
from quantviz.schemes.conventions import find_convention
from quantviz.schemes.names import folded
from quantviz.schemes.recipes import ALL_RECIPES, as_scheme, current_recipe, recipe_name
from quantviz.text import languages, text
from quantviz.ui.components.scheme_words import engines_found

#: The names that belong to one engine alone.
OWN_NAMES = [
    each
    for name in qv.CONVENTIONS
    for each in (name, *(text(f"conventions.{name}.name", language) for language in languages()))
]


@pytest.mark.parametrize(
    ("typed", "form"),
    [
        ("INT4,symmetric,per_group(size=128),min_max,llmcompressor", "compressed_tensors"),
        ("int-4,symmetric,per_group(size=128),min_max,LLM Compressor", "compressed_tensors"),
        ("int8,symmetric,per_tensor,min_max,tensor rt", "tensorrt"),
        ("uint8,asymmetric,per_tensor,min_max,qnn", "aimet"),
        ("uint4,asymmetric,per_group(size=128),min_max,Auto-AWQ", "awq"),
        ("uint4,asymmetric,per_group(size=128),min_max,auto awq(ties=away)", "awq(ties=away)"),
        ("int8,symmetric,per_tensor,min_max,core-ml", "coreml"),
        ("int8,symmetric,per_tensor,min_max,Core ML linear", "coreml"),
        ("int8,symmetric,per_tensor,min_max,PyTorch 伪量化", "torch_fake_quantize"),
        ("int8,symmetric,per_channel(axis=0),min_max,LLM.int8()", "bitsandbytes_int8"),
        ("NF4,symmetric,flat(size=64),min_max,bnb", "bitsandbytes"),
        ("nf-4,symmetric,flat(size=64),min_max,NF4", "bitsandbytes"),
    ],
)
def test_a_text_form_has_formats_and_engines_as_people_type_them(typed, form):
    scheme = qv.Scheme.parse(typed)
    assert str(scheme.convention) == form
    # What comes back is the form of ids.
    assert qv.Scheme.parse(str(scheme)) == scheme
    assert scheme.format in qv.FORMATS


def test_every_engine_is_found_by_each_of_its_names():
    for name, convention in qv.CONVENTIONS.items():
        for own in (name, *(text(f"conventions.{name}.name", each) for each in languages())):
            for typed in (own, own.upper(), own.replace(" ", "-"), folded(own)):
                assert find_convention(typed) is convention


@pytest.mark.parametrize(
    "shared", sorted({name for convention in qv.CONVENTIONS.values() for name in convention.known_as})
)
def test_a_name_that_engines_share_finds_one_or_lists_them(shared):
    engines = [name for name, convention in qv.CONVENTIONS.items() if shared in convention.known_as]
    own = {folded(name) for name in OWN_NAMES}
    if len(engines) == 1 and folded(shared) not in own:
        assert find_convention(shared).id == engines[0]
    elif folded(shared) not in own:
        with pytest.raises(qv.QuantVizError) as caught:
            find_convention(shared)
        assert caught.value.key == "convention_of_several"
        assert caught.value.params["allowed"].split(", ") == engines


#: Engines as people write them, and one that is meant by each.
WRITTEN = {
    "AIMET": "aimet",
    "QNN": "aimet",
    "AIMET / QNN": "aimet",
    "AutoAWQ": "awq",
    "auto-awq": "awq",
    "GPTQ": "gptq",
    "OpenVINO": "nncf_weights",
    "NNCF": "nncf_weights",
    "FakeQuantize": "openvino_fake_quantize",
    "OpenVINO FakeQuantize": "openvino_fake_quantize",
    "MLX": "mlx",
    "MLX affine": "mlx",
    "MLX mx": "mlx_mxfp4",
    "Core ML": "coreml",
    "Core ML linear": "coreml",
    "CoreML": "coreml",
    "TensorRT": "tensorrt",
    "tensor rt": "tensorrt",
    "TensorFlow": "tensorflow_fake_quant",
    "TensorFlow fake_quant": "tensorflow_fake_quant",
    "fake_quant": "tensorflow_fake_quant",
    "torch QAT": "torch_qat",
    "QAT": "torch_qat",
    "FusedMovingAvgObsFakeQuantize": "torch_qat",
    "torch": "torch",
    "ORT": "onnxruntime",
    "ONNX Runtime": "onnxruntime",
    "reduce_range": "onnxruntime",
    "reduce-range": "torch",
    "QServe": "qserve",
    "four over six": "fouroversix",
    "NVFP4 four over six": "fouroversix",
    "llm-compressor": "compressed_tensors_nvfp4",
    "LLM Compressor": "compressed_tensors_nvfp4",
    "llama.cpp": "gguf_k",
    "llama cpp": "gguf_k",
    "LLM int8": "bitsandbytes_int8",
}


@pytest.mark.parametrize("typed", WRITTEN)
def test_an_engine_is_found_by_a_name_in_every_place(typed, monkeypatch):
    engine = qv.CONVENTIONS[WRITTEN[typed]]
    form = str(qv.Scheme("int8").adapted(engine.id, (4096, 4096))).rpartition(",")[0]
    found = answered(lambda: {qv.Scheme.parse(f"{form},{typed}").chosen.id})
    assert engine.id in found, "text forms"
    recipes = answered(lambda: {current_recipe(as_scheme(typed), (4096, 4096))})
    assert engine.id in {ALL_RECIPES[name].chosen.id for name in recipes}, "recipes"
    # The Lab's list of engines and that of a comparison.
    for language in languages():
        for module in ("shell.words", "components.scheme_words"):
            monkeypatch.setattr(f"quantviz.ui.{module}.language", lambda language=language: language)
        assert engine.id in engines_found(qv.CONVENTIONS, typed), language


def answered(ask):
    """What a name is of, or those that it may be of."""
    try:
        return ask()
    except qv.QuantVizError as problem:
        return set(str(problem.params.get("allowed")).split(", "))


@pytest.mark.parametrize(
    "recipe", ["awq_int4_g128", "mlx_q4_g64", "coreml_int4_g32", "openvino_int8_sym", "aimet_int8_per_row"]
)
def test_a_recipe_is_found_by_its_id_as_people_type_it(recipe):
    for typed in (recipe, recipe.upper(), recipe.replace("_", " "), recipe.replace("_", "-")):
        assert as_scheme(typed) == ALL_RECIPES[recipe]


def test_an_engine_without_a_recipe_is_told_as_an_engine():
    with pytest.raises(qv.QuantVizError) as caught:
        qv.quantize([[1.0, 2.0]], "HQQ")
    assert caught.value.key == "scheme_is_engine"
    assert qv.Scheme.parse(caught.value.params["example"]).chosen.id == "hqq"


def test_a_name_that_several_engines_share_says_which():
    with pytest.raises(qv.QuantVizError) as caught:
        qv.Scheme.parse("uint4,asymmetric,per_group(size=128),min_max,vLLM(ties=away)")
    assert caught.value.key == "convention_of_several"
    assert caught.value.params["allowed"] == "awq, gptq"


def test_every_recipe_is_found_by_each_of_its_names():
    for name, scheme in ALL_RECIPES.items():
        words = [recipe_name(name, each, short=short) for each in languages() for short in (False, True)]
        # A format's own name stays the format's: it says nothing of the scales.
        for own in (name, *(each for each in words if folded(each) not in map(folded, qv.FORMATS))):
            for typed in (own, own.upper(), own.replace("_", " "), own.replace(" ", "-"), folded(own)):
                assert as_scheme(typed) == scheme


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("openvino", {"openvino_int8_sym", "openvino_fq_weights"}),
        ("Fake Quantize", {"openvino_fq_weights", "openvino_fq_activations"}),
        ("llm compressor", {"w4a16_g128", "ct_nvfp4"}),
    ],
)
def test_a_part_of_recipes_names_lists_them(typed, offered):
    with pytest.raises(qv.QuantVizError) as caught:
        qv.quantize([1.0, 2.0], typed)
    assert caught.value.key == "recipe_of_several"
    assert offered <= set(caught.value.params["allowed"].split(", "))
    assert "Did you mean" not in str(caught.value)


def test_a_format_of_a_scheme_is_kept_by_its_id():
    assert qv.Scheme("INT-8") == qv.Scheme("int8")
    with pytest.raises(qv.QuantVizError, match="Unknown number format"):
        qv.Scheme("int 9")
