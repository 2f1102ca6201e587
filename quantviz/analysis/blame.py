"""The parts of a tensor that cost the others their accuracy, and the remedies for it.

A part that *suffers* has a large error. A part that *causes* error makes scales so large that others have it:
its cost is the fall of their error once it is taken out. Groups, for one, rank a loud column's own cells
last; its neighbours pay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from quantviz.analysis.better_schemes import is_by_inputs
from quantviz.analysis.counterfactuals import DB_PER_BIT as DB_PER_BIT
from quantviz.analysis.counterfactuals import Counterfactuals, Numbers, decibels
from quantviz.analysis.kept_parts import (
    POOL,
    best_sets,
    by_likely_cost,
    by_magnitude,
    by_suffering,
    counts_to_try,
    in_turn,
)
from quantviz.analysis.study import Study
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import bits_per_element, stored_bits
from quantviz.evaluation.with_pandas import frame_of
from quantviz.public_calls import checked_fields, public, public_class
from quantviz.schemes.calibration import ManualRange
from quantviz.schemes.granularity import Flat, Granularity, PerChannel, PerGroup, Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.lazy import as_stored

if TYPE_CHECKING:
    import pandas

#: Least gain of keeping parts apart over their bits spent evenly.
LEAST_WORTH_DB = 1.0
#: Where none is worth its bits, the share of Σe² that a named part must cause.
LEAST_CAUSED = 0.05
#: Of choices worth nearly as much as the best, so many dB or this share less, the smallest is taken.
NEARLY_DB = 0.25
_NEARLY_SHARE = 0.15
#: No engine's kernel of weights runs these: cells in another format, or scales of inputs.
_WITHOUT_KERNEL = ("keep", "isolate", "own_scale")

#: Parts whose own cost is computed exactly.
_SUSPECTS = 12
#: Quantizations of small tensors, of large ones, and the cells that they may go through.
_MOST_TRIALS = 400
_LEAST_TRIALS = 20
_CELLS = 2**25
#: Sums of one arithmetic agree to this.
_SAME = 1e-6
#: Parts that are kept at most: so many, or this share of them, up to a limit.
_MOST = 8
_SHARE = 0.01
_LIMIT = 128
_GROUPS = (128, 64, 32)


@dataclass(frozen=True)
class Suspect:
    #: Counted row by row, and its place: (0, 5) is column 5.
    number: int
    place: Shape
    absmax: float
    #: Σe² of its cells, in the units of x², and its share of the tensor's.
    suffered: float
    suffered_share: float
    #: The fall of the other cells' Σe² once it is taken out, and as a share of the tensor's.
    caused: float
    caused_share: float
    #: The rise of the tensor's Σe² if it alone of the chosen parts is put back; nan if not chosen. Of equally
    #: loud parts none costs anything by itself, but each does so here.
    put_back: float
    #: SQNR of the other cells, in dB: now, and without it.
    rest_before_db: float
    rest_after_db: float


@dataclass(frozen=True)
class Kept:
    """Some parts kept in 16 bits and out of the search for scales."""

    #: Ascending, counted row by row, and their places.
    numbers: Numbers
    places: tuple[Shape, ...]
    #: 0 for no parts.
    absmax: float
    #: As shares of the tensor's Σe²: their own cells', and the fall of the others'.
    suffered_share: float
    caused_share: float
    #: SQNR of the other cells, in dB: now, and with these parts kept.
    rest_before_db: float
    rest_after_db: float
    whole_db: float
    bits_added: float

    @property
    def k(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Remedy:
    """The effect of one change for some parts.

    "keep": in 16 bits, out of the search for scales. "remove": 0 in their place, which costs all their
    energy. "clip": to the range of the scales found without them. "isolate": a tensor of their own under the
    same scheme. "own_scale": each of them its own scale. "finer": each channel of their axis its own scale.
    "groups": each group along the last axis its own scale, if groups are smaller than the current blocks.
    "rotate": a Hadamard rotation along the last axis before quantizing, turned back after it. "fold": AWQ's
    scaling of columns, found from the weights alone and folded into the layer before.
    """

    id: str
    numbers: Numbers
    #: SQNR of the other cells, in dB: now, and after it; nan where cells are mixed.
    rest_before_db: float
    rest_after_db: float
    #: In dB.
    whole_before_db: float
    whole_after_db: float
    #: An element.
    bits_added: float
    #: Where a scheme can do it.
    scheme: Scheme | None = None
    is_deployable: bool = True


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class Blame:
    """The parts of a tensor that cost the others most under a scheme, and the remedies for them."""

    scheme: Scheme
    shape: Shape
    #: Their kind and number.
    parts: Granularity
    count: int
    #: SQNR now, in dB, and bits an element.
    whole_db: float
    bits: float
    #: The likeliest parts, the costliest first.
    suspects: tuple[Suspect, ...]
    #: The best set of each size, from none on.
    curve: tuple[Kept, ...]
    #: None where nothing is worth its bits.
    choice: Kept | None
    #: For the chosen parts, or the one that causes at least `LEAST_CAUSED`; the best for the tensor first.
    remedies: tuple[Remedy, ...]
    #: "float16", or "bfloat16" for values beyond that.
    kept_as: str
    #: Quantizations that were made.
    trials: int

    @property
    def worth_db(self) -> float:
        """Return the SQNR gain of the choice net of its bits, in dB, as `_worth` counts it; 0 without one."""
        return 0.0 if self.choice is None else _worth(self.choice, self.whole_db)

    @property
    def most_caused(self) -> float:
        """Return the largest share of the tensor's Σe² that one part causes in the others."""
        return max((suspect.caused_share for suspect in self.suspects), default=0.0)

    @property
    def costliest(self) -> Suspect | None:
        """Return the part that causes most, where that is at least `LEAST_CAUSED` of the error."""
        most = max(self.suspects, key=lambda suspect: suspect.caused_share, default=None)
        if most is not None and most.caused_share >= LEAST_CAUSED:
            return most
        return None

    def keep(self, x: Any, numbers: Iterable[int] | None = None) -> torch.Tensor:
        """Return x̂ of `x` with the chosen parts in 16 bits and out of the search for scales, float32.

        This is the remedy "keep", which no scheme alone can do. The shape is the tensor's.

        Args:
            x: The tensor that was looked at, as in `blame`.
            numbers: Other parts by their numbers; the chosen ones where none are given.

        Raises:
            QuantVizError: For a tensor of another shape, and for numbers that no part has.

        >>> x = [[0.25, 0.5, -0.75, 90.0], [0.5, -0.25, 0.75, 70.0]]
        >>> blame(x, "int4_per_tensor").keep(x, [3])[0].tolist()
        [0.2142857164144516, 0.5357142686843872, -0.75, 90.0]
        """
        tried = Counterfactuals(x, self.scheme, self.parts)
        if tried.x.shape != self.shape:
            raise QuantVizError("blame.other_shape", got=tried.x.shape, shape=self.shape)
        chosen = () if self.choice is None else self.choice.numbers
        kept = chosen if numbers is None else tuple(sorted(set(numbers)))
        for number in kept:
            if not 0 <= number < self.count:
                raise QuantVizError("blame.no_part", got=number, last=self.count - 1)
        return tried.kept(kept)

    def table(self) -> pandas.DataFrame:
        """Return a row for each suspect.

        Raises:
            QuantVizError: pandas is not installed; so for the other tables.
        """
        return frame_of(self.suspects, Suspect)

    def curve_table(self) -> pandas.DataFrame:
        """Return a row for each point of the curve: `k` and its gains."""
        return frame_of(self.curve, Kept, k=[kept.k for kept in self.curve])

    def remedy_table(self) -> pandas.DataFrame:
        """Return a row for each remedy."""
        return frame_of(self.remedies, Remedy)


