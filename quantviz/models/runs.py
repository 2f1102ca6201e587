"""Runs of a model compared: each tensor beside the reference's, in the order of execution."""

from __future__ import annotations

import fnmatch
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from quantviz.door import check_fields, checked_fields, public, public_class
from quantviz.errors import QuantVizError, known_language
from quantviz.models.run_difference import STATUSES, TensorDifference, difference
from quantviz.models.run_file import CapturedRun, RunTensor, run_in
from quantviz.pickling import Picklable
from quantviz.sources.files import Catalog, open_tensors
from quantviz.text import DEFAULT_LANGUAGE, text

#: The tensors that are taken for logits: those whose name ends so.
LOGITS = ("logits", "lm_head")
#: By so many dB the SQNR falls below that of the tensors before it, where the error jumps.
JUMP_DB = 10.0
#: Parts of the names of operations, in small letters, that engines compute together with the one before.
_FOLDED = ("batchnorm", "elu", "clip", "tanh", "sigmoid", "swish", "silu", "mish", "add")
#: Names that a sentence lists.
_NAMED = 3
#: Columns of the records.
_COLUMNS = ("sqnr_db", "cosine", "kl", "same_top", "max_error", "max_error_at", "left_out", "not_finite")


@dataclass(frozen=True)
class Jump:
    """A tensor at which the error jumps."""

    tensor: TensorDifference
    #: The lowest SQNR of the tensors before it: of those of its operation, or of all if it is the first such.
    before_db: float
    of_op: bool


