"""What the real engines compute, asked of their own packages, to hold the conventions to them bit for bit.

One module an engine: `PRODUCER`, the distribution that is asked, and `CASES`, which maps a scheme's text form
to a function that runs the engine on a tensor. An engine is added there and in `ENGINES`; the tensors are in
`data.py`, the comparison is in `compare.py`. `python -m tests.engines` runs all of it and writes the table of
`tests/engines/README.md`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch

#: The modules, in the order of the table, and the conventions of each: who asks for one convention need not
#: import every engine.
ENGINES = {
    "torch_quantize": ("torch",),
    "torch_fake_quantize": ("torch_fake_quantize",),
    "torchao": ("torchao", "torchao_tinygemm", "torchao_float8", "torchao_mx", "torchao_nvfp4"),
    "onnxruntime": ("onnxruntime_dynamic", "onnxruntime", "onnxruntime_blocked", "onnxruntime_nbits"),
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
    """The module that asks an engine; its packages take up to seconds to import."""
    return importlib.import_module(f"tests.engines.{name}")


class Refused(Exception):
    """The engine does not take a tensor of this shape in this way (a tail, an axis, a number of axes)."""


class Undefined(Exception):
    """The engine takes the shape, but what it makes of these numbers is left open by its own language: NaN or
    infinity cast to an integer.
    """


@dataclass(frozen=True, eq=False)
class Answer:
    """What an engine gave."""

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


#: Runs an engine on a float32 tensor.
Case = Callable[[torch.Tensor], Answer]
