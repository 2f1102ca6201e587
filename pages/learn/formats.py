"""Number formats: every value there is, and where a number lands."""

from quantviz.ui import formats

formats.show_page()
