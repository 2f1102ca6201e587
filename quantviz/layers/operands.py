"""The two factors of a layer's product, each with its own scheme, and the tokens that are held back.

The weight is (outputs, inputs), the inputs are (tokens, inputs). Both are read by lines: some outputs, or
some tokens, with all their inputs.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch

from quantviz.analysis.study import Study
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.moments import Moments
from quantviz.pickling import Picklable
from quantviz.public_calls import checked_fields
from quantviz.quantization.explanation import Explanation
from quantviz.quantization.input_dtype import on_stored
from quantviz.quantization.result import QParams
from quantviz.schemes.calibration import Range
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import limits
from quantviz.streaming.coding import Coder, reference_on_run
from quantviz.streaming.measuring import measure, searched
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.ranges import qparams
from quantviz.streaming.regions import read_whole
from quantviz.streaming.tensor_facts import Facts, facts
from quantviz.streaming.threads import runs_between
from quantviz.tensors import blocks
from quantviz.tensors.lazy import InMemory, Stored, as_stored

#: The share of the tokens that are held back: scales are never chosen on them.
HELD_BACK = 1 / 4
_LETTERS = MappingProxyType({"weights": "W", "inputs": "X", "outputs": "Y"})
#: The words for a recipe's lines, by those for the axes of each operand: a recipe's row is an output of the
#: weight and a token of the inputs.
_LINES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "weights": MappingProxyType({"output": "row", "channel": "row", "input": "column"}),
        "inputs": MappingProxyType({"token": "row", "channel": "column", "input": "column"}),
        "outputs": MappingProxyType({"token": "row", "output": "column", "channel": "column"}),
    }
)


def scheme_of(named: Scheme | str | None, operand: str) -> Scheme | None:
    """Return the scheme of an operand: "weights", "inputs" or "outputs"; None leaves it as it is.

    A recipe may be called by the operand's axes, as in "int8_per_token".

    Raises:
        QuantVizError: There is no such scheme, or it is called by an axis that the operand does not have.
    """
    if not isinstance(named, str) or "," in named:
        return None if named is None else as_scheme(named)
    axes = _LINES[operand]

    def line(match: re.Match[str]) -> str:
        axis = match[2].lower()
        if axis not in axes:
            known = ", ".join(axes)
            raise QuantVizError("layer.axis", got=named, name=_LETTERS[operand], axis=axis, known=known)
        return match[1] + axes[axis]

    return as_scheme(re.sub(r"(?i)(per[\s_-]*)(token|input|output|channel)\b", line, named))


def held_back_tokens(tokens: int, seed: int) -> torch.Tensor:
    """Return whether each token is held back, bool (tokens,): a quarter of them, drawn by the seed."""
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(seed))
    held = torch.zeros(tokens, dtype=torch.bool)
    held[order[: max(1, int(tokens * HELD_BACK))]] = True
    return held


@checked_fields
@dataclass(frozen=True, eq=False)
class Operand(Picklable):
    """A matrix of a layer's product, with its quantized values."""

    _computed = ("sqnr_db",)

    #: Its values, not quantized: (lines, inputs).
    stored: Stored
    study: Study | None
    notes: tuple[Note, ...] = ()
    #: The values that the layer multiplies by, float32, if a method makes them otherwise than by its scheme
    #: alone: in another basis, which the quantization then is of, or with a correction.
    effective: torch.Tensor | None = None

    @property
    def shape(self) -> Shape:
        return self.stored.shape

    @property
    def scheme(self) -> Scheme | None:
        return None if self.study is None else self.study.scheme

    @property
    def unrounded(self) -> bool:
        return self.study is None and self.effective is None

    def values(self, lines: slice) -> torch.Tensor:
        return self.stored.read((lines, slice(None)))

    def quantized(self, lines: slice, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return some lines as they are once quantized, float32 (lines, inputs).

        A large operand is decoded into `out`, a contiguous tensor of this shape, so that a loop over lines
        needs no new memory.
        """
        if self.effective is not None:
            return self.effective[lines]
        if self.study is None:
            return self.values(lines)
        if self.study.result is not None:
            return self.study.result.x_hat[lines]
        return self._decoded(self.study, lines, out)

    def codes(self, lines: slice) -> torch.Tensor:
        """Return the codes of some lines, float32, or their values where there are no codes of the scheme."""
        if self.effective is not None or self.study is None:
            return self.quantized(lines)
        if self.study.result is not None:
            return self.study.result.q[lines].to(torch.float32)
        return self._decoded(self.study, lines, None, codes=True)

    def changes(self, lines: slice) -> torch.Tensor:
        """Return the quantized values less those before, float64 (lines, inputs)."""
        return self.quantized(lines).to(torch.float64) - self.values(lines).to(torch.float64)

    @cached_property
    def sqnr_db(self) -> float | None:
        """Return the SQNR of the values that the layer multiplies by, in dB; None if they are not rounded."""
        study = self.study
        if self.unrounded:
            return None
        if study is not None and study.result is None and self.effective is None:
            params = study.qparams
            return measure(self.stored, study.scheme, qparams=params, metrics=("sqnr_db",)).metrics["sqnr_db"]
        every = slice(None)
        signal = self.values(every).to(torch.float64).square().sum()
        noise = self.changes(every).square().sum()
        cells = torch.tensor(self.stored.count)
        return float(METRICS["sqnr_db"].of(Moments(cells=cells, x2=signal, e2=noise)))

    def explain(self, index: Shape) -> Explanation:
        """Return the derivation of one value, as `quantviz.explain` does, in the basis of its rounding.

        Raises:
            QuantVizError: The operand is not quantized, or there is no such value.
        """
        if self.study is None:
            raise QuantVizError("layer.not_quantized")
        if any(not 0 <= i < n for i, n in zip(index, self.shape, strict=True)):
            raise QuantVizError("index_out_of_range", index=index, shape=self.shape)
        return self.study.explain(index)

    @cached_property
    def _coder(self) -> Coder:
        assert self.study is not None
        return Coder(self.study.scheme, self.study.qparams, self.shape)

    def _decoded(
        self, study: Study, lines: slice, out: torch.Tensor | None, *, codes: bool = False
    ) -> torch.Tensor:
        first, last, _ = lines.indices(self.shape[0])
        width = self.shape[1]
        values = torch.empty(last - first, width) if out is None else out
        flat = blocks.viewed(values, (-1,)).numpy()
        if len(flat) <= limits.FUSED:
            # Loading compiled code takes longer.
            r = reference_on_run(study.x, study.scheme, study.qparams, first * width, last * width)
            flat[:] = (r.q if codes else r.x_hat).numpy()
            return values
        buffers = Buffers(min(values.numel(), limits.CELLS_PER_STEP))
        q, _, error, clipped, steps = buffers.arrays
        for start, stop in runs_between(last * width, limits.CELLS_PER_STEP, first * width):
            count = stop - start
            x_hat = flat[start - first * width : stop - first * width]
            part = buffers.part(0, count)
            part.arrays = (q[:count], x_hat, error[:count], clipped[:count], steps[:count])
            self._coder.put(study.x.run(start, stop), start, part)
            if codes:
                x_hat[:] = q[:count]
        return values


def weight_operand(weight: Any, scheme: Scheme | None) -> Operand:
    """Return the weight of a layer, quantized by its scheme.

    Raises:
        QuantVizError: It is not a matrix of finite numbers, or the scheme does not fit it.
    """
    stored, said = as_stored(weight)
    if len(stored.shape) != 2:
        raise QuantVizError("layer.weight_axes", shape=stored.shape)
    weight_facts = _finite_facts(stored, "W")
    if scheme is None:
        return Operand(stored, None, said)
    study = Study.of(stored, scheme, facts=weight_facts)
    return Operand(stored, study, (*said, *study.notes, *_notes_on_layout(study.layout, "W")))


def input_operand(inputs: Any, scheme: Scheme | None, width: int, seed: int, *, static: bool) -> Operand:
    """Return the inputs of a layer, quantized by their scheme.

    `width` is the weight's number of inputs. With `static`, tokens held back set no scale that tokens share.

    Raises:
        QuantVizError: The inputs are no such matrix of finite numbers, or the scheme does not fit.
    """
    stored, said = as_stored(inputs)
    if len(stored.shape) != 2:
        raise QuantVizError("layer.input_axes", shape=stored.shape)
    tokens, length = stored.shape
    if length != width:
        raise QuantVizError("layer.width", got=length, wanted=width, shape=stored.shape)
    if tokens < 2:
        raise QuantVizError("layer.one_token")
    input_facts = _finite_facts(stored, "X")
    # Lines are chosen by tokens, so they lie in memory.
    stored = InMemory(read_whole(stored), dtype=stored.dtype)
    if scheme is None:
        return Operand(stored, None, said)
    study = study_of_tokens(stored, scheme, held_back_tokens(tokens, seed), static=static, known=input_facts)
    return Operand(stored, study, (*said, *study.notes, *_notes_on_layout(study.layout, "X")))


def study_of_tokens(
    stored: InMemory,
    scheme: Scheme,
    held_back: torch.Tensor,
    *,
    static: bool,
    known: Facts | None = None,
    seen: InMemory | None = None,
) -> Study:
    """Return the quantization of a matrix of tokens.

    With `static`, tokens that share a scale choose it without those held back: scales of the matrix, of
    channels and of groups of tokens, and the scale over all blocks. A scale of one token alone is its own; so
    is that of a group whose tokens are all held back.

    Args:
        held_back: Whether each token is held back, bool (tokens,).
        known: The `facts` of the values, where they are known.
        seen: The values that shared scales are chosen on, where these are others: of a run before.
    """
    for problem in scheme.problems(stored.shape):
        raise problem
    if not static or not shares_scales(scheme, stored.shape):
        return Study.of(stored, scheme, facts=known)
    seen = seen or stored
    used = _without(seen, held_back)
    absmax = torch.tensor(facts(on_stored(used, scheme)[0]).absmax)
    if not token_groups(scheme, stored.shape) and not scheme.calibration.together:
        ranges = _found(stored, scheme, absmax)
        return Study.of(stored, scheme, facts=known, found=ranges, tensor_absmax=absmax)
    has_used = blocks.any_of_blocks(~held_back[:, None].expand(stored.shape), scheme.layout(stored.shape))
    ranges = _found(used, scheme, absmax)
    if not bool(has_used.all()):
        ranges = _joined(has_used, ranges, _found(_without(stored, ~held_back), scheme, absmax))
    if not token_groups(scheme, stored.shape):
        return Study.of(stored, scheme, facts=known, found=ranges, tensor_absmax=absmax)
    x, of_input, _ = on_stored(stored, scheme)
    params = qparams(x, of_input, ranges, absmax=float(absmax))
    return Study.of(stored, scheme, facts=known, found=params, tensor_absmax=absmax)


def notes_on_groups(
    scheme: Scheme | None, shape: Shape, held_back: torch.Tensor, name: str
) -> tuple[Note, ...]:
    """Return the note on groups of tokens that are all held back, for which there is no static scale."""
    if scheme is None or not token_groups(scheme, shape):
        return ()
    has_used = blocks.any_of_blocks(~held_back[:, None].expand(shape), scheme.layout(shape))
    alone = int((~has_used).sum())
    return (Note.of("layer_dynamic_groups", name=name, count=alone, of=has_used.numel()),) if alone else ()


def _without(stored: InMemory, left_out: torch.Tensor) -> InMemory:
    values = read_whole(stored).masked_fill(left_out[:, None], torch.nan)
    return InMemory(values, dtype=stored.dtype)


def _found(stored: InMemory, scheme: Scheme, tensor_absmax: torch.Tensor) -> Range | QParams:
    """Return the ranges, or scale and zero point, of the blocks of some values, NaN left out."""
    x, of_input, _ = on_stored(stored, scheme.replace(nonfinite="ignore"))
    return searched(x, of_input, facts(x), tensor_absmax)


def _joined(of_first: torch.Tensor, first: Range | QParams, second: Range | QParams) -> Range | QParams:
    """Return ranges, or scales and zero points, some blocks' the first and the other blocks' the second."""

    def chosen(name: str) -> Any:
        one, other = getattr(first, name), getattr(second, name)
        if isinstance(one, torch.Tensor) and one.dim():
            return torch.where(of_first, one, other)
        return one

    names = {field.name for field in dataclasses.fields(first)} - {"others"}
    changes = {name: chosen(name) for name in names}
    if isinstance(first, QParams) and isinstance(second, QParams):
        others = {name: torch.where(of_first, one, second.others[name]) for name, one in first.others.items()}
        changes["others"] = MappingProxyType(others)
    return dataclasses.replace(first, **changes)


def shares_scales(scheme: Scheme, shape: Shape) -> bool:
    """Return whether tokens of a matrix of `shape` share anything that their scales are made of.

    >>> shares_scales(as_scheme("nvfp4"), (8, 16)), shares_scales(as_scheme("mxfp4"), (8, 32))
    (True, False)
    """
    calibration = scheme.calibration
    return scheme.arithmetic.scale.depends_on_tensor or calibration.together or token_groups(scheme, shape)


def shares_scales_beyond(scheme: Scheme, part: Shape, whole: Shape) -> bool:
    """Return whether equal parts of a matrix, of shape `part`, share anything that their scales are made of.

    >>> shares_scales_beyond(Scheme("int8"), (1, 9), (8, 9))
    True
    >>> shares_scales_beyond(as_scheme("int8_per_row"), (1, 9), (8, 9))
    False
    """
    if scheme.arithmetic.scale.depends_on_tensor or scheme.calibration.together:
        return True
    parts = math.prod(whole) // math.prod(part)
    return scheme.layout(whole).block_count < parts * scheme.layout(part).block_count


def token_groups(scheme: Scheme, shape: Shape) -> bool:
    """Return whether a block of a matrix of `shape` has values of several tokens.

    >>> [token_groups(as_scheme(name), (8, 64)) for name in ("int8_per_tensor", "nvfp4", "nf4_64")]
    [True, False, False]
    """
    layout = scheme.layout(shape)
    if scheme.search is not None:
        layout = blocks.layout_of_runs(layout, scheme.search.run)
    if layout.view_shape == shape:
        return layout.block_shape[0] > 1
    return len(layout.view_shape) > 1 or shape[1] % layout.block_size > 0


def _finite_facts(stored: Stored, name: str) -> Facts:
    """Return the facts of a matrix; raise `QuantVizError` for NaN and Inf, whose products have no error."""
    tensor_facts = facts(stored)
    nonfinite = tensor_facts.found
    if nonfinite is not None:
        raise QuantVizError(
            "layer.nonfinite", name=name, value=nonfinite.shown, index=nonfinite.first, count=nonfinite.count
        )
    return tensor_facts


def _notes_on_layout(layout: BlockLayout, name: str) -> tuple[Note, ...]:
    """Return the note on scales that differ from each input to the next and are shared across lines."""
    apart = len(layout.block_shape) == 2 and layout.block_shape[1] == 1 and layout.grid_shape[1] > 1
    if apart and layout.block_shape[0] > 1:
        return (Note.of("layer_scale_in_sum", name=name),)
    return ()
