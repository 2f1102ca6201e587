"""Typed and pasted tensors: what is read, what is refused and with which sentence, and what comes back bit
for bit.
"""

import contextlib
import math
import re
import struct
import time
import tomllib
import tracemalloc

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantviz.errors import QuantVizError
from quantviz.sources.tensor_text import parse_tensor
from quantviz.sources.typed import MOST_ELEMENTS, Typed, shortest
from quantviz.text import languages
from tests.helpers import ROOT

TEXTS = tomllib.loads((ROOT / "tests/data/typed_texts.toml").read_text(encoding="utf-8"))
READ = {
    **{text: (tuple(each["shape"]), each["values"]) for each in TEXTS["read"] for text in each["texts"]},
    **{text: key for key, texts in TEXTS["refused"].items() for text in texts},
    "9" * 1001: "typed.no_number",
    "9" * 1000: "typed.beyond_float32",
}


@pytest.mark.parametrize("text", READ, ids=[repr(text)[:40] for text in READ])
def test_reading(text):
    expected = READ[text]
    if isinstance(expected, str):
        with pytest.raises(QuantVizError) as caught:
            parse_tensor(text)
        assert caught.value.key == expected
        for language in languages():
            assert len(caught.value.message(language)) < 400
    else:
        typed = parse_tensor(text)
        assert (typed.shape, typed.values) == (
            expected[0],
            tuple(struct.unpack("f", struct.pack("f", value))[0] for value in expected[1]),
        )


def refused(text, **options):
    with pytest.raises(QuantVizError) as caught:
        parse_tensor(text, **options)
    return caught.value


def test_errors_name_the_place():
    assert refused("1 2\n3 four").params == {"line": 2, "column": 3, "got": "four"}
    assert refused("tensor([[1., 2.],\n        [3., x]])").params == {"line": 2, "column": 14, "got": "x"}
    assert refused("1 2\n3 4\n5").params == {"line": 3, "column": 1, "row": 3, "got": 1, "expected": 2}
    assert refused("[[1, 2],\n [3]]").params == {
        "line": 2,
        "column": 2,
        "row": 2,
        "got": "1",
        "expected": "2",
    }
    assert refused("[1, 2,\n ..., 9]").params == {"line": 2, "column": 2, "got": "..."}
    assert refused("1\t\t2").params == {"line": 1, "column": 3}
    assert refused("[[1, 2],\n [3, 4]").params == {"line": 1, "column": 1, "bracket": "["}


def test_a_quoted_cell_is_named_and_may_have_a_decimal_comma_where_that_is_said():
    assert refused('1,2\n3,"1,000"').params == {"line": 2, "column": 3, "got": '"1,000"'}
    assert refused('1,2\n3,"1').params == {"line": 2, "column": 3}
    assert parse_tensor('"1,5","2,5"', decimal_comma=True).values == (1.5, 2.5)
    assert refused('"1.234,5" "2,5"', decimal_comma=True).key == "typed.separator_in_cell"


@pytest.mark.parametrize("text", ["1,5 2,5", "1,5\t2,5", "1,5; 2,5", "[1,5 2,5]", "1,5, 2,5"])
def test_both_readings_of_a_comma_are_shown_and_can_be_chosen(text):
    error = refused(text)
    assert (error.params["apart"], error.params["decimal"]) == ("1, 5, 2, 5", "1.5, 2.5")
    assert parse_tensor(text, decimal_comma=True).values == (1.5, 2.5)
    assert parse_tensor(text, decimal_comma=False).values == (1, 5, 2, 5)


def test_a_number_has_one_decimal_comma():
    assert refused("1,5,2 3,5", decimal_comma=True).key == "typed.no_number"
    assert parse_tensor("−1,5e2 ２,5", decimal_comma=True).values == (-150, 2.5)


def test_nan_is_kept_for_the_scheme_to_decide():
    typed = parse_tensor("nan 1")
    assert math.isnan(typed.values[0])
    assert typed == parse_tensor("NaN 1")


