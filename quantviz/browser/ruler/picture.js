// The ruler's picture as the server packs it.

const ARRAYS = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, i4: Int32Array };

// Read what `RulerPicture.packed` wrote: the header's length, a JSON header, then the arrays that it names by
// their way in the picture, each at a multiple of 8 bytes after it. Returns `{ settings, picture }`.
export function readPicture(bytes) {
  const aligned = bytes.slice().buffer;
  const length = new DataView(aligned).getUint32(0, true);
  const { arrays, ...packed } = JSON.parse(new TextDecoder().decode(new Uint8Array(aligned, 4, length)));
  for (const [way, [type, offset, count]] of Object.entries(arrays)) {
    const names = way.split(".");
    const last = names.pop();
    const place = names.reduce((part, name) => part[name], packed.picture);
    place[last] = new ARRAYS[type](aligned, 4 + length + offset, count);
  }
  return packed;
}
