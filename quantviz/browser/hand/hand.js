// What a hand moves in the Lab, and all that follows it in the same frame: the ruler, the panels, the
// numbers. The browser quantizes by the scheme's own arithmetic; the server hears of it when the hand lets
// go.

import { SHARED } from "../page/component.js";
import { metricsOf, momentsOf } from "../arithmetic/moments.js";
import {
  levelsOf,
  makeParts,
  makeQuantizer,
  paramsOf,
  quantizeTensor,
  unpacked,
} from "../arithmetic/quantizing.js";
import { kept } from "../page/kept.js";
import { NumberDrag } from "../page/number_drag.js";
import { subjectOf } from "../panels/layout.js";
import { Ruler } from "../ruler/ruler.js";
import { chosenBy, grabbedCell, markOf, markedAt, released, unchanged } from "./choice.js";
import { ToldRange } from "./control_looks.js";
import { curveFollows, curvePoints, curveToShow, foundOf, placeOnCurve } from "./curve.js";
import { writeFigures } from "./figures_line.js";
import { followErrors, liveCells, livePixels, printAnew } from "./live_cells.js";
import { PageChoice } from "./page_choice.js";
import { Painting, writeErrorEnds, writeTitle } from "./painting.js";
import { edgeScales, labelsOfErrors, roomOf, titleOf } from "./panel_words.js";
import { Payers } from "./payers.js";
import { combOf, domainAround, histogramOf, placesOf, rangeOf } from "./ruler_picture.js";
import { reasonOf, Status } from "./status.js";
import { dimWaiting, showTurnedStage, whenSentenceIsThere, writeTexts } from "./texts.js";

// The metrics that the line of numbers shows, and those in its second lines.
const METRICS = ["mse", "sqnr_db", "zeroed_share", "clipped_share", "rmse", "rmse_steps", "clipping_mse"];
// Milliseconds to wait for the server's panels before the canvas gives way to the old ones.
const FOR_PANELS = 20000;
// Pixels below the ruler for a curve that opens later, so that nothing moves for it.
const CURVE_ROOM = 50;

export class Hand {
  constructor(host) {
    this.painting = new Painting();
    this.host = host;
    this.moving = false;
    this.painted = 0;
    this.told = new ToldRange();
    this.pageChoice = new PageChoice(this);
    this.payers = new Payers(host);
    this.status = new Status(host);
    // What the server writes of an earlier move gives way before it is painted.
    this.written = new MutationObserver(() => this.shown && this.isAhead && this.writeNumbers());
    this.written.observe(document.body, { childList: true, subtree: true });
  }

  // Whether a hand has gone on since what the server said last.
  get isAhead() {
    const isOld = (this.newest.released ?? this.count) !== this.count;
    return this.moving || isOld || this.pageChoice.waits;
  }

  get bridge() {
    return this.data && SHARED.bridges.get(this.data.chart);
  }

  // Take what the server knows now; what a hand has not let go of stays, and what a control has chosen stays
  // until the server knows it. Another tab's ruler is shown with its sentence, which comes a little later.
  update(data, send) {
    this.send = send;
    this.sentence?.disconnect();
    const turns = data.tab !== this.data?.tab;
    this.sentence = turns ? whenSentenceIsThere(() => this.update(data, send)) : null;
    if (this.sentence) return;
    // Counting goes on where this session is; a new session begins anew.
    if (!this.newest || data.released < this.newest.released) this.count = data.released;
    this.newest = data;
    this.pageChoice.hear(data);
    if (data.tried) this.hearOf(data.tried);
    if (this.isAhead) return (this.waiting = data);
    this.waiting = null;
    const curveOpens = this.data?.mark?.asked && !data.mark?.asked;
    this.data = data = data.found ? { ...data, found: this.searched(data) } : data;
    this.programs = unpacked(data);
    this.made = new Map();
    this.metrics = makeParts(data.metrics);
    this.choice = unchanged(data);
    this.shown = this.computed(this.choice);
    if (this.shown.refused) throw new Error(`refused what the server computed: ${this.shown.refused.key}`);
    // From now on presses, controls, panels and curves find it: it has something to show.
    SHARED.hands.set(data.chart, this);
    this.cellDrag ??= new NumberDrag((event) => grabbedCell(this, event));
    this.dress(data.settings);
    this.present();
    this.settle();
    if (turns) showTurnedStage();
    if (curveOpens) this.ruler.root.scrollIntoView({ block: "nearest" });
  }

