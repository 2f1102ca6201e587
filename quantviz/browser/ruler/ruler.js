// The living ruler: a block's values as dots over a comb of codes, each joined to its tooth by its error,
// with handles for what a hand may move. It computes nothing about quantization: who owns it answers each
// move with a new picture.

import { sharpen } from "../page/canvas.js";
import { setAttribute } from "../page/elements.js";
import { kept } from "../page/kept.js";
import { Motion, isStill, oncePainted } from "../page/motion.js";
import { SHARED } from "../page/component.js";
import { GLIDE, isAnotherComb, pictureBetween } from "./glide.js";
import { Grasp } from "./grasp.js";
import { handlesOf, pictureInHand } from "./handles.js";
import { RulerPainter } from "./painter.js";
import { Axis, TARGET, bandsOf, targetsOf } from "./places.js";
import { withVotes } from "./votes.js";

// Ten letters' width in pixels for which the ruler is laid out, and how many times larger they are where it
// begins to grow with them.
const LETTERS = 150;
const AS_USUAL = 1.1;
// The width in pixels of the projector that `enlarge` is for: what is on a wall is as large on a wider one.
const WALL = 1280;

// A lesson's picture on a projector, and a column of it.
const PICTURE_ON_WALL = ".st-key-lesson_picture";
const COLUMN_ON_WALL = "[data-testid=stVerticalBlock]";

// `host` is an element that is as wide as the ruler shall be. `settings` has `colors`, `writing`, which says
// how the server writes numbers, `words` that a picture's own words go before, `enlarge` for a projector,
// `wall` where that stands beside a lesson's words: low, with no label smaller than the others, and `votes`
// of a class.
// `on` has `move(message)`, called at most once a frame while a hand moves something, and `release(message)`
// at its end. It may have `cancel(message)`, called after a move was given up and `move` has brought back
// what was before, and `take(message)`, called when something marked on the curve is tapped.
export class Ruler {
  constructor(host, settings, on = {}) {
    Object.assign(this, {
      host,
      settings,
      on,
      picture: null,
      released: null,
      handles: [],
      shown: 0,
      elements: new Map(),
      takes: [],
      motion: new Motion(),
      gliding: null,
      unseen: false,
    });
    this.root = document.createElement("div");
    this.root.className = "qv-ruler";
    this.style = this.root.appendChild(document.createElement("style"));
    this.style.textContent = rulerRules(settings.colors);
    this.canvas = this.root.appendChild(document.createElement("canvas"));
    this.canvas.setAttribute("role", "img");
    host.append(this.root);
    this.letter = this.root.appendChild(document.createElement("i"));
    this.letter.className = "qv-ruler-letter";
    this.scaleUp();
    this.painter = new RulerPainter(this.canvas.getContext("2d"), settings);
    this.grasp = new Grasp(this);
    this.width = this.root.clientWidth;
    this.room = 0;
    this.observer = new ResizeObserver(() => {
      const { room, enlarge } = this;
      this.scaleUp();
      this.measureRoom();
      // A wider wall is as many of a ruler's own pixels wide.
      const isSame = this.room === room && this.enlarge === enlarge;
      if (this.root.clientWidth === this.width && isSame) return;
      this.width = this.root.clientWidth;
      this.repaint();
    });
    this.observer.observe(this.root);
    this.observer.observe(this.letter);
    // Labels are measured anew once the page's typeface is there.
    document.fonts?.ready.then(() => {
      this.painter.widths.clear();
      this.repaint();
    });
  }

  // On a projector everything is larger, and where a person has made the page's letters larger: laid out for
  // less width, then scaled up to all of it.
  scaleUp() {
    const letters = this.letter.offsetWidth / LETTERS;
    const { enlarge: wanted = 1, wall } = this.settings;
    const larger = letters > AS_USUAL ? letters : 1;
    const enlarge = wall ? wanted * Math.max(innerWidth / WALL, 1) : wanted * larger;
    if (enlarge === this.enlarge) return;
    this.enlarge = enlarge;
    Object.assign(this.root.style, {
      width: `${100 / enlarge}%`,
      transform: enlarge === 1 ? "" : `scale(${enlarge})`,
      transformOrigin: "0 0",
    });
  }

  // On a wall a ruler is as high as a lesson's other parts leave.
  measureRoom() {
    this.room = this.settings.wall ? roomOnScreen(this.root, this.observer) : 0;
  }

  // Note whether nothing of it is in sight: it is below the fold, or a sheet lies over it. Looked at when a
  // press begins, for what the press leads to is waited for.
  lookWhetherSeen() {
    const { left, top, width, height } = this.root.getBoundingClientRect();
    const host = this.root.getRootNode().host ?? this.root;
    const isThere = (y) => host.contains(document.elementFromPoint(left + width / 2, y));
    this.unseen = ![top + 1, top + height / 2, top + height - 1].some(isThere);
  }

