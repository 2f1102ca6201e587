"""What leaves the page says what the page says."""

import contextlib
import csv
import dataclasses
import io
import itertools
import json
import math
import os
import random
import re
import subprocess
import sys

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

import quantviz as qv
from quantviz.analysis.study import Study
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.evaluation.tables import PartPosition, as_csv, as_npz, scales_table
from quantviz.export.files import file_name, python_lines, scheme_code
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import LabState, opening
from quantviz.quantization.cells import part, quantize_part
from quantviz.quantization.explanation import CAUSES, causes
from quantviz.sources import SOURCES, Builtin, LocalTensor, Normal, with_cell
from quantviz.sources.image import image_tensor
from quantviz.sources.typed import MOST_WRITTEN_OUT, Typed
from quantviz.sources.upload import Upload, UploadedFile
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.code import step_code
from quantviz.teaching.lessons.formulas import HERE
from quantviz.tensors.blocks import block_ids
from quantviz.tensors.lazy import InMemory
from quantviz.tensors.views import View
from quantviz.text import catalogue, languages
from quantviz.ui.lab.numbers.tiles import measured
from tests.helpers import ROOT
from tests.helpers.drawn import normal
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.sample import sample_of


def state_of(source, scheme, cell=None, **changes):
    shape = source.shape
    return LabState(source, scheme, View.of(shape), cell or (0,) * len(shape)).replace(**changes)


def printed(lines):
    """What the script prints, and the names it leaves behind."""
    names, output = {"__name__": "__main__"}, io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(lines, "copied.py", "exec"), names)
    return output.getvalue().splitlines(), names


def expected(r, seen, cell):
    """The same numbers from quantviz itself."""
    m = qv.metrics(seen)
    why = qv.explain(r, cell)
    return [
        f"MSE {m['mse']:.4g}",
        f"RMSE {m['rmse_steps']:.3g} steps"
        if r.scheme.number_format.kind == "integer"
        else f"RMSE {m['rmse']:.3g}",
        f"SQNR {m['sqnr_db']:.3g} dB",
        f"rounded to zero {100 * m['zeroed_share']:.3g} %",
        f"clipped {100 * m['clipped_share']:.3g} %",
        f"bits per element {qv.metrics(r)['effective_bits']:.4g}",
        *(f"{step.code_line:<44} # {step.output:.8g}" for step in why.steps),
        why.cause,
    ]


def check(state, tensor, **options):
    got, names = printed(python_lines(state, **options))
    r = qv.quantize(tensor, state.scheme)
    assert names["scheme"] == state.scheme
    made = names["x"] if isinstance(names["x"], torch.Tensor) else torch.tensor(names["x"])
    assert same_bits(made, tensor)
    seen = part(r, state.view.index_of(r.shape)) if state.scope == "slice" else r
    assert got == expected(r, seen, state.cell)


def same_bits(one, other):
    return one.shape == other.shape and torch.equal(
        one.float().view(torch.int32), other.float().view(torch.int32)
    )


# ---- Python -------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_copied_python_prints_the_numbers_of_every_scenario(name, language):
    check(opening(name), SCENARIOS[name].source.tensor(), language=language)


def random_schemes(count, seed=0):
    choose = random.Random(seed)
    course = qv.CONVENTIONS["course"]
    conventions = [
        "course",
        course.replace(zero_in_range=True),
        course.replace(scale_math="float32", narrow_range=True, **{"scale.floor": 1e-8}),
    ]
    conventions += [course.replace(ties="stochastic", seed=5), *qv.CONVENTIONS.values()]
    while count:
        mode = choose.choice(qv.MODES)
        calibration = choose.choice(
            [
                qv.MinMax(),
                qv.Percentile(choose.uniform(60, 100)),
                qv.ManualRange(-choose.random(), choose.random()),
                qv.Given(choose.random() + 0.01, 0 if mode == "symmetric" else choose.randrange(-99, 99)),
            ]
        )
        granularities = [
            qv.PerTensor(),
            qv.PerChannel(choose.choice([0, 1, -1])),
            qv.PerGroup(4, choose.choice([0, -1])),
            qv.PerBlock(2, 4),
            qv.Flat(16),
        ]
        granularity = choose.choice(granularities)
        scheme = (choose.choice(list(qv.FORMATS)), mode, granularity, calibration, choose.choice(conventions))
        with contextlib.suppress(qv.QuantVizError):
            yield qv.Scheme(*scheme)
            count -= 1


