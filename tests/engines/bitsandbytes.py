"""bitsandbytes on CPU: 4-bit codebooks, the dynamic 8-bit map, LLM.int8's vectorwise quantization."""

from __future__ import annotations

import copy
import warnings
from functools import partial

import torch

from tests.engines import SPOILS_THE_RANGE, Answer, Case, Path, Refused, Undefined

with warnings.catch_warnings():
    # The package's own warnings, and those of what it imports.
    warnings.simplefilter("ignore")
    from bitsandbytes import functional

PRODUCER = "bitsandbytes"

_SIZES_4BIT = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_SIZES_8BIT = (64, 128, 256, 512, 1024, 2048, 4096)


def _run_4bit(x: torch.Tensor, kind: str, size: int) -> Answer:
    packed, state = functional.quantize_4bit(x, blocksize=size, quant_type=kind)
    # Odd rows go through torch.compile, whose result is the eager one's: several seconds a shape for nothing.
    with torch.compiler.set_stance("force_eager"):
        x_hat = functional.dequantize_4bit(packed, _flat(state) if rows_cut_blocks(x.shape, size) else state)
    if x.dtype == torch.bfloat16 and bool(((state.absmax > 0) & (state.absmax < 2.0**-120)).any()):
        # A processor with an instruction that rounds to bfloat16 makes 0 of what is subnormal there.
        raise Undefined("subnormal bfloat16")
    pairs = packed.view(torch.uint8).reshape(-1)
    codes = torch.stack([pairs >> 4, pairs & 15], dim=1).reshape(-1)[: x.numel()]
    return Answer(x_hat.reshape(x.shape), codes.reshape(x.shape), state.absmax)


def rows_cut_blocks(shape: torch.Size, size: int) -> bool:
    """Whether the AVX-512 kernel takes wrong scales: it counts whole blocks a row where a row's end lies
    within a block.
    """
    return shape[-1] % size != 0 and shape.numel() > shape[-1]


def _flat(state: functional.QuantState) -> functional.QuantState:
    """The same state for one long row, for which every kernel of the engine agrees."""
    other = copy.copy(state)
    other.shape = torch.Size([state.shape.numel()])
    return other


def _refuse_nan(x: torch.Tensor, size: int) -> None:
    """The 8-bit kernel casts x · (1 / absmax) to an integer: undefined for 0 · inf, in subnormal blocks."""
    for part in x.reshape(-1).split(size):
        top = part.abs().max()
        if top > 0 and bool(torch.isnan(part * (1 / top)).any()):
            raise Undefined("0 · inf is cast to an integer")


def _run_8bit(x: torch.Tensor, size: int) -> Answer:
    _refuse_nan(x, size)
    codes, state = functional.quantize_blockwise(x, blocksize=size)
    return Answer(functional.dequantize_blockwise(codes, state), codes, state.absmax)


def _run_int8(x: torch.Tensor) -> Answer:
    if x.dim() != 2:
        raise Refused("a matrix only")
    rows = x.abs().amax(1, keepdim=True)
    # 0 · inf of a row of zeros is left in, too common to leave out: x86 casts NaN to 0.
    if bool((rows.expand_as(x)[torch.isinf(x * (127.0 / rows))]).any()):
        raise Undefined("infinity is cast to int8")
    codes, stats, _ = functional.int8_vectorwise_quant(x)
    # The engine multiplies by the row's absmax first and by 1 / 127 then: this is what a code of 1 gives.
    scale = functional.int8_vectorwise_dequant(torch.ones(len(x), 1, dtype=torch.int8), stats)
    return Answer(functional.int8_vectorwise_dequant(codes, stats), codes, scale.reshape(-1))


_4BIT: dict[str, Case] = {
    f"{kind},symmetric,flat(size={size}),min_max,bitsandbytes": partial(_run_4bit, kind=kind, size=size)
    for kind in ("nf4", "fp4")
    for size in _SIZES_4BIT
}
_8BIT: dict[str, Case] = {
    f"bnb_dynamic8,symmetric,flat(size={size}),min_max,bitsandbytes_dynamic8": partial(_run_8bit, size=size)
    for size in _SIZES_8BIT
}
_INT8: dict[str, Case] = {"int8,symmetric,per_channel(axis=0),min_max,bitsandbytes_int8": _run_int8}
_OPEN = {"given range": "its scales are those of the data"}
_SPOILT = {"infinity": SPOILS_THE_RANGE, "NaN": SPOILS_THE_RANGE, **_OPEN}

PATHS = (
    Path("quantize_4bit", _4BIT, half=_4BIT, open=_SPOILT),
    Path("quantize_blockwise", _8BIT, half=_8BIT, open={"infinity": SPOILS_THE_RANGE, **_OPEN}),
    Path("int8_vectorwise_quant", _INT8, half=_INT8, open=_SPOILT),
)
