"""The browser's own buttons: copy the page's address or a text, save a picture of the panels."""

from __future__ import annotations

import streamlit as st

from quantviz.ui.shell.words import say

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
    _button("quantviz_copy", _JS)(
        key=key,
        data={"label": label, "done": done, "text": text, "help": explanation},
        height="content",
        width="content",
    )


def show_copy_link(words: str = "lab.share") -> None:
    """Show the button that copies the page's address; `words` is the key of its label."""
    copy_button("copy_link", say(words), say("lab.copied"), explanation=say("lab.link_help"))


def picture_button(key: str, label: str, chart: str, ending: str, figure: str | None = None) -> None:
    """Show a button that saves the panels in `chart`, or the JSON `figure`, as "png" or "svg"."""
    _button("quantviz_save", _SAVE_JS)(
        key=key,
        data={"label": label, "chart": chart, "format": ending, "figure": figure},
        height="content",
        width="content",
    )


@st.cache_resource(show_spinner=False)
def _button(name: str, script: str):  # type: ignore[no-untyped-def]
    return st.components.v2.component(name, html='<button type="button"></button>', css=_CSS, js=script)
