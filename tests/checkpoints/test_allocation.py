"""A recipe for each tensor within a budget: what is chosen, what is counted, and what is refused."""

import itertools
import math
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.checkpoints.allocation import sensitivities
from quantviz.checkpoints.allocation.allocating import allocate
from quantviz.checkpoints.allocation.offers import Offers
from quantviz.checkpoints.allocation.sensitivities import alphas
from quantviz.text import languages

RECIPES = ("int3", "int4", "int8")


def table(costs, bits=(300, 400, 800), **columns):
    """A row for each tensor, named by a letter, under each recipe."""
    rows = [
        {"tensor": "abcdefgh"[at], "recipe": recipe, "bits": bits[i], "cost": cost[i]}
        for at, cost in enumerate(costs)
        for i, recipe in enumerate(RECIPES)
    ]
    return pd.DataFrame(rows).assign(**columns)


def scanned(*tensors):
    """What a scan returns of tensors (name, shape, dB under int4 and int8, content); None is refused."""
    return pd.DataFrame(
        {
            "tensor": name,
            "recipe": recipe,
            "status": "refused" if db is None else "ok",
            "reason": "" if db is None else None,
            "shape": shape,
            "dtype": "BF16",
            "content": content,
            "bits": None if db is None else width * math.prod(shape),
            "mse": None if db is None else 10 ** (-db / 10),
            "sqnr_db": math.nan if db is None else db,
        }
        for name, shape, decibels, content in tensors
        for recipe, width, db in zip(("int4", "int8"), (4, 8), decibels, strict=True)
    ).astype({"bits": "Int64"})


@st.composite
def problems(draw):
    """A small table with everything at once: pins, ties, fused groups, infinite costs, missing rows."""
    count, recipes = draw(st.integers(1, 5)), [f"r{i}" for i in range(draw(st.integers(1, 4)))]
    names = [f"t{i}" for i in range(count)]
    size = {name: draw(st.integers(1, 50)) for name in names}
    tied = [names[:2]] if count > 2 and draw(st.booleans()) else []
    if tied:
        size["t1"] = size["t0"]
    fused = [names[-2:]] if count > 1 and draw(st.booleans()) else []
    per_weight = {recipe: draw(st.integers(0, 9)) for recipe in recipes}
    costs = st.one_of(st.floats(0, 9), st.sampled_from([0.0, 1.0, 1e-30, 1e30, math.inf]))
    rows = [
        {"tensor": name, "recipe": recipe, "bits": size[name] * per_weight[recipe], "cost": draw(costs)}
        for name in names
        for recipe in recipes
        if recipe == "r0" or draw(st.booleans())
    ]
    pinned = {draw(st.sampled_from(names)): "r0"} if draw(st.booleans()) else {}
    return pd.DataFrame(rows), tied, fused, pinned, draw(st.integers(0, 300))


def solutions(rows, tied, fused, pinned):
    """All solutions as (bits, cost): each tensor by itself, those that break a rule left out."""
    offers = {
        name: {row.recipe: (int(row.bits), row.cost) for row in each.itertuples()}
        for name, each in rows.groupby("tensor", sort=False)
    }
    for picks in itertools.product(*offers.values()):
        choice = dict(zip(offers, picks, strict=True))
        together = all(len({choice[name] for name in group}) == 1 for group in [*tied, *fused])
        if together and all(choice[name] == recipe for name, recipe in pinned.items()):
            counted = [name for name in offers if not any(name in tie[1:] for tie in tied)]
            bits = sum(offers[name][choice[name]][0] for name in counted)
            cost = [
                max(offers[each][choice[each]][1] for tie in [*tied, [name]] if name in tie for each in tie)
                for name in counted
            ]
            yield bits, math.inf if math.inf in cost else math.fsum(cost)