@pytest.mark.parametrize("shape", [(5,), (1,), (3, 4), (2, 3, 4), (2, 1, 2, 3)])
@pytest.mark.parametrize("scale", [1e-6, 1, 1e7])
def test_what_torch_and_numpy_print_is_read(shape, scale):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * scale
    torch.set_printoptions(profile="full", precision=9, sci_mode=None)
    try:
        printed = [repr(x), repr(x.requires_grad_()), repr(torch.nn.Parameter(x)), repr(x.double())]
    finally:
        torch.set_printoptions(profile="default")
    with numpy.printoptions(threshold=10**6, precision=9, floatmode="unique"):
        printed += [repr(x.detach().numpy()), str(x.detach().numpy())]
    printed.append(str(x.tolist()))
    for text in printed:
        assert torch.allclose(parse_tensor(text).tensor(), x.detach(), rtol=1e-6, atol=1e-8 * scale), text
        assert parse_tensor(text).shape == shape


def test_size_is_refused_before_much_work():
    for text in (
        "1 " * (MOST_ELEMENTS + 1),
        "[" * 10**7,
        "1" * (64 * MOST_ELEMENTS + 1),
        "1,5 " * MOST_ELEMENTS * 4,
    ):
        start = time.process_time()
        assert refused(text).key in ("typed.too_many", "typed.too_long", "typed.only_separators")
        assert time.process_time() - start < 4
    assert parse_tensor("1 " * 512).shape == (512,)


@pytest.mark.parametrize(
    "piece",
    [
        "1,",
        "[",
        "]",
        "(",
        " ",
        "\n",
        "\t",
        ";",
        ",",
        "a=",
        ", a=",
        "1 ",
        "1,5 ",
        "-",
        "1e",
        "x(",
        "tensor(",
        "=<",
        "[1], a=1~ ",
    ],
)
def test_time_grows_with_length_only(piece):
    first, _, again = piece.rpartition("~")

    def elapsed(count):
        """Return the processor's seconds of the quickest of three: other work is not counted."""
        seconds = []
        for _ in range(3):
            text, start = f"tensor({first}{again * count}", time.process_time()
            with pytest.raises(QuantVizError):
                parse_tensor(text)
            seconds.append(time.process_time() - start)
        return min(seconds)

    # Eight times the text: a quadratic reader would take 64 times as long.
    assert elapsed(160_000) < 24 * elapsed(20_000) + 0.05


@pytest.mark.parametrize(
    ("piece", "key"), [("1,5;2,\n", "typed.ragged"), ("1 2 3\n", None), ("[1,2]\n", None)]
)
def test_a_long_text_takes_some_times_its_size(piece, key):
    """An object for each word and separator took 110 to 130 times it."""
    text = piece * 2_000
    parse_tensor("1 2")
    tracemalloc.start()
    try:
        with pytest.raises(QuantVizError) if key else contextlib.nullcontext() as caught:
            parse_tensor(text)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert key is None or caught.value.key == key
    assert most < 60 * len(text)


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SHAPES = (
    st.lists(st.integers(1, 5), min_size=1, max_size=4)
    .map(tuple)
    .filter(lambda shape: math.prod(shape) <= 256)
)


@st.composite
def typed_tensors(draw, floats=FLOATS):
    shape = draw(SHAPES)
    return Typed(tuple(draw(st.lists(floats, min_size=math.prod(shape), max_size=math.prod(shape)))), shape)


def bits(typed):
    return struct.pack(f"{len(typed.values)}f", *typed.values)


@settings(max_examples=150, deadline=None)
@given(typed_tensors())
def test_text_comes_back_bit_for_bit(typed):
    again = parse_tensor(typed.to_text())
    assert again == typed
    assert bits(again) == bits(typed)


@settings(max_examples=150, deadline=None)
@given(typed_tensors(st.floats(width=32)))
def test_links_come_back_bit_for_bit(typed):
    payload = typed.to_payload()
    assert re.fullmatch(r"[A-Za-z0-9._=-]+", payload)
    assert Typed.from_payload(payload).shape == typed.shape
    assert bits(Typed.from_payload(payload)) == bits(typed)


@settings(max_examples=150, deadline=None)
@given(FLOATS)
def test_the_shortest_form_is_the_same_float32_and_no_longer_than_numpys(value):
    assert struct.pack("f", float(shortest(value))) == struct.pack("f", value)
    digits = sum(
        character.isdigit() for character in f"{float(shortest(value)):.9g}".partition("e")[0].strip("-0.")
    )
    assert digits <= 9


