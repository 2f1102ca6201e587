"""Where the keyboard goes on after a button that is gone, and what a phone scrolls to."""

from __future__ import annotations

import streamlit as st

from quantviz.ui.components.lesson_place import FOCUS

#: The button that was pressed is gone, and with it the place in the page of who goes by keys. What is to be
#: found may come after the script.
_TO_FOCUS = """<script data-turn="{turn}">
(() => {{
  const until = Date.now() + 4000;
  const find = () => {{
    const found = document.querySelector('{selector}');
    if (!found) return Date.now() < until && setTimeout(find, 50);
    found.tabIndex = -1;
    found.focus();
  }};
  find();
}})();
</script>"""


#: Whether a question has just come, because something was moved for the first time.
_COMES = "lesson_question_comes"
#: On a narrow screen it comes below the picture, out of sight.
_TO_THE_QUESTION = """<script data-turn="{turn}">
(() => {{
  if (window.innerWidth > 900) return;
  const until = Date.now() + 8000;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let ended = false;
  for (const name of ["touchstart", "wheel"])
    window.addEventListener(name, () => (ended = true), {{ once: true, passive: true }});
  // Charts that are drawn anew meanwhile end a scroll: it goes on until the question is there, or a person
  // scrolls. What is answered with comes last, and then all of the question has its height.
  const bring = () => {{
    if (ended || Date.now() > until) return;
    const found = document.querySelector(".st-key-lesson_ask_0 .st-key-lesson_commit button");
    if (found && found.getBoundingClientRect().bottom > innerHeight)
      found.scrollIntoView({{ block: "nearest", behavior: still ? "auto" : "smooth" }});
    setTimeout(bring, 400);
  }};
  setTimeout(bring, 200);
}})();
</script>"""


def question_comes(step: str) -> None:
    """Have a narrow screen scroll to the question that a step asks from now on."""
    st.session_state[_COMES] = step


def show_question_that_comes() -> None:
    """Scroll to a question that has just come, once."""
    step = st.session_state.pop(_COMES, "")
    script = _TO_THE_QUESTION.format(turn=step) if step else "<span></span>"
    st.html(script, unsafe_allow_javascript=True, width="content")


def show_focus() -> None:
    turn, selector = st.session_state.get(FOCUS, (0, ""))
    # Where nothing was pressed yet, the page begins where the browser begins it.
    st.html(
        _TO_FOCUS.format(turn=turn, selector=selector) if turn else "<span></span>",
        unsafe_allow_javascript=True,
        width="content",
    )
