"""Codebooks fitted to a tensor: a law, the text form, and the same numbers on every path."""

import pytest
import torch

import quantviz as qv
from quantviz.schemes.formats import MOST_OWN_VALUES, find_format
from tests.helpers.replay import replay


def drawn(rows, cols, seed=1):
    return torch.empty(rows, cols).normal_(generator=torch.Generator().manual_seed(seed))


TENSORS = {
    "gauss": drawn(16, 16),
    "loud": drawn(32, 32) ** 3,
    "whole": drawn(8, 8).mul(2).round(),
    "one_value": torch.full((3, 3), 5.0),
    "zeros": torch.zeros(2, 2),
}


def mse(x, scheme):
    return qv.metrics(qv.quantize(x, scheme))["mse"]


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize(
    "scheme",
    [
        "int2,symmetric,per_tensor,min_max,course",
        "uint3,asymmetric,per_tensor,mse,course",
        "nf4,symmetric,per_tensor,min_max,course",
        "int3,symmetric,per_channel,min_max,course",
        "int2,symmetric,per_channel(axis=1),min_max,course",
    ],
)
def test_it_is_never_worse_than_the_scheme_it_starts_from(name, scheme):
    x = TENSORS[name]
    fitted = qv.fit_codebook(x, scheme)
    assert mse(x, fitted) <= mse(x, scheme) * (1 + 1e-6)
    assert fitted.number_format.levels <= find_format(scheme.partition(",")[0]).levels
    assert qv.Scheme.parse(str(fitted)) == fitted


def test_rows_of_other_sizes_share_a_codebook_in_units_of_their_scales():
    x = TENSORS["gauss"] * torch.logspace(-2, 2, 16)[:, None]
    fitted = qv.fit_codebook(x, "int4_per_row")
    assert fitted.granularity == qv.Scheme.parse("int4,symmetric,per_channel,min_max,course").granularity
    assert fitted.number_format.codebook[-1] == 1.0

    def in_their_scales(scheme):
        return (qv.quantize(x, scheme).error / x.abs().amax(1, keepdim=True)).square().mean()

    whole = in_their_scales(qv.fit_codebook(x, "int4_per_tensor"))
    assert in_their_scales(fitted) < in_their_scales("int4_per_row") < whole


@pytest.mark.parametrize("scheme", ["int3,symmetric,per_tensor,min_max,course", "int4_per_row"])
def test_columns_of_more_weight_err_less(scheme):
    x = TENSORS["loud"]
    importance = torch.linspace(0, 1, 32) ** 8

    def error(fitted):
        return (qv.quantize(x, fitted).error.square() * importance).sum()

    assert error(qv.fit_codebook(x, scheme, importance=importance)) < error(qv.fit_codebook(x, scheme))
    with pytest.raises(qv.QuantVizError, match="0 or more"):
        qv.fit_codebook(x, scheme, importance=-importance)


def test_each_value_is_the_mean_of_its_numbers():
    x = TENSORS["gauss"]
    result = qv.quantize(x, qv.fit_codebook(x, "int3,symmetric,per_tensor,min_max,course"))
    for code, value in enumerate(result.scheme.number_format.codebook):
        assert x[result.q == code].mean().item() == pytest.approx(value, abs=1e-5)


def test_linear_levels_are_worse_where_most_numbers_are_small():
    x = TENSORS["loud"]
    assert mse(x, qv.fit_codebook(x)) < mse(x, "int4_per_tensor") / 2


def test_a_cell_is_explained_and_measured_as_under_any_scheme():
    x = TENSORS["gauss"]
    scheme = qv.fit_codebook(x)
    result = qv.quantize(x, scheme)
    replay(result, (3, 4))
    assert all(qv.explain(result, (3, column)).rounding.to_the_nearest for column in range(16))
    assert qv.explain(result, (3, 4)).steps[1].code_line == "y = grid_codebook(y)"
    assert qv.measure(x, scheme).metrics["mse"] == pytest.approx(qv.metrics(result)["mse"], rel=1e-12)
    # 16 values of 16 bits, and a scale.
    assert qv.metrics(result)["effective_bits"] == 4 + (16 * 16 + 16) / x.numel()


@pytest.mark.parametrize(
    "form",
    [
        "codebook()",
        "codebook(1.0)",
        "codebook(2.0,1.0)",
        "codebook(0.0,nan)",
        "codebook(0.0,1e39)",
        "codebook(0.0,1.0",
    ],
)
def test_a_list_that_is_no_codebook_is_refused(form):
    with pytest.raises(qv.QuantVizError):
        qv.Scheme(form)


def test_too_many_values_are_refused():
    with pytest.raises(qv.QuantVizError, match=str(MOST_OWN_VALUES)):
        qv.fit_codebook(TENSORS["gauss"], "int8_per_tensor")
    with pytest.raises(qv.QuantVizError, match=str(MOST_OWN_VALUES)):
        qv.Scheme(f"codebook({','.join(map(str, range(MOST_OWN_VALUES + 1)))})")


def test_a_layer_and_a_model_take_it_as_a_method():
    layer = qv.layer(TENSORS["loud"], drawn(16, 32), "int4_per_tensor", None, method="kmeans")
    assert layer.weights.sqnr_db > qv.metrics(qv.quantize(TENSORS["loud"], "int4_per_tensor"))["sqnr_db"] + 3
    with pytest.raises(qv.QuantVizError, match="at most"):
        qv.layer(drawn(4, 8), drawn(2, 8), "int8_per_tensor", None, method="kmeans")
