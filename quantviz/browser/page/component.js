// What components have in common: tables that they share, messages that Python packed, and their places.

// What the components of one page share, by the chart's key. Streamlit evaluates each component's script by
// itself, so the tables are kept on the window.
export const SHARED = (window.__quantviz ??= {});
for (const table of ["bridges", "cells", "states", "memory", "maps", "hands", "curves", "pictures"])
  SHARED[table] ??= new Map();
SHARED.bars ??= new Set();
SHARED.moves ??= new Set();

const TYPES = {
  f4: Float32Array,
  f8: Float64Array,
  i1: Int8Array,
  u1: Uint8Array,
  i2: Int16Array,
  u2: Uint16Array,
  i4: Int32Array,
  u4: Uint32Array,
};

// Read a message of `packing.py`: the header's length, a JSON header, then the arrays that it names by their
// way in the header, each at a multiple of 8 bytes after it. Returns the header with the arrays in their
// places.
export function readPacked(bytes) {
  const aligned = bytes.slice().buffer;
  const length = new DataView(aligned).getUint32(0, true);
  const { arrays, ...header } = JSON.parse(new TextDecoder().decode(new Uint8Array(aligned, 4, length)));
  for (const [way, [type, offset, count]] of Object.entries(arrays)) {
    const names = way.split(".");
    const last = names.pop();
    const place = names.reduce((part, name) => part[name], header);
    place[last] = new TYPES[type](aligned, 4 + length + offset, count);
  }
  return header;
}

// Return the component that shows a `Made`: made when it is first shown, told each time of what the server has
// sent, and closed at its end.
export function lasting(Made) {
  return ({ data, parentElement, setTriggerValue, setStateValue }) => {
    const made = (parentElement.quantvizMade ??= new Made(parentElement));
    made.update(data instanceof Uint8Array ? readPacked(data) : data, setTriggerValue, setStateValue);
    return () => {
      parentElement.quantvizMade?.close();
      delete parentElement.quantvizMade;
    };
  };
}

// Take a component that shows nothing out of the page's flow, where Streamlit would leave a gap; or put it
// back.
export function tuckAway(parent, away) {
  const outer = (parent instanceof ShadowRoot ? parent.host : parent)?.closest(
    "[data-testid=stElementContainer]",
  );
  if (outer)
    Object.assign(
      outer.style,
      away
        ? { position: "absolute", height: "0", overflow: "hidden" }
        : { position: "", height: "", overflow: "" },
    );
}
