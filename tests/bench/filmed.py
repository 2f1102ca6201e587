"""Fourteen changes in the Lab, frame by frame: what each frame shows, and what is missing in it.

    python -m tests.bench.filmed [--width 1366] [--slowed 1] [--only bits mode] [--film FOLDER]

Each change is one press in the opening example: bits, mode, granularity, the size of groups, format,
recipe, convention, calibration, undo, redo, another cell, a drag of the range by one move, another tab; and
the treatment of NaN in a tensor that has one. Below 600 px bits are changed by the bottom bar's slider, the
rest of the scheme on the sheet of all settings, and what the sidebar has in the sidebar, which lies over the
page. After each frame was painted, its panels' values, the numbers with their second lines, the sentence, the
frame of the selected cell, the ruler's comb, and the range and the note on NaN in words are read from what
was drawn; a sentence and a ruler that are dimmed until all of their tab is there are not shown yet. Prints
for each change the milliseconds from the press to the first frame that shows something else; the stages,
which are the different frames that follow, one where all changes at once; the frames without a picture, and
those in which a panel lacks its digits; and by how many pixels a part of the page moved up or down on the
way. Then each stage with its parts.

With `--film`, pictures of the browser's frames are saved in a folder for each change.
"""

import argparse
import base64
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from quantviz.lab.state import opening
from quantviz.sources.typed import Typed
from tests.bench.frames import opened
from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, IDLE, choice_of, chromium_of_benchmarks

#: A frame that was the same for so long ends a change.
STILL_MS = 2500
#: The width below which the Lab is a phone's, and the height of a laptop's window and of a phone's.
PHONE, HEIGHTS = 600, (625, 844)
#: The changes that a phone has on its sheet of all settings.
ON_SHEET = ("mode", "granularity", "size", "format", "recipe")
#: Those in the sidebar's expander of the range, and all that are in the sidebar.
IN_RANGE = ("calibration", "nan")
IN_SIDEBAR = (*IN_RANGE, "convention")
#: The values of a tensor for the change of NaN.
WITH_NAN = (*np.linspace(-1, 1, 63).round(3), np.nan)
#: Reads each frame, once it was painted, until nothing has changed for a while.
_RECORD = """
() => {
  const record = (window.__film = { frames: [], pressed: null, on: true });
  for (const kind of ["pointerdown", "pointermove", "keydown"])
    addEventListener(kind, (event) => {
      if (kind !== "pointermove" || event.buttons) record.pressed ??= event.timeStamp;
    }, { capture: true });
  const texts = (selector) => [...document.querySelectorAll(selector)].map((each) => each.innerText);
  // What an array holds, shortly.
  const sum = (values) => {
    let found = values.length;
    for (const value of values) found = (found * 31 + Math.round(value * 1e4)) | 0;
    return found;
  };
  let standing = "";
  // The values that the panels' colours show, and in how many panels cells have no digits.
  const panels = () => {
    const bridge = window.__quantviz.bridges.get("panels");
    const hand = window.__quantviz.hands.get("panels");
    const container = document.querySelector(".st-key-panels");
    const images = [...(container?.querySelectorAll(".heatmaplayer image, .imagelayer image") ?? [])];
    const { canvas } = hand?.painting ?? {};
    const painted = canvas?.isConnected && bridge.live;
    if (!painted && !images.length) return { picture: null, bare: 0 };
    // While another chart comes the old picture stands; its colours may come before its numbers.
    const { cells, meta } = bridge;
    if (!cells) {
      if (meta) standing = `colours of ${meta.stamp}`;
      return { picture: standing, bare: bareOf(container, null) };
    }
    const error = cells.error ?? cells.x_hat.map((value, at) => value - cells.x[at]);
    standing = [cells.q, cells.x_hat, error].map((values) => sum([...values])).join();
    return { picture: standing, bare: bareOf(container, painted && canvas) };
  };
  // The panels that are drawn without digits, by the ink in a cell of the canvas or by plotly's overlay.
  const bareOf = (container, canvas) => {
    const groups = [...container.querySelectorAll(".qv-overlay [data-panel]")];
    const inSight = (group) => getComputedStyle(group).visibility !== "hidden" && group.children.length;
    const seen = groups.filter(inSight);
    const { gd, meta, panel } = window.__quantviz.bridges.get("panels");
    const layout = gd?._fullLayout;
    const wanted = !meta ? [] : meta.arrangement === "single" ? [panel] : meta.panels;
    return wanted.filter((name) => {
      if (seen.some((group) => group.dataset.panel === name)) return false;
      if (!canvas || !layout) return true;
      const n = meta.panels.indexOf(name);
      const [x, y] = ["xaxis", "yaxis"].map((axis) => layout[n ? axis + (n + 1) : axis]);
      const sharp = window.devicePixelRatio;
      const box = [x._offset + x.l2p(-0.4), y._offset + y.l2p(-0.4), 0.8 * x.l2p(0.5), 0.8 * y.l2p(0.5)];
      const { data } = canvas.getContext("2d").getImageData(...box.map((each) => Math.round(each * sharp)));
      return new Set(new Uint32Array(data.buffer)).size < 3;
    }).length;
  };
  // A part that is dimmed until the other parts of its tab are there is not counted as shown.
  const brightly = {};
  const shownOf = (selector, made) => {
    const all = [...document.querySelectorAll(`${selector}, ${selector} [data-stale=true]`)];
    if (all.every((each) => getComputedStyle(each).opacity === "1")) brightly[selector] = made();
    return brightly[selector] ?? "dim";
  };
  const PARTS = { panels: ".st-key-panels", numbers: ".st-key-numbers", sentence: ".st-key-sentence",
    ruler: "[data-handle=hi]" };
  const look = () => {
    const { picture: comb } = window.__quantviz.hands.get("panels")?.ruler ?? {};
    const { picture, bare } = panels();
    const tops = Object.entries(PARTS).map(([name, selector]) => {
      const box = document.querySelector(selector)?.getBoundingClientRect();
      return [name, box?.height ? box.top + scrollY : null];
    });
    return {
      shown: {
        panels: picture,
        numbers: texts("[data-qv-metric], [data-qv-line], [data-qv-change]").join("|"),
        sentence: shownOf(".st-key-sentence", () => texts(".st-key-sentence p").join("|")),
        told: texts(".st-key-range_expander summary, .st-key-nonfinite_note").join("|"),
        frame: [...document.querySelectorAll(".st-key-panels .qv-mark")]
          .map((each) => `${each.getAttribute("x")} ${each.getAttribute("y")}`).join("|"),
        ruler: shownOf(".st-key-ruler", () => comb && [
          comb.levels && sum(comb.levels), comb.range?.lo, comb.range?.hi, comb.selected, Boolean(comb.curve),
        ].join(" ")),
      },
      bare,
      tops: Object.fromEntries(tops),
    };
  };
  const painted = new MessageChannel();
  let last = "";
  painted.port1.onmessage = () => {
    const frame = look();
    const key = JSON.stringify(frame);
    // Frames alike are counted with the first of them.
    if (key === last) record.frames.at(-1).frames++;
    else record.frames.push({ at: performance.now(), frames: 1, ...frame });
    last = key;
    if (record.on) requestAnimationFrame(() => painted.port2.postMessage(0));
  };
  painted.port2.postMessage(0);
}
"""


