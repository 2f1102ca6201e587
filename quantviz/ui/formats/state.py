"""The state of the formats page, read from the address and changed by its controls."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.typed_numbers import read_number
from quantviz.schemes.formats import FORMATS, NumberFormat, find_format
from quantviz.text import catalogue
from quantviz.ui.shell import address
from quantviz.ui.shell.words import language

_STATE = "formats_state"
PROBLEMS = "formats_problems"
UNREAD = "formats_unread"
#: The text of the number that was typed last, and the number read from it.
_TYPED = "formats_typed"


@dataclass(frozen=True)
class FormatsState:
    """The choices of the formats page."""

    first: str = "float4_e2m1fn"
    #: Laid over the first; empty for none.
    second: str = "int4"
    x: float = 2.5
    view: str = "linear"
    ties: str = "even"
    #: Whether each format is divided by its largest value, so that they can be compared as absmax scaling
    #: uses them; x with them.
    to_one: bool = False
    #: The first format's chosen code, where x does not land on it: NaN, Inf, one of two zeros.
    code: int | None = None

    @property
    def formats(self) -> tuple[NumberFormat, ...]:
        """Return the one or two chosen formats."""
        return tuple(FORMATS[name] for name in (self.first, self.second) if name)


def current_state() -> FormatsState:
    if address.asks_anew() or _STATE not in st.session_state:
        st.session_state[_STATE], st.session_state[PROBLEMS] = _opening(st.query_params.to_dict())
        st.session_state[UNREAD] = None
    return cast(FormatsState, st.session_state[_STATE])


def _opening(parameters: Mapping[str, str]) -> tuple[FormatsState, tuple[QuantVizError, ...]]:
    """Return the state of the address, and a problem for each parameter that is not valid."""
    problems = []
    # Of a link that names the first format, the second one is named too, or there is none.
    state = FormatsState(second="") if "a" in parameters else FormatsState()
    for name, read in _READ.items():
        if name in parameters:
            try:
                state = dataclasses.replace(state, **read(state, parameters[name]))
            except QuantVizError as problem:
                problems.append(problem)
    return state, tuple(problems)


def _read_first(state: FormatsState, form: str) -> dict[str, Any]:
    from quantviz.quantization.format_facts import finite_values

    fmt = _listed(form)
    return {"first": fmt.id, "x": 0.3 if finite_values(fmt)[-1] <= 1 else state.x}


def _listed(form: str) -> NumberFormat:
    """Return a format of `FORMATS` by its name."""
    return FORMATS[_one_of(find_format(form).id, FORMATS, "unknown_format")]


def _read_view(_: FormatsState, form: str) -> dict[str, Any]:
    from quantviz.figures.format_values import VIEWS

    return {"view": _one_of(form, VIEWS, "unknown_view")}


def _one_of(form: str, known: Collection[str], key: str) -> str:
    if form not in known:
        raise QuantVizError(key, got=form, known=", ".join(known))
    return form


def _read_code(state: FormatsState, form: str) -> dict[str, Any]:
    fmt = FORMATS[state.first]
    bits = int(form, 16) if re.fullmatch(r"[0-9a-fA-F]{1,4}", form) else -1
    code = bits - (1 << fmt.bits) if fmt.code_min < 0 and bits >> (fmt.bits - 1) == 1 else bits
    if bits < 0 or bits >> fmt.bits or code not in fmt.codes:
        raise QuantVizError("code_not_in_format", format=fmt.id, got=form)
    return _code_chosen(state, code)


#: The fields that a parameter of the address sets, in the order in which they are read.
_READ: Mapping[str, Callable[[FormatsState, str], dict[str, Any]]] = MappingProxyType(
    {
        "a": _read_first,
        "b": lambda state, form: {"second": "" if form == "none" else _listed(form).id},
        "x": lambda state, form: {"x": _read(form)},
        "v": _read_view,
        "t": lambda state, form: {"ties": _one_of(form, ties_offered(), "unknown_ties")},
        "n": lambda state, form: {"to_one": form == "1"},
        "c": _read_code,
    }
)


def _code_chosen(state: FormatsState, code: int) -> dict[str, Any]:
    """Return the fields of a chosen code of the first format: x is its value, if it has one."""
    from quantviz.quantization.format_facts import land

    fmt = FORMATS[state.first]
    value = fmt.value(code)
    unit = unit_of(state, fmt)
    x = value / unit if math.isfinite(value) else state.x
    return {"x": x, "code": None if land(x, fmt, state.ties, unit).code == code else code}


def can_be_one(state: FormatsState) -> bool:
    """Return whether both formats are small enough to be brought to ±1."""
    from quantviz.quantization.format_facts import LISTED_BITS

    return all(fmt.bits <= LISTED_BITS for fmt in state.formats)


def unit_of(state: FormatsState, fmt: NumberFormat) -> float:
    """Return the divisor of a format's values."""
    from quantviz.quantization.format_facts import reach

    return reach(fmt) if state.to_one and can_be_one(state) else 1.0


def change_state(**changes: Any) -> None:
    st.session_state[_STATE] = dataclasses.replace(current_state(), **changes)
    st.session_state[PROBLEMS] = ()
    st.session_state[UNREAD] = None


def read_typed_number() -> None:
    try:
        change_state(x=_read(st.session_state["formats_number"]), code=None)
        st.session_state[_TYPED] = (st.session_state["formats_number"], current_state().x)
    except QuantVizError as problem:
        st.session_state[UNREAD] = (st.session_state["formats_number"], problem)


def _read(typed: str) -> float:
    """Return the typed number; values that are not finite are chosen on this page by their codes."""
    try:
        return read_number(typed)
    except QuantVizError as problem:
        if problem.key == "number_not_finite":
            raise QuantVizError("number_not_finite_code", **problem.params) from None
        raise


def choose_code(code: int | None) -> None:
    if code is not None:
        change_state(**_code_chosen(current_state(), code))


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

    state = current_state()
    choose_code(flipped(FORMATS[state.first], code_shown(state), bit))


def toggle_to_one() -> None:
    """Divide the formats by their largest values, or no longer; the number keeps its place in the first."""
    from quantviz.quantization.format_facts import reach

    state = current_state()
    top = reach(FORMATS[current_state().first])
    wanted = bool(st.session_state["formats_to_one"])
    if wanted != state.to_one:
        change_state(to_one=wanted, x=state.x / top if wanted else state.x * top)


def swap_formats() -> None:
    state = current_state()
    change_state(first=state.second, second=state.first, code=None)


def number_shown(x: float) -> str:
    """Return the number as it was typed, as long as it is that one."""
    typed, read = st.session_state.get(_TYPED, ("", None))
    return cast(str, typed) if read == x else repr(x).removesuffix(".0")


def address_of(state: FormatsState) -> dict[str, str]:
    usual = FormatsState()
    fmt = FORMATS[state.first]
    more = {"v": state.view} if state.view != usual.view else {}
    more |= {"t": state.ties} if state.ties != usual.ties else {}
    more |= {"n": "1"} if state.to_one else {}
    more |= {"c": f"{state.code % (1 << fmt.bits):x}"} if state.code is not None else {}
    return {"a": state.first, "b": state.second or "none", "x": repr(state.x).removesuffix(".0"), **more}


def ties_offered() -> tuple[str, ...]:
    """Return the rules for ties that have a name for people."""
    from quantviz.quantization.grids import TIES

    return tuple(name for name in TIES if f"formats.ties.{name}" in catalogue(language()))
