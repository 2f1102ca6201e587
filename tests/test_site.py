"""The site: built as its page says, with every example run, and read without a network."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

import quantviz as qv

SITE = Path(__file__).parent.parent / ".github" / "site"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(SITE / "mkdocs.yml"), site_dir=str(folder), strict=True)
    build(config)
    return folder


class Loaded(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attributes):
        name = {"link": "href", "script": "src", "img": "src", "iframe": "src"}.get(tag)
        self.addresses += [value for key, value in attributes if key == name]


def test_every_page_is_read_from_a_disk(built):
    pages = sorted(built.glob("*.html"))
    assert len(pages) > 15
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert not [each for each in loaded.addresses if each.startswith(("http:", "https:", "//"))], (
            page.name
        )
        if page.name != "404.html":
            assert all((built / each.partition("?")[0]).is_file() for each in loaded.addresses), page.name


def test_the_reference_has_every_public_name(built):
    page = (built / "reference.html").read_text(encoding="utf-8")
    there = set(re.findall(r'<h2 id="quantviz\.[\w.]*?(\w+)"', page))
    assert there == set(qv.__all__)


def test_the_gallery_has_a_picture_for_each_piece_of_code(built):
    source = (SITE / "pages" / "gallery.md").read_text(encoding="utf-8")
    page = (built / "gallery.html").read_text(encoding="utf-8")
    assert page.count("Plotly.newPlot(") == len(re.findall(r"^figure = ", source, re.M)) > 3
    assert page.count("<iframe") == 1


def test_a_link_of_the_repository_leads_to_its_page(built):
    page = (built / "gate.html").read_text(encoding="utf-8")
    assert 'href="command.html#in-a-pipeline"' in page
    assert "](" not in (built / "index.html").read_text(encoding="utf-8")
