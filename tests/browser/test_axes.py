"""Tensors of several axes in Chromium: what the browser still holds of the tensor before, and a weight seen
as a matrix.
"""

import re

import pytest
import safetensors.torch
import torch

from tests.helpers import ROOT
from tests.helpers.browser import wait_idle
from tests.helpers.picture import address, drawn, opened

APP = ROOT / "app.py"
SHAPES = {
    "stft": (258, 1, 256),
    "conv1d": (128, 129, 3),
    "stem": (64, 3, 7, 7),
    "wide": (128, 14, 3, 3),
    "linear": (48, 32),
}


@pytest.fixture
def file(tmp_path):
    draw = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def pick(page, key, words):
    box = page.locator(f".st-key-{key} [data-baseweb=select], .st-key-{key} input").first
    # A list closes when what it belongs to is scrolled.
    box.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    box.click()
    page.locator("[role=option]", has_text=words).first.click()
    wait_idle(page)


def open_file(page, url, file):
    opened(page, url, lang="en")
    pick(page, "kind", re.compile("^A file$"))
    page.locator(".st-key-tensor_file input[type=file]").set_input_files(file)
    page.wait_for_function("location.search.includes('t=upload')")
    drawn(page)
    return page


def load(page, name):
    pick(page, "file_tensor", f"{name}  [")
    page.wait_for_function(
        "words => document.querySelector('.qv-name').innerText.startsWith(words)",
        arg=" × ".join(map(str, SHAPES[name])),
    )
    drawn(page)


def complaints(page):
    return page.locator(
        "[data-testid=stAlertContentWarning], [data-testid=stAlertContentError]"
    ).all_text_contents()


@pytest.mark.nightly
def test_a_click_after_other_tensors_does_what_it_says(new_page, serve, file):
    """Each select box in the browser holds the words of the tensor before, and sends them back with the next
    click.
    """
    page = open_file(new_page(), serve(APP), file)
    for name in ("stft", "wide", "conv1d"):
        load(page, name)
        bits = "8" if "int4" in address(page)["s"] else "4"
        page.locator("[data-field=bits] label", has_text=bits).first.click()
        page.wait_for_function(
            "bits => new URLSearchParams(location.search).get('s').startsWith('int' + bits)", arg=bits
        )
        drawn(page)
        assert complaints(page) == [], name
        if len(SHAPES[name]) == 3:
            # A box that was touched holds its label for good.
            pick(page, "view_rows", "axis 0")
            assert address(page)["a"].startswith("0.2_")
            pick(page, "view_rows", "axis 1")
