"""Conversion of an input to the float32 tensor that is quantized, with the rules for NaN and Inf."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.granularity import Shape

#: Every value is a float32 value.
_EXACT = frozenset(
    {
        *(torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz),
        *(torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
    }
)
#: The values that float32 cannot hold are counted.
_COUNTED = frozenset(
    {
        *(torch.float64, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    }
)
#: For tensors that repeat fewer elements by `expand` or broadcasting; others lie in memory already.
_MOST_REPEATED = 2**28


def as_float32(tensor: torch.Tensor) -> tuple[torch.Tensor, tuple[Note, ...]]:
    """Return `tensor` as float32 on the CPU, detached, and a note that counts the changed values.

    Raises:
        QuantVizError: For bool, complex, quantized, sparse and nested tensors.

    >>> values, notes = as_float32(torch.tensor([1, 2**24 + 1]))
    >>> values.dtype, str(notes[0])
    (torch.float32, 'int64 was stored as float32: 1 of 2 values changed.')
    """
    plain = as_plain(tensor)
    if plain.dtype in _EXACT:
        return plain.to(torch.float32), ()
    values = plain.to(torch.float32)
    # NaN differs from itself but is no change; a finite value that became inf is refused later, by place.
    back = values.to(plain.dtype)
    changed = int(((back != plain) & (plain == plain)).sum())
    params = {"dtype": dtype_name(plain.dtype), "changed": changed, "count": plain.numel()}
    return values, (Note.of("stored_as_float32", **params),)


@dataclass(frozen=True)
class NonFinite:
    """The counts of NaN, Inf and -Inf in a tensor, and the first of them.

    >>> NonFinite.of(torch.tensor([1.0, math.inf, math.nan]))
    NonFinite(nan=1, inf=1, minus_inf=0, first=(1,), value=inf)
    """

    nan: int
    inf: int
    minus_inf: int
    #: In row-major order.
    first: Shape
    #: As stored: of float64 it can be a number beyond float32.
    value: float

    @classmethod
    def of(cls, values: torch.Tensor, stored: torch.Tensor | None = None) -> NonFinite | None:
        """Return the counts of `values`, stored before as `stored`; None if all are finite."""
        finite = torch.isfinite(values)
        if bool(finite.all()):
            return None
        first = tuple(int(i) for i in torch.nonzero(~finite)[0])
        nan = int(torch.isnan(values).sum())
        inf = int((values == math.inf).sum())
        minus_inf = int((values == -math.inf).sum())
        return cls(nan, inf, minus_inf, first, float((values if stored is None else stored)[first]))

    @property
    def count(self) -> int:
        return self.nan + self.inf + self.minus_inf

    @property
    def shown(self) -> str | float:
        """Return the first one's name, or its number before rounding."""
        if math.isnan(self.value):
            return "NaN"
        if math.isfinite(self.value):
            return self.value
        if self.value > 0:
            return "Inf"
        return "-Inf"

    def refusal(self, rounded_to: str | None = None) -> QuantVizError:
        """Return the error; `rounded_to` is the dtype that the values were rounded to first."""
        if rounded_to is not None and math.isfinite(self.value):
            return QuantVizError(
                "input_beyond_dtype", dtype=rounded_to, value=self.shown, index=self.first, count=self.count
            )
        key = "input_beyond_float32" if math.isfinite(self.value) else "input_nonfinite"
        return QuantVizError(key, value=self.shown, index=self.first, count=self.count)

    def note(self, nonfinite: str) -> Note:
        """Return the note under a rule other than "refuse"."""
        key = "nonfinite_clipped" if nonfinite == "clip" else "nonfinite_left_out"
        counts = {"count": self.count, "nan": self.nan, "inf": self.inf, "minus_inf": self.minus_inf}
        return Note.of(key, **counts, index=self.first, value=self.shown)


class Input(NamedTuple):
    values: torch.Tensor
    notes: tuple[Note, ...]
    #: The dtype that it came in.
    dtype: str


def as_real(x: Any) -> Input:
    """Return a real tensor or nested list of 1 to 4 axes as float32, with NaN and Inf.

    Raises:
        QuantVizError: For anything else.

    >>> as_real([[1.0, math.inf]]).values.tolist()
    [[1.0, inf]]
    """
    tensor = _tensor(x)
    return Input(*as_float32(tensor), dtype_name(tensor.dtype))


