"""The claims of layouts: tensors of a module by name and dtype, and every sibling that a layout accepts.

A weight with a sibling that its layout does not name is not decoded, because the sibling's effect on it is
unknown; so too where an index names such a sibling in a file that is not open.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.catalog import Catalog
from quantviz.sources.files.file_data import clipped
from quantviz.sources.layouts.weight import (
    Coded,
    Config,
    QuantizedWeight,
    attempted,
    bits_stored,
    unreadable,
    values_only,
)

#: Stands for the name that a module gives the weight: experts have `gate_up_proj_scales`.
ANY = "*"
FLOATS = ("float32", "float16", "bfloat16")
#: Siblings without effect on a weight: biases, and the scales of inputs, outputs and the KV cache.
BESIDE = (
    *("bias", "input_scale", "input_zero_point", "input_global_scale", "output_scale", "output_zero_point"),
    *("input_activation_scale", "output_activation_scale", "input_scale_ub"),
    *("q_scale", "k_scale", "v_scale", "q_zero_point", "k_zero_point", "v_zero_point", "k_bias", "v_bias"),
)
_MOST_EXPERTS = 2**16
#: A module whose weight of three axes is one of outputs, inputs and a kernel.
_CONVOLUTION = re.compile(r"conv|patch_embed", re.ASCII | re.IGNORECASE)
ORDINARY = frozenset(
    {
        *("weight", "bias", "running_mean", "running_var", "num_batches_tracked", "e_score_correction_bias"),
        *("weight_g", "weight_v", "position_ids"),
    }
)


@dataclass(frozen=True)
class Form:
    #: The dtypes that each tensor may have, by attribute; the first holds the codes.
    parts: Mapping[str, tuple[str, ...]]
    #: May raise a `QuantVizError`. None where only the layout's own kernels decode the weight.
    read: Callable[[Claim], QuantizedWeight] | None
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Accepted attributes without effect on the weight.
    beside: tuple[str, ...] = BESIDE
    #: Decides where names and dtypes fit another layout too.
    when: Callable[[Claim], bool] | None = None
    #: The same by the `quant_method` that the configuration names, or by a tensor's name inside the module.
    method: str = ""
    beneath: str = ""
    #: Axes of one weight's codes; one more holds experts, each of which is a weight.
    axes: int = 2
    weight: str = "weight"

    @property
    def key(self) -> str:
        """Return the first attribute that other modules do not have."""
        return next((part for part in self.parts if part not in ("weight", ANY)), next(iter(self.parts)))


@dataclass(frozen=True, eq=False)
class Claim:
    """Tensors of a module that a layout claims for one weight."""

    catalog: Catalog
    config: Config
    layout: str
    module: str
    #: In the model; of an expert with its number.
    name: str
    #: By the attributes of the form, the codes first.
    tensors: Mapping[str, str]
    #: The index in tensors of experts.
    at: tuple[int, ...] = ()
    experts: int = 1

    def __contains__(self, attribute: str) -> bool:
        return attribute in self.tensors

    def dtype(self, attribute: str) -> str:
        return self.catalog.info(self.tensors[attribute]).dtype

    def shape(self, attribute: str) -> Shape:
        """Return the shape of the weight's part of a tensor; `QuantVizError` where experts share it."""
        shape = self.catalog.info(self.tensors[attribute]).shape
        if self.at and (not shape or shape[0] != self.experts):
            raise self.misfit(attribute)
        return shape[len(self.at) :]

    def cut(self, attribute: str, *index: int | slice) -> torch.Tensor:
        """Return some of a tensor in the stored dtype; FP8 as float32."""
        return self.catalog.cut(self.tensors[attribute], (*self.at, *index))

    def load(self, attribute: str, *index: int | slice) -> torch.Tensor:
        return self.catalog.read(self.tensors[attribute], (*self.at, *index)).tensor

    def misfit(self, attribute: str, shape: Shape | None = None) -> QuantVizError:
        """Return the error that a tensor does not fit a weight of `shape`, by default that of the codes."""
        codes = next(iter(self.tensors.values()))
        shape = self.catalog.info(codes).shape if shape is None else shape
        scales = self.catalog.info(self.tensors[attribute]).shape
        return QuantVizError("layouts.scales", name=self.name, shape=shape, scales=scales)

    def damaged(self) -> QuantVizError:
        return QuantVizError("layouts.damaged", name=self.name)

    def weight(
        self,
        shape: Shape,
        scheme: Scheme | None,
        scale_dtype: str,
        coded: Callable[[int, int], Coded],
        **more: Any,
    ) -> QuantizedWeight:
        """Return the weight, see `QuantizedWeight`; `more` are other fields."""
        parts = tuple(self.tensors.values())
        bits = bits_stored(self.catalog, parts, shape) / self.experts
        if more.get("columns") is not None:
            more["notes"] = (Note.of("layouts.act_order"),)
        return QuantizedWeight(self.layout, self.name, shape, parts, scheme, scale_dtype, coded, bits, **more)


