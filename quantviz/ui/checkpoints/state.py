"""State of the page of checkpoints, read from the address and changed by its controls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import streamlit as st

from quantviz.checkpoints.model_map import COLOURS
from quantviz.checkpoints.offered import as_link, from_link
from quantviz.checkpoints.profiles import PROFILES
from quantviz.checkpoints.scan.recipes import scheme_named
from quantviz.errors import QuantVizError
from quantviz.lab.layer_state import read_pair
from quantviz.lab.typed_numbers import read_number
from quantviz.schemes.recipes import RECIPES, as_scheme
from quantviz.ui.checkpoints.model_state import take_address
from quantviz.ui.shell import address, errors

STATE = "checkpoints_state"
PROBLEMS = "checkpoints_problems"
#: Default recipes of a scan: those of most published files, and others that explain their errors.
USUAL = ("int4_g128", "int4_g32", "int4_per_row", "int4_per_column", "nvfp4", "int8_per_row")
#: Recipes of a dropped model's scan: the first fits weights of any width, the others are remedies.
FIRST_LOOK = ("int4_per_row", "int4_g32", "nvfp4", "int8_per_row")
#: Between two recipes in an address: no scheme's text has it.
_BETWEEN = "~"
#: Between a tensor and the recipe that it is pinned to; and in place of one, for a tensor that stays.
_PINNED_TO = "!"
KEPT = "stored"
#: Two scans side by side, or the difference of the second to the first.
VIEWS = ("side", "difference")
_LONGEST = 4000
#: More bits a weight than any recipe takes.
_MOST_BITS = 64.0


@dataclass(frozen=True)
class CheckpointsState:
    """State of the page."""

    #: An offered checkpoint or file of results, by its path below the folder, or the example.
    chosen: str = ""
    #: Number of the scan in a file of results; 0 for the last.
    number: int = 0
    #: Recipes of the scan; none as long as none are chosen.
    recipes: tuple[str, ...] = ()
    #: The profile of the engine whose tensors are scanned; "" for the matrices that engines quantize.
    engine: str = ""
    #: The importance matrix that it takes: one below the folder, or an upload by its content; "" for none.
    imatrix: str = ""
    #: The recipe that is shown; "" for the first.
    recipe: str = ""
    colour: str = COLOURS[0]
    #: The layer whose experts are shown.
    layer: str = ""
    #: The scan beside it: "" for none, "." for the same, else the choice, with "#" and its number.
    other: str = ""
    other_recipe: str = ""
    view: str = VIEWS[0]
    #: The original that it is compared with; "" for none.
    original: str = ""
    #: Budget in bits a weight; 0 where none is set.
    budget: float = 0.0
    #: Recipes that an allocation keeps to, by tensor; `KEPT` for one that stays as it is stored.
    pins: tuple[tuple[str, str], ...] = ()
    #: Whether tensors that engines fuse get one recipe.
    fused: bool = False
    #: The schemes of a capture's layers, as `str` writes a pair; "" for the first ones.
    pair: str = ""

    def shown(self, recipes: tuple[str, ...]) -> str:
        """Return the shown recipe, of those of a scan."""
        return self.recipe if self.recipe in recipes else recipes[0]


def current_state() -> CheckpointsState:
    if address.asks_anew() or STATE not in st.session_state:
        parameters = st.query_params.to_dict()
        st.session_state[STATE], st.session_state[PROBLEMS] = _opening(parameters)
        take_address(parameters)
    return cast(CheckpointsState, st.session_state[STATE])


def problems() -> tuple[QuantVizError, ...]:
    """Return the errors of the address's parts that are not valid."""
    return cast("tuple[QuantVizError, ...]", st.session_state.get(PROBLEMS, ()))


def change_state(**changes: Any) -> None:
    """Take other choices; another checkpoint begins afresh."""
    st.session_state[STATE] = dataclasses.replace(current_state(), **changes)
    st.session_state[PROBLEMS] = ()
    errors.clear()


def put_state(new: CheckpointsState) -> None:
    """Take a state as the page has completed it."""
    st.session_state[STATE] = new


