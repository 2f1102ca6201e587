"""An allocation as the files that other tools read: llama.cpp, llm-compressor and ModelOpt.

The files name the format, granularity and mode of each tensor. The tool chooses scales and rounds by its own
arithmetic, so that decibels of another one are not those of its files: such a choice is refused unless
`other_arithmetic` is set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quantviz.checkpoints.allocation.allocating import Allocation
from quantviz.checkpoints.allocation.offers import Offers
from quantviz.checkpoints.model.gguf_names import gguf_names
from quantviz.checkpoints.profiles import PRESETS, has_recipe, profile_named, profile_of_export
from quantviz.checkpoints.profiles.profile import Profile
from quantviz.checkpoints.profiles.siblings import fused_groups
from quantviz.checkpoints.scan.recipes import scheme_named
from quantviz.checkpoints.scan.selection import kept_by
from quantviz.errors import QuantVizError
from quantviz.public_calls import public
from quantviz.quoting import wildcard, yaml_text
from quantviz.schemes.granularity import Flat, PerBlock, PerChannel, PerGroup, PerTensor
from quantviz.schemes.recipes import ALL_RECIPES, RECIPE_GROUPS, as_scheme
from quantviz.schemes.scheme import Scheme

#: Recipes with another name in llama.cpp.
_GGML_TYPES = {"gguf_mxfp4": "mxfp4"}
#: Dtypes that llama.cpp can keep a tensor in.
_GGML_DTYPES = {
    **{name: name for name in ("f32", "f16", "bf16")},
    **{"float32": "f32", "float16": "f16", "bfloat16": "bf16"},
}
#: Formats of compressed-tensors, each with its kinds of scales.
_COMPRESSED = {"integer": ("plain",), "float8_e4m3fn": ("plain", "mx"), "float4_e2m1fn": ("mx", "nvfp4")}


@public
def export_allocation(allocation: Allocation, form: str, *, other_arithmetic: bool = False) -> str:
    """Return an allocation as the text of a file.

    Args:
        allocation: The result of `qv.allocate`.
        form: "json": everything that was chosen, with bits and costs. "llama": a file for llama-quantize's
            --tensor-type-file, a line `pattern=type` a tensor, which --tensor-type takes as well;
            llama-quantize also needs a quantized type, and reads these lines unless --pure is given.
            "llmcompressor": a recipe for llm-compressor's oneshot, weights only. "modelopt": a configuration
            for ModelOpt's mtq.quantize in its own YAML, weights only.
        other_arithmetic: Whether recipes may have been measured by other arithmetic than the tool's.

    Raises:
        QuantVizError: The tool has no format for some of the recipes, or cannot name a tensor, or the recipes
            were measured by other arithmetic; it names them.
    """
    if form not in EXPORTS:
        raise QuantVizError("allocate.unknown_export", got=form, known=", ".join(EXPORTS))
    written = EXPORTS[form](allocation)
    if form != "json" and not other_arithmetic:
        _refuse_other_arithmetic(allocation, form)
    return written


@dataclass(frozen=True)
class Suited:
    """The recipes and tensors of a table that an engine's tool supports."""

    recipes: tuple[str, ...]
    #: Recipes of the table that the tool does not have.
    dropped: tuple[str, ...]
    #: Tensors that the engine keeps as they are.
    kept: tuple[str, ...]
    #: Whether joined tensors need one recipe.
    joins: bool
    #: The engine whose files the tool writes; None where the export is for no tool.
    engine: str | None = None


def suited(table: Any, form: str, *, other_arithmetic: bool = False) -> Suited:
    """Return the recipes of a table that the tool of an export supports; all if the export is for no tool.

    Raises:
        QuantVizError: The tool has none of the recipes.
    """
    read = Offers.of(table)
    recipes = read.table.recipes
    profile = profile_of_export(form)
    if profile is None:
        return Suited(recipes, (), (), joins=False)
    recipes_of_tool = tuple(
        name
        for name in recipes
        if _FORMATS[form](name) is not None and (other_arithmetic or _is_own(name, profile))
    )
    if not recipes_of_tool:
        raise QuantVizError(
            "allocate.none_of_tool", tool=profile.name, got=", ".join(recipes), own=", ".join(profile.recipes)
        )
    return _suited(read, profile, recipes_of_tool)


