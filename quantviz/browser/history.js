// Keep one entry of the browser's history for each action, so that Back undoes one action. Streamlit adds an
// entry with each change of the address: one for the page left, without its parameters, one or two for the
// new page, and one when the app has written the new page's parameters.
if (!window.__quantvizHistory) {
  window.__quantvizHistory = true;
  let acted = false;
  for (const name of ["pointerdown", "click", "keydown"])
    window.addEventListener(name, () => (acted = true), { capture: true, passive: true });
  window.addEventListener("popstate", () => (acted = false), { capture: true });
  const { pushState, replaceState } = window.history;
  window.history.pushState = function (state, title, address) {
    const [now, next] = [window.location, new URL(address, window.location.href)];
    // Every page of this app has parameters: dropping them means the page is being left. Keep its entry as it
    // was.
    if (next.pathname === now.pathname && now.search && !next.search) return;
    const how = acted ? pushState : replaceState;
    acted = false;
    how.call(this, state, title, address);
  };
}
