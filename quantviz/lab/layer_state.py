"""The state of the page of layers and its link, without streamlit and without torch.

The link carries permanent ids and numbers only; parts of it that cannot be used are named and left out.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.lab.layer_sources import LayerSource, parse_layer, write_layer
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
SHOWN = ("error", "x", "x_hat")
#: The tabs of the stage.
TABS = ("cell", "channels", "integer", "method", "compare")
#: Pairs that are compared at most.
MOST_PAIRS = 8
#: The chain without a method.
NEAREST = "nearest"
#: Fields of the state that describe the layer in integers, by their names in a link.
_OF_INTEGERS = MappingProxyType({"g": "engine", "f": "output_format", "r": "activation"})
#: Parts of a link that mean nothing in another layer: places, and the ends of colours.
_OF_LAYER = frozenset({"c", "j", "v", "z"})
#: A longer link was not made by us.
LONGEST = 4000
#: Between two pairs in a link, and between the parts of one: no scheme's text has them.
_BETWEEN = "~"
_WITHIN = "!"


@dataclass(frozen=True)
class Pair:
    """The schemes of a layer's two sides, each a recipe's id, a scheme's text form, or `AS_IT_IS`."""

    weights: str
    inputs: str
    #: Whether a scale of the inputs that all tokens share is chosen on the tokens that are not held back.
    static: bool = True

    def __str__(self) -> str:
        return _WITHIN.join((self.weights, self.inputs, *(() if self.static else ("d",))))

    def with_side(self, side: str, form: str) -> Pair:
        """Return the pair with another scheme of a side, "weights" or "inputs"."""
        if side == "weights":
            return dataclasses.replace(self, weights=form)
        return dataclasses.replace(self, inputs=form)

    def schemes(self) -> tuple[Scheme | None, Scheme | None]:
        """Return the schemes of weights and inputs, None for a side that stays as it is."""
        return _scheme(self.weights), _scheme(self.inputs)

    def problem(self, shape: Shape) -> QuantVizError | None:
        """Return the reason why the pair does not fit a layer of so many tokens, inputs and outputs, if any.

        >>> Pair("int8_per_row", "none").problem((8, 4, 4)) is None
        True
        """
        for scheme, side in zip(self.schemes(), _sides(shape), strict=True):
            for problem in scheme.problems(side) if scheme else ():
                return problem
        return None


#: Pairs that have a name.
PAIRS: Mapping[str, Pair] = MappingProxyType(
    {
        "w8a32": Pair("int8_per_row", AS_IT_IS),
        "w4a16": Pair("int4_g128", AS_IT_IS),
        "w4a16_per_output": Pair("int4_per_row", AS_IT_IS),
        "w8a8_static": Pair("int8_per_row", "int8_per_tensor"),
        "w8a8_asymmetric": Pair("int8_per_row", ASYMMETRIC),
        "w8a8_dynamic": Pair("int8_per_row", "int8_per_tensor", static=False),
        "w8a8_token": Pair("int8_per_row", "int8_per_row"),
        "w4a8_token": Pair("int4_g128", "int8_per_row"),
        "fp8_static": Pair("fp8_e4m3_per_tensor", "fp8_e4m3_per_tensor"),
        "fp8_token": Pair("fp8_e4m3_per_row", "fp8_e4m3_per_row"),
        "mxfp8": Pair("mxfp8_e4m3", "mxfp8_e4m3"),
        "mxfp4": Pair("mxfp4", "mxfp4"),
        "nvfp4": Pair("nvfp4", "nvfp4"),
    }
)
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
class Lines:
    """A part of a layer: from a first to before a last token, input channel and output."""

    tokens: tuple[int, int]
    inputs: tuple[int, int]
    outputs: tuple[int, int]

    def __str__(self) -> str:
        return "_".join(f"{first}.{last}" for first, last in (self.tokens, self.inputs, self.outputs))

    @classmethod
    def whole(cls, shape: Shape) -> Lines:
        """Return all of a layer of so many tokens, inputs and outputs."""
        return cls(*((0, count) for count in shape))

    def within(self, shape: Shape) -> bool:
        """Return whether such a layer has them."""
        axes = (self.tokens, self.inputs, self.outputs)
        return all(0 <= first < last <= count for (first, last), count in zip(axes, shape, strict=True))


