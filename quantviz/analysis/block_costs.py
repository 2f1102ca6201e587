"""The error of each block of a scheme, and the cost of its loudest cell to the others in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quantviz.analysis.counterfactuals import Counterfactuals, LeftOut, decibels
from quantviz.analysis.kept_parts import largest_first
from quantviz.analysis.study import Study
from quantviz.errors import QuantVizError
from quantviz.evaluation.with_pandas import frame_of
from quantviz.public_calls import public
from quantviz.quantization.cells import quantize_cells
from quantviz.schemes.granularity import Flat, Shape, flat_index
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.regions import place_of
from quantviz.streaming.surveying import worst_blocks
from quantviz.tensors.blocks import flat_indices_of
from quantviz.tensors.lazy import InMemory, as_stored

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class BlockCost:
    """A block: its error, and how much of it its loudest cell makes the others have."""

    #: In the grid of blocks, and of its first cell in the tensor.
    block: Shape
    index: Shape
    #: Its cell of largest magnitude.
    loudest: Shape
    #: Σe² of the block, in the units of x², and its share of the tensor's.
    suffered: float
    suffered_share: float
    #: The fall of the other cells' Σe² without the loudest, and as a share of the tensor's.
    caused: float
    caused_share: float
    #: SQNR of the other cells, in dB: now, and without the loudest.
    others_before_db: float
    others_after_db: float


@dataclass(frozen=True, eq=False)
class BlockCosts:
    """The blocks that cost most."""

    scheme: Scheme
    shape: Shape
    #: The costliest loudest cell first.
    rows: tuple[BlockCost, ...]

    def table(self) -> pandas.DataFrame:
        """Return a row for each block.

        Raises:
            QuantVizError: pandas is not installed.
        """
        return frame_of(self.rows, BlockCost)


@public
def block_costs(x: Any, scheme: Scheme | str | None = None, n: int = 20) -> BlockCosts:
    """Return the `n` blocks of largest error and the `n` of widest range, with the cost of the loudest cell.

    All those cells are taken out together, which is as good as each by itself: blocks have scales of their
    own. Where there is a second scale for all of them, it too is found without these cells.

    Args:
        x: An input of `quantize`, a `Stored`, or a `Study`, whose scheme is taken.
        scheme: The scheme, a recipe or a text form.
        n: How many.

    Raises:
        QuantVizError: As `quantize` does, and for an `n` below 1.

    >>> found = block_costs([[0.1, 0.2, 0.3, 8.0], [0.1, 0.2, 0.4, 0.3]], "int4_per_row")
    >>> [(row.block, row.loudest, round(row.suffered_share, 2)) for row in found.rows]
    [((0, 0), (0, 3), 0.99), ((1, 0), (1, 2), 0.01)]
    >>> round(found.rows[0].others_before_db), round(found.rows[0].others_after_db)
    (0, 25)
    """
    if n < 1:
        raise QuantVizError("field_too_small", owner="block_costs", field="n", got=n, smallest=1)
    study = x if isinstance(x, Study) else Study.of(as_stored(x)[0], as_scheme(scheme or Scheme()))
    if study.layout.block_count == 1:
        return BlockCosts(study.scheme, study.shape, (_only_block(study),))
    chosen = _to_look_at(study, n)
    whole = float(study.measured.moments.e2 or 0.0)
    cells = [_cells_of(study, block) for block in chosen]
    loudest = np.array([int(places[values.nan_to_num(0.0).abs().argmax()]) for places, values in cells])
    tensor = study.x if study.result is None else InMemory(study.result.x, dtype=study.x.dtype)
    ignoring = study.scheme.replace(nonfinite="ignore")
    without = Study.of(LeftOut(tensor, np.unique(loudest)), ignoring)
    rows = []
    for block, (places, values), loud in zip(chosen, cells, loudest, strict=True):
        others = torch.isfinite(values) & (places != loud)
        before, after = (
            quantize_cells(values, ignoring, each.qparams, study.shape, places)
            .error.to(torch.float64)
            .square()
            for each in (study, without)
        )
        suffered = float(before[torch.isfinite(values)].sum())
        noises = float(before[others].sum()), float(after[others].sum())
        signal = float(values[others].to(torch.float64).square().sum())
        caused = noises[0] - noises[1]
        rows.append(
            BlockCost(
                block=block,
                index=place_of(int(places[0]), study.shape),
                loudest=place_of(int(loud), study.shape),
                suffered=suffered,
                suffered_share=suffered / whole if whole else 0.0,
                caused=caused,
                caused_share=caused / whole if whole else 0.0,
                others_before_db=decibels(signal, noises[0]),
                others_after_db=decibels(signal, noises[1]),
            )
        )
    return BlockCosts(study.scheme, study.shape, tuple(sorted(rows, key=lambda row: -row.caused)))


def _only_block(study: Study) -> BlockCost:
    """Return the cost of the one block that a whole tensor is, which may be large."""
    tried = Counterfactuals(study.x, study.scheme, Flat(1), study)
    loudest = study.facts.largest
    number = (flat_index(loudest, study.shape),)
    signal = tried.others_signal(number)
    before = tried.others_noise(number)
    after = tried.noise_without(number)
    zero = (0,) * len(study.layout.grid_shape)
    return BlockCost(
        block=zero,
        index=(0,) * len(study.shape),
        loudest=loudest,
        suffered=tried.noise,
        suffered_share=tried.share(tried.noise),
        caused=before - after,
        caused_share=tried.share(before - after),
        others_before_db=decibels(signal, before),
        others_after_db=decibels(signal, after),
    )


def _to_look_at(study: Study, n: int) -> list[Shape]:
    """Return the blocks of largest error, and those of widest range."""
    layout = study.layout
    found: list[Shape] = list(worst_blocks(study.survey, n)["block"])
    if study.range is not None:
        widths = (study.range.hi - study.range.lo).flatten().to(torch.float64).numpy()
        found += [place_of(int(each), layout.grid_shape) for each in largest_first(widths, n)]
    return list(dict.fromkeys(found))


def _cells_of(study: Study, block: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    layout = study.layout
    places = flat_indices_of(layout.view_shape, layout.window(block)).flatten()
    return places, study.block_values(block).flatten()