@pytest.mark.parametrize("scheme", list(random_schemes(48)), ids=str)
def test_the_copied_python_prints_the_numbers_of_any_scheme(scheme):
    source = Normal(rows=8, cols=8, seed=3, std=0.1)
    check(state_of(source, scheme, (5, 2)), source.tensor())
    assert eval(scheme_code(scheme), {"qv": qv}) == scheme


def test_typed_values_come_back_bit_for_bit():
    values = [[0.1, -0.0, 1e-45], [3.4e38, -1 / 3, 16777217.0]]
    source = Typed.of(values)
    check(state_of(source, qv.Scheme("int8", calibration=qv.Given(0.5)), (1, 1)), torch.tensor(values))
    wild = Typed.of(normal(16, 16, seed=9).tolist())
    check(state_of(wild, qv.Scheme("int4")), wild.tensor())
    deep = Typed.of(normal(2, 3, 4).tolist())
    check(state_of(deep, qv.Scheme("int4", granularity=qv.PerChannel(2)), (1, 2, 3)), deep.tensor())


def test_a_slice_is_counted_where_the_page_counts_one():
    values = normal(3, 4, 5)
    source = Typed.of(values.tolist())
    for view in (View.of((3, 4, 5)), View(2, 0, (0, 3, 0)), View(0, 1, (0, 0, 4), 1, 2)):
        check(state_of(source, qv.Scheme("int3"), view=view, scope="slice"), values)


def test_too_many_typed_values_are_read_from_the_download(tmp_path, monkeypatch):
    source = Typed.of(normal(65, 64).tolist())
    assert len(source.values) > MOST_WRITTEN_OUT
    scheme = qv.Scheme("int4")
    (tmp_path / file_name(source, scheme, "npz")).write_bytes(as_npz(qv.quantize(source.tensor(), scheme)))
    monkeypatch.chdir(tmp_path)
    check(state_of(source, scheme), source.tensor())


@pytest.mark.parametrize("name", ["weights.npz", 'it\'s "mine".npz', "名字 ü.npz"])
def test_an_upload_is_read_from_its_file(name, tmp_path, monkeypatch):
    x = normal(4, 6)
    with (tmp_path / name).open("wb") as file:
        np.savez(file, **{"layer.weight": x.numpy(), "other": np.zeros(3, np.float32)})
    monkeypatch.chdir(tmp_path)
    source = Upload("0123456789abcdef", f"{name} · layer.weight", (4, 6))
    check(state_of(source, qv.Scheme("int4"), (3, 5)), x)
    check(
        state_of(
            dataclasses.replace(source, file=UploadedFile(name, "layer.weight")), qv.Scheme("int4"), (3, 5)
        ),
        x,
    )
    alone = dataclasses.replace(source, file=UploadedFile(name))
    assert "tensors.names[0]" in python_lines(state_of(alone, qv.Scheme("int4")))


def test_a_picture_is_read_from_its_file(tmp_path, monkeypatch):
    from PIL import Image

    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    Image.fromarray(pixels).save(tmp_path / "tiny.png")
    monkeypatch.chdir(tmp_path)
    source = Upload("0123456789abcdef", "tiny.png · rot", (4, 4), UploadedFile("tiny.png", channel="red"))
    check(state_of(source, qv.Scheme("uint4"), (3, 3)), torch.tensor(pixels[:, :, 0]).float())