@dataclass(frozen=True)
class LayerState:
    """Everything a person has chosen on the page of layers."""

    source: LayerSource
    pair: Pair
    #: Draws the tokens that are held back.
    seed: int = 0
    #: The selected output: token and output; None for the one with the largest error.
    cell: tuple[int, int] | None = None
    #: The input channel of the product whose steps are shown; None for the one that contributes most.
    channel: int | None = None
    #: One of `SHOWN`.
    shown: str = SHOWN[0]
    #: The part in view; None for all.
    lines: Lines | None = None
    #: The ends of the error's colours in X, W and Y, which stay until the layer changes; None for as far as
    #: the errors reach.
    held: tuple[float, ...] | None = None
    #: The pairs that are compared; none for `COMPARED`.
    compared: tuple[Pair, ...] = ()
    #: How the layer is computed in integers: ids of an engine, of the outputs' format, and of an activation.
    engine: str = "onnxruntime"
    output_format: str = "int8"
    activation: str = "none"
    #: The chain of methods by which the layer is rounded, as `as_chain` reads it.
    method: str = NEAREST
    #: The open tab, one of `TABS`; None for the first, or that of the method where there is one.
    tab: str | None = None

    @property
    def open_tab(self) -> str:
        """Return the tab that is open.

        >>> opening().open_tab, opening().replace(method="gptq").open_tab
        ('cell', 'method')
        """
        if self.tab is not None:
            return self.tab
        return TABS[0] if self.method == NEAREST else "method"

    def replace(self, **changes: Any) -> LayerState:
        """Return the state with `changes`; the cell's product is that of its present cell and schemes."""
        if "channel" not in changes and changes.keys() & {"pair", "cell", "method"}:
            changes["channel"] = None
        return dataclasses.replace(self, **changes)

    def of_layer(self, source: LayerSource) -> LayerState:
        """Return the state with another layer, a built-in one under its own schemes.

        >>> opening().of_layer(BuiltInLayer("loud_weight")).pair
        Pair(weights='int4_per_tensor', inputs='int8_per_tensor', static=True)
        """
        pair = usual_pair(source) or self.pair
        found = self.replace(source=source, pair=pair, cell=None, channel=None, lines=None, held=None)
        return found.fitting()

    def fitting(self) -> LayerState:
        """Return the state as its layer can have it, with the nearest schemes that fit."""
        shape = self.source.shape
        tokens, inputs, outputs = shape
        found = self
        if self.cell is not None and (self.cell[0] >= tokens or self.cell[1] >= outputs):
            found = found.replace(cell=None)
        if self.channel is not None and self.channel >= inputs:
            found = found.replace(channel=None)
        if self.lines is not None and not self.lines.within(shape):
            found = found.replace(lines=None)
        if self.pair.problem(shape):
            weights, activations = _sides(shape)
            pair = Pair(
                _fitted(self.pair.weights, weights), _fitted(self.pair.inputs, activations), self.pair.static
            )
            found = found.replace(pair=pair)
        return found


def opening() -> LayerState:
    """Return the state with which the page opens."""
    source = BuiltInLayer(FIRST)
    return LayerState(source, usual_pair(source) or PAIRS["w8a8_token"])


def usual_pair(source: LayerSource) -> Pair | None:
    """Return the schemes under which a built-in layer shows what it is for; None of another layer."""
    if not isinstance(source, BuiltInLayer):
        return None
    return Pair(_by_lines(source.weights, "output"), _by_lines(source.inputs, "token"))


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


def write_link(state: LayerState) -> dict[str, str]:
    """Return the state as query parameters.

    >>> write_link(opening().replace(cell=(3, 1)))["c"]
    '3.1'
    """
    parts = {
        "l": write_layer(state.source),
        "w": state.pair.weights,
        "a": state.pair.inputs,
        "d": "" if state.pair.static else "1",
        "h": str(state.seed) if state.seed else "",
        "c": "" if state.cell is None else ".".join(map(str, state.cell)),
        "j": "" if state.channel is None else str(state.channel),
        "e": state.shown if state.shown != SHOWN[0] else "",
        "v": "" if state.lines is None else str(state.lines),
        "z": "" if state.held is None else "_".join(map(repr, state.held)),
        "y": _BETWEEN.join(map(str, state.compared)),
        "m": "" if state.method == NEAREST else state.method,
        "t": state.tab or "",
    }
    for name, field in _OF_INTEGERS.items():
        value = getattr(state, field)
        parts[name] = "" if value == getattr(LayerState, field) else value
    return {name: value for name, value in parts.items() if value}


def read_link(
    params: Mapping[str, str], *, present: bool = True, own: Iterable[LayerSource] = ()
) -> tuple[LayerState, tuple[QuantVizError, ...]]:
    """Return the state of a link, and an error for each part of it that could not be used.

    A layer of a file that is not there cannot be used, unless it need not be `present`. One of uploads is
    that of the same text form among the person's `own`, the newest first.

    >>> state = LayerState(BuiltInLayer("loud_weight"), PAIRS["w8a32"], 3, (1, 2), 0, "x")
    >>> read_link(write_link(state)) == (state, ())
    True
    >>> print(read_link({"w": "int9"})[1][0])  # doctest: +ELLIPSIS
    This part of the link could not be used: the scheme of the weights. ...
    """
    state = opening()
    if sum(map(len, params.values())) > LONGEST:
        return state, (QuantVizError("link.too_long", longest=LONGEST),)

    def of_layer(state: LayerState, form: str) -> LayerState:
        kept = next((each for each in own if write_layer(each) == form), None)
        return state.of_layer(kept or parse_layer(form, present=present))

    problems = []
    left = set(params)
    for name, read in {"l": of_layer, **_READ}.items():
        if name in left:
            try:
                state = read(state, params[name])
            except QuantVizError as problem:
                part = QuantVizError(f"link.names.layer_{name}")
                problems.append(QuantVizError("link.part", part=part, reason=problem))
                if name == "l":
                    left -= _OF_LAYER
    return state.fitting(), tuple(problems)


