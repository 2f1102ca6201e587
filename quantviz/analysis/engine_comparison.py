"""One tensor under several engines' arithmetic: where they differ, and which rule made the difference.

A rule is a field of `Convention`. It is tried, not guessed: one convention gets the other's fields, as few
as make its cell the other's.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.code_to_value import value_operations
from quantviz.quantization.explanation import Explanation, Step, explain
from quantviz.quantization.grids import GRIDS
from quantviz.quantization.operations import NamedTensors, Operation, run_operations
from quantviz.quantization.quantizer import choose_qparams, quantize
from quantviz.quantization.result import QuantResult, block_values
from quantviz.quantization.value_to_code import code_of, code_operations, rule_of_blocks
from quantviz.schemes.arithmetic import HALVES, Offer
from quantviz.schemes.calibration import Given
from quantviz.schemes.conventions import CONVENTIONS, Convention
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks
from quantviz.tensors.conversion import as_input, torch_dtype

#: With the value that each of two conventions has.
Fields = Mapping[str, tuple[object, object]]


@dataclass(frozen=True, eq=False)
class Comparison:
    """One tensor and scheme under several conventions, each by its text form."""

    #: In the order of the call.
    results: Mapping[str, QuantResult]
    refused: Mapping[str, QuantVizError]
    #: Of any two, bool of the tensor's shape.
    codes_differ: torch.Tensor
    #: By however little; 0 and -0 are one value.
    values_differ: torch.Tensor
    #: Conventions that agree in every code and value, in the order of the call.
    groups: tuple[tuple[str, ...], ...]

    @property
    def lit(self) -> torch.Tensor:
        return self.codes_differ | self.values_differ


@dataclass(frozen=True, eq=False)
class Difference:
    #: Bool of the tensor's shape.
    codes: torch.Tensor
    values: torch.Tensor
    #: In the first result's steps.
    largest_steps: float
    #: In units in the last place: float32 numbers from one to the other.
    largest_ulps: int

    @property
    def either(self) -> torch.Tensor:
        return self.codes | self.values


@dataclass(frozen=True, eq=False)
class Rule:
    """A few fields of two conventions that make the difference in some cells."""

    #: Bool of the tensor's shape.
    cells: torch.Tensor
    fields: Fields


@dataclass(frozen=True)
class DifferenceCause:
    index: Shape
    #: "code", or "value" where the codes are the same.
    what: str
    #: The fewest that, taken from the other convention, make the one's code (or value) the other's.
    fields: Fields
    #: The one's lines that they change, and the other's in their place.
    lines: tuple[tuple[Step, ...], tuple[Step, ...]]
    #: The cell's derivations.
    one: Explanation
    other: Explanation
    ties: tuple[str, str]

    @property
    def tie(self) -> bool:
        """Whether x lies exactly half-way between two codes under one of them."""
        return self.one.tie or self.other.tie

    @property
    def before_rounding(self) -> tuple[float, float]:
        """Return the two numbers that are rounded."""
        return self.one.before_rounding, self.other.before_rounding


def compare(
    x: Any, scheme: Scheme | str, conventions: Iterable[str | Convention] = tuple(CONVENTIONS)
) -> Comparison:
    """Quantize `x` under `scheme` with each of `conventions`: format, mode, granularity and range stay.

    A convention that does not offer the scheme, or cannot quantize this tensor, is in `refused`.

    With a scale of 0.02 numbers of two decimals often lie half-way between two codes, and the order of the
    steps decides:
    """
    scheme = as_scheme(scheme)
    tensor, _, dtype = as_input(x, scheme.nonfinite)
    # Each convention quantizes the tensor in its stored dtype.
    stored = tensor.to(torch_dtype(dtype)) if dtype in HALVES else tensor
    results: dict[str, QuantResult] = {}
    refused: dict[str, QuantVizError] = {}
    for convention in conventions:
        try:
            adapted = scheme.replace(convention=convention)
            _same_meaning(scheme, adapted)
            results[str(adapted.chosen)] = quantize(stored, adapted)
        except QuantVizError as problem:
            refused[str(convention)] = problem
    codes = torch.zeros(tensor.shape, dtype=torch.bool)
    values = torch.zeros(tensor.shape, dtype=torch.bool)
    groups: list[list[str]] = []
    for name, result in results.items():
        # A result that agrees with the first of a group agrees with all of it.
        apart = [(group, *_differing(results[group[0]], result)) for group in groups]
        alike = next((group for group, code, value in apart if not bool((code | value).any())), None)
        if alike is not None:
            alike.append(name)
            continue
        for _, code, value in apart[:1]:
            codes |= code
            values |= value
        groups.append([name])
    return Comparison(
        MappingProxyType(results), MappingProxyType(refused), codes, values, tuple(map(tuple, groups))
    )


def _same_meaning(scheme: Scheme, adapted: Scheme) -> None:
    # A zero point set by hand may be a code in one engine and a value in the other.
    mine = scheme.arithmetic.zero_domain
    theirs = adapted.arithmetic.zero_domain
    calibration = scheme.calibration
    if (
        isinstance(calibration, Given)
        and scheme.mode == "asymmetric"
        and mine.partition("_")[0] != theirs.partition("_")[0]
    ):
        raise QuantVizError(
            "comparison.zero_domain", convention=str(adapted.chosen), zero_point=calibration.zero_point
        )


def difference(one: QuantResult, other: QuantResult) -> Difference:
    """Return the difference between two results of one tensor."""
    codes, values = _differing(one, other)
    steps = ((other.x_hat - one.x_hat).abs() / one.step_of_cells()).where(values, 0.0)
    return Difference(
        codes,
        values,
        float(steps.nan_to_num(0.0, posinf=torch.finfo(torch.float32).max).max()),
        int(ulps(one.x_hat, other.x_hat).max()),
    )


def _differing(one: QuantResult, other: QuantResult) -> tuple[torch.Tensor, torch.Tensor]:
    codes = one.q != other.q
    values = ~_equal(one.x_hat, other.x_hat)
    # Cells that are left out of the metrics differ in neither.
    return (codes, values) if one.counted is None else (codes & one.counted, values & one.counted)


def _equal(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def ulps(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the count of float32 numbers from `one` to `other`, int64; 0 between 0 and -0.

    >>> ulps(torch.tensor([1.0, 0.0, -1e-45]), torch.tensor([1 + 2.0**-22, -0.0, 1e-45])).tolist()
    [2, 0, 2]
    """
    places = []
    for values in (one, other):
        bits = values.contiguous().view(torch.int32).to(torch.int64)
        places.append(torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits))
    return (places[0] - places[1]).abs()


