"""Every convention gives what its engine gives, bit for bit: here on a sample, with `python -m tests.engines`
on everything.

A missing engine is an error, never a skip. Engines take seconds to import: each is imported by the process
that asks it, when it is asked.
"""

import itertools
import math
import re
from collections import defaultdict
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import torch

import quantviz as qv
from quantviz.schemes.granularity import Flat, PerBlock, PerChannel, PerGroup
from tests.engines import ENGINES, Answer, Refused, engine
from tests.engines.__main__ import COLUMNS, MARKS, README, folded
from tests.engines.compare import COMPARED_PARTS, EngineTally, mismatches, ulps
from tests.engines.data import tensors

ROOT = Path(__file__).parent.parent
DATA = list(tensors())
#: One tensor in so many is tried with a case, other ones with the next case. It shares no divisor with the
#: number of distributions.
STEP = 23
#: Modules, each with one of its conventions.
ASKED = [(name, convention) for name, conventions in ENGINES.items() for convention in conventions]


@cache
def cases(name):
    """A module's cases: by convention, and of that by each of its variants, the scheme's form, the scheme and
    what asks the engine.
    """
    found = defaultdict(lambda: defaultdict(list))
    for form, case in engine(name).CASES.items():
        scheme = qv.Scheme.parse(form)
        found[scheme.arithmetic.id][str(scheme.arithmetic)].append((form, scheme, case))
    return found


def all_cases():
    """Every scheme of every module, with what asks the engine."""
    for name in ENGINES:
        for variants in cases(name).values():
            for variant in variants.values():
                yield from variant


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small tensors are no faster on two, and much slower where the machine is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sample(tensors, number):
    return [pair for index, pair in enumerate(tensors) if (index + number) % STEP == 0]


def one_axis(shape, scheme):
    return len(shape) == 1


def not_a_matrix(shape, scheme):
    return len(shape) != 2


def single_elements(shape, scheme):
    return scheme.layout(shape).block_size == 1


def across_rows(shape, scheme):
    """A run of the flattened tensor would go on from one index of axis 0 to the next."""
    return len(shape) == 1 or math.prod(shape[1:]) % scheme.granularity.size != 0


def unpacked(shape, scheme):
    """A layer's weight: no matrix, or one whose rows of groups do not fill their bytes."""
    size = getattr(scheme.granularity, "size", None)
    rows = shape[0] if size is None else size if scheme.granularity.strided else math.prod(shape) // size
    bits = scheme.number_format.bits
    return scheme.arithmetic.value_dtype != "float32" and (
        len(shape) != 2 or (bits in (1, 2, 4) and rows * bits % 8 != 0)
    )


#: Shapes that an engine refuses and the scheme allows, by convention and granularity. None is a matter of
#: arithmetic: our answer there is what the same rules give.
NARROWER = {
    # Other axes are reduced; where there are none, they fail or reduce the only one.
    **{
        (convention, PerChannel): one_axis
        for convention in (
            "torch",
            "torch_fake_quantize",
            "microxcaling",
            "modelopt",
            "modelopt_float8",
            "modelopt_packed",
        )
    },
    **{
        (convention, PerChannel): single_elements
        for convention in ("torchao", "torchao_tinygemm", "torchao_float8")
    },
    ("quanto", PerChannel): one_axis,
    ("quanto_qbits", PerChannel): lambda shape, scheme: (
        one_axis(shape, scheme) or scheme.layout(shape).grid_shape == (1,) * len(shape)
    ),
    # Made for weights.
    **{
        (convention, PerGroup): not_a_matrix
        for convention in ("onnxruntime_blocked", "onnxruntime_nbits", "litert_blockwise")
    },
    **{(convention, PerChannel): not_a_matrix for convention in ("bitsandbytes_int8", "compressed_tensors")},
    **{
        (convention, PerGroup): one_axis
        for convention in (
            "compressed_tensors",
            "compressed_tensors_mx",
            "compressed_tensors_nvfp4",
            "quanto_qbits",
        )
    },
    ("compressed_tensors", PerBlock): not_a_matrix,
    **{(convention, PerGroup): one_axis for convention in ("mlx", "mlx_mxfp4", "mlx_mxfp8")},
    # Rows of its packed words are a multiple of 32 elements.
    ("mlx_nvfp4", PerGroup): lambda shape, scheme: len(shape) == 1 or shape[-1] % 32 != 0,
    ("torchao_nvfp4", PerGroup): lambda shape, scheme: len(shape) not in (2, 3),
    ("quanto_qbits", Flat): across_rows,
    ("hqq", PerChannel): lambda shape, scheme: not_a_matrix(shape, scheme) or unpacked(shape, scheme),
    ("hqq", Flat): unpacked,
    # Two codes share a byte along the last axis.
    **{
        (convention, Flat): lambda shape, scheme: shape[-1] % 2 == 1
        for convention in ("modelopt_int4", "modelopt_mxfp4")
    },
}


