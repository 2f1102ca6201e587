"""Records the tables of vectors of GGML's IQ types, as the package `gguf` has them.

    python -m tests.engines.record_gguf_vectors

They are a part of the file format: found by a search of ggml's authors, they follow from no formula. Written
with gguf 0.19.0; `tests/sources/test_gguf.py` compares what is decoded with the package that is installed.
"""

from __future__ import annotations

import numpy as np
from gguf import quants

from quantviz.sources.files.gguf_blocks import TABLES, TABLES_FILE


def main() -> None:
    """Write the tables one after the other as int8."""
    parts = []
    for name, shape in TABLES.items():
        kind = getattr(quants, name)
        kind.init_grid()
        parts.append(kind.grid.reshape(shape).astype(np.int8).tobytes())
    TABLES_FILE.write_bytes(b"".join(parts))


if __name__ == "__main__":
    main()
