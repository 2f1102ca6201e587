"""The lines of Python that errors print for files of other tools: what they save opens here.

TensorFlow takes more than a gigabyte and is not among the requirements: where it is not installed, its lines
are only parsed. They were run with TensorFlow 2.21.
"""

import ast
import os
import re
import subprocess
import sys

import pytest
import torch

from quantviz.checkpoints.model.opening import open_model
from quantviz.errors import QuantVizError
from quantviz.text import languages

#: The tensor that every file holds.
VALUES = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 8 - 0.5
BEGIN = "import os, numpy; x = numpy.arange(12, dtype='float32').reshape(3, 4) / 8 - 0.5\n"
KERAS = """
import keras
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
model.layers[0].kernel.assign(x)
"""
#: The package that writes a format, the file that is opened, and lines that write it.
WRITTEN = {
    "keras": ("keras", "a b.keras", KERAS + "model.save('a b.keras')"),
    "hdf5": ("keras", "a b.weights.h5", KERAS + "model.save_weights('a b.weights.h5')"),
    "coreml": (
        "coremltools",
        "a b.mlpackage",
        """
import coremltools as ct
from coremltools.converters.mil import Builder as mb
@mb.program(input_specs=[mb.TensorSpec(shape=(1, 3))])
def program(a):
    return mb.matmul(x=a, y=x)
ct.convert(program, convert_to="mlprogram", compute_precision=ct.precision.FLOAT32).save("a b.mlpackage")
""",
    ),
    # Codes of four bits, packed: what is saved are the values.
    "openvino": (
        "openvino",
        "model.xml",
        """
import openvino as ov
from openvino import opset13
codes = numpy.arange(-4, 8).reshape(3, 4)
packed = ((codes[:, 0::2] & 15) | ((codes[:, 1::2] & 15) << 4)).astype(numpy.uint8)
codes = ov.op.Constant(ov.Tensor(packed.reshape(-1), [3, 4], ov.Type.i4))
values = opset13.convert(codes, "f32")
weight = opset13.multiply(values, opset13.constant(numpy.float32(0.125)), name="weight")
a = opset13.parameter([1, 3], numpy.float32)
ov.save_model(ov.Model([opset13.matmul(a, weight, False, False)], [a]), "model.xml", compress_to_fp16=False)
""",
    ),
    "msgpack": (
        "flax",
        "a b.msgpack",
        """
import flax
open("a b.msgpack", "wb").write(flax.serialization.to_bytes({"params": {"dense": {"kernel": x}}}))
""",
    ),
    "tensorflow": (
        "tensorflow",
        "model.ckpt.index",
        "import tensorflow as tf; tf.train.Checkpoint(kernel=tf.Variable(x)).write('model.ckpt')",
    ),
    "orbax": (
        "orbax.checkpoint",
        "saved",
        """
import orbax.checkpoint as ocp
ocp.PyTreeCheckpointer().save(os.path.abspath("saved"), {"dense": {"w": x}})
""",
    ),
    "objects": (
        "torch",
        "a b.pt",
        """
import torch
layer = torch.nn.Linear(4, 3)
layer.weight.data = torch.from_numpy(x)
torch.save(layer, "a b.pt")
""",
    ),
}
KEYS = {name: "file.python_objects" if name == "objects" else f"file.is_{name}" for name in WRITTEN}


def recipe(error, language="en"):
    """Return the lines of Python that an error prints."""
    found = re.search(r"[:：]\s*(import .*|torch\.save\(.*?\"\))", error.message(language))
    assert found, error.message(language)
    return found[1]


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_printed_is_python_and_the_same_in_each_language(name):
    codes = {recipe(QuantVizError(KEYS[name], file="a b.x"), language) for language in languages()}
    assert len(codes) == 1
    assert re.search(r"(numpy\.savez|torch\.save)\(", ast.unparse(ast.parse(codes.pop()).body[-1]))


def run(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "KERAS_BACKEND": "torch", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_printed_lines_save_opens(tmp_path, name):
    package, file, code = WRITTEN[name]
    try:
        run(f"import {package}", tmp_path)
    except AssertionError as error:
        if "No module named" not in str(error):
            raise
        pytest.skip(f"not tried: {package} is not installed")
    run(BEGIN + code, tmp_path)
    with pytest.raises(QuantVizError) as caught, open_model(tmp_path / file):
        pass
    assert caught.value.key == KEYS[name]
    printed = (
        recipe(caught.value).replace("PREFIX", "model.ckpt").replace("/PATH/FOLDER", str(tmp_path / file))
    )
    run(f"import torch; PATH = {file!r}; {printed}" if name == "objects" else printed, tmp_path)
    with open_model(tmp_path / ("tensors.pt" if name == "objects" else "weights.npz")) as model:
        found = [model.tensors.load(each) for each in model.tensors.names]
    assert any(torch.equal(each, VALUES) for each in found)
