"""An audit as a gate: damage shows with its decibels in every layout, and folded scales pass.

Sentence, status and box follow from the account alone.
"""

import json
import random

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import quantviz as qv
from quantviz.checkpoints.audit import auditing
from quantviz.checkpoints.audit.verdict import findings
from quantviz.checkpoints.model.account import BECAME, Account, Accounted, TensorOutcome
from quantviz.checkpoints.model.coverage_words import coverage_of_scan
from quantviz.cli import quantviz
from quantviz.ui.checkpoints import page as audit_page
from tests.helpers import layouts

LAYER = "model.layers.0."
UP, DOWN, GATE = (f"{LAYER}mlp.{name}_proj" for name in ("up", "down", "gate"))
Q, K, V, OUT = (f"{LAYER}self_attn.{name}_proj" for name in "qkvo")
BEFORE = dict.fromkeys((Q, K, V), f"{LAYER}input_layernorm")
BEFORE |= dict.fromkeys((UP, GATE), f"{LAYER}post_attention_layernorm")
#: Decibels that every layout here has where nothing is wrong, and no damage.
BOUND = 15.0


def drawn(seed, rows=64, columns=64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator) * torch.exp(
        torch.randn(rows, 1, generator=generator) / 3
    )


def int8(base, x):
    scale = x.abs().amax(1, keepdim=True) / 127
    codes = torch.round(x / scale).to(torch.int8)
    return {f"{base}.weight": codes, f"{base}.weight_scale": scale}, codes * scale


def fp8(base, x):
    tensors = layouts.fp8_blocks(base, x, 32)
    scale = tensors[f"{base}.weight_scale_inv"].repeat_interleave(32, 0).repeat_interleave(32, 1)
    return tensors, tensors[f"{base}.weight"].float() * scale


def gptq(base, x):
    q, zero, scale = layouts.rounded(x, 4, 32)
    return layouts.gptq(base, q, zero.clamp(min=1), scale, 4), _values(q, zero.clamp(min=1), scale)


def awq(base, x):
    q, zero, scale = layouts.rounded(x, 4, 32)
    return layouts.awq(base, q, zero, scale), _values(q, zero, scale)


def _values(q, zero, scale):
    return scale.repeat_interleave(32, 1) * (q - zero.repeat_interleave(32, 1))


def plain(dtype):
    def stored(base, x):
        return {f"{base}.weight": x.to(dtype)}, x.to(dtype).float()

    return stored


FORMS = {
    "int8": int8,
    "fp8": fp8,
    "gptq": gptq,
    "awq": awq,
    "float32": plain(torch.float32),
    "float16": plain(torch.float16),
    "bfloat16": plain(torch.bfloat16),
    "float8": plain(torch.float8_e4m3fn),
}
#: One form of each kind: a scale a row, packed codes in groups, floats, and a cast; the others take as long.
QUICK = ("int8", "awq", "float16", "float8")
EACH_FORM = pytest.mark.parametrize(
    "form", [each if each in QUICK else pytest.param(each, marks=pytest.mark.nightly) for each in FORMS]
)
CONFIGS = {
    "fp8": {"quant_method": "fp8", "weight_block_size": [32, 32]},
    "awq": {"quant_method": "awq", "version": "gemm"},
}


#: Damage of a weight, with a generator.
DAMAGE = {
    "times": lambda x, g: x * (0.4 if torch.rand((), generator=g) < 0.5 else 1.7),
    "columns": lambda x, g: x * torch.exp(torch.randn(x.shape[1], generator=g) / 2),
    "rows": lambda x, g: x * torch.exp(torch.randn(x.shape[0], 1, generator=g) / 2),
    "random": lambda x, g: torch.randn(x.shape, generator=g),
    "noise": lambda x, g: x + torch.randn(x.shape, generator=g) * x.std() / 3,
    "half": lambda x, g: x * torch.where(torch.arange(len(x)) < len(x) // 2, 1e-5, 1.0).unsqueeze(1),
    "columns of 0": lambda x, g: x * ~torch.isin(torch.arange(x.shape[1]), torch.arange(3, 8)),
    "order": lambda x, g: x[torch.randperm(len(x), generator=g)],
    "sign": lambda x, g: -x,
}


def model(seed, norms=True):
    made = {base: drawn(seed * 10 + k) for k, base in enumerate((Q, K, V, OUT, GATE, UP, DOWN))}
    generator = torch.Generator().manual_seed(seed)
    of_norms = {name: 0.5 + torch.rand(64, generator=generator) for name in {*BEFORE.values()}}
    return made, of_norms if norms else {}


def write(folder, weights, norms, form=None):
    """The files of a model in a form, and the values of its weights."""
    folder.mkdir(exist_ok=True)
    tensors = {f"{name}.weight": x for name, x in norms.items()}
    values = {}
    for base, x in weights.items():
        own, values[base] = FORMS[form](base, x) if form else ({f"{base}.weight": x}, x)
        tensors |= own
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / "model.safetensors")
    config = {"quantization_config": CONFIGS[form]} if form in CONFIGS else {}
    (folder / "config.json").write_text(json.dumps(config))
    return values


