"""Recipes: schemes with a name, to set everything at once.

A recipe is added here: one entry in `RECIPE_GROUPS` and its words in each language.
"""

from __future__ import annotations

import functools
import re
from collections.abc import ItemsView, Iterator, Mapping
from types import MappingProxyType

from quantviz.errors import QuantVizError
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.calibration import AbsMean, Searched
from quantviz.schemes.choices import Mode
from quantviz.schemes.conventions import CONVENTIONS, Convention, engine_names
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Flat, PerBlock, PerChannel, PerGroup, PerTensor, Shape
from quantviz.schemes.names import begins_words, has_words, ids_named
from quantviz.schemes.scheme import Scheme
from quantviz.text import DEFAULT_LANGUAGE, languages, table, text


def _group(format_id: str, convention: str | Convention, size: int = 32, mode: Mode = "symmetric") -> Scheme:
    return Scheme(format_id, mode, PerGroup(size), convention=convention)


def _by_rows(format_id: str, convention: str | Convention, mode: Mode = "symmetric") -> Scheme:
    return Scheme(format_id, mode, PerChannel(0), convention=convention)


def _searched(format_id: str, convention: str, size: int = 32, mode: Mode = "symmetric") -> Scheme:
    return Scheme(format_id, mode, PerGroup(size), Searched(), convention)


#: Every recipe by group and id: weights as they are usually quantized.
RECIPE_GROUPS: Mapping[str, Mapping[str, Scheme]] = MappingProxyType(
    {
        # By the source notebooks' arithmetic.
        "integers": MappingProxyType(
            {
                f"{format_id}_{name}": Scheme(format_id, "symmetric", granularity)
                for format_id in ("int8", "int4")
                for name, granularity in (
                    ("per_tensor", PerTensor()),
                    ("per_row", PerChannel(axis=0)),
                    ("per_column", PerChannel(axis=1)),
                    ("g32", PerGroup(32)),
                    ("g128", PerGroup(128)),
                )
            }
        ),
        # LLM.int8() (Dettmers et al. 2022), and FP8 as compressed-tensors has it: a row of zeros, as at the
        # end of a padded vocabulary, has a scale there, and none in torchao.
        "eight_bits": MappingProxyType(
            {
                "bnb_int8": _by_rows("int8", "bitsandbytes_int8"),
                "fp8_e4m3_per_tensor": Scheme("float8_e4m3fn", convention="compressed_tensors"),
                "fp8_e4m3_per_row": _by_rows("float8_e4m3fn", "compressed_tensors"),
            }
        ),
        # OCP Microscaling Formats 1.0, and NVIDIA's FP4 with an E4M3 scale for 16 values.
        "microscaling": MappingProxyType(
            {
                "mxfp8_e4m3": _group("float8_e4m3fn", "microxcaling"),
                "mxfp8_e5m2": _group("float8_e5m2", "microxcaling"),
                "mxfp6_e2m3": _group("float6_e2m3fn", "microxcaling"),
                "mxfp6_e3m2": _group("float6_e3m2fn", "microxcaling"),
                "mxfp4": _group("float4_e2m1fn", "microxcaling"),
                "mxint8": _group("int8", "microxcaling"),
                "mxint4": _group("int4", "microxcaling"),
                "nvfp4": _group("float4_e2m1fn", "torchao_nvfp4", 16),
                "nvfp4_one_level": _group(
                    "float4_e2m1fn", CONVENTIONS["torchao_nvfp4"].replace(**{"scale.global_rule": None}), 16
                ),
                # The block's largest magnitude becomes 6 or 4 (Cook et al. 2025).
                "nvfp4_four_over_six": _searched("float4_e2m1fn", "fouroversix", 16),
            }
        ),
        # Types of llama.cpp's files.
        "gguf": MappingProxyType(
            {
                "q8_0": _group("int8", "gguf"),
                "q5_0": _group("int5", "gguf_signed"),
                "q5_1": _group("uint5", "gguf_minimum", mode="asymmetric"),
                "q4_0": _group("int4", "gguf_signed"),
                "q4_1": _group("uint4", "gguf_minimum", mode="asymmetric"),
                "gguf_mxfp4": _group("float4_e2m1fn", "gguf_mx"),
                "q6_k": _searched("int6", "gguf_k", 16),
                "q5_k": _searched("uint5", "gguf_k", mode="asymmetric"),
                "q4_k": _searched("uint4", "gguf_k", mode="asymmetric"),
                "iq4_nl": _searched("iq4", "gguf_iq4_nl"),
                "iq4_xs": _searched("iq4", "gguf_iq4_xs"),
                "q3_k": _searched("int3", "gguf_k", 16),
                "q2_k": _searched("uint2", "gguf_k", 16, "asymmetric"),
                "tq2_0": _group("ternary", "gguf", 256),
                # 52 bytes for 256 codes: five to a byte, and the last sixteen four to a byte.
                "tq1_0": _group("ternary", CONVENTIONS["gguf"].replace(code_bits=1.625), 256),
            }
        ),
        # The engines' default weights, without their own searches and corrections.
        "engines": MappingProxyType(
            {
                "awq_int4_g128": _group("uint4", "awq", 128, "asymmetric"),
                "gptq_int4_g128": _group("uint4", "gptq", 128),
                "qserve_int4_g128": _searched("uint4", "qserve", 128, "asymmetric"),
                "mlx_q4_g64": _group("uint4", "mlx", 64, "asymmetric"),
                "mlx_q8_g64": _group("uint8", "mlx", 64, "asymmetric"),
                "coreml_int4_g32": _group("int4", "coreml"),
                "coreml_int8_per_row": _by_rows("int8", "coreml"),
                # `nncf.compress_weights`, of weights alone.
                "openvino_int8_sym": _by_rows("int8", "nncf_weights"),
                "openvino_int8_asym": _by_rows("uint8", "nncf_weights", "asymmetric"),
                "openvino_int4_sym_g128": _group("int4", "nncf_weights", 128),
                "openvino_int4_asym_g128": _group("uint4", "nncf_weights", 128, "asymmetric"),
                # `nncf.quantize`, whose operator is FakeQuantize.
                "openvino_fq_weights": _by_rows(
                    "uint8", CONVENTIONS["openvino_fake_quantize"].replace(narrow_range=True)
                ),
                "openvino_fq_activations": Scheme("uint8", "asymmetric", convention="openvino_fake_quantize"),
            }
        ),
        # QLoRA's data types (Dettmers et al. 2023); BitNet b1.58 (Ma et al. 2024) and BitNet (Wang et al.
        # 2023).
        "codebooks": MappingProxyType(
            {
                "nf4_64": Scheme("nf4", granularity=Flat(64), convention="bitsandbytes"),
                "fp4_64": Scheme("fp4", granularity=Flat(64), convention="bitsandbytes"),
                "ternary_absmean": Scheme("ternary", calibration=AbsMean()),
                "binary_absmean": Scheme("binary", calibration=AbsMean()),
            }
        ),
    }
)


