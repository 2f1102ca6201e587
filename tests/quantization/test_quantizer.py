"""quantize: input, shapes, granularities, validity, and that registries keep the contracts."""

import math

import pytest
import torch

import quantviz as qv
from quantviz.quantization import cells
from quantviz.quantization.grids import GRIDS
from quantviz.schemes.formats import NumberFormat
from quantviz.tensors import blocks
from tests.helpers.drawn import normal
from tests.helpers.offered import one_of

COURSE = qv.CONVENTIONS["course"]


def refusal(x, scheme=None, **kwargs):
    with pytest.raises(qv.QuantVizError) as caught:
        qv.quantize(x, scheme or qv.Scheme(), **kwargs)
    return caught.value


# ---- input --------------------------------------------------------------------------------------


def test_five_axes_are_refused():
    assert refusal(torch.zeros(1, 1, 1, 1, 1)).key == "input_dims"


@pytest.mark.parametrize("mode", qv.MODES)
def test_a_range_beyond_float32_is_refused(mode):
    assert refusal([-3e38, 3e38], qv.Scheme("int8", mode)).key == "range_beyond_float32"
    assert (
        refusal([1.0, 2.0], qv.Scheme("int8", mode, calibration=qv.ManualRange(-3e38, 3e38))).key
        == "range_beyond_float32"
    )
    assert torch.isfinite(qv.quantize([1e38, -1e38], qv.Scheme("int8", mode)).x_hat).all()


def test_a_refused_range_is_quantized_as_the_engine_does_where_that_is_asked():
    """llama.cpp's MXFP4 of a block of 3e38; the sentence of the refusal names the way."""
    x = torch.full((1, 32), 3e38)
    refused = refusal(x, "gguf_mxfp4")
    assert (refused.key, "strict=True" in str(refused)) == ("range_beyond_float32", True)
    assert qv.quantize(x, "gguf_mxfp4", strict=True).x_hat[0, 0].item() == 2.5521177519070385e38


def test_a_value_that_leaves_float32_is_refused_unless_strict():
    scheme = qv.Scheme("int8", calibration=qv.Given(2.2e38))
    assert refusal([3.4e38], scheme).key == "value_beyond_float32"
    assert math.isinf(qv.quantize([3.4e38], scheme, strict=True).x_hat.item())


@pytest.mark.parametrize(
    ("x", "changed"),
    [
        (torch.tensor([1, 2, 2**24 + 1]), 1),
        (torch.tensor([1, 2, 3], dtype=torch.uint8), 0),
        (torch.tensor([0.1, 0.5, 0.2], dtype=torch.float64), 2),
        (torch.tensor([2**63 - 1, 1]), 1),
    ],
)
def test_integers_and_float64_are_converted_with_a_count(x, changed):
    r = qv.quantize(x, qv.Scheme())
    assert r.x.dtype == torch.float32
    assert [note.params["changed"] for note in r.notes if note.key == "stored_as_float32"] == [changed]
    assert str(changed) in str(r.notes[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_narrow_floats_are_converted_exactly(dtype):
    x = normal(4, 4).to(dtype)
    r = qv.quantize(x, qv.Scheme())
    assert torch.equal(r.x, x.float())
    assert [note.key for note in r.notes] == ([] if dtype.itemsize == 1 else ["input_widened"])


def test_gradients_and_strides_are_accepted_and_the_input_is_left_alone():
    x = normal(6, 4).requires_grad_()
    kept = x.detach().clone()
    r = qv.quantize(x.T, qv.Scheme(granularity=qv.PerChannel(0)))
    assert not r.x.requires_grad
    assert torch.equal(
        r.x_hat, qv.quantize(kept.T.contiguous(), qv.Scheme(granularity=qv.PerChannel(0))).x_hat
    )
    assert torch.equal(x.detach(), kept)


# ---- granularities ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granularity", "shape", "grid"),
    [
        (qv.PerTensor(), (4, 6), (1, 1)),
        (qv.PerChannel(0), (5,), (5,)),
        (qv.PerChannel(-1), (2, 3, 4), (1, 1, 4)),
        (qv.PerGroup(3, axis=1), (6, 6), (6, 2)),
        (qv.PerGroup(2, axis=0), (4, 3), (2, 3)),
        (qv.PerBlock(2, 3), (4, 6), (2, 2)),
        (qv.PerBlock(2, 2), (3, 2, 4, 4), (3, 2, 2, 2)),
    ],
)
def test_grid_shapes(granularity, shape, grid):
    r = qv.quantize(normal(*shape), qv.Scheme("int4", granularity=granularity))
    assert tuple(r.qparams.scale.shape) == tuple(r.qparams.zero_point.shape) == grid == r.layout.grid_shape


def test_a_group_that_does_not_divide_names_the_sizes_that_do():
    error = refusal(normal(4, 12), qv.Scheme(granularity=qv.PerGroup(5)))
    assert error.key == "group_does_not_divide"
    assert "1, 2, 3, 4, 6, 12" in str(error)


GRANULARITIES = [
    qv.PerTensor(),
    qv.PerChannel(0),
    qv.PerChannel(-1),
    qv.PerGroup(2),
    qv.PerGroup(3, axis=0),
    qv.PerBlock(3, 2),
    qv.PerBlock(1, 4),
]


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=str)
@pytest.mark.parametrize("mode", qv.MODES)
def test_each_block_is_quantized_as_if_it_were_alone(granularity, mode):
    """The law of granularity: a block's codes do not depend on other blocks."""
    x = normal(3, 6, 4)
    r = qv.quantize(x, qv.Scheme("int5", mode, granularity))
    ids = blocks.block_ids(r.layout, r.shape)
    alone = r.scheme.replace(granularity=qv.PerTensor(), convention=COURSE.replace(scale_dtype="float32"))
    for block in range(r.layout.block_count):
        assert torch.equal(qv.quantize(x[ids == block], alone).q, r.q[ids == block])


