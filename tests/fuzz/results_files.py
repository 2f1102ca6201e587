"""Results files to damage: what a small scan puts down, made without measuring."""

import sqlite3
from types import MappingProxyType

import quantviz as qv
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.results.typed_tables import NUMBERS
from quantviz.checkpoints.results.typed_values import sentences
from quantviz.checkpoints.scan.listing import Entry, Unmeasured
from quantviz.checkpoints.scan.measuring import ContentMeasurement

RECIPES = ("int8_per_row", "int4_g32")
NAMES = ("model.layers.0.q.weight", "model.layers.1.q.weight", "embed.weight", "norm.weight")
PATH = "/models/a/model.safetensors"
COVERAGE = {"en": "All of it was read.", "zh": "全部已读取。"}


def write_results(path):
    """Write two scans of four tensors: one tensor is refused, one recipe has a problem, one tensor waits."""
    named = [(name, qv.RECIPES[name]) for name in RECIPES]
    entries = [Entry(name, "/models/a/model.safetensors", "F32", (8, 64), 2048) for name in NAMES]
    with Results(path) as results:
        for number, place in enumerate((PATH, "/models/b/model.safetensors")):
            scan = results.begin(place, named, entries, [COVERAGE])
            results.note_coverage(scan, COVERAGE, number == 0)
            for at, entry in enumerate(entries[:3]):
                if at == 2:
                    why = Unmeasured("refused", qv.QuantVizError("checkpoint.no_recipes"))
                    results.finish_tensor(scan, at, entry, unmeasured=why)
                    continue
                results.finish_tensor(scan, at, entry, f"content{at}", rows=list(rows_of(f"content{at}", at)))
            results.note_rate(scan, 4096, 0.5)
            results.end(scan, "done")
    with sqlite3.connect(path) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.close()
    return path


def rows_of(content, at):
    """Rows of a tensor that was measured: its second recipe has a problem where `at` is 1."""
    numbers = dict.fromkeys((*qv.METRICS, *NUMBERS), 0.25) | {"nan": 0, "inf": 0, "cells": 512}
    numbers |= {"sqnr_db": 30.0 + at, "low": -1.0, "high": 1.0}
    for recipe in RECIPES:
        scheme = str(qv.RECIPES[recipe])
        if at == 1 and recipe == RECIPES[1]:
            yield ContentMeasurement(
                content, scheme, "problem", sentences(qv.QuantVizError("checkpoint.no_recipes"))
            )
        else:
            yield ContentMeasurement(content, scheme, "ok", None, MappingProxyType(numbers), (1, 2))
