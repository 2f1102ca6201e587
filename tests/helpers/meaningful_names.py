"""Names that mean something to a shell, a script, a pattern, YAML or a spreadsheet."""

import random

NAMES = (
    *("a.weight", "", " ", " 12 ", "007", "1e5", "-0", "0", "1.0", "1", "nan", "inf", "true", "null", "None"),
    *("$(id)", "`id`", "a;id", "a&&id", "a|id", "a>b", "a'b", 'a"b', "a\\b", "~", "*", "?", "[0-9]", "{a,b}"),
    *(
        "a\nimport os",
        "a\tb",
        "a\rb",
        "a\r\nb",
        "\x00",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\u2028",
        "\u202e",
        "\ufeff",
    ),
    *("-o", "--help", "-", "=1+1", "+1", "@SUM(A1)", "-2+3", "'=1", "''@a", "'a", "\t=1", "\r=1"),
    *(
        "re:.*",
        "re:(",
        "Linear",
        "Conv2d",
        "a[0]",
        "a[!0]",
        "a*b?c",
        "experts[3].up",
        "#a",
        "a: b",
        "- a",
        "%s",
    ),
    *(
        "{0}",
        "{file!r}",
        "\\n",
        "<b>x</b>",
        "a|b",
        "[x](javascript:1)",
        "权重",
        "\U0001f600",
        "\U000e0001",
        "\udcff",
    ),
    *("\ud800", "a,b", "a\\", "'''", '"""', "a" * 3000),
)


def made(seed):
    """A name of characters that mean something, drawn at random."""
    chance = random.Random(seed)
    letters = "ab01.-+=@'\"\\$`(){}[]*?!#%&;|<>~^,: \t\r\n\x00\x1b\x85\u2028\u202e权\U0001f600\udcff"
    return "".join(chance.choices(letters, k=chance.randrange(1, 12)))
