"""State of the page of layers in the session, and its layer under the schemes, shared by all sessions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar, cast

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.lab.layer_sources import ChangedLayer, LayerSource, parse_layer, write_layer
from quantviz.lab.layer_state import NEAREST, LayerPart, LayerState, SchemePair
from quantviz.lab.page_state import Codec, codec
from quantviz.ui.components.small_parts import show_progress
from quantviz.ui.components.tensor_cache import opened_files
from quantviz.ui.shell.bounds import HEAVY_PRODUCTS, HEAVY_SECONDS, SESSION_BYTES
from quantviz.ui.shell.long_work import heavily
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.shared_cache import Shared, shared_fact
from quantviz.ui.shell.words import method_name, plain, say

if TYPE_CHECKING:
    from quantviz.layers.captures import Captured
    from quantviz.layers.causes import Channels, Products
    from quantviz.layers.integer_result import IntegerResult
    from quantviz.layers.layer_picture import LayerPicture
    from quantviz.layers.layer_result import LayerResult
    from quantviz.layers.parts import Cells

T = TypeVar("T")
_FOUND, _SHOWN = "layers_found", "layers_works_shown"
#: Outputs of a layer that are all kept.
_MOST_KEPT = 2**20
#: Bytes of a value of an operand that is held quantized: as it is, its code, its quantized value, its error,
#: whether it is clipped, and what a method makes of it.
_VALUE_BYTES = 4 + 4 + 4 + 4 + 1 + 9
#: Pixels of the picture along an axis: a part of it has half a laptop's screen.
MOST_PIXELS = 112


class _Owner(PageOwner[LayerState]):
    def codecs(self, states: Iterable[LayerState]) -> dict[str, Codec]:
        # A link cannot carry an upload, but this session may have it.
        own = {write_layer(state.source): state.source for state in states}
        return {"l": codec(lambda form: own.get(form) or parse_layer(form))}


OWNER = _Owner(LayerState)


@dataclass(frozen=True, eq=False)
class SeenLayer:
    """A layer under a pair of schemes, with results that are computed on their first use and kept."""

    result: LayerResult
    #: All outputs with the parts of their errors; None where they are too many.
    cells: Cells | None
    source: LayerSource
    #: Names the layer, its schemes and its seed.
    key: str
    #: Remarks on where its values come from.
    read: tuple[Note, ...]
    #: Seconds that its quantization took, once.
    seconds: float

    @property
    def nbytes(self) -> int:
        """Return about the bytes that it takes: its operands as they are and quantized, and its outputs."""
        tokens, _, outputs = self.result.shape
        kept = 6 * 8 * tokens * outputs if self.cells is not None else 0
        for side in (self.result.weights, self.result.inputs):
            # A large operand that only its scheme rounds is decoded anew where it is read.
            held = side.effective is not None or (side.study is not None and side.study.result is not None)
            kept += side.stored.count * (_VALUE_BYTES if held else 4)
        return kept

    @property
    def unchanged(self) -> Captured:
        """Return the layer before changes by hand."""
        own = self.source
        return (own.source if isinstance(own, ChangedLayer) else own).open(opened_files())

    @cached_property
    def worst(self) -> tuple[int, int]:
        """Return the token and the output with the largest error, or those of the worst lines."""
        if self.cells is not None:
            at = int(self.cells.error.abs().argmax())
            return divmod(at, self.result.shape[2])
        return int(self.result.by_token.argmax()), int(self.result.by_output.held_back.argmax())

    @cached_property
    def channels(self) -> Channels:
        """Return the numbers of each input channel."""
        return self.result.channels

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the remarks for the user: on where its values come from, and on its quantization."""
        silent = (Note.of("layer_silent", layer="Y"),) if self.result.is_silent else ()
        return (*silent, *self.read, *self.result.notes)

    @property
    def weight_db(self) -> float:
        """Return the SQNR of the weight in dB; inf where it is not quantized."""
        found = self.result.weights.sqnr_db
        return math.inf if found is None else found

    @property
    def output_db(self) -> float:
        """Return the SQNR of the outputs in dB, on the tokens held back; inf without an error."""
        from quantviz.layers.layer_numbers import output_sqnr_db

        return output_sqnr_db(self.result.rel_out.held_back)

    def products(self, cell: tuple[int, int]) -> Products:
        """Return the products of an output."""
        return self.result.products(*cell)

    def integers(self, engine: str, number_format: str, activation: str) -> IntegerResult:
        """Return the layer as an engine computes it in integers.

        Raises:
            QuantVizError: Its schemes have no such layer, or the engine takes other formats.
        """

        from quantviz.layers.integers_of_layer import integers_of

        work = partial(integers_of, engine=engine, number_format=number_format, activation=activation)
        return self.found(f"integers {engine} {number_format} {activation}", work)

    def picture(self, lines: LayerPart, shown: str) -> LayerPicture:
        """Return a part of the layer in pixels."""

        from quantviz.layers.layer_picture import layer_picture

        work = partial(
            layer_picture,
            tokens=lines.tokens,
            inputs=lines.inputs,
            outputs=lines.outputs,
            shown=shown,
            most=MOST_PIXELS,
            cells=self.cells,
        )
        return self.found(f"picture {lines} {shown}", work)

    def found(self, what: str, work: Callable[[LayerResult], T]) -> T:
        """Return the cached result of a function of the layer, which can be pickled; `what` names it.

        Of a large layer it is a job.
        """
        from quantviz.layers.methods.chain import Chain
        from quantviz.layers.work import products_of

        key = f"{what} of {self.key}"
        products = products_of(Chain(), self.result.shape)
        work_here = partial(work, self.result)
        if products < HEAVY_PRODUCTS:
            return _kept(self.source, key, work_here)
        return _kept(self.source, key, lambda: heavily(key, work_here, products=products), by_job=True)


