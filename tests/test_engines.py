"""Every convention gives what its engine gives, bit for bit: here on a sample, with `python -m tests.engines`
on everything.

A missing engine is an error, never a skip. Engines take seconds to import: each is imported by the process
that asks it, when it is asked.
"""

import itertools
import math
import os
import re
from collections import defaultdict
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import torch

import quantviz as qv
from quantviz.schemes.granularity import Flat, PerBlock, PerChannel, PerGroup
from tests.engines import (
    ENGINES,
    QUESTIONS,
    WAYS,
    Answer,
    Refused,
    case_of,
    engine,
)
from tests.engines import (
    Path as EnginePath,
)
from tests.engines.__main__ import COLUMNS, OPEN_COLUMNS, README, cells_of, folded, producer, rows_of
from tests.engines.compare import EngineTally, ask, mismatches, ulps
from tests.engines.data import Trial, tensors, trials
from tests.helpers.sample import ALL

ROOT = Path(__file__).parent.parent
DATA = list(trials())
#: One tensor in so many is tried with a case, other ones with the next case: of a convention that has at
#: least as many cases, with a wider step, and still each tensor with one of them. No step shares a divisor
#: with the number of distributions.
STEPS = {0: 31, 61: 61, 127: 127, 211: 211}
#: The same of a case none of whose tensors has a shape that it takes.
STEP_OF_UNFIT = 7
#: The same of recorded tensors, which are few and small.
RECORDED_STEP = 3
#: Modules, each with one of its conventions.
ASKED = [(name, convention) for name, conventions in ENGINES.items() for convention in conventions]


@cache
def cases(name):
    """A module's cases: by convention, and of that by each of its paths and variants, the scheme's form, the
    scheme and the path.
    """
    found = defaultdict(lambda: defaultdict(list))
    for path in engine(name).PATHS:
        for form in path.forms:
            scheme = qv.Scheme.parse(form)
            found[scheme.arithmetic.id][path.name, str(scheme.arithmetic)].append((form, scheme, path))
    return found


def all_cases():
    """Every scheme of every module, with its path."""
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


def step_of(count):
    """The step for so many cases; the narrowest for all where all combinations are taken."""
    most = 0 if os.environ.get(ALL) == "1" else count
    return STEPS[max(least for least in STEPS if least <= most)]


def sample(data, number, step):
    return [trial for index, trial in enumerate(data) if (index + number) % step == 0]


def data_of(name):
    return getattr(engine(name), "trials", None)


@cache
def recorded_trials(name):
    """A record's trials, or None of an engine that is asked here: a record answers for no others."""
    recorded = data_of(name)
    return tuple(recorded()) if recorded else None


