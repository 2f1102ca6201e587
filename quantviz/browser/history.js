// One entry of the browser's history for each thing that a person did, so that one press of Back undoes it. Streamlit
// adds an entry with each change of the address: one for the page that is left, whose parameters it drops, one or two for
// the page that is gone to, and one when the app has written that page's own parameters.
if (!window.__quantvizHistory) {
  window.__quantvizHistory = true;
  let acted = false;
  for (const name of ["pointerdown", "click", "keydown"])
    window.addEventListener(name, () => (acted = true), { capture: true, passive: true });
  window.addEventListener("popstate", () => (acted = false), { capture: true });
  const { pushState, replaceState } = window.history;
  window.history.pushState = function (state, title, address) {
    const [now, next] = [window.location, new URL(address, window.location.href)];
    // No page of this app is without parameters: it is about to be left, and Back is to find it as it was.
    if (next.pathname === now.pathname && now.search && !next.search) return;
    const how = acted ? pushState : replaceState;
    acted = false;
    how.call(this, state, title, address);
  };
}
