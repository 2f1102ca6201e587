// How much each label on a ruler matters: those of more weight have their places first.

export const WEIGHTS = {
  scale: 9,
  best: 8,
  selected: 7,
  ring: 6,
  outside: 5,
  area: 4,
  minimum: 3,
  ghost: 2,
  title: 1,
};
