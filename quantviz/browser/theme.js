// Figures have the colours of the server's last run: have it run again when the system turns dark or light.
if (!window.__quantvizTheme) {
  window.__quantvizTheme = true;
  // Milliseconds after which Streamlit has the new theme and sends it with a run.
  const KNOWN = 100;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let drawn = dark.matches;
  const draw = () => {
    // A printer's paper is light for a moment.
    if (dark.matches === drawn) return;
    drawn = dark.matches;
    dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
  };
  dark.addEventListener("change", () => setTimeout(draw, KNOWN));
}
