"""The front door: what fewer bits do to a picture, and the doors to lessons, Lab and class."""

from quantviz.ui.home import page

page.show_page()
