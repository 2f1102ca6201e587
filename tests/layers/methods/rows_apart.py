"""Rows of the table of methods: packages that are installed apart from the tests, by their recorded answers,
those that run in no time, and definitions that are computed another way where no package has the method.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, cast

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants

import quantviz as qv
from quantviz.layers.methods.chain import as_chain
from quantviz.layers.methods.channel_scales import Equalization, equalize
from quantviz.layers.methods.contract import MethodTask
from quantviz.layers.methods.corrections import BiasCorrection, LowRank
from quantviz.layers.methods.higgs import Higgs, gaussian_grid
from quantviz.layers.methods.learned_rounding import moved_rounding
from quantviz.layers.methods.learned_transforms import LearnedClips, SpinQuant, slopes_in
from quantviz.layers.methods.llm_int8 import LLMInt8
from quantviz.layers.methods.low_rank_first import LoftQ, SVDQuant
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.recipes import as_scheme
from tests.layers.methods.record_apart import BITS, DYNAMIC, GROUP, KEPT, RANKS, RECORD, errors, moves
from tests.layers.methods.record_gptq import layers

#: The least share of equal codes of a layer, and the most by which its objective may be larger.
CODES, OBJECTIVE = 0.97, 0.01
#: The most by which the error after training may be larger.
TRAINED = 0.1
#: The least share of equal values of HIGGS.
VALUES = 0.995
INT8 = as_scheme("bnb_int8")
#: Equalization as torch has it.
EQUALIZED = Equalization("width")
#: What llama.cpp makes of eight bits, by the recipe.
Q8_0 = GGMLQuantizationType.Q8_0
FOURS = {"q4_0": GGMLQuantizationType.Q4_0, "q4_1": GGMLQuantizationType.Q4_1}
#: What is recorded of HIGGS.
PARTS = ("grid", "scales", "codes")


@dataclass(frozen=True)
class Row:
    """A method beside a package."""

    method: str
    package: str
    layers: int
    #: The numbers that are compared, and how many of them agree.
    compared: str
    agree: int
    total: int
    #: The reason for those that do not.
    why: str = ""

    @property
    def line(self) -> str:
        share = f"{self.agree} of {self.total}"
        return f"| {self.method} | {self.package} | {self.layers} | {self.compared} | {share} | {self.why} |"


@cache
def record() -> dict[str, Any]:
    with np.load(RECORD) as arrays:
        return dict(arrays)


def rows_apart() -> Iterator[Row]:
    """Yield the rows, measured now."""
    made = json.loads(record()["about"].tobytes())["producers"]
    none = "none on a CPU"
    codes = "layers with at least 97 % of the codes and an objective at most 1 % larger"
    values = "layers with equal grids of 2 to 4 bits and at least 99.5 % of the values"
    trained = "layers with an error at most 10 % larger"
    rank = f"the product of ranks {' and '.join(map(str, RANKS))}"
    for method, package, compared, agree in (
        ("GPTQ, dynamic groups", f"neural-compressor {made['neural-compressor']}", codes, _dynamic),
        ("SignRound, the quantizer", f"auto-round {made['auto-round']}", "all values of a layer", _autoround),
        ("HIGGS", f"transformers {made['transformers']}", values, _higgs),
        ("Low rank, LQER", f"PEFT {made['peft']}, LoftQ's decomposition", rank, _low_rank),
        ("Low rank, L²QER", f"{none}; numpy", "the product by its definition", _activation),
        ("Low rank, the optimum", f"{none}; numpy", "the least output error of its rank", _optimum),
        ("SVDQuant", f"{none}; numpy", "all values of rank 8, α as least by the outputs", _svdquant),
        ("LoftQ", f"{none}; numpy", "all values of rank 8 after 5 rounds", _loftq),
        ("SpinQuant", f"{none}; torch and numpy", "R after a step, by torch's slopes", _spinquant),
        ("OmniQuant, learned clips", f"{none}; torch", f"{trained} after 60 steps of Adam", _clips),
        ("One format into another", f"gguf {version('gguf')}", "all values, Q8_0 into four", _again),
        ("Equalization", f"torch {made['torch']}", "both layers and the bias", _equalization),
        ("Bias correction", f"torch {made['torch']}", "the bias", _bias),
        (
            "LLM.int8()",
            "bitsandbytes",
            "the channels that are kept, all other inputs, and the outputs to float16's accuracy",
            _outliers,
        ),
    ):
        found = [agree(number, *pair) for number, pair in enumerate(layers())]
        yield Row(method, package, len(found), compared, sum(found), len(found))


def _again(_: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    stored = quants.dequantize(quants.quantize(w.numpy(), Q8_0), Q8_0)
    return all(
        np.array_equal(
            apart(w, x, form, "stored(recipe=q8_0)"), quants.dequantize(quants.quantize(stored, kind), kind)
        )
        for form, kind in FOURS.items()
    )


def apart(w: torch.Tensor, x: torch.Tensor, scheme: str, chain: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the values of a rounded weight, float32 (outputs, inputs)."""
    rounded = qv.layer(w, x, scheme, None, method=chain).weights.quantized(slice(None)).numpy()
    return cast("np.ndarray[Any, np.dtype[np.float32]]", rounded)


