"""The source of a tensor of a scanned model, as the Lab opens it."""

from __future__ import annotations

from quantviz.checkpoints.example import EXAMPLE, example_tensors
from quantviz.checkpoints.offered import below_folder
from quantviz.errors import QuantVizError
from quantviz.sources import LocalTensor, Source
from quantviz.sources.matrix import as_opened


def source_of(chosen: str, name: str, file: str) -> Source:
    """Return the tensor `name` of a scan of the checkpoint `chosen`; `file` is the path of its file.

    Raises:
        QuantVizError: Its file is not below the server's folder.
    """
    if chosen == EXAMPLE:
        return example_tensors()[name]
    below = below_folder(file)
    if below is None:
        raise QuantVizError("checkpoint.not_below", name=name[:200])
    source = LocalTensor.of(below, name)
    return as_opened(source, source.file_orientation())
