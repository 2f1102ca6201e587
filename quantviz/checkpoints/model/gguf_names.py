"""llama.cpp's names of tensors, and the names that the same tensors have in the checkpoints it converts.

Source: `tensor_mapping.py` of the package gguf 0.19, which a test holds these against.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

#: A tensor of a block: its number, its kind, its part of it, and the number of an expert in one tensor.
_OF_BLOCK = re.compile(r"blk\.(\d+)\.([a-z0-9_]+)\.(weight|bias)(?:\[(\d+)\])?", re.ASCII)
_OF_MODEL = re.compile(r"([a-z_]+)\.(weight|bias)", re.ASCII)
#: A tensor of a layer in other checkpoints: the parts before the layer's number, the number, the rest.
_LAYER = re.compile(r"(?:.*\.)?(?:layers|layer|h|blocks|block)\.(\d+)\.(.+)", re.ASCII)

#: Name parts after the layer's number, by llama.cpp's kind, first match wins; {} is the expert's number.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "attn_norm": ("input_layernorm", "ln_1", "attention_norm"),
    "attn_q": ("self_attn.q_proj", "attention.self.query", "attention.wq", "attn.q_proj"),
    "attn_k": ("self_attn.k_proj", "attention.self.key", "attention.wk", "attn.k_proj"),
    "attn_v": ("self_attn.v_proj", "attention.self.value", "attention.wv", "attn.v_proj"),
    "attn_qkv": (
        "self_attn.qkv_proj",
        "self_attention.query_key_value",
        "attention.query_key_value",
        "attn.c_attn",
        "attn.Wqkv",
        "attention.wqkv",
        "self_attn.W_pack",
    ),
    "attn_output": (
        "self_attn.o_proj",
        "attention.output.dense",
        "attention.wo",
        "self_attention.dense",
        "attention.dense",
        "self_attn.dense",
        "self_attn.out_proj",
        "attn.c_proj",
        "attn.out_proj",
    ),
    "attn_q_norm": ("self_attn.q_norm", "self_attn.q_layernorm"),
    "attn_k_norm": ("self_attn.k_norm", "self_attn.k_layernorm"),
    "attn_q_a": ("self_attn.q_a_proj",),
    "attn_q_b": ("self_attn.q_b_proj",),
    "attn_q_a_norm": ("self_attn.q_a_layernorm",),
    "attn_kv_a_mqa": ("self_attn.kv_a_proj_with_mqa",),
    "attn_kv_a_norm": ("self_attn.kv_a_layernorm",),
    "attn_kv_b": ("self_attn.kv_b_proj",),
    "attn_output_norm": ("attention.output.LayerNorm",),
    "layer_output_norm": ("output.LayerNorm",),
    # Gemma has a norm after attention and another before the feed-forward part; others have one.
    "post_attention_norm": ("post_attention_layernorm",),
    "ffn_norm": ("pre_feedforward_layernorm", "post_attention_layernorm", "ln_2", "ffn_norm"),
    "post_ffw_norm": ("post_feedforward_layernorm",),
    "ffn_gate": ("mlp.gate_proj", "feed_forward.w1"),
    "ffn_up": (
        "mlp.up_proj",
        "mlp.gate_up_proj",
        "intermediate.dense",
        "feed_forward.w3",
        "mlp.dense_h_to_4h",
        "mlp.c_fc",
        "mlp.fc1",
    ),
    "ffn_down": (
        "mlp.down_proj",
        "output.dense",
        "feed_forward.w2",
        "mlp.dense_4h_to_h",
        "mlp.c_proj",
        "mlp.fc2",
    ),
    "ffn_gate_inp": ("mlp.gate", "block_sparse_moe.gate", "mlp.router"),
    "ffn_gate_exps": ("mlp.experts.{}.gate_proj", "block_sparse_moe.experts.{}.w1"),
    "ffn_up_exps": ("mlp.experts.{}.up_proj", "block_sparse_moe.experts.{}.w3"),
    "ffn_down_exps": ("mlp.experts.{}.down_proj", "block_sparse_moe.experts.{}.w2"),
    "ffn_gate_shexp": ("mlp.shared_expert.gate_proj", "mlp.shared_experts.gate_proj"),
    "ffn_up_shexp": ("mlp.shared_expert.up_proj", "mlp.shared_experts.up_proj"),
    "ffn_down_shexp": ("mlp.shared_expert.down_proj", "mlp.shared_experts.down_proj"),
    "ffn_gate_inp_shexp": ("mlp.shared_expert_gate",),
}
#: Matrices that checkpoints have as one and that llama.cpp writes one by one: name parts after the layer's
#: number by a kind of ours, and by the mark in a key (`matching.TOGETHER`) the kind and the kinds one by one.
_AS_ONE: Mapping[str, tuple[str, ...]] = {
    "ffn_gate_up": ("mlp.gate_up_proj", "mlp.dense_h_to_4h", "feed_forward.w13"),
    "ffn_gate_up_exps": ("mlp.experts.{}.gate_up_proj", "feed_forward.experts.{}.gate_up_proj"),
}
TOGETHER_KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "q+k+v": ("attn_qkv", ("attn_q", "attn_k", "attn_v")),
        "gate+up": ("ffn_gate_up", ("ffn_gate", "ffn_up")),
        "gate+up_exps": ("ffn_gate_up_exps", ("ffn_gate_exps", "ffn_up_exps")),
    }
)
#: An expert in a tensor that holds all of them, as other checkpoints call it.
_OF_STACK = re.compile(r"(.*\bexperts)\.([^.\[\]]+)(?:\.weight)?\[(\d+)\]", re.ASCII)
#: Ends of the names of tensors of no layer.
_MODEL: Mapping[str, tuple[str, ...]] = {
    "token_embd": ("embed_tokens", "word_embeddings", "wte", "tok_embeddings", "embed_in"),
    "token_embd_norm": ("embeddings.LayerNorm", "word_embeddings_layernorm"),
    "token_types": ("token_type_embeddings",),
    "position_embd": ("position_embeddings", "wpe"),
    "output_norm": ("norm", "final_layernorm", "final_layer_norm", "ln_f"),
    "output": ("lm_head", "embed_out", "output"),
}


#: Number of parts in the longest of these, with the last part, such as "weight".
_MOST_PARTS = 1 + max(end.count(".") + 1 for ends in _MODEL.values() for end in ends)


class OtherNames:
    """Names of a checkpoint that llama.cpp may have converted, found by llama.cpp's names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._of_layers: dict[tuple[int, str], str] = {}
        self._of_model: dict[str, str] = {}
        for name in names:
            stacked = _OF_STACK.fullmatch(name)
            one_by_one = f"{stacked[1]}.{stacked[3]}.{stacked[2]}.weight" if stacked else name
            if match := _LAYER.fullmatch(one_by_one):
                self._of_layers.setdefault((int(match[1]), match[2]), name)
            else:
                for tail in _tails(name):
                    self._of_model.setdefault(tail, name)

    def of(self, name: str) -> str | None:
        """Return the checkpoint's name for the tensor `name` of llama.cpp; None where it has none.

        >>> names = OtherNames(("model.layers.3.mlp.up_proj.weight", "model.norm.weight"))
        >>> names.of("blk.3.ffn_up.weight"), names.of("output_norm.weight"), names.of("blk.4.ffn_up.weight")
        ('model.layers.3.mlp.up_proj.weight', 'model.norm.weight', None)
        """
        if match := _OF_BLOCK.fullmatch(name):
            layer, kind, what, expert = match.groups()
            tails_of_kind = _KINDS.get(kind) or _AS_ONE.get(kind, ())
            places = ((int(layer), f"{tail.format(expert)}.{what}") for tail in tails_of_kind)
            return next((self._of_layers[place] for place in places if place in self._of_layers), None)
        if match := _OF_MODEL.fullmatch(name):
            tails = (f"{tail}.{match[2]}" for tail in _MODEL.get(match[1], ()))
            return next((self._of_model[tail] for tail in tails if tail in self._of_model), None)
        return None


