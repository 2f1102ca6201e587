"""Record what onnxruntime answers on a processor without VNNI.

    qemu-x86_64 -cpu Haswell python -m tests.engines.integer.record_onnxruntime

The package picks its kernels by the processor and has no switch, so its own machine code runs on an emulated
Haswell, which has AVX2 and no VNNI. The record has the answers of each kernel of `onnxruntime.AVX2` to the
layers of `onnxruntime.without_vnni`, one after the other.
"""

from __future__ import annotations

import json

import numpy as np
import onnxruntime as ort

from tests.engines.integer.onnxruntime import AVX2, RECORD, run, without_vnni


def main() -> None:
    """Write the record."""
    pair = {"a": np.full((1, 2), 255, np.uint8), "b": np.full((2, 1), 127, np.int8)}
    if run("MatMulInteger", pair, "int32").item() != 2**15 - 1:
        raise SystemExit(__doc__)
    about = {"producer": "onnxruntime", "version": ort.__version__, "processor": "qemu-x86_64 -cpu Haswell"}
    codes = {
        kernel: np.concatenate([ask(layer).ravel() for layer in without_vnni()])
        for kernel, ask in AVX2.items()
    }
    np.savez_compressed(RECORD, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **codes)


if __name__ == "__main__":
    main()
