// Elements that are kept from one drawing to the next: whatever is the same in both is not written again.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Set an attribute that nobody else sets, or remove it where the value is null.
export function setAttribute(node, name, value) {
  const known = (node.qvKnown ??= {});
  if (known[name] === value) return;
  known[name] = value;
  if (value === null) node.removeAttribute(name);
  else node.setAttribute(name, value);
}

// Give `parent` a child for each of `items`: those that are there, then new ones. `write` gets each with its
// item.
export function drawChildren(parent, items, make, write) {
  while (parent.childElementCount > items.length) parent.lastElementChild.remove();
  let child = parent.firstElementChild;
  for (const item of items) {
    child ??= parent.appendChild(make());
    write(child, item);
    child = child.nextElementSibling;
  }
}
