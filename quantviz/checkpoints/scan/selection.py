"""The tensors of a checkpoint that are measured, and the scheme of each recipe on them.

Without an engine these are the matrices that engines quantize; with one, those that it quantizes, in the
types that it falls back to where a recipe does not fit. Patterns of names change that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from quantviz.checkpoints.model.account import with_outcome
from quantviz.checkpoints.model.gguf_names import gguf_names
from quantviz.checkpoints.model.tensor_kinds import Kind, kind_of_tensor
from quantviz.checkpoints.profiles import PRESETS, PROFILES
from quantviz.checkpoints.profiles.presets import own_name, types_of
from quantviz.checkpoints.profiles.profile import Profile
from quantviz.checkpoints.scan.importance import by_tensor, importances
from quantviz.checkpoints.scan.listing import Entry, TensorListing, Unmeasured, list_checkpoint
from quantviz.checkpoints.scan.recipes import recipe_id, refusal_of
from quantviz.errors import Note, QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import ALL_RECIPES
from quantviz.schemes.scheme import Scheme

#: The kinds measured where no engine is named: those that any engine quantizes.
QUANTIZED: frozenset[Kind] = frozenset(("linear", "experts", "convolution", "embedding", "head"))


@dataclass(frozen=True)
class Selection(Picklable):
    #: The id of a profile, or "".
    engine: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    #: The file of llama.cpp's importance matrix, or "".
    imatrix: str = ""

    @property
    def profile(self) -> Profile | None:
        return PROFILES[self.engine] if self.engine else None

    def record(self) -> dict[str, Any]:
        """Return the fields that differ from the default as JSON values."""
        fields = {**vars(self), "include": list(self.include), "exclude": list(self.exclude)}
        return {name: value for name, value in fields.items() if value}


ALL_QUANTIZED = Selection()


def entries_of(path: str, engine: str) -> tuple[Entry, ...]:
    return selected(list_checkpoint(path), Selection(engine), ()).entries


def selected(
    listing: TensorListing, selection: Selection, named: Sequence[tuple[str, Scheme]]
) -> TensorListing:
    """Return a listing in which tensors that are not measured are left aside, with the reason, and the others
    have the substitutes for each recipe; `QuantVizError` for a pattern without tensors, or a mixture of
    another engine.
    """
    entries = listing.entries
    _check_presets(selection, named)
    _check_patterns(entries, selection)
    aside = _left_aside(entries, selection)
    if not selection.include and len(aside) == sum(entry.unmeasured is None for entry in entries):
        # A file of vectors alone: these are measured, or the scan would be empty.
        aside = {at: why for at, why in aside.items() if why.key == "checkpoint.excluded"}
    profile = selection.profile
    mixed = _mixed(profile, entries, named, has_importance=bool(selection.imatrix))
    changed = []
    for at, entry in enumerate(entries):
        if at in aside:
            changed.append(replace(entry, unmeasured=Unmeasured("left_aside", aside[at])))
        elif profile is not None and entry.unmeasured is None:
            schemes = [mixed.get(name, {}).get(entry.name, scheme) for name, scheme in named]
            instead = _instead(profile, entry, named, schemes)
            changed.append(replace(entry, instead=instead, refused=_refused(profile, entry, schemes)))
        else:
            changed.append(entry)
    reasons = {entries[at].name: why for at, why in aside.items()}
    account = with_outcome(listing.account, "left_aside", reasons, of=("compared", "refused"))
    selected = replace(listing, entries=tuple(changed), account=account)
    if selection.imatrix:
        selected = _weighed(selected, selection, named)
    _check_importance(selected, selection, named)
    return selected


def _weighed(
    listing: TensorListing, selection: Selection, named: Sequence[tuple[str, Scheme]]
) -> TensorListing:
    """Return a listing with the importance of columns and notes; `QuantVizError` where no tensor has any."""
    path = Path(selection.imatrix)
    theirs = importances(path)
    by_name = by_tensor(theirs, [entry.name for entry in listing.entries])
    entries = [replace(entry, importance=by_name.get(entry.name)) for entry in listing.entries]
    schemes = [scheme for _, scheme in named]
    # A tensor that is measured by a recipe that uses importance.
    heeding = [
        entry
        for entry in entries
        if entry.unmeasured is None and any(scheme.weighs_columns for scheme in entry.fitting(schemes))
    ]
    used = [entry for entry in heeding if entry.importance is not None]
    if not by_name:
        names = ", ".join(entry.name for entry in entries)
        first = next(iter(theirs))
        raise QuantVizError("checkpoint.imatrix_of_others", file=path.name, got=first, known=names)
    without = [entry.name for entry in heeding if entry.importance is None]
    not_heeding = [name for name, scheme in named if not scheme.weighs_columns]
    notes = [Note.of("checkpoint.imatrix_used", file=path.name, count=len(used), of=len(heeding))]
    if without:
        notes.append(Note.of("checkpoint.imatrix_without", count=len(without), names=", ".join(without)))
    if not_heeding:
        notes.append(Note.of("checkpoint.imatrix_not_heeded", recipes=", ".join(not_heeding)))
    return replace(listing, entries=tuple(entries), notes=(*listing.notes, *notes))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name is, or matches, one of some patterns: `*` stands for any text.

    >>> matches("model.layers.0.mlp.up_proj.weight", ["*.mlp.*"]), matches("experts.up[3]", ["experts.up[3]"])
    (True, True)
    """
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _check_patterns(entries: Iterable[Entry], selection: Selection) -> None:
    names = [entry.name for entry in entries]
    for pattern in (*selection.include, *selection.exclude):
        if not any(matches(name, (pattern,)) for name in names):
            raise QuantVizError("checkpoint.no_such_tensor", got=pattern, known=", ".join(names))


