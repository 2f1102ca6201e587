"""Open the tensor of a source in another process, which does several things with the same one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, cast

from quantviz.sources.base import Source

if TYPE_CHECKING:
    from quantviz.tensors.lazy import Stored

T = TypeVar("T")


def of_tensor(tensor: Source | Stored, work: Callable[[Stored], T]) -> T:
    """Return the result of `work` for a tensor, or for the tensor of a source.

    >>> from quantviz.sources.builtin import Builtin
    >>> of_tensor(Builtin("course_3x3"), lambda x: x.shape)
    (3, 3)
    """
    from quantviz.tensors.lazy import Stored

    return work(tensor if isinstance(tensor, Stored) else _opened(tensor.key, cast("Hashable", tensor)))


@lru_cache(maxsize=1)
def _opened(key: str, source: Hashable) -> Stored:
    # The key differs between versions of a file.
    return cast("Source", source).open()