# ---- the notebooks' arithmetic ------------------------------------------------------------------


def test_halves_go_to_the_even_code():
    r = qv.quantize([0.5, 1.5, 2.5, -0.5, -1.5], qv.Scheme("int4", calibration=qv.Given(1.0)))
    assert r.q.tolist() == [0, 2, 2, 0, -2]


def test_the_zero_point_is_clamped_into_the_codes():
    x = torch.empty(64, 64).uniform_(10, 20, generator=torch.Generator().manual_seed(0))
    r = qv.quantize(x, qv.Scheme("int8", "asymmetric"))
    assert r.qparams.zero_point.item() == -128
    assert qv.metrics(r)["levels_used"] == 1
    assert qv.metrics(r)["mse"] > 30
    forced = qv.quantize(x, qv.Scheme("int8", "asymmetric", convention=COURSE.replace(zero_in_range=True)))
    assert qv.metrics(forced)["sqnr_db"] == pytest.approx(56.4, abs=0.2)
    free = qv.quantize(x, qv.Scheme("int8", "asymmetric", convention=COURSE.replace(zero_point_clamp=False)))
    assert free.qparams.zero_point.item() < -350
    assert qv.metrics(free)["mse"] == pytest.approx(1.2e-4, rel=0.1)


def test_the_clamp_uses_the_whole_code_range():
    r = qv.quantize([-10.0, 1.0], qv.Scheme("int4", calibration=qv.Given(1.0)))
    assert r.q.tolist() == [-8, 1]
    narrow = qv.quantize(
        [-10.0, 1.0],
        qv.Scheme("int4", calibration=qv.Given(1.0), convention=COURSE.replace(narrow_range=True)),
    )
    assert narrow.q.tolist() == [-7, 1]


def test_clipped_means_that_saturation_changed_the_code():
    r = qv.quantize(
        [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]],
        qv.Scheme("int8", "asymmetric", calibration=qv.Given(3.5, -70)),
    )
    assert r.clipped.nonzero().tolist() == [[0, 2]]
    m = qv.metrics(r)
    assert m["clipping_mse"] / m["mse"] == pytest.approx(0.994, abs=5e-4)
    assert m["rounding_mse"] + m["clipping_mse"] == m["mse"]


def test_symmetric_unsigned_clips_negatives_and_says_so():
    r = qv.quantize([-1.0, 0.25, 1.0], qv.Scheme("uint8"))
    assert r.q.tolist() == [0, 64, 255]
    assert [note.key for note in r.notes] == ["negatives_clip"]


