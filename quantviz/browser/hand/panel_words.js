// The words at the panels while a hand moves something: the title of the codes, the scales at their edges,
// the label of the error's colours. The server writes the same in `panel_painter.py`.

import { significant, textWidth } from "../panels/numbers.js";
import { filled } from "../ruler/figures.js";
import { shownIn } from "./live_cells.js";

// ---- the title of the codes: `panel_title` of `panel_painter.py` -----------------------------------------

// How much wider a bold text is.
const BOLD = 1.06;
// With so many blocks their scales are not written at an edge.
const MOST_EDGE_SCALES = 16;

// The room of the title and of scales at the edges, of what the server says in the chart's `meta`: the sizes
// of type, the smallest only for titles on a wall. null where the codes are not shown.
export function roomOf({ room, least_digit: least, arrangement }) {
  if (!room) return null;
  const { sizes, across, gap } = room;
  return {
    ...room,
    room: across + gap / 2,
    sizes: least ? sizes : sizes.slice(0, 2),
    beside: arrangement === "row" ? gap : 0,
    edge_sizes: sizes.slice(1).filter((size) => size >= (least ?? 0)),
  };
}

// The title and its size; `room` is what the server says of the title's place. null where the title has no
// words of the scheme.
export function titleOf(live, variant, { titles, pooled, pooled_what: kinds }, room) {
  if (room.plain) return null;
  const what = variant.kind === "integer" ? "q" : "value";
  const { format_words: format } = variant;
  if (live.how) {
    const [rows, cols] = [widest(live.row_edges), widest(live.col_edges)];
    const found = live.sent.x_at ? "_found" : "";
    const words = filled(kinds[what], { format });
    return fitted(filled(pooled[live.how + found], { what: words, rows, cols }), room);
  }
  const { edge } = live;
  const template = titles[edge ? `${what}_${edge.side}` : what];
  return fitted(filled(template, { format, scale: edge?.labels[0] }), room);
}

function widest(edges) {
  return Math.max(...[...edges.keys()].slice(1).map((i) => edges[i] - edges[i - 1]));
}

// The largest size in which a title fits its room, or fewer words of it.
function fitted(title, { room, sizes }) {
  const size = sizes.find((each) => BOLD * textWidth(title, each) <= room) ?? sizes.at(-1);
  let letters = [...title];
  while (letters.length > 1 && BOLD * textWidth(letters.join(""), size) > room) {
    while (letters.at(-1) === "…") letters.pop();
    letters = [...letters.slice(0, -1), "…"];
  }
  return { text: letters.join(""), size };
}

// The scales to write at the edge of the codes: which edge, where, how large; null where blocks are many, lie
// in both directions, or have no room.
export function edgeScales({ rows, cols, top, left, blockOf, scale, writing }, room) {
  if (!blockOf || !scale) return null;
  const down = bordersAlong(rows, cols, (line, across) => blockOf[line * cols + across]);
  const across = bordersAlong(cols, rows, (line, along) => blockOf[along * cols + line]);
  if ((down.length && across.length) || Math.max(down.length, across.length) >= MOST_EDGE_SCALES) return null;
  const side = sideWith(down, across);
  const starts = [0, ...(down.length ? down : across)];
  const [first, count, by] = down.length ? [top, rows, cols] : [left, cols, 1];
  const digits = side === "title" ? 4 : 2;
  const labels = starts.map((start) => significant(scale[start * by], digits, writing));
  const places = starts.map((start, i) => first + (start + (starts[i + 1] ?? count) - 1) / 2);
  if (side === "title") return { side, labels, places };
  const size = edgeSize(side, labels, room);
  return size ? { side, labels, places, size } : null;
}

function sideWith(down, across) {
  if (down.length) return "right";
  return across.length ? "bottom" : "title";
}

// The lines after the first that begin another block anywhere.
function bordersAlong(count, length, blockAt) {
  const borders = [];
  for (let line = 1; line < count; line++)
    for (let along = 0; along < length; along++)
      if (blockAt(line, along) !== blockAt(line - 1, along)) {
        borders.push(line);
        break;
      }
  return borders;
}

// The size of scales at an edge; undefined where there is no room for them.
function edgeSize(side, labels, { across, down, beside, edge_sizes: sizes }) {
  const width = side === "bottom" ? across / labels.length : beside;
  const height = side === "bottom" ? Infinity : down / labels.length;
  const fits = (size) => Math.max(...labels.map((label) => textWidth(label, size))) <= width - 3;
  return sizes.find((size) => fits(size) && size <= height);
}

// ---- the label at the low end of the error's colour bar: `_bar` of `panel_painter.py` --------------------

// An error that reaches at least so many times as far as its held colours leaves them.
const LEAST_BEYOND = 1.005;

// The labels of both ends of the error's colours, each with its width; `reach` is what the server says of the
// bar.
export function labelsOfErrors(live, reach, words, writing) {
  if (!reach.follows) return [labelOfHeld(shownIn(live, "error"), reach, words, writing), null];
  const { lo, hi } = live.scales.error;
  const [factor, unit] = reach.unit;
  const labels = [lo, hi].map((end) => {
    const number = significant(end * factor, 3, writing);
    return end ? filled(unit, { number }) : number;
  });
  const remark = `${labels[0]} ${words.bar[reach.follows]}`;
  if (textWidth(`${remark}  ${labels[1]}`, reach.size) <= reach.width) labels[0] = remark;
  return labels.map((text) => ({ text, width: textWidth(text, reach.size) }));
}

// The lower one, with how far the errors leave their held colours.
function labelOfHeld(errors, { end, labels: [first, last], size, width }, { bar }, writing) {
  const furthest = errors.reduce((most, error) => (Math.abs(error) > most ? Math.abs(error) : most), 0);
  const times = furthest / end;
  const left = times >= LEAST_BEYOND ? [bar.left, bar.left_short] : [];
  const remarks = [...left, bar.held].map((each) => filled(each, { times: significant(times, 2, writing) }));
  const remark = remarks.find((each) => textWidth(`${first} ${each}  ${last}`, size) <= width);
  const text = remark ? `${first} ${remark}` : first;
  return { text, width: textWidth(text, size) };
}
