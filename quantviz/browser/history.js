// Keep one entry of the browser's history for each action, so that Back undoes one action. Streamlit adds an
// entry with each change of the address: one for the page left, without its parameters, one or two for the
// new page, and one when the app has written the new page's parameters.
//
// The Lab is told that the address is one gone back or forward to: its controls are often faster than the
// address, so that an older one says nothing by itself (`session.follow_history`).
if (!window.__quantvizHistory) {
  window.__quantvizHistory = true;
  let acted = false;
  for (const name of ["pointerdown", "click", "keydown"])
    window.addEventListener(name, () => (acted = true), { capture: true, passive: true });
  const { pushState, replaceState } = window.history;
  window.addEventListener(
    "popstate",
    ({ state }) => {
      acted = false;
      const address = new URL(window.location.href);
      const told = address.searchParams.has("went");
      if (!address.pathname.endsWith("/lab") || !address.search || told) return;
      address.searchParams.set("went", "1");
      replaceState.call(window.history, state, "", address);
      // Streamlit listens for longer and has sent the address as it was: it sends this one after it.
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
}