@pytest.mark.parametrize("mode", qv.MODES)
def test_percentiles_are_interpolated_linearly(mode):
    x = torch.cat([torch.linspace(-5, 0, 11), torch.linspace(0, 10, 90)])
    r = qv.quantize(x, qv.Scheme("int8", mode, calibration=qv.Percentile(99)))
    lo, hi = (torch.quantile(x.double(), p).item() for p in (0.01, 0.99))
    if mode == "asymmetric":
        assert (r.range.lo.item(), r.range.hi.item()) == pytest.approx((lo, hi), abs=1e-9)
    else:
        top = torch.quantile(x.abs().double(), 0.99).item()
        assert (r.range.lo.item(), r.range.hi.item()) == pytest.approx((-top, top), abs=1e-9)


# ---- given parameters ---------------------------------------------------------------------------


def test_parameters_given_per_block_are_used_and_carry_no_text_form():
    x = normal(2, 4)
    r = qv.quantize(
        x,
        qv.Scheme("int8", "asymmetric", qv.PerChannel(0)),
        qparams=qv.QParams([[0.5], [0.25]], torch.tensor([1, -3])),
    )
    assert r.qparams.scale.tolist() == [[0.5], [0.25]]
    assert torch.equal(
        r.q,
        torch.clamp(torch.round(x / torch.tensor([[0.5], [0.25]]) + torch.tensor([[1], [-3]])), -128, 127).to(
            torch.int8
        ),
    )
    assert isinstance(r.scheme.calibration, qv.External)
    with pytest.raises(qv.QuantVizError, match="no text form"):
        str(r.scheme)


@pytest.mark.parametrize(
    ("qparams", "key"),
    [
        (qv.QParams([1.0, 2.0, 3.0]), "qparams_count"),
        (qv.QParams(0.0), "scale_not_positive"),
        (qv.QParams(-1.0), "scale_negative"),
        (qv.QParams(math.nan), "scale_not_positive"),
        (qv.QParams(1e-60), "scale_not_positive"),
        (qv.QParams(1.0, 0.5), "zero_point_not_integer"),
        *(
            (qv.QParams(none), "qparams_not_numbers")
            for none in ("x", None, 1j, 10**5000, -(10**5000), torch.tensor(1j), torch.ones(1, device="meta"))
        ),
        (qv.QParams([]), "qparams_count"),
    ],
)
def test_bad_parameters_are_refused(qparams, key):
    x, scheme = normal(2, 4), qv.Scheme("int8", "asymmetric", qv.PerChannel(0))
    assert refusal(x, scheme, qparams=qparams).key == key
    with pytest.raises(qv.QuantVizError) as refused:
        qv.measure(x, scheme, qparams=qparams)
    assert refused.value.key == key
    with pytest.raises(qv.QuantVizError):
        qv.dequantize([[1] * 4] * 2, scheme, qparams)


def test_dequantize_undoes_the_codes():
    r = qv.quantize(normal(4, 8), qv.Scheme("uint4", "asymmetric", qv.PerGroup(4)))
    assert torch.equal(qv.dequantize(r.q, r.scheme, r.qparams), r.x_hat)
    assert torch.equal(qv.choose_qparams(r.x, r.scheme).scale, r.qparams.scale)


# ---- the walk over the registries ---------------------------------------------------------------


@pytest.mark.parametrize("format_id", qv.FORMATS)
def test_code_dtypes(format_id):
    """int8 for signed integers up to 8 bits, int16; bit codes and unsigned integers uint8, or int32 for 16
    bits.
    """
    fmt = qv.FORMATS[format_id]
    narrow = "int8" if fmt.kind == "integer" and fmt.signed else "uint8"
    expected = narrow if fmt.bits <= 8 else {"int16": "int16"}.get(format_id, "int32")
    assert fmt.code_dtype == expected
    assert fmt.kind in GRIDS
    assert fmt.levels == fmt.code_max - fmt.code_min + 1
    scheme = qv.Scheme(format_id, "asymmetric" if format_id == "int1" else "symmetric")
    assert qv.quantize(normal(2, 2), scheme).q.dtype == getattr(torch, expected)


