"""The layer of the state with its results, shared by all sessions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from quantviz.lab.layer_state import LayerState, Lines, Pair
from quantviz.ui.shell.shared_cache import shared_fact

if TYPE_CHECKING:
    from quantviz.layers.causes import Channels, Products
    from quantviz.layers.layer_picture import LayerPicture
    from quantviz.layers.layer_result import LayerResult
    from quantviz.layers.parts import Cells

#: Outputs of a layer that are all kept.
_MOST_KEPT = 2**20
#: Pixels of the picture along an axis: a part of it has half a laptop's screen.
MOST_PIXELS = 112


@dataclass(frozen=True, eq=False)
class SeenLayer:
    """A layer under a pair of schemes, with results that are computed on their first use and kept."""

    result: LayerResult

    @property
    def nbytes(self) -> int:
        """Return about the bytes that it takes: its operands as they are and quantized, and its outputs."""
        tokens, inputs, outputs = self.result.shape
        kept = 6 * 8 * tokens * outputs if self.cells is not None else 0
        return 3 * 4 * inputs * (tokens + outputs) + kept

    @cached_property
    def cells(self) -> Cells | None:
        """Return all outputs with the parts of their errors; None where they are too many."""
        tokens, _, outputs = self.result.shape
        return self.result.cells() if tokens * outputs <= _MOST_KEPT else None

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
    def weight_db(self) -> float:
        """Return the SQNR of the weight in dB; inf where it is not quantized."""
        study = self.result.weights.study
        return float("inf") if study is None else study.metrics["sqnr_db"]

    def products(self, cell: tuple[int, int]) -> Products:
        """Return the products of an output."""
        return self.result.products(*cell)

    def picture(self, lines: Lines, shown: str) -> LayerPicture:
        """Return a part of the layer in pixels."""
        from quantviz.layers.layer_picture import layer_picture

        return layer_picture(
            self.result, lines.tokens, lines.inputs, lines.outputs, shown, MOST_PIXELS, self.cells
        )


def seen_layer(state: LayerState, pair: Pair | None = None) -> SeenLayer:
    """Return the layer of the state under a pair of schemes, its own if None.

    Raises:
        QuantVizError: The layer cannot be opened, or a scheme does not fit it.
    """
    source = state.source
    wanted = pair or state.pair

    def make() -> SeenLayer:
        from quantviz.layers.layer_result import layer as quantized

        opened = shared_fact(f"open layer {source.key}", source.open)
        weights, inputs = wanted.schemes()
        result = quantized(
            opened.weight,
            opened.inputs,
            weights,
            inputs,
            opened.bias,
            static=wanted.static,
            seed=state.seed,
        )
        return SeenLayer(result)

    return shared_fact(f"layer {source.key} {wanted} {state.seed}", make)