def _task(w: torch.Tensor, x: torch.Tensor, scheme: str = "int4_g32") -> MethodTask:
    return MethodTask(w.double(), x.double(), as_scheme(scheme), None)


def _dynamic(number: int, w: torch.Tensor, x: torch.Tensor, form: str = "") -> bool:
    sums = [float(w.double().sum()), float(x.double().sum())]
    assert sums == record()[f"sums_{number}"].tolist(), "the layers are not those that were recorded"
    task = _task(w, x, DYNAMIC[number].scheme)
    rounding = as_chain(form or DYNAMIC[number].method).rounding
    assert rounding is not None
    found = rounding.round(task).result
    theirs = torch.from_numpy(record()[f"dynamic_{number}"])
    same = (found.x_hat - theirs).abs() < found.step_of_cells() / 4
    objective = task.output_error(found.x_hat) / task.output_error(theirs)
    return float(same.double().mean()) >= CODES and objective <= 1 + OBJECTIVE


def _autoround(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    mode = "symmetric" if number % 2 else "asymmetric"
    v, factor = moves(number)
    start = _task(w, x, f"uint4,{mode},per_group(size={GROUP}),min_max,gptq").nearest
    ours = moved_rounding(start, v, factor).x_hat[:KEPT]
    return torch.allclose(ours, torch.from_numpy(record()[f"autoround_{number}"]), rtol=1e-5, atol=1e-7)


def _higgs(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    for bits in BITS:
        grid, scales, codes = (torch.from_numpy(record()[f"higgs_{part}_{bits}_{number}"]) for part in PARTS)
        task = _task(w, x, f"int{bits},symmetric,per_channel(axis=0),min_max,course")
        basis = as_chain("rotation").bases[0].basis(task)
        ours = Higgs().round(task.in_basis(basis)).w_hat
        # A scale is a float16 here, and a float32 there: a near tie may take the other value.
        theirs = grid.flatten()[codes.long()] * scales[:, :1].half()
        same = torch.isclose(ours.float(), theirs, rtol=1e-3, atol=1e-6)
        values = torch.tensor(gaussian_grid(bits).codebook)
        if not torch.equal(values, grid.flatten()) or float(same.double().mean()) < VALUES:
            return False
    return True


def _low_rank(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    return all(
        torch.allclose(
            _correction(w, x, LowRank(rank, "none"))[:KEPT],
            torch.from_numpy(record()[f"low_rank_{rank}_{number}"]).double(),
            rtol=1e-4,
            atol=1e-6,
        )
        for rank in RANKS
    )


def _correction(w: torch.Tensor, x: torch.Tensor, method: LowRank) -> torch.Tensor:
    task = _task(w, x)
    found = method.correct(task, task.w - errors(w).double(), task.x).weight
    assert found is not None
    return found


def _activation(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    s = np.abs(x.double().numpy()).mean(0)
    weighted = errors(w).double().numpy() * s
    # By the eigenvectors of the smaller square, where the method takes singular vectors.
    vectors = np.linalg.eigh(weighted @ weighted.T)[1][:, -RANKS[1] :]
    theirs = vectors @ (vectors.T @ weighted) * np.divide(1, s, out=np.zeros_like(s), where=s > 0)
    ours = _correction(w, x, LowRank(RANKS[1], "activation")).numpy()
    return bool(np.allclose(ours, theirs, rtol=1e-8, atol=1e-10))


def _optimum(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    error = errors(w).double().numpy()
    values = x.double().numpy()
    # Eckart and Young: no product of a rank comes nearer to EXᵀ than its own singular values beyond the rank.
    beyond = np.linalg.svd(error @ values.T, compute_uv=False)[RANKS[1] :]
    left = error - _correction(w, x, LowRank(RANKS[1], damping=0.0)).numpy()
    return bool(np.isclose(np.square(left @ values.T).sum(), np.square(beyond).sum(), rtol=1e-8))


def _split(w: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return Q(w − low) + low."""
    return quantize(torch.from_numpy(w - low).float(), "int4_g32").x_hat.double().numpy() + low


def _main(w: np.ndarray, rank: int) -> np.ndarray:
    """Return the part of a rank, by the eigenvectors of the smaller square."""
    vectors = np.linalg.eigh(w @ w.T)[1][:, -rank:]
    return np.asarray(vectors @ (vectors.T @ w))


def _svdquant(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    values, seen = w.double().numpy(), x.double().numpy()
    found = []
    for alpha in np.arange(11) / 10:
        of_weights = np.maximum(np.abs(values).max(0), 1e-5) ** (1 - alpha)
        s = np.maximum(np.abs(seen).max(0) ** alpha / of_weights, 1e-5) if alpha else np.ones(len(seen.T))
        rounded = _split(values * s, _main(values * s, 8)) / s
        found.append((np.square((rounded - values) @ seen.T).sum(), rounded))
    ours = SVDQuant().round(_task(w, x)).w_hat.numpy()
    return bool(np.allclose(ours, min(found, key=lambda each: float(each[0]))[1], rtol=1e-6, atol=1e-8))


def _loftq(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    values = w.double().numpy()
    low = np.zeros_like(values)
    for _ in range(5):
        codes = _split(values, low) - low
        low = _main(values - codes, 8)
    ours = LoftQ().round(_task(w, x)).w_hat.numpy()
    return bool(np.allclose(ours, codes + low, rtol=1e-6, atol=1e-8))


def _spinquant(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    task = MethodTask(w.double(), x.double(), as_scheme("int4_g32"), as_scheme("int8_per_row"))
    method = SpinQuant()
    start = method.start(task)
    matrix = start.matrix.clone().requires_grad_()
    sides = []
    for values, scheme in ((task.x, task.inputs), (task.w, task.weights)):
        turned = values @ matrix
        rounded = quantize(turned.detach().float(), scheme).x_hat.double()
        sides.append(turned + (rounded - turned).detach())
    ((sides[0] @ sides[1].T - task.x @ task.w.T).square().sum() / 2).backward()
    slope, before = matrix.grad.numpy(), start.matrix.numpy()
    skew = slope @ before.T - before @ slope.T
    half = skew * (method.rate / np.sqrt(np.square(skew).sum()) / 2)
    one = np.eye(len(half))
    theirs = np.linalg.inv(one + half) @ (one - half) @ before
    ours = method.moved(task, start, slopes_in(task, start), 0)
    return bool(np.allclose(ours.of_inputs(torch.from_numpy(one)).numpy(), theirs, atol=1e-9))


def lwc_by_torch(task: MethodTask, group: int, steps: int, rate: float) -> float:
    """Return the least error of OmniQuant's learnable clipping, by torch's slopes and Adam."""
    width = 2.0**task.scheme.number_format.bits - 1
    w = task.w.unflatten(1, (-1, group))
    odds = [torch.full((*w.shape[:2], 1), 4.0, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    adam, least = torch.optim.Adam(odds, rate, (0.7, 0.9)), math.inf
    for _ in range(steps):
        high = w.amax(2, keepdim=True).clamp(min=0) * torch.sigmoid(odds[0])
        low = w.amin(2, keepdim=True).clamp(max=0) * torch.sigmoid(odds[1])
        step = (high - low) / width
        zero = (-low / step).round().detach() - (-low / step).detach() + (-low / step)
        codes = w / step + ((w / step).round() - w / step).detach() + zero
        w_hat = ((codes.clamp(0, width) - zero) * step).flatten(1)
        loss = ((w_hat - task.w) @ task.x.T).square().sum()
        least = min(least, float(loss.detach()))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return least / float((task.w @ task.x.T).square().sum())


def _clips(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    task = _task(w, x, "int3,asymmetric,per_group(size=32),min_max,compressed_tensors")
    ours = task.output_error(LearnedClips(60).round(task).w_hat)
    return ours <= (1 + TRAINED) * lwc_by_torch(task, 32, 60, 0.1)


def _quietly(run: Callable[[], Any]) -> Any:
    """Return the result of torch's older functions, which warn that they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run()


def _equalization(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    def theirs() -> tuple[torch.nn.Linear, torch.nn.Linear]:
        from torch.ao.quantization._equalize import cross_layer_equalization

        before, after = torch.nn.Linear(64, 24), torch.nn.Linear(24, 9, bias=False)
        after.weight.data = w[:, :24][:9] * 3
        before.weight.data = w.clone()
        kept.append(equalize(w, before.bias.data.clone(), after.weight.data.clone(), EQUALIZED.ranges))
        cross_layer_equalization(before, after)
        return before, after

    kept: list[Any] = []
    before, after = _quietly(theirs)
    pairs = zip(kept[0], (before.weight, before.bias, after.weight), strict=True)
    return all(torch.allclose(one, other.data, rtol=1e-5, atol=1e-7) for one, other in pairs)


class Quantized(torch.nn.Linear):
    """A layer that torch takes for the quantized one: its type is another."""


def _bias(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    def theirs() -> torch.Tensor:
        from torch.ao.quantization._correct_bias import bias_correction

        models = []
        for kind, values in ((torch.nn.Linear, w), (Quantized, task.nearest.x_hat)):
            linear = kind(64, 24)
            linear.weight.data, linear.bias.data = values.clone(), torch.zeros(24)
            models.append(torch.nn.Sequential(linear))
        inner = models[1][0]
        bias_correction(*models, [(x,)], target_modules={Quantized})
        return inner.bias.data

    task = _task(w, x)
    ours = BiasCorrection().correct(task, task.nearest.x_hat.double(), task.x).bias
    assert ours is not None
    return torch.allclose(ours.float(), _quietly(theirs), rtol=1e-3, atol=1e-5)


def _outliers(number: int, w: torch.Tensor, x: torch.Tensor) -> bool:
    from bitsandbytes import functional

    # bitsandbytes chooses the channels of the very batch that it multiplies, and takes float16.
    w, x = w.half(), x.half()
    found = LLMInt8(6.0, "bitsandbytes").round(MethodTask(w.double(), x.double(), INT8, INT8))
    codes, stats, channels = functional.int8_vectorwise_quant(x, threshold=6.0)
    kept = found.trace.kept
    assert found.inputs is not None
    ours = found.inputs(x.double(), lambda each: quantize(each.float(), INT8).x_hat.double())
    theirs = functional.int8_vectorwise_dequant(codes, stats)
    weight, of_rows, _ = functional.int8_vectorwise_quant(w)
    y, _ = torch.ops.bitsandbytes.int8_mixed_scaled_mm(x, codes, weight, stats, of_rows, channels)
    # The outputs are added up in float16.
    step = float(y.abs().max()) * 2**-10
    return (
        kept.nonzero().flatten().tolist() == channels.tolist()
        and torch.allclose(ours[:, ~kept].float(), theirs[:, ~kept], rtol=1e-6, atol=0)
        and torch.allclose(ours @ found.w_hat.T, y.double(), rtol=0, atol=2 * step)
    )