def narrower(shape, scheme):
    own = NARROWER.get((scheme.arithmetic.id, type(scheme.granularity)))
    return own is not None and own(shape, scheme)


@pytest.mark.parametrize(("name", "convention"), ASKED)
def test_it_is_the_engine(name, convention):
    recorded = getattr(engine(name), "tensors", None)
    for variant in cases(name)[convention].values():
        tally = EngineTally()
        for number, (form, _, case) in enumerate(variant):
            tally.add(form, case, recorded() if recorded else sample(DATA, number))
        assert not tally.examples, tally.examples
        assert {(scheme.format, scheme.granularity.id) for _, scheme, _ in variant} == tally.reached, (
            "something was compared of every format and granularity"
        )
        allowed = {
            (str(scheme), shape)
            for scheme, shape in tally.refused
            if not scheme.problems(shape) and not narrower(shape, scheme)
        }
        assert not allowed, "the engine refuses what the scheme allows: these belong in NARROWER"


@pytest.mark.parametrize(("convention", "granularity"), NARROWER)
def test_what_is_said_to_be_refused_is(convention, granularity):
    data = [(label, x) for label, x in DATA if label.startswith("normal ")]
    for name in (name for name, own in ASKED if own == convention):
        inputs = list(getattr(engine(name), "tensors", lambda: data)())
        for _, scheme, case in itertools.chain.from_iterable(cases(name)[convention].values()):
            if type(scheme.granularity) is granularity:
                for _, x in inputs:
                    if not scheme.problems(tuple(x.shape)) and narrower(tuple(x.shape), scheme):
                        try:
                            case(x)
                        except Refused:
                            return
    pytest.fail("no shape shows it")


# ---- the cases are all there ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ENGINES)
def test_a_module_has_cases_of_the_conventions_that_are_said(name):
    """Those and no others are asked above."""
    assert tuple(cases(name)) == ENGINES[name]


def test_every_convention_is_asked_of_its_engine_with_all_that_it_offers():
    asked = {(scheme.arithmetic.id, scheme.format, scheme.granularity.id) for _, scheme, _ in all_cases()}
    for convention in qv.CONVENTIONS.values():
        if convention.id != "course":
            offer = convention.offer
            wanted = f"{convention.id} wants a case in tests/engines for each of what it offers"
            assert {fmt for owner, fmt, _ in asked if owner == convention.id} == set(offer.formats), wanted
            assert {kind for owner, _, kind in asked if owner == convention.id} == set(offer.granularities), (
                wanted
            )


def test_no_scheme_is_asked_twice_of_a_module():
    for name in ENGINES:
        schemes = [qv.Scheme.parse(form) for form in engine(name).CASES]
        assert len(set(schemes)) == len(schemes) > 0


def test_every_tensor_is_in_some_sample():
    assert {label for number in range(STEP) for label, _ in sample(DATA, number)} == {
        label for label, _ in DATA
    }


def test_each_engine_is_installed_as_pinned():
    pinned = {}
    for listing in ("requirements.txt", "tests/requirements.txt"):
        lines = (ROOT / listing).read_text(encoding="utf-8").splitlines()
        # Without what else a distribution is asked to bring, as in `mlx[cpu]`.
        pinned |= dict(re.sub(r"\[.*\]", "", line).split("==") for line in lines if "==" in line)
    # What has a version of its own was asked elsewhere, and its answers are recorded.
    producers = {module.PRODUCER for module in map(engine, ENGINES) if not hasattr(module, "VERSION")}
    assert producers <= pinned.keys()
    assert {name: metadata.version(name).partition("+")[0] for name in pinned} == pinned


# ---- the comparison can fail -----------------------------------------------------------------------


