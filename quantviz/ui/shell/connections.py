"""The server's connections, which send each part of an answer at once."""

from __future__ import annotations

import contextlib
import os
import socket

import streamlit as st

#: Folder with the numbers of a process's open files; there is none on Windows.
_OPEN = "/dev/fd"


@st.cache_resource(show_spinner=False)
def send_at_once() -> bool:
    """Have the server send each part of an answer when it is written.

    Streamlit makes its socket without a protocol's number, and asyncio then leaves Nagle's algorithm on: the
    second part of an answer, say a script's text after its header, waits until the browser has acknowledged
    the first, which takes 40 ms. Connections take the setting from the socket that they come in by.
    """
    for number in os.listdir(_OPEN) if os.path.isdir(_OPEN) else ():
        # Some of them are no sockets, or closed by now.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(number))) as connection:
            if (
                connection.family in (socket.AF_INET, socket.AF_INET6)
                and connection.type == socket.SOCK_STREAM
            ):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return True
