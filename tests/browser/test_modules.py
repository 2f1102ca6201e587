"""The panels' modules, function by function: numbers, cells and geometry, in a blank page."""

import math
from dataclasses import asdict

import numpy as np
import pytest

from quantviz.browser import FOLDER, read_script
from quantviz.browser.packing import pack
from quantviz.figures.numbers import WRITING
from quantviz.schemes.names import SEPARATORS, contains

#: What the tests call of the panels' modules.
NAMES = (
    "Bridge, bitsOf, blockPlace, boxOf, cellAt, cellShown, errorOf, extentOf, findChart, "
    "inSight, leftOut, lostIn, onPointerUp, pixelAt, placeIn, rangesOf, readCells, readPacked, "
    "sharesOf, shownError, span, subjectOf, takeEarlyClick, turned, windowOf"
)
NAN, INF = math.nan, math.inf


@pytest.fixture(scope="module")
def blank(blank_with):
    return blank_with(f"{read_script('panels_bridge')}\nwindow.joined = {{ {NAMES} }};")


@pytest.fixture(scope="module")
def snapping(blank_with):
    names = "snapped, valueSnaps, endSnaps"
    return blank_with(f"{read_script('hand_component')}\nwindow.snapping = {{ {names} }};")


@pytest.fixture
def call(blank):
    """`call(name, *arguments)` calls a function of the joined script."""

    def call_function(name, *arguments):
        return blank.evaluate("([name, values]) => window.joined[name](...values)", [name, list(arguments)])

    return call_function


# The script of a page without a server begins at once, with what stands in the page: see `test_live_page`.
@pytest.mark.parametrize("name", sorted({path.stem for path in FOLDER.glob("*.js")} - {"alone"}))
def test_a_joined_script_is_javascript(blank_with, name):
    blank_with(read_script(name))


#: A picture of 2 by 3 pixels, each standing for 2 rows and 3 columns, from row 10 on.
PICTURE = {"row_edges": [10, 12, 14], "col_edges": [0, 3, 6, 9], "rows": 2, "cols": 3}


def pixel(at, i, j, top, left):
    return {"at": at, "i": i, "j": j, "top": top, "left": left, "rows": 2, "cols": 3}


PIXEL = pixel(4, 1, 1, 12, 3)
CELLS = {"told": ["x", "x_hat", "error"], "x": [1, 2, 3, 4], "x_hat": [1, 2.5, 3, 3]}
BY_ROW_AND_COLUMN = {
    "block_of_row": [0, 2],
    "block_of_col": [0, 1],
    "scale_of_row": [0, 1],
    "scale_of_col": [0, 1],
    "scale_cols": 2,
    "scale": [0.1, 0.2, 0.3, 0.4],
}
BY_CELL = {"block_of_cell": [5, 6, 7, 8], "scale": [0.1, 0.2, 0.3, 0.4]}
TOLD = {"told": ["x"], "cause": [0, 1, 2, 3], "code": [7, 6, 5, 4], "step": [1, 2, 4, 8]}
SECOND, THIRD, LAST = ({"at": 2 * i + j, "i": i, "j": j} for i, j in ((0, 1), (1, 0), (1, 1)))
WINDOW = {"top": 2, "left": 3, "rows": 4, "cols": 5}
RANGES = {"x": [2.5, 7.5], "y": [5.5, 1.5]}
#: 8 columns and 4 rows, 10 pixels each; another one of columns a pixel wide.
PANEL = {"left": 100, "top": 50, "width": 80, "height": 40, "x": [-0.5, 7.5], "y": [3.5, -0.5]}
NARROW = {**PANEL, "x": [-0.5, 79.5]}


def rectangle(*places):
    return dict(zip(("top", "left", "rows", "cols"), places, strict=True))


def box(*places):
    return dict(zip(("left", "top", "width", "height"), places, strict=True))


