"""A page without a server, opened from a disk without a network: its codes are the reference's."""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import pytest
import torch

import quantviz as qv
from quantviz.analysis.study import Study
from quantviz.export.report import scan_html
from quantviz.lab.layer_state import SchemePair
from quantviz.lab.state import opening
from quantviz.live.hand_words import Looks
from quantviz.live.layer_page import LayerPage
from quantviz.live.standalone import LivePage, LivePages
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.formulas import HERE
from quantviz.ui.components.lesson_place import LessonPlace
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.step import page_of
from tests.helpers.browser import pulled
from tests.helpers.live_files import STANDS, layer_page

STATE = opening()
#: A title that would be a script, were it not text.
HOSTILE = "</script><script>window.ran = 1</script><b>"
CODES = "() => Array.from(window.quantvizPage.hand.shown.q)"
VALUES = "() => Array.from(window.quantvizPage.hand.shown.x)"
SIGHT = "quantvizPage.panels._fullLayout.xaxis.range"
ROWS = (
    (torch.randn(12, 16), "uint8,asymmetric,per_group(size=4),percentile(p=99.0),course"),
    (torch.randn(3, 8).bfloat16(), "int4,symmetric,per_channel(axis=0),mse,course"),
    (torch.randn(2, 3, 4), "nf4,symmetric,flat(size=8),min_max,course"),
)


@dataclass
class Report:
    """A page that was made."""

    written: str

    def html(self):
        return self.written


def saved(folder, live):
    path = folder / "page.html"
    path.write_text(live.html(), encoding="utf-8")
    return path


def page_of_step(lesson, number):
    """The step of that number from 1 as it is saved, and its tensor under its scheme."""
    whole = lessons("en")[lesson]
    step = whole.steps[number - 1]
    now = Now(LessonPlace(lesson, number - 1), whole, step, step.scenes(0), 0)
    return page_of(now), now.scenes[HERE].result


@pytest.fixture
def alone(new_context, tmp_path):
    """`alone(study, cell)` opens the page of a study from the disk, which asks nothing of a net; so does
    `alone(live)` with a page that was made.
    """
    context = new_context(viewport={"width": 1366, "height": 900}, offline=True)
    asked, wrong = [], []

    def opened(it, cell=(), panels=True):
        live = LivePage(it, HOSTILE, cell, Looks("en"), panels) if isinstance(it, Study) else it
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(saved(tmp_path, live).as_uri())
        page.wait_for_function(STANDS)
        return page

    yield opened
    context.close()
    assert wrong == []
    assert {urlsplit(each).scheme for each in asked} <= {"file", "data", "blob"}


def chosen(page):
    """What the address of the page says: the scheme as Python reads it."""
    return qv.Scheme.parse(parse_qs(urlsplit(page.url).fragment)["s"][0])


def loaded_anew(page):
    """Another tab with the page's address."""
    again = page.context.new_page()
    again.goto(page.url)
    again.wait_for_function(STANDS)
    return again


def drag(page, handle, dx):
    held = page.locator(f"[data-handle={handle}]")
    held.scroll_into_view_if_needed()
    box, mouse = held.bounding_box(), getattr(page, "page", page).mouse
    x, y = box["x"] + box["width"] / 2, box["y"] + 8
    pulled(mouse, (x, y), (x + dx, y))


def codes_agree(page, scheme, shape=STATE.source.shape):
    values = torch.tensor(page.evaluate(VALUES)).reshape(shape)
    assert page.evaluate(CODES) == qv.quantize(values, scheme).q.flatten().tolist()


def test_a_hand_has_the_reference_s_codes_and_the_address_brings_them_back(alone):
    page = alone(Study.of(STATE.source.open(), STATE.scheme), STATE.cell)
    assert page.evaluate("() => window.ran") is None
    assert page.locator("h1").inner_text() == HOSTILE
    page.wait_for_selector("#qv-panels .cartesianlayer image")
    codes_agree(page, STATE.scheme)
    drag(page, "hi", -200)
    page.wait_for_function("() => location.hash.includes('manual_range')")
    assert chosen(page).calibration.hi < 20
    codes_agree(page, chosen(page))
    page.locator("[data-handle=bits]").press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('int5')")
    page.locator("[data-handle=group]").press("ArrowLeft")
    page.wait_for_function("() => location.hash.includes('per_group')")
    page.locator("[data-handle=value]").press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('w=')")
    codes_agree(page, chosen(page))
    told = {
        name: page.locator(name).all_inner_texts() for name in ("b", ".qv-sentence", "#qv-scheme", "small")
    }
    again = loaded_anew(page)
    assert {name: again.locator(name).all_inner_texts() for name in told} == told
    assert again.evaluate(CODES) == page.evaluate(CODES)
    again.locator("#qv-reset").click()
    codes_agree(again, STATE.scheme)
    assert again.evaluate(VALUES) == STATE.source.tensor().flatten().tolist()


