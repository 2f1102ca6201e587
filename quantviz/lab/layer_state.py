"""The state of the page of layers and its link, without streamlit and without torch.

The link carries permanent ids and numbers only; parts of it that cannot be used are named and left out.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.lab.layer_sources import LayerSource, parse_layer, write_layer
from quantviz.lab.page_state import Codec, PageState, Reading, codec, field, one_of, whole_number
from quantviz.layers.built_in import BuiltInLayer
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme

#: A side of the layer that is not quantized.
AS_IT_IS = "none"
#: The scheme of inputs with a zero point, as engines use it for activations.
ASYMMETRIC = "uint8,asymmetric,per_tensor,min_max,onnxruntime"
#: The layer with which the page opens.
FIRST = "minilm_1_intermediate"
#: The values that the picture shows of X, W and Y.
SHOWN = ("x", "error", "codes")
TABS = ("cell", "channels", "integer", "method", "compare")
#: Pairs that are compared at most.
MOST_PAIRS = 8
#: The chain without a method.
NEAREST = "nearest"
_NUMBER = whole_number(999_999_999)
_DYNAMIC = one_of(lambda: ("0", "1"))
_STATIC = Codec(
    lambda form, reading: _DYNAMIC.read(form, reading) == "0", lambda static, _: "" if static else "1"
)
#: Between two pairs in a link, and between the parts of one: no scheme's text has them.
_BETWEEN = "~"
_WITHIN = "!"


@dataclass(frozen=True)
class SchemePair:
    """The schemes of a layer's two sides, each a recipe's id, a scheme's text form, or `AS_IT_IS`."""

    weights: str
    inputs: str
    #: Whether a scale of the inputs that all tokens share is chosen on the tokens that are not held back.
    static: bool = True

    def __str__(self) -> str:
        return _WITHIN.join((self.weights, self.inputs, *(() if self.static else ("d",))))

    def with_side(self, side: str, form: str) -> SchemePair:
        """Return the pair with another scheme of a side, "weights" or "inputs"."""
        if side == "weights":
            return dataclasses.replace(self, weights=form)
        return dataclasses.replace(self, inputs=form)

    def schemes(self) -> tuple[Scheme | None, Scheme | None]:
        """Return the schemes of weights and inputs, None for a side that stays as it is."""
        return _scheme(self.weights), _scheme(self.inputs)

    def problem(self, shape: Shape) -> QuantVizError | None:
        """Return the reason why the pair does not fit a layer of so many tokens, inputs and outputs, if any.

        >>> SchemePair("int8_per_row", "none").problem((8, 4, 4)) is None
        True
        """
        for scheme, side in zip(self.schemes(), _sides(shape), strict=True):
            for problem in scheme.problems(side) if scheme else ():
                return problem
        return None


#: Pairs that have a name.
PAIRS: Mapping[str, SchemePair] = {
    "w8a32": SchemePair("int8_per_row", AS_IT_IS),
    "w4a16": SchemePair("int4_g128", AS_IT_IS),
    "w4a16_per_output": SchemePair("int4_per_row", AS_IT_IS),
    "w8a8_static": SchemePair("int8_per_row", "int8_per_tensor"),
    "w8a8_asymmetric": SchemePair("int8_per_row", ASYMMETRIC),
    "w8a8_dynamic": SchemePair("int8_per_row", "int8_per_tensor", static=False),
    "w8a8_token": SchemePair("int8_per_row", "int8_per_row"),
    "w4a8_token": SchemePair("int4_g128", "int8_per_row"),
    "fp8_static": SchemePair("fp8_e4m3_per_tensor", "fp8_e4m3_per_tensor"),
    "fp8_token": SchemePair("fp8_e4m3_per_row", "fp8_e4m3_per_row"),
    "mxfp8": SchemePair("mxfp8_e4m3", "mxfp8_e4m3"),
    "mxfp4": SchemePair("mxfp4", "mxfp4"),
    "nvfp4": SchemePair("nvfp4", "nvfp4"),
}
#: Pairs that are compared as long as none were chosen.
COMPARED = ("w8a32", "w4a16", "w4a16_per_output", "w8a8_static", "w8a8_token", "fp8_token", "mxfp4", "nvfp4")
#: Recipes that each side offers, besides `AS_IT_IS`.
WEIGHTS = (
    "int8_per_tensor",
    "int8_per_row",
    "int8_g128",
    "int4_per_tensor",
    "int4_per_row",
    "int4_g128",
    "int4_g32",
    "fp8_e4m3_per_tensor",
    "fp8_e4m3_per_row",
    "mxfp8_e4m3",
    "mxfp6_e2m3",
    "mxfp4",
    "nvfp4",
    "nf4_64",
)
INPUTS = (
    "int8_per_tensor",
    ASYMMETRIC,
    "int8_per_row",
    "int8_per_column",
    "int4_per_row",
    "int4_g128",
    "fp8_e4m3_per_tensor",
    "fp8_e4m3_per_row",
    "mxfp8_e4m3",
    "mxfp6_e2m3",
    "mxfp4",
    "nvfp4",
)


