"""A tensor that need not lie in memory as float32: its values are read a part at a time."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from quantviz.errors import Note, QuantVizError
from quantviz.public_calls import public_but
from quantviz.schemes.granularity import Shape, Window
from quantviz.schemes.orientation import Orientation
from quantviz.tensors.blocks import oriented, viewed
from quantviz.tensors.conversion import as_real, refuse_other_kinds, to_half

if TYPE_CHECKING:
    from quantviz.schemes.scheme import Scheme

Values = npt.NDArray[np.float32]
#: A weight that does not lie as outputs × inputs is turned whole up to so many elements.
_MOST_TRANSPOSED_WHOLE = 2**22


class OwnScales(NamedTuple):
    """Scales and zero points of a tensor's file, one a block of its scheme."""

    scale: torch.Tensor
    zero_point: torch.Tensor


class Stored(ABC):
    """Values of a real tensor of 1 to 5 axes, read-only. Safe to read from several threads at once."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"

    def __array__(self, *_: object, **__: object) -> NoReturn:
        # `quantize` and its like need the whole array: the error names the way to load it.
        raise QuantVizError("input_stored", got=type(self).__name__)

    _shape: Shape
    _dtype: str = "float32"
    _notes: tuple[Note, ...] = ()

    @property
    def shape(self) -> Shape:
        """Return the lengths of the axes, none of them 0."""
        return self._shape

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> str:
        """Return the dtype that its values are stored in; they are read as float32."""
        return self._dtype

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return notes on how the tensor was read."""
        return self._notes

    @property
    def in_place(self) -> bool:
        """Whether `run` copies nothing, however long the run is."""
        return False

    @property
    def own_scheme(self) -> Scheme | None:
        """Return the scheme of a tensor that is quantized in its file."""
        return None

    def own_scales(self, scheme: Scheme) -> OwnScales | None:
        """Return the scales in the file, if the tensor is quantized there under `scheme`."""
        stored_scheme = self.own_scheme
        alike = (
            stored_scheme is not None and scheme.replace(nonfinite=stored_scheme.nonfinite) == stored_scheme
        )
        return self._file_scales if alike else None

    @property
    def _file_scales(self) -> OwnScales | None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets its values, wherever it lies.
        values = self.read((slice(None),) * len(self.shape)).contiguous().numpy()
        return _in_memory, (values, self.notes, self.dtype, self.own_scheme, self._file_scales)

    def check(self) -> None:  # noqa: B027
        """Raise `QuantVizError` if its file has been changed and must not be read any more."""

    @abstractmethod
    def run(self, start: int, stop: int) -> Values:
        """Return the elements from `start` to before `stop`, row-major: contiguous, not to be changed.

        A view where they lie as float32, else a copy, with NaN and Inf. `QuantVizError` for a changed file.
        """

    @abstractmethod
    def read(self, index: Window) -> torch.Tensor:
        """Return the part at `index`, one number or slice of step 1 an axis: float32, not to be changed."""

    def rows_as_stored(self, start: int, stop: int) -> torch.Tensor:
        """Return some indices of the first axis, in a stored half precision or float32; not to be changed."""
        return self.read((slice(start, stop), *(slice(None),) * (len(self.shape) - 1)))


class InMemory(Stored):
    """A tensor that lies in memory.

    >>> x = InMemory(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> x.run(1, 3).tolist(), x.read((slice(0, 2), 1)).tolist()
    ([2.0, 3.0], [2.0, 4.0])
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        notes: tuple[Note, ...] = (),
        dtype: str = "float32",
        own: tuple[Scheme, OwnScales] | None = None,
    ) -> None:
        self._tensor = tensor.contiguous()
        self._shape = tuple(tensor.shape)
        self._notes = notes
        self._dtype = dtype
        self._flat: Values = self._tensor.flatten().numpy()
        self._of_file = own

    @property
    def in_place(self) -> bool:
        return True

    @property
    def own_scheme(self) -> Scheme | None:
        return self._of_file and self._of_file[0]

    @property
    def _file_scales(self) -> OwnScales | None:
        return self._of_file and self._of_file[1]

    def run(self, start: int, stop: int) -> Values:
        return self._flat[start:stop]

    def read(self, index: Window) -> torch.Tensor:
        return self._tensor[index]


def _in_memory(
    values: Values, notes: tuple[Note, ...], dtype: str, scheme: Scheme | None, scales: OwnScales | None
) -> InMemory:
    of_file = None if scheme is None or scales is None else (scheme, scales)
    return InMemory(torch.from_numpy(values), notes, dtype, of_file)


class Over(Stored):
    """Another view of a stored tensor, with its dtype and notes, valid as long as that is."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._shape = stored.shape
        self._dtype = stored.dtype
        self._notes = stored.notes

    def check(self) -> None:
        self._stored.check()


