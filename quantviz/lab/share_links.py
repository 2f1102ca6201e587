"""Addresses to hand out: as short as they can be, and where others reach the app."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from quantviz.lab.state import LabState, change_notes, weight_codec
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.arithmetic_changes import TensorTraits

#: Characters of an address that a class is given at most: a code of more is too fine to be scanned from the
#: back of a room.
LONGEST = 300
#: Characters that a query has unescaped, beside letters, digits and "-._~". A plus would be read as a space.
_UNESCAPED = ",()=:@/"


def write_address(app: str, page: str, parameters: Mapping[str, str]) -> str:
    """Return the address of a page of the app at `app`.

    >>> parameters = {"s": "int4,symmetric,per_channel(axis=1)", "k": "no-below"}
    >>> write_address("http://10.0.0.5:8501/", "lab", parameters)
    'http://10.0.0.5:8501/lab?s=int4,symmetric,per_channel(axis=1)&k=no-below'
    """
    query = "&".join(
        f"{name}={quote(value, _UNESCAPED, errors='replace')}" for name, value in parameters.items()
    )
    if query.endswith(")"):  # chat programs take a bracket at the end for the sentence's
        query = query[:-1] + "%29"
    return f"{app.rstrip('/')}/{page}" + (f"?{query}" if query else "")


def app_address(page_address: str) -> str:
    """Return where the app is, by the address of one of its pages.

    >>> app_address("http://10.0.0.5:8501/quant/teacher?lang=en")
    'http://10.0.0.5:8501/quant/'
    """
    parts = urlsplit(page_address)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rpartition('/')[0]}/"


def only_here(address: str) -> bool:
    """Return whether an address means the very computer that it is opened on.

    >>> [only_here(f"http://{host}:8501/") for host in ("localhost", "127.0.1.1", "[::1]", "0.0.0.0")]
    [True, True, True, True]
    >>> only_here("http://10.0.0.5:8501/"), only_here("http://quantviz.example:8501/")
    (False, False)
    """
    host = (urlsplit(address).hostname or "localhost").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return False
    return number.is_loopback or number.is_unspecified


def _was_mended(params: Mapping[str, str], state: LabState) -> bool:
    """Return whether a link without its version would be taken for one with another arithmetic."""
    # The tensor of a file may have any dtype.
    finite = state.source.finite
    dtypes = ("float32",) if finite else ("float32", *HALVES)
    return any(change_notes(params, state, TensorTraits(dtype, finite)) for dtype in dtypes)


def short_link(state: LabState, *, present: bool = True) -> dict[str, str]:
    """Return the state as query parameters, without those that equal the default.

    The tensor of a file has to be there, unless it need not be `present`.

    >>> from quantviz.lab.state import opening
    >>> short_link(opening()), list(short_link(opening().replace(error_range="fit")))
    ({}, ['r', 'x'])
    """
    kept = state.written()
    for name in tuple(kept):
        rest = {other: value for other, value in kept.items() if other != name}
        reread = LabState.read(rest, t=weight_codec(present=present))
        if reread == (state, ()) and not _was_mended(rest, state):
            kept = rest
    return kept