def test_a_click_explains_another_cell_and_a_zoom_keeps_what_the_hand_made(alone):
    page = alone(Study.of(STATE.source.open(), STATE.scheme), STATE.cell)
    page.wait_for_selector("#qv-panels .cartesianlayer image")
    page.locator("[data-handle=bits]").press("ArrowLeft")
    page.wait_for_selector(".qv-painting")
    box = page.locator("#qv-panels .nsewdrag").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 5.5 / 8, box["y"] + box["height"] * 6.5 / 8)
    page.wait_for_function("() => document.querySelector('.qv-sentence').textContent.includes('(6, 5)')")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -70)
    page.wait_for_function(f"() => ({SIGHT})[1] < 7")
    page.keyboard.up("Control")
    assert page.evaluate("() => quantvizPage.bridge.live.q.join()") == ",".join(
        map(str, page.evaluate(CODES))
    )


@pytest.mark.parametrize("at", range(len(ROWS)))
def test_other_tensors_and_schemes_have_the_reference_s_codes(alone, at):
    x, form = ROWS[at]
    study = Study.of_result(qv.quantize(x, qv.Scheme.parse(form)))
    page = alone(study, (0,) * x.ndim, panels=at == 2)
    assert page.evaluate(CODES) == study.result.q.flatten().tolist()


def test_a_step_of_a_lesson_has_its_own_handles_parts_and_question_without_the_answer(alone):
    live, result = page_of_step("symmetric", 3)
    page = alone(live)
    handles = {each.get_attribute("data-handle") for each in page.locator("[data-handle]").all()}
    assert handles == {"lo", "hi"}
    # Its question waits for a mark, which opens the numbers; what is right is nowhere on it.
    assert page.locator("[data-qv-metric]").count() == 1
    assert "Drag an end until the MSE is a quarter" in page.locator("body").inner_text()
    assert not page.locator("#qv-scheme").is_visible()
    assert page.evaluate("() => [quantvizPage.hand.data.rows, quantvizPage.hand.data.mark]") == [[], None]
    drag(page, "hi", -150)
    page.wait_for_function("() => location.hash.includes('manual_range')")
    assert 0 < chosen(page).calibration.hi < 2.9
    codes_agree(page, chosen(page), result.shape)
    told = page.locator("[data-qv-metric=mse]").inner_text()
    moved = qv.quantize(result.x, chosen(page))
    assert float(told) == pytest.approx(qv.metrics(moved)["mse"], rel=1e-3)


def test_the_values_go_along_where_a_step_holds_its_codes(alone):
    live, result = page_of_step("range_to_grid", 6)
    page = alone(live)
    page.locator("[data-handle=zero]").press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('given')")
    assert page.evaluate(CODES) == result.q.flatten().tolist()
    assert page.evaluate(VALUES) != result.x.flatten().tolist()
    codes_agree(page, chosen(page), result.shape)
    again = loaded_anew(page)
    assert again.evaluate(VALUES) == page.evaluate(VALUES)


def test_what_a_step_hides_before_its_answer_is_not_on_its_page(alone):
    # Its question is which cell has the largest error.
    live, _ = page_of_step("per_channel", 4)
    page = alone(live)
    assert page.locator("[data-qv-metric]").count() == 0
    assert page.evaluate("() => quantvizPage.figure.data.map(({ name }) => name)") == ["x"]


def outputs_agree(page, weights, inputs):
    """The outputs in the page are those of the layer under its schemes, bit for bit."""
    shape = page.evaluate("quantvizPage.data.shape")
    x, w, y_hat = (page.evaluate(f"Array.from(quantvizPage.shown.{name})") for name in ("x", "w", "yHat"))
    made = qv.layer(torch.tensor(w).view(shape[2], -1), torch.tensor(x).view(shape[:2]), weights, inputs)
    assert made.cells(slice(None), slice(None)).y_hat.flatten().tolist() == y_hat
    return made


def test_a_layer_s_outputs_follow_the_ceiling_a_channel_and_a_weight(alone):
    pair = SchemePair("int8_per_tensor", "int4_per_tensor")
    page = alone(layer_page("loud_input", pair))
    page.wait_for_selector("#qv-panels .cartesianlayer image")
    weights, inputs = pair.schemes()
    outputs_agree(page, weights, inputs)
    box = page.locator(".qv-towers").bounding_box()
    pulled(page.mouse, (box["x"] + 40, box["y"] + 8), (box["x"] + 40, box["y"] + 45))
    page.wait_for_function("() => location.hash.includes('manual_range')")
    assert chosen(page).calibration.hi < 5
    outputs_agree(page, weights, chosen(page))
    for at, sign in enumerate(("x=", "w=")):
        page.locator(".qv-knobs input").nth(at).press("ArrowRight")
        page.wait_for_function("sign => location.hash.includes(sign)", arg=sign)
    moved = outputs_agree(page, weights, chosen(page))
    page.locator(".qv-products button").nth(1).click()
    token, output, channel = page.evaluate("quantvizPage.data.cell")
    products = moved.products(token, output)
    told = page.locator(".qv-products tr[data-channel] button").all_inner_texts()
    assert list(map(int, told)) == products.channels.tolist()
    assert channel == int(products.channels[1])
    again = loaded_anew(page)
    shown = ".qv-numbers, .qv-values, .qv-products, #qv-product, #qv-scheme"
    assert again.locator(shown).all_inner_texts() == page.locator(shown).all_inner_texts()
    again.locator("#qv-reset").click()
    outputs_agree(again, weights, inputs)
    again.evaluate("() => (location.hash = 'c=9.9.9')")
    again.wait_for_selector("#qv-lost:visible")


