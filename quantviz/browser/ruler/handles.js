// What can be moved on a ruler: each handle with its place, its limits and the message that a move sends.

import { significant } from "../panels/numbers.js";
import { filled, powerOfTen, toUnit, writtenAmong } from "./figures.js";
import { teethLimits } from "./limits.js";
import { MOST_TEETH } from "./places.js";
import { endSnaps, snapped, valueSnaps } from "./snapping.js";

// Handles of a picture as it was painted: `marks` are the painter's, `hand` what a hand holds.
export function handlesOf(picture, axis, bands, marks, words, writing, hand) {
  const { handles, range, levels, selected, values, codes } = picture;
  // While the zero point's tooth is dragged, another one comes to stand at 0.
  const zero = hand?.id === "zero" ? hand.handle.index : picture.zero;
  const unit = powerOfTen(1 / axis.perValue);
  const step = powerOfTen((axis.hi - axis.lo) / 50);
  const asked = picture.mark?.asked;
  const found = asked ? [markHandle(picture, axis, bands, marks, words, writing, unit, step)] : [];
  // Of a mark on the axis the sliders tell nothing: they are free.
  const sliders = asked && picture.mark.on !== "axis" ? [] : ["bits", "group"];
  const written = (value) => significant(value, 4, writing);
  const add = (id, value, limits, box, label, told, more) =>
    found.push({ id, kind: id.split(":")[0], value, unit, step, ...limits, box, label, told, ...more });
  const inView = teethLimits(picture, axis, unit, zero);
  const column = (x) => ({ x, y: marks.knobs, left: x - bands.reach / 2, width: bands.reach });
  if (handles.range && range) {
    const whole = { top: bands.top, height: bands.height - bands.top };
    const lo = {
      least: Math.min(inView.lo, range.lo),
      most: (picture.symmetric ? Math.min(range.hi, 0) : range.hi) - unit,
    };
    const hi = {
      least: (picture.symmetric ? Math.max(range.lo, 0) : range.lo) + unit,
      most: Math.max(inView.hi, range.hi),
    };
    for (const [end, limits] of Object.entries({ lo, hi })) {
      const box = { ...column(axis.inside(range[end])), ...whole };
      const told = writtenAmong(range[end], step * 10, writing);
      add(end, range[end], limits, box, words[end], told, { snaps: endSnaps(picture) });
    }
  }
  const comb = { top: bands.foot - Math.max(bands.reach, bands.foot - bands.tips), height: bands.foot };
  comb.height -= comb.top;
  for (const { i, x } of marks.teeth) {
    const told = filled(words.tooth_at, { code: codes[i], value: written(levels[i]) });
    const box = { ...comb, ...column(x), y: bands.line };
    if (i === zero && handles.zero) {
      const gap =
        levels.length > 1 ? Math.abs(levels[i + 1 < levels.length ? i + 1 : i - 1] - levels[i]) : step;
      const limits = { ...inView.zero, step: gap };
      add("zero", levels[i], limits, box, words.zero, told, { index: i, code: true });
    } else if (i !== zero && handles.tooth && levels[i] && levels.length <= 4 * MOST_TEETH) {
      const end = inView.tooth(levels[i]);
      const limits = levels[i] > 0 ? { least: unit, most: end } : { least: end, most: -unit };
      const name = filled(words.tooth, { code: codes[i] });
      add(`tooth:${i}`, levels[i], limits, box, name, told, { index: i, code: true });
    }
  }
  if (handles.value && selected >= 0 && marks.dot) {
    const { x, y } = marks.dot;
    const half = bands.reach / 2;
    const box = { x, y, left: x - half, top: y - half, width: 2 * half, height: 2 * half };
    const beyond = Boolean(picture.outlier);
    const more = { index: selected, snaps: valueSnaps(picture), beyond };
    const limits = beyond ? { least: axis.lo - axis.farther, most: axis.hi + axis.farther } : inView.value;
    add("value", values[selected], limits, box, words.value, written(values[selected]), more);
  }
  for (const name of sliders) {
    if (!handles[name]) continue;
    const slider = sliderOf(handles[name], marks.sliders[name], bands);
    found.push({ id: name, kind: name, label: words[name], ...slider });
  }
  return found;
}