#: More recipes by engine, under the engines' own names, for profiles. Lists of all recipes leave these out.
ENGINE_RECIPES: Mapping[str, Mapping[str, Scheme]] = MappingProxyType(
    {
        # The presets of compressed-tensors, of weights alone.
        "vllm": MappingProxyType(
            {
                "w4a16_g128": _group("int4", "compressed_tensors", 128),
                "w4a16_asym_g128": _group("int4", "compressed_tensors", 128, "asymmetric"),
                "w8a16_g128": _group("int8", "compressed_tensors", 128),
                "w8a8_per_row": _by_rows("int8", "compressed_tensors"),
                "ct_fp8_per_tensor": Scheme("float8_e4m3fn", convention="compressed_tensors"),
                "ct_fp8_per_row": _by_rows("float8_e4m3fn", "compressed_tensors"),
                "ct_fp8_block": Scheme(
                    "float8_e4m3fn", granularity=PerBlock(128, 128), convention="compressed_tensors"
                ),
                "ct_nvfp4": _group("float4_e2m1fn", "compressed_tensors_nvfp4", 16),
                "ct_mxfp4": _group("float4_e2m1fn", "compressed_tensors_mx"),
                "ct_mxfp8": _group("float8_e4m3fn", "compressed_tensors_mx"),
            }
        ),
        "modelopt": MappingProxyType(
            {
                "modelopt_int8_per_row": _by_rows("int8", "modelopt"),
                "modelopt_int4_g128": _group("int4", "modelopt", 128),
                "modelopt_fp8_per_tensor": Scheme("float8_e4m3fn", convention="modelopt_float8"),
                "modelopt_nvfp4": _group("float4_e2m1fn", "modelopt_nvfp4", 16),
                "modelopt_mxfp8": _group("float8_e4m3fn", "modelopt_mxfp8"),
                "modelopt_mxfp4": Scheme("float4_e2m1fn", granularity=Flat(32), convention="modelopt_mxfp4"),
            }
        ),
        "onnxruntime": MappingProxyType(
            {
                "ort_int8_per_tensor": Scheme("int8", convention="onnxruntime"),
                "ort_int8_per_row": _by_rows("int8", "onnxruntime"),
                "ort_int4_g128": _group("uint4", "onnxruntime_nbits", 128),
                "ort_int4_asym_g128": _group("uint4", "onnxruntime_nbits", 128, "asymmetric"),
                "ort_int4_g32": _group("uint4", "onnxruntime_nbits"),
            }
        ),
        "torchao": MappingProxyType(
            {
                "torchao_int8_per_row": _by_rows("int8", "torchao_int8"),
                "torchao_int4_g128": _group("uint4", "torchao_tinygemm", 128, "asymmetric"),
                "torchao_int4_g32": _group("uint4", "torchao_tinygemm", mode="asymmetric"),
                "torchao_fp8_per_tensor": Scheme("float8_e4m3fn", convention="torchao_float8"),
                "torchao_fp8_per_row": _by_rows("float8_e4m3fn", "torchao_float8"),
                "torchao_mxfp8": _group("float8_e4m3fn", "torchao_mx"),
                "torchao_mxfp4": _group("float4_e2m1fn", "torchao_mx"),
            }
        ),
        # Integers for inference and for training with them: weights by rows, and activations.
        "integer_engines": MappingProxyType(
            {
                "torch_int8_per_row": _by_rows("int8", "torch"),
                "torch_int8_reduce_range": Scheme(
                    "uint8", "asymmetric", convention=CONVENTIONS["torch"].replace(reduce_range="half")
                ),
                "ort_int8_reduce_range": _by_rows(
                    "int8", CONVENTIONS["onnxruntime"].replace(reduce_range="half_and_one")
                ),
                "tensorrt_int8_per_row": _by_rows("int8", "tensorrt"),
                "aimet_int8_per_row": _by_rows("uint8", "aimet"),
                "aimet_int8_activations": Scheme("uint8", "asymmetric", convention="aimet"),
                "tf_fake_quant_int8": Scheme("uint8", "asymmetric", convention="tensorflow_fake_quant"),
                "torch_qat_int8_per_row": _by_rows("int8", "torch_qat"),
                "torch_qat_int8_activations": Scheme("uint8", "asymmetric", convention="torch_qat"),
            }
        ),
        "mlx": MappingProxyType(
            {
                "mlx_q6_g64": _group("uint6", "mlx", 64, "asymmetric"),
                "mlx_q3_g64": _group("uint3", "mlx", 64, "asymmetric"),
                "mlx_mxfp4": _group("float4_e2m1fn", "mlx_mxfp4"),
                "mlx_nvfp4": _group("float4_e2m1fn", "mlx_nvfp4", 16),
            }
        ),
        "litert": MappingProxyType(
            {
                "litert_int8_per_row": _by_rows("int8", "litert"),
                "litert_int4_per_row": _by_rows("int4", "litert"),
                "litert_int4_g32": _group("int4", "litert_blockwise"),
                "litert_int4_g128": _group("int4", "litert_blockwise", 128),
            }
        ),
    }
)


