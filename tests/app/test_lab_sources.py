"""Where the Lab's tensor comes from: random, typed, uploaded, and what is refused."""

import contextlib
import io
from dataclasses import dataclass
from typing import ClassVar

import ml_dtypes
import numpy as np
import torch
from safetensors.torch import save

import quantviz as qv
from quantviz import sources, text
from quantviz.export.files import file_name, python_lines
from quantviz.lab.state import LabState
from quantviz.sources.base import Source
from quantviz.sources.files.gguf_blocks import BLOCK_TYPES, decode_blocks
from quantviz.sources.random import Bounds
from quantviz.text import catalogue
from quantviz.ui.lab.sidebar import sidebar
from tests.helpers import layouts
from tests.helpers.controls import choose, controls, value_of, words_of
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.session import (
    act,
    address,
    bodies,
    healthy,
    npz,
    numbers,
    opened,
    panels,
    told,
    unfolded,
    upload,
)


def test_random_tensors():
    at = act(opened(), kind="random", distribution="student_t", random_rows=12, random_seed=7)
    assert address(healthy(at))["t"] == "student_t(rows=12,seed=7)"
    assert panels(at)[0].shape == (12, 32)
    # The second was typed before the first had its answer.
    choose(at, ("distribution", "normal"), ("random_df", "3"))
    assert address(at)["t"] == "normal(rows=12,seed=7)"
    assert not at.warning


def test_typing_a_tensor():
    at = act(opened(), kind="typed")
    assert address(at)["t"].startswith("typed.8x8.")
    act(at, typed_text="tensor([[1., -2.], [3., 4.5]], dtype=torch.float32)")
    assert panels(healthy(at))[0].tolist() == [[1.0, -2.0], [3.0, 4.5]]
    act(at, typed_text="1 2\n3 x")
    assert "x" in at.error[0].value
    assert at.text_area(key="typed_text").value == "1 2\n3 x"
    assert panels(at)[0].tolist() == [[1.0, -2.0], [3.0, 4.5]]
    act(at, "typed_decimal", typed_text="1,5 2,5")
    assert panels(healthy(at))[0].tolist() == [[1.5, 2.5]]


def test_uploads_stay_in_the_session_and_bad_ones_change_nothing():
    first = np.arange(12, dtype=np.float64).reshape(3, 4) / 10
    at = upload(opened(), "two.npz", npz(first=first, second=np.ones((2, 3, 4), dtype=np.float32)))
    assert panels(healthy(at))[0].shape == (3, 4)
    assert address(at)["t"] == "upload"
    assert "links cannot carry uploads" in told(at, "info")
    assert "float64 was stored as float32" in told(at, "info")
    act(at, file_tensor="second")
    assert numbers(at)[0].label.endswith("whole tensor")
    act(unfolded(at), scope="slice")
    assert numbers(at)[0].label.endswith("this slice")
    act(at, view_at_0=1, view_rows=0)
    assert panels(healthy(at))[0].shape == (2, 4)
    upload(at, "bad.npz", b"PK\x03\x04nonsense")
    assert "bad" in at.error[0].value
    assert panels(at)[0].shape == (2, 4)


def test_a_quantized_file_is_dequantized_and_says_so():
    raw = np.random.default_rng(0).integers(0, 60, (4, 144), dtype=np.uint8)
    file = gguf_file([Entry("w", (256, 4), 12, raw.tobytes()), Entry("other", (256,), 36, bytes(96))])
    at = upload(opened(), "small.gguf", file)
    x = decode_blocks(BLOCK_TYPES[12], torch.from_numpy(raw))
    assert f"{qv.metrics(qv.quantize(x, qv.Scheme('int4')))['mse']:.4g}" == numbers(healthy(at))[0].value
    assert "Decoded from GGUF, 4.5 bits per weight" in told(at, "info")
    act(at, file_tensor="other")
    assert "type I2_S" in told(at, "error")
    assert [body for body in bodies(at, "Q4_K → float32") if "4 × 256" in body]


