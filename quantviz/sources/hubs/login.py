"""The hub and the login that users of `huggingface_hub` set: its variables, and its file of a token."""

from __future__ import annotations

import os
from pathlib import Path

from quantviz.errors import QuantVizError

#: The variables of the hub to ask in place of the usual one, of the token, and of one that keeps the token
#: from being sent.
ENDPOINT = "HF_ENDPOINT"
TOKEN = "HF_TOKEN"
DISABLED = "HF_HUB_DISABLE_IMPLICIT_TOKEN"
USUAL_ENDPOINT = "https://huggingface.co"
_OLD_TOKEN = "HUGGING_FACE_HUB_TOKEN"
_YES = ("1", "on", "yes", "true")
#: Characters of a file that are taken for a token.
_LONGEST_TOKEN = 4096


def hub_token() -> str:
    """Return the token of the environment or of the file that `hf auth login` writes; "" without one.

    Raises:
        QuantVizError: It has characters that no token has. The message does not repeat it.
    """
    if os.environ.get(DISABLED, "").casefold() in _YES:
        return ""
    token = (os.environ.get(TOKEN) or os.environ.get(_OLD_TOKEN) or _saved()).strip()
    # Any other character could start another line of the request.
    if not token.isascii() or not token.isprintable() or " " in token:
        raise QuantVizError("hub.token", variable=TOKEN)
    return token


def _saved() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    path = os.environ.get("HF_TOKEN_PATH") or f"{home}/token"
    try:
        with Path(os.path.expandvars(path)).expanduser().open(encoding="utf-8") as file:
            return file.read(_LONGEST_TOKEN)
    except (OSError, ValueError, RuntimeError):  # none is saved, or there is no home
        return ""