def seen_layer(
    state: LayerState,
    pair: SchemePair | None = None,
    method: str | None = None,
    on_share: Callable[[float], None] | None = None,
) -> SeenLayer:
    """Return the layer of the state under a pair of schemes and a chain of methods.

    Args:
        state: The state.
        pair: Another pair of schemes than its own; rounded to nearest unless a `method` is given.
        method: Another chain than its own.
        on_share: Gets the share of long work that is done; without it this shows it, with a button that
            cancels.

    Raises:
        QuantVizError: The layer cannot be opened, a scheme does not fit it, or a method cannot work on it.
    """
    source = state.source
    wanted = pair or state.pair
    chain = method or (state.method if wanted == state.pair else NEAREST)
    key = f"layer {source.key} {wanted} {state.seed} {chain}"

    from quantviz.layers.methods.chain import as_chain
    from quantviz.layers.work import computed, products_of, refuse_long

    products = products_of(as_chain(chain), source.shape, wanted.schemes())
    is_long = products >= HEAVY_PRODUCTS

    def make() -> SeenLayer:
        refuse_long(as_chain(chain), source.shape, HEAVY_SECONDS, wanted.schemes())
        # A source with a text form is opened where the work is done; the session's own data is sent there.
        given = source if is_long and _is_shared(source) else source.open(opened_files())
        more = {"method": chain, "static": wanted.static, "seed": state.seed}
        work = partial(computed, given, wanted.schemes(), _MOST_KEPT, **more)
        try:
            found = _at_work(key, chain, work, products, on_share) if is_long else work()
        except QuantVizError as problem:
            if problem.key != "work.too_long":
                raise
            # Its own way out is that of a range.
            raise QuantVizError("method.too_long", method=chain, **problem.params) from None
        return SeenLayer(found.result, found.cells, source, key, found.notes, found.seconds)

    return _kept(source, key, make, by_job=is_long)


def _at_work(
    key: str,
    chain: str,
    work: Callable[[], T],
    products: float,
    on_share: Callable[[float], None] | None,
) -> T:
    """Return the result of a chain's long work; see `seen_layer`."""
    if on_share is not None:
        return heavily(key, work, on_share, products)
    words = say("layers.method.working", name=method_name(chain))
    # A run may show more than one: of each pair of schemes, and of a layer too large to be kept.
    shown = st.session_state[_SHOWN] = st.session_state.get(_SHOWN, 0) + 1
    place, bar = show_progress(f"layers_working_{shown}", _cancel, chain)
    bar.progress(0.0, plain(words))
    try:
        return heavily(key, work, lambda share: bar.progress(share, plain(words)), products)
    finally:
        place.empty()


def _cancel(chain: str) -> None:
    """Round to nearest instead of by a chain that is at work, or leave a layer that takes long by itself."""
    if OWNER.state.method == chain != NEAREST:
        OWNER.change(method=NEAREST)
    elif OWNER.state.method == chain:
        OWNER.put(LayerState.opening())


def errors_of_chains(state: LayerState, chains: tuple[str, ...]) -> tuple[float, ...]:
    """Return the output error held back under each chain of methods, nan for one that cannot work here."""

    def error(chain: str) -> float:
        try:
            return seen_layer(state, method=chain).result.rel_out.held_back
        except QuantVizError:
            return math.nan

    return tuple(map(error, chains))


def _is_shared(source: LayerSource) -> bool:
    return all(part.shared for part in source.parts)


def _kept(source: LayerSource, key: str, make: Callable[[], T], *, by_job: bool = False) -> T:
    return kept_fact(key, make, shared=_is_shared(source), by_job=by_job)


def kept_fact(
    key: str, make: Callable[[], T], *, shared: bool, aside: bool = False, by_job: bool = False
) -> T:
    """Return a cached result: of one's own tensors it stays in the session, others are shared."""
    if shared:
        return shared_fact(key, make, aside=aside, by_job=by_job)
    found = cast(Shared, st.session_state.setdefault(_FOUND, Shared(SESSION_BYTES)))
    return found.get(key, make, aside=aside, by_job=by_job)
