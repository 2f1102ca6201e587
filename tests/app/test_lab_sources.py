"""Where the Lab's tensor comes from: random, typed, uploaded, and what is refused."""

import io

import numpy as np
import torch

import quantviz as qv
from tests.helpers.session import address, healthy, numbers, opened, panels


def test_random_tensors():
    at = opened()
    at.selectbox(key="kind").set_value("random").run()
    at.selectbox(key="distribution").set_value("student_t").run()
    at.number_input(key="random_rows").set_value(12).run()
    at.number_input(key="random_seed").set_value(7).run()
    assert address(healthy(at))["t"] == "student_t(rows=12,seed=7)"
    assert panels(at)[0].shape == (12, 32)


def test_typing_a_tensor():
    at = opened()
    at.selectbox(key="kind").set_value("typed").run()
    assert address(at)["t"].startswith("typed.8x8.")
    at.text_area(key="typed_text").set_value("tensor([[1., -2.], [3., 4.5]], dtype=torch.float32)").run()
    assert panels(healthy(at))[0].tolist() == [[1.0, -2.0], [3.0, 4.5]]
    at.text_area(key="typed_text").set_value("1 2\n3 x").run()
    assert "x" in at.error[0].value
    assert at.text_area(key="typed_text").value == "1 2\n3 x"
    assert panels(at)[0].tolist() == [[1.0, -2.0], [3.0, 4.5]]
    at.text_area(key="typed_text").set_value("1,5 2,5").run()
    at.button(key="typed_decimal").click().run()
    assert panels(healthy(at))[0].tolist() == [[1.5, 2.5]]


