"""Hadamard matrices and their fast product: the laws that define them, and scipy's matrix."""

import math

import pytest
import torch

from quantviz.errors import QuantVizError
from quantviz.streaming import hadamard as fast
from quantviz.streaming.hadamard import hadamard_transform
from quantviz.tensors.hadamard import base_factor, base_matrix, hadamard, has_hadamard, largest_block

#: Paley's first construction, his second, Williamson's, and products with Sylvester's.
ORDERS = (1, 2, 4, 12, 20, 24, 28, 36, 40, 44, 60, 76, 92, 108, 172, 184, 384)


@pytest.mark.parametrize("order", ORDERS)
def test_entries_are_signs_and_rows_are_orthogonal(order):
    matrix = hadamard(order)
    assert torch.equal(matrix.abs(), torch.ones(order, order, dtype=torch.float64))
    assert torch.equal(matrix @ matrix.T, order * torch.eye(order, dtype=torch.float64))


@pytest.mark.parametrize("order", [1, 2, 16, 128])
def test_a_power_of_two_has_scipys_matrix(order):
    # Not above: each process of a run would import it to collect the tests, and one runs them.
    import scipy.linalg

    assert hadamard(order).tolist() == scipy.linalg.hadamard(order).tolist()


def test_orders_of_no_construction_name_the_largest_that_fits():
    assert [n for n in range(1, 64) if has_hadamard(n) and n % 4] == [1, 2]
    assert not any(map(has_hadamard, (0, 52, 116)))
    with pytest.raises(QuantVizError, match="block=32"):
        hadamard(29 * 32)
    assert (largest_block(11008), base_factor(11008)) == (11008, 172)
    assert (largest_block(18944), base_factor(18944)) == (18944, 148)
    assert base_matrix(148).shape == (148, 148)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 64, 512, 12, 24, 36, 344, 384, 2752, 3840])
def test_the_fast_product_is_that_of_the_matrix(block, large, monkeypatch):
    monkeypatch.setattr(fast, "_LARGE", 1 if large else 2**40)
    generator = torch.Generator().manual_seed(block)
    for dtype, nearness in ((torch.float32, 1e-5), (torch.float64, 1e-13)):
        x = torch.randn(3, 2 * block, generator=generator, dtype=dtype)
        wanted = (x.to(torch.float64).reshape(-1, block) @ hadamard(block)).reshape(x.shape) / math.sqrt(
            block
        )
        turned = hadamard_transform(x, block)
        torch.testing.assert_close(turned.to(torch.float64), wanted, atol=nearness, rtol=0)
        again = hadamard_transform(turned, block, back=True)
        torch.testing.assert_close(again, x, atol=2 * nearness, rtol=0)


def test_a_block_divides_the_last_axis():
    with pytest.raises(QuantVizError, match="divides"):
        hadamard_transform(torch.ones(2, 12), 8)
    with pytest.raises(QuantVizError, match="7 rows"):
        hadamard_transform(torch.ones(2, 14), 7)
