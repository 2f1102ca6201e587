"""Benchmarks of arithmetic, without a page: `python -m tests.bench.numbers CASE`."""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import time
from functools import cache, partial
from unittest import mock

import numpy as np
import torch

import quantviz as qv
from quantviz.compiled.hand_written import PIECES, PLAIN_VARIABLE
from quantviz.streaming import coding, kernel_access, measuring, pieces, programs, ranges
from quantviz.tensors.lazy import InMemory
from tests.bench.runner import (
    ONE_THREAD,
    case,
    head,
    held_beyond,
    in_turns,
    judged,
    main,
    process,
    ratio,
    row,
    timed,
)

LARGE, TWO_LARGE = "4096x11008", ("4096x11008", "16384x8192")
GRANULARITIES = {
    "per tensor": qv.PerTensor(),
    "per channel, axis 0": qv.PerChannel(0),
    "per channel, axis 1": qv.PerChannel(1),
    "groups of 32": qv.PerGroup(32),
    "groups of 128": qv.PerGroup(128),
}
EACH_ROW = "symmetric,per_channel(axis=0),min_max,course"


def random(shape: str | tuple[int, ...], seed: int = 0) -> torch.Tensor:
    sides = tuple(map(int, shape.split("x"))) if isinstance(shape, str) else shape
    return torch.empty(sides).normal_(generator=torch.Generator().manual_seed(seed))


def measuring_of(shape, granularity):
    x = random(shape)
    scheme = qv.Scheme(granularity=granularity)
    measuring.measure(InMemory(x[:256]), scheme, path="fused")
    return partial(measuring.measure, InMemory(x), scheme)


@case
def measure(shape: tuple[str, ...] = TWO_LARGE, rounds: int = 7) -> None:
    """All metrics of a scheme on a large tensor, as multiples of a plain read, `x.sum()` on as many threads.

    The bar is 1.6 × the reads that are needed, and 2.2 for groups; of memory beyond the tensor 0.05 of it.
    Then a tensor of a middle size, which is as quick by the reference as kernels take to compile.
    """
    torch.set_num_threads(os.cpu_count() or 1)
    bars = dict(zip(GRANULARITIES, (3.2, 1.6, 3.2, 2.2, 2.2), strict=True))
    print(f"compiled code is kept in {kernel_access.cache_folder() or 'memory'}")
    schemes = {
        "int8": lambda granularity: qv.Scheme("int8", granularity=granularity),
        "int4": lambda granularity: qv.Scheme("int4", granularity=granularity),
        # With a zero point that is added to whole numbers.
        "int8 asymmetric": lambda granularity: qv.Scheme(
            "int8", "asymmetric", granularity=granularity, convention="torchao"
        ),
    }
    for sides in shape:
        x = random(sides)
        stored = InMemory(x)
        head(f"{sides}: × a read", *(f"{name} (bar {bar})" for name, bar in bars.items()))
        for title, scheme_of in schemes.items():
            cells = []
            for name, granularity in GRANULARITIES.items():
                own = partial(measuring.measure, stored, scheme_of(granularity))
                took = in_turns({"own": timed(own), "read": timed(x.sum)}, rounds)
                cells.append(judged(ratio(*took.values()), bars[name], 1))
            row(f"QuantViz {title}", *cells)
        shares = [held_beyond(measuring_of, sides, each) / x.nbytes for each in GRANULARITIES.values()]
        row("QuantViz int8, memory (bar 0.05)", *(judged(share, 0.05, 3) for share in shares))
    head("side, int8 per row", "as it is, ms", "which path", "by the reference (bar 1.1)")
    for side in (128, 192, 256, 512, 1024):
        x, scheme = random((side, side)), qv.Scheme("int8", granularity=qv.PerChannel(0))
        paths = {
            path: timed(partial(measuring.measure, x, scheme, path=path)) for path in (None, "reference")
        }
        own, reference = in_turns(paths, 3 * rounds).values()
        path = measuring.measure(x, scheme).path
        row(side, f"{1e3 * statistics.median(own):.2f}", path, judged(ratio(own, reference), 1.1))


@case
def formats(rounds: int = 5) -> None:
    """Metrics of float formats and codebooks on 4096×11008, against int8 of each row in the same run.

    Beside each stands the same by the full lines of its cells, which sums were made by before they had short
    ones.
    """
    floats = "fp8_e4m3_per_tensor", "fp8_e4m3_per_row", "mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "nvfp4", "nf4_64"
    x = InMemory(random(LARGE))
    works = {name: timed(partial(qv.measure, x, name, path="fused")) for name in ("int8_per_row", *floats)}
    short = in_turns(works, rounds)
    programs.compiled_program.cache_clear()
    with mock.patch.object(programs, "short_cell", return_value=None):
        full = in_turns(works, rounds)
    programs.compiled_program.cache_clear()
    head("recipe", "times int8 a row", "by full lines")
    for name in floats:
        row(name, *(f"{ratio(took[name], took['int8_per_row']):.1f}" for took in (short, full)))


