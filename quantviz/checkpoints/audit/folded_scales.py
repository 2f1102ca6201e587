"""Scales that AWQ, SmoothQuant and others have folded into the norm or the layer before, and factors that are
no such scales.

A weight that was multiplied by scales column by column looks ruined beside its original. They are taken from
another tensor alone, which took their reciprocals and is in both files: the norm before a layer; for `down`
and `o` the rows of `up` and `v`, and for these the columns of the former. A fit to the weight itself would
explain any wrong scale away. One factor for all columns is no fold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from quantviz.checkpoints.audit.originals import (
    Original,
    as_converted,
    bands,
    oriented,
    original_of,
    tensor_of,
)
from quantviz.checkpoints.audit.tensor_audit import TensorAudit, as_lines
from quantviz.checkpoints.model.coverage_words import percent
from quantviz.checkpoints.model.layer_names import NAMES
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.moments import Moments
from quantviz.sources.files.file_data import clipped
from quantviz.sources.layouts.decoded import ModelTensors

#: The norms that may stand before a layer, of Hugging Face and of llama.cpp: the first one that is there.
_NORMS = tuple((re.compile(each["layer"]), each["before"]) for each in NAMES["norms"])
#: Layers whose columns are scaled, each with those before it whose last rows take the scales.
_ROWS = tuple(NAMES["takers"].items())
#: Largest distance from the median of norms' factors that are one factor: norms have 16 bits.
_NEAR = 0.02
#: Distance from the median of a scaled line, and share of scaled lines of a scaled weight.
_SCALED = 0.05
_SHARE = 0.25
#: Error of a line's estimated factor in units of the noise of one value: of small values in a group with
#: large ones all may have become 0.
_SLACK = 2.0
#: Gain in dB from which factors are believed that were estimated from rounded values.
_BETTER_DB = 3.0
#: Share of the mean energy from which a line counts, and the factors that clipping may give.
_COUNTS = 0.1
_CLIPPED = (0.1, 1.5)
#: Least correlation of the logarithms of two tensors' factors that go together.
_FOLLOWS = 0.5
#: Factors are reported where the explained energy is so many dB above the rest.
_EXPLAINED_DB = 3.0
#: Fewest values of a line from which its factor is taken.
_FEWEST = 32


@dataclass(frozen=True)
class NeighbourScales:
    """A tensor in both files, in which the neighbours that can have taken its scales are looked up."""

    quantized: ModelTensors
    original: ModelTensors
    #: Its name in either.
    here: str
    there: str

    @cached_property
    def norm(self) -> Taker | None:
        """Return the norm before it, with the original's values by the quantized file's, or None."""
        pair = self._pair(norms_before)
        if pair is None or len(pair.values.shape) != 1:
            return None
        values, x = (source.read(0, source.shape[0]) for source in (pair.values, pair.x))
        # Gemma's norms are 1 more than their stored values: where that explains them, values lie about 0.
        is_shifted = not pair.x.shift and bool((x.abs().median() < 0.5) & (values + 1 > 0).all())
        shift = 1.0 if is_shifted else 0.0
        return Taker(pair.here, _usable((x + shift) / (values + shift)), _NEAR)

    @cached_property
    def before(self) -> Taker | None:
        """Return the layer before it, with the original's rows by the quantized file's, or None."""
        pair = self._pair(layers_before)
        if pair is None or len(pair.values.shape) != 2 or min(pair.values.shape) < _FEWEST:
            return None
        norm = replace(self, here=pair.here, there=pair.there).norm
        is_scaled = norm is not None and len(norm.factors) == pair.x.shape[1]
        x = pair.x.replace(of_columns=norm.factors) if norm and is_scaled else pair.x
        return Taker(pair.here, 1 / Fit.of(pair.values, x).rows, _SCALED, _SHARE)

    @cached_property
    def behind(self) -> Taker | None:
        """Return the layer behind it, with the quantized file's columns by the original's, or None."""
        pair = self._pair(layers_behind)
        if pair is None or len(pair.values.shape) != 2 or min(pair.values.shape) < _FEWEST:
            return None
        fit = Fit.of(pair.values, pair.x)
        return Taker(pair.here, fit.columns, _SCALED, _SHARE, _SLACK * fit.noise_of_columns)

    def _pair(self, rule: Callable[[str], Iterable[str]]) -> _NeighbourPair | None:
        here = next((name for name in rule(self.here) if _is_in(self.quantized, name)), None)
        there = next((name for name in rule(self.there) if _is_in(self.original, name)), None)
        if here is None or there is None:
            return None
        try:
            values = original_of(self.quantized, here, 1)
            x = original_of(self.original, there, 1)
            x = as_converted(self.quantized.file, here, values.shape, values.read, x, there)
            x = oriented(values.shape, x)
        except QuantVizError:  # it is told in the neighbour's own row
            return None
        return _NeighbourPair(here, there, values, x) if values.shape == x.shape else None


@dataclass(frozen=True, eq=False)
class _NeighbourPair:
    here: str
    there: str
    values: Original
    x: Original


@dataclass(frozen=True, eq=False)
class Taker:
    """A tensor that may have taken the scales of another one, with the factors that it would have taken."""

    name: str
    factors: torch.Tensor
    #: Least distance of a factor from 1, and least share of lines with factors.
    near: float
    share: float = 0.0
    #: Error of a factor that was estimated from rounded values.
    slack: torch.Tensor | None = None

    @property
    def is_alike(self) -> bool:
        return not _many(self.factors, torch.tensor(1.0), self.near, self.share)

    def of(self, count: int) -> torch.Tensor | None:
        """Return the factors of `count` lines, 1 for the first ones where it has fewer and of the last ones
        where it has more; None where there is one factor for all.
        """
        if not _many(self.factors, self.factors.median(), self.near, self.share):
            return None
        scales = self.factors[-count:]
        return torch.cat((scales.new_ones(count - len(scales)), scales))

    def agreeing(self, factors: torch.Tensor) -> torch.Tensor | None:
        """Return the given factors within the taker's slack, else the taker's; None for one factor for
        all.
        """
        usual = self.of(len(factors))
        if usual is None or self.slack is None:
            return usual
        slack = torch.cat((usual.new_zeros(len(usual) - len(self.slack)), self.slack))
        return torch.where((factors - usual).abs() <= slack, factors, usual)


@dataclass(frozen=True, eq=False)
class Fit:
    """Products of a tensor and its original, for factors by least squares."""

    #: Σx·x̂ and Σx² of each column, and of each row; Σx̂² of all.
    column_products: torch.Tensor
    column_squares: torch.Tensor
    row_products: torch.Tensor
    row_squares: torch.Tensor
    energy: torch.Tensor

    @classmethod
    def of(cls, values: Original, x: Original) -> Fit:
        columns: list[torch.Tensor] = []
        rows: list[torch.Tensor] = []
        energy = torch.zeros((), dtype=torch.float64)
        for original, x_hat in _pairs(values, x):
            products = torch.stack((original * x_hat, original.square()))
            columns = [products.sum(1) + (columns[0] if columns else 0)]
            rows.append(products.sum(2))
            energy = energy + x_hat.square().sum()
        of_columns = columns[0]
        of_rows = torch.cat(rows, 1)
        return cls(of_columns[0], of_columns[1], of_rows[0], of_rows[1], energy)

    @property
    def common(self) -> float:
        return float(self.row_products.sum() / self.row_squares.sum())

    @property
    def columns(self) -> torch.Tensor:
        return _usable(self.column_products / self.column_squares)

    @property
    def noise_of_columns(self) -> torch.Tensor:
        """Return the noise beside the factor of each column, by the size of the original's values; inf where
        the factor is not above 0.
        """
        explained = (self.column_products.square() / self.column_squares).nan_to_num().sum()
        noise = (self.energy - explained).clamp(min=0) / len(self.column_squares)
        relative = (noise / self.column_squares).sqrt().float()
        return torch.where(self.column_products > 0, relative, torch.inf)

    @property
    def rows(self) -> torch.Tensor:
        return _usable(self.row_products / self.row_squares)

    def few(self, key: str) -> Note | None:
        """Return a note on the few rows or columns with a factor that no clipping gives, or None."""
        of_rows = key == "rows"
        squares = self.row_squares if of_rows else self.column_squares
        factors = (self.row_products if of_rows else self.column_products) / squares
        counts = squares > _COUNTS * squares.mean()
        middle = factors[counts].median()
        odd = counts & ((factors / middle < _CLIPPED[0]) | (factors / middle > _CLIPPED[1]))
        if not odd.any() or not middle > 0:
            return None
        line = int(torch.where(odd, squares, 0.0).argmax())
        return Note.of(
            f"audit.factor.few_{key}", count=int(odd.sum()), line=line, factor=float(factors[line])
        )

    def explained_db(self, products: torch.Tensor, squares: torch.Tensor) -> float:
        explained = float((products.square() / squares).nan_to_num().sum())
        left = float(self.energy) - explained
        return decibels(torch.tensor(explained), torch.tensor(max(left, 0.0)))


def unfolded(
    x: Original, values: Original, beside: NeighbourScales, sqnr_db: float, low_db: float
) -> Original:
    """Return the original scaled as the quantized file's maker scaled it, with notes; itself without a sign
    of scales.

    Args:
        x: The original as it was compared.
        values: The quantized file's tensor.
        beside: Its neighbours.
        sqnr_db: Its SQNR.
        low_db: SQNR below which layers are read for scales, and not norms alone.
    """
    if len(x.shape) != 2:
        return x
    rows, columns = x.shape
    if min(rows, columns) < 2:
        return x
    best = sqnr_db
    folded = x
    norm = beside.norm.of(columns) if beside.norm and len(beside.norm.factors) == columns else None
    norm = norm if norm is not None and _follow(Fit.of(values, x).columns, norm) else None
    by_norm = x if norm is None else x.replace(of_columns=norm)
    if norm is not None and (nearer := _sqnr_db(values, by_norm)) > best:
        best = nearer
        folded = by_norm
    keys = {"of_columns": "audit.folded_norms"}
    if best < low_db:
        if norm is None and beside.before and len(beside.before.factors) >= columns:
            norm = beside.before.of(columns)
            keys["of_columns"] = "audit.folded"
        by_columns = x if norm is None else x.replace(of_columns=norm)
        behind = None
        if beside.behind and len(beside.behind.factors) <= rows:
            behind = beside.behind.agreeing(1 / Fit.of(values, by_columns).rows)
        tries = [by_columns] if norm is not None else []
        if behind is not None:
            tries += [x.replace(of_rows=behind), by_columns.replace(of_rows=behind)]
        for tried in tries:
            if (nearer := _sqnr_db(values, tried)) >= best + _BETTER_DB:
                best = nearer
                folded = tried
    share = percent(1 - 10 ** ((sqnr_db - best) / 10))
    if folded.of_columns is not None:
        folded = folded.replace(Note.of(keys["of_columns"], percent=share))
    if folded.of_rows is not None:
        folded = folded.replace(Note.of("audit.folded_rows", percent=share))
    return folded


def factors_of(x: Original, values: Original, beside: NeighbourScales, sqnr_db: float) -> Note | None:
    """Return a note on the factors that explain a tensor's difference, and on why they are no folded scales,
    or None.
    """
    fit = Fit.of(values, x)
    before = max(sqnr_db, _EXPLAINED_DB - _BETTER_DB)
    common = fit.common
    explained = fit.explained_db(fit.row_products.sum(), fit.row_squares.sum())
    note: Note | None = None
    taker = beside.norm or beside.before
    if abs(common - 1) > _SCALED and explained >= before + _BETTER_DB:
        note = Note.of("audit.factor.all", factor=common, why=_why(taker))
        before = explained
    if len(x.shape) < 2 or min(len(fit.columns), len(fit.rows)) < _FEWEST:
        return note
    lines = (
        ("rows", fit.rows, fit.explained_db(fit.row_products, fit.row_squares), beside.behind),
        ("columns", fit.columns, fit.explained_db(fit.column_products, fit.column_squares), taker),
    )
    for key, factors, explained, taker in lines:
        if explained < before + _BETTER_DB:
            continue
        if _many(factors, factors.median(), _SCALED, _SHARE):
            low, high = torch.quantile(factors, torch.tensor([0.05, 0.95])).tolist()
            note = Note.of(f"audit.factor.{key}", low=low, high=high, why=_why(taker))
            before = explained
        elif (few := fit.few(key)) is not None:
            note = few
            before = explained
    return note


def norms_explained(tensors: Iterable[TensorAudit]) -> list[TensorAudit]:
    """Return the audits of all tensors; norms that took scales of all layers behind them are folded."""
    listed = list(tensors)
    names = {tensor.tensor for tensor in listed}
    behind: dict[str, list[TensorAudit]] = {}
    for tensor in listed:
        norm = next((name for name in norms_before(tensor.tensor) if name in names), None)
        if norm is not None:
            behind.setdefault(norm, []).append(tensor)

    def took(name: str) -> bool:
        layers = behind.get(name, ())
        folded = (any(note.key == "audit.folded_norms" for note in layer.done) for layer in layers)
        return bool(layers) and all(folded)

    is_changed = ("changed", "not_same", "rescaled")
    return [
        replace(tensor, status="folded", notes=())
        if tensor.status in is_changed and took(tensor.tensor)
        else tensor
        for tensor in listed
    ]


def norms_before(name: str) -> tuple[str, ...]:
    """Return the names of the norms that may stand before a layer, by the name of its weight.

    >>> norms_before("model.layers.0.self_attn.q_proj.weight")[0]
    'model.layers.0.input_layernorm.weight'
    """
    return tuple(
        f"{name[: found.start()]}{norm}.weight"
        for layer, norms in _NORMS
        if (found := layer.search(name))
        for norm in norms
    )


def layers_before(name: str) -> tuple[str, ...]:
    """Return the names of the layers whose rows may take scales of a layer's columns.

    >>> layers_before("model.layers.0.mlp.down_proj.weight")[0]
    'model.layers.0.mlp.up_proj.weight'
    """
    return tuple(
        name.replace(layer, neighbour)
        for layer, before in _ROWS
        if f"{layer}." in name
        for neighbour in before
    )


def layers_behind(name: str) -> tuple[str, ...]:
    """Return the names of the layers whose columns' scales a layer's rows may take.

    >>> layers_behind("model.layers.0.mlp.up_proj.weight")
    ('model.layers.0.mlp.down_proj.weight',)
    """
    return tuple(
        name.replace(neighbour, layer)
        for layer, before in _ROWS
        for neighbour in before
        if f"{neighbour}." in name
    )


def neighbours(name: str) -> tuple[str, ...]:
    layers = (*layers_before(name), *layers_behind(name))
    return tuple(
        dict.fromkeys((*norms_before(name), *layers, *(n for layer in layers for n in norms_before(layer))))
    )


def _why(taker: Taker | None) -> Note:
    if taker is None:
        return Note.of("audit.taker.none")
    return Note.of(f"audit.taker.{'alike' if taker.is_alike else 'other'}", name=clipped(taker.name))


def _is_in(tensors: ModelTensors, name: str) -> bool:
    tensor, expert = tensor_of(tensors, name)
    if tensor not in tensors:
        return False
    shape = tensors.info(tensor).shape
    return expert is None or (len(shape) == 3 and expert < shape[0])


def _pairs(values: Original, x: Original) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for start, stop in bands(x.shape):
        original, x_hat = (source.read(start, stop).double() for source in (x, values))
        yield as_lines(original), as_lines(x_hat)


def _sqnr_db(values: Original, x: Original) -> float:
    signal = noise = torch.zeros((), dtype=torch.float64)
    for original, x_hat in _pairs(values, x):
        signal = signal + original.square().sum()
        noise = noise + (x_hat - original).square().sum()
    return decibels(signal, noise)


def decibels(signal: torch.Tensor, noise: torch.Tensor) -> float:
    return float(METRICS["sqnr_db"].of(Moments(x2=signal, e2=noise)))


def _usable(factors: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(factors) & (factors > 0), factors, 1.0).float()


def _follow(scales: torch.Tensor, factors: torch.Tensor) -> bool:
    logs = torch.stack((scales, factors)).double().log()
    return bool(torch.corrcoef(logs)[0, 1] >= _FOLLOWS)


def _many(factors: torch.Tensor, middle: torch.Tensor, near: float, share: float) -> bool:
    """Return whether many lines deviate from the middle factor: a clipped value affects its line alone."""
    scaled = float(((factors / middle - 1).abs() > near).double().mean())
    return scaled > 0 and scaled >= share