@pytest.mark.parametrize(
    "nasty", ["a\nimport os\n.npy", "'); print('x", "\\", '"""', "a\u2028b.npy", "{0}.npz", "# x\r.csv"]
)
@pytest.mark.parametrize("language", languages())
def test_a_strange_name_stays_a_name(nasty, language):
    def lines_of(file):
        return python_lines(
            state_of(Upload("0123456789abcdef", "x", (2, 2), file), qv.Scheme()), language=language
        )

    for uploaded in (UploadedFile(nasty, nasty), UploadedFile(nasty, channel=nasty)):
        lines = lines_of(uploaded)
        compile(lines, "copied.py", "exec")
        plain = lines_of(UploadedFile("f", "t", channel=None if uploaded.channel is None else "c"))
        assert lines.count("\n") == plain.count("\n")
        assert len(lines.splitlines()) == len(plain.splitlines())


# ---- Python outside the app ---------------------------------------------------------------------

GIVEN = qv.Scheme("int8", calibration=qv.Given(0.05))
FORMATS_OF_EACH_KIND = ("int4", "uint8", "float8_e4m3fn", "float4_e2m1fn", "nf4")
WILD = Typed.of([[1.0, math.nan, -0.25], [math.inf, -math.inf, 0.4]])
LARGE = (1025, 1024)


def write_files(folder):
    """One file of each kind with the tensor "layer.x", or one named after the file; the folder is then that
    of a server and of whoever copies.
    """
    x = normal(6, 8)
    np.savez(folder / "a.npz", **{"other": np.zeros(2, np.float32), "layer.x": x.numpy()})
    np.save(folder / "a.npy", x.numpy())
    torch.save({"layer": {"x": x}}, folder / "a.pt")
    safetensors.torch.save_file({"layer.x": x}, folder / "a.safetensors")
    (folder / "a.safetensors.index.json").write_text(json.dumps({"weight_map": {"layer.x": "a.safetensors"}}))
    (folder / "a.csv").write_text("\n".join(",".join(map(repr, row)) for row in x.tolist()))
    (folder / "a.json").write_text(json.dumps({"layer.x": x.tolist()}))
    (folder / "a.gguf").write_bytes(gguf_file([Entry("layer.x", (8, 6), 0, x.numpy().tobytes())]))
    (folder / 'it\'s "a".npy').write_bytes((folder / "a.npy").read_bytes())
    safetensors.torch.save_file({"layer.x": normal(*LARGE)}, folder / "large.safetensors")
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(folder / "a.png")


