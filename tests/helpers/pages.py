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


#: The characters of words and numbers on the first screen, components of ours included: without icons, what a
#: box that scrolls hides, digits in the cells of a picture, and code.
CHARACTERS = """() => {
    const cells = ".qv-overlay, .qv-panel td";
    const left_out = `script, style, [data-testid=stIconMaterial], [data-testid=stCode], ${cells}`;
    const range = document.createRange(), seen = { opacityProperty: true, visibilityProperty: true };
    const roots = [document.body];
    let count = 0;
    const note = (node) => {
        const parent = node.parentElement, words = node.data.trim();
        if (!parent || !words || parent.closest(left_out) || !parent.checkVisibility(seen)) return;
        range.selectNodeContents(node);
        let { left, top, right, bottom } = range.getBoundingClientRect();
        [left, top] = [Math.max(left, 0), Math.max(top, 0)];
        [right, bottom] = [Math.min(right, innerWidth), Math.min(bottom, innerHeight)];
        for (let box = parent; box && box !== document.body; box = box.parentElement) {
            if (getComputedStyle(box).overflow === "visible" || box.ownerSVGElement) continue;
            const edge = box.getBoundingClientRect();
            [left, top] = [Math.max(left, edge.left), Math.max(top, edge.top)];
            [right, bottom] = [Math.min(right, edge.right), Math.min(bottom, edge.bottom)];
        }
        if (right - left > 1 && bottom - top > 1) count += words.length;
    };
    for (const root of roots) {
        const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
        while (walk.nextNode())
            if (walk.currentNode.shadowRoot) roots.push(walk.currentNode.shadowRoot);
            else if (walk.currentNode.nodeType === Node.TEXT_NODE) note(walk.currentNode);
    }
    return count;
}"""


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
