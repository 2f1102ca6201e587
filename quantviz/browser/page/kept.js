// What a table has at a key: made, and kept there, when it is first asked for.
export function kept(table, key, make) {
  if (!table.has(key)) table.set(key, make(key));
  return table.get(key);
}
