"""Writes the tables of the profiles' page from their data, and from what engines' tools recorded.

    python -m tests.helpers.profile_tables

`tests/checkpoints/test_profile_page.py` holds that the page is current.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from quantviz.checkpoints.model.tensor_kinds import KINDS
from quantviz.checkpoints.profiles import PROFILES
from quantviz.checkpoints.profiles.presets import Preset
from quantviz.checkpoints.profiles.profile import Profile
from quantviz.checkpoints.scan.recipes import refusal_of
from quantviz.evaluation.metric_formulas import stored_size
from quantviz.schemes.recipes import ALL_RECIPES
from tests.helpers import ROOT

PAGE = ROOT / "quantviz/checkpoints/profiles/README.md"
_RECORDED = ROOT / "tests/engines/recorded"
#: A matrix whose rows divide into all blocks, of which bits per weight are told.
_SHAPE = (4096, 4096)
#: One whose rows divide into none.
_ODD = (64, 97)


def page() -> str:
    """Return the page with its tables written anew."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in (("profiles", _profiles()), ("recipes", _recipes()), ("presets", _presets())):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, after = text.partition(begin)[0], text.partition(end)[2]
        text = "\n".join((before + begin, *lines, end + after))
    return text


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _recorded() -> dict[str, Any]:
    return json.loads((_RECORDED / "profiles.json").read_text(encoding="utf-8"))


def _profiles() -> Iterator[str]:
    recorded = _recorded()
    columns = ("`--engine`", "quantizes", "joins query, key, value; gate, up", "export", "held against")
    rows = []
    for each in PROFILES.values():
        versions = recorded.get(each.id, {}).get("versions", {"llama-cpp-python": "0.3.36"})
        held = ", ".join(f"{name} {number}" for name, number in versions.items())
        kinds = ", ".join(kind for kind in KINDS if kind in each.kinds)
        rows.append((f"`{each.name}`", kinds, "yes" if each.joins else "", each.export, held))
    return _table(columns, rows)


def _recipes() -> Iterator[str]:
    recorded = _recorded()
    columns = ("`--engine`", "recipe", "bits a weight", "where rows do not divide", "on other kinds", "files")
    rows = []
    for each in PROFILES.values():
        models = recorded.get(each.id, {}).get("models", {})
        for recipe in each.recipes:
            bits = stored_size(ALL_RECIPES[recipe], _SHAPE) / (_SHAPE[0] * _SHAPE[1])
            other = each.by_kind.get(recipe, {})
            told = ", ".join(f"{kind}: {_or_kept(name)}" for kind, name in other.items())
            asked = [name for name, answer in models.items() if recipe in answer["recipes"]]
            files = "its mixtures" if each.presets else ", ".join(asked) or "no tool on a CPU"
            rows.append((each.name, f"`{recipe}`", f"{bits:.4g}", _fallback(each, recipe), told, files))
    return _table(columns, rows)


def _fallback(profile: Profile, recipe: str) -> str:
    if refusal_of(ALL_RECIPES[recipe], _ODD) is None:
        return "fits all"
    return _or_kept(profile.fallbacks[recipe]) if recipe in profile.fallbacks else "refused"


def _or_kept(name: str) -> str:
    return f"`{name}`" if name else "kept"


def _presets() -> Iterator[str]:
    columns = ("preset", "measured", "importance for", "most tensors", "others, the first that fits")
    rows = []
    for profile in PROFILES.values():
        for measured, presets in (("yes", profile.presets), ("types alone", profile.unencoded)):
            for name, own in presets.items():
                needing = ", ".join(f"`{recipe}`" for recipe in own.needs_importance)
                rows.append((f"`{name}`", measured, needing, f"`{own.recipe}`", _steps(own)))
    return _table(columns, rows)


def _steps(preset: Preset) -> str:
    told = []
    for step in preset.steps:
        parts = " ".join(step.parts) or "all"
        when = f" if {' and '.join(step.when)}" if step.when else ""
        told.append(f"{parts}{when}: `{step.recipe}`")
    return "; ".join(told)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