def press(selector: str, words: str | None = None) -> Callable[[Page], None]:
    """Return a press on the first visible element of a selector, which has these words."""

    def change(page: Page) -> None:
        found = page.locator(selector, has_text=words).filter(visible=True)
        # A tooltip may lie over it.
        found.first.click(force=True)

    return change


def option(key: str, words: str) -> Callable[[Page], None]:
    """Return a choice from a list, which is opened and scrolled to it before the film begins."""

    def opened_list(page: Page) -> None:
        choice_of(page, key, words)

    def change(page: Page) -> None:
        found = page.locator(f"[data-field={key}] option", has_text=words).first
        page.locator(f"[data-field={key}] select").first.select_option(value=found.get_attribute("value"))

    change.prepare = opened_list  # type: ignore[attr-defined]
    return change


def slide(page: Page) -> None:
    page.locator("[data-field=phone_bits] input").press("ArrowLeft")


def drag(page: Page) -> None:
    box = page.locator("[data-handle=hi]").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + 12
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 0.11 * page.evaluate("innerWidth"), y)
    page.wait_for_timeout(300)
    page.mouse.up()


def cell(page: Page) -> None:
    x, y = page.evaluate(
        """() => {
            const { gd } = window.__quantviz.bridges.get("panels");
            const { xaxis, yaxis } = gd._fullLayout;
            const { left, top } = gd.getBoundingClientRect();
            return [left + xaxis._offset + xaxis.l2p(5), top + yaxis._offset + yaxis.l2p(4)];
        }"""
    )
    page.mouse.click(x, y)


CHANGES: dict[str, Callable[[Page], None]] = {
    "bits": press("[data-field=bits] label", "3"),
    "mode": press("[data-field=mode] label", "asymmetric"),
    "granularity": press("[data-field=granularity] label:has([value=group])"),
    "size": option("group_size", "2"),
    "format": option("format", "FP8 E4M3"),
    "recipe": option("recipe", "int8"),
    "convention": option("convention", "AutoAWQ"),
    "calibration": option("calibration", "Percentile"),
    "undo": press("[data-field=undo] button"),
    "redo": press("[data-field=redo] button"),
    "cell": cell,
    "drag": drag,
    "tab": press(".st-key-stage_tab button", "Range"),
    "nan": press("[data-field=nonfinite] label", "as the engine"),
}


