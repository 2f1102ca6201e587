"""QuantViz: what quantization does to a tensor, cell by cell, and why.

    import quantviz as qv
    result = qv.quantize(x, qv.Scheme("int8", "asymmetric", granularity=qv.PerChannel(axis=0)))
    qv.metrics(result)
    qv.explain(result, (1, 2)).steps

`qv.integer_layer` computes a layer as an inference engine does, codes in and codes out, and
`qv.integer_operator` what stands between layers: sums, products, averages, sigmoid, softmax.

Names are imported when first used, so that choosing a scheme does not import torch and only
`plot_quantization_errors` imports plotly.
"""

import os
import re
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Before torch is imported: idle threads must not spin while other processes use the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

if TYPE_CHECKING:
    from quantviz.analysis.blame import Blame as Blame
    from quantviz.analysis.blame import blame as blame
    from quantviz.analysis.blame import culprits as culprits
    from quantviz.analysis.block_costs import block_costs as block_costs
    from quantviz.analysis.calibration_comparison import compare_calibrations as compare_calibrations
    from quantviz.analysis.clipping_curve import ClippingCurve as ClippingCurve
    from quantviz.analysis.clipping_curve import clipping_curve as clipping_curve
    from quantviz.analysis.fitted_codebook import fit_codebook as fit_codebook
    from quantviz.analysis.rate_distortion import RateDistortion as RateDistortion
    from quantviz.analysis.rate_distortion import rate_distortion as rate_distortion
    from quantviz.analysis.scheme_comparison import SchemeComparison as SchemeComparison
    from quantviz.analysis.scheme_comparison import compare_schemes as compare_schemes
    from quantviz.checkpoints.allocation.allocating import Allocation as Allocation
    from quantviz.checkpoints.allocation.allocating import allocate as allocate
    from quantviz.checkpoints.allocation.frontier import Frontier as Frontier
    from quantviz.checkpoints.allocation.frontier import allocation_frontier as allocation_frontier
    from quantviz.checkpoints.audit.auditing import Audit as Audit
    from quantviz.checkpoints.audit.auditing import audit as audit
    from quantviz.checkpoints.audit.auditing import audited_result as audited_result
    from quantviz.checkpoints.scan.scanning import scan as scan
    from quantviz.errors import Note as Note
    from quantviz.errors import QuantVizError as QuantVizError
    from quantviz.evaluation.metric_formulas import METRICS as METRICS
    from quantviz.export.allocations import export_allocation as export_allocation
    from quantviz.export.report import report as report
    from quantviz.figures.panels import plot_quantization_errors as plot_quantization_errors
    from quantviz.layers.captures import Layers as Layers
    from quantviz.layers.collecting import collect as collect
    from quantviz.layers.integer_codes import Codes as Codes
    from quantviz.layers.integer_codes import patches as patches
    from quantviz.layers.integer_engines import INTEGER_ENGINES as INTEGER_ENGINES
    from quantviz.layers.integer_explanation import explain_operator as explain_operator
    from quantviz.layers.integer_result import IntegerResult as IntegerResult
    from quantviz.layers.integer_result import integer_layer as integer_layer
    from quantviz.layers.layer_result import LayerResult as LayerResult
    from quantviz.layers.layer_result import layer as layer
    from quantviz.layers.leaderboard import leaderboard as leaderboard
    from quantviz.layers.narrow_sums import explain_products as explain_products
    from quantviz.layers.narrow_sums import narrow_products as narrow_products
    from quantviz.live.notebook import show as show
    from quantviz.models.attending import AttentionResult as AttentionResult
    from quantviz.models.attending import attention as attention
    from quantviz.models.capturing import capture as capture
    from quantviz.models.head_rounding import AttentionOptions as AttentionOptions
    from quantviz.models.model_schemes import LayerSchemes as LayerSchemes
    from quantviz.models.model_schemes import ModelSchemes as ModelSchemes
    from quantviz.models.module_running import ModuleRun as ModuleRun
    from quantviz.models.module_running import run as run
    from quantviz.models.run_file import CapturedRun as CapturedRun
    from quantviz.models.running import RunResult as RunResult
    from quantviz.models.runs import RunComparison as RunComparison
    from quantviz.models.runs import compare_runs as compare_runs
    from quantviz.quantization.batch_ranges import BatchRanges as BatchRanges
    from quantviz.quantization.batch_ranges import ranges_over_batches as ranges_over_batches
    from quantviz.quantization.code_norms import NormOptions as NormOptions
    from quantviz.quantization.explanation import Explanation as Explanation
    from quantviz.quantization.explanation import Step as Step
    from quantviz.quantization.explanation import explain as explain
    from quantviz.quantization.integer_operators import REQUANTIZATIONS as REQUANTIZATIONS
    from quantviz.quantization.integer_operators import add_codes as add_codes
    from quantviz.quantization.integer_operators import average_codes as average_codes
    from quantviz.quantization.integer_operators import integer_operator as integer_operator
    from quantviz.quantization.integer_operators import requantize as requantize
    from quantviz.quantization.quantizer import ARITHMETIC as ARITHMETIC
    from quantviz.quantization.quantizer import choose_qparams as choose_qparams
    from quantviz.quantization.quantizer import dequantize as dequantize
    from quantviz.quantization.quantizer import quantize as quantize
    from quantviz.quantization.result import QParams as QParams
    from quantviz.quantization.result import QuantResult as QuantResult
    from quantviz.schemes.arithmetic import Offer as Offer
    from quantviz.schemes.arithmetic import ScaleSpec as ScaleSpec
    from quantviz.schemes.calibration import CALIBRATIONS as CALIBRATIONS
    from quantviz.schemes.calibration import MSE as MSE
    from quantviz.schemes.calibration import AbsMean as AbsMean
    from quantviz.schemes.calibration import External as External
    from quantviz.schemes.calibration import Given as Given
    from quantviz.schemes.calibration import ManualRange as ManualRange
    from quantviz.schemes.calibration import MinMax as MinMax
    from quantviz.schemes.calibration import Percentile as Percentile
    from quantviz.schemes.calibration import Range as Range
    from quantviz.schemes.calibration import Searched as Searched
    from quantviz.schemes.conventions import CONVENTIONS as CONVENTIONS
    from quantviz.schemes.conventions import Convention as Convention
    from quantviz.schemes.formats import FORMATS as FORMATS
    from quantviz.schemes.formats import FloatBits as FloatBits
    from quantviz.schemes.formats import NumberFormat as NumberFormat
    from quantviz.schemes.granularity import GRANULARITIES as GRANULARITIES
    from quantviz.schemes.granularity import BlockLayout as BlockLayout
    from quantviz.schemes.granularity import Flat as Flat
    from quantviz.schemes.granularity import PerBlock as PerBlock
    from quantviz.schemes.granularity import PerChannel as PerChannel
    from quantviz.schemes.granularity import PerGroup as PerGroup
    from quantviz.schemes.granularity import PerTensor as PerTensor
    from quantviz.schemes.recipes import ALL_RECIPES as ALL_RECIPES
    from quantviz.schemes.recipes import RECIPES as RECIPES
    from quantviz.schemes.scheme import MODES as MODES
    from quantviz.schemes.scheme import NONFINITE as NONFINITE
    from quantviz.schemes.scheme import Scheme as Scheme
    from quantviz.sources.files import open_tensors as open_tensors
    from quantviz.streaming.measuring import Measured as Measured
    from quantviz.streaming.measuring import measure as measure
    from quantviz.streaming.result_metrics import metrics as metrics
    from quantviz.tensors.blocks import Blocks as Blocks
    from quantviz.tensors.lazy import as_matrix as as_matrix

_IMPORT = re.compile(r"^    from quantviz\.(\S+) import (\w+) as \2$", re.MULTILINE)
#: The home of each public name: the imports above as they are written, which are done at the first use.
with open(__file__, encoding="utf-8") as _file:
    _HOME_OF = {name: home for home, name in _IMPORT.findall(_file.read())}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 (computed from the imports above)


#: Old names of what is public: the new name, and the version in which the old one goes.
_RENAMED: dict[str, tuple[str, str]] = {}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("quantviz.version").version()
    if name in _RENAMED:
        new, end = _RENAMED[name]
        told = f"quantviz.{name} is quantviz.{new} now; the old name goes in version {end}"
        warnings.warn(told, DeprecationWarning, stacklevel=2)
        name = new
    if name not in _HOME_OF:
        raise AttributeError(f"module 'quantviz' has no attribute {name!r}")
    return getattr(import_module(f"quantviz.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
