// While the connection to the server is lost, say so, and keep what components have to say until it is back.
// Streamlit tells the state of its connection on the app's element. The sentence is `__quantvizLost`.
//
// From a click on a link to another page until that page is there, what components of this one say is not
// sent: it names this page, and Streamlit would come back to it, or show none.
window.__quantvizConnection ??= (() => {
  // Milliseconds that a page may be without a connection without a word, as while it opens.
  const PATIENCE = 1500;
  // Milliseconds after which a connection that is back has been greeted by the page.
  const GREETED = 400;
  // Milliseconds after which a page that was asked for does not come any more.
  const LONGEST = 5000;
  const LINKS = ["stPageLink-NavLink", "stSidebarNavLink"].map((id) => `a[data-testid=${id}]`).join();
  const waiting = new Map();
  let lost = null;
  let left = null;

  const leave = (event) => {
    const link = event.target.closest?.(LINKS);
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const { pathname } = window.location;
    if (new URL(link.href).pathname !== pathname) left = { pathname, at: performance.now() };
  };

  const isLeaving = () =>
    left !== null && left.pathname === window.location.pathname && performance.now() - left.at < LONGEST;

  // Only what was said last by a name counts: a hand has gone on.
  const say = (name, tell) => {
    waiting.delete(name);
    if (isLeaving()) return;
    if (lost === null) tell();
    else waiting.set(name, tell);
  };

  const look = () => {
    const app = document.querySelector("[data-testid=stApp]");
    const state = app?.getAttribute("data-test-connection-state") ?? "CONNECTED";
    if (state === "CONNECTED" || state === "STATIC_CONNECTED") {
      if (lost !== null) setTimeout(goOn, GREETED);
      lost = null;
      return show("");
    }
    if (lost === null) setTimeout(look, PATIENCE);
    lost ??= performance.now();
    if (performance.now() - lost >= PATIENCE - 1) show(window.__quantvizLost);
  };

  const goOn = () => {
    if (lost !== null) return;
    for (const tell of waiting.values()) tell();
    waiting.clear();
  };

  // The place for the words stays, so that a screen reader is told of what comes into it.
  const show = (words) => {
    let place = document.querySelector(".qv-connection-lost");
    if (!place) {
      place = document.body.appendChild(document.createElement("div"));
      place.className = "qv-connection-lost";
      place.setAttribute("role", "status");
    }
    if (place.textContent !== words) place.textContent = words;
    document.body.classList.toggle("qv-is-cut", words !== "");
  };

  const attributeFilter = ["data-test-connection-state"];
  document.addEventListener("click", leave, { capture: true });
  new MutationObserver(look).observe(document.body, { attributes: true, subtree: true, attributeFilter });
  return { look, say };
})();
window.__quantvizConnection.look();
