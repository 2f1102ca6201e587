"""Live files as tests open them."""

from quantviz.lab.layer_state import LayerState
from quantviz.layers.built_in import BuiltInLayer
from quantviz.ui.layers.picture import page_of
from quantviz.ui.layers.state import seen_layer

#: Whether the page stands, or each of the pages in its frames.
STANDS = """() => (window.quantvizPage?.frames ?? [window]).every(
  (each) => (each.contentWindow ?? each).quantvizPage?.hand?.shown)"""


def layer_page(name, pair):
    """The live file of a built-in layer under a pair of schemes."""
    state = LayerState(BuiltInLayer(name), pair)
    return page_of(seen_layer(state), state)
