"""Dials on what bits cost and buy: packed words, texts for calibration, and a thousand sums."""

from __future__ import annotations

import math

import numpy as np
import torch

from quantviz.figures.marks import Marks
from quantviz.figures.numbers import number
from quantviz.layers.methods.contract import MethodTask
from quantviz.layers.methods.gptq import GPTQ
from quantviz.models.character_model import CHARACTER, network_of, tokens_of
from quantviz.models.network import logits
from quantviz.models.quantizing import watched_on_calibration
from quantviz.models.running import relative_error, run_built_in
from quantviz.quantization.quantizer import quantize
from quantviz.teaching.lessons.dial_lines import MODEL_PAGE, against
from quantviz.teaching.lessons.dial_series import MarksPicture, Series, Tensor

#: Bits of a word in memory; texts that are answered at once.
_WORD = 32
_BATCHES = tuple(2**power for power in range(11))
#: A GPU (NVIDIA A100, 80 GB): bytes, products, and shifts or masks a second; of these a weight needs some.
_BYTES, _PRODUCTS, _SHIFTS, _UNPACKING = 2.0e12, 156e12, 19.5e12, 4
#: The layer that is calibrated, its outputs that are rounded, and numbers of tokens.
_LAYER, _OUTPUTS, _TOKENS = "model.layers.1.fc1", 64, tuple(2**power for power in range(3, 11))
_BITS = range(2, 9)


def packing(weights: Tensor) -> Series:
    """Return the time for a layer's products, of codes and of 16 bits; codes are unpacked every 64 texts."""
    count, bits = math.prod(weights[0].shape), weights[1].number_format.bits
    numbers = []
    for batch in _BATCHES:
        products = batch * count / _PRODUCTS
        unpacking = math.ceil(batch / 64) * count * _UNPACKING / _SHIFTS
        numbers.append(
            {
                "time_16": 1e12 * max(count * 2 / _BYTES, products) / count,
                "time_packed": 1e12 * max(count * bits / 8 / _BYTES, products + unpacking) / count,
                "codes_a_word": _WORD // bits,
            }
        )
    lines = {"time_16": "second", "time_packed": "first"}
    pictures = (_word(weights), against("packing.times", np.log2(_BATCHES), numbers, lines, log=True))
    return Series(tuple(map(str, _BATCHES)), tuple(numbers), pictures, lambda _: (MODEL_PAGE, {}))


def _word(weights: Tensor) -> MarksPicture:
    """Draw the word that holds the first codes, its lowest bit on the right."""
    source, scheme = weights
    bits = scheme.number_format.bits
    codes = quantize(source.tensor(), scheme).q.reshape(-1)[: _WORD // bits].tolist()
    marks = []
    for at, code in enumerate(codes):
        right = _WORD - at * bits
        color = ("first", "second")[at % 2]
        middles = right - bits + np.arange(bits) + 0.5
        digits = tuple(f"{code % 2**bits:0{bits}b}")
        marks += [
            Marks("words", middles, np.full(bits, 0.5), color, labels=digits),
            Marks("words", np.array([right - bits / 2]), np.array([1.6]), color, labels=(number(code),)),
            Marks("line", np.array([right - bits, right, right]), np.array([1.1, 1.1, 0]), "muted", 1),
        ]
    edge = Marks("line", np.array([0, 0, _WORD]), np.array([1.1, 0, 0]), "muted", 1)
    return MarksPicture("packing.word", (0, _WORD, -0.1, 2), (*marks, edge), height=90)


def texts(weights: Tensor) -> Series:
    """Return the error of a layer of the character model under GPTQ by the tokens that it saw."""
    seen = watched_on_calibration(CHARACTER)[_LAYER].double()
    held: dict[str, torch.Tensor] = {}
    with torch.inference_mode():
        logits(network_of(CHARACTER), tokens_of("held_back", CHARACTER)[:8], watch=held.__setitem__)
    other = held[_LAYER].flatten(0, 1).double()
    w = network_of(CHARACTER).tensors[f"{_LAYER}.weight"][:_OUTPUTS].double()

    def error(x: torch.Tensor, w_hat: torch.Tensor) -> float:
        return 100 * relative_error(x @ w_hat.double().T, x @ w.T)

    nearest = error(other, quantize(w.float(), weights[1]).x_hat)
    numbers = []
    for count in _TOKENS:
        w_hat = GPTQ().round(MethodTask(w, seen[:count], weights[1], None, traced=False)).w_hat
        numbers.append(
            {
                "seen_error": error(seen[:count], w_hat),
                "other_error": error(other, w_hat),
                "nearest_error": nearest,
            }
        )
    halving = next(at for at, own in zip(_TOKENS, numbers, strict=True) if own["other_error"] <= nearest / 2)
    numbers = [{**own, "halving": halving} for own in numbers]
    lines = {"seen_error": "second", "other_error": "first", "nearest_error": "muted"}
    picture = against("texts.errors", np.log2(_TOKENS), numbers, lines, log=True)
    link = {"f": f"model:{CHARACTER}", "method": "gptq"}
    return Series(tuple(map(str, _TOKENS)), tuple(numbers), (picture,), lambda _: (MODEL_PAGE, link))


def budget(_: Tensor) -> Series:
    """Return the sums of a thousand that the adder has right, by its bits."""
    ran = [run_built_in("adder", f"int{bits},symmetric,per_channel,min_max,course") for bits in _BITS]
    numbers = [{"sums_right": each.sums.right, "adder_bits": each.bits} for each in ran if each.sums]
    fields = [[answer.is_right for answer in each.sums.field()] for each in ran if each.sums]
    across, up = np.meshgrid(np.arange(10.0), np.arange(9.0, -1, -1))
    layers = []
    for color, kept in (("clipping", False), ("first", True)):
        shown = np.array(fields) == kept
        layers.append(
            Marks(
                "dots",
                np.where(shown, across.flatten(), np.nan),
                np.where(shown, up.flatten(), np.nan),
                color,
                7,
            )
        )
    names = (("budget.right", "first"), ("budget.wrong", "clipping"))
    picture = MarksPicture(
        "budget.field", (-0.6, 9.6, -0.6, 9.6), tuple(layers), names, equal=True, height=220
    )
    lines = against("budget.sums", np.array(_BITS, float), numbers, {"sums_right": "first"})
    app = {str(bits): {"f": "model:adder", "bits": str(bits)} for bits in _BITS}
    return Series(tuple(app), tuple(numbers), (picture, lines), lambda at: (MODEL_PAGE, app[at]))
