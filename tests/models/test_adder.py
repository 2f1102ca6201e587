"""The adder: its sums beside a forward pass in NumPy, its twin, what rounding costs, and its training."""

import functools
import hashlib
import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.models import adder_training
from quantviz.models.attention import attention_of
from quantviz.models.character_model import (
    ADDER,
    ADDER_FILE,
    ADDER_TWIN,
    CHARACTER,
    loud_channels,
    network_of,
    tokens_of,
)
from quantviz.models.layer_effects import layer_effects, rank_correlation
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, as_schemes
from quantviz.models.network import Network, logits
from quantviz.models.predicting import (
    PREDICTORS,
    numbers_of,
    pair_orders,
    predict_sums,
    scheme_numbers,
    tried_schemes,
)
from quantviz.models.quantizing import (
    fisher_on_calibration,
    quantized_network,
    rounded_layer,
    rounded_layers,
    watched_on_calibration,
)
from quantviz.models.sums import (
    ADDER_SIZES,
    CHARACTERS,
    Sum,
    answered,
    drawn_sums,
    tokens_of_sums,
    wilson_interval,
)
from quantviz.models.training import first_tensors
from tests.helpers.sample import sample_of

FOLDER = Path(adder_training.__file__).parent / "data"


PER_ROW = qv.PerChannel(0)
PER_TENSOR = qv.PerTensor()


@functools.cache
def ran(schemes, model):
    return qv.run(model, schemes)


def right(schemes, model=ADDER):
    return ran(as_schemes(schemes), model).sums.right


def of(bits, granularity=PER_ROW):
    """Return the scheme of integers of so many bits."""
    return qv.Scheme(f"int{bits}", granularity=granularity)


# ---- a network and its sums in NumPy alone --------------------------------------------------------


def norm(x, gain, shift):
    middle = x - x.mean(-1, keepdims=True)
    return middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-5) * gain + shift


