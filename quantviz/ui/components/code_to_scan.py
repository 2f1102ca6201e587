"""Codes to scan, and the app's address that stands in them."""

from __future__ import annotations

import html

import segno
import streamlit as st

from quantviz.lab.share_links import app_address, only_here
from quantviz.ui.shell.server import is_local_only, network_address

#: The app's address until the browser has sent it.
_UNKNOWN = "http://localhost:8501/"


def app_here() -> str:
    """Return the app's address as this browser has it."""
    return app_address(st.context.url or _UNKNOWN)


def app_for_all() -> str:
    """Return the app's address, by which other computers reach it where there is one."""
    app = app_here()
    network = network_address(app) if only_here(app) and not is_local_only() else None
    return network or app


def qr_source(address: str) -> str:
    """Return the code of an address as an image's address, with its white edge.

    The lowest error correction has the coarsest squares: on a wall nothing is torn or dirty, but far away.
    """
    code = segno.make(address, error="l", micro=False)
    return str(code.svg_data_uri(border=4, dark="#000", light="#fff", omitsize=True))


def qr_image(address: str, alt: str) -> str:
    """Return the code of an address as an HTML image, white around it on a dark page too."""
    return f'<img class="qv-qr" alt="{html.escape(alt)}" src="{html.escape(qr_source(address))}">'