class _Recipes(Mapping[str, Scheme]):
    def __init__(self, groups: Mapping[str, Mapping[str, Scheme]]) -> None:
        self._schemes = {name: scheme for recipes in groups.values() for name, scheme in recipes.items()}

    def __getitem__(self, name: str) -> Scheme:
        return self._schemes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemes)

    def __len__(self) -> int:
        return len(self._schemes)

    def items(self) -> ItemsView[str, Scheme]:
        return self._schemes.items()

    def __repr__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:{width}}  {scheme}" for name, scheme in self.items())

    def _repr_html_(self) -> str:
        return table((name, recipe_name(name), scheme) for name, scheme in self.items())


RECIPES: Mapping[str, Scheme] = _Recipes(RECIPE_GROUPS)
#: Those of engines' profiles too.
ALL_RECIPES: Mapping[str, Scheme] = _Recipes({**RECIPE_GROUPS, **ENGINE_RECIPES})

#: For recipes without a tensor.
MATRIX = Axes((1, 1))


def recipe_name(
    recipe_id: str, language: str = DEFAULT_LANGUAGE, axes: Axes = MATRIX, *, short: bool = False
) -> str:
    """Return the name of a recipe in words, on a tensor of these `axes`; the shortest name with `short`.

    >>> recipe_name("int4_g32"), recipe_name("int4_per_row", "zh")
    ('int4 in groups of 32', 'int4，逐行')
    >>> recipe_name("int4_per_row", axes=Axes((64, 3, 7, 7)))
    'int4 per output channel'
    """
    granularity = ALL_RECIPES[recipe_id].granularity
    words = {}
    if isinstance(granularity, PerChannel):
        # A recipe of columns does not fit a tensor of one axis, but needs a name there too.
        named = axes if len(axes.shape) > granularity.axis else MATRIX
        words = {form: named.words(granularity.axis, form, language) for form in ("channel", "short")}
    return text(f"recipe_plot.{'short' if short else 'name'}.{recipe_id}", language, **words)