def test_a_full_link_stays_short():
    values = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))
    assert len(Typed.of(values).to_payload()) < 1500
    anything = torch.randint(
        -(2**31), 2**31 - 1, (256,), generator=torch.Generator().manual_seed(0), dtype=torch.int32
    ).view(torch.float32)
    assert len(Typed(tuple(anything.tolist()), (16, 16)).to_payload()) < 2000


def test_a_17_by_16_tensor_does_not_travel():
    with pytest.raises(QuantVizError) as caught:
        Typed.of([[0.0] * 16] * 17).to_payload()
    assert caught.value.key == "typed.too_large_for_link"


GOOD = Typed.of([[1.0, 2.0], [3.0, 4.0]]).to_payload()


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "2x2",
        "2x2.",
        GOOD[:-1],
        GOOD[:-4],
        GOOD + "A",
        GOOD + "AAAA",
        GOOD.replace("2x2", "2x3"),
        GOOD.replace("2x2", "1"),
        GOOD.replace("2x2", "02x2"),
        GOOD.replace("2x2", "0x2"),
        GOOD.replace("2x2", "-2x-2"),
        GOOD.replace("2x2", "2x2x1x1x1"),
        GOOD.replace("2x2", "999x999"),
        GOOD.replace("2x2", "２x２"),
        "2x2." + "A" * 1999,
        "2x2." + "=" * 20,
        " " + GOOD,
        GOOD + "\n",
        GOOD.replace("e", "+", 1),
        "2x2.%%%%",
    ],
)
def test_a_damaged_link_is_said(payload):
    with pytest.raises(QuantVizError) as caught:
        Typed.from_payload(payload)
    assert caught.value.key == "typed.payload_damaged"


def test_a_bomb_in_a_link_is_not_inflated():
    import base64
    import zlib

    bomb = base64.urlsafe_b64encode(zlib.compress(bytes(10**6), 9)).decode().rstrip("=")
    assert len(bomb) < 2000
    with pytest.raises(QuantVizError):
        Typed.from_payload(f"16x16.{bomb}")


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123456789.,;-+e[]() \t\n−…tensorinfNaN='<>、，", max_size=60))
def test_any_text_is_read_or_refused(text):
    for decimal_comma in (None, True, False):
        with contextlib.suppress(QuantVizError):
            typed = parse_tensor(text, decimal_comma=decimal_comma)
            assert 1 <= len(typed.shape) <= 4
            assert len(typed.values) == math.prod(typed.shape) > 0


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_link_is_read_or_refused(payload):
    with pytest.raises(QuantVizError):
        Typed.from_payload(payload)


@pytest.mark.parametrize(
    ("nested", "key"),
    [
        ([], "input_empty"),
        ([[]], "input_empty"),
        (3, "input_not_tensor"),
        (None, "input_not_tensor"),
        ([[1, 2], [3]], "typed.ragged_rows"),
        ([[1, 2], 3], "typed.not_number"),
        ([1, [2]], "typed.not_number"),
        ([[1, None]], "typed.not_number"),
        ([True], "typed.not_number"),
        (["1"], "typed.not_number"),
        ([1j], "typed.not_number"),
        ([[[[[1]]]]], "typed.axes"),
        ([1e39], "typed.not_number_beyond"),
        ([10**400], "typed.not_number_beyond"),
        ([[0.0] * 513] * 512, "typed.too_many"),
    ],
)
def test_nested_lists_that_are_no_tensor(nested, key):
    with pytest.raises(QuantVizError) as caught:
        Typed.of(nested)
    assert caught.value.key == key
    for language in languages():
        assert caught.value.message(language)


def test_a_typed_tensor_is_a_source():
    typed = Typed.of(torch.tensor([[1.5, -2.0]]))
    assert typed.id == "typed"
    assert (typed.shape, typed.values) == ((1, 2), (1.5, -2.0))
    assert not list(typed.problems())
    assert torch.equal(typed.tensor(), torch.tensor([[1.5, -2.0]]))
    assert Typed((0.0,), (1,)) != Typed((-0.0,), (1,))
    assert len({Typed((1.0,), (1,)), Typed.of([1]), Typed((math.nan,), (1,)), Typed((math.nan,), (1,))}) == 2
    # Values are kept as float32, so that what is shown is what is quantized.
    assert Typed.of([0.1]).values[0] == torch.tensor(0.1).item()