@dataclass(frozen=True)
class OpErrors:
    """The errors of all outputs of one operation in a run."""

    op: str
    tensors: int
    #: The lowest SQNR, and the largest |run − reference|.
    sqnr_db: float
    max_error: float


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class RunComparison(Picklable):
    """One or more runs of a model beside a reference run of it.

    Every tensor of the reference, and every one that a run has besides, is in it once for each run.
    """

    #: The label and the path of the reference, and of each run.
    reference: str
    reference_path: str
    labels: tuple[str, ...]
    paths: tuple[str, ...]
    #: The differences, run by run: the reference's tensors in the order of execution, then what a run has
    #: besides.
    differences: tuple[TensorDifference, ...]
    #: Whether the reference names the order of execution.
    is_ordered: bool

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        return f"RunComparison({self.reference}: {', '.join(self.labels)})"

    def of(self, label: str) -> tuple[TensorDifference, ...]:
        """Return the differences of a run; raise `QuantVizError` if there is no such run."""
        if label not in self.labels:
            raise QuantVizError("runs.label", got=label, known=", ".join(self.labels))
        return tuple(each for each in self.differences if each.run == label)

    def compared(self, label: str) -> tuple[TensorDifference, ...]:
        """Return the tensors of a run that have numbers, in the order of execution."""
        return tuple(each for each in self.of(label) if each.is_compared)

    def counts(self, label: str) -> dict[str, int]:
        """Return the number of a run's tensors by outcome, one of `STATUSES` each."""
        found = Counter(each.status for each in self.of(label))
        return {status: found[status] for status in STATUSES}

    def worst(self, label: str) -> tuple[TensorDifference, ...]:
        """Return the compared tensors of a run, lowest SQNR first."""
        known = (each for each in self.compared(label) if not math.isnan(each.sqnr_db))
        return tuple(sorted(known, key=lambda each: each.sqnr_db))

    def first_error(self, label: str) -> TensorDifference | None:
        """Return the first tensor in the order of execution that differs; none if none does."""
        if not self.is_ordered:
            return None
        return next((each for each in self.of(label) if each.differs), None)

    def jump(self, label: str) -> Jump | None:
        """Return the first tensor whose SQNR lies `JUMP_DB` below that of all tensors before it, counting
        those of its own operation alone, if there are some: the SQNR of a sum is not that of a product.

        Tensors without any error are not counted: the first one that has one is `first_error`.
        """
        return next((jump for jump, _ in self._jumps(label)), None)

    def largest_jump(self, label: str) -> Jump | None:
        """Return the jump that falls the most below all tensors before it, the first of equal ones."""
        jump, _ = max(self._jumps(label), key=lambda found: found[1], default=(None, 0.0))
        return jump

    def _jumps(self, label: str) -> Iterator[tuple[Jump, float]]:
        """Yield every tensor at which the error of a run jumps, and by how many dB it falls below all before
        it, of any operation.
        """
        lowest: dict[str, float] = {}
        for each in self.compared(label) if self.is_ordered else ():
            before = lowest.get(each.op, min(lowest.values(), default=math.inf))
            # NaN is not below anything, and no number lies below Inf by so much.
            if before < math.inf and each.sqnr_db <= before - JUMP_DB:
                yield Jump(each, before, each.op in lowest), min(lowest.values()) - each.sqnr_db
            if each.sqnr_db < lowest.get(each.op, math.inf):
                lowest[each.op] = each.sqnr_db

    def by_op(self, label: str) -> tuple[OpErrors, ...]:
        """Return the errors of a run by operation, in the order of execution."""
        groups: dict[str, list[TensorDifference]] = {}
        for each in self.compared(label):
            groups.setdefault(each.op, []).append(each)
        return tuple(
            OpErrors(
                op,
                len(own),
                min((each.sqnr_db for each in own if not math.isnan(each.sqnr_db)), default=math.nan),
                max((each.max_error for each in own if not math.isnan(each.max_error)), default=math.nan),
            )
            for op, own in groups.items()
        )

    def rows(self, language: str = DEFAULT_LANGUAGE) -> list[dict[str, Any]]:
        """Return a record for each tensor of each run: `tensor`, `op`, `run`, `status`, its shape, its
        numbers, and the reason why it has none.
        """
        return [
            {
                "tensor": each.name,
                "op": each.op,
                "run": each.run,
                "status": each.status,
                "shape": list(each.shape or each.run_shape),
                **{name: getattr(each, name) for name in _COLUMNS},
                "reason": _reason(each, language),
            }
            for each in self.differences
        ]

    def messages(self, language: str = DEFAULT_LANGUAGE) -> tuple[str, ...]:
        """Return sentences on all runs: how much was compared, where the error begins and jumps, and which
        tensors were not compared.
        """
        return tuple(sentence for label in self.labels for sentence in self.messages_of(label, language))

    def messages_of(self, label: str, language: str = DEFAULT_LANGUAGE) -> Iterator[str]:
        """Yield the sentences on one run."""

        def say(key: str, /, **params: object) -> str:
            return text(key, known_language(language), **params)

        counts = self.counts(label)
        in_reference = sum(counts.values()) - counts["extra"]
        yield say("runs.coverage", run=label, compared=counts["compared"], all=in_reference)
        worst = self.worst(label)
        first = self.first_error(label)
        first_jump = self.jump(label)
        largest = self.largest_jump(label)
        if worst and worst[0].sqnr_db == math.inf:
            yield say("runs.equal", run=label)
        elif worst:
            lowest = worst[0]
            yield say("runs.worst", run=label, tensor=lowest.name, sqnr_db=_db(lowest.sqnr_db))
        if not self.is_ordered:
            yield say("runs.no_order", reference=self.reference)
        if first is not None:
            yield say(
                "runs.begins", run=label, tensor=first.name, op=first.op or "–", sqnr_db=_db(first.sqnr_db)
            )
        jumps = {} if largest == first_jump else {"largest": largest}
        for place, jump in {"first": first_jump, **jumps}.items():
            if jump is not None:
                yield say(
                    f"runs.jumps.{place}_{'of_op' if jump.of_op else 'of_all'}",
                    run=label,
                    tensor=jump.tensor.name,
                    op=jump.tensor.op or "–",
                    before_db=_db(jump.before_db),
                    sqnr_db=_db(jump.tensor.sqnr_db),
                )
        if first_jump is None and first is not None:
            yield say("runs.no_jump", run=label, least=f"{JUMP_DB:g}")
        for each in self.compared(label):
            if not math.isnan(each.kl):
                yield say(
                    "runs.logits",
                    run=label,
                    tensor=each.name,
                    kl=f"{each.kl:.4g}".replace("e-0", "e-").replace("-", "−"),
                    same=f"{100 * each.same_top:.4g} %",
                )
        fused = [f"{each.name} ↔ {each.beside}" for each in self.of(label) if each.beside]
        if fused:
            yield say("runs.fused", run=label, count=len(fused), names=_some(fused))
        for status in STATUSES[1:]:
            own = [each.name for each in self.of(label) if each.status == status]
            if own:
                yield say(f"runs.statuses.{status}", run=label, count=len(own), names=_some(own))
        left_out = [each for each in self.compared(label) if each.left_out]
        if left_out:
            count = sum(each.left_out for each in left_out)
            yield say("runs.left_out", run=label, count=count, tensors=len(left_out), names=left_out[0].name)


