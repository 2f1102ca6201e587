// A room's addresses, and the lecturer's key in this browser.

const KEPT = "quantviz.room.v1";

// The room whose key this browser has: its code and the key; null without one.
export function keptRoom() {
  try {
    const kept = JSON.parse(window.localStorage.getItem(KEPT) ?? "null");
    return kept?.code && kept?.key ? kept : null;
  } catch {
    return null;
  }
}

export function keepRoom(room) {
  try {
    if (room) window.localStorage.setItem(KEPT, JSON.stringify(room));
    else window.localStorage.removeItem(KEPT);
  } catch {
    // Storage can be switched off: then a reload loses the key.
  }
}

// An address below the app's own.
export function appAddress(path) {
  return new URL(`../../${path}`, document.querySelector("script[type=module][src]").src);
}

// The answer of a room's address, with `message` as JSON where there is one. It is null where nothing is new;
// an error has its sentence in `says`, and its number in `status`.
export async function askRoom(path, { key, message } = {}) {
  const headers = { ...(key && { "X-Room-Key": key }) };
  const post = message && { method: "POST", body: JSON.stringify(message) };
  if (post) headers["Content-Type"] = "application/json";
  const answer = await fetch(appAddress(`room/${path}`), { headers, cache: "no-store", ...post });
  if (answer.status === 304 || answer.status === 204) return null;
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.says), { status: answer.status, key: said.error });
  return said;
}