@given(problems())
@settings(max_examples=80, deadline=None)
def test_it_is_the_cheapest_of_all_within_the_budget(problem):
    rows, tied, fused, pinned, budget = problem
    every = list(solutions(rows, tied, fused, pinned))
    arguments = {"pinned": pinned, "tied": tied, "fused": fused}
    fitting = [cost for bits, cost in every if bits <= budget]
    if not fitting:
        with pytest.raises(qv.QuantVizError) as refused:
            allocate(rows, budget_bits=budget, **arguments)
        assert refused.value.params["least"] == min(bits for bits, _ in every)
        return
    found = allocate(rows, budget_bits=budget, **arguments)
    assert found.cost == pytest.approx(min(fitting), rel=1e-13, abs=0)
    assert (found.bits, found.cost) in [(bits, pytest.approx(cost, rel=1e-13)) for bits, cost in every]
    assert found.bits <= budget
    assert type(found.bits) is int
    assert found.is_optimal
    assert list(found.choice) == list(dict.fromkeys(rows["tensor"]))
    for group in [*tied, *fused]:
        assert len({found.choice[name] for name in group}) == 1
    assert pinned.items() <= found.choice.items()


def test_few_infinite_costs_are_taken_where_the_budget_leaves_no_other():
    rows = table([(math.inf, 2, 1), (math.inf, 9, 1)])
    found = allocate(rows, budget_bits=700)
    assert found.cost == math.inf
    assert sorted(found.choice.values()) == ["int3", "int4"]
    assert allocate(rows, budget_bits=800).cost == 11


def test_what_stays_as_stored_takes_its_share_of_the_model():
    rows = scanned(
        ("embed", (100, 10), (20, 40), "x"),
        ("layer", (100, 10), (25, 45), "y"),
        ("norm", (10,), (None, None), "z"),
    )
    found = allocate(rows, bits_per_weight=8)
    assert dict(found.kept) == {"norm": 160}
    assert dict(found.choice) == {"embed": "int8", "layer": "int4"}
    assert found.bits == 12000
    assert found.bits_per_weight == 12160 / 2010
    assert allocate(rows, bits_per_weight=8.04).choice["layer"] == "int8"
    assert allocate(rows, gigabytes=16160 / 8e9).bits == 16000
    assert allocate(rows, gigabytes=16159 / 8e9).bits == 12000
    # A budget in bits is for what is chosen alone.
    assert allocate(rows, budget_bits=16000).bits == 16000
    shut = allocate(rows, budget_bits=4000, excluded="emb*")
    assert dict(shut.choice) == {"layer": "int4"}
    assert dict(shut.kept) == {"embed": 16000, "norm": 160}
    with pytest.raises(qv.QuantVizError) as refused:
        allocate(rows, bits_per_weight=4)
    assert "4.0598 bits a weight" in str(refused.value)
    assert allocate(rows, bits_per_weight=4.0598).bits == 8000


def test_without_costs_the_error_is_relative_and_weighs_as_told(tmp_path, monkeypatch):
    rows = scanned(("a", (10, 10), (20, 40), "x"), ("b", (10, 10), (25, 45), "y"))
    assert allocate(rows, budget_bits=1200).choice["a"] == "int8"
    assert allocate(rows, budget_bits=1600).cost == pytest.approx(1e-4 + 10**-4.5)
    weighed = allocate(rows, budget_bits=1200, sensitivities={"b": 10.0})
    assert dict(weighed.choice) == {"a": "int4", "b": "int8"}
    assert weighed.cost == pytest.approx(1e-2 + 10 * 10**-4.5)
    file = tmp_path / "alpha.csv"
    file.write_text("tensor,alpha\nb,10\n")
    assert allocate(rows, budget_bits=1200, sensitivities=file).choice == weighed.choice
    file.write_text("tensor,alpha\nb,10\nb,1\n")
    with pytest.raises(qv.QuantVizError, match="two rows for b"):
        allocate(rows, budget_bits=1200, sensitivities=file)
    monkeypatch.setattr(sensitivities, "TABLE_BYTES", 10)
    with pytest.raises(qv.QuantVizError, match="larger than the 10 bytes"):
        allocate(rows, budget_bits=1200, sensitivities=file)


def test_what_has_no_error_costs_nothing():
    rows = scanned(("a", (10, 10), (math.inf, math.inf), "x"), ("b", (10, 10), (20, math.inf), "y"))
    assert allocate(rows, budget_bits=1200).cost == 0
    assert dict(allocate(rows, budget_bits=1600).choice) == {"a": "int4", "b": "int8"}


