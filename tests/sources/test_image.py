"""Pictures: channels, sizes, and what is refused."""

import io
import subprocess
import sys

import numpy
import pytest
import torch
from PIL import Image

from quantviz.errors import QuantVizError
from quantviz.sources.image import CHANNELS, MOST_SCANS, image_tensor, read_image
from tests.helpers import ROOT
from tests.helpers.sample import sample_of


def encoded(picture, kind="PNG", **options):
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def gradient(width=4, height=3):
    picture = Image.new("RGB", (width, height))
    for x in range(width):
        for y in range(height):
            picture.putpixel((x, y), (x % 256, y % 256, (x + y) % 256))
    return picture


def test_channels():
    data = encoded(gradient())
    everything = image_tensor(data, "all")
    assert (everything.shape, everything.dtype) == ((3, 3, 4), torch.float32)
    assert everything[0].tolist() == [[0, 1, 2, 3]] * 3
    assert everything[1].tolist() == [[0] * 4, [1] * 4, [2] * 4]
    for position, channel in enumerate(("red", "green", "blue")):
        assert torch.equal(image_tensor(data, channel), everything[position])
    assert image_tensor(data).shape == (3, 4)
    for channel in CHANNELS:
        assert image_tensor(data, channel).is_contiguous()


@pytest.mark.parametrize(
    ("mode", "colour", "grey"),
    [
        ("L", 200, 200),
        ("1", 1, 255),
        ("RGB", (255, 255, 255), 255),
        ("RGBA", (0, 0, 0, 0), 255),
        ("RGBA", (10, 10, 10, 255), 10),
        ("LA", (0, 0), 255),
        ("I;16", 65535, 255),
        ("I;16", 25600, 100),
        ("P", 0, 0),
    ],
)
def test_modes(mode, colour, grey):
    assert image_tensor(encoded(Image.new(mode, (5, 2), colour))).tolist() == [[grey] * 5] * 2


def test_jpeg_and_cmyk():
    assert float(image_tensor(encoded(Image.new("L", (16, 16), 77), "JPEG")).mean()) == pytest.approx(
        77, abs=2
    )
    assert image_tensor(encoded(Image.new("CMYK", (16, 16)), "JPEG")).shape == (16, 16)


def test_large_pictures_are_shrunk_with_a_note():
    tensor, notes = read_image(encoded(Image.new("L", (2048, 1024), 9)))
    assert tensor.shape == (256, 512)
    assert float(tensor.min()) == float(tensor.max()) == 9
    assert (
        str(notes[0])
        == "The picture was shrunk from 2048 × 1024 to 512 × 256, so that every pixel is a cell."
    )
    assert read_image(encoded(Image.new("L", (512, 512))))[1] == ()
    assert image_tensor(encoded(Image.new("L", (3000, 1)))).shape == (1, 512)
    jpeg, notes = read_image(encoded(Image.new("L", (2048, 1024), 9), "JPEG"))
    assert jpeg.shape == (256, 512)
    assert notes[0].params["width"] == 2048


def test_a_photo_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    tensor, notes = read_image(encoded(Image.new("L", (2000, 1000)), "JPEG", exif=exif))
    assert tensor.shape == (512, 256)
    assert (notes[0].params["width"], notes[0].params["height"]) == (1000, 2000)


def test_an_unknown_channel():
    with pytest.raises(QuantVizError) as caught:
        image_tensor(encoded(gradient()), "alpha")
    assert caught.value.key == "image.unknown_channel"


def test_a_large_noisy_picture_is_no_jpeg_of_many_scans():
    noise = numpy.random.default_rng(0).integers(0, 256, (3000, 3000, 3), dtype=numpy.uint8)
    data = encoded(Image.fromarray(noise), compress_level=0)
    assert data.count(b"\xff\xda") > MOST_SCANS
    assert image_tensor(data).shape == (512, 512)


def test_pictures_shrunk_by_bands_are_what_pillow_makes_of_all(monkeypatch):
    monkeypatch.setattr("quantviz.sources.image._BAND", 5000)
    for mode, channels in (("RGB", 3), ("L", 1), ("CMYK", 4)):
        levels = numpy.random.default_rng(1).integers(0, 256, (768, 1536, channels), dtype=numpy.uint8)
        picture = Image.fromarray(levels[:, :, 0] if channels == 1 else levels, mode)
        data = encoded(picture, "JPEG", quality=95) if mode == "CMYK" else encoded(picture)
        with Image.open(io.BytesIO(data)) as opened:
            opened.draft("RGB", (512, 512))
            expected = numpy.asarray(
                opened.convert("RGB").resize((512, 256), Image.Resampling.BOX), dtype=numpy.float32
            )
        assert (
            image_tensor(data, "all").permute(1, 2, 0) - torch.from_numpy(expected.copy())
        ).abs().max() <= 1


IN_LITTLE_MEMORY = """
import resource, os, sys
import torch
from quantviz.sources.image import read_image
import PIL.PngImagePlugin, PIL.JpegImagePlugin
data = sys.stdin.buffer.read()
size = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (size + 200 * 2**20, resource.RLIM_INFINITY))
print(*read_image(data, "all")[0].shape)
"""


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="Linux bounds a process's memory")
@pytest.mark.parametrize("mode", sample_of(["RGB", "RGBA", "LA", "I;16"], 1))
def test_the_largest_picture_takes_little_more_than_its_pixels(mode):
    """2^25 pixels of 4 bytes are 128 MB; it took over 400."""
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(Image.new(mode, (2**13, 2**12)), exif=exif)
    ran = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY], input=data, capture_output=True, timeout=120, cwd=ROOT
    )
    assert ran.stdout.split() == [b"3", b"512", b"256"], ran.stderr[-500:]
