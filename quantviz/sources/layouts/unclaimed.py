"""Detection of codes that no layout claims, so that they are never taken for values.

Whole numbers are codes unless they are indices, counts or masks. FP8 is codes where scales lie beside it that
no layout claims or in a file that is not open, where the configuration names a quantizer, and where it uses
the whole range of its type as values do not; FP4 and FP6 always are. A tensor beside codes with the name of
a scale or a zero point belongs to them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence

import torch

from quantviz.errors import QuantVizError
from quantviz.sources.files.catalog import Catalog, is_matrix, is_whole
from quantviz.sources.files.file_data import clipped
from quantviz.sources.layouts.forms import BESIDE, ORDINARY, Module, apart_error, modules_of
from quantviz.sources.layouts.weight import Config, QuantizedWeight, unreadable
from quantviz.tensors.lazy import Stored

#: Codes where there are scales beside them, and codes always.
_SMALL_FLOAT = re.compile(r"float([46]_|8_e[45]).*", re.ASCII)
_TINY_FLOAT = re.compile(r"float[46]_.*", re.ASCII)
#: Ends of the names of whole numbers that are no codes.
_INDEX = re.compile(
    r"(.*[._])?(index|indices|ids|positions?|mask|bias|num_batches_tracked|offsets?)", re.ASCII
)
#: A container of a training's state in a nested checkpoint, how far it was, and the moments of a parameter in
#: an optimizer.
_TRAINING = re.compile(
    r"(.*\.)?((\w+_)?optim(izers?)?(_states?)?(_dict)?(_?[A-Za-z])?|opt_states?|opt_?[A-Za-z]|lr_schedulers?)\..+"
    r"|best_\w+|(global_)?step|epoch|iteration"
    r"|(.*[._])?(exp_avg(_sq|_slow)?|max_exp_avg_sq|exp_inf|momentum_buffer|square_avg|acc_delta)",
    re.ASCII,
)
#: Names that modules give their codes, for one called `weight` in the model.
_NAMES = ("weight", "weights", "weight_packed", "qweight", "q_weight", "W_q")
_OF_CODES = re.compile(
    r"scale|zero|absmax|amax|scb|g_idx|perm|codebook|lut|suh|svh|trellis|quant|biases|meta|shape|offset",
    re.ASCII | re.IGNORECASE,
)
_MOST_PAIRS = 2**12
#: Elements that are read to detect a mask, which has 0 and 1 alone, and both.
_LOOKED_AT = 2**16
_VALUES_PER_READ = 2**22
#: Root of the mean square of FP8, zeros aside, from which it may be codes: in a part that is looked at first,
#: and in the whole. Weights have a few hundredths.
_LIKELY_RMS = 0.25
_LEAST_RMS = 1.0
#: The same of codes whose scale is a power of two: the largest of them is beyond half of the range.
_LARGE_RMS = 16.0
#: Largest codes that quantizers to a type give whose scales are any numbers: the type's last two, and in E4M3
#: the largest of accelerators that end at 240.
_LARGEST = {
    "float8_e4m3fn": (448.0, 416.0, 240.0),
    "float8_e4m3fnuz": (240.0, 224.0),
    "float8_e5m2": (57344.0, 49152.0),
    "float8_e5m2fnuz": (57344.0, 49152.0),
}


def is_of_training(name: str) -> bool:
    """Return whether a tensor belongs to an optimizer or tells how far a training is.

    >>> [is_of_training(name) for name in ("optimizer_states.0.state.3.exp_avg", "best_acc1", "fc.weight")]
    [True, True, False]
    """
    return bool(_TRAINING.fullmatch(name))


def unclaimed(
    catalog: Catalog, config: Config, claimed: Sequence[QuantizedWeight]
) -> Iterator[QuantizedWeight]:
    """Yield an unreadable weight for codes that no layout claims, in the order of modules."""
    taken = {part for weight in claimed for part in weight.parts}
    names = [name for name in catalog.names if name not in taken and not is_of_training(name)]
    for module in modules_of(names, catalog.apart).values():
        yield from _OfModule(catalog, config, module).weights()


class _OfModule:
    def __init__(self, catalog: Catalog, config: Config, module: Module) -> None:
        self._catalog = catalog
        self._config = config
        self._prefix = module.prefix
        self._names = {**module.tensors, **module.apart}
        self._here = list(module.tensors)
        self._apart = [attribute for attribute in module.apart if attribute not in BESIDE]
        self._beside = [attribute for attribute in self._here if accompanies(attribute)]

    def weights(self) -> Iterator[QuantizedWeight]:
        """Yield the weights whose codes are here, then those of which only other parts are."""
        codes = [attribute for attribute in self._here if self._is_codes(attribute)]
        # Of two tensors of codes one may belong to the other: zero points in words, exponents in bytes.
        weights_here = [attribute for attribute in codes if not accompanies(attribute)]
        scales_apart = [attribute for attribute in self._apart if accompanies(attribute)]
        codes_apart = [
            attribute
            for attribute in self._apart
            if attribute in _NAMES or attribute not in (*ORDINARY, *scales_apart)
        ]
        if not codes_apart:
            weights_here = weights_here or codes
        rest = [
            attribute
            for attribute in self._here
            if attribute not in weights_here and (attribute in codes or accompanies(attribute))
        ]
        for codes_of_weight in weights_here:
            parts = _parts_of(codes_of_weight, weights_here, rest)
            gone = _parts_of(codes_of_weight, weights_here, scales_apart)
            names = tuple(self._names[part] for part in (codes_of_weight, *parts))
            yield unreadable(
                "unknown", self._name(codes_of_weight), names, self._reason(codes_of_weight, parts, gone)
            )
        if not weights_here and (rest := [attribute for attribute in rest if attribute not in BESIDE]):
            for codes_of_weight in codes_apart:
                if parts := _parts_of(codes_of_weight, codes_apart, rest):
                    name = self._names[codes_of_weight]
                    reason = apart_error(self._catalog, name, name)
                    yield unreadable("unknown", name, tuple(self._names[part] for part in parts), reason)

    def _is_codes(self, attribute: str) -> bool:
        name = self._names[attribute]
        info = self._catalog.info(name)
        is_beside = accompanies(attribute)
        scaled = len(self._beside) > is_beside or any(map(accompanies, self._apart))
        if _SMALL_FLOAT.fullmatch(info.dtype):
            is_weight = bool(self._prefix) and attribute.endswith(_NAMES)
            strange = is_weight and not ORDINARY.issuperset(self._here)
            sure = bool(_TINY_FLOAT.fullmatch(info.dtype)) or scaled or strange or bool(self._config)
            return is_matrix(info.shape) and not is_beside and sure
        if not is_whole(info.dtype) or info.dtype == "bool" or not info.count or _INDEX.fullmatch(attribute):
            return False
        if not is_matrix(info.shape):
            # Bytes in a row may be a tokenizer's; numbers of 32 bits and more are indices.
            short = info.dtype in ("uint8", "int8", "uint16", "int16") and info.count > 1
            return short and (scaled or attribute in _NAMES)
        return not _is_mask(self._catalog, name)

    def _reason(self, codes: str, parts: Collection[str], gone: Collection[str]) -> QuantVizError:
        name = self._names[codes]
        for attribute in gone:
            return apart_error(self._catalog, self._name(codes), self._names[attribute])
        dtype = self._catalog.info(name).dtype
        strange = [
            attribute
            for attribute in self._here
            if attribute != codes and attribute not in (*ORDINARY, *BESIDE)
        ]
        if parts or (strange and self._prefix):
            others = ", ".join(clipped(attribute) for attribute in parts or strange)
            return QuantVizError("layouts.unknown", name=clipped(name), dtype=dtype, others=others)
        if self._config:
            method = str(self._config.get("quant_method", "?"))
            return QuantVizError("layouts.no_scale", name=clipped(name), dtype=dtype, method=clipped(method))
        return QuantVizError("layouts.unread_codes", name=clipped(name), dtype=dtype)

    def _name(self, codes: str) -> str:
        name = f"{self._prefix}weight" if codes in _NAMES else self._names[codes]
        is_other = name in self._catalog and name != self._names[codes]
        return self._names[codes] if is_other else name


def check_values(x: Stored, name: str, dtype: str) -> None:
    """Raise a `QuantVizError` where FP8 without a scale is codes of the whole range of the type."""
    largest = _LARGEST.get(dtype)
    if largest is None or not is_matrix(x.shape):
        return
    middle = max(0, x.count // 2 - _LOOKED_AT)
    some = torch.from_numpy(x.run(middle, min(x.count, middle + _LOOKED_AT)))
    some = some[some.isfinite() & (some != 0)]
    if len(some) and float(some.square().mean().sqrt()) < _LIKELY_RMS:
        return
    top = total = 0.0
    for start in range(0, x.count, _VALUES_PER_READ):
        values = torch.from_numpy(x.run(start, min(start + _VALUES_PER_READ, x.count))).nan_to_num(
            posinf=0, neginf=0
        )
        top = max(top, float(values.abs().max()))
        total += float(values.double().square().sum())
    rms = math.sqrt(total / x.count)
    if (top in largest and rms >= _LEAST_RMS) or (2 * top >= largest[0] and rms >= _LARGE_RMS):
        raise QuantVizError("layouts.only_codes", name=clipped(name), dtype=dtype, got=top)


def accompanies(attribute: str) -> bool:
    """Return whether an attribute, or a name, is that of a tensor beside codes, such as scales.

    >>> accompanies("weight_scale_inv"), accompanies("q_proj.weight")
    (True, False)
    """
    return bool(_OF_CODES.search(attribute.rpartition(".")[2]))


def _is_mask(catalog: Catalog, name: str) -> bool:
    info = catalog.info(name)
    if info.problem:
        return False
    rest = math.prod(info.shape[1:])
    try:
        seen = catalog.cut(name, (slice(0, max(1, _LOOKED_AT // max(1, rest))),)).flatten()[:_LOOKED_AT]
    except QuantVizError:
        return False
    return bool((seen == 0).any()) and bool((seen == 1).any()) and bool(((seen == 0) | (seen == 1)).all())


def _parts_of(codes: str, all_codes: Sequence[str], rest: Sequence[str]) -> list[str]:
    if len(all_codes) == 1:
        return list(rest)
    if len(all_codes) * len(rest) > _MOST_PAIRS:
        # No module has so many; the first has them all, so that none is taken for a weight.
        return list(rest) if codes == all_codes[0] else []
    return [attribute for attribute in rest if attribute.startswith((f"{codes}.", _stem(codes)))]


def _stem(attribute: str) -> str:
    """Leave out the last word.

    >>> _stem("gate_up_proj_blocks"), _stem("weight")
    ('gate_up_proj', 'weight')
    """
    return attribute.rpartition("_")[0] or attribute