def scores(tensors, tokens):
    """Return the scores after the last of some tokens, (sums, characters), from float64 weights."""

    def linear(name, x):
        return x @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", 0)

    def normed(name, x):
        return norm(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    x = tensors["model.embed_tokens.weight"][tokens]
    places = np.arange(tokens.shape[1])
    gaps = places[:, None] - places
    for layer in ("model.layers.0", "model.layers.1"):
        read = normed(f"{layer}.self_attn_layer_norm", x)
        q, k, v = (linear(f"{layer}.self_attn.{part}_proj", read) for part in "qkv")
        mixed = np.zeros_like(q)
        for head in range(4):
            own = slice(16 * head, 16 * head + 16)
            weighed = q[..., own] @ k[..., own].transpose(0, 2, 1) / 4 - 0.25**head * gaps
            weighed = np.exp(np.where(gaps < 0, -np.inf, weighed - weighed.max(-1, keepdims=True)))
            mixed[..., own] = weighed / weighed.sum(-1, keepdims=True) @ v[..., own]
        x = x + linear(f"{layer}.self_attn.out_proj", mixed)
        hidden = np.maximum(linear(f"{layer}.fc1", normed(f"{layer}.final_layer_norm", x)), 0)
        x = x + linear(f"{layer}.fc2", hidden)
    return linear("lm_head", normed("model.final_layer_norm", x[:, -1]))


@pytest.mark.parametrize("scheme", [None, of(3)])
def test_a_forward_pass_in_numpy_gives_the_same_sums(scheme):
    network = quantized_network(ADDER, ModelSchemes(LayerSchemes(scheme))).network
    tensors = {name: values.double().numpy() for name, values in network.tensors.items()}
    pairs = drawn_sums("held_back")[:200]
    lines = [f"{left:03}"[::-1] + "+" + f"{other:03}"[::-1] + "=" for left, other in pairs.tolist()]
    for _ in range(4):
        tokens = np.array([[CHARACTERS.index(each) for each in line] for line in lines])
        best = scores(tensors, tokens).argmax(-1)
        lines = [line + CHARACTERS[each] for line, each in zip(lines, best, strict=True)]
    found = answered(network, pairs)
    assert [each.answer for each in found.every] == [line[:7:-1] for line in lines]
    assert scheme is None or found.right < 200


# ---- what is right --------------------------------------------------------------------------------


def test_a_sum_stands_from_the_right():
    line = tokens_of_sums(torch.tensor([[7, 995]]))[0]
    assert "".join(CHARACTERS[each] for each in line) == "700+599=2001"
    assert Sum(7, 995, "1002").is_right
    assert Sum(7, 995, "1=02").wrong == (False, True, False, False)
    sums = [Sum(left, other, "") for left, other in ((1, 2), (5, 5), (999, 1), (500, 500), (95, 15))]
    assert [each.carries for each in sums] == [0, 1, 3, 1, 2]


def test_the_carries_of_a_sum_are_those_on_paper():
    for left, other in drawn_sums("held_back")[:100].tolist():
        carry, count = 0, 0
        for one, two in zip(f"{left:03}"[::-1], f"{other:03}"[::-1], strict=True):
            carry = int(int(one) + int(two) + carry > 9)
            count += carry
        assert Sum(left, other, "").carries == count


def test_the_shipped_weights_add_as_their_page_states():
    raw = (FOLDER / ADDER_FILE).read_bytes()
    assert len(raw) <= 250_000
    assert hashlib.sha256(raw).hexdigest() in (FOLDER / "README.md").read_text(encoding="utf-8")
    found = qv.run(ADDER, None)
    assert found.sums.right >= 999
    assert found.kl == 0
    # None of them is trained on.
    draw = torch.Generator().manual_seed(0)
    held_back = set(map(tuple, drawn_sums("held_back").tolist()))
    for _ in range(4):
        assert not held_back & set(map(tuple, adder_training.training_sums(draw).tolist()))


def test_fewer_bits_and_coarser_scales_cost_sums():
    shared = (PER_TENSOR, PER_ROW, qv.PerGroup(16))
    five, four, three = ([right(of(bits, each)) for each in shared] for bits in (5, 4, 3))
    assert min(five) >= 990
    assert four[0] < four[1] <= five[1]
    assert three == sorted(three)
    assert three[0] < 500 < three[2] < four[1]


def test_inputs_of_fewer_bits_cost_sums():
    found = [right(LayerSchemes("int8_per_row", of(bits, PER_TENSOR))) for bits in (8, 5, 4, 3)]
    assert found == sorted(found, reverse=True)
    assert found[0] >= 990 > 500 > found[-1]


def test_methods_win_sums_back():
    assert right(LayerSchemes(of(3), None, "gptq")) > right(of(3)) + 50
    found = [
        right(LayerSchemes("int8_per_row", "int8_per_tensor", method), ADDER_TWIN)
        for method in ("nearest", "smoothquant", "rotation")
    ]
    assert min(found[1:]) >= 990 > 500 > found[0]


def test_the_cache_costs_sums():
    found = [right(ModelSchemes(keys=of(bits, qv.PerChannel(1)), values=of(bits))) for bits in (8, 3, 2)]
    assert found[0] >= 990 > found[1] > found[2]


def test_the_twin_adds_the_same_and_falls_under_one_scale():
    tokens = tokens_of_sums(drawn_sums("held_back"))
    with torch.no_grad():
        assert torch.equal(logits(network_of(ADDER), tokens), logits(network_of(ADDER_TWIN), tokens))
    for kind, channels in loud_channels(ADDER_TWIN).items():
        inputs = (
            watched_on_calibration(model)[f"model.layers.1.{kind}"].abs().amax(0)
            for model in (ADDER, ADDER_TWIN)
        )
        before, after = inputs
        assert torch.nonzero(after != before).flatten().tolist() == list(channels)
        assert torch.equal(after[list(channels)], 64 * before[list(channels)])
    one_scale = LayerSchemes("int8_per_row", "int8_per_tensor")
    assert right(one_scale) >= 990
    assert right(one_scale, ADDER_TWIN) < right(one_scale) - 200


def test_the_head_is_left_as_it_is_unless_it_is_chosen():
    head = {"lm_head": LayerSchemes(of(2))}
    assert right(ModelSchemes(own=head)) < 990
    assert torch.equal(
        quantized_network(ADDER, ModelSchemes(LayerSchemes(of(2)))).network.tensors["lm_head.weight"],
        network_of(ADDER).tensors["lm_head.weight"],
    )


def test_own_sums_are_answered_and_others_refused():
    found = qv.run(ADDER, text="12+345\n 999 + 1 ")
    assert [each.answer for each in found.sums.every] == ["0357", "1000"]
    assert "sums right 2 of 2" in repr(found)
    assert "sums right" in found._repr_html_()
    for wrong in ("1000+1", "12-3", "", "１+2", "1+2\n\n3+4"):
        with pytest.raises(qv.QuantVizError) as refused:
            qv.run(ADDER, text=wrong)
        assert refused.value.key == "model.no_sum"
    assert found.written == found.original_written == "012+345=0357\n999+001=1000"
    assert qv.run(CHARACTER).sums is None


# ---- its numbers ----------------------------------------------------------------------------------


def test_the_numbers_of_many_sums():
    found = ran(as_schemes(of(3)), ADDER).sums
    assert len(found.every) == 1000
    assert found.right == sum(
        int(each.answer) == each.left + each.right for each in found.every if each.answer.isdigit()
    )
    assert sum(own for own, _ in found.by_carries.values()) == found.right
    assert sum(count for _, count in found.by_carries.values()) == 1000
    assert len(found.field()) == 100
    carries = [each.carries for each in found.field(by_carries=True)]
    assert carries == sorted(each.carries for each in found.field())
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_interval_is_wilsons():
    """Its bounds are the shares from which the observed one is 1.96 standard deviations away."""
    for count, all_draws in ((0, 10), (7, 10), (993, 1000), (1000, 1000)):
        for bound in wilson_interval(count, all_draws):
            gap = abs(count / all_draws - bound)
            assert gap == pytest.approx(1.959964 * math.sqrt(bound * (1 - bound) / all_draws), abs=1e-12)


def test_a_layer_alone_loses_the_sums_of_a_run_with_it_alone():
    name = "model.layers.0.self_attn.out_proj"
    own = ModelSchemes(own={name: LayerSchemes(of(2)), "lm_head": LayerSchemes("int8_per_row")})
    effects = {each.name: each for each in layer_effects(ADDER, own)}
    alone = qv.run(ADDER, ModelSchemes(own={name: LayerSchemes(of(2))}))
    assert effects[name].sums_lost == right(None) - alone.sums.right > 0
    assert effects[name].kl_alone == pytest.approx(alone.kl, rel=1e-6)
    assert effects["lm_head"].sums_lost <= 1


def test_brecq_sees_the_slopes_of_the_models_loss():
    """Those of the scores are p less 1 for the true character, and 0 where none is answered."""
    network, tokens = network_of(ADDER), tokens_of("calibration", ADDER)
    with torch.inference_mode():
        slopes = logits(network, tokens[:, :-1]).double().softmax(-1)
    slopes = slopes - torch.nn.functional.one_hot(tokens[:, 1:], len(CHARACTERS))
    slopes[:, : ADDER_SIZES.given - 1] = 0
    own = slopes.flatten(0, 1)[::4][: len(watched_on_calibration(ADDER)["lm_head"])]
    torch.testing.assert_close(fisher_on_calibration(ADDER)["lm_head"], own.square(), rtol=1e-3, atol=1e-9)
    nearest, learned = (
        ran(ModelSchemes(LayerSchemes(of(3), None, method)), ADDER) for method in ("nearest", "brecq")
    )
    assert learned.kl < nearest.kl / 10
    assert learned.sums.right > nearest.sums.right


BLOCK = ("model.layers.1.fc1", "model.layers.1.fc2")


def block_loss(layers):
    """The paper's objective, E[Δzᵀ diag((∂L/∂z)²) Δz] of a feed-forward part's outputs z, over that of z."""
    network = network_of(ADDER)
    x = watched_on_calibration(ADDER)[BLOCK[0]].double()
    first, second = (network.tensors[f"{name}.weight"].double() for name in BLOCK)
    bias = network.tensors[f"{BLOCK[0]}.bias"].double()
    z = (x @ first.T + bias).relu() @ second.T
    rounded = [layer.outputs for layer in layers]
    z_hat = rounded[1]((rounded[0](x.float()) + layers[0].bias).relu()).double()
    slopes = fisher_on_calibration(ADDER)[BLOCK[1]]
    return float(((z_hat - z).square() * slopes).sum() / (z.square() * slopes).sum())


IN_BLOCKS = itertools.product(
    ("int4_per_row", of(3), "int2,symmetric,per_group(size=16),min_max,course"),
    ("brecq", "smoothquant+brecq", "rotation+brecq"),
)


@pytest.mark.parametrize(("scheme", "method"), sample_of(IN_BLOCKS, 3))
def test_brecq_learns_the_layers_of_a_block_together(scheme, method):
    one = LayerSchemes(scheme, None, method)
    together = {layer.name: layer for layer in rounded_layers(ADDER, ModelSchemes(one))}
    both = block_loss([together[name] for name in BLOCK])
    alone = block_loss([rounded_layer(ADDER, name, one) for name in BLOCK])
    nearest = block_loss([rounded_layer(ADDER, name, LayerSchemes(scheme)) for name in BLOCK])
    assert both <= alone * (1 + 1e-6)
    assert alone < nearest
    # Others are blocks of one layer, and another scheme within a block leaves it one by one.
    name = "model.layers.1.self_attn.out_proj"
    assert torch.equal(together[name].weight, rounded_layer(ADDER, name, one).weight)
    mixed = ModelSchemes(one, own={BLOCK[1]: LayerSchemes("int8_per_row")})
    found = {layer.name: layer for layer in rounded_layers(ADDER, mixed)}
    assert torch.equal(found[BLOCK[0]].weight, rounded_layer(ADDER, BLOCK[0], one).weight)


def test_a_block_gains_where_its_layers_make_up_for_each_other():
    one = LayerSchemes("int2,symmetric,per_group(size=16),min_max,course", None, "brecq")
    together = {layer.name: layer for layer in rounded_layers(ADDER, ModelSchemes(one))}
    both = block_loss([together[name] for name in BLOCK])
    assert both < 0.7 * block_loss([rounded_layer(ADDER, name, one) for name in BLOCK])


def test_schemes_rank_by_kl_as_by_their_sums():
    """Twelve schemes that lose sums, of weights, inputs, a method and the cache."""
    names = ("int2_g16", "int3_tensor", "int3_row", "int3_g32", "int3_g16", "int4_tensor")
    names += ("int3_row awq", "int3_row rotation", "inputs int3_tensor", "inputs int4_row")
    names += ("inputs int4_tensor", "keys int3_column")
    tried = tried_schemes()
    rows = [numbers_of(name, ran(tried[name], ADDER)) for name in names]
    assert all(each.right < 990 for each in rows)
    # They are counted without writing the sums.
    assert [each.right for each in rows] == [ran(tried[name], ADDER).sums.right for name in names]
    found = predict_sums(rows)
    assert found["kl"] > 0.95
    orders = pair_orders(rows)
    assert orders.alike > 50
    assert orders.alike + orders.undecided + len(orders.against) == 66
    # What is left has so large a KL that most sums are wrong whichever has more.
    assert all(one.kl < other.kl and one.right < other.right < 200 for one, other in orders.against)
    # A rounding of inputs or of the cache changes no weight.
    assert found["weight_db"] < found["kl"]
    assert list(found) == list(PREDICTORS)
    wrong = [-each.right for each in rows]
    assert found["rel_out"] == rank_correlation([each.rel_out for each in rows], wrong)


@pytest.mark.nightly
def test_kl_predicts_the_sums_of_all_schemes_best():
    rows = [scheme_numbers(ADDER, name) for name in tried_schemes()]
    found = predict_sums(rows)
    assert found["kl"] == max(found.values()) > 0.9


@pytest.mark.nightly
def test_training_for_a_minute_improves():
    """A fifth of the steps, in one cycle of their own: the loss falls, and sums come right."""
    network = Network(ADDER_SIZES, first_tensors(ADDER_SIZES, 0))
    before = answered(network, drawn_sums("held_back")).right
    losses = list(adder_training.trained(network, 600, 0))
    assert sum(losses[-50:]) < sum(losses[:50]) / 2
    assert answered(network, drawn_sums("held_back")).right > before + 100


def test_the_keys_of_the_twin_are_loud_in_each_head():
    view = attention_of(ADDER_TWIN, ModelSchemes(keys=of(4)), 1)
    assert view.before.shape == (4, 12, 12)
    assert [channel // 16 for channel in view.loud("keys")] == [0, 1, 2, 3]
