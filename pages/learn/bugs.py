"""The bug gallery: what a wrong line of quantization code does to a tensor, and which line it is."""

from quantviz.ui import gallery

state = gallery.show_controls()
if state.spotting:
    gallery.show_puzzle(state)
else:
    gallery.show_comparison(state)
gallery.show_link()