@dataclass(frozen=True)
class LayerPart:
    """A part of a layer: from a first to before a last token, input channel and output."""

    tokens: tuple[int, int]
    inputs: tuple[int, int]
    outputs: tuple[int, int]

    def __str__(self) -> str:
        return "_".join(f"{first}.{last}" for first, last in (self.tokens, self.inputs, self.outputs))

    @classmethod
    def whole(cls, shape: Shape) -> LayerPart:
        """Return the part that is the whole of a layer of `shape`: (tokens, inputs, outputs)."""
        return cls(*((0, count) for count in shape))

    def within(self, shape: Shape) -> bool:
        axes = (self.tokens, self.inputs, self.outputs)
        return all(0 <= first < last <= count for (first, last), count in zip(axes, shape, strict=True))


def _part(name: str, codec: Codec) -> Codec:
    """Return the codec of a field of the pair from that of its value."""
    return Codec(
        lambda form, reading: dataclasses.replace(reading.state.pair, **{name: codec.read(form, reading)}),
        lambda pair, state: codec.write(getattr(pair, name), state),
    )


def _read_scheme(form: str) -> str:
    _scheme(form)
    return form


def _read_cell(form: str) -> tuple[int, int]:
    if not re.fullmatch(r"\d{1,9}\.\d{1,9}", form, re.ASCII):
        raise QuantVizError("link.place", got=form)
    token, output = map(int, form.split("."))
    return token, output


def _read_lines(form: str) -> LayerPart:
    axes = [_read_cell(part) for part in form.split("_")]
    if len(axes) != 3 or any(first >= last for first, last in axes):
        raise QuantVizError("link.place", got=form)
    return LayerPart(*axes)


def _read_held(form: str) -> tuple[float, ...]:
    if not re.fullmatch(r"\d[\de.+-]{0,23}(_\d[\de.+-]{0,23}){2}", form, re.ASCII):
        raise QuantVizError("link.place", got=form)
    try:
        ends = tuple(map(float, form.split("_")))
    except ValueError:
        raise QuantVizError("link.place", got=form) from None
    if not all(map(math.isfinite, ends)):
        raise QuantVizError("link.place", got=form)
    return ends


def _read_pairs(form: str) -> tuple[SchemePair, ...]:
    pairs = form.split(_BETWEEN)
    if len(pairs) > MOST_PAIRS:
        raise QuantVizError("link.others", got=len(pairs), most=MOST_PAIRS)
    return tuple(map(read_pair, pairs))


def read_pair(form: str) -> SchemePair:
    """Return the pair written as `form`, as `str` writes it.

    Raises:
        QuantVizError: There is no such pair.
    """
    weights, *rest = form.split(_WITHIN)
    if len(rest) not in (1, 2) or rest[1:] not in ([], ["d"]):
        raise QuantVizError("link.place", got=form)
    return SchemePair(_read_scheme(weights), _read_scheme(rest[0]), static=len(rest) == 1)


