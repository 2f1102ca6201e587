"""The frame of every page: session, language, cache, run queue, history, error boundary, Streamlit's
private parts.
"""