class HalfPrecision(Over):
    """The same tensor rounded to a dtype of half precision.

    >>> HalfPrecision(InMemory(torch.tensor([1.0, 1.001])), "bfloat16").run(0, 2).tolist()
    [1.0, 1.0]
    """

    def __init__(self, stored: Stored, dtype: str) -> None:
        super().__init__(stored)
        self._dtype = dtype

    def run(self, start: int, stop: int) -> Values:
        values: Values = self._rounded(torch.tensor(self._stored.run(start, stop))).numpy()
        return values

    def read(self, index: Window) -> torch.Tensor:
        return self._rounded(self._stored.read(index))

    def _rounded(self, values: torch.Tensor) -> torch.Tensor:
        return to_half(values, self._dtype).to(torch.float32)


class Matrix(Over):
    """A tensor of two axes or more as a matrix, its first axis by the others; only what is read is copied.

    >>> x = Matrix(InMemory(torch.arange(12.0).view(2, 3, 2)))
    >>> x.shape, x.read((slice(0, 2), slice(1, 3))).tolist(), x.read((1, slice(None))).tolist()
    ((2, 6), [[1.0, 2.0], [7.0, 8.0]], [6.0, 7.0, 8.0, 9.0, 10.0, 11.0])
    """

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        rows, *rest = stored.shape
        self._shape = rows, math.prod(rest)

    @property
    def in_place(self) -> bool:
        return self._stored.in_place

    def run(self, start: int, stop: int) -> Values:
        return self._stored.run(start, stop)

    def read(self, index: Window) -> torch.Tensor:
        rows, cols = (
            range(n)[part : part + 1] if isinstance(part, int) else range(n)[part]
            for part, n in zip(index, self._shape, strict=True)
        )
        width = self._shape[1]
        if len(cols) == width:  # whole rows lie in one piece
            values = np.array(self.run(rows.start * width, rows.stop * width))
        else:
            values = np.empty(len(rows) * len(cols), dtype=np.float32)
            for i, row in enumerate(rows):
                values[i * len(cols) : (i + 1) * len(cols)] = self.run(
                    row * width + cols.start, row * width + cols.stop
                )
        part = viewed(torch.from_numpy(values), (len(rows), len(cols)))
        return part[tuple(0 if isinstance(each, int) else slice(None) for each in index)]


