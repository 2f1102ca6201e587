"""pandas, for whoever asks for a table."""

from __future__ import annotations

from typing import Any

from quantviz.errors import QuantVizError


def load_pandas() -> Any:
    """Return pandas, which nothing but tables needs.

    Raises:
        QuantVizError: It is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise QuantVizError("checkpoint.needs_pandas") from None
    return pandas