LLVM_SCHEMES = {
    "int8 per tensor": "int8,symmetric,per_tensor,min_max,course",
    "int8 rows": f"int8,{EACH_ROW}",
    "int8 columns": "int8,symmetric,per_channel(axis=1),min_max,course",
    "int4 groups of 8": "int4,symmetric,per_group(size=8),min_max,course",
    "int4 groups of 32": "int4,symmetric,per_group(size=32),min_max,course",
    "int4 groups of 128": "int4,symmetric,per_group(size=128),min_max,course",
    "float8 rows": f"float8_e4m3fn,{EACH_ROW}",
    "mxfp4 blocks of 32": "float4_e2m1fn,symmetric,per_group(size=32),min_max,microxcaling",
    "nf4 blocks of 64": "nf4,symmetric,flat(size=64),min_max,bitsandbytes",
    "int8 to float16": "int8,asymmetric,per_channel(axis=0),min_max,course(value_dtype=float16)",
    "int8 fused": "int8,asymmetric,per_channel(axis=0),min_max,course(order=fused_multiply_add_round)",
    "stochastic rows": f"int8,{EACH_ROW}(ties=stochastic)",
}
#: The work that each piece is for, by the beginning of its name.
_LARGE_SUMS = ("metrics, int8", "metrics, int4 groups of 32", "metrics, int4 groups of 128")
LLVM_WORK = {
    "sums": (*_LARGE_SUMS, "metrics, float", "metrics, nf4", "metrics, mxfp4"),
    "prefetch": _LARGE_SUMS,
    "addresses": ("codes", "metrics, int4 groups of 8"),
}


@cache
def llvm_works():
    """Return all that is timed, by its name, in the process that does it."""
    values, run = random((2048, 2816)), 2**15
    x = InMemory(values)
    flat = values.flatten().numpy()
    flat.flags.writeable = False

    def put(scheme):
        coder = coding.Coder(scheme, ranges.qparams(x, scheme), x.shape, "fused")
        made = pieces.Buffers(run)
        for start in range(0, len(flat), run):
            coder.put(flat[start : start + run], start, made)

    found = {}
    for name, form in LLVM_SCHEMES.items():
        found[f"metrics, {name}"] = partial(measuring.measure, x, qv.Scheme.parse(form))
        found[f"codes, {name}"] = partial(put, qv.Scheme.parse(form))
    return found


def llvm_seconds(name):
    return timed(llvm_works()[name], time.process_time)()


@case
def llvm(rounds: int = 15, pieces: tuple[str, ...] = PIECES) -> None:
    """What each piece of hand-written LLVM gains: CPU time of plain numba over that of the piece.

    Two processes of one thread each do the work in turn, in one of them with plain numba in the piece's
    place. A piece stays where that takes more than 1.5 times as long in some of its work.
    """
    usual = process(**ONE_THREAD, **{PLAIN_VARIABLE: ""})
    head("piece", "work", "by hand, ms", "ratio")
    for piece in pieces:
        with process(**ONE_THREAD, **{PLAIN_VARIABLE: piece}) as plain:
            gains = []
            for kind in ("metrics", "codes"):
                for name in (f"{kind}, {each}" for each in LLVM_SCHEMES):
                    if name.startswith(LLVM_WORK[piece]):
                        works = {
                            each: lambda each=each, name=name: each.submit(llvm_seconds, name).result()
                            for each in (plain, usual)
                        }
                        numba, own = in_turns(works, rounds).values()
                        gains.append(ratio(numba, own))
                        row(piece, name, f"{1e3 * statistics.median(own):.1f}", f"{gains[-1]:.2f}")
        row(piece, "largest", "bar 1.5", judged(max(gains), 1.5, least=True))
    usual.shutdown()


@case
def encode(library: str) -> None:
    """Encoding of K-quants and IQ4 beside libggml's `ggml_quantize_chunk`, by processor time, one thread (bar
    1).

    `--library` is the shared library `libggml-base` of llama-cpp-python. It searches scales, makes codes and
    packs them; ours searches scales and makes codes, values and errors, a piece at a time as whoever writes a
    file would.
    """
    with process(**ONE_THREAD) as aside:
        aside.submit(encode_beside, library).result()


def encode_beside(library):
    from quantviz.quantization.qparams import qparams_of_range
    from tests.engines.record_llama_cpp import TYPES

    ask = ctypes.CDLL(library).ggml_quantize_chunk
    ask.restype = ctypes.c_size_t
    ask.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    shape, values = (512, 4096), 0.02 * random((512, 4096))
    x, packed = InMemory(values), torch.empty(values.numel(), dtype=torch.uint8)
    importance = torch.rand(shape[1], generator=torch.Generator().manual_seed(1))

    def encoded(scheme, weights):
        found = ranges.ranges(x, scheme, importance=weights)
        scheme = scheme if weights is None else scheme.weighted
        params = qparams_of_range(found, torch.tensor(0.0), scheme, scheme.layout(x.shape))
        for start in range(0, x.count, 2**18):
            coding.codes(x, scheme, params, start, min(start + 2**18, x.count), path="fused")

    head("type", "weights of columns", "libggml, M/s", "ours, M/s", "ratio")
    for name, (kind, _) in TYPES.items():
        for weights in (None, importance):
            at = None if weights is None else weights.data_ptr()
            works = {
                "theirs": partial(ask, kind, values.data_ptr(), packed.data_ptr(), 0, *shape, at),
                "ours": partial(encoded, qv.RECIPES[name], weights),
            }
            decoded(name, "yes" if at else "no", works=works, count=x.count)


