// The lecturer's desk: how many are there, the acts of the room, and its counts. All of it comes and goes by
// plain HTTP: no script of the server runs for an answer or an act.

import { askRoom, keepRoom, keptRoom } from "./room/server.js";
import { filled } from "./ruler/figures.js";
import { tuckAway, lasting } from "./page/component.js";

// Milliseconds between two looks for news, and after which an answer is not waited for any more.
const EVERY = 1500;
const LONGEST = 15000;
// Milliseconds in which all phones have looked for news.
const PHONES = 2500;
const STYLE = `
  .desk { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.5rem; font-size: var(--qv-16); }
  .line { display: flex; flex-wrap: wrap; gap: 0.3rem 1rem; align-items: center; margin: 0; }
  .line b { font: 700 1.9rem/1 ui-monospace, monospace; letter-spacing: 0.06em; }
  .line span { font-size: var(--qv-20); font-variant-numeric: tabular-nums; }
  .ask { margin: 0; font-size: var(--qv-20); font-weight: 600; line-height: 1.25; }
  button, select { font: inherit; font-size: var(--qv-14); min-height: var(--qv-button); padding: 0 0.8rem;
    color: inherit; background: var(--qv-page); border: 1px solid var(--qv-line); border-radius: 0.4rem; }
  select { max-width: 100%; }
  button { cursor: pointer; }
  button:disabled { opacity: 0.45; cursor: default; }
  button.first { color: light-dark(#ffffff, #06252c); background: var(--st-primary-color); border-color: transparent; }
  :is(button, select, summary):focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px; }
  ol { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.3rem; }
  li { position: relative; overflow: hidden; display: flex; gap: 0.6rem; align-items: center; min-height: 2.4rem;
    padding: 0 0.7rem; border: 1px solid var(--qv-line); border-radius: 0.4rem; }
  li :is(i, u) { position: absolute; inset: 0 auto 0 0; background: var(--qv-tint); }
  li u { background: repeating-linear-gradient(135deg, var(--qv-tint) 0 5px, transparent 5px 10px); }
  li em { position: absolute; inset: 2px auto 2px 0; border: 2px dashed var(--qv-quiet); border-left: 0; }
  li :is(b, span) { position: relative; font-size: 24px; line-height: 1.2; font-variant-numeric: tabular-nums; }
  li span { flex: 1; font-size: var(--qv-16); }
  .said { margin: 0; color: var(--st-red-text-color, inherit); }
  .said:empty, .note:empty { display: none; }
  .note { margin: 0; font-size: var(--qv-14); }
`;
// The acts in each phase, the one that usually comes next first.
const ACTS = { ask: ["close"], again: ["close"], closed: ["tell", "again", "show"], told: [] };

class Desk {
  constructor(parent) {
    this.root = parent.appendChild(document.createElement("div"));
    this.root.innerHTML = `<style>${STYLE}</style><div class="desk"><p class="line" aria-live="polite"><b></b>
      <span></span></p><p class="line"><select class="stop"></select><select class="pace"></select><select class="answers"></select></p><p class="ask"></p>
      <p class="line acts"></p><p class="said" role="alert"></p><ol></ol><p class="note"></p></div>`;
    this.part = (name) => this.root.querySelector(name);
    this.part(".stop").addEventListener("change", ({ target }) => this.act("go", Number(target.value)));
    this.part(".answers").addEventListener("change", ({ target }) => this.act(target.value));
    this.part(".pace").addEventListener("change", ({ target: { value } }) =>
      value ? this.act("pace", Number(value)) : this.act("gather"),
    );
  }

  update(data, send) {
    Object.assign(this, { data, send });
    tuckAway(this.root.parentNode, !data.code);
    this.root.hidden = !data.code;
    if (data.code) {
      keepRoom({ code: data.code, key: data.key });
      this.asked = null;
      if (!this.timer) this.look();
      return;
    }
    this.rest();
    if (data.lost && keptRoom()?.code === data.lost) keepRoom(null);
    const [, code, key] = /#room=(\w{4})\.([\w-]+)$/.exec(firstAddress()) ?? [];
    const known = code && code !== data.lost ? { code, key } : keptRoom();
    if (known && this.asked !== known.code) this.find(known);
    this.asked = known?.code;
  }

