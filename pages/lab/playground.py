"""The Lab: one tensor under one scheme, four linked heatmaps, and why each cell errs."""

from quantviz.ui import lab, session

state = session.state()
areas = lab.show_controls(state)
result = lab.show_result(state, areas)
lab.show_below(result, state, areas)
lab.show_link()
