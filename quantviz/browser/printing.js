// Print the page on paper: plots as wide as it, and light.
window.__quantvizPrinting ??= (() => {
  // Width of a printed page in CSS pixels: A4 less its margins. A wider figure is printed smaller; it would
  // be cut otherwise.
  const PAPER = 690;
  // How a picture on a dark page is printed on white paper: light for dark, in the same hues. Ink turns too.
  const NEGATIVE = [
    ["--qv-printed", "invert(1) hue-rotate(180deg)"],
    ["--qv-printed-ink", "#ffffff"],
    ["--qv-printed-plate", "#000000"],
  ];
  const charts = () => [...document.querySelectorAll(".stPlotlyChart")];

  // Whether a colour that the browser has computed, "rgb(16, 22, 28)", is nearer to black than to white.
  const isDark = (colour) => {
    const channels = colour
      .match(/[\d.]+/g)
      .slice(0, 3)
      .map(Number);
    return channels.length === 3 && channels.every((channel) => channel < 128);
  };

  // The width on paper of a chart: beside others it has its share.
  const roomOf = (chart) => {
    const row = chart.closest("[data-testid=stColumn]")?.parentElement;
    return row ? (PAPER * chart.clientWidth) / row.clientWidth : PAPER;
  };

  window.addEventListener("beforeprint", () => {
    const page = document.querySelector("[data-testid=stApp]") ?? document.body;
    if (isDark(getComputedStyle(page).backgroundColor))
      for (const [name, value] of NEGATIVE) document.documentElement.style.setProperty(name, value);
    const sizes = charts().map((chart) => [chart, chart.clientWidth, roomOf(chart)]);
    for (const [chart, width, room] of sizes) {
      // Without a fixed width plotly would redraw the chart for the paper, and finish too late.
      Object.assign(chart.style, { width: `${width}px`, zoom: String(Math.min(1, room / width)) });
    }
  });
  window.addEventListener("afterprint", () => {
    for (const [name] of NEGATIVE) document.documentElement.style.removeProperty(name);
    for (const chart of charts()) Object.assign(chart.style, { width: "", zoom: "" });
  });
  return true;
})();
