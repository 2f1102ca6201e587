"""A view of attention: its numbers, one head as a multiplication in pixels, one cell in steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from quantviz.errors import Note
from quantviz.layers.layer_picture import LayerPicture, MatrixPixels, pixel_edges, pooled_values
from quantviz.models.attending import AttentionResult, RoundedPair, as_heads, attention, score_factor
from quantviz.models.head_rounding import AttentionOptions, RoundedCell, explain_rounding
from quantviz.models.heads import Heads
from quantviz.schemes.scheme import Scheme

#: The products: queries by keys, or the weights after softmax by values.
PRODUCTS = ("scores", "output")
#: Times the median of all channels from which a channel of the keys is loud.
_LOUD = 4.0
#: The share of a loud channel's squares from which it is the same in each token.
_SAME = 0.8
_TOLD_TERMS = 512

Schemes = tuple[Scheme | str | None, Scheme | str | None, Scheme | str | None]


@dataclass(frozen=True)
class AttentionTask:
    """How attention is rounded: the schemes of keys, values and scores, the mask's name, and the options."""

    schemes: Schemes
    #: "own" for the mask that came with the heads, "causal", or "none".
    mask: str
    options: AttentionOptions = field(default_factory=AttentionOptions)

    def result(self, heads: Heads) -> AttentionResult:
        mask: Any = {"own": heads.mask, "causal": "causal", "none": None}[self.mask]
        return attention(heads.q, heads.k, heads.v, *self.schemes, mask=mask, options=self.options)


@dataclass(frozen=True)
class AttentionLook:
    """The place in view: a head, one of `PRODUCTS`, and "x" for values or "error".

    `lines` are a first and an end of each axis, None for all; `cell` and `channel` are selected, None for the
    worst.
    """

    head: int
    product: str
    shown: str
    lines: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] | None
    cell: tuple[int, int] | None
    channel: int | None

    def within(self, shape: tuple[int, int, int]) -> AttentionLook:
        rows, products, columns = shape
        cell = self.cell if self.cell and self.cell[0] < rows and self.cell[1] < columns else None
        channel = self.channel if self.channel is not None and self.channel < products else None
        axes = zip(self.lines or (), shape, strict=False)
        lines = self.lines if all(last <= count for (_, last), count in axes) else None
        return dataclasses.replace(self, cell=cell, channel=channel, lines=lines)


class LoudKey(NamedTuple):
    """The loudest channel of a head's keys, and the share of its squares that all tokens have in common."""

    channel: int
    times: float
    same: float

    @property
    def is_same(self) -> bool:
        return self.same > _SAME


class Term(NamedTuple):
    """One product of a cell: its place, both factors before and after rounding, and its part of the error."""

    at: int
    x: float
    x_hat: float
    w: float
    w_hat: float
    change: float


class AttentionCell(NamedTuple):
    """A score or an output in steps, before and after rounding."""

    #: Its query, and its token or channel.
    place: tuple[int, int]
    #: The place of the product whose rounding is told.
    chosen: int
    #: The largest parts of the error first.
    terms: tuple[Term, ...]
    sums: tuple[float, float]
    #: The factor of the sums, and the values with it.
    factor: float
    values: tuple[float, float]
    #: How the key or value of the chosen product was rounded; None where it stays.
    rounded: RoundedCell | None
    #: Of a score alone: whether the query sees the token, its weights after softmax, the part that it has in
    #: its row's KL divergence, and all of that, in bits. The part is NaN where weights are rounded as well.
    seen: bool = True
    weights: tuple[float, float] = (0.0, 0.0)
    kl_part: float = math.nan
    kl_row: float = math.nan


@dataclass(frozen=True, eq=False)
class AttentionView:
    #: Numbers by the names of `AttentionResult.record`, "layer_error", and "kl_of_heads".
    numbers: Mapping[str, Any]
    notes: tuple[Note, ...]
    loud: LoudKey | None
    picture: LayerPicture
    #: Rows, products a cell, and columns of the picture's whole.
    shape: tuple[int, int, int]
    cell: AttentionCell
    #: The place in view, limited to the heads.
    look: AttentionLook


def view_of(heads: Heads, task: AttentionTask, look: AttentionLook, most: int) -> AttentionView:
    """Return the view of heads in at most `most` pixels along an axis; raise as `attention` does."""
    result = task.result(heads)
    product = look.product if result.output is not None else PRODUCTS[0]
    look = dataclasses.replace(look, head=min(look.head, len(result.seen) - 1), product=product)
    x, w, y = _parts(result, look)
    shape = (*x.before.shape, y.before.shape[1])
    look = look.within(shape)
    numbers = {
        **result.record(),
        "layer_error": result.layer_error,
        "kl_of_heads": tuple(result.kl_rows.mean(-1).tolist()),
        "values": result.output is not None,
    }
    return AttentionView(
        MappingProxyType(numbers),
        result.notes,
        loud_key(result, look.head),
        _picture((x, w, y), look, shape, most),
        shape,
        _cell(heads, result, (x, w, y), look),
        look,
    )


