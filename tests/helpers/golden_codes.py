"""The codes that the reference gives today, as digests: what is kept under `ARITHMETIC` must stay what it
was.

`python -m tests.helpers.golden_codes` writes the record: all of it after
`quantviz.quantization.quantizer.ARITHMETIC` was raised, else the schemes that were added.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import torch

import quantviz as qv
from quantviz.quantization.quantizer import ARITHMETIC
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.calibration import starting
from quantviz.schemes.conventions import CHOICES
from quantviz.schemes.engine_calibrations import HQQ
from tests.helpers import ROOT
from tests.helpers.offered import offered_schemes, variant

RECORD = ROOT / "tests" / "data" / "golden_codes.json"

#: Calibrations whose fields are not recorded as they begin.
FIELDS: dict[str, tuple[qv.Calibration, ...]] = {
    "manual_range": (qv.ManualRange(-0.5, 0.75),),
    "given": (qv.Given(0.03125, 3), qv.Given(0.03125)),
}


def golden_tensor(rows: int = 12, columns: int = 256) -> torch.Tensor:
    """Return values made by integer arithmetic alone, so that no generator's version can change them.

    Rows differ in loudness; one is all ties of a power-of-two scale, one is zero and one is constant.
    """
    mixed = (np.arange(rows * columns, dtype=np.uint64) * np.uint64(2654435761)) % np.uint64(2**32)
    values = (mixed.astype(np.float64) / 2**31 - 1).reshape(rows, columns)
    values **= 3  # heavier in the middle, as weights are
    values *= 2.0 ** (np.arange(rows)[:, None] % 7 - 3)
    values[1] = (np.arange(columns) - columns // 2) / 2
    values[2] = 0
    values[3] = 1.25
    return torch.from_numpy(values.astype(np.float32))


def golden_schemes() -> Iterator[qv.Scheme]:
    """Yield every scheme that is offered, every recipe, each calibration, and each choice of a convention's
    fields.
    """
    for convention in qv.CONVENTIONS.values():
        yield from offered_schemes(convention)
        yield from half_schemes(convention)
    yield from qv.RECIPES.values()
    for calibration, mode in itertools.product(golden_calibrations(), qv.MODES):
        try:
            yield qv.Scheme("int4", mode, qv.PerChannel(0), calibration)
        except qv.QuantVizError:
            continue
    yield qv.Scheme("uint4", "asymmetric", qv.PerChannel(0), HQQ(), "hqq")
    for field, values in CHOICES.items():
        for value, format_id in itertools.product(values, ("uint4", "float8_e4m3fn")):
            convention = variant(qv.CONVENTIONS["course"], field, value)
            schemes = offered_schemes(convention, (format_id,)) if convention else ()
            yield from (scheme for scheme in schemes if scheme.granularity.id == "per_group")


def golden_calibrations() -> Iterator[qv.Calibration]:
    """Yield each calibration that there is, with the numbers that it begins with or those of `FIELDS`."""
    for name, kind in qv.CALIBRATIONS.items():
        yield from FIELDS.get(name, (starting(kind, {}),))


def half_schemes(convention: qv.Convention) -> Iterator[qv.Scheme]:
    """Yield a scheme of each format and mode for each dtype of half precision whose input an engine treats in
    a way of its own.
    """
    for dtype in HALVES:
        seen = set()
        # The engine's own rule decides; building a scheme takes much longer than asking for it.
        formats = tuple(each for each in qv.FORMATS if convention.half_input_of(dtype, each))
        for scheme in offered_schemes(convention, formats) if formats else ():
            kind = scheme.format, scheme.mode, scheme.granularity.single
            if kind in seen:
                continue
            own = scheme.on_input(dtype)
            if own != scheme:
                seen.add(kind)
                yield own


def digest(scheme: qv.Scheme, x: torch.Tensor) -> str:
    """Return what a scheme makes of `x`, or the key of its refusal, in 12 characters."""
    if scheme.problems(tuple(x.shape)):
        return "does not fit"
    try:
        r = qv.quantize(x, scheme)
    except qv.QuantVizError as error:
        return error.key
    found = hashlib.sha256()
    for part in (r.q, r.qparams.scale, r.qparams.zero_point, r.x_hat):
        found.update(f"{part.dtype} {tuple(part.shape)}".encode() + part.contiguous().numpy().tobytes())
    return found.hexdigest()[:12]


def recorded() -> dict[str, Any]:
    """Return the record: the number of the arithmetic, and each scheme's digest by its text form."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


@cache
def forms() -> dict[str, qv.Scheme]:
    """Return the schemes whose codes are recorded, by their text forms."""
    return {str(scheme): scheme for scheme in golden_schemes()}


def digests() -> dict[str, str]:
    """Return each scheme's digest by its text form."""
    return {form: digest(scheme, golden_tensor()) for form, scheme in forms().items()}


def record_anew() -> None:
    """Write the record. Under the same number of the arithmetic what was recorded stays, and only schemes
    that were added are computed: a code that changed is noticed as before.
    """
    kept = recorded()["digests"] if recorded()["arithmetic"] == ARITHMETIC else {}
    found = {
        form: kept.get(form) or digest(scheme, golden_tensor()) for form, scheme in sorted(forms().items())
    }
    RECORD.write_text(
        json.dumps({"arithmetic": ARITHMETIC, "digests": found}, indent=0) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    record_anew()
