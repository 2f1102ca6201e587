"""Everything that a checkpoint's names pass through, each as a piece of work on some names.

`tests/checkpoints/test_growth.py` counts its calls and its comparisons of names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save_file

from quantviz.checkpoints.allocation.allocating import allocate
from quantviz.checkpoints.allocation.choices import choices_of
from quantviz.checkpoints.allocation.frontier import allocation_frontier
from quantviz.checkpoints.audit.matching import matched_by_ends
from quantviz.checkpoints.audit.pairing import pairs_of
from quantviz.checkpoints.model.account import TensorOutcome
from quantviz.checkpoints.model.folders import model_in
from quantviz.checkpoints.model.gguf_names import gguf_names
from quantviz.checkpoints.model.items import accounted, items_of
from quantviz.checkpoints.model.opening import open_model
from quantviz.checkpoints.model.tensor_names import TensorPlace, place_of_name, short_names, short_stacks
from quantviz.checkpoints.model_map import (
    ModelTensor,
    ScannedModel,
    audited_model,
    layers_with_experts,
    model_map,
)
from quantviz.checkpoints.profiles.siblings import fused_groups
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.checkpoints.results.typed_tables import TypedTable
from quantviz.checkpoints.scan.listing import Entry, list_checkpoint
from quantviz.checkpoints.scan.planning import plan, smallest_first
from quantviz.errors import QuantVizError
from quantviz.export.allocations import EXPORTS, export_allocation
from quantviz.export.report import report
from quantviz.figures.model_map_plot import distribution_figure, model_map_figure
from quantviz.schemes.recipes import as_scheme

RECIPES = ("int4_g128", "int8_per_row")
#: Bits of a weight under each, and dB.
_BITS = {"int4_g128": 4, "int8_per_row": 8}
#: A piece of work; each call does it anew.
Work = Callable[[], object]


class Name(str):
    """A name whose comparisons are calls of Python, so that a counter of calls counts them too."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True

    def __hash__(self) -> int:
        return str.__hash__(self)


