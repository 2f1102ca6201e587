"""The controls of the page: the checkpoint, the recipes, the colours, and the scan beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from quantviz.checkpoints.example import EXAMPLE
from quantviz.checkpoints.model_map import COLOURS, ScannedModel, layers_with_experts
from quantviz.checkpoints.offered import OfferedFiles, holder_of
from quantviz.checkpoints.profiles import PROFILES
from quantviz.errors import QuantVizError
from quantviz.figures.model_map_plot import recipe_words
from quantviz.text import visible
from quantviz.ui.checkpoints.captured import is_capture, show_pair
from quantviz.ui.checkpoints.importance import imatrix_of, imatrix_path, show_importance
from quantviz.ui.checkpoints.model_state import RUNNING
from quantviz.ui.checkpoints.reading import (
    NUMBERED,
    SAME,
    ScanView,
    find_scan,
    is_results,
    is_scan_of,
    is_starting,
    look_beside,
    name_of,
    names_of,
    others,
    path_of,
    scan_of,
    scans_of,
    start_scan,
)
from quantviz.ui.checkpoints.state import (
    OWNER,
    USUAL,
    VIEWS,
    CheckpointsState,
    listed_recipes,
)
from quantviz.ui.components.controls import choose_among, choose_field
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.lab.dropped_files import MODEL, RUNS, dropped_files, dropped_kind
from quantviz.ui.shell.words import language, say, say_error

if TYPE_CHECKING:
    from quantviz.checkpoints.results.stored_rows import Scan

#: Recipes that can be scanned at once.
_MOST_RECIPES = 16


def show_choices(state: CheckpointsState, there: OfferedFiles) -> CheckpointsState:
    """Show the choices of a scan, and the button that begins it; return the state with a checkpoint."""
    try:
        imatrix_path(state)
    except QuantVizError as problem:
        state = state.replace(imatrix="")
        OWNER.amend(state, problem)
    dropped = dropped_kind()
    options = (*([dropped] if dropped else []), *there.checkpoints, *there.results, EXAMPLE, *RUNNING)
    holder = holder_of(state.chosen, there.checkpoints)  # where a shard is named, as the Lab does
    complete = dataclasses.replace(state, chosen=holder or options[0])
    if not complete.recipes:
        complete = dataclasses.replace(complete, **_last_choices(complete, there))
    if complete != state:
        OWNER.amend(complete)
    state = complete
    if state.chosen not in options:
        options = (state.chosen, *options)
    names = {name: name_of(name) for name in options}
    label = say("checkpoints.checkpoint")
    about = say("checkpoints.checkpoint_help")
    choose_among("checkpoints_chosen", "list", label, names, state.chosen, _open, help=about)
    if is_capture(state.chosen):
        show_pair()
        return state
    if state.chosen in (*RUNNING, RUNS):
        return state
    if is_results(state.chosen):
        _choose_scan(state)
        return state
    engines = {"": say("checkpoints.any_engine")} | {each.id: each.name for each in PROFILES.values()}
    label = say("checkpoints.engine")
    about = say("checkpoints.engine_help")
    choose_among("checkpoints_engine", "list", label, engines, state.engine, _take_engine, help=about)
    recipes = {name: recipe_words(name, language()) for name in listed_recipes(state)}
    choose_among(
        "checkpoints_recipes",
        "picks",
        say("checkpoints.recipes"),
        recipes,
        list(state.recipes),
        _take_recipes,
        example=say("checkpoints.add_recipe"),
        help=say("checkpoints.recipes_help"),
    )
    show_importance(state, there.imatrices)
    _show_button(state, options)
    return state


def _show_button(state: CheckpointsState, options: Sequence[str]) -> None:
    """Show the button that begins a scan; where the checkpoint is away, one that opens another."""
    scan = None
    problem = ""
    going = False
    try:
        going = is_starting(state.chosen)
        scan = find_scan(state)
    except QuantVizError as error:  # it is shown below too
        problem = say_error(error)
    others = [name for name in options if name != state.chosen]
    if problem and others:
        label = say("checkpoints.instead", name=name_of(others[0]))
        show_button(label, "checkpoints_instead", _open, others[0], type="primary", help=problem)
        return
    of_these = scan is not None and is_scan_of(scan, state)
    done = of_these and scan is not None and scan.state == "done"
    word = "scan"
    if of_these and scan is not None and scan.state in ("cancelled", "killed"):
        word = "resume"
    elif done:
        word = "again"
    running = of_these and scan is not None and scan.state == "running"
    show_button(
        say(f"checkpoints.{word}"),
        "checkpoints_scan",
        begin_scan,
        state,
        type="secondary" if done else "primary",
        disabled=bool(going or running or problem or not state.recipes),
        help=problem or say(f"checkpoints.{word}_help"),
    )


def begin_scan(seen: CheckpointsState) -> None:
    """Begin the scan of the present state's checkpoint. What that does not name is as in the state that was
    `seen`: the address may name no recipe, and a choice may have come with the press.
    """
    now = OWNER.state
    seen = dataclasses.replace(now, chosen=now.chosen or seen.chosen, recipes=now.recipes or seen.recipes)
    path = path_of(seen.chosen)
    matrix = imatrix_path(seen)
    results = dropped_files(MODEL).results if seen.chosen == MODEL else None
    start_scan(path, seen.recipes, seen.engine, matrix, results)


def begin_example(seen: CheckpointsState) -> None:
    """Begin the usual scan of the example at its first visit, unless this server runs or ran a scan of it."""
    if seen.chosen == EXAMPLE and scan_of(EXAMPLE) is None:
        start_scan(path_of(EXAMPLE), USUAL)


def _last_choices(state: CheckpointsState, there: OfferedFiles) -> dict[str, Any]:
    """Return the choices of a checkpoint's last scan; without a scan the default recipes."""
    if is_results(state.chosen):
        return {}
    if state.engine:
        return {"recipes": PROFILES[state.engine].first_recipes}
    try:
        scan = find_scan(state)
    except QuantVizError:  # it is shown below
        scan = None
    if scan is None:
        return {"recipes": USUAL}
    matrix = imatrix_of(scan, there.imatrices)
    return {"recipes": names_of(scan), "engine": scan.selection.engine, "imatrix": matrix}


