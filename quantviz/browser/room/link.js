// What a device knows of its room: a random id, its votes, and the last news. It lies beside the learner's
// answers, where all tabs of the device share it: they have one id, and one of them asks for news at a time.

import { askRoom } from "./server.js";

const KEY = "quantviz.phone.v1";
// Milliseconds between two looks for news, of a page that is seen and of one that is not, and after which one
// that did not look has slept.
const EVERY = 2000;
const UNSEEN = 8000;
const SLEPT = 6000;

export class RoomLink {
  // `told` is called after each look and each change of a vote.
  constructor(code, language, told) {
    Object.assign(this, { code, language, told, lost: "", ended: false, slept: true });
    this.kept = { code, device: newDevice(), votes: {}, at: 0, news: null };
    this.hear = (event) => event.key === KEY && told();
    this.wake = () => document.hidden || this.look();
    window.addEventListener("storage", this.hear);
    window.addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.wake);
  }

  close() {
    clearTimeout(this.timer);
    this.ended = true;
    window.removeEventListener("storage", this.hear);
    window.removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.wake);
  }

  // Read what the device knows; of another room only its id. Storage can be switched off, or hold anything.
  read() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY));
      const { device } = kept;
      if (/^[0-9a-f]{32}$/.test(device))
        this.kept = kept.code === this.code && kept.votes ? kept : { ...this.kept, device };
    } catch {}
    return this.kept;
  }

  store(changes) {
    this.kept = { ...this.read(), ...changes };
    try {
      localStorage.setItem(KEY, JSON.stringify(this.kept));
    } catch {}
  }

  async look() {
    clearTimeout(this.timer);
    if (this.ended) return;
    const now = Date.now();
    this.slept = now - (this.looked ?? 0) > SLEPT;
    this.looked = now;
    const { news, at, device } = this.read();
    // Another tab may have asked just now.
    if (!news || Math.abs(now - at) > EVERY / 2) {
      this.store({ at: now });
      await this.ask({ v: news?.version ?? 0, device, lang: this.language });
    }
    if (this.ended) return;
    this.told();
    this.post();
    this.timer = setTimeout(
      () => this.look(),
      (document.hidden ? UNSEEN : EVERY) * (0.8 + 0.2 * Math.random()),
    );
  }

  async ask(query) {
    try {
      const news = await askRoom(`${this.code}?${new URLSearchParams(query)}`);
      this.lost = "";
      if (news) this.store({ news });
    } catch ({ status }) {
      if (status !== 404) this.lost = "away";
      else {
        this.close();
        this.told();
      }
    }
  }

  // Have an answer counted: again and again until the server has said that it is, or why not.
  vote(place, answer, sure) {
    this.store({ votes: { ...this.read().votes, [place]: { answer, sure, state: "sending" } } });
    this.told();
    this.post();
  }

  async post() {
    if (this.sending) return;
    this.sending = true;
    try {
      for (;;) {
        const { votes, device } = this.read();
        const [place, vote] = Object.entries(votes).find(([, each]) => each.state === "sending") ?? [];
        if (!place) break;
        const [stop, round] = place.split(".").map(Number);
        const { answer, sure } = vote;
        const message = { stop, round, answer, sure, device };
        const state = await askRoom(`${this.code}/answer?lang=${this.language}`, { message }).then(
          () => "counted",
          (refused) => {
            if (!refused.status || refused.status === 429 || refused.status >= 500) throw refused;
            return refused.key === "rooms.closed" ? "closed" : refused.message;
          },
        );
        const after = this.read().votes;
        // Another answer may have come meanwhile.
        if (isSame(after[place], vote)) this.store({ votes: { ...after, [place]: { answer, sure, state } } });
        this.unsent = false;
        this.told();
      }
    } catch {
      this.unsent = true;
      this.told();
    } finally {
      this.sending = false;
    }
  }
}

export function isSame(one, other) {
  return JSON.stringify([one?.answer, one?.sure]) === JSON.stringify([other?.answer, other?.sure]);
}

// `crypto.randomUUID` is missing where a page has no certificate, as in a classroom's own network.
function newDevice() {
  const parts = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(parts, (part) => part.toString(16).padStart(2, "0")).join("");
}
