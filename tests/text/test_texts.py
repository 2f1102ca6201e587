"""Every sentence exists in every language, with the same placeholders."""

import ast
import dataclasses
import re
import string
from pathlib import Path

import pytest

import quantviz as qv
from quantviz.lab.scenarios import SCENARIOS
from quantviz.layers.methods.chain import METHODS
from quantviz.quantization.explanation import CAUSES
from quantviz.schemes.conventions import FIELDS
from quantviz.sources.layouts import LAYOUTS
from quantviz.tensors.views import ERROR_RANGES, ERROR_VIEWS, SCOPES
from quantviz.text import catalogue, languages, text
from tests.helpers.code import nodes

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("quantviz", "pages") for path in sorted((ROOT / folder).rglob("*.py"))] + [
    ROOT / "app.py"
]
UI = sorted((ROOT / "quantviz" / "ui").rglob("*.py"))
KEYS = catalogue("en")


def placeholders(sentence):
    return sorted(
        (field, conversion)
        for _, field, _, conversion in string.Formatter().parse(sentence)
        if field is not None
    )


@pytest.mark.parametrize("language", languages()[1:])
def test_the_languages_have_the_same_sentences(language):
    other = catalogue(language)
    assert set(KEYS) == set(other)
    for key, sentence in KEYS.items():
        assert placeholders(sentence) == placeholders(other[key]), key
        assert other[key].strip() or not sentence.strip(), key


def test_one_bit_is_no_bits():
    """“1 bits” stood on the front door; a sentence with a bare plural has its singular beside it."""
    assert text("home.bit", levels=2).startswith("1 bit ")
    assert text("home.few_one") == "1 bit"
    counted = [key for key, sentence in KEYS.items() if "{bits:bit|bits}" in sentence]
    assert counted
    for key in counted:
        values = {name: 1 for name, _ in placeholders(KEYS[key])}
        said = text(key, **values)
        assert re.search(r"\b1 bit\b", said), key
        assert "1 bits" not in said, key
    assert {key for key in KEYS if key.startswith("home.") and "{bits} bits" in KEYS[key]} == {
        "home.bits",
        "home.few",
    }


def literal_keys():
    """Keys given as literals to say(), text(), QuantVizError() and Note.of(), with the names of what they are
    given; none where more is given by `**`.
    """
    prefixes = {"say": "", "text": "", "QuantVizError": "errors.", "of": "notes."}
    for path in SOURCES:
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = (
                node.func.id
                if isinstance(node.func, ast.Name)
                else node.func.attr
                if isinstance(node.func, ast.Attribute)
                else ""
            )
            if name in prefixes and (
                name != "of"
                or (isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "Note")
            ):
                given = {keyword.arg for keyword in node.keywords}
                for key in literals(node.args[0]):
                    yield path, prefixes[name] + key, None if None in given else given


def template_keys():
    """The same of the templates of reports."""
    for path in sorted((ROOT / "quantviz" / "export" / "templates").glob("*.html")):
        for key, given in re.findall(
            r'say\("([\w.]+)"((?:, \w+=[^,)]+)*)\)', path.read_text(encoding="utf-8")
        ):
            yield path, key, set(re.findall(r"(\w+)=", given))


def literals(node):
    """The texts that an argument may be."""
    if isinstance(node, ast.IfExp):
        return [*literals(node.body), *literals(node.orelse)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_every_sentence_asked_for_exists():
    asked = [*literal_keys(), *template_keys()]
    assert len(asked) > 100
    missing = [key for _, key, _ in asked if key not in KEYS]
    assert not missing, f"add {missing} to quantviz/text/en.toml and zh.toml"


def test_every_sentence_gets_its_values():
    without = [
        (path.name, key, needed)
        for path, key, given in (*literal_keys(), *template_keys())
        if given is not None
        for needed in (re.split(r"[.\[]", field)[0] for field, _ in placeholders(KEYS[key]))
        if needed not in given
    ]
    assert without == []


def test_every_registry_has_its_words():
    wanted = [f"modes.{mode}.name" for mode in qv.MODES] + [
        f"granularities.{name}.name" for name in qv.GRANULARITIES
    ]
    wanted += [
        f"calibrations.{name}.{field}" for name in qv.CALIBRATIONS for field in ("name", "line", "help")
    ]
    wanted += [
        f"calibrations.{name}.fields.{field.name}"
        for name, kind in qv.CALIBRATIONS.items()
        for field in dataclasses.fields(kind)
    ]
    wanted += [f"scenarios.{name}.{field}" for name in SCENARIOS for field in ("name", "look")]
    wanted += [f"formats.{name}.{field}" for name in qv.FORMATS for field in ("name", "help")]
    wanted += [f"conventions.{name}.{field}" for name in qv.CONVENTIONS for field in ("name", "help")]
    wanted += [
        f"convention_fields.{name.replace('.', '_')}.{field}" for name in FIELDS for field in ("name", "help")
    ]
    wanted += [f"causes.{cause}" for cause in CAUSES]
    wanted += (
        [f"error.views.{view}" for view in ERROR_VIEWS]
        + [f"error.ranges.{name}" for name in ERROR_RANGES]
        + [f"error.scopes.{name}" for name in SCOPES]
    )
    wanted += [f"metrics.{name}.{field}" for name in qv.METRICS for field in ("name", "help")]
    wanted += [f"metrics.units.{each.unit or 'none'}" for each in qv.METRICS.values()]
    wanted += [f"layers.methods.{name}.{field}" for name in METHODS for field in ("name", "help")]
    wanted += [f"integer_engines.{name}.{field}" for name in qv.INTEGER_ENGINES for field in ("name", "help")]
    wanted += [f"notes.layouts.names.{name}" for name in LAYOUTS]
    wanted += [f"languages.{name}" for name in languages()]
    missing = [key for key in wanted if key not in KEYS]
    assert not missing, f"add {missing} to quantviz/text/en.toml and zh.toml"


def test_no_sentence_stands_in_the_code():
    """Words on the page come from the catalogue: no literal with a space in it goes into a Streamlit call."""
    for path in SOURCES:
        if "ui" not in path.parts and "pages" not in path.parts and path.name != "app.py":
            continue
        for node in nodes(path):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and getattr(node.func.value, "id", "") == "st"
            ):
                for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                    literal = (
                        argument.value
                        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                        else ""
                    )
                    assert not re.search(r"[A-Za-z]{2,} [A-Za-z]{2,}", literal), f"{path.name}: {literal}"


