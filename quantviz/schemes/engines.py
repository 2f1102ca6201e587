"""The engines' arithmetic: one row of data for each.

An engine is added here, with its words in each language. Each row is held to its engine by `tests/engines`.
"""

from __future__ import annotations

from functools import partial

from quantviz.schemes.arithmetic import HALVES, Arithmetic, HalfInput, Offer, ScaleSpec
from quantviz.schemes.choices import Half, Mode, Search
from quantviz.schemes.scale_search import SEARCHES

#: The smallest float32 with all its digits.
_NORMAL = 2.0**-126


def _ids(*patterns: str) -> tuple[str, ...]:
    # "int2-8" is int2 to int8.
    names: list[str] = []
    for pattern in patterns:
        head, _, last = pattern.partition("-")
        kind = head.rstrip("0123456789")
        first = int(head.removeprefix(kind))
        names += [f"{kind}{bits}" for bits in range(first, int(last or first) + 1)]
    return tuple(names)


_FP8 = ("float8_e4m3fn", "float8_e5m2")
_FP6 = ("float6_e2m3fn", "float6_e3m2fn")
_FP4 = "float4_e2m1fn"
#: Granularities that go together.
_GROUPS = ("per_group",)
_BY_LINES = ("per_tensor", "per_channel")
_ALL_BLOCKS = (*_BY_LINES, "per_group", "per_block")
_SYMMETRIC: tuple[Mode, ...] = ("symmetric",)
_ASYMMETRIC: tuple[Mode, ...] = ("asymmetric",)


def _half(
    *changed: str, dtypes: tuple[Half, ...] = HALVES, formats: tuple[str, ...] = (), **others: object
) -> HalfInput:
    """Return a rule: the fields in `changed` have the input's dtype, `others` a value (`scale__floor`)."""
    values = {**dict.fromkeys(changed, "input"), **others}
    return HalfInput(dtypes, formats, tuple((name.replace("__", "."), each) for name, each in values.items()))


#: The rule of an engine that widens half precision to float32, values included.
_WIDENED = HalfInput()
#: The same, but with values in the input's dtype.
_VALUES_IN_HALF = _half("result_dtype")
_ALL_IN_HALF = ("scale_math", "apply_dtype", "value_dtype")


def _refused(*dtypes: Half) -> HalfInput:
    return HalfInput(dtypes or HALVES, taken=False)


#: The fields that rows of one purpose, and of one engine, share: a row writes only what differs.
_ENGINE = partial(Arithmetic, zero_width="as_any")
_WEIGHTS = partial(_ENGINE, purpose="llm_weights")
_INFERENCE = partial(_ENGINE, purpose="integer_inference")
_WIDE_INFERENCE = partial(_INFERENCE, scale_bits=32, zero_bits=32)
_MICROSCALING = partial(_ENGINE, scale_bits=8, purpose="microscaling")
_TORCH = partial(_ENGINE, zero_in_range=True, scale_bits=32, zero_bits=32, purpose="training")
_ONNXRUNTIME = partial(_INFERENCE, zero_in_range=True, scale_bits=32, known_as=("ORT",))
_LITERT = partial(
    _INFERENCE,
    zero_in_range=True,
    zero_point_clamp=False,
    narrow_symmetric_from=8,
    known_as=("TensorFlow Lite", "TFLite", "AI Edge"),
)
_COMPRESSED_TENSORS = partial(
    _MICROSCALING, zero_in_range=True, negative_zero="not_of_zero", known_as=("llm-compressor", "vLLM")
)
_QUANTO = partial(_WEIGHTS, half_input=(_half(*_ALL_IN_HALF),), known_as=("Hugging Face",))
_BITSANDBYTES = partial(_WEIGHTS, order="multiply_round_add", scale_bits=32)
_MLX = partial(_MICROSCALING, known_as=("Apple",))
_GGUF = partial(_WEIGHTS, half_input=(_WIDENED,), known_as=("llama.cpp", "Ollama"))
_MODELOPT = partial(_WEIGHTS, tail="short", scale_bits=32, known_as=("NVIDIA",))
_MODELOPT_BLOCKS = partial(_MICROSCALING, half_input=(_VALUES_IN_HALF,), known_as=("NVIDIA",))


def _iq4(search: Search) -> Arithmetic:
    return _GGUF(
        f"gguf_{search}",
        ScaleSpec(format="float16", codes_from="exact"),
        search,
        order="multiply_round_add",
        ties="up",
        offer=Offer(tuple(SEARCHES[search]), _SYMMETRIC, ("per_group",), (32,)),
    )