def test_a_codebook_fits_without_touching_the_arithmetic(monkeypatch):
    """What a new codebook needs: one format entry."""
    fmt = NumberFormat("book", "codebook", 3, True, "uint8", 0, 4, codebook=(-1.0, -0.25, 0.0, 0.4, 1.0))
    monkeypatch.setattr("quantviz.schemes.formats.FORMATS", {**qv.FORMATS, "book": fmt})
    monkeypatch.setattr("quantviz.schemes.scheme.FORMATS", {**qv.FORMATS, "book": fmt})
    r = qv.quantize([-0.9, 0.1, 0.3, 7.0], qv.Scheme("book", calibration=qv.Given(1.0)))
    assert r.q.tolist() == [0, 2, 3, 4]
    assert r.x_hat.tolist() == pytest.approx([-1.0, 0.0, 0.4, 1.0])
    assert r.clipped.tolist() == [False, False, False, True]


def test_a_new_kind_of_format_is_one_grid(monkeypatch):
    """Whole powers of two, by their exponent: nothing but a grid and a format is added."""

    class Powers:
        def coordinate(self, y, fmt):
            return torch.log2(y)

        def value(self, coordinate, y, fmt):
            return torch.exp2(coordinate)

        def encode(self, value, fmt):
            return torch.log2(value).to(torch.uint8)

        def decode(self, code, fmt):
            return torch.exp2(code.to(torch.float32))

        def gap(self, y, fmt):
            return torch.exp2(torch.floor(torch.log2(y)))

    fmt = NumberFormat("powers", "power", 2, False, "uint8", 0, 3, codebook=(1.0, 2.0, 4.0, 8.0))
    for module in ("formats", "scheme"):
        monkeypatch.setattr(f"quantviz.schemes.{module}.FORMATS", {**qv.FORMATS, "powers": fmt})
    monkeypatch.setattr("quantviz.quantization.grids.GRIDS", {**GRIDS, "power": Powers()})
    for module in ("cells", "value_to_code"):
        monkeypatch.setattr(f"quantviz.quantization.{module}.GRIDS", {**GRIDS, "power": Powers()})
    r = qv.quantize([1.0, 3.1, 6.0, 99.0], qv.Scheme("powers", calibration=qv.Given(1.0)))
    assert r.q.tolist() == [0, 2, 3, 3]
    assert r.x_hat.tolist() == [1.0, 4.0, 8.0, 8.0]
    assert r.step_of_cells().tolist() == [1.0, 2.0, 4.0, 8.0]


# ---- scales and zero points that are no plain numbers -------------------------------------------


def test_dequantize_undoes_the_codes_of_every_convention():
    for convention in qv.CONVENTIONS.values():
        scheme = one_of(convention)
        r = qv.quantize(normal(4, 256), scheme)
        assert torch.equal(qv.dequantize(r.q, scheme, r.qparams), r.x_hat), scheme


# ---- found by looking ---------------------------------------------------------------------------


def test_numpys_numbers_and_whole_floats_have_a_text_form():
    import numpy as np

    for calibration in (
        qv.ManualRange(np.float64(-1.5), np.float64(2)),
        qv.Given(np.float64(3.5), -70.0),
        qv.Percentile(np.float64(99)),
    ):
        scheme = qv.Scheme("int8", "asymmetric", calibration=calibration)
        assert qv.Scheme.parse(str(scheme)) == scheme
    with pytest.raises(qv.QuantVizError):
        qv.Scheme(calibration=qv.ManualRange(0, 10**400))


def test_an_error_that_leaves_float32_is_refused():
    assert (
        refusal([3.4e38, 1.0], qv.Scheme("int8", "asymmetric", calibration=qv.Given(1e36, 300))).key
        == "value_beyond_float32"
    )


def test_numpys_indices_find_their_cell():
    import numpy as np

    assert qv.explain(qv.quantize(normal(4, 4), qv.Scheme()), np.unravel_index(5, (4, 4))).index == (1, 1)


