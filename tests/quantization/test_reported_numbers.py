"""Numbers that public reports are about, as the engine gives them: others are in `test_nonfinite.py` (torch's
NaN and Inf), `test_quantizer.py` (the default of QAT) and `test_integer_operators.py` (sums and
requantization).
"""

import numpy as np
import pytest
import torch

import quantviz as qv


@pytest.mark.parametrize(
    ("form", "x", "codes"),
    [
        # microsoft/onnxruntime 3442 and 10170: QuantizeLinear saturates at the smallest code of all.
        ("int8,symmetric,per_tensor,given(scale=1.0),onnxruntime", [-200, -128, -127, 127, 200], None),
        ("int16,symmetric,per_tensor,given(scale=1.0),onnxruntime", [-40000, 32767], [-32768, 32767]),
        (
            "int8,symmetric,per_group(size=5),given(scale=1.0),onnxruntime_blocked",
            [-200, -128, -127, 127, 200],
            None,
        ),
    ],
)
def test_onnx_runtime_saturates_at_the_smallest_code(form, x, codes):
    result = qv.quantize([x], form)
    assert result.q[0].tolist() == (codes or [-128, -128, -127, 127, 127])


def test_onnx_runtimes_percentile_reaches_that_code():
    x = np.random.default_rng(1).standard_normal(4096).astype(np.float32)
    x[0] = -40
    form = "int8,symmetric,per_tensor,percentile_onnxruntime(p=99.9,bins=2048),onnxruntime"
    result = qv.quantize(x, form)
    assert result.qparams.scale.item() == 0.026453226804733276
    assert result.q.min() == -128


def test_torchao_holds_no_scale_of_bfloat16_at_2_to_minus_7():
    """pytorch/ao 3819, 4534 and 4326."""
    x = (torch.randn(4, 64, generator=torch.Generator().manual_seed(0)) * 0.01).bfloat16()
    result = qv.quantize(x, "int8,symmetric,per_channel(axis=0),min_max,torchao")
    assert result.qparams.scale.flatten().tolist() == [
        0.0002689361572265625,
        0.00020503997802734375,
        0.00015354156494140625,
        0.00014972686767578125,
    ]


def test_mlx_has_the_end_of_larger_magnitude_on_a_code():
    """ml-explore/mlx 1016 and 1061: the scale is negative, and 0 a code."""
    x = torch.zeros(1, 32)
    x[0, :4] = torch.tensor([2, -1, 0.5, 0])
    result = qv.quantize(x, "uint4,asymmetric,per_group(size=32),min_max,mlx")
    assert result.q[0, :4].tolist() == [0, 15, 8, 10]
    assert (result.qparams.scale.item(), result.qparams.zero_point.item()) == (-0.20000000298023224, 2.0)
    assert result.x_hat[0, :4].tolist() == [2.0, -1.0, 0.3999999761581421, 0.0]


def test_mlx_rounds_scales_of_mxfp8_up():
    """ml-explore/mlx 4353: by rounding to the nearest power of two, 78 of 128 scales were half as large."""
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    result = qv.quantize(x, "float8_e4m3fn,symmetric,per_group(size=32),min_max,mlx_mxfp8")
    exponents = np.log2(result.qparams.scale.numpy())
    nearest = np.rint(np.log2(np.abs(x).reshape(64, 2, 32).max(-1) / 448))
    assert set((exponents - nearest).flatten().tolist()) == {0.0, 1.0}
    assert int((nearest < exponents).sum()) == 78
    assert not result.clipped.any()


def test_llama_cpp_makes_0_of_what_is_below_the_smallest_scale():
    """Reports 3010 and 2440 (flashinfer) are of tiny blocks: the byte of the exponent wraps around."""
    result = qv.quantize(np.full((1, 32), 1e-38, np.float32), "gguf_mxfp4")
    assert result.x_hat.abs().max() == 0
    assert result.qparams.scale.item() == 2.0**127
