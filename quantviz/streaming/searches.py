"""Engines' own searches of scales, by compiled code where there is some."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from quantviz.compiled.traced_values import Untraceable
from quantviz.quantization.scale_search import Finder, find_by_torch
from quantviz.quantization.search_steps import BY_TORCH
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scale_search import WEIGHTED, ScaleSearch
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.tensors.blocks import lines_of_runs, runs_of_lines

if TYPE_CHECKING:
    from quantviz.compiled.searching import SearchCode


def finder(scheme: Scheme, shape: Shape, *, weighted: bool) -> Finder | None:
    """Return the function that searches scales by compiled code; None if the reference has to.

    So it is without such a search or numba, or if its code is not compiled and this thread does not wait.
    """
    if _search_of(scheme, weighted=weighted) is None or not kernel_access.fixed_ready():
        return None
    code = code_of(scheme, shape, weighted=weighted)
    if code is None:
        return None
    if math.prod(shape) <= limits.SMALL or not kernel_access.waits():
        from quantviz.compiled.compiler import compiler
        from quantviz.compiled.searching import source_of_search

        if not compiler().knows([source_of_search(code)]):
            return None
    return partial(find, code)


def code_of(scheme: Scheme, shape: Shape, *, weighted: bool = False) -> SearchCode | None:
    """Return the code of a scheme's search; None if there is none, or it cannot be traced."""
    search = _search_of(scheme, weighted=weighted)
    if search is None:
        return None
    return _traced(search, scheme.number_format, scheme.layout(shape).block_size, weighted)


def warm(scheme: Scheme, shape: Shape) -> None:
    """Compile the search of a scheme's scales ahead."""
    code = code_of(scheme, shape)
    search = scheme.search
    if code is not None and search is not None:
        one = torch.zeros(scheme.layout(shape).block_size, search.run, 1)
        find(code, one, None, search, scheme.number_format)


def _search_of(scheme: Scheme, *, weighted: bool) -> ScaleSearch | None:
    search = scheme.search
    if weighted and search is None and scheme.arithmetic.weighted_search is not None:
        search = WEIGHTED[scheme.arithmetic.weighted_search][scheme.format]
    return search if search is not None and search.weighs_columns else None


@lru_cache(maxsize=64)
def _traced(search: ScaleSearch, fmt: NumberFormat, size: int, weighted: bool) -> SearchCode | None:
    from quantviz.compiled.searching import trace_search

    try:
        return trace_search(search, fmt, size, weighted=weighted)
    except Untraceable:
        return None


def find(
    code: SearchCode,
    values: torch.Tensor,
    weights: torch.Tensor | None,
    search: ScaleSearch,
    fmt: NumberFormat,
) -> tuple[torch.Tensor, ...]:
    """Return the result of `find_by_torch`, by compiled code."""
    from quantviz.compiled.compiler import compiler
    from quantviz.compiled.searching import source_of_search
    from quantviz.compiled.trials import search as run

    size, in_run, runs = values.shape
    rows = lines_of_runs(values).numpy()
    of_columns = np.empty((0, size), np.float32) if weights is None else lines_of_runs(weights).numpy()
    levels = BY_TORCH.level(values, search.level) if code.reads_level else torch.empty(0)
    results = torch.empty(len(code.results), runs * in_run)
    constants = (
        np.array(code.floats, np.float64),
        np.array(code.integers, np.int64),
        np.array(code.tables, np.float64),
    )
    address = compiler().address(source_of_search(code))
    if not run(address, rows, of_columns, levels.numpy(), in_run, code.kept, constants, results.numpy()):
        return find_by_torch(values, weights, search, fmt)
    return tuple(runs_of_lines(each, in_run) for each in results)