def test_tied_tensors_count_once():
    rows = scanned(*((name, (10, 10), (20, 40), "x") for name in ("embed", "head")))
    assert allocate(rows, budget_bits=1600).bits == 1600
    for tied in ([["head", "embed"]], "content"):
        found = allocate(rows, bits_per_weight=8, tied=tied)
        assert dict(found.choice) == {"embed": "int8", "head": "int8"}
        assert (found.bits, found.cost, found.bits_per_weight) == (800, pytest.approx(1e-4), 8)


def test_what_engines_fuse_gets_one_recipe():
    names = [f"model.layers.{i}.self_attn.{part}_proj.weight" for i in (0, 1) for part in "qkvo"]
    rows = scanned(*((name, (10, 10), (20 + at, 40), "") for at, name in enumerate(names)))
    apart = allocate(rows, budget_bits=4800)
    assert list(apart.choice.values()).count("int8") == 4
    assert apart.choice[names[0]] == "int8" != apart.choice[names[5]]
    found = allocate(rows, budget_bits=4800, fused="engine")
    for at in (0, 4):
        assert len({found.choice[name] for name in names[at : at + 3]}) == 1
    assert found.cost >= apart.cost


def test_the_next_change_and_another_tenth_of_a_bit():
    rows = scanned(("a", (100, 10), (20, 40), "x"), ("b", (100, 10), (25, 45), "y"))
    found = allocate(rows, bits_per_weight=4)
    assert found.sqnr_db == pytest.approx(-10 * math.log10((1e-2 + 10**-2.5) / 2))
    change = found.next_change()
    assert (change.tensors, change.before, change.after, change.bits) == (("a",), "int4", "int8", 4000)
    assert change.saved == pytest.approx(1e-2 - 1e-4)
    assert found.with_more().choice == found.choice
    assert found.with_more(2).choice["a"] == "int8"
    assert allocate(rows, bits_per_weight=8).next_change() is None


def test_the_frontier_is_the_least_cost_of_each_size():
    made = np.random.default_rng(3)
    rows = scanned(*((f"t{i}", (10, 10 + i), tuple(made.uniform(10, 40, 2)), "") for i in range(8)))
    found = qv.allocation_frontier(rows)
    assert [point.recipe for point in found.uniform] == ["int4", "int8"]
    assert found.points[0].bits == found.uniform[0].bits
    assert found.uniform[1].sqnr_db <= found.points[-1].sqnr_db
    for point in found.points:
        assert allocate(rows, budget_bits=point.bits).cost == pytest.approx(point.cost, rel=1e-12)
    table = found.table()
    assert list(table["bits"]) == [point.bits for point in (*found.points, *found.uniform)]
    assert table["bits_per_weight"].iloc[0] == 4


def importance(inputs):
    """llama.cpp's older file: for each weight its name, how many chunks, and the sums of each input."""
    raw = struct.pack("<i", len(inputs))
    for name, (chunks, sums) in inputs.items():
        raw += struct.pack("<i", len(name)) + name.encode() + struct.pack("<2i", chunks, len(sums))
        raw += np.array(sums, "<f4").tobytes()
    return raw + struct.pack("<2i", 7, 4) + b"wiki"


@pytest.mark.parametrize("form", ["dat", "gguf"])
def test_errors_weigh_as_the_importance_matrix_says(tmp_path, form):
    file = tmp_path / f"imatrix.{form}"
    if form == "dat":
        file.write_bytes(
            importance({"blk.0.ffn_up.weight": (2, [2, 6]), "blk.1.ffn_up.weight": (4, [40, 80])})
        )
    else:
        gguf = pytest.importorskip("gguf")
        writer = gguf.GGUFWriter(file, "")
        writer.add_string("general.type", "imatrix")
        for name, count, sums in (("blk.0.ffn_up", 2, [2, 6]), ("blk.1.ffn_up", 4, [40, 80])):
            writer.add_tensor(f"{name}.weight.in_sum2", np.array([sums], np.float32))
            writer.add_tensor(f"{name}.weight.counts", np.array([[count]], np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    others = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 1)]
    # The table may have the names of the checkpoint that llama.cpp converted.
    for names in (
        [*others, "model.embed_tokens.weight"],
        ["blk.0.ffn_up.weight", "blk.1.ffn_up.weight", "token_embd.weight"],
    ):
        rows = scanned(*((name, (5, 2), (20, 40), "") for name in names))
        # mse is the relative error here, so that the mean square of a weight is 1, and 10 of them have 10.
        assert alphas(file, Offers.of(rows)) == pytest.approx({names[0]: 20, names[1]: 150, names[2]: 85})
    found = allocate(rows, budget_bits=40 + 40 + 80, sensitivities=file)
    assert found.choice[names[1]] == "int8"
    assert found.cost == pytest.approx(20e-2 + 150e-4 + 85e-2)


