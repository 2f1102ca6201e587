"""A part of the app without the rest: the demo that the query names, as `?demo=zoom`. One server has all."""

import runpy
from pathlib import Path

import streamlit as st

from quantviz.ui.shell.server import script_routes

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).with_name(f"{st.query_params['demo']}_demo.py")))
else:
    app = st.App(__file__, routes=script_routes())
