// A phone in the room of a class: what it shows of the room's news, and how its page follows. The page itself
// is the lesson as it is; what its learner commits to is sent from here as well.

import { isSame, RoomLink } from "./room/link.js";
import { OwnForm } from "./room/own_form.js";
import { isBehind, isOpen, nextStop, phaseOf, reaches, statusOf, typedNumber } from "./room/rules.js";

// Milliseconds in which the pages of a class follow, each at a moment of its own, and after which one that
// did not come is asked for again.
const SPREAD = 2500;
const AGAIN = 6000;

class Phone {
  constructor() {
    this.sheet = document.body.appendChild(document.createElement("dialog"));
    this.sheet.className = "qv-room-sheet";
    this.sheet.addEventListener("cancel", (event) => event.preventDefault());
    // A browser closes it at a second press of Escape, whatever the page says.
    this.sheet.addEventListener("close", () => this.draw());
    document.addEventListener("click", (event) => this.click(event), { capture: true });
  }

  // The part at the end of a run: how the page answers a stop's question. A new session counts its runs anew.
  offer([stop, offered, run]) {
    if (!(run > this.offered?.run)) this.brought = null;
    this.offered = { stop, run, ...offered };
    this.heard = heard();
    this.sendOffered();
    this.sendHeld();
    this.bringBack();
  }

  // A session that has lost what was sent to the stop, as one of a server that was started anew, is told of it
  // once.
  bringBack() {
    const { data, held, offered } = this;
    if (!data || !offered?.key || offered.stop !== data.stop || held || this.heard === null) return;
    const { place } = this;
    const isKnown = offered.vote && offered.round + 1 >= data.round;
    if (isKnown || !this.votes[place] || this.brought === place) return;
    this.brought = place;
    const { answer, sure } = this.votes[place];
    this.bring({ stop: data.stop, round: data.round, answer, sure });
  }

  // What was committed to before the server had read it.
  sendHeld() {
    const { held } = this;
    if (!held || this.heard === null) return;
    this.held = null;
    if (held.place === this.place) this.commit(this.read, held.sure);
    else this.draw();
  }

  // What the server has read of the answer in the page, null for none; undefined while a hand is ahead of it.
  get read() {
    if (this.heard === null || this.heard !== heard()) return undefined;
    return this.data.own ? this.data.hand : (this.offered?.read ?? null);
  }

  // Have an answer counted; one that the server has not read yet is held until it has.
  commit(answer, sure) {
    this.held = answer === undefined ? { place: this.place, sure } : null;
    this.missing = answer === null ? this.place : null;
    if (answer === null || this.held) this.draw();
    else this.link.vote(this.place, answer, sure);
  }

  sendOffered() {
    const { stop, round, vote } = this.offered ?? {};
    if (!vote || stop !== this.data?.stop || round + 1 !== this.data.round || !isOpen(this.phase)) return;
    if (!isSame(this.votes[this.place], vote)) this.link.vote(this.place, vote.answer, vote.sure);
  }

  show({ data, parentElement, setTriggerValue }) {
    const isFirst = !this.data;
    const go = (stop) => setTriggerValue("follow", { stop });
    const bring = (vote) => setTriggerValue("voted", vote);
    Object.assign(this, { data, go, bring });
    if (this.link?.code !== data.code) {
      this.link?.close();
      this.link = new RoomLink(data.code, data.language, () => this.draw());
      if (data.ended) this.link.close();
      else this.link.look();
    }
    this.link.language = data.language;
    this.recall();
    if (this.bar?.parentElement !== parentElement) this.build(parentElement);
    this.draw();
    this.sendOffered();
    if (isFirst) this.bringBack();
  }

  // A question of the lecturer's own, which a page that was loaded while the room's store was away has not: the
  // device has kept it. No page is up to date with it, so that it follows once there is an answer.
  recall() {
    const { data, link, news } = this;
    const { stop, stops, round, phase, version, own } = data;
    if (own) link.store({ asked: { stop, stops, round, phase, version, own } });
    const { asked } = link.read();
    const isLost = stop === null && !data.ended && asked && asked.stop === news?.stop;
    // Only the server can read a drag.
    if (isLost && asked.own.kind !== "drag") Object.assign(data, asked, { answers: null });
  }

  get news() {
    return this.link.read().news;
  }

  get votes() {
    return this.link.read().votes;
  }

  get place() {
    return `${this.data.stop}.${this.data.round}`;
  }

  get phase() {
    return phaseOf(this.data, this.news);
  }

  // ---- the page ----

  build(parent) {
    parent.innerHTML = `<div class="qv-room-bar"><button>‹</button><button class="qv-room-at"></button>
      <button>›</button><span class="qv-room-said" role="status"></span></div><div></div>`;
    [this.bar, this.form] = parent.children;
    [this.back, this.at, this.on, this.said] = this.bar.children;
    this.back.addEventListener("click", () => this.turn(-1));
    this.at.addEventListener("click", () => this.go(this.data.stop));
    this.on.addEventListener("click", () => this.turn(1));
    this.drawn = null;
  }

