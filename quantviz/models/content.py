"""Kinds of files of tensors, by which an app chooses the page that answers them."""

from __future__ import annotations

import itertools
from enum import Enum
from typing import TYPE_CHECKING

from quantviz.errors import QuantVizError
from quantviz.layers.captures import has_layers
from quantviz.models.heads import names_of_heads
from quantviz.models.run_file import is_run
from quantviz.sources.files import open_tensors
from quantviz.sources.files.file_data import clipped
from quantviz.sources.layouts.decoded import ModelTensors, model_tensors
from quantviz.text import visible

if TYPE_CHECKING:
    from quantviz.sources.sandboxed import Sandboxed


class Content(Enum):
    #: The inputs and weights of layers, as `capture` writes them.
    CAPTURE = "capture"
    #: Queries, keys and values of heads.
    HEADS = "heads"
    #: Several weights, to be scanned.
    MODEL = "model"
    #: A single tensor, or vectors and tables of indices alone.
    TENSOR = "tensor"


def content_of(content: bytes, name: str) -> Content:
    """Return the kind of a file; its name's suffix gives the format. It can be called in another process.

    Raises:
        QuantVizError: The file cannot be read, or is one of two files that are needed together.
    """
    with open_tensors(content, name) as catalog:
        if has_layers(catalog):
            return Content.CAPTURE
        if names_of_heads(tuple(catalog.names)):
            return Content.HEADS
        if is_run(catalog):
            raise QuantVizError("drop.one_run", file=visible(clipped(name)))
        if catalog.kind == "JSON" and "0.shape" in catalog:  # a list of tensors, as commands write it
            raise QuantVizError("drop.report", file=visible(clipped(name)))
        return Content.MODEL if has_several_weights(model_tensors(catalog)) else Content.TENSOR


def is_run_file(content: bytes, name: str) -> bool:
    """Return whether a file is that of a run. It can be called in another process."""
    with open_tensors(content, name) as catalog:
        return is_run(catalog)


def has_several_weights(model: ModelTensors | Sandboxed) -> bool:
    """Return whether a file has two readable matrices."""
    infos = (model.info(name) for name in model.model_names)
    matrices = (info for info in infos if info.problem is None and sum(n > 1 for n in info.shape) > 1)
    return len(list(itertools.islice(matrices, 2))) > 1
