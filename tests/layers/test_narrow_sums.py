"""FP8 sums in registers of few bits: held to DeepSeek's description, computed with fractions."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import quantviz as qv


def cut(value, exponent):
    """A fraction without its bits below 2^exponent."""
    step = Fraction(2) ** exponent
    whole = abs(value) // step * step
    return whole if value >= 0 else -whole


def exponent_of(value):
    """The exponent of the leading bit of a fraction; 0 has one that cuts nothing off."""
    if value == 0:
        return -200
    exponent = 0
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    return exponent


def by_fractions(x, w, bits, promoted):
    total, register = np.float32(0), Fraction(0)
    for start in range(0, len(x), 32):
        products = [
            Fraction(float(a)) * Fraction(float(b))
            for a, b in zip(x[start : start + 32], w[start : start + 32], strict=True)
        ]
        last = max(map(exponent_of, products)) - bits + 1
        register += sum(cut(each, last) for each in products)
        register = cut(register, exponent_of(register) - bits + 1)
        end = start + len(products)
        if end == len(x) or (promoted and end % promoted == 0):
            total = np.float32(float(total) + float(np.float32(float(register))))
            register = Fraction(0)
    return total


def fp8(rows, cols, seed, dtype=torch.float8_e4m3fn):
    drawn = torch.randn(rows, cols, generator=torch.Generator().manual_seed(seed))
    return (drawn * torch.exp2(torch.arange(cols) % 7 - 3.0)).to(dtype).float()


@pytest.mark.parametrize("bits", [14, 22, 5])
@pytest.mark.parametrize("promoted", [0, 32, 128])
def test_sums_are_those_of_fractions(bits, promoted):
    for size, dtype in ((300, torch.float8_e4m3fn), (128, torch.float8_e5m2), (1, torch.float8_e4m3fn)):
        x, w = fp8(2, size, size, dtype), fp8(3, size, size + 1, dtype)
        w[2] = 0
        wanted = [[by_fractions(row, column, bits, promoted) for column in w] for row in x]
        assert qv.narrow_products(x, w, bits=bits, promoted=promoted).tolist() == np.array(wanted).tolist()


def test_deepseeks_case():
    """DeepSeek-V3 measured errors of nearly 2 % over 4,096 inputs; 128 inputs a sum remove nearly all."""
    x, w = fp8(16, 4096, 1), fp8(64, 4096, 2)
    exact = x.double() @ w.double().T
    size = float(exact.square().mean().sqrt())
    errors = [
        float((qv.narrow_products(x, w, promoted=promoted) - exact).abs().max()) / size
        for promoted in (0, 128)
    ]
    assert 0.005 < errors[0] < 0.03
    assert errors[1] < errors[0] / 10


def test_the_steps_lead_to_the_sum():
    x, w = fp8(1, 200, 3), fp8(1, 200, 4)
    steps = qv.explain_products(x, w)
    assert (steps[-1].name, steps[-1].output) == ("y", qv.narrow_products(x, w).item())
    assert sum(step.key == "narrow_promoted" for step in steps) == 2


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("narrow.shapes", {"x": [[1.0, 2.0]], "w": [[1.0]]}),
        ("narrow.shapes", {"x": [1.0], "w": [1.0]}),
        ("narrow.numbers", {"x": [[1.0]], "w": [[1.0]], "bits": 1}),
        ("narrow.numbers", {"x": [[1.0]], "w": [[1.0]], "promoted": 100}),
        ("input_nonfinite", {"x": [[float("inf")]], "w": [[1.0]]}),
    ],
)
def test_what_is_no_sum_is_refused(key, given):
    for call in (qv.narrow_products, qv.explain_products):
        with pytest.raises(qv.QuantVizError) as caught:
            call(**given)
        assert caught.value.key == key
