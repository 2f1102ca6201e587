"""What the real engines compute, asked of their own packages, to hold the conventions to them bit for bit.

One module an engine: `PRODUCER`, the distribution that is asked, and `PATHS`, each a way in which it computes
(a function, an operator, a tool) with the schemes that it is asked of. An engine is added there and in
`ENGINES`; the tensors are in `data.py`, the comparison is in `compare.py`. `python -m tests.engines` runs all
of it and writes the tables of `tests/engines/README.md`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType

import torch

#: The modules, in the order of the table, and the conventions of each: a reader of one convention need not
#: import every engine.
ENGINES = {
    "torch_quantize": ("torch",),
    "torch_fake_quantize": ("torch_fake_quantize",),
    "torch_qat": ("torch_qat",),
    "torchao": (
        "torchao",
        "torchao_tinygemm",
        "torchao_int8",
        "torchao_float8",
        "torchao_mx",
        "torchao_nvfp4",
    ),
    "onnxruntime": ("onnxruntime_dynamic", "onnxruntime", "onnxruntime_blocked", "onnxruntime_nbits"),
    "tensorrt": ("tensorrt",),
    "aimet": ("aimet",),
    "nncf": ("nncf_weights",),
    "openvino": ("openvino_fake_quantize",),
    "tensorflow": ("tensorflow_fake_quant",),
    "litert": ("litert", "litert_blockwise"),
    "compressed_tensors": ("compressed_tensors", "compressed_tensors_mx", "compressed_tensors_nvfp4"),
    "quanto": ("quanto", "quanto_qbits"),
    "hqq": ("hqq",),
    "bitsandbytes": ("bitsandbytes", "bitsandbytes_dynamic8", "bitsandbytes_int8"),
    "gguf": ("gguf_signed", "gguf_minimum", "gguf", "gguf_mx"),
    "llama_cpp": ("gguf_k", "gguf_iq4_nl", "gguf_iq4_xs"),
    "mlx": ("mlx", "mlx_mxfp4", "mlx_mxfp8", "mlx_nvfp4"),
    "coreml": ("coreml",),
    "autoawq": ("awq",),
    "gptq": ("gptq",),
    "qserve": ("qserve",),
    "fouroversix": ("fouroversix",),
    "microxcaling": ("microxcaling",),
    "modelopt": (
        "modelopt",
        "modelopt_float8",
        "modelopt_packed",
        "modelopt_int4",
        "modelopt_mxfp4",
        "modelopt_mxfp8",
        "modelopt_nvfp4",
    ),
}


def engine(name: str) -> ModuleType:
    """Return the module that asks an engine; its packages take up to seconds to import."""
    return importlib.import_module(f"tests.engines.{name}")


class Refused(Exception):
    """The engine does not take a tensor of this shape in this way (a tail, an axis, a number of axes)."""


class Undefined(Exception):
    """The engine takes the shape, but its own language leaves the result open for these numbers: NaN or
    infinity cast to an integer. Its text is the reason, and stands in `README.md`.
    """


def refuse_half_nan(x: torch.Tensor, x_hat: torch.Tensor) -> None:
    """Raise `Undefined` for NaN of half precision: torch's vectors give it another sign than single cells."""
    if x.dtype != torch.float32 and bool(torch.isnan(x_hat).any()):
        raise Undefined("the sign of a NaN of half precision depends on where it is among torch's vectors")


@dataclass(frozen=True, eq=False)
class Answer:
    """An engine's answer."""

    #: Dequantized values, float32 of the tensor's shape.
    x_hat: torch.Tensor
    #: One code an element, of the tensor's shape: numbers of an integer format, bit codes (0 … 2^bits - 1) of
    #: a float format or codebook. None where the engine does not show codes and they cannot be told from
    #: values that are not finite.
    codes: torch.Tensor | None
    #: The scale that multiplies when values are got back, one a block in row-major order of the blocks, any
    #: float dtype, flat.
    scale: torch.Tensor
    #: The zero point, in the domain that the convention names, one a block, flat. None where the engine keeps
    #: none.
    zero_point: torch.Tensor | None = None


#: Runs an engine on a tensor that it also takes its range from.
Case = Callable[[torch.Tensor], Answer]
#: Runs an engine on its second argument, with the range of the first: a tensor of the same shape.
GivenCase = Callable[[torch.Tensor, torch.Tensor], Answer]

#: The four ways in which every engine is compared, as groups of columns of the table.
WAYS = ("own range", "given range", "special values", "half and bfloat16 input")
#: What each way asks. A path answers a question, or says in `open` why the engine leaves it open.
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "own range": "own range",
        "given range": "given range",
        # -0, subnormals, the largest float32, scales at and below the smallest.
        "special numbers": "special values",
        "infinity": "special values",
        "NaN": "special values",
        "half and bfloat16 input": "half and bfloat16 input",
    }
)
#: Why ±Inf or NaN is open where the engine's own range takes it in.
SPOILS_THE_RANGE = "the scale of the whole block becomes NaN or infinite; here ranges leave such values out"


def own_range(given: Mapping[str, GivenCase]) -> dict[str, Case]:
    """Return the cases that take the range from the tensor that is quantized in it."""

    def own(case: GivenCase) -> Case:
        return lambda x: case(x, x)

    return {form: own(case) for form, case in given.items()}


@dataclass(frozen=True, eq=False)
class Path:
    """One way in which an engine computes: a function, an operator, a tool. It is a row of the table for each
    convention and kind of format.
    """

    #: In the engine's words.
    name: str
    #: By a scheme's text form, what runs the engine.
    own: Mapping[str, Case]
    #: The same for a range from outside. Where there are such cases, ±Inf and NaN are asked by them too.
    given: Mapping[str, GivenCase] = field(default_factory=dict)
    #: The same for a tensor of float16 or bfloat16.
    half: Mapping[str, Case] = field(default_factory=dict)
    #: Why the engine leaves a question open, by the question: a fact about the engine.
    open: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_given(cls, name: str, given: Mapping[str, GivenCase], **others: Mapping[str, object]) -> Path:
        """Return the path whose own range is the one that it would be given of the same tensor, in every
        dtype.
        """
        own = own_range(given)
        half = {} if "half and bfloat16 input" in others.get("open", {}) else own
        return cls(name, own, given, **{"half": half, **others})  # type: ignore[arg-type]

    @property
    def forms(self) -> tuple[str, ...]:
        """Return the schemes that are asked."""
        return tuple(dict.fromkeys((*self.own, *self.half)))

    def cases(self, question: str) -> Mapping[str, Case] | Mapping[str, GivenCase]:
        """Return the cases that answer a question."""
        if question == "given range":
            return self.given
        return self.half if question == "half and bfloat16 input" else self.own


def case_of(name: str, form: str) -> Case:
    """Return the first case of a module for a scheme, on the tensor's own range."""
    return next(path.own[form] for path in engine(name).PATHS if form in path.own)
