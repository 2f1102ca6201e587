"""The adder: its sums beside a forward pass in NumPy, its twin, what rounding costs, and its training."""

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
from quantviz.models.character_model import ADDER, ADDER_FILE, ADDER_TWIN, CHARACTER, loud_channels, network_of
from quantviz.models.layer_effects import layer_effects, rank_correlation
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, scheme_of_bits
from quantviz.models.network import Network, logits
from quantviz.models.predicting import PREDICTORS, numbers_of, predict_sums, scheme_numbers, tried_schemes
from quantviz.models.quantizing import quantized_network, watched_on_calibration
from quantviz.models.sums import (
    ADDER_SIZES,
    CHARACTERS,
    Sum,
    Sums,
    answered,
    drawn_sums,
    sums_in,
    tokens_of_sums,
    wilson_interval,
)
from quantviz.models.training import first_tensors

FOLDER = Path(adder_training.__file__).parent / "data"


def right(scheme, model=ADDER):
    return qv.run(model, scheme).sums.right


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


@pytest.mark.parametrize("scheme", [None, "int3_per_row"])
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
    whole, fine, row, tensor = (right(each) for each in ("int5_per_row", "int4_g16", "int4_per_row", "int4_per_tensor"))
    assert whole >= 990
    assert tensor < row <= fine
    three = [right(scheme_of_bits(3, granularity)) for granularity in (qv.PerTensor(), qv.PerChannel(0), qv.PerGroup(16))]
    assert three == sorted(three)
    assert three[-1] < row
    assert three[0] < 500


def test_inputs_of_fewer_bits_cost_sums():
    found = [right(LayerSchemes(None, f"int{bits}_per_tensor")) for bits in (8, 5, 4, 3)]
    assert found == sorted(found, reverse=True)
    assert found[0] >= 990 > 500 > found[-1]


def test_methods_win_sums_back():
    assert right(LayerSchemes("int3_per_row", None, "gptq")) > right("int3_per_row") + 50
    loud = LayerSchemes(None, "int6_per_tensor")
    turned = LayerSchemes(None, "int6_per_tensor", "rotation")
    assert right(turned, ADDER_TWIN) > right(loud, ADDER_TWIN) + 100


def test_the_cache_costs_sums():
    found = [right(ModelSchemes(keys=f"int{bits}_per_column", values=f"int{bits}_per_row")) for bits in (8, 2)]
    assert found[0] > 990 > found[1]


def test_the_twin_adds_the_same_and_falls_under_one_scale():
    tokens = tokens_of_sums(drawn_sums("held_back"))
    with torch.no_grad():
        assert torch.equal(logits(network_of(ADDER), tokens), logits(network_of(ADDER_TWIN), tokens))
    for kind, channels in loud_channels(ADDER_TWIN).items():
        inputs = [watched_on_calibration(model)[f"model.layers.1.{kind}"].abs() for model in (ADDER, ADDER_TWIN)]
        louder = (inputs[1] != inputs[0]).any(0)
        assert set(torch.nonzero(louder).flatten().tolist()) <= set(channels)
    one_scale = LayerSchemes("int8_per_row", "int8_per_tensor")
    assert right(one_scale) >= 990
    assert right(one_scale, ADDER_TWIN) < right(one_scale) - 200


def test_the_head_is_left_as_it_is_unless_it_is_chosen():
    head = {"lm_head": LayerSchemes("int2_per_row")}
    assert right(ModelSchemes(own=head)) < 990
    assert torch.equal(
        quantized_network(ADDER, ModelSchemes(LayerSchemes("int2_per_row"))).network.tensors["lm_head.weight"],
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
    for call, key in ((lambda: found.written, "model.adds"), (lambda: qv.run(CHARACTER).sums, "model.no_adder")):
        with pytest.raises(qv.QuantVizError) as refused:
            call()
        assert refused.value.key == key


# ---- its numbers ----------------------------------------------------------------------------------


def test_the_numbers_of_many_sums():
    found = qv.run(ADDER, "int3_per_row").sums
    assert len(found.every) == 1000
    assert found.right == sum(int(each.answer) == each.left + each.right for each in found.every if each.answer.isdigit())
    assert sum(own for own, _ in found.by_carries.values()) == found.right
    assert sum(count for _, count in found.by_carries.values()) == 1000
    assert sum(found.wrong_places) >= 1000 - found.right > 0
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
    own = ModelSchemes(own={name: LayerSchemes("int2_per_row"), "lm_head": LayerSchemes("int8_per_row")})
    effects = {each.name: each for each in layer_effects(ADDER, own)}
    alone = qv.run(ADDER, ModelSchemes(own={name: LayerSchemes("int2_per_row")}))
    assert effects[name].sums_lost == right(None) - alone.sums.right > 0
    assert effects[name].kl_alone == pytest.approx(alone.kl, rel=1e-6)
    assert effects["lm_head"].sums_lost <= 1