def every_state(folder):
    """A state of each kind of source, format, view, choice and size that the app offers Python for."""
    for name in SOURCES:
        source = Builtin("loud_column") if name == "builtin" else SOURCES[name]()
        yield name, state_of(source, qv.Scheme("int4"))
    set_by_hand = with_cell(with_cell(Builtin("loud_column"), (2, 3), 0.1), (6, 5), -0.0)
    yield "set by hand", state_of(set_by_hand, qv.Scheme("int4"), (2, 3))
    for fmt in FORMATS_OF_EACH_KIND:
        yield f"format {fmt}", state_of(Normal(rows=8, cols=8, seed=3), qv.Scheme(fmt), (1, 2))
    for choice in ("clip", "ignore"):
        yield f"nonfinite {choice}", state_of(WILD, qv.Scheme("int4", nonfinite=choice))
    yield "given", state_of(Normal(rows=8, cols=8, seed=3), GIVEN, (1, 2))
    course = qv.CONVENTIONS["course"].replace(scale_math="float32", **{"scale.floor": 1e-8})
    yield (
        "convention",
        state_of(
            Normal(rows=8, cols=8),
            qv.Scheme("uint4", "asymmetric", qv.PerGroup(4), qv.Percentile(99.0), course),
        ),
    )
    deep = Typed.of(normal(3, 4, 5).tolist())
    yield "slice", state_of(deep, qv.Scheme("int3"), (1, 2, 3), view=View(2, 0, (0, 3, 0)), scope="slice")
    yield (
        "slice of a float",
        state_of(deep, qv.Scheme("float8_e4m3fn"), view=View(0, 1, (0, 0, 4), 1, 2), scope="slice"),
    )
    for file in sorted(path.name for path in folder.iterdir() if path.suffix != ".png"):
        with qv.open_tensors(folder / file) as catalog:
            name = next(each for each in catalog.names if each != "other")
            local = LocalTensor(file, name, catalog.info(name).shape)
        upload = Upload("0" * 16, f"{file} · {name}", local.shape, UploadedFile(file, name))
        for scheme in (qv.Scheme("int4"), qv.Scheme("nf4", granularity=qv.PerGroup(4))):
            yield f"folder {file} {scheme}", state_of(local, scheme, (5, 2))
            if local.shape != LARGE:
                by_hand = with_cell(local, (5, 2), 9.5)
                yield f"folder {file} {scheme} by hand", state_of(by_hand, scheme, (5, 2))
            if not file.endswith(".index.json"):
                yield f"upload {file} {scheme}", state_of(upload, scheme, (5, 2))
    part_of_large = dataclasses.replace(View.of(LARGE), top=7, left=3, height=5, width=6)
    large = LocalTensor("large.safetensors", "layer.x", LARGE)
    yield (
        "slice of a large one",
        state_of(large, qv.Scheme("int4"), (9, 4), view=part_of_large, scope="slice"),
    )
    yield (
        "picture",
        state_of(
            Upload("0" * 16, "a.png · rot", (4, 4), UploadedFile("a.png", channel="red")), qv.Scheme("uint8")
        ),
    )


def shown(state, folder):
    """The lines of the tiles and the cell, from what the page makes of the state."""
    source = state.source.unedited
    if isinstance(source, Upload) and source.name.startswith("a.png"):
        x = InMemory(image_tensor((folder / "a.png").read_bytes(), "red"))
    elif isinstance(source, Upload | LocalTensor):
        file, name = source.name.split(" · ") if isinstance(source, Upload) else (source.file, source.name)
        with qv.open_tensors(folder / file) as catalog:
            x = catalog.stored(name)
    else:
        x = InMemory(source.tensor())
    if state.source.edits:
        values = x.read((slice(None),) * 2).clone()
        for cell, value in state.source.edits:
            values[cell] = value
        x = InMemory(values)
    study = Study.of(x, state.scheme)
    m = measured(study, state).metrics
    why = study.explain(state.cell)
    rmse = (
        f"{m['rmse_steps']:.3g} steps" if state.scheme.number_format.kind == "integer" else f"{m['rmse']:.3g}"
    )
    return [
        *(f"MSE {m['mse']:.4g}", f"RMSE {rmse}", f"SQNR {m['sqnr_db']:.3g} dB"),
        *(f"rounded to zero {100 * m['zeroed_share']:.3g} %", f"clipped {100 * m['clipped_share']:.3g} %"),
        f"bits per element {bits_per_element(state.scheme, x.shape):.4g}",
        *(f"{step.code_line:<44} # {step.output:.8g}" for step in why.steps),
        why.cause,
    ]


RUN_ALL = """
import os, runpy, sys
for name in sys.argv[1:]:
    print("##", name)
    runpy.run_path(name, run_name="__main__")
"""


