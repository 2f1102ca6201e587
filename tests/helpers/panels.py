"""Tensors, results and encoded arrays for tests of the panels."""

import base64

import numpy as np

import quantviz as qv

#: The notebooks' tensor, and what it becomes with s = 3.5, z = -70.
NOTEBOOK = [[191.6, -13.5, 728.6], [92.14, 295.5, -184.0], [0.0, 684.6, 245.5]]


def result(x, form="int4,symmetric,per_tensor,min_max,course"):
    return qv.quantize(x, qv.Scheme.parse(form))


def decoded(field):
    """Return an array of a chart, which is sent packed or as numbers."""
    if isinstance(field, list):
        return np.array(field)
    values = np.frombuffer(base64.b64decode(field["bdata"]), dtype="<" + field["dtype"])
    return values.reshape([int(n) for n in str(field.get("shape", -1)).split(",")])
