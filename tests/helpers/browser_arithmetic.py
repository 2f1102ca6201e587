"""The browser's arithmetic in a blank page: its script, its schemes and tensors, and numbers."""

import base64
import contextlib

import numpy as np
import torch

import quantviz as qv
from quantviz.compiled.javascript import layout_spec, packed_together, write_program
from quantviz.quantization.input_dtype import rounded_to
from quantviz.quantization.result import block_values
from tests.helpers.drawn import normal
from tests.helpers.walked import thinned

#: Where a search finds the range, or the zero points, the browser is handed what was found: it has no search
#: of its own.
SEARCHED = {name for name, kind in qv.CALIBRATIONS.items() if not kind.of_values} - {"given"}
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
window.api = {
  ROUNDING, levelsOf, makeArithmetic, makeLayout, makeParts, metricsOf, momentsOf, paramsOf, quantizeTensor,
  unpacked,
};
const text = bytes => {
  let made = "";
  for (let i = 0; i < bytes.length; i += 32768) made += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(made);
};
window.coded = array => text(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
window.floats = coded => new Float32Array(Uint8Array.from(atob(coded), c => c.charCodeAt(0)).buffer);
window.run = ({programs, layouts, tensors, cases}) => {
  const made = api.unpacked(programs).map(api.makeArithmetic);
  const laid = layouts.map(api.makeLayout);
  const values = tensors.map(floats);
  return cases.map(({ program, layout, tensor, calibration }) => {
    const r = api.quantizeTensor(made[program], values[tensor], laid[layout], {calibration});
    if (r.refused) return {refused: r.refused};
    const levels = api.levelsOf(made[program], api.paramsOf(r, r.blocks.count - 1));
    const {lo, hi, scale, zero_point} = r.blocks;
    const cells = [Int32Array.from(r.q), r.x_hat, r.error, r.clipped, r.step];
    return {
      arrays: [...cells, lo, hi, scale, zero_point].map(coded),
      levels: levels && [levels.codes, levels.values].map(coded),
    };
  });
};
"""


def coded(x):
    return base64.b64encode(x.contiguous().numpy().tobytes()).decode()


def answer(x, scheme):
    """What the reference says: its result, or the error."""
    try:
        return qv.quantize(x, scheme)
    except qv.QuantVizError as error:
        return error


class Cases:
    """What `run` is given: each case with the places of its program, its layout and its tensor."""

    def __init__(self):
        self._layouts, self._tensors, self._programs, self._cases = [], {}, {}, []

    def add(self, scheme, name, x, r, base=None, **more):
        """Take a tensor under a scheme, with the reference's answer; `base` is the scheme whose program is
        run, where it is another one by its calibration.
        """
        base, shape = base or scheme, tuple(x.shape)
        layout = layout_spec(scheme.layout(shape), shape)
        if layout not in self._layouts:
            self._layouts.append(layout)
        self._cases.append(
            {
                "program": self._programs.setdefault(base, len(self._programs)),
                "layout": self._layouts.index(layout),
                "tensor": self._tensors.setdefault((name, shape), (len(self._tensors), x))[0],
                "calibration": handed(scheme, r, base),
                **more,
            }
        )

    def given(self):
        return {
            "programs": packed_together(map(write_program, self._programs)),
            "layouts": self._layouts,
            "tensors": [coded(x) for _, x in self._tensors.values()],
            "cases": self._cases,
        }


def handed(scheme, r, base):
    """What takes the place of the calibration of the program that is run: the ranges that a search found, or
    what `scheme` sets by hand where `base` does not.
    """
    calibration = scheme.calibration
    if calibration.id in SEARCHED:
        if not isinstance(r, qv.QuantResult):
            return None
        found = block_values(r.qparams) if r.range is None else {"lo": r.range.lo, "hi": r.range.hi}
        lists = {name: grid.flatten().tolist() for name, grid in found.items()}
        return {"id": "params" if r.range is None else "ranges", **lists}
    return None if calibration == base.calibration else {"id": calibration.id, **vars(calibration)}


def calibrated_schemes():
    """Every convention, format and mode, each with ranges found in other ways."""
    own = (qv.Percentile(90.0), qv.AbsMean(), qv.ManualRange(-1.0, 1.5), qv.Given(0.125, 1), qv.Given(0.125))
    for convention in qv.CONVENTIONS.values():
        for scheme in thinned(convention):
            for calibration in own:
                with contextlib.suppress(qv.QuantVizError):
                    yield scheme.replace(calibration=calibration)


def fitting(scheme, x):
    """Whether a scheme fits a tensor, and does not round values to 0: of -0 and 0 the largest one has either
    sign.
    """
    dtype = rounded_to(scheme)
    kept = dtype is None or not bool(((x != 0) & (x.to(getattr(torch, dtype)) == 0)).any())
    return kept and not scheme.problems(tuple(x.shape))


def unusual():
    """Tensors with NaN and Inf: some, a block and a tensor of nothing else, and zeros beside them."""
    some = normal(4, 32)
    some[0, 3], some[1, 7], some[2, 0] = torch.nan, torch.inf, -torch.inf
    some[2, 5] = -torch.tensor(torch.nan)
    block = normal(4, 32)
    block[1] = torch.tensor([torch.nan, torch.inf, -torch.inf, torch.nan]).repeat(8)
    zeros = torch.where(block.isfinite(), -0.0, block)
    zeros[0, ::2] = 0.0
    return {"some": some, "block": block, "zeros": zeros, "nothing": torch.full((4, 32), torch.nan)}


def numbers():
    """Numbers of every size, ties, and those at the edges of how a number is written."""
    rng = np.random.default_rng(0)
    spread = (rng.standard_normal(3000) * 10.0 ** rng.integers(-12, 12, 3000)).astype(np.float32).tolist()
    whole = rng.integers(-(2**31), 2**31, 300).tolist() + rng.integers(-300, 300, 300).tolist()
    ties = [sign * k / 2**p for k in range(1, 64) for p in range(1, 8) for sign in (1, -1)]
    edges = [0.0, -0.0, 1e-4, 0.99999e-4, 0.000099996, 999999.0, 999999.6, 1e6, -1e6, 1e21, 3e38, 1e-45]
    edges += [0.15, 0.25, 2.125, 1234.5, 9.995, 99.95]
    return [*spread, *map(float, whole), *ties, *edges]


def side_of(scheme, shape, static, programs):
    """Return a side of a small layer as the browser takes it; its program goes to the end of `programs`."""
    if scheme is None:
        return None
    program = write_program(scheme)
    programs.append(program)
    layout = layout_spec(scheme.layout(shape), shape)
    return {"program": len(programs) - 1, "layout": layout, "is_static": static}