def test_a_layer_under_a_method_has_the_method_s_values(alone):
    draw = torch.Generator().manual_seed(2)
    w, x = torch.randn(12, 16, generator=draw), torch.randn(24, 16, generator=draw)
    x[:, 3] *= 20
    made = qv.layer(w, x, "int4_per_row", "int8_per_tensor", method="smoothquant+gptq+bias_correction")
    page = alone(LayerPage.of(made, "x", Looks("en")))
    cells = made.cells()
    for name, values in {"error": cells.error, "yHat": cells.y_hat}.items():
        assert page.evaluate(f"Array.from(quantvizPage.shown.{name})") == values.flatten().tolist()
    assert page.locator("input").count() == 0
    place = (0, 7)
    page.evaluate("() => (location.hash = 'c=0.7.2')")
    told = page.locator(".qv-products tr[data-channel] button")
    expected = made.products(*place).channels.tolist()[:8]
    page.wait_for_function(
        "first => document.querySelector('.qv-products button').textContent == first", arg=str(expected[0])
    )
    assert list(map(int, told.all_inner_texts())) == expected


def test_schemes_beside_each_other_have_one_tensor_under_the_hand(alone):
    schemes = [STATE.scheme, qv.RECIPES["int8_per_tensor"], qv.Scheme("nf4", granularity=qv.Flat(8))]
    before = STATE.source.tensor().flatten().tolist()
    pages = [
        LivePage(Study.of(STATE.source.open(), each), str(each), STATE.cell, Looks("en"), panels=at == 0)
        for at, each in enumerate(schemes)
    ]
    page = alone(LivePages(tuple(pages), HOSTILE))
    frames = page.frames[1:]
    frames[1].locator("[data-handle=value]").press("ArrowRight")
    page.wait_for_function("() => location.hash.split('w%3D').length === 4")
    for frame, scheme in zip(frames, schemes, strict=True):
        assert frame.evaluate(VALUES) == frames[0].evaluate(VALUES) != before
        codes_agree(frame, scheme)
    again = loaded_anew(page)
    assert [each.evaluate(CODES) for each in again.frames[1:]] == [each.evaluate(CODES) for each in frames]


def test_the_worst_tensors_of_a_report_are_alive_in_it_each_by_itself(alone):
    results = [qv.quantize(torch.randn(6, 8), "int4_per_row") for _ in range(2)]
    pages = LivePages(tuple(LivePage.of(Study.of_result(each), HOSTILE, Looks("en")) for each in results))
    row = {"tensor": HOSTILE, "recipe": "int4_per_row", "status": "ok", "sqnr_db": 9.0}
    page = alone(Report(scan_html([row], pages.values(), title="x", language="en", links={})))
    assert page.evaluate("() => window.ran") is None
    drag(page.frames[1], "hi", -60)
    page.wait_for_function("() => location.hash.includes('manual_range')")
    (address,) = parse_qs(urlsplit(page.url).fragment)["0"]
    codes_agree(page.frames[1], qv.Scheme.parse(parse_qs(address)["s"][0]), (6, 8))
    assert page.frames[2].evaluate(CODES) == results[1].q.flatten().tolist()


def test_an_address_of_another_page_is_not_used(alone):
    page = alone(Study.of(STATE.source.open(), STATE.scheme), STATE.cell, panels=False)
    for wrong in (
        "s=int9",
        "s=int4,symmetric,per_tensor,manual_range(lo=1,hi=x),course",
        "c=9.9",
        "w=0.0=inf",
    ):
        page.evaluate("hash => (location.hash = hash)", wrong)
        page.wait_for_selector("#qv-lost:visible")
        codes_agree(page, STATE.scheme)


def test_the_pooled_picture_of_a_large_tensor_is_drawn(alone):
    study = Study.of_result(qv.quantize(torch.randn(200, 256), "int4_per_row"))
    page = alone(study, (0, 0))
    page.wait_for_function("() => quantvizPage.panels._fullData")
    assert {each["type"] for each in page.evaluate("quantvizPage.panels._fullData")} == {"image", "heatmap"}
    assert page.evaluate(CODES) == study.result.q.flatten().tolist()
