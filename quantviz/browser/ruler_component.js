// The ruler as a component of a page: it shows the picture that the server sent, and tells what a hand moved.
//
// Python joins this file and what it imports into one: see `__init__.py`.

import { bitsStyle } from "./page/format_bits.js";
import { lasting } from "./page/component.js";
import { nearestLevel } from "./ruler/comb.js";
import { areEqual } from "./ruler/glide.js";
import { Ruler } from "./ruler/ruler.js";

// The part of the axis in whose middle x stays without a new axis.
const INNER = 0.8;

class RulerOfPage {
  constructor(host) {
    this.host = host;
    // Outside of the component, for the buttons of the page.
    this.style = host.ownerDocument.createElement("style");
  }

  // An answer to an earlier move than the last says what the hand has left since.
  update({ settings, picture, moved }, send) {
    if (!(moved >= this.heard)) this.count = moved; // at first, and of another session
    Object.assign(this, { send, heard: moved });
    if (moved < this.count) return;
    const look = JSON.stringify(settings);
    if (look !== this.look) this.dress(settings, picture.handles);
    this.look = look;
    this.show(picture);
  }

  dress(settings, handles) {
    this.ruler?.close();
    const on = {
      move: (message) => this.move(message),
      release: (message) => this.send("moved", { ...message, count: (this.count += 1) }),
    };
    this.ruler = new Ruler(this.host, settings, Object.values(handles).some(Boolean) ? on : {});
  }

  // What the server sent.
  show(picture) {
    this.picture = onSameAxis(picture, this.picture);
    this.style.remove();
    this.ruler.show(this.picture, true);
  }

  // Of a single value the browser knows itself where it lands; all else is the server's to answer.
  move({ kind, value }) {
    const { picture, ruler, style } = this;
    if (kind !== "value" || !picture.single) return;
    const moved = withValue(picture, value);
    ruler.show(moved);
    if (moved === picture) return style.remove();
    const rules = bitsStyle(picture.single.bits[nearestLevel(moved.levels, moved.landed[0])]);
    if (style.textContent !== rules) style.textContent = rules;
    if (!style.isConnected) ruler.host.ownerDocument.head.append(style);
  }

  close() {
    this.style.remove();
    this.ruler?.close();
  }
}

// A ruler of one value alone: the picture with its value at `value`, landed on the nearest level; `picture`
// itself where nothing moved.
function withValue(picture, value) {
  if (value === picture.values[0]) return picture;
  const [low, high] = picture.single.held;
  const clipped = value < low || value > high;
  return {
    ...picture,
    values: Float64Array.of(value),
    landed: Float64Array.of(picture.levels[nearestLevel(picture.levels, value)]),
    clipped: Uint8Array.of(clipped ? 1 : 0),
  };
}

// The new picture on the axis of the one before it, where that still shows x well.
function onSameAxis(picture, before) {
  if (!picture.single?.part || !before?.single?.part || !areEqual(picture.levels, before.levels))
    return picture;
  const [lo, hi] = before.domain;
  const margin = ((1 - INNER) / 2) * (hi - lo);
  const x = picture.values[0];
  return x >= lo + margin && x <= hi - margin ? { ...picture, domain: before.domain } : picture;
}

export default lasting(RulerOfPage);
