"""The words for one cell: a sentence with its numbers, and every step of its arithmetic as a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantviz.figures.numbers import digits_for, number, raised
from quantviz.schemes.formats import entry_of

if TYPE_CHECKING:
    from quantviz.quantization.explanation import Explanation, Step

#: Gives the sentence of a key with its parameters.
Say = Callable[..., str]


@dataclass(frozen=True)
class DerivationLine:
    """One line of a derivation: a step, or between the steps a fact of the block, the grid or the code."""

    words: str
    #: None for a fact.
    step: Step | None
    #: The numbers that the step reads, or the fact in words.
    numbers: str
    #: The step's result; "" for a fact.
    gives: str


def derivation(why: Explanation, say: Say) -> Iterator[DerivationLine]:
    """Yield every line of a cell, from its block's range to its error."""
    last = {place: i for i, step in enumerate(why.steps) for place in _FACTS if step.key.startswith(place)}
    yield _fact("block", _block_words(why, say), say)
    for i, step in enumerate(why.steps):
        yield _line(step, why, say)
        for place, (name, words_of) in _FACTS.items():
            if last.get(place) == i and (words := words_of(why, say)):
                yield _fact(name, words, say)


def _line(step: Step, why: Explanation, say: Say) -> DerivationLine:
    # If codes are no numbers, the arithmetic divides and rounds their values.
    of_codes = why.scheme.number_format.kind == "integer" or step.key not in _OF_VALUES
    words = say(f"{'steps' if of_codes else 'steps_of_values'}.{step.key}")
    numbers = ", ".join(f"{name} = {_exact(value)}" for name, value in step.inputs.items())
    return DerivationLine(words, step, numbers, _exact(step.output))


def _fact(name: str, words: str, say: Say) -> DerivationLine:
    return DerivationLine(say(f"cell.facts.{name}"), None, words, "")


def sentence(why: Explanation, say: Say) -> str:
    """Return the cell in one line: the arithmetic of its value, and the result, rounded for reading."""
    fmt = why.scheme.number_format
    rounding = why.rounding
    if why.cause == "left_out":
        code = number(why.value, 8) if fmt.kind == "integer" else " ".join(filter(None, why.bits))
        return say("cell.left_out", x=_exact(why.x), code=code, x_hat=_exact(why.x_hat))
    # Of a value so far out only the format's end is worth a word: a float grid that goes on has no such code.
    is_beyond = rounding.nearer == "none" or (fmt.kind != "integer" and why.cause == "clipped")
    words = ""
    parts = []
    rounded = False
    for step in why.steps:
        if step.key in _SCALING:
            words += (say("cell.then") if words else "") + _scaled(step, why, say)
        elif step.key == "shift" and why.zero_point:
            words += _shifted(step, why, rounded, say)
        elif step.key == "lattice" and number(step.inputs["y"]) != number(step.output):
            words += " " + say("cell.lattice", y=_telling(step, why))
        elif step.key.startswith("round_"):
            rounded = True
            if step.name == "y" and not is_beyond:
                words += " " + _landed(why, say)
    value = number(why.value, 8 if fmt.kind == "integer" else 6)
    if rounding.nearer == "none":
        parts.append(say("cell.no_number", code=value))
    if why.cause == "clipped":
        parts.append(say("cell.clamp", code=value))
    if fmt.kind != "integer":
        parts.append(say("cell.bits", bits=" ".join(filter(None, why.bits))))
    parts.append(say("cell.value", x_hat=number(why.x_hat, digits_for(why.x_hat, why.local_step))))
    words = " ".join((words, *parts)) + say(
        "cell.error", error=number(why.error, signed=True), cause=say(f"causes.{why.cause}")
    )
    moved = why.step("zero_point_clamp")
    if moved:
        words += say(
            "cell.zero_point_clamped",
            wanted=number(moved.inputs["zero_point"], 8),
            zero_point=number(why.zero_point, 8),
        )
    return words


def _exact(value: float) -> str:
    """Return a number in full; NaN is one of its values."""
    return "NaN" if math.isnan(value) else number(value, 8)


#: The steps that bring x to units of the scale before it is rounded.
_SCALING = ("subtract_lo", "divide", "multiply_inverse", "fused")