def _read_arithmetic(state: LayerState, form: str, field: str) -> LayerState:
    # Engines and methods stand with their arithmetic, which needs torch.
    from quantviz.layers.integer_engines import ACTIVATIONS, INTEGER_ENGINES
    from quantviz.layers.integers_of_layer import OUTPUT_FORMATS
    from quantviz.layers.methods.chain import as_chain

    if field == "method":
        # In an address that a person typed, + is a space.
        return state.replace(method=str(as_chain(form.replace(" ", "+"))))
    known = {"engine": INTEGER_ENGINES, "output_format": OUTPUT_FORMATS, "activation": ACTIVATIONS}
    return state.replace(**{field: _one_of(form, known[field])})


def _with_pair(state: LayerState, **changes: Any) -> LayerState:
    return dataclasses.replace(state, pair=dataclasses.replace(state.pair, **changes))


def _read_scheme(form: str) -> str:
    _scheme(form)
    return form


def _read_numbers(form: str, count: int) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,9}" + r"\.\d{1,9}" * (count - 1), form, re.ASCII):
        raise QuantVizError("link.place", got=form)
    return tuple(map(int, form.split(".")))


def _read_cell(form: str) -> tuple[int, int]:
    token, output = _read_numbers(form, 2)
    return token, output


def _read_lines(form: str) -> Lines:
    axes = [_read_cell(part) for part in form.split("_")]
    if len(axes) != 3 or any(first >= last for first, last in axes):
        raise QuantVizError("link.place", got=form)
    return Lines(*axes)


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


def _read_pairs(form: str) -> tuple[Pair, ...]:
    pairs = form.split(_BETWEEN)
    if len(pairs) > MOST_PAIRS:
        raise QuantVizError("link.others", got=len(pairs), most=MOST_PAIRS)
    return tuple(map(read_pair, pairs))


def read_pair(form: str) -> Pair:
    """Return the pair written as `form`, as `str` writes it.

    Raises:
        QuantVizError: There is no such pair.
    """
    weights, *rest = form.split(_WITHIN)
    if len(rest) not in (1, 2) or rest[1:] not in ([], ["d"]):
        raise QuantVizError("link.place", got=form)
    return Pair(_read_scheme(weights), _read_scheme(rest[0]), static=len(rest) == 1)


def _one_of(form: str, known: Collection[str]) -> str:
    if form not in known:
        raise QuantVizError("link.choice", got=form, known=", ".join(known))
    return form


_READ: Mapping[str, Callable[[LayerState, str], LayerState]] = MappingProxyType(
    {
        "w": lambda state, form: _with_pair(state, weights=_read_scheme(form)),
        "a": lambda state, form: _with_pair(state, inputs=_read_scheme(form)),
        "d": lambda state, form: _with_pair(state, static=_one_of(form, ("0", "1")) == "0"),
        "h": lambda state, form: state.replace(seed=_read_numbers(form, 1)[0]),
        "c": lambda state, form: state.replace(cell=_read_cell(form)),
        "j": lambda state, form: state.replace(channel=_read_numbers(form, 1)[0]),
        "e": lambda state, form: state.replace(shown=_one_of(form, SHOWN)),
        "v": lambda state, form: state.replace(lines=_read_lines(form)),
        "z": lambda state, form: state.replace(held=_read_held(form)),
        "y": lambda state, form: state.replace(compared=_read_pairs(form)),
        "t": lambda state, form: state.replace(tab=_one_of(form, TABS)),
        "g": lambda state, form: _read_arithmetic(state, form, "engine"),
        "f": lambda state, form: _read_arithmetic(state, form, "output_format"),
        "r": lambda state, form: _read_arithmetic(state, form, "activation"),
        "m": lambda state, form: _read_arithmetic(state, form, "method"),
    }
)


def name_of_pair(pair: Pair) -> str | None:
    """Return the id of a pair among `PAIRS`, if it has one."""
    return next((name for name, each in PAIRS.items() if each == pair), None)


def pairs_compared(state: LayerState) -> tuple[Pair, ...]:
    """Return the compared pairs that fit the layer, the present one first."""
    chosen: Iterable[Pair] = state.compared or (PAIRS[name] for name in COMPARED)
    fitting = (each for each in chosen if not each.problem(state.source.shape))
    return tuple(dict.fromkeys((state.pair, *fitting)))[:MOST_PAIRS]