def loud_key(result: AttentionResult, head: int) -> LoudKey | None:
    """Return the loudest channel of the keys of a head of queries; None where none is loud."""
    keys = result.sides.k.before[_key_head(result, head)]
    sizes = keys.abs().amax(0)
    times = sizes / sizes.median()
    channel = int(times.argmax())
    if not times[channel] > _LOUD:
        return None
    own = keys[:, channel]
    return LoudKey(channel, times[channel].item(), (own.mean().square() / own.square().mean()).item())


def ways_of(
    heads: Heads, task: AttentionTask, channel_keys: Scheme | str
) -> Mapping[str, tuple[float, float]]:
    """Return the mean KL divergence of a row and the scores' error as a layer's, by ways to round the keys.

    The ways are as they are, less their mean, in the basis of a Hadamard matrix, by another scheme
    ("channel"), and less their mean in that basis.
    """
    found = {}
    for name, center, hadamard in (
        ("none", False, False),
        ("center", True, False),
        ("hadamard", False, True),
        ("channel", False, False),
        ("both", True, True),
    ):
        schemes = (channel_keys, *task.schemes[1:]) if name == "channel" else task.schemes
        options = dataclasses.replace(task.options, center=center, hadamard=hadamard)
        result = AttentionTask(schemes, task.mask, options).result(heads)
        found[name] = (result.kl, result.layer_error)
    return MappingProxyType(found)


def _key_head(result: AttentionResult, head: int) -> int:
    return head // (len(result.seen) // len(result.sides.k.before))


def _parts(result: AttentionResult, look: AttentionLook) -> tuple[RoundedPair, RoundedPair, RoundedPair]:
    """Return both factors of the product, rows × inner and columns × inner, and it itself, of one head."""
    own = _key_head(result, look.head)
    if look.product == "scores":
        seen = result.seen[look.head]
        y = RoundedPair(*(torch.where(seen, side[look.head], 0.0) for side in result.scores))
        return _of_head(result.sides.q, look.head), _of_head(result.sides.k, own), y
    assert result.sides.v is not None
    assert result.output is not None
    values = RoundedPair(*(side[own].mT for side in result.sides.v))
    return _of_head(result.weights, look.head), values, _of_head(result.output, look.head)


def _of_head(pair: RoundedPair, head: int) -> RoundedPair:
    return RoundedPair(pair.before[head], pair.after[head])


def _picture(
    parts: tuple[RoundedPair, RoundedPair, RoundedPair],
    look: AttentionLook,
    shape: tuple[int, int, int],
    most: int,
) -> LayerPicture:
    axes = look.lines or tuple((0, count) for count in shape)
    rows, inner, columns = (pixel_edges(*axis, most) for axis in axes)
    x, w, y = (side.before if look.shown == "x" else side.after - side.before for side in parts)

    def pixels(values: torch.Tensor, down: Any, across: Any) -> MatrixPixels:
        cut = values[down[0] : down[-1], across[0] : across[-1]].numpy()
        return MatrixPixels(pooled_values(cut, down - down[0], across - across[0]), down, across)

    return LayerPicture(
        look.shown,
        pixels(x, rows, inner),
        pixels(w.mT, inner, columns),
        pixels(y, rows, columns),
        words=f"attention_picture.{look.product}",
        holds_back=False,
    )


def _cell(
    heads: Heads,
    result: AttentionResult,
    parts: tuple[RoundedPair, RoundedPair, RoundedPair],
    look: AttentionLook,
) -> AttentionCell:
    x, w, y = parts
    place = look.cell
    if place is None:
        place = divmod(int((y.after - y.before).abs().argmax()), y.before.shape[1])
    row, column = place
    factors = (x.before[row], x.after[row], w.before[column], w.after[column])
    terms = [
        Term(at, q, q_hat, k, k_hat, q_hat * k_hat - q * k)
        for at, (q, q_hat, k, k_hat) in enumerate(torch.stack(factors, 1).tolist())
    ]
    order = sorted(terms, key=lambda term: -abs(term.change))
    chosen = order[0].at if look.channel is None else look.channel
    part, cell = ("k", (column, chosen)) if look.product == "scores" else ("v", (chosen, column))
    side = heads.k if part == "k" else heads.v
    own = as_heads(side, part)[_key_head(result, look.head)]
    rounded = explain_rounding(own, result.schemes[part == "v"], cell, result.options, part)
    sums = (sum(term.x * term.w for term in terms), sum(term.x_hat * term.w_hat for term in terms))
    told = AttentionCell(place, chosen, tuple(order[:_TOLD_TERMS]), sums, 1.0, sums, rounded)
    if look.product == "output":
        return told
    at = (look.head, row, column)
    p, p_hat = (side[at].item() for side in result.weights)
    plain = p > 0 and p_hat > 0 and result.options.weights is None
    return told._replace(
        factor=score_factor(len(terms), result.options),
        values=(result.scores.before[at].item(), result.scores.after[at].item()),
        seen=bool(result.seen[at]),
        weights=(p, p_hat),
        kl_part=p * math.log2(p / p_hat) if plain else math.nan,
        kl_row=result.kl_rows[at[:2]].item(),
    )
