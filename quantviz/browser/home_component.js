// What one plays with on the front door: see `home/play.js`.

import { Play } from "./home/play.js";
import { lasting } from "./page/lasting.js";

export default lasting(Play);
