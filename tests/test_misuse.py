"""What a person gets for a mistake in Python or in a text form: a sentence of bounded length, soon; and what
is none must simply work.
"""

import random
import re
import string
import time

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.errors import MOST_SHOWN, QuantVizError
from quantviz.figures.panels_data import panels_data
from quantviz.lab.state import LabState, opening
from quantviz.schemes.recipes import ALL_RECIPES
from quantviz.text import languages

X = torch.tensor([[1.0, -2.0, 3.0, 40.0], [0.5, 0.25, -7.0, 1.0]])
SCHEME = qv.Scheme()
RESULT = qv.quantize(X, SCHEME)
HUGE = 10**5000


def nested():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided)


#: What makes each, and what it is refused for.
NO_TENSORS = {
    "nested": (nested, "input_not_dense"),
    "jagged": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        "input_not_dense",
    ),
    "sparse": (lambda: torch.eye(2).to_sparse(), "input_not_dense"),
    "sparse rows": (lambda: torch.eye(2).to_sparse_csr(), "input_not_dense"),
    "meta": (lambda: torch.ones(2, 2, device="meta"), "input_not_dense"),
    "complex": (lambda: torch.ones(2, dtype=torch.complex64), "input_dtype"),
    "bool": (lambda: torch.ones(2, dtype=torch.bool), "input_dtype"),
    "empty": (lambda: torch.ones(0, 3), "input_empty"),
    "no axes": (lambda: 3.0, "input_dims"),
    "text": (lambda: "1, 2, 3", "input_not_tensor"),
    "texts": (lambda: ["a", "b"], "input_not_tensor"),
    "array of texts": (lambda: np.array(["a", "b"]), "input_dtype"),
    "array of objects": (lambda: np.array([1, None]), "input_dtype"),
    "dates": (lambda: np.array(["2020-01-01"], dtype="datetime64[D]"), "input_dtype"),
    "records": (lambda: np.zeros(3, dtype=[("a", "f4")]), "input_dtype"),
    "masked": (lambda: np.ma.array([1.0, 2.0], mask=[False, True]), "input_masked"),
    "ragged": (lambda: [[1.0], [1.0, 2.0]], "input_not_tensor"),
    "beyond": (lambda: [HUGE], "input_not_tensor"),
    "nothing": (lambda: None, "input_not_tensor"),
    "a dict": (lambda: {"a": 1.0}, "input_not_tensor"),
    "a set": (lambda: {1.0}, "input_not_tensor"),
    "no axis": (lambda: torch.tensor(1.0), "input_dims"),
    "two empty axes": (lambda: torch.empty(2, 0), "input_empty"),
    "beyond float32": (lambda: torch.tensor([1e300], dtype=torch.float64), "input_beyond_float32"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:Sparse CSR tensor support")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", NO_TENSORS)
def test_what_is_no_tensor_is_refused_by_every_verb(name):
    make, key = NO_TENSORS[name]
    value = make()
    with pytest.raises(qv.QuantVizError) as refused:
        qv.quantize(value, SCHEME)
    assert (refused.value.key, refused.value.__cause__) == (key, None)
    for use in (
        lambda: qv.choose_qparams(value, SCHEME),
        lambda: qv.measure(value, SCHEME),
        lambda: qv.dequantize(value, SCHEME, qv.QParams(1.0)),
        lambda: panels_data(value, [[1]], [[1.0]]),
        lambda: panels_data([[1.0]], value, [[1.0]]),
        lambda: qv.metrics(value),
        lambda: qv.as_matrix(value),
        lambda: qv.explain(value, (0, 0)),
    ):
        with pytest.raises(qv.QuantVizError) as refused:
            use()
        assert all(refused.value.message(language) for language in languages())


WHOLE = [
    *(sign * number for number in (2**63, 2**64 - 1, 10**30) for sign in (1, -1)),
    torch.tensor(2**64 - 1, dtype=torch.uint64),
    torch.tensor([2**63], dtype=torch.uint64),
    np.uint64(2**64 - 1),
    np.array(2**64 - 1, dtype=np.uint64),
]


