"""The dial of SmoothQuant: α moves the loudness of input channels into the weights."""

from __future__ import annotations

from typing import cast

import numpy as np

from quantviz.figures.marks import Marks, Numbers
from quantviz.layers.layer_result import layer
from quantviz.teaching.lessons.dial_series import MarksPicture, Series, Tensor, layer_address

#: The values of α.
_STEPS = 20


def series(weights: Tensor, inputs: Tensor) -> Series:
    """Return the layer `inputs · weightsᵀ` under SmoothQuant at every α."""
    alphas = [step / _STEPS for step in range(_STEPS + 1)]
    tensors = weights[0].tensor(), inputs[0].tensor()
    results = [
        layer(*tensors, weights[1], inputs[1], method=f"smoothquant(alpha={alpha})") for alpha in alphas
    ]
    plain = layer(*tensors, weights[1], inputs[1])
    outputs = [100 * result.rel_out.held_back for result in results]
    own = [100 * 10 ** (-cast(float, result.weights.sqnr_db) / 10) for result in results]
    best = alphas[int(np.argmin(outputs))]
    traces = [result.trace["smoothquant"] for result in results]
    x_max, w_max = traces[0].x_max.numpy(), traces[0].w_max.numpy()
    scales = np.stack([trace.scales.numpy() for trace in traces])
    channels = np.argsort(-x_max, kind="stable")
    return Series(
        tuple(f"{alpha:g}" for alpha in alphas),
        tuple(
            {
                "output_error": outputs[at],
                "weight_error": own[at],
                "plain_error": 100 * plain.rel_out.held_back,
                "best_alpha": best,
                "loudest_input": float((x_max / scales[at]).max()),
                "loudest_weight": float((w_max * scales[at]).max()),
            }
            for at in range(len(alphas))
        ),
        (
            _skyline((x_max / scales)[:, channels], (w_max * scales)[:, channels]),
            _errors(np.array(alphas), np.array(outputs), np.array(own)),
        ),
        layer_address(weights, inputs, "smoothquant(alpha={})"),
    )


def _skyline(inputs: Numbers, weights: Numbers) -> MarksPicture:
    """Draw each channel's largest |x| upwards and |w| downwards, as roots: quiet channels are seen."""
    places = np.arange(inputs.shape[1], dtype=np.float64)
    tall_inputs, tall_weights = (np.sqrt(side / side.max()) for side in (inputs, weights))
    frame = (-0.7, len(places) - 0.3, -1.0, 1.0)
    return MarksPicture(
        "smoothing.skyline",
        frame,
        (
            Marks("bars", places, tall_inputs, "second", 0.8),
            Marks("bars", places, -tall_weights, "first", 0.8),
            Marks("line", np.array(frame[:2]), np.zeros(2), "muted", 1),
        ),
        (("smoothing.inputs", "second"), ("smoothing.weights", "first")),
        height=230,
    )


def _errors(alphas: Numbers, outputs: Numbers, weights: Numbers) -> MarksPicture:
    """Draw both errors over α."""
    lines = np.log10(outputs), np.log10(weights)
    low, high = min(map(np.min, lines)), max(map(np.max, lines))
    room = 0.08 * (high - low)
    marks = []
    for line, color in zip(lines, ("accent", "first"), strict=True):
        marks += [Marks("line", alphas, line, color), Marks("dots", alphas[:, None], line[:, None], color, 6)]
    return MarksPicture(
        "smoothing.errors",
        (-0.03, 1.03, low - room, high + room),
        tuple(marks),
        (("smoothing.output_error", "accent"), ("smoothing.weight_error", "first")),
    )
