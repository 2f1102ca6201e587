"""ComfyUI's scaled FP8: `X.weight` FP8 and `X.scale_weight`, one number or one a row, by which it is
multiplied; `X.scale_input` is of inputs. An empty tensor `scaled_fp8` marks such a file.

Source: ComfyUI, `comfy/ops.py` (`scaled_fp8_ops`).
"""

from __future__ import annotations

import functools

from quantviz.sources.layouts.forms import FLOATS, Form
from quantviz.sources.layouts.scaled import FP8, scaled_codes

FORMS = (
    Form(
        {"weight": FP8, "scale_weight": FLOATS},
        functools.partial(scaled_codes, scales="scale_weight"),
        beside=("bias", "scale_input"),
    ),
)
