"""Where an engine is not what it looks like: the smallest tensor that shows it, and that our convention does
the same.

Each of these is in the engine itself, of the version in tests/requirements.txt. A release that mends one
fails here.
"""

import pytest
import torch

import quantviz as qv
from tests.engines import case_of, engine


def ours(x, form):
    return qv.quantize(x, qv.Scheme.parse(form), strict=True)


def test_torchao_gives_half_of_the_smallest_mx_blocks():
    """Codes are made with 2^-126 at least, since its reciprocal would overflow, but the block's byte says
    2^-127.
    """
    form = "float4_e2m1fn,symmetric,per_group(size=32),min_max,torchao_mx"
    x = torch.zeros(32)
    x[0] = 3 * 2.0**-126
    answer, result = case_of("torchao", form)(x), ours(x, form)
    assert answer.x_hat[0].item() == result.x_hat[0].item() == 1.5 * 2.0**-126
    # One power of two up all is well: 3 is a number of the format.
    assert torch.equal(case_of("torchao", form)(2 * x).x_hat, 2 * x)


def test_bitsandbytes_has_no_code_for_zero():
    """x / absmax is first rounded to one of 65,536 points from -1 to 1, an even number: 0 is none of them,
    and the point above it decodes to 2.1e-5.
    """
    form = "bnb_dynamic8,symmetric,flat(size=64),min_max,bitsandbytes_dynamic8"
    x = torch.tensor([0.0, 1.0, -1.0, 1e-5])
    answer, result = case_of("bitsandbytes", form)(x), ours(x, form)
    assert answer.codes.tolist() == result.q.tolist() == [131, 255, 0, 131]
    assert answer.x_hat[0].item() == result.x_hat[0].item() > 2e-5
    # Nearest would have been code 127, which is 0 exactly.
    assert qv.FORMATS["bnb_dynamic8"].value(127) == 0.0


def test_bitsandbytes_takes_the_wrong_scale_where_a_row_ends_within_a_block():
    """Its AVX-512 kernel counts the whole blocks of a row. Left out of the comparison: the same state as one
    long row is right on every machine.
    """
    x = torch.tensor([1.0, 2.0, 4.0, 8.0]).repeat_interleave(16).reshape(4, 16)
    packed, state = engine("bitsandbytes").functional.quantize_4bit(x, blocksize=32, quant_type="nf4")
    assert state.absmax.tolist() == [2.0, 8.0]
    shown = engine("bitsandbytes").functional.dequantize_4bit(packed, state)[:, 0]
    right = case_of("bitsandbytes", "nf4,symmetric,flat(size=32),min_max,bitsandbytes")(x).x_hat[:, 0]
    assert torch.equal(right, ours(x, "nf4,symmetric,flat(size=32),min_max,bitsandbytes").x_hat[:, 0])
    if torch.equal(shown, right):
        pytest.skip("this machine's kernel takes the right scales")
    # No whole block fits into a row of 16, so it counts none before any row: each gets the first block's
    # scale, 2.
    assert shown.tolist() == pytest.approx([0.8814, 2.0, 0.8814, 2.0], abs=1e-3)


@pytest.mark.parametrize("convention", ["gguf_mx", "microxcaling"])
def test_a_float32_logarithm_reaches_the_next_power_of_two_too_early(convention):
    """log2 of the float32 number below 8 is 3 when rounded to float32: the block gets the scale of 8, and
    loses one step.
    """
    form = f"float4_e2m1fn,symmetric,per_group(size=32),min_max,{convention}"
    x = torch.full((1, 32), 7.9999995)
    assert x[0, 0] < 8
    result = ours(x, form)
    assert result.qparams.scale.item() == 2.0
    assert ours(torch.full((1, 32), 7.99999), form).qparams.scale.item() == 1.0
    if convention == "gguf_mx":
        assert case_of("gguf", form)(x).scale.item() == 2.0
    else:
        recorded = next(
            trial.x for trial in engine("microxcaling").trials() if trial.label.startswith("below_powers")
        )
        top = recorded[0].abs().max()
        assert 7.999999 < top < 8
        assert case_of("microxcaling", form)(recorded).scale[0].item() == 2.0


def test_gguf_rounds_the_sum_and_not_the_number():
    """x / d + 8.5 is a float32 sum: the number below a half becomes 9 there, and code 1."""
    form = "int4,symmetric,per_group(size=32),min_max,gguf_signed"
    x = torch.zeros(32)
    x[:4] = torch.tensor([-8.0, 0.5, 0.49999997, 0.49999994])
    answer, result = case_of("gguf", form)(x), ours(x, form)
    assert x[2] < 0.5
    assert answer.codes[:4].tolist() == result.q[:4].tolist() == [-8, 1, 1, 1]
    assert round(x[2].item()) == 0