@public
def compare_runs(
    reference: str | PurePath,
    runs: str | PurePath | Sequence[str | PurePath],
    *,
    logits: Sequence[str] = LOGITS,
    report: Callable[[int, int], None] | None = None,
) -> RunComparison:
    """Compare runs of a model with a reference run: each tensor with the one of its name and shape.

    A run that fuses operations, such as a convolution, its norm and its activation, has one tensor under the
    name of the first. If the activations, norms and sums that follow are missing in it, its tensor is
    compared with the one of these operations that it is nearest to.

    Values are read a part at a time. Values that are NaN or Inf alike in both are left out and counted; a
    tensor with one in only one of the two has no numbers.

    Args:
        reference: The file of the reference, as `capture` writes it; or any other file of tensors, which has
            no order of execution.
        runs: The file of a run, or several.
        logits: Ends of the names of tensors with logits in their last axis, with * for any text.
        report: Called with the number of tensors that are done, and of all.

    Raises:
        QuantVizError: A file cannot be read, or no tensor of a run has the name and the shape of one of the
            reference.

    >>> import tempfile, torch
    >>> from quantviz.models.capturing import capture
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [f"{folder}/a.safetensors", f"{folder}/b.safetensors"]
    ...     made = [capture(model, [torch.ones(2, 4) * (1 + k)], path) for k, path in enumerate(paths)]
    ...     found = compare_runs(paths[0], paths[1])
    >>> found.labels, [each.status for each in found.differences]
    (('b',), ['compared', 'compared'])
    """
    paths = [runs] if isinstance(runs, str | PurePath) else list(runs)
    if not paths:
        raise QuantVizError("runs.no_runs")
    labels = _labels([str(reference), *map(str, paths)])
    found: list[TensorDifference] = []
    with open_tensors(reference) as catalog:
        own = run_in(catalog, str(reference))
        for number, (label, path) in enumerate(zip(labels[1:], paths, strict=True)):
            with open_tensors(path) as other:
                pair = _Pair(catalog, own, other, run_in(other, str(path)), label, logits)
                for done, each in enumerate(pair.differences()):
                    found.append(each)
                    if report is not None:
                        report(number * len(own) + min(done + 1, len(own)), len(paths) * len(own))
                alike = ("compared", "not_finite", "not_read")
                if not any(each.status in alike for each in found if each.run == label):
                    raise QuantVizError("runs.nothing_alike", run=str(path), reference=str(reference))
    return RunComparison(
        labels[0], str(reference), labels[1:], tuple(map(str, paths)), tuple(found), own.is_ordered
    )