def gguf_names(tensors: Collection[str]) -> dict[str, str]:
    """Return llama.cpp's names of a checkpoint's tensors.

    One that has no name of its own is left out, such as that of a single expert.

    >>> gguf_names(["model.layers.3.mlp.up_proj.weight", "model.layers.3.mlp.experts.1.up_proj.weight"])
    {'model.layers.3.mlp.up_proj.weight': 'blk.3.ffn_up.weight'}
    >>> after, before = (f"h.0.{name}_layernorm.weight" for name in ("post_attention", "pre_feedforward"))
    >>> gguf_names([after]), gguf_names([after, before])[after]
    ({'h.0.post_attention_layernorm.weight': 'blk.0.ffn_norm.weight'}, 'blk.0.post_attention_norm.weight')
    """
    back = OtherNames(tuple(tensors))
    renamed: dict[str, str] = {}
    for tensor in tensors:
        if is_gguf_name(tensor):
            renamed[tensor] = tensor
            continue
        # A name may stand for two kinds: the names of the other tensors decide.
        candidate = next((name for name in _offered(tensor) if back.of(name) == tensor), None)
        if candidate is not None:
            renamed[tensor] = candidate
    return renamed


def is_gguf_name(name: str) -> bool:
    """Return whether a name is one of llama.cpp's.

    >>> is_gguf_name("blk.0.attn_q.weight"), is_gguf_name("rope_freqs.weight"), is_gguf_name("norm.weight")
    (True, True, False)
    """
    of_model = _OF_MODEL.fullmatch(name)
    return bool(_OF_BLOCK.fullmatch(name)) or bool(of_model and of_model[1] in (*_MODEL, "rope_freqs"))


def _offered(tensor: str) -> Iterator[str]:
    """Yield the names that llama.cpp may have for a tensor of another checkpoint."""
    stem, _, what = tensor.rpartition(".")
    if match := _LAYER.fullmatch(stem):
        # The last kinds come first: only Gemma's norm after attention is `post_attention_norm`.
        for kind, tails in reversed(tuple(_KINDS.items())):
            if match[2] in tails:
                yield f"blk.{int(match[1])}.{kind}.{what}"
        return
    for tail in _tails(stem):
        for kind, ends in _MODEL.items():
            if tail in ends:
                yield f"{kind}.{what}"


def kind_of(name: str) -> tuple[int, str] | None:
    """Return the block's number and the kind of a tensor of a block; none for another tensor.

    >>> kind_of("blk.12.attn_q.weight"), kind_of("output.weight")
    ((12, 'attn_q'), None)
    """
    match = _OF_BLOCK.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def _tails(name: str) -> Iterator[str]:
    """Yield the ends of a dotted name, the longest first, of as many parts as names in `_MODEL` may have.

    >>> list(_tails("model.norm.weight")), list(_tails("a.b.c.norm.weight"))
    (['model.norm.weight', 'norm.weight', 'weight'], ['c.norm.weight', 'norm.weight', 'weight'])
    """
    parts = name.rsplit(".", _MOST_PARTS)[-_MOST_PARTS:]
    return (".".join(parts[start:]) for start in range(len(parts)))
