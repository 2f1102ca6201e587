// What the components of one page share, by the chart's key. Streamlit evaluates each component's script by
// itself, so the tables are kept on the window.

export const SHARED = (window.__quantviz ??= {});
for (const table of ["bridges", "cells", "states", "memory", "maps", "hands", "curves"])
  SHARED[table] ??= new Map();