# ---- which rule ---------------------------------------------------------------------------------


def why(comparison: Comparison, one: str, other: str, index: Shape) -> DifferenceCause:
    """Return the rule that makes two conventions differ in the cell at `index`; refused where they do not.

    >>> scheme = Scheme("int8", "asymmetric", calibration=Given(0.02, 3))
    >>> compared = compare([[0.37, 0.41, -0.25, 0.5]], scheme, ["course", "onnxruntime"])
    >>> found = why(compared, "course", "onnxruntime", (0, 0))
    >>> dict(found.fields), found.before_rounding, found.tie
    ({'order': ('divide_add_round', 'divide_round_add')}, (21.5, 18.5), True)
    >>> found.one.q, found.other.q
    (22, 21)
    >>> [[step.code_line for step in side] for side in found.lines]
    [['y = y + zero_point', 'y = round(y)'], ['y = round(y)', 'y = y + zero_point']]
    """
    results = [_result(comparison, name) for name in (one, other)]
    derived = [explain(result, index) for result in results]
    place = derived[0].index
    codes, values = _differing(*results)
    if not bool((codes | values)[place]):
        raise QuantVizError("comparison.same", index=place, one=one, other=other)
    mine, theirs = (in_effect(result.scheme) for result in results)
    ((fields, _),) = _rules(results[0].x, mine, theirs, torch.tensor([place]))
    instead = quantize(results[0].x, _with(mine, theirs, fields), strict=True)
    return DifferenceCause(
        index=place,
        what="code" if bool(codes[place]) else "value",
        fields=_valued(fields, mine, theirs),
        lines=_changed_lines(derived[0], explain(instead, place)),
        one=derived[0],
        other=derived[1],
        ties=(mine.arithmetic.ties, theirs.arithmetic.ties),
    )


