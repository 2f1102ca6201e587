// The products of one output on a page without a server: which of them bring its error, and how.

import { percentage } from "../hand/figures_line.js";
import { plainNumber, significant } from "../panels/numbers.js";

// Lines of the table.
const LISTED = 8;
const COLUMNS = ["contributions", "weights", "inputs", "cross", "x", "x_hat", "w", "w_hat"];

// The products of an output, those that contribute most to its error first: `Products` of Python.
export function productsOf({ x, xHat, w, wHat }, [, inputs], [token, output]) {
  const found = Array.from({ length: inputs }, (_, channel) => {
    const [a, b] = [token * inputs + channel, output * inputs + channel];
    const [dx, dw] = [xHat[a] - x[a], wHat[b] - w[b]];
    const [weights, both] = [x[a] * dw, dx * dw];
    const contributions = weights + dx * w[b] + both;
    const values = { x: x[a], x_hat: xHat[a], w: w[b], w_hat: wHat[b] };
    return { channel, ...values, weights, inputs: dx * w[b], cross: both, contributions };
  });
  return found.toSorted((a, b) => Math.abs(b.contributions) - Math.abs(a.contributions));
}

export function writeProducts(products, chosen, writing) {
  const error = products.reduce((sum, { contributions }) => sum + contributions, 0);
  const rows = products.slice(0, LISTED).map((each) => {
    const line = document.createElement("tr");
    line.dataset.channel = each.channel;
    line.className = each.channel === chosen ? "qv-selected" : "";
    line.insertCell().innerHTML = `<button type="button">${each.channel}</button>`;
    const share = error ? each.contributions / error : 0;
    line.insertCell().textContent = percentage(share, writing);
    for (const name of COLUMNS) line.insertCell().textContent = significant(each[name], 3, writing);
    return line;
  });
  document.querySelector(".qv-products tbody").replaceChildren(...rows);
  const number = (value) => plainNumber(value, 4, writing);
  const { x, x_hat, w, w_hat, contributions } = products.find(({ channel }) => channel === chosen);
  const sides = [[x_hat, w_hat].map(number), [x, w].map(number)].map((each) => each.join(" × "));
  document.getElementById("qv-product").textContent =
    `x̂·ŵ ${writing.minus} x·w = ${sides.join(` ${writing.minus} `)} = ${plainNumber(contributions, 4, writing, "+")}`;
}