#: The codecs of a scheme, of a cell, of a part in view, and of the ends of an error's colours.
SCHEME = codec(_read_scheme)
CELL = codec(_read_cell, lambda cell: ".".join(map(str, cell)))
LINES = codec(_read_lines)
HELD = codec(_read_held, lambda ends: "_".join(map(repr, ends)))
_NAMED = one_of(lambda: SHOWN)
#: Links of before have rounded values, which codes took the place of.
_VALUES = dataclasses.replace(
    _NAMED, read=lambda form, reading: _NAMED.read("codes" if form == "x_hat" else form, reading)
)


def _of_integers(name: str) -> Codec:
    def names() -> Collection[str]:
        # They stand with their arithmetic, which needs torch.
        from quantviz.layers.integer_engines import ACTIVATIONS, INTEGER_ENGINES
        from quantviz.layers.integers_of_layer import OUTPUT_FORMATS

        return {"engine": INTEGER_ENGINES, "output_format": OUTPUT_FORMATS, "activation": ACTIVATIONS}[name]

    return one_of(names)


def _read_method(form: str) -> str:
    from quantviz.layers.methods.chain import as_chain

    # In an address that a person typed, + is a space.
    return str(as_chain(form.replace(" ", "+")))


@dataclass(frozen=True)
class LayerState(PageState):
    """Everything a person has chosen on the page of layers."""

    page = "layers"

    source: LayerSource = field(link="l", codec=codec(parse_layer, write_layer), always=True)
    pair: SchemePair = field(
        link={
            "w": _part("weights", SCHEME),
            "a": _part("inputs", SCHEME),
            "d": _part("static", _STATIC),
        },
        always=True,
    )
    #: The chain of methods by which the layer is rounded, as `as_chain` reads it.
    method: str = field(NEAREST, link="m", codec=codec(_read_method))
    #: Draws the tokens that are held back.
    seed: int = field(0, link="h", codec=_NUMBER)
    #: The selected output: token and output; None for the one with the largest error.
    cell: tuple[int, int] | None = field(None, link="c", codec=CELL, looks=True, of="l")
    #: The input channel of the product whose steps are shown; None for the largest contribution.
    channel: int | None = field(None, link="j", codec=_NUMBER, looks=True, of="l")
    #: One of `SHOWN`.
    shown: str = field(SHOWN[0], link="e", codec=_VALUES, looks=True)
    #: The part in view; None for all.
    lines: LayerPart | None = field(None, link="v", codec=LINES, looks=True, of="l")
    #: The ends of the error's colours in X, W and Y, which stay until the layer changes; None for as far as
    #: the errors reach.
    held: tuple[float, ...] | None = field(None, link="z", codec=HELD, looks=True, of="l")
    #: The pairs that are compared; none for `COMPARED`.
    compared: tuple[SchemePair, ...] = field(
        (), link="y", codec=codec(_read_pairs, lambda pairs: _BETWEEN.join(map(str, pairs)))
    )
    #: The open tab, one of `TABS`; None for the first, or that of the method where there is one.
    tab: str | None = field(None, link="t", codec=one_of(lambda: TABS), looks=True)
    #: How the layer is computed in integers: ids of an engine, of the outputs' format, and of an activation.
    engine: str = field("onnxruntime", link="g", codec=_of_integers("engine"))
    output_format: str = field("int8", link="f", codec=_of_integers("output_format"))
    activation: str = field("none", link="r", codec=_of_integers("activation"))

    @classmethod
    def opening(cls) -> LayerState:
        source = BuiltInLayer(FIRST)
        return cls(source, usual_pair(source) or PAIRS["w8a8_token"])

    @property
    def open_tab(self) -> str:
        """Return the tab that is open.

        >>> LayerState.opening().open_tab, LayerState.opening().replace(method="gptq").open_tab
        ('cell', 'method')
        """
        if self.tab is not None:
            return self.tab
        return TABS[0] if self.method == NEAREST else "method"

    def replace(self, **changes: Any) -> LayerState:
        """Return the state with `changes`: a built-in layer comes under its own schemes, and the cell's
        product is that of its present cell and schemes.

        >>> LayerState.opening().replace(source=BuiltInLayer("loud_weight")).pair
        SchemePair(weights='int4_per_tensor', inputs='int8_per_tensor', static=True)
        """
        if "source" in changes:
            changes.setdefault("pair", usual_pair(changes["source"]) or self.pair)
        of_product = changes.keys() & {"pair", "cell", "method"}
        if any(changes[name] != getattr(self, name) for name in of_product):
            changes.setdefault("channel", None)
        return dataclasses.replace(self, **changes)

    def of_layer(self, source: LayerSource) -> LayerState:
        """Return the state with another layer, of which no place is chosen."""
        return self.replace(source=source, cell=None, channel=None, lines=None, held=None).fitting()

    def completed(self, reading: Reading[LayerState]) -> LayerState:
        """Return a link's state limited to what its layer allows."""
        return self.fitting()

    def looking(self, step: tuple[LayerState, LayerState], now: LayerState) -> LayerState:
        """Return this state as it is shown once a `step` is undone or done again: places of another layer
        mean nothing in this one.
        """
        kept = super().looking(step, now)
        return kept if now.source == self.source else self.replace(shown=kept.shown, tab=kept.tab)

    def fitting(self) -> LayerState:
        """Return the state limited to its layer, with the nearest schemes that fit."""
        shape = self.source.shape
        tokens, inputs, outputs = shape
        fitted = self
        if self.cell is not None and (self.cell[0] >= tokens or self.cell[1] >= outputs):
            fitted = fitted.replace(cell=None)
        if self.channel is not None and self.channel >= inputs:
            fitted = fitted.replace(channel=None)
        if self.lines is not None and not self.lines.within(shape):
            fitted = fitted.replace(lines=None)
        if self.pair.problem(shape):
            weights, activations = _sides(shape)
            pair = SchemePair(
                _fitted(self.pair.weights, weights), _fitted(self.pair.inputs, activations), self.pair.static
            )
            fitted = fitted.replace(pair=pair)
        return fitted