def rules(comparison: Comparison, one: str, other: str, most: int | None = None) -> tuple[Rule, ...]:
    """Return the rules that make two conventions differ, each with its cells; the rule of most cells first.

    With `most`, only so many cells are explained: those of other codes first, in row-major order.
    """
    first, second = (_result(comparison, name) for name in (one, other))
    codes, values = _differing(first, second)
    places = torch.cat([torch.nonzero(codes), torch.nonzero(values & ~codes)])[:most]
    if not len(places):
        return ()
    mine = in_effect(first.scheme)
    theirs = in_effect(second.scheme)
    rules = []
    for fields, hits in _rules(first.x, mine, theirs, places):
        cells = torch.zeros_like(codes)
        cells[tuple(places[hits].unbind(-1))] = True
        rules.append(Rule(cells, _valued(fields, mine, theirs)))
    return tuple(sorted(rules, key=lambda rule: -int(rule.cells.sum())))


def in_effect(scheme: Scheme) -> Scheme:
    """Return the scheme with each rule in the field that names it, without an engine's `Offer`.

    >>> from quantviz.schemes.granularity import PerChannel
    >>> in_effect(Scheme(convention="torch")).arithmetic.order
    'fused_multiply_add_round'
    >>> in_effect(Scheme(granularity=PerChannel(0), convention="torch")).arithmetic.order
    'multiply_add_round'
    """
    convention = scheme.arithmetic
    order = rule_of_blocks(scheme, convention.order, convention.block_order)
    convention = convention.replace(order=order, block_order="same")
    return scheme.replace(convention=dataclasses.replace(convention, offer=Offer()))


def _result(comparison: Comparison, name: str) -> QuantResult:
    if name not in comparison.results:
        raise QuantVizError("comparison.unknown", got=name, known=", ".join(comparison.results))
    return comparison.results[name]


def _valued(fields: Iterable[str], mine: Scheme, theirs: Scheme) -> Fields:
    return MappingProxyType(
        {name: (mine.arithmetic.get(name), theirs.arithmetic.get(name)) for name in fields}
    )


def _with(scheme: Scheme, other: Scheme, fields: Iterable[str]) -> Scheme:
    # Fields that do not fit are refused.
    return scheme.replace(
        convention=scheme.arithmetic.replace(**{name: other.arithmetic.get(name) for name in fields})
    )


@dataclass(frozen=True, eq=False)
class _CellResults:
    code: torch.Tensor
    value: torch.Tensor
    before_rounding: torch.Tensor
    scale: torch.Tensor

    def likeness(self, other: _CellResults) -> torch.Tensor:
        # Fields that each cell shares with the other result.
        same = [
            _equal(getattr(self, field.name), getattr(other, field.name))
            for field in dataclasses.fields(self)
        ]
        return torch.stack(same).sum(0)


def _outcome(x: torch.Tensor, scheme: Scheme, places: torch.Tensor) -> _CellResults:
    """Return the results of `quantize` at `places` (cells, axes)."""
    shape = tuple(x.shape)
    fmt = scheme.number_format
    layout = scheme.layout(shape)
    at = tuple(places.unbind(-1))
    params = {
        name: blocks.expand(grid, layout, shape).expand(shape)[at]
        for name, grid in block_values(choose_qparams(x, scheme)).items()
    }
    index = torch.zeros(len(places), dtype=torch.int64)
    for i, length in zip(at, shape, strict=True):
        index = index * length + i
    rounded: list[torch.Tensor] = []

    def record(operation: Operation, values: NamedTensors, result: torch.Tensor) -> None:
        if operation.key.startswith("round"):
            rounded.append(values["y"])

    coded = run_operations(code_operations(scheme), {"x": x[at], "index": index, **params}, record)
    code = code_of(x[at], coded, scheme)
    decoded = {**params, "q": GRIDS[fmt.kind].decode(code, fmt)}
    value = run_operations(value_operations(scheme), decoded)["x_hat"]
    return _CellResults(code, value, rounded[-1], params["scale"])