def counted_as(table: Any, engine: str) -> Suited:
    """Return the recipes and tensors of a table whose size in an engine's files is known.

    Raises:
        QuantVizError: There is no such engine, or it has none of the recipes.
    """
    read = Offers.of(table)
    profile = profile_named(engine)
    recipes_of_tool = tuple(name for name in read.table.recipes if has_recipe(profile, name))
    if not recipes_of_tool:
        got = ", ".join(read.table.recipes)
        raise QuantVizError(
            "allocate.none_of_engine", engine=profile.name, got=got, own=", ".join(profile.recipes)
        )
    return _suited(read, profile, recipes_of_tool)


def _suited(read: Offers, profile: Profile, recipes_of_tool: tuple[str, ...]) -> Suited:
    dropped = tuple(name for name in read.table.recipes if name not in recipes_of_tool)
    kept = tuple(kept_by(profile, read.shapes()))
    return Suited(recipes_of_tool, dropped, kept, profile.joins, profile.id)


def recipes_of_tool(profile: Profile) -> tuple[str, ...]:
    return tuple(name for name in profile.recipes if _FORMATS[profile.export](name) is not None)


def _is_own(recipe: str, profile: Profile) -> bool:
    return scheme_named(recipe).arithmetic.id.startswith(profile.arithmetic)


def _refuse_other_arithmetic(allocation: Allocation, form: str) -> None:
    profile = profile_of_export(form)
    assert profile is not None
    others = [name for name in dict.fromkeys(allocation.choice.values()) if not _is_own(name, profile)]
    if others:
        recipes = ", ".join(f"{name} ({scheme_named(name).arithmetic.id})" for name in others)
        raise QuantVizError(
            "allocate.other_arithmetic", tool=profile.name, recipes=recipes, own=", ".join(profile.recipes)
        )


def _as_json(allocation: Allocation) -> str:
    # A table may have recipes of its own.
    with_arithmetic = [name for name in dict.fromkeys(allocation.choice.values()) if name in ALL_RECIPES]
    arithmetic = {name: ALL_RECIPES[name].arithmetic.id for name in with_arithmetic}
    record = {**allocation.record(), "arithmetic": arithmetic}
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _header(allocation: Allocation) -> str:
    arithmetic = dict.fromkeys(as_scheme(recipe).arithmetic.id for recipe in allocation.choice.values())
    return f"# Chosen by decibels of this arithmetic: {', '.join(arithmetic)}.\n"


# ---- llama.cpp -----------------------------------------------------------------------------------


def _for_llama(allocation: Allocation) -> str:
    """Return a line a tensor: llama.cpp searches its names for the pattern, a regular expression."""
    types = _types(allocation, "llama", "llama.cpp")
    chosen = {tensor: types[recipe] for tensor, recipe in allocation.choice.items()}
    kept = {
        tensor: _GGML_DTYPES.get(str(dtype).lower().removeprefix("torch."))
        for tensor, dtype in allocation.kept_dtypes.items()
    }
    names = gguf_names([*chosen, *kept])
    unknown = [tensor for tensor in chosen if tensor not in names]
    if unknown:
        raise QuantVizError("allocate.no_gguf_name", tensors=", ".join(unknown))
    # Tensors that stay as stored have lines too: llama.cpp would give them the type of all others.
    lines = {
        names[tensor]: name for tensor, name in [*chosen.items(), *kept.items()] if tensor in names and name
    }
    return "".join(f"^{re.escape(name)}$={ggml_type}\n" for name, ggml_type in lines.items())


