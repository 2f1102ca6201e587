"""The table of other courses' outlines leads to steps in which a hand moves something."""

import re
from pathlib import Path

from quantviz.teaching.lessons import __file__ as lessons_file
from quantviz.teaching.lessons import lessons

TABLE = Path(lessons_file).with_name("OUTLINES.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def test_each_topic_has_a_step_with_a_hand():
    rows = [row for row in ROW.findall(TABLE) if row[0] not in ("outline", "---")]
    assert {outline for outline, _, _ in rows} == {"MIT 6.5940", "Quantization in Depth", "NVFP4", "Qualcomm"}
    for outline, topic, cell in rows:
        places = re.findall(r"`(\w+)` (\d+)", cell)
        assert places, (outline, topic)
        for name, number in places:
            steps = lessons()[name].steps
            assert 1 <= int(number) <= len(steps), (topic, name, number)
        assert any(lessons()[name].steps[int(number) - 1].move for name, number in places), (outline, topic)


def test_every_lesson_of_course_2_after_the_formats_is_in_the_table():
    newest = list(lessons())[16:]
    assert len(newest) >= 7
    missing = [name for name in newest if f"`{name}`" not in TABLE]
    assert not missing, f"add a row for {missing} to quantviz/teaching/lessons/OUTLINES.md"