@public
def blame(
    x: Any,
    scheme: Scheme | str,
    parts: Granularity = PerChannel(-1),  # noqa: B008 (a frozen value)
    *,
    most: int | None = None,
    trials: int | None = None,
) -> Blame:
    """Return the parts of `x` that cost the others most under `scheme`, and the remedies for them.

    Every number is that of a real quantization; estimates only choose which are made.

    Args:
        x: An input of `quantize`, or a `Stored`.
        scheme: The scheme, a recipe or a text form.
        parts: The unit that is taken out: `PerChannel(0)` rows, `PerChannel(1)` columns, `Flat(1)` cells,
            `PerGroup(32)` groups.
        most: How many parts are kept at most; by default 8, or 1 % of them, and half of them at most.
        trials: How many quantizations the search makes at most; by default fewer for a large tensor.

    Raises:
        QuantVizError: As `quantize` does, and where `parts` do not fit the tensor.

    One column of eight costs the others almost everything:

    >>> from quantviz.sources import Builtin
    >>> found = blame(Builtin("loud_column").tensor(), "int4_per_tensor")
    >>> found.choice.places, round(found.choice.rest_before_db), round(found.choice.rest_after_db)
    (((0, 5),), 0, 21)
    >>> found.remedies[0].id, found.table()["number"].tolist()[0]
    ('keep', 5)
    """
    return _blame(Counterfactuals(x, scheme, parts), most, trials)