def decoded(*cells, works, count):
    """Print the rates of theirs and ours, and how many times as quick ours is."""
    theirs, ours = in_turns(
        {name: timed(work, time.process_time) for name, work in works.items()}, 5
    ).values()
    rates = (f"{count / 1e6 / min(each):.0f}" for each in (theirs, ours))
    row(*cells, *rates, judged(ratio(theirs, ours), 1, 1, least=True))


@case
def decode() -> None:
    """Decoding of every quantized GGUF type beside the package gguf's (numpy), by processor time, one thread
    (bar 1).

    Blocks are random bytes.
    """
    with process(**ONE_THREAD) as aside:
        aside.submit(decode_beside).result()


def decode_beside():
    import gguf

    from quantviz.sources.files.gguf_blocks import BLOCK_TYPES, decode_blocks

    made, count = np.random.default_rng(0), 2**21
    head("type", "gguf, M/s", "ours, M/s", "ratio")
    for kind in BLOCK_TYPES.values():
        if kind.plain or kind.name in ("Q1_0", "Q2_0"):  # which the package does not decode
            continue
        raw = made.integers(0, 256, (count // kind.length, kind.size), dtype=np.uint8)
        works = {
            "theirs": partial(gguf.quants.dequantize, raw, gguf.GGMLQuantizationType(kind.id)),
            "ours": partial(decode_blocks, kind, torch.from_numpy(raw)),
        }
        with np.errstate(all="ignore"):
            decoded(kind.name, works=works, count=count)


def instances(count, seed=0):
    """Yield each kind of allocation's name, bits and costs: easy ones as models give, and hard ones."""
    made = np.random.default_rng(seed)
    per_weight = np.array([2.0625, 2.625, 3.0625, 3.4375, 4.25, 4.5, 5.0, 5.5, 6.25, 6.5625, 8.25, 8.5])
    sizes = np.array([2048 * 2048, 512 * 2048, 5632 * 2048, 2048 * 5632])[made.integers(0, 4, count)][:, None]
    any_size = made.integers(10**5, 10**9, (count, 1))
    shape = (count, len(per_weight))

    def error(spread_db):
        return 10 ** (-(6.02 * per_weight - 4 + made.normal(0, spread_db, shape)) / 10)

    bits = (sizes * per_weight).astype(np.int64)
    many = (any_size * per_weight * made.uniform(0.98, 1.02, shape)).astype(np.int64)
    yield "a model, errors spread by 1 dB", bits, error(1.0)
    yield "the same, weighed by α", bits, error(1.0) * made.lognormal(0, 0.5, (count, 1))
    yield "sizes of any number of bits", many, error(1.0)
    yield "no relation between bits and costs", made.integers(1, 10**6, shape), made.random(shape)
    yield "errors equal to 0.05 dB", bits, error(0.05)
    yield "equal errors", bits, np.broadcast_to(error(0.0)[:1], shape).copy()
    yield "costs nearly linear in bits", many, (many.max() - many) * (1 + 1e-3 * made.random(shape))
    yield "costs linear in bits", many, (many.max() - many) / 1e9
    yield "costs linear in bits, less a constant", many, 12e9 - many - 1e8 * np.arange(shape[1])


def solving(bits, cost, share):
    from quantviz.checkpoints.allocation.knapsack import solve

    fewest, most = int(bits.min(axis=1).sum()), int(bits.max(axis=1).sum())
    return solve(bits, np.asarray(cost), fewest + int((most - fewest) * share))


@case
def growth(tensors: int = 4000) -> None:
    """Time of everything that a checkpoint's names pass through, of twice the tensors against once (bar 3).

    A ratio of 2 is linear, one of 4 grows with the square. Sorting grows a little faster than what is sorted.
    """
    from tests.helpers.growth import SHAPES, WORKS

    def pairs():
        for name, work in WORKS.items():
            for shape, names in SHAPES.items():
                yield f"{name}: {shape}", [work(names(count)) for count in (tensors, 2 * tensors)]
        for once, twice in zip(instances(tensors), instances(2 * tensors), strict=True):
            yield f"solver: {once[0]}", [partial(solving, *each[1:], 0.4) for each in (once, twice)]

    head(f"work on {tensors:,} tensors", "s", "s, of twice as many", "ratio")
    gc.disable()
    for name, pair in pairs():
        took = in_turns({each: timed(each, time.process_time) for each in pair}, 3, warm=0)
        gc.collect()
        before, after = map(min, took.values())
        row(name, f"{before:.3f}", f"{after:.3f}", judged(after / before, 3, 1))


if __name__ == "__main__":
    main()