#: Tensors whose arithmetic has no infinities, so that what differs is the arithmetic.
VARIED = [
    x
    for label, x in DATA
    if label.split()[0] in ("normal", "two_decimals", "ties", "positive") and x.numel() > 1
]


@pytest.mark.parametrize(
    ("form", "other", "parts"),
    [
        # Another engine's scale, another order of the same steps, other ties, the notebooks' arithmetic: each
        # is told apart.
        (
            "int4,symmetric,per_tensor,min_max,torchao",
            "int4,symmetric,per_tensor,min_max,torchao(scale.rule=without_clipping)",
            {"codes", "scales", "values"},
        ),
        (
            "int8,asymmetric,per_tensor,min_max,torchao",
            "int8,asymmetric,per_tensor,min_max,torchao(order=multiply_add_round)",
            {"codes", "values"},
        ),
        (
            "int8,symmetric,per_tensor,min_max,torchao",
            "int8,symmetric,per_tensor,min_max,torchao(ties=away)",
            {"codes", "values"},
        ),
        (
            "int8,asymmetric,per_tensor,min_max,torchao",
            "int8,asymmetric,per_tensor,min_max,course",
            {"codes", "scales", "values"},
        ),
    ],
)
def test_other_arithmetic_is_told_apart(form, other, parts):
    found = [
        mismatches(engine("torchao").CASES[form](x), qv.quantize(x, qv.Scheme.parse(other), strict=True))
        for x in VARIED
    ]
    assert {part for differs in found for part, where in differs.items() if bool(where.any())} == parts


def test_one_wrong_number_is_a_mismatch():
    result = qv.quantize([[1.0, -2.0], [0.5, 3.0]], qv.Scheme("int8"))
    right = Answer(result.x_hat, result.q, result.qparams.scale.flatten())
    assert not any(bool(differs.any()) for differs in mismatches(right, result).values())
    beside = torch.nextafter(result.x_hat, torch.tensor(torch.inf))
    for part, wrong in (
        ("codes", Answer(result.x_hat, result.q + torch.tensor([[0, 0], [0, 1]]), right.scale)),
        (
            "scales",
            Answer(result.x_hat, result.q, torch.nextafter(right.scale.float(), torch.tensor(torch.inf))),
        ),
        ("zero points", Answer(result.x_hat, result.q, right.scale, torch.tensor([1]))),
        ("values", Answer(torch.nextafter(beside, torch.tensor(torch.inf)), result.q, right.scale)),
        ("values", Answer(torch.full_like(result.x_hat, torch.inf), result.q, right.scale)),
    ):
        assert {name for name, differs in mismatches(wrong, result).items() if bool(differs.any())} == {part}
    assert not bool(mismatches(Answer(beside, result.q, right.scale), result)["values"].any()), (
        "one unit in the last place is allowed"
    )


def test_distances_are_counted_in_float32_numbers():
    one, tiny = torch.tensor([1.0]), torch.tensor([2.0**-149])
    assert ulps(one, torch.nextafter(one, torch.tensor(2.0))).item() == 1
    assert ulps(tiny, -tiny).item() == 2
    assert ulps(torch.tensor([0.0, torch.nan]), torch.tensor([-0.0, torch.nan])).tolist() == [0, 0]


# ---- the table of tests/engines/README.md -----------------------------------------------------------


def test_the_table_has_every_convention_and_no_mismatch():
    inside = re.search(f"{MARKS[0]}\n(.*)\n{MARKS[1]}", README.read_text(encoding="utf-8"), re.S)
    assert inside, "no table in tests/engines/README.md: `python -m tests.engines` writes it"
    rows = [line.strip("| ").split(" | ") for line in inside[1].splitlines()]
    assert tuple(rows[0]) == COLUMNS
    asked = {str(scheme.arithmetic) for _, scheme, _ in all_cases()}
    assert {row[1].strip("`") for row in rows[2:]} == asked, "`python -m tests.engines` writes the table"
    assert all(set(row[-len(COMPARED_PARTS) :]) <= {"0", "–"} and row[-1] == "0" for row in rows[2:])


def test_formats_are_folded():
    assert folded(["int2", "int3", "int4", "int8", "nf4", "uint8", "int16"]) == "nf4, int2–4, 8, 16, uint8"
