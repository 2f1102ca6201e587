// Say that the connection to the server is lost, for as long as it is: what is touched then would wait without
// a word. Streamlit tells the state of its connection on the app's element.
const LOST = "qv-connection-lost";
// Milliseconds that a page may be without a connection, as while it opens or after a hiccup.
const PATIENCE = 1500;

function tellConnection(words) {
  window.__quantvizConnection ??= watchConnection();
  window.__quantvizConnection.words = words;
  window.__quantvizConnection.look();
}

function watchConnection() {
  const watch = { words: "", look: null };
  let since = null;
  watch.look = () => {
    const app = document.querySelector("[data-testid=stApp]");
    const state = app?.getAttribute("data-test-connection-state") ?? "CONNECTED";
    const connected = state === "CONNECTED" && navigator.onLine;
    since = connected ? null : (since ?? performance.now());
    const lost = since !== null && performance.now() - since >= PATIENCE;
    show(lost ? watch.words : "");
    if (since !== null && !lost) setTimeout(watch.look, PATIENCE);
  };
  const filter = { attributes: true, subtree: true, attributeFilter: ["data-test-connection-state"] };
  new MutationObserver(watch.look).observe(document.body, filter);
  for (const event of ["online", "offline"]) window.addEventListener(event, watch.look);
  return watch;
}

// The place for the words stays, so that a screen reader is told of what comes into it.
function show(words) {
  let place = document.querySelector(`.${LOST}`);
  if (!place) {
    place = document.body.appendChild(document.createElement("div"));
    place.className = LOST;
    place.setAttribute("role", "status");
  }
  if (place.textContent !== words) place.textContent = words;
}