def _ggml_type(recipe: str) -> str | None:
    if recipe in PRESETS:  # a mixture is no type
        return None
    scheme = as_scheme(recipe)
    name_of_type = next(
        (name for name, scheme_of_type in RECIPE_GROUPS["gguf"].items() if scheme_of_type == scheme), None
    )
    return name_of_type and _GGML_TYPES.get(name_of_type, name_of_type)


# ---- llm-compressor ------------------------------------------------------------------------------


def _for_llmcompressor(allocation: Allocation) -> str:
    weights = _types(allocation, "llmcompressor", "llm-compressor")
    for group in fused_groups(allocation.choice):
        if len({allocation.choice[tensor] for tensor in group}) > 1:
            raise QuantVizError("allocate.not_fused", tensors=", ".join(group))
    by_recipe: dict[str, list[str]] = {}
    for tensor, recipe in allocation.choice.items():
        by_recipe.setdefault(recipe, []).append(_target(tensor))
    groups = {
        f"group_{at}": {"targets": targets, "weights": weights[recipe]}
        for at, (recipe, targets) in enumerate(by_recipe.items())
    }
    ignored = [_target(tensor) for tensor in allocation.kept if tensor.endswith(".weight")]
    modifier = {"config_groups": groups, "ignore": ignored}
    return _header(allocation) + _yaml(
        {"quant_stage": {"quant_modifiers": {"QuantizationModifier": modifier}}}
    )


def _target(tensor: str) -> str:
    """Return the target by which compressed-tensors finds the module of a tensor, and no other.

    A name such as Linear would mean all modules of that class, and `re:` marks a pattern.
    """
    module = _module(tensor)
    is_class = module.isidentifier() and not module[0].islower()
    return module if not is_class and not module.startswith("re:") else f"re:{re.escape(module)}\\Z"


def weight_arguments(scheme: Scheme) -> dict[str, Any] | None:
    """Return a scheme as arguments of compressed-tensors' QuantizationArgs; None where it has no such
    format.

    >>> weight_arguments(as_scheme("int4_g128"))
    {'num_bits': 4, 'type': 'int', 'symmetric': True, 'strategy': 'group', 'group_size': 128}
    """
    form = scheme.number_format
    scales = _scales(scheme)
    kind = "integer" if form.kind == "integer" else form.id
    if scales not in _COMPRESSED.get(kind, ()):
        return None
    strategy: dict[str, Any]
    match scheme.granularity:
        case PerTensor():
            strategy = {"strategy": "tensor"}
        case PerChannel(axis=0):
            strategy = {"strategy": "channel"}
        case PerGroup(size=size, axis=-1 | 1):
            strategy = {"strategy": "tensor_group" if scales == "nvfp4" else "group", "group_size": size}
        case PerBlock(rows=rows, cols=cols):
            strategy = {"strategy": "block", "block_structure": [rows, cols]}
        case _:
            return None
    stored = {"mx": "torch.uint8", "nvfp4": "torch.float8_e4m3fn"}.get(scales)
    return {
        "num_bits": form.bits,
        "type": "int" if kind == "integer" else "float",
        "symmetric": scheme.mode == "symmetric",
        **strategy,
        **({"scale_dtype": stored} if stored else {}),
    }


# ---- ModelOpt ------------------------------------------------------------------------------------


def _for_modelopt(allocation: Allocation) -> str:
    attributes = _types(allocation, "modelopt", "ModelOpt")
    entries = [
        {"quantizer_name": f"{wildcard(_module(tensor))}.weight_quantizer", "cfg": attributes[recipe]}
        for tensor, recipe in allocation.choice.items()
    ]
    disabled: dict[str, Any] = {"quantizer_name": "*", "enable": False}
    return _header(allocation) + _yaml({"algorithm": "max", "quant_cfg": [disabled, *entries]})


