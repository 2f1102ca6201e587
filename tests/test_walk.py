"""Everything that is offered, walked on small tensors of every kind: no exception, no NaN, and every cell
explained bit for bit.
"""

import itertools
import math

import pytest
import torch

import quantviz as qv
from tests.helpers.offered import offered_schemes
from tests.helpers.replay import replay
from tests.helpers.sample import sample_of
from tests.helpers.walked import ORDINARY, TENSORS, thinned

ZERO_BY_ZERO, SCALE_TOO_LARGE = "0 / 0", "the scale is infinite"
TIMES_BEFORE_OVER = "q * absmax is infinite"
SEARCH_TOO_LARGE = "the search's sums of squares are infinite"
#: Where an engine itself makes NaN or Inf of finite numbers, and how: there `quantize` refuses unless it is
#: `strict`.
NOT_FINITE = {
    # A block of zeros has scale 0, and in a float format 0 / 0 is NaN.
    "torchao_float8": {"zeros": ZERO_BY_ZERO, "zero_blocks": ZERO_BY_ZERO},
    "quanto": {"zeros": ZERO_BY_ZERO, "zero_blocks": ZERO_BY_ZERO},
    "modelopt_packed": {"zeros": ZERO_BY_ZERO, "zero_blocks": ZERO_BY_ZERO},
    # A tensor of zeros has a second-level scale of 0.
    "torchao_nvfp4": {"zeros": ZERO_BY_ZERO},
    "modelopt_nvfp4": {"zeros": ZERO_BY_ZERO},
    # Scales are stored as float16.
    "litert_blockwise": {"large": SCALE_TOO_LARGE},
    "gguf": {"large": SCALE_TOO_LARGE},
    "gguf_signed": {"large": SCALE_TOO_LARGE},
    "gguf_minimum": {"large": SCALE_TOO_LARGE},
    "gguf_k": {"large": SCALE_TOO_LARGE},
    "gguf_iq4_nl": {"large": SEARCH_TOO_LARGE},
    "qserve": {"large": SCALE_TOO_LARGE},
    # (q * absmax) * (1 / 127) has no room for 127 * absmax.
    "bitsandbytes_int8": {"large": TIMES_BEFORE_OVER},
    # Nor has (q * scale) * absmax / 1536 for 1536 * absmax.
    "fouroversix": {"large": TIMES_BEFORE_OVER},
}


def why_not_finite(x, scheme):
    """What a strict run shows of a tensor that is refused."""
    r = qv.quantize(x, scheme, strict=True)
    bad = ~(torch.isfinite(r.x_hat) & torch.isfinite(r.error))
    assert bad.any()
    scale = r.scale_of_cells().expand(r.shape)[bad]
    if scheme.search and torch.isnan(scale).all() and (r.x[bad] != 0).all():
        return SEARCH_TOO_LARGE
    if not torch.isfinite(scale).all():
        return SCALE_TOO_LARGE if torch.isinf(scale).all() else ZERO_BY_ZERO
    return ZERO_BY_ZERO if (r.x[bad] == 0).all() and (scale == 0).all() else TIMES_BEFORE_OVER


def walked(convention):
    """Schemes with the names of tensors: each tensor meets each format, mode and granularity of a convention;
    `-m all` takes every combination.
    """
    by_choice = {
        (scheme.format, scheme.mode, scheme.granularity.id): scheme for scheme in offered_schemes(convention)
    }
    most = max(len(set(values)) for values in zip(*by_choice, strict=True))
    combinations = ((*choice, name) for choice, name in itertools.product(by_choice, TENSORS))
    for *choice, name in sample_of(combinations, most * len(TENSORS)):
        yield by_choice[tuple(choice)], name


