// A page's owner of a ruler for the tests: it rounds to an integer grid, and answers each move with a picture.

// `rows` are the values; `state` says bits, range, zero point, what is selected, and which handles there are.
export function makeDemo(host, settings, values, state) {
  const told = [];
  let timesShown = 0;
  const on = {
    move(message) {
      told.push(["move", message]);
      if (state.deaf) return;
      apply(message);
      ruler.show(picture());
    },
    release: (message) => told.push(["release", message]),
    cancel: (message) => told.push(["cancel", message]),
  };
  const moves = Object.values(state.handles).some(Boolean);
  const ruler = new Ruler(host, settings, moves ? on : {});

  function apply(message) {
    const codes = grid();
    if (message.kind === "range") Object.assign(state, { lo: message.lo, hi: message.hi });
    else if (message.kind === "value") values[message.cell] = message.value;
    else if (message.kind === "bits") state.bits = state.bitsChoices[message.at];
    else if (message.kind === "group") state.group = message.at;
    else if (message.kind === "tooth") setScale(message.value / (codes[message.index] - zeroPoint()));
    else if (message.kind === "zero") {
      const [scale, moved] = [scaleNow(), Math.round(message.value / scaleNow())];
      const z = codes[message.index] - moved;
      Object.assign(state, { lo: (codes[0] - z) * scale, hi: (codes.at(-1) - z) * scale });
    }
  }

  function setScale(scale) {
    const codes = grid();
    const z = zeroPoint();
    if (state.symmetric) Object.assign(state, { lo: codes[0] * scale + scale, hi: codes.at(-1) * scale });
    else Object.assign(state, { lo: (codes[0] - z) * scale, hi: (codes.at(-1) - z) * scale });
  }

  function grid() {
    const most = 2 ** (state.bits - 1);
    return Array.from({ length: 2 * most }, (_, k) => k - most);
  }

  function scaleNow(at = state) {
    const most = 2 ** (state.bits - 1);
    return state.symmetric ? at.hi / Math.max(most - 1, 1) : (at.hi - at.lo) / (2 * most - 1);
  }

  function zeroPoint(at = state) {
    return state.symmetric ? 0 : -(2 ** (state.bits - 1)) - Math.round(at.lo / scaleNow(at));
  }

  function landings(at) {
    const codes = grid();
    const [scale, z] = [scaleNow(at), zeroPoint(at)];
    const landed = new Float32Array(values.length);
    const clipped = new Uint8Array(values.length);
    values.forEach((x, i) => {
      const q = Math.round(x / scale) + z;
      const kept = Math.min(Math.max(q, codes[0]), codes.at(-1));
      clipped[i] = kept === q ? 0 : 1;
      landed[i] = (kept - z) * scale;
    });
    return { landed, clipped };
  }

  function curve() {
    const at = Float64Array.from({ length: 48 }, (_, k) => (state.domain[1] * (k + 1)) / 48);
    const [rounding, clipping] = [new Float64Array(48), new Float64Array(48)];
    at.forEach((hi, k) => {
      const { landed, clipped } = landings({ lo: state.symmetric ? -hi : state.lo, hi });
      values.forEach((x, i) => ((clipped[i] ? clipping : rounding)[k] += (landed[i] - x) ** 2 / values.length));
    });
    const lo = at.map((hi) => (state.symmetric ? -hi : state.lo));
    const [both, whole] = [rounding.map((error, k) => error + clipping[k]), at[40]];
    const ghosts = [2, 8].map((bits) => ({ bits, whole, at, error: both.map((error, k) => (error * k) / bits) }));
    return { lo, at, rounding, clipping, now: state.hi, marks: state.marks, ghosts, takes: true };
  }

  function histogram(count = 60) {
    const [lo, hi] = state.domain;
    const edges = Float64Array.from({ length: count + 1 }, (_, k) => lo + ((hi - lo) * k) / count);
    const counts = new Float64Array(count);
    for (const x of values) counts[Math.min(count - 1, Math.max(0, Math.floor(((x - lo) / (hi - lo)) * count)))]++;
    return { edges, counts };
  }

  function picture() {
    timesShown += 1;
    const codes = grid();
    const [scale, z] = [scaleNow(), zeroPoint()];
    return {
      domain: state.domain,
      values: state.alone ? new Float32Array(0) : values,
      ...landings(),
      selected: state.selected,
      histogram: histogram(state.bars),
      levels: Float64Array.from(codes, (q) => (q - z) * scale),
      codes: codes.map((q) => String(q).replace("-", "−")),
      zero: codes.indexOf(z),
      range: { lo: state.lo, hi: state.hi },
      symmetric: state.symmetric,
      handles: {
        range: false,
        zero: false,
        tooth: false,
        value: false,
        ...state.handles,
        bits: state.handles.bits
          ? { at: state.bitsChoices.indexOf(state.bits), labels: state.bitsChoices.map(String) }
          : null,
        group: state.handles.group ? { at: state.group, labels: ["4", "8", "16", "all"] } : null,
      },
      curve: state.curve ? curve() : null,
      standing: state.standing,
      outlier: state.outlier,
      mark: state.mark === undefined ? null : { on: "axis", at: state.mark, asked: false },
      words: { label: "The demo's ruler." },
    };
  }

  ruler.show(picture());
  return { ruler, told, state, values, picture, show: () => ruler.show(picture()), shown: () => timesShown };
}