def as_dtype(values: torch.Tensor, dtype: str) -> tuple[torch.Tensor, tuple[Note, ...]]:
    """Return values rounded to a dtype of half precision, and a note if one changed.

    >>> values, notes = as_dtype(torch.tensor([1.0, 1.001]), "bfloat16")
    >>> values.tolist(), str(notes[0])
    ([1.0, 1.0], 'The values were rounded to bfloat16, the input dtype of the scheme, before quantizing.')
    """
    rounded = to_half(values, dtype)
    changed = (rounded.to(values.dtype) != values) & (values == values)
    return rounded, (Note.of("rounded_to_dtype", dtype=dtype),) if bool(changed.any()) else ()


def to_half(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """Return values in half precision, every NaN positive: torch's sign of it depends on its place.

    >>> to_half(torch.full((20,), math.nan), "bfloat16").signbit().any().item()
    False
    """
    half = values.to(torch_dtype(dtype))
    return half.masked_fill(half.isnan(), math.nan)


def as_input(x: Any, nonfinite: str = "refuse", rounded_to: str | None = None) -> Input:
    """Return a tensor, array or nested list of 1 to 4 axes (see `as_plain`) as it is quantized.

    `rounded_to` names a dtype of half precision for the values first. Unless `nonfinite` is "refuse", NaN and
    Inf come through. Raises `QuantVizError` for anything else, and for refused values with the first place
    and their count.

    >>> as_input([[1.0, 2.0], [3.0, 4.0]]).values.shape
    torch.Size([2, 2])
    >>> as_input([[1.0, math.inf, math.nan]], "clip").values.tolist()
    [[1.0, inf, nan]]
    """
    tensor = given = _tensor(x)
    rounding: tuple[Note, ...] = ()
    if rounded_to is not None and tensor.dtype != torch_dtype(rounded_to):
        tensor, rounding = as_dtype(tensor, rounded_to)
    values, notes = as_float32(tensor)
    notes = (*rounding, *notes)
    dtype = dtype_name(given.dtype)
    found = NonFinite.of(values, given)
    if found is None:
        return Input(values, notes, dtype)
    if nonfinite == "refuse":
        raise found.refusal(rounded_to)
    return Input(values, (*notes, found.note(nonfinite)), dtype)


def as_plain(x: Any) -> torch.Tensor:
    """Return `x` as a dense real tensor on the CPU, detached, in its own dtype, with any number of axes.

    `x` is a torch tensor, nested list, NumPy array in any order of bytes and elements, or an object that
    NumPy reads as an array, such as a table of pandas.

    Raises:
        QuantVizError: For anything else, and for masked values: there is no value there, so that neither
            using the stored one nor making one up would be right.

    >>> as_plain(np.array([1.0, 2.0], dtype=">f4")[::-1])
    tensor([2., 1.])
    """
    tensor = x if isinstance(x, torch.Tensor) else _converted(x)
    refuse_other_kinds(tensor)
    return tensor.detach().cpu().resolve_neg()


def refuse_other_kinds(tensor: torch.Tensor) -> None:
    """Raise `QuantVizError` unless a tensor is dense, real, and repeats values within `_MOST_REPEATED`."""
    if (
        tensor.is_nested
        or tensor.layout != torch.strided
        or tensor.is_quantized
        or tensor.device.type == "meta"
        or not _has_values(tensor)
    ):
        raise QuantVizError("input_not_dense")
    if tensor.dtype not in _EXACT | _COUNTED:
        raise QuantVizError("input_dtype", dtype=dtype_name(tensor.dtype))
    # An expanded or broadcast tensor takes no memory until it is computed with.
    if tensor.numel() > max(_MOST_REPEATED, tensor.untyped_storage().nbytes() // tensor.itemsize):
        raise QuantVizError(
            "input_too_large", count=tensor.numel(), shape=tuple(tensor.shape), most=_MOST_REPEATED
        )


def _has_values(tensor: torch.Tensor) -> bool:
    # Tensors that trace a program have a shape alone.
    try:
        return tensor.untyped_storage().data_ptr() != 0 or not tensor.numel()
    except (RuntimeError, NotImplementedError):
        return False


def _converted(x: Any) -> torch.Tensor:
    try:
        if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
            return _of_array(x if isinstance(x, np.ndarray) else np.array(x))
        if not isinstance(x, list | tuple):
            return torch.as_tensor(x)
        first: Any = x
        while isinstance(first, list | tuple) and first:
            first = first[0]
        arrays = isinstance(first, torch.Tensor | np.ndarray)
        return torch.stack([as_plain(each) for each in x]) if arrays else torch.tensor(x)
    except QuantVizError:
        raise
    except MemoryError:
        shape = tuple(getattr(x, "shape", ()))
        raise QuantVizError(
            "input_too_large", count=math.prod(shape), shape=shape, most=_MOST_REPEATED
        ) from None
    except (ValueError, TypeError, RuntimeError, OverflowError):
        raise QuantVizError("input_not_tensor", got=type(x).__name__) from None


def _of_array(array: np.ndarray[Any, Any]) -> torch.Tensor:
    # In its own memory where torch can read that.
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise QuantVizError("input_masked", count=int(np.ma.getmaskarray(array).sum()), shape=array.shape)
        array = array.data
    if array.dtype.name == "bfloat16":
        # That of ml_dtypes, which torch does not take.
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    if array.dtype.kind not in "fiub":
        # 8-bit floats of ml_dtypes are kinds of their own.
        if not np.can_cast(array.dtype, np.float32):
            raise QuantVizError("input_dtype", dtype=array.dtype)
        array = array.astype(np.float32)
    if array.itemsize > 8:
        raise QuantVizError("input_dtype", dtype=array.dtype)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    # torch steps forwards, and by whole elements: the field of a structured array need not.
    uneven = any(stride < 0 or stride % native.itemsize for stride in native.strides)
    return torch.as_tensor(native.copy() if uneven else native)


def _tensor(x: Any) -> torch.Tensor:
    tensor = as_plain(x)
    if not 1 <= tensor.dim() <= 4:
        raise QuantVizError("input_dims", got=tensor.dim(), shape=tuple(tensor.shape))
    if tensor.numel() == 0:
        raise QuantVizError("input_empty", shape=tuple(tensor.shape))
    return tensor


def as_codes(q: Any, fmt: NumberFormat) -> torch.Tensor:
    """Return whole numbers of 1 to 4 axes as codes of the format; raise `QuantVizError` for others.

    >>> from quantviz.schemes.formats import FORMATS
    >>> as_codes([3, 15], FORMATS["nf4"]).tolist()
    [3, 15]
    """
    tensor = _tensor(q)
    first_wrong = _first_wrong(tensor, fmt.code_min, fmt.code_max)
    if first_wrong is not None:
        ends = {"smallest": fmt.code_min, "largest": fmt.code_max}
        raise QuantVizError("code_out_of_range", got=first_wrong, format=fmt.id, **ends)
    return tensor


def as_accumulators(sums: Any) -> torch.Tensor:
    """Return whole numbers within int32, of 1 to 4 axes, as int64; raise `QuantVizError` for others.

    >>> as_accumulators([585, -4524]).tolist()
    [585, -4524]
    """
    tensor = _tensor(sums)
    first_wrong = _first_wrong(tensor, -(2**31), 2**31 - 1)
    if first_wrong is not None:
        raise QuantVizError("accumulator_not_int32", got=first_wrong)
    return tensor.to(torch.int64)


def _first_wrong(tensor: torch.Tensor, lowest: int, highest: int) -> float | None:
    # Not whole, or beyond the ends.
    # 16 bits without a sign have no arithmetic.
    wide = tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64)
    right = (wide >= lowest) & (wide <= highest) & (wide == wide.round())
    return None if bool(right.all()) else wide[~right][0].item()


def dtype_name(dtype: torch.dtype) -> str:
    """Return the dtype's name without its module."""
    return str(dtype).removeprefix("torch.")


def torch_dtype(name: str) -> torch.dtype:
    """Return the dtype that torch calls `name`."""
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype
