"""What the Lab is measured against: a bare Streamlit page, default settings, torch imported, one 2×2 Plotly
figure.
"""

import plotly.graph_objects as go
import streamlit as st
import torch
from plotly.subplots import make_subplots

side = int(st.query_params.get("side", "8"))
bits = st.segmented_control("bits", [2, 3, 4, 5, 6, 7, 8], default=4, key="bits", required=True)
x = torch.randn(side, side, generator=torch.Generator().manual_seed(0))
scale = x.abs().max() / (2 ** (bits - 1) - 1)
q = torch.round(x / scale)
x_hat = q * scale
figure = make_subplots(2, 2, subplot_titles=("x", "q", "x_hat", "error"))
for place, values in enumerate((x, q, x_hat, x_hat - x)):
    figure.add_trace(go.Heatmap(z=values.numpy(), showscale=False), place // 2 + 1, place % 2 + 1)
figure.update_layout(height=600)
st.plotly_chart(figure, key="chart")
