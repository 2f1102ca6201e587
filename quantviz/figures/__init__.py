"""Figures: the only place that imports plotly. Each is drawn in two steps: typed data, then the picture."""