def _scaled(step: Step, why: Explanation, say: Say) -> str:
    source = step.inputs["y"] if "y" in step.inputs else step.inputs["x"]
    others = {name: value for name, value in step.inputs.items() if name not in ("x", "y")}
    # Of a short block that is divided all the same: see `Convention.tail_divides`.
    key = "divide" if others.pop("short", 0) else step.key
    operands = {name: _operand(others[name]) for name in others}
    first = number(source, digits_for(source, why.local_step) if "y" not in step.inputs else 4)
    if key == "fused":
        sign, zero_point = ("−", -why.zero_point) if why.zero_point < 0 else ("+", why.zero_point)
        return say(
            "cell.fused",
            x=first,
            inverse=operands["inverse"],
            sign=sign,
            zero_point=number(zero_point),
            y=_telling(step, why),
        )
    if key == "subtract_lo":
        lo = next(iter(others.values()))
        return say(
            "cell.subtract", x=first, lo=_operand(lo, digits_for(lo, why.local_step)), y=number(step.output)
        )
    if key == "divide":
        scale = next(value for name, value in operands.items() if name != "inverse")
        return say("cell.divide", x=first, scale=scale, y=_telling(step, why))
    return say("cell.multiply", x=first, inverse=operands["inverse"], y=_telling(step, why))


def _shifted(step: Step, why: Explanation, rounded: bool, say: Say) -> str:
    """Return the words for the zero point that is added, before rounding or after it (`rounded`)."""
    zero_point = next(value for name, value in step.inputs.items() if name != "y")
    sign = "+" if zero_point > 0 else "−"
    before = number(step.inputs["y"], 8) if rounded else number(step.inputs["y"])
    shifted = number(step.output, 8) if rounded else _telling(step, why)
    return say(
        "cell.shift",
        y=before,
        sign=sign,
        zero_point=number(abs(zero_point), 8 if isinstance(zero_point, int) else 4),
        shifted=shifted,
    )


def _operand(value: float, digits: int = 4) -> str:
    return f"({number(value, digits)})" if value < 0 else number(value, digits)


def _landed(why: Explanation, say: Say) -> str:
    """Return the rounded value, with the rule where it is not simply the nearest."""
    rounding = why.rounding
    fmt = why.scheme.number_format
    value = number(rounding.output, 8 if fmt.kind == "integer" else 6)
    plain = rounding.nearer != "tie" and rounding.to_the_nearest
    if not plain:
        value_of = (
            say("cell.round", code=value)
            if fmt.kind == "integer"
            else say("cell.round_to", format=say(f"formats.{entry_of(fmt.id)}.name"), value=value)
        )
        return f"{value_of}{say('cell.by_rule', rule=say(f'cell.rules.{rounding.rule}'))}"
    if fmt.kind == "integer":
        return say("cell.round", code=value)
    return say("cell.round_nearest", format=say(f"formats.{entry_of(fmt.id)}.name"), value=value)


def _telling(step: Step, why: Explanation) -> str:
    """Return the result of `step` with enough digits that the written number rounds to the same value."""
    import torch

    from quantviz.quantization.grids import neighbours

    y = step.output
    rounding = why.rounding
    fmt = why.scheme.number_format
    if y != rounding.y or not math.isfinite(y):
        return number(y)

    def is_enough(digits: int) -> bool:
        read = torch.tensor(float(f"{y:.{digits}g}"), dtype=torch.float64)
        below, above = (end.item() for end in neighbours(read, fmt))
        side = "same" if below == above else _side(read.item() - below, above - read.item())
        nearest = {"below": below, "above": above, "same": below}.get(side, rounding.output)
        if rounding.to_the_nearest:
            wanted = rounding.output
        elif rounding.nearer == "below":
            wanted = rounding.below
        else:
            wanted = rounding.above
        return nearest == wanted and (side == "tie") == rounding.tie and rounding.output in (below, above)

    digits = next((d for d in range(4, 10) if is_enough(d)), 10)
    return number(y, digits) if abs(y) < 10**digits else number(y, 8)


def _side(below: float, above: float) -> str:
    if below == above:
        return "tie"
    if below < above:
        return "below"
    return "above"


#: Steps with other words where codes are no numbers.
_OF_VALUES = (
    "scale_symmetric",
    "scale_by_itself",
    "clamp",
    *(f"round_{rule}" for rule in ("even", "away", "up", "down", "toward_zero")),
)


def _block_words(why: Explanation, say: Say) -> str:
    one = why.block_count == 1
    place = (
        say("cell.whole_tensor")
        if one
        else say(
            "cell.block_of", place=", ".join(map(str, why.block)), grid=" × ".join(map(str, why.grid_shape))
        )
    )
    words = [say("cell.block_size", block=place, count=why.block_size)]
    if why.left_out:
        words.append(say("cell.block_left_out", count=why.left_out))
    # Only the numbers that the scale is made of.
    if why.range and any(why.step(key) for key in ("range_lo", "range_hi", "found_lo", "found_hi")):
        words.append(say("cell.extent", lo=number(why.range[0], 8), hi=number(why.range[1], 8)))
    if why.step("range_extreme"):
        words.append(say("cell.extreme", extreme=number(why.extreme, 8)))
    if why.step("range_tensor_absmax"):
        words.append(say("cell.tensor_absmax", absmax=number(why.tensor_absmax, 8)))
    if why.step("found_tensor_absmax"):
        words.append(say("cell.used_absmax", absmax=number(why.tensor_absmax, 8)))
    return say("cell.then").join(words)


