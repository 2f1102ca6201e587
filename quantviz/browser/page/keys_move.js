// A move by keys, which ends some time after the last key, or as soon as anything else is chosen: what was
// moved first is told first.

import { SHARED } from "./component.js";

export class KeysMove {
  // `end()` tells the server of the move.
  constructor(end) {
    this.end = end;
    this.timer = null;
  }

  get runs() {
    return this.timer !== null;
  }

  // A key was pressed: the move ends after so many milliseconds without another.
  goOn(rest) {
    this.forget();
    SHARED.moves.add(this);
    this.timer = setTimeout(() => this.finish(), rest);
  }

  finish() {
    if (!this.runs) return;
    this.forget();
    this.end();
  }

  // End it in another way.
  forget() {
    clearTimeout(this.timer);
    this.timer = null;
    SHARED.moves.delete(this);
  }
}

// End all moves by keys.
export function endKeysMoves() {
  for (const move of SHARED.moves) move.finish();
}
