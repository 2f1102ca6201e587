"""One file of HTML with a layer that works without a server: its numbers, its multiplication and the products
of an output, computed anew under the hand. See `standalone.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.lab.layer_sources import OwnLayer
from quantviz.lab.layer_state import AS_IT_IS, LayerState, SchemePair
from quantviz.layers.captures import Captured
from quantviz.live.layer_payload import LayerHand, Multiplication
from quantviz.live.page_file import CHART, live_html, with_named_programs
from quantviz.live.standalone import around_calibration
from quantviz.schemes.scheme import Scheme
from quantviz.sources.typed import Typed
from quantviz.text import text

if TYPE_CHECKING:
    from quantviz.layers.layer_result import LayerResult
    from quantviz.live.hand_words import Looks

#: Values of W and X together at most: 1.2 MB of a page.
_MOST_VALUES = 2**18
#: Pixels of a matrix along an axis at most.
_PIXELS = 112
#: CSS pixels of the picture.
_HEIGHT = 412
_NUMBERS = ("rel_out", "part_inputs", "part_cross", "part_weights", "output_db", "weight_db")
_COLUMNS = ("channel", "share", "contributions", "weights", "inputs", "cross", "x", "x_hat", "w", "w_hat")


@dataclass(frozen=True, eq=False)
class LayerPage:
    hand: LayerHand
    picture: Multiplication
    title: str
    #: The selected token, output and input channel.
    cell: tuple[int, int, int]
    #: Whether the page tells the window around it its height and what was chosen.
    told: bool = False
    #: Whether its theme is that of the reader's system.
    follows: bool = True

    @classmethod
    def of(cls, result: LayerResult, title: str, looks: Looks) -> LayerPage:
        """Return the page of a layer's errors, at the output with the largest one.

        Raises:
            QuantVizError: The layer is too large, or its outputs are rounded too.
        """
        from quantviz.figures.multiplication import ColourEnds
        from quantviz.layers.layer_picture import layer_picture

        tokens, inputs, outputs = result.shape
        if result.outputs is not None:
            raise QuantVizError("live.rounded_outputs", scheme=str(result.outputs))
        if (tokens + outputs) * inputs > _MOST_VALUES:
            raise QuantVizError("live.layer_not_by_itself", shape=result.shape, most=_MOST_VALUES)
        w, x = (each.values(slice(None)) for each in (result.weights, result.inputs))
        source = OwnLayer(*(Typed(tuple(each.flatten().tolist()), tuple(each.shape)) for each in (w, x)))
        sides = (result.weights, result.inputs)
        of_w, of_x = (AS_IT_IS if each.scheme is None else str(each.scheme) for each in sides)
        pair = SchemePair(of_w, of_x, static=result.static)
        state = LayerState(source, pair, str(result.method), result.seed, shown="error")
        cells = result.cells()
        whole = ((0, tokens), (0, inputs), (0, outputs))
        picture = layer_picture(result, *whole, "error", _PIXELS, cells)
        ends = ColourEnds(*(part.largest for part in (picture.x, picture.w, picture.y)))
        cell = divmod(int(cells.error.abs().argmax()), outputs)
        place = (*cell, int(result.products(*cell).channels[0]))
        hand = LayerHand(result, result.channels, state, lambda: Captured("", "linear", w, x), looks)
        held = result.held_back.nonzero().flatten().numpy()
        shown = Multiplication(picture, ends, result.shape, place, hand.loud, held, hand.small)
        return cls(hand, shown, title, place)

    def in_frame(self, theme: str) -> LayerPage:
        """Return the page in the colours of a theme, for a window around it that it tells what was chosen."""
        looks = replace(self.hand.looks, theme=theme)
        return replace(self, hand=replace(self.hand, looks=looks), told=True, follows=False)

    @property
    def problem(self) -> QuantVizError | None:
        """Return the error where a browser cannot compute the layer by itself; None where it can."""
        tokens, inputs, outputs = self.picture.shape
        if (tokens + outputs) * inputs * (2 if self.hand.settled else 1) <= _MOST_VALUES:
            return None
        return QuantVizError("live.layer_not_by_itself", shape=self.picture.shape, most=_MOST_VALUES)

    def html(self) -> str:
        """Return the page.

        Raises:
            QuantVizError: The browser cannot compute the layer by itself.
        """
        if self.problem:
            raise self.problem
        language = self.hand.looks.language
        return live_html(
            self._parts,
            self.hand.looks,
            kind="layer",
            hint=f"live.hint_of_{self.hand.reach}_layer",
            step=None,
            said=(),
            title=self.title,
            follows=self.follows,
            chart=CHART,
            numbers=_NUMBERS,
            columns=_COLUMNS,
            notes=[note.message(language) for note in self.hand.result.notes],
        )

    def _parts(self, theme: str) -> tuple[dict[str, bytes], list[str]]:
        """Return the page's data in the colours of a theme, and the texts of its programs."""
        from quantviz.figures.multiplication import multiplication_figure

        hand = replace(self.hand, looks=replace(self.hand.looks, theme=theme))
        language = hand.looks.language
        header, arrays = hand.payload(CHART, self.cell, alone=True)
        weights, inputs = (each.scheme for each in (hand.result.weights, hand.result.inputs))
        as_it_is = text("layers.as_it_is", language)
        chain = hand.result.method
        method = f" · {chain}" if chain.methods else ""
        header |= {
            "cell": self.cell,
            "of_weights": f"{as_it_is if weights is None else weights}{method}",
            "as_it_is": as_it_is,
            "variants": [] if inputs is None else [self._variant(inputs)],
            "current": 0,
            "searched": 0,
            "found": None,
            "set": None,
        }
        drawn = multiplication_figure(
            self.picture.picture, self.picture.ends, height=_HEIGHT, language=language, theme=theme
        )
        figure = json.loads(drawn.to_json())  # type: ignore[no-untyped-call]
        for trace in figure["data"]:
            # The browser computes them.
            trace |= {"z": [[0]], **({"text": [[""]]} if "text" in trace else {})}
        header, texts = with_named_programs(header)
        parts = {
            "page": pack({"figure": figure, "told": self.told}, {}),
            "picture": pack(*self.picture.payload(CHART, _HEIGHT, hand.looks)),
            "hand": pack(header, arrays),
        }
        return parts, texts

    def _variant(self, scheme: Scheme) -> dict[str, Any]:
        return {
            "scheme": str(scheme),
            "around": around_calibration(scheme),
            "symmetric": scheme.mode == "symmetric",
            "range_counts": self.hand.ceiling,
        }
