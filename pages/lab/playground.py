"""The Lab: one tensor under one scheme, four linked heatmaps, and why each cell errs."""

from quantviz.ui.lab import page
from quantviz.ui.shell import session

state = session.state()
areas = page.show_frame(state)
result = page.show_result(state, areas)
page.show_below(result, state, areas)
page.show_link()
