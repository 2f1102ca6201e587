"""The state of the formats page, and what its controls do to it."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass

from quantviz.errors import QuantVizError
from quantviz.lab.page_state import SWITCH, Codec, PageState, Reading, codec, field, one_of
from quantviz.lab.typed_numbers import read_number
from quantviz.schemes.formats import FORMATS, NumberFormat, find_format
from quantviz.text import catalogue
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.words import language


def _views() -> tuple[str, ...]:
    from quantviz.figures.format_values import VIEWS

    return VIEWS


def ties_offered() -> tuple[str, ...]:
    """Return the rules for ties that have a name for people."""
    from quantviz.quantization.grids import TIES

    return tuple(name for name in TIES if f"formats.ties.{name}" in catalogue(language()))


def _listed(form: str) -> str:
    """Return the id of a format of `FORMATS` by its name."""
    name = find_format(form).id
    if name not in FORMATS:
        raise QuantVizError("unknown_format", got=name, known=", ".join(FORMATS))
    return name


def read_value(typed: str) -> float:
    """Return the typed number; values that are not finite are chosen on this page by their codes."""
    try:
        return read_number(typed)
    except QuantVizError as problem:
        if problem.key == "number_not_finite":
            raise QuantVizError("number_not_finite_code", **problem.params) from None
        raise


def _read_code(form: str, reading: Reading[FormatsState]) -> int:
    fmt = FORMATS[reading.state.first]
    bits = int(form, 16) if re.fullmatch(r"[0-9a-fA-F]{1,4}", form) else -1
    code = bits - (1 << fmt.bits) if fmt.code_min < 0 and bits >> (fmt.bits - 1) == 1 else bits
    if bits < 0 or bits >> fmt.bits or code not in fmt.codes:
        raise QuantVizError("code_not_in_format", format=fmt.id, got=form)
    return code


def number_text(x: float) -> str:
    """Return a number as a person would type it."""
    return repr(x).removesuffix(".0")


@dataclass(frozen=True)
class FormatsState(PageState):
    """The choices of the formats page."""

    page = "formats"

    first: str = field("float4_e2m1fn", link="a", codec=codec(_listed), always=True)
    #: Laid over the first; empty for none.
    second: str = field(
        "int4",
        link="b",
        codec=codec(lambda form: "" if form == "none" else _listed(form), lambda name: name or "none"),
        always=True,
    )
    x: float = field(2.5, link="x", codec=codec(read_value, number_text), always=True)
    view: str = field("linear", link="v", codec=one_of(_views, "unknown_view"))
    ties: str = field("even", link="t", codec=one_of(ties_offered, "unknown_ties"))
    #: Whether each format is divided by its largest value, so that they can be compared as absmax scaling
    #: uses them; x with them.
    to_one: bool = field(False, link="n", codec=SWITCH)
    #: The first format's chosen code, where x does not land on it: NaN, Inf, one of two zeros.
    code: int | None = field(
        None,
        link="c",
        codec=Codec(
            _read_code,
            lambda code, state: "" if code is None else f"{code % (1 << FORMATS[state.first].bits):x}",
        ),
    )

    #: The text that was typed for x last.
    typed: str = field("", looks=True)

    @property
    def formats(self) -> tuple[NumberFormat, ...]:
        """Return the one or two chosen formats."""
        return tuple(FORMATS[name] for name in (self.first, self.second) if name)

    def completed(self, reading: Reading[FormatsState]) -> FormatsState:
        """Return the state of a link that names a first format alone, or a code."""
        from quantviz.quantization.format_facts import finite_values

        state = self
        named = reading.params.keys() - reading.lost
        if "a" in reading.params and "b" not in named:
            state = state.replace(second="")
        if "x" not in named and finite_values(FORMATS[self.first])[-1] <= 1:
            state = state.replace(x=0.3)
        return state if self.code is None else state.with_code(self.code)

    def reached(self, name: str, form: str) -> FormatsState:
        """Return the state after a choice: the code is that of x again, and a number keeps its place in the
        first format where this is divided by its largest value.
        """
        from quantviz.quantization.format_facts import reach

        if name == "swap":
            return self.replace(first=self.second, second=self.first, code=None) if self.second else self
        new = super().reached(name, form)
        if name == "to_one" and new.to_one != self.to_one:
            top = reach(FORMATS[self.first])
            return new.replace(x=self.x / top if new.to_one else self.x * top)
        if name == "view":
            return new
        return new.replace(code=None, typed=form if name == "x" else self.typed)

    def with_code(self, code: int) -> FormatsState:
        """Return the state with a chosen code of the first format: x is its value, if it has one."""
        from quantviz.quantization.format_facts import land

        fmt = FORMATS[self.first]
        value = fmt.value(code)
        unit = unit_of(self, fmt)
        x = value / unit if math.isfinite(value) else self.x
        return self.replace(x=x, code=None if land(x, fmt, self.ties, unit).code == code else code)


OWNER = PageOwner(FormatsState)


def can_be_one(state: FormatsState) -> bool:
    """Return whether both formats are small enough to be brought to ±1."""
    from quantviz.quantization.format_facts import LISTED_BITS

    return all(fmt.bits <= LISTED_BITS for fmt in state.formats)


def unit_of(state: FormatsState, fmt: NumberFormat) -> float:
    """Return the divisor of a format's values."""
    from quantviz.quantization.format_facts import reach

    return reach(fmt) if state.to_one and can_be_one(state) else 1.0


def number_shown(state: FormatsState) -> str:
    """Return the number as it was typed, as long as it is that one."""
    with contextlib.suppress(QuantVizError):
        if read_value(state.typed) == state.x:
            return state.typed
    return number_text(state.x)


def choose_code(code: int | None) -> None:
    if code is not None:
        OWNER.put(OWNER.state.with_code(code))


def code_shown(state: FormatsState) -> int:
    """Return the chosen code of the first format, else the one on which x lands."""
    from quantviz.quantization.format_facts import land

    if state.code is not None:
        return state.code
    fmt = FORMATS[state.first]
    return land(state.x, fmt, state.ties, unit_of(state, fmt)).code


def flip_bit(bit: int) -> None:
    """Flip a bit of the code, unless the format has no such code."""
    from quantviz.quantization.format_facts import flipped

    state = OWNER.state
    choose_code(flipped(FORMATS[state.first], code_shown(state), bit))
