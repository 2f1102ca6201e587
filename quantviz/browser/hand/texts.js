// All that a hand's browser writes beside the panels: the numbers, their second lines, the cell's sentence.

import { explainCell } from "../arithmetic/explaining.js";
import { indexIn } from "../page/index_in.js";
import { figuresOf, writeFigures } from "./figures_line.js";
import {
  blockWords,
  metricChanges,
  linesOf,
  sentenceOf,
  writeBlock,
  writeChanges,
  writeLines,
  writeSentence,
} from "./words.js";

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
