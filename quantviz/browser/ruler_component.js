// The ruler as a component of a page: it shows the picture that the server sent, and tells what a hand moved.
//
// Python joins this file and what it imports into one: see `__init__.py`.

import { readPicture } from "./ruler/picture.js";
import { Ruler } from "./ruler/ruler.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { settings, picture } = readPicture(data);
  const look = JSON.stringify(settings);
  let now = parentElement.qvRuler;
  if (now?.look !== look) {
    now?.ruler.close();
    const { handles } = picture;
    const moves = Object.values(handles).some(Boolean);
    const on = moves ? { move() {}, release: (message) => now.send("moved", message) } : {};
    now = parentElement.qvRuler = { ruler: new Ruler(parentElement, settings, on), look };
  }
  now.send = setTriggerValue;
  now.ruler.show(picture);
  return () => {
    parentElement.qvRuler?.ruler.close();
    delete parentElement.qvRuler;
  };
}
