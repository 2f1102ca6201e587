"""A scheme's arithmetic written as JavaScript, run in Chromium beside the reference: the same bits."""

import base64
import itertools
import json

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.browser import FOLDER, join_modules, read_script
from quantviz.compiled.javascript import layout_spec, packed_together, write_metrics, write_program
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element
from quantviz.evaluation.moments import Moments
from quantviz.quantization.cells import dequantize_with
from quantviz.quantization.result import block_values
from quantviz.tensors import blocks
from tests.helpers.golden_codes import golden_schemes
from tests.helpers.offered import of_today
from tests.helpers.walked import TENSORS, normal, thinned

#: Where a search finds the range, the browser is handed what was found: it has no search of its own.
SEARCHED = ("mse",)
#: What a scheme's code may weigh beyond the fixed runtime, in bytes.
MOST = 20_000
#: Values that rounding is easily wrong at, beside those of the walk.
HARD = {
    "signed_zeros": torch.tensor([0.0, -0.0, 1.0, -1.0, -0.0, 0.0, 0.5, -0.5]).repeat(4, 32),
    "halves": torch.cat([torch.arange(-256.0, 256).reshape(2, 256) / 2, normal(2, 256).round() / 2]),
    "beside_halves": torch.nextafter(torch.arange(-512.0, 512).reshape(4, 256) / 2, torch.tensor(0.0)),
    "every_size": (2.0 ** torch.linspace(-149, 127, 1024)).reshape(4, 256) * normal(4, 256).sign(),
    "huge": normal(4, 256).clamp(-1, 1) * 3e38,
}
#: What the tests call: `run` quantizes each case and gives its arrays as bytes, `rest` what has no bits to
#: compare.
SCRIPT = """
window.api = arithmetic();
const text = bytes => {
  let made = "";
  for (let i = 0; i < bytes.length; i += 32768) made += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(made);
};
const coded = array => text(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
window.floats = coded => new Float32Array(Uint8Array.from(atob(coded), c => c.charCodeAt(0)).buffer);
window.run = ({programs, layouts, tensors, cases}) => {
  const made = api.unpacked(programs).map(api.makeArithmetic);
  const laid = layouts.map(api.makeLayout);
  const values = tensors.map(floats);
  return cases.map(([program, layout, tensor, calibration]) => {
    const r = api.quantizeTensor(made[program], values[tensor], laid[layout], {calibration});
    if (r.refused) return {refused: r.refused};
    const levels = api.levelsOf(made[program], api.paramsOf(r, r.blocks.count - 1));
    const {lo, hi, scale, zero_point} = r.blocks;
    return {
      arrays: [Int32Array.from(r.q), r.x_hat, r.error, r.clipped, r.step, lo, hi, scale, zero_point].map(coded),
      levels: levels && [levels.codes, levels.values].map(coded),
    };
  });
};
"""
LOAD = "source => import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' }))).then(() => 0)"
KINDS = (np.int32, np.float32, np.float32, np.uint8, np.float64, *(np.float64,) * 4)
PARTS = ("q", "x_hat", "error", "clipped", "step", "lo", "hi", "scale", "zero_point")


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page()
    page.goto("about:blank")
    page.evaluate(LOAD, read_script("arithmetic").replace("export default ", "") + SCRIPT)
    yield page
    page.close()


def coded(x):
    return base64.b64encode(x.contiguous().numpy().tobytes()).decode()


