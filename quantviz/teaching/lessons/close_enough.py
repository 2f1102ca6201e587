"""Rules for right numbers and cells: within a tolerance, the largest or the smallest."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons.formulas import Scene

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Tolerance:
    """How close a number must be: `0.5`, `5 %` or `factor 2`."""

    amount: float
    kind: str

    @classmethod
    def read(cls, form: str) -> Tolerance:
        match = re.fullmatch(r"\s*(?:(\d+\.?\d*)\s*(%)?|(factor)\s+(\d+\.?\d*))\s*", form)
        if not match or (match[3] and float(match[4]) <= 1):
            raise QuantVizError("lessons.bad_within", got=form)
        if match[3]:
            return cls(float(match[4]), "factor")
        return cls(float(match[1]), "relative" if match[2] else "absolute")

    def accepts(self, given: float, truth: float) -> bool:
        if not math.isfinite(given) or not math.isfinite(truth):
            return given == truth
        if self.kind == "factor":
            return given * truth > 0 and 1 / self.amount <= given / truth <= self.amount
        # Typed numbers are decimals: a float's last bit must not decide.
        far = self.amount / 100 * abs(truth) if self.kind == "relative" else self.amount
        return abs(given - truth) <= far + 1e-9 * max(1e-9, abs(truth))


CELL_VALUES = ("x", "abs_x", "q", "x_hat", "error", "abs_error", "relative_error")


@dataclass(frozen=True)
class CellRule:
    """Which cells, all of a tie: `largest abs_error`, `smallest x`."""

    extreme: str
    value: str

    @classmethod
    def read(cls, form: str) -> CellRule:
        extreme, _, value = form.strip().partition(" ")
        if extreme not in ("largest", "smallest") or value not in CELL_VALUES:
            raise QuantVizError("lessons.bad_cells", got=form, known=", ".join(CELL_VALUES))
        return cls(extreme, value)

    def cells(self, scene: Scene) -> frozenset[tuple[int, ...]]:
        import torch

        values = self._values(scene)
        finite = values[torch.isfinite(values)]
        end = finite.max() if self.extreme == "largest" else finite.min()
        return frozenset(tuple(place) for place in torch.nonzero(values == end).tolist())

    def _values(self, scene: Scene) -> torch.Tensor:
        r = scene.result
        match self.value:
            case "abs_x":
                return r.x.abs()
            case "abs_error":
                return r.error.abs()
            case "relative_error":
                return r.error.abs() / r.x.abs()
            case name:
                values: torch.Tensor = getattr(r, name)
                return values.float()
