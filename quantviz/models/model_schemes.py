"""Schemes of a whole model: those of each linear layer, of its table, and of its cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.errors import QuantVizError
from quantviz.layers.methods.chain import NEAREST, as_chain
from quantviz.layers.operands import scheme_of
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public_class
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import Granularity, PerChannel, PerGroup, PerTensor
from quantviz.schemes.scheme import Scheme

#: The numbers of bits that a model is usually tried at, from the most.
BITS = (16, 8, 7, 6, 5, 4, 3, 2)
#: Which weights share a scale: each row's, all, or a group's of a row.
SHARED = MappingProxyType(
    {"row": PerChannel(0), "tensor": PerTensor(), "g32": PerGroup(32), "g16": PerGroup(16)}
)


def scheme_of_bits(bits: int, granularity: Granularity = SHARED["row"]) -> Scheme:
    """Return the scheme of weights of so many bits: bfloat16 at 16, symmetric integers below."""
    if bits == 16:
        return Scheme("bfloat16", calibration=Given(1.0, 0))
    return Scheme(f"int{bits}", "symmetric", granularity)


@checked_fields
@public_class
@dataclass(frozen=True)
class LayerSchemes(Picklable):
    """Schemes of a linear layer; None leaves a side as it is."""

    weights: Scheme | str | None = None
    inputs: Scheme | str | None = None
    #: How its codes are chosen: a chain of methods in its text form.
    method: str = NEAREST

    def __post_init__(self) -> None:
        check_fields(self)
        for side in ("weights", "inputs"):
            object.__setattr__(self, side, scheme_of(getattr(self, side), side))
        object.__setattr__(self, "method", str(as_chain(self.method)))

    def __str__(self) -> str:
        return f"{self.weights or '-'};{self.inputs or '-'};{self.method}"


@checked_fields
@public_class
@dataclass(frozen=True)
class ModelSchemes(Picklable):
    """Schemes of a model; None leaves values as they are.

    >>> schemes = ModelSchemes(LayerSchemes("int4_per_row"), own=(("lm_head", LayerSchemes("int8_per_row")),))
    >>> schemes.of("model.layers.0.fc1").weights.format, schemes.of("lm_head").weights.format
    ('int4', 'int8')
    """

    #: The linear layers within the network.
    layers: LayerSchemes = LayerSchemes()
    #: Layers that have schemes of their own, by name, or a dict of them: the head "lm_head" has those of the
    #: others only here.
    own: tuple[tuple[str, LayerSchemes], ...] = ()
    #: The table of characters.
    embedding: Scheme | str | None = None
    #: The keys and values in the cache, matrices of tokens × channels of all heads. As of inputs, a scale
    #: that tokens share is static, from the text for calibration, and that of a token is dynamic.
    keys: Scheme | str | None = None
    values: Scheme | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.own, Mapping):
            object.__setattr__(self, "own", tuple(self.own.items()))
        check_fields(self)
        names = [name for name, _ in self.own]
        for name in names:
            if names.count(name) > 1:
                raise QuantVizError("model.layer_twice", got=name)
        # A recipe's row is a character of the table, and a token of the cache.
        for name, operand in (("embedding", "weights"), ("keys", "inputs"), ("values", "inputs")):
            object.__setattr__(self, name, scheme_of(getattr(self, name), operand))

    def __str__(self) -> str:
        own = "".join(f" {name}={schemes}" for name, schemes in self.own)
        return f"{self.layers} {self.embedding or '-'} {self.keys or '-'} {self.values or '-'}{own}"

    @property
    def by_name(self) -> Mapping[str, LayerSchemes]:
        """Return the schemes of the layers that have some of their own."""
        return MappingProxyType(dict(self.own))

    def of(self, name: str) -> LayerSchemes:
        """Return the schemes of a linear layer."""
        found = self.by_name.get(name)
        if found is not None:
            return found
        return LayerSchemes() if name == "lm_head" else self.layers


def as_schemes(given: ModelSchemes | LayerSchemes | Scheme | str | None) -> ModelSchemes:
    """Return schemes of a model: one scheme is that of the weights of its linear layers."""
    if isinstance(given, ModelSchemes):
        return given
    if isinstance(given, LayerSchemes):
        return ModelSchemes(given)
    return ModelSchemes(LayerSchemes(given))


def check_names(schemes: ModelSchemes, known: tuple[str, ...]) -> None:
    for name, _ in schemes.own:
        if name not in known:
            raise QuantVizError("model.no_layer", got=name, known=", ".join(known))
