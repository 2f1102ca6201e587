// Names in lists as people type them: spaces, hyphens and underscores do not count.

// Signs that do not count: those of `quantviz.schemes.names`.
export const SEPARATORS = "[\\s_\\-./()\\u2010-\\u2015\\u3001\\uff08\\uff09]+";

// The part of a name that was typed, as the name writes it; what was typed where it is part of a name as it
// is, or of none.
export function spelledAsNamed(typed, names) {
  const lower = typed.toLowerCase();
  if (names.some((name) => name.toLowerCase().includes(lower))) return typed;
  const skipped = new RegExp(`^(?:${SEPARATORS})$`);
  const kept = (name) => [...name.keys()].filter((place) => !skipped.test(name[place]));
  const fold = (name) => kept(name).map((place) => name[place].toLowerCase());
  const wanted = fold([...typed]).join("");
  if (!wanted) return typed;
  for (const name of names.map((each) => [...each])) {
    const places = kept(name);
    const at = fold(name).join("").indexOf(wanted);
    if (at >= 0) return name.slice(places[at], places[at + [...wanted].length - 1] + 1).join("");
  }
  return typed;
}
