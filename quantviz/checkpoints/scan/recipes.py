"""Recipes of a scan by name, and those that fit a tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

from quantviz.checkpoints.profiles import PRESETS, PROFILES
from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import CONVOLUTIONS, Orientation
from quantviz.schemes.recipes import ALL_RECIPES, as_scheme, needs_lines
from quantviz.schemes.scheme import Scheme


def recipes_named(recipes: str | Scheme | Iterable[str | Scheme]) -> tuple[tuple[str, Scheme], ...]:
    """Return the named schemes, each once, with the names as a table has them.

    Raises:
        QuantVizError: No recipe is named, one is not known, or a scheme has no text form.

    >>> [name for name, _ in recipes_named(["INT4_g128", "int8_per_row", "int4_g128"])]
    ['int4_g128', 'int8_per_row']
    """
    listed = [recipes] if isinstance(recipes, str | Scheme) else list(recipes)
    named = dict(map(_named, listed))
    if not named:
        raise QuantVizError("checkpoint.no_recipes")
    return tuple(named.items())


def _named(recipe: str | Scheme) -> tuple[str, Scheme]:
    scheme = scheme_named(recipe)
    name = recipe.strip().casefold() if isinstance(recipe, str) else ""
    # Recipes of two engines may be one scheme: each keeps the name that the user gave.
    return name if name in PRESETS or name in ALL_RECIPES else recipe_id(scheme), scheme


def scheme_named(recipe: str | Scheme) -> Scheme:
    """Return the scheme of a recipe; of a mixture of types that of most tensors.

    >>> scheme_named("Q4_K_M") == scheme_named("q4_k")
    True
    """
    preset = PRESETS.get(recipe.strip().casefold()) if isinstance(recipe, str) else None
    if isinstance(recipe, str):
        _refuse_unencoded(recipe.strip().casefold())
    return as_scheme(preset.recipe if preset else recipe)


def _refuse_unencoded(name: str) -> None:
    for profile in PROFILES.values():
        if preset := profile.unencoded.get(name):
            used = dict.fromkeys((preset.recipe, *(step.recipe for step in preset.steps)))
            types = ", ".join(each for each in used if each not in ALL_RECIPES)
            raise QuantVizError("checkpoint.preset_unencoded", got=name, engine=profile.name, types=types)


def recipe_id(scheme: Scheme) -> str:
    """Return the id of a scheme's recipe; the scheme's text form where it is no recipe.

    >>> recipe_id(ALL_RECIPES["w4a16_g128"]), recipe_id(Scheme("int3"))
    ('w4a16_g128', 'int3,symmetric,per_tensor,min_max,course')
    """
    form = str(scheme)
    return _ids().get(form, form)


@functools.cache
def _ids() -> dict[str, str]:
    return {str(scheme): name for name, scheme in reversed(list(ALL_RECIPES.items()))}


def row_key(scheme: Scheme, mark: str = "") -> str:
    return f"{scheme}{row_mark(scheme, mark)}"


def row_mark(scheme: Scheme, mark: str) -> str:
    """Return the end of a row's key: the mark of the columns' importance, where the scheme's engine
    uses it.

    >>> row_mark(as_scheme("q4_k"), "5e1f"), row_mark(as_scheme("q8_0"), "5e1f")
    ('#5e1f', '')
    """
    return f"#{mark}" if mark and scheme.weighs_columns else ""


def seen_shape(shape: Shape, outputs: tuple[int, ...] = (0,)) -> Shape:
    """Return the shape in which a tensor is quantized: outputs × inputs where it lies otherwise, a
    convolution's weight O×I×k×k as engines store it, O×(I·k·k), all else as it is.

    >>> seen_shape((64, 3, 7, 7)), seen_shape((8, 64, 32)), seen_shape((128, 384), (1,))
    ((64, 147), (8, 64, 32), (384, 128))
    """
    if outputs != (0,):
        return Orientation(outputs).seen(shape)
    return (shape[0], math.prod(shape[1:])) if len(shape) in CONVOLUTIONS else shape


@functools.lru_cache(maxsize=4096)
def refusal_of(scheme: Scheme, shape: Shape, outputs: tuple[int, ...] = (0,)) -> QuantVizError | None:
    """Return the error why a scheme is not used on a tensor of `shape`; None where it is.

    >>> refusal_of(as_scheme("int4_g128"), (64, 96)).key, refusal_of(as_scheme("int8_per_row"), (64,)).key
    ('group_does_not_divide', 'recipe_needs_lines')
    """
    seen = seen_shape(shape, outputs)
    for problem in scheme.problems(seen):
        return problem
    if len(seen) == 1 and needs_lines(scheme):
        return QuantVizError("recipe_needs_lines", shape=shape)
    return None
