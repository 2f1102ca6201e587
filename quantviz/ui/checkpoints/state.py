"""State of the page of checkpoints, and what its controls do to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quantviz.checkpoints.model_map import COLOURS
from quantviz.checkpoints.offered import as_link, from_link
from quantviz.checkpoints.profiles import PROFILES
from quantviz.checkpoints.scan.recipes import scheme_named
from quantviz.lab.layer_state import read_pair
from quantviz.lab.page_state import SWITCH, Codec, PageState, codec, field, one_of, parts_of, whole_number
from quantviz.lab.typed_numbers import read_number
from quantviz.schemes.recipes import RECIPES, as_scheme
from quantviz.ui.checkpoints.model_state import ModelState
from quantviz.ui.shell.page_owner import PageOwner

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
#: More bits a weight than any recipe takes.
_MOST_BITS = 64.0
#: A scan's number has at most nine digits.
_LARGEST_NUMBER = 999_999_999


def _read_recipe(form: str) -> str:
    scheme_named(form)
    return form


def _read_recipes(form: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_read_recipe, filter(None, form.split(_BETWEEN)))))


def _read_pins(form: str) -> tuple[tuple[str, str], ...]:
    pins = dict(each.rpartition(_PINNED_TO)[::2] for each in form.split(_BETWEEN) if each)
    for recipe in pins.values():
        if recipe != KEPT:
            as_scheme(recipe)
    return tuple(pins.items())


_PINS = codec(_read_pins, lambda pins: _BETWEEN.join(map(_PINNED_TO.join, pins)))
_NAME = codec(from_link, as_link)
_RECIPE = codec(_read_recipe)
_RECIPE_OF_OTHER = Codec(_RECIPE.read, lambda recipe, state: recipe if state.other else "")
_BUDGET = codec(
    lambda form: min(max(read_number(form), 0.0), _MOST_BITS), lambda budget: f"{budget:g}" if budget else ""
)


@dataclass(frozen=True)
class CheckpointsState(PageState):
    """State of the page."""

    page = "checkpoints"

    #: An offered checkpoint or file of results, by its path below the folder, or the example.
    chosen: str = field("", link="f", codec=_NAME)
    #: Number of the scan in a file of results; 0 for the last.
    number: int = field(0, link="n", codec=whole_number(_LARGEST_NUMBER))
    #: Recipes of the scan; none as long as none are chosen.
    recipes: tuple[str, ...] = field((), link="r", codec=codec(_read_recipes, _BETWEEN.join))
    #: The recipe that is shown; "" for the first.
    recipe: str = field("", link="s", codec=_RECIPE, looks=True)
    colour: str = field(COLOURS[0], link="m", codec=one_of(lambda: COLOURS), looks=True)
    #: The layer whose experts are shown.
    layer: str = field("", link="x", codec=codec(), looks=True)
    #: The scan beside it: "" for none, "." for the same, else the choice, with "#" and its number.
    other: str = field("", link="b", codec=_NAME)
    other_recipe: str = field("", link="q", codec=_RECIPE_OF_OTHER)
    #: The original that it is compared with; "" for none.
    original: str = field("", link="o", codec=_NAME)
    view: str = field(VIEWS[0], link="w", codec=one_of(lambda: VIEWS), looks=True)
    #: Budget in bits a weight; 0 where none is set.
    budget: float = field(0.0, link="a", codec=_BUDGET)
    #: Recipes that an allocation keeps to, by tensor; `KEPT` for one that stays as it is stored.
    pins: tuple[tuple[str, str], ...] = field((), link="p", codec=_PINS)
    #: Whether tensors that engines fuse get one recipe.
    fused: bool = field(False, link="u", codec=SWITCH)
    #: The profile of the engine whose tensors are scanned; "" for the matrices that engines quantize.
    engine: str = field("", link="e", codec=one_of(lambda: PROFILES))
    #: The importance matrix that it takes: one below the folder, or an upload by its content; "" for none.
    imatrix: str = field("", link="i", codec=_NAME)
    #: The schemes of a capture's layers, as `str` writes a pair; "" for the first ones.
    pair: str = field("", link="pair", codec=codec(lambda form: str(read_pair(form))))
    #: The choices of a model that runs.
    model: ModelState = field(ModelState(), link=parts_of("model", ModelState))

    def shown(self, recipes: tuple[str, ...]) -> str:
        """Return the shown recipe, of those of a scan."""
        return self.recipe if self.recipe in recipes else recipes[0]


OWNER = PageOwner(CheckpointsState)


class _ModelOwner:
    """The owner of the choices of a model that runs."""

    page = "models"

    @property
    def state(self) -> ModelState:
        """Return the choices."""
        return OWNER.state.model

    def change(self, **changes: Any) -> None:
        """Change some of them."""
        OWNER.change(model=self.state.replace(**changes))


MODEL_OWNER = _ModelOwner()


def listed_recipes(state: CheckpointsState) -> tuple[str, ...]:
    """Return the recipes to choose from: those of the engine, else all, and those in the address."""
    profile = PROFILES.get(state.engine)
    names = (*profile.recipes, *profile.presets) if profile else RECIPES
    return tuple(dict.fromkeys((*names, *state.recipes)))
