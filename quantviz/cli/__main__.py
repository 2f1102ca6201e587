"""`python -m quantviz.cli`, where the command is not on the path."""

from quantviz.cli import main

main()
