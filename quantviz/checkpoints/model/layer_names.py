"""How models call their layers and tensors: one table of all names, `layer_names.toml`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