@pytest.mark.nightly
def test_every_script_runs_in_a_plain_interpreter(tmp_path):
    """Outside the server, from another folder, with nothing but the repository to import from and the file
    that the script asks for.
    """
    write_files(tmp_path)
    expected = {}
    states = list(enumerate(every_state(tmp_path)))
    assert len(states) > 20
    for number, (name, state) in sample_of(states, 12):
        lines = python_lines(state, language=languages()[number % 2])
        assert "LocalTensor" not in lines
        (tmp_path / f"{number}.py").write_text(lines, encoding="utf-8")
        expected[f"{number}.py"] = name, shown(state, tmp_path)
    steps = [
        (name, number, step) for name, lesson in lessons().items() for number, step in enumerate(lesson.steps)
    ]
    for name, number, step in sample_of(steps, 12):
        scenes = step.scenes()
        lines = step_code(step, scenes, scenes[HERE].state)
        (tmp_path / f"{name}_{number}.py").write_text(lines, encoding="utf-8")
        expected[f"{name}_{number}.py"] = name, printed(lines)[0]
    assert len(expected) >= 24
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("QUANTVIZ_DATA")
    } | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *expected],
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        cwd=tmp_path,
        env=environment,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    got = {
        part.split("\n", 1)[0]: part.split("\n", 1)[1].splitlines() for part in ran.stdout.split("## ")[1:]
    }
    for script, (name, lines) in expected.items():
        assert list(map(rounded, got[script])) == list(map(rounded, lines)), name


def rounded(line):
    """The line with numbers of 10 digits: how many threads there are decides the last of a sum."""
    return re.sub(r"-?\d+\.\d{9,}", lambda number: f"{float(number[0]):.10g}", line)


# ---- arrays and tables --------------------------------------------------------------------------

RESULTS = [
    pytest.param(
        qv.quantize(normal(*shape), qv.Scheme(name, mode, granularity, calibration)),
        id=f"{shape}-{name}-{mode}-{granularity}-{calibration}",
    )
    for shape, granularity in (
        ((5,), qv.PerTensor()),
        ((4, 6), qv.PerGroup(3)),
        ((4, 6), qv.PerBlock(2, 3)),
        ((2, 3, 4), qv.PerChannel(1)),
    )
    for name, mode, calibration in (
        ("int4", "symmetric", qv.MinMax()),
        ("uint8", "asymmetric", qv.Percentile(80.0)),
        ("uint16", "asymmetric", qv.Given(1e-3, 7)),
        ("float8_e4m3fn", "symmetric", qv.MinMax()),
        ("nf4", "symmetric", qv.MinMax()),
    )
]
#: Scales that are negative or stored by another, zero points that are no integers, values got back by an
#: inverse, blocks that are short.
ENGINES = [
    pytest.param(
        qv.quantize(normal(2, 64), qv.Scheme(name, mode, granularity, convention=convention)), id=convention
    )
    for convention, name, mode, granularity in (
        ("gguf_signed", "int4", "symmetric", qv.PerGroup(32)),
        ("gguf_minimum", "uint5", "asymmetric", qv.PerGroup(32)),
        ("quanto_qbits", "uint4", "asymmetric", qv.PerGroup(16)),
        ("hqq", "uint4", "asymmetric", qv.PerGroup(16)),
        ("torchao_tinygemm", "uint4", "asymmetric", qv.PerGroup(16)),
        ("torchao_nvfp4", "float4_e2m1fn", "symmetric", qv.PerGroup(16)),
        ("compressed_tensors_nvfp4", "float4_e2m1fn", "symmetric", qv.PerGroup(16)),
        ("bitsandbytes", "nf4", "symmetric", qv.Flat(32)),
        ("bitsandbytes_int8", "int8", "symmetric", qv.PerChannel(0)),
        ("modelopt", "int4", "symmetric", qv.PerGroup(24)),
        ("modelopt_mxfp4", "float4_e2m1fn", "symmetric", qv.Flat(32)),
    )
]