def decoded(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def same(got, expected):
    """Whether two arrays have the same bits; NaN is NaN."""
    return got.size == expected.size and not unlike(got, expected).any()


def unlike(got, expected):
    """Where two arrays differ."""
    got, expected = np.ascontiguousarray(got).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    bits = f"u{got.itemsize}"
    return (got.view(bits) != expected.view(bits)) & ~((got != got) & (expected != expected))


def answer(x, scheme):
    """What the reference says: its result, or the error."""
    try:
        return qv.quantize(x, scheme)
    except qv.QuantVizError as error:
        return error


def arrays_of(r):
    ends = (r.range.lo, r.range.hi) if r.range else (torch.full(r.layout.grid_shape, torch.nan),) * 2
    of_cells = (r.q, r.x_hat, r.error, r.clipped, r.step_of_cells().expand(r.shape))
    of_blocks = (*ends, r.qparams.scale, r.qparams.zero_point)
    return [
        values.contiguous().numpy().astype(kind)
        for values, kind in zip((*of_cells, *of_blocks), KINDS, strict=True)
    ]


def handed(scheme, r):
    """The ranges that a search found."""
    if scheme.calibration.id not in SEARCHED or not isinstance(r, qv.QuantResult):
        return None
    return {"id": "ranges", **{name: getattr(r.range, name).flatten().tolist() for name in ("lo", "hi")}}


def compare(page, cases):
    """Run (scheme, name of tensor, tensor) in the browser and by the reference; return what differs."""
    schemes, tensors, layouts = [], {}, []
    known, asked, expected = {}, [], []
    for scheme, name, x in cases:
        r = answer(x, scheme)
        program = known.setdefault(scheme, len(known))
        if program == len(schemes):
            schemes.append(scheme)
        layout = layout_spec(scheme.layout(tuple(x.shape)), tuple(x.shape))
        if layout not in layouts:
            layouts.append(layout)
        place = tensors.setdefault(name, (len(tensors), x))[0]
        asked.append([program, layouts.index(layout), place, handed(scheme, r)])
        expected.append((f"{name} {scheme}", r, scheme))
    programs = packed_together(map(write_program, schemes))
    assert max(len(text.encode()) for text in programs["texts"]) <= MOST
    # Infinity has no JSON.
    json.dumps(programs, allow_nan=False)
    made = page.evaluate(
        "given => run(given)",
        {
            "programs": programs,
            "layouts": layouts,
            "tensors": [coded(x) for _, x in tensors.values()],
            "cases": asked,
        },
    )
    return [fault for got, each in zip(made, expected, strict=True) if (fault := difference(got, *each))]


def difference(got, where, r, scheme):
    if isinstance(r, qv.QuantVizError):
        key = "" if got.get("refused") is None else got["refused"]["key"]
        wanted = "range_is_searched" if scheme.calibration.id in SEARCHED else r.key
        return "" if key == wanted else f"{where}: {r.key} is refused, here {key or 'nothing'}"
    if got.get("refused"):
        return f"{where}: refused {got['refused']}"
    for part, kind, text, expected in zip(PARTS, KINDS, got["arrays"], arrays_of(r), strict=True):
        made = decoded(text, kind)
        if not same(made, expected):
            at = int(np.flatnonzero(unlike(made, expected))[0])
            return f"{where}: {part} [{at}] {made[at]!r}, not {expected.reshape(-1)[at]!r}"
    if got["levels"]:
        codes, values = (decoded(text, np.float64) for text in got["levels"])
        known = {name: grid.flatten()[-1:] for name, grid in block_values(r.qparams).items()}
        q = torch.from_numpy(codes.copy()).to(r.q.dtype)
        if not same(values.astype(np.float32), dequantize_with(q, scheme, known).numpy()):
            return f"{where}: the values of codes"
        if not (np.diff(values) >= 0).all():
            return f"{where}: values are not in their order"
    return ""


def test_all_that_is_offered_has_the_bits_of_the_reference(page):
    walked = list(itertools.product(of_today(golden_schemes(), 30), {**TENSORS, **HARD}.items()))
    walked += list(itertools.product(of_today(calibrated_schemes(), 15), {**TENSORS, **HARD}.items()))
    fitting = [(scheme, *named) for scheme, named in walked if not scheme.problems(tuple(named[1].shape))]
    faults = []
    for i in range(0, len(fitting), 200):
        faults += compare(page, fitting[i : i + 200])
    assert not faults, (len(faults), faults[:40])


def calibrated_schemes():
    """Every convention, format and mode, each with ranges found in other ways."""
    own = (qv.Percentile(90.0), qv.AbsMean(), qv.ManualRange(-1.0, 1.5), qv.Given(0.125, 1), qv.Given(0.125))
    for convention in qv.CONVENTIONS.values():
        for scheme in thinned(convention):
            for calibration in own:
                try:
                    yield scheme.replace(calibration=calibration)
                except qv.QuantVizError:
                    continue
