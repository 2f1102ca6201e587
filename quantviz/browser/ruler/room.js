// How much height a lesson's picture on a projector leaves for its ruler.

const PICTURE_ON_WALL = ".st-key-lesson_step > *";
const COLUMN_ON_WALL = "[data-testid=stVerticalBlock]";

// Pixels from the ruler's top to the picture's foot, less what stands below the ruler in its column; 0 where
// the picture may be as high as it likes. `observer` learns of everything that may change them.
export function roomOnScreen(root, observer) {
  const host = root.getRootNode().host ?? root;
  const picture = host.closest(PICTURE_ON_WALL);
  if (!picture || getComputedStyle(picture).overflowY !== "auto") return 0;
  const column = host.closest(COLUMN_ON_WALL);
  const own = [...column.children].find((child) => child.contains(host));
  for (const each of [picture, column, ...column.children]) observer.observe(each);
  const foot = Math.max(...[...column.children].map((child) => child.getBoundingClientRect().bottom));
  const below = foot - own.getBoundingClientRect().bottom;
  const top = root.getBoundingClientRect().top - picture.getBoundingClientRect().top + picture.scrollTop;
  return Math.max(picture.clientHeight - top - below, 1);
}
