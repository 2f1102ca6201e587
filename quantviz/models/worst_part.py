"""The matrix around a tensor's largest error, in two runs: as a picture of some pixels."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.layers.layer_picture import pixel_edges
from quantviz.models.run_difference import TensorDifference
from quantviz.models.run_file import run_in
from quantviz.models.runs import RunComparison
from quantviz.schemes.granularity import Shape
from quantviz.sources.files import Catalog, open_tensors

Array = npt.NDArray[Any]
_ELEMENTS_PER_READ = 2**20


@dataclass(frozen=True, eq=False)
class WorstPart:
    """The last two axes of a tensor, the others held where its largest error is: float32 (h, w) each.

    Each pixel stands for a block of cells, and shows the one of largest error.
    """

    tensor: TensorDifference
    reference: Array
    run: Array
    #: run − reference; 0 where both are NaN or Inf alike.
    error: Array
    #: |error| ÷ |reference|; NaN where the reference is 0 and the error is not.
    relative: Array
    #: The names of rows and columns, "" for none; rows and columns of the whole matrix.
    axes: tuple[str, str]
    matrix: tuple[int, int]
    #: The places of the other axes.
    held: Shape


def worst_part(comparison: RunComparison, label: str, most: int) -> WorstPart | None:
    """Return the matrix around the largest error of a run's worst tensor, in at most `most` pixels a side;
    None if no tensor has an error.

    Raises:
        QuantVizError: A file cannot be read any more.
    """
    worst = next((each for each in comparison.worst(label) if each.sqnr_db < math.inf), None)
    if worst is None:
        return None
    path = comparison.paths[comparison.labels.index(label)]
    with open_tensors(comparison.reference_path) as reference, open_tensors(path) as other:
        run = run_in(reference, comparison.reference_path)
        named = next(each.axes for each in run if each.name == worst.name)
        pixels = _pixels(reference, other, worst, most)
    x, y = pixels
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        alike = (x == y) | (np.isnan(x) & np.isnan(y))
        error = np.where(alike, np.float32(0), y - x)
        relative = np.where(alike, np.float32(0), np.where(x == 0, np.float32(np.nan), np.abs(error / x)))
    rows, cols = (1, 1, *worst.shape)[-2:]
    names = ("", "", *named)[-2:]
    axes = (names[0], names[1])
    return WorstPart(worst, x, y, error, relative, axes, (rows, cols), tuple(worst.max_error_at[:-2]))


def _pixels(reference: Catalog, other: Catalog, worst: TensorDifference, most: int) -> tuple[Array, Array]:
    """Return the values of both runs in each pixel's cell of largest error."""
    shape = worst.shape
    rows, cols = (1, 1, *shape)[-2:]
    col_edges = pixel_edges(0, cols, most).tolist()
    row_edges = pixel_edges(0, rows, most).tolist()
    held: tuple[int | slice, ...] = worst.max_error_at[:-2]
    pixels: tuple[list[Array], list[Array]] = ([], [])
    for top, bottom in itertools.pairwise(row_edges):
        found: tuple[Array, Array] | None = None
        step = max(1, _ELEMENTS_PER_READ // cols)
        for at in range(top, bottom, step):
            band = (slice(at, min(at + step, bottom)),) if len(shape) > 1 else ()
            x = reference.read(worst.name, (*held, *band)).tensor
            y = other.read(worst.name_in_run, (*held, *band)).tensor
            more = _largest_of_columns(*map(np.atleast_1d, (x.numpy(), y.numpy())))
            if found is not None:
                larger = _magnitude(*more) > _magnitude(*found)
                more = np.where(larger, more[0], found[0]), np.where(larger, more[1], found[1])
            found = more
        assert found is not None
        for line, values in zip(pixels, _largest_of_runs(*found, col_edges), strict=True):
            line.append(values)
    return np.stack(pixels[0]), np.stack(pixels[1])


def _magnitude(x: Array, y: Array) -> Array:
    """Return |y − x|; 0 where both are NaN or Inf alike, Inf where only one is."""
    with np.errstate(invalid="ignore", over="ignore"):
        alike = (x == y) | (np.isnan(x) & np.isnan(y))
        error = np.abs(y - x)
    magnitude: Array = np.where(alike, 0, np.where(np.isnan(error), math.inf, error))
    return magnitude


def _largest_of_columns(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the values of both in the row of largest error, one of each column."""
    if x.ndim < 2:
        return x, y
    at = _magnitude(x, y).argmax(0)[None]
    return np.take_along_axis(x, at, 0)[0], np.take_along_axis(y, at, 0)[0]


def _largest_of_runs(x: Array, y: Array, edges: list[int]) -> tuple[Array, Array]:
    """Return the values of both in the column of largest error, one of each run of columns.

    >>> x = np.array([0.0, 0.0, 1.0, 1.0])
    >>> [each.tolist() for each in _largest_of_runs(x, x + [1, 2, 0, -3], [0, 2, 4])]
    [[0.0, 1.0], [2.0, -2.0]]
    """
    magnitude = _magnitude(x, y)
    starts = np.array(edges[:-1])
    largest = np.repeat(np.maximum.reduceat(magnitude, starts), np.diff(edges))
    places = np.flatnonzero(magnitude == largest)
    _, first = np.unique(np.searchsorted(starts, places, "right"), return_index=True)
    return x[places[first]], y[places[first]]