def with_factors(claim: Claim, weight: QuantizedWeight, factors: str) -> QuantizedWeight:
    """Return a weight whose columns have factors of their own: only its values are known."""
    if math.prod(claim.shape(factors)) != weight.shape[1]:
        raise claim.misfit(factors, weight.shape)
    factor = claim.load(factors).flatten()

    def coded(start: int, stop: int) -> Coded:
        return values_only(weight.coded(start, stop).x_hat * factor)

    note = Note.of("layouts.factors")
    return dataclasses.replace(weight, scheme=None, coded=coded, notes=(*weight.notes, note))


def find_by_forms(
    catalog: Catalog, config: Config, layouts: Mapping[str, Sequence[Form]]
) -> Iterator[QuantizedWeight]:
    plain, ending = _by_key(layouts)
    modules = modules_of(catalog.names, catalog.apart)
    below: dict[str, list[str]] = {}
    for prefix, module in modules.items():
        above = prefix.removesuffix(".").rpartition(".")[0]
        below.setdefault(f"{above}.", []).extend(module.tensors.values())
    for module in modules.values():
        claims: dict[str, list[tuple[str, Form, str]]] = {}
        for attribute in module.tensors:
            for layout, form in plain.get(attribute, ()):
                claims.setdefault(next(iter(form.parts)), []).append((layout, form, ""))
            for end, layout, form in ending:
                if attribute.endswith(end) and len(attribute) > len(end):
                    stem = attribute.removesuffix(end)
                    codes = next(iter(form.parts)).replace(ANY, stem)
                    claims.setdefault(codes, []).append((layout, form, stem))
        for codes, candidates in claims.items():
            if codes in module.tensors:
                inside = below.get(module.prefix, ())
                yield from _claimed(catalog, config, module, codes, candidates, inside)


def _by_key(
    layouts: Mapping[str, Sequence[Form]],
) -> tuple[dict[str, list[tuple[str, Form]]], list[tuple[str, str, Form]]]:
    plain: dict[str, list[tuple[str, Form]]] = {}
    ending: list[tuple[str, str, Form]] = []
    for layout, forms in layouts.items():
        for form in forms:
            if ANY in form.key:
                ending.append((form.key.removeprefix(ANY), layout, form))
            else:
                plain.setdefault(form.key, []).append((layout, form))
    return plain, ending


def _claimed(
    catalog: Catalog,
    config: Config,
    module: Module,
    codes: str,
    candidates: Sequence[tuple[str, Form, str]],
    below: Sequence[str] = (),
) -> list[QuantizedWeight]:
    """Return the weights of one tensor of codes, by the first form that accepts all its siblings; `below` are
    the tensors of the modules right below.

    If none does, return unreadable weights with the error of the first form.
    """
    dtype = catalog.info(module.tensors[codes]).dtype
    fallback: list[QuantizedWeight] = []
    for layout, form, stem in candidates:
        names = {part: part.replace(ANY, stem) for part in (*form.parts, *form.optional)}
        fits = all(names[part] in module.tensors for part in form.parts)
        if not fits or dtype not in next(iter(form.parts.values())):
            continue
        tensors = {
            part: module.tensors[attribute]
            for part, attribute in names.items()
            if attribute in module.tensors
        }
        name = (module.prefix + form.weight.replace(ANY, stem)).removesuffix(".")
        claim = Claim(catalog, config, layout, module.prefix.removesuffix("."), name, tensors)
        is_other = form.method and config.get("quant_method") != form.method
        is_other = is_other or (form.beneath and f"{claim.module}.{form.beneath}" not in catalog)
        if is_other or (form.when and not form.when(claim)):
            continue
        problem = _not_understood(form, claim, module, stem)
        if problem is None:
            assert form.read
            return list(_experts(form, form.read, claim))
        if not fallback:
            parts = tuple(tensors.values())
            if form.read is None:
                # All else in the module and right below belongs to its kernels too.
                own_names = (
                    attribute
                    for key, attribute in module.tensors.items()
                    if key not in ORDINARY or attribute == name
                )
                parts = tuple(dict.fromkeys((*parts, *own_names, *below)))
            fallback = [unreadable(layout, claim.name, parts, problem)]
    return fallback