def test_a_part_keeps_every_cells_scale():
    r = qv.quantize(normal(4, 6), qv.Scheme("int4", "asymmetric", qv.PerGroup(3)))
    own = cells.part(r, (slice(1, 3), slice(2, 6)))
    assert torch.equal(own.x_hat, r.x_hat[1:3, 2:6])
    assert torch.equal(own.step_of_cells(), r.scale_of_cells()[1:3, 2:6])


@pytest.mark.parametrize("name", sorted(qv.RECIPES))
def test_parameters_of_another_run_are_used_as_they_are(name):
    scheme, x = qv.RECIPES[name], torch.randn(2, 256, generator=torch.Generator().manual_seed(3))
    found = qv.quantize(x, scheme)
    again = qv.quantize(x, scheme, qparams=qv.choose_qparams(x, scheme))
    assert torch.equal(again.q, found.q)
    assert torch.equal(again.x_hat, found.x_hat)
    # They do not change with the tensor: not even what a second level would be made of.
    other = qv.quantize(3 * x, scheme, qparams=found.qparams)
    assert torch.equal(other.qparams.scale, found.qparams.scale)
    if found.qparams.global_scale is not None:
        assert torch.equal(other.qparams.global_scale, found.qparams.global_scale)


def test_a_fixed_point_scale_by_hand_is_that_of_the_code():
    scheme = qv.RECIPES["mxint8"]
    r = qv.quantize([[0.5] * 32], scheme.replace(calibration=qv.Given(2.0**-5)))
    assert (r.qparams.scale.item(), r.q[0, 0].item(), r.x_hat[0, 0].item()) == (2.0**-5, 16, 0.5)


@pytest.mark.parametrize("domain", ["value", "value_middle", "code_float"])
def test_a_symmetric_zero_point_is_a_code_wherever_the_asymmetric_one_lives(domain):
    x = [[-1.0, -0.3, 0.2, 0.9]]
    plain = qv.quantize(x, qv.Scheme("uint4", convention="torchao"))
    changed = qv.quantize(
        x, qv.Scheme("uint4", convention=qv.CONVENTIONS["torchao"].replace(zero_domain=domain))
    )
    assert changed.qparams.zero_domain == "code_int"
    assert changed.q.tolist() == plain.q.tolist()
    assert changed.x_hat.tolist() == plain.x_hat.tolist()


def test_the_negative_scale_of_an_engine_is_taken_and_what_is_refused_says_how():
    mlx = qv.Scheme.parse("uint4,asymmetric,per_group(size=32),min_max,mlx")
    x = torch.zeros(1, 32)
    x[0, :4] = torch.tensor([2.0, -1.0, 0.5, 0.0])
    # mlx.core.quantize of the same row.
    scale, bias, codes = -0.20000000298023224, 2.0, torch.tensor([[0, 15, 8, *[10] * 29]])
    values = [2.0, -1.0, 0.3999999761581421, 0.0]
    made = qv.quantize(x, mlx)
    assert (made.qparams.scale.item(), made.qparams.zero_point.item()) == (scale, bias)
    assert torch.equal(made.q.long(), codes)
    assert made.x_hat[0, :4].tolist() == values
    for given in (qv.QParams(scale, bias), qv.QParams(scale, bias, stored=True)):
        assert qv.dequantize(codes, mlx, given)[0, :4].tolist() == values
        assert torch.equal(qv.quantize(x, mlx, qparams=given).q, made.q)
    q8 = qv.Scheme.parse("int8,symmetric,per_group(size=32),min_max,gguf")
    with pytest.raises(qv.QuantVizError, match=r"stored=True") as caught:
        qv.dequantize(codes, q8, qv.QParams(-0.5))
    assert caught.value.key == "scale_negative"
    assert qv.dequantize(codes, q8, qv.QParams(-0.5, stored=True))[0, 1].item() == -7.5
    with pytest.raises(qv.QuantVizError):
        qv.dequantize(codes, mlx, qv.QParams(0.0, bias))