def walk(convention):
    """Quantize tensors by schemes, and hold the refusals to the table, with what was behind them."""
    refused, done = {}, 0
    for scheme, name in walked(convention):
        x = TENSORS[name]
        where = f"{name} {scheme}"
        assert scheme.problems(tuple(x.shape)) == (), where
        try:
            r = qv.quantize(x, scheme)
        except qv.QuantVizError as error:
            if error.key not in ("value_beyond_float32", "scale_is_zero", "scale_is_nan"):
                raise
            refused[name] = why_not_finite(x, scheme)
            assert NOT_FINITE.get(convention.id, {}).get(name) == refused[name], where
            continue
        done += 1
        for values in (r.x_hat, r.error, r.qparams.scale, r.qparams.zero_point):
            assert torch.isfinite(values.to(torch.float64)).all(), where
        assert torch.equal(r.error, r.x_hat - r.x), where
        assert tuple(r.qparams.scale.shape) == r.layout.grid_shape, where
        lowest, highest = (
            (scheme.code_min, scheme.code_max)
            if scheme.number_format.kind == "integer"
            else (0, scheme.number_format.code_max)
        )
        assert lowest <= r.q.min(), where
        assert r.q.max() <= highest, where
        if name in ("normal", "zeros"):
            # Without a signal there is no ratio and no angle.
            m = qv.metrics(r)
            assert not any(
                math.isnan(value) for key, value in m.items() if key not in ("sqnr_db", "cosine", "kurtosis")
            ), (where, m)
    assert done
    assert refused == NOT_FINITE.get(convention.id, {})


@pytest.mark.parametrize("convention", qv.CONVENTIONS.values(), ids=qv.CONVENTIONS)
def test_no_exception_and_no_nan_from_finite_input(convention):
    walk(convention)


def test_ordinary_tensors_are_never_refused():
    """The walk above holds every refusal to the table; none of these is in it."""
    assert {name for names in NOT_FINITE.values() for name in names}.isdisjoint(ORDINARY)
    assert set(NOT_FINITE) <= set(qv.CONVENTIONS)


@pytest.mark.parametrize("convention", qv.CONVENTIONS.values(), ids=qv.CONVENTIONS)
def test_every_step_replays_to_the_code_and_the_value(convention):
    refused = NOT_FINITE.get(convention.id, {})
    others = [name for name in TENSORS if name not in refused and name != "normal"]
    for i, scheme in enumerate(thinned(convention)):
        for name, index in (("normal", (1, 5 * i % 64)), (others[i % len(others)], (0, 7 * i % 64))):
            why = replay(qv.quantize(TENSORS[name], scheme), index)
            assert why.steps[-1].key == "error"
            if math.isnan(why.before_rounding):
                # Equal values and a scale of 0: 0 / 0 becomes the engine's code of NaN, and a line says so.
                codes = {"zero": 0, "smallest": scheme.code_min, "largest": scheme.code_max}
                wanted = (0, codes[convention.nan_code], True)
                assert (why.scale, why.q, why.step("nan_code") is not None) == wanted
            else:
                assert why.neighbours[0] <= why.before_rounding <= why.neighbours[1]


@pytest.mark.parametrize("convention", qv.CONVENTIONS.values(), ids=qv.CONVENTIONS)
def test_scale_and_zero_point_by_hand_go_through_the_convention(convention):
    """Given parameters and other ranges, too, run, and replay line by line."""
    for scheme in itertools.islice(thinned(convention), 6):
        if scheme.search:
            with pytest.raises(qv.QuantVizError) as caught:
                scheme.replace(calibration=qv.MinMax())
            assert caught.value.key == "search_wanted"
            continue
        zero_point = 0 if scheme.mode == "symmetric" else 1
        for calibration in (
            qv.Given(0.125, zero_point),
            qv.Percentile(90.0),
            qv.ManualRange(-1.0, 1.5),
            qv.MSE(),
        ):
            r = qv.quantize(TENSORS["normal"], scheme.replace(calibration=calibration))
            assert torch.isfinite(r.x_hat).all()
            replay(r, (2, 9))