@pytest.mark.parametrize("r", RESULTS + ENGINES)
def test_npz_gives_everything_back(r):
    levels = {"scale_codes", "global_scale"} if r.scheme.arithmetic.scale.global_rule else set()
    with np.load(io.BytesIO(as_npz(r)), allow_pickle=False) as arrays:
        assert set(arrays) == {
            "x",
            "codes",
            "x_hat",
            "error",
            "scale",
            "zero_point",
            "scheme",
        } | levels | set(r.qparams.others)
        for name, tensor in (("x", r.x), ("codes", r.q), ("x_hat", r.x_hat), ("error", r.error)):
            assert np.array_equal(arrays[name], tensor.numpy())
            assert arrays[name].dtype == tensor.numpy().dtype
        assert arrays["scale"].shape == r.layout.grid_shape
        assert qv.Scheme.parse(str(arrays["scheme"])) == r.scheme
        read = {
            name: torch.from_numpy(arrays[name].copy())
            for name in ("codes", "scale", "zero_point", *levels, *r.qparams.others)
        }
        params = qv.QParams(
            read["scale"],
            read["zero_point"],
            others={name: read[name] for name in r.qparams.others},
            stored=True,
        )
        assert torch.equal(qv.dequantize(read["codes"], r.scheme, params), r.x_hat)
        if levels:
            assert read["scale_codes"].shape == r.layout.grid_shape
            assert read["global_scale"].shape == ()
            both = (
                read["scale_codes"] * read["global_scale"]
                if r.scheme.arithmetic.scale.global_rule != "range_over_absmax"
                else None
            )
            assert both is None or torch.equal(both, read["scale"])


def test_the_same_result_gives_the_same_bytes():
    assert as_npz(qv.quantize(normal(4, 4), qv.Scheme())) == as_npz(qv.quantize(normal(4, 4), qv.Scheme()))


def test_parameters_from_outside_have_no_text_form():
    r = qv.quantize(normal(2, 2), qv.Scheme("int4"), qparams=qv.QParams(0.5))
    with np.load(io.BytesIO(as_npz(r)), allow_pickle=False) as arrays:
        assert str(arrays["scheme"]) == ""


@pytest.mark.parametrize("r", RESULTS + ENGINES)
def test_csv_comes_back_bit_for_bit(r):
    rows = list(csv.DictReader(io.StringIO(as_csv(r))))
    assert len(rows) == r.x.numel()
    cause = causes(r)
    for row, place in zip(rows, itertools.product(*map(range, r.shape)), strict=True):
        why = qv.explain(r, place)
        assert tuple(int(row[f"axis_{axis}"]) for axis in range(len(place))) == place
        for name, value in (("x", why.x), ("x_hat", why.x_hat), ("error", why.error)):
            assert np.float32(row[name]).tobytes() == np.float32(value).tobytes()
        assert int(row["q"]) == why.q
        scale = r.qparams.scale[why.block]
        assert scale.new_tensor(float(row["scale"])).item() == scale.item()
        zero_point = r.qparams.zero_point[why.block]
        assert zero_point.new_tensor(float(row["zero_point"])).item() == zero_point.item() == why.zero_point
        assert zero_point.is_floating_point() or row["zero_point"] == str(int(why.zero_point))
        assert int(row["block"]) == np.ravel_multi_index(why.block, r.layout.grid_shape)
        assert row["cause"] == why.cause == CAUSES[int(cause[place])]


@pytest.mark.parametrize(
    "form",
    ["int4,symmetric,per_group(size=4)", "int8,asymmetric,per_channel(axis=0)", "int4,symmetric,per_tensor"],
)
@pytest.mark.parametrize("index", [(slice(2, 5), slice(3, 8)), (slice(1, 3), 2, slice(0, 4))])
def test_a_part_says_where_it_lies_in_its_tensor(form, index):
    x, scheme = (
        normal(6, 12) if len(index) == 2 else normal(4, 3, 8),
        qv.Scheme.parse(f"{form},min_max,course"),
    )
    whole, within = qv.quantize(x, scheme), PartPosition(index, tuple(x.shape))
    seen = quantize_part(x[index], scheme, whole.qparams, tuple(x.shape), index)
    by_place = {
        tuple(row[f"axis_{axis}"] for axis in range(x.dim())): row
        for row in csv.DictReader(io.StringIO(as_csv(whole)))
    }
    rows = list(csv.DictReader(io.StringIO(as_csv(seen, within=within))))
    assert len(rows) == seen.x.numel()
    for row in rows:
        assert row == by_place[tuple(row[f"axis_{axis}"] for axis in range(x.dim()))]
    with np.load(io.BytesIO(as_npz(seen, within=within)), allow_pickle=False) as arrays:
        assert arrays["first"].tolist() == [part.start if isinstance(part, slice) else part for part in index]
        assert arrays["block"].ravel().tolist() == [int(row["block"]) for row in rows]
        assert arrays["scale"].ravel().tolist() == pytest.approx([float(row["scale"]) for row in rows])


