"""The widget of a notebook in a browser: the kernel and its page hear of each other."""

import base64

import pytest
import torch

import quantviz as qv
from quantviz.browser import read_script
from tests.helpers.browser import wait_until

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(4))
#: A front end with one view of a model, whose kernel answers through `toKernel`.
HOST = """async source => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const widget = (await import(url)).default();
  const heard = [];
  const model = {
    on: (_, hear) => heard.push(hear),
    off: () => {},
    send: async (content) => {
      const read = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt());
      for (const [said, texts] of await toKernel(content))
        for (const hear of heard) hear(said, texts.map(read));
    },
  };
  window.leave = widget.render({ model, el: document.body });
}"""


@pytest.fixture
def shown(new_context):
    """`shown(widget)` shows a widget in a page without a network, and gives the frame of its view."""
    context = new_context(viewport={"width": 900, "height": 900}, offline=True)
    wrong = []

    def show(widget):
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        said = []
        widget.send = lambda content, buffers=(): said.append(
            [content, [base64.b64encode(each).decode() for each in buffers]]
        )

        def to_kernel(content):
            widget._hear(widget, content, [])
            return [said.pop(0) for _ in range(len(said))]

        page.expose_function("toKernel", to_kernel)
        page.evaluate(HOST, read_script("notebook"))
        page.wait_for_function("() => document.querySelector('iframe').clientHeight > 300")
        return page.frames[-1]

    yield show
    context.close()
    assert wrong == []


def test_what_a_hand_chooses_comes_back_to_the_kernel(shown):
    widget = qv.show(X, "int4_per_row")
    frame = shown(widget)
    before = widget.result
    frame.locator("[data-handle=value]").press("ArrowRight")
    frame.wait_for_function("() => !document.querySelector('#qv-reset').disabled")
    frame.locator("[data-handle=bits]").press("ArrowRight")
    frame.wait_for_function("() => document.querySelector('#qv-scheme').textContent.startsWith('int5')")
    box = frame.locator("#qv-panels .nsewdrag").first.bounding_box()
    frame.page.mouse.click(box["x"] + box["width"] * 2.5 / 8, box["y"] + box["height"] * 3.5 / 6)
    frame.wait_for_function("() => document.querySelector('.qv-sentence').textContent.includes('(3, 2)')")
    wait_until(frame.page, lambda: widget.cell == (3, 2))
    assert widget.scheme == str(qv.RECIPES["int4_per_row"]).replace("int4", "int5")
    assert int((widget.result.x != before.x).sum()) == 1
    codes = frame.evaluate("() => Array.from(quantvizPage.hand.shown.q)")
    assert widget.result.q.flatten().tolist() == codes
    # The frame's page can reach nothing of the notebook.
    assert frame.evaluate("() => { try { return parent.document } catch { return 'no' } }") == "no"
