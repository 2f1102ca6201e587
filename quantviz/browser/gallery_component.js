// The board of a bug in the gallery: see `gallery/board.js`.

import { Board } from "./gallery/board.js";
import { lasting } from "./page/lasting.js";

export default lasting(Board);
