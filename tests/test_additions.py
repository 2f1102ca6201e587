"""The additions that CONTRIBUTING walks through, made in a copy of the repository from its own code blocks.

First each addition stands alone: the tests that the guide names then fail, each with a sentence that names
the step. Then the steps are followed, and nothing fails: neither these tests nor the whole quick suite, which
takes minutes and so runs each night. Every run has `tests/test_registries.py`, which finds a forgotten list.
`-m all` takes the tests that ask engines and check types besides.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree

import pytest

from quantviz.text import languages
from tests.helpers import ROOT
from tests.helpers.sample import ALL

GUIDE = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
EVERYTHING = os.environ.get(ALL) == "1"
COPIED = (
    ".ci",
    ".github",
    ".streamlit",
    ".pre-commit-hooks.yaml",
    "LICENSE",
    "README.md",
    "app.py",
    "pages",
    "pyproject.toml",
    "quantviz",
    "requirements.txt",
    "tests",
)
LESSONS = "tests/teaching/lessons"
QUICK = ["-m", "quick"]
#: What fails as long as only the addition itself is there: by its test, words of the sentence it fails with.
FORGOTTEN = {
    "tests/quantization/test_format_facts.py::test_why_a_float_ends_where_it_does[float8_e4m3b11fnuz]": (
        "add the end of float8_e4m3b11fnuz to ENDS"
    ),
    "tests/text/test_texts.py::test_every_registry_has_its_words": "to quantviz/text",
    "tests/text/test_texts.py::test_every_sentence_asked_for_exists": "to quantviz/text",
    "tests/evaluation/test_metric_formulas.py::test_every_metric_is_a_float": "add the id of a new metric",
    f"{LESSONS}/test_lessons.py::test_the_lessons_are_in_their_order": "add the id of a new lesson",
    f"{LESSONS}/test_plan.py::test_the_kept_thumbnails_are_those_of_the_lessons": (
        "run python -m quantviz.teaching.lessons.thumbnails"
    ),
    f"{LESSONS}/test_plan.py::test_a_lesson_takes_about_ten_minutes[step_size]": "only those of SHORT",
    f"{LESSONS}/test_outlines.py::test_every_lesson_of_course_2_after_the_formats_is_in_the_table": (
        "add a row for ['step_size']"
    ),
    "tests/test_imports.py::test_every_arrow_between_folders_is_an_allowed_one": (
        "add 'ui/glossary' to ALLOWED"
    ),
    "tests/test_imports.py::test_every_folder_says_what_it_is_for": "add quantviz/ui/glossary/__init__.py",
    "tests/browser/test_shell.py::test_every_page_is_one_of_these": "add ['glossary'] to PAGES",
    "tests/sources/test_files.py::test_every_reader_reads_what_was_written[IdxCatalog]": "to FILES",
    "tests/sources/test_hostile.py::test_every_reader_has_hostile_files[IdxCatalog]": "to BAD",
    "tests/test_documents.py::test_every_suffix_that_is_read_is_told": "What can be read",
    "tests/test_registries.py::test_every_method_has_a_picture": "add the picture of {'row_factor'}",
    "tests/cli/test_layers.py::test_the_commands_page_names_every_method_and_the_help_every_engine": (
        "name ['row_factor'] in quantviz/cli/README.md"
    ),
    "tests/sources/test_layouts.py::test_the_table_of_layouts_has_every_one": "under Quantized weights",
    "tests/sources/test_layouts.py::test_every_layout_in_modules_has_a_sample_of_an_unknown_sibling": (
        "add a weight of {'gpt_fast'} to SAMPLES"
    ),
    "tests/quantization/test_golden_codes.py::test_the_record_has_every_scheme": (
        "run python -m tests.helpers.golden_codes"
    ),
}
#: The same of tests that take long.
SLOWLY_FORGOTTEN = {
    "tests/test_engines.py::test_it_is_the_engine[torch_per_token-torch_per_token]": "belong in NARROWER",
    "tests/test_engines.py::test_the_table_has_every_path_and_no_mismatch": "python -m tests.engines",
}
#: What holds as soon as the addition is there.
AT_ONCE = (
    "tests/schemes/test_formats.py::test_every_value_is_that_of_ml_dtypes[float8_e4m3b11fnuz]",
    f"{LESSONS}/test_lessons.py::test_a_lesson_is_sound[step_size-en]",
    f"{LESSONS}/test_lessons.py::test_a_lesson_is_sound[step_size-zh]",
    f"{LESSONS}/test_lessons.py::test_a_lesson_is_the_same_in_each_language[step_size]",
)
#: What holds in the end, besides.
IN_THE_END = (
    "tests/app/test_glossary.py",
    "tests/test_registries.py",
    "tests/schemes/test_conventions.py::test_a_convention_keeps_the_contract[torch_per_token]",
    "tests/test_documents.py::test_the_folders_are_told_in_their_own_words",
    "tests/test_imports.py::test_every_arrow_points_down",
    "tests/sources/test_files.py::test_every_format_reads_what_was_written[upload-x.idx]",
    "tests/sources/test_files.py::test_every_format_is_known_by_its_content[x.idx]",
    "tests/sources/test_hostile.py::test_every_reader_has_hostile_files",
)
SLOWLY_IN_THE_END = (
    "tests/lab/test_controls.py",
    "tests/test_engines.py",
    "tests/test_imports.py",
    "tests/test_documents.py",
    "tests/sources/test_files.py",
    "tests/sources/test_hostile.py",
    "tests/schemes/test_conventions.py",
)
#: Fewer tests than the quick suite has: it is not left out by mistake.
FEWEST_QUICK = 5000
#: The lines of the lesson in Chinese that have words, by how they begin in English.
IN_CHINESE = {
    "# ": "# 步长的大小",
    "What one bit": "少一位，两个编码之间的步长会怎样。",
    "## ": "## 位数越少，步长越大",
    "With {bits}": "用 {bits} 位时，一个步长为 {hand.scale}。拖动位数，观察标尺上的齿。",
    "ask": 'ask = "拖动位数，使步长约为 8 位时的 16 倍。"',
    "tolerance": 'tolerance = "12 到 20 倍都算对。"',
    "hint": 'hint = "每少一位，还剩多少个编码？"',
    "says": 'says = "用 {bits} 位时，步长是 {scale / start.scale|2} 倍。"',
    "> ": "> 少一位，步长加倍。",
}


def blocks(section, language):
    """The code blocks of a section of the guide, also those inside lists."""
    # Headings of a lesson stand in a block.
    text = GUIDE.partition(f"\n## {section}\n")[2].partition("\n## Add ")[0]
    found = re.findall(r"^( *)(`{3,})(\w*)\n(.*?)^\1\2$", text, re.M | re.S)
    return [textwrap.dedent(body) for _, _, named, body in found if named == language]


class Copy:
    """A copy of the repository that is added to."""

    def __init__(self, folder):
        self.folder = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                # With what Python has compiled of it: a module that is added to is newer.
                shutil.copytree(source, folder / name)
            else:
                shutil.copy(source, folder / name)

    def write(self, path, text):
        """Make a file."""
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def changed(self, path, old, new):
        """Put `new` in the place of `old`, which stands in a file once."""
        text = (self.folder / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, (path, old)
        self.write(path, text.replace(old, new))

    def listed(self, path, name, entry, *, beside=None):
        """Add an entry at the end of the list, or mapping, that is given a name in a file; of several lists,
        that which has `beside` in it.
        """
        text = (self.folder / path).read_text(encoding="utf-8")
        (value,) = (
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and name
            in [ast.unparse(each) for each in getattr(node, "targets", [getattr(node, "target", None)])]
        )
        lists = [
            node.values if isinstance(node, ast.Dict) else node.elts
            for node in ast.walk(value)
            if isinstance(node, ast.Dict | ast.List | ast.Tuple)
        ]
        last = next(
            each for each in lists if beside is None or beside in [ast.unparse(item) for item in each]
        )[-1]
        lines = text.splitlines(keepends=True)
        line = lines[last.end_lineno - 1].encode()
        before, after = line[: last.end_col_offset].decode(), line[last.end_col_offset :].decode()
        lines[last.end_lineno - 1] = f"{before},\n{entry.strip().rstrip(',')}{after}"
        self.write(path, "".join(lines))

    def said(self, words):
        """Add words to each language: to a table that is there, or as a new one."""
        for language in languages():
            path = f"quantviz/text/{language}.toml"
            text = (self.folder / path).read_text(encoding="utf-8")
            for table in re.split(r"\n(?=\[)", words.strip()):
                head, _, lines = table.partition("\n")
                new = f"\n{head}\n"
                there = new in text
                text = text.replace(new, f"{new}{lines}\n", 1) if there else f"{text}{new}{lines}\n"
            self.write(path, text)

    def run(self, *command):
        """Run Python in the copy, and return how it ended."""
        env = {name: value for name, value in os.environ.items() if name != ALL}
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env={**env, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=1800,
        )

    def failures(self, tests):
        """Run tests, and return those that failed, each with its message."""
        ran = self.run(
            "-m",
            "pytest",
            "-q",
            "-n",
            "2" if tests == QUICK else "0",
            "-p",
            "no:cacheprovider",
            "--junitxml=ran.xml",
            *tests,
        )
        assert ran.returncode in (0, 1), ran.stdout[-3000:] + ran.stderr[-1000:]
        found, count = {}, 0
        for case in ElementTree.parse(self.folder / "ran.xml").iter("testcase"):
            count += 1
            name = f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}"
            for failure in (*case.iter("failure"), *case.iter("error")):
                found[name] = failure.get("message")
        assert count >= (FEWEST_QUICK if tests == QUICK else len(tests))
        return found


def add_alone(copy):
    """Make each addition, and none of the steps that follow."""
    fmt, *_ = blocks("Add a format", "python")
    copy.listed("quantviz/schemes/formats.py", "_ALL", fmt)
    convention, module, name, _ = blocks("Add an engine", "python")
    copy.listed("quantviz/schemes/engines.py", "ENGINES", convention)
    copy.write("tests/engines/torch_per_token.py", module)
    copy.listed("tests/engines/__init__.py", "ENGINES", name)
    (metric,) = blocks("Add a metric", "python")
    copy.listed("quantviz/evaluation/metric_formulas.py", "METRICS", metric)
    (calibration,) = blocks("Add a calibration", "python")
    copy.changed(
        "quantviz/schemes/calibration.py",
        "#: Every calibration that can be chosen",
        f"{calibration}\n\n#: Every calibration that can be chosen",
    )
    copy.listed("quantviz/schemes/calibration.py", "CALIBRATIONS", "Fraction", beside="MinMax")
    method, *_ = blocks("Add a method", "python")
    copy.write("quantviz/layers/methods/row_factor.py", method)
    chain = "quantviz/layers/methods/chain.py"
    line = "from quantviz.schemes.recipes import as_scheme\n"
    copy.changed(chain, line, f"from quantviz.layers.methods.row_factor import RowFactor\n{line}")
    copy.listed(chain, "METHODS", "RowFactor", beside="GPTQ")
    layout, listed, _ = blocks("Add a layout", "python")
    copy.write("quantviz/sources/layouts/gpt_fast.py", layout)
    layouts = "quantviz/sources/layouts/__init__.py"
    copy.changed(layouts, "    gptq,\n", "    gpt_fast,\n    gptq,\n")
    copy.listed(layouts, "LAYOUTS", listed, beside="Layout('gptq', gptq.FORMS)")
    lesson, _ = blocks("Add a lesson", "markdown")
    copy.write("quantviz/teaching/lessons/en/23_step_size.md", lesson)
    copy.write("quantviz/teaching/lessons/zh/23_step_size.md", in_chinese(lesson))
    thin, _, state, shown, listed, *_ = blocks("Add a page", "python")
    copy.write("pages/learn/glossary.py", thin)
    copy.write("quantviz/ui/glossary/state.py", state)
    copy.write("quantviz/ui/glossary/page.py", shown)
    copy.changed("app.py", '        "explore": [', f'        "explore": [\n            {listed}')
    reader, *_ = blocks("Add a file format", "python")
    copy.write("quantviz/sources/files/idx.py", reader)
    files = "quantviz/sources/files/__init__.py"
    line = "from quantviz.sources.files.json_lists import JsonCatalog\n"
    copy.changed(files, line, f"from quantviz.sources.files.idx import IdxCatalog\n{line}")
    copy.listed(files, "CATALOGS", "IdxCatalog", beside="TorchCatalog")


def follow_the_steps(copy):
    """Do what the guide says besides."""
    for section in ("format", "engine", "metric", "calibration", "method", "page", "layout"):
        for words in blocks(f"Add {'an' if section == 'engine' else 'a'} {section}", "toml"):
            copy.said(words)
    _, end = blocks("Add a format", "python")
    copy.listed("tests/quantization/test_format_facts.py", "ENDS", end)
    narrower = blocks("Add an engine", "python")[-1]
    copy.listed("tests/test_engines.py", "NARROWER", narrower)
    copy.listed("tests/evaluation/test_metric_formulas.py", "NAMES", '"relative_error"')
    copy.listed(f"{LESSONS}/test_lessons.py", "ORDER", '"step_size"')
    copy.changed(f"{LESSONS}/test_plan.py", 'SHORT = ("fewer_bits",)', 'SHORT = ("fewer_bits", "step_size")')
    _, row = blocks("Add a lesson", "markdown")
    copy.changed(
        "quantviz/teaching/lessons/OUTLINES.md",
        "| Qualcomm | granularity |",
        f"{row}| Qualcomm | granularity |",
    )
    add_picture(copy)
    *_, sample = blocks("Add a layout", "python")
    copy.listed("tests/sources/test_layouts.py", "SAMPLES", sample)
    (row,) = blocks("Add a layout", "markdown")
    copy.changed("quantviz/sources/README.md", "| bitsandbytes |", f"{row}| bitsandbytes |")
    _, docstring, *_, allowed, address, opened = blocks("Add a page", "python")
    copy.write("quantviz/ui/glossary/__init__.py", docstring)
    (row,) = blocks("Add a page", "markdown")
    last = "| `quantviz/ui/missing/`"
    copy.changed(".github/CONTRIBUTING.md", f"\n{last}", f"\n{row}{last}")
    copy.listed("tests/test_imports.py", "ALLOWED", allowed)
    copy.listed("tests/helpers/pages.py", "PAGES", address)
    copy.write("tests/app/test_glossary.py", opened)
    _, file, hostile = blocks("Add a file format", "python")
    copy.listed("tests/helpers/hostile.py", "FILES", file)
    copy.listed("tests/helpers/hostile.py", "BAD", hostile)
    (row,) = blocks("Add a file format", "markdown")
    copy.changed("quantviz/sources/README.md", "| `.npy` |", f"{row}| `.npy` |")
    commands = ["quantviz.teaching.lessons.thumbnails", "tests.helpers.golden_codes"]
    if EVERYTHING:
        commands += ["tests.engines torch_per_token"]
    for command in commands:
        assert f"`python -m {command.partition(' ')[0]}`" in GUIDE
        ran = copy.run("-m", *command.split())
        assert ran.returncode == 0, ran.stderr[-3000:]


def add_picture(copy):
    """Do what the guide says of a method besides its words."""
    _, picture, listed = blocks("Add a method", "python")
    pictures = "quantviz/ui/layers/smaller_pictures.py"
    copy.write(pictures, f"{(copy.folder / pictures).read_text(encoding='utf-8')}\n\n{picture}")
    tab = "quantviz/ui/layers/method_tab.py"
    copy.changed(tab, "    show_equalization,\n", "    show_equalization,\n    show_factors,\n")
    copy.listed(tab, "PICTURES", listed)
    copy.changed("quantviz/cli/README.md", "and `bias_correction`", "`row_factor` and `bias_correction`")
    copy.changed(
        "tests/browser/test_methods.py", 'STILL = {"equalization"', 'STILL = {"row_factor", "equalization"'
    )


def in_chinese(lesson):
    """The lesson with Chinese words."""
    lines = []
    for line in lesson.splitlines():
        words = (said for begins, said in IN_CHINESE.items() if line.startswith(begins))
        lines.append(next(words, line))
    return "\n".join(lines) + "\n"


@pytest.mark.nightly
def test_each_addition_walks_by_the_words_of_the_guide(tmp_path):
    copy = Copy(tmp_path)
    add_alone(copy)
    forgotten = FORGOTTEN | (SLOWLY_FORGOTTEN if EVERYTHING else {})
    failed = copy.failures([*forgotten, *AT_ONCE])
    assert failed.keys() == forgotten.keys()
    for test, sentence in forgotten.items():
        assert sentence in failed[test], test
        assert failed[test].startswith("AssertionError"), f"{test} ends in a raw {failed[test]}"
        assert test.partition("::")[0] in GUIDE, f"the guide does not name {test}"
    follow_the_steps(copy)
    lint = copy.run("-m", "ruff", "check", "--no-cache", "quantviz", "pages", "tests", "app.py")
    assert lint.returncode == 0, lint.stdout
    last = dict.fromkeys([*forgotten, *AT_ONCE, *IN_THE_END, *(SLOWLY_IN_THE_END if EVERYTHING else ())])
    assert copy.failures(list(last)) == {}
    assert copy.failures(QUICK) == {}
    if EVERYTHING:
        types = copy.run("-m", "mypy")
        assert types.returncode == 0, types.stdout


def test_a_block_of_the_guide_is_found_inside_a_list():
    assert len(blocks("Add a page", "python")) == 8
    assert blocks("Add a page", "toml")[0] == '[pages]\nglossary = "Glossary"\n'
    assert len(blocks("Add a layout", "python")) == len(blocks("Add a method", "python")) == 3
