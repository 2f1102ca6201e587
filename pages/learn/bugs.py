"""The bug gallery: what a wrong line of quantization code does to a tensor, and which line it is."""

from quantviz.ui.gallery import page

state = page.show_controls()
if state.spotting:
    page.show_puzzle(state)
else:
    page.show_comparison(state)
page.show_link()
