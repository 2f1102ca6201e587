"""The work of layers: known from their sizes, and refused where it is too much with a size that is not."""

import pickle
from functools import partial
from types import MappingProxyType

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import quantviz as qv
from quantviz.lab.layer_sources import parse_layer
from quantviz.layers import work
from quantviz.layers.captures import Captured
from quantviz.layers.methods.chain import METHODS, as_chain
from quantviz.layers.work import computed, products_of, refuse_long
from quantviz.schemes.recipes import as_scheme

LARGE = (32, 2**12, 2**12)


@pytest.mark.parametrize("method", METHODS)
def test_the_work_of_every_method_grows_with_the_layer(method):
    chain = as_chain(method)
    assert products_of(chain, (32, 64, 64)) < products_of(chain, (32, 64, 128)) < products_of(chain, LARGE)
    assert products_of(chain, LARGE) > products_of(as_chain(None), LARGE) > 2**28


class Counted(TorchDispatchMode):
    """Counts what torch is asked for, in multiplications of float64 matrices."""

    #: Those that take as long as asking for an operation, and as what it does to a number.
    ASKING, NUMBER = 6e4, 8
    MULTIPLYING = ("mm", "addmm", "bmm")
    #: Multiplications of operations on a matrix (…, n, k), for each of its numbers and the lesser of n and k.
    FACTORIZING = MappingProxyType(
        {
            "_linalg_svd": 10,
            "linalg_cholesky_ex": 1 / 3,
            "linalg_solve_triangular": 1,
            "_linalg_solve_ex": 4 / 3,
        }
    )

    def __init__(self):
        super().__init__()
        self.products = 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__.rstrip("_")
        tensors = [each for each in (*args, found) if isinstance(each, torch.Tensor)]
        self.products += self.ASKING
        if name in self.MULTIPLYING:
            one, other = args[-2:]
            single = one.dtype == torch.float32
            self.products += one.numel() * other.shape[-1] / (2 if single else 1)
        elif name in self.FACTORIZING:
            self.products += self.FACTORIZING[name] * args[0].numel() * min(args[0].shape[-2:])
        elif tensors and not func.is_view:
            self.products += self.NUMBER * max(each.numel() for each in tensors)
        return found


#: The scheme of methods that need a certain one; k-means is left out, for numpy does its work.
SCHEMES = {"four_over_six": "nvfp4", "double_quantization": "int4_g32"}
COUNTED = [
    *(each for each in METHODS if each != "kmeans"),
    "rotation(kind=orthogonal)",
    "awq(variant=modelopt)",
]


@pytest.mark.parametrize("method", COUNTED)
@pytest.mark.parametrize(("tokens", "inputs", "outputs"), [(8, 96, 160), (160, 128, 48)])
def test_the_work_told_is_that_of_the_operations(method, tokens, inputs, outputs):
    """The seconds are those of a machine; what torch is asked for is the same everywhere."""
    draw = torch.Generator().manual_seed(0)
    w, x = torch.randn(outputs, inputs, generator=draw), torch.randn(tokens, inputs, generator=draw)
    schemes = (as_scheme(SCHEMES.get(method, "int4_per_row")), as_scheme("int8_per_row"))
    work_of = partial(computed, Captured("layer", "", w, x), schemes, 2**20, method=method)
    work_of()
    with Counted() as counted:
        work_of()
    told = products_of(as_chain(method), (tokens, inputs, outputs))
    assert 0.6 < told / counted.products < 2.5


SEARCHED = "int4,symmetric,per_channel(axis=0),mse,course"


@pytest.mark.parametrize("method", ["gptq", "learned_scales(steps=1)"])
def test_a_search_for_ranges_is_counted_as_often_as_it_is_made(method):
    shape = (16, 256, 128)
    chain = as_chain(method)
    draw = torch.Generator().manual_seed(0)
    w, x = torch.randn(128, 256, generator=draw), torch.randn(16, 256, generator=draw)
    asked = {}
    for form in ("int4_per_row", SEARCHED):
        with Counted() as counted:
            computed(Captured("layer", "", w, x), (as_scheme(form), None), 2**20, method=method)
        asked[form] = (counted.products, products_of(chain, shape, (as_scheme(form), None)))
    more = [asked[SEARCHED][i] - asked["int4_per_row"][i] for i in range(2)]
    assert more[1] == (1 + chain.methods[0].roundings) * 128 * 256 * 4e4
    assert 0.5 < more[1] / more[0] < 2


def test_a_refusal_names_a_size_that_fits():
    chain = as_chain("gptq+low_rank")
    with pytest.raises(qv.QuantVizError) as refused:
        refuse_long(chain, LARGE, 20.0)
    side = refused.value.params["side"]
    assert str(side) in refused.value.message("zh")
    assert side == 2048
    refuse_long(chain, (32, side, side), 20.0)
    with pytest.raises(qv.QuantVizError, match="60 s"):
        refuse_long(as_chain("signround(steps=100000)"), (32, 256, 256), 60.0)


def test_a_picture_that_is_left_out_is_named(monkeypatch):
    source = parse_layer("layer(normal(rows=16,cols=32),normal(rows=8,cols=32,seed=1))")
    schemes = (as_scheme("int4_per_row"), as_scheme("int8_per_row"))
    monkeypatch.setattr(work, "_TRACE_BYTES", 1000)
    found = computed(source, schemes, 2**20, method="gptq").result
    assert "gptq" not in found.trace
    assert "1,000 bytes" in found.notes[-1].message("en")
    assert "gptq" in found.notes[-1].message("zh")


@pytest.mark.parametrize("method", ["low_rank", "gptq", "nearest"])
def test_what_is_computed_of_a_layer_is_sent_with_it(method):
    source = parse_layer("layer(normal(rows=16,cols=32),normal(rows=8,cols=32,seed=1))")
    schemes = (as_scheme("int4_per_row"), as_scheme("int8_per_row"))
    found = computed(source, schemes, 2**20, method=method)
    sent = pickle.loads(pickle.dumps(found))
    own = qv.layer(source.weight.tensor(), source.inputs.tensor(), *schemes, method=method)
    assert sent.result.rel_out == own.rel_out
    assert {"_exact", "_errors", "channels"} <= set(vars(sent.result))
    assert torch.equal(sent.cells.error, own.cells().error)
    assert sent.result.parts["weights"].share == own.parts["weights"].share
    assert computed(source, schemes, 1, method=method).cells is None
    if method == "low_rank":
        of_error = sent.result.trace["low_rank"].of_error
        assert torch.allclose(of_error, own.trace["low_rank"].of_error)
