"""Number formats: every value there is, and where a number lands."""

from quantviz.ui.formats import page

page.show_page()
