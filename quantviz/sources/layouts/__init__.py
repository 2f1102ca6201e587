"""Quantized weights in files: which tensors make up one, and its codes, scales and values. One file a layout.

A layout is added here: one entry of `LAYOUTS` and its name in each language, under `[notes.layouts.names]` in
`quantviz/text`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quantviz.sources.files.catalog import Catalog
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.layouts import (
    awq,
    bitnet,
    bitsandbytes,
    comfy,
    four_bit_floats,
    gemma,
    gguf,
    gptq,
    hqq,
    mlx,
    modelopt,
    onnx,
    packed,
    quanto,
    scaled,
    tflite,
    torchao,
)
from quantviz.sources.layouts.forms import FLOATS, Claim, Form, find_by_forms
from quantviz.sources.layouts.unclaimed import unclaimed
from quantviz.sources.layouts.weight import Coded as Coded
from quantviz.sources.layouts.weight import Config
from quantviz.sources.layouts.weight import QuantizedWeight as QuantizedWeight

Finder = Callable[["Catalog", Config], Iterator[QuantizedWeight]]


@dataclass(frozen=True)
class Layout:
    id: str
    #: The forms of its tensors in a module; if two fit, the first that accepts all siblings counts.
    forms: tuple[Form, ...] = ()
    #: Used for files whose kind identifies their weights, instead of names in modules.
    find: Finder | None = None


_WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def _is_eetq(claim: Claim) -> bool:
    return bool(claim.config.get("quant_method", "eetq") == "eetq")


#: The forms of layouts that only their own kernels decode: the names of the codes and of one tensor beside
#: them. Such weights are named and not read.
NAMED: dict[str, tuple[Form, ...]] = {
    "exl2": (Form({"q_weight": ("int32",), "q_scale": _WHOLE}, None),),
    "exl3": (Form({"trellis": _WHOLE, "svh": FLOATS}, None), Form({"trellis": _WHOLE, "sv": _WHOLE}, None)),
    "aqlm": (Form({"codes": _WHOLE, "codebooks": FLOATS}, None),),
    "quip": (Form({"Qidxs": _WHOLE, "SU": (*FLOATS, *_WHOLE)}, None),),
    "vptq": (Form({"indices": (*_WHOLE, "float16")}, None, beneath="centroids.weight"),),
    "higgs": (Form({"weight": _WHOLE, "tables2": FLOATS}, None),),
    "spqr": (Form({"dense_weights": _WHOLE}, None),),
    "marlin": (Form({"B": ("int32",), "s": FLOATS}, None),),
    "eetq": (Form({"weight": ("int8",), "weight_scales": FLOATS}, None, when=_is_eetq),),
    "mlc": (Form({"q_weight": ("uint32",), "q_scale": FLOATS}, None),),
    "sinq": (Form({"W_q": (*_WHOLE, *FLOATS)}, None, beneath="meta.scale"),),
    # Of the two one is a tensor without elements.
    "fp_quant": tuple(
        Form(
            {codes: dtypes, "forward_hadamard_matrix": FLOATS},
            None,
            when=lambda claim: math.prod(claim.shape(next(iter(claim.tensors)))) > 0,
        )
        for codes, dtypes in (("qweight", ("uint8",)), ("dqweight", FLOATS))
    ),
    "fouroversix": (Form({"quantized_weight_values": ("uint8",)}, None),),
    "quark": (
        Form({"weight": ("int32",), "weight_scale": FLOATS}, None, method="quark"),
        # Older files have the tensors of its quantizers by their own names.
        Form({"weight": (*_WHOLE, *scaled.FP8)}, None, beneath="weight_quantizer.scale"),
    ),
    "nunchaku": (Form({"qweight": ("int8", "int32"), "wscales": (*FLOATS, "float8_e4m3fn")}, None),),
}
LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        each.id: each
        for each in (
            # Its files name their layout; by names and dtypes alone they may be of another.
            Layout("comfy", comfy.FORMS),
            Layout("gptq", gptq.FORMS),
            Layout("awq", awq.FORMS),
            Layout("gemma", gemma.FORMS),
            Layout("modelopt", modelopt.FORMS),
            Layout("compressed_tensors", (*packed.FORMS, *scaled.COMPRESSED_TENSORS)),
            Layout("fp8_blocks", scaled.FP8_BLOCKS),
            Layout("gpt_oss", four_bit_floats.GPT_OSS),
            Layout("mlx", mlx.FORMS),
            Layout("torchao", torchao.FORMS),
            Layout("hqq", hqq.FORMS),
            Layout("quanto", quanto.FORMS),
            Layout("bitnet", bitnet.FORMS),
            Layout("bitsandbytes", bitsandbytes.FORMS),
            *(Layout(name, forms) for name, forms in NAMED.items()),
            Layout("gguf", find=gguf.find),
            Layout("onnx", find=onnx.find),
            Layout("tflite", find=tflite.find),
        )
    }
)


#: Attributes that quantizers add beside weights for inputs, outputs and the KV cache.
OF_INPUTS = frozenset(
    each for layout in LAYOUTS.values() for form in layout.forms for each in form.beside if each != "bias"
)


def quantized_weights(catalog: Catalog, config: Config | None = None) -> tuple[QuantizedWeight, ...]:
    """Return every quantized weight of an open file, those that cannot be decoded with their problem; at the
    end codes that no layout claims.

    Settings that a layout leaves open (GPTQ's version, a block's size) are taken from `config`, by default
    the `config.json` beside the file.
    """
    config = _FileSettings(catalog) if config is None else config
    of_kind = [layout.find(catalog, config) for layout in LAYOUTS.values() if layout.find]
    forms = {layout.id: layout.forms for layout in LAYOUTS.values() if layout.forms}
    named = () if isinstance(catalog, GgufCatalog) else find_by_forms(catalog, config, forms)
    claimed: list[QuantizedWeight] = []
    for weight in itertools.chain(*of_kind, named):
        claimed.append(weight)
        # A tensor of experts of a few values each may hold more of them than a file may have tensors.
        catalog._check_count(len(claimed))
    return (*claimed, *(unclaimed(catalog, config, claimed) if catalog.of_models else ()))


class _FileSettings(Mapping[str, Any]):
    """Read at the first access: for a remote file that is one more request, which most files do not need."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @functools.cached_property
    def _settings(self) -> Config:
        return configuration(self._catalog)

    def __getitem__(self, key: str) -> Any:
        return self._settings[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)


def configuration(catalog: Catalog) -> Config:
    """Return the quantization settings in the JSON files beside a file."""
    whole = catalog.json_beside("config.json")
    for key in ("quantization_config", "compression_config", "quantization"):
        if isinstance(whole, dict) and isinstance(whole.get(key), dict):
            return dict(whole[key])
    found = catalog.json_beside("quantize_config.json")
    if isinstance(found, dict):
        return found
    of_modelopt = catalog.json_beside("hf_quant_config.json")
    own = of_modelopt.get("quantization") if isinstance(of_modelopt, dict) else None
    return {**own, "quant_method": "modelopt"} if isinstance(own, dict) else {}
