"""The lines of a trace as JavaScript: numbers of each type as a browser computes them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from quantviz.compiled.traced_values import Untraceable
from quantviz.compiled.tracing import words_of

#: Kind of each type's numbers in JavaScript: "f" and "i" a number, "big" a BigInt, which alone has the 64
#: bits of products and shifts, and "b" a truth value.
_KINDS = MappingProxyType({"f4": "f", "f8": "f", "i4": "i", "i8": "i", "b1": "b"})
#: Functions of the lines, and their names in JavaScript: those of `Math`, then those of
#: `quantviz/browser/arithmetic/rounding.js`.
_OF_MATH = MappingProxyType(
    {
        "floor": "floor",
        "ceil": "ceil",
        "trunc": "trunc",
        "fabs": "abs",
        "sqrt": "sqrt",
        "log2": "log2",
        "log10": "log10",
        "least": "min",
    }
)
_OF_RUNTIME = MappingProxyType(
    {
        "rint": "rint",
        "copysign": "copysign",
        "fma": "fusedSum",
        "half": "toHalf",
        "brain": "toBrain",
        "two_to": "twoTo",
        "exponent": "exponentOf",
        "float_value": "floatOfCode",
    }
)
#: Arrays that numbers are read from, and their names in JavaScript.
_ARRAYS = MappingProxyType({"floats": "F", "integers": "I", "tables": "T"})
_SIGNS: Mapping[type, str] = MappingProxyType(
    {
        ast.Add: "+",
        ast.Sub: "-",
        ast.Mult: "*",
        ast.Div: "/",
        ast.BitAnd: "&",
        ast.BitOr: "|",
        ast.BitXor: "^",
        ast.LShift: "<<",
        ast.RShift: ">>",
        ast.Lt: "<",
        ast.LtE: "<=",
        ast.Gt: ">",
        ast.GtE: ">=",
        ast.Eq: "===",
        ast.NotEq: "!==",
    }
)
#: How a whole number of 32 bits is made of a sign and its two sides.
_WHOLE: Mapping[str, Callable[[str, str], str]] = MappingProxyType(
    {
        "+": lambda a, b: f"({a} + {b}) | 0",
        "-": lambda a, b: f"({a} - {b}) | 0",
        "*": lambda a, b: f"imul({a}, {b})",
        **{
            sign: lambda a, b, sign=sign: f"{a} {sign} {b}"  # type: ignore[misc]
            for sign in ("&", "|", "^", "<<", ">>")
        },
    }
)


class FunctionLines:
    """Lines of one function; each name's kind is known once its line was written.

    >>> lines = FunctionLines({"x": "f", "scale": "f"})
    >>> lines.write(["t0 = f4(x / scale)", "t1 = rint(t0)", "t2 = t1 != t0"])
    ['const t0 = fround(x / scale);', 'const t1 = rint(t0);', 'const t2 = t1 !== t0;']
    >>> sorted(lines.called)
    ['fround', 'rint']
    """

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = dict(kinds)
        #: The array that each loaded number is read from, by the number's name.
        self._loaded: dict[str, str] = {}
        #: The functions that are called, by their names in JavaScript.
        self.called: set[str] = set()

    def write(self, lines: Iterable[str]) -> list[str]:
        """Return declarations, one for each line."""
        return [self._declared(line) for line in lines]

    def know(self, name: str) -> None:
        """Let lines read a number that is declared elsewhere."""
        self._kinds[name] = "f"

    def _declared(self, line: str) -> str:
        name, _, expression = line.partition(" = ")
        made, self._kinds[name] = self._of(_parsed(expression))
        if made.startswith("I["):
            self._loaded[name] = made
        return f"const {name} = {made};"

    def _of(self, node: ast.expr) -> tuple[str, str]:
        """Return the code of a part, and its kind."""
        match node:
            case ast.Name(name):
                return name, self._kinds[name]
            case ast.Constant(bool(value)):
                return ("true" if value else "false"), "b"
            case ast.Constant(int(value)):
                return str(value), "i"
            case ast.Constant(float(value)):
                return repr(value), "f"
            case ast.Compare(left, [sign], [right]):
                a, b = self._alike(self._of(left), self._of(right))
                return f"{a} {_SIGNS[type(sign)]} {b}", "b"
            case ast.BinOp(left, ast.BitXor(), ast.Constant(True)):
                return f"!({self._of(left)[0]})", "b"
            case ast.BinOp(left, sign, right):
                return self._joined(left, sign, right)
            case ast.UnaryOp(ast.USub(), value):
                made, kind = self._of(value)
                return f"-{made}", kind
            case ast.Call(ast.Name(name), arguments):
                return self._call(name, arguments)
        raise Untraceable(ast.unparse(node))

    def _joined(self, left: ast.expr, sign: ast.operator, right: ast.expr) -> tuple[str, str]:
        (a, kind), (b, _) = self._of(left), self._of(right)
        symbol = _SIGNS[type(sign)]
        if kind != "b":
            return f"{a} {symbol} {b}", kind
        # Truth values stay such: & and | would make numbers of them.
        return f"({a}) {({'&': '&&', '|': '||', '^': '!=='})[symbol]} ({b})", "b"

    def _call(self, name: str, arguments: list[ast.expr]) -> tuple[str, str]:
        if name in ("f4", "f8", "i4", "i8"):
            return self._cast(name, arguments[0])
        if name in ("load_f8", "load_i8"):
            array = ast.unparse(arguments[0])
            place = self._of(arguments[1])[0]
            return f"{_ARRAYS[array]}[{place}]", "i" if name == "load_i8" else "f"
        if name == "sign_bit":
            return "S[i] < 0", "b"
        given = [self._of(each) for each in arguments]
        values = [made for made, _ in given]
        if name == "select":
            kind = "big" if "big" in (given[1][1], given[2][1]) else given[1][1]
            a, b = self._alike(*given[1:])
            return f"{values[0]} ? {a} : {b}", kind
        called = _OF_MATH.get(name) or _OF_RUNTIME.get(name)
        if called is None:
            raise Untraceable(name)
        self.called.add(called)
        kind = "i" if name in ("exponent", "least") else "f"
        kind = given[0][1] if name == "fabs" else kind
        return f"{called}({', '.join(values)})", kind

    def _cast(self, to: str, node: ast.expr) -> tuple[str, str]:
        if isinstance(node, ast.BinOp) and to in ("i4", "i8"):
            return self._whole(to, node)
        made, kind = self._of(node)
        if kind == "big" and to == "i4":
            return f"Number(BigInt.asIntN(32, {made}))", "i"
        if kind == "big" and to != "i8":
            made = f"Number({made})"
        if to == "f4" and not made.startswith(("F[", "-")):
            self.called.add("fround")
            return f"fround({made})", "f"
        if to == "i4" and not made.startswith("I["):
            return (f"({made}) | 0" if " " in made else f"{made} | 0"), "i"
        if to == "i8" and kind == "f":
            self.called.add("trunc")
            return f"trunc({made})", "i"
        return made, kind if to == "i8" else _KINDS[to]

    def _whole(self, to: str, node: ast.BinOp) -> tuple[str, str]:
        sides = (self._of(node.left), self._of(node.right))
        sign = _SIGNS[type(node.op)]
        (a, kind_a), (b, kind_b) = sides
        if to == "i8" and sign in ("+", "-") and "big" not in (kind_a, kind_b):
            return f"{a} {sign} {b}", "i"
        if to == "i8":
            a, b = (self._big(*side) for side in sides)
            return f"BigInt.asIntN(64, {a} {sign} {b})", "big"
        if sign == "*":
            self.called.add("imul")
        return _WHOLE[sign](a, b), "i"

    def _alike(self, *parts: tuple[str, str]) -> list[str]:
        """Return the code of parts that meet: all of them BigInts where one is."""
        if any(kind == "big" for _, kind in parts):
            return [self._big(*part) for part in parts]
        return [made for made, _ in parts]

    def _big(self, made: str, kind: str) -> str:
        """Return the code of a whole number as a BigInt."""
        if kind == "big":
            return made
        if made in self._loaded:
            return self._loaded[made].replace("I[", "J[")
        return f"BigInt({made})"


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> ast.expr:
    """Return the tree of an expression, which nothing changes: schemes share most of their lines."""
    return ast.parse(expression, mode="eval").body


def needed(lines: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """Return those of the lines that lead to the wanted names.

    >>> needed(["t0 = fabs(lo)", "t1 = fabs(hi)", "t2 = t1 > t0", "t3 = rint(t1)"], ["t3"])
    ['t1 = fabs(hi)', 't3 = rint(t1)']
    """
    names = set(wanted)
    kept = list[str]()
    for line in reversed(list(lines)):
        name, _, expression = line.partition(" = ")
        if name in names:
            names |= words_of(expression)
            kept.append(line)
    return kept[::-1]