def quantizer_attributes(scheme: Scheme) -> dict[str, Any] | None:
    """Return a scheme as ModelOpt's QuantizerAttributeConfig; None where it has no such format.

    >>> quantizer_attributes(as_scheme("nvfp4"))
    {'num_bits': (2, 1), 'block_sizes': {-1: 16, 'type': 'dynamic', 'scale_bits': (4, 3)}}
    """
    form = scheme.number_format
    scales = _scales(scheme)
    if scales is None or scheme.mode != "symmetric":
        return None
    grid = form.float_bits
    bits: Any = (grid.exponent, grid.mantissa) if grid else form.bits
    if scales == "plain" and bits not in ((4, 3), *range(2, 9)):
        return None
    match scheme.granularity:
        case PerTensor():
            return {"num_bits": bits, "axis": None}
        case PerChannel(axis=0):
            return {"num_bits": bits, "axis": 0}
        case PerGroup(size=size, axis=-1 | 1) | Flat(size=size):
            blocks: dict[int | str, Any] = {
                -1: size,
                "type": "static" if scales == "plain" else "dynamic",
            }
            if scales != "plain":
                blocks["scale_bits"] = (8, 0) if scales == "mx" else (4, 3)
            return {"num_bits": bits, "block_sizes": blocks}
        case _:
            return None


# ---- common parts --------------------------------------------------------------------------------

#: From a recipe to the tool's type or arguments, by export; None if the tool has none.
_FORMATS: Mapping[str, Callable[[str], object | None]] = {
    "llama": _ggml_type,
    "llmcompressor": lambda recipe: None if recipe in PRESETS else weight_arguments(as_scheme(recipe)),
    "modelopt": lambda recipe: None if recipe in PRESETS else quantizer_attributes(as_scheme(recipe)),
}

EXPORTS: Mapping[str, Callable[[Allocation], str]] = MappingProxyType(
    {
        "json": _as_json,
        "llama": _for_llama,
        "llmcompressor": _for_llmcompressor,
        "modelopt": _for_modelopt,
    }
)


def _scales(scheme: Scheme) -> str | None:
    """Return the kind of scales: "plain" numbers, "mx" powers of two, or "nvfp4"; None for others."""
    spec = scheme.arithmetic.scale
    form = scheme.number_format
    # llama.cpp's blocks are its own, whatever their format; ternary and binary codes are no grid of 2 bits.
    if scheme.arithmetic.id.startswith("gguf") or not re.fullmatch(r"u?int\d+|float.*", form.id):
        return None
    if spec.format is None:
        return "plain"
    if spec.format == "float8_e8m0fnu":
        return "mx"
    return "nvfp4" if spec.format == "float8_e4m3fn" and spec.global_rule else None


def _types(allocation: Allocation, form: str, tool: str) -> dict[str, object]:
    """Return the tool's types of all chosen recipes.

    Raises:
        QuantVizError: The tool lacks some of them, which are named with a tensor.
    """
    types = {recipe: _FORMATS[form](recipe) for recipe in set(allocation.choice.values())}
    missing = sorted(recipe for recipe, type_name in types.items() if type_name is None)
    if missing:
        first = next(tensor for tensor, recipe in allocation.choice.items() if recipe == missing[0])
        raise QuantVizError("allocate.no_format", tool=tool, recipes=", ".join(missing), tensor=first)
    return types


def _module(tensor: str) -> str:
    if not tensor.endswith(".weight"):
        raise QuantVizError("allocate.no_module", tensor=tensor)
    return tensor.removesuffix(".weight")


def _yaml(value: Any, indent: str = "") -> str:
    """Return YAML: a line for each entry, texts in quotes as in JSON."""
    if isinstance(value, dict) and value:
        return "".join(f"{indent}{name}:{_under(item, indent)}" for name, item in value.items())
    assert isinstance(value, list)
    # The first line of an entry stands behind its dash.
    return "".join(
        f"{indent}- {_yaml(item, indent + '  ').lstrip()}"
        if isinstance(item, dict)
        else f"{indent}- {_scalar(item)}\n"
        for item in value
    )


def _under(value: Any, indent: str) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + _yaml(value, indent + "  ")
    return f" {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    return yaml_text(value) if isinstance(value, str) else json.dumps(value)
