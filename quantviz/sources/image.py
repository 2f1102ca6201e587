"""Pictures as tensors: grey levels or channels from 0 to 255."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quantviz.errors import Note, QuantVizError
from quantviz.sources.files.file_data import clipped

if TYPE_CHECKING:
    import torch

LONGEST_SIDE = 512
#: Most pixels a picture may declare. Decoded it takes 4 bytes a pixel: 128 MB.
MOST_PIXELS = 2**25

_BAND = 2**20
#: The camera's tag for the orientation of the picture, and its values for pictures that lie on a side.
_ORIENTATION = 0x0112
_LYING = frozenset({5, 6, 7, 8})

#: Most scans of a progressive JPEG. Each goes over the whole picture again; usual are some ten.
MOST_SCANS = 200
_JPEG = b"\xff\xd8"
_SCAN = b"\xff\xda"

CHANNELS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "grey": lambda picture: picture.convert("L"),
        "red": lambda picture: picture.getchannel("R"),
        "green": lambda picture: picture.getchannel("G"),
        "blue": lambda picture: picture.getchannel("B"),
        "all": lambda picture: picture,
    }
)


def image_tensor(data: bytes, channel: str = "grey", *, longest_side: int = LONGEST_SIDE) -> torch.Tensor:
    return read_image(data, channel, longest_side=longest_side)[0]


def read_image(
    data: bytes, channel: str = "grey", *, filename: str = "?", longest_side: int = LONGEST_SIDE
) -> tuple[torch.Tensor, tuple[Note, ...]]:
    """Return the picture in a PNG or JPEG file, and notes on changes.

    The tensor is float32 with whole numbers from 0 to 255, as stored: (height, width), or
    (3, height, width) for the channel "all". A picture is turned upright by its camera's tag, laid on
    white where it is transparent, and shrunk to `longest_side` with a note, because no camera takes
    pictures of 512 pixels. Raises `QuantVizError` for other files, damaged ones, and more than `MOST_PIXELS`.
    """
    import torch

    if channel not in CHANNELS:
        raise QuantVizError("image.unknown_channel", got=channel, known=", ".join(CHANNELS))
    picture, (width, height) = _decoded(data, clipped(filename), longest_side)
    notes: tuple[Note, ...] = ()
    if max(width, height) > longest_side:
        after = {"new_width": picture.width, "new_height": picture.height}
        notes = (Note.of("source.picture_shrunk", width=width, height=height, **after),)
    chosen = CHANNELS[channel](picture)
    values = torch.frombuffer(bytearray(chosen.tobytes()), dtype=torch.uint8).reshape(
        chosen.height, chosen.width, -1
    )
    planes = values.permute(2, 0, 1).to(torch.float32).contiguous()
    return (planes if channel == "all" else planes[0]), notes


def _decoded(data: bytes, file: str, longest_side: int) -> tuple[Any, tuple[int, int]]:
    """Return the picture upright in RGB, no larger than wanted, and its upright size in the file.

    That size is checked before any pixel is decoded, and there is only ever one copy at full size.
    """
    from PIL import Image, ImageOps

    # In a PNG these bytes stand by chance.
    if data.startswith(_JPEG) and data.count(_SCAN) > MOST_SCANS:
        raise QuantVizError("image.unreadable", file=file)
    try:
        with Image.open(BytesIO(data), formats=("PNG", "JPEG")) as opened:
            width, height = opened.size
            if width * height > MOST_PIXELS:
                raise QuantVizError(
                    "image.too_large", file=file, width=width, height=height, most=MOST_PIXELS
                )
            # A JPEG can be decoded at a half, a quarter, an eighth: still at least as large as the result.
            opened.draft("RGB", (longest_side, longest_side))
            small = _shrunk(opened, (width, height), longest_side)
            # Turn it last: only the opened picture has the tag.
            turned = opened.getexif().get(_ORIENTATION, 1) in _LYING
            small.getexif()[_ORIENTATION] = opened.getexif().get(_ORIENTATION, 1)
            return ImageOps.exif_transpose(small), ((height, width) if turned else (width, height))
    except QuantVizError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        # Pillow's own limit lies above ours; it does not say the size.
        raise QuantVizError("image.too_large", file=file, width="?", height="?", most=MOST_PIXELS) from None
    except Exception:
        # Damaged files make Pillow raise nearly anything, SyntaxError and struct.error among them.
        raise QuantVizError("image.unreadable", file=file) from None


def _shrunk(opened: Any, size: tuple[int, int], longest_side: int) -> Any:
    """Return the picture on white, shrunk where a side is too long, some rows at a time."""
    from PIL import Image

    opened.load()
    width, height = size
    if max(width, height) <= longest_side:
        return _without_transparency(opened)
    scale = longest_side / max(width, height)
    small = Image.new("RGB", (max(1, round(width * scale)), max(1, round(height * scale))))
    step = opened.height / small.height
    rows = max(1, int(_BAND / (opened.width * step)))
    for top in range(0, small.height, rows):
        bottom = min(top + rows, small.height)
        first = math.floor(top * step)
        last = min(math.ceil(bottom * step), opened.height)
        band = _without_transparency(opened.crop((0, first, opened.width, last)))
        # A mean over areas: no value that was not between its neighbours.
        box = (0, top * step - first, opened.width, min(bottom * step - first, band.height))
        small.paste(band.resize((small.width, bottom - top), Image.Resampling.BOX, box), (0, top))
    return small


def _without_transparency(picture: Any) -> Any:
    from PIL import Image

    if picture.mode.startswith("I"):
        # 16 bits a pixel: keep the upper 8. Pillow would clip values above 255.
        picture = picture.convert("I").point(lambda level: level / 256).convert("L")
    if "A" in picture.getbands() or "transparency" in picture.info:
        coloured = picture if picture.mode == "RGBA" else picture.convert("RGBA")
        white = Image.new("RGB", coloured.size, "white")
        # Pasted, not composed: that would take two more pictures in between.
        white.paste(coloured, mask=coloured.getchannel("A"))
        return white
    return picture.convert("RGB")
