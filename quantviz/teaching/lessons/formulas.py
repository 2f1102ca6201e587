"""Formulas in lessons: arithmetic over numbers of the core, for right answers and likely mistakes.

A formula such as `row.mse / column.mse` is read into a tree of the operations listed here; none of it runs as
Python. A bare name is a quantity of the step's own state, `row.mse` that of the state called `row`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import number, raised
from quantviz.lab.state import LabState
from quantviz.lab.typed_numbers import BINARY
from quantviz.teaching.lessons.dials import DIAL_NUMBERS, dial_number
from quantviz.text import DEFAULT_LANGUAGE, templates

if TYPE_CHECKING:
    import torch

    from quantviz.quantization.explanation import Explanation
    from quantviz.quantization.result import QuantResult
    from quantviz.schemes.scheme import Scheme

#: The step's own state, in formulas and tables.
HERE = "here"
#: In a drag: the state before it, and the right one.
START = "start"
SOLUTION = "solution"
#: In a step's words: the state with the learner's changes.
HAND = "hand"


# ---- the states behind the formulas -------------------------------------------------------------


class Scene:
    """A state and its quantization, computed at first use."""

    def __init__(self, state: LabState) -> None:
        self.state = state
        #: Results that other modules have computed from it, by keys of theirs.
        self.kept: dict[object, Any] = {}

    @cached_property
    def result(self) -> QuantResult:
        from quantviz.quantization.quantizer import quantize

        return quantize(self.state.source.tensor(), self.state.scheme)

    @cached_property
    def why(self) -> Explanation:
        from quantviz.quantization.explanation import explain

        return explain(self.result, self.state.cell)

    @cached_property
    def block(self) -> torch.Tensor:
        from quantviz.quantization.explanation import block_of_cell

        return block_of_cell(self.result, self.state.cell)


Scenes = Mapping[str, Scene]
Quantity = Callable[[Scene], float]


#: A difference of less than this share is float32's own rounding.
_RESIDUE = 2.0**-21


def _settled(made: float, *of: float) -> float:
    """Return a difference of float32 numbers, 0 where their rounding alone has made it.

    >>> _settled(0.1 + 0.2 - 0.3, 0.3), _settled(0.01, 3.0)
    (0.0, 0.01)
    """
    return 0.0 if abs(made) < _RESIDUE * max(map(abs, of)) else made


def _squares(scene: Scene) -> torch.Tensor:
    import torch

    return scene.result.error.to(torch.float64).square()


def _range(scene: Scene) -> tuple[float, float]:
    """Return the range behind the scale of the selected cell's block; `ValueError` for none."""
    if scene.why.range is None:
        raise ValueError
    lo, hi = scene.why.range
    far = max(-lo, hi)
    return (-far, far) if scene.state.scheme.mode == "symmetric" else (lo, hi)


def _codebook_sqnr_db(scene: Scene) -> float:
    """Return the SQNR of a codebook that k-means makes for the tensor, as large as the format's."""
    from quantviz.analysis.source_bounds import Atoms, lloyd_max, sqnr_db

    atoms = Atoms.of(scene.result.x.numpy())
    noise = lloyd_max(atoms, scene.state.scheme.number_format.levels)
    return float(sqnr_db(atoms.power, [noise])[0])


#: Held-back excerpts on which the twin's cost is measured.
_TWIN_PIECES = 4


def _twin_cost(treatment: str, scene: Scene) -> float:
    """Return the KL divergence of the built-in twin, in bits a character."""
    return _twin_costs(scene.state.scheme)[treatment]


@lru_cache(maxsize=4)
def _twin_costs(weights: Scheme) -> Mapping[str, float]:
    from quantviz.models.character_model import TWIN, tokens_of
    from quantviz.models.salient_channels import salient_costs

    pieces = tokens_of("held_back")[:_TWIN_PIECES]
    found = salient_costs(TWIN, weights, pieces)
    return MappingProxyType({name.replace(" ", "_"): cost.kl for name, cost in found.items()})


