"""The app as a new session sees it."""

from pathlib import Path

from streamlit.testing.v1 import AppTest

APP = Path(__file__).parents[2] / "app.py"


def opened(page=None, **params):
    """The app at this address; `page` is another page's file than the Lab's."""
    at = AppTest.from_file(str(APP), default_timeout=60)
    if page:
        at.switch_page(page)
    for name, value in params.items():
        at.query_params[name] = value
    return healthy(at.run())


def healthy(at):
    assert not at.exception, at.exception
    assert [error.value for error in at.error] == []
    return at


def address(at):
    return {name: value[0] if isinstance(value, list) else value for name, value in at.query_params.items()}
