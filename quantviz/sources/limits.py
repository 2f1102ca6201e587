"""The limits of files, hubs and names. A light module, imported before any file is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from quantviz.errors import QuantVizError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_L = TypeVar("_L", bound="DataclassInstance")

LIMIT_VARIABLE = "QUANTVIZ_MAX_"
HUB_LIMIT_VARIABLE = "QUANTVIZ_HUB_"
#: Characters of a tensor's name: those of models have some 60, and work on a name grows with its length.
LONGEST_NAME = 4096


@dataclass(frozen=True)
class Limits:
    """Limits of a file, checked against its declared sizes before anything is allocated.

    The environment sets them: `QUANTVIZ_MAX_` and the field's name in capitals, a whole number above 0.
    """

    #: Bytes of a file. One that is mapped takes no memory for them.
    file_bytes: int = 2**40
    #: Elements that are loaded at once: of the window, or of the whole tensor if the format has no windows.
    elements: int = 2**28
    #: Tensors in one file, or in all files of an index. Kimi K2 has 138,241, packed to 4 bits some 208,000.
    tensors: int = 500_000
    #: Bytes of a header or of one entry's header, and of an index of shards: that of Kimi K2 has 20 million.
    header_bytes: int = 2**26
    #: Lists and objects in a text of JSON: an empty one takes thirty times its two characters. A tensor in a
    #: header of safetensors has three.
    brackets: int = 2**21
    table_bytes: int = 2**25
    #: Bytes of a JSON file: parsed it takes some thirty times as much.
    json_bytes: int = 2**24
    depth: int = 32

    @classmethod
    def of_environment(cls) -> Limits:
        return read_limits(cls, LIMIT_VARIABLE)


@dataclass(frozen=True)
class HubLimits:
    """Limits of reading from hubs: `QUANTVIZ_HUB_` and the field's name in capitals."""

    cache_bytes: int = 4 * 2**30
    tensor_bytes: int = 2**30
    #: Of one reading, however many requests it needs.
    seconds: float = 120
    #: A host may send nothing for so long.
    quiet_seconds: float = 15
    #: Requests at a time, of all sessions together: to all hosts, and to one, so that a host that stalls does
    #: not block the others.
    requests: int = 16
    host_requests: int = 4
    redirects: int = 5

    @classmethod
    def of_environment(cls) -> HubLimits:
        return read_limits(cls, HUB_LIMIT_VARIABLE)


def setting_of(limit: str) -> str:
    """>>> setting_of("file_bytes")
    'QUANTVIZ_MAX_FILE_BYTES'
    """
    return f"{LIMIT_VARIABLE}{limit.upper()}"


def read_limits(kind: type[_L], prefix: str) -> _L:
    """Return a dataclass of limits with those that the environment sets: `prefix` and the field in capitals.

    Raises:
        QuantVizError: A value is not a whole number above 0.
    """
    variables = {each.name: f"{prefix}{each.name.upper()}" for each in fields(kind)}
    given = {name: os.environ[variable] for name, variable in variables.items() if variable in os.environ}
    for name, value in given.items():
        if not re.fullmatch(r"[1-9]\d{0,17}", value, re.ASCII):
            raise QuantVizError("limit_setting", variable=variables[name], got=value)
    return kind(**{name: int(value) for name, value in given.items()})


def checked_names(names: Iterable[str]) -> None:
    """Raise a `QuantVizError` where a name is too long to be a key; its sentence has the name cut."""
    for name in names:
        if len(name) > LONGEST_NAME:
            raise QuantVizError("name_too_long", got=len(name), name=name[:20] + "…", most=LONGEST_NAME)