def asked_trials(name, number, count):
    """What the case of that number is asked, of so many."""
    recorded = recorded_trials(name)
    if recorded is None:
        return sample(DATA, number, step_of(count))
    return sample(recorded, number, RECORDED_STEP)


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
            "torch_qat",
            "aimet",
            "nncf_weights",
            "openvino_fake_quantize",
            "tensorflow_fake_quant",
            "microxcaling",
            "modelopt",
            "modelopt_float8",
            "modelopt_packed",
        )
    },
    **{
        (convention, PerChannel): single_elements
        for convention in ("torchao", "torchao_int8", "torchao_tinygemm", "torchao_float8")
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
    **{(convention, PerGroup): one_axis for convention in ("mlx", "mlx_mxfp4", "mlx_mxfp8", "nncf_weights")},
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
    variants = cases(name)[convention].values()
    count = sum(map(len, variants))
    # The next variant goes on with other tensors.
    numbers = itertools.count()
    for variant in variants:
        tally = EngineTally()
        for form, scheme, path in variant:
            number = next(numbers)
            tally.add(path, form, asked_trials(name, number, count))
            if recorded_trials(name) is None and (scheme.format, scheme.granularity.id) not in tally.reached:
                tally.add(path, form, sample(DATA, number, STEP_OF_UNFIT))
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
    data = [trial for trial in DATA if trial.question == "own range" and trial.label.startswith("normal ")]
    for name in (name for name, own in ASKED if own == convention):
        inputs = list((data_of(name) or (lambda: data))())
        for form, scheme, path in itertools.chain.from_iterable(cases(name)[convention].values()):
            if type(scheme.granularity) is granularity:
                for trial in inputs:
                    shape = tuple(trial.x.shape)
                    if not scheme.problems(shape) and narrower(shape, scheme):
                        try:
                            ask(path, form, trial)
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


def test_no_scheme_is_asked_twice_of_a_path():
    for name in ENGINES:
        for path in engine(name).PATHS:
            schemes = [qv.Scheme.parse(form) for form in path.forms]
            assert len(set(schemes)) == len(schemes) > 0, path.name
            # What takes a range from outside takes its own too, and ours is asked in the same way.
            assert path.given.keys() in (path.own.keys(), set()), path.name


@pytest.mark.parametrize("name", ENGINES)
def test_each_path_answers_each_question_or_says_why_not(name):
    for path in engine(name).PATHS:
        assert path.open.keys() <= QUESTIONS.keys() - {"own range"}, path.name
        answered = {question for question in QUESTIONS if path.cases(question)}
        assert answered | path.open.keys() == QUESTIONS.keys(), path.name
        assert not {"given range", "half and bfloat16 input"} & answered & path.open.keys(), path.name


def test_every_tensor_is_in_some_sample():
    for least, step in STEPS.items():
        numbers = range(max(least, min(STEPS.values())))
        asked = {trial.label for number in numbers for trial in sample(DATA, number, step)}
        assert asked == {trial.label for trial in DATA}
    assert len({trial.label for trial in DATA}) == len(DATA)
    assert {trial.question for trial in DATA} >= QUESTIONS.keys() - {"half and bfloat16 input"}


def test_each_engine_is_installed_as_pinned():
    pinned = {}
    for listing in ("requirements.txt", "tests/requirements.txt"):
        lines = (ROOT / listing).read_text(encoding="utf-8").splitlines()
        # Without what else a distribution is asked to bring, as in `mlx[cpu]`.
        pinned |= dict(re.sub(r"\[.*\]", "", line).split("==") for line in lines if "==" in line)
    # What has a version of its own was asked elsewhere, and its answers are recorded.
    producers = {module.PRODUCER for module in map(engine, ENGINES) if not hasattr(module, "VERSION")}
    unpinned = sorted(producers - pinned.keys())
    assert not unpinned, (
        f"{unpinned} are in no requirements: pin them in tests/requirements.txt, or where their answers are "
        "recorded give the module a VERSION"
    )
    assert {name: metadata.version(name).partition("+")[0] for name in pinned} == pinned


# ---- the comparison can fail -----------------------------------------------------------------------


#: Tensors whose arithmetic has no infinities, so that what differs is the arithmetic.
VARIED = [
    x
    for label, x in tensors()
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
        mismatches(case_of("torchao", form)(x), qv.quantize(x, qv.Scheme.parse(other), strict=True))
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


def test_a_range_from_outside_is_compared():
    """One more code at the lower end changes nothing in a tensor's own range."""
    form = "int8,symmetric,per_tensor,min_max,torch_fake_quantize"
    path = next(path for path in engine("torch_fake_quantize").PATHS if form in path.own)
    wrong = f"{form}(narrow_range=true)"
    seen, x = torch.tensor([1.0, -0.5]), torch.tensor([0.5, -3.0])

    def other(seen, x):
        return path.given[form](seen, x)

    found = {}
    for question, trial in (
        ("own range", Trial("own range", "own", seen)),
        ("given range", Trial("given range", "given", x, seen)),
    ):
        tally = EngineTally()
        tally.add(EnginePath.of_given("wrong", {wrong: other}, open={}), wrong, [trial])
        found[question] = {part for _, part in tally.examples}
    assert "codes" in found["given range"] - found["own range"]


# ---- the tables of tests/engines/README.md -----------------------------------------------------------


def expected_rows():
    """Product, path and convention of each row, and the path."""
    for name in ENGINES:
        for variants in cases(name).values():
            for (path_name, convention), variant in variants.items():
                yield (producer(engine(name)), path_name, f"`{convention}`"), variant[0][2]


def test_the_table_has_every_path_and_no_mismatch():
    text = README.read_text(encoding="utf-8")
    rows = [dict(zip(COLUMNS, cells_of(line), strict=True)) for line in rows_of(text, "engines")]
    expected = dict(expected_rows())
    found = {(row["engine"], row["path"], row["convention"]) for row in rows}
    assert found == expected.keys(), "`python -m tests.engines` writes the table"
    for row in rows:
        path = expected[row["engine"], row["path"], row["convention"]]
        for way in WAYS:
            cell = row[f"≠ in {way}"]
            answers = any(QUESTIONS[question] == way and question not in path.open for question in QUESTIONS)
            assert (cell == "–") != answers, (row["path"], way)
            assert cell == "–" or set(cell.split(" / ")) <= {"0", "–"}, row
            assert cell == "–" or cell.endswith("0"), row


def test_the_reasons_are_listed():
    text = README.read_text(encoding="utf-8")
    rows = {tuple(cells_of(line)) for line in rows_of(text, "open")}
    assert all(len(row) == len(OPEN_COLUMNS) for row in rows)
    wanted = {
        (*key[:2], question, why) for key, path in expected_rows() for question, why in path.open.items()
    }
    assert wanted <= rows, "`python -m tests.engines` writes the reasons"


def test_formats_are_folded():
    assert folded(["int2", "int3", "int4", "int8", "nf4", "uint8", "int16"]) == "nf4, int2–4, 8, 16, uint8"