def decibels(x, x_hat):
    return float(10 * torch.log10(x.double().square().sum() / (x_hat.double() - x).square().sum()))


def audited(tmp_path):
    audit = qv.audit(tmp_path / "q", tmp_path / "o")
    assert all(all(audit.messages(language)) for language in ("en", "zh"))
    return audit, {each.tensor.removesuffix(".weight"): each for each in audit.tensors}


def status(tmp_path, *more):
    arguments = ["compare", str(tmp_path / "q"), str(tmp_path / "o"), "--no-progress", *more]
    arguments += ["--results", str(tmp_path / "results.sqlite")]
    return CliRunner().invoke(quantviz, arguments).exit_code


@EACH_FORM
def test_damage_of_any_weight_shows_with_its_decibels_and_fails_the_gate(tmp_path, form):
    """In any layout and float type, wherever the weight is, whether norms are there."""
    chance = random.Random(form)
    for at, damage in enumerate(DAMAGE):
        weights, norms = model(at, norms=chance.random() < 0.7)
        base = chance.choice([*weights])
        write(tmp_path / "o", weights, norms)
        generator = torch.Generator().manual_seed(at)
        values = write(
            tmp_path / "q", weights | {base: DAMAGE[damage](weights[base], generator)}, norms, form
        )
        audit, found = audited(tmp_path)
        told = f"{damage} of {base}"
        for name, x in weights.items():
            assert found[name].metrics["sqnr_db"] == pytest.approx(decibels(x, values[name]), abs=0.01), told
            assert (name == base) == (decibels(x, values[name]) < BOUND), told
        assert [each.name for each in audit.account.below(BOUND)] == [f"{base}.weight"], told
        assert not any(note.key.startswith("audit.folded") for note in found[base].done), told
        is_other = decibels(weights[base], values[base]) < 3
        assert not (is_other and audit.is_sound), told
    assert status(tmp_path, "--fail-under", str(BOUND)) == 1
    assert status(tmp_path, "--fail-under", "-100") == int(not audit.is_sound)


@EACH_FORM
def test_true_folds_pass(tmp_path, form):
    """Into norms, and into the rows of the layer before; whatever is folded where."""
    chance = random.Random(form)
    for seed in range(3):
        weights, norms = model(seed)
        write(tmp_path / "o", weights, norms)
        generator = torch.Generator().manual_seed(seed)

        def scales(generator=generator):
            return torch.exp(torch.randn(64, generator=generator) / 2)

        folds = [name for name in ("input", "post_attention", "up", "v") if chance.random() < 0.7]
        for norm in (f"{LAYER}{name}_layernorm" for name in folds if name in ("input", "post_attention")):
            own = scales()
            norms[norm] = norms[norm] / own
            weights |= {base: weights[base] * own for base, before in BEFORE.items() if before == norm}
        for name, first, second in (("up", UP, DOWN), ("v", V, OUT)):
            if name in folds:
                own = scales()
                weights[first] = weights[first] / own.unsqueeze(1)
                weights[second] = weights[second] * own
        write(tmp_path / "q", weights, norms, form)
        audit, found = audited(tmp_path)
        assert audit.is_sound, (folds, audit.messages())
        assert not audit.account.below(BOUND), (folds, audit.messages())
        changed = [name for name in norms if found[name].status == "folded"]
        assert sorted(changed) == sorted(f"{LAYER}{name}_layernorm" for name in folds if len(name) > 2)
    assert status(tmp_path, "--fail-under", str(BOUND)) == 0


def test_a_norm_that_one_layer_did_not_follow_is_not_explained(tmp_path):
    weights, norms = model(1)
    write(tmp_path / "o", weights, norms)
    own = torch.exp(torch.randn(64, generator=torch.Generator().manual_seed(1)) / 2)
    norm = f"{LAYER}input_layernorm"
    write(
        tmp_path / "q",
        weights | {Q: weights[Q] * own, V: weights[V] * own},
        norms | {norm: norms[norm] / own},
        "int8",
    )
    audit, found = audited(tmp_path)
    assert [found[name].status for name in (Q, K, V)] == ["ok"] * 3
    assert found[norm].status in ("changed", "not_same")
    assert [each.name for each in audit.account.below(BOUND)] == [f"{norm}.weight"]
    assert status(tmp_path, "--fail-under", str(BOUND)) == 1


