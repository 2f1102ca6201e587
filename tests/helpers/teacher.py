"""The teacher's page in a network, for tests through AppTest."""

from streamlit.testing.v1 import AppTest

from tests.helpers import ROOT
from tests.helpers.session import bodies, healthy

NETWORK = "http://192.168.1.20:8501/teacher"
PAGE = "pages/learn/teacher.py"


def teacher(url=NETWORK, **params):
    """The page as its reader at `url` sees it first."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    at.context["url"] = url
    at.switch_page(PAGE)
    at.query_params.update(params)
    return healthy(at.run())


def qr(at):
    """The codes to scan on the page."""
    return bodies(at, 'class="qv-qr"')
