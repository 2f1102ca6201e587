#!/usr/bin/env bash
# The scan of the action: its status is that of `quantviz scan`. Inputs are in the environment, so that none is run as code.
set -euo pipefail
arguments=("$MODEL" --results "$RUNNER_TEMP/quantviz-results")
read -ra recipes <<<"$RECIPES"
for recipe in "${recipes[@]}"; do
  arguments+=(-r "$recipe")
done
if [ -n "$ENGINE" ]; then arguments+=(--engine "$ENGINE"); fi
if [ -n "$FAIL_UNDER" ]; then arguments+=(--fail-under "$FAIL_UNDER"); fi

mkdir -p "$FOLDER"
status=0
quantviz scan "${arguments[@]}" --junit "$FOLDER/scan.xml" -o "$FOLDER/scan.html" || status=$?
if [ "$status" -le 1 ]; then
  # What was measured is kept: this reads it.
  quantviz scan "${arguments[@]}" -o "$FOLDER/scan.md" 2>"$RUNNER_TEMP/quantviz-said" || [ $? -eq "$status" ]
  cat "$FOLDER/scan.md" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
