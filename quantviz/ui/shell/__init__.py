"""What every page stands in: session, language, cache, run queue, history, error boundary, Streamlit's
private parts.
"""
