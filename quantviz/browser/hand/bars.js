// The labels at the ends of the colour bars of the codes and of the error: `_bar` of `panel_painter.py` gives
// the same.

import { significant, textWidth } from "../panels/numbers.js";
import { filled } from "../ruler/figures.js";
import { shownIn } from "./live_cells.js";

// How many times as far as its held colours an error reaches at least to leave them.
const LEAST_BEYOND = 1.005;
// What plotly drew of the labels that are written over.
const DRAWN_ENDS = new WeakMap();

// Write the labels of the live cells; without these bring back what plotly drew.
export function writeBars({ gd, meta, live }, panels) {
  for (const name of ["q", "error"]) {
    const index = meta?.panels.indexOf(name) ?? 0;
    const ends = gd.querySelectorAll(`.cbcoloraxis${index ? index + 1 : ""} .cbaxis text`);
    const panel = panels.find((each) => each.name === name);
    if (ends.length !== 2) continue;
    for (const end of ends)
      if (!DRAWN_ENDS.has(end)) DRAWN_ENDS.set(end, [end.textContent, end.getAttribute("transform")]);
    const size = parseFloat(ends[0].style.fontSize);
    const labels = live && panel && labelsOf(live, meta.held, name, panel.width, size);
    ends.forEach((end, i) => {
      const [text, place] = labels ? [labels[i], endAt(panel, labels[i], i, size)] : DRAWN_ENDS.get(end);
      if (end.textContent !== text) end.textContent = text;
      end.setAttribute("transform", place);
    });
  }
}

// Plotly centres its labels: they stand where they begin and end with the bar, which has whole pixels.
function endAt({ left, width }, label, last, size) {
  const half = textWidth(label, size) / 2;
  return `translate(${last ? left + Math.round(width) - half : left + half},0)`;
}

// The two labels; null where they stay as they are.
function labelsOf(live, held, name, width, size) {
  const { writing, scales } = live;
  if (name === "q") return [scales.q.lo, scales.q.hi].map((end) => significant(end, 3, writing));
  if (!held) return null;
  const [first, last] = held.ends;
  const reach = shownIn(live, "error").reduce((most, each) => Math.max(most, Math.abs(each) || 0), 0);
  const times = scales.error.hi ? reach / scales.error.hi : 1;
  const beyond = times >= LEAST_BEYOND ? ["left", "left_short"] : [];
  const remarks = [...beyond, "held"].map((key) =>
    filled(held.remarks[key], { times: significant(times, 2, writing) }),
  );
  const fitting = remarks.find((remark) => textWidth(`${first} ${remark}  ${last}`, size) <= width);
  return [fitting ? `${first} ${fitting}` : first, last];
}
