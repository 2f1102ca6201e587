// What the browser does for the panels that the server cannot: tell which cell was clicked, show one cell in
// all panels at once, keep the zoom while the data changes, print the values that fit, move around in a
// matrix that is too large to be sent, and report how wide the page is. It lives beside the plotly chart in
// `.st-key-<chart>`. Streamlit throws that chart away and draws it again with each change of its data, so
// nothing is kept on the chart.
//
// Two components run this script: one hands over the cells (large, change with the data), the other the state
// (small, changes with each click). Python joins this file and what it imports into one: see
// `__init__.py`.

import { readPacked, SHARED, tuckAway } from "./page/component.js";
import { kept } from "./page/kept.js";
import { cellsOf } from "./panels/cells.js";
import { Bridge } from "./panels/bridge.js";

export default function (component) {
  const { parentElement } = component;
  const data = readPacked(component.data);
  if (data.stamp) {
    const cells = cellsOf(data);
    const leave = enlist(SHARED.cells, cells.chart, parentElement, cells);
    SHARED.bridges.get(cells.chart)?.draw();
    tuckAway(parentElement, true);
    return leave;
  }
  const bridge = kept(SHARED.bridges, data.chart, () => new Bridge(data.chart));
  const state = { ...component, data };
  const leave = enlist(SHARED.states, data.chart, parentElement, state);
  bridge.update(state);
  return () => {
    const next = leave();
    if (next) return bridge.host === parentElement && bridge.update(next);
    bridge.close();
    SHARED.bridges.delete(data.chart);
  };
}

// Streamlit may mount a component's successor before it unmounts the first, and call the first once more in
// between. So the items of all mounted places are kept. Returns a function that leaves the place and returns
// the item then in force.
function enlist(table, chart, place, item) {
  const places = kept(table, chart, () => new Map());
  places.delete(place);
  places.set(place, item);
  return () => {
    if (places.get(place) === item) places.delete(place);
    return [...places.values()].at(-1);
  };
}
