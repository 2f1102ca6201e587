"""One file of HTML with a layer that works without a server: its numbers, its multiplication and the products
of an output, computed anew under the hand. See `standalone.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.live.layer_payload import LayerHand, Multiplication
from quantviz.live.page_file import CHART, live_html, with_named_programs
from quantviz.live.standalone import around_calibration
from quantviz.schemes.scheme import Scheme
from quantviz.text import text

#: Values of W and X together at most: 1.2 MB of a page.
_MOST_VALUES = 2**18
#: CSS pixels of the picture.
_HEIGHT = 412
_NUMBERS = ("rel_out", "part_inputs", "part_cross", "part_weights", "output_db", "weight_db")
_COLUMNS = ("channel", "share", "contributions", "weights", "inputs", "cross", "x", "x_hat", "w", "w_hat")


@dataclass(frozen=True, eq=False)
class LayerPage:
    """A layer under its schemes, as a page of its own."""

    hand: LayerHand
    picture: Multiplication
    title: str
    #: The selected token, output and input channel.
    cell: tuple[int, int, int]
    #: Whether it is light or dark as the reader's system is.
    follows: bool = True

    @property
    def problem(self) -> QuantVizError | None:
        """Return the error where a browser cannot compute the layer by itself; None where it can."""
        tokens, inputs, outputs = self.picture.shape
        if self.hand.alone and (tokens + outputs) * inputs <= _MOST_VALUES:
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
            hint="live.hint_of_layer" if self.hand.small else "live.hint_of_large_layer",
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
        header |= {
            "cell": self.cell,
            "of_weights": as_it_is if weights is None else str(weights),
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
            "page": pack({"figure": figure}, {}),
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
