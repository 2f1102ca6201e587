"""QuantViz: what quantization does to a tensor, cell by cell, and why.

    import quantviz as qv
    result = qv.quantize(x, qv.Scheme("int8", "asymmetric", granularity=qv.PerChannel(axis=0)))
    qv.metrics(result)
    qv.explain(result, (1, 2)).steps

Names are imported when first used, so that choosing a scheme does not import torch and only
`plot_quantization_errors` imports plotly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantviz.blocks import Blocks as Blocks
    from quantviz.calibration import CALIBRATIONS as CALIBRATIONS
    from quantviz.calibration import MSE as MSE
    from quantviz.calibration import AbsMean as AbsMean
    from quantviz.calibration import External as External
    from quantviz.calibration import Given as Given
    from quantviz.calibration import ManualRange as ManualRange
    from quantviz.calibration import MinMax as MinMax
    from quantviz.calibration import Percentile as Percentile
    from quantviz.calibration import Range as Range
    from quantviz.conventions import CONVENTIONS as CONVENTIONS
    from quantviz.conventions import Convention as Convention
    from quantviz.conventions import Offer as Offer
    from quantviz.conventions import ScaleSpec as ScaleSpec
    from quantviz.errors import Note as Note
    from quantviz.errors import QuantVizError as QuantVizError
    from quantviz.explanation import Explanation as Explanation
    from quantviz.explanation import Step as Step
    from quantviz.explanation import explain as explain
    from quantviz.figures.panels import plot_quantization_errors as plot_quantization_errors
    from quantviz.formats import FORMATS as FORMATS
    from quantviz.formats import FloatBits as FloatBits
    from quantviz.formats import NumberFormat as NumberFormat
    from quantviz.granularity import GRANULARITIES as GRANULARITIES
    from quantviz.granularity import BlockLayout as BlockLayout
    from quantviz.granularity import Flat as Flat
    from quantviz.granularity import PerBlock as PerBlock
    from quantviz.granularity import PerChannel as PerChannel
    from quantviz.granularity import PerGroup as PerGroup
    from quantviz.granularity import PerTensor as PerTensor
    from quantviz.kernels import Measured as Measured
    from quantviz.kernels import measure as measure
    from quantviz.measures import METRICS as METRICS
    from quantviz.measures import metrics as metrics
    from quantviz.quantizer import ARITHMETIC as ARITHMETIC
    from quantviz.quantizer import QParams as QParams
    from quantviz.quantizer import QuantResult as QuantResult
    from quantviz.quantizer import choose_qparams as choose_qparams
    from quantviz.quantizer import dequantize as dequantize
    from quantviz.quantizer import quantize as quantize
    from quantviz.recipes import RECIPES as RECIPES
    from quantviz.scheme import MODES as MODES
    from quantviz.scheme import NONFINITE as NONFINITE
    from quantviz.scheme import Scheme as Scheme
    from quantviz.sources.files import open_tensors as open_tensors
    from quantviz.stored import as_matrix as as_matrix

_HOMES = {
    "blocks": ("Blocks",),
    "calibration": ("CALIBRATIONS", "MSE", "AbsMean", "External", "Given", "ManualRange", "MinMax", "Percentile", "Range"),
    "conventions": ("CONVENTIONS", "Convention", "Offer", "ScaleSpec"),
    "errors": ("Note", "QuantVizError"),
    "explanation": ("Explanation", "Step", "explain"),
    "figures.panels": ("plot_quantization_errors",),
    "formats": ("FORMATS", "FloatBits", "NumberFormat"),
    "granularity": ("GRANULARITIES", "BlockLayout", "Flat", "PerBlock", "PerChannel", "PerGroup", "PerTensor"),
    "kernels": ("Measured", "measure"),
    "measures": ("METRICS", "metrics"),
    "quantizer": ("ARITHMETIC", "QParams", "QuantResult", "choose_qparams", "dequantize", "quantize"),
    "recipes": ("RECIPES",),
    "scheme": ("MODES", "NONFINITE", "Scheme"),
    "sources.files": ("open_tensors",),
    "stored": ("as_matrix",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 (computed from the table above; a test holds it against the imports)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'quantviz' has no attribute {name!r}")
    return getattr(import_module(f"quantviz.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