  // Make the ruler, and make it anew in another language or light.
  dress(settings) {
    const dressed = JSON.stringify(settings);
    if (dressed === this.dressed) return;
    this.dressed = dressed;
    this.ruler?.close();
    this.status.close();
    this.ruler = new Ruler(this.host, settings, {
      move: (message) => this.move(message),
      release: (message) => this.release(message),
      cancel: () => this.giveUp(),
      take: (message) => this.tell(message),
    });
  }

  // Show all but the panels.
  present(glides = true) {
    this.payers.update(this.data, this.shown);
    this.domain = this.domainNow();
    this.found = foundOf(this.data);
    this.curve = this.data.curve ? curvePoints(this, this.choice) : null;
    this.showRuler("", glides);
    // What a hand wrote there the server may have no reason to write again.
    this.writeNumbers();
  }

  // The canvas gives way once plotly has drawn what the server made of it.
  settle() {
    const { bridge } = this;
    if (this.data.alone) return this.data.chosen ? this.paint() : this.stopPainting();
    if (!this.painted) return;
    const drawn = bridge?.gd && bridge.meta?.stamp === this.data.stamp;
    if (!this.data.panels || drawn || performance.now() - this.painted > FOR_PANELS)
      return this.stopPainting();
    requestAnimationFrame(() => this.moving || this.settle());
  }

  // Without a server nobody else draws what was chosen: the canvas stays.
  paint() {
    this.painted = performance.now();
    this.showPanels(true);
  }

  stopPainting() {
    const { bridge } = this;
    this.painted = 0;
    if (bridge) bridge.live = null;
    this.painting.remove(bridge);
    bridge?.draw();
    if (bridge?.meta) {
      writeTitle(bridge, null);
      writeErrorEnds(bridge, [null, null]);
    }
    dimWaiting(false);
  }

  move(message) {
    // A mark moves nothing: the ruler draws it where the hand is.
    if (message.kind === "mark") return;
    this.begin();
    const choice = chosenBy(message, this.before, this.data, this.start);
    const shown = this.computed(choice);
    // An impossible place keeps the last possible one, and says why.
    if (shown.refused) return this.showRuler(reasonOf(shown.refused, this.data.settings.refusals));
    this.choice = choice;
    this.shown = shown;
    if (choice.calibration) this.told.tell(choice.calibration, this.data.settings.writing);
    // No axis under a hand moves; what is chosen beside it may need another one.
    if (!this.ruler.holdsPlace) this.domain = this.domainNow();
    const { count } = shown.blocks;
    const all = count > 1 && choice.calibration;
    if (message.kind !== "range" || this.data.curve?.lower) curveFollows(this);
    if (message.kind === "value") this.payers.tell(this.start, shown, this.start.places[message.cell]);
    this.showRuler(all ? this.data.settings.all_blocks.replace("{count}", count) : "");
    if (this.data.far) return this.ask(choice.calibration);
    this.showPanels();
    this.writeNumbers();
  }

  // Above the panels and in the sentence of the cell.
  writeNumbers() {
    writeTexts(this.data, this.shown, this.metrics, this.partsOf(this.choice.variant));
    dimWaiting(this.moving || this.painted > 0 || this.pageChoice.waits);
  }

