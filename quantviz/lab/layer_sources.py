"""The layers that a link can name: a built-in one, one of a built-in model, or a weight and inputs from any
two sources of tensors.

builtin(name=loud_weight)
model(name=character_twin,layer=model.layers.2.fc1)
layer(builtin(name=real_weight),normal(rows=320,cols=64,seed=1))
changed(builtin(name=loud_weight),w1.2=3.5,x0=2.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from quantviz.errors import QuantVizError
from quantviz.layers.built_in import BuiltInLayer
from quantviz.layers.changes import Changes
from quantviz.models.model_layer import ModelLayer
from quantviz.schemes import text_form
from quantviz.schemes.granularity import Shape
from quantviz.sources import parse_source, write_source
from quantviz.sources.base import OpenedFiles, Source
from quantviz.text import text

if TYPE_CHECKING:
    import torch

    from quantviz.layers.captures import Captured
    from quantviz.tensors.lazy import Stored


@dataclass(frozen=True)
class OwnLayer:
    """A layer of tensors from two sources, or three: the weight, the inputs, and a bias.

    >>> parse_layer("layer(normal(rows=16,cols=64),loud_channels(rows=32,cols=64,seed=1))").shape
    (32, 64, 16)
    """

    weight: Source
    inputs: Source
    bias: Source | None = None
    id: ClassVar[str] = "layer"

    @property
    def parts(self) -> tuple[Source, ...]:
        return (self.weight, self.inputs, *(() if self.bias is None else (self.bias,)))

    @property
    def shape(self) -> Shape:
        return (*self.inputs.shape, self.weight.shape[0])

    @property
    def key(self) -> str:
        return f"{self.id}({','.join(part.key for part in self.parts)})"

    def problems(self) -> Iterator[QuantVizError]:
        from quantviz.layers.captures import shape_problems

        for part in self.parts:
            yield from part.problems()
        yield from shape_problems(
            self.weight.shape, self.inputs.shape, None if self.bias is None else self.bias.shape
        )
        if len(self.inputs.shape) == 2 and self.inputs.shape[0] < 2:
            yield QuantVizError("layer.one_token")

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Captured:  # noqa: B008 (it holds nothing)
        """Return the layer with its values.

        Raises:
            QuantVizError: The tensors are not those of a layer.
        """
        from quantviz.layers.captures import Captured
        from quantviz.streaming.regions import read_whole

        for problem in self.problems():
            raise problem
        weight, inputs = (part.open(at_hand) for part in (self.weight, self.inputs))
        bias = None if self.bias is None else read_whole(self.bias.open(at_hand))
        return Captured(self.weight.stem, "linear", weight, inputs, bias, self.inputs.shape[0])

    def title(self, language: str) -> str:
        """Return the layer's name for people: that of a captured one, else those of its weight and inputs."""
        weight, inputs = (part.title(language) for part in (self.weight, self.inputs))
        layer = weight.removesuffix(".weight")
        return layer if inputs == f"{layer}.inputs" else f"{weight} × {inputs}"


@dataclass(frozen=True)
class ChangedLayer:
    """A small layer with changes by hand.

    >>> layer = parse_layer("changed(builtin(name=loud_input),w0.1=2.5,x2=7.0)").open()
    >>> layer.weight.read((0, 1)).item(), layer.inputs.read((slice(None), 2)).abs().max().item()
    (2.5, 7.0)
    """

    source: BuiltInLayer | ModelLayer | OwnLayer
    changes: Changes
    id: ClassVar[str] = "changed"

    @classmethod
    def of(cls, source: LayerSource, changes: Changes) -> ChangedLayer:
        """Return a layer with these changes in place of those that it has.

        Raises:
            QuantVizError: The changes are not possible.
        """
        layer = cls(source.source if isinstance(source, ChangedLayer) else source, changes)
        for problem in layer.problems():
            raise problem
        return layer

    @property
    def parts(self) -> tuple[Source, ...]:
        """Return the sources of the tensors that it is made of; none of a built-in one or a model's."""
        return self.source.parts

    @property
    def shape(self) -> Shape:
        return self.source.shape

    @property
    def key(self) -> str:
        return self.around(self.source.key)

    def around(self, source: str) -> str:
        """Return its text form with that of its source."""
        return f"{self.id}({','.join((source, *self.changes.written()))})"

    def problems(self) -> Iterator[QuantVizError]:
        for problem in self.source.problems():
            yield problem
            return
        yield from self.changes.problems(self.shape)

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Captured:  # noqa: B008 (it holds nothing)
        """Return the layer with its values.

        Raises:
            QuantVizError: There is no such layer.
        """
        from quantviz.tensors.lazy import InMemory, as_stored

        for problem in self.problems():
            raise problem
        opened = self.source.open(at_hand)
        weight, inputs = (as_stored(each)[0] for each in (opened.weight, opened.inputs))
        w, x = self.changes.changed(*opened.whole())
        return replace(opened, weight=InMemory(w, dtype=weight.dtype), inputs=InMemory(x, dtype=inputs.dtype))

    def title(self, language: str) -> str:
        return text("layers.changed", language, name=self.source.title(language))


