"""A scan's rows as a map: where tensors stand, what squares tell, and what is said first."""

import math

import pytest

from quantviz.checkpoints.findings import first_fix, worst_tensors
from quantviz.checkpoints.model.tensor_names import place_of_name, short_names, short_stacks
from quantviz.checkpoints.model_map import COLOURS, layers_with_experts, model_map, read_model
from quantviz.checkpoints.offered import OfferedFiles, offered_of
from quantviz.checkpoints.results.typed_tables import TypedTable
from quantviz.sources.local import FolderListing

RECIPES = ("int4_per_row", "int4_per_column", "int8_per_row")
BITS = {"int4_per_row": 4.125, "int4_per_column": 4.125, "int8_per_row": 8.125}


def row(name, recipe, sqnr_db, **numbers):
    found = {"peak_rms": 5.0, "kurtosis": 3.0, "nan": 0, "inf": 0, "zeroed_share": 0.1, "clipped_share": 0.0}
    found |= {"sqnr_db": sqnr_db, "effective_bits": BITS[recipe], "reason": None} | numbers
    status = "refused" if sqnr_db is None else "ok"
    base = {"tensor": name, "file": "f", "recipe": recipe, "shape": (64, 64), "dtype": "BF16"}
    return base | {"status": status} | found


def model_of(values, missing=()):
    """A model whose tensors have these SQNR under the recipes in their order."""
    rows = [
        row(name, recipe, value)
        for name, per_recipe in values.items()
        for recipe, value in zip(RECIPES, per_recipe, strict=False)
    ]
    names = [*values, *missing]
    return read_model([(name, (64, 64), "BF16", "f") for name in names], TypedTable.of(rows).rows, RECIPES)


LAYERS = {f"model.layers.{n}.mlp.up.weight": (20.0 + n, 21.0 + n, 44.0) for n in (2, 0, 10)}
EXPERTS = {f"model.layers.0.mlp.experts.{e}.down.weight": (15.0 - e, 15.0, 40.0) for e in range(3)}


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("encoder.layer.5.attention.self.key.bias", ("encoder.layer", 5, "attention.self.key.bias", -1)),
        ("blk.7.ffn_gate_exps.weight", ("blk", 7, "ffn_gate_exps", -1)),
        (
            "model.layers.1.block_sparse_moe.experts.6.w1.weight",
            ("model.layers", 1, "block_sparse_moe.experts.w1", 6),
        ),
        ("transformer/h/3/attn/weight", ("transformer.h", 3, "attn", -1)),
        ("weight", ("", -1, "weight", -1)),
        ("", ("", -1, "", -1)),
        ("layer1.0.conv1.weight", ("layer1", 0, "conv1", -1)),
    ],
)
def test_a_name_says_where_its_tensor_stands(name, place):
    found = place_of_name(name)
    assert (found.stack, found.layer, found.kind, found.expert) == place


def test_short_names_stay_apart():
    names = ["attention.output.dense", "output.dense", "attention.self.key", "cross.self.key"]
    assert len(set(short_names(names))) == 4
    assert short_stacks(["model.layers", "model.vision.layers"]) == ("model", "vision")


def test_layers_are_rows_in_the_order_of_their_numbers():
    data = model_map(
        model_of({**LAYERS, "lm_head.weight": (19.0,)}, missing=["embed.weight"]), "int4_per_row"
    )
    assert data.rows == ("0", "2", "10")
    assert data.kinds == ("mlp.up",)
    assert data.strip == ("lm_head", "embed")
    by_place = {(each.row, each.column): each for each in data.squares}
    assert [by_place[k, 0].value for k in range(3)] == [20.0, 22.0, 30.0]
    assert by_place[-1, 1].status == "waiting"
    assert math.isnan(by_place[-1, 1].value)


def test_a_square_of_experts_tells_the_worst_and_opens_them():
    model = model_of({**LAYERS, **EXPERTS})
    square = next(each for each in model_map(model, "int4_per_row").squares if each.count == 3)
    assert square.value == 13.0
    assert square.tensor.endswith("experts.2.down.weight")
    assert layers_with_experts(model) == (square.opens,)
    inside = model_map(model, "int4_per_row", layer=square.opens)
    assert inside.rows == ("0", "1", "2")
    assert {each.opens for each in inside.squares} == {""}


