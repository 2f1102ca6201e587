"""A count of presses, and the server's process, which a test holds up."""

import os

import streamlit as st

st.session_state.setdefault("presses", 0)
st.session_state.presses += st.button("Press")
st.text(f"{st.session_state.presses} presses")
st.text(f"process {os.getpid()}")
