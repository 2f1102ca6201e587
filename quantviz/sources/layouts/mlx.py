"""MLX's layouts. Affine: `X.weight` uint32 (rows, columns · bits / 32), codes side by side with the first
in the lowest bits, `X.scales` and `X.biases` (rows, groups), which transformers calls `X.qbiases`. A value is
scale · code + bias.

The configuration beside the file has bits and group size, for all or for a module: shapes alone fit
several. A module may have another prefix there than in the file, so that the ends of names count; where no
name fits, the lengths of the model's matrices in `config.json` tell whether the settings of all are meant.
Modes mxfp4, mxfp8 and nvfp4 have no biases, and their scales are bytes: exponents in groups of 32,
E4M3 in groups of 16.

Sources: MLX 0.32.4, `mlx.core.quantize`, `dequantize`; transformers 5.24,
`integrations/metal_quantization.py`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import PerGroup
from quantviz.sources.files.mapped import values_of
from quantviz.sources.layouts.bit_fields import unpacked, words_of
from quantviz.sources.layouts.forms import FLOATS, Claim, Form
from quantviz.sources.layouts.four_bit_floats import FORMAT as FP4
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, plain_scheme

_BITS = (2, 3, 4, 5, 6, 8)
_SIZES = (16, 32, 64, 128)
#: Keys of a configuration with lengths of a model's matrices.
_LENGTH = re.compile(
    r"(?!num_|vocab)\w*(hidden|intermediate|inner|ffn|ff|embd|embed|model|dim|rank|width|channels)(_?size)?",
    re.ASCII,
)
#: Keys of a configuration with settings of quantization, whose numbers are no lengths.
_SETTINGS = ("quantization", "quantization_config")
#: Format of the codes, size of a group and dtype of the scales of each mode, by bits of a group's codes.
_MODES = {
    128: (FP4, 32, torch.float8_e8m0fnu),
    256: ("float8_e4m3fn", 32, torch.float8_e8m0fnu),
    64: (FP4, 16, torch.float8_e4m3fn),
}


def _affine(claim: Claim, biases: str = "biases") -> QuantizedWeight:
    bits, size = _bits_and_size(claim, biases)
    shape = (claim.shape("weight")[0], claim.shape("scales")[1] * size)

    def coded(start: int, stop: int) -> Coded:
        q = unpacked(claim.cut("weight", slice(start, stop)), bits, shape[1])
        scale = claim.load("scales", slice(start, stop))
        bias = claim.load(biases, slice(start, stop))
        wide = [of_groups.repeat_interleave(size, dim=1) for of_groups in (scale, bias)]
        return Coded(q.to(torch.uint8), q.float() * wide[0] + wide[1], scale, bias)

    scheme = plain_scheme(f"uint{bits}", "asymmetric", PerGroup(size), shape, "value")
    return claim.weight(shape, scheme, claim.dtype("scales"), coded)


def _bits_and_size(claim: Claim, biases: str) -> tuple[int, int]:
    """Return bits and group size of the module in the configuration, else those of all, unless its lengths
    show that others are meant.

    Raises:
        QuantVizError: They do not fit the tensors, or several fit and nothing decides.
    """
    words = claim.shape("weight")
    scales = claim.shape("scales")
    sound = len(words) == len(scales) == 2 and scales == claim.shape(biases) and words[0] == scales[0]
    fitting = [
        (bits, size)
        for bits in _BITS
        for size in _SIZES
        if sound and words_of(scales[1] * size, bits) == words[1]
    ]
    exact = claim.config.get(claim.module)
    named = [exact] if isinstance(exact, dict) else _named(claim)
    told = {
        tuple(settings.get(key, claim.config.get(key)) for key in ("bits", "group_size"))
        for settings in named or [claim.config]
    }
    possible = [pair for pair in fitting if pair in told]
    if len(fitting) > 1 and not isinstance(exact, dict):
        lengths = lengths_in(claim.catalog.json_beside("config.json"))
        of_model = [pair for pair in fitting if scales[1] * pair[1] in lengths]
        agreed = [pair for pair in possible if pair in of_model]
        if agreed or not named:
            possible = agreed or of_model or possible
        else:
            possible += of_model
    if len(possible) != 1:
        bits, size = next(iter(told))
        key = "mlx_several" if possible else "mlx"
        raise QuantVizError(
            f"layouts.{key}", name=claim.name, bits=bits, size=size, words=words, scales=scales
        )
    return possible[0]


def _named(claim: Claim) -> list[Mapping[str, Any]]:
    """Return the settings of a module under another prefix: of the names that end as its own does, from a
    layer's number on, those that share most.
    """
    parts = claim.module.split(".")
    number = next((k for k in range(len(parts) - 1, 0, -1) if parts[k].isdecimal()), len(parts) - 1)
    tail = ".".join(parts[number:])
    by_likeness: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for key, settings in claim.config.items():
        if (
            not isinstance(settings, dict)
            or not f".{key}".endswith(f".{tail}")
            or f"{key}.weight" in claim.catalog
        ):
            continue
        other = key.split(".")
        pairs = zip(reversed(parts), reversed(other), strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        leads = parts[: len(parts) - same], other[: len(other) - same]
        if not any(part.isdecimal() for lead in leads for part in lead):
            by_likeness.setdefault((same, len(set(leads[0]) & set(leads[1]))), []).append(settings)
    return by_likeness[max(by_likeness)] if by_likeness else []


def lengths_in(config: object) -> set[int]:
    """Return the numbers that may be lengths of matrices."""
    lengths: set[int] = set()
    waiting = [config]
    while waiting:
        value_inside = waiting.pop()
        if isinstance(value_inside, dict):
            numbers = {key: value for key, value in value_inside.items() if type(value) is int and value > 0}
            lengths.update(value for key, value in numbers.items() if _LENGTH.fullmatch(key))
            for key, value in numbers.items():
                if key.endswith("heads"):
                    lengths.update(
                        value * length for of, length in numbers.items() if of.endswith("head_dim")
                    )
                if key == "spatial_merge_size":
                    lengths.update(value**2 * length for of, length in numbers.items() if of == "hidden_size")
            waiting += [value for key, value in value_inside.items() if key not in _SETTINGS]
        elif isinstance(value_inside, list):
            waiting += value_inside
    return lengths


def _micro(claim: Claim) -> QuantizedWeight:
    words = claim.shape("weight")
    scales = claim.shape("scales")
    whole = len(words) == len(scales) == 2 and words[0] == scales[0] and scales[1] > 0
    mode = _MODES.get(words[1] * 32 // scales[1]) if whole and words[1] * 32 % scales[1] == 0 else None
    if mode is None:
        raise claim.misfit("scales")
    fmt, size, dtype = mode
    bits = FORMATS[fmt].bits
    shape = (words[0], scales[1] * size)
    values = values_of(fmt)

    def coded(start: int, stop: int) -> Coded:
        q = unpacked(claim.cut("weight", slice(start, stop)), bits, shape[1])
        scale = claim.cut("scales", slice(start, stop)).view(dtype).float()
        return Coded(q.to(torch.uint8), values[q] * scale.repeat_interleave(size, dim=1), scale)

    scheme = plain_scheme(fmt, "symmetric", PerGroup(size), shape)
    return claim.weight(shape, scheme, str(dtype).removeprefix("torch."), coded)


FORMS = (
    Form({"weight": ("uint32",), "scales": FLOATS, "biases": FLOATS}, _affine),
    Form(
        {"weight": ("uint32",), "scales": FLOATS, "qbiases": FLOATS},
        functools.partial(_affine, biases="qbiases"),
    ),
    Form({"weight": ("uint32",), "scales": ("uint8",)}, _micro),
)
