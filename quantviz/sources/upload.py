"""Tensors of uploaded files and pictures, each in its person's session alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import OpenedFiles, Source, comment, file_code

if TYPE_CHECKING:
    import torch

    from quantviz.tensors.lazy import Stored

_PICTURES = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True)
class UploadedFile:
    #: Without a folder.
    file: str
    tensor: str = ""
    #: Of a picture, as `image_tensor` calls it.
    channel: str | None = None
    #: The quantized type in the file, "" for plain numbers.
    source_type: str = ""
    #: The chosen dtype of NumPy's arrays of bytes, "" if the file has the dtype.
    read_as: str = ""

    @classmethod
    def named(cls, name: str) -> UploadedFile:
        """Return the file of a name such as "file · tensor"."""
        file, _, tensor = name.partition(" · ")
        return cls(file, channel="grey") if file.lower().endswith(_PICTURES) else cls(file, tensor)


@dataclass(frozen=True)
class Upload(Source):
    """A tensor that lies only in one person's session: it is never shared, and no link can carry it.

    >>> Upload("00", "a.pt · layer.weight", (2, 2)).place_in_file.tensor
    'layer.weight'
    """

    #: Another file is another source.
    digest: str
    name: str
    shape: Shape
    #: Without it `name` is "file · tensor".
    file: UploadedFile | None = None
    id: ClassVar[str] = "upload"
    shared: ClassVar[bool] = False
    finite: ClassVar[bool] = False

    @property
    def place_in_file(self) -> UploadedFile:
        return self.file or UploadedFile.named(self.name)

    @property
    def kind(self) -> str:
        """Return the kind: a picture has a channel to choose."""
        return "image" if self.place_in_file.channel else "file"

    def tensor(self) -> torch.Tensor:
        """Refuse: `open` asks the session that has the values."""
        raise QuantVizError("link.upload")

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Stored:  # noqa: B008 (it holds nothing)
        return at_hand.uploaded(self)

    def title(self, language: str) -> str:
        return self.name

    @property
    def stem(self) -> str:
        return PurePath(self.name).stem

    @property
    def picture(self) -> bool:
        return self.place_in_file.channel is not None

    @property
    def stored_as(self) -> str:
        return self.place_in_file.source_type

    @property
    def key(self) -> str:
        read_as = self.place_in_file.read_as
        return f"{self.id} {self.digest} {self.name}{f' {read_as}' if read_as else ''}"

    def link_text(self) -> str:
        return self.id

    def link_problem(self) -> QuantVizError:
        return QuantVizError("link.upload")

    def code(self, large: bool, language: str) -> list[str]:
        """Return the lines that read the file.

        Names are a stranger's text: only their `repr` gets into the script.
        """
        at = self.place_in_file
        if at.channel is None:
            name = repr(at.tensor) if at.tensor else "tensors.names[0]"
            return file_code(at.file, name, large, language, at.read_as)
        return [
            "from pathlib import Path",
            "from quantviz.sources.image import image_tensor",
            comment("export.python.file", language, file=repr(at.file)),
            f"x = image_tensor(Path({at.file!r}).read_bytes(), {at.channel!r})",
        ]
