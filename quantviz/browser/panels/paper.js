// Printing the page on paper.

import { SHARED } from "../page/tables.js";

// Width of a printed page in CSS pixels: A4 less its margins. A wider figure is printed smaller; it would be
// cut otherwise.
const PAPER = 690;

// Listen for printing, once a page.
export function fitChartsOnPaper() {
  if (SHARED.printing) return;
  SHARED.printing = true;
  const charts = () => document.querySelectorAll(".stPlotlyChart");
  window.addEventListener("beforeprint", () => {
    for (const chart of charts()) {
      const width = chart.clientWidth;
      // Without a fixed width plotly would redraw the chart for the paper, and finish too late.
      Object.assign(chart.style, { width: `${width}px`, zoom: String(Math.min(1, PAPER / width)) });
    }
  });
  window.addEventListener("afterprint", () => {
    for (const chart of charts()) Object.assign(chart.style, { width: "", zoom: "" });
  });
}
