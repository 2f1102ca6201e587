"""Lessons: a few words, a picture, a question to commit to, and then the answer."""

from quantviz.ui.lessons import page

page.show_page()
