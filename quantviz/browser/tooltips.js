// What explains a control is shown at the nearest place of the window where it covers no other, narrower where
// it would be far: Streamlit and the style of `.qv-meaning` know only above and below, where the next row of
// buttons is.
{
  const CONTROLS = "button, a[href], input, textarea, [role=slider]";
  // Pixels to the edges of the window.
  const EDGE = 4;
  // Pixels from a word to its explanation, and between two places that are tried: near it, and if that has no
  // room, in the whole window.
  const REACHES = [
    { reach: 40, step: 3 },
    { reach: Infinity, step: 8 },
  ];
  // The most width of an element that is explained as a whole.
  const NARROW = 200;
  // The widths that are tried, as it is shown first.
  const WIDTHS = ["", "800px", "320px", "240px", "172px"];

  const rootsOf = (root) => [
    root,
    ...[...root.querySelectorAll("*")]
      .filter((each) => each.shadowRoot)
      .flatMap((each) => rootsOf(each.shadowRoot)),
  ];

  // The pixels between two boxes along an axis; negative where they overlap.
  const between = (low, high, otherLow, otherHigh) => Math.max(otherLow - high, low - otherHigh);

  // Where the controls are that can be seen, without those in the tip and the one that it explains.
  const controlsBeside = (tip, owner) =>
    rootsOf(document)
      .flatMap((root) => [...root.querySelectorAll(CONTROLS)])
      .filter((each) => !tip.contains(each) && !owner?.contains(each) && each.checkVisibility())
      .map((each) => each.getBoundingClientRect())
      .filter((box) => box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth);

  // Show `tip` at the place near `owner` where it covers no other control, wider or narrower only where it has
  // no room there; else at the place that covers least, and of these at the nearest.
  const place = (tip, owner) => {
    tip.style.translate = "";
    const words = tip.querySelector("[data-testid=stTooltipContent]") ?? tip;
    const element = owner.closest("[data-testid=stElementContainer]") ?? owner;
    const [word, around] = [owner, element].map((each) => each.getBoundingClientRect());
    // What explains a label of the sidebar stands beside its control.
    const own = around.width <= NARROW ? around : word;
    const taken = [...controlsBeside(tip, owner), word];
    let best = null;
    for (const how of REACHES.flatMap((each) => WIDTHS.map((wide) => ({ ...each, wide })))) {
      words.style.maxWidth = how.wide && `min(${how.wide}, 90vw)`;
      const found = bestPlace(tip.getBoundingClientRect(), own, taken, how);
      if (found && (!best || isBetter(found, best, ["covered", "away"])))
        best = { ...found, maxWidth: words.style.maxWidth };
      if (best && !best.covered && best.away <= how.reach) break;
    }
    if (!best) return;
    words.style.maxWidth = best.maxWidth;
    const { left, top } = tip.getBoundingClientRect();
    tip.style.translate = `${best.x - left}px ${best.y - top}px`;
  };

  const isBetter = (found, best, keys) => {
    const differs = keys.find((key) => Math.abs(found[key] - best[key]) > 0.5);
    return differs !== undefined && found[differs] < best[differs];
  };

  // The best place for a box of this size within reach of `own`; none if it is larger than the window.
  const bestPlace = ({ left, top, width, height }, own, taken, { reach, step }) => {
    let best = null;
    const look = (x, y) => {
      let covered = 0;
      for (const box of taken) {
        const across = between(x, x + width, box.left, box.right);
        const down = between(y, y + height, box.top, box.bottom);
        if (across < 0 && down < 0) covered += across * down;
      }
      const away = Math.hypot(
        Math.max(0, between(x, x + width, own.left, own.right)),
        Math.max(0, between(y, y + height, own.top, own.bottom)),
      );
      const found = { x, y, covered, away, moved: Math.abs(x - left) };
      if (!best || isBetter(found, best, ["covered", "away", "moved"])) best = found;
    };
    const [lastX, lastY] = [innerWidth - width - EDGE, innerHeight - height - EDGE];
    for (
      let y = Math.max(EDGE, own.top - height - reach);
      y <= Math.min(lastY, own.bottom + reach);
      y += step
    )
      for (
        let x = Math.max(EDGE, own.left - width - reach);
        x <= Math.min(lastX, own.right + reach);
        x += step
      )
        look(x, y);
    // As it was shown, where that is as good.
    if (left >= EDGE && left <= lastX && top >= EDGE && top <= lastY) look(left, top);
    return best;
  };

  // Streamlit shows its own at the end of the page, some frames after the pointer or the focus has come; the
  // last one may still be there.
  const FRAMES = 90;
  const placed = new WeakSet();
  const placeStreamlits = (owner, frames = FRAMES) => {
    const shown = [...document.querySelectorAll("[role=tooltip]:has([data-testid=stTooltipContent])")];
    const tip = shown.find((each) => each.style.transform && !placed.has(each));
    if (!tip) return frames && requestAnimationFrame(() => placeStreamlits(owner, frames - 1));
    placed.add(tip);
    let at = null;
    const follow = () => {
      if (tip.style.transform !== at) place(tip, owner);
      at = tip.style.transform;
    };
    follow();
    // It follows its target while the page scrolls.
    new MutationObserver(follow).observe(tip, { attributes: true, attributeFilter: ["style"] });
  };

  const explain = (event) => {
    const target = event.composedPath()[0];
    const streamlits = target.closest?.("[data-testid=stTooltipHoverTarget]");
    if (streamlits && !streamlits.contains(event.relatedTarget)) placeStreamlits(streamlits);
    const term = target.closest?.(".qv-term");
    const meaning = term?.querySelector(".qv-meaning");
    // On a phone it has a place of its own.
    if (meaning && !term.contains(event.relatedTarget) && getComputedStyle(meaning).position === "absolute")
      place(meaning, term);
  };

  if (!window.__quantvizTooltips) {
    window.__quantvizTooltips = true;
    for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, explain);
  }
}