def _left_aside(entries: Sequence[Entry], selection: Selection) -> dict[int, QuantVizError]:
    kept = kept_by(selection.profile, {entry.name: entry.shape for entry in entries if not entry.decoded})
    reasons: dict[int, QuantVizError] = {}
    for at, entry in enumerate(entries):
        if entry.unmeasured is not None and entry.unmeasured.status not in ("refused", "left_aside"):
            continue
        if matches(entry.name, selection.exclude):
            reasons[at] = QuantVizError("checkpoint.excluded")
        elif selection.include:
            if not matches(entry.name, selection.include):
                reasons[at] = QuantVizError("checkpoint.not_included")
        elif entry.name in kept:
            reasons[at] = kept[entry.name]
    return reasons


def kept_by(profile: Profile | None, shapes: Mapping[str, Shape]) -> dict[str, QuantVizError]:
    """Return the reasons why an engine, or without one every engine, keeps tensors as they are, by name."""
    names = gguf_names(shapes) if profile is not None and profile.by_gguf_names else {}
    reasons: dict[str, QuantVizError] = {}
    for tensor, shape in shapes.items():
        name = names.get(tensor, tensor)
        kind = kind_of_tensor(name, shape)
        if profile is None:
            if kind not in QUANTIZED:
                reasons[tensor] = QuantVizError(f"checkpoint.kept.{kind}")
        elif kind not in profile.kinds or any(part in name for part in profile.keeps):
            reasons[tensor] = QuantVizError("checkpoint.kept_by", engine=profile.name)
    return reasons


def _check_presets(selection: Selection, named: Sequence[tuple[str, Scheme]]) -> None:
    presets = selection.profile.presets if selection.profile else {}
    for name, _ in named:
        if name in PRESETS and name not in presets:
            engine = next(profile.name for profile in PROFILES.values() if name in profile.presets)
            raise QuantVizError("checkpoint.preset_of", got=name, engine=engine)


def _check_importance(
    listing: TensorListing, selection: Selection, named: Sequence[tuple[str, Scheme]]
) -> None:
    """Raise an error if a mixture of types has one for a tensor that its tool refuses without importance."""
    presets = selection.profile.presets if selection.profile else {}
    needing = {at: presets[name] for at, (name, _) in enumerate(named) if name in presets}
    needing = {at: preset for at, preset in needing.items() if preset.needs_importance}
    if not needing:
        return
    names = gguf_names([entry.name for entry in listing.entries])
    schemes = [scheme for _, scheme in named]
    for at, preset in needing.items():
        without = []
        for entry in listing.entries:
            scheme = entry.schemes(schemes)[at]
            if entry.unmeasured is None and entry.importance is None and scheme is not None:
                name = own_name(entry.name, names)
                if preset.refuses_without_importance(recipe_id(scheme), name):
                    without.append(entry.name)
        if without:
            raise QuantVizError(
                "checkpoint.preset_needs_importance",
                got=named[at][0],
                engine=selection.profile.name if selection.profile else "",
                count=len(without),
                names=", ".join(without),
            )


def _mixed(
    profile: Profile | None,
    entries: Sequence[Entry],
    named: Sequence[tuple[str, Scheme]],
    *,
    has_importance: bool,
) -> dict[str, dict[str, Scheme]]:
    presets = [name for name, _ in named if profile is not None and name in profile.presets]
    if profile is None or not presets:
        return {}
    shapes = {entry.name: entry.shape if len(entry.shape) > 2 else entry.seen for entry in entries}
    names = gguf_names(shapes)
    return {
        preset: {
            tensor: ALL_RECIPES[recipe]
            for tensor, recipe in types_of(
                profile.presets[preset], shapes, names, has_importance=has_importance
            ).items()
        }
        for preset in presets
    }


def _refused(profile: Profile, entry: Entry, schemes: Sequence[Scheme]) -> tuple[int, ...]:
    """Return the places of schemes for which the engine's tool ends with an error at a tensor's rows."""
    rows = math.prod(entry.seen[:-1])
    parts = profile.files.parts if profile.files else {}
    return tuple(
        at
        for at, scheme in enumerate(schemes)
        if (part := parts.get(recipe_id(scheme))) is not None and rows % part.rows_in
    )


def _instead(
    profile: Profile, entry: Entry, named: Sequence[tuple[str, Scheme]], schemes: Sequence[Scheme]
) -> tuple[tuple[int, Scheme | None], ...]:
    substitutes: list[tuple[int, Scheme | None]] = []
    kind = kind_of_tensor(entry.name, entry.shape)
    for at, scheme in enumerate(schemes):
        used: Scheme | None = scheme
        of_kind = profile.by_kind.get(recipe_id(scheme), {}).get(kind)
        if of_kind is not None:
            used = ALL_RECIPES[of_kind] if of_kind else None
        while used is not None and refusal_of(used, entry.shape, entry.outputs) is not None:
            name = profile.fallbacks.get(recipe_id(used))
            if name is None:
                used = scheme
                break
            used = ALL_RECIPES[name] if name else None
        if used != named[at][1]:
            substitutes.append((at, used))
    return tuple(substitutes)
