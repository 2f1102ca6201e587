"""The page of attention through AppTest."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save

import quantviz as qv
from quantviz.layers.captures import Captured, Layers
from quantviz.models.heads import BUILT_IN_HEADS, heads_of_model
from quantviz.sources.local import FOLDER
from tests.helpers.controls import choose, controls, value_of
from tests.helpers.session import act, address, bodies, bring, npz, opened, told

PAGE = "pages/explore/attention.py"
RANDOM = np.random.default_rng(4)
HEADS = {
    name: RANDOM.normal(size=(heads, 12, 16)).astype(np.float32)
    for name, heads in (("layer.query", 4), ("layer.key", 2), ("layer.value", 2))
}


def shown(at):
    """All HTML of the page, its large number first."""
    return "".join(bodies(at, "qv-large") + bodies(at, "qv-others") + bodies(at, "qv-finding"))


def test_the_number_is_the_librarys_and_the_remedy_is_taken_and_undone():
    at = opened(PAGE)
    heads = BUILT_IN_HEADS["loud_mean"]()
    plain, centred = (
        qv.attention(heads.q, heads.k, heads.v, "int4_per_token", options=qv.AttentionOptions(center=center))
        for center in (False, True)
    )
    assert f"{plain.kl:.3g}" in shown(at)
    assert "Channel 9 of the keys is" in shown(at)
    # The error of q·k would choose another way: the page says that it misleads.
    assert f"{plain.notes[0].params['of_scores']:.3g}" in told(at, "markdown")
    assert "Judge by the KL divergence: “less their mean”" in told(at, "markdown")
    # Where both numbers choose alike, nothing is said.
    choose(at, ("heads", "loud_channel"))
    assert "Judge by" not in told(at, "markdown")
    choose(at, ("heads", "loud_mean"))
    act(at, "attention_best")
    assert address(at)["m"] == "center"
    assert f"{centred.kl:.3g}" in shown(at)


def test_a_link_opens_a_cell_and_its_arithmetic():
    at = opened(PAGE, f="character_twin", k="int4_per_row", x="causal", c="20.3", h="1", m="both", e="error")
    lines = bodies(at, "qv-steps-told")[0]
    heads = heads_of_model("character_twin", 1)
    found = qv.attention(
        heads.q,
        heads.k,
        heads.v,
        "int4_per_token",
        mask="causal",
        options=qv.AttentionOptions(center=True, hadamard=True),
    )
    before, after = (side[1, 20, 3].item() for side in found.scores)
    assert f"{before:.4g}".replace("-", "−") in lines
    assert f"{after:.4g}".replace("-", "−") in lines
    assert {"c": "20.3", "h": "1", "t": "cell"}.items() <= address(at).items()
    choose(at, ("product", "output"))
    assert "c" not in address(at)
    assert "weights · values over 64 tokens" in bodies(at, "qv-steps-told")[0]


def test_places_that_the_heads_do_not_have_are_left_out():
    at = opened(PAGE, f="character_twin", h="99", c="900.3", j="900", l="0.900_0.3_0.2")
    assert address(at) == {"f": "character_twin", "h": "3", "t": "cell", "lang": "en"}
    choose(at, ("heads", "loud_mean"))
    assert "h" not in address(at)


@pytest.mark.parametrize("name", ["heads.npz", "heads.safetensors"])
def test_dropped_heads_open_here_whatever_they_are_called(name):
    content = npz(**HEADS) if name.endswith("npz") else save(HEADS)
    at = bring(opened("pages/explore/layers.py"), "drop_anywhere", {name: content})
    assert address(at)["f"] == "upload"
    assert not at.error
    expected = qv.attention(*HEADS.values(), "int4_per_token")
    assert f"{expected.kl:.3g}" in shown(at)
    assert len(controls(at)["head"]["choices"]) == 4
    # Without a browser a page is turned to anew.
    choose(at.switch_page(PAGE).run(), ("mask", "causal"), ("positions", "before"))
    options = qv.AttentionOptions(rotary=10_000.0, rounded="before")
    expected = qv.attention(*HEADS.values(), "int4_per_token", mask="causal", options=options)
    assert f"{expected.kl:.3g}" in shown(at)


def test_shapes_that_do_not_fit_are_refused_with_those_that_do():
    wrong = {**HEADS, "layer.key": HEADS["layer.key"][..., :8]}
    at = bring(opened("pages/explore/layers.py"), "drop_anywhere", {"heads.npz": npz(**wrong)})
    assert "channels of q and k are as many" in told(at, "error")
    many = {"q": np.zeros((2, 3000, 2), np.float32), "k": np.zeros((2, 3000, 2), np.float32)}
    at = bring(opened("pages/explore/layers.py"), "drop_anywhere", {"many.npz": npz(**many)})
    assert "q[:, -256:]" in told(at, "error")
    # A link carries no file; the page stays usable.
    at = opened(PAGE)
    choose(at, ("heads", "upload"))
    assert "a link carries none" in told(at, "error")
    choose(at, ("heads", "loud_channel"))
    assert not at.error
    assert value_of(at, "heads") == "loud_channel"


def test_the_layers_menu_leads_here():
    at = opened("pages/explore/layers.py")
    choose(at, ("layers_layer", "attention"))
    assert address(at)["f"] == "loud_mean"


def test_captured_layers_lead_to_the_heads_that_they_make(tmp_path, monkeypatch):
    """Queries, keys and values are the layers' outputs, in heads of as many channels as are chosen."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(24, 40, generator=draw)
    sides = {}
    for part, outputs in (("q", 64), ("k", 32), ("v", 32)):
        weight, bias = torch.randn(outputs, 40, generator=draw) / 6, torch.randn(outputs, generator=draw)
        sides[part] = Captured(f"h.0.attn.{part}_proj", "linear", weight, x, bias, 24)
    Layers((*sides.values(), Captured("h.0.up", "linear", torch.ones(8, 40), x, None, 24))).save(
        tmp_path / "layers.safetensors"
    )
    at = opened("pages/explore/checkpoints.py", f="layers.safetensors", lang="en")
    act(at, "checkpoints_capture_heads")
    assert address(at) == {"f": "upload", "o": "layers.safetensors", "lang": "en"}
    assert "24 tokens" in told(at, "caption")
    for width in (32, 16):
        if width != 32:
            at = opened(PAGE, f="upload", o="layers.safetensors", lang="en")
            choose(at, ("width", str(width)))
        q, k, v = (
            (x @ each.weight.T + each.bias).unflatten(1, (-1, width)).transpose(0, 1)
            for each in sides.values()
        )
        assert f"{qv.attention(q, k, v, 'int4_per_token').kl:.3g}" in shown(at)
    assert address(at)["u"] == "16"
