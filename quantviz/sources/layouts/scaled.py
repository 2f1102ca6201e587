"""Weights whose codes are a tensor of their own dtype beside their scales: int8 and FP8 as
compressed-tensors writes them, and FP8 by blocks as DeepSeek does.

`X.weight` int8 or FP8 (rows, columns), and `X.weight_scale`, `X.weight_scale_inv` or `X.scale`, of a block,
a group, a row or all; asymmetric int8 has `X.weight_zero_point` int8. A value is scale · (code − zero
point); `weight_scale_inv` is multiplied too, despite its name. Scales that are bytes or E8M0 are
exponents. Three axes are experts, one after the other; transformers calls those `experts.gate_up_proj` and
`experts.gate_up_proj_scale_inv`. FBGEMM's experts are inputs × outputs, and `experts.gate_up_proj_scale` has
a scale of each output. A convolution's codes have its axes: a row is all of one output.

DeepSeek-V4 calls the scales `X.scale`, E8M0, and its experts' codes are FP4, two an int8 byte, in groups of
32.

Sources: compressed-tensors 0.20, `compressors/naive_quantized/base.py`; DeepSeek-V3, `inference/kernel.py`
(0623163); transformers 5.24, `integrations/finegrained_fp8.py` (`Fp8Dequantize`, `_unpack_fp4`),
and `integrations/fbgemm_fp8.py` (`FbgemmFp8Quantize`).
"""

from __future__ import annotations

import functools
import math

import torch

from quantviz.schemes.granularity import Granularity, PerBlock, PerChannel, PerGroup, PerTensor
from quantviz.sources.layouts.forms import ANY, FLOATS, Claim, Form
from quantviz.sources.layouts.four_bit_floats import EXPONENTS, dtype_of_scales, four_bit_floats, scales_of
from quantviz.sources.layouts.weight import Coded, Config, QuantizedWeight, granularity_of, plain_scheme