#: The treatments of salient channels that formulas name, as in `twin_kl_nothing`.
_TREATMENTS = ("nothing", "activation", "weight", "random", "scaled_2", "scaled_4", "scaled_8")
#: Quantities besides `metric_formulas.METRICS`.
QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        # the number format
        "bits": lambda s: s.state.scheme.number_format.bits,
        "code_min": lambda s: s.state.scheme.code_min,
        "code_max": lambda s: s.state.scheme.code_max,
        # the selected cell
        "x": lambda s: s.why.x,
        "q": lambda s: s.why.q,
        "x_hat": lambda s: s.why.x_hat,
        "error": lambda s: _settled(s.why.error, s.why.x),
        "abs_error": lambda s: abs(_settled(s.why.error, s.why.x)),
        "error_share": lambda s: s.why.error**2 / float(_squares(s).sum()),
        "zeroed": lambda s: s.why.cause == "zeroed",
        "clipped": lambda s: s.why.cause == "clipped",
        # the selected cell's block
        "scale": lambda s: s.why.scale,
        "zero_point": lambda s: s.why.zero_point,
        "wanted_zero_point": lambda s: _settled(
            s.state.scheme.code_min - float(s.block.min()) / s.why.scale, s.state.scheme.code_min
        ),
        "range_lo": lambda s: _range(s)[0],
        "range_hi": lambda s: _range(s)[1],
        "block_size": lambda s: s.block.numel(),
        "block_min": lambda s: float(s.block.min()),
        "block_max": lambda s: float(s.block.max()),
        "block_absmax": lambda s: float(s.block.abs().max()),
        # the whole tensor
        "rows": lambda s: s.state.source.shape[0],
        "cols": lambda s: s.state.source.shape[-1],
        "count": lambda s: s.result.x.numel(),
        "scales": lambda s: s.result.layout.block_count,
        "x_min": lambda s: float(s.result.x.min()),
        "x_max": lambda s: float(s.result.x.max()),
        "x_absmax": lambda s: float(s.result.x.abs().max()),
        "q_min": lambda s: float(s.result.q.min()),
        "q_max": lambda s: float(s.result.q.max()),
        "scale_min": lambda s: float(s.result.qparams.scale.min()),
        "scale_max": lambda s: float(s.result.qparams.scale.max()),
        "clipped_count": lambda s: int(s.result.clipped.sum()),
        "zeroed_count": lambda s: int(((s.result.x != 0) & (s.result.x_hat == 0)).sum()),
        "mean_abs_error": lambda s: float(s.result.error.abs().mean()),
        "codebook_sqnr_db": _codebook_sqnr_db,
        "exact_count": lambda s: int((s.result.error == 0).sum()),
        "first_q": lambda s: int(s.result.q.flatten()[0]),
        # the built-in twin whose layers have the scheme
        **{f"twin_kl_{name}": partial(_twin_cost, name) for name in _TREATMENTS},
        **{name: lambda s, name=name: dial_number(s.state, name) for name in DIAL_NUMBERS},  # type: ignore[misc]
    }
)


def _layer_mse(weights: Scene, inputs: Scene, x_hat: torch.Tensor) -> float:
    import torch

    outer = inputs.result.x.to(torch.float64)
    return float((outer @ (x_hat.to(torch.float64) - weights.result.x.to(torch.float64)).T).square().mean())


def _one_output(weights: Scene, inputs: Scene, of: torch.Tensor) -> float:
    """Return the product of the first row of inputs and the selected cell's row of weights."""
    import torch

    return float(
        inputs.result.x.to(torch.float64).reshape(-1, of.shape[-1])[0]
        @ of.to(torch.float64)[weights.state.cell[0]]
    )


def _plus(weights: Scene) -> torch.Tensor:
    """Return x̂ = s·q + z, as notebook 003 has it."""
    from quantviz.tensors import blocks

    r = weights.result
    return r.scale_of_cells() * r.q + blocks.expand(r.qparams.zero_point, r.layout, r.shape)


