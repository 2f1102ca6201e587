"""One tensor of a quantized file beside its original: the error, and how its codes were chosen."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch

from quantviz.checkpoints.audit.matching import Match
from quantviz.checkpoints.audit.originals import Original, bands
from quantviz.checkpoints.model.account import Became, Reason, counts_as_weight
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS, metrics_of
from quantviz.evaluation.moments import Moments, number_of
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources.layouts import QuantizedWeight
from quantviz.streaming.comparing import Added, BandComparison, Scales, WeightBand, compared, scales_of_rows
from quantviz.streaming.threads import InOrder, default_threads, runs_between, shared_out

#: Outcome in the account by status.
#:
#: ok          a quantized weight that was compared
#: not_same    another weight than the original
#: rescaled    the original times factors that no other tensor took
#: same        not quantized, and equal to the original
#: rounded     the original, rounded to the file's dtype
#: folded      a norm that took scales of the columns of all layers behind it
#: changed     not quantized, and something else
#: problem     it could not be read or compared
#: unmatched   it has no partner
#: left_aside  it needs none
#: refused     it holds no numbers
BECAME_OF: Mapping[str, Became] = MappingProxyType(
    {
        "ok": "compared",
        "not_same": "compared",
        "rescaled": "compared",
        "same": "equal",
        "rounded": "not_quantized_here",
        "folded": "not_quantized_here",
        "changed": "not_quantized_here",
        "problem": "not_read",
        "unmatched": "not_read",
        "left_aside": "left_aside",
        "refused": "refused",
    }
)
STATUSES = tuple(BECAME_OF)
OTHER = ("not_same", "rescaled")
#: Statuses of tensors whose SQNR counts: not of one that took scales, for which the layers behind it answer.
_GATED = ("ok", *OTHER, "rounded", "changed")
#: Elements of a weight that is read as a whole, where a band's parts of it lie far apart.
_MOST_READ_WHOLE = 2**26
#: Elements whose errors are summed together without codes: in float64 they take some twelve times as much.
_TOGETHER = 2**18
#: Threads that compare one tensor: each has a band with its codes and values, some 100 MB.
_THREADS = 4
ROUNDINGS = ("nearest", "gptq", "other")
#: Oddities of the values of a weight: of all of them, of whole rows or columns, and of the original's.
ODDITIES = (
    *("all_zero", "all_equal", "not_finite", "zero_lines"),
    *("original_all_zero", "original_all_equal", "original_not_finite"),
)
#: Least share of the mean energy of a row or column that became 0.
_ZEROED = 0.1
#: Below this cosine, or at 4 bits and more below this SQNR, weights are not the same.
LEAST_COSINE = 0.1
LEAST_SQNR_DB = 3.0
_FROM_BITS = 4
#: A code counts as nearest within so many steps, for scales were rounded after codes were chosen; and within
#: so much of the value where its scaling was found from norms of 16 bits, or by least squares over n values,
#: whose errors are some tenth of the values.
_SLACK_STEPS = 0.02
_SLACK_FOLDED = 2**-7
_SLACK_FITTED = 0.35
#: And within so much of the value where weights of half precision were divided by scales in their own dtype,
#: as compressed-tensors does: where the quotient was rounded to the other side of a half, the error is larger
#: by twice its rounding error, 2⁻⁸ or 2⁻¹¹ of itself.
_SLACK_HALF = {"bfloat16": 2**-7, "float16": 2**-10}
#: From this share of nearest codes on they were rounded to nearest.
_NEAREST = 0.98
#: Fewest rows that show how the codes of one column were chosen.
_ROWS = 16


@dataclass(frozen=True, eq=False)
class TensorAudit(Picklable):
    #: Its name in the quantized file, and in the original; "" where it has no partner there.
    tensor: str
    original: str
    #: Its layout, of `LAYOUTS`; "plain" where it is not quantized.
    layout: str
    status: str
    #: The problem, or why no partner is needed.
    reason: Reason | None = None
    shape: Shape = ()
    #: The recovered scheme, its calibration unknown; None where it is not quantized.
    scheme: Scheme | None = None
    #: Whether 0 is the middle code of every block; None where it is not quantized.
    symmetric: bool | None = None
    scale_dtype: str = ""
    #: Bits that the file spends on one element, scales included.
    bits: float = math.nan
    #: Rounding of its codes: "nearest", "gptq" (column by column, later ones compensate for the errors of
    #: earlier ones) or "other"; "" where it is not quantized.
    rounding: str = ""
    #: The share of codes nearest to the original's value at the file's scales.
    nearest_share: float = math.nan
    blocks: int = 0
    #: Blocks in which a value lies beyond the range of codes and scale.
    saturated_blocks: int = 0
    unused_codes: int = 0
    metrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    #: SQNR in dB where its engine multiplies it and its siblings in one kernel under one scale; None where
    #: that has the file's own values.
    fused_sqnr_db: float | None = None
    #: Changes to the original before it was compared.
    done: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()
    #: `Match.how`; "" without a partner.
    matched: str = ""
    match: Match | None = None
    is_weight: bool = False
    elements: int = 0
    #: Bytes in the quantized file.
    stored_bytes: int = 0
    #: The path of its partner's file; "" where it has none, or several.
    original_file: str = ""
    oddities: tuple[str, ...] = ()

    @property
    def is_lost_in_kernel(self) -> bool:
        """Return whether it is no longer the original's in its engine's kernel of one scale for siblings."""
        fused = self.fused_sqnr_db
        return fused is not None and not same_weights(self.metrics["cosine"], fused, int(self.bits))

    @property
    def became(self) -> Became:
        became = BECAME_OF[self.status]
        return "not_quantized_here" if became == "compared" and self.layout == "plain" else became

    @property
    def is_sound(self) -> bool:
        return self.status not in (*OTHER, "problem") and not self.oddities and not self.is_lost_in_kernel

    @property
    def gated_db(self) -> float | None:
        """Return the SQNR that is held to a bound, in dB; NaN where it has none, None where it needs none."""
        if self.status not in _GATED:
            return None
        sqnr_db = self.metrics.get("sqnr_db", math.nan)
        return sqnr_db if self.fused_sqnr_db is None else min(sqnr_db, self.fused_sqnr_db)


class _ValueFacts:
    def __init__(self) -> None:
        self._low = math.inf
        self._high = -math.inf
        self.finite = True

    def take(self, x: torch.Tensor) -> None:
        low, high = torch.aminmax(x)
        # NaN among them shows in both ends.
        if not bool(torch.isfinite(low) & torch.isfinite(high)):
            self.finite = False
            x = x[torch.isfinite(x)]
            if not x.numel():
                return
            low, high = torch.aminmax(x)
        self.widen(float(low), float(high))

    def widen(self, low: float, high: float) -> None:
        self._low = min(self._low, low)
        self._high = max(self._high, high)

    def join(self, other: _ValueFacts) -> None:
        self.widen(other._low, other._high)
        self.finite = self.finite and other.finite

    def oddities(self, prefix: str = "") -> tuple[str, ...]:
        oddities = []
        if self._low == self._high:
            oddities.append("all_equal" if self._low else "all_zero")
        if not self.finite:
            oddities.append("not_finite")
        return tuple(f"{prefix}{oddity}" for oddity in oddities)


class AuditBands:
    """Bands of a weight that has a scheme beside its original, with shared preparation. Safe for many
    threads.
    """

    def __init__(self, weight: QuantizedWeight, x: Original) -> None:
        if weight.scheme is None:
            raise QuantVizError("audit.no_codes", name=weight.name)
        self._weight = weight
        self._scheme = weight.scheme
        self._x = x
        # llama.cpp computes in float32.
        of_x = 0.0 if weight.layout == "gguf" else _SLACK_HALF.get(x.stored.dtype, 0.0)
        if x.of_columns is not None or x.of_rows is not None:
            of_x = max(of_x, _SLACK_FOLDED, _SLACK_FITTED / math.sqrt(min(weight.shape)))
        self._slack = (_SLACK_STEPS, of_x)
        self._coded = weight.coded
        self._scales: Scales | None = None
        if weight.read and math.prod(weight.shape) <= _MOST_READ_WHOLE:
            self._coded = weight.read()
            whole = self._coded(0, weight.shape[0])
            self._scales = scales_of_rows(weight.scheme, whole.scale, whole.zero_point, weight.shape)

    def band(self, start: int, stop: int) -> WeightBand:
        """Return codes, scales and values of rows between two multiples of `row_step`, and the original's
        values.
        """
        coded = self._coded(start, stop)
        original = self._x.as_stored(start, stop)
        columns = self._weight.columns
        return WeightBand(
            self._scheme,
            original if columns is None else original[:, columns],
            coded.codes,
            coded.given,
            coded.scale,
            coded.zero_point,
            self._slack,
            coded.words,
            self._scales and self._scales.of_rows(start, stop, self._weight.shape[0]),
        )


class _RowErrors:
    """Moments and oddities of the rows of a tensor beside its original, joined in their order as they come: a
    list of small tensors between large ones that are freed keeps the system from using that memory again.
    """

    def __init__(self) -> None:
        self._moments: Moments | None = None
        self._values = _ValueFacts()
        self._originals = _ValueFacts()

    def take(self, x: torch.Tensor, x_hat: torch.Tensor) -> None:
        self._originals.take(x)
        self._values.take(x_hat)
        original = x.flatten()
        other = x_hat.flatten()
        for start, stop in runs_between(original.numel(), _TOGETHER):
            self.add(_moments(original[start:stop], other[start:stop]))

    def add(self, moments: Moments) -> None:
        self._moments = self._moments.join(moments) if self._moments else moments

    @property
    def moments(self) -> Moments:
        assert self._moments is not None
        return self._moments

    @property
    def oddities(self) -> tuple[str, ...]:
        return (*self._values.oddities(), *self._originals.oddities("original_"))


@dataclass(frozen=True, eq=False)
class _RowResults:
    compared: BandComparison
    values: _ValueFacts
    originals: _ValueFacts
    middle: bool


def _part_of(band: WeightBand, count: int) -> _RowResults:
    values = _ValueFacts()
    originals = _ValueFacts()
    part = compared(band, count=count)
    if part.ends is None:
        originals.take(band.x)
        values.take(band.x_hat)
    else:
        originals.widen(*part.ends[0])
        values.widen(*part.ends[1])
    return _RowResults(part, values, originals, _is_middle(band))


class _SchemeRowErrors(_RowErrors):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.near = torch.zeros(columns, dtype=torch.float64)
        self.blocks = 0
        self.saturated = 0
        self.middle = True
        self._added: Added | None = None

    @property
    def moments(self) -> Moments:
        if self._added is None:
            return super().moments
        added = self._added.moments
        return self._moments.join(added) if self._moments else added

    def join(self, part: _RowResults) -> None:
        added = part.compared.found
        if isinstance(added, Moments):
            self.add(added)
        else:
            self._added = self._added.join(added) if self._added else added
        self.near += part.compared.near
        self.saturated += part.compared.saturated
        self.blocks += part.compared.blocks
        self.middle = self.middle and part.middle
        self._values.join(part.values)
        self._originals.join(part.originals)


def audit_weight(
    weight: QuantizedWeight, x: Original, original: str, *, threads: int | None = None
) -> TensorAudit:
    """Return the audit of a quantized weight beside its original; of one without a scheme its errors
    alone.

    It has the same bits for any number of threads. `QuantVizError` if it cannot be read.
    """
    errors = _RowErrors()
    if weight.scheme is None:
        for start, stop in bands(weight.shape, weight.row_step):
            x_rows = x.read(start, stop)
            x_rows = x_rows if weight.columns is None else x_rows[:, weight.columns]
            errors.take(x_rows, weight.coded(start, stop).x_hat)
        return _audit_of(weight, x, original, errors)
    rows, columns = weight.shape
    of_weight = AuditBands(weight, x)
    whole = _SchemeRowErrors(columns)
    in_order = InOrder(whole.join)

    def work(numbered: Iterator[tuple[int, tuple[int, int]]]) -> None:
        for number, band in numbered:
            in_order.put(number, _part_of(of_weight.band(*band), math.prod(weight.shape)))

    most = min(threads or default_threads(), _THREADS)
    shared_out(work, enumerate(bands(weight.shape, weight.row_step)), most)
    assert whole.moments.codes_seen is not None
    return dataclasses.replace(
        _audit_of(weight, x, original, whole),
        symmetric=whole.middle,
        rounding=_rounding(whole.near / rows, weight),
        nearest_share=float(whole.near.sum()) / (rows * columns),
        blocks=whole.blocks,
        saturated_blocks=whole.saturated,
        unused_codes=weight.scheme.number_format.levels - int(whole.moments.codes_seen.sum()),
    )


def _audit_of(weight: QuantizedWeight, x: Original, original: str, errors: _RowErrors) -> TensorAudit:
    """Return the audit of a weight from its errors, without the facts that follow from codes."""
    names = _without_codes(errors.moments) if weight.scheme is None else METRICS
    metrics = metrics_of(errors.moments, weight.stored_bits, names)
    same = same_weights(metrics["cosine"], metrics["sqnr_db"], weight.bits)
    return TensorAudit(
        weight.name,
        original,
        weight.layout,
        "ok" if same and not x.misplaced else "not_same",
        shape=weight.shape,
        scheme=weight.scheme,
        scale_dtype=weight.scale_dtype,
        bits=weight.stored_bits,
        metrics=MappingProxyType(metrics),
        done=x.done,
        notes=weight.notes,
        oddities=errors.oddities,
    )


def same_weights(cosine: float, sqnr_db: float, bits: int) -> bool:
    """Return whether a quantized tensor of so many bits can be the original's.

    One that was rotated, reordered or trained further cannot be ranked.

    >>> same_weights(0.995, 20.1, 4), same_weights(0.02, -2.8, 4), same_weights(0.8, 2.0, 2)
    (True, False, True)
    """
    if not math.isfinite(cosine):  # one of them is all zero: lost perhaps, but not rotated
        return True
    return cosine >= LEAST_COSINE and (bits < _FROM_BITS or sqnr_db >= LEAST_SQNR_DB)


def audit_plain(name: str, values: Original, x: Original, original: str, dtype: str) -> TensorAudit:
    errors = _RowErrors()
    equal = True
    rounded = True
    lines = _LineEnergies()
    for start, stop in bands(x.shape):
        x_rows = x.read(start, stop)
        other = values.read(start, stop)
        errors.take(x_rows, other)
        lines.take(x_rows, other)
        equal = equal and _same(x_rows, other)
        rounded = rounded and _is_rounded(x_rows, other, dtype, x.stored.dtype)
    metrics = metrics_of(errors.moments, math.nan, _without_codes(errors.moments))
    is_weight = counts_as_weight(name, x.shape)
    if equal or rounded:
        status = "same" if equal else "rounded"
    else:
        # A bias may be corrected for the loss of the weights.
        same = name.endswith("bias") or same_weights(metrics["cosine"], metrics["sqnr_db"], _FROM_BITS)
        status = "changed" if same and not x.misplaced else "not_same"
    zeroed = ("zero_lines",) if status == "changed" and lines.zeroed else ()
    return TensorAudit(
        name,
        original,
        "plain",
        status,
        shape=x.shape,
        metrics=MappingProxyType(metrics),
        done=x.done,
        # A norm may well be all ones, and a bias all zero.
        oddities=(*errors.oddities, *zeroed) if is_weight else (),
        notes=(Note.of("audit.rounded_to", dtype=dtype),) if status == "rounded" else (),
    )


def _same(x: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(x, other) or bool(((x == other) | (x.isnan() & other.isnan())).all())


def _is_rounded(x: torch.Tensor, other: torch.Tensor, dtype: str, of_x: str) -> bool:
    """Return whether values are others rounded to nearest in a narrower float type, finite ones clipped to
    its range.

    The values that were rounded may themselves have had more digits than the original of the dtype `of_x`.
    """
    to, wide = (getattr(torch, name, torch.float32) for name in (dtype, of_x))
    if not (to.is_floating_point and wide.is_floating_point):
        return False
    most = torch.finfo(to).max
    nearest = torch.where(x.isinf(), x, x.clamp(-most, most)).to(to).float()
    slack = torch.finfo(wide).eps if torch.finfo(wide).eps < torch.finfo(to).eps else 0.0
    near = (other - x).abs() <= (nearest - x).abs() + slack * x.abs()
    return bool((near | (nearest == other) | (nearest.isnan() & other.isnan())).all())


def as_lines(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1) if x.dim() > 1 else x.unsqueeze(1)


class _LineEnergies:
    def __init__(self) -> None:
        self._rows: list[torch.Tensor] = []
        self._zero_rows: list[torch.Tensor] = []
        self._columns = torch.zeros(())
        self._zero_columns = torch.tensor(True)

    def take(self, x: torch.Tensor, x_hat: torch.Tensor) -> None:
        energy = as_lines(x).nan_to_num(posinf=0, neginf=0).square()
        zero = as_lines(x_hat) == 0
        self._rows.append(energy.sum(1))
        self._zero_rows.append(zero.all(1))
        self._columns = self._columns + energy.sum(0)
        self._zero_columns = self._zero_columns & zero.all(0)

    @property
    def zeroed(self) -> bool:
        """Return whether a row or column became 0 that is not small beside the others."""
        sides = ((torch.cat(self._rows), torch.cat(self._zero_rows)), (self._columns, self._zero_columns))
        return any(bool((zero & (energy > _ZEROED * energy.mean())).any()) for energy, zero in sides)


def _moments(x: torch.Tensor, x_hat: torch.Tensor) -> Moments:
    counted = torch.isfinite(x)
    original = x[counted].double()
    other = x_hat[counted].double()
    error = other - original
    return Moments(
        cells=number_of(original.numel()),
        zeros=(original == 0).sum().double(),
        x2=original.square().sum(),
        x_hat2=other.square().sum(),
        x_x_hat=(original * other).sum(),
        e=error.sum(),
        e2=error.square().sum(),
        max_error=error.abs().max() if original.numel() else number_of(-math.inf),
    )


def _without_codes(moments: Moments) -> list[str]:
    """Return the metrics that follow from moments without codes, but for the size."""
    return [name for name, metric in METRICS.items() if metric.reads and metric.fits(moments)]


def _is_middle(band: WeightBand) -> bool:
    """Return whether 0 is the middle code of every block, or there is no zero point at all."""
    scheme = band.scheme
    zero = band.scales.zero_point if band.scales else band.zero_point
    if scheme.mode == "symmetric":
        return True
    if scheme.zero_domain != "code_int":
        return False
    fmt = scheme.number_format
    return bool((zero == (fmt.code_min + fmt.code_max + 1) // 2).all())


def _rounding(near: torch.Tensor, weight: QuantizedWeight) -> str:
    """Return the way codes were chosen, one of `ROUNDINGS`, by the share of nearest codes in each column.

    GPTQ rounds the first column to nearest; each later one compensates for the errors before it.
    """
    if float(near.mean()) >= _NEAREST:
        return "nearest"
    size = getattr(weight.scheme and weight.scheme.granularity, "size", len(near))
    # Where columns are in the order of groups, the first one is any of the first group.
    first = float(near[0] if weight.columns is None else near[:size].max())
    ordered = (
        weight.shape[0] >= _ROWS and first >= _NEAREST and float(near[-len(near) // 4 :].mean()) < _NEAREST
    )
    return "gptq" if ordered else "other"
