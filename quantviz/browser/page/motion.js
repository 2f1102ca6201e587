// Frames: what waits for the next one, and things that move by themselves, one frame after the other, until
// they are done or something else begins.

// Whether a person has asked for pages on which nothing moves by itself.
export function isStill() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

// Call `act` once the next frame was painted.
export function oncePainted(act) {
  requestAnimationFrame(() => setTimeout(act));
}

export class Motion {
  // Call `step(milliseconds since now)` in each frame while it returns true; what moved before is stopped.
  start(step) {
    this.stop();
    const begin = performance.now();
    const turn = (now) => {
      this.frame = null;
      if (step(Math.max(now - begin, 0))) this.frame = requestAnimationFrame(turn);
    };
    this.frame = requestAnimationFrame(turn);
  }

  get runs() {
    return Boolean(this.frame);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
  }
}

// A sweep of bits: from where to where, and for how many milliseconds it stays or goes.
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
