"""Words that fields are chosen from: types, which mypy knows, and of which every list of them is made."""

import dataclasses
import importlib
import pkgutil
from typing import get_args, get_type_hints

import torch

from quantviz import schemes
from quantviz.quantization.grids import TIES
from quantviz.schemes import choices, scheme
from quantviz.schemes.arithmetic import HALVES, PURPOSES, Arithmetic, ScaleSpec
from quantviz.schemes.conventions import CHOICES, FIELDS
from quantviz.schemes.scale_search import SEARCHES, WEIGHTED

#: Fields of any text: ids of registries that grow by a row, names for people, and facts of a file.
OPEN = {
    ("Arithmetic", "id"),
    ("Arithmetic", "known_as"),
    ("Convention", "id"),
    ("Convention", "known_as"),
    ("HalfInput", "formats"),
    ("HalfInput", "changes"),
    ("Offer", "formats"),
    ("Offer", "format_sizes"),
    ("Offer", "granularities"),
    ("NumberFormat", "id"),
    ("Scheme", "format"),
    ("Scheme", "convention"),
    ("QParams", "others"),
    ("TensorTraits", "dtype"),
    ("ArithmeticChange", "key"),
}


def _has_text(kind):
    return kind is str or any(_has_text(part) for part in get_args(kind) if not isinstance(part, str))


def test_every_field_of_words_names_them_in_its_type():
    modules = [
        importlib.import_module(f"quantviz.schemes.{each.name}")
        for each in pkgutil.iter_modules(schemes.__path__)
    ]
    names = {"torch": torch} | {name: each for module in modules for name, each in vars(module).items()}
    found = set()
    for module in modules:
        for kind in vars(module).values():
            if dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__:
                hints = get_type_hints(kind, localns=names)
                found |= {
                    (kind.__name__, field.name)
                    for field in dataclasses.fields(kind)
                    if _has_text(hints[field.name])
                }
    assert found == OPEN


def test_the_choices_of_a_field_are_the_words_of_its_type():
    kinds = get_type_hints(Arithmetic) | {
        f"scale.{name}": kind for name, kind in get_type_hints(ScaleSpec).items()
    }
    for name in FIELDS:
        if name in CHOICES:
            assert CHOICES[name] == choices.values_of(kinds[name]), name
        else:
            assert kinds[name] in (int, float), name


def test_lists_and_registries_have_the_words_of_types():
    for words, kind in (
        (scheme.MODES, choices.Mode),
        (scheme.NONFINITE, choices.Nonfinite),
        (HALVES, choices.Half),
        (PURPOSES, choices.Purpose),
        (tuple(SEARCHES), choices.Search),
        (tuple(WEIGHTED), choices.WeightedSearch),
    ):
        assert words == get_args(kind)
    assert {*TIES, "stochastic", "adding_half"} == set(get_args(choices.Ties))
    methods = {
        search.method for table in (SEARCHES, WEIGHTED) for each in table.values() for search in each.values()
    }
    assert methods == set(get_args(choices.SearchMethod))
