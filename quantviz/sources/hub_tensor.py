"""Tensors of published models: the same cells for everybody with the link, wherever the app runs.

Requests go only to hubs that the operator lists. The revision is a commit, whose files never change.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, unquote

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import InFile, OpenedFiles, comment
from quantviz.sources.hubs.addresses import USUAL_REVISION, HubAddress
from quantviz.sources.hubs.hosts import HUBS, USUAL, Hosts, hubs_offered
from quantviz.text import visible

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog
    from quantviz.tensors.lazy import Stored

_LONGEST = 3000
_SHAPE = re.compile(r"[1-9]\d{0,18}(x[1-9]\d{0,18}){0,3}", re.ASCII)
_COMMIT_SHOWN = 7


@dataclass(frozen=True)
class HubTensor(InFile):
    """A tensor of a file of a published model.

    >>> x = HubTensor("a/b", "0" * 40, "model.safetensors", "layers.0.weight", (4096, 11008))
    >>> x.link_text().replace("0" * 40, "0…")
    'hub(a/b@0…,model.safetensors,layers.0.weight,4096x11008)'
    """

    #: `owner/name`.
    repo: str
    #: The commit.
    revision: str
    #: With "/".
    file: str
    name: str
    shape: Shape
    #: "" for the operator's first hub, and where any hub may have it.
    host: str = ""
    id: ClassVar[str] = "hub"
    kind: ClassVar[str] = "hub"

    @classmethod
    def of(cls, place: HubAddress, name: str) -> HubTensor:
        """Return a tensor at the commit that the revision means now, after a check that it can be read."""
        from quantviz.sources.hubs.models import find_model, published_catalog

        model = find_model(place)
        info = published_catalog(model, place.file).info(name)
        if info.problem:
            raise info.problem.again()
        host = "" if model.host == Hosts.of_environment().names[0] else model.host
        return cls(model.repo, model.commit, place.file, name, info.shape, host)

    @property
    def place(self) -> HubAddress:
        return HubAddress(self.repo, self.revision, self.file, self.host)

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Stored:  # noqa: B008 (it holds nothing)
        """Return the tensor. All bytes are fetched now, because a page reads all of them."""
        from quantviz.sources.sandboxed import Sandboxed

        catalog = self._catalog()
        assert isinstance(catalog, Sandboxed)
        return catalog.stored_now(self.name)

    def title(self, language: str) -> str:
        return visible(f"{self.repo} · {PurePosixPath(self.file).name} · {self.name}")

    @property
    def stem(self) -> str:
        return f"{PurePosixPath(self.repo).name}-{self.name}"

    def link_text(self) -> str:
        """Return the form in a link, with names quoted because they may be any text."""
        parts = [
            f"{self.repo}@{self.revision}",
            *(quote(each.encode("utf-8", "surrogatepass"), safe="/") for each in (self.file, self.name)),
            "x".join(map(str, self.shape)),
            *([f"host={self.host}"] if self.host else []),
        ]
        return f"{self.id}({','.join(parts)})"

    @classmethod
    def from_text(cls, form: str) -> HubTensor:
        """Return the source of a link.

        A form written by hand may name a branch or a tag, and leave the shape out: then the hub provides it.
        Raises `QuantVizError` for anything else that `link_text` does not write.
        """
        inner = form.removeprefix(f"{cls.id}(").removesuffix(")")
        parts = inner.split(",")
        host = parts.pop().removeprefix("host=") if parts[-1].startswith("host=") else ""
        shape = parts.pop() if len(parts) == 4 else ""
        try:
            if len(form) > _LONGEST or len(parts) != 3 or (shape and not _SHAPE.fullmatch(shape)):
                raise ValueError
            repo, _, revision = parts[0].partition("@")
            file, name = (unquote(each.strip(), errors="surrogatepass") for each in parts[1:])
            place = HubAddress(repo.strip(), revision.strip() or USUAL_REVISION, file, host)
            lengths = tuple(map(int, shape.split("x"))) if shape else ()
            if not file or math.prod(lengths) >= 2**63:
                raise ValueError
        except ValueError:
            raise QuantVizError("hub.form", got=form) from None
        if place.pinned and lengths:
            return cls(place.repo, place.revision, file, name, lengths, host)
        return cls.of(place, name)

    def code(self, large: bool, language: str) -> list[str]:
        return [
            comment("export.python.hub", language, model=f"{self.repo}@{self.revision[:_COMMIT_SHOWN]}"),
            "import os",
            f"os.environ.setdefault({HUBS!r}, {USUAL!r})",
            f"from quantviz.sources import {type(self).__name__}",
            f"x = {self!r}.{'open' if large else 'tensor'}()",
        ]

    def _open_file(self) -> Catalog:
        if not hubs_offered():  # without the imports of a connection
            raise QuantVizError("hub.not_set", variable=HUBS, example=USUAL)
        from quantviz.sources.hubs.models import find_model, published_catalog

        return published_catalog(find_model(self.place), self.file)
