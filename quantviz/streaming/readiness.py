"""Whether all that a scheme needs is compiled, and how to compile it ahead."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

from quantviz.compiled.traced_values import Untraceable
from quantviz.compiled.tracing import trace_cell
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits, searches
from quantviz.streaming.kernel_access import fixed_ready
from quantviz.streaming.pieces import rows_of_piece
from quantviz.streaming.programs import block_code, compiled_program, lines_of_sums, types_of_scheme
from quantviz.streaming.regions import fills, in_line


def scheme_ready(scheme: Scheme, shape: Shape) -> bool:
    """Return whether all that a scheme needs can be called, or is waited for here.

    A scheme's own code takes a fraction of a second: where the reference takes longer it is waited for, once
    the shared kernels are there.
    """
    if not fixed_ready():
        return False
    if kernel_access.waits() or is_compiled(scheme, shape, by_axis=True):
        return True
    own = kernel_access.of_scheme(scheme, shape)
    if math.prod(shape) >= limits.WORTH_WAITING:
        kernel_access.wait_for(own)
    return kernel_access.is_ready(own)


def warm(scheme: Scheme, shape: Shape) -> None:
    """Compile the code of `measure` and `codes` ahead."""
    layout = in_line(scheme.layout(shape))
    searches.warm(scheme, shape)
    program = compiled_program(scheme, types_of_scheme(scheme), layout.block_shape[-1] == 1)
    if program is not None:
        program.sums_addresses()
        program.errors_address()
        if fills(layout):
            program.of_ranges()


def compiles(scheme: Scheme, shape: Shape) -> bool:
    """Return whether `measure` has to compile code that is neither in memory nor in `cache_folder()`.

    >>> compiles(Scheme(), (3, 3))
    False
    """
    if math.prod(shape) <= limits.SMALL or not fixed_ready():
        return False
    return not is_compiled(scheme, shape, by_axis=True)


def is_compiled(scheme: Scheme, shape: Shape, *, by_axis: bool, counted: bool = False) -> bool:
    """Return whether a scheme's code is compiled; with `counted`, that for sums that count codes."""
    layout = in_line(scheme.layout(shape))
    rows = rows_of_piece(layout, shape, limits.PIECE, by_axis=by_axis)
    banded = rows < layout.view_shape[0] and fills(layout) and scheme.calibration.of_values
    from quantviz.compiled.compiler import compiler
    from quantviz.compiled.searching import source_of_search

    sources = _sources(scheme, layout.block_shape[-1] == 1, banded, by_axis, counted)
    searched = searches.code_of(scheme, shape)
    return compiler().knows(sources if searched is None else (*sources, source_of_search(searched)))


def why_not_compiled(scheme: Scheme, shape: Shape) -> Literal["no_numba", "no_form", "not_ready"]:
    """Return why the reference measures a large tensor: no numba, no traceable arithmetic, or no code yet."""
    if not kernel_access.has_kernels():
        return "no_numba"
    by_element = in_line(scheme.layout(shape)).block_shape[-1] == 1
    return "not_ready" if _sources(scheme, by_element, False, False, False) else "no_form"


@lru_cache(maxsize=256)
def _sources(scheme: Scheme, by_element: bool, banded: bool, by_axis: bool, counted: bool) -> tuple[str, ...]:
    # Empty if the scheme cannot be traced.
    types = types_of_scheme(scheme)
    try:
        code = trace_cell(scheme, dict(types))
        sums, counted = lines_of_sums(scheme, types, counted=counted)
    except Untraceable:
        return ()
    from quantviz.compiled.cell_sources import params_of, sources_of

    blocks = block_code(scheme, params_of(code)) if banded else None
    return sources_of(code, by_element, blocks, sums, counted=counted, errors=by_axis)
