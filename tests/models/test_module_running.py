"""A torch model of the user's own under schemes: its loss, its outputs and its layers."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import quantviz as qv

INT2 = "int2,symmetric,per_channel,min_max,course"


class Net(nn.Module):
    """A model with a table, convolutions, one of them grouped, and linear layers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.conv = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.depth = nn.Conv2d(4, 4, 3, groups=4, padding=1)
        self.fc1 = nn.Linear(64, 16)
        self.lm_head = nn.Linear(16, 5)

    def forward(self, x):
        seen = self.depth(torch.relu(self.conv(x))).flatten(1)
        return self.lm_head(torch.relu(self.fc1(seen)))


class Reader(nn.Module):
    """A model that takes texts."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)

    def forward(self, text):
        return self.fc(torch.tensor([[len(text), text.count("a")]], dtype=torch.float32))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def batches():
    generator = torch.Generator().manual_seed(1)
    shape = (12, 1, 8, 8)
    return [
        (torch.randn(shape, generator=generator), torch.randint(0, 5, (12,), generator=generator))
        for _ in range(3)
    ]


def rounded_copy(model, scheme, names):
    """Return the model with some weights rounded one output at a time, as torch itself computes with them."""
    copy = Net().eval()
    copy.load_state_dict(model.state_dict())
    for name in names:
        weight = copy.get_submodule(name).weight
        with torch.no_grad():
            weight.copy_(qv.quantize(weight.flatten(1), scheme).x_hat.reshape(weight.shape))
    return copy


def test_the_numbers_are_those_of_torch_with_rounded_weights(model, batches):
    found = qv.run(model, batches, functional.cross_entropy, "int4_per_row")
    other = rounded_copy(model, "int4_per_row", ("conv", "depth", "fc1"))
    with torch.no_grad():
        pairs = [(model(x), other(x), target) for x, target in batches]
    before, after = (torch.cat([pair[side] for pair in pairs]).double() for side in (0, 1))
    losses = [sum(functional.cross_entropy(p[side], p[2]) for p in pairs) / 3 for side in (0, 1)]
    assert found.original_loss == pytest.approx(float(losses[0]), rel=1e-6)
    assert found.loss == pytest.approx(float(losses[1]), rel=1e-5)
    assert found.loss != found.original_loss
    wanted = ((after - before).square().sum() / before.square().sum()).item()
    assert found.rel_out == pytest.approx(wanted, rel=1e-3)
    kl = functional.kl_div(after.log_softmax(1), before.log_softmax(1), log_target=True, reduction="none")
    assert found.kl == pytest.approx(kl.sum(1).mean().item() / math.log(2), rel=1e-3)
    assert found.same_top == (before.argmax(1) == after.argmax(1)).double().mean().item()


def test_rounded_inputs_are_those_of_the_layer(model, batches):
    found = qv.run(model, batches, functional.cross_entropy, qv.LayerSchemes(None, "int4_per_token"))
    inputs = []
    with torch.no_grad():
        for x, _ in batches:
            patches = functional.unfold(x, 3, padding=1, stride=2).movedim(1, 2)
            rounded = qv.quantize(patches.reshape(-1, 9), "int4_per_row").x_hat
            conv = (rounded @ model.conv.weight.flatten(1).T + model.conv.bias).reshape(12, 4, 4, 4)
            patches = functional.unfold(torch.relu(conv.movedim(3, 1)), 3, padding=1).movedim(1, 2)
            rounded = qv.quantize(patches.reshape(-1, 36), "int4_per_row").x_hat.reshape(12, 16, 4, 9)
            depth = torch.einsum("bpgk,gk->bgp", rounded, model.depth.weight.flatten(1))
            seen = (depth + model.depth.bias[:, None]).flatten(1)
            seen = qv.quantize(seen, "int4_per_row").x_hat
            inputs.append((model.lm_head(torch.relu(model.fc1(seen))), model(x)))
    after, before = (torch.cat(side).double() for side in zip(*inputs, strict=True))
    wanted = ((after - before).square().sum() / before.square().sum()).item()
    assert found.rel_out == pytest.approx(wanted, rel=1e-3)


def test_what_stays_as_it_is_is_named(model, batches):
    found = qv.run(model, [x for x, _ in batches], schemes=INT2)
    assert list(found.layers) == ["conv", "depth", "fc1", "lm_head"]
    assert found.worst[-1] == "lm_head"
    assert found.layers["lm_head"].rel_out < 1e-12  # rounded only where it is named
    assert found.loss is None
    said = " ".join(note.message("en") for note in found.notes)
    assert "table (Embedding)" in said


def test_the_model_is_not_changed(model, batches):
    before = {name: values.clone() for name, values in model.state_dict().items()}
    qv.run(model, batches, functional.cross_entropy, INT2)
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_method_and_static_scales_see_the_calibration(model, batches):
    schemes = qv.LayerSchemes("int4_per_row", "int8_per_tensor", "gptq")
    on_itself = qv.run(model, batches, functional.cross_entropy, schemes)
    assert any(note.key == "run_calibrated_on_itself" for note in on_itself.notes)
    loud = [100 * x for x, _ in batches]
    elsewhere = qv.run(model, batches, functional.cross_entropy, schemes, calibration=loud)
    assert not any(note.key == "run_calibrated_on_itself" for note in elsewhere.notes)
    assert elsewhere.rel_out > 10 * on_itself.rel_out
    (note,) = (note for note in elsewhere.notes if note.key == "run_groups_nearest")
    assert note.params == {"count": 1, "names": "depth"}


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.ConvTranspose1d])
def test_groups_of_a_convolution_share_one_scale_of_weights_and_inputs(kind):
    torch.manual_seed(2)
    model = kind(6, 12, 3, groups=3, stride=2).eval()
    model.weight.data *= torch.logspace(0, 2, len(model.weight))[:, None, None]
    x = torch.randn(2, 6, 9) * torch.tensor([1.0, 1, 1, 1, 9, 9])[:, None]
    scheme = "int8_per_tensor"
    found = qv.run(model, [x], schemes=qv.LayerSchemes(scheme, scheme))
    again = kind(6, 12, 3, groups=3, stride=2).eval()
    again.load_state_dict(model.state_dict())
    again.weight.data = qv.quantize(model.weight.data, scheme).x_hat
    with torch.no_grad():
        y, y_hat = model(x).double(), again(qv.quantize(x, scheme).x_hat).double()
    assert found.rel_out == pytest.approx(float((y_hat - y).square().sum() / y.square().sum()), rel=1e-4)
    assert found.bits == 8 + 16 / model.weight.numel()


def test_texts_are_batches_too():
    torch.manual_seed(0)
    found = qv.run(Reader().eval(), ["a banana", "an apple"], schemes=INT2)
    assert 0 < found.rel_out < 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"loss": functional.mse_loss}, "pair"),
        ({"loss": lambda output, target: "no number"}, "loss failed"),
        ({"loss": lambda output, target: math.nan}, "loss is nan"),
        ({"schemes": qv.ModelSchemes(keys="int8_per_row")}, "layers alone"),
        ({"schemes": qv.ModelSchemes(own={"fc9": qv.LayerSchemes("int8_per_row")})}, "fc9"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(model, batches, more, words):
    given = [x for x, _ in batches] if words == "pair" else batches
    if "loss" not in more:
        given = [x for x, _ in batches]
    with pytest.raises(qv.QuantVizError, match=words):
        qv.run(model, given, **more)
