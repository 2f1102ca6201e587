// How much of a ruler is drawn: a course begins with dots and brackets, and the rest comes when it is needed.

// As in `quantviz/lab/picture_parts.py`: sliders alone, dots and brackets, teeth with their codes, the second
// scale below them, and all: bars, and lines in the colours of errors.
const STAGES = ["slider", "dots", "codes", "values", "all"];

// Whether a picture shows what comes with a stage. One that names none shows all.
export function draws(picture, stage) {
  return STAGES.indexOf(picture.stage ?? "all") >= STAGES.indexOf(stage);
}