def place(*places):
    return dict(zip(("x", "y", "width", "height"), places, strict=True))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        # Places and bits as text.
        ("span", (3, 1), "3"),
        ("span", (3, 5), "3–7"),
        ("bitsOf", (0x7A, [1, 4, 3]), "0 1111 010"),
        ("bitsOf", (0x7A, [1, 5, 2]), "0 11110 10"),
        ("bitsOf", (5, [1, 2, 0]), "1 01"),
        ("blockPlace", (7, [2, 4]), "1, 3"),
        ("blockPlace", (3, [1, 4]), "3"),
        ("blockPlace", (3, [4, 1]), "3"),
        ("blockPlace", (0, [1, 1]), ""),
        # The pixel of a cell.
        ("pixelAt", (PICTURE, 10, 0), pixel(0, 0, 0, 10, 0)),
        ("pixelAt", (PICTURE, 12, 3), PIXEL),
        ("pixelAt", (PICTURE, 13, 5), PIXEL),
        ("pixelAt", (PICTURE, 13, 8), pixel(5, 1, 2, 12, 6)),
        *(("pixelAt", (PICTURE, *cell), None) for cell in ((9, 0), (14, 0), (10, -1), (10, 9))),
        # The cell that a pixel shows: of true cells, a mean, the largest value and the largest error.
        ("cellShown", (PICTURE, PIXEL, "x"), [12, 3]),
        ("cellShown", ({**PICTURE, "how": "mean"}, PIXEL, "x"), None),
        ("cellShown", ({**PICTURE, "how": "largest", "x_at": [0, 0, 0, 0, 4, 0]}, PIXEL, "x"), [13, 4]),
        (
            "cellShown",
            ({**PICTURE, "how": "largest", "x_at": [0] * 6, "error_at": [0, 0, 0, 0, 2, 0]}, PIXEL, "error"),
            [12, 5],
        ),
        # The numbers of a cell: its error taken or sent, parts hidden, blocks by row or by cell, and more.
        ("cellAt", (CELLS, SECOND), {"x": 2, "x_hat": 2.5, "error": 0.5}),
        ("cellAt", ({**CELLS, "error": [9, 8, 7, 6]}, SECOND), {"x": 2, "x_hat": 2.5, "error": 8}),
        ("cellAt", ({**CELLS, "told": ["x"]}, LAST), {"x": 4}),
        (
            "cellAt",
            ({**CELLS, **BY_ROW_AND_COLUMN}, THIRD),
            {"x": 3, "x_hat": 3, "error": 0, "block": 2, "scale": 0.3},
        ),
        ("cellAt", ({**CELLS, **BY_CELL}, LAST), {"x": 4, "x_hat": 3, "error": -1, "block": 8, "scale": 0.4}),
        ("cellAt", ({**CELLS, **TOLD}, THIRD), {"x": 3, "cause": 2, "code": 5, "step": 4}),
        # Ranges and windows.
        ("rangesOf", (WINDOW,), RANGES),
        ("windowOf", (RANGES, {"rows": 9, "cols": 9}), WINDOW),
        # Cells cut by the edge are in sight; what lies outside the matrix is not.
        ("windowOf", ({"x": [-3, 2.2], "y": [9, 0.9]}, {"rows": 4, "cols": 4}), rectangle(1, 0, 3, 3)),
        ("inSight", ([2.5, 7.5], 0, 20), [3, 7]),
        ("inSight", ([2.4, 7.6], 0, 20), [2, 8]),
        ("inSight", ([-9, 99], 4, 3), [4, 6]),
        # Twice as close about the middle; no further out than all of it; no closer than a cell; not past the
        # edge.
        ("turned", ([-0.5, 7.5], 0.5, 3.5, 0.5, 8), [1.5, 5.5]),
        ("turned", ([1.5, 5.5], 10, 3.5, 0.5, 8), [-0.5, 7.5]),
        ("turned", ([1.5, 2.5], 0.1, 2, 0.5, 8), [1.5, 2.5]),
        ("turned", ([-0.5, 3.5], 1, 6, 0, 8), [3.5, 7.5]),
        ("placeIn", (PANEL, {"across": 0.25, "down": 0.5}), {"col": 1.5, "row": 1.5}),
        ("sharesOf", (PANEL, 120, 70), {"across": 0.25, "down": 0.5}),
        # The rectangle of cells.
        ("boxOf", (PANEL, [1, 2], [2, 3]), place(120, 60, 10, 10)),
        ("boxOf", (PANEL, [-1, 2], [-1, 2]), place(100, 50, 20, 20)),
        ("boxOf", (PANEL, [4, 5], [0, 1]), None),
        ("boxOf", (PANEL, [0, 1], [8, 9]), None),
        # A pixel wide: still found.
        ("boxOf", (NARROW, [0, 1], [10, 11]), place(110, 50, 1, 10)),
        ("boxOf", (NARROW, [0, 1], [10, 11], 6), place(107.5, 50, 6, 10)),
    ],
)
def test_a_function_of_the_panels(call, name, arguments, expected):
    assert call(name, *arguments) == expected


@pytest.mark.parametrize(
    ("x_hat", "x", "error"),
    [
        (2.5, 2, 0.5),
        (0.3, 0.1, float(np.float32(0.3 - 0.1))),
        (1, NAN, NAN),
        (1, INF, NAN),
        (INF, 1, INF),
    ],
)
def test_an_error_is_float32_and_there_is_none_of_what_is_left_out(call, x_hat, x, error):
    assert call("errorOf", x_hat, x) == pytest.approx(error, abs=0, nan_ok=True)
    assert call("leftOut", {"x": x}) == (not math.isfinite(x))
    # Of 0 there is no share; a cell whose value is not known counts as quantized.
    assert math.isnan(call("shownError", {"error": 0.5, "x": 0}, {"signed": False, "over": "x"}))
    assert call("leftOut", {}) is False


#: Calls a reader of the joined script on a message that begins at an odd place of its buffer.
READ = """([name, bytes]) => {
    const plain = (it) =>
      ArrayBuffer.isView(it)
        ? [it.constructor.name, ...it]
        : it && typeof it === "object" && !Array.isArray(it)
          ? Object.fromEntries(Object.entries(it).map(([name, each]) => [name, plain(each)]))
          : it;
    return plain(window.joined[name](new Uint8Array([0, ...bytes]).subarray(1)));
}"""

#: What JavaScript calls an array of each type; 8-byte integers are sent as 4.
ARRAYS = {
    "f4": "Float32Array",
    "f8": "Float64Array",
    "i1": "Int8Array",
    "u1": "Uint8Array",
    "i2": "Int16Array",
    "u2": "Uint16Array",
    "i4": "Int32Array",
    "u4": "Uint32Array",
    "i8": "Int32Array",
    ">f8": "Float64Array",
}


@pytest.mark.parametrize("length", range(8))
def test_what_python_packs_is_read(blank, length):
    arrays = {f"all.{kind}": np.arange(length).astype(kind) for kind in ARRAYS}
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    header = {"word": "−" * length, "all": {"list": [1, None]}}
    packed = pack(header, {**arrays, "turned": turned})
    with pytest.raises(ValueError, match="same_value"):  # JavaScript has no such integers
        pack({}, {"x": np.int64([2**31])})
    assert blank.evaluate(READ, ["readPacked", list(packed)]) == {
        "word": "−" * length,
        "all": {"list": [1, None], **{kind: [name, *range(length)] for kind, name in ARRAYS.items()}},
        "turned": ["Float32Array", 0, 3, 1, 4, 2, 5],
    }
    assert header == {"word": "−" * length, "all": {"list": [1, None]}}, "it is left as it was"


def test_cells_are_read_with_their_edges(blank):
    header = {"chart": "c", "top": 2, "left": 5, "rows": 2, "cols": 3}
    packed = pack(header, {"x": np.float32([1, 2, -3, 4.5, 5, 6]), "code": np.uint8([250, 1, 2, 3, 4, 5])})
    assert blank.evaluate(READ, ["readCells", list(packed)]) == {
        **header,
        "row_edges": ["Int32Array", 2, 3, 4],
        "col_edges": ["Int32Array", 5, 6, 7, 8],
        "x": ["Float32Array", 1, 2, -3, 4.5, 5, 6],
        "code": ["Uint8Array", 250, 1, 2, 3, 4, 5],
    }


#: A click at a chart that is being drawn again, which comes as a matrix of 4 × 4 cells of 10 pixels.
EARLY_CLICK = """rows => {
    const sent = [], at = { clientX: 25, clientY: 15, isPrimary: true, pointerType: "mouse" };
    const box = { left: 0, top: 0, width: 40, height: 40 };
    const axis = { _offset: 0, _length: 40 };
    const meta = { panels: ["x"], open: ["x"], rows, cols: 4, window: { top: 0, left: 0, rows, cols: 4 } };
    const shown = { getBoundingClientRect: () => box };
    const bridge = {
        gd: null, cells: null, companions: [], container: shown, panel: "x", stop: new AbortController(),
        press: { x: 25, y: 15, at: 0, touch: false, under: null }, send: (name, cell) => sent.push(cell),
        extent: joined.extentOf({ meta: { ...meta, rows: 4, window: { ...meta.window, rows: 4 } } }),
        later: (name, wait, act) => name === "send" && act(),
    };
    joined.onPointerUp(bridge, { ...at, timeStamp: 1 });
    joined.takeEarlyClick(bridge);
    const early = sent.length;
    bridge.meta = meta;
    const _fullLayout = { meta, width: 40, height: 40, xaxis: { ...axis, range: [-0.5, 3.5] } };
    _fullLayout.yaxis = { ...axis, range: [rows - 0.5, -0.5] };
    bridge.gd = { _fullLayout, querySelector: () => shown };
    bridge.cells = { cols: 4, row_edges: [0, 1, 2, 3, 4].slice(0, rows + 1), col_edges: [0, 1, 2, 3, 4] };
    for (const _ of [1, 2]) joined.takeEarlyClick(bridge);
    return [early, sent];
}"""


@pytest.mark.parametrize(("rows", "cells"), [(4, [{"row": 1, "col": 2}]), (2, [])])
def test_a_click_while_a_chart_is_drawn_again_counts_once_it_is_drawn(blank, rows, cells):
    """It was lost, for the chart in sight was the old one. Another matrix has another cell there."""
    assert blank.evaluate(EARLY_CLICK, rows) == [0, cells]


#: A chart whose picture stays in sight while the next chart is drawn, and cells that a hand moved over it.
NEXT_CHART = """([before, after]) => {
    const box = document.body.appendChild(document.createElement("div"));
    box.className = "st-key-next_chart";
    const chart = (meta) => {
        const gd = box.appendChild(document.createElement("div"));
        gd.className = "js-plotly-plot";
        gd.innerHTML = "<div class=svg-container></div>";
        return Object.assign(gd, { _fullLayout: { meta } });
    };
    const bridge = new joined.Bridge("next_chart"), subject = joined.subjectOf(before);
    bridge.container = box;
    bridge.gd = chart(before);
    Object.assign(bridge, { subject, live: { subject }, place: { left: 0, top: 0, width: 9, height: 9 } });
    bridge.gd.remove();
    chart(after);
    joined.findChart(bridge);
    const seen = [Boolean(box.querySelector("[aria-hidden=true] > .svg-container"))];
    bridge.gd = box.querySelector(".js-plotly-plot");
    seen.push(bridge.cells === bridge.live);
    bridge.gd = null;
    bridge.close();
    box.remove();
    return seen;
}"""


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({}, [True, True]),
        ({"open": ["x"]}, [False, False]),
        ({"tensor": "of another step", "open": ["x"]}, [False, False]),
        ({"tensor": "of another step"}, [True, False]),
    ],
)
def test_no_old_number_is_seen_over_a_covered_panel(blank, change, seen):
    """Neither in the old picture nor under a hand; where all is open the old picture stays in sight."""
    before = {"tensor": "of a step", "panels": ["x", "x_hat"], "open": ["x", "x_hat"]}
    assert blank.evaluate(NEXT_CHART, [before, before | change]) == seen


