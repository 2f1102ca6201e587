"""The bug gallery: what a wrong line of quantization code does to a tensor, and which line it is."""

from quantviz.ui.gallery import page

page.show_page()