def as_scheme(named: Scheme | str) -> Scheme:
    """Return the scheme itself, or the one of this name.

    A name is a recipe's id or words as people type them, or a text form. `QuantVizError` suggests the
    nearest recipe, or those of a number format.

    >>> as_scheme("MX-FP4") == as_scheme("mxfp4") == RECIPES["mxfp4"]
    True
    >>> as_scheme("int4 in groups of 128") == RECIPES["int4_g128"]
    True
    >>> as_scheme("int8")
    Traceback (most recent call last):
    ...
    quantviz.errors.QuantVizError: 'int8' is only a number format and does not say how to choose the scales.
    Use a recipe with it: int8_per_tensor, \
int8_per_row, int8_per_column, int8_g32, int8_g128, bnb_int8, mxint8, q8_0, coreml_int8_per_row, \
openvino_int8_sym; or Scheme('int8').
    """
    if isinstance(named, Scheme):
        return named
    if not isinstance(named, str):
        raise QuantVizError("scheme_wanted", got=type(named).__name__)
    ids, in_words = _names()
    for called in ids_named(named, ids):
        return ALL_RECIPES[called]
    # A format's name is its own, though a recipe may be called by it in words.
    for called in ids_named(named, ((name, name) for name in FORMATS)):
        of_format = [name for name, scheme in RECIPES.items() if scheme.format == called]
        raise QuantVizError("scheme_is_format", got=named, format=called, recipes=", ".join(of_format) or "–")
    for called in ids_named(named, in_words):
        return ALL_RECIPES[called]
    if "," in named:
        return Scheme.parse(named.strip())
    partly = _named_partly(named) if named.strip() else ()
    if partly:
        raise QuantVizError("recipe_of_several", got=named, allowed=", ".join(partly))
    for engine in CONVENTIONS.values():
        if begins_words(engine_names(engine), named):
            example = Scheme("int8").adapted(engine.id, (4096, 4096))
            raise QuantVizError("scheme_is_engine", got=named, example=str(example))
    form = _written_out(named)
    key = "unknown_recipe" if form is None else "recipe_written_out"
    raise QuantVizError(key, got=named, form=form, known=", ".join(ALL_RECIPES))


def _written_out(typed: str) -> str | None:
    """Return the text form of integers with a width or group size that no recipe has, if that is typed.

    >>> _written_out("int3_g16"), _written_out("int4_gguf")
    ('int3,symmetric,per_group(size=16),min_max,course', None)
    """
    match = re.fullmatch(r"(u?)(int\d+)[ _-](?:per[ _-](tensor|row|column)|g(\d+))", typed.strip().lower())
    if match is None or match[1] + match[2] not in FORMATS:
        return None
    lines = {"tensor": PerTensor(), "row": PerChannel(0), "column": PerChannel(1)}
    granularity = lines[match[3]] if match[3] else PerGroup(int(match[4][:9]))
    return str(Scheme(match[1] + match[2], "asymmetric" if match[1] else "symmetric", granularity))


def _named_partly(typed: str) -> tuple[str, ...]:
    # In a recipe's name, or in one of its engine.
    in_name = [recipe for names in _names() for name, recipe in names if has_words(name, typed)]
    of_engine = [
        recipe for recipe, scheme in ALL_RECIPES.items() if begins_words(engine_names(scheme.chosen), typed)
    ]
    return tuple(recipe for recipe in ALL_RECIPES if recipe in (*in_name, *of_engine))


@functools.cache
def _names() -> tuple[tuple[tuple[str, str], ...], ...]:
    in_words = tuple(
        (recipe_name(name, language, short=short), name)
        for name in ALL_RECIPES
        for short in (False, True)
        for language in languages()
    )
    return tuple((name, name) for name in ALL_RECIPES), in_words


@functools.lru_cache(maxsize=1024)
def current_recipe(current: Scheme, shape: Shape) -> str | None:
    """Return the id of the recipe that is the current scheme or has the same blocks on this shape.

    Recipes that engines share come before an engine's own. NaN and Inf are left aside.
    """
    current = current.replace(nonfinite="refuse")
    exact = _ids().get(current)
    if len(shape) == 1 and needs_lines(current):
        return None
    if exact or current.problems(shape):
        return exact
    alike = [name for name, scheme in ALL_RECIPES.items() if scheme.format == current.format]
    return next((name for name in alike if _same_effect(ALL_RECIPES[name], current, shape)), None)


@functools.cache
def _ids() -> Mapping[Scheme, str]:
    # The first of recipes that have the same scheme.
    return {scheme: name for name, scheme in reversed([*ALL_RECIPES.items()])}


def needs_lines(recipe: Scheme) -> bool:
    return isinstance(recipe.granularity, PerChannel)


def _same_effect(one: Scheme, other: Scheme, shape: Shape) -> bool:
    rest = (one.mode, one.calibration, one.convention)
    if rest != (other.mode, other.calibration, other.convention):
        return False
    return not one.problems(shape) and one.layout(shape) == other.layout(shape)