def test_what_is_left_aside_and_what_has_another_type_can_be_told():
    """An embedding left aside had no square, and Q5_0 in place of Q4_K looked like it."""
    name = "model.layers.0.mlp.up.weight"
    aside = {"status": "left_aside", "sqnr_db": None, "effective_bits": None, "reason": "kept"}
    embedding = row("embed.weight", RECIPES[0], None) | aside
    ids = row("position_ids", RECIPES[0], None) | aside
    rows = [row(name, RECIPES[0], 20.0, fallback="q5_0"), embedding, ids]
    listed = [(name, (64, 64), "BF16", "f"), ("embed.weight", (64, 64), "BF16", "f")]
    listed += [("position_ids", (1, 64), "int64", "f"), ("norm.weight", (64,), "BF16", "f")]
    model = read_model(listed, TypedTable.of(rows).rows, RECIPES[:1])
    data = model_map(model, RECIPES[0])
    assert {square.tensor: square.status for square in data.squares} == {
        name: "ok",
        "embed.weight": "left_aside",
    }
    assert (data.statuses, data.instead, data.left_out) == ({"ok": 1, "left_aside": 1}, {"q5_0": 1}, 2)
    # A budget leaves it as it is stored, too; and no number counts it.
    choice = model_map(model, RECIPES[0], choice={name: RECIPES[0]})
    assert {square.tensor: square.status for square in choice.squares}["embed.weight"] == "kept"
    assert [each.name for each in model.weights] == [name]


def test_colours_tell_what_they_say():
    model = model_of({**LAYERS, "lm_head.weight": (None,)})
    against = {each.tensor: each.value for each in model_map(model, "int4_per_row", "against_median").squares}
    assert against["model.layers.0.mlp.up.weight"] == -2.0
    won = {each.winner for each in model_map(model, "int4_per_row", "winner").squares if each.status == "ok"}
    assert won == {"int4_per_column"}  # int8 is better, and larger
    assert {each.winner for each in model_map(model, "int8_per_row", "winner").squares if each.winner} == {
        "int8_per_row"
    }
    for colour in COLOURS:
        refused = next(
            each
            for each in model_map(model, "int4_per_row", colour).squares
            if each.tensor == "lm_head.weight"
        )
        assert refused.status == "refused"
        assert math.isnan(refused.value)


def test_b_minus_a_goes_by_name_and_else_by_place():
    model = model_of(LAYERS)
    other = model_of({name.replace(".weight", ""): (1.0, *rest) for name, (_, *rest) in LAYERS.items()})
    data = model_map(model, "int4_per_row", against=(other, "int4_per_column"))
    assert {each.value for each in data.squares} == {1.0}


def test_of_two_tensors_of_one_name_each_keeps_its_own_row():
    rows = [row("a.weight", RECIPES[0], 9.0), row("a.weight", RECIPES[0], None) | {"file": "g"}]
    model = read_model(
        [("a.weight", (64, 64), "BF16", file) for file in "fg"], TypedTable.of(rows).rows, RECIPES[:1]
    )
    assert [each.status(RECIPES[0]) for each in model.tensors] == ["ok", "refused"]


def test_the_worst_are_named_with_their_reasons_and_the_smallest_recipe_that_helps():
    names = list(LAYERS)
    rows = [
        row(names[0], "int4_per_row", 8.0, peak_rms=90.0, zeroed_share=0.9),
        row(names[0], "int4_per_column", 18.0),
        row(names[0], "int8_per_row", 44.0),
        row(names[1], "int4_per_row", 17.0, kurtosis=12.0),
        row(names[2], "int4_per_row", 19.0),
    ]
    model = read_model([(name, (64, 64), "BF16", "f") for name in names], TypedTable.of(rows).rows, RECIPES)
    first, second, third = worst_tensors(model, "int4_per_row")
    assert [each.id for each in first.reasons] == ["columns", "loud"]
    assert first.reasons[0].number == 10.0
    assert [each.id for each in second.reasons] == ["heavy"]
    assert [each.id for each in third.reasons] == ["coarse"]
    fix = first_fix(model, first.tensor, "int4_per_row")
    # One scale for each column would gain 10 dB at the same bits, and no kernel takes it.
    assert (fix.recipe, fix.gain_db) == ("int8_per_row", 36.0)
    assert first_fix(model, third.tensor, "int4_per_row") is None


def test_a_folder_offers_an_index_for_its_shards_and_no_text():
    files = (
        *("a/model-00001-of-00002.safetensors", "a/model.safetensors.index.json", "a/config.json"),
        *("b.csv", "c/x-00001-of-00001.gguf", "d.npz", "old/scan.sqlite"),
    )
    assert offered_of(FolderListing(files, False)) == OfferedFiles(
        ("a/model.safetensors.index.json", "c/", "d.npz"), ("old/scan.sqlite",)
    )