@pytest.mark.parametrize("number", WHOLE, ids=repr)
def test_whole_numbers_beyond_64_bits_are_refused(number, tmp_path):
    np.save(tmp_path / "x.npy", X.numpy())
    with qv.open_tensors(tmp_path / "x.npy") as file:
        for use in (
            lambda: qv.explain(RESULT, (number, 0)),
            lambda: qv.explain(RESULT, (0, number)),
            lambda: qv.explain(RESULT, number),
            lambda: qv.PerGroup(number).layout((2, 4)),
            lambda: qv.PerGroup(2, number).layout((2, 4)),
            lambda: qv.PerChannel(number).layout((2, 4)),
            lambda: qv.PerBlock(number, number).layout((2, 4)),
            lambda: qv.PerTensor().layout((number, 4)),
            lambda: qv.quantize(X, qv.Scheme("int4", "symmetric", qv.Flat(number))),
            lambda: file.load("x", number),
        ):
            with pytest.raises(qv.QuantVizError):
                use()


@pytest.mark.parametrize("size", [0, -1, "2", 2.5, None])
def test_a_group_without_a_size_has_no_layout(size):
    for granularity in (qv.PerGroup(size), qv.PerBlock(size, 1), qv.Flat(size)):
        with pytest.raises(qv.QuantVizError):
            granularity.layout((2, 4))


@pytest.mark.parametrize("format_id", qv.FORMATS)
def test_only_codes_that_a_format_has_stand_for_values(format_id):
    fmt = qv.FORMATS[format_id]
    scheme = (
        qv.Scheme("int8", "asymmetric").with_format(format_id)
        if format_id != "int1"
        else qv.Scheme("int1", "asymmetric")
    )
    ends = [fmt.code_min, fmt.code_max]
    assert qv.dequantize(ends, scheme, qv.QParams(1.0)).tolist() == pytest.approx(
        [fmt.value(code) for code in ends], nan_ok=True
    )
    for code in (fmt.code_min - 1, fmt.code_max + 1, 0.5):
        with pytest.raises(qv.QuantVizError, match="has no code"):
            qv.dequantize(torch.tensor([code]), scheme, qv.QParams(1.0))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_arrays_in_any_order_are_their_values(dtype, order):
    values = np.arange(12).reshape(3, 4)
    array = values.astype(f"{order}{dtype}")
    for seen, wanted in (
        (array, values),
        (array[::-1], values[::-1]),
        (array[:, ::-2], values[:, ::-2]),
        (array.T, values.T),
        (array[0, ::-1], values[0, ::-1]),
    ):
        for use in (
            lambda x: qv.quantize(x, "int8_per_tensor").x,
            lambda x: torch.from_numpy(panels_data(x, x, x).x),
        ):
            assert torch.equal(
                use(seen).reshape(wanted.shape), torch.tensor(wanted.copy(), dtype=torch.float32)
            )
        assert qv.measure(seen, SCHEME).metrics == qv.measure(torch.tensor(wanted.copy()), SCHEME).metrics
    assert torch.equal(
        qv.dequantize(array[::-1], SCHEME, qv.QParams(1.0)),
        torch.tensor(values[::-1].copy(), dtype=torch.float32),
    )
    scales = np.array([1.0, 2.0, 3.0])
    rows = qv.Scheme(granularity=qv.PerChannel(0))
    assert qv.quantize(array, rows, qparams=qv.QParams(scales[::-1])).qparams.scale.flatten().tolist() == [
        3.0,
        2.0,
        1.0,
    ]


def test_tables_and_other_floats_are_their_values():
    pandas, ml_dtypes = pytest.importorskip("pandas"), pytest.importorskip("ml_dtypes")
    assert qv.quantize(pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), SCHEME).x.tolist() == [
        [1.0, 3.0],
        [2.0, 4.0],
    ]
    assert qv.quantize(pandas.Series([1, 2]), SCHEME).x.tolist() == [1.0, 2.0]
    assert qv.quantize(np.array([1.5, 2.0], dtype=ml_dtypes.bfloat16), SCHEME).x.tolist() == [1.5, 2.0]
    with pytest.raises(qv.QuantVizError, match="object"):
        qv.quantize(pandas.DataFrame({"a": ["x"]}), SCHEME)


def test_a_mask_is_never_forgotten():
    masked = np.ma.array([1.0, 1e9, 3.0], mask=[False, True, False])
    with pytest.raises(qv.QuantVizError, match=r"masked values [(]1[)]"):
        qv.quantize(masked, SCHEME)
    assert qv.quantize(np.ma.array([1.0, 2.0]), SCHEME).x.tolist() == [1.0, 2.0]
    left_out = qv.quantize(
        masked.astype(float).filled(np.nan), SCHEME.replace(nonfinite="ignore")
    )  # what the sentence says
    assert left_out.counted.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("dtype", "n_bits"),
    [("int8", 8), (None, 8), (torch.int8, 0), (torch.int8, 10**100), (torch.int8, "8"), (torch.int8, 2.5)],
)
def test_a_picture_of_no_codes_is_refused(dtype, n_bits):
    with pytest.raises(qv.QuantVizError, match="dtype for the codes"):
        qv.plot_quantization_errors(X, RESULT.q, RESULT.x_hat, dtype, n_bits)


