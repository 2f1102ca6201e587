"""A right call of every public function, and things that are none of what a parameter wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch._subclasses.fake_tensor import FakeTensorMode

import quantviz as qv
from quantviz.layers.built_in import BuiltInLayer
from quantviz.text import languages

X = torch.arange(64.0).view(2, 32) - 30.5


def right_calls(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the arguments of a right call of every function of `quantviz.__all__`; files in `folder`."""
    model, gptq = folder / "model.safetensors", folder / "quantized.safetensors"
    save_file({"layers.0.mlp.up_proj.weight": X.half(), "norm.weight": torch.ones(8)}, model)
    codes = {"weight": torch.ones(2, 32).to(torch.float8_e4m3fn), "weight_scale_inv": torch.ones(1, 1)}
    save_file({f"layers.0.mlp.up_proj.{name}": codes[name] for name in codes}, gptq)
    scheme, result = "int8_per_tensor", qv.quantize(X, "int8_per_tensor")
    table = {
        "tensor": ["a", "a"],
        "recipe": ["int4_per_row", "int8_per_row"],
        "status": ["ok", "ok"],
        "bits": [256, 512],
        "sqnr_db": [20.0, 40.0],
        "shape": [(2, 32)] * 2,
    }
    rows = [{name: column[at] for name, column in table.items()} for at in range(2)]
    params = qv.QParams(0.5)
    operator = {"operator": "softmax", "codes": [[1, 2]], "params": [params], "outputs": params}
    pairs = {"quantized_path": gptq, "original_path": model}
    return {
        "add_codes": {"a": [1, 2], "a_params": params, "b": [3, 4], "b_params": params, "params": params},
        "allocate": {"table": table, "budget_bits": 512},
        "allocation_frontier": {"table": table},
        "as_matrix": {"x": X},
        "attention": {"q": X, "k": X, "v": X, "keys": scheme},
        "audit": pairs,
        "audited_result": {**pairs, "tensor": "layers.0.mlp.up_proj.weight"},
        "average_codes": {"codes": [[1, 2]], "params": params, "outputs": params},
        "capture": {
            "model": torch.nn.Linear(32, 2).eval(),
            "batches": [X],
            "path": folder / "run.safetensors",
        },
        "blame": {"x": X, "scheme": scheme},
        "block_costs": {"x": X, "scheme": scheme},
        "choose_qparams": {"x": X, "scheme": scheme},
        "clipping_curve": {"x": X, "scheme": scheme},
        "collect": {"model": torch.nn.Linear(32, 2).eval(), "batches": [X]},
        "compare_calibrations": {"x": X, "scheme": scheme},
        "compare_runs": {"reference": model, "runs": model},
        "compare_schemes": {"x": X, "schemes": [scheme, "int4_per_tensor"]},
        "culprits": {"x": X, "scheme": scheme},
        "dequantize": {"q": result.q, "scheme": scheme, "qparams": result.qparams},
        "explain_operator": operator,
        "explain_products": {"x": [[1.0, 2.0]], "w": [[3.0, 4.0]]},
        "explain": {"r": result, "index": (0, 1)},
        "export_allocation": {"allocation": qv.allocate(table, budget_bits=512), "form": "json"},
        "fit_codebook": {"x": X, "scheme": "int4_per_tensor", "importance": None},
        "integer_operator": operator,
        "integer_layer": {"W": qv.Codes([[1, 2]], 0.5), "X": qv.Codes([[3, 4]], 0.5), "outputs": params},
        "layer": {"W": X, "X": X, "weights": scheme, "inputs": scheme, "bias": [1.0, -1.0]},
        "leaderboard": {
            "layer": BuiltInLayer("loud_weight").open(),
            "schemes": [scheme],
            "methods": ["nearest", "gptq"],
        },
        "measure": {"x": X, "scheme": scheme},
        "metrics": {"r": result},
        "narrow_products": {"x": X, "w": X},
        "patches": {"x": [[[[1, 2], [3, 4]]]], "kernel": (2, 1)},
        "plot_quantization_errors": {"original": X, "quantized": result.q, "dequantized": result.x_hat},
        "quantize": {"x": X, "scheme": scheme},
        "ranges_over_batches": {"batches": [X, X]},
        "rate_distortion": {"x": X},
        "report": {"table": rows},
        "requantize": {"accumulators": [1, 2], "multiplier": 0.5},
        "run": {"model": "character", "schemes": scheme, "text": "import torch"},
        "scan": {"path": model, "recipes": [scheme]},
        "show": {"what": X, "scheme": scheme},
    }


def refused_or_answered(call: Callable[..., Any], *args: Any, **kwargs: Any) -> qv.QuantVizError | None:
    """Call it, and return its refusal; anything else that is raised goes on."""
    try:
        call(*args, **kwargs)
    except qv.QuantVizError as error:
        refusal = error
    else:
        return None
    assert all(refusal.message(language) for language in languages())
    return refusal


def fake_tensor() -> torch.Tensor:
    """Return a tensor that has a shape and no values."""
    with FakeTensorMode():
        return torch.ones(2, 32)


#: What no parameter wants, and what looks like it: each by what it is.
WRONG: Mapping[str, Callable[[], Any]] = {
    "a tensor": lambda: X,
    "a fake tensor": fake_tensor,
    "a tensor of mkldnn": lambda: X.to_mkldnn(),
    "a tensor of another device": lambda: torch.ones(2, 32, device="meta"),
    "the largest whole numbers": lambda: torch.tensor([2**64 - 1, 0], dtype=torch.uint64),
    "a huge number": lambda: 10**400,
    "a number": lambda: -7,
    "not a number": lambda: float("nan"),
    "a text": lambda: "no such thing \n",
    "bytes": lambda: b"\x00\xff",
    "a list of nothing": lambda: [None],
    "a list of lists": lambda: [[[]]],
    "a dict": lambda: {"tensor": 3},
    "a dict of columns": lambda: {"tensor": ["a"], "recipe": [None], "bits": ["x"], "cost": [[]]},
    "a set": lambda: {1.5},
    "an object": object,
    "a class": lambda: int,
    "a function": lambda: len,
    "a complex number": lambda: 1j,
    "truth": lambda: True,
    "nothing": lambda: None,
    "a sparse tensor": lambda: X.to_sparse(),
    "a quantized tensor": lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
    "complex numbers": lambda: torch.ones(2, 32, dtype=torch.complex64),
    "an array": lambda: X.numpy(),
    "a generator": lambda: (each for each in ("int8", None)),
    "parameters": lambda: qv.QParams(torch.tensor([2**64 - 1], dtype=torch.uint64), torch.ones(3)),
    "a result": lambda: qv.quantize(X, "int8_per_tensor"),
    "a scheme": lambda: qv.Scheme(),
}
