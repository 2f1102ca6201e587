"""A linear layer of a built-in model as a layer that a link can name.

model(name=character_twin,layer=model.layers.2.fc1)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import OpenedFiles, Source
from quantviz.text import text

if TYPE_CHECKING:
    from quantviz.layers.captures import Captured


@dataclass(frozen=True)
class ModelLayer:
    """A linear layer of a built-in model: its weight, and its inputs on the text for calibration."""

    #: One of `MODELS`.
    name: str
    #: The layer's name in the network, one of `Sizes.linear_layers`.
    layer: str
    id: ClassVar[str] = "model"

    @property
    def parts(self) -> tuple[Source, ...]:
        return ()

    @property
    def shape(self) -> Shape:
        from quantviz.models.character_model import CALIBRATED_ON, sizes_of

        outputs, inputs = sizes_of(self.name).shapes()[f"{self.layer}.weight"]
        return CALIBRATED_ON, inputs, outputs

    @property
    def key(self) -> str:
        return f"{self.id}(name={self.name},layer={self.layer})"

    def problems(self) -> Iterator[QuantVizError]:
        from quantviz.models.character_model import MODELS, sizes_of

        layers = sizes_of(self.name).linear_layers()
        if self.name not in MODELS:
            yield QuantVizError("model.unknown", got=self.name, known=", ".join(MODELS))
        elif self.layer not in layers:
            yield QuantVizError("model.no_layer", got=self.layer, known=", ".join(layers))

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Captured:  # noqa: B008 (it holds nothing)
        from quantviz.layers.captures import Captured
        from quantviz.models.character_model import network_of
        from quantviz.models.quantizing import watched_on_calibration

        for problem in self.problems():
            raise problem
        tensors = network_of(self.name).tensors
        inputs = watched_on_calibration(self.name)[self.layer]
        weight = tensors[f"{self.layer}.weight"]
        return Captured(self.layer, "linear", weight, inputs, tensors.get(f"{self.layer}.bias"), len(inputs))

    def title(self, language: str) -> str:
        return text(f"layers.in_model.{self.name}", language, layer=self.layer.removeprefix("model."))

    def look(self, language: str) -> str:
        return text("layers.in_model.look", language)
