"""A ruler without the rest of the app, for `test_ruler.py`: what a hand moves is written below it."""

import streamlit as st

import quantviz as qv
from quantviz.figures.ruler_data import Handles, ruler_of_result
from quantviz.ui.components.ruler import show_ruler

st.set_page_config(layout="wide", page_icon="🔬")
bits = st.slider("bits", 2, 8, 4, key="bits")
ends = st.session_state.get("ends", (-3.0, 3.0))
x = [[0.3, -1.2, 2.7], [0.05, 1.0, -0.4]]
result = qv.quantize(x, qv.Scheme(f"int{bits}", calibration=qv.ManualRange(*ends)))


def take(message):
    st.session_state["ends"] = message["lo"], message["hi"]
    st.session_state["told"] = st.session_state.get("told", 0) + 1


show_ruler(
    ruler_of_result(result, qv.explain(result, (0, 1))),
    key="ruler",
    label="Six values.",
    handles=Handles(range=True),
    on_moved=take,
)
st.text(f"range {ends[0]:.2f} {ends[1]:.2f}, told {st.session_state.get('told', 0)}")
