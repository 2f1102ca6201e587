"""Recipes: schemes with a name, to set everything at once, and what each makes of one tensor.

A recipe is added here: one entry in `RECIPE_GROUPS` and its words in each language.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quantviz.axes import Axes
from quantviz.calibration import AbsMean
from quantviz.conventions import CONVENTIONS, Convention
from quantviz.errors import QuantVizError
from quantviz.granularity import Flat, PerChannel, PerGroup, PerTensor, Shape
from quantviz.scheme import Scheme
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.kernels import Measured


def _group(format_id: str, convention: str | Convention, size: int = 32, mode: str = "symmetric") -> Scheme:
    return Scheme(format_id, mode, PerGroup(size), convention=convention)


#: Every recipe by group and id: weights as they are usually quantized.
RECIPE_GROUPS: Mapping[str, Mapping[str, Scheme]] = MappingProxyType(
    {
        # By the source notebooks' arithmetic.
        "integers": MappingProxyType(
            {
                f"{format_id}_{name}": Scheme(format_id, "symmetric", granularity)
                for format_id in ("int8", "int4")
                for name, granularity in (
                    ("per_tensor", PerTensor()),
                    ("per_row", PerChannel(axis=0)),
                    ("per_column", PerChannel(axis=1)),
                    ("g32", PerGroup(32)),
                    ("g128", PerGroup(128)),
                )
            }
        ),
        # LLM.int8() (Dettmers et al. 2022), and FP8 as torchao has it.
        "eight_bits": MappingProxyType(
            {
                "bnb_int8": Scheme("int8", granularity=PerChannel(0), convention="bitsandbytes_int8"),
                "fp8_e4m3_per_tensor": Scheme("float8_e4m3fn", convention="torchao_float8"),
                "fp8_e4m3_per_row": Scheme("float8_e4m3fn", granularity=PerChannel(0), convention="torchao_float8"),
            }
        ),
        # OCP Microscaling Formats 1.0, and NVIDIA's FP4 with an E4M3 scale for 16 values.
        "microscaling": MappingProxyType(
            {
                "mxfp8_e4m3": _group("float8_e4m3fn", "microxcaling"),
                "mxfp8_e5m2": _group("float8_e5m2", "microxcaling"),
                "mxfp6_e2m3": _group("float6_e2m3fn", "microxcaling"),
                "mxfp6_e3m2": _group("float6_e3m2fn", "microxcaling"),
                "mxfp4": _group("float4_e2m1fn", "microxcaling"),
                "mxint8": _group("int8", "microxcaling"),
                "mxint4": _group("int4", "microxcaling"),
                "nvfp4": _group("float4_e2m1fn", "torchao_nvfp4", 16),
                "nvfp4_one_level": _group("float4_e2m1fn", CONVENTIONS["torchao_nvfp4"].replace(**{"scale.global_rule": None}), 16),
            }
        ),
        # Types of llama.cpp's files.
        "gguf": MappingProxyType(
            {
                "q8_0": _group("int8", "gguf"),
                "q5_0": _group("int5", "gguf_signed"),
                "q5_1": _group("uint5", "gguf_minimum", mode="asymmetric"),
                "q4_0": _group("int4", "gguf_signed"),
                "q4_1": _group("uint4", "gguf_minimum", mode="asymmetric"),
                "gguf_mxfp4": _group("float4_e2m1fn", "gguf_mx"),
                "tq2_0": _group("ternary", "gguf", 256),
                # 52 bytes for 256 codes: five to a byte, and the last sixteen four to a byte.
                "tq1_0": _group("ternary", CONVENTIONS["gguf"].replace(code_bits=1.625), 256),
            }
        ),
        # QLoRA's data types (Dettmers et al. 2023); BitNet b1.58 (Ma et al. 2024) and BitNet (Wang et al. 2023).
        "codebooks": MappingProxyType(
            {
                "nf4_64": Scheme("nf4", granularity=Flat(64), convention="bitsandbytes"),
                "fp4_64": Scheme("fp4", granularity=Flat(64), convention="bitsandbytes"),
                "ternary_absmean": Scheme("ternary", calibration=AbsMean()),
                "binary_absmean": Scheme("binary", calibration=AbsMean()),
            }
        ),
    }
)
#: Every recipe by id.
RECIPES: Mapping[str, Scheme] = MappingProxyType({name: scheme for recipes in RECIPE_GROUPS.values() for name, scheme in recipes.items()})

#: The axes of a tensor that is not at hand.
MATRIX = Axes((1, 1))

#: The id of a row that is no recipe but the scheme that is set.
CURRENT = "current"
#: An error a tenth as large as the values, both as root mean squares: 20 dB.
TARGET_DB = 20.0


@dataclass(frozen=True)
class RecipeRow:
    """What one scheme makes of one tensor, or why it cannot be used on it."""

    #: An id of `RECIPES`, or `CURRENT`.
    id: str
    scheme: Scheme
    #: Whether it does to this tensor what the current scheme does.
    is_current: bool = False
    #: Why it does not fit; the numbers are nan then.
    problem: QuantVizError | None = None
    #: Bits an element, scales included.
    bits: float = math.nan
    sqnr_db: float = math.nan
    #: Share of the non-zero elements that became 0.
    zeroed_share: float = math.nan
    mse: float = math.nan

    @property
    def fits(self) -> bool:
        """Whether there are numbers."""
        return self.problem is None


@dataclass(frozen=True)
class RecipeAnswer:
    """Which recipe to use on a tensor, as data for a sentence."""

    #: The SQNR asked for.
    target_db: float
    #: Whether some recipe reaches it.
    reached: bool
    #: The fewest bits that reach it; where none does, the highest SQNR.
    choice: RecipeRow
    #: The nearest ones in another number format that no other beats, with fewer bits and with more: what to compare the choice with.
    others: tuple[RecipeRow, ...]


def recipe_rows(x: Any, *, current: Scheme) -> tuple[RecipeRow, ...]:
    """Every recipe on this very tensor, in the order of `RECIPES`.

    `x` is a real tensor or nested list of 1 to 4 axes, or a `Stored`. A recipe that cannot be used on it, because its
    groups do not divide the last axis for example, has `problem` in place of numbers. What is done with NaN and
    Inf is `current`'s choice.

    >>> rows = recipe_rows([[1.0, 2.0, 3.0, 40.0]], current=RECIPES["int4_per_row"])
    >>> [row.id for row in rows if row.fits][:5], [row.id for row in rows if row.is_current]
    (['int8_per_tensor', 'int8_per_row', 'int8_per_column', 'int4_per_tensor', 'int4_per_row'], ['int4_per_row'])
    >>> rows[3].problem.key
    'group_does_not_divide'
    """
    from quantviz.kernels import measure
    from quantviz.stored import as_stored

    stored, _ = as_stored(x)
    same = current_recipe(current, stored.shape)
    rows = []
    for name, recipe in RECIPES.items():
        scheme = recipe.replace(nonfinite=current.nonfinite)
        try:
            if _needs_lines(recipe) and len(stored.shape) == 1:
                raise QuantVizError("recipe_needs_lines", shape=stored.shape)
            rows.append(row_of(measure(stored, scheme), name, is_current=name == same))
        except QuantVizError as problem:
            rows.append(RecipeRow(name, scheme, problem=problem))
    return tuple(rows)


def row_of(own: Measured, name: str = CURRENT, *, is_current: bool = True) -> RecipeRow:
    """The row of a scheme that was measured already."""
    m = own.metrics
    return RecipeRow(
        id=name,
        scheme=own.scheme,
        is_current=is_current,
        bits=m["effective_bits"],
        sqnr_db=m["sqnr_db"],
        zeroed_share=m["zeroed_share"],
        mse=m["mse"],
    )


def pareto_front(rows: Iterable[RecipeRow]) -> tuple[RecipeRow, ...]:
    """The rows that no other one beats, by bits: fewer bits with no less SQNR, or more SQNR with no more bits.

    Of rows with the same bits and SQNR the first is kept.
    """
    front: list[RecipeRow] = []
    for row in sorted((row for row in rows if row.fits), key=lambda row: (row.bits, -row.sqnr_db)):
        if not front or row.sqnr_db > front[-1].sqnr_db:
            front.append(row)
    return tuple(front)


def answer(rows: Iterable[RecipeRow], target_db: float = TARGET_DB) -> RecipeAnswer | None:
    """The recipe of the fewest bits with an SQNR of at least `target_db`; none where no recipe fits.

    It is compared with its neighbours, because the target is only a rule of thumb: an SQNR ranks
    recipes for one tensor and does not predict what a model will do.

    >>> found = answer(recipe_rows([[0.1, 0.2, 0.3, 8.0], [0.3, -0.2, 0.1, 0.2]], current=Scheme()), target_db=30.0)
    >>> found.choice.id, [row.id for row in found.others]
    ('int8_per_tensor', ['int4_per_row', 'fp8_e4m3_per_tensor'])
    """
    front = pareto_front(rows)
    if not front:
        return None
    reaching = [row for row in front if row.sqnr_db >= target_db]
    choice = reaching[0] if reaching else front[-1]
    other = [row for row in front if row.scheme.format != choice.scheme.format]
    fewer, more = [row for row in other if row.bits < choice.bits], [row for row in other if row.bits > choice.bits]
    return RecipeAnswer(target_db, bool(reaching), choice, (*fewer[-1:], *more[:1]))


def current_recipe(current: Scheme, shape: Shape) -> str | None:
    """The id of the recipe that is the current scheme, or that has the same blocks on this shape; what is done with NaN and Inf is left aside."""
    current = current.replace(nonfinite="refuse")
    exact = next((name for name, scheme in RECIPES.items() if scheme == current), None)
    if len(shape) == 1 and _needs_lines(current):
        return None
    if exact or current.problems(shape):
        return exact
    return next((name for name, scheme in RECIPES.items() if _same_effect(scheme, current, shape)), None)


def recipe_name(recipe_id: str, language: str = DEFAULT_LANGUAGE, axes: Axes = MATRIX, *, short: bool = False) -> str:
    """The recipe in words, on a tensor of these `axes`; in as few as there are where it is `short`.

    >>> recipe_name("int4_g32"), recipe_name("int4_per_row", "zh"), recipe_name("int4_per_row", axes=Axes((64, 3, 7, 7)))
    ('int4 in groups of 32', 'int4，逐行', 'int4 per output channel')
    """
    granularity, words = RECIPES[recipe_id].granularity, {}
    if isinstance(granularity, PerChannel):
        # A recipe of columns does not fit a tensor of one axis, and is told all the same.
        named = axes if len(axes.shape) > granularity.axis else MATRIX
        words = {form: named.words(granularity.axis, form, language) for form in ("channel", "short")}
    return text(f"recipe_plot.{'short' if short else 'name'}.{recipe_id}", language, **words)


def _needs_lines(recipe: Scheme) -> bool:
    """Whether it is one of rows or columns."""
    return isinstance(recipe.granularity, PerChannel)


def _same_effect(one: Scheme, other: Scheme, shape: Shape) -> bool:
    if any(getattr(one, name) != getattr(other, name) for name in ("format", "mode", "calibration", "convention")):
        return False
    return not one.problems(shape) and one.layout(shape) == other.layout(shape)
