"""Names of tensors as keys: those of a file, a table or a caller, up to a length."""

from __future__ import annotations

from collections.abc import Iterable

from quantviz.errors import QuantVizError

#: Characters of a name: those of models have some 60, and work on a name grows with its length.
LONGEST_NAME = 4096


def checked_names(names: Iterable[str]) -> None:
    """Raise a `QuantVizError` where a name is too long to be a key; its sentence has the name cut.

    >>> checked_names(["model.layers.0.mlp.up_proj.weight"])
    >>> checked_names(["x" * 5000])
    Traceback (most recent call last):
    ...
    quantviz.errors.QuantVizError: The name of a tensor is too long: got 5,000 characters,
    'xxxxxxxxxxxxxxxxxxxx…'; the limit is 4,096. Rename the tensor.
    """
    for name in names:
        if len(name) > LONGEST_NAME:
            raise QuantVizError("name_too_long", got=len(name), name=name[:20] + "…", most=LONGEST_NAME)