// All of the ruler, or of a slider: wherever a hand taps it sets the mark.
function markHandle({ mark, handles }, axis, bands, marks, words, writing, unit, step) {
  const shared = { id: "mark", kind: "mark", label: words.mark_here };
  if (mark.on === "axis") {
    const value = toUnit((axis.lo + axis.hi) / 2, unit);
    const box = { x: axis.at(value), y: bands.tips, left: 0, top: bands.top };
    Object.assign(box, { width: axis.left + axis.right, height: bands.height - bands.top });
    const told = significant(value, 4, writing);
    return { ...shared, value, unit, step, least: axis.lo, most: axis.hi, box, told };
  }
  return { ...shared, ...sliderOf(handles[mark.on], marks.sliders[mark.on], bands) };
}

// The place and the stops of a slider.
function sliderOf({ at, labels }, { from, to, x, y }, bands) {
  const box = { x, y, left: from - 12, top: 0, width: to - from + 24, height: bands.slider, from, to };
  const places = labels.length;
  return { value: at, least: 0, most: places - 1, unit: 1, step: 1, box, told: labels[at], places };
}

// The handle that a press at `x`, `y` is meant for: of those whose target it hits the nearest.
export function handleAt(handles, x, y, bands) {
  let best = null;
  for (const handle of handles) {
    const { left, top, width, height } = handle.box;
    if (x < left || x > left + width || y < top || y > top + height) continue;
    const inComb = y > bands.tips && y < bands.foot;
    let away = Math.abs(x - handle.box.x);
    // A bracket crosses the comb, whose teeth come first there; above it the knob and the dot are points.
    if (handle.kind === "lo" || handle.kind === "hi") away += inComb ? 8 : 0;
    else if (handle.kind === "value") away = Math.hypot(away, y - handle.box.y);
    else if (handle.kind === "bits" || handle.kind === "group") away = 0;
    else away += inComb ? 0 : 12;
    if (!best || away < best.away) best = { handle, away };
  }
  return best?.handle ?? null;
}

// The value of a handle that a hand has brought to `x`.
export function valueAt(handle, x, axis) {
  if (handle.places) {
    const { from, to } = handle.box;
    return withinLimits(handle, Math.round(((x - from) / (to - from)) * (handle.places - 1)));
  }
  const value = handle.beyond ? axis.valueBeyond(x) : axis.value(x);
  const near = snapped(value, handle.snaps, axis.perValue);
  return withinLimits(handle, near === value ? toUnit(value, handle.unit) : near);
}

// The value after a key, from the value `now`; undefined where the key moves nothing.
export function valueAfter(handle, now, key, shift) {
  const step = handle.step * (shift ? 10 : 1);
  const ways = { ArrowRight: step, ArrowUp: step, ArrowLeft: -step, ArrowDown: -step };
  if (key in ways) {
    const next = now + ways[key];
    return withinLimits(handle, handle.kind === "zero" ? next : toUnit(next, handle.unit));
  }
  if (key === "Home") return handle.least;
  if (key === "End") return handle.most;
  return undefined;
}

function withinLimits({ least, most }, value) {
  return Math.min(Math.max(value, least), Math.max(most, least));
}

// What is told to the owner when the handle is at `value`; `range` is the range before it was moved.
export function messageOf(handle, value, range, symmetric) {
  switch (handle.kind) {
    case "lo":
      return { kind: "range", lo: value, hi: symmetric ? -value : range.hi };
    case "hi":
      return { kind: "range", lo: symmetric ? -value : range.lo, hi: value };
    case "value":
      return { kind: "value", cell: handle.index, value };
    case "zero":
    case "tooth":
      return { kind: handle.kind, index: handle.index, value };
    default:
      return { kind: handle.kind, at: value };
  }
}

// The picture with what the hand holds, or has just let go, where `message` says; the owner may know of it
// later.
export function pictureInHand(picture, message) {
  if (!message) return picture;
  if (message.kind === "mark") return { ...picture, mark: { ...picture.mark, at: message.at } };
  if (message.kind === "range" && picture.range)
    return { ...picture, range: { lo: message.lo, hi: message.hi } };
  if (message.kind === "value" && picture.selected === message.cell) {
    if (picture.values[message.cell] === Math.fround(message.value)) return picture;
    const values = Float32Array.from(picture.values);
    values[message.cell] = message.value;
    return { ...picture, values };
  }
  const slider = picture.handles[message.kind];
  if (message.at !== undefined && slider)
    return {
      ...picture,
      handles: {
        ...picture.handles,
        [message.kind]: { ...slider, at: Math.min(message.at, slider.labels.length - 1) },
      },
    };
  return picture;
}