ENGINES: tuple[Arithmetic, ...] = (
    # The source notebooks 000 and 003: Python floats for one scale, a float32 tensor for several.
    Arithmetic("course", scale_math="float64", scale_dtype="float64", purpose="course"),
    # torch.ao's MinMaxObserver with quantize_per_tensor (FBGEMM, one rounding) and
    # quantize_per_channel (two).
    _TORCH(
        "torch",
        ScaleSpec("absmax_over_half_range", floor=2.0**-23),
        zero_point_rule="low_minus_rounded",
        unsigned_zero="middle",
        order="fused_multiply_add_round",
        block_order="multiply_add_round",
        # An observer with fewer codes makes the range for them; codes may be any of the dtype.
        narrow_clamp=False,
        nan_code="largest",
        block_nan_code="zero",
        half_input=(_refused(),),
        purpose="integer_inference",
        known_as=("FBGEMM", "eager mode", "reduce_range"),
        offer=Offer(_ids("int8", "uint8"), granularities=_BY_LINES),
    ),
    # The same observer with fake_quantize_per_tensor_affine and fake_quantize_per_channel_affine.
    _TORCH(
        "torch_fake_quantize",
        ScaleSpec("absmax_over_half_range", floor=2.0**-23),
        zero_point_rule="low_minus_rounded",
        unsigned_zero="middle_of_storage",
        order="multiply_round_add",
        block_cast_before_clamp="int64",
        nan_code="smallest",
        half_input=(_VALUES_IN_HALF,),
        known_as=("QAT", "PyTorch fake_quantize"),
        offer=Offer(_ids("int2-8", "int16", "uint2-8", "uint16"), granularities=_BY_LINES),
    ),
    # FusedMovingAvgObsFakeQuantize, the default of quantization-aware training: its scale is that of
    # fbgemm::ChooseQuantizationParams.
    _TORCH(
        "torch_qat",
        # 6.1e-5 as float32.
        ScaleSpec(
            "mirrored_range", floor=6.0999998822808266e-05, floor_rule="range_stretched", without_inverse=0.1
        ),
        scale_math="float64",
        zero_point_rule="nearer_end",
        zero_point_scale="single",
        unsigned_zero="middle",
        one_sided="asymmetric",
        order="multiply_round_add",
        block_cast_before_clamp="int64",
        nan_code="smallest",
        half_input=(_VALUES_IN_HALF,),
        known_as=("FusedMovingAvgObsFakeQuantize", "QAT"),
        offer=Offer(_ids("int2-8", "int16", "uint2-8", "uint16"), granularities=_BY_LINES),
    ),
    # torchao.quantization.quant_primitives: MappingType.SYMMETRIC and ASYMMETRIC. Others of its
    # variants are replacements: SYMMETRIC_NO_CLIPPING_ERR (scale.rule=without_clipping) and
    # _dont_preserve_zero (zero_in_range=false).
    _WEIGHTS(
        "torchao",
        ScaleSpec("absmax_over_half_range", floor=_NORMAL),
        zero_in_range=True,
        zero_point_rule="low_minus_rounded",
        unsigned_zero="middle",
        order="multiply_round_add",
        half_input=(
            # Int8Tensor keeps a scale as float32 and computes with that.
            _half("scale_math", "result_dtype", formats=("int8",), scale__floor=2.0**-23),
            _half(*_ALL_IN_HALF, dtypes=("bfloat16",), formats=_ids("int1-7", "uint1-8")),
            _half(
                *_ALL_IN_HALF, dtypes=("float16",), formats=_ids("int1-7", "uint1-8"), scale__floor=2.0**-14
            ),
        ),
        known_as=("PyTorch",),
        offer=Offer(_ids("int1-8", "int16", "uint1-8"), granularities=_ALL_BLOCKS),
    ),
    # Int8Tensor, which Int8WeightOnlyConfig makes: the same with a larger smallest scale.
    _WEIGHTS(
        "torchao_int8",
        ScaleSpec("absmax_over_half_range", floor=2.0**-23),
        zero_in_range=True,
        zero_point_rule="low_minus_rounded",
        order="multiply_round_add",
        # It keeps a scale as float32 and computes with that.
        scale_bits=32,
        half_input=(_half("scale_math", "result_dtype"),),
        known_as=("Int8WeightOnly", "Int8Tensor", "reduce_range"),
        offer=Offer(("int8",), granularities=_ALL_BLOCKS),
    ),
    # _choose_qparams_affine_tinygemm: the zero point is the value of the middle code.
    _WEIGHTS(
        "torchao_tinygemm",
        ScaleSpec("absmax_over_half_range", floor=_NORMAL),
        zero_domain="value_middle",
        zero_bits=16,
        half_input=(
            _half(*_ALL_IN_HALF, dtypes=("bfloat16",)),
            _half(*_ALL_IN_HALF, dtypes=("float16",), scale__floor=2.0**-14),
        ),
        known_as=("int4",),
        offer=Offer(_ids("uint2-8"), _ASYMMETRIC, _ALL_BLOCKS),
    ),
    # Float8Tensor: _choose_scale_float8, _quantize_affine_float8.
    _ENGINE(
        "torchao_float8",
        nan_mantissa="all_ones",
        scale_bits=32,
        half_input=(_half("scale_math", "result_dtype"),),
        purpose="training",
        known_as=("FP8",),
        offer=Offer(_FP8, _SYMMETRIC, _ALL_BLOCKS),
    ),
    # MXTensor.to_mx; its scale modes are FLOOR (this one), CEIL, EVEN, and RCEIL
    # (power_of_two_fitting with scale.code_floor_rule=one).
    _MICROSCALING(
        "torchao_mx",
        ScaleSpec("power_of_two_floor", format="float8_e8m0fnu", code_floor=_NORMAL),
        nan_mantissa="all_ones",
        half_input=(_half("value_dtype", dtypes=("bfloat16",)), _refused("float16")),
        known_as=("MXFP4", "MXFP8"),
        offer=Offer((*_FP8, *_FP6, _FP4), _SYMMETRIC, _GROUPS, usual_size=32),
    ),
    # NVFP4Tensor with a per-tensor scale; without one it is scale.global_rule=none.
    _MICROSCALING(
        "torchao_nvfp4",
        ScaleSpec(format="float8_e4m3fn", format_floor=2.0**-6, global_rule="absmax_over_range"),
        order="multiply_round_add",
        half_input=(_half("result_dtype", dtypes=("bfloat16",)), _refused("float16")),
        offer=Offer((_FP4,), _SYMMETRIC, _GROUPS, (16,)),
    ),
    # fouroversix's reference in torch, ScaleRule.mse: NVFP4 whose blocks end at 6 or at 4.
    _MICROSCALING(
        "fouroversix",
        ScaleSpec(
            format="float8_e4m3fn",
            code_max=256.0,
            global_rule="reach_over_absmax",
            inverse_of_zero="quotient_zero",
        ),
        "four_over_six",
        order="multiply_round_add",
        value_order="multiply_levels",
        negative_zero="not_of_zero",
        half_input=(_WIDENED,),
        known_as=("NVFP4 four over six", "4/6", "NVFP4"),
        offer=Offer((_FP4,), _SYMMETRIC, _GROUPS, (16,)),
    ),
    # onnxruntime.quantization's compute_scale_zp with QuantizeLinear and DequantizeLinear.
    _ONNXRUNTIME(
        "onnxruntime",
        ScaleSpec("absmax_over_half_range", floor=_NORMAL, floor_rule="one_below"),
        scale_math="float64",
        zero_point_clamp=False,
        unsigned_zero="middle",
        order="divide_round_add",
        narrow_symmetric_from=8,
        narrow_clamp=False,
        nan_code="smallest",
        zero_width="one_and_zero",
        half_input=(
            _half("scale__format", "result_dtype", dtypes=("float16",), scale__floor=2.0**-14, scale_bits=16),
            _refused("bfloat16"),
        ),
        known_as=("ORT", "QDQ", "reduce_range"),
        offer=Offer(
            _ids("int2", "int4", "int8", "int16", "uint2", "uint4", "uint8", "uint16"),
            granularities=_BY_LINES,
        ),
    ),
    # compute_scale_zp_blocked with QuantizeLinear of opset 21.
    _ONNXRUNTIME(
        "onnxruntime_blocked",
        ScaleSpec("double_absmax_over_range", floor=_NORMAL, floor_rule="one_below"),
        zero_point_math="float64",
        unsigned_zero="middle",
        order="divide_round_add",
        narrow_symmetric_from=8,
        narrow_clamp=False,
        nan_code="smallest",
        zero_width="one_and_zero_if_asymmetric",
        tail="short",
        half_input=(
            _half("scale_math", "result_dtype", dtypes=("float16",), scale__floor=2.0**-14, scale_bits=16),
            _refused("bfloat16"),
        ),
        offer=Offer(
            _ids("int4", "int8", "int16", "uint4", "uint8", "uint16"), granularities=_GROUPS, usual_size=128
        ),
    ),
    # MatMulNBits' weights: MatMul4BitsQuantizer and its kin, round to nearest.
    _ONNXRUNTIME(
        "onnxruntime_nbits",
        ScaleSpec("larger_end_over_code_min"),
        zero_point_ties="away",
        zero_point_of_zero_scale="smallest",
        unsigned_zero="middle",
        order="multiply_add_round",
        ties="away",
        tail="short",
        tail_stored="whole",
        half_input=(
            _half("scale__format", "result_dtype", dtypes=("float16",), scale_bits=16),
            _refused("bfloat16"),
        ),
        purpose="llm_weights",
        known_as=("ORT GenAI",),
        offer=Offer(
            _ids("uint2", "uint4", "uint8"),
            granularities=_GROUPS,
            sizes=(16, 32, 64, 128, 256),
            usual_size=128,
        ),
    ),
    # The operator DynamicQuantizeLinear.
    _ONNXRUNTIME(
        "onnxruntime_dynamic",
        zero_point_of_zero_scale="largest",
        order="divide_round_add",
        zero_width="one",
        half_input=(_refused(),),
        offer=Offer(_ids("uint8"), _ASYMMETRIC, ("per_tensor",)),
    ),
    # Explicit Q and DQ layers, as documented; weights have the scale absmax / largest.
    Arithmetic(
        "tensorrt",
        order="divide_round_add",
        zero_width="one",
        scale_bits=32,
        purpose="integer_inference",
        known_as=("NVIDIA", "IQuantizeLayer"),
        offer=Offer(
            ("int8", "int4", "float8_e4m3fn"),
            _SYMMETRIC,
            ("per_tensor", "per_channel", "per_group"),
            (64, 128),
            usual_size=128,
        ),
    ),
    # fake_quant_with_min_max_vars: the range is moved until 0 is a code. …_vars_per_channel, and …_args,
    # multiply by an inverse that they compute of the range (order=from_lowest_multiply_round_add).
    _ENGINE(
        "tensorflow_fake_quant",
        ScaleSpec(first="both_divided"),
        zero_point_ties="away",
        order="from_lowest_divide_round_add",
        block_order="from_lowest_multiply_round_add",
        ties="adding_half",
        narrow_unsigned="smallest",
        scale_bits=32,
        half_input=(_refused(),),
        purpose="training",
        known_as=("TensorFlow fake_quant", "TensorFlow", "TFLite", "Keras"),
        offer=Offer(_ids("uint2-8", "uint16"), _ASYMMETRIC, _BY_LINES),
    ),
    # AIMET's post_training_tf. Its offset is minus this zero point; strict symmetric is narrow_range=true
    # with unsigned_zero=lower_middle, unsigned symmetric is one_sided=asymmetric_if_positive.
    _WIDE_INFERENCE(
        "aimet",
        # 0.99 of the largest float32.
        ScaleSpec("without_clipping", value_limit=3.3687952317214356e38, floor=2.0**-23),
        scale_math="float64",
        zero_in_range=True,
        zero_point_rule="low_minus_rounded",
        unsigned_zero="middle",
        ties="away",
        half_input=(_WIDENED,),
        known_as=("QNN", "Qualcomm", "SNPE"),
        offer=Offer(_ids("uint4", "uint8", "uint16"), granularities=_BY_LINES),
    ),
    # nncf.compress_weights' do_integer_quantization.
    _WEIGHTS(
        "nncf_weights",
        ScaleSpec("farther_end_negated", floor=2.0**-23, floor_rule="magnitude_below"),
        zero_in_range=True,
        unsigned_zero="middle",
        zero_point_rule="low_minus_rounded",
        half_input=(_WIDENED,),
        known_as=("OpenVINO", "NNCF", "compress_weights"),
        offer=Offer(
            _ids("int4", "int8", "uint4", "uint8"), granularities=("per_channel", "per_group"), usual_size=128
        ),
    ),
    # nncf.quantize's ranges, and OpenVINO's operator FakeQuantize in them. Weights are symmetric with 255
    # levels, narrow_range=true; activations without negative values get a range from 0,
    # one_sided=asymmetric_if_positive.
    _WIDE_INFERENCE(
        "openvino_fake_quantize",
        ScaleSpec(
            "mirrored_end",
            "zero_on_code",
            # 8e-4, 0.01 and 8e-5 as float32.
            widened_up_to=0.0007999999797903001,
            tensor_floor=0.009999999776482582,
            floor=7.999999797903001e-05,
            floor_rule="width_at_least",
            first="both_divided",
        ),
        zero_in_range=True,
        zero_domain="value",
        unsigned_zero="lower_end",
        order="multiply_subtract_round",
        value_order="fused_multiply_add",
        narrow_unsigned="largest",
        # Of the graph, the input, the ends and the output are float16.
        half_input=(_half("scale__ends_format", "result_dtype", dtypes=("float16",)),),
        known_as=("OpenVINO", "NNCF", "Intel", "POT"),
        offer=Offer(_ids("uint4", "uint8"), granularities=_BY_LINES),
    ),
    # ai-edge-quantizer's uniform_quantize_tensor.
    _LITERT(
        "litert",
        ScaleSpec(floor=1e-9, floor_rule="width_at_least"),
        scale_bits=32,
        zero_bits=64,
        half_input=(
            # 1e-9 is 0 in float16, which has no largest int16. NumPy brings bfloat16 to float32, but for a
            # difference of two.
            _half(
                "scale_math",
                "apply_dtype",
                dtypes=("float16",),
                formats=("int2", "int4", "int8"),
                scale__floor=0.0,
            ),
            _half("scale__width_dtype", dtypes=("bfloat16",)),
        ),
        offer=Offer(_ids("int2", "int4", "int8", "int16"), granularities=_BY_LINES),
    ),
    # The same for blocks, whose scales are rounded to bfloat16 and stored as float16.
    _LITERT(
        "litert_blockwise",
        ScaleSpec(floor=1e-9, floor_rule="width_at_least", format="bfloat16_float16"),
        half_input=(
            _half("scale_math", dtypes=("float16",), scale__floor=0.0),
            _half(dtypes=("bfloat16",)),
        ),
        offer=Offer(_ids("int2", "int4", "int8"), _SYMMETRIC, _GROUPS, (32, 64, 128, 256), usual_size=32),
    ),
    # calculate_qparams and quantize of compressed-tensors.
    Arithmetic(
        "compressed_tensors",
        ScaleSpec("absmax_over_half_range", floor=2.0**-23, floor_rule="replace_zero"),
        zero_in_range=True,
        zero_width="as_any",
        negative_zero="not_of_zero",
        tail="short_tiles",
        half_input=(
            _half(*_ALL_IN_HALF, dtypes=("bfloat16",), scale__floor=2.0**-7),
            _half(*_ALL_IN_HALF, dtypes=("float16",), scale__floor=2.0**-10),
        ),
        purpose="llm_weights",
        known_as=("llm-compressor", "vLLM"),
        offer=Offer((*_ids("int2-8"), "float8_e4m3fn"), granularities=_ALL_BLOCKS),
    ),
    _COMPRESSED_TENSORS(
        "compressed_tensors_mx",
        ScaleSpec("power_of_two_even_2_bits", format="float8_e8m0fnu"),
        half_input=(
            _half(*_ALL_IN_HALF, dtypes=("bfloat16",)),
            # float16 has no such small powers of two: they become 0, and that 1.
            _half(*_ALL_IN_HALF, dtypes=("float16",), scale__floor=2.0**-24, scale__floor_rule="one_below"),
        ),
        offer=Offer(("float8_e4m3fn", _FP4), _SYMMETRIC, _GROUPS, (32,)),
    ),
    _COMPRESSED_TENSORS(
        "compressed_tensors_nvfp4",
        ScaleSpec(
            "absmax_over_half_range",
            format="float8_e4m3fn",
            format_floor=0.125,
            global_rule="range_over_absmax",
        ),
        half_input=(_half("scale_math", "result_dtype"),),
        offer=Offer((_FP4,), _SYMMETRIC, _GROUPS, (16,)),
    ),
    # optimum-quanto in 8 bits: absmax_scale for activations, AbsmaxOptimizer for weights.
    _QUANTO(
        "quanto",
        nan_mantissa="all_ones",
        offer=Offer(("int8", *_FP8, "float8_e4m3fnuz"), _SYMMETRIC, _BY_LINES),
    ),
    # Its weights in 2 and 4 bits, by MaxOptimizer; qint4 has the codes 0 to 15. With zeropoint=True
    # it is zero_domain=code_int.
    _QUANTO(
        "quanto_qbits",
        zero_domain="value",
        order="divide_round_add",
        zero_bits=16,
        offer=Offer(
            _ids("uint2", "uint4"), _ASYMMETRIC, ("per_channel", "per_group", "flat"), usual_size=128
        ),
    ),
    # hqq's Quantizer.quantize without its optimizer; round_zero is zero_domain=code_int.
    _WEIGHTS(
        "hqq",
        ScaleSpec(floor=1e-4, floor_rule="inverse_one_up_to", first="inverse_rounded_twice", inverse_max=2e4),
        zero_domain="code_float",
        zero_point_clamp=False,
        order="multiply_add_round",
        zero_bits=16,
        half_input=(_half("value_dtype", "zero_point_format", "scale__format"),),
        offer=Offer(
            _ids("uint1-6", "uint8"), _ASYMMETRIC, ("per_tensor", "per_channel", "per_group", "flat")
        ),
    ),
    # quantize_4bit: NF4 and FP4.
    _BITSANDBYTES(
        "bitsandbytes",
        ScaleSpec(code_floor=1e-38),
        tail_divides=True,
        ties="down",
        tail="short",
        half_input=(_VALUES_IN_HALF,),
        known_as=("QLoRA", "NF4", "bnb"),
        offer=Offer(
            ("nf4", "fp4"), _SYMMETRIC, ("flat",), (32, 64, 128, 256, 512, 1024, 2048, 4096), usual_size=64
        ),
    ),
    # quantize_blockwise: codes are looked up on a lattice of 65,536 points.
    _BITSANDBYTES(
        "bitsandbytes_dynamic8",
        ScaleSpec(inverse_of_zero="inf"),
        lattice=65536,
        ties="down",
        tail="short",
        half_input=(_VALUES_IN_HALF,),
        purpose="training",
        known_as=("bnb", "optimizer"),
        offer=Offer(
            ("bnb_dynamic8",), _SYMMETRIC, ("flat",), (64, 128, 256, 512, 1024, 2048, 4096), usual_size=4096
        ),
    ),
    # int8_vectorwise_quant of LLM.int8().
    _BITSANDBYTES(
        "bitsandbytes_int8",
        ScaleSpec(first="both", inverse_of_zero="inf"),
        value_order="multiply_absmax",
        narrow_range=True,
        half_input=(_WIDENED,),
        known_as=("LLM.int8()", "bnb"),
        offer=Offer(("int8",), _SYMMETRIC, ("per_channel",)),
    ),
    # AutoAWQ's pseudo_quantize_tensor with zero_point=True. The form that WQLinear_GEMM stores is
    # scale.format=float16 with scale.codes_from=exact.
    _WEIGHTS(
        "awq",
        ScaleSpec(floor=1e-5, floor_rule="width_at_least"),
        zero_point_rule="low_minus_rounded",
        order="divide_round_add",
        half_input=(_half(*_ALL_IN_HALF),),
        known_as=("vLLM",),
        offer=Offer(_ids("uint4"), _ASYMMETRIC, ("per_channel", "per_group"), usual_size=128),
    ),
    # find_params and quantize of AutoGPTQ's and GPTQModel's Quantizer. The zero point is stored less 1 in
    # the layout's first version, which no code or value depends on.
    _WEIGHTS(
        "gptq",
        ScaleSpec("mirrored_if_negative"),
        zero_in_range=True,
        zero_point_clamp=False,
        unsigned_zero="middle",
        order="divide_round_add",
        zero_width="minus_one_to_one",
        half_input=(_WIDENED,),
        known_as=("AutoGPTQ", "GPTQModel", "vLLM"),
        offer=Offer(_ids("uint2-4", "uint8"), granularities=("per_channel", "per_group"), usual_size=128),
    ),
    # deepcompressor's quantizer for QServe: int8 codes of a float16 scale a row, and of these whole scales of
    # groups. With zero points among the first level's codes, as qoq-g128.yaml has them, it is
    # zero_domain=value.
    _WEIGHTS(
        "qserve",
        search="qserve",
        order="levels_divide_add_round",
        half_input=(_VALUES_IN_HALF,),
        known_as=("QoQ", "W4A8KV4", "OmniServe", "deepcompressor"),
        offer=Offer(_ids("uint4"), _ASYMMETRIC, _GROUPS, usual_size=128),
    ),
    # mlx.core.quantize, mode="affine".
    _WEIGHTS(
        "mlx",
        ScaleSpec(asymmetric_rule="end_on_code", floor=1e-7),
        zero_domain="value",
        order="divide_round_add",
        zero_bits=16,
        half_input=(_half("value_dtype", "zero_point_format", "scale__format", scale__codes_from="exact"),),
        known_as=("mlx-lm", "Apple"),
        offer=Offer(_ids("uint2-6", "uint8"), _ASYMMETRIC, _GROUPS, (32, 64, 128), usual_size=64),
    ),
    # Its modes mxfp4, mxfp8 and nvfp4. The codes of four bits are looked up: the first of two nearest.
    _MLX(
        "mlx_mxfp4",
        ScaleSpec("power_of_two_fitting", format="float8_e8m0fnu"),
        ties="toward_zero",
        zero_width="one",
        negative_zero="never",
        half_input=(_WIDENED,),
        offer=Offer((_FP4,), _SYMMETRIC, _GROUPS, (32,)),
    ),
    _MLX(
        "mlx_mxfp8",
        ScaleSpec("power_of_two_fitting", format="float8_e8m0fnu"),
        zero_width="one",
        half_input=(_WIDENED,),
        offer=Offer(("float8_e4m3fn",), _SYMMETRIC, _GROUPS, (32,)),
    ),
    _MLX(
        "mlx_nvfp4",
        ScaleSpec(format="float8_e4m3fn", inverse_of_zero="quotient_zero"),
        ties="toward_zero",
        negative_zero="never",
        half_input=(_half("scale_math", "apply_dtype"),),
        offer=Offer((_FP4,), _SYMMETRIC, _GROUPS, (16,)),
    ),
    # coremltools' linear_quantize_weights; a model of float16 has its weights in that before. Activations are
    # clamped to all codes: narrow_clamp=false, in symmetric mode with scale.floor=1 for replace_zero.
    _INFERENCE(
        "coreml",
        ScaleSpec("absmax_over_half_range"),
        zero_in_range=True,
        zero_point_rule="ends_weighted",
        unsigned_zero="lower_middle",
        order="divide_round_add",
        narrow_symmetric_from=1,
        half_input=(
            _half("scale_math", "apply_dtype", "result_dtype", dtypes=("float16",)),
            _refused("bfloat16"),
        ),
        known_as=("Core ML linear", "coremltools", "Apple"),
        offer=Offer(_ids("int4", "int8", "uint4", "uint8"), granularities=_ALL_BLOCKS, usual_size=32),
    ),
    # gguf.quants: Q8_0, TQ1_0 and TQ2_0.
    _GGUF(
        "gguf",
        ScaleSpec(format="float16", codes_from="exact"),
        order="multiply_round_add",
        ties="away",
        offer=Offer(
            ("int8", "ternary"), _SYMMETRIC, _GROUPS, (32, 256), (("int8", (32,)), ("ternary", (256,)))
        ),
    ),
    # Q4_0 and Q5_0.
    _GGUF(
        "gguf_signed",
        ScaleSpec("extreme_over_code_min", format="float16", codes_from="exact"),
        weighted_search="weighted_signed",
        order="multiply_round_add",
        ties="adding_half",
        offer=Offer(("int4", "int5"), _SYMMETRIC, _GROUPS, (32,)),
    ),
    # Q4_1 and Q5_1.
    _GGUF(
        "gguf_minimum",
        ScaleSpec(format="float16", codes_from="exact"),
        zero_domain="value",
        zero_point_format="float16",
        weighted_search="weighted_minimum",
        order="multiply_round_add",
        ties="adding_half",
        zero_bits=16,
        offer=Offer(("uint4", "uint5"), _ASYMMETRIC, _GROUPS, (32,)),
    ),
    # MXFP4.
    Arithmetic(
        "gguf_mx",
        ScaleSpec("power_of_two_floor_log2", format="float8_e8m0fnu", exponent_below="wraps"),
        ties="toward_zero",
        zero_width="as_any",
        negative_zero="never",
        scale_bits=8,
        half_input=(_WIDENED,),
        purpose="microscaling",
        known_as=("llama.cpp", "Ollama"),
        offer=Offer((_FP4,), _SYMMETRIC, _GROUPS, (32,)),
    ),
    # llama.cpp's K-quants, Q2_K to Q6_K: ggml_quantize_chunk.
    _GGUF(
        "gguf_k",
        ScaleSpec(inverse_of_zero="quotient_zero"),
        "k_quants",
        zero_domain="value",
        zero_bits=16,
        offer=Offer(
            tuple(SEARCHES["k_quants"]),
            granularities=_GROUPS,
            sizes=(16, 32),
            # Runs have 256 elements.
            format_sizes=tuple((fmt, (256 // each.run,)) for fmt, each in SEARCHES["k_quants"].items()),
        ),
    ),
    _iq4("iq4_nl"),
    _iq4("iq4_xs"),
    # quantize_mx_op of microxcaling. Its integers are fixed-point numbers below 2.
    _MICROSCALING(
        "microxcaling",
        ScaleSpec(
            "power_of_two_floor_log2",
            floor=_NORMAL,
            floor_rule="absmax_replace_zero",
            format="float8_e8m0fnu",
        ),
        ties="adding_half_away",
        narrow_range=True,
        negative_zero="not_of_zero",
        tail="pad",
        tail_stored="whole",
        half_input=(_half(*_ALL_IN_HALF),),
        known_as=("OCP MX",),
        offer=Offer((*_FP8, *_FP6, _FP4, *_ids("int2", "int4", "int8")), _SYMMETRIC, _ALL_BLOCKS),
    ),
    # modelopt's TensorQuantizer: values are got back by dividing.
    _MODELOPT(
        "modelopt",
        ScaleSpec(floor=2.0**-24, floor_rule="codes_zero_up_to", first="inverse"),
        order="multiply_round_add",
        value_order="divide_inverse",
        half_input=(_VALUES_IN_HALF,),
        purpose="integer_inference",
        known_as=("NVIDIA", "TensorRT"),
        offer=Offer(_ids("int2-8", "int16"), _SYMMETRIC, _ALL_BLOCKS),
    ),
    _MODELOPT(
        "modelopt_float8",
        ScaleSpec(floor=2.0**-24, floor_rule="absmax_one_up_to", first="inverse_rounded_twice"),
        order="multiply_round_add",
        half_input=(_VALUES_IN_HALF,),
        known_as=("NVIDIA", "TensorRT-LLM"),
        offer=Offer(("float8_e4m3fn",), _SYMMETRIC, _ALL_BLOCKS),
    ),
    # INT8QTensor and FP8QTensor.
    _MODELOPT(
        "modelopt_packed",
        # INT8QTensor keeps its padding, FP8QTensor does not.
        tail_stored="whole_if_integer",
        half_input=(_half(*_ALL_IN_HALF),),
        offer=Offer(("int8", "float8_e4m3fn"), _SYMMETRIC, _ALL_BLOCKS),
    ),
    # INT4QTensor.
    _MODELOPT(
        "modelopt_int4",
        ScaleSpec(first="inverse_rounded_twice"),
        order="multiply_round_add",
        value_order="divide_inverse",
        nan_code="smallest",
        half_input=(_half(*_ALL_IN_HALF),),
        offer=Offer(("int4",), _SYMMETRIC, ("flat",), usual_size=128),
    ),
    # MXFP4QTensor.
    _MODELOPT_BLOCKS(
        "modelopt_mxfp4",
        ScaleSpec("power_of_two_fitting", format="float8_e8m0fnu"),
        ties="toward_zero",
        negative_zero="also_of_zero",
        offer=Offer((_FP4,), _SYMMETRIC, ("flat",), (32,)),
    ),
    # MXFP8QTensor.
    _MODELOPT_BLOCKS(
        "modelopt_mxfp8",
        ScaleSpec("power_of_two_fitting", format="float8_e8m0fnu"),
        tail="pad",
        offer=Offer(("float8_e4m3fn",), _SYMMETRIC, _GROUPS, (32,)),
    ),
    # NVFP4QTensor.
    _MODELOPT_BLOCKS(
        "modelopt_nvfp4",
        ScaleSpec(format="float8_e4m3fn", format_floor=2.0**-9, global_rule="absmax_over_range_joined"),
        nan_code="largest",
        negative_zero="not_of_zero",
        offer=Offer((_FP4,), _SYMMETRIC, _GROUPS, (16, 32), usual_size=16),
    ),
)
