// A message that Python packed: see `packing.py`.

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

// Read the header's length, a JSON header, then the arrays that it names by their way in the header, each at
// a multiple of 8 bytes after it. Returns the header with the arrays in their places.
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