def test_a_thousand_tensors_are_solved_to_the_end():
    made = np.random.default_rng(0)
    size = made.choice([2048 * 512, 2048 * 2048, 2048 * 5632], 1000)[:, None]
    width = np.array([2.0625, 2.625, 3.0625, 3.4375, 4.25, 4.5, 5.0, 5.5, 6.25, 6.5625, 8.25, 8.5])
    rows = pd.DataFrame(
        {
            "tensor": np.repeat([f"t{i}" for i in range(1000)], 12),
            "recipe": np.tile([f"r{i}" for i in range(12)], 1000),
            "bits": (size * width).astype(np.int64).ravel(),
            "cost": 10 ** (-0.6 * np.tile(width, 1000) + made.normal(0, 0.1, 12000)),
        }
    )
    budget = int(4.25 * size.sum())
    found = allocate(rows, budget_bits=budget)
    assert found.gap_db < 0.001
    assert 0.999 * budget < found.bits <= budget


MISTAKES = {
    "no_table": ([1, 2], {}),
    "no_column": (table([(3, 2, 1)]).drop(columns="bits"), {}),
    "no_choices": (table([(3, 2, 1)], status="refused"), {}),
    "twice": (pd.concat([table([(3, 2, 1)])] * 2), {}),
    "bits_not_whole": (table([(3, 2, 1)], bits=(3.5, 4, 8)), {}),
    "bits_too_many": (table([(3, 2, 1)], bits=(3, 4, 10**18 * 3)), {}),
    "cost_not_number": (table([(3, math.nan, 1)]), {}),
    "unknown_tensor": (table([(3, 2, 1)]), {"pinned": {"aa": "int4"}}),
    "unknown_rule": (table([(3, 2, 1)]), {"fused": "engines"}),
    "pinned_and_excluded": (table([(3, 2, 1)] * 2), {"pinned": {"a": "int4"}, "excluded": ["a"]}),
    "pins_differ": (table([(3, 2, 1)] * 2), {"pinned": {"a": "int4", "b": "int8"}, "tied": [["a", "b"]]}),
    "pin_not_there": (table([(3, 2, 1)]), {"pinned": {"a": "int5"}}),
    "nothing_shared": (table([(3, 2, 1)] * 2).iloc[[0, 5]], {"fused": [["a", "b"]]}),
    "tied_differ": (table([(3, 2, 1)] * 2).assign(bits=[1, 2, 3, 4, 5, 6]), {"tied": [["a", "b"]]}),
    "one_budget": (table([(3, 2, 1)]), {"bits_per_weight": 4}),
    "budget_not_number": (table([(3, 2, 1)]), {"budget_bits": 400.5}),
    "no_shapes": (table([(3, 2, 1)]), {"budget_bits": None, "bits_per_weight": 4}),
    "unknown_size": (table([(3, 2, 1)] * 2), {"budget_bits": None, "gigabytes": 4, "excluded": "a"}),
    "too_small": (table([(3, 2, 1)]), {"budget_bits": 299}),
    "alpha_not_number": (table([(3, 2, 1)]), {"sensitivities": {"a": -1}}),
    "no_importance": (table([(3, 2, 1)]), {"sensitivities": __file__}),
    "alpha_columns": (table([(3, 2, 1)]), {"sensitivities": Path(__file__).parents[1] / "requirements.txt"}),
    "cannot_read": (table([(3, 2, 1)]), {"sensitivities": "no/such/file.csv"}),
}


@pytest.mark.parametrize("key", MISTAKES)
def test_a_mistake_is_a_sentence(key):
    rows, arguments = MISTAKES[key]
    with pytest.raises(qv.QuantVizError) as refused:
        allocate(rows, **{"budget_bits": 900, **arguments})
    assert refused.value.key == f"allocate.{key}"
    assert all(refused.value.message(language) for language in languages())