@public
def culprits(
    x: Any, scheme: Scheme | str, *, most: int | None = None, trials: int | None = None
) -> tuple[Blame, ...]:
    """Return the `blame` of the cells and of the channels of each axis, by the worth of their choices.

    The choice worth most comes first: it names the costliest parts. A choice is None if no part is worth its
    bits; those come last, by how much their costliest part causes.

    Args:
        x: An input of `quantize`, or a `Stored`.
        scheme: The scheme, a recipe or a text form.
        most: How many parts are kept at most, as in `blame`.
        trials: How many quantizations each search makes at most, as in `blame`.

    Raises:
        QuantVizError: As `quantize` does.

    >>> x = [[0.1, -0.3, 0.2, 0.4], [0.2, 9.0, -0.1, 0.3], [0.3, 0.1, -0.2, 0.2], [-0.1, 0.3, 0.4, 0.1]]
    >>> found = culprits(x, "int4_per_tensor")
    >>> found[0].parts, found[0].choice.places
    (Flat(size=1, strided=False), ((5,),))
    """
    scheme = as_scheme(scheme)
    study = Study.of(as_stored(x)[0], scheme)
    kinds: tuple[Granularity, ...] = (
        Flat(1),
        *(PerChannel(axis) for axis, n in enumerate(study.shape) if n > 1),
    )
    if len(study.shape) == 1:
        kinds = kinds[:1]
    results = [_blame(Counterfactuals(x, scheme, parts, study), most, trials) for parts in kinds]
    return tuple(sorted(results, key=lambda result: (-result.worth_db, -result.most_caused)))


