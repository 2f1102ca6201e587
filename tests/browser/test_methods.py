"""Every method's sliders in a real browser, by mouse, touch and keys: the page's numbers are the core's."""

import re
from functools import cache
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

import quantviz as qv
from quantviz.figures.numbers import short_number
from quantviz.layers.built_in import BuiltInLayer
from quantviz.layers.methods.chain import METHODS, as_chain
from quantviz.layers.methods.every_rounding import every_rounding
from quantviz.ui.layers.words import percent, share_of
from tests.helpers.browser import fingers, mouse, wait_idle, wait_until

#: The layer and the schemes of weights and inputs on which a method is walked.
USUAL = ("loud_input", "int4_per_row", "int8_per_tensor")
LAYERS = {
    "gptq": ("loud_weight", "int4_per_row", "none"),
    "awq": ("loud_weight", "int4_per_row", "none"),
    "low_rank": ("minilm_4_value", "int4_per_row", "none"),
    "rotation": ("minilm_4_value", "int4_per_row", "none"),
    "adaround": ("minilm_4_value", "int4_per_row", "none"),
    "brecq": ("minilm_4_value", "int4_per_row", "none"),
    "signround": ("minilm_4_value", "int4_per_row", "none"),
    "double_quantization": ("minilm_4_value", "nf4_64", "none"),
    "four_over_six": ("minilm_4_value", "nvfp4", "none"),
}
#: Methods without a parameter that a hand moves.
STILL = {"equalization", "higgs", "kmeans", "awq_clip", "svdquant", "loftq", "spinquant"} | {
    "learned_scales",
    "learned_clips",
    "stored",
}
TAB = ".st-key-layers_tab_method"
#: Where a slider is at a stop: its track's left end and width, less half of a handle that stays inside.
TRACK = """(input) => {
    const box = input.getBoundingClientRect();
    return [box.x + 10, box.width - 20, box.y + box.height / 2];
}"""
#: What is written in the tab, in words that stand apart.
WRITTEN = """(tab) => {
    const roots = [tab, ...[...tab.querySelectorAll("*")].map((each) => each.shadowRoot).filter(Boolean)];
    const parts = roots.flatMap((root) => [...root.querySelectorAll("p, label, figcaption, svg text")]);
    return parts.map((each) => each.textContent.replaceAll("\\u00a0", " ")).join(" | ");
}"""


def of_smoothquant(result, trace, _):
    def peak(values):
        return short_number(float(values.max() / values.median()))

    return peak(trace.x_max / trace.scales), peak(trace.w_max * trace.scales)


def of_rotation(result, trace, _):
    return tuple(
        f"kurtosis {short_number(before.kurtosis)} → {short_number(now.kurtosis)}, "
        f"largest {short_number(before.peak)} → {short_number(now.peak)} × rms"
        for before, now in (trace.weights, trace.inputs)
    )


def of_low_rank(result, trace, _):
    squares = (trace.of_error.square(), trace.of_weighted.square())
    return tuple(percent(float(each[trace.rank :].sum() / each.sum())) for each in squares)


def of_bias(result, trace, at):
    numbers = (trace.mean, trace.squares, trace.left)
    return (f"Output {at}: ", *(short_number(float(each[int(at)])) for each in numbers))


def of_block(result, trace, at):
    ends = (result, layer_of("four_over_six", "nearest"))
    errors = [each.weights.study.result.error.double().square().reshape(-1, 16) for each in ends]
    return tuple(f"squared error {short_number(float(each[int(at)].sum()))}" for each in errors)


def of_rounding(result, trace, at):
    found = every_rounding(result, result.cells().error.abs().argmax() % result.shape[2], int(at))
    words = f"{found.better} of {len(found.errors)} roundings are better"
    return (words, f"{short_number(found.times)} times less") if found.better else ("is the best of",)


def of_scales(result, trace, _):
    most = ((trace.after - trace.before).abs() / trace.before.abs()).max()
    return f"{short_number(result.effective_bits)} bits", f"by more than {share_of(float(most))}"


def of_sweep(result, trace, at):
    errors = (trace.output_errors, trace.nearest_output_errors)
    return tuple(f"{short_number(100 * float(each[int(at)].float()))} %" for each in errors)


#: Whether a slider has pictures of its own, which answer before the server does.
OWN = "(input) => Boolean(input.closest('.qv-track'))"
#: The numbers that a method's sliders show, from the layer, the method's trace and the stop in words.
NUMBERS = {
    "gptq": of_sweep,
    "smoothquant": of_smoothquant,
    "awq": lambda result, trace, at: (f"r = {float(at):g} leaves {percent(result.rel_out.used)}",),
    "rotation": of_rotation,
    "low_rank": of_low_rank,
    "llm_int8": lambda result, trace, at: (
        f"{int(trace.kept.sum())} of {len(trace.kept)} input channels reach {at} ",
        f"{short_number(result.effective_bits)} bits",
    ),
    "double_quantization": of_scales,
    "bias_correction": of_bias,
    "four_over_six": of_block,
    "adaround": of_rounding,
    "brecq": of_rounding,
    "signround": of_rounding,
}


