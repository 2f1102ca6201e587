"""A layer with its inputs: what rounding does to its outputs, and which input brings it."""

from quantviz.ui.layers import page

page.show_page()
