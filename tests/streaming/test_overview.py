"""What pixels show of a tensor, and what a survey of it finds, against the plainest way to say the same."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import quantviz as qv
from quantviz.evaluation.histogram_bins import PARTS
from quantviz.evaluation.metric_formulas import sqnr_db_of_lines
from quantviz.evaluation.moments import Moments
from quantviz.figures.histograms import histogram_data
from quantviz.quantization.grids import GRIDS
from quantviz.quantization.result import steps_of_error
from quantviz.streaming import limits, ranges, regions, surveying, value_distribution
from quantviz.streaming.frames import Patch
from quantviz.streaming.overview import overview, pooled, weighted
from quantviz.streaming.surveying import survey, worst_blocks, worst_cells, worst_lines
from quantviz.streaming.threads import THREADS_VARIABLE
from quantviz.tensors import blocks
from quantviz.tensors.lazy import InMemory, Stored
from quantviz.tensors.views import POOLS, View

SHAPES = [(37,), (13, 32), (5, 7, 16), (3, 4, 5, 8)]
#: The first picture of a large tensor.
PIXELS = (256, 512)


def normal(*shape, seed=0, ties=True):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return (x * 4).round() / 4 if ties else x


def views(shape):
    if len(shape) == 1:
        return [View.of(shape)]
    return [
        View(rows, cols, (1,) * len(shape)) for rows, cols in itertools.permutations(range(len(shape)), 2)
    ]


def pixel_blocks(matrix, patch, pixels):
    """The cells of each pixel, and where they begin."""
    h, w = min(pixels[0], patch.rows), min(pixels[1], patch.cols)
    rows, cols = (
        [first + i * n // count for i in range(count + 1)]
        for first, n, count in ((patch.top, patch.rows, h), (patch.left, patch.cols, w))
    )
    return (
        rows,
        cols,
        [[matrix[rows[i] : rows[i + 1], cols[j] : cols[j + 1]] for j in range(w)] for i in range(h)],
    )


def reference(matrix, patch, pixels, how):
    """Values and places by a loop over pixels; a NaN is left out."""
    cells = pixel_blocks(matrix, patch, pixels)[2]
    values, at = (
        np.full((len(cells), len(cells[0])), np.nan, np.float32),
        np.zeros((len(cells), len(cells[0])), np.uint32),
    )
    for i, j in itertools.product(range(values.shape[0]), range(values.shape[1])):
        block = cells[i][j]
        known = block[~np.isnan(block)].astype(np.float64)
        if how == "largest":
            at[i, j] = np.where(np.isnan(block), -1, np.abs(block)).argmax()
            values[i, j] = block.ravel()[at[i, j]]
        elif len(known):
            values[i, j] = known.mean() if how == "mean" else np.sqrt((known**2).mean())
    return values, at


def matrices(r, view):
    return {
        name: blocks.matrix(getattr(r, name), view.rows, view.cols, view.at).numpy()
        for name in ("x", "q", "x_hat", "error")
    }


def patches(matrix):
    rows, cols = matrix.shape
    return Patch(0, 0, rows, cols), Patch(rows // 3, cols // 4, rows - rows // 3, max(1, cols // 2))


class Counted(Stored):
    """A tensor that is read in parts, and remembers the largest."""

    def __init__(self, x):
        self._inner, self.most = InMemory(x), 0

    @property
    def shape(self):
        return self._inner.shape

    def run(self, start, stop):
        self.most = max(self.most, stop - start)
        run = self._inner.run(start, stop)
        run.flags.writeable = False  # as that of a mapped file
        return run

    def read(self, index):
        part = self._inner.read(index)
        self.most = max(self.most, part.numel())
        return part


# ---- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", POOLS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("small", [0, 2**20], ids=["compiled", "reference"])
def test_every_pixel_shows_its_cells(shape, how, small, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", small)
    for name, cells in (
        ("CELLS_PER_STEP", 29),
        ("CELLS_IN_PLACE", 61),
        ("ERRORS_PER_STEP", 17),
    ):  # pixels in one part, and parts of one pixel
        monkeypatch.setattr(limits, name, cells)
    scheme = qv.Scheme("int4", "asymmetric", qv.PerChannel(0) if len(shape) > 1 else qv.PerTensor())
    x = normal(*shape)
    r = qv.quantize(x, scheme)
    for view in views(shape):
        seen = matrices(r, view)
        for patch, pixels in itertools.product(patches(seen["x"]), ((2, 3), (1, 1), (5, 4), (99, 99))):
            found = overview(InMemory(x), scheme, r.qparams, patch, pixels, how, view)
            rows, cols, _ = pixel_blocks(seen["x"], patch, pixels)
            assert found.row_edges.tolist() == rows
            assert found.col_edges.tolist() == cols
            for name, at in (("x", found.x_at), ("error", found.error_at)):
                values, place = reference(seen[name], patch, pixels, how)
                assert np.array_equal(getattr(found, name), values)
                assert np.array_equal(at, place)
            for name in ("q", "x_hat"):
                if how == "largest":
                    cells = pixel_blocks(seen[name], patch, pixels)[2]
                    chosen = [
                        [block.ravel()[at] for block, at in zip(*row, strict=True)]
                        for row in zip(cells, found.x_at, strict=True)
                    ]
                else:
                    chosen = reference(seen[name], patch, pixels, how)[0]
                assert np.array_equal(getattr(found, name), chosen)
            assert found.x.dtype == found.x_hat.dtype == found.error.dtype == np.float32
            assert found.x_at.dtype == np.uint32


@pytest.mark.parametrize("how", POOLS)
@pytest.mark.parametrize("chunk", [50, 2**20])
def test_what_is_no_number_is_left_out_and_inf_is_seen(how, chunk, monkeypatch):
    monkeypatch.setattr(limits, "CELLS_PER_READ", chunk)
    x = normal(40, 33, seed=1)
    x[::3, ::2] = torch.nan
    x[:8, :8] = torch.nan
    x[17, 13] = -torch.inf
    for view in (View(0, 1, (0, 0)), View(1, 0, (0, 0))):
        matrix = blocks.matrix(x, view.rows, view.cols, view.at).numpy()
        patch = patches(matrix)[0]
        for pixels in ((5, 4), (40, 40), (2, 1)):
            with np.errstate(invalid="ignore"):
                values, at = reference(matrix, patch, pixels, how)
            found, places = pooled(InMemory(x), patch, pixels, how, view)
            assert np.array_equal(found, values, equal_nan=True)
            assert how != "largest" or np.array_equal(places[~np.isnan(values)], at[~np.isnan(values)])
            assert how == "rms" or np.isneginf(found).sum() == 1
    assert np.isnan(pooled(InMemory(x), Patch(0, 0, 8, 8), (1, 1), how)[0]).all()


NO_NUMBERS = (
    "float8_e4m3fn,symmetric,per_channel(axis=0),min_max,course",
    "nf4,symmetric,flat(size=64),min_max,bitsandbytes",
)


@pytest.mark.parametrize("form", NO_NUMBERS)
def test_codes_that_are_no_numbers_are_averaged_as_what_they_stand_for(form):
    scheme, x = qv.Scheme.parse(form), normal(16, 64)
    r = qv.quantize(x, scheme)
    values = GRIDS[scheme.number_format.kind].decode(r.q, scheme.number_format).numpy()
    patch = Patch(0, 0, 16, 64)
    assert np.array_equal(
        overview(InMemory(x), scheme, r.qparams, patch, (4, 4), "mean").q,
        reference(values, patch, (4, 4), "mean")[0],
    )
    assert overview(InMemory(x), scheme, r.qparams, patch, (4, 4)).q.dtype == r.q.numpy().dtype


BIG = normal(512, 1376, ties=False)


@settings(max_examples=25, deadline=None)
@given(
    row=st.integers(0, 511),
    col=st.integers(0, 1375),
    pixels=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    sign=st.sampled_from([-1, 1]),
)
def test_an_outlier_anywhere_is_found_where_it_is(row, col, pixels, sign):
    x = BIG.clone()
    x[row, col] = sign * 50.0
    patch = Patch(0, 0, 512, 1376)
    found, places = pooled(InMemory(x), patch, pixels)
    i, j = np.unravel_index(np.abs(found).argmax(), found.shape)
    rows, cols, _ = pixel_blocks(x.numpy()[:0], patch, pixels)
    at, width = int(places[i, j]), cols[j + 1] - cols[j]
    assert found[i, j] == sign * 50.0
    assert (rows[i] + at // width, cols[j] + at % width) == (row, col)


def test_an_outlier_in_a_matrix_of_a_large_model_is_found_where_it_is():
    tensor = torch.zeros(4096, 11008).normal_(generator=torch.Generator().manual_seed(0))
    tensor[3001, 10999] = -77.0
    x, scheme = InMemory(tensor), qv.Scheme("int8", granularity=qv.PerChannel(0))
    found = overview(x, scheme, ranges.qparams(x, scheme), Patch(0, 0, 4096, 11008), PIXELS)
    i, j = np.unravel_index(np.abs(found.x).argmax(), found.x.shape)
    at, width = int(found.x_at[i, j]), int(found.col_edges[j + 1] - found.col_edges[j])
    assert (int(found.row_edges[i]) + at // width, int(found.col_edges[j]) + at % width) == (3001, 10999)
    assert (found.x[i, j], found.q[i, j]) == (-77.0, -127)


# ---- surveys ------------------------------------------------------------------------------------

GRANULARITIES = (
    qv.PerTensor(),
    qv.PerChannel(0),
    qv.PerChannel(-1),
    qv.PerGroup(4),
    qv.PerGroup(4, 1),
    qv.PerBlock(2, 8),
    qv.Flat(4),
    qv.Flat(4, strided=True),
)


def results():
    for shape, granularity, nonfinite in itertools.product(
        [(37,), (24, 32), (3, 4, 6, 16)], GRANULARITIES, ("refuse", "ignore")
    ):
        scheme = qv.Scheme("int8", "asymmetric", granularity, qv.Percentile(97.0), nonfinite=nonfinite)
        if not scheme.problems(shape):
            x = normal(*shape, seed=2)
            if nonfinite == "ignore":
                x.flatten()[::7] = torch.nan
                x[(0,) * len(shape)] = torch.inf
            yield qv.quantize(x, scheme)
    for form in (*NO_NUMBERS, "int4,symmetric,per_tensor,min_max,course"):
        yield qv.quantize(normal(24, 64, ties=False), qv.Scheme.parse(form))


def counted(r, values):
    return (
        values.to(torch.float64)
        if r.counted is None
        else torch.where(r.counted, values.to(torch.float64), 0.0)
    )


def line_sums(values, axis):
    others = tuple(i for i in range(values.dim()) if i != axis)
    return values.sum(others).numpy() if others else values.numpy()


@pytest.mark.parametrize("r", [pytest.param(r, id=f"{i}-{r.scheme}") for i, r in enumerate(results())])
@pytest.mark.parametrize("kept", [2**20, 3])
def test_a_survey_finds_what_the_whole_result_has(r, kept, monkeypatch):
    monkeypatch.setattr(limits, "CELLS_PER_STEP", 50)
    monkeypatch.setattr(limits, "CELLS_PER_READ", 130)
    monkeypatch.setattr(surveying, "MOST_KEPT", kept)
    found, whole = survey(InMemory(r.x), r.scheme, r.qparams, n=7), histogram_data(r)
    for mine, theirs in ((found.histograms.values, whole.values), (found.histograms.errors, whole.errors)):
        assert np.array_equal(mine.edges, theirs.edges)
        assert all(np.array_equal(mine.counts[part], theirs.counts[part]) for part in PARTS)
    assert (found.histograms.cells, found.histograms.reached_by_some) == (whole.cells, whole.reached_by_some)

    x, error, ones = counted(r, r.x), counted(r, r.error), counted(r, torch.ones(r.shape))
    sizes = error.abs().flatten().tolist()
    order = sorted((i for i, size in enumerate(sizes) if size), key=lambda i: (-sizes[i], i))[:7]
    assert [cell.index for cell in found.cells] == [regions.place_of(i, r.shape) for i in order]
    for cell in found.cells:
        assert (cell.x, cell.q, cell.x_hat, cell.error) == tuple(
            each[cell.index].item() for each in (r.x, r.q, r.x_hat, r.error)
        )
        assert cell.steps == steps_of_error(r)[cell.index].item()

    for axis, sums in enumerate(found.axes):
        assert (sums is None) == (r.shape[axis] > kept)
        if sums:
            assert sums.e2.numpy() == pytest.approx(line_sums(error**2, axis), rel=1e-12)
            assert sqnr_db_of_lines(sums).numpy() == pytest.approx(
                sqnr_db_of_lines(Moments.along(r, axis)).numpy(), rel=1e-12, nan_ok=True
            )
            assert np.array_equal(sums.cells.numpy(), line_sums(ones, axis))

    noise, signal, cells = (
        blocks.block_sums(each, r.layout).flatten().numpy() for each in (error**2, x**2, ones)
    )
    assert len(found.block_numbers) == min(7, r.layout.block_count)
    assert sorted(found.blocks.e2.numpy()) == pytest.approx(sorted(noise)[-7:], rel=1e-12)
    numbers = found.block_numbers
    assert (numbers[1:] > numbers[:-1]).all()
    assert found.blocks.e2.numpy() == pytest.approx(noise[numbers], rel=1e-12)
    assert found.blocks.x2.numpy() == pytest.approx(signal[numbers], rel=1e-12)
    assert np.array_equal(found.blocks.cells.numpy(), cells[numbers])
    assert found.noise == pytest.approx(noise.sum(), rel=1e-12)
    every = survey(InMemory(r.x), r.scheme, r.qparams, n=r.layout.block_count).blocks
    assert every.e2.numpy() == pytest.approx(noise, rel=1e-12)
    assert every.x2.numpy() == pytest.approx(signal, rel=1e-12)


@pytest.mark.parametrize(
    "form",
    [
        *NO_NUMBERS,
        "int8,asymmetric,per_group(size=32),percentile(p=99.0),course",
        "int4,symmetric,per_channel(axis=1),min_max,course",
    ],
)
def test_what_is_compiled_shows_the_same(form, monkeypatch):
    x, scheme = InMemory(normal(96, 640, ties=False)), qv.Scheme.parse(form)
    qparams, patch = ranges.qparams(x, scheme), Patch(3, 7, 90, 600)
    plain = [overview(x, scheme, qparams, patch, (7, 64), how) for how in POOLS], survey(x, scheme, qparams)
    monkeypatch.setattr(limits, "SMALL", 0)
    fused = [overview(x, scheme, qparams, patch, (7, 64), how) for how in POOLS], survey(x, scheme, qparams)
    for one, other in zip(plain[0], fused[0], strict=True):
        assert all(
            np.array_equal(getattr(one, name), getattr(other, name))
            for name in ("x", "q", "x_hat", "error", "x_at", "error_at")
        )
    assert plain[1].cells == fused[1].cells
    for mine, theirs in (
        (plain[1].histograms.values, fused[1].histograms.values),
        (plain[1].histograms.errors, fused[1].histograms.errors),
    ):
        assert all(np.array_equal(mine.counts[part], theirs.counts[part]) for part in PARTS)
    assert plain[1].noise == pytest.approx(fused[1].noise, rel=1e-12)


def floats_of(found):
    """All that is added up in a survey, and what follows from it."""
    numbers = [
        getattr(lines, name)
        for lines in (*filter(None, found.axes), found.blocks)
        for name in ("cells", "x2", "e2", "max_error")
    ]
    return [torch.tensor(found.noise), torch.from_numpy(found.block_numbers), *numbers]


@pytest.mark.parametrize("kept", [2**20, 40], ids=["all", "worst"])
@pytest.mark.parametrize("granularity", [qv.PerGroup(11), qv.PerChannel(1), qv.PerTensor()], ids=str)
@pytest.mark.parametrize("shape", [(1500, 1111), (3, 1_049_400), (3, 700, 1023)], ids=str)
def test_any_number_of_threads_finds_a_survey_of_the_same_bits(shape, granularity, kept, monkeypatch):
    monkeypatch.setattr(surveying, "MOST_KEPT", kept)
    x, scheme = normal(*shape, ties=False), qv.Scheme("int4", "asymmetric", granularity)
    qparams = ranges.qparams(InMemory(x), scheme)
    seen = []
    for threads in ("1", "2", "3", "2", "3"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        seen.append(floats_of(survey(InMemory(x), scheme, qparams)))
    for other in seen[1:]:
        assert all(torch.equal(one, two) for one, two in zip(seen[0], other, strict=True))


def test_the_worst_lines_and_blocks_come_first():
    x = normal(8, 64, ties=False)
    x[5] *= 100
    x[:, 9] *= 10
    scheme = qv.Scheme("int4", granularity=qv.PerGroup(16))
    r = qv.quantize(x, scheme)
    found = survey(InMemory(x), scheme, r.qparams, n=3)
    rows, cols, groups, cells = (
        worst_lines(found, 0),
        worst_lines(found, 1, 4),
        worst_blocks(found, 2),
        worst_cells(found),
    )
    assert rows["index"][0] == 5
    assert len(rows["index"]) == 8
    assert len(cols["index"]) == 4
    assert sum(rows["noise_share"]) == pytest.approx(1.0)
    assert rows["rmse"][0] == pytest.approx(r.error[5].double().square().mean().sqrt().item())
    assert rows["largest_error"][0] == r.error[5].abs().max().item() == abs(cells["error"][0])
    assert groups["block"][0] == (5, 0)
    assert groups["index"][0] == (5, 0)
    assert groups["scale"][0] == r.qparams.scale[5, 0].item()
    assert {len(column) for column in groups.values()} == {2}
    assert {len(column) for column in cells.values()} == {3}


def test_zeros_have_no_worst():
    x, scheme = torch.zeros(4, 8), qv.Scheme("int8", granularity=qv.PerChannel(0))
    found = survey(InMemory(x), scheme, qv.choose_qparams(x, scheme))
    assert found.cells == ()
    assert np.isnan(worst_lines(found, 0)["sqnr_db"]).all()
    assert worst_lines(found, 0)["rmse"] == [0.0] * 4
    assert worst_lines(found, 0)["noise_share"] == [0.0] * 4


# ---- memory -------------------------------------------------------------------------------------


def test_a_tensor_that_lies_elsewhere_is_read_in_parts():
    x = Counted(normal(1024, 1536, ties=False))
    scheme = qv.Scheme("int8", granularity=qv.PerChannel(0))
    qparams = qv.choose_qparams(x._inner.read((slice(None), slice(None))), scheme)
    for view in (View(0, 1, (0, 0)), View(1, 0, (0, 0))):
        rows, cols = (1024, 1536) if view.cols == 1 else (1536, 1024)
        for pixels in ((64, 64), (1, 1)):
            overview(x, scheme, qparams, Patch(0, 0, rows, cols), pixels, view=view)
            pooled(x, Patch(0, 0, rows, cols), pixels, view=view)
    survey(x, scheme, qparams)
    assert 0 < x.most <= limits.CELLS_PER_READ < x.count
    line = Counted(normal(2**21, ties=False))
    overview(
        line, qv.Scheme(), qv.choose_qparams(torch.ones(3), qv.Scheme()), Patch(0, 0, 1, line.count), (4, 500)
    )
    assert 0 < line.most <= limits.CELLS_PER_READ < line.count


@pytest.mark.parametrize("count", [1, 7, 1000, 2**20 + 5])
def test_the_spread_is_that_of_the_sorted_magnitudes(count):
    x = torch.randn(count, generator=torch.Generator().manual_seed(count)) * 3
    x[:: max(2, count // 50)] = 0
    x = torch.cat([x, torch.tensor([float("nan"), float("inf")])])
    found = value_distribution.spread(InMemory(x))
    sizes = x[torch.isfinite(x)].abs().sort().values
    there = sizes[sizes > 0]
    middle = float(there[max(0, -(-len(there) // 2) - 1)]) if len(there) else 0.0
    far = float(sizes[max(0, math.ceil(0.99 * len(sizes)) - 1)])
    assert found.middle == pytest.approx(middle, rel=5e-4)
    assert found.far == pytest.approx(far, rel=5e-4)


def test_a_tensor_of_zeros_has_no_spread():
    assert value_distribution.spread(InMemory(torch.zeros(5, 5))) == value_distribution.MagnitudeSpread(
        0.0, 0.0
    )


@pytest.mark.parametrize(("rows", "cols"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("scheme", ["int4_per_tensor", "int8_per_row", "nf4_64"])
def test_a_weighted_error_is_the_largest_of_its_pixel(rows, cols, axis, scheme):
    x = normal(37, 64, seed=3, ties=False)
    view = View(rows, cols, (0, 0))
    error = qv.quantize(x, scheme).error
    error = (error if rows == 0 else error.T).numpy()
    patch = Patch(2, 5, 21, 30)
    loudness = np.float32([0, 100, 0.01, 3] * 8)[: (patch.rows, patch.cols)[axis]]
    weights = loudness[:, None] if axis == 0 else loudness
    scheme = qv.RECIPES[scheme]
    taken = (InMemory(x), scheme, qv.choose_qparams(x, scheme), patch)
    seen = weighted(overview(*taken, (6, 7), view=view), *taken, view, (loudness, axis))
    window = np.zeros(error.shape)
    window[2:23, 5:35] = np.abs(error[2:23, 5:35]) * weights
    tops, lefts, pixels = pixel_blocks(window, patch, (6, 7))
    for i, j in itertools.product(range(6), range(7)):
        row, col = divmod(int(seen.error_at[i, j]), lefts[j + 1] - lefts[j])
        at = (tops[i] + row, lefts[j] + col)
        assert window[at] == pixels[i][j].max()
        assert seen.error[i, j] == error[at]
        assert seen.loudness[i, j] == loudness[at[axis] - (2, 5)[axis]]
