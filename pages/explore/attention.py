"""Attention over rounded keys and values, and which channel costs most."""

from quantviz.ui.attention import page

page.show_page()
