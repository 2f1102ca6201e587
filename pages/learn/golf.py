"""Quantization golf: the least error within a budget of bits."""

from quantviz.ui.golf import page

page.show_page()
