"""Scales of columns that AWQ and SmoothQuant have folded into the norm or the layer before: found again.

A weight that was multiplied by them column by column looks ruined beside its original. From the two norms
they are known; where there is none before a layer, they follow from the weights by least squares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from quantviz.checkpoints.audit.originals import Original, bands
from quantviz.checkpoints.audit.tensor_audit import audit_weight
from quantviz.checkpoints.model.coverage_words import percent
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.moments import Moments
from quantviz.sources.files import Catalog
from quantviz.sources.layouts import QuantizedWeight

#: The norm before each layer, in the order in which they are looked for.
_NORMS = (
    (re.compile(r"self_attn\.(q|k|v|qkv)_proj"), ("input_layernorm",)),
    (re.compile(r"mlp\.(gate|up|gate_up)_proj"), ("pre_feedforward_layernorm", "post_attention_layernorm")),
    (re.compile(r"mlp\.experts\.\d+\.(gate|up)_proj"), ("post_attention_layernorm",)),
)
#: Largest distance from 1 of the ratio of two norms without folded scales: norms are stored in 16 bits.
_NEAR_ONE = 0.02
#: Scales are believed where they explain the weight to so many dB, and those of least squares where that is
#: better by so many than before. Of weights that have nothing to do with each other they explain nothing.
_EXPLAINED_DB = 3.0
_BETTER_DB = 3.0
#: A line counts as scaled from this far off 1 on, and a weight from this share of its lines.
_SCALED = 0.05
_SHARE = 0.25
#: Fewest values of a line from which its factor is taken.
_FEWEST = 32
#: Scales explain the rest to within rounding where so many codes are the nearest ones; where they are known
#: from norms, also where codes were chosen otherwise and miss by no more steps than this on average.
_WITHIN = 0.9
_MOST_STEPS = 1.0
#: Passes over rows and columns in turn.
_TURNS = 3


def unfolded(
    weight: QuantizedWeight,
    x: Original,
    name: str,
    files: tuple[Catalog, Catalog],
    sqnr_db: float,
    *,
    threads: int | None = None,
) -> Original | None:
    """Return the original scaled as the quantized file's maker scaled it, with a note; none where there is no
    sign that it was.

    `x` is the original as it was compared, at `sqnr_db`, and `name` its name in its file; `files` are the
    quantized and the original one.
    """
    of_norms = _from_norms((weight.name, name), weight.shape[1], files)
    if of_norms is None and min(weight.shape) < _FEWEST:
        return None
    by_columns = x.replace(of_columns=_factors(weight, x, 0) if of_norms is None else of_norms)
    key = "audit.folded" if of_norms is None else "audit.folded_norms"
    before = _noise(weight, x)
    found = _sqnr_db(weight, by_columns)
    explained = found >= _EXPLAINED_DB and (of_norms is not None or found >= sqnr_db + _BETTER_DB)
    # Rows are scaled where the layer after was folded into this one: v by o, up by down.
    both = by_columns
    for _ in range(_TURNS):
        both = both.replace(of_rows=_times(both.of_rows, 1 / _factors(weight, both, 1)))
        if of_norms is None:
            both = both.replace(of_columns=_times(both.of_columns, _factors(weight, both, 0)))
    least = max(_EXPLAINED_DB, (found if explained else sqnr_db) + _BETTER_DB)
    if _sqnr_db(weight, both) >= least and _many(both.of_rows) and _many(both.of_columns):
        claimed = _claimed(weight, both, "audit.folded_both", before, known=False, threads=threads)
        if claimed is not None:
            return claimed
    if explained and _many(by_columns.of_columns):
        return _claimed(weight, by_columns, key, before, known=of_norms is not None, threads=threads)
    return None


def _claimed(
    weight: QuantizedWeight, x: Original, key: str, before: float, *, known: bool, threads: int | None
) -> Original | None:
    """Return the scaled original with a note on the share of the difference that the scales explain; None
    where the rest is more than rounding.

    A fit of so many scales makes some of any damage smaller: columns under the scales of others, as where
    their order was ignored, come out 18 dB better and are damaged all the same.
    """
    if weight.scheme is None:  # there is no step to bound the rounding error by
        return None
    found = audit_weight(weight, x, "", threads=threads)
    rounded = found.nearest_share >= _WITHIN or (known and found.metrics["rmse_steps"] <= _MOST_STEPS)
    if not rounded:
        return None
    share = 1 - _noise(weight, x) / before if before else 0.0
    return x.replace(Note.of(key, percent=percent(share)))


def _from_norms(names: tuple[str, str], columns: int, files: tuple[Catalog, Catalog]) -> torch.Tensor | None:
    """Return the factor of each column, from the norm before the layer in both files; None where neither has
    one, or they are alike.
    """
    for pair in zip(*map(norms_before, names), strict=False):
        sides = list(zip(files, pair, strict=True))
        if not all(name in file and file.info(name).shape == (columns,) for file, name in sides):
            continue
        try:
            quantized, original = (file.read(name).tensor for file, name in sides)
        except QuantVizError:
            continue
        # Gemma's norms are 1 more than their stored values: where that explains them, values lie about 0.
        shift = 1.0 if bool((original.abs().median() < 0.5) & (quantized + 1 > 0).all()) else 0.0
        ratio = (original + shift) / (quantized + shift)
        usable = torch.isfinite(ratio) & (ratio != 0)
        if bool(usable.all()) and bool(((ratio - 1).abs() > _NEAR_ONE).any()):
            return ratio
    return None


def norms_before(name: str) -> tuple[str, ...]:
    """Return the names of the norms that may stand before a layer, by the name of its weight.

    >>> norms_before("model.layers.0.self_attn.q_proj.weight")
    ('model.layers.0.input_layernorm.weight',)
    """
    return tuple(
        f"{name[: found.start()]}{norm}.weight"
        for layer, norms in _NORMS
        if (found := layer.search(name))
        for norm in norms
    )


def _sqnr_db(weight: QuantizedWeight, x: Original) -> float:
    """Return the SQNR of the weight against its original, in dB."""
    signal = noise = torch.zeros((), dtype=torch.float64)
    for own, x_hat in _pairs(weight, x):
        signal = signal + own.square().sum()
        noise = noise + (x_hat - own).square().sum()
    return float(METRICS["sqnr_db"].of(Moments(x2=signal, e2=noise)))


def _noise(weight: QuantizedWeight, x: Original) -> float:
    """Return the squares of the differences between the weight and its original."""
    return float(sum(((x_hat - own).square().sum() for own, x_hat in _pairs(weight, x)), torch.zeros(())))


def _factors(weight: QuantizedWeight, x: Original, axis: int) -> torch.Tensor:
    """Return the factor of each column (`axis` 0) or row (1) that brings x nearest to x̂ by least squares; 1
    where there is none above 0.
    """
    products = []
    squares = []
    for own, x_hat in _pairs(weight, x):
        products.append((own * x_hat).sum(axis))
        squares.append(own.square().sum(axis))
    join = torch.cat if axis else lambda parts: torch.stack(parts).sum(0)
    factors = (join(products) / join(squares)).float()
    factors = torch.where(torch.isfinite(factors) & (factors > 0), factors, 1.0)
    if axis or weight.columns is None:
        return factors
    return torch.empty_like(factors).index_copy(0, weight.columns, factors)


def _pairs(weight: QuantizedWeight, x: Original) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield bands of the original and of the weight, float64, their columns in the weight's order."""
    for start, stop in bands(weight.shape, weight.row_step):
        own = x.read(start, stop).double()
        yield (
            own if weight.columns is None else own[:, weight.columns],
            weight.coded(start, stop).x_hat.double(),
        )


def _many(factors: torch.Tensor | None) -> bool:
    """Return whether many lines were scaled: one value that was clipped gives a factor to its own alone."""
    return factors is not None and float(((factors - 1).abs() > _SCALED).double().mean()) >= _SHARE


def _times(one: torch.Tensor | None, other: torch.Tensor) -> torch.Tensor:
    return other if one is None else one * other