  // Have the page take a room. While its store is away the page says so, and takes it once there is an answer.
  async find(known) {
    for (let isAway = false; this.root.isConnected; isAway = true) {
      const status = await askRoom(known.code, known).then(
        () => 200,
        (problem) => problem.status ?? 503,
      );
      if (status < 500 || !isAway) this.send("found", known);
      if (status < 500) return;
      await new Promise((done) => setTimeout(done, EVERY));
    }
  }

  // Ask for the news, again and again.
  async look() {
    clearTimeout(this.timer);
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.timer = setTimeout(() => this.look(), LONGEST);
    const { code, key, language } = this.data;
    try {
      const news = await askRoom(`${code}?lang=${language}`, { key });
      if (turn === this.turn && this.timer) this.draw(news);
      if (this.away) this.say("");
      this.away = false;
    } catch (problem) {
      // A server that is away comes back; a room that has ended does not.
      this.away = !problem.status || problem.status >= 500;
      if (problem.status === 404 && this.timer) this.over();
      else if (!this.pressed) this.say(problem.status ? problem.message : this.data.words.away);
    }
    // After the answer: one that takes longer than the time between two looks is still the last one.
    if (turn !== this.turn || !this.timer) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), EVERY);
  }

  // An act goes by the news after the one before it; pressed once more before those, it is the same one.
  act(act, stop = null) {
    const press = `${act} ${stop}`;
    if (press === this.pressed) return;
    this.pressed = press;
    this.acting = Promise.resolve(this.acting)
      .then(() => this.carryOut(act, stop))
      .finally(() => press === this.pressed && (this.pressed = null));
  }

  // An act that finds no server is sent again until one answers: it may have been carried out before that.
  async carryOut(act, stop) {
    const { code, key, language, words } = this.data;
    const message = { act, version: this.news.version, stop };
    let isLost = true;
    for (let isAgain = false; isLost && this.timer; isAgain = true) {
      if (isAgain) await this.found();
      try {
        await askRoom(`${code}/act?lang=${language}`, { key, message });
        isLost = false;
        this.say("");
      } catch ({ status, key: refused, message: says }) {
        isLost = !status || status >= 500;
        this.say(isLost ? words.act_waits : isAgain && refused === "rooms.moved_on" ? "" : says);
      }
    }
    if (act === "end" && !isLost) this.over();
    else await this.look();
  }

  // Wait until a server answers again, and phones have sent it what they kept.
  async found() {
    do await new Promise((done) => setTimeout(done, EVERY));
    while (this.away && this.timer);
    await new Promise((done) => setTimeout(done, PHONES));
  }

  over() {
    this.rest();
    keepRoom(null);
    this.send("ended", true);
  }

  rest() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  say(words) {
    this.part(".said").textContent = words;
  }

  draw(news) {
    this.news = news;
    const { stops, words, code } = this.data;
    const stop = stops[news.stop];
    this.part(".line b").textContent = code;
    const refused = news.refused ? ` · ${filled(words.refused, { count: news.refused })}` : "";
    this.part(".line span").textContent = filled(words.here, news) + refused;
    this.part(".ask").textContent = stop.ask;
    const names = stops.map(({ title }, at) => `${at + 1} · ${title}`);
    this.choose(".stop", words.stop, news.stop, Object.entries(names));
    const paces = stops.map((_, at) => [at, filled(words.pace, { stop: at + 1 })]).slice(news.stop);
    this.choose(".pace", words.pace_label, news.pace ?? "", [["", words.gather], ...paces]);
    this.choose(".answers", words.answers, news.answers, Object.entries(this.data.answers));
    this.drawActs(news, stop);
    this.drawBars(news, stop);
  }

  // Draw a list; one in use stays as it is.
  choose(name, label, value, choices) {
    const list = this.part(name);
    const options = choices.map(([form, says]) => new Option(says, form));
    const said = options.map(({ text }) => text).join("\n");
    if (list.said !== said) list.replaceChildren(...options);
    Object.assign(list, { said, ariaLabel: label });
    if (list !== this.root.getRootNode().activeElement) list.value = String(value);
  }

  drawActs(news, stop) {
    const { words, stops } = this.data;
    const on = news.stop + 1 < stops.length;
    const asked = stop.kind
      ? ACTS[news.phase].filter((act) => news.round < 2 || act === "close" || act === "tell")
      : [];
    const acts = [...asked, "look", ...(on ? ["next"] : []), "save", "end"];
    const names = { ...words, ...(news.look && { look: words.look_off }) };
    if (this.ending) names.end = words.end_sure;
    // Buttons that stay keep the focus.
    const form = JSON.stringify(acts.map((act) => names[act]));
    if (this.acts === form) return;
    this.acts = form;
    const first = asked[0] ?? (on ? "next" : "save");
    const focused = this.root.getRootNode().activeElement?.dataset.act;
    const buttons = acts.map((act) => {
      const button = Object.assign(document.createElement("button"), {
        type: "button",
        textContent: names[act],
      });
      Object.assign(button.dataset, { act });
      button.classList.toggle("first", act === first);
      button.addEventListener("click", () => this.press(act));
      return button;
    });
    this.part(".acts").replaceChildren(...buttons);
    if (focused) (buttons.find(({ dataset }) => dataset.act === focused) ?? buttons[0]).focus();
  }

  // The end, which deletes the votes, is pressed twice.
  press(act) {
    const sure = this.ending;
    this.ending = act === "end" && !sure;
    if (this.ending) this.drawActs(this.news, this.data.stops[this.news.stop]);
    else if (act === "save") this.save();
    else this.act(act);
  }

  // Keep the counts as a file of the browser's.
  async save() {
    const { code, key, language, words } = this.data;
    try {
      const { csv } = await askRoom(`${code}/table?lang=${language}`, { key });
      const link = document.createElement("a");
      Object.assign(link, {
        href: `data:text/csv;charset=utf-8,${encodeURIComponent(csv)}`,
        download: `${code}.csv`,
      });
      link.click();
    } catch (problem) {
      this.say(problem.status ? problem.message : words.away);
    }
  }

  drawBars(news, stop) {
    const { words } = this.data;
    const rows = news.rounds.at(-1);
    const before = news.rounds.length > 1 ? news.rounds[0] : [];
    const open = news.phase === "ask" || news.phase === "again";
    const few = filled(words.few, { answered: news.answered, fewest: this.data.fewest });
    this.part(".note").textContent = stop.kind && !open && !rows.length ? few : "";
    const all = countOf(rows) || 1;
    const most = rows.toSorted((one, other) => sumOf(other) - sumOf(one)).slice(0, 8);
    this.part("ol").replaceChildren(
      ...(stop.kind === "choice" ? rows : most).map(([answer, sure, guessed, says]) => {
        const line = document.createElement("li");
        const first = before.find(([other]) => String(other) === String(answer));
        const share = (count, total) => `${(100 * count) / total}%`;
        line.innerHTML = "<i></i><u></u><em></em><span></span><b></b>";
        const [full, hatched, outline, name, number] = line.children;
        full.style.width = share(sure, all);
        Object.assign(hatched.style, { left: share(sure, all), width: share(guessed, all) });
        outline.hidden = !first;
        if (first) outline.style.width = share(sumOf(first), countOf(before));
        name.textContent = says || "?"; // a forged text
        number.textContent = String(sure + guessed);
        return line;
      }),
    );
  }

  close() {
    this.rest();
    this.root.remove();
  }
}

const sumOf = ([, sure, guessed]) => sure + guessed;
const countOf = (rows) => rows.reduce((sum, row) => sum + sumOf(row), 0);

// The address as the page was opened: Streamlit writes another one without the part after "#".
function firstAddress() {
  return performance.getEntriesByType("navigation")[0]?.name ?? location.href;
}

export default lasting(Desk);
