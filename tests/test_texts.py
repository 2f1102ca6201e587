"""Every sentence exists in every language, with the same placeholders."""

import ast
import dataclasses
import re
import string
from pathlib import Path

import pytest

import quantviz as qv
from quantviz.conventions import FIELDS
from quantviz.explanation import CAUSES
from quantviz.scenarios import SCENARIOS
from quantviz.text import catalogue, languages
from quantviz.views import ERROR_RANGES, ERROR_VIEWS, SCOPES

ROOT = Path(__file__).parent.parent
SOURCES = [path for folder in ("quantviz", "pages") for path in sorted((ROOT / folder).rglob("*.py"))] + [ROOT / "app.py"]
KEYS = catalogue("en")


def placeholders(sentence):
    return sorted((field, conversion) for _, field, _, conversion in string.Formatter().parse(sentence) if field is not None)


@pytest.mark.parametrize("language", languages()[1:])
def test_the_languages_have_the_same_sentences(language):
    other = catalogue(language)
    assert set(KEYS) == set(other)
    for key, sentence in KEYS.items():
        assert placeholders(sentence) == placeholders(other[key]), key
        assert other[key].strip() or not sentence.strip(), key


def literal_keys():
    """Keys given as literals to say(), text(), QuantVizError() and Note.of()."""
    prefixes = {"say": "", "text": "", "QuantVizError": "errors.", "of": "notes."}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant) or not isinstance(node.args[0].value, str):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name in prefixes and (name != "of" or (isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "Note")):
                yield path, prefixes[name] + node.args[0].value


def test_every_sentence_asked_for_exists():
    asked = list(literal_keys())
    assert len(asked) > 100
    missing = [(path.name, key) for path, key in asked if key not in KEYS]
    assert missing == []


def test_every_registry_has_its_words():
    wanted = [f"modes.{mode}.name" for mode in qv.MODES] + [f"granularities.{name}.name" for name in qv.GRANULARITIES]
    wanted += [f"calibrations.{name}.{field}" for name in qv.CALIBRATIONS for field in ("name", "line", "help")]
    wanted += [f"calibrations.{name}.fields.{field.name}" for name, kind in qv.CALIBRATIONS.items() for field in dataclasses.fields(kind)]
    wanted += [f"scenarios.{name}.{field}" for name in SCENARIOS for field in ("name", "look")]
    wanted += [f"formats.{name}.{field}" for name in qv.FORMATS for field in ("name", "help")]
    wanted += [f"conventions.{name}.{field}" for name in qv.CONVENTIONS for field in ("name", "help")]
    wanted += [f"convention_fields.{name.replace('.', '_')}.{field}" for name in FIELDS for field in ("name", "help")]
    wanted += [f"causes.{cause}" for cause in CAUSES]
    wanted += [f"error.views.{view}" for view in ERROR_VIEWS] + [f"error.ranges.{name}" for name in ERROR_RANGES] + [f"error.scopes.{name}" for name in SCOPES]
    wanted += [f"metrics.{name}.{field}" for name in qv.METRICS for field in ("name", "help")]
    wanted += [f"metrics.units.{each.unit or 'none'}" for each in qv.METRICS.values()]
    wanted += [f"languages.{name}" for name in languages()]
    assert [key for key in wanted if key not in KEYS] == []


def test_no_sentence_stands_in_the_code():
    """Words on the page come from the catalogue: no literal with a space in it goes into a Streamlit call."""
    for path in SOURCES:
        if "ui" not in path.parts and "pages" not in path.parts and path.name != "app.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "st":
                for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                    literal = argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""
                    assert not re.search(r"[A-Za-z]{2,} [A-Za-z]{2,}", literal), f"{path.name}: {literal}"
