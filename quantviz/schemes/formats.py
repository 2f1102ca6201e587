"""Number formats: the values that codes represent.

A format is data; `kind` names the grid arithmetic in `grids.py` that rounds to it.
A format is added here: one entry in `FORMATS` and its words in each language. A codebook of somebody's own,
such as one fitted to a tensor, is no entry: its id holds its values.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.errors import QuantVizError
from quantviz.public_calls import checked_fields, public_class
from quantviz.schemes.choices import CodeDtype, GridKind, Special
from quantviz.schemes.names import ids_named
from quantviz.schemes.text_form import read_value

#: The most values of a codebook of somebody's own: codes of 6 bits.
MOST_OWN_VALUES = 64
#: Cached tables: those of `FORMATS`, and the last of other codebooks.
MOST_KEPT = 256


@checked_fields
@dataclass(frozen=True)
class FloatBits:
    """The layout of the bits of a float format.

    A code is sign, exponent field E and mantissa field M, from the highest bit down. Its value is
    2^(E - bias) · (1 + M / 2^m), and 2^(1 - bias) · (M / 2^m), subnormal, where E is 0.
    Sources: IEEE 754-2019 3.4; OCP 8-bit Floating Point (OFP8) 1.0; OCP Microscaling Formats (MX) 1.0 5.3.
    """

    exponent: int
    mantissa: int
    bias: int
    #: The codes of Inf and NaN. "ieee": the largest exponent is Inf and NaN; "fn": all ones is NaN, no Inf;
    #: "fnuz": -0 is NaN, no Inf; "finite": there are none.
    special: Special = "ieee"
    #: Whether codes with E = 0 are 0 and the subnormal values; otherwise 0 is an exponent like any other.
    subnormal: bool = True

    @property
    def smallest_exponent(self) -> int:
        """Return log2 of the smallest normal value."""
        return (1 if self.subnormal else 0) - self.bias


@checked_fields
@public_class
@dataclass(frozen=True)
class NumberFormat:
    """An element format.

    >>> FORMATS["int4"].code_min, FORMATS["int4"].code_max
    (-8, 7)
    >>> FORMATS["float4_e2m1fn"].value(0b0111), FORMATS["float4_e2m1fn"].split(0b0111)
    (6.0, ('0', '11', '1'))
    """

    #: Permanent id, lower_snake: it is in people's links.
    id: str
    #: The kind of grid arithmetic that rounds to it: "integer", "float" or "codebook".
    kind: GridKind
    #: Bits of one code.
    bits: int
    #: Whether there are negative values.
    signed: bool
    #: Name of the torch dtype that holds one code an element, never packed.
    code_dtype: CodeDtype
    #: Smallest and largest code, as numbers.
    code_min: int
    code_max: int
    #: The layout of the bits of a float grid.
    float_bits: FloatBits | None = None
    #: The value of each code of a codebook.
    codebook: tuple[float, ...] = ()

    @functools.cached_property
    def levels(self) -> int:
        """Return the number of codes."""
        return self.code_max - self.code_min + 1

    @property
    def value_min(self) -> float:
        """Return the smallest finite value."""
        return _ends(self)[0]

    @property
    def value_max(self) -> float:
        """Return the largest finite value."""
        return _ends(self)[1]

    @property
    def codes(self) -> range:
        """Return every code, in the order of its number."""
        return range(self.code_min, self.code_max + 1)

    def value(self, code: int) -> float:
        """Return the value of `code` in units of the scale; inf or nan if it is not a number.

        >>> e4m3, nf4 = FORMATS["float8_e4m3fn"], FORMATS["nf4"]
        >>> e4m3.value(0x7E), e4m3.value(0x7F), nf4.value(15)
        (448.0, nan, 1.0)
        """
        if code not in self.codes:
            raise QuantVizError(
                "code_out_of_range", got=code, format=self.id, smallest=self.code_min, largest=self.code_max
            )
        return _value(self, code)

    @property
    def values(self) -> tuple[float, ...]:
        """Return the value of every code, in the order of `codes`.

        >>> FORMATS["int2"].values
        (-2.0, -1.0, 0.0, 1.0)
        """
        return _values(self)

    def split(self, code: int) -> tuple[str, str, str]:
        """Return the bits of `code` as sign, exponent, mantissa; an integer or codebook has only the last.

        Negative integers are in two's complement.

        >>> FORMATS["int4"].split(-3)
        ('', '', '1101')
        """
        word = format(code % (1 << self.bits), f"0{self.bits}b")
        if not self.float_bits:
            return "", "", word
        sign = len(word) - self.float_bits.exponent - self.float_bits.mantissa
        exponent = self.float_bits.exponent
        return word[:sign], word[sign : sign + exponent], word[sign + exponent :]

    @functools.cached_property
    def family(self) -> str:
        """Return the family: "integer" has every whole number of its bits, "codebook" a list of few values.

        >>> FORMATS["int4"].family, FORMATS["ternary"].family
        ('integer', 'codebook')
        """
        if self.kind == "integer" and self.levels < 1 << self.bits:
            return "codebook"
        return self.kind

    def distance(self, other: NumberFormat) -> tuple[float, bool, bool, bool]:
        """Return the distance of `other`, a sort key: first the log2 ratio of bits, then family and sign.

        >>> others = [FORMATS[name] for name in ("int3", "uint4", "float4_e2m1fn")]
        >>> min(others, key=FORMATS["int4"].distance).id
        'uint4'
        """
        return (
            abs(math.log2(self.bits / other.bits)),
            self.family != other.family,
            self.signed != other.signed,
            self.id != other.id,
        )

    @property
    def has_nan(self) -> bool:
        """Whether one of its codes is NaN.

        >>> [name for name in ("int8", "nf4", "float4_e2m1fn", "float8_e4m3fn") if FORMATS[name].has_nan]
        ['float8_e4m3fn']
        """
        return self.float_bits is not None and self.float_bits.special != "finite"

    @property
    def finite(self) -> tuple[tuple[float, int], ...]:
        """Return every finite value with its code, smallest first, -0 before 0.

        >>> FORMATS["int2"].finite
        ((-2.0, -2), (-1.0, -1), (0.0, 0), (1.0, 1))
        """
        return _finite(self)


@functools.lru_cache(maxsize=MOST_KEPT)
def _finite(fmt: NumberFormat) -> tuple[tuple[float, int], ...]:
    numbers = zip(fmt.values, fmt.codes, strict=True)
    return tuple(
        sorted(
            ((value, code) for value, code in numbers if math.isfinite(value)),
            key=lambda pair: (pair[0], math.copysign(1, pair[0])),
        )
    )


@functools.lru_cache(maxsize=MOST_KEPT)
def _ends(fmt: NumberFormat) -> tuple[float, float]:
    if not fmt.float_bits and not fmt.codebook:
        # No list of the 65,536 values of 16 bits is made.
        return float(fmt.code_min), float(fmt.code_max)
    return fmt.finite[0][0], fmt.finite[-1][0]


@functools.lru_cache(maxsize=MOST_KEPT)
def _values(fmt: NumberFormat) -> tuple[float, ...]:
    return tuple(_value(fmt, code) for code in fmt.codes)


def _value(fmt: NumberFormat, code: int) -> float:
    if fmt.float_bits:
        return _float_value(code, fmt.float_bits, fmt.signed)
    return fmt.codebook[code] if fmt.codebook else float(code)


def _float_value(code: int, layout: FloatBits, signed: bool) -> float:
    width = layout.exponent + layout.mantissa
    one = 1 << layout.mantissa
    negative, magnitude = (code >> width == 1, code & ((1 << width) - 1)) if signed else (False, code)
    field = magnitude // one
    fraction = magnitude % one
    sign = -1.0 if negative else 1.0
    full = field == (1 << layout.exponent) - 1
    if layout.special == "ieee" and full:
        if fraction:
            return math.nan
        return sign * math.inf
    if layout.special == "fn" and full and fraction == one - 1:
        return math.nan
    if layout.special == "fnuz" and negative and not magnitude:
        return math.nan
    if layout.subnormal and field == 0:
        return sign * math.ldexp(fraction, layout.smallest_exponent - layout.mantissa)
    return sign * math.ldexp(one + fraction, field - layout.bias - layout.mantissa)


# ---- the formats --------------------------------------------------------------------------------


def _integer(bits: int, signed: bool) -> NumberFormat:
    # torch.uint16 has no arithmetic, hence int32 for its codes.
    wide: CodeDtype = "int16" if signed else "int32"
    narrow: CodeDtype = "int8" if signed else "uint8"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return NumberFormat(
        f"int{bits}" if signed else f"uint{bits}",
        "integer",
        bits,
        signed,
        narrow if bits <= 8 else wide,
        low,
        high,
    )


def _float(name: str, layout: FloatBits, signed: bool = True) -> NumberFormat:
    bits = signed + layout.exponent + layout.mantissa
    return NumberFormat(
        name, "float", bits, signed, "uint8" if bits <= 8 else "int32", 0, (1 << bits) - 1, float_bits=layout
    )


def _codebook(name: str, values: tuple[float, ...]) -> NumberFormat:
    bits = (len(values) - 1).bit_length()
    return NumberFormat(name, "codebook", bits, min(values) < 0, "uint8", 0, len(values) - 1, codebook=values)


@functools.lru_cache(maxsize=MOST_KEPT)
def _own_codebook(format_id: str) -> NumberFormat:
    """Return the format of a codebook whose id holds its values.

    Raises:
        QuantVizError: They are not from 2 to `MOST_OWN_VALUES` numbers, each larger than the one before.
    """
    written = format_id.removeprefix("codebook(").removesuffix(")").split(",")
    numbers = tuple(read_value(each, float) for each in written[: MOST_OWN_VALUES + 1])
    values = tuple(map(_float32, numbers))
    ascending = all(one < other for one, other in itertools.pairwise(values))
    in_float32 = all(abs(value) < 2.0**127 for value in values)
    if not (2 <= len(values) <= MOST_OWN_VALUES and ascending and in_float32 and format_id.endswith(")")):
        raise QuantVizError("own_codebook", got=format_id, most=MOST_OWN_VALUES)
    return _codebook(own_codebook_id(numbers), values)


def entry_of(format_id: str) -> str:
    """Return the name of a format's entry among the texts: own codebooks have no values there.

    >>> entry_of("int4"), entry_of("codebook(-1.0,1.0)")
    ('int4', 'codebook')
    """
    return format_id.partition("(")[0]


def own_codebook_id(values: Iterable[float]) -> str:
    """Return the id of the codebook of these values, smallest first; they become float32.

    >>> find_format(own_codebook_id([-1.5, 0.0, 2.0])).codebook
    (-1.5, 0.0, 2.0)
    """
    return f"codebook({','.join(map(repr, values))})"


def _float32(value: float) -> float:
    # Without torch.
    if value == 0:
        return value
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(fraction, 24)), exponent - 24)


#: NormalFloat of QLoRA (Dettmers et al. 2023, appendix E): quantiles of N(0, 1), brought to [-1, 1], as
#: float32.
_NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
#: The float4 of bitsandbytes, E2M1 with values of its own: its code's magnitudes over 12, as float32.
_FP4 = tuple(_float32(magnitude / 12) for magnitude in (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0))


def _dynamic8() -> tuple[float, ...]:
    # Dettmers et al. 2022, 2.1: a sign, a decimal exponent by the count of leading zeros, a linear fraction.
    values = [0.0, 1.0]
    first = _float32(0.1)
    for place in range(7):
        count = 1 << place
        # As float32 counts them: from the nearer end of [0.1, 1], each rounded once.
        step = _float32((1 - first) / count)
        ends = [
            _float32(first + step * i) if 2 * i < count + 1 else _float32(1 - step * (count - i))
            for i in range(count + 1)
        ]
        # The middles of equal parts, a power of ten smaller for each place less.
        for low, high in itertools.pairwise(ends):
            middle = _float32(_float32(10.0 ** (place - 6)) * _float32(_float32(low + high) / 2))
            values += [middle, -middle]
    return tuple(sorted(values))


#: IQ4_NL and IQ4_XS of llama.cpp (`kvalues_iq4nl` of ggml): closer together near zero.
_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)

_ALL = (
    *(_integer(bits, signed) for bits in (1, 2, 3, 4, 5, 6, 7, 8, 16) for signed in (True, False)),
    # BitNet b1.58 (Ma et al. 2024): -1, 0 and 1, log2(3) bits, stored in 2 unless packed by threes.
    NumberFormat("ternary", "integer", 2, True, "int8", -1, 1),
    # BitNet (Wang et al. 2023): the sign alone.
    _codebook("binary", (-1.0, 1.0)),
    _float("float16", FloatBits(5, 10, 15)),
    _float("bfloat16", FloatBits(8, 7, 127)),
    _float("float8_e4m3fn", FloatBits(4, 3, 7, "fn")),
    _float("float8_e5m2", FloatBits(5, 2, 15)),
    _float("float8_e4m3fnuz", FloatBits(4, 3, 8, "fnuz")),
    _float("float8_e5m2fnuz", FloatBits(5, 2, 16, "fnuz")),
    _float("float8_e3m4", FloatBits(3, 4, 3)),
    _float("float8_e8m0fnu", FloatBits(8, 0, 127, "fn", subnormal=False), signed=False),
    _float("float6_e2m3fn", FloatBits(2, 3, 1, "finite")),
    _float("float6_e3m2fn", FloatBits(3, 2, 3, "finite")),
    _float("float4_e2m1fn", FloatBits(2, 1, 1, "finite")),
    _codebook("nf4", _NF4),
    _codebook("fp4", (*_FP4, *(-value for value in _FP4))),
    _codebook("bnb_dynamic8", _dynamic8()),
    _codebook("iq4", tuple(map(float, _IQ4))),
)

FORMATS: Mapping[str, NumberFormat] = MappingProxyType({each.id: each for each in _ALL})


def find_format(format_id: str) -> NumberFormat:
    """Return the format called `format_id`, an id as people type it; `QuantVizError` lists the known ones.

    >>> find_format("uint4").code_max, find_format("NF4").id
    (15, 'nf4')
    """
    if isinstance(format_id, str):
        if format_id in FORMATS:
            return FORMATS[format_id]
        if format_id.startswith("codebook("):
            return _own_codebook(format_id)
        for own in ids_named(format_id, zip(FORMATS, FORMATS, strict=True)):
            return FORMATS[own]
    raise QuantVizError("unknown_format", got=format_id, known=", ".join(FORMATS))
