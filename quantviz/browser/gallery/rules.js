// How the board is laid out. Its own width decides, not the window's.

import { DISC, sliderRules } from "../page/slider.js";

export function boardRules({ text, muted, line, mark, halo, lit, handle }) {
  return `${sliderRules({ line, handle, text })}
    .qv-board { container-type: inline-size; color: ${text}; font-size: var(--qv-14); line-height: 1.35;
      font-variant-numeric: tabular-nums; }
    .qv-board * { box-sizing: border-box; }
    .qv-board p, .qv-board figure { margin: 0; min-width: 0; }
    .qv-board-grid { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 4px 8px;
      --most: 90px; --frame: 1.5px; --high: clamp(16px, calc(var(--most) / var(--rows)), 48px); }
    .qv-hand { grid-area: 1 / 2 / auto / -1; display: grid; align-content: start; gap: 2px 14px;
      grid-template-columns: minmax(0, 1fr) max-content; }
    .qv-hand-name, .qv-hand-at { font-weight: 600; }
    .qv-hand-at { text-align: right; }
    .qv-track { grid-column: 1 / -1; }
    .qv-zones { position: absolute; top: 15px; height: 14px; left: ${DISC / 2}px; right: ${DISC / 2}px; }
    .qv-shown .qv-thumb { background: ${lit}; }
    .qv-said { grid-column: 1 / -1; min-height: 8.1em; }
    .qv-said b { font-weight: 600; }
    .qv-row-head { grid-column: 1 / -1; min-width: 0; padding-top: 4px; }
    .qv-row-head span { white-space: nowrap; margin-right: 0.7em; }
    .qv-row-head code { font-size: inherit; background: none; padding: 0; color: inherit;
      overflow-wrap: anywhere; }
    .qv-row-head .qv-gives, .qv-row-head .qv-ends { white-space: normal; overflow-wrap: anywhere; }
    .qv-row-head b { margin-right: 0.7em; white-space: nowrap; }
    .qv-row-head[data-row=correct] b { color: light-dark(#0b6b3a, #6fd39a); }
    .qv-row-head[data-row=broken] b { color: light-dark(#b3003c, #ff7fa6); }
    .qv-panel figcaption { font-size: var(--qv-12); font-weight: 600; padding-left: 0.87rem;
      white-space: nowrap;
      overflow: hidden; text-overflow: ellipsis; }
    .qv-panel table { border-collapse: separate; border-spacing: 0; table-layout: fixed; width: 100%;
      max-width: calc(var(--high) * 1.75 * var(--cols) + 0.87rem); }
    .qv-panel th, .qv-panel .qv-corner { width: 0.87rem; padding: 0; font-size: var(--qv-12);
      font-weight: 400;
      color: ${muted}; text-align: left; line-height: 1.15; }
    .qv-panel tfoot th { width: auto; text-align: center; }
    .qv-panel tbody td { position: relative; height: var(--high); padding: 0; text-align: center;
      font-size: var(--type); line-height: 1; overflow: hidden; white-space: nowrap; cursor: pointer; }
    .qv-panel td.qv-lit { box-shadow: inset 0 0 0 1px ${lit}; }
    .qv-panel[data-row=broken] td.qv-lit { box-shadow: inset 0 0 0 var(--frame) ${lit},
      inset 0 0 0 calc(var(--frame) + 1px) ${halo}; }
    .qv-panel td.qv-marked::after { content: ""; position: absolute; inset: 0; 
      border: var(--frame) solid ${mark}; }
    .qv-panel[data-row=broken] td.qv-lit.qv-marked::after { inset: var(--frame); }
    .qv-panel table:focus-visible { outline: 3px solid ${handle}; outline-offset: 2px; }
    .qv-bar { font-size: var(--qv-12); color: ${muted}; padding-left: 0.87rem;
      max-width: calc(var(--high) * 1.75 * var(--cols) + 0.87rem); }
    .qv-bar i { display: block; height: 6px; }
    .qv-bar > span { display: flex; flex-wrap: wrap; justify-content: space-between; line-height: 1.2; }
    .qv-one { grid-area: 1 / 1; }
    .qv-legend { grid-area: 1 / 2 / auto / -1; padding: 18px 0 0 6px; font-size: var(--qv-14);
      color: ${muted}; }
    .qv-handled .qv-legend { grid-area: auto / 1 / auto / -1; padding: 2px 0 0; }
    .qv-heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    @container (min-width: 640px) {
      .qv-board-grid { grid-template-columns: repeat(4, minmax(0, 1fr));
        column-gap: clamp(14px, 2.6cqw, 40px); --frame: 2px;
        --most: clamp(104px, calc((100svh - 390px) / 2), 230px); }
      .qv-hand { grid-area: 1 / 1 / auto / -1; align-items: center;
        grid-template-columns: max-content minmax(0, 1fr) max-content; }
      .qv-track { grid-area: 1 / 2; }
      .qv-hand-at { grid-area: 1 / 3; }
      .qv-said { min-height: 2.7em; }
      .qv-one { grid-area: var(--first) / 1 / span var(--spans) / auto; align-self: center; }
      .qv-board-grid .qv-legend { grid-area: auto / 1 / auto / -1; padding: 2px 0 0; }
      .qv-row-head { grid-column: 2 / -1; }
      .qv-panel[data-panel=q], .qv-bar[data-panel=q] { grid-column: 2; }
    }
    @container (max-width: 639.9px) {
      .qv-alone { grid-template-columns: repeat(2, minmax(0, 1fr)); --most: 140px; }
      .qv-alone :is(.qv-bar, .qv-legend) { display: none; }
      .qv-long { --high: 34px; }
      .qv-long :is(.qv-panel, .qv-legend) { grid-column: 1 / -1; }
      .qv-long .qv-legend { grid-row: auto; padding: 2px 0 0; }
      .qv-long .qv-bar { display: none; }
    }
    @container (min-width: 640px) { .qv-alone .qv-one { align-self: start; } }
    @container (min-width: 1000px) { .qv-board-grid { row-gap: 2px; } }
  `;
}
