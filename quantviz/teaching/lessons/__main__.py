"""`python -m quantviz.teaching.lessons [folder …]`: check lessons, by default those of QuantViz."""

import sys
from pathlib import Path

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons import load
from quantviz.teaching.lessons.check import problems_of


def main(folders: list[str]) -> int:
    """Print each mistake on a line; 1 where there is any."""
    lessons_folder = Path(__file__).parent
    wrong = 0
    for folder in (
        map(Path, folders)
        if folders
        else sorted(path for path in lessons_folder.iterdir() if path.is_dir() and any(path.glob("*.md")))
    ):
        for name, lesson in load(folder).items():
            problems: list[QuantVizError] = (
                [lesson]
                if isinstance(lesson, QuantVizError)
                else list(problems_of(lesson, f"{folder.name}/{name}"))
            )
            wrong += len(problems)
            print(*map(str, problems) if problems else [f"{folder.name}/{name}: ok"], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
