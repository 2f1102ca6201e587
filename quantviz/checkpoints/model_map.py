"""A model as a map: layers by kinds, a number in each square, from the rows of a scan.

model = read_model(listed, rows)
data = model_map(model, "int4_g128", "sqnr_db")
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from quantviz.checkpoints.model.tensor_names import TensorPlace, place_of_name, short_names, short_stacks
from quantviz.checkpoints.results.rows import UNREAD, ResultRow
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.catalog import is_whole

#: Colours: dB, dB against the median of the kind, two measures of outliers, and the recipe of most SQNR among
#: those of no more bits.
COLOURS = ("sqnr_db", "against_median", "peak_rms", "kurtosis", "winner")
#: Colour by recipe, where one was chosen for each tensor.
CHOICE = "choice"
#: Colour by SQNR, where a quantized checkpoint is compared with its original, with unread tensors marked.
AUDIT = "audit"
_LOW_IS_BAD = frozenset(("sqnr_db", "against_median", "difference", AUDIT))
#: Additional bits a weight of a recipe that still counts as of the same size.
_SAME_BITS = 0.01

#: Rows times columns of a map: a picture holds a number for each, whether a tensor stands there or not.
MOST_CELLS = 2**19


@dataclass(frozen=True, eq=False)
class ModelTensor:
    name: str
    shape: Shape
    dtype: str
    file: str
    place: TensorPlace
    rows: Mapping[str, ResultRow] = field(default_factory=dict)

    def row(self, recipe: str) -> ResultRow:
        waiting = ResultRow(self.name, recipe, "waiting", shape=self.shape, dtype=self.dtype, file=self.file)
        return self.rows.get(recipe, waiting)

    def number(self, recipe: str, name: str) -> float:
        row = self.rows.get(recipe)
        value = row.number(name) if row is not None and row.status == "ok" else None
        return math.nan if value is None else value

    @property
    def is_weight(self) -> bool:
        if self.rows:
            return any(row.status != "left_aside" for row in self.rows.values())
        return len(self.shape) != 1

    @property
    def is_matrix_aside(self) -> bool:
        """Return whether it is a matrix of numbers that is left aside, such as an embedding."""
        return len(self.shape) > 1 and not self.is_weight and not is_whole(self.dtype)

    def status(self, recipe: str) -> str:
        row = self.rows.get(recipe)
        return "waiting" if row is None else row.status


@dataclass(frozen=True, eq=False)
class ScannedModel:
    tensors: tuple[ModelTensor, ...]
    recipes: tuple[str, ...]

    def medians(self, recipe: str) -> Mapping[str, float]:
        """Return the median SQNR of each kind in dB; of a kind of one tensor that of all."""
        return self._medians.get(recipe, {})

    @cached_property
    def _medians(self) -> dict[str, dict[str, float]]:
        medians = {}
        for recipe in self.recipes:
            by_kind: dict[str, list[float]] = {}
            for tensor in self.weights:
                value = tensor.number(recipe, "sqnr_db")
                if math.isfinite(value):
                    by_kind.setdefault(tensor.place.kind, []).append(value)
            every = [value for values in by_kind.values() for value in values]
            of_all = statistics.median(every) if every else math.nan
            medians[recipe] = {
                kind: statistics.median(values) if len(values) > 1 else of_all
                for kind, values in by_kind.items()
            } | {"": of_all}
        return medians

    @cached_property
    def weights(self) -> tuple[ModelTensor, ...]:
        """Return the tensors that are not left aside; of those that wait the ones of two axes or more. All,
        where there are none. Indices and masks are none.
        """
        numbers = tuple(tensor for tensor in self.tensors if not is_whole(tensor.dtype))
        return tuple(tensor for tensor in numbers if tensor.is_weight) or numbers

    @cached_property
    def by_name(self) -> Mapping[str, ModelTensor]:
        """Return the tensors by name; of two of one name the first."""
        return {tensor.name: tensor for tensor in reversed(self.tensors)}

    @cached_property
    def by_place(self) -> Mapping[TensorPlace, ModelTensor]:
        """Return the tensors by place; of two at one place the first."""
        return {tensor.place: tensor for tensor in reversed(self.tensors)}


_WAITING = ResultRow("", "", "waiting")


@dataclass(frozen=True)
class Square:
    #: Row and column, from 0; row −1 is the strip of tensors of no layer.
    row: int
    column: int
    #: Its tensor, or the worst of `count`.
    tensor: str
    count: int
    #: "ok", "left_aside", "refused", "not_read", "problem" or "waiting", and the value where it is ok; "kept"
    #: where a choice leaves it as it is stored.
    status: str
    value: float
    #: The recipe that wins, where the colour is "winner".
    winner: str = ""
    #: The layer whose experts it stands for, or "".
    opens: str = ""
    found: ResultRow = _WAITING


@dataclass(frozen=True, eq=False)
class ModelMap:
    colour: str
    rows: tuple[str, ...]
    #: In full, and as short as they stay distinct.
    kinds: tuple[str, ...]
    short_kinds: tuple[str, ...]
    strip: tuple[str, ...]
    squares: tuple[Square, ...]
    #: Tensors without a square: biases and norms.
    left_out: int = 0
    recipes: tuple[str, ...] = ()
    recipe: str = ""
    #: Tensors of rare kinds without a square, because the map would be too large.
    crowded: int = 0
    #: Tensors by status, and those with another type than the recipe, by type.
    statuses: Mapping[str, int] = field(default_factory=dict)
    instead: Mapping[str, int] = field(default_factory=dict)


def read_model(
    listed: Iterable[tuple[str, Shape, str, str]], rows: Iterable[ResultRow], recipes: Sequence[str]
) -> ScannedModel:
    """Return a model from its tensors (name, shape, dtype, file) and the rows of a scan so far; of a name
    that is there twice, rows go to the tensor of the same file.
    """
    rows_by_tensor: dict[tuple[str, str], dict[str, ResultRow]] = {}
    for row in rows:
        rows_by_tensor.setdefault((row.tensor, str(row.file)), {})[row.recipe] = row
    return ScannedModel(
        tuple(
            ModelTensor(name, shape, dtype, file, place_of_name(name), rows_by_tensor.get((name, file), {}))
            for name, shape, dtype, file in listed
        ),
        tuple(recipes),
    )


def audited_model(rows: Iterable[Mapping[str, Any]]) -> ScannedModel:
    """Return a model from `Audit.rows`, tensors of the original alone at their places."""
    rows = list(rows)
    leads = Counter(
        _leads(row["tensor"], row["original"]) for row in rows if row["tensor"] and row["original"]
    )
    (here, there), _ = leads.most_common(1)[0] if leads else (("", ""), 0)
    statuses = {"compared": "ok", "equal": "ok", "not_quantized_here": "ok", "not_read": "not_read"}
    tensors = []
    for row in rows:
        name = str(row["tensor"] or "")
        if not name:
            name = str(row["original"])
            name = here + name[len(there) :] if name.startswith(there) else name
        # A tensor that was not read may be codes: it is a weight all the same.
        stored = " ".join(str(row[part]) for part in ("layout", "format") if row[part]) or "–"
        status = statuses.get(str(row["coverage"]), "refused")
        shape = tuple(row["shape"] or ())
        found = ResultRow(
            name, AUDIT, status, row["reason"], shape=shape, dtype=stored, became=row["coverage"]
        )
        if row["sqnr_db"] is not None:
            found = replace(found, numbers={"sqnr_db": row["sqnr_db"]})
        tensors.append(ModelTensor(name, shape, stored, "", place_of_name(name), {AUDIT: found}))
    return ScannedModel(tuple(tensors), (AUDIT,))


def _leads(one: str, other: str) -> tuple[str, str]:
    """Return the different beginnings of two names, before their common end.

    >>> _leads("model.a.weight", "module.model.a.weight"), _leads("blk.0.attn_q", "layers.0.q_proj")
    (('', 'module.'), ('blk.0.attn_q', 'layers.0.q_proj'))
    """
    own = one.split(".")
    others = other.split(".")
    same = 0
    while same < min(len(own), len(others)) and own[-1 - same] == others[-1 - same]:
        same += 1

    def lead(parts: list[str]) -> str:
        kept = parts[: len(parts) - same]
        return ".".join(kept) + ("." if kept and same else "")

    return lead(own), lead(others)


def value_of(model: ScannedModel, tensor: ModelTensor, recipe: str, colour: str) -> float:
    if colour == "against_median":
        return tensor.number(recipe, "sqnr_db") - model.medians(recipe).get(tensor.place.kind, math.nan)
    if colour == AUDIT:
        return tensor.number(recipe, "sqnr_db")
    if colour == "winner":
        won = winner_of(model, tensor, recipe)
        return float(model.recipes.index(won)) if won else math.nan
    return tensor.number(recipe, colour)


def winner_of(model: ScannedModel, tensor: ModelTensor, recipe: str) -> str:
    """Return the recipe of most SQNR among those of no more bits on this tensor; "" if nothing was
    measured.
    """
    most = tensor.number(recipe, "effective_bits") + _SAME_BITS
    contest = [
        (tensor.number(name, "sqnr_db"), name)
        for name in model.recipes
        if tensor.number(name, "effective_bits") <= most
    ]
    contest = [contender for contender in contest if not math.isnan(contender[0])]
    return max(contest, key=lambda contender: contender[0])[1] if contest else ""


def layers_with_experts(model: ScannedModel) -> tuple[str, ...]:
    layers = [
        f"{tensor.place.stack}.{tensor.place.layer}" for tensor in model.weights if tensor.place.expert >= 0
    ]
    return tuple(dict.fromkeys(layers))


def model_map(
    model: ScannedModel,
    recipe: str,
    colour: str = "sqnr_db",
    *,
    layer: str = "",
    against: tuple[ScannedModel, str] | None = None,
    choice: Mapping[str, str] | None = None,
) -> ModelMap:
    """Return the map of a model under a recipe.

    Args:
        model: The scanned model.
        recipe: The recipe that is shown.
        colour: One of `COLOURS`.
        layer: One of `layers_with_experts`, to see its experts as rows.
        against: Another model and its recipe: a square shows the SQNR there minus the one here, in dB, of
            the tensor of the same name, else of the same place.
        choice: A recipe for each tensor: a square shows that, and its card the numbers under it.
    """
    weights = _mapped(model, layer)
    strip = [tensor for tensor in weights if tensor.place.layer < 0]
    grid = _grid([tensor for tensor in weights if tensor.place.layer >= 0], of_experts=bool(layer))
    members = grid.members | {(-1, column): [tensor] for column, tensor in enumerate(strip)}
    if against:
        shown = "difference"
    elif choice is not None:
        shown = CHOICE
    else:
        shown = colour
    squares = tuple(
        _square(model, recipe, shown, against, at, tensors, bool(layer))
        if choice is None
        else _chosen(recipe, choice, at, tensors)
        for at, tensors in sorted(members.items())
    )
    return ModelMap(
        shown,
        grid.rows,
        grid.kinds,
        short_names(grid.kinds),
        tuple(tensor.place.kind for tensor in strip),
        squares,
        0 if layer else len(model.tensors) - len(weights),
        model.recipes,
        recipe,
        grid.crowded,
        Counter(tensor.status(recipe) for tensor in weights),
        Counter(row.fallback for tensor in weights if (row := tensor.rows.get(recipe)) and row.fallback),
    )


def _mapped(model: ScannedModel, layer: str) -> tuple[ModelTensor, ...]:
    """Return the tensors that have a square: weights, and other matrices; of a layer its experts alone."""
    measured = set(model.weights)
    tensors = tuple(tensor for tensor in model.tensors if tensor in measured or tensor.is_matrix_aside)
    if not layer:
        return tensors
    return tuple(
        tensor
        for tensor in tensors
        if tensor.place.expert >= 0 and f"{tensor.place.stack}.{tensor.place.layer}" == layer
    )


@dataclass(frozen=True, eq=False)
class _LayerGrid:
    rows: tuple[str, ...]
    kinds: tuple[str, ...]
    members: dict[tuple[int, int], list[ModelTensor]]
    #: Tensors of kinds without a column.
    crowded: int


def _grid(tensors: Sequence[ModelTensor], *, of_experts: bool) -> _LayerGrid:
    stacks = tuple(dict.fromkeys(tensor.place.stack for tensor in tensors))
    order = {stack: k for k, stack in enumerate(stacks)}

    def row_of(tensor: ModelTensor) -> tuple[int, int]:
        return (0, tensor.place.expert) if of_experts else (order[tensor.place.stack], tensor.place.layer)

    rows = {row: at for at, row in enumerate(sorted({row_of(tensor) for tensor in tensors}))}
    counts = Counter(tensor.place.kind for tensor in tensors)
    kinds = _fitting(tuple(counts), counts, len(rows))
    columns = {kind: at for at, kind in enumerate(kinds)}
    members: dict[tuple[int, int], list[ModelTensor]] = {}
    for tensor in tensors:
        if tensor.place.kind in columns:
            members.setdefault((rows[row_of(tensor)], columns[tensor.place.kind]), []).append(tensor)
    names = short_stacks(stacks)
    labels = tuple(f"{names[stack]} {number}".strip() for stack, number in rows)
    return _LayerGrid(labels, kinds, members, len(tensors) - sum(map(len, members.values())))


def _fitting(kinds: tuple[str, ...], counts: Mapping[str, int], rows: int) -> tuple[str, ...]:
    most = max(MOST_CELLS // max(rows, 1), 1)
    if len(kinds) <= most:
        return kinds
    largest = set(sorted(kinds, key=lambda kind: -counts[kind])[:most])
    return tuple(kind for kind in kinds if kind in largest)


def _square(
    model: ScannedModel,
    recipe: str,
    colour: str,
    against: tuple[ScannedModel, str] | None,
    at: tuple[int, int],
    tensors: Sequence[ModelTensor],
    inside: bool,
) -> Square:
    def value(tensor: ModelTensor) -> float:
        if against is not None:
            return difference(tensor, recipe, *against)
        return value_of(model, tensor, recipe, colour)

    values = [(value(tensor), tensor) for tensor in tensors]
    finite = [pair for pair in values if not math.isnan(pair[0])]
    place = tensors[0].place
    opens = f"{place.stack}.{place.layer}" if place.expert >= 0 and not inside else ""
    # One expert that was not read is not hidden by the others.
    if not finite or (colour == AUDIT and any(tensor.status(recipe) in UNREAD for tensor in tensors)):
        bad = (tensor for tensor in tensors if tensor.status(recipe) in UNREAD)
        worst = next(bad, tensors[0])
        status = worst.status(recipe)
        status = "refused" if status == "ok" else status
        worst_row = worst.row(recipe)
        return Square(*at, worst.name, len(tensors), status, math.nan, "", opens, worst_row)
    pick = min if colour in _LOW_IS_BAD else max
    number, tensor = pick(finite, key=lambda pair: pair[0])
    winner = winner_of(model, tensor, recipe) if colour == "winner" else ""
    row = tensor.rows[recipe]
    return Square(*at, tensor.name, len(tensors), "ok", number, winner, opens, row)


def _chosen(
    recipe: str, choice: Mapping[str, str], at: tuple[int, int], tensors: Sequence[ModelTensor]
) -> Square:
    """Return a square in the colour of the most common recipe of its tensors; its card is the worst one's."""
    chosen = [tensor for tensor in tensors if tensor.name in choice]
    if chosen:
        worst = min(chosen, key=lambda tensor: tensor.number(choice[tensor.name], "sqnr_db"))
        worst_row = worst.rows[choice[worst.name]]
        number = worst.number(choice[worst.name], "sqnr_db")
        most = statistics.mode(choice[tensor.name] for tensor in chosen)
        return Square(*at, worst.name, len(tensors), "ok", number, most, "", worst_row)
    first = tensors[0]
    measured = next((row for row in first.rows.values() if row.status == "ok"), None)
    unread = first.status(recipe) if first.status(recipe) in UNREAD else "refused"
    status = "kept" if measured or first.status(recipe) == "left_aside" else unread
    shown = measured or first.row(recipe)
    return Square(*at, first.name, len(tensors), status, math.nan, "", "", shown)


def difference(tensor: ModelTensor, recipe: str, other: ScannedModel, other_recipe: str) -> float:
    """Return the SQNR of its twin in another model minus its own, in dB; NaN where one has none."""
    twin = other.by_name.get(tensor.name) or other.by_place.get(tensor.place)
    if twin is None:
        return math.nan
    here = tensor.number(recipe, "sqnr_db")
    there = twin.number(other_recipe, "sqnr_db")
    return 0.0 if here == there else there - here
