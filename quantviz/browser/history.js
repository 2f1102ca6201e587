// Keep one entry of the browser's history for each action, so that Back undoes one action. Streamlit adds an
// entry with each change of the address: one for the page left, without its parameters, one or two for the
// new page, and one when the app has written the new page's parameters.
//
// Ctrl+Z, and Ctrl+Shift+Z or Ctrl+Y (on a Mac ⌘Z and ⇧⌘Z) press a page's undo and redo, except where text is
// typed.
//
// Mark an address after Back or Forward with `went=1`. Without the mark the server cannot tell it from an
// address that is older than the last change of a control (`address.asked_for`).
if (!window.__quantvizHistory) {
  window.__quantvizHistory = true;
  let acted = false;
  for (const name of ["pointerdown", "click", "keydown", "drop"])
    window.addEventListener(name, () => (acted = true), { capture: true, passive: true });
  const { pushState, replaceState } = window.history;
  window.addEventListener(
    "popstate",
    ({ state }) => {
      acted = false;
      const address = new URL(window.location.href);
      if (!address.search || address.searchParams.has("went")) return;
      address.searchParams.set("went", "1");
      replaceState.call(window.history, state, "", address);
      // Streamlit's listener has run already and sent the address without the mark: have it send it again.
      window.dispatchEvent(new PopStateEvent("popstate", { state }));
    },
    { capture: true },
  );
  window.history.pushState = function (state, title, address) {
    const [now, next] = [window.location, new URL(address, window.location.href)];
    // Every page of this app has parameters: dropping them means the page is being left. Keep its entry as it
    // was.
    if (next.pathname === now.pathname && now.search && !next.search) return;
    const how = acted ? pushState : replaceState;
    acted = false;
    how.call(this, state, title, address);
  };

  // Where a person types text. A closed list only shows what was chosen.
  const typing = [
    "input:not([type=radio], [type=checkbox], [type=range])",
    "textarea",
    "[contenteditable=true]",
  ].join(", ");
  window.addEventListener("keydown", (event) => {
    const { ctrlKey, metaKey, shiftKey, altKey, target } = event;
    if (!(ctrlKey || metaKey) || altKey || event.defaultPrevented || target.closest?.(typing)) return;
    const key = event.key.toLowerCase();
    const isRedo = key === "z" ? shiftKey : key === "y" && !metaKey && !shiftKey;
    if (key !== "z" && !isRedo) return;
    const name = isRedo ? "redo" : "undo";
    const button = document.querySelector(`:is(.st-key-${name}, [data-field=${name}]) button`);
    if (!button) return;
    event.preventDefault();
    // What it can do is as of the last run, and a hand may have gone on: the server knows whether there is a step.
    button.disabled = false;
    button.click();
  });
}
