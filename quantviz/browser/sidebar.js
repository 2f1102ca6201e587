// Below 1024 px the sidebar is closed at first: beside it there would be no room for the page. On phones
// Streamlit does so by itself, and by the time that this runs a person may have opened it. Who opens it keeps
// it open. `sidebar_room.css` hides it until it is closed.
{
  const [PHONE, NARROW] = [768, 1024];
  // Milliseconds between two looks whether it is closed, and the number of looks.
  const [OFTEN, LOOKS] = [50, 100];
  const closed = (window.__quantvizSidebar ??= { done: innerWidth <= PHONE || innerWidth >= NARROW });
  const close = () => {
    const sidebar = document.querySelector("[data-testid=stSidebar]");
    if (!sidebar) return false;
    if (sidebar.dataset.collapsed === "true") return true;
    const button = sidebar.querySelector("[data-testid=stSidebarCollapseButton] button");
    button?.click();
    return Boolean(button);
  };
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
