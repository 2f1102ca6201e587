// The corner of a wall that follows a room: its code to scan, and how many have answered. Another stop is
// another page; a vote that was closed is shown by one run of this one.

import { appAddress, askRoom, keptRoom } from "./room/server.js";
import { lasting } from "./page/component.js";
import { filled } from "./ruler/figures.js";

const EVERY = 1000;
const STYLE = `
  figure { margin: 0; display: flex; gap: 0.5rem; align-items: center; padding: 0.15rem; }
  img { width: 3.4rem; background: #ffffff; }
  figcaption { display: grid; font-size: var(--qv-12); line-height: 1.15; font-variant-numeric: tabular-nums; }
  b { font: 700 var(--qv-16)/1.1 ui-monospace, monospace; letter-spacing: 0.06em; }
`;

class Wall {
  constructor(parent) {
    this.root = parent.appendChild(document.createElement("div"));
    this.root.innerHTML = `<style>${STYLE}</style><figure><img><figcaption><b></b><span></span></figcaption></figure>`;
    // A page that was laid out for hands is made smaller until it is one screen.
    this.observer = new ResizeObserver(() => this.fit());
    this.look();
  }

  fit() {
    const main = document.querySelector("[data-testid=stMain]");
    const page = (this.page = main.querySelector("[data-testid=stMainBlockContainer]"));
    this.observer.observe(page);
    this.observer.observe(main);
    const share = Math.min(main.clientHeight / page.scrollHeight, 1);
    page.style.transform = share < 1 ? `scale(${share})` : "";
  }

  update(data, send) {
    Object.assign(this, { data, send });
    const [image, code] = ["img", "b"].map((name) => this.root.querySelector(name));
    // An address of this computer alone is no code to scan.
    image.hidden = !data.source;
    if (data.source) Object.assign(image, { src: data.source, alt: data.alt });
    code.textContent = data.code;
    this.fit();
  }

  async look() {
    this.timer = setTimeout(() => this.look(), EVERY);
    if (!this.data) return;
    const { code, version, stop, words, language } = this.data;
    const kept = keptRoom();
    const key = kept?.code === code ? kept.key : "";
    try {
      const news = await askRoom(`${code}?v=${version}&lang=${language}`, { key });
      // The answer may come once the wall was left.
      if (!news || !this.root.isConnected) return;
      this.say("here" in news ? filled(words.here, news) : "");
      if (news.stop !== stop)
        location.replace(appAddress(`join?${new URLSearchParams({ c: code, wall: 1, lang: language })}`));
      else if (news.version !== version && news.version !== this.told) this.send("moved", news.version);
      this.told = news.version;
    } catch (problem) {
      this.say(problem.status < 500 ? problem.message : words.away);
    }
  }

  say(words) {
    this.root.querySelector("span").textContent = words;
  }

  close() {
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.page.style.transform = "";
    this.root.remove();
  }
}

export default lasting(Wall);