def _rules(
    x: torch.Tensor, mine: Scheme, theirs: Scheme, places: torch.Tensor
) -> list[tuple[tuple[str, ...], torch.Tensor]]:
    """Return sets of fields, each with the mask of `places` that it turns to theirs."""
    names = tuple(mine.arithmetic.differences(theirs.arithmetic))
    start = _outcome(x, mine, places)
    goal = _outcome(x, theirs, places)
    by_code = start.code != goal.code

    def tried(
        fields: Iterable[str], here: torch.Tensor, back: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return whether the fields turn each cell, and how much of it is alike then."""
        of, to, end = (theirs, mine, start) if back else (mine, theirs, goal)
        try:
            outcome = _outcome(x, _with(of, to, fields), places[here])
        except (QuantVizError, KeyError, NameError):
            # Half of one engine and half of another need not be any arithmetic: one may read a number that
            # the other never computes.
            return torch.zeros(len(here), dtype=torch.bool), torch.zeros(len(here), dtype=torch.int64)
        wanted = _CellResults(*(getattr(end, field.name)[here] for field in dataclasses.fields(end)))
        turned = torch.where(by_code[here], outcome.code == wanted.code, _equal(outcome.value, wanted.value))
        return turned, outcome.likeness(wanted)

    everywhere = torch.arange(len(places))
    best = torch.zeros(len(places), dtype=torch.int64)
    chosen = torch.full((len(places),), -1)
    for number, name in enumerate(names):
        turned, alike = tried((name,), everywhere)
        if bool(turned.any()):
            # Of several fields that would do, it is the one that can be taken back, and after which most is
            # alike.
            score = torch.where(turned, 1 + alike + 10 * tried((name,), everywhere, back=True)[0], 0)
            chosen = torch.where(score > best, number, chosen)
            best = torch.maximum(score, best)
    sets: list[tuple[tuple[str, ...], torch.Tensor]] = [
        ((name,), chosen == number) for number, name in enumerate(names) if bool((chosen == number).any())
    ]
    left = chosen < 0
    while bool(left.any()):
        first = torch.nonzero(left)[:1, 0]
        fields = _fewest(names, lambda fields, cell=first: bool(tried(fields, cell)[0]))  # type: ignore[misc]
        hits = left.clone()
        hits[left] = tried(fields, everywhere[left])[0]
        sets.append((fields, hits))
        left &= ~hits
    return sets


def _fewest(names: tuple[str, ...], turns: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """Return a minimal set of names that turns the cell; of two if two are enough."""
    fewest = min((_thinned(order, turns) for order in (names, names[::-1])), key=len)
    if len(fewest) > 2:
        fewest = next((pair for pair in itertools.combinations(names, 2) if turns(pair)), fewest)
    return tuple(name for name in names if name in fewest)


def _thinned(names: tuple[str, ...], turns: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    assert turns(names)  # all of the other convention's rules are that convention
    kept = names
    for name in names:
        fewer = tuple(other for other in kept if other != name)
        kept = fewer if turns(fewer) else kept
    return kept


def _changed_lines(one: Explanation, other: Explanation) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return the lines that differ in two derivations; of a line that moved, also those that it passed."""
    mine, theirs = ([(step.code_line, step.dtype) for step in side.steps] for side in (one, other))
    codes = difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    changed = [at for at, (kind, *_) in enumerate(codes) if kind != "equal"]
    gone = {line for at in changed for line in mine[codes[at][1] : codes[at][2]]}
    if gone & {line for at in changed for line in theirs[codes[at][3] : codes[at][4]]}:
        changed = list(range(changed[0], changed[-1] + 1))
    first = tuple(step for at in changed for step in one.steps[codes[at][1] : codes[at][2]])
    second = tuple(step for at in changed for step in other.steps[codes[at][3] : codes[at][4]])
    # The same line with the same number in another dtype explains nothing.
    same = {(step.code_line, step.output) for step in first} & {
        (step.code_line, step.output) for step in second
    }
    return tuple(step for step in first if (step.code_line, step.output) not in same), tuple(
        step for step in second if (step.code_line, step.output) not in same
    )