@dataclass(frozen=True)
class _Pair:
    """A run beside the reference, both open."""

    reference: Catalog
    of_reference: CapturedRun
    other: Catalog
    of_other: CapturedRun
    label: str
    logits: Sequence[str]

    def differences(self) -> Iterator[TensorDifference]:
        """Yield the difference of each tensor of the reference, then the tensors of the run alone."""
        others = {each.name: each for each in self.of_other}
        own = list(self.of_reference)
        at = 0
        while at < len(own):
            other = others.pop(own[at].name, None)
            end = self._end_of_fused(own, at, others)
            yield from self._fused(own[at:end], other)
            at = end
        for each in others.values():
            yield TensorDifference(each.name, each.op, self.label, "extra", (), each.shape)

    def _end_of_fused(self, own: Sequence[RunTensor], at: int, others: Mapping[str, RunTensor]) -> int:
        """Return the place after the operations that a run may compute together with the one at a place."""
        end = at + 1
        while (
            self.of_reference.is_ordered
            and end < len(own)
            and own[end].name not in others
            and own[end].shape == own[at].shape
            and any(part in own[end].op.lower() for part in _FOLDED)
        ):
            end += 1
        return end

    def _fused(self, own: Sequence[RunTensor], other: RunTensor | None) -> Iterator[TensorDifference]:
        """Yield the differences of a tensor and of those after it that the run does not have.

        The run's tensor under the name of the first stands for the one that it is nearest to: of a run whose
        other tensors were not written, that is the first.
        """
        found = [self._difference(own[0], other)]
        nearest = 0
        if found[0].is_compared:
            found += [self._difference(each, other) for each in own[1:]]
            known = [-math.inf if math.isnan(each.sqnr_db) else each.sqnr_db for each in found]
            nearest = known.index(max(known))
        for each in own[:nearest]:
            yield TensorDifference(each.name, each.op, self.label, "fused", each.shape, ())
        yield found[nearest]
        for each in own[nearest + 1 :]:
            yield self._difference(each, None)

    def _difference(self, own: RunTensor, other: RunTensor | None) -> TensorDifference:
        if other is None:
            return TensorDifference(own.name, own.op, self.label, "missing", own.shape, ())
        if own.shape != other.shape:
            return TensorDifference(own.name, own.op, self.label, "shape", own.shape, other.shape)
        problem = own.problem or other.problem
        if problem is not None:
            shapes = own.shape, other.shape
            return TensorDifference(
                own.name, own.op, self.label, "not_read", *shapes, problem=problem.again()
            )
        return difference(
            self.reference,
            self.other,
            own.name,
            labels=(own.op, self.label),
            logits=any(fnmatch.fnmatchcase(own.name, f"*{end}") for end in self.logits),
            beside="" if own.name == other.name else other.name,
        )


def _some(names: Sequence[str]) -> str:
    """Return the first names as a sentence lists them."""
    return ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])


def _labels(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of files: their names without suffix where these differ, else their paths.

    >>> _labels(["a/float.safetensors", "int8.safetensors"]), _labels(["a/x.npz", "b/x.npz", "b/x.npz"])
    (('float', 'int8'), ('a/x.npz', 'b/x.npz', 'b/x.npz (2)'))
    >>> _labels(["a/x.npz", "a/x.npz"])
    ('x', 'x (2)')
    """
    stems = {path: PurePath(path).stem for path in paths}
    apart = len(set(stems.values())) == len(stems)
    seen: Counter[str] = Counter()
    labels = []
    for path in paths:
        seen[path] += 1
        label = stems[path] if apart else path
        labels.append(label if seen[path] == 1 else f"{label} ({seen[path]})")
    return tuple(labels)


def _reason(each: TensorDifference, language: str) -> str:
    """Return why a tensor has no numbers; "" if it has."""
    if each.problem is not None:
        return each.problem.message(language)
    if each.beside:
        return text("runs.reasons.beside", known_language(language), name=each.beside)
    if each.is_compared:
        return ""
    shapes = {"shape": each.shape, "run_shape": each.run_shape, "count": each.not_finite}
    return text(f"runs.reasons.{each.status}", known_language(language), **shapes)


def _db(value: float) -> str:
    """Return decibels in a sentence; "NaN" for a tensor without numbers.

    >>> _db(12.345), _db(math.inf), _db(math.nan)
    ('12.3', '∞', 'NaN')
    """
    if math.isnan(value):
        return "NaN"
    return f"{value:.1f}".replace("-", "−").replace("inf", "∞")