def usual_pair(source: LayerSource) -> SchemePair | None:
    """Return the schemes of a built-in layer's demonstration; None of another layer."""
    if not isinstance(source, BuiltInLayer):
        return None
    return SchemePair(_by_lines(source.weights, "output"), _by_lines(source.inputs, "token"))


def _by_lines(named: str | None, line: str) -> str:
    """Return a recipe's id: its row is an output of the weight, or a token of the inputs."""
    if named is None:
        return AS_IT_IS
    return named.replace(f"_per_{line}", "_per_row").replace("_per_channel", "_per_column")


def _sides(shape: Shape) -> tuple[Shape, Shape]:
    """Return the shapes of W and X of a layer of so many tokens, inputs and outputs."""
    tokens, inputs, outputs = shape
    return (outputs, inputs), (tokens, inputs)


@lru_cache(maxsize=256)  # a page asks for each scheme that it offers
def _scheme(form: str) -> Scheme | None:
    return None if form == AS_IT_IS else as_scheme(form)


def _fitted(form: str, shape: Shape) -> str:
    """Return the form of the nearest scheme that fits a shape: the same one where it does."""
    scheme = _scheme(form)
    if scheme is None or not tuple(scheme.problems(shape)):
        return form
    return str(scheme.fitted(shape))


def name_of_pair(pair: SchemePair) -> str | None:
    return next((name for name, named_pair in PAIRS.items() if named_pair == pair), None)


def pairs_compared(state: LayerState) -> tuple[SchemePair, ...]:
    """Return the compared pairs that fit the layer, the present one first."""
    chosen: Iterable[SchemePair] = state.compared or (PAIRS[name] for name in COMPARED)
    fitting = (pair for pair in chosen if not pair.problem(state.source.shape))
    return tuple(dict.fromkeys((state.pair, *fitting)))[:MOST_PAIRS]