@pytest.mark.parametrize(
    ("norm", "taker"), [(None, "none"), (lambda x: x, "alike"), (lambda x: x.flip(0), "other")]
)
def test_no_norm_and_a_norm_that_is_alike_are_two_answers(tmp_path, norm, taker):
    weights, norms = model(2)
    write(tmp_path / "o", weights, norms)
    own = torch.exp(torch.randn(64, generator=torch.Generator().manual_seed(2)) / 2)
    there = {name: norm(x) for name, x in norms.items()} if norm else {}
    write(tmp_path / "q", weights | {UP: weights[UP] * 1.5, Q: weights[Q] * own}, there, "int8")
    _, found = audited(tmp_path)
    notes = [found[name].notes[-1] for name in (UP, Q)]
    assert [found[name].status for name in (UP, Q)] == ["rescaled"] * 2
    assert [note.key for note in notes] == ["audit.factor.all", "audit.factor.columns"]
    assert {note.params["why"].key for note in notes} == {f"audit.taker.{taker}"}
    assert notes[0].message().startswith("The values are 1.5 times the original's.")


@pytest.mark.parametrize(("factor", "of"), [(0, "rows"), (-1, "rows"), (1.6, "rows"), (0, "columns")])
def test_one_wrong_row_or_column_of_a_quantized_weight_is_named(tmp_path, factor, of):
    """Clipped values, which make a row smaller, are no damage."""
    x = drawn(7)
    x[9] = torch.where(torch.arange(64) == 5, 4 * x.abs().max(), x[9])
    line = (9, slice(None)) if of == "rows" else (slice(None), 5)
    wrong = int8("a", x)[1]
    wrong[line] *= factor
    codes = int8("a", x)[0]
    if of == "rows":
        codes["a.weight_scale"][9] *= factor
    else:
        codes["a.weight"][line] = 0
    clipped = x.clamp(max=0.3 * float(x.max()))
    for name, tensors in (("o", {"a.weight": x}), ("q", codes)):
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "x.safetensors")
    audit, found = audited(tmp_path)
    assert found["a"].metrics["sqnr_db"] == pytest.approx(decibels(x, wrong), abs=0.01)
    assert found["a"].notes[-1].key == f"audit.factor.few_{of}"
    assert not audit.is_sound
    save_file(int8("a", clipped)[0], tmp_path / "q" / "x.safetensors")
    assert audited(tmp_path)[0].is_sound


def test_one_common_factor_is_no_fold(tmp_path):
    weights, norms = model(3)
    write(tmp_path / "o", weights, norms)
    twice = {name: x * 2 for name, x in weights.items()}
    write(tmp_path / "q", twice, {name: x / 2 for name, x in norms.items()}, "int8")
    _, found = audited(tmp_path)
    assert {found[name].status for name in weights} == {"rescaled"}
    assert all(abs(found[name].metrics["sqnr_db"]) < 0.1 for name in weights)


def test_a_cast_is_rounded_and_never_equal(tmp_path):
    """Also one made from more digits than the original has."""
    x = drawn(4)
    (tmp_path / "q").mkdir()
    save_file({"a.weight": x.to(torch.float8_e4m3fn)}, tmp_path / "q" / "x.safetensors")
    for dtype in (torch.float32, torch.bfloat16):
        (tmp_path / "o").mkdir(exist_ok=True)
        save_file({"a.weight": x.to(dtype)}, tmp_path / "o" / "x.safetensors")
        audit, found = audited(tmp_path)
        assert (found["a"].status, found["a"].became) == ("rounded", "not_quantized_here")
        said = f"rounded to float8_e4m3fn: SQNR {found['a'].metrics['sqnr_db']:.1f} dB"
        assert any(said in sentence for sentence in audit.messages())
        assert audit.is_sound
        assert [status(tmp_path, "--fail-under", bound) for bound in ("20", "40")] == [0, 1]


def test_a_dequantized_file_is_gated_like_a_quantized_one(tmp_path):
    x = drawn(5)
    for name, values in (("o", x), ("q", int8("a", x)[1])):
        (tmp_path / name).mkdir()
        save_file({"a.weight": values}, tmp_path / name / "x.safetensors")
    audit, found = audited(tmp_path)
    assert (found["a"].status, audit.is_sound) == ("changed", True)
    assert any("not equal to the originals" in sentence for sentence in audit.messages())
    assert [status(tmp_path, "--fail-under", bound) for bound in ("30", "50")] == [0, 1]


