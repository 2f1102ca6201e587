"""What packages say of small tensors, to hold the calibrations that search as they do to them.

`packages.py` asks the packages, `recorded/` has their answers with producer, version and command, and
`compare.py` compares ours with these. `python -m tests.calibrations` writes the table of
`tests/calibrations/README.md`; `python -m tests.calibrations PACKAGE ...` first asks some of them anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import torch

RECORDED = Path(__file__).parent / "recorded"
ROWS, COLUMNS = 16, 128

_BY_TENSOR = ("per_tensor",)
_BY_ROW = ("per_tensor", "per_channel(axis=0)")
_BOTH = ("symmetric", "asymmetric")
_SIGNED = ("int4", "int8")


def _forms(
    formats: tuple[str, ...],
    modes: tuple[str, ...],
    granularities: tuple[str, ...],
    calibrations: tuple[str, ...],
    convention: str = "course",
) -> Iterator[str]:
    for calibration in calibrations:
        for granularity in granularities:
            for mode in modes:
                for fmt in formats:
                    yield f"{fmt},{mode},{granularity},{calibration},{convention}"


#: What ACIQ's authors wrote down: the clip for 1 to 8 bits in standard deviations of a Gaussian, and in mean
#: distances of a Laplace distribution, to two decimals (`alpha_gaus` and `alpha_laplace` of the file
#: `int_quantizer.py` of submission2019/cnn-quantization).
ACIQ_FACTORS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "aciq_gauss": (1.24, 1.71, 2.15, 2.55, 2.93, 3.28, 3.61, 3.92),
        "aciq_laplace": (1.86, 2.83, 3.89, 5.03, 6.2, 7.41, 8.64, 9.89),
    }
)


#: The schemes that each package is asked of, by its distribution.
CASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "torch": (
            *_forms(_SIGNED, _BOTH, _BY_TENSOR, ("mse_torch", "mse_torch(bins=256)", "mse_torch(bins=64)")),
        ),
        "onnxruntime": (
            *_forms(
                _SIGNED,
                _BOTH,
                _BY_TENSOR,
                (
                    "percentile_onnxruntime",
                    "percentile_onnxruntime(p=99.0)",
                    "percentile_onnxruntime(bins=64)",
                ),
            ),
            *_forms(
                _SIGNED,
                ("asymmetric",),
                _BY_TENSOR,
                (
                    "entropy_onnxruntime",
                    "entropy_onnxruntime(bins=512)",
                    "entropy_onnxruntime(bins=301,quantized_bins=17)",
                ),
            ),
        ),
        "nvidia-modelopt": (
            *_forms(
                _SIGNED,
                ("symmetric",),
                _BY_TENSOR,
                (
                    "percentile_modelopt",
                    "percentile_modelopt(p=99.0)",
                    "entropy_tensorrt",
                    "entropy_tensorrt(bins=512,start_bin=64,stride=3)",
                ),
            ),
            *_forms(_SIGNED, ("symmetric",), _BY_ROW, ("mse_modelopt",), "modelopt"),
        ),
        "llmcompressor": (
            *_forms(
                _SIGNED,
                _BOTH,
                _BY_ROW,
                ("mse_llmcompressor", "mse_llmcompressor(maxshrink=0.8,norm=2.0)"),
                "compressed_tensors",
            ),
            *_forms(
                _SIGNED,
                ("symmetric",),
                ("per_group(size=32)",),
                ("mse_llmcompressor",),
                "compressed_tensors",
            ),
        ),
        "ai-edge-quantizer": tuple(
            _forms(_SIGNED, ("symmetric",), _BY_ROW, ("octav(count_zeros=true)",), "litert")
        ),
        "hqq": tuple(
            _forms(
                ("uint2", "uint4", "uint8"),
                ("asymmetric",),
                ("per_channel(axis=0)", "flat(size=32)"),
                ("hqq",),
                "hqq",
            )
        ),
    }
)


def tensors() -> dict[str, torch.Tensor]:
    """Small tensors of several kinds, the same ones each time."""
    g = torch.Generator().manual_seed(18)
    shape = (ROWS, COLUMNS)
    normal = torch.randn(shape, generator=g)
    flat = torch.rand(shape, generator=g) - 0.5
    outliers = torch.randn(shape, generator=g)
    outliers[3, 7], outliers[9, 100] = 40.0, -25.0
    halves = torch.randn(shape, generator=g) * 0.1
    halves[:, ::2] += 5
    sparse = torch.randn(shape, generator=g)
    sparse[torch.rand(shape, generator=g) < 0.6] = 0
    return {
        "gaussian": normal,
        "laplace": -flat.sign() * torch.log1p(-2 * flat.abs()),
        "outliers": outliers,
        "bimodal": halves,
        "zeros included": sparse,
        "one-sided": torch.rand(shape, generator=g) + 0.5,
        "small": torch.randn(shape, generator=g) * 1e-3,
        "constant": torch.full(shape, -1.3),
    }


def digest(x: torch.Tensor) -> str:
    """A few characters that tell a tensor's bits, or codes."""
    return hashlib.sha256(x.contiguous().numpy().tobytes()).hexdigest()[:16]
