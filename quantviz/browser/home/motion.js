// The places of a sweep that moves by itself: see `page/motion.js`.

// The bits of the sweep: from where to where, and for how many milliseconds it stays or goes.
export function sweepOf(least, most, telling) {
  return [
    { from: most, to: most, takes: 150 },
    { from: most, to: least, takes: 2600 },
    { from: least, to: least, takes: 450 },
    { from: least, to: telling, takes: 900 },
  ];
}

// Where a sweep is after so many milliseconds; null once it is over.
export function placeOf(sweep, elapsed) {
  let rest = elapsed;
  for (const { from, to, takes } of sweep) {
    if (rest < takes) {
      const t = rest / takes;
      return from + (to - from) * t * t * (3 - 2 * t);
    }
    rest -= takes;
  }
  return null;
}
