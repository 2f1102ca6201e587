"""From what a person has to what is quantized: a finite float32 tensor of 1 to 4 axes."""

from __future__ import annotations

from typing import Any

import torch

from quantviz.errors import Note, QuantVizError

#: Dtypes whose every value is a float32 value.
_EXACT = frozenset(
    {
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2,
        torch.float8_e5m2fnuz,
        torch.float8_e8m0fnu,
    }
)
#: Dtypes that are converted with a count of the values float32 cannot hold.
_COUNTED = frozenset({torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64})


def as_float32(tensor: torch.Tensor) -> tuple[torch.Tensor, tuple[Note, ...]]:
    """`tensor` as float32 on the CPU, detached, and a note that counts the values changed by it.

    Raises `QuantVizError` for bool, complex, quantized and sparse tensors.

    >>> values, notes = as_float32(torch.tensor([1, 2**24 + 1]))
    >>> values.dtype, str(notes[0])
    (torch.float32, 'int64 was stored as float32: 1 of 2 values changed.')
    """
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        raise QuantVizError("input_not_dense")
    plain = tensor.detach().cpu()
    if plain.dtype in _EXACT:
        return plain.to(torch.float32), ()
    if plain.dtype not in _COUNTED:
        raise QuantVizError("input_dtype", dtype=dtype_name(plain.dtype))
    values = plain.to(torch.float32)
    # NaN differs from itself but is no change; a finite value that became inf is refused later, by place.
    back = values.to(plain.dtype)
    changed = int(((back != plain) & (plain == plain)).sum())
    return values, (Note.of("stored_as_float32", dtype=dtype_name(plain.dtype), changed=changed, count=plain.numel()),)


def as_input(x: Any) -> tuple[torch.Tensor, tuple[Note, ...]]:
    """`x`, a real tensor or nested list, as the tensor that is quantized, and what changed on the way.

    Raises `QuantVizError` for anything else than 1 to 4 axes of finite real numbers, with the place
    of the first bad value and how many there are.

    >>> as_input([[1.0, 2.0], [3.0, 4.0]])[0].shape
    torch.Size([2, 2])
    """
    if isinstance(x, torch.Tensor):
        tensor = x
    else:
        try:
            tensor = torch.tensor(x) if isinstance(x, list | tuple) else torch.as_tensor(x)
        except (ValueError, TypeError, RuntimeError, OverflowError):
            raise QuantVizError("input_not_tensor", got=type(x).__name__) from None
    if not 1 <= tensor.dim() <= 4:
        raise QuantVizError("input_dims", got=tensor.dim(), shape=tuple(tensor.shape))
    if tensor.numel() == 0:
        raise QuantVizError("input_empty", shape=tuple(tensor.shape))
    values, notes = as_float32(tensor)
    finite = torch.isfinite(values)
    if not bool(finite.all()):
        _refuse_nonfinite(tensor.detach().cpu(), finite)
    return values, notes


def _refuse_nonfinite(original: torch.Tensor, finite: torch.Tensor) -> None:
    bad = torch.nonzero(~finite)
    first = tuple(int(i) for i in bad[0])
    value = original[first].item()
    overflowed = original.dtype == torch.float64 and bool(torch.isfinite(original[first]))
    key = "input_beyond_float32" if overflowed else "input_nonfinite"
    raise QuantVizError(key, value=value, index=first, count=len(bad))


def dtype_name(dtype: torch.dtype) -> str:
    """The dtype's name without its module.

    >>> dtype_name(torch.int8)
    'int8'
    """
    return str(dtype).removeprefix("torch.")


def torch_dtype(name: str) -> torch.dtype:
    """The dtype that torch calls `name`.

    >>> torch_dtype("float32")
    torch.float32
    """
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype
