// All that a hand's browser writes beside the panels: the numbers, their second lines, the cell's sentence.

import { explainCell } from "../arithmetic/explaining.js";
import { indexIn } from "../page/index_in.js";
import { filled } from "../ruler/figures.js";
import { figuresOf, writeFigures } from "./figures_line.js";
import { blockWords, linesOf, metricChanges, sentenceOf } from "./words.js";

// Write what is `shown`: `data` is what the server sent, `formulas` are those of the metrics, and `made` the
// arithmetic and the blocks. The numbers of a large tensor are the server's; those of a slice stay as they
// are.
export function writeTexts(data, shown, formulas, made) {
  const { figures, whole, words, settings } = data;
  const { variant } = shown;
  const { writing } = settings;
  const own = whole && !figures;
  if (figures) writeFigures(figures);
  if (own) writeFigures(figuresOf(shown.metrics, variant, writing));
  writeLines(own ? linesOf(shown, words, variant, formulas.sqnr_db, writing) : null);
  writeChanges(own ? metricChanges(shown.metrics, variant.bits, data.baseline, words, writing) : null);
  writeSentence(sentenceIn(data, shown, made), indexIn(data.shape, data.selected));
  writeBlock(blockIn(data, shown));
}

// The block of the selected cell in words; null where the server alone can name it.
function blockIn({ far, shape, selected, words }, { block, blocks, variant }) {
  const isMatrix = shape.length === 2 && words.axes[0]?.axis === 0;
  if (far || !isMatrix || String(variant.layout.view) !== String(shape)) return null;
  return blockWords({ block, number: block[selected], count: blocks.count }, shape, words.block);
}

// The sentence of the selected cell; null of a large tensor, whose blocks the browser does not have, and
// where the page shows none.
function sentenceIn({ far, selected, words, settings }, shown, { arithmetic, layout }) {
  if (far || !document.querySelector("[data-qv-sentence]")) return null;
  const why = explainCell(arithmetic, shown.result, layout, selected);
  return sentenceOf(why, words, shown.variant.format_words, settings.writing);
}

// ---- where the page has places for them --------------------------------------------------

const LOOKS = new Map([
  [true, "qv-better"],
  [false, "qv-worse"],
  [null, ""],
]);

function writeChanges(changes) {
  for (const place of document.querySelectorAll("[data-qv-change]")) {
    const change = changes?.[place.dataset.qvChange];
    writeWords(place, change?.text ?? null);
    const look = LOOKS.get(change?.better);
    if (look !== undefined && place.className !== look) place.className = look;
  }
}

// Write lines where the page has a place for them; without lines the server's stay, dimmed.
function writeLines(lines) {
  for (const place of document.querySelectorAll("[data-qv-line]"))
    writeWords(place, lines?.[place.dataset.qvLine] ?? null);
}

// The same of the sentence of a cell, which stands after the cell's place.
function writeSentence(text, cell) {
  for (const place of document.querySelectorAll("[data-qv-sentence]"))
    writeWords(place, text !== null && place.dataset.qvSentence === cell.join(",") ? ` ${text}` : null);
}

// Call `act` once the sentence of another tab of the stage has come, in the frame in which it is shown; null
// where it is there.
export function whenSentenceIsThere(act) {
  const sentence = document.querySelector(".st-key-stage .st-key-sentence");
  const isOld = () => sentence.querySelector("[data-stale=true]");
  if (!sentence || !isOld()) return null;
  const observer = new MutationObserver(() => isOld() || act());
  observer.observe(sentence, { attributeFilter: ["data-stale"], childList: true, subtree: true });
  return observer;
}

// Show the stage's other tab, whose sentence and ruler are there: `stage_tabs.js` has dimmed all of it.
export function showTurnedStage() {
  const stage = document.querySelector(".st-key-stage[data-qv-turned=asked]");
  if (stage) stage.dataset.qvTurned = "running";
}

// Write another cell's place where the page has it: before its sentence, and in the title.
export function writePlace(cell, template) {
  for (const place of document.querySelectorAll("[data-qv-sentence]")) {
    place.dataset.qvSentence = cell.join(",");
    place.firstChild.textContent = filled(template, { place: cell.join(", ") });
  }
  ["row", "col"].forEach((name, axis) => {
    const input = document.querySelector(`[data-field=cell_${name}] input`);
    if (input) input.value = cell[axis];
  });
}

function writeBlock(words) {
  for (const place of document.querySelectorAll(".qv-block")) writeWords(place, words);
}

// Change the last text of an element where it stands: who watches the page for new elements need not look.
function writeWords(place, text) {
  const node = place.lastChild;
  place.qvCurrent = text !== null && node?.nodeType === Node.TEXT_NODE;
  if (place.qvCurrent && node.nodeValue !== text) node.nodeValue = text;
}

// What the server alone can write, and what is written here where it can be. A browser looks for one class or
// attribute forty times as fast as for any of several.
const WAITING = [".st-key-apply", ".st-key-steps", "[data-qv-line]", "[data-qv-change]", ".qv-block"];

// Dim what is not up to date while a hand moves something, or show it again.
export function dimWaiting(dims) {
  for (const selector of dims ? WAITING : ["[data-qv-waits]"])
    for (const place of document.querySelectorAll(selector)) dim(place, dims);
  if (dims)
    for (const place of document.querySelector(".st-key-sentence")?.querySelectorAll("p") ?? [])
      dim(place, true);
}

function dim(place, dims) {
  if (dims && !place.qvCurrent) place.dataset.qvWaits = "";
  else delete place.dataset.qvWaits;
}
