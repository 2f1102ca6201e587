// The size of the page's letters grows with the window by its style sheets: tell the server whenever it is
// another than it knows, and text in figures grows with them.

import { tuckAway } from "./page/component.js";

export default function ({ data, parentElement, setStateValue }) {
  tuckAway(parentElement, true);
  let told = data.known;
  const look = () => {
    const size = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    if (size !== told) setStateValue("size", (told = size));
  };
  look();
  window.addEventListener("resize", look);
  return () => window.removeEventListener("resize", look);
}
