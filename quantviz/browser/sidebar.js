// Below 1024 px the sidebar is closed at first: beside it there would be no room for the page. On phones
// Streamlit does so by itself, and by the time that this runs a person may have opened it. Who opens it keeps
// it open. `sidebar_room.css` hides it until it is closed.
//
// On a phone it lies over the page: what is chosen in it closes it, as Streamlit does after a page's link.
{
  const [PHONE, NARROW] = [768, 1024];
  // Milliseconds between two looks whether it is closed, and the number of looks.
  const [OFTEN, LOOKS] = [50, 100];
  const closed = (window.__quantvizSidebar ??= { done: innerWidth <= PHONE || innerWidth >= NARROW });
  const CHOSEN = { click: ".st-key-lesson_contents button", change: "[class*=st-key-drop_] input" };
  const close = () => {
    const sidebar = document.querySelector("[data-testid=stSidebar]");
    if (!sidebar) return false;
    if (sidebar.dataset.collapsed === "true") return true;
    const button = sidebar.querySelector("[data-testid=stSidebarCollapseButton] button");
    button?.click();
    return Boolean(button);
  };
  for (const [event, chosen] of closed.hears ? [] : Object.entries(CHOSEN))
    document.addEventListener(event, ({ target }) => {
      if (innerWidth <= PHONE && target.closest?.(chosen)) setTimeout(close);
    });
  closed.hears = true;
  const show = () => (document.documentElement.dataset.qvSidebar = "");
  // Streamlit moves it away for a while.
  const showClosed = (looks) => {
    if (!looks || !document.querySelector("[data-testid=stSidebar]")?.offsetWidth) return show();
    setTimeout(() => showClosed(looks - 1), OFTEN);
  };
  const closes = () => {
    if (!closed.done && (closed.done = close())) showClosed(LOOKS);
    return closed.done;
  };
  if (closed.done) show();
  else if (!closes()) {
    const watcher = new MutationObserver(() => closes() && watcher.disconnect());
    watcher.observe(document.body, { childList: true, subtree: true });
  }
}
