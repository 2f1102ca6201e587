"""Weights whose rows and columns are exchanged, unlike those of the layers beside them.

Some libraries store inputs × outputs, so an original that fits only once it is turned is turned; but a file
that does so with one layer and not with the others is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from quantviz.checkpoints.audit.tensor_audit import TensorAudit
from quantviz.errors import Note

#: Notes on an original that was turned because it fits so, where its file does not tell.
_GUESSED = frozenset(("audit.turned", "audit.turned_to_fit"))
#: Layers that a model stores as inputs × outputs beside others that it does not: GPT-2's, Flax's and experts.
_INPUTS_FIRST = re.compile(r"(.*\.)?((c_attn|c_proj|c_fc|q_attn)\.weight|kernel)|.*experts.*|.*\]", re.ASCII)
#: Layers have a number in their names; embeddings and heads have none.
_OF_LAYER = re.compile(r"\.\d+\.", re.ASCII)
_READ = ("ok", "rescaled", "same", "rounded", "changed")


def turned_alone(tensors: Iterable[TensorAudit]) -> list[TensorAudit]:
    """Return the audits of all tensors; weights that lie otherwise than those of their layout are not the
    original's.
    """
    listed = list(tensors)
    straight = {
        each.layout
        for each in listed
        if _is_of_layer(each) and not any("turned" in note.key for note in each.done)
    }

    def checked(each: TensorAudit) -> TensorAudit:
        guessed = any(note.key in _GUESSED for note in each.done)
        if not guessed or each.layout not in straight or not _is_of_layer(each):
            return each
        note = Note.of("audit.turned_alone")
        return replace(each, status="not_same", done=(*each.done, note))

    return [checked(each) for each in listed]


def _is_of_layer(each: TensorAudit) -> bool:
    is_matrix = len(each.shape) == 2 and min(each.shape) > 1
    of_layer = _OF_LAYER.search(each.original) and not _INPUTS_FIRST.fullmatch(each.original)
    return each.status in _READ and is_matrix and bool(of_layer)