  // Draw a picture now, or if it is out of sight after the frame; and place the handles, which are invisible:
  // at once under a hand, otherwise after the frame. `glides` says that the page chose it, not a hand: then
  // teeth glide to their new places under the same values, also from a ruler that stood here before this one.
  show(sent, glides = false) {
    const picture = withVotes(sent, this.settings.votes);
    const before = this.gliding ?? this.picture ?? SHARED.ruled;
    this.picture = SHARED.ruled = picture;
    this.released = null;
    this.shown += 1;
    this.stopGliding();
    this.measureRoom();
    const waits = this.unseen && !glides && !this.grasp.hand;
    this.unseen = false;
    if (waits) return oncePainted(() => this.picture === picture && this.repaint());
    this.repaint(!glides && !this.grasp.hand);
    if (glides && !this.grasp.hand && this.width && isAnotherComb(before, picture) && !isStill())
      this.glideFrom(before);
  }

  // The handles are at their ends already: a hand that takes one ends the motion.
  glideFrom(before) {
    const { picture, bands } = this;
    const words = { ...this.settings.words, ...picture.words };
    const paint = (elapsed) => {
      if (elapsed >= GLIDE) return this.endGliding();
      this.gliding = pictureBetween(before, picture, elapsed / GLIDE);
      this.painter.paint(this.gliding, new Axis(this.gliding.domain, this.width), bands, words, null);
      return true;
    };
    paint(0);
    this.motion.start(paint);
  }

  // What a hand takes stands where it is meant to be.
  endGliding() {
    if (!this.gliding) return;
    this.stopGliding();
    this.repaint();
  }

  stopGliding() {
    this.motion.stop();
    this.gliding = null;
  }

  repaint(placesLater = false) {
    if (!this.picture || !this.width) return;
    const { hand } = this.grasp;
    const picture = (this.seen = pictureInHand(this.picture, hand?.message ?? this.released));
    const words = { ...this.settings.words, ...picture.words };
    this.bands = bandsOf(this.width, picture, this.settings.wall, innerHeight, this.room / this.enlarge);
    // While a hand holds something on the axis, that stays under it.
    this.axis = this.holdsPlace ? hand.axis : new Axis(picture.domain, this.width);
    this.fitCanvas();
    this.marks = this.painter.paint(picture, this.axis, this.bands, words, hand);
    // What is not to be told yet is no picture without a name.
    setAttribute(this.canvas, "role", words.label ? "img" : "presentation");
    setAttribute(this.canvas, "aria-label", words.label || null);
    if (placesLater) oncePainted(() => this.place());
    else this.place();
  }

  // Place all that can be taken on the picture that was painted last.
  place() {
    const { seen, axis, bands, marks, settings } = this;
    const { hand } = this.grasp;
    const words = { ...settings.words, ...seen.words };
    this.handles = this.on.move ? handlesOf(seen, axis, bands, marks, words, settings.writing, hand) : [];
    this.placeHandles(hand);
    this.placeTakes();
  }

  // Whether a hand holds something that has a place on the axis; a slider has one beside it.
  get holdsPlace() {
    const { hand } = this.grasp;
    return Boolean(hand) && !hand.handle.places;
  }

