"""The effect of the input's dtype on a scheme's arithmetic, and the notes on it."""

from __future__ import annotations

from quantviz.errors import Note
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.lazy import HalfPrecision, Stored


def rounded_to(scheme: Scheme) -> str | None:
    """Return the dtype of half precision that a scheme rounds its input to; none where it takes the input as
    it is.
    """
    dtype = scheme.chosen.input_dtype
    return dtype if dtype in HALVES else None


def input_notes(scheme: Scheme, dtype: str) -> tuple[Note, ...]:
    """Return the notes on an input of `dtype` under a scheme that was chosen regardless of it; none on
    float32.

    >>> gguf = Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    >>> str(*input_notes(gguf, "bfloat16"))
    'Widened from bfloat16 to float32 first, as this engine does.'
    """
    if dtype not in HALVES or rounded_to(scheme) is not None:
        return ()
    half_input = scheme.chosen.half_input_of(dtype, scheme.format)
    if half_input is None or scheme.chosen.input_dtype != "own":
        key = "input_widened"
    elif not half_input.taken:
        key = "input_not_taken"
    else:
        key = "input_as_engine" if half_input.changes else "input_widened_by_engine"
    return (Note.of(key, dtype=dtype),)


def on_stored(x: Stored, scheme: Scheme) -> tuple[Stored, Scheme, tuple[Note, ...]]:
    """Return a tensor and a scheme that go together, and notes: the tensor rounded to the dtype that the
    scheme names, or the scheme for the dtype that the tensor has.

    >>> import torch
    >>> from quantviz.tensors.lazy import InMemory
    >>> x = InMemory(torch.ones(2), dtype="bfloat16")
    >>> print(on_stored(x, Scheme("int8", convention="torchao"))[1])
    int8,symmetric,per_tensor,min_max,torchao(input_dtype=bfloat16)
    """
    half = rounded_to(scheme)
    if half is not None and x.dtype != half:
        return HalfPrecision(x, half), scheme, (Note.of("rounded_to_dtype", dtype=half),)
    return x, scheme.on_input(x.dtype), input_notes(scheme, x.dtype)
