"""What the other modules here rely on: a page finds nothing of the test before, though the browser keeps its
scripts compiled.
"""

import pytest


@pytest.mark.parametrize("turn", [1, 2])
def test_nothing_is_left_of_the_test_before(new_page, serve, turn, request):
    page = new_page()
    page.goto(f"{serve(request.config.rootpath / 'app.py')}/_stcore/health")
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie.includes('a=')]") == [
        0,
        0,
        False,
    ]
    page.evaluate(
        "localStorage.setItem('a', 'b'); sessionStorage.setItem('a', 'b'); "
        "document.cookie = 'a=b; max-age=1000'"
    )
    other = new_page()
    other.goto(page.url)
    assert other.evaluate("[localStorage.length, document.cookie.includes('a=')]") == [0, False], (
        "two visitors of one test share nothing"
    )
    assert page.context.new_page().goto(page.url).ok
