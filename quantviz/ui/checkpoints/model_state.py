"""State of a model that runs; and its numbers, small ones, each computed once for all sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from quantviz.lab.layer_state import NEAREST
from quantviz.lab.page_state import Codec, PageState, Reading, field, one_of
from quantviz.ui.shell.long_work import heavily
from quantviz.ui.shell.shared_cache import shared_fact
from quantviz.ui.shell.words import language, method_name, say

if TYPE_CHECKING:
    from quantviz.models.layer_effects import LayerEffect
    from quantviz.models.model_schemes import LayerSchemes, ModelSchemes
    from quantviz.models.running import Ran

T = TypeVar("T")

#: Names of the choices of a checkpoint that are models which run; no file below a folder is called so.
RUNNING: Mapping[str, str] = {
    f"model:{name}": name
    for name in ("adder", "adder_twin", "character", "character_twin", "character_qk_norm")
}
#: Those that add, all others write text.
ADDERS = tuple(RUNNING.values())[:2]
BITS = (16, 8, 7, 6, 5, 4, 3, 2)
#: Formats of weights that have no number of bits to choose.
FORMATS = ("fp8_e4m3_per_tensor", "nf4_64", "mxfp4", "nvfp4")
#: Which weights share a scale, or their format.
SHARED = ("row", "tensor", "g32", "g16", *FORMATS)


def _whole(bits: int, shared: str) -> str:
    """Return the form of symmetric integers with a scale for all, a row, or a column."""
    recipe = f"int{bits}_{shared}"
    axes = {"per_tensor": "per_tensor", "per_row": "per_channel", "per_column": "per_channel(axis=1)"}
    return recipe if bits in (8, 4) else f"int{bits},symmetric,{axes[shared]},min_max,course"


#: Schemes of the inputs of all linear layers, as `LayerSchemes` takes them.
INPUTS: Mapping[str, str | None] = {"float": None} | {
    f"int{bits}_{name}": _whole(bits, shared)
    for name, shared in (("token", "per_row"), ("tensor", "per_tensor"))
    for bits in (8, 6, 5, 4, 3)
}
#: Schemes of keys and values in the cache.
CACHES: Mapping[str, tuple[str | None, str | None]] = {
    "float": (None, None),
    "fp8": ("fp8_e4m3_per_tensor", "fp8_e4m3_per_tensor"),
} | {
    f"int{bits}{name}": (_whole(bits, shared), _whole(bits, "per_row"))
    for bits in (8, 4, 3, 2)
    for name, shared in (("", "per_column"), ("_token", "per_row"))
    if bits < 8 or not name
}
#: Schemes whose errors through depth are shown together: the last ones that were tried.
MOST_TRIED = 4
_TRIED = "models_tried"
#: The numbers that a square of the map can show.
COLOURS = ("sums_lost", "kl_alone", "kl_others", "rel_out", "weight_db")
#: The numbers of a scheme that may tell how many sums it has right.
PREDICTORS = ("kl", "rel_out", "weight_db")

#: The parts below the answer; the most layers, the heads and the kinds of linear layers in each.
PARTS = ("layers", "depth", "attention", "mix", "salient", "predict")
HEADS = 4
KINDS = 6
#: Orders of the field of sums.
ORDERS = ("drawn", "carries")


def _read_method(form: str, reading: Reading[Any]) -> str:
    # Methods stand with their arithmetic, which needs torch.
    from quantviz.layers.methods.chain import offered_chains

    # In a typed address + is a space.
    return str(one_of(offered_chains).read(form.replace(" ", "+"), reading))


def shown_parts(model: str) -> tuple[str, ...]:
    """Return the parts of a model: bits that are mixed by a layer's measured cost mislead on an adder."""
    left_out = "mix" if model in ADDERS else "predict"
    return tuple(part for part in PARTS if part != left_out)


def layers_of(model: str) -> tuple[str, ...]:
    """Return the linear layers of one of the models, the head last."""
    from quantviz.models.character_model import sizes_of

    return sizes_of(model).linear_layers()


_PLACE = one_of(lambda: range(HEADS))