def _take_engine(chosen: str | None) -> None:
    engine = chosen or ""
    OWNER.change(engine=engine, recipes=PROFILES[engine].first_recipes if engine else USUAL, recipe="")


def _open(chosen: str | None) -> None:
    """Take another checkpoint, with nothing of the last one."""
    if chosen is not None:
        OWNER.change(chosen=chosen, number=0, recipes=(), recipe="", layer="", original="", imatrix="")


def _take_recipes(recipes: list[str]) -> None:
    if recipes:
        OWNER.change(recipes=tuple(recipes[:_MOST_RECIPES]))


def _choose_scan(state: CheckpointsState) -> None:
    try:
        scans = {scan.id: scan_words(scan) for scan in scans_of(state.chosen)}
    except QuantVizError:  # it is shown below
        return
    if scans:
        label = say("checkpoints.which_scan")
        choose_field(OWNER, "number", "list", label, scans, now=state.number or next(iter(scans)))


def scan_words(scan: Scan) -> str:
    """Return the label of a scan in a file: the end of its checkpoint's path, and its recipes."""
    parts = scan.path.rstrip("/").split("/")[-2:]
    return visible(f"{'/'.join(parts)} · {', '.join(names_of(scan))}"[:120])


def choices_words(scan: Scan) -> str:
    """Return the settings of a scan: its engine, its recipes and the name of its importance matrix."""
    profile = scan.selection.profile
    matrix = PurePath(scan.selection.imatrix).name
    recipes = [recipe_words(name, language()) for name in names_of(scan)]
    return ", ".join(filter(None, (profile.name if profile else "", *recipes, visible(matrix))))


def show_colours(state: CheckpointsState, model: ScannedModel) -> None:
    """Show the choices of the recipe and the quantity of the colours, and of the layer with experts."""
    names = {name: recipe_words(name, language()) for name in model.recipes}
    shown = state.shown(model.recipes)
    choose_field(OWNER, "recipe", "list", say("checkpoints.recipe"), names, now=shown)
    colours = {name: say(f"checkpoints.colours.{name}") for name in COLOURS}
    about = say("checkpoints.colour_help")
    choose_field(OWNER, "colour", "list", say("checkpoints.colour"), colours, help=about)
    layers = {"": say("checkpoints.all_layers")} | {
        layer: say("checkpoints.experts_of", layer=layer.rpartition(".")[2])
        for layer in layers_with_experts(model)
    }
    if len(layers) > 1:
        now = state.layer if state.layer in layers else ""
        choose_field(OWNER, "layer", "list", say("checkpoints.level"), layers, now=now)


def show_beside(state: CheckpointsState, beside: tuple[ScanView, str] | None) -> None:
    """Show the choice of a second scan beside the map."""
    offered = {"": say("checkpoints.nothing_beside"), SAME: say("checkpoints.same")} | {
        name: f"{name_of(name.partition(NUMBERED)[0])} · {scan_words(scan)}"
        if NUMBERED in name
        else name_of(name)
        for name, scan in others().items()
        if name != state.chosen
    }
    now = state.other if state.other in offered and beside else ""
    label = say("checkpoints.beside")
    about = say("checkpoints.beside_help")
    choose_among("checkpoints_other", "list", label, offered, now, _take_other, help=about)
    if beside is None:
        return
    seen, recipe = beside
    names = {name: recipe_words(name, language()) for name in seen.model.recipes}
    choose_field(OWNER, "other_recipe", "list", say("checkpoints.other_recipe"), names, now=recipe)
    views = {name: say(f"checkpoints.views.{name}") for name in VIEWS}
    choose_field(OWNER, "view", "row", say("checkpoints.view"), views)


def _take_other(chosen: str | None) -> None:
    """Take another scan beside the first; of the same one, another recipe."""
    other = chosen or ""
    OWNER.change(other=other, other_recipe="")
    state = OWNER.state
    beside = look_beside(state)
    if beside is None:
        return
    recipes = beside[0].model.recipes
    shown = state.shown(recipes)
    if other == SAME:
        shown = next((name for name in recipes if name != shown), shown)
    OWNER.change(other_recipe=shown)