@pytest.mark.parametrize(
    ("snap", "value", "snaps_to"),
    [
        (["teeth"], 2.08, 2),
        (["teeth"], 2.2, 2.2),  # ten pixels away
        (["teeth"], 2.5, 2.5),
        (["midpoints"], 2.45, 2.5),
        (["midpoints"], 2.08, 2.08),
        (["zero"], -0.05, 0),
        (["zero"], 0.99, 0.99),
        ([], 2.0001, 2.0001),
    ],
)
def test_a_knob_snaps_to_what_a_question_is_about(snapping, snap, value, snaps_to):
    """A finger did not hit 0, a tooth or the middle between two: a pixel of a phone is many steps wide."""
    assert snapped(snapping, snap, value, [-1, 1, 2, 3], 50) == snaps_to
    # An end of the range has no teeth to snap to, but 0.
    end = snapping.evaluate("snap => snapping.snapped(0.05, snapping.endSnaps({ snap }), 50)", snap)
    assert end == (0 if "zero" in snap else 0.05)


def snapped(page, snap, value, levels, scale):
    return page.evaluate(
        "([snap, value, levels, scale]) => snapping.snapped(value, snapping.valueSnaps("
        "{ snap, levels: Float64Array.from(levels) }), scale)",
        [snap, value, levels, scale],
    )


@pytest.mark.parametrize(("away", "snaps_to"), [(3.9, 0.5), (4.1, None)])
def test_a_knob_snaps_from_as_far_as_a_finger_misses(snapping, away, snaps_to):
    """Of teeth 12 pixels apart, three in ten of the way to the next middle is less than a finger."""
    value = 0.5 + away / 12
    got = snapped(snapping, ["midpoints"], value, [-1, 0, 1, 2], 12)
    assert got == (value if snaps_to is None else snaps_to)


@pytest.mark.parametrize(
    ("width", "frames"), [(40, [[-0.35, -0.35]]), (6, [])], ids=["of 20 pixels", "too small to see"]
)
def test_what_became_0_has_an_empty_frame(call, width, frames):
    """As the bars of the front door have it; what was 0 before is not lost."""
    panel = {**box(0, 0, width, width / 2), "x": [-0.5, 1.5], "y": [0.5, -0.5]}
    cells = {**rectangle(0, 0, 1, 2), "row_edges": [0, 1], "col_edges": [0, 1, 2]}
    assert call("lostIn", panel, {**cells, "x": [0.2, 0], "x_hat": [0, 0]}) == frames


def test_what_is_typed_is_spelled_as_names_are(blank_with):
    page = blank_with(
        f"{read_script('page/typed_names')}\nObject.assign(window, {{ spelledAsNamed, SEPARATORS }});"
    )
    names = ["Core ML linear", "compressed-tensors (llm-compressor)", "TensorRT", "GGUF Q4_0", "AIMET (QNN)"]
    names += ["GGUF (llama.cpp)", "bitsandbytes (LLM.int8())"]
    spelled = {
        "core-ml": "Core ML",
        "llm compressor": "llm-compressor",
        "LLMcompressor": "llm-compressor",
        "TENSOR_RT": "TensorRT",
        "gguf q4_0": "gguf q4_0",
        "AIMET / QNN": "AIMET (QNN",
        "llama cpp": "llama.cpp",
        "llm int8": "LLM.int8",
        "wholly other": "wholly other",
        "-": "-",
        "": "",
    }
    assert page.evaluate("window.SEPARATORS") == SEPARATORS
    for typed, meant in spelled.items():
        got = page.evaluate("given => window.spelledAsNamed(...given)", [typed, names])
        assert got == meant
        # A browser then offers the names that Python finds.
        offered = [name for name in names if got.casefold() in name.casefold()]
        assert offered == ([name for name in names if contains(name, typed)] if typed != "-" else names[1:2])


def test_the_key_of_undo_is_heard_while_the_page_has_not_heard_of_the_step(blank_with):
    page = blank_with((FOLDER / "history.js").read_text("utf-8"))
    page.evaluate(
        """() => {
            document.body.innerHTML = "<div data-field=undo><button disabled></button></div><input>";
            document.querySelector("button").addEventListener("click", () => (window.pressed = true));
        }"""
    )
    page.locator("input").press("Control+z")
    assert not page.evaluate("window.pressed")
    page.locator("input").blur()
    page.keyboard.press("Control+z")
    assert page.evaluate("window.pressed")


