"""For the teacher: the link and the code with which a class opens what its teacher has chosen."""

from quantviz.ui.teacher import page

page.show_page()
