"""A number as people type it, with the arithmetic they would do on paper."""

from __future__ import annotations

import ast
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping

from quantviz.errors import QuantVizError

#: The longest text that is read, in characters. It bounds the depth of its parentheses too.
LONGEST = 60
#: Signs that people type or paste, beside those that NFKC makes plain.
_SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "⋅": "*", "÷": "/", "。": ".", "、": ","})
_SUPERSCRIPTS = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
_RAISED = re.compile("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
#: A literal with its marks, as "1,234.5e-3": the meaning of the marks is decided later.
_LITERAL = re.compile(r"(?:[\d.,'_]|(?<=\d) (?=\d{3}(?!\d)))*\d[\d.,'_]*(?:e[+-]?\d+)?", re.ASCII)
_OPERATORS = frozenset("+-*/^() ")
#: Groups of three digits, and the mark of the decimals, which is another one.
_GROUPED = re.compile(r"\d{1,3}(?:([,.'_ ])\d{3})(?:\1\d{3})*(?:(?!\1)[.,]\d*)?", re.ASCII)
_PLAIN = re.compile(r"\d+[.,]?\d*|[.,]\d+", re.ASCII)
#: Three digits after one comma: grouped in English, decimals in most of Europe. Nobody groups a zero.
_AMBIGUOUS = re.compile(r"[1-9]\d{0,2},\d{3}", re.ASCII)
#: The operation of each sign between two numbers.
BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def read_number(typed: str, unit: str = "") -> float:
    """Return the number typed: with a decimal point or comma, in full-width digits, as a fraction, a power or
    a sum.

    Args:
        typed: At most `LONGEST` characters. Signs are + − × ÷ ^ and parentheses; nothing else is computed.
        unit: May stand behind the number. Without one, "50 %" is 0.5.

    Raises:
        QuantVizError: The text is empty, is no number, is not finite, divides by zero, or has a comma that
            can be read in two ways.

    >>> read_number("0,35"), read_number("−１２．５ dB", "dB"), read_number("1/4"), read_number("1.234,5")
    (0.35, -12.5, 0.25, 1234.5)
    >>> read_number("-128+184/4"), read_number("2^-3"), read_number("5 × 10⁻²"), read_number("50 %")
    (-82.0, 0.125, 0.05, 0.5)
    >>> read_number("1,234")
    Traceback (most recent call last):
    ...
    quantviz.errors.QuantVizError: '1,234' can mean 1.234 or 1234. Type 1.234 or 1234, whichever you mean.
    """
    shown = typed.strip()[:LONGEST]
    if len(typed) > LONGEST:
        raise QuantVizError("number_too_long", got=len(typed), longest=LONGEST)
    plain = _plain(typed)
    if not plain:
        raise QuantVizError("number_missing")
    own = _plain(unit).replace(" ", "")
    percent = not own and plain.endswith("%")
    if own and plain.replace(" ", "").endswith(own):
        plain = re.sub(r"\s*".join(map(re.escape, own)) + "$", "", plain).strip()
    plain = plain.removesuffix("%").strip() if percent else plain
    if plain.lstrip("+-") in ("inf", "infinity", "nan", "∞"):
        raise QuantVizError("number_not_finite", got=shown)
    strange = next((sign for sign in _LITERAL.sub("", plain) if sign not in _OPERATORS), None)
    if strange:
        raise QuantVizError("number_strange", got=shown, strange=strange)
    formula = _LITERAL.sub(lambda found: repr(_literal(found[0], shown)), plain).replace("^", "**")
    try:
        value = _value(ast.parse(formula.strip(), mode="eval").body)
    except (SyntaxError, TypeError):
        raise QuantVizError("number_unreadable", got=shown) from None
    except ZeroDivisionError:
        raise QuantVizError("number_divided_by_zero", got=shown) from None
    except ArithmeticError:
        value = math.inf
    if not math.isfinite(value):
        raise QuantVizError("number_not_finite", got=shown)
    return value / 100 if percent else value


def _plain(typed: str) -> str:
    """Return the typed text in lower case, with ASCII signs in place of others of the same meaning."""
    raised = _RAISED.sub(lambda found: f"^({found[0].translate(_SUPERSCRIPTS)})", typed)
    # NFKC would make 11/2 of 1½.
    signs = (
        sign if unicodedata.category(sign) == "No" else unicodedata.normalize("NFKC", sign) for sign in raised
    )
    return re.sub(r"\s+", " ", "".join(signs).translate(_SIGNS).replace("**", "^").lower()).strip()


def _literal(marked: str, shown: str) -> float:
    """Return the number written with marks; `shown` is all that was typed."""
    digits, _, exponent = marked.partition("e")
    if _AMBIGUOUS.fullmatch(digits):
        decimal = digits.replace(",", ".")
        whole = digits.replace(",", "")
        raise QuantVizError("number_ambiguous", got=shown, decimal=decimal, whole=whole)
    # One mark alone is the decimal one, whatever follows it.
    grouped = None if _PLAIN.fullmatch(digits) else _GROUPED.fullmatch(digits)
    if grouped:
        digits = digits.replace(grouped[1], "")
    elif not _PLAIN.fullmatch(digits):
        raise QuantVizError("number_unreadable", got=shown)
    value = float(digits.replace(",", ".") + (f"e{exponent}" if exponent else ""))
    if not math.isfinite(value):
        raise QuantVizError("number_not_finite", got=shown)
    return value


def _value(node: ast.expr) -> float:
    """Return the value of a tree of floats: floats keep each power small and quick."""
    match node:
        case ast.Constant(value=float(value)):
            return value
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand) if not isinstance(
            operand, ast.UnaryOp
        ):
            return -_value(operand) if isinstance(sign, ast.USub) else _value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            value = BINARY[type(op)](_value(left), _value(right))
            if isinstance(value, complex):
                raise ArithmeticError("a root of a negative number")
            return value
        case _:
            raise TypeError("not arithmetic")
