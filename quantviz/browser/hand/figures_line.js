// The line of numbers above the panels while a hand moves something, as the server writes them.

import { significant } from "../panels/numbers.js";

// A share as a percentage: 0 % and 100 % only where it is exactly that. A part's may lie below 0 or above 1.
export function percentage(share, writing) {
  const percent = 100 * Math.abs(share);
  if (Number.isNaN(percent)) return writing.none;
  const sign = share <= -0.001 ? writing.minus : "";
  if (percent > 0 && percent < 0.1) return `${sign}< 0.1 %`;
  if (percent > 99.9 && percent < 100) return `${sign}> 99.9 %`;
  return `${sign}${significant(percent, 3, writing)} %`;
}

function figure(value, digits, writing) {
  return Number.isNaN(value) ? writing.none : significant(value, digits, writing);
}

// The text of each number by its key: the server's `metric_texts` gives the same.
export function figuresOf(metrics, variant, writing) {
  return {
    mse: figure(metrics.mse, 4, writing),
    sqnr: `${figure(metrics.sqnr_db, 3, writing)} dB`,
    zeroed: percentage(metrics.zeroed_share, writing),
    clipped: percentage(metrics.clipped_share, writing),
    bits: variant.bits_text,
  };
}

// Write texts by their keys into the page where there is a place for them.
export function writeFigures(texts) {
  for (const place of document.querySelectorAll("[data-qv-metric]")) {
    const text = texts[place.dataset.qvMetric];
    const node = place.firstChild;
    // Another text in the same node: who watches the page for new elements need not look.
    if (text !== undefined && node && node.nodeValue !== text) node.nodeValue = text;
  }
}
