"""Model: a whole checkpoint under any recipes, as a map of layers by kinds."""

from quantviz.ui.checkpoints import page

page.show_page()
