"""Weights as libraries wrote them, and what each read back: the record of `record_written_layouts`."""

import json

from safetensors import safe_open
from safetensors.torch import save_file

from tests.engines.record_written_layouts import RECORD

with safe_open(RECORD, "pt") as record:
    SAID = record.metadata()
    CASES = json.loads(SAID["cases"])
    TENSORS = {name: record.get_tensor(name) for name in record.keys()}  # noqa: SIM118 (no mapping)


def written(case, path):
    """A file of a recorded case, and what the library read back."""
    prefix = f"{case}/"
    own = {f"x.{name.removeprefix(prefix)}": x for name, x in TENSORS.items() if name.startswith(prefix)}
    theirs = own.pop("x.expected")
    save_file(own, path, metadata=CASES[case]["header"] or None)
    (path.parent / "config.json").write_text(json.dumps({"quantization_config": CASES[case]["config"]}))
    return own, theirs