def layer_of(method, chain):
    name, weights, inputs = LAYERS.get(method, USUAL)
    layer = BuiltInLayer(name).open()
    given = None if inputs == "none" else inputs
    return qv.layer(layer.weight, layer.inputs, weights, given, layer.bias, method=as_chain(chain))


def expected(page, method, slider):
    """The numbers of the core at the slider's stop, by the chain in the address."""
    chain = parse_qs(urlsplit(page.url).query)["m"][0]
    at = slider.get_attribute("aria-valuetext")
    return numbers_of(
        method, chain, slider.input_value() if method == "gptq" else at.split(". ")[0].split(",")[0]
    )


@cache
def numbers_of(method, chain, at):
    result = layer_of(method, chain)
    return (percent(result.rel_out.held_back), *NUMBERS[method](result, result.trace[method], at))


def shows(written, numbers):
    return all(re.search(rf"(?<![\d.−]){re.escape(each)}(?!\d)", written) for each in numbers)


def at_place(slider, stop):
    left, width, y = slider.evaluate(TRACK)
    return left + width * stop / int(slider.get_attribute("max")), y


def drag(slider, act, stop):
    """Drag a slider's handle to a stop, and return what is written before it is let go."""
    now = int(slider.input_value())
    act("start", *at_place(slider, now))
    for share in (0.4, 0.8, 1.0):
        act("move", *at_place(slider, now + share * (stop - now)))
    expect(slider).to_have_value(str(stop))
    live = slider.page.locator(TAB).evaluate(WRITTEN)
    act("end", *at_place(slider, stop))
    return live


def by_keys(slider, stop):
    steps = stop - int(slider.input_value())
    slider.focus()
    for _ in range(abs(steps)):
        slider.press("ArrowRight" if steps > 0 else "ArrowLeft")
        # As a key that is held: the server answers in between.
        slider.page.wait_for_timeout(40)
    expect(slider).to_have_value(str(stop))
    return slider.page.locator(TAB).evaluate(WRITTEN)


def other_stop(slider):
    now, last = int(slider.input_value()), int(slider.get_attribute("max"))
    return max(now - 3, 0) if now else min(3, last)


def move(page, method, slider, how, stop):
    """Move a slider, and return the core's numbers, which the page has when it is let go."""
    slider.evaluate("(input) => input.scrollIntoView({ block: 'center' })")
    wait_idle(page)
    acts = {"mouse": mouse, "touch": fingers}
    live = drag(slider, acts[how](page), stop) if how in acts else by_keys(slider, stop)
    wait_idle(page)
    expect(slider).to_have_value(str(stop))
    # The address may come a moment after the picture.
    wait_until(page, lambda: shows(page.locator(TAB).evaluate(WRITTEN), expected(page, method, slider)))
    numbers = expected(page, method, slider)
    own = slider.evaluate(OWN)
    # One with pictures has them while it moves, but for the error of the layer, which the server computes.
    assert not own or shows(live, numbers[1:]), (how, stop, numbers, live)
    return numbers


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_a_methods_sliders_show_the_cores_numbers_by_mouse_touch_and_keys(new_page, url, method):
    page = new_page(820, 1180, touch=True)
    name, weights, inputs = LAYERS.get(method, USUAL)
    page.goto(f"{url}/layers?l=builtin(name={name})&w={weights}&a={inputs}&m={method}&lang=en")
    page.locator(TAB).get_by_role("button", name="Rank all methods").wait_for()
    wait_idle(page)
    knobs = page.locator("[data-field=layers_rotation_knob] [role=radiogroup] label")
    walked = 0
    for knob in range(max(1, knobs.count())):
        if knob:
            knobs.nth(knob).click()
            page.get_by_role("slider", name=re.compile(f"^{knobs.nth(knob).inner_text()}")).wait_for()
            wait_idle(page)
        # A slider with one stop is not shown.
        for slider in page.locator(f"{TAB} input[type=range]:visible").all():
            first = int(slider.input_value())
            there = other_stop(slider)
            for how in ("mouse", "touch", "keys"):
                moved = move(page, method, slider, how, there)
                back = move(page, method, slider, how, first)
                assert moved[1:] != back[1:]
            walked += 1
    assert bool(walked) == (method not in STILL)
