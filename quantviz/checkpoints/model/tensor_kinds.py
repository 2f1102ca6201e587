"""Kind of a tensor in its model, by its name and shape: engines choose by it which tensors they quantize."""

from __future__ import annotations

import re
from typing import Literal, get_args

from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import CONVOLUTIONS
from quantviz.sources.files.catalog import is_matrix

#: Kinds of tensors:
#:
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

#: Ends of names, without ".weight", by kind: the first that fits decides. Names are those of Hugging Face's
#: models and llama.cpp's files.
_BY_NAME: tuple[tuple[Kind, str], ...] = (
    (
        "position",
        r"(.*\.)?(\w*pos(ition)?(al)?_?embed\w*|wpe|position_embd|pos_embd|embed_positions"
        r"|relative_attention_bias|rel_pos\w*|attn_rel_b|relative_position_bias_table|rope_\w+|inv_freq)",
    ),
    ("bias", r"(.*[._])?bias"),
    ("scale", r"(.*[._])?(scales?|zeros|zero_points?|absmax|scale_inv|g_idx|quant_map|biases)"),
    ("norm", r"(.*\.)?(\w*norm\d*|\w*norm_\w+|ln_?[\da-z]?|ln_\w+)(\.(gamma|beta))?"),
    ("token_type", r"(.*\.)?(token_type_embeddings?|token_types|segment_embeddings?)"),
    (
        "router",
        r"(.*\.)?((mlp|moe|block_sparse_moe|feed_forward)\.gate|router(\.\w+)?|ffn_gate_inp\w*"
        r"|shared_expert_gate)",
    ),
    (
        "embedding",
        r"(.*\.)?(embed_tokens\w*|word_embeddings?|wte|tok_embeddings|tokens_embed|embed_in|(\w+_)?token_embd"
        r"|embed|embedding|embeddings|shared)",
    ),
    ("head", r"((model|transformer)\.)?(lm_head|embed_out|output|output_layer|head)"),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.ASCII | re.IGNORECASE)) for kind, pattern in _BY_NAME)
#: Axes of the matrices of many experts.
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
