"""Built-in layers: the notebook's, two that a student can check by hand, and slices of a real model.

A new one is an entry in `BUILT_IN_LAYERS`, and words under `[layers.built_in.<name>]` in each language.
`data/README.md` has the origin of the slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import OpenedFiles, Source
from quantviz.text import text

if TYPE_CHECKING:
    from quantviz.layers.captures import Captured

_STORED = Path(__file__).parent / "data" / "minilm.safetensors"


@dataclass(frozen=True)
class BuiltIn:
    #: Numbers of tokens, of input channels and of outputs.
    shape: Shape
    #: The schemes of its demonstration, as `layer` takes them.
    weights: str | None
    inputs: str | None
    #: W and X as nested tuples, for layers that are literals.
    literal: Any = None
    #: The layer's name in the stored file, for those that are not.
    stored: str = ""


# ---- literals -----------------------------------------------------------------------------------

# Notebook 003, cell 58: an 8-bit weight and 32-bit activations; the second token was added, because one is
# held back.
_COURSE_W8A32 = (
    ((-2.0, -1.13, 0.42), (-1.51, 0.25, 1.62), (0.23, 1.35, 2.15)),
    ((1.0, 2.0, 3.0), (3.0, -1.0, 0.5)),
)

# Input channel 2 is some fifteen times louder than the others. Under int4 with one scale for X, that scale is
# 14.00 / 7 = 2.00, so that every other input rounds to 0. Under int8 the scale of W is 1.27 / 127 = 0.01: the
# weights have no error. Output 0 of token 1 becomes 14 × 0.05 = 0.70 in place of
# -0.66 × 0.64 - 0.93 × 0.38 + 14 × 0.05 - 0.78 × 1.27 = -1.07.
_LOUD_INPUT = (
    (
        (0.64, -0.38, 0.05, -1.27),
        (-0.91, 0.47, -0.03, 0.78),
        (0.25, 1.06, 0.04, 0.41),
        (0.83, -0.72, -0.06, 0.16),
    ),
    (
        (0.87, -0.52, 12.4, 0.41),
        (-0.66, 0.93, 14.0, 0.78),
        (0.35, -0.81, -9.6, -0.94),
        (-0.72, 0.58, 11.3, 0.69),
    ),
)

# One weight is some fifteen times louder than the others. Under int4 with one scale for W, that scale is
# 7.00 / 7 = 1.00, so that every other weight rounds to 0. Under int8 the scale of X is 1.27 / 127 = 0.01: the
# inputs have no error. Outputs 0, 2 and 3 become 0.
_LOUD_WEIGHT = (
    (
        (0.41, -0.28, 0.36, 0.19),
        (-0.33, 0.45, 7.0, -0.22),
        (0.27, 0.38, -0.16, -0.44),
        (-0.12, 0.31, 0.24, 0.48),
    ),
    (
        (0.92, -0.61, 0.75, 1.13),
        (-1.27, 0.84, -0.57, 0.39),
        (0.66, -1.05, 0.98, -0.73),
        (0.53, 1.18, -0.86, 0.47),
    ),
)


def _of(literal: Any, weights: str | None, inputs: str | None) -> BuiltIn:
    weight, tokens = literal
    return BuiltIn((len(tokens), len(weight[0]), len(weight)), weights, inputs, literal)


BUILT_IN_LAYERS: Mapping[str, BuiltIn] = MappingProxyType(
    {
        "course_w8a32": _of(_COURSE_W8A32, "int8_per_tensor", None),
        "loud_input": _of(_LOUD_INPUT, "int8_per_tensor", "int4_per_tensor"),
        "loud_weight": _of(_LOUD_WEIGHT, "int4_per_tensor", "int8_per_tensor"),
        "minilm_1_intermediate": BuiltIn(
            (320, 384, 256),
            "int8_per_output",
            "int8_per_tensor",
            stored="encoder.layer.1.intermediate.dense",
        ),
        "minilm_0_output": BuiltIn(
            (320, 1536, 128), "int8_per_tensor", "int8_per_token", stored="encoder.layer.0.output.dense"
        ),
        "minilm_4_value": BuiltIn(
            (320, 384, 256), "int4_g128", None, stored="encoder.layer.4.attention.self.value"
        ),
        "minilm_1_attention_output": BuiltIn(
            (320, 384, 256),
            "int8_per_output",
            "int8_per_tensor",
            stored="encoder.layer.1.attention.output.dense",
        ),
    }
)


@dataclass(frozen=True)
class BuiltInLayer:
    """The built-in layer called `name`, one of `BUILT_IN_LAYERS`.

    >>> BuiltInLayer("loud_weight").shape, BuiltInLayer("loud_weight").open().weight[1, 2]
    ((4, 4, 4), tensor(7.))
    >>> next(BuiltInLayer("nothing").problems()).key
    'layer.unknown_built_in'
    """

    name: str
    id: ClassVar[str] = "builtin"

    @property
    def shape(self) -> Shape:
        return self._entry.shape

    @property
    def weights(self) -> str | None:
        return self._entry.weights

    @property
    def inputs(self) -> str | None:
        return self._entry.inputs

    @property
    def parts(self) -> tuple[Source, ...]:
        return ()

    @property
    def key(self) -> str:
        return f"{self.id}(name={self.name})"

    def problems(self) -> Iterator[QuantVizError]:
        if self.name not in BUILT_IN_LAYERS:
            known = ", ".join(BUILT_IN_LAYERS)
            yield QuantVizError("layer.unknown_built_in", got=self.name, known=known)

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Captured:  # noqa: B008 (it holds nothing)
        import torch

        from quantviz.layers.captures import Captured

        entry = self._entry
        if entry.stored:
            return _stored()[entry.stored]
        weight, inputs = (torch.tensor(each, dtype=torch.float32) for each in entry.literal)
        return Captured(self.name, "linear", weight, inputs, seen=len(inputs))

    def title(self, language: str) -> str:
        return text(f"layers.built_in.{self.name}.name", language)

    def look(self, language: str) -> str:
        return text(f"layers.built_in.{self.name}.look", language)

    @property
    def _entry(self) -> BuiltIn:
        for problem in self.problems():
            raise problem
        return BUILT_IN_LAYERS[self.name]


@cache
def _stored() -> Mapping[str, Captured]:
    from quantviz.layers.captures import captured_in
    from quantviz.sources.files import open_tensors

    with open_tensors(_STORED) as catalog:
        return MappingProxyType({layer.name: layer for layer in captured_in(catalog)})
