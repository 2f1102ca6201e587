"""`python -m tests.teaching.lessons`: count what each lesson asks, how, and what was moved by then."""

from quantviz.teaching.lessons import lessons
from tests.helpers.lesson_counts import counts_table, lesson_counts

if __name__ == "__main__":
    print(counts_table((name, lesson_counts(lesson)) for name, lesson in lessons().items()))
