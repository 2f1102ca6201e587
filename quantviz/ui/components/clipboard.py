"""Ways to hand out a page: its address copied or as a code to scan, and a picture of the panels."""

from __future__ import annotations

import html
from functools import cache
from urllib.parse import urlsplit

import segno
import streamlit as st

from quantviz.lab.share_links import LONGEST, app_address, only_here
from quantviz.ui.components.component import component
from quantviz.ui.shell.server import command_for_all, is_local_only, network_address
from quantviz.ui.shell.words import plain, say

_JS = """
export default function ({ data, parentElement }) {
  const button = parentElement.querySelector("button");
  button.textContent = data.label;
  button.title = data.help;
  const put = async (text) => {
    try { await navigator.clipboard.writeText(text); }
    catch {
      // Outside https and localhost browsers offer no clipboard: fall back on a selection.
      const area = document.createElement("textarea");
      area.value = text; area.style.position = "fixed"; area.style.opacity = "0";
      document.body.appendChild(area); area.select(); document.execCommand("copy"); area.remove();
    }
  };
  button.onclick = async () => {
    await put(data.text ?? window.location.href);
    button.textContent = data.done;
    setTimeout(() => { button.textContent = data.label; }, 1500);
  };
}
"""

#: Saves the picture that the chart's bridge draws of it, or of another figure.
_SAVE_JS = """
export default function ({ data, parentElement }) {
  const button = parentElement.querySelector("button");
  button.textContent = data.label;
  const figure = () => data.figure && JSON.parse(data.figure);
  button.onclick = () => window.__quantviz?.bridges.get(data.chart)?.save(data.format, figure());
}
"""

_CSS = """
button { font: inherit; font-size: var(--qv-14); width: 100%;
  color: var(--st-text-color); background: var(--st-background-color);
  border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius, 0.4rem); 
  min-height: var(--qv-button); padding: 0 0.6rem; cursor: pointer; white-space: nowrap; }
button:hover { border-color: var(--st-primary-color); color: var(--st-primary-color); }
button:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 1px; }
"""


def copy_button(key: str, label: str, done: str, text: str | None = None, explanation: str = "") -> None:
    """Show a button `label` that copies `text`, or without it the page's address, and then reads `done`."""
    _show_button("quantviz_copy", _JS, key, label=label, done=done, text=text, help=explanation)


def show_copy_link(words: str = "lab.share") -> None:
    """Show the button that copies the page's address; `words` is the key of its label."""
    copy_button("copy_link", say(words), say("lab.copied"), explanation=say("lab.link_help"))


def picture_button(key: str, label: str, chart: str, ending: str, figure: str | None = None) -> None:
    """Show a button that saves the panels in `chart`, or the JSON `figure`, as "png" or "svg"."""
    _show_button("quantviz_save", _SAVE_JS, key, label=label, chart=chart, format=ending, figure=figure)


def _show_button(name: str, script: str, key: str, **data: str | None) -> None:
    _button(name, script)(key=key, data=data, height="content", width="content")


@cache
def _button(name: str, script: str):  # type: ignore[no-untyped-def]
    return st.components.v2.component(name, html='<button type="button"></button>', css=_CSS, js=script)


# ---- codes to scan ---------------------------------------------------------------------------------

#: The app's address until the browser has sent it.
_UNKNOWN = "http://localhost:8501/"


def app_here() -> str:
    """Return the app's address as this browser has it."""
    return app_address(st.context.url or _UNKNOWN)


def app_for_all() -> str:
    """Return the app's address, by which other computers reach it where there is one."""
    app = app_here()
    network = network_address(app) if only_here(app) and not is_local_only() else None
    return network or app


def qr_source(address: str) -> str:
    """Return the code of an address as an image's address, with its white edge.

    The lowest error correction has the coarsest squares: on a wall nothing is torn or dirty, but far away.
    """
    code = segno.make(address, error="l", micro=False)
    return str(code.svg_data_uri(border=4, dark="#000", light="#fff", omitsize=True))


def qr_image(address: str, alt: str) -> str:
    """Return the code of an address as an HTML image, white around it on a dark page too."""
    return f'<img class="qv-qr" alt="{html.escape(alt)}" src="{html.escape(qr_source(address))}">'


def show_code(opened: str, typed: str = "") -> None:
    """Show the code of an address, or the reason why there is none; `typed` is the address for those who
    cannot scan it.
    """
    alt = say("teacher.join_alt" if typed else "teacher.qr_alt")
    if only_here(opened):
        host = plain(urlsplit(opened).hostname)
        st.info(say("teacher.only_here" if is_local_only() else "teacher.no_network", host=host))
        if is_local_only():
            st.code(command_for_all(), language=None, wrap_lines=True)
    elif len(opened) > LONGEST:
        st.warning(say("teacher.too_long", length=len(opened), longest=LONGEST))
    else:
        with st.container(key="teacher_qr"):
            st.html(qr_image(opened, alt))
        component("quantviz_code", "code_component")(
            key="teacher_full_screen",
            data={
                "label": say("teacher.full_screen"),
                "alt": alt,
                "source": qr_source(opened),
                "address": typed or opened,
            },
            height="content",
        )
        if only_here(app_here()):
            st.caption(say("teacher.own_address", host=urlsplit(opened).hostname))
    if typed:
        st.code(typed, language=None, wrap_lines=True)
