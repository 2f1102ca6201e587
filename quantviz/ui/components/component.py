"""Components of our own: a browser fetches their scripts once, and after that is only sent what they show.

Streamlit sends the text of a component's script with each change of what it shows: 200 KB for each change
of a scheme in the Lab, times the heads of a class. So the component itself is a few lines that import the
script from its address.

A person may go back while a page is still being drawn. What a component of the page left says then names
that page, and Streamlit would run it once more, at the other page's address: it is not sent. What one says
while the connection is lost is said when it is back (`connection.js`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import streamlit as st

from quantviz.browser import read_script
from quantviz.ui.shell.address import page_shown
from quantviz.ui.shell.streamlit_private import serve_file

#: Streamlit calls a component again while its script is on the way: the last call shows what is then true.
_IMPORT = """
const streamlit = document.querySelector("script[type=module][src]").src;
let show = null;
const script = import(new URL("../..ADDRESS", streamlit)).then((module) => (show = module.default));
const page = "PAGE";

export default function (given) {
  const here = () => window.location.pathname.split("/").filter(Boolean).at(-1);
  const connection = window.__quantvizConnection ?? { say: (name, tell) => tell() };
  const said = (tell) => (name, value) =>
    connection.say(`NAME ${name}`, () => (!page || here() === page) && tell(name, value));
  const { setTriggerValue, setStateValue, ...rest } = given;
  const component = { ...rest, setTriggerValue: said(setTriggerValue), setStateValue: said(setStateValue) };
  if (show) return show(component);
  let leave = null;
  let left = false;
  script.then(() => left || (leave = show(component)));
  return () => {
    left = true;
    leave?.();
  };
}
"""


def component(name: str, script: str) -> Callable[..., Any]:
    """Return what mounts the component `name`, whose `script` is a file of `quantviz.browser`."""
    # Each run says that its session has need of the file, or Streamlit would throw it away.
    address = serve_file(read_script(script).encode(), "text/javascript", f"script {script}")
    return _registered(name, address, page_shown())


def told(key: str, name: str) -> Any:
    """Return what the component `key` last said by `name`; None where it has said nothing."""
    state = st.session_state.get(key)
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


@cache
def _registered(name: str, address: str, page: str) -> Callable[..., Any]:
    # Registered once a process: a second registration of the same name is a warning.
    script = _IMPORT.replace("ADDRESS", address).replace("PAGE", page).replace("NAME", name)
    mount: Callable[..., Any] = st.components.v2.component(f"{name}_{page}" if page else name, js=script)
    return mount