def calls_of(work: Work) -> int:
    """Return how many functions a piece of work calls, those of Python and those written in C."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def many_kinds(count: int) -> list[str]:
    """Return names that are all of one layer and of a kind of its own each."""
    return [Name(f"model.layers.0.mlp{k}.up_proj.weight") for k in range(count)]


def many_layers(count: int) -> list[str]:
    """Return names of layers of one kind."""
    return [Name(f"model.layers.{k}.mlp.up_proj.weight") for k in range(count)]


def many_stacks(count: int) -> list[str]:
    """Return names of which each begins otherwise."""
    return [Name(f"model.part{k}.layers.0.mlp.up_proj.weight") for k in range(count)]


def both(count: int) -> list[str]:
    """Return names of which half have a layer each, and half a kind."""
    return [*many_layers(count - count // 2), *many_kinds(count // 2)]


def experts(count: int) -> list[str]:
    """Return names of experts, as Kimi and DeepSeek have them."""
    parts = ("gate_proj", "up_proj", "down_proj")
    return [
        Name(f"model.layers.{k // 1152}.mlp.experts.{k // 3 % 384}.{parts[k % 3]}.weight")
        for k in range(count)
    ]


def alone(count: int) -> list[str]:
    """Return names of no layer."""
    return [Name(f"part{k}.weight") for k in range(count)]


SHAPES = {
    "kinds": many_kinds,
    "layers": many_layers,
    "stacks": many_stacks,
    "layers and kinds": both,
    "experts": experts,
    "no layers": alone,
}


def rows_of(names: list[str]) -> list[dict[str, object]]:
    """Return the rows of a scan of those tensors."""
    usual = {"reason": None, "shape": (64, 64), "dtype": "bfloat16", "file": "", "clipped_share": 0.0}
    usual |= {"zeroed_share": 0.0, "kurtosis": 3.0, "peak_rms": 4.0, "max_error": 0.1, "nan": 0, "inf": 0}
    return [
        {**usual, "tensor": name, "recipe": recipe, "status": "ok", "content": Name(f"content{at // 2}")}
        | {"bits": 4096 * bits, "effective_bits": float(bits), "sqnr_db": 6.0 * bits + at % 7, "mse": 1e-3}
        for at, name in enumerate(names)
        for recipe, bits in _BITS.items()
    ]


def columns_of(names: list[str]) -> dict[str, list[object]]:
    """Return the same as columns, as an allocation reads them."""
    rows = rows_of(names)
    return {name: [row[name] for row in rows] for name in rows[0]}


def model_of(names: list[str]) -> ScannedModel:
    """Return a scanned model whose kinds and stacks are names that count, too."""
    found: dict[str, dict[str, ResultRow]] = {}
    for row in TypedTable.of(rows_of(names)).rows:
        found.setdefault(row.tensor, {})[row.recipe] = row

    def counting(place: TensorPlace) -> TensorPlace:
        return TensorPlace(Name(place.stack), place.layer, Name(place.kind), place.expert)

    return ScannedModel(
        tuple(
            ModelTensor(name, (64, 64), "bfloat16", "", counting(place_of_name(name)), found[name])
            for name in names
        ),
        RECIPES,
    )


def _short(names: list[str]) -> Work:
    return lambda: (short_names(names), short_stacks(names))


def _map(names: list[str]) -> Work:
    model, other = model_of(names), model_of(names[::-1])
    choice = dict.fromkeys(names, RECIPES[0])

    def work() -> None:
        model_map(model, RECIPES[0], "against_median")
        model_map(model, RECIPES[0], against=(other, RECIPES[1]))
        model_map(model, RECIPES[0], choice=choice)
        for layer in layers_with_experts(model)[:1]:
            model_map(model, RECIPES[0], layer=layer)

    return work


def _figures(names: list[str]) -> Work:
    model = model_of(names)
    return lambda: (model_map_figure(model_map(model, RECIPES[0])), distribution_figure(model, RECIPES[0]))


def _audited(names: list[str]) -> Work:
    rows = [
        {**row, "original": row["tensor"], "coverage": "compared", "layout": "gptq", "format": "int4"}
        for row in rows_of(names)[::2]
    ]
    return lambda: audited_model(rows)


def _report(names: list[str]) -> Work:
    rows = rows_of(names)
    return lambda: report(rows)


def _choices(names: list[str]) -> Work:
    table = columns_of(names)
    half = len(names) // 2
    pinned = dict.fromkeys(names[:half:2], RECIPES[1]) | dict.fromkeys(names[1:half:2], RECIPES[1])
    excluded = names[half : half + half // 2]
    alpha = dict.fromkeys(names, 2.0)

    def work() -> None:
        choices_of(table, pinned=pinned, excluded=excluded, sensitivities=alpha, fused="engine")
        choices_of(table, tied="content", excluded=excluded)
        choices_of(table, tied=[tuple(names[:half])], fused=[tuple(names[half:])])

    return work


def _allocate(names: list[str]) -> Work:
    table = columns_of(names)
    return lambda: (allocate(table, bits_per_weight=5.0).next_change(), allocation_frontier(table))


def _exports(names: list[str]) -> Work:
    found = allocate(
        {**columns_of(names), "recipe": ["gguf_q4_0", "gguf_q8_0"] * len(names)}, bits_per_weight=7.0
    )
    others = allocate(columns_of(names), bits_per_weight=5.0)

    def work() -> None:
        for form in EXPORTS:
            for each in (found, others):
                try:
                    export_allocation(each, form)
                except QuantVizError as problem:
                    str(problem)

    return work


def _names(names: list[str]) -> Work:
    return lambda: (gguf_names(names), fused_groups(names))


def _matching(names: list[str]) -> Work:
    here = dict.fromkeys(names, (64, 64))
    there = {Name(f"module._orig_mod.{name}"): (64, 64) for name in names}
    here_alike = dict.fromkeys((Name(f"{name}.norm.weight") for name in names), (64, 64))
    there_alike = dict.fromkeys((Name(f"other{k}.norm.weight") for k in range(len(names))), (64, 64))
    return lambda: (matched_by_ends(here, there), matched_by_ends(here_alike, there_alike))


def _planning(names: list[str]) -> Work:
    entries = [Entry(name, "file", "bfloat16", (64, 64), 8192) for name in names]
    schemes = [as_scheme(name) for name in RECIPES]
    return lambda: smallest_first(plan(entries, schemes))


def _files(names: list[str]) -> Work:
    """List and pair files: codes of no known layout in one module, weights, and tensors that one file has."""
    half = len(names) // 2
    weights = {f"{name}": torch.full((4, 4), float(at), dtype=torch.float16) for at, name in enumerate(names)}
    codes = {f"module.codes{at}_packed": torch.arange(16, dtype=torch.int32).view(4, 4) for at in range(half)}
    scales = {f"module.codes{at}_scale": torch.ones(4, 1) for at in range(half)}

    def work() -> None:
        with TemporaryDirectory() as folder:
            paths = [f"{folder}/one.safetensors", f"{folder}/other.safetensors"]
            save_file(weights | codes | scales, paths[0])
            save_file({name: weights[name] for name in names[:half]}, paths[1])
            list_checkpoint(paths[0])
            with open_model(paths[0]) as one, open_model(paths[1]) as other:
                items = items_of(one)
                pairs = pairs_of(one, other, items, items_of(other))
                became = {item.name: TensorOutcome("compared") for item in items}
                assert len(tuple(accounted(one, "quantized", items, became))) >= len(pairs)

    return work


def _folder(names: list[str]) -> Work:
    files = [Name(f"{name}.npy") for name in names]
    mixed = [Name(name) for file in files for name in (file, file + ".npz", "optimizer" + file)]
    return lambda: model_in(mixed)


#: Each by what it is called.
WORKS: dict[str, Callable[[list[str]], Work]] = {
    "short names": _short,
    "map": _map,
    "figures": _figures,
    "map of an audit": _audited,
    "report": _report,
    "choices, pins, ties": _choices,
    "allocation, frontier": _allocate,
    "exports": _exports,
    "names of engines": _names,
    "matching by ends": _matching,
    "planning": _planning,
    "folder": _folder,
    "files, audit": _files,
}
