"""Layouts that only their own kernels decode, named by their tensors: such weights are not read."""

from __future__ import annotations

from quantviz.sources.layouts.forms import FLOATS, Claim, Form

_WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def _is_eetq(claim: Claim) -> bool:
    return bool(claim.config.get("quant_method", "eetq") == "eetq")


def _is_vptq(claim: Claim) -> bool:
    return f"{claim.module}.centroids.weight" in claim.catalog


#: The form of each layout: the names of its codes and of one tensor beside them.
NAMED: dict[str, tuple[Form, ...]] = {
    "exl2": (Form({"q_weight": ("int32",), "q_scale": _WHOLE}, None),),
    "exl3": (Form({"trellis": _WHOLE, "svh": FLOATS}, None), Form({"trellis": _WHOLE, "sv": _WHOLE}, None)),
    "aqlm": (Form({"codes": _WHOLE, "codebooks": FLOATS}, None),),
    "quip": (Form({"Qidxs": _WHOLE, "SU": (*FLOATS, *_WHOLE)}, None),),
    "vptq": (Form({"indices": (*_WHOLE, "float16")}, None, when=_is_vptq),),
    "higgs": (Form({"weight": _WHOLE, "tables2": FLOATS}, None),),
    "spqr": (Form({"dense_weights": _WHOLE}, None),),
    "marlin": (Form({"B": ("int32",), "s": FLOATS}, None),),
    "eetq": (Form({"weight": ("int8",), "weight_scales": FLOATS}, None, when=_is_eetq),),
    "mlc": (Form({"q_weight": ("uint32",), "q_scale": FLOATS}, None),),
    "nunchaku": (Form({"qweight": ("int8", "int32"), "wscales": (*FLOATS, "float8_e4m3fn")}, None),),
}