#: Words on the screen that are not the field's, or that a technical writer would not use.
RIDDLES = (
    r"\bheeds?\b", r"\bmend", r"\bforetell", r"\bbelieves\b", r"\bin sight\b", r"not to be changed",
    r"(?<!anyone )who removes `",
    r"plays along", r"\bluckier\b", r"by which is divided", r"\bAsked is\b",
    r"\btak\w+ 0 in\b|\b0 taken in\b", r"\bfurthest\b",
    r"\bfurther from\b", r"\bthe codes there are\b", r"\bare the most\b",
    r"\b(is|are) no (number|whole|finite|format|tensor)\b",
    r"\bthis very\b", r"bits (an|per) (element|value)", r"\btaken apart\b",
)  # fmt: skip
#: Rivals of the Chinese terms, each with the term: one term a notion.
RIVALS = {
    "您": "你", "特别大|突出|高幅值|幅度大": "离群",
    "裁剪|裁掉": "截断", "(?<!量化噪声)信噪比": "SQNR", "步子|半步|以步(为单位|计)|（步）": "步长",
    "一步(是|的宽度|的大小|变|更宽|更细|加倍)|更细的一步": "步长", "错误陈列室|陈列室": "常见错误",
    "按学生所见": "以学生视角打开",
    "投影这个": "投影当前内容", "单元格的每一步": "查看全部步骤",
    "每个(权重|值|元素)的位数|每元素位数": "有效位宽", "数字格式": "数值格式",
    "基线": "基准", "绕回": "回绕", "(?<!编)码表": "码本", "平局|取舍规则": "中点舍入规则",
    "一半取偶|正中取偶": "取偶舍入", "包进": "包含",
    "激活值": "激活", "按通道|按张量": "逐通道、逐张量", "推理引擎": "引擎", "图像": "图片",
    "向零截断": "向零取整",
}  # fmt: skip


def read_words(language):
    """Each text of a language with where it stands: the catalogue's by key, the lessons' by file and line."""
    yield from catalogue(language).items()
    for path in sorted((ROOT / "quantviz" / "teaching" / "lessons" / language).glob("*.md")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.name}:{number}", line


def found(language, pattern):
    return [
        (place, match[0]) for place, words in read_words(language) if (match := re.search(pattern, words))
    ]


@pytest.mark.parametrize("riddle", RIDDLES)
def test_the_english_is_the_fields(riddle):
    assert found("en", riddle) == []


@pytest.mark.parametrize("rival", RIVALS)
def test_the_chinese_has_one_term_a_notion(rival):
    assert found("zh", rival) == [], f"say {RIVALS[rival]}"


@pytest.mark.parametrize("key", ["tiles.bits.name", "metrics.effective_bits.name"])
def test_a_number_has_one_name_on_every_page(key):
    assert (KEYS[key], catalogue("zh")[key]) == ("Bits per weight", "有效位宽")


def test_no_chinese_is_slanted():
    """Markdown's and HTML's emphasis slants 汉字, which have no italic; bold is for them."""
    slanted = r"(?<!\*)\*(?![*\s])[^*\n]*[\u4e00-\u9fff][^*\n]*(?<!\s)\*(?!\*)"
    slanted += r"|(?<!\w)_[^_\n]*[\u4e00-\u9fff][^_\n]*_(?!\w)|<(em|i)\b"
    plain = ((place, re.sub(r"\{[^}]*\}|`[^`]*`", "", words)) for place, words in read_words("zh"))
    assert [(place, match[0]) for place, words in plain if (match := re.search(slanted, words))] == []
    for path in UI:
        assert not re.search(r"(?<!\*)\*\{(plain|say)\(", path.read_text(encoding="utf-8")), (
            f"{path.name}: a text from the catalogue in italics"
        )


@pytest.mark.parametrize("path", UI, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_punctuation_between_words_comes_from_the_catalogue(path):
    """Chinese has full-width marks: a text of the catalogue is not followed by a mark from the code."""
    assert re.findall(r"\{say\([^{}]*\)\}[:,;] ", path.read_text(encoding="utf-8")) == []