def _scale_words(why: Explanation, say: Say) -> str:
    stored = why.stored_scale
    if stored is None:
        return ""
    bits = " ".join(filter(None, stored.bits))
    name = say(f"formats.{stored.format}.name")
    value = number(stored.value, 8)
    words = say(
        "cell.scale_stored",
        format=name,
        before=number(stored.before or stored.value, 8),
        value=value,
        bits=bits,
    )
    return words + (say("cell.scale_of_tensor") if stored.second_level else "")


def _neighbour_words(why: Explanation, say: Say) -> str:
    rounding = why.rounding
    scheme = why.scheme
    rule = say(f"cell.rules.{rounding.rule}")
    if rounding.nearer == "none":
        return say("cell.near.none" if why.cause != "left_out" else "cell.near.left_out", x=_exact(why.x))
    y = number(rounding.y, 8)
    # Where the zero point is added after rounding, the grid's ends lie so much lower here.
    keys = [step.key for step in why.steps]
    added = (
        why.zero_point
        if "shift" in keys
        and keys.index("shift") > max(i for i, key in enumerate(keys) if key.startswith("round_"))
        else 0
    )
    low = scheme.value_min - added
    high = scheme.value_max - added
    if not low <= rounding.y <= high and why.cause == "clipped":
        end = low if rounding.y < low else high
        return say("cell.near.beyond", y=y, end=number(end, 8), distance=number(abs(rounding.y - end), 8))
    if rounding.nearer == "same":
        return say("cell.near.same", y=y)
    below, above = (number(value, 8) for value in (rounding.below, rounding.above))
    distances = [number(distance, 8) for distance in rounding.distances]
    places = say("cell.near.two", y=y, below=below, to_below=distances[0], above=above, to_above=distances[1])
    became = number(rounding.output, 8)
    if rounding.nearer == "tie":
        return places + say("cell.near.tie", rule=rule, value=became)
    if rounding.chance is not None:
        words = "cell.near.chance_up" if rounding.output == rounding.above else "cell.near.chance_down"
        return places + say(words, chance=number(rounding.chance), share=number(rounding.share), value=became)
    return places + (
        say("cell.near.nearest", value=became)
        if rounding.to_the_nearest
        else say("cell.near.by_rule", rule=rule, value=became)
    )


def _bits_words(why: Explanation, say: Say) -> str:
    fmt = why.scheme.number_format
    sign, exponent, mantissa = why.bits
    value = number(why.value, 8)
    if fmt.kind == "codebook":
        return say("cell.code.codebook", bits=mantissa, place=why.q, count=fmt.levels, value=value)
    layout = fmt.float_bits
    if layout is None:
        return say("cell.code.signed" if fmt.signed else "cell.code.unsigned", bits=mantissa, value=value)
    bits = " | ".join(filter(None, (sign, exponent, mantissa)))
    names = say("cell.then_comma").join(
        say(f"cell.code.{name}") for name, part in zip(_BIT_NAMES, why.bits, strict=True) if part
    )
    if not math.isfinite(why.value):
        return say("cell.code.special", bits=bits, names=names, value=value)
    field = int(exponent, 2)
    fraction = int(mantissa or "0", 2)
    subnormal = layout.subnormal and field == 0
    power = layout.smallest_exponent if subnormal else field - layout.bias
    whole = ("0" if subnormal else "1") + (f" + {fraction}/{1 << layout.mantissa}" if layout.mantissa else "")
    minus = "−" if sign == "1" else ""
    return say(
        "cell.code.float",
        bits=bits,
        names=names,
        sum=f"{minus}2{raised(str(power))} × ({whole})",
        value=value,
    )


_BIT_NAMES = ("sign", "exponent", "mantissa")


#: The fact after the last step whose key begins so: its name and its words.
_FACTS: Mapping[str, tuple[str, Callable[[Explanation, Say], str]]] = {
    "scale_format": ("scale", _scale_words),
    "round_": ("neighbours", _neighbour_words),
    "clamp": ("bits", _bits_words),
    "overflow": ("bits", _bits_words),
}