def _blame(tried: Counterfactuals, most: int | None, trials: int | None) -> Blame:
    if most is not None and most < 1:
        raise QuantVizError("blame.most", got=most)
    usual = max(_MOST, min(int(tried.count * _SHARE), _LIMIT))
    most = min(usual if most is None else most, tried.count // 2)
    if trials is None:
        trials = max(_LEAST_TRIALS, min(_MOST_TRIALS, _CELLS // tried.x.count))
    wanted = max(most, POOL) + 1
    loud, sizes = by_magnitude(tried, wanted)
    orders = [loud, by_likely_cost(tried, wanted), by_suffering(tried, wanted)]
    # The likeliest parts, taken from each order in turn.
    alone = in_turn(orders)[: min(_SUSPECTS, max(trials // 4, 1))] if tried.count > 1 else []
    caused = {number: tried.others_noise((number,)) - tried.noise_without((number,)) for number in alone}
    orders.insert(1, sorted(caused, key=lambda number: -caused[number]))
    best = best_sets(tried.noise_keeping, orders, counts_to_try(most, sizes), trials)
    # Sizes whose extra parts gain nothing are kept too: the curve is flat there.
    curve = tuple(_kept(tried, numbers) for numbers in ((), *(best[size] for size in sorted(best))))
    whole_db = decibels(tried.signal, tried.noise)
    choice = _choice((*curve, *(_kept(tried, numbers) for numbers in tried.costliest(most))), whole_db)
    suspects = [_suspect(tried, number, caused[number], choice) for number in alone]
    chosen = () if choice is None else choice.numbers
    suspects.sort(key=lambda suspect: (suspect.number not in chosen, -suspect.caused, -suspect.absmax))
    made = Blame(
        scheme=tried.scheme,
        shape=tried.x.shape,
        parts=tried.parts,
        count=tried.count,
        whole_db=whole_db,
        bits=tried.bits,
        suspects=tuple(suspects),
        curve=curve,
        choice=choice,
        remedies=(),
        kept_as=str(tried.kept_as).removeprefix("torch."),
        trials=tried.made,
    )
    about = chosen if choice is not None or made.costliest is None else (made.costliest.number,)
    return replace(made, remedies=remedies(tried, about) if about else (), trials=tried.made)


def _kept(tried: Counterfactuals, numbers: Numbers) -> Kept:
    after = tried.noise_without(numbers)
    signal = tried.others_signal(numbers)
    before = tried.others_noise(numbers)
    return Kept(
        numbers=numbers,
        places=tuple(tried.place(number) for number in numbers),
        absmax=tried.absmax_of(numbers),
        suffered_share=tried.share(tried.suffered_by(numbers)),
        caused_share=tried.share(before - after),
        rest_before_db=decibels(signal, before),
        rest_after_db=decibels(signal, after),
        whole_db=decibels(tried.signal, tried.noise_keeping(numbers)),
        bits_added=tried.kept_bits(numbers),
    )


def _worth(kept: Kept, whole_db: float) -> float:
    # The lesser gain of the others and of the whole, in dB, net of bits.
    if not kept.k or not math.isfinite(whole_db) or not math.isfinite(kept.rest_before_db):
        return 0.0
    gain = min(kept.rest_after_db - kept.rest_before_db, kept.whole_db - whole_db)
    return gain - DB_PER_BIT * kept.bits_added


def _choice(sets: tuple[Kept, ...], whole_db: float) -> Kept | None:
    # The smallest set that is worth nearly as much as the best.
    worth = {id(candidate): _worth(candidate, whole_db) for candidate in sets}
    best = max(worth.values())
    if best < LEAST_WORTH_DB:
        return None
    least = best - max(NEARLY_DB, _NEARLY_SHARE * best) if math.isfinite(best) else best
    near = [candidate for candidate in sets if worth[id(candidate)] >= least]
    return min(near, key=lambda candidate: (candidate.k, -worth[id(candidate)]))


def _suspect(tried: Counterfactuals, number: int, caused: float, choice: Kept | None) -> Suspect:
    signal = tried.others_signal((number,))
    suffered = tried.suffered_by((number,))
    back = math.nan
    if choice is not None and number in choice.numbers:
        others = tuple(other for other in choice.numbers if other != number)
        back = tried.noise_keeping(others) - tried.noise_keeping(choice.numbers)
    return Suspect(
        number=number,
        place=tried.place(number),
        absmax=tried.absmax_of((number,)),
        suffered=suffered,
        suffered_share=tried.share(suffered),
        caused=caused,
        caused_share=tried.share(caused),
        put_back=back,
        rest_before_db=decibels(signal, tried.others_noise((number,))),
        rest_after_db=decibels(signal, tried.noise_without((number,))),
    )


# ---- remedies -----------------------------------------------------------------------------------


def remedies(tried: Counterfactuals, numbers: Numbers) -> tuple[Remedy, ...]:
    """Return the remedies that the scheme's engine offers, the best for the whole tensor first."""
    signal = tried.others_signal(numbers)
    noise = tried.others_noise(numbers)
    before = decibels(signal, noise)
    whole = decibels(tried.signal, tried.noise)

    def remedy(
        name: str, rest: float | None, total: float, bits: float, scheme: Scheme | None = None
    ) -> Remedy:
        after = math.nan if rest is None else decibels(signal, rest)
        was = math.nan if rest is None else before
        runs = name not in _WITHOUT_KERNEL and not is_by_inputs(scheme, tried.x.shape)
        return Remedy(name, numbers, was, after, whole, decibels(tried.signal, total), bits, scheme, runs)

    made = (remedy(*attempt) for attempt in _tried_remedies(tried, numbers))
    return tuple(sorted(made, key=lambda attempt: -attempt.whole_after_db))


_Tried = tuple[str, float | None, float, float, Scheme | None]


def _tried_remedies(tried: Counterfactuals, numbers: Numbers) -> Iterator[_Tried]:
    """Yield id, Σe² of the others (None if cells are mixed), Σe² of all, bits added, and scheme."""
    rest = tried.noise_without(numbers)
    count = tried.x.count
    stored = stored_bits(tried.scheme)
    telling = tried.place_bits(numbers)
    of_scale = stored.scale + stored.zero_point
    yield "keep", rest, rest + tried.kept_noise(numbers), tried.kept_bits(numbers), None
    yield "remove", rest, rest + tried.signal_of(numbers), 0.0, None
    clipped = tried.clipped_noise(numbers)
    yield "clip", rest, clipped, 0.0, _clipping_scheme(tried, numbers, clipped)
    apart, scales = tried.apart_noise(numbers, tried.scheme, each_its_own=False)
    yield "isolate", rest, rest + apart, (scales * of_scale + stored.tensor + telling) / count, None
    if not tried.of_cells:
        single = _with_granularity(tried.scheme, PerChannel(0))
        if single is not None:
            apart, scales = tried.apart_noise(numbers, single, each_its_own=True)
            yield "own_scale", rest, rest + apart, (scales * of_scale + telling) / count, None
    finer = None if tried.axis is None else _with_granularity(tried.scheme, PerChannel(tried.axis))
    if finer is not None and not finer.problems(tried.x.shape) and finer != tried.scheme:
        total = tried.noise_under(finer)
        yield "finer", None, total, bits_per_element(finer, tried.x.shape) - tried.bits, finer
    groups = _grouped(tried)
    if groups is not None:
        total = tried.noise_under(groups)
        yield "groups", None, total, bits_per_element(groups, tried.x.shape) - tried.bits, groups
    folded = tried.folded_noise()
    if folded is not None:
        yield "fold", None, folded, 0.0, None
    rotated = tried.rotated_noise()
    if rotated is not None:
        yield "rotate", None, rotated, 0.0, None


def _grouped(tried: Counterfactuals) -> Scheme | None:
    """Return the scheme in groups along the last axis; None if blocks are as small, or no groups fit."""
    shape = tried.x.shape
    block_size = tried.study.layout.block_size
    made = (_with_granularity(tried.scheme, PerGroup(size)) for size in _GROUPS if size < block_size)
    return next((finer for finer in made if finer is not None and not finer.problems(shape)), None)


def _with_granularity(scheme: Scheme, granularity: Granularity) -> Scheme | None:
    try:
        return scheme.replace(granularity=granularity)
    except QuantVizError:
        return None


def _clipping_scheme(tried: Counterfactuals, numbers: Numbers, noise: float) -> Scheme | None:
    """Return the scheme clipped to the others' range; None if it does not come to this `noise`."""
    if tried.study.layout.block_count > 1 or tried.scheme.search is not None:
        return None
    clip = tried.range_without(numbers)
    if clip is None or not clip.lo.item() < clip.hi.item():
        return None
    lo = clip.lo.item()
    hi = clip.hi.item()
    if tried.scheme.mode == "symmetric":
        lo, hi = -max(-lo, hi), max(-lo, hi)
    scheme = tried.scheme.replace(calibration=ManualRange(lo, hi))
    if math.isclose(tried.noise_under(scheme), noise, rel_tol=_SAME):
        return scheme
    return None
