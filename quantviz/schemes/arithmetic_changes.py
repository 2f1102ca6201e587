"""Corrections of the arithmetic, because of which an older link can show other codes now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.calibration import MinMax
from quantviz.schemes.scheme import Scheme


@dataclass(frozen=True)
class TensorTraits:
    dtype: str = "float32"
    #: Whether no value is NaN, Inf or -Inf.
    finite: bool = True


@dataclass(frozen=True)
class ArithmeticChange:
    #: The number of the arithmetic that has it first: `quantviz.quantization.quantizer.ARITHMETIC`.
    number: int
    #: Names the sentence `mended_<key>` among the notes.
    key: str
    #: Whether it can change the codes of a scheme, for a tensor.
    concerns: Callable[[Scheme, TensorTraits], bool]


def _clamped_at_127(scheme: Scheme, tensor: TensorTraits) -> bool:
    convention = scheme.chosen
    if convention.id == "torch":
        return convention.narrow_range and not isinstance(scheme.calibration, MinMax)
    return (
        convention.id in ("onnxruntime", "onnxruntime_blocked")
        and scheme.mode == "symmetric"
        and scheme.number_format.bits >= convention.narrow_symmetric_from
        # In its own range no value reaches the clamp.
        and not isinstance(scheme.calibration, MinMax)
    )


def _in_half_precision(scheme: Scheme, tensor: TensorTraits) -> bool:
    return tensor.dtype in HALVES and scheme.on_input(tensor.dtype) != scheme


def _from_the_first_code(scheme: Scheme, tensor: TensorTraits) -> bool:
    convention = scheme.chosen
    return (
        convention.scale.rule == "without_clipping"
        and scheme.mode == "symmetric"
        and not scheme.number_format.signed
    )


ARITHMETIC_CHANGES = (
    ArithmeticChange(2, "clamp", _clamped_at_127),
    ArithmeticChange(
        2, "nonfinite", lambda scheme, tensor: scheme.nonfinite != "refuse" and not tensor.finite
    ),
    ArithmeticChange(2, "half", _in_half_precision),
    ArithmeticChange(2, "exponent", lambda scheme, tensor: scheme.chosen.id == "gguf_mx"),
    ArithmeticChange(2, "zeros", lambda scheme, tensor: scheme.chosen.id == "modelopt_int4"),
    ArithmeticChange(2, "unsigned", _from_the_first_code),
)


def changes_since(number: int, scheme: Scheme, tensor: TensorTraits) -> tuple[str, ...]:
    """Return the keys of the corrections since an arithmetic of `number` that concern a scheme.

    >>> scheme = Scheme.parse("int8,symmetric,per_tensor,percentile(p=99.9),onnxruntime")
    >>> [changes_since(number, scheme, TensorTraits()) for number in (1, 2)]
    [('clamp',), ()]
    """
    return tuple(
        mend.key for mend in ARITHMETIC_CHANGES if mend.number > number and mend.concerns(scheme, tensor)
    )