LayerSource: TypeAlias = BuiltInLayer | ModelLayer | OwnLayer | ChangedLayer


@dataclass(frozen=True)
class LayerWeight(Source):
    """The weight of a layer as a tensor of the Lab, which weights its error by the layer's inputs.

    >>> weight = parse_weight("weight_of(builtin(name=loud_weight))")
    >>> weight.shape, weight.tensor()[1, 2].item()
    ((4, 4), 7.0)
    >>> weight.own_edit((0, 1), 2.5).link_text()
    'weight_of(changed(builtin(name=loud_weight),w0.1=2.5))'
    """

    layer: LayerSource
    id: ClassVar[str] = "weight_of"
    kind: ClassVar[str] = "file"
    finite: ClassVar[bool] = False

    @property
    def shape(self) -> Shape:
        _, inputs, outputs = self.layer.shape
        return outputs, inputs

    def problems(self) -> Iterator[QuantVizError]:
        yield from self.layer.problems()

    def tensor(self) -> torch.Tensor:
        from quantviz.streaming.regions import read_whole
        from quantviz.tensors.conversion import torch_dtype

        stored = self.open()
        return read_whole(stored).to(torch_dtype(stored.dtype))

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Stored:  # noqa: B008 (it holds nothing)
        from quantviz.tensors.lazy import as_stored

        return as_stored(self.layer.open(at_hand).weight)[0]

    def title(self, language: str) -> str:
        return text("layers.weight_of", language, name=self.layer.title(language))

    @property
    def key(self) -> str:
        return f"{self.id}({self.layer.key})"

    @property
    def shared(self) -> bool:
        return all(part.shared for part in self.layer.parts)

    def link_text(self) -> str:
        return f"{self.id}({write_layer(self.layer)})"

    def link_problem(self) -> QuantVizError | None:
        return next(filter(None, (part.link_problem() for part in self.layer.parts)), None)

    def code(self, large: bool, language: str) -> list[str] | None:
        if self.link_problem():
            return None
        form = write_layer(self.layer)
        return [
            "from quantviz.lab.layer_sources import parse_layer",
            f"x = parse_layer({form!r}).open().weight",
        ]

    def own_edit(self, cell: Shape, value: float | None) -> Source:
        changes = self.layer.changes if isinstance(self.layer, ChangedLayer) else Changes()
        others = tuple(each for each in changes.weights if each[:2] != cell)
        changes = replace(changes, weights=others)
        if value is not None:
            changes = changes.with_weight(cell[0], cell[1], value)
        return LayerWeight(ChangedLayer.of(self.layer, changes))


def parse_weight(form: str, *, present: bool = True) -> Source:
    """Return the source written as `form`: a layer's weight, or a tensor as `parse_source` reads it.

    Raises:
        QuantVizError: As there, or the form of the layer is none.
    """
    name, _, inner = form.partition("(")
    if name == LayerWeight.id and inner.endswith(")"):
        return LayerWeight(parse_layer(inner[:-1], present=present))
    return parse_source(form, present=present)


def parse_layer(form: str, *, present: bool = True) -> LayerSource:
    """Return the layer written as `form`.

    Raises:
        QuantVizError: The form is no layer's, there is no such one, or its tensors do not fit.

    >>> parse_layer("builtin(name=loud_weight)")
    BuiltInLayer(name='loud_weight')
    """
    name, _, inner = form.partition("(")
    source: LayerSource
    if name == OwnLayer.id and inner.endswith(")"):
        parts = text_form.split_outside_parentheses(inner[:-1])
        if not 2 <= len(parts) <= 3:
            raise QuantVizError("layer.form", got=form)
        source = OwnLayer(*(parse_source(part, present=present) for part in parts))
    elif name == ChangedLayer.id and inner.endswith(")"):
        base, *forms = text_form.split_outside_parentheses(inner[:-1])
        if not forms or base.startswith(ChangedLayer.id):
            raise QuantVizError("layer.form", got=form)
        source = ChangedLayer.of(parse_layer(base, present=present), Changes.read(forms))
    elif name == BuiltInLayer.id:
        _, fields = text_form.read_head(form)
        if set(fields) != {"name"}:
            raise QuantVizError("layer.form", got=form)
        source = BuiltInLayer(fields["name"])
    elif name == ModelLayer.id:
        _, fields = text_form.read_head(form)
        if set(fields) != {"name", "layer"}:
            raise QuantVizError("layer.form", got=form)
        source = ModelLayer(**fields)
    else:
        raise QuantVizError("layer.form", got=form)
    for problem in source.problems():
        raise problem
    return source


def write_layer(source: LayerSource) -> str:
    """Return the text form of a layer.

    >>> write_layer(BuiltInLayer("loud_weight"))
    'builtin(name=loud_weight)'
    """
    if isinstance(source, BuiltInLayer | ModelLayer):
        return source.key
    if isinstance(source, ChangedLayer):
        return source.around(write_layer(source.source))
    return f"{source.id}({','.join(write_source(part) for part in source.parts)})"