  fitCanvas() {
    const { height } = this.bands;
    const ratio = sharpen(this.canvas, this.width, height, this.enlarge);
    this.canvas.style.height = `${height}px`;
    this.root.style.marginBottom = `${(this.enlarge - 1) * height + (this.seen.below ?? 0)}px`;
    this.painter.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  placeHandles(hand) {
    const wanted = new Set(this.handles.map(({ id }) => id));
    // Of all teeth one is reached by Tab, the others from it by Page Up and Page Down.
    const teeth = this.handles.filter(({ kind }) => kind === "tooth").map(({ id }) => id);
    if (!teeth.includes(this.tooth)) this.tooth = teeth.at(-1);
    for (const handle of this.handles) {
      const element = this.elementOf(handle.id);
      setAttribute(element, "tabindex", teeth.includes(handle.id) && handle.id !== this.tooth ? -1 : 0);
      this.placeHandle(element, handle, hand?.id === handle.id ? hand : null);
    }
    for (const [id, element] of this.elements)
      if (!wanted.has(id) && id !== hand?.id) {
        element.remove();
        this.elements.delete(id);
      }
  }

  // The element of a handle; the order in the page is the order of Tab.
  elementOf(id) {
    return kept(this.elements, id, () => {
      const element = this.root.appendChild(document.createElement("div"));
      element.className = "qv-ruler-handle";
      element.dataset.handle = id;
      element.setAttribute("role", "slider");
      return element;
    });
  }

  placeHandle(element, { box, label, told, least, most, value }, hand) {
    const shift = `translate(${box.left.toFixed(1)}px, ${box.top.toFixed(1)}px)`;
    if (element.qvShift !== shift) element.style.transform = element.qvShift = shift;
    const size = `${box.width} ${box.height}`;
    if (element.qvSize !== size) {
      element.qvSize = size;
      Object.assign(element.style, { width: `${box.width}px`, height: `${box.height}px` });
    }
    setAttribute(element, "aria-label", label);
    setAttribute(element, "aria-valuemin", least);
    setAttribute(element, "aria-valuemax", most);
    setAttribute(element, "aria-valuenow", hand ? hand.value : value);
    setAttribute(element, "aria-valuetext", told);
  }

  // What is marked on the curve and can be taken, as buttons: `take` is the message of a tap.
  placeTakes() {
    const takes = targetsOf((this.on.take && this.marks.takes) || []);
    while (this.takes.length > takes.length) this.takes.pop().remove();
    takes.forEach(({ left, y, told, take }, k) => {
      const button = (this.takes[k] ??= this.newTake());
      button.style.transform = `translate(${left.toFixed(1)}px, ${(y - TARGET / 2).toFixed(1)}px)`;
      button.qvTake = take;
      setAttribute(button, "title", told);
      setAttribute(button, "aria-label", told);
    });
  }

  newTake() {
    const button = this.root.appendChild(document.createElement("button"));
    button.className = "qv-ruler-take";
    button.addEventListener("click", () => this.on.take(button.qvTake));
    return button;
  }

  // The handle as it was last placed, of an element.
  handleOf(element) {
    const id = element.dataset?.handle;
    return id && this.handles.find((handle) => handle.id === id);
  }

  // Move the focus from one tooth to another one with a label.
  focusTooth(from, by) {
    const teeth = this.handles.filter(({ kind }) => kind === "tooth");
    const next = teeth[teeth.findIndex(({ id }) => id === from.id) + by];
    if (!next) return;
    this.tooth = next.id;
    this.placeHandles(this.grasp.hand);
    this.elementOf(next.id).focus({ preventScroll: true });
  }

  close() {
    this.grasp.close();
    this.stopGliding();
    this.observer.disconnect();
    this.root.remove();
    this.picture = null;
  }
}

// Pixels from the ruler's top to the picture's foot, less what stands below the ruler in its column; 0 where
// the picture may be as high as it likes. `observer` learns of everything that may change them.
function roomOnScreen(root, observer) {
  const host = root.getRootNode().host ?? root;
  const picture = host.closest(PICTURE_ON_WALL);
  if (!picture || getComputedStyle(picture).overflowY !== "auto") return 0;
  const column = host.closest(COLUMN_ON_WALL);
  const own = [...column.children].find((child) => child.contains(host));
  for (const each of [picture, column, ...column.children]) observer.observe(each);
  const foot = Math.max(...[...column.children].map((child) => child.getBoundingClientRect().bottom));
  const below = foot - own.getBoundingClientRect().bottom;
  const top = root.getBoundingClientRect().top - picture.getBoundingClientRect().top + picture.scrollTop;
  return Math.max(picture.clientHeight - top - below, 1);
}

function rulerRules({ handle }) {
  return `
    .qv-ruler { position: relative; width: 100%; overflow: hidden; touch-action: pan-x pan-y; }
    .qv-ruler canvas { display: block; width: 100%; pointer-events: none; }
    .qv-ruler-handle {
      position: absolute; left: 0; top: 0; touch-action: none; cursor: ew-resize; outline: none;
      border-radius: 6px; user-select: none; -webkit-user-select: none;
    }
    .qv-ruler:not([data-by="hand"]) .qv-ruler-handle:focus-visible { box-shadow: inset 0 0 0 2px ${handle}; }
    .qv-ruler-handle[data-handle=mark] { cursor: crosshair; touch-action: pan-y; }
    .qv-ruler-take {
      position: absolute; left: 0; top: 0; padding: 0; cursor: pointer;
      width: ${TARGET}px; height: ${TARGET}px;
      border: 0; border-radius: ${TARGET / 2}px; background: none;
    }
    .qv-ruler-letter { position: absolute; width: 10rem; height: 0; visibility: hidden; }
    .qv-ruler-take:is(:hover, :focus-visible) { outline: none; box-shadow: inset 0 0 0 2px ${handle}; }
    /* On paper the ruler is narrower, and its canvas is not drawn anew. */
    @media print { .qv-ruler canvas { height: auto !important; filter: var(--qv-printed, none); } }
    @media (forced-colors: active) { .qv-ruler-handle:focus-visible { outline: 2px solid Highlight; } }
  `;
}
