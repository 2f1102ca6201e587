// Things that move by themselves, one frame after the other, until they are done or something else begins.

// Whether a person has asked for pages on which nothing moves by itself.
export function isStill() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
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
