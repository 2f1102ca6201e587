// Pages beside each other in one, each in a frame of its own: one tensor under several schemes. A cell that is
// selected in one of them, or a value that is moved, is so in all.

export class Frames {
  constructor({ pieces, kind }) {
    // Of several tensors each has its own cells.
    this.apart = kind === "apart";
    const asked = new URLSearchParams(location.hash.slice(1));
    this.addresses = {};
    this.frames = Object.values(pieces).map((page, at) => {
      const frame = document.createElement("iframe");
      frame.dataset.address = asked.get(at) ?? "";
      document.getElementById("qv-frames").append(frame);
      frame.srcdoc = new TextDecoder().decode(page);
      return frame;
    });
    addEventListener("message", ({ source, data }) => {
      const at = this.frames.findIndex(({ contentWindow }) => contentWindow === source);
      if (at >= 0) this.hear(at, data);
    });
    addEventListener("hashchange", () => location.hash.slice(1) !== this.address && location.reload());
  }

  hear(at, { height, address, cell, edits }) {
    if (height) return (this.frames[at].style.height = `${height}px`);
    if (address) this.addresses[at] = address;
    else delete this.addresses[at];
    this.address = `${new URLSearchParams(this.addresses)}`;
    history.replaceState(null, "", `#${this.address}`);
    const chosen = JSON.stringify([cell, edits]);
    if (this.apart || chosen === this.chosen) return;
    this.chosen = chosen;
    for (const frame of this.frames)
      if (frame !== this.frames[at]) frame.contentWindow.postMessage({ cell, edits }, "*");
  }
}