#: Functions of whole states, called with their names.
STATE_FUNCTIONS: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        "output": lambda weights, inputs: _one_output(weights, inputs, weights.result.x),
        "output_hat": lambda weights, inputs: _one_output(weights, inputs, weights.result.x_hat),
        "output_of_codes": lambda weights, inputs: _one_output(weights, inputs, weights.result.q),
        "output_mse": lambda weights, inputs: _layer_mse(weights, inputs, weights.result.x_hat),
        "output_mse_plus": lambda weights, inputs: _layer_mse(weights, inputs, _plus(weights)),
        "mse_plus": lambda weights: float((_plus(weights) - weights.result.x).double().square().mean()),
        "different_cells": lambda one, other: int((one.result.x_hat != other.result.x_hat).sum()),
        "worse_cells": lambda old, new: int((new.result.error.abs() > old.result.error.abs()).sum()),
    }
)
FUNCTIONS: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        "min": min,
        "max": max,
        "abs": abs,
        "round": round,
        "floor": math.floor,
        "ceil": math.ceil,
        "sqrt": math.sqrt,
        "log2": math.log2,
        "log10": math.log10,
    }
)
#: Numbers that need no state.
CONSTANTS: Mapping[str, float] = MappingProxyType({"rounding_rmse_steps": 1 / math.sqrt(12)})


@cache
def quantities() -> Mapping[str, Quantity]:
    from quantviz.evaluation.metric_formulas import METRICS

    of_metrics = {name: lambda scene, metric=metric: metric(scene.result) for name, metric in METRICS.items()}
    return MappingProxyType({**of_metrics, **QUANTITIES})


# ---- reading and working out --------------------------------------------------------------------

_COMPARED: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = MappingProxyType(
    {
        ast.Lt: operator.lt,
        ast.Gt: operator.gt,
        ast.LtE: operator.le,
        ast.GtE: operator.ge,
        # Two ways to the same number differ in the last bits.
        ast.Eq: lambda a, b: math.isclose(a, b, rel_tol=1e-9),
        ast.NotEq: lambda a, b: not math.isclose(a, b, rel_tol=1e-9),
    }
)
#: Limits of a formula, which is for a person to read.
LONGEST = 200
_LARGEST_POWER = 64


@dataclass(frozen=True)
class Formula:
    """A formula that was read and whose names are known.

    >>> Formula.read("(3 + 1) / 8").value({})
    0.5
    >>> Formula.read("__import__('os')")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    quantviz.errors.QuantVizError: Unknown function in the formula: got '__import__'. Use one of ...
    """

    text: str

    @classmethod
    def read(cls, text: str, states: Collection[str] = (HERE,)) -> Formula:
        formula = cls(text)
        _Checker(text, states).visit(formula.tree)
        return formula

    @cached_property
    def tree(self) -> ast.expr:
        if len(self.text) > LONGEST:
            raise QuantVizError("formulas.too_long", got=len(self.text), longest=LONGEST)
        try:
            return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise QuantVizError("formulas.unreadable", got=self.text) from None

    def value(self, scenes: Scenes, *, shown: bool = False) -> float:
        """Return its value, `QuantVizError` for none, such as 1 / 0; `shown`: of numbers as on the screen."""
        try:
            return _value(self.tree, scenes, shown)
        except (ArithmeticError, ValueError, TypeError) as problem:
            if isinstance(problem, QuantVizError):
                raise
            raise QuantVizError("formulas.no_number", got=self.text) from None

    @cached_property
    def named(self) -> tuple[tuple[str, str], ...]:
        """The quantities that it names, each with its state, in the order of the text."""
        return tuple(dict.fromkeys(_named(self.tree)))

    @cached_property
    def subject(self) -> tuple[str, str] | None:
        """The one quantity left of its first comparison, with its state.

        >>> Formula("col.mse <= mse and col.mse < all.mse").subject
        ('col', 'mse')
        """
        first = self.tree.values[0] if isinstance(self.tree, ast.BoolOp) else self.tree
        if isinstance(first, ast.Compare) and isinstance(first.left, ast.Name | ast.Attribute):
            return next(_named(first.left), None)
        return None

    def holds(self, scenes: Scenes) -> bool:
        return bool(self.value(scenes))

    def holds_as_shown(self, scenes: Scenes) -> bool:
        """Return whether it is true of the numbers as on the screen: those that look alike count as equal."""
        return bool(self.value(scenes, shown=True))