def test_a_slider_that_came_back_to_where_it_began_is_let_go(blank_with):
    """No browser says that it changed: what the server answers then would wait for ever."""
    page = blank_with(f"{read_script('layer_hand_component')}\nwindow.Knobs = Knobs;")
    page.evaluate(
        """(writing) => {
            document.body.innerHTML = "<div style='width: 400px'></div>";
            window.said = [];
            const said = (name) => (...values) => window.said.push([name, ...values].join(" "));
            const moves = { move: said("move"), release: said("release"), cancel: said("cancel") };
            const knobs = new Knobs(document.querySelector("div"), moves);
            knobs.show([{ name: "weight", words: "w", value: 0, least: -1, most: 1 }], {}, writing);
        }""",
        asdict(WRITING),
    )
    box = page.locator("input").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for away in (50, 0):
        page.mouse.move(x + away, y)
    page.mouse.up()
    assert page.evaluate("said") == ["move weight 0.263", "move weight 0", "release"]


def test_a_cell_that_keys_have_left_is_not_gone_back_to(blank_with):
    """An answer to a key before the last one moves nothing back, or the next key would go on from there."""
    page = blank_with(f"{read_script('gallery_component')}\nwindow.Board = Board;")
    scale = {"ramp": ["#000000", "#777777", "#ffffff"], "stops": [0, 0.5, 1], "lo": 0, "hi": 1}
    names = ("x", "q", "x_hat", "error")
    data = {
        "shape": [1, 8],
        "cell": [0, 0],
        "at": 0,
        "board": [1],
        "handle": None,
        "x": [0] * 8,
        "rows": [{"name": "broken", "title": "", "told": [], "q": [0] * 8, "x_hat": [0] * 8}],
        "titles": dict.fromkeys(names, ""),
        "scales": {name: [scale, scale] for name in names},
        "styles": {name: [{"decimals": 0, "zero": True, "power": False}] for name in names},
        "writing": asdict(WRITING),
        "enlarge": 1,
        "colors": {},
    }
    page.evaluate(
        """(data) => {
            data.x = Float32Array.from(data.x);
            for (const row of data.rows)
                for (const name of ["q", "x_hat"]) row[name] = Float32Array.from(row[name]);
            window.said = [];
            const board = new Board(document.body);
            window.answer = (col) =>
                board.update({ ...data, cell: [0, col] }, (_, { col }) => said.push(col));
            answer(0);
        }""",
        data,
    )
    table = page.locator("table").first
    table.press("ArrowRight")
    page.wait_for_function("said.length === 1")
    table.press("ArrowRight")
    page.evaluate("answer(1)")
    table.press("ArrowRight")
    page.wait_for_function("said.length === 2")
    assert page.evaluate("said") == [1, 3]
    # Answered, the cell is the server's again, as where a step is undone.
    page.evaluate("[3, 1].forEach(answer)")
    assert page.locator("table").first.locator("td").nth(1).evaluate("cell => cell.className") == "qv-marked"


def test_a_wall_that_was_left_leads_nowhere_and_leaves_the_page_as_large_as_it_was(blank_with):
    page = blank_with(f"{read_script('wall_component')}\nwindow.Wall = Wall;")
    got = page.evaluate(
        """async () => {
            document.body.innerHTML = `<script type="module" src="http://app.invalid/a/b/c.js"></script>
                <div data-testid="stMain" style="height: 100px"><div data-testid="stMainBlockContainer"
                style="height: 200px"></div></div>`;
            const { style } = document.querySelector("[data-testid=stMainBlockContainer]");
            const [said, asked] = [[], []];
            window.fetch = () => new Promise((answer) => asked.push(answer));
            const wall = new Wall(document.body);
            const data = { code: "ABCD", version: 1, stop: 0, words: {}, language: "en", source: "" };
            wall.update(data, (...message) => said.push(message));
            const before = style.transform;
            for (const left of [false, true]) {
                const look = wall.look();
                if (left) wall.close();
                asked.pop()(Response.json({ stop: 0, version: left ? 3 : 2 }));
                await look;
            }
            return [before, style.transform, said];
        }"""
    )
    assert got == ["scale(0.5)", "", [["moved", 2]]]
