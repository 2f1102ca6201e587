// The numbers of a layer above its picture, and those of its selected output, as the server writes them.

import { percentage } from "../hand/figures_line.js";
import { plainNumber, significant } from "../panels/numbers.js";
import { filled } from "../ruler/figures.js";

export function writeLayerNumbers({ used, heldBack, shares, weightDb, cell }, words, writing) {
  const decibels = (value) => `${significant(value, 3, writing)} dB`;
  const texts = {
    rel_out: percent(heldBack, writing),
    output_db: decibels(heldBack ? -10 * Math.log10(heldBack) : Infinity),
    weight_db: decibels(weightDb),
    ...Object.fromEntries(
      Object.entries(shares).map(([part, share]) => [`part_${part}`, percentage(share, writing)]),
    ),
  };
  for (const [name, text] of Object.entries(texts)) write(`[data-qv-layer=${name}] b`, text);
  write("[data-qv-layer=rel_out] small", filled(words.used, { used: percent(used, writing) }));
  const [y, y_hat] = [significant(cell.y, 4, writing), significant(cell.y_hat, 4, writing)];
  const error = plainNumber(cell.error, 3, writing, "+");
  write(".qv-values b", filled(words.values, { y, y_hat, error }));
}

// The output error alone, of a larger layer.
export function writeHeldError(heldBack, writing) {
  write("[data-qv-layer=rel_out] b", percent(heldBack, writing));
}

function write(place, text) {
  const node = document.querySelector(place);
  if (node && node.textContent !== text) node.textContent = text;
}

// `percent` of Python: an error as a share of the outputs, to three digits.
export function percent(value, writing) {
  if (!Number.isFinite(value)) return writing.infinite;
  if (value < 1e-6) return `${(100 * value).toFixed(7).replace(/\.?0+$/, "")} %`;
  const places = Math.max(0, 2 - Math.floor(Math.log10(100 * value)));
  return `${(100 * value).toFixed(places)} %`;
}