def leave_out(problem: QuantVizError, **changes: Any) -> CheckpointsState:
    """Take a state without a part that is not valid, and return it; the page shows the problem."""
    st.session_state[STATE] = state = dataclasses.replace(current_state(), **changes)
    st.session_state[PROBLEMS] = (*problems(), problem)
    return state


def _opening(parameters: Mapping[str, str]) -> tuple[CheckpointsState, tuple[QuantVizError, ...]]:
    """Return the state in the address, and the errors of its parts that are not valid."""
    state = CheckpointsState()
    wrong = []
    if sum(map(len, parameters.values())) > _LONGEST:
        return state, (QuantVizError("link.too_long", longest=_LONGEST),)
    for name, read in _READ.items():
        if name in parameters:
            try:
                state = dataclasses.replace(state, **read(parameters[name]))
            except QuantVizError as problem:
                wrong.append(problem)
    return state, tuple(wrong)


def _read_recipes(form: str) -> dict[str, Any]:
    names = tuple(dict.fromkeys(map(_read_recipe, filter(None, form.split(_BETWEEN)))))
    return {"recipes": names} if names else {}


def _read_recipe(form: str) -> str:
    scheme_named(form)
    return form


def _read_scan_number(form: str) -> dict[str, Any]:
    if not form.isascii() or not form.isdigit() or len(form) > 9:
        raise QuantVizError("link.place", got=form)
    return {"number": int(form)}


def _read_pins(form: str) -> dict[str, Any]:
    pins = dict(each.rpartition(_PINNED_TO)[::2] for each in form.split(_BETWEEN) if each)
    for recipe in pins.values():
        if recipe != KEPT:
            as_scheme(recipe)
    return {"pins": tuple(pins.items())}


def _one_of(form: str, known: Collection[str]) -> str:
    if form not in known:
        raise QuantVizError("link.choice", got=form, known=", ".join(known))
    return form


_READ: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "f": lambda form: {"chosen": from_link(form)},
    "n": _read_scan_number,
    "r": _read_recipes,
    "s": lambda form: {"recipe": _read_recipe(form)},
    "m": lambda form: {"colour": _one_of(form, COLOURS)},
    "x": lambda form: {"layer": form},
    "b": lambda form: {"other": from_link(form)},
    "q": lambda form: {"other_recipe": _read_recipe(form)},
    "o": lambda form: {"original": from_link(form)},
    "w": lambda form: {"view": _one_of(form, VIEWS)},
    "a": lambda form: {"budget": min(max(read_number(form), 0.0), _MOST_BITS)},
    "p": _read_pins,
    "u": lambda form: {"fused": form == "1"},
    "e": lambda form: {"engine": _one_of(form, PROFILES)},
    "i": lambda form: {"imatrix": from_link(form)},
    "pair": lambda form: {"pair": str(read_pair(form))},
}


def address_of(state: CheckpointsState) -> dict[str, str]:
    """Return the state as parameters of an address."""
    usual = CheckpointsState()
    parts = {
        "f": as_link(state.chosen),
        "n": str(state.number) if state.number else "",
        "r": _BETWEEN.join(state.recipes),
        "s": state.recipe,
        "m": state.colour if state.colour != usual.colour else "",
        "x": state.layer,
        "b": as_link(state.other),
        "q": state.other_recipe if state.other else "",
        "o": as_link(state.original),
        "w": state.view if state.view != usual.view else "",
        "a": f"{state.budget:g}" if state.budget else "",
        "p": _BETWEEN.join(f"{name}{_PINNED_TO}{recipe}" for name, recipe in state.pins),
        "u": "1" if state.fused else "",
        "e": state.engine,
        "i": as_link(state.imatrix),
        "pair": state.pair,
    }
    return {name: value for name, value in parts.items() if value}


def listed_recipes(state: CheckpointsState) -> tuple[str, ...]:
    """Return the recipes to choose from: those of the engine, else all, and those in the address."""
    profile = PROFILES.get(state.engine)
    names = (*profile.recipes, *profile.presets) if profile else RECIPES
    return tuple(dict.fromkeys((*names, *state.recipes)))
