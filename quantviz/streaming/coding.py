"""Codes, values and errors of runs of a large tensor, by compiled arithmetic or by the reference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.quantization.cells import quantize_cells
from quantviz.quantization.result import QParams, QuantResult, steps_of_error
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import limits
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.programs import program_of
from quantviz.streaming.readiness import scheme_ready
from quantviz.streaming.regions import read_only
from quantviz.streaming.threads import runs_between
from quantviz.tensors.lazy import Stored

Array = npt.NDArray[Any]


def codes(
    x: Stored, scheme: Scheme, qparams: QParams, start: int, stop: int, *, path: str | None = None
) -> tuple[Array, Array, Array, Array]:
    """Return `q`, `x_hat`, `error` and `clipped` of the flat elements from `start` to before `stop`, `(n,)`.

    `qparams` are the whole tensor's, as `ranges.qparams` gives them. `path` forces "fused" or "chunked".

    >>> from quantviz.streaming.ranges import qparams
    >>> from quantviz.tensors.lazy import InMemory
    >>> x = InMemory(torch.tensor([1.0, 0.3, -7.0]))
    >>> [part.tolist() for part in codes(x, Scheme("int4"), qparams(x, Scheme("int4")), 1, 3)[:2]]
    [[0, -7], [0.0, -7.0]]
    """
    buffers = Buffers(stop - start)
    Coder(scheme, qparams, x.shape, path).put(x.run(start, stop), start, buffers)
    q, x_hat, error, clipped, _ = buffers.arrays
    return q.astype(scheme.number_format.code_dtype), x_hat, error, clipped


def reference_on_run(x: Stored, scheme: Scheme, qparams: QParams, start: int, stop: int) -> QuantResult:
    return quantize_cells(
        torch.from_numpy(np.array(x.run(start, stop))), scheme, qparams, x.shape, torch.arange(start, stop)
    )


class Coder:
    """The quantization of runs of a large tensor under its scales, prepared once.


    >>> x, scheme = torch.tensor([1.0, 0.3, -7.0]), Scheme("int4")
    >>> coder, buffers = Coder(scheme, QParams(torch.tensor([1.0]), torch.tensor([0])), (3,)), Buffers(2)
    >>> coder.put(x.numpy()[1:], 1, buffers)
    >>> buffers.arrays[0].tolist(), buffers.arrays[4].round(3).tolist()
    ([0, -7], [-0.3, 0.0])
    """

    def __init__(self, scheme: Scheme, qparams: QParams, shape: Shape, path: str | None = None) -> None:
        self._scheme = scheme
        self._qparams = qparams
        self._shape = shape
        self._layout = scheme.layout(shape)
        fused = path == "fused" or (
            path is None and math.prod(shape) > limits.SMALL and scheme_ready(scheme, shape)
        )
        self._program = program_of(scheme, qparams, self._layout) if fused else None
        self._of_blocks = self._program.of_blocks(qparams) if self._program else None

    @property
    def is_compiled(self) -> bool:
        return self._program is not None

    def errors(self, start: int, stop: int) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
        """Return the arguments of `driving.put` for the errors alone of some elements.

        They are the compiled arithmetic's address, the places of the blocks, and their values.
        """
        assert self._program is not None
        assert self._of_blocks is not None
        place = self._program.place(self._layout, start, stop)
        return (
            self._program.errors_address(),
            place,
            (self._of_blocks, self._layout.block_count, *self._program.constants),
        )

    def put(self, values: Array, start: int, buffers: Buffers) -> None:
        """Write codes, values and errors of `values`, which begin at `start`, into `buffers`."""
        if self._program is not None and self._of_blocks is not None:
            self._program.run(read_only(values), start, self._layout, self._of_blocks, buffers)
        else:
            self.put_at(values, torch.arange(start, start + len(values)), buffers)

    def put_at(self, values: Array, places: torch.Tensor, buffers: Buffers) -> None:
        """Write those of elements at flat `places`, by the reference's operations."""
        for start, stop in runs_between(len(values), limits.CHUNK):
            r = quantize_cells(
                torch.from_numpy(np.array(values[start:stop])),
                self._scheme,
                self._qparams,
                self._shape,
                places[start:stop],
            )
            q, x_hat, error, clipped, steps = buffers.part(start, stop).arrays
            error[:] = r.error.numpy()
            if buffers.errors_alone:
                continue
            q[:] = r.q.numpy()
            x_hat[:] = r.x_hat.numpy()
            clipped[:] = r.clipped.numpy()
            steps[:] = steps_of_error(r).numpy()