def _not_understood(form: Form, claim: Claim, module: Module, stem: str) -> QuantVizError | None:
    """Return the error of an unknown sibling, dtype or layout."""
    if form.read is None:
        return QuantVizError(
            "layouts.kernels", name=claim.name, layout=Note.of(f"layouts.names.{claim.layout}")
        )
    of_any = any(ANY in part for part in form.parts)
    beside = {ending.replace(ANY, stem) for ending in form.beside} | {
        f"{stem}_{ending}" for ending in form.beside
    }
    for attribute, name in module.tensors.items():
        # In a module of several weights those of one have names that begin like it.
        near = not of_any or attribute == stem or attribute.startswith((f"{stem}_", f"{stem}."))
        if near and name not in claim.tensors.values() and attribute not in beside:
            return QuantVizError("layouts.sibling", name=claim.name, sibling=name)
    for attribute, name in module.apart.items():
        near = not of_any or attribute.startswith((f"{stem}_", f"{stem}."))
        if near and attribute not in beside:
            return apart_error(claim.catalog, claim.name, name)
    for part, dtypes in (*form.parts.items(), *form.optional.items()):
        if part in claim and claim.dtype(part) not in dtypes:
            return QuantVizError(
                "layouts.dtype", name=claim.tensors[part], dtype=claim.dtype(part), known=", ".join(dtypes)
            )
    return None


def _experts(form: Form, read: Callable[[Claim], QuantizedWeight], claim: Claim) -> Iterator[QuantizedWeight]:
    shape = claim.catalog.info(next(iter(claim.tensors.values()))).shape
    parts = tuple(claim.tensors.values())
    is_stack = len(shape) == form.axes + 1 and not _CONVOLUTION.search(claim.module)
    if not is_stack or not math.prod(shape) or shape[0] > _MOST_EXPERTS:
        yield attempted(claim.layout, claim.name, parts, functools.partial(read, claim))
        return
    for expert in range(shape[0]):
        one_expert = dataclasses.replace(
            claim, name=f"{claim.name}[{expert}]", at=(expert,), experts=shape[0]
        )
        yield attempted(one_expert.layout, one_expert.name, parts, functools.partial(read, one_expert))


def apart_error(catalog: Catalog, name: str, part: str) -> QuantVizError:
    file = catalog.apart[part]
    key = "closed" if catalog.is_beside(file) else "missing"
    return QuantVizError(f"layouts.apart_{key}", name=clipped(name), part=clipped(part), file=clipped(file))


#: Parts of an attribute's name: `weight.quant_state.bitsandbytes__nf4`.
_DEEPEST = 3
_WEIGHT = "weight"


# ---- modules ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """A module, as the names of its tensors show it."""

    #: With a dot behind it, "" where names have no dot.
    prefix: str
    #: Names by attribute, the part after the prefix.
    tensors: Mapping[str, str]
    #: In files that are not open.
    apart: Mapping[str, str]


def modules_of(names: Collection[str], apart: Collection[str] = ()) -> dict[str, Module]:
    """Return the modules by prefix, in the order of their first tensors; `apart` are names in other files.

    >>> modules = modules_of(["a.q.weight", "a.q.weight.absmax", "a.q.bias", "b"])
    >>> {prefix: list(module.tensors) for prefix, module in modules.items()}
    {'a.q.': ['weight', 'weight.absmax', 'bias'], '': ['b']}
    """
    every = {*names, *apart}
    tensors: dict[str, dict[str, str]] = {}
    gone: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys((*names, *apart)):
        prefix = prefix_of(name, every)
        (gone if name in apart else tensors).setdefault(prefix, {})[name[len(prefix) :]] = name
    return {
        prefix: Module(prefix, attributes, gone.get(prefix, {})) for prefix, attributes in tensors.items()
    }


def prefix_of(name: str, names: Collection[str]) -> str:
    """Return the prefix of a tensor's module: that of another tensor, or of a weight, which it lies below.

    >>> prefix_of("q.weight._data", ()), prefix_of("q.qweight", ()), prefix_of("x", ())
    ('q.', 'q.', '')
    """
    head = above = name.rpartition(".")[0]
    for _ in range(_DEEPEST):
        parent, _, last = above.rpartition(".")
        if above and (last == _WEIGHT or above in names):
            head = parent
            break
        above = parent
    return f"{head}." if head else ""