def show_sheet(page: Page, *, is_open: bool) -> None:
    """Open a phone's sheet of all settings, or close it."""
    sheet = page.locator(".st-key-scheme_sheet")
    if bool(sheet.count()) != is_open:
        page.locator(".st-key-all_settings label").click()
        sheet.wait_for(state="attached" if is_open else "detached")


def show_sidebar(page: Page, *, is_open: bool) -> None:
    """Open the sidebar over a phone's page, or close it."""
    if (page.locator("[data-testid=stExpandSidebarButton]").count() == 0) != is_open:
        way = "stExpandSidebarButton" if is_open else "stSidebarCollapseButton"
        page.locator(f"[data-testid={way}], [data-testid={way}] button").last.click(force=True)
        page.wait_for_timeout(600)


def filmed(page: Page, name: str, folder: Path | None) -> dict[str, Any]:
    """Make a change and return its frames; save pictures of them in a folder."""
    change = CHANGES[name]
    if page.evaluate("innerWidth") < PHONE:
        show_sidebar(page, is_open=name in IN_SIDEBAR)
        if name not in IN_SIDEBAR:
            show_sheet(page, is_open=name in ON_SHEET)
        change = slide if name == "bits" else change
    if name in IN_RANGE and not page.locator("[data-field=calibration]").is_visible():
        page.locator(".st-key-range_expander summary").click(force=True)
        page.wait_for_timeout(600)
    getattr(change, "prepare", lambda page: None)(page)
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(600)
    with pictures(page, folder):
        page.evaluate(_RECORD)
        page.wait_for_timeout(100)
        change(page)
        page.mouse.move(3, 3)
        page.wait_for_function(
            """(still) => {
                const { frames } = window.__film;
                return frames.length > 1 && performance.now() - frames.at(-1).at > still;
            }""",
            arg=STILL_MS,
            timeout=40_000,
        )
        page.wait_for_selector(IDLE)
        record: dict[str, Any] = page.evaluate("(window.__film.on = false, window.__film)")
    return record


@contextmanager
def pictures(page: Page, folder: Path | None) -> Iterator[None]:
    """Save a picture of each frame that the browser shows, named by its milliseconds."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    screen = page.context.new_cdp_session(page)
    began: list[float] = []

    def save(frame: dict[str, Any]) -> None:
        at = frame["metadata"]["timestamp"]
        began.append(at)
        path = folder / f"{round(1000 * (at - began[0])):06}.png"
        path.write_bytes(base64.b64decode(frame["data"]))
        screen.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    screen.on("Page.screencastFrame", save)
    screen.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})
    yield
    screen.send("Page.stopScreencast")
    screen.detach()


def told(name: str, record: dict[str, Any]) -> str:
    """Return what a change's frames say, in a line and a line for each of its stages."""
    frames = record["frames"]
    pressed = record["pressed"]
    stages = []
    for before, after in itertools.pairwise(frames):
        changed = [part for part, now in after["shown"].items() if now != before["shown"][part]]
        if changed:
            stages.append(f"{after['at'] - pressed:.0f} ms: {', '.join(changed)}")
    first = stages[0].partition(" ms")[0] if stages else "–"
    empty = sum(each["frames"] for each in frames if each["shown"]["panels"] is None)
    bare = sum(each["frames"] for each in frames if each["bare"])
    moved = {}
    for part in frames[0]["tops"]:
        tops = [each["tops"][part] for each in frames if each["tops"][part] is not None]
        moved[part] = max(tops, default=0) - min(tops, default=0)
    shift = max(moved, key=lambda part: moved[part])
    head = (
        f"{name:12} first {first:>5} ms, stages {len(stages)}, frames without a picture {empty}, "
        f"without digits {bare}, shift {moved[shift]:.0f} px" + (f" ({shift})" if moved[shift] >= 1 else "")
    )
    return "\n    ".join((head, *stages))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=1366)
    parser.add_argument("--slowed", type=float, default=1)
    parser.add_argument("--only", nargs="+", choices=list(CHANGES), default=list(CHANGES))
    parser.add_argument("--film", type=Path)
    args = parser.parse_args()
    with ExitStack() as stack:
        url = stack.enter_context(serving(ROOT / "app.py", cwd=ROOT))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium_of_benchmarks(), args=list(FLAGS)
        )
        clipped = opening().with_source(Typed(WITH_NAN, (8, 8)))
        clipped = clipped.replace(scheme=clipped.scheme.replace(nonfinite="clip"))
        for state, names in ((opening(), [*CHANGES][:-1]), (clipped, ["nan"])):
            if not {*names} & {*args.only}:
                continue
            page = opened(browser, url, state, args.width, HEIGHTS[args.width < PHONE])
            if args.slowed > 1:
                slow = page.context.new_cdp_session(page)
                slow.send("Emulation.setCPUThrottlingRate", {"rate": args.slowed})
            for name in (each for each in names if each in args.only):
                record = filmed(page, name, args.film and args.film / name)
                print(told(name, record), flush=True)
            page.close()


if __name__ == "__main__":
    main()