def test_uploads_stay_in_the_session_and_bad_ones_change_nothing():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    buffer = io.BytesIO()
    np.savez(
        buffer,
        first=np.arange(12, dtype=np.float64).reshape(3, 4) / 10,
        second=np.ones((2, 3, 4), dtype=np.float32),
    )
    at.file_uploader(key="tensor_file").set_value(
        ("two.npz", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert panels(healthy(at))[0].shape == (3, 4)
    assert address(at)["t"] == "upload"
    assert any("links cannot carry uploads" in info.value for info in at.info)
    assert any("float64 was stored as float32" in info.value for info in at.info)
    at.selectbox(key="file_tensor").set_value("second").run()
    assert panels(at)[0].shape == (3, 4)
    assert numbers(at)[0].label.endswith("whole tensor")
    at.radio(key="scope").set_value("slice").run()
    assert numbers(at)[0].label.endswith("this slice")
    at.number_input(key="view_at_0").set_value(1).run()
    at.selectbox(key="view_rows").set_value(0).run()
    assert panels(healthy(at))[0].shape == (2, 4)
    at.file_uploader(key="tensor_file").set_value(
        ("bad.npz", b"PK\x03\x04nonsense", "application/octet-stream")
    ).run()
    assert "bad" in at.error[0].value
    assert panels(at)[0].shape == (2, 4)


def test_a_quantized_file_is_dequantized_and_says_so():
    from quantviz.sources.files.gguf_blocks import BLOCK_TYPES, decode_blocks
    from tests.helpers.gguf_file import Entry, gguf_file

    raw = np.random.default_rng(0).integers(0, 60, (4, 144), dtype=np.uint8)
    file = gguf_file([Entry("w", (256, 4), 12, raw.tobytes()), Entry("other", (256,), 36, bytes(96))])
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    at.file_uploader(key="tensor_file").set_value(("small.gguf", file, "application/octet-stream")).run()
    x = decode_blocks(BLOCK_TYPES[12], torch.from_numpy(raw))
    assert f"{qv.metrics(qv.quantize(x, qv.Scheme('int4')))['mse']:.4g}" == numbers(healthy(at))[0].value
    assert any(
        "4 × 256" in element.proto.body and "Q4_K → float32" in element.proto.body
        for element in at.get("html")
    )
    said = [info.value.replace("\\", "") for info in at.info]
    assert any("Decoded from GGUF, 4.5 bits per weight" in sentence for sentence in said)
    at.selectbox(key="file_tensor").set_value("other").run()
    assert "type I2_S" in at.error[0].value.replace("\\", "")
    assert any(
        "4 × 256" in element.proto.body and "Q4_K → float32" in element.proto.body
        for element in at.get("html")
    )


def test_an_uploaded_quantized_weight_is_shown_decoded():
    from safetensors.torch import save

    from tests.helpers import layouts

    q, zero, scale = layouts.rounded(torch.randn(32, 64), 4, 32)
    file = save({name: x.contiguous() for name, x in layouts.gptq("q_proj", q, zero, scale, 4).items()})
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    at.file_uploader(key="tensor_file").set_value(("x.safetensors", file, "application/octet-stream")).run()
    wide = [each.repeat_interleave(32, 1) for each in (zero, scale)]
    x = (q - wide[0]) * wide[1]
    scheme = healthy(at).session_state["lab_state"].now.scheme
    assert f"{qv.metrics(qv.quantize(x, scheme))['mse']:.4g}" == numbers(at)[0].value
    assert at.selectbox(key="file_tensor").value == "q_proj.weight"
    assert any("Decoded from GPTQ" in info.value for info in at.info)


def test_an_uploaded_array_without_a_dtype_asks_for_it():
    import ml_dtypes

    x = np.array([[0.5, -1.0, 1.5], [2.0, 0.0, -0.25]], dtype=np.float32)
    buffer = io.BytesIO()
    np.save(buffer, x.astype(ml_dtypes.float8_e4m3fn))
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    file = ("x.npy", buffer.getvalue(), "application/octet-stream")
    at.file_uploader(key="tensor_file").set_value(file).run()
    assert "Choose the type beside the tensor" in at.error[0].value
    assert panels(at)[0].shape == (8, 8)
    for dtype, wanted in (("float8_e4m3fn", x), ("float8_e4m3fnuz", x / 2)):
        at.selectbox(key="file_read_as").set_value(dtype).run()
        assert np.allclose(panels(healthy(at))[0], wanted[:, :3], equal_nan=True), dtype
    source = at.session_state["lab_state"].now.source
    assert "stored_as='float8_e4m3fnuz'" in "\n".join(source.code(False, "en"))


def test_pickles_run_nothing():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    at.file_uploader(key="tensor_file").set_value(
        ("evil.pt", b"cos\nsystem\n(S'touch /tmp/quantviz_evil'\ntR.", "application/octet-stream")
    ).run()
    assert not at.exception
    assert len(at.error) == 1
    assert "weights_only" not in at.error[0].value


def test_a_picture():
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4).save(buffer, "PNG")
    at = opened()
    at.selectbox(key="kind").set_value("image").run()
    at.file_uploader(key="image_file").set_value(("small.png", buffer.getvalue(), "image/png")).run()
    assert panels(healthy(at))[0].shape == (8, 8)
    # It has no values below 0, and what that changes is told.
    assert address(at)["s"] == "uint4,symmetric,per_tensor,min_max,course"
    assert any("no values below 0" in each.value for each in at.caption)


def test_nonfinite_tensors_are_refused_and_the_open_one_stays():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    buffer = io.BytesIO()
    np.save(buffer, np.array([[1.0, np.nan], [2.0, 3.0]], dtype=np.float32))
    at.file_uploader(key="tensor_file").set_value(
        ("nan.npy", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert "(0, 1)" in at.error[0].value.replace("\\", "")
    assert panels(at)[0].shape == (8, 8)


def test_a_tensor_that_cannot_be_quantized_leaves_the_open_one():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    buffer = io.BytesIO()
    np.save(buffer, np.array([[3e38, -3e38], [1.0, 2.0]], dtype=np.float32))
    at.file_uploader(key="tensor_file").set_value(
        ("huge.npy", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert any("too wide for float32" in warning.value for warning in at.warning)
    assert panels(at)[0].shape == (8, 8)
    assert len(numbers(at)) == 5


def test_typed_values_that_are_not_finite_are_said_beside_the_text():
    at = opened()
    at.selectbox(key="kind").set_value("typed").run()
    at.text_area(key="typed_text").set_value("nan 1 2").run()
    assert "finite" in at.error[0].value
    assert panels(at)[0].shape == (8, 8)
