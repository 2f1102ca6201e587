"""`python -m quantviz`, where the command is not on the path."""

from quantviz.cli import main

if __name__ == "__main__":
    main()
