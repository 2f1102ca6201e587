// For the formats page: report clicks on rows of the code table and the width of the number line, and scroll
// the selected row into view.

import { lasting } from "./page/component.js";

const ROWS = ".st-key-formats_table tr[data-code]";
const LINE = ".st-key-formats_line";

class CodeTable {
  constructor() {
    this.stop = new AbortController();
    const click = ({ target }) => {
      const row = target.closest?.(ROWS);
      if (row) this.send("code", Number(row.dataset.code));
    };
    document.addEventListener("click", click, { signal: this.stop.signal });
    this.observer = new ResizeObserver(([{ target }]) => this.measure(target.clientWidth));
  }

  update(data, send, keep) {
    const choice = `${data.format} ${data.selected}`;
    Object.assign(this, { data, send, keep, choice });
    const line = document.querySelector(LINE);
    if (line) this.observer.observe(line);
    this.scroll(choice, 40);
    // The table may be written again later, as in another language: scroll again.
    for (const later of [400, 1500]) setTimeout(() => this.scroll(choice, 0), later);
  }

  measure(width) {
    const { widths, width: known } = this.data;
    if (!width) return;
    const fitting = Math.max(widths[0], ...widths.filter((each) => each <= width));
    if (fitting !== known && fitting !== this.told) this.keep("width", (this.told = fitting));
  }

  // Put the row in the middle of its box, once for each choice, without scrolling the page. The table may come
  // after this call.
  scroll(choice, tries) {
    if (choice !== this.choice) return;
    const row = document.querySelector(`${ROWS}[data-code="${this.data.selected}"].qv-selected`);
    const box = row?.closest(".qv-codes");
    if (!box && tries > 0) setTimeout(() => this.scroll(choice, tries - 1), 100);
    if (!box || box.qvChoice === choice) return;
    box.qvChoice = choice;
    box.scrollTop = row.offsetTop - (box.clientHeight - row.offsetHeight) / 2;
  }

  close() {
    this.choice = null;
    this.stop.abort();
    this.observer.disconnect();
  }
}

export default lasting(CodeTable);
