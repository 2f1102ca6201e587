"""Runs of a model compared: each tensor beside the reference's, in the order of execution."""

from __future__ import annotations

import fnmatch
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

import torch

from quantviz.errors import QuantVizError, known_language
from quantviz.models.logit_rows import next_tokens
from quantviz.models.run_difference import STATUSES, TensorDifference, difference
from quantviz.models.run_file import CapturedRun, RunTensor, run_in
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public, public_class
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
_COLUMNS = ("sqnr_db", "cosine", "max_error", "max_error_at", "left_out", "not_finite")


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
        return tuple(diff for diff in self.differences if diff.run == label)

    def compared(self, label: str) -> tuple[TensorDifference, ...]:
        """Return the tensors of a run that have numbers, in the order of execution."""
        return tuple(diff for diff in self.of(label) if diff.is_compared)

    def counts(self, label: str) -> dict[str, int]:
        """Return the number of a run's tensors by outcome, one of `STATUSES` each."""
        by_status = Counter(diff.status for diff in self.of(label))
        return {status: by_status[status] for status in STATUSES}

    def worst(self, label: str) -> tuple[TensorDifference, ...]:
        """Return the compared tensors of a run, lowest SQNR first."""
        finite = (diff for diff in self.compared(label) if not math.isnan(diff.sqnr_db))
        return tuple(sorted(finite, key=lambda diff: diff.sqnr_db))

    def first_error(self, label: str) -> TensorDifference | None:
        """Return the first tensor in the order of execution that differs; none if none does."""
        if not self.is_ordered:
            return None
        return next((diff for diff in self.of(label) if diff.differs), None)

    def jump(self, label: str) -> Jump | None:
        """Return the first tensor whose SQNR lies `JUMP_DB` below that of all tensors before it, counting
        those of its own operation alone, if there are some: the SQNR of a sum is not that of a product.

        Tensors without any error are not counted: the first one that has one is `first_error`.
        """
        return next((jump for jump, _ in self._jumps(label)), None)

    def largest_jump(self, label: str) -> Jump | None:
        """Return the jump that falls the most below all tensors before it, the first of equal ones."""
        jump, _ = max(self._jumps(label), key=lambda pair: pair[1], default=(None, 0.0))
        return jump

    def _jumps(self, label: str) -> Iterator[tuple[Jump, float]]:
        """Yield each tensor where a run's error jumps, and the dB that it falls below all before it."""
        lowest: dict[str, float] = {}
        for diff in self.compared(label) if self.is_ordered else ():
            before = lowest.get(diff.op, min(lowest.values(), default=math.inf))
            # NaN is not below anything, and no number lies below Inf by so much.
            if before < math.inf and diff.sqnr_db <= before - JUMP_DB:
                yield Jump(diff, before, diff.op in lowest), min(lowest.values()) - diff.sqnr_db
            if diff.sqnr_db < lowest.get(diff.op, math.inf):
                lowest[diff.op] = diff.sqnr_db

    def by_op(self, label: str) -> tuple[OpErrors, ...]:
        """Return the errors of a run by operation, in the order of execution."""
        groups: dict[str, list[TensorDifference]] = {}
        for diff in self.compared(label):
            groups.setdefault(diff.op, []).append(diff)
        return tuple(
            OpErrors(
                op,
                len(differences),
                min((diff.sqnr_db for diff in differences if not math.isnan(diff.sqnr_db)), default=math.nan),
                max(
                    (diff.max_error for diff in differences if not math.isnan(diff.max_error)),
                    default=math.nan,
                ),
            )
            for op, differences in groups.items()
        )

    def rows(self, language: str = DEFAULT_LANGUAGE) -> list[dict[str, Any]]:
        """Return a record for each tensor of each run: `tensor`, `op`, `run`, `status`, its shape, its
        numbers, and the reason why it has none.
        """
        return [
            {
                "tensor": diff.name,
                "op": diff.op,
                "run": diff.run,
                "status": diff.status,
                "shape": list(diff.shape or diff.run_shape),
                **{name: getattr(diff, name) for name in _COLUMNS},
                **asdict(diff.logits),
                "reason": _reason(diff, language),
            }
            for diff in self.differences
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
        for diff in self.compared(label):
            yield from _of_logits(diff, say)
        fused = [f"{diff.name} ↔ {diff.beside}" for diff in self.of(label) if diff.beside]
        if fused:
            yield say("runs.fused", run=label, count=len(fused), names=_some(fused))
        for status in STATUSES[1:]:
            names = [diff.name for diff in self.of(label) if diff.status == status]
            if names:
                yield say(f"runs.statuses.{status}", run=label, count=len(names), names=_some(names))
        left_out = [diff for diff in self.compared(label) if diff.left_out]
        if left_out:
            count = sum(diff.left_out for diff in left_out)
            yield say("runs.left_out", run=label, count=count, tensors=len(left_out), names=left_out[0].name)


@public
def compare_runs(
    reference: str | PurePath,
    runs: str | PurePath | Sequence[str | PurePath],
    *,
    logits: Sequence[str] = LOGITS,
    tokens: Any = None,
    skip: int | None = None,
    report: Callable[[int, int], None] | None = None,
) -> RunComparison:
    """Compare runs of a model with a reference run: each tensor with the one of its name and shape.

    A run that fuses operations, such as a convolution, its norm and its activation, has one tensor under the
    name of the first. If the activations, norms and sums that follow are missing in it, its tensor is
    compared with the one of these operations that it is nearest to.

    Values that are NaN or Inf alike in both are left out and counted; one in one of them alone: no numbers.

    Args:
        reference: The file of the reference, as `capture` writes it; or any other file of tensors, which has
            no order of execution.
        runs: The file of a run, or several.
        logits: Ends of the names of tensors with logits in their last axis, with * for any text.
        tokens: The tokens that the model read, (batch, tokens) or (tokens,): logits then have a perplexity.
        skip: The positions of each row of tokens that it leaves out; None: half, as llama.cpp does.
        report: Called with the number of tensors that are done, and of all.

    Raises:
        QuantVizError: A file cannot be read; no tensor of a run is one of the reference; wrong tokens.

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
    paths = tuple(map(str, [runs] if isinstance(runs, str | PurePath) else runs))
    if not paths:
        raise QuantVizError("runs.no_runs")
    targets = None if tokens is None else next_tokens(tokens, skip)
    labels = _labels([str(reference), *paths])
    with open_tensors(reference) as catalog:
        tensors = run_in(catalog, str(reference))
        differences: list[TensorDifference] = []
        for number, (label, path) in enumerate(zip(labels[1:], paths, strict=True)):
            with open_tensors(path) as other:
                pair = _RunPair(catalog, tensors, other, run_in(other, path), label, logits, targets)
                of_run = []
                for done, diff in enumerate(pair.differences(), 1):
                    of_run.append(diff)
                    if report is not None:
                        report(number * len(tensors) + min(done, len(tensors)), len(paths) * len(tensors))
            if not any(diff.status in ("compared", "not_finite", "not_read") for diff in of_run):
                raise QuantVizError("runs.nothing_alike", run=path, reference=str(reference))
            differences += of_run
    of_runs = labels[1:], paths, tuple(differences)
    return RunComparison(labels[0], str(reference), *of_runs, tensors.is_ordered)


@dataclass(frozen=True)
class _RunPair:
    reference: Catalog
    of_reference: CapturedRun
    other: Catalog
    of_other: CapturedRun
    label: str
    logits: Sequence[str]
    #: The tokens that follow each row of logits; None if they are not known.
    targets: torch.Tensor | None

    def differences(self) -> Iterator[TensorDifference]:
        others = {each.name: each for each in self.of_other}
        tensors = list(self.of_reference)
        at = 0
        while at < len(tensors):
            other = others.pop(tensors[at].name, None)
            end = self._end_of_fused(tensors, at, others)
            yield from self._fused(tensors[at:end], other)
            at = end
        for tensor in others.values():
            yield TensorDifference(tensor.name, tensor.op, self.label, "extra", (), tensor.shape)

    def _end_of_fused(self, tensors: Sequence[RunTensor], at: int, others: Mapping[str, RunTensor]) -> int:
        """Return the place after the operations that a run may compute together with the one at a place."""
        end = at + 1
        while (
            self.of_reference.is_ordered
            and end < len(tensors)
            and tensors[end].name not in others
            and tensors[end].shape == tensors[at].shape
            and any(part in tensors[end].op.lower() for part in _FOLDED)
        ):
            end += 1
        return end

    def _fused(self, tensors: Sequence[RunTensor], other: RunTensor | None) -> Iterator[TensorDifference]:
        """Yield the differences of a tensor and of those after it that the run does not have.

        The run's tensor under the name of the first stands for the one that it is nearest to: of a run whose
        other tensors were not written, that is the first.
        """
        differences = [self._difference(tensors[0], other)]
        nearest = 0
        if differences[0].is_compared:
            differences += [self._difference(tensor, other) for tensor in tensors[1:]]
            levels = [-math.inf if math.isnan(diff.sqnr_db) else diff.sqnr_db for diff in differences]
            nearest = levels.index(max(levels))
        for tensor in tensors[:nearest]:
            yield TensorDifference(tensor.name, tensor.op, self.label, "fused", tensor.shape, ())
        yield differences[nearest]
        for tensor in tensors[nearest + 1 :]:
            yield self._difference(tensor, None)

    def _difference(self, tensor: RunTensor, other: RunTensor | None) -> TensorDifference:
        if other is None:
            return TensorDifference(tensor.name, tensor.op, self.label, "missing", tensor.shape, ())
        if tensor.shape != other.shape:
            return TensorDifference(tensor.name, tensor.op, self.label, "shape", tensor.shape, other.shape)
        problem = tensor.problem or other.problem
        if problem is not None:
            shapes = tensor.shape, other.shape
            return TensorDifference(
                tensor.name, tensor.op, self.label, "not_read", *shapes, problem=problem.again()
            )
        return difference(
            self.reference,
            self.other,
            tensor.name,
            labels=(tensor.op, self.label),
            logits=any(fnmatch.fnmatchcase(tensor.name, f"*{end}") for end in self.logits),
            targets=self.targets,
            beside="" if tensor.name == other.name else other.name,
        )


def _of_logits(diff: TensorDifference, say: Callable[..., str]) -> Iterator[str]:
    logits = diff.logits
    if not math.isnan(logits.kl):
        numbers = {name: f"{getattr(logits, name):.4g}" for name in ("kl", "kl_median", "kl_99", "kl_max")}
        bits = {
            name: number.replace("e-0", "e-").replace("-", "−").replace("inf", "∞")
            for name, number in numbers.items()
        }
        same = f"{100 * logits.same_top:.4g} %"
        yield say("runs.logits", run=diff.run, tensor=diff.name, same=same, **bits)
    if not math.isnan(logits.perplexity):
        run, reference = (f"{value:.5g}" for value in (logits.perplexity, logits.reference_perplexity))
        yield say("runs.perplexity", run=diff.run, tensor=diff.name, perplexity=run, reference=reference)


def _some(names: Sequence[str]) -> str:
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


def _reason(diff: TensorDifference, language: str) -> str:
    if diff.problem is not None:
        return diff.problem.message(language)
    if diff.beside:
        return text("runs.reasons.beside", known_language(language), name=diff.beside)
    if diff.is_compared:
        return ""
    shapes = {"shape": diff.shape, "run_shape": diff.run_shape, "count": diff.not_finite}
    return text(f"runs.reasons.{diff.status}", known_language(language), **shapes)


def _db(value: float) -> str:
    """Return decibels in a sentence; "NaN" for a tensor without numbers."""
    if math.isnan(value):
        return "NaN"
    return f"{value:.1f}".replace("-", "−").replace("inf", "∞")
