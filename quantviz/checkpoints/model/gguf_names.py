"""llama.cpp's names of tensors, and the names that the same tensors have in the checkpoints it converts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from quantviz.checkpoints.model.layer_names import NAMES

#: A tensor of a block: its number, its kind, its part of it, and the number of an expert in one tensor.
_OF_BLOCK = re.compile(r"blk\.(\d+)\.([a-z0-9_]+)\.(weight|bias)(?:\[(\d+)\])?", re.ASCII)
_OF_MODEL = re.compile(r"([a-z_]+)\.(weight|bias)", re.ASCII)
#: A tensor of a layer in other checkpoints: the parts before the layer's number, the number, the rest.
_LAYER = re.compile(r"(?:.*\.)?(?:layers|layer|h|blocks|block)\.(\d+)\.(.+)", re.ASCII)

#: Name parts after the layer's number, by llama.cpp's kind, first match wins; {} is the expert's number. And
#: by a kind of ours those of matrices that checkpoints have as one.
_KINDS: Mapping[str, Sequence[str]] = NAMES["kinds"]
_AS_ONE: Mapping[str, Sequence[str]] = NAMES["as_one"]
#: An expert in a tensor that holds all of them, as other checkpoints call it.
_OF_STACK = re.compile(r"(.*\bexperts)\.([^.\[\]]+)(?:\.weight)?\[(\d+)\]", re.ASCII)
#: Ends of the names of tensors of no layer.
_MODEL: Mapping[str, Sequence[str]] = NAMES["of_model"]
#: Most parts of such an end, with the last part, such as "weight".
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
        """Return the checkpoint's name for the tensor `name` of llama.cpp, or None.

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
    """Return llama.cpp's names of a checkpoint's tensors; one without such a name, as of a single expert, is
    left out.

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
    """Return the block's number and the kind of a tensor of a block; None for another tensor."""
    match = _OF_BLOCK.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def _tails(name: str) -> Iterator[str]:
    """Yield the ends of a dotted name, the longest first, of at most `_MOST_PARTS` parts."""
    parts = name.rsplit(".", _MOST_PARTS)[-_MOST_PARTS:]
    return (".".join(parts[start:]) for start in range(len(parts)))
