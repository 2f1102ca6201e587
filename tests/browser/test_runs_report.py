"""The page that `quantviz runs` writes of a model and its quantized one: from the file, offline."""

import re

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

import quantviz as qv
from quantviz.cli import quantviz
from quantviz.figures.raster import coloured
from quantviz.figures.theme import THEMES
from tests.helpers.drawn import normal as drawn
from tests.helpers.onnx_pair import write_onnx_pair

#: Width × height of each panel's picture, and the colours of its pixels as numbers.
PICTURES = """() => [...document.querySelectorAll(".panels img")].map(img => {
    const canvas = Object.assign(document.createElement("canvas"), {
        width: img.naturalWidth, height: img.naturalHeight,
    });
    const context = canvas.getContext("2d");
    context.drawImage(img, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const pixels = Array.from({ length: data.length / 4 }, (_, n) => [...data.slice(4 * n, 4 * n + 3)]);
    return { width: canvas.width, height: canvas.height, shown: img.getBoundingClientRect().width, pixels };
})"""
#: Whether each picture is the theme's own: it comes a little later than the theme.
DRAWN = """() => [...document.querySelectorAll(".panels img")].every((img) => {
    const { media, srcset } = img.parentElement.querySelector("source");
    return img.complete && img.currentSrc === (matchMedia(media).matches ? srcset : img.src);
})"""
#: Whether the page is wider than its window.
WIDE = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"


def opened_offline(new_page, file):
    page = new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.route(re.compile(r"^(?!file:|data:)"), lambda route: route.abort())
    page.goto(file.as_uri())
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
    return page


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_page_of_a_quantized_onnx_model_shows_numpys_numbers_offline(new_page, tmp_path):
    folder = write_onnx_pair(tmp_path)
    files = [folder / f"{name}.safetensors" for name in ("float", "int8")]
    for file in files:
        qv.capture(file.with_suffix(".onnx"), [{"x": drawn(6, 8, seed=5).numpy()}], file)
    done = CliRunner().invoke(quantviz, ["runs", *map(str, files), "-o", str(folder / "report.html")])
    # The quantizer left the first product's own output away: that tensor is not compared.
    assert done.exit_code == 1, done.output
    x, y = map(load_file, files)

    page = opened_offline(new_page, folder / "report.html")

    # Their numbers are those of the records, which `tests/models/test_transformer_runs.py` holds to NumPy's.
    assert page.locator(".tensors tbody tr td:first-child").all_text_contents() == ["hidden", "act", "logits"]
    assert page.get_by_text("the run has no tensor of this name").count() == 1
    noise = {
        name: np.square(y[name] - x[name]).sum() / np.square(x[name]).sum() for name in ("act", "logits")
    }
    worst = max(noise, key=noise.get)
    assert page.get_by_role("heading", name=f"int8: the worst tensor, {worst}").is_visible()
    error = y[worst] - x[worst]
    far = np.abs(error).max()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(DRAWN)
        pictures = page.evaluate(PICTURES)
        assert [(each["height"], each["width"]) for each in pictures] == [error.shape] * 4
        assert all(each["shown"] > 50 for each in pictures)
        drawn_pixels = [np.reshape(each["pixels"], (*error.shape, 3)) for each in pictures]
        np.testing.assert_array_equal(drawn_pixels[2], coloured(error, -far, far, THEMES[theme].errors))
        # The run differs from the reference by less than a colour in most cells, and both have several.
        assert len(np.unique(drawn_pixels[0].reshape(-1, 3), axis=0)) > 10
        for width in (390, 820, 1366, 1920):
            page.set_viewport_size({"width": width, "height": 844 if width == 390 else 625})
            assert not page.evaluate(WIDE), (theme, width)
