"""A matrix larger than the screen, without the rest of the app, for `test_zoom.py`: each zoom reads its
window anew.

The query says which: ?n=1000.3000 rows and columns, ?how=mean, ?lang=zh, ?by=row, ?format=float8_e4m3fn. The
planted outliers are in `PLANTED`.
"""

import streamlit as st
import torch

import quantviz as qv
from quantviz.figures.arrangement import pixels_for
from quantviz.figures.panels_data import overview_panels, result_panels
from quantviz.quantization.cells import quantize_part
from quantviz.quantization.quantizer import choose_qparams
from quantviz.streaming.frames import Patch
from quantviz.streaming.overview import overview, pooled
from quantviz.tensors.lazy import InMemory
from quantviz.tensors.views import View
from quantviz.ui.components.panels_bridge import (
    PanelsPlace,
    bridge_width,
    clicked_cell,
    show_panels,
    zoomed_window,
)
from quantviz.ui.lab.picture.tensor_panels import minimap_size, show_minimap

#: (row, column) and value of the outliers, as shares of rows and columns.
PLANTED = {(0.7371, 0.1234): 61.0, (0.123, 0.9996): -57.0}


@st.cache_resource
def matrix(rows, cols):
    x = torch.randn(rows, cols, generator=torch.Generator().manual_seed(0))
    for (down, across), value in PLANTED.items():
        x[int(down * rows), int(across * cols)] = value
    return x, {}


def zoomed(_):
    window = zoomed_window("panels_bridge")
    if window:
        st.session_state["view"] = st.session_state["view"].window(*window, (rows, cols))
        st.session_state["reads"] = st.session_state.get("reads", 0) + 1


def clicked(_):
    st.session_state["cell"] = clicked_cell("panels_bridge", (rows, cols)) or st.session_state.get("cell")


st.set_page_config(layout="wide", page_icon="🔬")
query = st.query_params
rows, cols = (int(n) for n in query.get("n", "1000.3000").split("."))
bits = st.slider("bits", 2, 8, 4, key="bits")
granularity = qv.PerChannel(0) if query.get("by") == "row" else qv.PerTensor()
x, kept = matrix(rows, cols)
scheme = qv.Scheme(query.get("format", f"int{bits}"), granularity=granularity)
if scheme not in kept:
    kept[scheme] = choose_qparams(x, scheme)
view = st.session_state.setdefault("view", View.of((rows, cols)))
seen = view.size((rows, cols))
pixels = pixels_for(bridge_width("panels_bridge"), (rows, cols), seen)
ends = (float(x.min()), float(x.max()))
if pixels == seen:
    index = (slice(view.top, view.top + seen[0]), slice(view.left, view.left + seen[1]))
    result = quantize_part(x[index], scheme, kept[scheme], (rows, cols), index)
    data = result_panels(result, view=view, whole=(rows, cols), value_range=ends, error_range=5.0)
else:
    key = (scheme, view, pixels, query.get("how", "largest"))
    if key not in kept:
        kept[key] = overview(
            InMemory(x), scheme, kept[scheme], Patch(view.top, view.left, *seen), pixels, key[-1]
        )
    data = overview_panels(kept[key], scheme=scheme, matrix=(rows, cols), value_range=ends, error_range=5.0)
if "map" not in kept:
    kept["map"] = pooled(InMemory(x), Patch(0, 0, rows, cols), minimap_size((rows, cols)))[0]
show_panels(
    data,
    PanelsPlace("panels", st.container(), st.container(key="panels"), clicked, zoomed),
    tensor_key="demo",
    selected=st.session_state.get("cell"),
)
show_minimap(kept["map"], matrix=(rows, cols), window=(view.top, view.left, *seen), key="minimap")
st.text(
    f"cell {st.session_state.get('cell')} window {view.top} {view.left} {seen[0]} {seen[1]} "
    f"reads {st.session_state.get('reads', 0)}"
)
# A page to scroll.
st.container(height=900, border=False)