# ---- what an error repeats -----------------------------------------------------------------------

VALUES = {
    "a long text": "x" * 10**6,
    "a huge number": HUGE,
    "a huge negative number": -HUGE,
    "many numbers": list(range(10**5)),
    "huge numbers": [HUGE] * 1000,
    "lists in lists": [[[[["x" * 1000] * 100] * 100]]],
    "a dict": dict.fromkeys(range(1000), "x" * 1000),
    "a tensor": torch.ones(100, 100),
    "a type": qv.PerTensor,
    "a group": qv.PerGroup(HUGE),
    "bytes": b"x" * 10**6,
}
USES = {
    "Scheme.format": lambda value: qv.Scheme(value),
    "Scheme.mode": lambda value: qv.Scheme(mode=value),
    "Scheme.nonfinite": lambda value: qv.Scheme(nonfinite=value),
    "Scheme.granularity": lambda value: qv.Scheme(granularity=value),
    "Scheme.calibration": lambda value: qv.Scheme(calibration=value),
    "Scheme.convention": lambda value: qv.Scheme(convention=value),
    "Scheme.parse": qv.Scheme.parse,
    "PerChannel.axis": lambda value: qv.Scheme(granularity=qv.PerChannel(value)),
    "PerGroup.size": lambda value: qv.Scheme(granularity=qv.PerGroup(value)),
    "PerBlock.rows": lambda value: qv.Scheme(granularity=qv.PerBlock(value, 1)),
    "Flat.strided": lambda value: qv.Scheme(granularity=qv.Flat(1, value)),
    "Percentile.p": lambda value: qv.Scheme(calibration=qv.Percentile(value)),
    "ManualRange.lo": lambda value: qv.Scheme(calibration=qv.ManualRange(value, value)),
    "Given.scale": lambda value: qv.Scheme(calibration=qv.Given(value)),
    "Given.zero_point": lambda value: qv.Scheme(calibration=qv.Given(1.0, value)),
    "a field": lambda value: qv.CONVENTIONS["course"].replace(ties=value),
    "a number field": lambda value: qv.CONVENTIONS["course"].replace(seed=value),
    "quantize": lambda value: qv.quantize(X, value),
    "explain": lambda value: qv.explain(RESULT, (value, value)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", VALUES)
def test_an_error_repeats_no_more_than_a_line(name, use):
    with pytest.raises(qv.QuantVizError) as refused:
        USES[use](VALUES[name])
    for language in languages():
        known = sum(
            len(str(value)) for name, value in refused.value.params.items() if name in ("known", "allowed")
        )
        assert len(refused.value.message(language)) < 300 + 2 * MOST_SHOWN + known


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_whatever_an_error_is_given_its_sentence_is_short(value):
    for key, params in (
        ("unknown_mode", {"got": value, "known": "a"}),
        ("range_beyond_float32", {"width": value, "largest": value}),
    ):
        for language in languages():
            assert len(qv.QuantVizError(key, **params).message(language)) < 500


def test_nothing_is_suggested_for_what_is_like_nothing():
    with pytest.raises(qv.QuantVizError) as refused:
        qv.Scheme("zzz")
    assert str(refused.value).endswith(".")


# ---- text forms ----------------------------------------------------------------------------------

LONG = 10**6
FORMS = {
    "letters": "a" * LONG,
    "commas": "," * LONG,
    "opened": "(" * LONG,
    "closed": ")" * LONG,
    "in one another": "int8,symmetric," + "per_tensor(" * (LONG // 10) + ",min_max,course",
    "digits": f"int8,symmetric,per_group(size={'1' * LONG}),min_max,course",
    "digits and a letter": f"int8,symmetric,per_tensor,percentile(p={'1' * LONG}x),course",
    "fraction and a letter": f"int8,symmetric,per_tensor,percentile(p=1.{'1' * LONG}x),course",
    "a huge power": f"int8,symmetric,per_tensor,percentile(p=1e{'9' * LONG}),course",
    "fields": f"int8,symmetric,per_tensor,min_max,course({','.join(f'f{i}=1' for i in range(LONG // 10))})",
    "the same field": f"int8,symmetric,per_tensor({'a=1,' * (LONG // 4)}),min_max,course",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_long_text_form_is_refused_soon(form):
    """A million characters took 20 seconds."""
    start = time.process_time()
    for read in (qv.Scheme.parse, lambda form: qv.quantize(X, form)):
        with pytest.raises(qv.QuantVizError) as refused:
            read(form)
        # Cut off, whatever was typed; all recipes may be listed.
        assert len(str(refused.value)) < 500 + len(", ".join(ALL_RECIPES))
    assert time.process_time() - start < 5
    state, problems = LabState.read({"s": form})
    assert (state, len(problems)) == (opening(), 1)


NO_NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "Infinity",
    "1_000",
    "٣",
    "３",
    "²",
    "0x10",
    "1e999",
    "",
    " 1",
    "1 ",
    "1\n",
    "--1",
    "1.",
    "none",
    "true",
)


@pytest.mark.parametrize("number", NO_NUMBERS, ids=repr)
def test_a_number_in_a_form_is_ascii_and_finite(number):
    with pytest.raises(qv.QuantVizError):
        qv.Scheme.parse(f"int8,symmetric,per_group(size={number}),min_max,course")
    if number != "1.":
        with pytest.raises(qv.QuantVizError):
            qv.Scheme.parse(f"int8,symmetric,per_tensor,given(scale={number}),course")
    for name in ("c", "a", "h", "v") if number != "1." else ("c", "a"):
        assert LabState.read({name: number})[1]


def damaged(form, chance):
    """The form after some small changes."""
    pieces = [
        *string.printable,
        "٣",
        "\u202e",
        "\0",
        "(",
        ")",
        ",",
        "=",
        "nan",
        "inf",
        "1e999",
        "9" * 30,
        "per_group",
        "course",
        "scale.floor",
        "(size=3)",
        "，",
    ]
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(len(form) + 1)
        form = (
            form[:at]
            + chance.choice(("", chance.choice(pieces), form[: chance.randrange(40)]))
            + form[at + chance.choice((0, 0, 1, 5)) :]
        )
    return form


def test_damaged_text_forms_and_links_are_refused_or_round_trip():
    chance = random.Random(7)
    forms = [
        *map(str, qv.RECIPES.values()),
        "int8,asymmetric,per_block(rows=2,cols=2),given(scale=3.5,zero_point=-70),course(scale.floor=1e-08,ties=away),clip",
    ]
    read = 0
    for _ in range(3000):
        form = damaged(chance.choice(forms), chance)
        try:
            scheme, problem = qv.Scheme.parse(form), ""
        except qv.QuantVizError as refused:
            scheme, problem = None, str(refused)
        assert len(problem) < 1500
        if scheme is not None:
            read += 1
            assert qv.Scheme.parse(str(scheme)) == scheme
    assert read > 20
    whole = {**opening().replace(baseline=qv.RECIPES["int4_g32"]).written(), "lang": "en"} | {
        "a": "0.1_0.0_0.0.4.4",
        "h": "1.5",
        "e": "steps",
        "m": "all",
    }
    for _ in range(2000):
        name = chance.choice(tuple(whole))
        state, problems = LabState.read(whole | {name: damaged(whole[name], chance)})
        assert all(len(problem.message(language)) < 2500 for problem in problems for language in languages())
        assert not state.scheme.problems(state.source.shape)
        assert state.baseline is None or not state.baseline.problems(state.source.shape)


@pytest.mark.parametrize("scale", [-1.0, 0.0])
def test_scales_by_hand_are_above_zero_in_both_directions(scale):
    for call in (
        lambda: qv.dequantize([[1]], "int8_per_tensor", qv.QParams(scale)),
        lambda: qv.quantize([[1.0]], "int8_per_tensor", qparams=qv.QParams(scale)),
    ):
        with pytest.raises(QuantVizError) as caught:
            call()
        assert caught.value.key == ("scale_negative" if scale < 0 else "scale_not_positive")
    # An engine's own can be anything.
    x, gguf = (
        torch.linspace(-1, 2, 32),
        qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed"),
    )
    r = qv.quantize(x, gguf)
    assert r.qparams.scale.item() < 0
    assert torch.equal(qv.dequantize(r.q, gguf, r.qparams), r.x_hat)


def test_views_that_torch_resolves_late_are_read():
    x = torch.tensor([[1.0, -2.0]])
    assert str(qv.measure(torch._neg_view(x), "int8_per_tensor")) == str(qv.measure(-x, "int8_per_tensor"))
    imaginary = torch.tensor([1 + 2j]).conj().imag
    assert qv.quantize(imaginary, "int8_per_tensor").x.tolist() == [-2.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(1).expand(200_000, 200_000),
        lambda: np.lib.stride_tricks.as_strided(np.ones(1, np.float32), (200_000, 200_000), (0, 0)),
    ],
)
@pytest.mark.parametrize("call", [qv.quantize, qv.measure])
def test_one_value_repeated_beyond_all_memory_is_refused(make, call):
    with pytest.raises(QuantVizError) as caught:
        call(make(), "int8_per_tensor")
    assert caught.value.key == "input_too_large"
    assert qv.quantize(torch.ones(1).expand(20, 20), "int8_per_tensor").shape == (20, 20)


def test_arrays_and_lists_of_them_are_read_however_they_lie():
    table = np.zeros(3, dtype=[("name", "S1"), ("x", "f4")])
    table["x"] = [1, 2, 3]
    assert qv.quantize(table["x"], "int8_per_tensor").x.tolist() == [1, 2, 3]
    rows = [[1.0, 2.0], [3.0, 4.0]]
    for listed in (
        [torch.tensor(row) for row in rows],
        [np.array(row) for row in rows],
        [np.array(row, dtype=">f4")[::-1][::-1] for row in rows],
    ):
        assert qv.quantize(listed, "int8_per_tensor").x.tolist() == rows
    for wrong in ([torch.zeros(2), torch.zeros(3)], [np.zeros(2), np.zeros(3)]):
        with pytest.raises(QuantVizError) as caught:
            qv.quantize(wrong, "int8_per_tensor")
        assert caught.value.key == "input_not_tensor"


def test_whole_numbers_of_numpy_are_sizes():
    scheme = qv.Scheme("int4", granularity=qv.PerGroup(np.int64(32)))
    assert qv.Scheme.parse(str(scheme)) == scheme
    assert type(scheme.granularity.size) is int
    for bad in (True, 32.0, "32"):
        with pytest.raises(QuantVizError):
            qv.Scheme("int4", granularity=qv.PerGroup(bad))


def test_a_stored_tensor_is_told_apart_from_what_is_none():
    with qv.open_tensors(b"1,2\n3,4", "x.csv") as catalog:
        stored = catalog.stored("x")
    with pytest.raises(QuantVizError) as caught:
        qv.quantize(stored, "int8_per_tensor")
    assert caught.value.key == "input_stored"


def test_a_scale_of_nan_is_not_told_to_be_smaller():
    """The whole tensor is 0, and the scale of its NVFP4 blocks is 0 / 0."""
    with pytest.raises(qv.QuantVizError) as refused:
        qv.quantize(np.zeros((2, 32), np.float32), "nvfp4")
    assert refused.value.key == "scale_is_nan"
    assert "smaller scale" not in str(refused.value)


@pytest.mark.parametrize(("engine", "most"), [("torch", 127), ("onnxruntime", 127)])
def test_seven_bits_of_an_engine_that_reduces_ranges_name_that_option(engine, most):
    with pytest.raises(qv.QuantVizError) as refused:
        qv.Scheme("uint7", convention=engine)
    (named,) = re.findall(rf"{engine}\(reduce_range=[^)]+\)", str(refused.value))
    scheme = qv.Scheme.parse(f"uint8,asymmetric,per_tensor,min_max,{named}")
    assert (scheme.range_code_max, scheme.code_max) == (most, 255)
    assert qv.quantize([0.0, 1.0], scheme).q.tolist() == [0, most]
    assert qv.Scheme("uint7", convention="torch_fake_quantize").code_max == 127


def test_a_step_beyond_the_end_of_a_format_is_not_called_a_value_of_it():
    r = qv.quantize([480.0, -0.1], qv.Scheme("float8_e4m3fn", calibration=qv.Given(1.0)))
    lines = {step.code_line: step.output for step in qv.explain(r, 0).steps}
    assert lines["y = grid_float8_e4m3fn(y)"] == 480.0
    assert lines["q = clamp(y, -448, 448)"] == 448.0
    assert not any(" = float8_e4m3fn(y)" in line for line in lines)
