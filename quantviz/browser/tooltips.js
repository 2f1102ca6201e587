// What explains a control is shown at the nearest place of the window where it covers no other: Streamlit
// and the style of `.qv-meaning` know only above and below, where the next row of buttons is.
{
  const CONTROLS = "button, a[href], input, textarea, [role=radio], [role=slider], [role=combobox]";
  // Pixels between two places that are tried, and to the edges of the window.
  const [STEP, EDGE] = [8, 4];

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

  // Move `tip` to the place that covers least of `taken`, and of these to the one nearest to `owner`.
  const place = (tip, owner) => {
    tip.style.translate = "";
    const { left, top, width, height } = tip.getBoundingClientRect();
    const own = owner.getBoundingClientRect();
    const taken = [...controlsBeside(tip, owner), own];
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
      const keys = ["covered", "away", "moved"];
      const differs = best && keys.find((key) => Math.abs(found[key] - best[key]) > 0.5);
      if (!best || (differs && found[differs] < best[differs])) best = found;
    };
    for (let y = EDGE; y <= innerHeight - height - EDGE; y += STEP)
      for (let x = EDGE; x <= innerWidth - width - EDGE; x += STEP) look(x, y);
    // As it was shown, where that is as good.
    if (left >= EDGE && left + width <= innerWidth - EDGE && top >= EDGE) look(left, top);
    if (best) tip.style.translate = `${best.x - left}px ${best.y - top}px`;
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
