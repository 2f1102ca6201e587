"""The effect of the input's dtype on a scheme's arithmetic, and the notes on it."""

from __future__ import annotations

from quantviz.errors import Note
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.lazy import HalfPrecision, Stored


def rounded_to(scheme: Scheme) -> str | None:
    """Return the dtype of half precision that a scheme rounds its input to, if it does."""
    dtype = scheme.chosen.input_dtype
    return dtype if dtype in HALVES else None


def input_notes(scheme: Scheme, dtype: str) -> tuple[Note, ...]:
    """Return the notes on an input of `dtype` under a scheme chosen regardless of it; none on float32."""
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
    """Return a tensor and a scheme that go together, and notes.

    The tensor is rounded to the dtype that the scheme names, or the scheme is the one for the tensor's dtype.
    """
    half = rounded_to(scheme)
    if half is not None and x.dtype != half:
        return HalfPrecision(x, half), scheme, (Note.of("rounded_to_dtype", dtype=half),)
    return x, scheme.on_input(x.dtype), input_notes(scheme, x.dtype)
