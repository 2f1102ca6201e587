// The bits of a code on the formats page, while a hand moves the number.

const ROLES = ["sign", "exponent", "mantissa", "integer", "index"];
const LATER = ".st-key-formats_code .qv-bits-title b, .qv-reading, .qv-landings";

// A style that shows `bits`, "0110", on the page's buttons for them, and fades the words that the server
// writes anew at the end. The buttons are the server's, so their digits are covered, not written over.
export function bitsStyle(bits) {
  const rules = [...bits].map((digit, k) => {
    const keys = ROLES.map((role) => `.st-key-formats_bit_${role}_${bits.length - 1 - k}`);
    const words = `:is(${keys.join(", ")}) button p`;
    const shown = `${words}::after { content: "${digit}"; font-size: var(--qv-16); }`;
    return `${words} { font-size: 0 !important; } ${shown}`;
  });
  return `${rules.join("\n")} :is(${LATER}) { opacity: 0.35; }`;
}