  // Of a large tensor only the server has all values: it is asked for the sums with a range, one question at
  // a time, and for the newest range once it has answered.
  ask(calibration) {
    if (!calibration) return;
    this.wanted = { lo: calibration.lo, hi: calibration.hi };
    if (this.asked) return;
    this.asked = this.wanted;
    this.send("try", { ...this.asked, number: (this.questions = (this.questions ?? 0) + 1) });
  }

  hearOf({ number, figures }) {
    if (!this.asked || number !== this.questions) return;
    const answered = this.asked;
    this.asked = null;
    if (!this.moving) return;
    writeFigures(figures);
    if (this.wanted !== answered) this.ask(this.wanted);
  }

  begin() {
    if (this.moving) return;
    this.moving = true;
    this.pageChoice.forget();
    this.before = this.choice;
    this.start = this.shown;
    this.told.begin();
    dimWaiting(true);
  }

  release(message) {
    if (message.kind === "mark") return this.tell({ kind: "mark", at: markedAt(message.at, this.data) });
    if (!this.moving) return;
    this.moving = false;
    this.asked = null;
    const { choice } = this;
    const told = choice === this.before ? null : released(message, choice, this.data, this.start.places);
    if (!told) return this.giveUp();
    this.painted = performance.now();
    this.tell(told);
    if (this.waiting) this.update(this.waiting, this.send);
  }

  tell(message) {
    this.send("release", { ...message, count: (this.count += 1) });
  }

  // Show again what there was before the hand came.
  giveUp() {
    this.moving = false;
    this.asked = null;
    if (this.before) [this.choice, this.shown] = [this.before, this.start];
    this.domain = this.domainNow();
    this.payers.forget();
    this.told.takeBack();
    this.showRuler();
    this.writeNumbers();
    this.stopPainting();
    if (this.waiting) this.update(this.waiting, this.send);
  }

  computed(choice) {
    const { data } = this;
    const variant = data.variants[choice.variant];
    let x = data.x;
    if (choice.edits.size) {
      x = x.slice();
      for (const [place, value] of choice.edits) x[place] = value;
    }
    const result = this.quantized(choice, choice.calibration, x);
    if (result.refused) return result;
    const block = result.block[data.selected];
    const places = placesOf(result, block);
    const params = paramsOf(result, block);
    const moments = momentsOf(result);
    return {
      ...result,
      result,
      variant,
      places,
      // Of a large tensor the ends of the block are there too, but are no dots.
      dots: data.far ? places.filter((place) => place === data.selected) : places,
      levels: combOf(
        levelsOf(this.partsOf(choice.variant).arithmetic, params),
        variant.decoded,
        data.settings.writing,
      ),
      params: { ...params, lo: result.blocks.lo[block], hi: result.blocks.hi[block] },
      moments,
      metrics: metricsOf(this.metrics, moments, variant.bits, METRICS),
    };
  }

  // The arithmetic and the blocks of a variant, made when it is first asked for.
  partsOf(number) {
    return kept(this.made, number, () => {
      const { program, layout } = this.data.variants[number];
      return makeQuantizer(this.programs[program], layout);
    });
  }

  quantized(choice, calibration, x) {
    const { arithmetic, layout } = this.partsOf(choice.variant);
    // A range that was searched for is known for the scheme as it is.
    const found = choice.variant === this.data.current ? this.data.found : null;
    return quantizeTensor(arithmetic, x, layout, { calibration: calibration ?? found });
  }

  // Ranges, or all that codes are made with: an array for each name, one number a block.
  searched({ found: { id, names }, ...data }) {
    return { id, ...Object.fromEntries(names.map((name) => [name, data[`found_${name}`]])) };
  }

  domainNow() {
    const { data, shown } = this;
    // The bars of a large tensor's block have its ends: those of the tensor are not in sight beside them.
    const places = data.bar_edges ? shown.dots : shown.places;
    return domainAround(
      { ...shown, places },
      data,
      this.showsRange() ? rangeOf(shown, data.symmetric) : null,
    );
  }

