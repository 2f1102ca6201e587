"""Codes to scan."""

from __future__ import annotations

import html

import segno


def qr_source(address: str) -> str:
    """Return the code of an address as an image's address, with its white edge.

    The lowest error correction has the coarsest squares: on a wall nothing is torn or dirty, but far away.
    """
    code = segno.make(address, error="l", micro=False)
    return str(code.svg_data_uri(border=4, dark="#000", light="#fff", omitsize=True))


def qr_image(address: str, alt: str) -> str:
    """Return the code of an address as an HTML image, white around it on a dark page too."""
    return f'<img class="qv-qr" alt="{html.escape(alt)}" src="{html.escape(qr_source(address))}">'
