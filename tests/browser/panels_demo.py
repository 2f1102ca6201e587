"""The four panels and their bridge without the rest of the app, for `test_bridge.py`.

The query says which: ?n=256 cells a side (or rows.cols), ?lang=zh, ?view=absolute.
"""

import streamlit as st
import torch

import quantviz as qv
from quantviz.figures.arrangement import PanelsStyle
from quantviz.figures.panel_painter import panels_alt
from quantviz.figures.panels import PANELS_CONFIG, panels_figure
from quantviz.figures.panels_data import result_panels
from quantviz.ui.components.panels_bridge import PanelsPlace, bridge_width, chart_bridge, clicked_cell

st.set_page_config(layout="wide", page_icon="🔬")
shape = [int(n) for n in st.query_params.get("n", "8").split(".")]
language = st.query_params.get("lang", "en")
bits = st.slider("bits", 2, 8, 4, key="bits")
seed = st.slider("tensor", 0, 9, 0, key="seed")
x = torch.randn(shape if len(shape) == 2 else shape * 2, generator=torch.Generator().manual_seed(seed))
if x.shape[0] >= 8:
    x[:, 2] *= 10
granularity = {"tensor": qv.PerTensor(), "row": qv.PerChannel(0), "group": qv.PerGroup(4, 1)}[
    st.query_params.get("by", "group")
]
result = qv.quantize(x, qv.Scheme(f"int{bits}", st.query_params.get("mode", "symmetric"), granularity))
data = result_panels(
    result,
    error_view=st.query_params.get("view", "signed"),
    error_range=float(st.query_params["held"]) if "held" in st.query_params else None,
)
theme = st.context.theme.type or "light"
bridge = st.container()
place = PanelsPlace("panels", bridge, st.container(key="panels"))
style = PanelsStyle(language, theme, bridge_width(place.bridge))
with bridge:
    chart_bridge(place, data, style, selected=st.session_state.get("cell", (1, 2)))
cell = clicked_cell(place.bridge, data.shape)
if cell is not None and cell != st.session_state.get("cell"):
    st.session_state["cell"] = cell
    st.rerun()
place.area.plotly_chart(
    panels_figure(data, style, tensor_key=str(seed)),
    theme=None,
    config={**PANELS_CONFIG, "doubleClick": False},
    key="chart",
    alt=panels_alt(data, language),
)
st.text(f"cell {st.session_state.get('cell')} width {style.width:.0f}")