  showsRange() {
    return this.data.handles.range || this.data.with_range;
  }

  // What a hand moves is where the hand is; only what the page chose glides there.
  showRuler(reason = "", glides = !this.moving) {
    const { data, shown, choice } = this;
    const { levels } = shown;
    const places = shown.dots;
    const values = Float32Array.from(places, (place) => shown.x[place]);
    const slider = (list, label) => {
      const labels = list.map((each) => data.variants[each][label]);
      if (labels.length < 2) return null;
      return { at: Math.max(labels.indexOf(data.variants[choice.variant][label]), 0), labels };
    };
    const picture = {
      domain: this.domain,
      values,
      landed: Float32Array.from(places, (place) => shown.x_hat[place]),
      clipped: Uint8Array.from(places, (place) => shown.clipped[place]),
      selected: places.indexOf(data.selected),
      histogram: data.bar_counts
        ? { edges: data.bar_edges, counts: data.bar_counts }
        : histogramOf(values, this.domain),
      levels: levels?.values ?? null,
      codes: levels?.names ?? null,
      zero: levels ? levels.values.indexOf(0) : -1,
      range: this.showsRange() ? rangeOf(shown, data.symmetric) : null,
      symmetric: data.symmetric,
      // In the Lab the comb has one place in every tab, and the curve stands on it.
      standing: data.standing,
      pays: Boolean(data.pays),
      outlier: data.outlier,
      handles: {
        ...data.handles,
        bits: slider(data.bits, "bits_label"),
        group: slider(data.groups, "group_label"),
      },
      mark: markOf(data),
      snap: data.snap,
      rows: data.rows,
      reserved: data.reserved,
      alone: !data.panels,
      below: data.curve_comes ? CURVE_ROOM : 0,
      bell: data.bell,
      curve: curveToShow(this.curve, this.found, data, choice, placeOnCurve(this)),
      words: { label: data.label },
      stage: data.stage,
    };
    this.ruler.show(picture, glides);
    this.status.say(reason, data.settings.colours);
  }

  // `all` draws the panel of x too: its blocks may be others.
  showPanels(all = false) {
    const { bridge, shown, data } = this;
    if (!bridge?.gd || !data.places) return;
    const sent = bridge.cells?.sent ?? bridge.cells;
    // A mean of cells is not made here.
    // A weighted error is not that of the largest one: the server finds it.
    const pooled = sent?.how === "largest" && !sent.quiet;
    if (!sent || (sent.how && !pooled)) return;
    if (!pooled && sent.rows * sent.cols !== data.places.length) return;
    const live = pooled
      ? livePixels(sent, shown, shown.variant, data.places, data.seen)
      : liveCells(sent, shown, shown.variant, data.places);
    bridge.live = Object.assign(live, {
      sent,
      subject: subjectOf(bridge.meta),
      all: all || this.choice.edits.size > 0,
      still: all,
      stays: data.alone,
      paying: pooled ? null : this.payers.paying && data.places.map((place) => this.payers.paying[place]),
    });
    const { reach } = bridge.meta;
    if (reach?.follows) followErrors(live, reach.follows, shown.step);
    if (all) printAnew(live);
    const room = roomOf(bridge.meta);
    if (room && !live.how) live.edge = edgeScales(live, room);
    this.painting.paint(bridge, data.settings.colours);
    if (room) writeTitle(bridge, titleOf(live, shown.variant, data.words, room));
    if (reach) writeErrorEnds(bridge, labelsOfErrors(live, reach, data.words, data.settings.writing));
  }

  close() {
    this.sentence?.disconnect();
    this.written.disconnect();
    this.cellDrag?.close();
    this.pageChoice.forget();
    this.payers.close();
    this.ruler?.close();
    if (!this.data) return;
    if (SHARED.hands.get(this.data.chart) === this) SHARED.hands.delete(this.data.chart);
    this.stopPainting();
  }
}
