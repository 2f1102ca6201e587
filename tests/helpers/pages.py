"""The app's pages as the tests in Chromium visit them."""

from tests.helpers import ROOT
from tests.helpers.browser import wait_idle

APP = ROOT / "app.py"
#: An address of each page, and what its tab is called.
PAGES = {
    "home": ("", ("pages.home",)),
    "lab": ("lab", ("scenarios.one_loud_column.name", "pages.lab")),
    "layers": ("layers", ("layers.built_in.minilm_1_intermediate.name", "pages.layers")),
    "attention": ("attention", ("attention.built_in.loud_mean", "pages.attention")),
    "checkpoints": ("checkpoints", ("checkpoints.example", "pages.checkpoints")),
    "lessons": ("lessons", ("pages.lessons",)),
    "lesson": ("lessons?l=range_to_grid&p=3", ("pages.lessons",)),
    "formats": ("formats?a=nf4&b=int4", ("formats.nf4.name", "pages.formats")),
    "bugs": ("bugs?bug=error_sign", ("bugs.error_sign.name", "pages.bugs")),
    "golf": ("golf", ("golf.holes.bell.name", "pages.golf")),
    "teacher": ("teacher", ("pages.teacher",)),
    "missing": ("nonexistent", ("missing.title",)),
}


def address(name: str, language: str) -> str:
    """Return the address of a page in a language, from the server's root.

    >>> address("lesson", "zh")
    '/lessons?l=range_to_grid&p=3&lang=zh'
    """
    path, _ = PAGES[name]
    return f"/{path}{'&' if '?' in path else '?'}lang={language}"


def shown(page):
    """An open page when it has shown what it is for."""
    page.wait_for_selector("[data-testid=stMain] :is([data-testid=stMarkdown], [data-testid=stHtml]):visible")
    wait_idle(page)
    return page
