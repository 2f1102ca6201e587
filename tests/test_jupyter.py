"""A notebook in a real Jupyter kernel: the README's lines, the course's functions, the figure to point at."""

import base64
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from quantviz.export.files import notebook_text
from quantviz.figures.arrangement import PANELS
from quantviz.lab.state import opening
from quantviz.text import text
from tests.helpers import ROOT
from tests.helpers.panels import decoded
from tests.helpers.readme import blocks

PLOTLY = "application/vnd.plotly.v1+json"
#: As a learner has it: the functions come from a module named helper.
#: The notebook that the Lab's first screen gives.
LAB = json.loads(notebook_text(opening(), "One *loud* column"))
CELLS = (
    blocks("python")[0],
    "import torch\nfrom helper import *\n"
    "x = torch.tensor([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]])",
    "q, scale, zero_point = linear_quantization(x)\nscale, zero_point",
    "x_hat = linear_dequantization(q, scale, zero_point)\n(x_hat - x).square().mean()",
    "plot_quantization_errors(x, q, x_hat)",
    "w = qv.show(x, 'int8_per_row')\nw",
    "w.scheme = 'int4_per_row'\nprint(w.scheme, w.cell, w.result.q.abs().max())",
    *("".join(cell["source"]) for cell in LAB["cells"] if cell["cell_type"] == "code"),
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each cell gave, run in a kernel of this very interpreter that knows no settings of this machine's
    user.
    """
    # Not above: each process of a run would import them to collect the tests, and one runs these.
    import nbclient
    import nbformat

    home = tmp_path_factory.mktemp("jupyter")
    spec = home / "kernels" / "this"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "this", "language": "python"}), encoding="utf-8"
    )
    (home / "helper.py").write_text("from quantviz.teaching.course import *\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(home))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(home)]))
        # plotly chooses how to show a figure by what it finds here.
        for name in (
            "PLOTLY_RENDERER",
            "VSCODE_PID",
            "COLAB_NOTEBOOK_ID",
            "NTERACT_EXE",
            "DATABRICKS_RUNTIME_VERSION",
            "JUPYTER_PREFER_ENV_PATH",
        ):
            patch.delenv(name, raising=False)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name.lower()))
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
        nbclient.NotebookClient(
            notebook, kernel_name="this", timeout=120, resources={"metadata": {"path": str(home)}}
        ).execute()
    nbformat.validate(notebook)
    return [cell.outputs for cell in notebook.cells]


def figure_of(cell):
    (shown,) = [output["data"][PLOTLY] for output in cell if PLOTLY in output.get("data", {})]
    return shown


def plain(cell):
    return "".join(
        output.get("text") or output["data"]["text/plain"]
        for output in cell
        if PLOTLY not in output.get("data", {})
    )


@pytest.mark.nightly
def test_it_prints_what_the_readme_says_and_the_notebooks_numbers(outputs):
    assert plain(outputs[0]) == blocks("text")[0]
    assert [plain(cell) for cell in outputs[1:4]] == ["", "(3.578823433670343, -77)", "tensor(1.5730)"]


def test_the_notebook_of_the_lab_is_one_and_prints_its_numbers(outputs):
    import nbformat

    nbformat.validate(nbformat.from_dict(LAB))
    assert LAB["cells"][0]["source"] == ["# One \\*loud\\* column"]
    assert plain(outputs[7]).splitlines()[0] == "MSE 0.831"
    assert len(figure_of(outputs[8])["data"]) == 4


@pytest.mark.parametrize("cell", [0, 4])
def test_the_figure_is_four_heatmaps(outputs, cell):
    figure = figure_of(outputs[cell])
    assert [(trace["type"], trace["name"]) for trace in figure["data"]] == [
        ("heatmap", name) for name in PANELS
    ]
    titles = [annotation["text"] for annotation in figure["layout"]["annotations"][:4]]
    assert titles == [text(f"panels.notebook.{name}", n_bits=8) for name in PANELS]


@pytest.mark.parametrize(
    ("cell", "fields", "numbers"),
    [
        (0, ["x", "q", "x̂", "error", "block", "scale", "cause"], [728.6, 127, 730.08, 1.48, 2, 3.5788]),
        (4, ["x", "q", "x̂", "error"], [728.6, 127, 730.08, 1.48]),
    ],
)
def test_a_cell_tells_its_values_and_with_a_result_its_block_and_cause(outputs, cell, fields, numbers):
    for trace in figure_of(outputs[cell])["data"]:
        index, *lines = trace["hovertemplate"].removesuffix("<extra></extra>").split("<br>")
        assert index == "(%{y:d}, %{x:d})"
        assert [line.split()[0] for line in lines] == fields
        np.testing.assert_allclose(decoded(trace["customdata"])[0, 2], numbers, atol=0.001)
        assert trace.get("hovertext", [[None] * 3])[0] == (
            ["exact", "rounded", "rounded"] if "cause" in fields else [None] * 3
        )


def test_a_widget_is_shown_with_a_picture_beside_it(outputs):
    (shown,) = [output["data"] for output in outputs[5] if "data" in output]
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert base64.b64decode(shown["image/png"]).startswith(b"\x89PNG")
    assert (
        plain(outputs[6]) == "int4,symmetric,per_channel,min_max,course (2, 2) tensor(7, dtype=torch.int8)\n"
    )


@pytest.mark.nightly
def test_marimo_shows_the_widget_too(tmp_path):
    """Its own export runs the notebook, and writes what each cell shows."""
    notebook = tmp_path / "notebook.py"
    notebook.write_text(
        "import marimo\napp = marimo.App()\n\n@app.cell\ndef _():\n"
        "    import marimo as mo\n    import quantviz as qv\n"
        "    shown = mo.ui.anywidget(qv.show([[1.0, -2.0], [0.5, 4.0]], 'int4_per_row'))\n"
        "    shown\n    return shown,\n\n@app.cell\ndef _(shown):\n    shown.value['scheme']\n    return\n",
        encoding="utf-8",
    )
    command = [
        sys.executable,
        "-m",
        "marimo",
        "-q",
        "export",
        "html",
        str(notebook),
        "-o",
        str(tmp_path / "x.html"),
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "marimo-anywidget" in page
    assert "int4,symmetric,per_channel,min_max,course" in page
