"""What a wrong argument of a public class gets, of its constructor and of its methods: a sentence."""

import dataclasses
import inspect

import pytest
import torch

import quantviz as qv
from tests.helpers.public_calls import WRONG, X, refused_or_answered, right_calls
from tests.helpers.sample import sample_of

CLASSES = [name for name in qv.__all__ if isinstance(getattr(qv, name), type)]
#: What the arithmetic gives its own objects.
INNER = ("calibrate", "by_parts", "of_runs", "constant", "rows", "runs")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A text that is taken for a path makes a file there."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def instances(tmp_path_factory):
    """One of each public class, by its name."""
    calls = right_calls(tmp_path_factory.mktemp("public"))

    def answer(name):
        return getattr(qv, name)(**calls[name])

    result, explained, opened = answer("quantize"), answer("explain"), qv.open_tensors(calls["scan"]["path"])
    course = qv.CONVENTIONS["course"]
    made = [
        *(result, result.layout, result.range, result.qparams, explained, explained.steps[0]),
        *map(answer, ("allocate", "allocation_frontier", "audit", "blame", "clipping_curve")),
        *map(
            answer,
            ("capture", "collect", "compare_runs", "compare_schemes", "layer", "measure", "rate_distortion"),
        ),
        *(
            answer("integer_layer"),
            answer("attention"),
            answer("ranges_over_batches"),
            qv.Codes([[1, 2]], 0.5),
        ),
        *(qv.AttentionOptions(), qv.NormOptions()),
        *(qv.Scheme(), course, course.scale, qv.Offer(("int8",)), qv.Note.of("tail")),
        *(qv.FORMATS["int4"], qv.FORMATS["float8_e4m3fn"].float_bits, qv.QuantVizError("tail")),
        *(qv.PerTensor(), qv.PerChannel(), qv.PerGroup(16), qv.PerBlock(2, 8), qv.Flat(8), qv.External()),
        *(qv.MinMax(), qv.AbsMean(), qv.MSE(), qv.Searched(), qv.Given(0.5), qv.Percentile(99.0)),
        *(qv.ManualRange(-1.0, 1.0), qv.LayerSchemes("int4_g32"), qv.ModelSchemes(), answer("run")),
        qv.run(torch.nn.Linear(32, 2).eval(), calls["collect"]["batches"], schemes="int8_per_row"),
    ]
    return {type(each).__name__: each for each in made} | {"open_tensors": opened}


def methods(kind):
    """The names of what can be asked of a class, without what Python asks, and the arithmetic."""
    return [
        name
        for name in dir(kind)
        if not name.startswith("_")
        and name not in INNER
        # What a scheme asks its calibration.
        and not (hasattr(kind, "calibrate") and name in ("problems", "lines"))
        and not hasattr(BaseException, name)
        and inspect.isroutine(getattr(kind, name))
    ]


def test_there_is_one_of_every_public_class(instances):
    # Blocks are given to a calibration that somebody writes, never made by hand.
    assert set(CLASSES) - {"Blocks"} <= set(instances)


def made_and_used(kind, given):
    """Make one by hand, ask it for all that it knows, and do with it what it is for."""
    made = kind(**given)
    repr(made)
    # The properties of a convention or a format are read once a scheme has checked it.
    if not isinstance(made, qv.Convention | qv.NumberFormat):
        for name in dir(kind):
            if not name.startswith("_") and not inspect.isroutine(getattr(kind, name)):
                getattr(made, name)
    if type(made).__name__ in ("PerTensor", "PerChannel", "PerGroup", "PerBlock", "Flat"):
        qv.quantize(X, qv.Scheme(granularity=made))
    elif hasattr(made, "calibrate"):
        qv.quantize(X, qv.Scheme(calibration=made))
    elif isinstance(made, qv.Convention):
        qv.quantize(X, qv.Scheme(convention=made))
    elif isinstance(made, qv.Allocation):
        qv.export_allocation(made, "json")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", sample_of(WRONG, 4))
def test_a_wrong_field_gets_a_sentence_when_it_is_given_or_used(instances, wrong):
    refused = 0
    for name in sorted(set(CLASSES) - {"Blocks"}):
        kind = getattr(qv, name)
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        held = {each.name: getattr(instances[name], each.name) for each in fields if each.init}
        for field in held:
            given = {**held, field: WRONG[wrong]()}
            refused += refused_or_answered(made_and_used, kind, given) is not None
    assert refused > 40


def answered(method, arguments):
    """Call a method, and take what it yields."""
    found = method(*arguments)
    return list(found) if inspect.isgenerator(found) else found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", sample_of(WRONG, 4))
def test_a_wrong_argument_of_a_method_gets_a_sentence(instances, wrong):
    refused = 0
    for instance in instances.values():
        for name in methods(type(instance)):
            method = getattr(instance, name)
            if not callable(method):
                continue
            asked = [
                each
                for each in inspect.signature(method).parameters.values()
                if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            ]
            needed = sum(each.default is each.empty for each in asked)

            for given in range(max(1, needed), len(asked) + 1):
                arguments = [WRONG[wrong]() for _ in range(given)]
                refused += refused_or_answered(answered, method, arguments) is not None
    assert refused > 20


def test_a_refusal_names_the_method_and_the_way_out():
    with pytest.raises(qv.QuantVizError, match=r"shape of Scheme.layout.*got int 7.*Give Shape"):
        qv.Scheme().layout(7)
    with pytest.raises(qv.QuantVizError, match=r"bits of NumberFormat.*got bool True"):
        dataclasses.replace(qv.FORMATS["int4"], bits=True)
    with pytest.raises(qv.QuantVizError, match=r"Unknown language: got '\.\./en'"):
        qv.Note.of("tail").message("../en")
