"""Programs for the browser, kept between processes: a page is drawn with them before torch comes in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from quantviz.compiled.kernel_cache import kept_text
from quantviz.schemes.scheme import Scheme


def kept_programs(schemes: Sequence[Scheme], before: Callable[[], None]) -> MappingProxyType[str, Any]:
    """Return the programs of `schemes` as `packed_together` packs them, read-only.

    They are written once for this version of the code. `before` is called if they have to be, which imports
    torch.
    """
    return _kept(tuple(schemes), before)


@lru_cache(maxsize=8)
def _kept(schemes: tuple[Scheme, ...], before: Callable[[], None]) -> MappingProxyType[str, Any]:
    def write() -> str:
        before()
        from quantviz.compiled.javascript import packed_together, write_program

        return json.dumps(packed_together(map(write_program, schemes)))

    name = hashlib.sha256("\n".join(map(str, schemes)).encode()).hexdigest()[:16]
    return MappingProxyType(json.loads(kept_text(f"programs-{name}", write)))