  turn(step) {
    const stop = nextStop(this.data, this.news, step);
    if (stop !== null) this.go(stop);
  }

  draw() {
    if (!this.bar) return;
    const { data, link, news, phase } = this;
    const { words } = data;
    const ended = data.ended || link.ended;
    const paced = !ended && news !== null && data.stop !== null;
    for (const [button, step, name] of [
      [this.back, -1, words.back],
      [this.on, 1, words.onward],
    ]) {
      button.ariaLabel = name;
      button.disabled = !paced || nextStop(data, news, step) === null;
      button.hidden = !paced || news.pace === null;
    }
    this.at.textContent = data.stop === null ? data.code : `${data.code} · ${data.stop + 1} / ${data.stops}`;
    this.at.ariaLabel = words.stop;
    this.at.disabled = ended || data.stop === null;
    const isHeld = this.held?.place === this.place;
    const vote = isHeld ? { state: "sending" } : this.votes[this.place];
    const unsent = isHeld ? link.lost : link.unsent;
    const status = statusOf({ ended, lost: link.lost, phase, vote, unsent });
    const said = this.missing === this.place ? words.missing : (words[status] ?? status);
    if (this.said.textContent !== said) this.said.textContent = said;
    const isShut = !ended && data.stop !== null && !isOpen(phase);
    const { dataset } = document.documentElement;
    if (ended) delete dataset.qvRoom;
    else dataset.qvRoom = isShut ? "shut" : "open";
    this.drawOwn(isShut || ended, vote);
    if (ended && !data.ended) this.go(null);
    this.follow(ended, news);
  }

  // ---- the room's news ----

  follow(ended, news) {
    const isLate = !ended && news && isBehind(this.data, news);
    if (!isLate) {
      clearTimeout(this.following);
      this.following = null;
    } else if (!this.following) {
      const go = () => {
        this.go(null);
        this.following = setTimeout(() => {
          this.following = null;
          this.draw();
        }, AGAIN);
      };
      this.following = setTimeout(go, this.link.slept ? 0 : Math.random() * SPREAD);
    }
    const isLeft = isLate && this.data.stop !== null && !reaches(news, this.data.stop);
    const isReal = !ended && !this.link.lost && news;
    if (isReal && news.look) this.cover(this.data.words.look, "");
    else if (isReal && isLeft) this.cover(this.data.words.next, news.words);
    else if (this.sheet.open) this.sheet.close();
  }

  cover(title, words) {
    if (this.covered !== title + words) {
      this.covered = title + words;
      const said = [document.createElement("h2"), document.createElement("p")];
      [title, words].forEach((text, i) => (said[i].textContent = text));
      this.sheet.replaceChildren(...said);
      this.sheet.ariaLabel = title;
    }
    if (!this.sheet.open) this.sheet.showModal();
  }

  // ---- answers ----

  click(event) {
    const ask = this.offered;
    const button = event.target.closest?.("button");
    if (!button || !ask?.key || ask.stop !== this.data.stop || this.data.ended) return;
    const name = button.closest(`.st-key-lesson_ask_${ask.place} [data-field^=commit]`)?.dataset.field;
    if (!name) return;
    if (!isOpen(this.phase)) {
      event.stopImmediatePropagation();
      event.preventDefault();
      return;
    }
    this.commit(readAnswer(ask) ?? this.read, name === "commit");
  }

  // Show the form of a question of the lecturer's own.
  drawOwn(isShut, vote) {
    const { own, words, stop, round } = this.data;
    const drawn = JSON.stringify([own, words, this.place]);
    if (this.drawn !== drawn) {
      this.drawn = drawn;
      document.documentElement.toggleAttribute("data-qv-own", Boolean(own));
      const isDrag = own?.kind === "drag";
      this.own =
        own && new OwnForm(own, words, (answer, sure) => this.commit(isDrag ? this.read : answer, sure));
      this.form.replaceChildren(...(own ? [this.own.root] : []));
    }
    this.own?.write(vote?.answer, round > 1 ? this.votes[`${stop}.1`]?.answer : undefined, isShut);
  }
}

// How much the page has said to the server, null while that waits.
const heard = () => (window.__quantvizConnection ? window.__quantvizConnection.heard() : 0);

// Return the answer in a lesson's own control, as it stands in the page when its learner commits to it: the run
// that keeps it may be seconds away, when a whole class commits at once. Null where only the server can read it.
function readAnswer({ kind, key }) {
  const inputs = (end = "") => [...document.querySelectorAll(`[data-field="${key}${end}"] input`)];
  if (kind === "drag") return null;
  if (kind === "number") return typedNumber(inputs()[0]?.value ?? "");
  if (kind === "cell") {
    const cell = ["_row", "_col"].map((end) => typedNumber(inputs(end)[0]?.value ?? ""));
    return cell.every(Number.isInteger) ? cell : null;
  }
  const at = inputs().findIndex(({ checked }) => checked);
  return at < 0 || kind === "order" ? null : at;
}

export default function (component) {
  const phone = (window.__quantvizRoom ??= new Phone());
  if (component.data.offered) phone.offer(component.data.offered);
  else phone.show(component);
}
