"""The page's parts: state, controls, cells of text. With `app.py` and `pages/`, the only streamlit."""
