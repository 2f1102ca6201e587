"""A derivation replayed: each of its lines is run, and gives what the tensor has."""

import math
import re

import torch

import quantviz as qv
from quantviz.quantization.explanation import block_of_cell
from quantviz.quantization.grids import GRIDS, dithered, nearest
from quantviz.quantization.qparams import largest_magnitude, range_values
from quantviz.quantization.result import block_values
from quantviz.quantization.stored_scale import round_to_format
from quantviz.quantization.value_to_code import chances, code_of, fma
from quantviz.schemes.formats import FORMATS, entry_of
from quantviz.tensors import blocks


def blocks_of(block):
    return blocks.Blocks(block, qv.PerTensor().layout(tuple(block.shape)), torch.float64)


def widest(value):
    """log2 is meant exactly: only a float64 one is near enough to round down to the right whole number."""
    return torch.log2(torch.as_tensor(value).to(torch.float64))


def words_of(step, scheme):
    """What the names in a step's own line mean."""
    convention = scheme.arithmetic
    rule = (
        convention.zero_point_ties if step.key.startswith("zero_point") else step.key.removeprefix("round_")
    )
    rounds = step.key.startswith(("round", "zero_point")) and step.key != "zero_point_format"

    def rounded(kind, y, chance=None):
        return nearest(y, kind, rule) if chance is None else dithered(y, kind, chance)

    def named(name):
        if rounds or not hasattr(torch, name):
            return lambda y, chance=None: (
                rounded(FORMATS[name], y, chance) if rounds else round_to_format(y, FORMATS[name])
            )
        # A cast, or a scale brought to a format: both as torch casts.
        return lambda y: (
            round_to_format(y, FORMATS[name])
            if step.key in ("scale_format", "zero_point_format")
            else y.to(getattr(torch, name))
        )

    return {
        **{name: named(name) for name in FORMATS},
        # A codebook of the tensor's own is not in the registry.
        f"grid_{entry_of(scheme.format)}": lambda y, chance=None: rounded(scheme.number_format, y, chance),
        **{f"grid_{name}": named(name) for name in FORMATS},
        "float32": lambda v: v.to(torch.float32),
        "float64": lambda v: v.to(torch.float64),
        "round": lambda y, chance=None: rounded(FORMATS["int8"], y, chance),
        "clamp": lambda v, lo, hi: v.clamp(lo, hi),
        "abs": torch.abs,
        "floor": torch.floor,
        "ceil": torch.ceil,
        "trunc": torch.trunc,
        "log2": widest,
        "isnan": torch.isnan,
        "isfinite": torch.isfinite,
        "full_like": torch.full_like,
        "isinf": torch.isinf,
        "inf": math.inf,
        "nan": math.nan,
        "copysign": lambda value, sign: torch.copysign(torch.full_like(sign, value), sign),
        "where": lambda condition, one, other: torch.where(condition != 0, one, other),
        "min": lambda a, *b: torch.minimum(a, torch.as_tensor(*b, dtype=a.dtype)) if b else a.min(),
        "max": lambda a, *b: torch.maximum(a, torch.as_tensor(*b, dtype=a.dtype)) if b else a.max(),
        "argmax": torch.argmax,
        "mean": lambda v: v.to(torch.float64).mean(),
        "percentile": lambda block, percent: blocks_of(block).percentiles(percent)[0],
        "fma": lambda x, y, z: fma(x, *(torch.as_tensor(v, dtype=torch.float32) for v in (y, z))),
        "random": chances,
    }


def same(one, other):
    """Equal bit for bit, or neither a number."""
    return (math.isnan(one) and math.isnan(other)) or (
        one == other and math.copysign(1, one) == math.copysign(1, other)
    )


def replay(r, index):
    """Run each step's own line of Python on the values named before it."""
    why = qv.explain(r, index)
    grid, fmt = GRIDS[r.scheme.number_format.kind], r.scheme.number_format
    at = r.layout.block_of(why.index, r.shape)
    values = {name: value[at] for name, value in block_values(r.qparams).items()}
    if r.range is not None:
        known = range_values(r.range, largest_magnitude(r.x), r.layout)
        values |= {
            "block": block_of_cell(r, index),
            "tensor": r.x,
            **{name: known[name] if name == "tensor_absmax" else known[name][at] for name in known},
        }
    values |= {"x": r.x[why.index], "index": torch.arange(r.x.numel()).reshape(r.shape)[why.index]}
    code, decoded = None, False
    makes_codes = ("clamp", "overflow", "nan_code", "signed_zero", "clip_infinity")
    for step in why.steps:
        if code is not None and not decoded and step.key not in makes_codes:
            # What is stored is the code: an integer has no -0.
            values["q"], decoded = grid.decode(code, fmt), True
        dtype = getattr(torch, step.dtype)
        for name, value in step.inputs.items():
            # A zero point is stored as an integer, which has no -0.
            assert same(values[name].item(), value) or (
                name == "zero_point" and values[name].item() == value
            ), (step, name)
            if name == "zero_point":
                values[name] = values[name] + 0
        # torch makes a reciprocal and a product of a number over a tensor; the line means one division.
        line = re.sub(
            r"^([\d.e-]+|\([\d -]+\)) / (\w+)$", r"full_like(\2, \1) / \2", step.code_line.partition(" = ")[2]
        )
        given = eval(line, {**words_of(step, r.scheme), **values})
        # A number of Python is a float64.
        given = torch.as_tensor(given, dtype=torch.float64 if isinstance(given, float) else None).to(dtype)
        assert same(given.item(), step.output), step
        values[step.name] = given
        if step.name == "q" and step.key in makes_codes:
            code = code_of(r.x[why.index], values, r.scheme)
    assert code.item() == r.q[why.index].item() == why.q
    assert same(values["x_hat"].item(), r.x_hat[why.index].item())
    assert same(values["error"].item(), r.error[why.index].item())
    assert same(values["x_hat"].item(), why.x_hat)
    assert same(values["error"].item(), why.error)
    assert values["zero_point"].item() == why.zero_point
    return why
