"""The ranges of calibrations that search or calculate: one function for each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from quantviz.quantization.entropy_ranges import entropy_onnxruntime, entropy_tensorrt
from quantviz.quantization.half_quadratic import hqq
from quantviz.quantization.histogram_ranges import mse_torch, percentile_modelopt, percentile_onnxruntime
from quantviz.quantization.modelled_ranges import aciq, octav
from quantviz.quantization.range_search import least_error, mse_llmcompressor, mse_modelopt
from quantviz.quantization.result import QParams
from quantviz.quantization.scale_search import searched
from quantviz.schemes.calibration import MSE, BlockValues, Calibration, Context, Range, Searched
from quantviz.schemes.engine_calibrations import (
    HQQ,
    OCTAV,
    ACIQGauss,
    ACIQLaplace,
    EntropyONNXRuntime,
    EntropyTensorRT,
    MSELLMCompressor,
    MSEModelopt,
    MSETorch,
    PercentileModelopt,
    PercentileONNXRuntime,
)

Computed = Callable[[Any, BlockValues, Context], Range | QParams]

#: The function of each class; a calibration is added here too, unless its own `calibrate` answers.
COMPUTED: Mapping[type[Calibration], Computed] = MappingProxyType(
    {
        MSE: least_error,
        MSETorch: mse_torch,
        MSELLMCompressor: mse_llmcompressor,
        MSEModelopt: mse_modelopt,
        EntropyTensorRT: entropy_tensorrt,
        EntropyONNXRuntime: entropy_onnxruntime,
        PercentileONNXRuntime: percentile_onnxruntime,
        PercentileModelopt: percentile_modelopt,
        OCTAV: octav,
        ACIQGauss: aciq,
        ACIQLaplace: aciq,
        HQQ: hqq,
        Searched: searched,
    }
)


def compute(calibration: Calibration, blocks: BlockValues, context: Context) -> Range | QParams:
    return COMPUTED[type(calibration)](calibration, blocks, context)
