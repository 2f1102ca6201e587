"""State of the page of attention in the session, and its heads under the schemes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.attention_state import BUILT_IN, DROPPED, AttentionState
from quantviz.lab.layer_state import AS_IT_IS
from quantviz.ui.components.tensor_cache import catalog_of
from quantviz.ui.lab.dropped_files import CAPTURE, HEADS, dropped_files, dropped_kind
from quantviz.ui.layers.state import MOST_PIXELS, kept_fact
from quantviz.ui.shell.bounds import ATTENTION_SCORES, HEAVY_PRODUCTS
from quantviz.ui.shell.long_work import heavily, read_file
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    from quantviz.models.attention_view import AttentionTask, AttentionView
    from quantviz.models.heads import Heads
    from quantviz.sources.files import Catalog

T = TypeVar("T")
_READ = "attention_read"
#: Keys with a scale for each channel, beside which the chosen ones are shown.
CHANNEL_KEYS = "int4_per_column"

OWNER = PageOwner(AttentionState)


@dataclass(frozen=True, eq=False)
class OpenedHeads:
    """Heads that are shown."""

    heads: Heads
    #: Names them.
    key: str
    #: The names of all heads in their file; none of built-in ones.
    names: tuple[str, ...] = ()
    name: str = ""
    #: The channels that a head may have, of captured layers, with those taken first.
    widths: tuple[int, ...] = ()
    #: How their outputs stand; see `Projections.layout`.
    layout: str = "apart"

    @property
    def products(self) -> float:
        """Return about the multiplications of their attention."""
        return 2.0 * math.prod(self.heads.q.shape) * self.heads.k.shape[-2]


def opened_heads(state: AttentionState) -> OpenedHeads:
    """Return the heads of the state.

    Raises:
        QuantVizError: This session has no such file, or its tensors are no queries, keys and values.
    """
    from quantviz.models.heads import BUILT_IN_HEADS, heads_of_model

    if state.heads != DROPPED:
        key = f"heads {state.heads} {state.layer}"
        made = BUILT_IN_HEADS.get(state.heads) or partial(heads_of_model, state.heads, state.layer)
        return OpenedHeads(kept_fact(key, made, shared=True), key)
    captured = bool(state.file) or dropped_kind() == CAPTURE
    kind = CAPTURE if captured else HEADS
    dropped = None if state.file else dropped_files(kind)
    wanted = (dropped, state.file, state.name, state.width)
    held = st.session_state.get(_READ)
    if held is None or held[0] != wanted:
        if dropped is None:
            catalog = catalog_of(state.file)
        else:
            from quantviz.sources.sandbox import Held
            from quantviz.sources.sandboxed import Sandboxed

            (file,) = dropped.files
            catalog = Sandboxed(Held(file.name, file.path), read_file)
        key = f"heads {state.file or (dropped and dropped.folder)}"
        read = _made_by_layers if captured else _in_file
        held = st.session_state[_READ] = wanted, read(catalog, key, state)
    opened: OpenedHeads = held[1]
    return opened


def _made_by_layers(catalog: Catalog, key: str, state: AttentionState) -> OpenedHeads:
    """Return the heads that captured layers make of their inputs."""
    from quantviz.layers.captures import captured_in
    from quantviz.models.heads import heads_of_layers, names_of_projections, projections_of

    layers = captured_in(catalog)
    found = names_of_projections(layers.names)
    name = state.name or next(iter(found), "")
    made = projections_of(layers, name)
    widths = made.widths
    width = state.width if state.width in widths else widths[0]
    heads = heads_of_layers(layers, made, width, ATTENTION_SCORES)
    return OpenedHeads(heads, f"{key} {name} {width}", tuple(found), name, (width, *widths), made.layout)


def _in_file(catalog: Catalog, key: str, state: AttentionState) -> OpenedHeads:
    """Return the heads in a file."""
    from quantviz.models.heads import heads_in, names_of_heads

    found = names_of_heads(tuple(catalog.names))
    name = state.name or next(iter(found), "")
    if name in found:
        q, k = (catalog.info(found[name][part]).shape for part in "qk")
        if math.prod(q[:-1]) * math.prod(k[-2:-1]) > ATTENTION_SCORES:
            raise QuantVizError("attention.too_large", q=q, k=k, most=ATTENTION_SCORES)
    return OpenedHeads(heads_in(catalog, name), f"{key} {name}", tuple(found), name)


def name_of_heads(heads: str, layer: int) -> str:
    """Return the name of heads for people."""
    if heads == DROPPED:
        return say("attention.dropped")
    if heads in BUILT_IN[:-1]:
        return say(f"attention.built_in.{heads}")
    return say(f"layers.in_model.{heads}", layer=f"layers.{layer}")


def task_of(state: AttentionState, heads: Heads) -> AttentionTask:
    """Return the schemes and options of the state.

    Raises:
        QuantVizError: A scheme does not fit.
    """
    from quantviz.layers.operands import scheme_of
    from quantviz.models.attention_view import AttentionTask
    from quantviz.models.head_rounding import AttentionOptions

    forms = (state.keys, state.values, state.scores, state.queries, state.weights)
    keys, values, scores, queries, weights = (
        None if form == AS_IT_IS else scheme_of(form, "inputs") for form in forms
    )
    options = AttentionOptions(
        center=state.basis in ("center", "both"),
        hadamard=state.basis in ("hadamard", "both"),
        residual=state.residual,
        queries=queries,
        weights=weights,
        rotary=0.0 if state.positions == "none" else state.rotary,
        rotary_layout="pairs" if state.layout == "pairs" else "halves",
        rounded="before" if state.positions == "before" else "after",
    )
    return AttentionTask((keys, values, scores), mask_of(state, heads), options)


def mask_of(state: AttentionState, heads: Heads) -> str:
    """Return the mask: "none" for the own one of heads that came without."""
    return "none" if state.mask == "own" and heads.mask is None else state.mask


def seen_attention(state: AttentionState, opened: OpenedHeads) -> AttentionView:
    """Return the view of the heads.

    Raises:
        QuantVizError: The shapes do not fit, a scheme does not, or a value is not finite.
    """
    from quantviz.models.attention_view import AttentionLook, view_of

    part = state.lines
    lines = None if part is None else (part.tokens, part.inputs, part.outputs)
    look = AttentionLook(state.head, state.product, state.shown, lines, state.cell, state.channel)
    work = partial(view_of, opened.heads, task_of(state, opened.heads), look, MOST_PIXELS)
    return _found(f"attention {replace(state, held=None, tab='ways')}", opened, work)


def ways_found(state: AttentionState, opened: OpenedHeads) -> Mapping[str, tuple[float, float]]:
    """Return the costs of the ways to round the keys; see `ways_of`."""
    from quantviz.models.attention_view import ways_of

    work = partial(ways_of, opened.heads, task_of(state, opened.heads), CHANNEL_KEYS)
    chosen: Any = state.written()
    looks = ("h", "d", "e", "c", "j", "l", "z", "t", "m")
    key = f"ways {sorted((name, form) for name, form in chosen.items() if name not in looks)}"
    return _found(key, opened, work, times=5)


def _found(key: str, opened: OpenedHeads, work: Callable[[], T], times: int = 1) -> T:
    """Return the result of work on the heads, cached; of many it is a job."""
    key = f"{key} of {opened.key}"
    products = times * opened.products
    shared = not opened.names
    if products < HEAVY_PRODUCTS:
        return kept_fact(key, work, shared=shared)
    return kept_fact(key, lambda: heavily(key, work, products=products), shared=shared, by_job=True)