@dataclass(frozen=True)
class ModelState(PageState):
    """The schemes of the model, and the colours of its map."""

    page = "checkpoints"

    bits: int = field(4, link="bits", codec=one_of(lambda: BITS))
    shared: str = field(SHARED[0], link="g", codec=one_of(lambda: SHARED))
    #: A chain of methods, as `LayerSchemes` takes it.
    method: str = field(NEAREST, link="method", codec=Codec(_read_method, lambda form, _: form))
    inputs: str = field("float", link="act", codec=one_of(lambda: INPUTS))
    cache: str = field("float", link="kv", codec=one_of(lambda: CACHES))
    #: The one linear layer that is rounded; "" for all but the head.
    only: str = field("", link="only", codec=one_of(lambda: layers_of("character")))
    colour: str = field(COLOURS[0], link="c", codec=one_of(lambda: COLOURS), looks=True)
    #: The part that is open, and the layer and the head of the attention in it.
    part: str = field(PARTS[0], link="part", codec=one_of(lambda: PARTS), looks=True)
    layer: int = field(0, link="layer", codec=_PLACE, looks=True)
    head: int = field(0, link="head", codec=_PLACE, looks=True)
    order: str = field(ORDERS[0], link="order", codec=one_of(lambda: ORDERS), looks=True)
    predictor: str = field(PREDICTORS[0], link="by", codec=one_of(lambda: PREDICTORS), looks=True)

    def plain(self) -> ModelState:
        """Return the weights' bits alone, rounded to nearest."""
        return ModelState(self.bits, self.shared)

    def fitting(self, model: str) -> ModelState:
        """Return the state as a model can have it: one with fewer layers, or without sums, has fewer
        choices.
        """
        adds = model in ADDERS
        names = layers_of(model)
        return self.replace(
            only=self.only if self.only in names else "",
            layer=min(self.layer, (len(names) - 1) // KINDS - 1),
            colour=self.colour if adds or self.colour != COLOURS[0] else COLOURS[1],
            part=self.part if self.part in shown_parts(model) else PARTS[0],
        )

    @property
    def is_stored(self) -> bool:
        """Return whether the weights are what they are stored as."""
        return self.bits == BITS[0] and self.shared not in FORMATS

    def layer_schemes(self) -> LayerSchemes:
        """Return the schemes of each linear layer that is rounded."""
        from quantviz.models.model_schemes import SHARED as GRANULARITIES
        from quantviz.models.model_schemes import LayerSchemes, scheme_of_bits

        of_bits = GRANULARITIES.get(self.shared)
        weights = scheme_of_bits(self.bits, of_bits) if of_bits else self.shared
        return LayerSchemes(weights, INPUTS[self.inputs], NEAREST if self.is_stored else self.method)

    def schemes(self) -> ModelSchemes:
        """Return the schemes of the model."""
        from quantviz.models.model_schemes import ModelSchemes

        keys, values = CACHES[self.cache]
        layers = self.layer_schemes()
        if self.only:
            return ModelSchemes(own=((self.only, layers),), keys=keys, values=values)
        return ModelSchemes(layers, keys=keys, values=values)


def state_of(schemes: ModelSchemes) -> ModelState:
    """Return the state whose model has some schemes of layers and cache."""
    layers = schemes.layers
    # The model's own weights have 16 bits.
    found = ModelState(BITS[0])
    if layers.weights is not None:
        weighed = (ModelState(bits, shared) for shared in SHARED for bits in BITS[1:])
        found = next(each for each in weighed if each.layer_schemes().weights == layers.weights)
    inputs = next(each for each in INPUTS if ModelState(inputs=each).layer_schemes().inputs == layers.inputs)
    cached = {each: ModelState(cache=each).schemes() for each in CACHES}
    here = (schemes.keys, schemes.values)
    cache = next(each for each, own in cached.items() if (own.keys, own.values) == here)
    return found.replace(method=layers.method, inputs=inputs, cache=cache)


def tried(chosen: str, state: ModelState) -> tuple[ModelState, ...]:
    """Return the last schemes of a model that the session has tried, the present one last."""
    before = [each for each in st.session_state.get(_TRIED, {}).get(chosen, ()) if each.is_step_to(state)]
    kept = (*before[1 - MOST_TRIED :], state)
    st.session_state[_TRIED] = {chosen: kept}
    return kept


# ---- the choices in words ---------------------------------------------------------------------------


def option_words(field: str, name: str) -> str:
    """Return a choice of a field below `[models]`; its bits, or its size, are the digits of its name."""
    if name in FORMATS:
        # It comes with the figures.
        from quantviz.figures.model_map_plot import recipe_words

        return recipe_words(name, language())
    digits = "".join(filter(str.isdigit, name))
    key = f"models.{field}.{name.replace(digits, '')}"
    return say(key, count=digits) if digits else say(key)


def named(field: str, known: Iterable[str]) -> dict[str, str]:
    """Return the choices of a field with their words."""
    return {name: option_words(field, name) for name in known}


def layer_words(name: str) -> str:
    """Return the words for a choice of the layers that are rounded: "" for all but the head."""
    if not name:
        return say("models.all_layers")
    short = name.removeprefix("model.layers.").replace("self_attn.", "")
    return say("models.only_head") if name == "lm_head" else say("models.only_layer", layer=short)


def state_words(state: ModelState) -> str:
    """Return the words of a state's schemes."""
    parts = [option_words("shared", state.shared)]
    if state.shared not in FORMATS:
        parts.insert(0, say("models.of_bits", bits=state.bits))
    usual = ModelState()
    if state.method != NEAREST:
        parts.append(method_name(state.method))
    for side in ("inputs", "cache"):
        if getattr(state, side) != getattr(usual, side):
            parts.append(option_words(f"{side}_short", getattr(state, side)))
    return ", ".join([*parts, *([layer_words(state.only)] if state.only else [])])


# ---- what is shown, computed once for all sessions --------------------------------------------------


def ran(model: str, state: ModelState) -> Ran:
    """Return a model under the schemes of a state.

    Raises:
        QuantVizError: A scheme does not fit.
    """
    schemes = state.schemes()
    from quantviz.models.running import ran as run

    return job_of(f"{model} that runs under {schemes}", partial(run, model, schemes))


@contextlib.contextmanager
def working(work: str) -> Iterator[None]:
    """Show the name of the work, where that takes longer than half a second."""
    with st.container(key=f"working_{work}"), st.spinner(say(f"models.working.{work}"), show_time=True):
        yield


def effects_of(model: str, state: ModelState) -> tuple[LayerEffect, ...]:
    """Return the effect of each layer of a model under the schemes of a state.

    Raises:
        QuantVizError: It takes too long, or no run waits for it any more.
    """
    from quantviz.models.layer_effects import layer_effects
    from quantviz.models.model_schemes import ModelSchemes

    # The cache is no layer.
    schemes = ModelSchemes(state.layer_schemes())
    key = f"layers of {model} {schemes}"
    with working("layers"):
        return job_of(key, partial(layer_effects, model, schemes))


def job_of(key: str, work: Callable[[], T]) -> T:
    """Return the result of a job that all sessions share, cached."""
    return shared_fact(key, lambda: heavily(key, work), by_job=True)
