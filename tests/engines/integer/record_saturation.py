"""Record what torch's quantized linear layer answers on a processor without VNNI.

    FBGEMM_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 python -m tests.engines.integer.record_saturation

The variables choose the kernels of AVX2, whose instruction vpmaddubsw adds two products of u8·s8 in 16 bits
that saturate. They must be set before torch is loaded, so the answers are kept: codes of each layer of
`layers.saturating_layers`, one after the other.
"""

from __future__ import annotations

import json
import os

import numpy as np
import torch

from tests.engines.integer.layers import saturating_layers
from tests.engines.integer.torch_linear import RECORD, linear


def main() -> None:
    """Write the record."""
    set_to = {name: os.environ.get(name) for name in ("FBGEMM_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")}
    if set(set_to.values()) != {"AVX2"}:
        raise SystemExit(__doc__)
    about = {"producer": "torch", "version": torch.__version__.partition("+")[0], "environment": set_to}
    codes = {
        backend: np.concatenate([linear(layer, backend).ravel() for layer in saturating_layers()])
        for backend in ("fbgemm", "onednn")
    }
    np.savez_compressed(RECORD, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **codes)


if __name__ == "__main__":
    main()
