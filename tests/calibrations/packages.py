"""Asks each package for its range of a tensor, as a function of a scheme and the tensor."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

import quantviz as qv
from tests.calibrations import digest

#: What a package says: the ends of each block's range; of HQQ the zero points and the digest of the codes.
Answer = dict[str, Any]


def _ends(lo: Any, hi: Any) -> Answer:
    return {"lo": _numbers(lo), "hi": _numbers(hi)}


def _numbers(values: Any) -> list[float]:
    """Numbers with as many digits as float32 needs."""
    return [float(str(each)) for each in torch.as_tensor(values).to(torch.float32).flatten().numpy()]


def ask_torch(scheme: qv.Scheme, x: torch.Tensor) -> Answer:
    from torch.ao.quantization.observer import HistogramObserver

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        symmetric = scheme.mode == "symmetric"
        observer = HistogramObserver(
            bins=scheme.calibration.bins,
            dtype=torch.qint8,
            qscheme=torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine,
            quant_min=scheme.code_min,
            quant_max=scheme.code_max,
        )
        observer(x)
        return _ends(*observer._non_linear_param_search())


def ask_onnxruntime(scheme: qv.Scheme, x: torch.Tensor) -> Answer:
    from onnxruntime.quantization.calibrate import HistogramCollector

    calibration: Any = scheme.calibration
    collector = HistogramCollector(
        method=calibration.id.partition("_")[0],
        symmetric=scheme.mode == "symmetric",
        num_bins=calibration.bins,
        num_quantized_bins=getattr(calibration, "quantized_bins", 128),
        percentile=getattr(calibration, "p", 99.999),
        scenario="same",
    )
    with contextlib.redirect_stdout(io.StringIO()):
        collector.collect({"x": x.numpy()})
        lo, hi, *_ = collector.compute_collection_result()["x"]
    return _ends(lo, hi)


def ask_modelopt(scheme: qv.Scheme, x: torch.Tensor) -> Answer:
    from modelopt.torch.quantization.calib.histogram import HistogramCalibrator
    from modelopt.torch.quantization.calib.mse import MseCalibrator
    from modelopt.torch.quantization.tensor_quant import fake_tensor_quant

    calibration: Any = scheme.calibration
    bits, by_row = scheme.number_format.bits, scheme.granularity.id == "per_channel"
    if calibration.id == "mse_modelopt":
        amax = x.abs().amax(1, keepdim=True) if by_row else x.abs().max()
        found = MseCalibrator(
            amax,
            axis=0 if by_row else None,
            step_size=calibration.step,
            start_multiplier=calibration.start,
            stop_multiplier=calibration.stop,
            quant_func=lambda values, end: fake_tensor_quant(values, end, None, bits, False, False),
        )
        found.collect(x)
        amax = found.compute_amax()
    else:
        collected = HistogramCalibrator(num_bits=bits, num_bins=calibration.bins)
        collected.collect(x)
        if calibration.id == "percentile_modelopt":
            amax = collected.compute_amax("percentile", percentile=calibration.p)
        else:
            amax = collected.compute_amax(
                "entropy", start_bin=calibration.start_bin, stride=calibration.stride
            )
    return _ends(-amax, amax)


def ask_llmcompressor(scheme: qv.Scheme, x: torch.Tensor) -> Answer:
    # The package's own __init__ imports what trains models: only its observers are wanted.
    root = Path(str(metadata.distribution("llmcompressor").locate_file("llmcompressor")))
    for name in ("llmcompressor", "llmcompressor.utils", "llmcompressor.observers"):
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = module
    observers = importlib.import_module("llmcompressor.observers.mse")
    from compressed_tensors.quantization import QuantizationArgs

    strategy = {"per_tensor": "tensor", "per_channel": "channel", "per_group": "group"}
    calibration: Any = scheme.calibration
    arguments = QuantizationArgs(
        num_bits=scheme.number_format.bits,
        symmetric=scheme.mode == "symmetric",
        strategy=strategy[scheme.granularity.id],
        group_size=getattr(scheme.granularity, "size", None),
        observer_kwargs=dict(vars(calibration)),
    )
    observer = observers.MemorylessMSEObserver("weight", arguments)
    observer(x)
    return _ends(observer.min_vals, observer.max_vals)


def ask_ai_edge_quantizer(scheme: qv.Scheme, x: torch.Tensor) -> Answer:
    from ai_edge_quantizer.algorithms.uniform_quantize import octav

    by_row = scheme.granularity.id == "per_channel"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clip = torch.from_numpy(
            octav._guess_clipping_with_octav(
                x.numpy(), scheme.number_format.bits, 1 if by_row else None, 10, 3.0
            )
        )
    return _ends(-clip, clip)


def ask_hqq(scheme: qv.Scheme, x: torch.Tensor) -> Answer:
    from hqq.core.quantize import Quantizer

    codes, meta = Quantizer.quantize(
        x,
        nbits=scheme.number_format.bits,
        group_size=getattr(scheme.granularity, "size", None),
        optimize=True,
        axis=1,
        bitpack=False,
        device="cpu",
    )
    return {
        "zero": _numbers(meta["zero"]),
        "codes": digest(codes.to(torch.uint8)),
    }


#: By distribution.
ASKED: Mapping[str, Callable[[qv.Scheme, torch.Tensor], Answer]] = MappingProxyType(
    {
        "torch": ask_torch,
        "onnxruntime": ask_onnxruntime,
        "nvidia-modelopt": ask_modelopt,
        "llmcompressor": ask_llmcompressor,
        "ai-edge-quantizer": ask_ai_edge_quantizer,
        "hqq": ask_hqq,
    }
)