def _named(node: ast.expr) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Name(id=name) if name not in CONSTANTS:
            yield HERE, name
        case ast.Attribute(value=ast.Name(id=state), attr=name):
            yield state, name
        case ast.Call(func=ast.Name(id=name), args=args) if name in STATE_FUNCTIONS:
            yield from ((arg.id, name) for arg in args if isinstance(arg, ast.Name))
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr) and not (isinstance(node, ast.Call) and child is node.func):
                    yield from _named(child)


class _Checker:
    """Refuses nodes that are not part of the language."""

    def __init__(self, text: str, states: Collection[str]) -> None:
        self.text = text
        self.states = states
        self.quantities = quantities()

    def visit(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return
            case ast.Name(id=name):
                if name not in CONSTANTS:
                    self._name(name)
            case ast.Attribute(value=ast.Name(id=state), attr=name):
                self._state(state)
                self._name(name)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                self._all(left, right)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
                self.visit(operand)
            case ast.BoolOp(values=values):
                self._all(*values)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in _COMPARED for op in ops
            ):
                self._all(left, *others)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                self._call(name, args)
            case _:
                raise QuantVizError("formulas.unreadable", got=self.text)

    def _all(self, *nodes: ast.expr) -> None:
        for node in nodes:
            self.visit(node)

    def _call(self, name: str, args: list[ast.expr]) -> None:
        if name in FUNCTIONS:
            return self._all(*args)
        if name not in STATE_FUNCTIONS:
            raise QuantVizError(
                "formulas.unknown_function", got=name, known=", ".join(sorted({*FUNCTIONS, *STATE_FUNCTIONS}))
            )
        wanted = STATE_FUNCTIONS[name].__code__.co_argcount
        if len(args) != wanted or not all(isinstance(arg, ast.Name) for arg in args):
            raise QuantVizError(
                "formulas.states_wanted", function=name, count=wanted, known=", ".join(self.states)
            )
        for arg in args:
            self._state(arg.id)  # type: ignore[attr-defined]

    def _state(self, name: str) -> None:
        if name not in self.states:
            raise QuantVizError("formulas.unknown_state", got=name, known=", ".join(self.states))

    def _name(self, name: str) -> None:
        if name not in self.quantities:
            raise QuantVizError(
                "formulas.unknown_name", got=name, known=", ".join(sorted({*self.quantities, *CONSTANTS}))
            )


#: Significant digits of a metric on its tile (`tiles.metric_texts`); other numbers have four.
_SHOWN_DIGITS: Mapping[str, int] = MappingProxyType({"sqnr_db": 3, "zeroed_share": 3, "clipped_share": 3})
_MOST_SHOWN = 4


def as_shown(value: float, digits: int = _MOST_SHOWN) -> float:
    """Return `value` rounded to so many significant digits, ties to the even digit.

    >>> as_shown(0.0122849), as_shown(0.39996, 3), as_shown(float("inf"))
    (0.01228, 0.4, inf)
    """
    return float(f"{value:.{digits - 1}e}") if math.isfinite(value) else value


def _value(node: ast.expr, scenes: Scenes, shown: bool = False) -> float:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if shown and name in _SHOWN_DIGITS:
            return as_shown(_value(node, scenes), _SHOWN_DIGITS[name])
        case ast.Constant(value=value):
            return value  # type: ignore[return-value]
        case ast.Name(id=name):
            return CONSTANTS[name] if name in CONSTANTS else quantities()[name](scenes[HERE])
        case ast.Attribute(value=ast.Name(id=state), attr=name):
            return quantities()[name](scenes[state])
        case ast.BinOp(left=left, op=op, right=right):
            a = _value(left, scenes)
            b = _value(right, scenes)
            if isinstance(op, ast.Pow) and abs(b) > _LARGEST_POWER:
                raise ArithmeticError
            made = BINARY[type(op)](a, b)
            return _settled(made, a, b) if isinstance(op, ast.Add | ast.Sub) else made
        case ast.UnaryOp(op=op, operand=operand):
            if isinstance(op, ast.Not):
                return not _value(operand, scenes, shown)
            inner = _value(operand, scenes)
            return -inner if isinstance(op, ast.USub) else inner
        case ast.BoolOp(op=op, values=values):
            return (all if isinstance(op, ast.And) else any)(_value(each, scenes, shown) for each in values)
        case ast.Compare(left=left, ops=ops, comparators=others):
            numbers = [_value(each, scenes, shown) for each in (left, *others)]
            numbers = list(map(as_shown, numbers)) if shown else numbers
            return all(_COMPARED[type(op)](a, b) for op, a, b in zip(ops, numbers, numbers[1:], strict=False))
        case ast.Call(func=ast.Name(id=name), args=args):
            if name in STATE_FUNCTIONS:
                return STATE_FUNCTIONS[name](*(scenes[arg.id] for arg in args))  # type: ignore[attr-defined]
            return FUNCTIONS[name](*(_value(arg, scenes) for arg in args))
    raise AssertionError(ast.dump(node))


