"""The kind of a tensor, by which engines choose the tensors that they quantize."""

from __future__ import annotations

import re
from typing import Literal, get_args

from quantviz.checkpoints.model.layer_names import NAMES
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import CONVOLUTIONS
from quantviz.sources.files.catalog import is_matrix

#: linear       a matrix that inputs are multiplied by
#: experts      the matrices of many experts in one tensor
#: convolution  the weight of a convolution
#: embedding    a table of which rows are looked up by token
#: head         the matrix that gives the scores of all tokens
#: router       the small matrix that chooses experts
#: position     a table or bias of positions
#: token_type   a table of the kinds of tokens
#: norm         the gain of a normalization
#: bias         the addend of an output
#: scale        scales, zero points or smallest values of codes
#: vector       anything else that is no matrix
Kind = Literal[
    "linear", "experts", "convolution", "embedding", "head", "router", "position", "token_type", "norm",
    "bias", "scale", "vector",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)

#: Ends of names without ".weight": the first that fits decides.
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.ASCII | re.IGNORECASE)) for kind, pattern in NAMES["kind_patterns"].items()
)
_STACK = 3


def kind_of_tensor(name: str, shape: Shape) -> Kind:
    """Return the kind of a tensor.

    >>> names = ["layers.3.self_attn.q_proj.weight", "lm_head.weight", "blk.0.ffn_norm.weight",
    ...          "embeddings.position_embeddings.weight", "h.0.mlp.gate.weight", "blk.0.ffn_up.bias"]
    >>> [kind_of_tensor(name, (512, 64)) for name in names]
    ['linear', 'head', 'norm', 'position', 'router', 'bias']
    >>> kind_of_tensor("blk.0.ffn_gate_exps.weight", (8, 128, 64)), kind_of_tensor("a.weight", (8, 3, 7, 7))
    ('experts', 'convolution')
    """
    stem = re.sub(r"(\[\d+\])?$", "", name).removesuffix(".weight")
    for kind, pattern in _PATTERNS:
        if pattern.fullmatch(stem):
            return kind
    if not is_matrix(shape):
        return "vector"
    if len(shape) in CONVOLUTIONS or "conv" in stem.rpartition(".")[2]:
        return "convolution"
    return "experts" if len(shape) == _STACK else "linear"
