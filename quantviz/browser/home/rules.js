// How what one plays with is laid out. Its own width decides, not the window's.

import { sliderRules } from "../page/slider.js";

export function playRules({ text, muted, line, handle }) {
  return `${sliderRules({ line, handle, text })}
    .qv-play { container-type: inline-size; color: ${text}; font-size: var(--qv-14); line-height: 1.35;
      font-variant-numeric: tabular-nums; }
    .qv-play * { box-sizing: border-box; }
    .qv-play-grid { display: grid; gap: 8px; }
    .qv-play-top { display: flex; align-items: center; justify-content: space-between; min-height: 34px; }
    .qv-play-top .qv-size { display: none; }
    .qv-switch { display: inline-flex; border: 1px solid ${line}; border-radius: 8px; overflow: hidden; }
    .qv-switch button { all: unset; box-sizing: border-box; padding: 0 14px; min-height: 44px;
      cursor: pointer;
      display: inline-flex; align-items: center; }
    .qv-switch button[aria-checked=true] { background: var(--qv-tint); color: var(--qv-on-tint);
      box-shadow: inset 0 0 0 1px var(--qv-accent); font-weight: 600; }
    .qv-switch button:focus-visible { outline: 2px solid ${text}; outline-offset: -4px; border-radius: 6px; }
    .qv-views { display: grid; grid-template-columns: minmax(0, 1fr); gap: 16px; }
    .qv-views figure { margin: 0; min-width: 0; }
    .qv-views canvas { display: block; width: 100%;
      height: clamp(var(--home-least, 150px), calc(100svh - 640px - var(--home-more, 0px)), 62cqw);
      border-radius: 10px; touch-action: pan-y; user-select: none; -webkit-user-select: none;
      -webkit-touch-callout: none; }
    .qv-made { cursor: crosshair; }
    .qv-made:focus-visible { outline: 3px solid ${handle}; outline-offset: 2px; }
    .qv-play[data-toy=row] .qv-views canvas { box-shadow: inset 0 0 0 1px ${line}; }
    .qv-play[data-toy=sums] :is(.qv-views figure + figure, .qv-hold) { display: none; }
    .qv-play[data-toy=sums] .qv-way canvas { visibility: hidden; }
    .qv-play[data-toy=sums] .qv-views { position: static; }
    .qv-play[data-toy=sums] .qv-play-grid { position: relative; }
    .qv-play[data-toy=sums] .qv-views figure { grid-column: 1 / -1; }
    .qv-views figcaption { display: none; color: ${muted}; margin-top: 4px; min-height: 19px; }
    .qv-views figure + figure { display: none; }
    .qv-bits { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: center;
      column-gap: 12px; }
    .qv-track { flex: 0 0 100%; }
    .qv-count { font-size: var(--qv-16); font-weight: 600; white-space: nowrap; }
    .qv-note { color: ${muted}; text-align: right; font-size: var(--qv-12); }
    .qv-size { color: ${muted}; white-space: nowrap; }
    .qv-note .qv-size::after { content: " · "; }
    .qv-way { display: grid; gap: 2px; }
    .qv-sum { display: flex; flex-wrap: wrap; column-gap: 0.45em; align-items: baseline; min-height: 20px;
      font-size: var(--qv-14); }
    .qv-sum span { opacity: 0.3; }
    .qv-sum span.qv-said { opacity: 1; }
    .qv-sum b { font-weight: 600; }
    .qv-way canvas { display: block; width: 100%; height: 98px; }
    .qv-views { position: relative; }
    .qv-every { position: absolute; right: 0; bottom: 0; display: flex; align-items: flex-end; height: 44px;
      padding: 8px; color: #ffffff; font-size: var(--qv-12); font-weight: 600; text-decoration: none; }
    .qv-every span { padding: 4px 10px; border-radius: 12px; background: rgba(0, 0, 0, 0.6); }
    .qv-every:focus-visible { outline: none; }
    .qv-every:focus-visible span { outline: 2px solid #ffffff; }
    .qv-every:hover span { text-decoration: underline; }
    .qv-heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    @container (min-width: 640px) {
      .qv-play-top .qv-size { display: inline; }
      .qv-switch button { min-height: 34px; }
      .qv-views { grid-template-columns: repeat(2, minmax(0, 1fr)); }
      .qv-views figure + figure { display: block; }
      .qv-views figcaption { display: block; }
      .qv-views canvas { border-radius: 8px;
        height: clamp(170px, calc(100svh - var(--home-room, 375px)), 32.6cqw); }
      .qv-bits { flex-wrap: nowrap; }
      .qv-count { flex: 0 0 10.5em; }
      .qv-track { flex: 1 1 0; }
      .qv-note { display: none; }
      .qv-sum { font-size: var(--qv-16); column-gap: 0.6em; }
      .qv-way canvas { height: 118px; }
      .qv-play-grid { position: relative; padding-bottom: 32px; }
      .qv-views { position: static; }
      .qv-every { right: auto; left: 0; height: 24px; padding: 0; color: ${handle}; font-size: var(--qv-14); }
      .qv-every span { padding: 0; border-radius: 3px; background: none; }
      .qv-every:focus-visible span { outline-color: ${handle}; }
    }
    @media (pointer: coarse) { .qv-switch button { min-height: 44px; } }
  `;
}
