"""Chains of methods and their text form: `nearest`, `gptq`, `rotation(block=64)+gptq+low_rank(rank=8)`.

A method is added here: one class in `METHODS`, in a file of its own, and its words under
`[layers.methods.<id>]` in each language. Pages offer it then by itself, and in the chains of its `variants`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.layers.methods.awq import AWQ, AWQClip
from quantviz.layers.methods.block_scales import DoubleQuantization, FourOverSix
from quantviz.layers.methods.channel_scales import Equalization, SmoothQuant
from quantviz.layers.methods.contract import STAGES, BasisMethod, CorrectionMethod, Method, RoundingMethod
from quantviz.layers.methods.corrections import BiasCorrection, LowRank
from quantviz.layers.methods.gptq import GPTQ
from quantviz.layers.methods.higgs import Higgs, KMeans
from quantviz.layers.methods.learned_rounding import BRECQ, AdaRound, SignRound
from quantviz.layers.methods.learned_transforms import LearnedClips, LearnedScales, SpinQuant
from quantviz.layers.methods.llm_int8 import LLMInt8
from quantviz.layers.methods.low_rank_first import LoftQ, SVDQuant
from quantviz.layers.methods.rotation import Rotation
from quantviz.layers.methods.stored_first import Stored
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.schemes.text_form import read, split_outside_parentheses, write

NEAREST = "nearest"
#: Every method by id, in the order in which pages offer them.
METHODS: Mapping[str, type[Method]] = MappingProxyType(
    {
        method.id: method
        for method in (
            GPTQ,
            AdaRound,
            BRECQ,
            SignRound,
            AWQ,
            AWQClip,
            SmoothQuant,
            Equalization,
            Rotation,
            SpinQuant,
            LearnedScales,
            LearnedClips,
            LowRank,
            SVDQuant,
            LoftQ,
            LLMInt8,
            Stored,
            DoubleQuantization,
            FourOverSix,
            Higgs,
            KMeans,
            BiasCorrection,
        )
    }
)


@dataclass(frozen=True)
class Chain:
    """Methods in the order in which they are applied."""

    methods: tuple[Method, ...] = ()

    def __post_init__(self) -> None:
        for problem in self.problems():
            raise problem

    def __str__(self) -> str:
        return "+".join(map(write, self.methods)) or NEAREST

    def __bool__(self) -> bool:
        return bool(self.methods)

    @property
    def bases(self) -> tuple[BasisMethod, ...]:
        return tuple(method for method in self.methods if isinstance(method, BasisMethod))

    @property
    def rounding(self) -> RoundingMethod | None:
        return next((method for method in self.methods if isinstance(method, RoundingMethod)), None)

    @property
    def corrections(self) -> tuple[CorrectionMethod, ...]:
        return tuple(method for method in self.methods if isinstance(method, CorrectionMethod))

    def with_field(self, method: str, **changes: Any) -> Chain:
        changed = (
            dataclasses.replace(step, **changes) if step.id == method else step  # type: ignore[type-var]
            for step in self.methods
        )
        return Chain(tuple(changed))

    def without(self, method: str) -> Chain:
        return Chain(tuple(step for step in self.methods if step.id != method))

    def problems(self) -> Iterator[QuantVizError]:
        ids = [method.id for method in self.methods]
        for method in self.methods:
            yield from method.problems()
            if ids.count(method.id) > 1:
                yield QuantVizError("method.twice", method=method.id)
            for other in ids:
                if other in method.excludes:
                    reason = QuantVizError(f"method.{method.excludes[other]}")
                    yield QuantVizError("method.excludes", method=method.id, other=other, reason=reason)
        for one, next_one in itertools.pairwise(self.methods):
            if STAGES.index(one.stage) > STAGES.index(next_one.stage):
                yield QuantVizError(f"method.{next_one.stage}_first", method=next_one.id, other=one.id)
        roundings = [method.id for method in self.methods if method.stage == "rounding"]
        if len(roundings) > 1:
            yield QuantVizError("method.two_roundings", methods=" + ".join(roundings))

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        for method in self.methods:
            yield from method.problems_with(weights, inputs)


def as_chain(chain: Chain | Method | str | None) -> Chain:
    """Return a chain from its text form, or from one method.

    Raises:
        QuantVizError: A method or a field is unknown, or the methods do not go together.

    >>> as_chain("nearest") == as_chain(None) == Chain()
    True
    >>> as_chain("GPTQ(order=activation)").rounding.order
    'activation'
    """
    if isinstance(chain, Chain):
        return chain
    if isinstance(chain, Method):
        return Chain((chain,))
    if chain is None or chain == NEAREST:
        return Chain()
    if not isinstance(chain, str):
        raise QuantVizError("method.form", got=type(chain).__name__)
    registry: Mapping[str, type[Any]] = METHODS
    named = []
    for form in split_outside_parentheses(chain.replace(" ", ""), "+"):
        name, mark, fields = form.partition("(")
        if not name:
            raise QuantVizError("method.unknown", got=form, known=", ".join(METHODS))
        named.append(f"{name.lower()}{mark}{fields}")
    return Chain(tuple(read(form, registry, "method.unknown") for form in named if form != NEAREST))


def offered_chains() -> tuple[str, ...]:
    """Return the chains that pages offer: nearest, and each method with its variants."""
    return (NEAREST, *(form for method in METHODS.values() for form in (method.id, *method.variants)))


def fitting_chains(weights: Scheme | str | None, inputs: Scheme | str | None) -> tuple[str, ...]:
    """Return the offered chains that mean something under such schemes."""
    sides = [None if side is None else as_scheme(side) for side in (weights, inputs)]
    return tuple(form for form in offered_chains() if not any(as_chain(form).problems_with(*sides)))
