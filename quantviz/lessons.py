"""`python -m quantviz.lessons [folder …]`: the command's first address, kept for existing scripts."""

import runpy

if __name__ == "__main__":
    runpy.run_module("quantviz.teaching.lessons", run_name="__main__", alter_sys=True)