class ByRows(Stored):
    """The base of a matrix that is read by whole rows."""

    @abstractmethod
    def _rows(self, first: int, last: int) -> torch.Tensor:
        """Return the rows from the first to before the last."""

    def run(self, start: int, stop: int) -> Values:
        columns = self.shape[1]
        first = start // columns
        values: Values = self._rows(first, -(-stop // columns)).flatten().numpy()
        return values[start - first * columns : stop - first * columns]

    def read(self, index: Window) -> torch.Tensor:
        rows, columns = index
        if not isinstance(rows, slice):
            return self._rows(rows, rows + 1)[0, columns]
        first, last, step = rows.indices(self.shape[0])
        return self._rows(first, last)[::step, columns]


class Oriented(Over, ByRows):
    """A weight as a matrix, outputs × inputs, whichever of its axes are the outputs.

    Only what is read is copied: a small weight whole at once, of a large one whole bands, of which each
    thread keeps its last.

    >>> x = Oriented(InMemory(torch.arange(6.0).view(2, 3)), Orientation((1,)))
    >>> x.shape, x.run(0, 4).tolist(), x.read((slice(1, 3), 0)).tolist()
    ((3, 2), [0.0, 3.0, 1.0, 4.0], [1.0, 2.0])
    """

    def __init__(self, stored: Stored, orientation: Orientation) -> None:
        super().__init__(stored)
        self._orientation = orientation
        self._shape = orientation.seen(stored.shape)
        self._small: InMemory | None = None
        self._lock = threading.Lock()
        self._own = threading.local()

    def run(self, start: int, stop: int) -> Values:
        if (small := self._whole()) is not None:
            return small.run(start, stop)
        columns = self._shape[1]
        band_rows = max(1, _MOST_TRANSPOSED_WHOLE // columns)
        # A few rows are columns of the file, which are read through all of it.
        first = start // columns // band_rows * band_rows
        if -(-stop // columns) > first + band_rows:
            return super().run(start, stop)
        values = self._band(first, min(first + band_rows, self._shape[0]))
        return values[start - first * columns : stop - first * columns]

    def read(self, index: Window) -> torch.Tensor:
        if (small := self._whole()) is not None:
            return small.read(index)
        if len(self._stored.shape) == 2:
            part = self._stored.read(index[::-1])
            return part.T.contiguous() if part.dim() == 2 else part
        return super().read(index)

    def _band(self, first: int, last: int) -> Values:
        self.check()
        kept: tuple[int, Values] | None = getattr(self._own, "band", None)
        if kept is None or kept[0] != first:
            kept = self._own.band = first, self._rows(first, last).flatten().numpy()
        return kept[1]

    def _whole(self) -> InMemory | None:
        # Of a small tensor alone.
        if math.prod(self._shape) > _MOST_TRANSPOSED_WHOLE:
            return None
        self.check()
        with self._lock:
            if self._small is None:
                self._small = InMemory(self._rows(0, self._shape[0]), dtype=self.dtype)
            return self._small

    def _rows(self, first: int, last: int) -> torch.Tensor:
        # Of several axes of outputs only the first's indices in use are read.
        shape = self._stored.shape
        outputs = self._orientation.outputs
        a_step = math.prod(shape[axis] for axis in outputs[1:])
        start = first // a_step
        stop = -(-last // a_step)
        window = [slice(None)] * len(shape)
        window[outputs[0]] = slice(start, stop)
        part = oriented(self._stored.read(tuple(window)), self._orientation)
        return part[first - start * a_step : last - start * a_step]


@public_but("outputs_axis")
def as_matrix(x: Any, outputs_axis: int | tuple[int, ...] = 0) -> Any:
    """Return `x` as a matrix, outputs × inputs, as engines store and group a weight.

    The first axis is that of the outputs unless another is named; all others are joined.

    Args:
        x: A tensor or nested list of 2 to 4 axes (O, I, kh, kw), or a `Stored`, such as a catalogue's
            `stored(name)`.
        outputs_axis: The axis of the outputs, or several: 1 for GPT-2's Conv1D and ONNX's MatMul (I, O), 3
            for a Keras convolution (kh, kw, I, O), (0, 2) for stacked experts (E, I, O).

    Returns:
        A tensor of (O, I·kh·kw) in the same memory, or a `Stored` that reads no more than each part in use.

    Raises:
        QuantVizError: There is one axis only, there are no such axes, or the tensor does not lie in memory
            row by row.

    >>> as_matrix(torch.zeros(64, 3, 7, 7)).shape, as_matrix(torch.zeros(128, 384), 1).shape
    (torch.Size([64, 147]), torch.Size([384, 128]))
    """
    axes = outputs_axis if isinstance(outputs_axis, tuple) else (outputs_axis,)
    if isinstance(x, Stored):
        _refuse_vectors(x.shape)
        orientation = _orientation_of(axes, x.shape)
        return Matrix(x) if orientation.is_usual else Oriented(x, orientation)
    tensor = x if isinstance(x, torch.Tensor) else as_real(x).values
    refuse_other_kinds(tensor)
    _refuse_vectors(tuple(tensor.shape))
    if not tensor.numel():
        raise QuantVizError("input_empty", shape=tuple(tensor.shape))
    orientation = _orientation_of(axes, tuple(tensor.shape))
    if not orientation.is_usual:
        return oriented(tensor, orientation)
    try:
        return viewed(tensor, (tensor.shape[0], -1))
    except RuntimeError:
        raise QuantVizError("as_matrix_memory", shape=tuple(tensor.shape)) from None


def _orientation_of(axes: tuple[int, ...], shape: Shape) -> Orientation:
    whole = all(type(axis) is int and -len(shape) <= axis < len(shape) for axis in axes)
    orientation = Orientation(tuple(axis % len(shape) for axis in axes), "user") if whole and axes else None
    if orientation is None or not orientation.fits(shape):
        raise QuantVizError("as_matrix_outputs", got=axes[0] if len(axes) == 1 else axes, shape=shape)
    return orientation


def _refuse_vectors(shape: Shape) -> None:
    if len(shape) < 2:
        raise QuantVizError("as_matrix_axes", shape=shape)


def as_stored(x: Any) -> tuple[Stored, tuple[Note, ...]]:
    """Return `x` itself if it is `Stored`, else `as_real`'s tensor as one, and the notes of changes."""
    if isinstance(x, Stored):
        return x, ()
    tensor, notes, dtype = as_real(x)
    return InMemory(tensor, dtype=dtype), notes
