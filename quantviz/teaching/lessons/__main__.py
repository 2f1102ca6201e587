"""`python -m quantviz.teaching.lessons [folder …]`: check lessons, by default those of QuantViz."""

import sys
from pathlib import Path

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons import load
from quantviz.teaching.lessons.check import problems_of


def main(folders: list[str]) -> int:
    """Print each mistake on a line; 1 where there is any."""
    own = sorted({path.parent for path in Path(__file__).parent.glob("*/*.md")})
    wrong = 0
    for folder in map(Path, folders or own):
        for name, lesson in load(folder).items():
            place = f"{folder.name}/{name}"
            problems = [lesson] if isinstance(lesson, QuantVizError) else list(problems_of(lesson, place))
            wrong += len(problems)
            print(*(problems or (f"{place}: ok",)), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
