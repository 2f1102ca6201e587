"""The terms that the lessons explain: each is introduced by one step, and can be touched wherever a lesson
first uses it.

Their words are in `quantviz/text`, under `glossary`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

#: The words that a term is met by, as regular expressions by language, in capitals or not: a lesson may use
#: them from the step on that introduces the term. A symbol belongs to its term.
MET_BY: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "activation": {"en": r"\bactivations?\b", "zh": "激活"},
        "asymmetric": {"en": r"\basymmetric", "zh": "非对称"},
        "bit": {"en": r"\bbits?\b", "zh": r"位宽|\d 位|几位"},
        "block": {"en": r"\bblocks?\b", "zh": r"(?<![模滑])块"},
        "calibration": {"en": r"\bcalibrat", "zh": "校准"},
        "cell": {"en": r"\bcells?\b", "zh": "单元格"},
        "clipping": {"en": r"\b(?:clip|clamp)", "zh": "截断"},
        "code": {"en": r"\bcodes?\b|\bq\b", "zh": r"编码|(?<![A-Za-z_])q(?![A-Za-z_])"},
        "codebook": {"en": r"\bcodebook", "zh": "(?<!编)码本"},
        "convention": {"en": r"\bconventions?\b", "zh": "约定"},
        "db": {"en": r"\bdB\b|\bdecibel", "zh": r"(?<![A-Za-z_])dB|分贝"},
        "dequantize": {"en": r"\bdequanti|x̂|x_hat\b", "zh": "反量化|x̂|x_hat"},
        "effective_bits": {"en": r"\bbits per weight\b", "zh": "有效位宽"},
        "error": {"en": r"\berrors?\b|\berr\b", "zh": "误差"},
        "exponent": {"en": r"\bexponents?\b", "zh": "指数"},
        "fake_quantization": {"en": r"\bfake quanti", "zh": "伪量化"},
        "format": {"en": r"\bnumber formats?\b", "zh": "数值格式"},
        "grid": {"en": r"\bgrids?\b", "zh": "网格"},
        "group": {"en": r"\bgroups?\b", "zh": "每组|一组|分组"},
        "int8": {"en": r"\bint\d", "zh": r"int\d"},
        "level": {"en": r"\blevels?\b", "zh": r"(?<!高)(?<!等)级"},
        "mantissa": {"en": r"\bmantissa", "zh": "尾数"},
        "model": {"en": r"\bmodels?\b", "zh": "模型"},
        "mse": {"en": r"\bMSE\b|\bmean squared error\b", "zh": "MSE|均方误差"},
        "notebook": {"en": r"\bnotebooks?\b", "zh": "笔记"},
        "outlier": {"en": r"\boutliers?\b", "zh": "离群值"},
        "per_channel": {"en": r"\bper channel\b", "zh": "逐通道"},
        "per_group": {"en": r"\bper group\b", "zh": "逐组"},
        "per_tensor": {"en": r"\bper tensor\b", "zh": "逐张量"},
        "percentile": {"en": r"\bpercentile", "zh": "百分位"},
        "quantization": {"en": r"(?<!de)\bquanti[sz]", "zh": "(?<![反伪])量化"},
        "quantization_noise": {"en": r"\bnoise\b", "zh": "噪声"},
        "range": {"en": r"\branges?\b", "zh": "范围"},
        "rmse": {"en": r"\bRMSE\b", "zh": "RMSE(?!_)"},
        "rounding": {"en": r"\bround(?:s|ed|ing)?\b", "zh": "舍入"},
        "ruler": {"en": r"\brulers?\b", "zh": "标尺"},
        "scale": {"en": r"\bscales?\b|(?<!['’])\bs\b", "zh": r"缩放因子|(?<![A-Za-z_])s(?![A-Za-z_])"},
        "shared_scale": {"en": r"\bshared scale\b", "zh": "共享缩放因子"},
        "sqnr": {"en": r"\bSQNR\b", "zh": "SQNR(?!_)"},
        "step": {"en": r"\bsteps?\b", "zh": "步长"},
        "subnormal": {"en": r"\bsubnormal", "zh": "次正规"},
        "symmetric": {"en": r"\bsymmetric", "zh": "(?<!非)对称"},
        "tensor": {"en": r"\btensors?\b", "zh": "张量"},
        "tie": {"en": r"\bties?\b", "zh": "中点"},
        "w8a32": {"en": r"\bW8A32\b", "zh": r"(?<![A-Za-z_])W8A32"},
        "weight": {"en": r"\bweights?\b", "zh": "权重"},
        "zero_point": {"en": r"\bzero points?\b|\bz\b", "zh": r"零点|(?<![A-Za-z_])z(?![A-Za-z_])"},
    }
)
#: Permanent ids, in the order of the alphabet: lessons name them in double brackets.
TERMS = tuple(MET_BY)
#: Words that must not stand in a step, as a regular expression: names of functions and formulas that no
#: lesson explains. The remarks on notebooks, which are folded, may have them.
NEVER = r"torch\.|√12|⌊|⌋|symlog|\bheld\b|notebook|[Cc]ourse 2|课程二|课程 2"


def met_before(text: str, language: str, known: Collection[str]) -> frozenset[str]:
    """Return the terms that a text in a language has words of, and that are not among the `known` ones.

    >>> met_before("The scale of a tensor", "en", ["tensor"])
    frozenset({'scale'})
    """
    unknown = (term for term in TERMS if term not in known)
    return frozenset(term for term in unknown if re.search(MET_BY[term][language], text, re.IGNORECASE))
