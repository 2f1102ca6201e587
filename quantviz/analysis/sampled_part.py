"""The part of a large tensor that schemes are measured on, where there are many of them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.analysis.recipe_ranking import CURRENT, RecipeRow, priced_at, recipe_rows, row_of
from quantviz.analysis.study import Keep, KeptHere, Study
from quantviz.budget import Ended, too_long
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import sqnr_db_of_lines
from quantviz.evaluation.moments import Moments, number_of
from quantviz.quantization.result import QParams
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import RECIPES, as_scheme, needs_lines
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import measuring
from quantviz.streaming.measuring import Measured
from quantviz.streaming.tensor_facts import Facts, facts
from quantviz.tensors.lazy import InMemory, Stored, as_stored

Array = npt.NDArray[Any]

#: Elements measured by default. Of a tensor of at most twice as many all are.
SAMPLED = 2**16
_WANTED = ("effective_bits", "sqnr_db", "zeroed_share", "mse", "code_entropy")


@dataclass(frozen=True, eq=False)
class SampledPart:
    """The measured part of a tensor: all of it, or some slices of a large one along the first axis."""

    whole: Stored
    facts: Facts
    x: Stored
    #: How many slices of the tensor each of these stands for, float64 (slices,).
    weights: Array
    #: Keeps ranges of the whole tensor.
    keep: Keep

    @classmethod
    def of(cls, x: Any, current: Scheme, cells: int | None = None) -> SampledPart:
        """Return the part of a tensor, list or `Stored` that is measured, of about so many `cells`. The rule
        for NaN and Inf is `current`'s.

        Raises:
            QuantVizError: As `quantize` does.
        """
        stored, _ = as_stored(x)
        whole = facts(stored)
        measuring.nonfinite_notes(stored, current, whole)
        return cls._of(stored, whole, cells or SAMPLED)

    @classmethod
    def _of(cls, x: Stored, known: Facts, cells: int) -> SampledPart:
        keep = KeptHere()
        length = math.prod(x.shape[1:])
        if x.count <= 2 * cells or len(x.shape) == 1 or length > 2 * cells:
            return cls(x, known, x, np.ones(x.shape[0]), keep)
        places = np.linspace(0, x.shape[0] - 1, max(cells // length, 2)).astype(np.int64)
        # The slice of the largest value is among them, so that second-level scales are the whole tensor's.
        # It stands for itself alone: an outlier counts as much as it does there.
        largest = known.largest[0]
        slices = np.unique(np.append(places, largest))
        weights = np.where(slices == largest, 1.0, (x.shape[0] - 1) / (len(slices) - 1))
        rest = (slice(None),) * (len(x.shape) - 1)
        read = torch.cat([x.read((slice(at, at + 1), *rest)) for at in slices.tolist()])
        return cls(x, known, InMemory(read, dtype=x.dtype), weights, keep)

    @property
    def share(self) -> float:
        return self.x.count / self.whole.count

    @property
    def values(self) -> Array:
        """Return the finite values of slices of one weight; of a large part some runs and its ends."""
        if self.share < 1:
            usual = np.flatnonzero(self.weights == self.weights.max()).tolist()
            rest = (slice(None),) * (len(self.x.shape) - 1)
            picked = torch.cat([self.x.read((slice(at, at + 1), *rest)).flatten() for at in usual]).numpy()
            return np.asarray(picked[np.isfinite(picked)])
        count = self.x.count
        most = 2 * SAMPLED
        starts = np.linspace(0, max(count - most // 64, 0), 64).astype(np.int64).tolist()
        values: Array = (
            self.x.run(0, count)
            if count <= most
            else np.concatenate([self.x.run(at, at + most // 64) for at in starts])
        )
        return np.asarray(values[np.isfinite(values)])

    def recipes(self, current: Scheme, priced_as: Shape | None = None) -> tuple[RecipeRow, ...]:
        # The rule of `current` for NaN and Inf is every recipe's.
        if self.share == 1:
            return recipe_rows(self.x, current=current, priced_as=priced_at(self.whole.shape, priced_as))
        return tuple(
            self.row(name, scheme.replace(nonfinite=current.nonfinite), priced_as)
            for name, scheme in RECIPES.items()
        )

    def row(self, name: str, scheme: Scheme, priced_as: Shape | None, trail: str = "") -> RecipeRow:
        """Return a scheme's row on this part, priced as the whole tensor; a problem if it does not fit."""
        try:
            for problem in scheme.problems(self.whole.shape):
                raise problem
            if needs_lines(scheme) and len(self.whole.shape) == 1:
                raise QuantVizError("recipe_needs_lines", shape=self.whole.shape)
            measured = measuring.measure(
                self.x,
                scheme,
                qparams=self._params(scheme),
                metrics=_WANTED,
                by_axis=self.share < 1,
                known=self.facts if self.x is self.whole else None,
            )
        except QuantVizError as problem:
            return RecipeRow(name, scheme, problem=problem, trail=trail)
        except Ended as end:
            return RecipeRow(name, scheme, problem=too_long(end), trail=trail)
        measured = dataclasses.replace(self.weighted(measured), scheme=scheme, shape=self.whole.shape)
        row = row_of(measured, name, is_current=False, priced_as=priced_as)
        coded = row.bits - scheme.number_format.bits + measured.metrics["code_entropy"]
        return dataclasses.replace(row, entropy_bits=coded, trail=trail, share=self.share)

    def weighted(self, measured: Measured) -> Measured:
        """Return the measurement of the part with SQNR and MSE that count each slice as its weight."""
        if self.share == 1:
            return measured
        sums = measured.axes[0]
        assert sums.x2 is not None
        assert sums.e2 is not None
        x2, e2 = (float(self.weights @ sums_of_lines.numpy()) for sums_of_lines in (sums.x2, sums.e2))
        sqnr_db = sqnr_db_of_lines(Moments(x2=number_of(x2), e2=number_of(e2)))
        told = {"sqnr_db": float(sqnr_db), "mse": e2 / self.whole.count}
        return dataclasses.replace(measured, metrics={**measured.metrics, **told})

    def _params(self, scheme: Scheme) -> QParams | None:
        # Blocks that reach beyond the part have the whole tensor's scales.
        if self.x is self.whole or scheme.layout(self.whole.shape).grid_shape[0] > 1:
            return None
        return Study.of(self.whole, scheme, facts=self.facts, keep=self.keep).qparams


def has_whole_blocks(scheme: Scheme, shape: Shape) -> bool:
    """Return whether slices of a tensor along its first axis hold whole blocks of a scheme.

    >>> from quantviz.schemes.granularity import PerGroup
    >>> has_whole_blocks(Scheme(granularity=PerGroup(32)), (4, 64)), has_whole_blocks(Scheme(), (4, 64))
    (True, False)
    """
    layout = scheme.layout(shape)
    return layout.view_shape == shape and layout.block_shape[0] == 1


def sampled_rows(x: Any, *, current: Scheme | str) -> tuple[RecipeRow, ...]:
    """Return the rows of all recipes on `x`, as `recipe_rows` does, or on a part of a large tensor.

    A part has the whole tensor's scales; `RecipeRow.share` is its share of the cells. Its last row is
    `CURRENT`, the scheme `current` on the same cells.

    Raises:
        QuantVizError: As `quantize` does.
    """
    current = as_scheme(current)
    part = SampledPart.of(x, current)
    rows = part.recipes(current)
    return rows if part.share == 1 else (*rows, part.row(CURRENT, current, None))