def test_csv_writes_numbers_as_short_as_they_are():
    assert ",0.1," in as_csv(qv.quantize([0.1, 191.6], qv.Scheme()))
    assert ",191.6," in as_csv(qv.quantize([0.1, 191.6], qv.Scheme()))


@pytest.mark.parametrize("r", RESULTS + ENGINES)
def test_the_table_of_scales(r):
    table = scales_table(r)
    assert {len(column) for column in table.values()} == {r.layout.block_count}
    for i, block in enumerate(itertools.product(*map(range, r.layout.grid_shape))):
        assert tuple(table[f"axis_{axis}"][i] for axis in range(len(block))) == block
        assert table["block"][i] == i
        assert table["scale"][i] == r.qparams.scale[block].item()
        assert table["zero_point"][i] == r.qparams.zero_point[block].item()
        inside = block_ids(r.layout, r.shape) == i
        assert table["mse"][i] == pytest.approx(r.error[inside].double().square().mean().item(), rel=1e-12)
        assert table["clipped"][i] == int(r.clipped[inside].sum())
        assert (
            ("scale_codes" in table)
            == ("global_scale" in table)
            == (r.scheme.arithmetic.scale.global_rule is not None)
        )
        if "scale_codes" in table:
            assert table["scale_codes"][i] == r.qparams.scale_codes[block].item()
            assert table["global_scale"][i] == r.qparams.global_scale.item()
        if r.range is None:
            assert math.isnan(table["lo"][i])
        else:
            assert (table["lo"][i], table["hi"][i]) == (r.range.lo[block].item(), r.range.hi[block].item())
    json.dumps(table)


@pytest.mark.parametrize("language", languages())
def test_every_column_has_its_words(language):
    table = scales_table(
        qv.quantize(
            normal(2, 2, 2, 16),
            qv.Scheme("float4_e2m1fn", granularity=qv.PerGroup(16), convention="torchao_nvfp4"),
        )
    )
    assert {"scale_codes", "global_scale"} <= set(table)
    assert all(catalogue(language)[f"export.column.{name}"] for name in table)


# ---- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        Builtin("loud_column"),
        Normal(rows=3, cols=4),
        Typed.of([1.0]),
        Upload("00", "../../etc/passwd", (2,)),
        Upload("00", "名字.pt · 权重", (2,)),
        Upload("00", "a" * 500 + ".pt", (2,)),
        Upload("00", "..", (2,)),
        LocalTensor("models/../a..b.gguf", "layers.0/../名字..", (2,)),
        with_cell(Upload("00", "../../etc/passwd", (2,)), (1,), -1e-30),
    ],
    ids=lambda source: source.id,
)
def test_file_names_are_safe(source):
    for scheme in (qv.Scheme(), qv.Scheme("uint4", "asymmetric", qv.PerGroup(4), qv.Given(1e-20, -7))):
        name = file_name(source, scheme, "npz")
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,130}\.npz", name)
        assert ".." not in name


def test_a_file_name_tells_the_file_and_the_tensor():
    assert file_name(
        LocalTensor("models/a.safetensors", "layers.0.weight", (2, 2)), qv.Scheme("int4"), "npz"
    ).startswith("a-layers.0.weight_int4-")


def test_file_names_tell_schemes_apart():
    source = Normal()
    assert file_name(source, qv.Scheme("int4"), "csv") != file_name(source, qv.Scheme("int8"), "csv")
    assert file_name(source, qv.Scheme(granularity=qv.PerGroup(4)), "csv") != file_name(
        source, qv.Scheme(granularity=qv.PerGroup(8)), "csv"
    )
