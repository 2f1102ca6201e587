"""Tables of pandas, which is imported only to make one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from quantviz.errors import QuantVizError

if TYPE_CHECKING:
    import pandas


def load_pandas() -> Any:
    """Return pandas.

    Raises:
        QuantVizError: It is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise QuantVizError("needs_pandas") from None
    return pandas


def data_frame(columns: Mapping[str, Sequence[Any]]) -> pandas.DataFrame:
    """Return columns of one length as a table."""
    table: pandas.DataFrame = load_pandas().DataFrame(dict(columns))
    return table


def frame_of(rows: Sequence[Any], kind: Any, **columns: Sequence[Any]) -> pandas.DataFrame:
    """Return dataclasses of one `kind` as a table: first `columns`, then a column for each field."""
    names = [each.name for each in fields(kind)]
    return data_frame({**columns, **{name: [getattr(row, name) for row in rows] for name in names}})