def test_single_numbers_and_empty_tensors_are_compared(tmp_path):
    """CLIP's logit scale has no axis; a buffer may have no element."""
    own = {"a.weight": drawn(6), "logit_scale": torch.tensor(4.6), "buffer": torch.zeros(0, 4)}
    for name, tensors in (("o", own), ("q", own)):
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "x.safetensors")
    audit, found = audited(tmp_path)
    assert {each.status for each in found.values()} == {"same"}
    assert audit.is_sound
    save_file(own | {"logit_scale": torch.tensor(9.2)}, tmp_path / "q" / "x.safetensors")
    audit, found = audited(tmp_path)
    assert found["logit_scale"].metrics["sqnr_db"] == pytest.approx(0, abs=1e-6)
    assert not audit.is_sound


# ---- the account ---------------------------------------------------------------------------------


def accounts(sides, count=150):
    """Random accounts, of which some have nothing wrong."""
    for seed in range(count):
        chance = random.Random(seed)
        likely = chance.choice([("compared", "equal"), BECAME])
        tensors = []
        for at in range(chance.randint(1, 6)):
            became = chance.choice(likely)
            reason = (
                qv.QuantVizError("input_empty", shape=(at,))
                if became in ("not_read", "refused", "unfit")
                else None
            )
            sqnr_db = chance.choice([12.5, 45.0, float("nan")]) if became == "compared" else None
            outcome = TensorOutcome(became, reason, chance.random() < 0.8, sqnr_db, ())
            tensors.append(
                Accounted(
                    chance.choice(sides),
                    f"t{at}",
                    outcome,
                    chance.choice([0, 100]),
                    chance.choice(["", f"t{at}"]),
                    7,
                )
            )
        yield Account(tuple(tensors))


class Boxes:
    """Stands for Streamlit: which box was shown, and its words."""

    def __init__(self):
        self.shown = []

    def __getattr__(self, name):
        return lambda words, **named: self.shown.append((name, words))


def test_sentence_status_and_box_come_from_the_account(monkeypatch):
    met = set()
    for account in accounts(("quantized", "original")):
        lacking = [each for each in account.tensors if each.became in ("not_read", "refused")]
        wrong = lacking or [each for each in account.tensors if not each.outcome.is_sound]
        low = [
            each
            for each in account.tensors
            if each.outcome.sqnr_db is not None and not each.outcome.sqnr_db >= 40
        ]
        audit = auditing.Audit((), findings((), account), account)
        assert (audit.is_complete, audit.is_sound) == (not lacking, not wrong)
        first = audit.messages()[0]
        assert ("were not compared" in first or "was not compared" in first) == bool(lacking)
        assert ("everything of both was read" in first) == (not lacking)
        monkeypatch.setattr(auditing, "audit", lambda *_, audit=audit, **named: audit)
        done = [
            CliRunner().invoke(quantviz, ["compare", "a", "b", *more])
            for more in ([], ["--fail-under", "40"])
        ]
        assert [each.exit_code for each in done] == [int(bool(wrong)), int(bool(wrong or low))], done
        boxes = Boxes()
        monkeypatch.setattr(audit_page, "st", boxes)
        audit_page.show_verdict(audit.messages(), is_sound=audit.account.is_sound)
        assert boxes.shown[0][0] == ("warning" if wrong else "success")
        met.add((bool(lacking), bool(wrong), bool(low)))
    assert len(met) == 6


def test_the_sentence_on_a_scan_comes_from_the_account():
    for account in accounts(("scanned",)):
        lacking = [each for each in account.tensors if each.became in ("not_read", "refused")]
        unfit = [each for each in account.tensors if each.became == "unfit"]
        note = coverage_of_scan(account)
        assert account.is_complete == (not lacking)
        assert ("Everything was read" in note.message()) == (not lacking)
        assert ("No recipe fits" in note.message()) == bool(unfit and not lacking)


def test_a_tensor_that_a_scan_refuses_or_no_recipe_fits_is_told(tmp_path):
    x = torch.randn(8, 40)
    save_file({"a.weight": x, "b.weight": torch.randn(8, 64)}, tmp_path / "x.safetensors")
    scan = ["scan", str(tmp_path / "x.safetensors"), "--no-progress", "--results", str(tmp_path / "r")]
    done = CliRunner().invoke(quantviz, [*scan, "-r", "int4_g32"])
    assert done.exit_code == 0
    assert "No recipe fits 1 tensor, which was not measured: a.weight." in done.stderr
    done = CliRunner().invoke(quantviz, [*scan, "-r", "int4_g32", "-r", "int8_per_row"])
    assert "No recipe fits" not in done.stderr
    torch.save({"a.weight": x, "b.weight": torch.randn(8, 4, 2, 2, 2, 2)}, tmp_path / "six.pt")
    scan[1] = str(tmp_path / "six.pt")
    done = CliRunner().invoke(quantviz, [*scan, "-r", "int8_per_row"])
    assert (done.exit_code, "Everything was read" in done.stderr) == (1, False)
    assert "b.weight" in done.stderr.splitlines()[0]
