"""`python -m quantviz.cli.opening ADDRESS HEALTH [--open]`: the process of `serve` that opens the browser.

The server takes the command's place, so another process has to wait for it.
"""

from __future__ import annotations

import http.client
import os
import sys
import time
import urllib.error
import urllib.request
import webbrowser

#: Most seconds until the server answers, which compiles first; and seconds between two questions.
_LONGEST = 300.0
_BETWEEN = 0.2


def open_when_ready(address: str, health: str, *, browser: bool) -> None:
    """Tell the address, and open it, as soon as the server answers; give up when the server is gone."""
    parent = os.getppid()
    until = time.monotonic() + _LONGEST
    # The server is on this computer: no proxy lies between.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < until and os.getppid() == parent:
        try:
            with direct.open(health, timeout=2):
                break
        except (OSError, urllib.error.URLError, http.client.HTTPException):
            time.sleep(_BETWEEN)
    else:
        return
    print(f"\n  {address}\n", file=sys.stderr, flush=True)
    if browser:
        webbrowser.open(address)


if __name__ == "__main__":
    open_when_ready(*sys.argv[1:3], browser="--open" in sys.argv[3:])
