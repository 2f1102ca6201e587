"""The page's own CSS: tighter than Streamlit's, so that cause and effect fit on one laptop screen."""

from __future__ import annotations

import streamlit as st

_CSS = """
<style>
/* 1366 × 625 holds header, strip, tiles, panels and the cell. */
[data-testid=stMainBlockContainer] { padding: 0.45rem 1.25rem 2rem; }
[data-testid=stHeader] { background: transparent; height: 2.6rem; min-height: 2.6rem; pointer-events: none; }
[data-testid=stHeader] button, [data-testid=stHeader] a { pointer-events: auto; }
[data-testid=stMainBlockContainer] > [data-testid=stVerticalBlock] { gap: 0.45rem; }
[data-testid=stSidebarUserContent] { padding-top: 0; padding-bottom: 1rem; }
[data-testid=stSidebarHeader] { height: 2rem; padding-top: 0.4rem; margin-bottom: 0; }
[data-testid=stSidebarUserContent] [data-testid=stVerticalBlock] { gap: 0.5rem; }
[data-testid=stSidebarContent] { padding-inline: 0; }
[data-testid=stSidebarUserContent] { padding-inline: 0.9rem; }
[data-testid=stSidebarUserContent] h4 { padding: 0; font-size: 1rem; }
[data-testid=stSidebarUserContent] [data-testid=stMarkdownContainer] { margin-bottom: 0; }

.st-key-header { min-height: 2.4rem; padding-right: 2.2rem; }
.st-key-header p { font-size: 0.87rem; line-height: 1.25; margin: 0; }
.st-key-actions button { min-height: 2rem; padding: 0 0.6rem; }
.st-key-actions button p { font-size: 0.8rem; white-space: nowrap; }

.st-key-strip { gap: 0.7rem; row-gap: 0.4rem; }
.st-key-strip [data-testid=stWidgetLabel], .st-key-strip [data-testid=stWidgetLabel] p, .st-key-granularity p { font-size: 0.78rem; min-height: 0; margin: 0; line-height: 1.25rem; }
.st-key-strip [data-testid=stWidgetLabel] { margin-bottom: 0.1rem; }
.st-key-granularity [data-testid=stMarkdownContainer] { margin-bottom: 0.1rem; }
.st-key-granularity_buttons { flex-wrap: wrap; }
.st-key-granularity_buttons > div { flex: 0 0 auto; min-width: max-content; }
.st-key-strip [data-testid=stButtonGroup] button { min-height: 2rem; height: 2rem; padding: 0 0.5rem; }
.st-key-strip [data-testid=stButtonGroup] button p { font-size: 0.85rem; }
.st-key-granularity_buttons button { min-height: 2rem; height: 2rem; padding: 0 0.55rem; border-radius: 0; margin-left: -1px; }
.st-key-granularity_buttons button p { font-size: 0.85rem; white-space: nowrap; }
.st-key-granularity_buttons > div:first-child button { border-radius: 0.4rem 0 0 0.4rem; }
.st-key-granularity_buttons > div:last-child button { border-radius: 0 0.4rem 0.4rem 0; }
.st-key-strip [data-baseweb=select] > div { min-height: 2rem; height: 2rem; }

.st-key-tiles { gap: 0.6rem; }
.st-key-tiles > div { flex: 1 1 0; min-width: 0; }
.st-key-tiles > .st-key-more_tiles_shown { display: none; }
.st-key-tiles [data-testid=stMetric] { padding: 0.2rem 0.6rem 0.25rem; background: var(--st-secondary-background-color); border-radius: 0.4rem; min-height: 4.3rem; }
.st-key-tiles [data-testid=stMetricLabel] p { font-size: 0.78rem; }
.st-key-tiles [data-testid=stMetricValue] { font-size: 1.25rem; line-height: 1.25; padding: 0; }
.st-key-tiles [data-testid=stMetricDelta] { font-size: 0.76rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }

/* The old picture stays in full colour until the new one is there. */
.st-key-panels [data-stale=true], .st-key-tiles [data-stale=true], .st-key-cell [data-stale=true], .st-key-strip [data-stale=true] { opacity: 1 !important; }
.st-key-cell { gap: 0.2rem; }
.st-key-cell [data-testid=stColumn] [data-testid=stVerticalBlock] { gap: 0.3rem; }
.st-key-cell_inputs [data-testid=stWidgetLabel] p { font-size: 0.78rem; }
.st-key-cell_inputs [data-testid=stWidgetLabel] { min-height: 0; margin-bottom: 0.1rem; }
.qv-sentence { margin: 0.1rem 0 0; font-size: 0.98rem; }
.qv-steps { overflow-x: auto; }
.qv-steps table { border-collapse: collapse; width: 100%; font-size: 0.85rem; }
.qv-steps th, .qv-steps td { text-align: left; padding: 0.2rem 0.6rem; border-bottom: 1px solid var(--st-border-color); vertical-align: top; }

@media (max-width: 640px) {
  [data-testid=stMainBlockContainer] { padding: 2.6rem 0.8rem 2rem; }
  .st-key-header { padding-right: 0; }
  .st-key-tiles { flex-wrap: wrap; }
  .st-key-tiles > div { flex: 1 1 45%; }
  .st-key-tiles > div:nth-child(n + 3) { display: none; }
  .st-key-tiles:has(.st-key-more_tiles_shown input:checked) > div { display: block; }
  .st-key-tiles > .st-key-more_tiles_shown { display: block; flex: 1 1 100%; }
}
</style>
"""


def show_style() -> None:
    """Put the CSS into the page."""
    st.html(_CSS)
