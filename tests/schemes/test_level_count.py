"""How many levels a scheme has: as many as its own arithmetic gives to tensors that go everywhere."""

import contextlib
import math

import pytest
import torch

import quantviz as qv
from quantviz.errors import QuantVizError
from quantviz.schemes.level_count import level_count

SHAPE = (128, 256)
#: The smallest of 255 powers of two is not among numbers that float32 holds beside the largest.
BEYOND = {"float8_e8m0fnu"}

#: One scale for all has one largest magnitude, at one end; those of powers of two leave out the more the
#: nearer it is to the next.
MAGNITUDES = (1.0, -1.0, 0.7, -0.7, 1.3, -1.3, 1.99, -1.99)


@pytest.fixture(scope="module")
def everywhere():
    """Blocks whose largest magnitude is at either end, with values of every magnitude."""
    generator = torch.Generator().manual_seed(0)
    even = torch.linspace(-1, 1, SHAPE[0] * SHAPE[1]).reshape(SHAPE[1], SHAPE[0]).T
    small = torch.exp2(-60 * torch.rand(SHAPE, generator=generator)) * torch.sign(even)
    rows = torch.arange(SHAPE[0])
    x = torch.where((rows % 4 < 3)[:, None], even, small)
    x[:, ::32] = torch.where(rows % 2 == 0, 1.0, -1.0)[:, None]
    return x


@pytest.fixture(scope="module")
def sizes():
    """One of every row, so that many scales are rounded."""
    return torch.exp2(torch.rand((SHAPE[0], 1), generator=torch.Generator().manual_seed(1)) * 6 - 3)


def offered(convention):
    offer = qv.CONVENTIONS[convention].offer
    for name in offer.formats or qv.FORMATS:
        if qv.FORMATS[name].bits > 8 or name in BEYOND:
            continue
        for mode in offer.modes or qv.MODES:
            with contextlib.suppress(QuantVizError):
                scheme = qv.Scheme("int8").adapted(convention, SHAPE).with_format(name)
                scheme = scheme.replace(mode=mode)
                if not scheme.problems(SHAPE):
                    yield scheme


@pytest.mark.slow
@pytest.mark.parametrize("convention", qv.CONVENTIONS)
def test_levels_are_counted_as_those_that_can_occur(convention, everywhere, sizes):
    for scheme in offered(convention):
        fmt, seen = scheme.number_format, set()
        # A range that lies evenly about 0 meets a tie at both of its ends.
        x = everywhere + 0.3 if scheme.mode == "asymmetric" else everywhere
        for factor in MAGNITUDES if scheme.granularity.single else (sizes, -sizes):
            seen.update(qv.quantize(x * factor, scheme).q.unique().tolist())
        # Where the largest magnitude is below 0 and all above are small.
        seen.update(qv.quantize(torch.where(x > 0, 0.3 * x, x), scheme).q.unique().tolist())
        values = {fmt.value(int(code)) for code in seen}
        assert len({value for value in values if math.isfinite(value)}) == level_count(scheme), scheme


@pytest.mark.parametrize("narrow", ["true", "false"])
@pytest.mark.parametrize("format_id", ["uint4", "uint8"])
def test_a_stretched_range_has_half_of_the_levels(format_id, narrow):
    """255 levels put the largest magnitude on a tie, which float32 rounds to either side."""
    own = f"narrow_range={narrow},reduce_range=stretched"
    scheme = qv.Scheme.parse(f"{format_id},symmetric,per_channel,min_max,openvino_fake_quantize({own})")
    sizes = torch.rand((512, 1), generator=torch.Generator().manual_seed(1)) + 0.5
    assert qv.quantize(torch.linspace(-1, 1, 511) * sizes, scheme).q.unique().numel() == level_count(scheme)


def test_a_range_that_leaves_values_out_gives_them_the_last_code(everywhere):
    for calibration in (qv.Percentile(90.0), qv.ManualRange(-0.5, 0.5), qv.Given(0.05)):
        scheme = qv.Scheme("int4", calibration=calibration)
        assert qv.quantize(everywhere, scheme).q.unique().numel() == level_count(scheme) == 16