# ---- numbers in words ---------------------------------------------------------------------------

_HOLE = re.compile(r"\{([^{}|]*)(?:\|([^{}|]*))?\}")
#: The beginning of a piece of HTML.
_HTML = re.compile(r"<[a-zA-Z/!][^\s>]*")
#: A term of the glossary, `[[scale]]` or `[[scale|scales]]`; bold where the course introduces it.
_TERM = re.compile(r"(\*\*)?\[\[(\w+)(?:\|([^\[\]|]+))?\]\](?(1)\*\*)")
#: Permanent ids of terms, in the order of the alphabet; their words are in `quantviz/text`, under `glossary`.
TERMS = tuple(templates("glossary.met_by", DEFAULT_LANGUAGE))
#: Significant digits of a number in words, unless the words set them.
_DIGITS = 4


@dataclass(frozen=True)
class Words:
    """A text with formulas in braces: `the scale is {scale}`, `{mse|3}` to three digits, `{clipped_share|%}`
    as a share. A term of the glossary stands in double brackets.

    >>> Words.read("half is {1 / 2}, a third {1 / 3|2}, a quarter {1 / 4|%}").say({})
    'half is 0.5, a third 0.33, a quarter 25 %'
    >>> Words.read("a **[[zero_point]]** and two [[scale|scales]]").say({})
    'a **zero point** and two scales'
    """

    text: str

    def __post_init__(self) -> None:
        """Refuse HTML: a page shows terms as HTML, and nothing else may be."""
        if found := _HTML.search(self.text):
            raise QuantVizError("lessons.html", got=found[0])

    @classmethod
    def read(cls, text: str, states: Collection[str] = (HERE,)) -> Words:
        for match in _HOLE.finditer(text):
            Formula.read(match[1], states)
            if match[2] is not None and not re.fullmatch(r"[1-9]|%|\^|\+[1-9]?", match[2]):
                raise QuantVizError("formulas.bad_digits", got=match[2])
        for match in _TERM.finditer(text):
            if match[2] not in TERMS:
                raise QuantVizError("lessons.unknown_term", got=match[2], known=", ".join(TERMS))
        return cls(text.strip())

    def say(self, scenes: Scenes, term: Callable[[str, str], str] | None = None) -> str:
        """Return the text with its numbers; `term` makes a term's HTML of its id and its words."""

        def words_of(match: re.Match[str]) -> str:
            words = match[3] or match[2].replace("_", " ")
            if term:
                # Beside 汉字 Markdown takes two stars for no beginning of bold.
                return f"<b>{term(match[2], words)}</b>" if match[1] else term(match[2], words)
            return f"**{words}**" if match[1] else words

        numbers = _HOLE.sub(
            lambda match: self._number(Formula(match[1]).value(scenes), match[2] or ""), self.text
        )
        return _TERM.sub(words_of, numbers)

    @property
    def terms(self) -> tuple[tuple[str, bool], ...]:
        """The marked terms, each with whether the course introduces it here.

        >>> Words("a **[[scale]]** of [[bit|bits]]").terms
        (('scale', True), ('bit', False))
        """
        return tuple((match[2], bool(match[1])) for match in _TERM.finditer(self.text))

    @staticmethod
    def _number(value: float, form: str) -> str:
        if form == "%":
            return f"{100 * value:.3g} %"
        if form == "^":
            return raised(number(value))
        signed = form.startswith("+")
        digits = form.lstrip("+")
        return number(float(value), int(digits) if digits else _DIGITS, signed=signed)
