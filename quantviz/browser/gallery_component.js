// The board of a bug in the gallery: see `gallery/board.js`.

import { readPacked } from "./page/packed.js";
import { Board } from "./gallery/board.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const known = readPacked(data);
  if (parentElement.quantvizBoard) parentElement.quantvizBoard.update(known, setTriggerValue);
  else parentElement.quantvizBoard = new Board(parentElement, known, setTriggerValue);
  return () => {
    parentElement.quantvizBoard?.close();
    delete parentElement.quantvizBoard;
  };
}
