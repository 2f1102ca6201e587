"""The plugin of pytest: `assert_sqnr`, a gate for the weights of a model in a project's own tests.

    def test_my_model_survives_int4(assert_sqnr):
        assert_sqnr(model, "int4_g128", at_least=15)

It is there once quantviz is installed. Nothing is imported before a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torch import nn

    from quantviz.schemes.scheme import Scheme


class AssertSqnr:
    """The check of the fixture `assert_sqnr`; it writes into new folders of pytest's."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders

    def __call__(
        self,
        model: nn.Module | str | os.PathLike[str],
        scheme: Scheme | str,
        *,
        at_least: float,
        engine: str | None = None,
        include: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
    ) -> None:
        """Fail the test if a weight of `model` has an SQNR below `at_least` dB under `scheme`, or none.

        Args:
            model: A torch module, or the path of a checkpoint.
            scheme: A recipe, or a scheme.
            at_least: The bound, in dB.
            engine: The engine whose tensors are measured; without one, the matrices that engines quantize.
            include: Names, or patterns with `*`: only these are measured.
            exclude: And these are not.
        """
        __tracebackhide__ = True
        from quantviz.checkpoints.scan.scanning import scan
        from quantviz.export.scan_gate import Gate
        from quantviz.export.scan_summary import summary_of

        folder = self._folders.mktemp("quantviz")
        path = _saved(model, folder)
        kept = folder / "results"
        table = scan(path, scheme, results=kept, engine=engine, include=include, exclude=exclude)
        rows = summary_of(table).rows
        gate = Gate(at_least)
        failures = [f"{row.tensor}: {failure}" for row in rows if (failure := gate.failure(row))]
        if not any(row.status == "ok" for row in rows):
            failures.append("no weight was measured")
        if failures:
            pytest.fail("\n".join(failures), pytrace=False)


@pytest.fixture
def assert_sqnr(tmp_path_factory: pytest.TempPathFactory) -> AssertSqnr:
    """Return a check that all weights of a model have an SQNR of at least so many dB under a scheme."""
    return AssertSqnr(tmp_path_factory)


def _saved(model: nn.Module | str | os.PathLike[str], folder: Path) -> Path:
    if isinstance(model, str | os.PathLike):
        return Path(model)
    import torch

    path = folder / "model.pt"
    torch.save(model.state_dict(), path)
    return path
