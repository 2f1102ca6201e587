// While the connection to the server is lost, say so, and keep what components have to say until it is back.
// Streamlit tells the state of its connection on the app's element. The sentence is `__quantvizLost`.
//
// From a click on a link to another page until that page is there, what components of this one say is not
// sent: it names this page, and Streamlit would come back to it, or show none.
window.__quantvizConnection ??= (() => {
  // Milliseconds that a page may be without a connection without a word, as while it opens.
  const PATIENCE = 1500;
  // Milliseconds between two looks at a connection that is back, and after which a run does not come any more.
  const BETWEEN_LOOKS = 200;
  const RUN_COMES = 3000;
  // Milliseconds after which a page that was asked for does not come any more.
  const LONGEST = 5000;
  const LINKS = ["stPageLink-NavLink", "stSidebarNavLink"].map((id) => `a[data-testid=${id}]`).join();
  const waiting = new Map();
  let lost = null;
  let left = null;
  // Whether the page has still to catch up; whether a run has come since it told the server something, and when
  // that was.
  let isBehind = false;
  let ran = false;
  let told = 0;
  let said = 0;

  const app = () => document.querySelector("[data-testid=stApp]");

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
    said += 1;
    if (lost === null && !isBehind) tell();
    else waiting.set(name, tell);
  };

  // How much components have said; null while some of it waits.
  const heard = () => (waiting.size ? null : said);

  const look = () => {
    const { testConnectionState: state = "CONNECTED", testScriptState } = app()?.dataset ?? {};
    if (testScriptState !== "notRunning") ran = true;
    if (state === "CONNECTED" || state === "STATIC_CONNECTED") {
      const isBack = lost !== null;
      lost = null;
      if (isBack) catchUp();
      return show("");
    }
    if (lost === null) setTimeout(look, PATIENCE);
    lost ??= performance.now();
    if (performance.now() - lost >= PATIENCE - 1) show(window.__quantvizLost);
  };

  // A server that was started anew hears nothing of a page before a run of it: the first message makes one, and
  // is then sent again. After it goes one at a time, in the order of the hand.
  const catchUp = () => {
    isBehind = waiting.size > 0;
    if (isBehind) send([...waiting.values()][0]);
  };

  const send = (tell) => {
    ran = false;
    told = performance.now();
    setTimeout(goOn, BETWEEN_LOOKS);
    tell();
  };

  const goOn = () => {
    if (lost !== null) return;
    const isOver = ran
      ? app().dataset.testScriptState === "notRunning"
      : performance.now() - told > RUN_COMES;
    const [next] = waiting;
    if (!isOver) setTimeout(goOn, BETWEEN_LOOKS);
    else if (next) {
      waiting.delete(next[0]);
      send(next[1]);
    } else isBehind = false;
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

  // Streamlit's own dialog on a lost connection, which the style hides, would make the page deaf to every hand.
  const dismiss = () =>
    lost !== null && document.querySelector(".stDialog [role=dialog] > button[aria-label=Close]")?.click();

  const attributeFilter = ["data-test-connection-state", "data-test-script-state"];
  document.addEventListener("click", leave, { capture: true });
  new MutationObserver(dismiss).observe(document.body, { childList: true });
  new MutationObserver(look).observe(document.body, { attributes: true, subtree: true, attributeFilter });
  return { look, say, heard };
})();
window.__quantvizConnection.look();