@pytest.mark.parametrize(
    ("mode", "x", "scale", "zero_point", "x_hat"),
    [
        # pytorch/pytorch 180990: what torch.fused_moving_avg_obs_fake_quant gives.
        ("symmetric", [-1.0, 0.3, 0.75], 0.0078125, 0, [-1.0, 0.296875, 0.75]),
        (
            "asymmetric",
            [-0.3, 0.1, 0.9],
            0.004705882165580988,
            -64,
            [-0.3011764585971832, 0.09882352501153946, 0.8988234996795654],
        ),
        ("symmetric", [0.0, 0.3, 1.0], 0.003921568859368563, -128, [0.0, 0.2980392277240753, 1.0]),
        ("symmetric", [-0.2, -0.4], 0.0015686274273321033, 127, [-0.20078431069850922, -0.4000000059604645]),
        (
            "symmetric",
            [-2e-3, 1e-3],
            6.0999998822808266e-05,
            0,
            [-0.0020129999611526728, 0.0009759999811649323],
        ),
        (
            "asymmetric",
            [-2e-3, 1e-3],
            6.0999998822808266e-05,
            42,
            [-0.0020129999611526728, 0.0009759999811649323],
        ),
        ("symmetric", [0.0, 0.0], 0.10000000149011612, 127, [0.0, 0.0]),
    ],
)
def test_training_in_torch_has_a_scale_of_its_own(mode, x, scale, zero_point, x_hat):
    r = qv.quantize(x, qv.Scheme("int8", mode, convention="torch_qat"))
    assert r.qparams.scale.item() == scale
    assert r.qparams.zero_point.item() == zero_point
    assert r.x_hat.tolist() == x_hat


#: The names of torch's default modules of quantization-aware training, and the form of each.
TRAINED = {
    "default_fused_act_fake_quant": "uint8,asymmetric,per_tensor",
    "default_fused_wt_fake_quant": "int8,symmetric,per_tensor",
    "default_fused_per_channel_wt_fake_quant": "int8,symmetric,per_channel(axis=0)",
    "fused_wt_fake_quant_range_neg_127_to_127": "int8,symmetric,per_tensor",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127": "int8,symmetric,per_channel(axis=0)",
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("kind", ["signed", "positive", "negative", "tiny"])
def test_a_moving_average_of_torchs_training_is_a_range_like_any(name, kind):
    """The modules keep smallest and largest values over batches; their last output is ours in that range."""
    module = getattr(torch.ao.quantization.fake_quantize, name)()
    for seed in range(4):
        x = normal(3, 32, seed=seed) * (seed + 1) * (2e-6 if kind == "tiny" else 0.1)
        x = x if kind in ("signed", "tiny") else x.abs() * (1 if kind == "positive" else -1)
        x_hat = module(x)
    observer, form = module.activation_post_process, TRAINED[name]
    ends = torch.stack([observer.min_val, observer.max_val], -1)
    assert not torch.equal(ends.max(), x.max())
    narrow = "(narrow_range=true)" if "127" in name else ""
    scheme = qv.Scheme.parse(f"{form},min_max,torch_qat{narrow}")
    r = qv.quantize(x, scheme, qparams=qv.choose_qparams(ends, scheme))
    assert torch.equal(r.qparams.scale.flatten(), module.scale)
    assert torch.equal(r.qparams.zero_point.flatten(), module.zero_point)
    assert torch.equal(r.x_hat, x_hat)


def test_a_zero_point_that_symmetric_mode_has_moved_is_taken_back():
    scheme = qv.Scheme("uint8", "symmetric", convention="torch_qat")
    for x in ([0.0, 0.3, 1.0], [-0.2, -0.4], [-1.0, 0.5]):
        made = qv.quantize(x, scheme)
        assert qv.quantize(x, scheme, qparams=made.qparams).q.tolist() == made.q.tolist()
        assert qv.dequantize(made.q, scheme, made.qparams).tolist() == made.x_hat.tolist()
    # By hand, 0 is the middle code as in any symmetric scheme.
    assert qv.quantize([1.0], scheme, qparams=qv.QParams(0.5, 0)).q.tolist() == [130]
    assert qv.quantize([1.0], scheme, qparams=qv.QParams(0.5, 255)).q.tolist() == [255]
    with pytest.raises(qv.QuantVizError) as refused:
        qv.quantize([1.0], scheme, qparams=qv.QParams(0.5, 256))
    assert refused.value.key == "zero_point_beyond_codes"