def test_an_uploaded_quantized_weight_is_shown_decoded():
    q, zero, scale = layouts.rounded(torch.randn(32, 64), 4, 32)
    file = save({name: x.contiguous() for name, x in layouts.gptq("q_proj", q, zero, scale, 4).items()})
    at = upload(opened(), "x.safetensors", file)
    wide = [each.repeat_interleave(32, 1) for each in (zero, scale)]
    x = (q - wide[0]) * wide[1]
    scheme = healthy(at).session_state["lab_state"].now.scheme
    assert f"{qv.metrics(qv.quantize(x, scheme))['mse']:.4g}" == numbers(at)[0].value
    assert value_of(at, "file_tensor") == "q_proj.weight"
    assert "Decoded from GPTQ" in told(at, "info")


def test_an_uploaded_array_without_a_dtype_asks_for_it():
    x = np.array([[0.5, -1.0, 1.5], [2.0, 0.0, -0.25]], dtype=np.float32)
    at = upload(opened(), "x.npy", x.astype(ml_dtypes.float8_e4m3fn))
    assert "Choose the type beside the tensor" in at.error[0].value
    assert panels(at)[0].shape == (8, 8)
    for dtype, wanted in (("float8_e4m3fn", x), ("float8_e4m3fnuz", x / 2)):
        act(at, file_read_as=dtype)
        assert np.allclose(panels(healthy(at))[0], wanted[:, :3], equal_nan=True), dtype
    source = at.session_state["lab_state"].now.source
    assert "stored_as='float8_e4m3fnuz'" in "\n".join(source.code(False, "en"))


def test_a_tensor_that_cannot_be_quantized_leaves_the_open_one_and_is_no_step_to_undo():
    at = upload(opened(), "huge.npy", np.array([[3e38, -3e38], [1.0, 2.0]], dtype=np.float32))
    assert "too wide for float32" in told(at, "warning")
    assert panels(at)[0].shape == (8, 8)
    assert len(numbers(at)) == 5
    assert controls(at)["undo"]["disabled"]


@dataclass(frozen=True)
class Ramp(Source):
    """Values that rise from cell to cell."""

    rows: int = 3
    slope: float = 2.0
    id: ClassVar[str] = "ramp"
    kind: ClassVar[str] = "random"
    limits: ClassVar = {"rows": Bounds(1, 99), "slope": Bounds(-5.0, 5.0)}

    @property
    def shape(self):
        return (self.rows, 4)

    def tensor(self):
        return (torch.arange(self.rows * 4.0) * self.slope).reshape(self.shape)


def test_one_that_is_added_is_in_the_lab_its_links_and_its_scripts(monkeypatch):
    drawn = {name for name, each in sources.SOURCES.items() if each.kind == "random"}
    assert {*sidebar._RANDOM} == drawn
    for module in (sources, sidebar):
        monkeypatch.setattr(module, "SOURCES", {**sources.SOURCES, Ramp.id: Ramp})
    monkeypatch.setattr(sidebar, "_RANDOM", (*sidebar._RANDOM, Ramp.id))
    monkeypatch.setattr(sources, "Ramp", Ramp, raising=False)
    own = {**catalogue("en"), "sources.ramp.name": "A ramp", "source_fields.slope": "Slope"}
    monkeypatch.setattr(text, "catalogue", lambda language: own)
    at = act(opened(lang="en"), kind="random")
    assert "A ramp" in words_of(at, "distribution")
    # What both have is kept.
    act(at, distribution="ramp", random_slope=3.0)
    link = address(healthy(at))
    assert link["t"] == "ramp(rows=32,slope=3.0)"
    assert bodies(at, "A ramp")
    state, problems = LabState.read(link)
    assert (state.source, problems) == (Ramp(32, 3.0), ())
    assert file_name(state.source, state.scheme, "csv").startswith("ramp_")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(python_lines(state), {})
    assert "SQNR" in out.getvalue()