FORMATS = {
    "int8": "int8",
    **{fp8: fp8 for fp8 in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")},
}
FP8 = tuple(dtype for dtype in FORMATS if dtype != "int8")
SCALES = (*FLOATS, *EXPONENTS)
#: Rows and columns of a block where the configuration does not say.
_BLOCK = (128, 128)


def block_of(config: Config) -> tuple[int, int]:
    groups = config.get("config_groups") or {}
    blocks = [
        config.get("weight_block_size"),
        *((each.get("weights") or {}).get("block_structure") for each in groups.values()),
    ]
    return next(filter(None, map(rows_and_columns, blocks)), _BLOCK)


def rows_and_columns(block: object) -> tuple[int, int] | None:
    """Return None if there are not two lengths in the JSON."""
    sound = isinstance(block, list) and len(block) == 2 and all(type(n) is int and n > 0 for n in block)
    return (block[0], block[1]) if isinstance(block, list) and sound else None


def scaled_codes(
    claim: Claim,
    codes: str = "weight",
    scales: str = "weight_scale",
    zeros: str = "weight_zero_point",
    *,
    fmt: str | None = None,
    block: tuple[int, int] | None = None,
) -> QuantizedWeight:
    """Return a weight of codes of int8 or FP8 beside scales, and zero points if the claim has them.

    `codes`, `scales` and `zeros` are attributes. `fmt` has the integers where those have fewer bits than
    their dtype; the rows and columns of a `block` are by default those of the configuration.

    Raises:
        QuantVizError: The shapes do not fit together.
    """
    outputs, *inputs = claim.shape(codes)  # of a convolution also the axes of its kernel
    shape = (outputs, math.prod(inputs))
    of_scales = claim.shape(scales)
    flat = of_scales
    if len(inputs) == 1 and len(of_scales) == 4 and of_scales[1] == of_scales[3] == 1:
        flat = (of_scales[0], of_scales[2])  # ModelOpt's, of blocks
    elif len(inputs) > 1 and set(of_scales[1:]) == {1}:
        flat = of_scales[:1]
    # Each expert has scales of its own.
    own = len(flat) == 2 if claim.at else bool(inputs)
    granularity = granularity_of(flat, shape, block or block_of(claim.config)) if own else None
    if granularity is None:
        raise claim.misfit(scales)
    if zeros in claim and claim.shape(zeros) != of_scales:
        raise claim.misfit(zeros)
    fmt = fmt or FORMATS[claim.dtype(codes)]

    def coded(start: int, stop: int) -> Coded:
        found = claim.cut(codes, slice(start, stop)).flatten(1)
        rows = rows_of_scales(granularity, start, stop)
        scale = scales_of(claim, scales, *rows)
        scale = scale.flatten(1) if len(of_scales) > 2 else scale
        lines = over_cells(scale, granularity, stop - start, shape[1])
        if fmt.startswith("float"):
            bits = found.to(getattr(torch, fmt)).view(torch.uint8)
            return Coded(bits, found * lines, scale)
        if zeros not in claim:
            return Coded(found, found.float() * lines, scale)
        shift = claim.cut(zeros, *rows).to(torch.int32)
        over = over_cells(shift, granularity, stop - start, shape[1])
        return Coded(found, (found.to(torch.int32) - over).float() * lines, scale, shift)

    scheme = plain_scheme(fmt, "asymmetric" if zeros in claim else "symmetric", granularity, shape)
    step = granularity.rows if isinstance(granularity, PerBlock) else 1
    is_one = isinstance(granularity, PerTensor)
    of_all = (lambda: float(scales_of(claim, scales).flatten()[0])) if is_one else None
    dtype = dtype_of_scales(claim, scales)
    return claim.weight(shape, scheme, dtype, coded, row_step=step, of_all=of_all)


def by_blocks(codes: str, scales: str, activation: str = "activation_scale") -> tuple[Form, Form]:
    weight = codes if ANY in codes else "weight"
    beside = ("bias", "input_scale", activation)
    fp8 = functools.partial(scaled_codes, codes=codes, scales=scales)
    fp4 = functools.partial(four_bit_floats, codes=codes, scales=scales)
    return (
        Form({codes: FP8, scales: SCALES}, fp8, beside=beside, weight=weight),
        Form({codes: ("int8",), scales: EXPONENTS}, fp4, beside=beside, weight=weight),
    )


def _by_outputs(claim: Claim) -> QuantizedWeight:
    """Read an expert of FBGEMM: inputs × outputs, with scales (1, outputs) or (outputs, 1)."""
    shape = claim.shape(ANY)
    scales = f"{ANY}_scale"
    if len(shape) != 2 or sorted(claim.shape(scales)) != sorted((1, shape[1])):
        raise claim.misfit(scales)
    fmt = FORMATS[claim.dtype(ANY)]

    def coded(start: int, stop: int) -> Coded:
        found = claim.cut(ANY, slice(start, stop))
        scale = claim.load(scales).reshape(1, -1)
        return Coded(found.to(getattr(torch, fmt)).view(torch.uint8), found * scale, scale)

    scheme = plain_scheme(fmt, "symmetric", PerChannel(1), shape)
    return claim.weight(shape, scheme, claim.dtype(scales), coded)


COMPRESSED_TENSORS = (
    Form({"weight": FP8, "weight_scale": SCALES}, scaled_codes),
    Form({"weight": ("int8",), "weight_scale": FLOATS}, scaled_codes, {"weight_zero_point": ("int8",)}),
)
FP8_BLOCKS = (
    Form({ANY: FP8, f"{ANY}_scale": FLOATS}, _by_outputs, method="fbgemm_fp8", weight=ANY),
    *by_blocks("weight", "weight_scale_inv"),
    *by_blocks("weight", "scale"),
    *by_blocks(ANY, f"{ANY}_scale_inv", f"{ANY}_activation_scale"),
)


def rows_of_scales(granularity: Granularity, start: int, stop: int) -> tuple[int | slice, ...]:
    if isinstance(granularity, PerBlock):
        return (slice(start // granularity.rows, -(-stop // granularity.rows)),)
    return (slice(start, stop),) if isinstance(granularity, PerChannel | PerGroup) else ()


def over_cells(values: torch.Tensor, granularity: Granularity, rows: int, columns: int) -> torch.Tensor:
    """Spread one number a block over the cells of `(rows, columns)`."""
    if isinstance(granularity, PerChannel):
        return values.reshape(rows, 1)
    if isinstance(granularity, PerGroup):
        return values.repeat_interleave(granularity.size, dim=1)
    if isinstance(granularity, PerBlock):
        of_rows = values.repeat_interleave(granularity.rows, dim=0)[:rows]
        return of_rows.repeat_interleave(granularity.cols, dim=1)[:, :columns]
    return values.reshape(())
