"""The store that an address leads to."""

from __future__ import annotations

from quantviz.sources.stores.addresses import scheme_of
from quantviz.sources.stores.store import Store

#: Schemes of addresses that need no package.
_WEB = ("http", "https")


def store_of(address: str) -> Store:
    """Return the store that an address leads to.

    Raises:
        QuantVizError: There is no store of that kind, or its package is not installed.
    """
    if scheme_of(address) in _WEB:
        from quantviz.sources.stores.web import WebStore

        return WebStore()
    from quantviz.sources.stores.object_store import ObjectStore

    return ObjectStore(address)
