// Below 1024 px the sidebar is closed at first: beside it there would be no room for the page. On phones
// Streamlit does so by itself, and by the time that this runs a person may have opened it. Who opens it keeps
// it open.
{
  const [PHONE, NARROW] = [768, 1024];
  const closed = (window.__quantvizSidebar ??= { done: innerWidth <= PHONE || innerWidth >= NARROW });
  const close = () => {
    const sidebar = document.querySelector("[data-testid=stSidebar]");
    if (!sidebar) return false;
    if (sidebar.dataset.collapsed === "true") return true;
    const button = sidebar.querySelector("[data-testid=stSidebarCollapseButton] button");
    button?.click();
    return Boolean(button);
  };
  if (!closed.done && !(closed.done = close())) {
    const watcher = new MutationObserver(() => {
      if (closed.done || (closed.done = close())) watcher.disconnect();
    });
    watcher.observe(document.body, { childList: true, subtree: true });
  }
}
