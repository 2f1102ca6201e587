"""What is dropped or pasted on a page that has no place for it goes where it is answered."""

import base64
import io

import numpy as np
import pytest

pytestmark = pytest.mark.browser


def test_a_model_dropped_beside_all_controls_is_scanned(new_page, url):
    page = new_page()
    page.goto(f"{url}/formats?lang=en")
    page.locator(".st-key-drop_anywhere input[type=file]").wait_for(state="attached")
    page.wait_for_function("window.__quantvizDrop")
    data = io.BytesIO()
    generator = np.random.default_rng(0)
    weights = {f"fc{k}.weight": generator.normal(size=(16, 24)).astype(np.float32) for k in (1, 2)}
    np.savez(data, **{"fc1.bias": np.zeros(16, np.float32)}, **weights)
    page.locator("h1").first.evaluate(
        """(title, bytes) => {
            const file = new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], "net.npz");
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(file);
            for (const name of ["dragenter", "dragover", "drop"])
                title.dispatchEvent(new DragEvent(name, { bubbles: true, cancelable: true, dataTransfer }));
        }""",
        base64.b64encode(data.getvalue()).decode(),
    )
    page.wait_for_url("**/checkpoints?**")
    page.locator(".st-key-checkpoints_worst_2").wait_for()
    page.locator(".qv-finding", has_text="The worst under int4 row").wait_for()
    page.locator(".st-key-checkpoints_worst_1 button").first.click()
    page.wait_for_url("**/lab?**")
    page.wait_for_function("/^fc[12].weight/.test(document.title)")
    # A drop is an action: Back leads to the page on which it was made, and does not leave the app.
    page.go_back()
    page.wait_for_url("**/checkpoints?**")
    page.go_back()
    page.wait_for_url("**/formats?**")


@pytest.mark.parametrize("way", ["type", "paste", "drop"])
def test_an_address_reaches_the_server_from_the_front_door(new_page, url, way):
    page = new_page()
    page.goto(f"{url}/?lang=en")
    page.locator(".st-key-drop_anywhere input[type=text]").wait_for(state="attached")
    page.wait_for_function("window.__quantvizDrop")
    if way == "type":
        page.get_by_placeholder("or paste a hub address").fill("https://hub.invalid/org/model")
        page.keyboard.press("Enter")
    else:
        bring_address(page, way)
    # No hub is listed, which the server says.
    page.locator("[data-testid=stAlert]").get_by_text("QUANTVIZ_HUBS").wait_for()


def bring_address(page, way):
    page.locator("h1").first.evaluate(
        """(title, way) => {
            const data = new DataTransfer();
            data.setData("text/plain", " org/model ");
            data.setData("text/uri-list", "https://hub.invalid/org/model");
            const init = { bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data };
            const Kind = way === "paste" ? ClipboardEvent : DragEvent;
            title.dispatchEvent(new Kind(way, init));
        }""",
        way,
    )


@pytest.mark.parametrize(
    "path", ["lessons?l=range_to_grid&p=3", pytest.param("teacher?", marks=pytest.mark.nightly)]
)
def test_a_thumb_finds_the_door_in_the_menu_of_a_page_without_one(new_page, url, tmp_path, path):
    page = new_page(390, 844, touch=True)
    page.goto(f"{url}/{path}&lang=en")
    menu = page.locator("[data-testid=stExpandSidebarButton]")
    menu.tap()
    # Who types an address takes longer than the scripts do, which this test would overtake.
    page.wait_for_function("window.__quantvizSidebar?.hears")
    address = page.locator(".st-key-drop_anywhere input[type=text]")
    address.tap()
    page.keyboard.insert_text("https://hub.invalid/org/model")
    page.keyboard.press("Enter")
    # The menu no longer lies over what the page says of it.
    said = page.locator("[data-testid=stAlert]").get_by_text("QUANTVIZ_HUBS")
    said.tap(trial=True)
    menu.tap()
    door = page.locator(".st-key-drop_anywhere [data-testid=stFileUploaderDropzone]")
    door.wait_for()
    assert door.bounding_box()["height"] >= 44
    np.save(tmp_path / "one.npy", np.eye(4, 8, dtype=np.float32))
    with page.expect_file_chooser() as chosen:
        door.tap()
    chosen.value.set_files(tmp_path / "one.npy")
    page.wait_for_url("**/lab?**")
    page.wait_for_function("document.title.includes('one')")
    page.locator(".st-key-stage_tab").tap(trial=True)
    menu.tap()
    page.locator("[data-testid=stSidebarNavLink]", has_text="Home").tap()
    page.locator(".st-key-home [data-testid=stFileUploaderDropzone]").tap(trial=True)
