"""Results travel between processes whole, and no larger than they are."""

import pickle

import pytest
import torch

import quantviz as qv
from quantviz.quantization.cells import part
from quantviz.streaming import measuring, tensor_facts
from quantviz.tensors.lazy import InMemory

SCHEMES = [
    qv.Scheme("int8", "asymmetric", qv.PerChannel(0)),
    qv.Scheme("float4_e2m1fn", granularity=qv.PerGroup(16), convention="torchao_nvfp4"),
    qv.Scheme("uint4", granularity=qv.PerGroup(32), nonfinite="ignore"),
]


def same(a, b):
    """Whether two values are equal, tensors by their bits."""
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and a.dtype == b.dtype
            and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        )
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(
            same(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__
        )
    if hasattr(a, "items"):
        return type(a) is type(b) and a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or a != a


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_everything_that_is_given_back_pickles(scheme):
    x = torch.randn(8, 64)
    if scheme.nonfinite == "ignore":
        x[2, 3] = torch.nan
    r = qv.quantize(x, scheme)
    for value in (
        r,
        r.qparams,
        r.range,
        qv.explain(r, (1, 2)),
        measuring.measured(r, by_axis=True),
        tensor_facts.facts(InMemory(x)),
        part(r, (0, slice(2, 4))),
    ):
        again = pickle.loads(pickle.dumps(value))
        assert same(value, again)
    assert qv.metrics(pickle.loads(pickle.dumps(r))) == pytest.approx(qv.metrics(r), nan_ok=True)
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(r.qparams)).others["scale"] = 1


def test_a_part_pickles_without_the_tensor_it_is_a_part_of():
    r = qv.quantize(torch.randn(500, 500), qv.Scheme("int8", granularity=qv.PerChannel(0)))
    whole, corner = len(pickle.dumps(r)), len(pickle.dumps(part(r, (slice(0, 2), slice(0, 2)))))
    # Four bytes each of x, x̂ and the error, one each of the code and of whether it was clipped.
    assert whole < 1.1 * 500 * 500 * 14
    assert corner < 8000


def test_a_pickled_scheme_leaves_its_hash_behind():
    # Another process hashes texts in its own way, and would not find the scheme among its keys.
    scheme = qv.Scheme("int4", granularity=qv.PerGroup(32))
    fresh = pickle.dumps(scheme)
    assert hash(pickle.loads(fresh)) == hash(scheme) == hash(scheme.replace(mode="symmetric"))
    assert pickle.dumps(scheme) == fresh
