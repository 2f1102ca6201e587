"""What the other modules here rely on: a page that was waited for shows what the last press came to."""

import os
import signal
import threading

from tests.helpers.browser import wait_idle

#: Seconds for which the server does nothing after a press: longer than a page must be still.
HELD = 0.8


def test_a_page_is_not_idle_before_the_server_has_begun_what_was_pressed(new_page, demos):
    page = new_page()
    page.goto(f"{demos}/?demo=waiting")
    process = int(page.get_by_text("process").inner_text().split()[1])
    wait_idle(page)
    for presses in (1, 2):
        os.kill(process, signal.SIGSTOP)
        threading.Timer(HELD, os.kill, (process, signal.SIGCONT)).start()
        page.get_by_role("button", name="Press").click()
        wait_idle(page)
        assert page.get_by_text(f"{presses} presses").count() == 1
