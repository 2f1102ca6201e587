"""Attention over rounded keys and values, and which channel costs most."""

from quantviz.ui.layers import attention_page as page

page.show_page()
