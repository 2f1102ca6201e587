// The one look of sliders: a thin track, filled up to a disc, in a height that a finger can hit. What is
// chosen is written beside it. The sliders on a canvas (`ruler/sliders.js`) and those of Streamlit look the
// same.

// The disc across, in pixels.
export const DISC = 20;

// Rules for an element `.qv-track` with a `.qv-thumb`, perhaps a `.qv-fill`, and the input that hands move,
// unseen. `--at` of the track is the place from 0 to 1.
export function sliderRules({ line, handle, text }) {
  return `
    .qv-track { position: relative; height: 44px; --at: 0; }
    .qv-track::before, .qv-fill { content: ""; position: absolute; left: 0; right: 0; top: 20px; height: 4px;
      border-radius: 2px; background: ${line}; }
    .qv-fill { right: auto; width: calc(${DISC / 2}px + var(--at) * (100% - ${DISC}px));
      background: ${handle}; }
    .qv-track span { pointer-events: none; }
    .qv-thumb { position: absolute; left: calc(var(--at) * (100% - ${DISC}px)); top: ${22 - DISC / 2}px;
      width: ${DISC}px; height: ${DISC}px; border-radius: 50%; background: ${handle}; }
    .qv-track input { position: absolute; inset: 0; width: 100%; height: 44px; margin: 0; opacity: 0;
      cursor: grab; touch-action: pan-y; appearance: none; }
    .qv-track input::-webkit-slider-thumb { appearance: none; width: ${DISC}px; height: 44px; }
    .qv-track input::-moz-range-thumb { width: ${DISC}px; height: 44px; border: 0; }
    .qv-track input:active { cursor: grabbing; }
    .qv-track input:focus-visible ~ .qv-thumb { outline: 3px solid ${text}; outline-offset: 2px; }
    @media (forced-colors: active) { .qv-thumb { border: 2px solid ButtonText; }
      .qv-track::before { border: 1px solid; } }
  `;
}
