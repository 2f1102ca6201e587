"""State of a model that runs; and its numbers, small ones, each computed once for all sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from quantviz.lab.layer_state import NEAREST
from quantviz.lab.page_state import Codec, PageState, Reading, field, one_of
from quantviz.ui.shell.long_work import heavily
from quantviz.ui.shell.shared_cache import shared_fact
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    from quantviz.models.layer_effects import LayerEffect
    from quantviz.models.model_schemes import ModelSchemes
    from quantviz.models.running import Ran

T = TypeVar("T")

#: Names of the choices of a checkpoint that are models which run; no file below a folder is called so.
RUNNING: Mapping[str, str] = MappingProxyType(
    {f"model:{name}": name for name in ("character", "character_twin", "character_qk_norm")}
)
BITS = (16, 8, 7, 6, 5, 4, 3, 2)
#: Which weights share a scale.
SHARED = ("row", "g32")
#: Schemes of the inputs of all linear layers, as `LayerSchemes` takes them.
INPUTS: Mapping[str, str | None] = MappingProxyType(
    {"float": None, "int8_token": "int8_per_row", "int8_tensor": "int8_per_tensor"}
)
#: Schemes of keys and values in the cache.
CACHES: Mapping[str, tuple[str | None, str | None]] = MappingProxyType(
    {
        "float": (None, None),
        "fp8": ("fp8_e4m3_per_tensor", "fp8_e4m3_per_tensor"),
        "int8": ("int8_per_column", "int8_per_row"),
        "int4": ("int4_per_column", "int4_per_row"),
        "int4_token": ("int4_per_row", "int4_per_row"),
    }
)
#: Schemes whose errors through depth are shown together: the last ones that were tried.
MOST_TRIED = 4
_TRIED = "models_tried"
#: The numbers that a square of the map can show.
COLOURS = ("kl_alone", "kl_others", "rel_out", "weight_db")

#: The parts below the texts, and the numbers of layers, and of heads in each.
PARTS = ("layers", "depth", "attention", "mix", "salient")
HEADS = 4


def _read_method(form: str, reading: Reading[Any]) -> str:
    # Methods stand with their arithmetic, which needs torch.
    from quantviz.layers.methods.chain import offered_chains

    # In a typed address + is a space.
    return str(one_of(offered_chains).read(form.replace(" ", "+"), reading))


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
    colour: str = field(COLOURS[0], link="c", codec=one_of(lambda: COLOURS), looks=True)
    #: The part that is open, and the layer and the head of the attention in it.
    part: str = field(PARTS[0], link="part", codec=one_of(lambda: PARTS), looks=True)
    layer: int = field(0, link="layer", codec=_PLACE, looks=True)
    head: int = field(0, link="head", codec=_PLACE, looks=True)

    def plain(self) -> ModelState:
        """Return the weights' bits alone, rounded to nearest."""
        return ModelState(self.bits, self.shared)

    def schemes(self) -> ModelSchemes:
        """Return the schemes of the model."""
        from quantviz.models.model_schemes import SHARED as GRANULARITIES
        from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, scheme_of_bits

        weights = scheme_of_bits(self.bits, GRANULARITIES[self.shared])
        # At 16 bits the weights are what they are stored as.
        method = NEAREST if self.bits == BITS[0] else self.method
        keys, values = CACHES[self.cache]
        return ModelSchemes(LayerSchemes(weights, INPUTS[self.inputs], method), keys=keys, values=values)


def tried(chosen: str, state: ModelState) -> tuple[ModelState, ...]:
    """Return the last schemes of a model that the session has tried, the present one last."""
    before = [each for each in st.session_state.get(_TRIED, {}).get(chosen, ()) if each.is_step_to(state)]
    kept = (*before[1 - MOST_TRIED :], state)
    st.session_state[_TRIED] = {chosen: kept}
    return kept


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
    schemes = ModelSchemes(state.schemes().layers)
    key = f"layers of {model} {schemes}"
    with working("layers"):
        return job_of(key, partial(layer_effects, model, schemes))


def job_of(key: str, work: Callable[[], T]) -> T:
    """Return the result of a job that all sessions share, cached."""
    return shared_fact(key, lambda: heavily(key, work), by_job=True)
