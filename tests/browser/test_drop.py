"""What is dropped or pasted on a page that has no place for it goes where it is answered."""

import base64
import io

import numpy as np
import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.browser


def test_a_model_dropped_beside_all_controls_is_scanned(new_page, serve):
    page = new_page()
    page.goto(f"{serve(ROOT / 'app.py')}/formats?lang=en")
    page.locator("h1").first.wait_for()
    page.locator(".st-key-drop_anywhere input[type=file]").wait_for(state="attached")
    data = io.BytesIO()
    generator = np.random.default_rng(0)
    weights = {f"fc{k}.weight": generator.normal(size=(16, 24)).astype(np.float32) for k in (1, 2)}
    np.savez(data, **{"fc1.bias": np.zeros(16, np.float32)}, **weights)
    page.evaluate(
        """(bytes) => {
            const file = new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], "net.npz");
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(file);
            const title = document.querySelector("h1");
            for (const name of ["dragenter", "dragover", "drop"])
                title.dispatchEvent(new DragEvent(name, { bubbles: true, cancelable: true, dataTransfer }));
        }""",
        base64.b64encode(data.getvalue()).decode(),
    )
    page.wait_for_url("**/checkpoints?**")
    page.locator(".st-key-checkpoints_worst_2").wait_for()
    assert "The worst under int4 row" in page.locator(".qv-finding").inner_text()
    page.locator(".st-key-checkpoints_worst_1 button").first.click()
    page.wait_for_url("**/lab?**")
    page.wait_for_function("/^fc[12].weight/.test(document.title)")
    # A drop is an action: Back leads to the page on which it was made, and does not leave the app.
    page.go_back()
    page.wait_for_url("**/checkpoints?**")
    page.go_back()
    page.wait_for_url("**/formats?**")


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_an_address_reaches_the_server_from_the_front_door(new_page, serve, way):
    page = new_page()
    page.goto(f"{serve(ROOT / 'app.py')}/?lang=en")
    page.locator(".st-key-drop_anywhere input[type=text]").wait_for(state="attached")
    page.wait_for_function("window.__quantvizDrop && document.querySelector('h1')")
    page.evaluate(
        """(way) => {
            const data = new DataTransfer();
            data.setData("text/plain", " org/model ");
            data.setData("text/uri-list", "https://hub.invalid/org/model");
            const init = { bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data };
            const Kind = way === "paste" ? ClipboardEvent : DragEvent;
            document.querySelector("h1").dispatchEvent(new Kind(way, init));
        }""",
        way,
    )
    # No hub is listed, which the server says.
    page.locator("[data-testid=stAlert]").get_by_text("QUANTVIZ_HUBS").wait_for()
