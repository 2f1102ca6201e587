// The slider of bits in a phone's bottom bar. It stands in the place of the server's own, which would tell
// of a change only after the finger is lifted.

import { setAttribute } from "../page/elements.js";

export class PhoneBits {
  constructor(hand) {
    this.hand = hand;
    this.input = document.createElement("input");
    this.input.type = "range";
    this.input.step = "1";
    this.input.min = "0";
    this.input.className = "qv-phone-bits";
    this.input.addEventListener("input", () => (this.fill(), hand.move(this.message)));
    this.input.addEventListener("change", () => hand.release(this.message));
  }

  get message() {
    return { kind: "bits", at: Number(this.input.value) };
  }

  // Show what is chosen, in the bar that the page has now.
  show(list, chosen, variants, label) {
    const slot = document.querySelector(".st-key-phone_bits");
    if (!slot || list.length < 2) return this.close();
    if (this.slot !== slot) {
      this.close();
      this.slot = slot;
      slot.style.display = "none";
    }
    if (this.input.parentNode !== slot.parentNode) slot.before(this.input);
    const at = String(
      Math.max(
        list.findIndex((each) => variants[each].format === variants[chosen].format),
        0,
      ),
    );
    const max = String(list.length - 1);
    if (this.input.max !== max) this.input.max = max;
    if (this.input.value !== at) this.input.value = at;
    this.fill();
    const { phone_bits: bits, phone_levels: levels } = variants[chosen];
    setAttribute(this.input, "aria-label", label);
    setAttribute(this.input, "aria-valuetext", `${bits}, ${levels}`);
    const texts = slot.parentNode.querySelectorAll("[data-testid=stMarkdown]");
    write(texts[0], bits);
    write(texts[texts.length - 1], levels);
  }

  // The track's filled part ends under the disc.
  fill() {
    this.input.style.setProperty("--at", Number(this.input.value) / Number(this.input.max));
  }

  close() {
    this.input.remove();
    if (this.slot) this.slot.style.display = "";
    this.slot = null;
  }
}

// Change a text where it stands: the element around it belongs to the page.
function write(element, words) {
  if (!element) return;
  const node = document.createTreeWalker(element, NodeFilter.SHOW_TEXT).nextNode();
  if (node && node.nodeValue !== words) node.nodeValue = words;
}
