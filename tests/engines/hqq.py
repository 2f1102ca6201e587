"""HQQ without its search (`optimize=False`): `Quantizer.quantize` and, for a 16-bit compute dtype,
`HQQLinear`.

`flat(size=n,strided=true)` are the groups of `axis=0`: the flattened tensor seen as n rows, a group is one
column.
"""

from __future__ import annotations

import warnings

import torch

from tests.engines import SPOILS_THE_RANGE, Answer, Case, Path, Refused

with warnings.catch_warnings():
    # The package's own warnings, and those of what it imports.
    warnings.simplefilter("ignore")
    from hqq.core.quantize import HQQLinear, Quantizer

PRODUCER = "hqq"

_BITS = {"uint8": 8, "uint6": 6, "uint5": 5, "uint4": 4, "uint3": 3, "uint2": 2, "uint1": 1}
#: Rows that share a byte once packed; 3 bits are padded to ten rows and so fit any number.
_ROWS_A_BYTE = {4: 2, 2: 4, 1: 8}
_GROUP_SIZES = (8, 32, 64, 128)


def _checked(x: torch.Tensor, axis: int, size: int | None, channels: bool) -> None:
    if size is not None and x.numel() % size:
        raise Refused(f"{size} does not divide {x.numel()}")
    if size is None and channels and x.dim() != 2:
        raise Refused("min(axis) of more or fewer than two axes is another granularity")


def _quantizer(
    nbits: int, axis: int, size: int | None, round_zero: bool, channels: bool = True, along_last: bool = False
) -> Case:
    def case(x: torch.Tensor) -> Answer:
        _checked(x, axis, size, channels)
        if along_last and x.shape[-1] % size:
            raise Refused("the groups are flat: they would run over the end of the last axis")
        # Unpacked: packed, it fails wherever the rows do not fill their bytes.
        codes, meta = Quantizer.quantize(
            x,
            nbits=nbits,
            channel_wise=channels,
            group_size=size,
            optimize=False,
            round_zero=round_zero,
            axis=axis,
            bitpack=False,
            device="cpu",
        )
        codes = codes.to(torch.uint8)  # as packing does: a code of -0.0 is 0
        # A layer is made for the dtype that it computes in, here that of the weight.
        codes, meta = Quantizer.cpu(codes, {**meta, "compute_dtype": x.dtype})
        return Answer(
            Quantizer.dequantize(codes, meta),
            codes.reshape(x.shape).to(torch.int32),
            meta["scale"].reshape(-1),
            meta["zero"].reshape(-1),
        )

    return case


def _linear(nbits: int, axis: int, size: int | None, round_zero: bool, dtype: torch.dtype) -> Case:
    def case(x: torch.Tensor) -> Answer:
        _checked(x, axis, size, True)
        if x.dim() != 2:
            raise Refused("a linear layer's weight is a matrix")
        rows = (size if axis == 0 else x.numel() // size) if size else x.shape[0]
        if rows % _ROWS_A_BYTE.get(nbits, 1):
            raise Refused(f"{rows} rows cannot be packed")
        weight = {
            "nbits": nbits,
            "channel_wise": True,
            "group_size": size,
            "optimize": False,
            "round_zero": round_zero,
            "axis": axis,
        }
        config = {
            "weight_quant_params": weight,
            "scale_quant_params": None,
            "zero_quant_params": None,
            "offload_meta": False,
        }
        layer = HQQLinear.from_weights(x.clone(), None, config, compute_dtype=dtype, device="cpu")
        meta = layer.meta
        codes = Quantizer.unpack[meta["packing"]](layer.W_q.data, dtype=torch.uint8)[:rows]
        return Answer(
            layer.dequantize().to(torch.float32),
            codes.reshape(x.shape).to(torch.int32),
            meta["scale"].reshape(-1),
            meta["zero"].reshape(-1),
        )

    return case


#: By granularity: the engine's axis and group size.
_LAYOUTS: dict[str, tuple[int, int | None]] = {
    "per_channel(axis=0)": (1, None),
    "per_channel(axis=-1)": (0, None),
    **{f"flat(size={size})": (1, size) for size in _GROUP_SIZES},
    **{f"flat(size={size},strided=true)": (0, size) for size in _GROUP_SIZES},
}


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for fmt, nbits in _BITS.items():
        for round_zero in (False, True):
            domain = ("zero_domain=code_int",) if round_zero else ()
            convention = f"hqq({','.join(domain)})" if domain else "hqq"
            cases[f"{fmt},asymmetric,per_tensor,min_max,{convention}"] = _quantizer(
                nbits, 1, None, round_zero, channels=False
            )
            for granularity, (axis, size) in _LAYOUTS.items():
                cases[f"{fmt},asymmetric,{granularity},min_max,{convention}"] = _quantizer(
                    nbits, axis, size, round_zero
                )
                for dtype in ("float16", "bfloat16"):
                    fields = ",".join(
                        (
                            f"value_dtype={dtype}",
                            *domain,
                            f"zero_point_format={dtype}",
                            f"scale.format={dtype}",
                        )
                    )
                    cases[f"{fmt},asymmetric,{granularity},min_max,hqq({fields})"] = _linear(
                        nbits, axis, size, round_zero, getattr(torch, dtype)
                    )
            for size in _GROUP_SIZES:
                cases[f"{fmt},asymmetric,per_group(size={size}),min_max,{convention}"] = _quantizer(
                    nbits, 1, size, round_zero, along_last=True
                )
    return cases


_CASES = _cases()

#: Of a weight of half precision a layer is made that computes in its dtype.
_OF_FLOAT = {form: case for form, case in _CASES.items() if "value_dtype" not in form}
_OPEN = {
    "given range": "its range is that of the data",
    "infinity": SPOILS_THE_RANGE,
    "NaN": SPOILS_THE_RANGE,
}

PATHS = (
    Path("Quantizer", _OF_FLOAT, half=_OF_FLOAT, open=_OPEN),
    Path(
        "HQQLinear",
        {form: case for form, case in _CASES.items() if form not in _OF_FLOAT},
        open={"half and bfloat16 input": "a weight of half precision is the row of Quantizer", **_OPEN},
    ),
)
