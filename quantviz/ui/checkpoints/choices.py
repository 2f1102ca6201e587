"""The controls of the page: the checkpoint, the recipes, the colours, and the scan beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.checkpoints.example import EXAMPLE
from quantviz.checkpoints.model_map import COLOURS, Model, layers_with_experts
from quantviz.checkpoints.offered import Offered, holder_of
from quantviz.checkpoints.profiles import PROFILES
from quantviz.errors import QuantVizError
from quantviz.figures.model_map_plot import recipe_words
from quantviz.text import visible
from quantviz.ui.checkpoints.importance import imatrix_of, imatrix_path, show_importance
from quantviz.ui.checkpoints.reading import (
    NUMBERED,
    SAME,
    Seen,
    find_scan,
    is_results,
    is_scan_of,
    name_of,
    names_of,
    others,
    path_of,
    scan_process,
    scans_of,
)
from quantviz.ui.checkpoints.state import (
    USUAL,
    VIEWS,
    CheckpointsState,
    change_state,
    current_state,
    leave_out,
    listed_recipes,
    put_state,
    setting,
)
from quantviz.ui.components.choice import choose
from quantviz.ui.shell import errors, widgets
from quantviz.ui.shell.words import language, say, say_error

if TYPE_CHECKING:
    from quantviz.checkpoints.results.stored_rows import Scan

#: Recipes that can be scanned at once.
_MOST_RECIPES = 16


def show_choices(state: CheckpointsState, there: Offered) -> CheckpointsState:
    """Show the choices of a scan, and the button that begins it; return the state with a checkpoint."""
    try:
        imatrix_path(state)
    except QuantVizError as problem:
        state = leave_out(problem, imatrix="")
    options = (*there.checkpoints, *there.results, EXAMPLE)
    holder = holder_of(state.chosen, there.checkpoints)  # where a shard is named, as the Lab does
    complete = dataclasses.replace(state, chosen=holder or options[0])
    if not complete.recipes:
        complete = dataclasses.replace(complete, **_last_choices(complete, there))
    if complete != state:
        put_state(complete)
    state = complete
    if state.chosen not in options:
        options = (state.chosen, *options)
    names = {name: name_of(name) for name in options}
    choose(
        st.selectbox,
        say("checkpoints.checkpoint"),
        options,
        key=widgets.show("checkpoints_chosen", state.chosen),
        on_change=errors.safely(_choose_checkpoint),
        format_func=names.__getitem__,
        help=say("checkpoints.checkpoint_help"),
    )
    if is_results(state.chosen):
        _choose_scan(state)
        return state
    engines = {"": say("checkpoints.any_engine")} | {each.id: each.name for each in PROFILES.values()}
    choose(
        st.selectbox,
        say("checkpoints.engine"),
        tuple(engines),
        key=widgets.show("checkpoints_engine", state.engine),
        on_change=errors.safely(_choose_engine),
        format_func=engines.__getitem__,
        help=say("checkpoints.engine_help"),
    )
    recipes = {name: recipe_words(name, language()) for name in listed_recipes(state)}
    choose(
        st.multiselect,
        say("checkpoints.recipes"),
        tuple(recipes),
        key=widgets.show("checkpoints_recipes", list(state.recipes)),
        on_change=errors.safely(_choose_recipes),
        format_func=recipes.__getitem__,
        filter_mode="contains",
        max_selections=_MOST_RECIPES,
        help=say("checkpoints.recipes_help"),
    )
    show_importance(state, there.imatrices)
    _show_button(state, options)
    return state


def _show_button(state: CheckpointsState, options: Sequence[str]) -> None:
    """Show the button that begins a scan; where the checkpoint is away, one that opens another."""
    job = scan_process().job
    busy = job is not None and job.running
    scan = None
    problem = ""
    try:
        path_of(state.chosen)
        scan = find_scan(state)
    except QuantVizError as error:  # it is shown below too
        problem = say_error(error)
    others = [name for name in options if name != state.chosen]
    if problem and others:
        st.button(
            say("checkpoints.instead", name=name_of(others[0])),
            key="checkpoints_instead",
            type="primary",
            on_click=errors.safely(_open),
            args=(others[0],),
            help=problem,
        )
        return
    of_these = scan is not None and is_scan_of(scan, state)
    done = of_these and scan is not None and scan.state == "done"
    word = "scan"
    if of_these and scan is not None and scan.state in ("cancelled", "killed"):
        word = "resume"
    elif done:
        word = "again"
    running = of_these and scan is not None and scan.state == "running"
    st.button(
        say(f"checkpoints.{word}"),
        key="checkpoints_scan",
        type="secondary" if done else "primary",
        on_click=errors.safely(begin_scan),
        # The state on the page, not the address, which may name no recipe.
        args=(state,),
        disabled=bool(busy or running or problem or not state.recipes),
        help=problem or say("checkpoints.busy" if busy else f"checkpoints.{word}_help"),
    )


def begin_scan(seen: CheckpointsState) -> None:
    """Begin the scan of a state's checkpoint."""
    path = path_of(seen.chosen)
    matrix = imatrix_path(seen)
    scan_process().start(path, seen.recipes, language(), seen.engine, matrix)


def _last_choices(state: CheckpointsState, there: Offered) -> dict[str, Any]:
    """Return the recipes, the engine and the importance matrix of a checkpoint's last scan; without a scan
    the default ones.
    """
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


def _choose_engine() -> None:
    """Take an engine's profile, and the recipes to begin with."""
    engine = st.session_state["checkpoints_engine"] or ""
    change_state(engine=engine, recipes=PROFILES[engine].first_recipes if engine else USUAL, recipe="")


def _choose_checkpoint() -> None:
    chosen = st.session_state["checkpoints_chosen"]
    if chosen is not None:
        _open(chosen)


def _open(chosen: str) -> None:
    """Take another checkpoint, with nothing of the last one."""
    change_state(chosen=chosen, number=0, recipes=(), recipe="", layer="", original="", imatrix="")


def _choose_recipes() -> None:
    recipes = tuple(st.session_state["checkpoints_recipes"])
    if recipes:
        change_state(recipes=recipes)


def _choose_scan(state: CheckpointsState) -> None:
    """Choose one of the scans in a file of results."""
    try:
        scans = {scan.id: scan_words(scan) for scan in scans_of(state.chosen)}
    except QuantVizError:  # it is shown below
        return
    if not scans:
        return
    choose(
        st.selectbox,
        say("checkpoints.which_scan"),
        tuple(scans),
        key=widgets.show("checkpoints_number", state.number or next(iter(scans))),
        on_change=setting("checkpoints_number", "number"),
        format_func=scans.__getitem__,
    )


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


def show_colours(state: CheckpointsState, model: Model) -> None:
    """Show the choices of the recipe and the quantity of the colours, and of the layer with experts."""
    names = {name: recipe_words(name, language()) for name in model.recipes}
    choose(
        st.selectbox,
        say("checkpoints.recipe"),
        tuple(names),
        key=widgets.show("checkpoints_recipe", state.shown(model.recipes)),
        on_change=setting("checkpoints_recipe", "recipe"),
        format_func=names.__getitem__,
    )
    colours = {name: say(f"checkpoints.colours.{name}") for name in COLOURS}
    choose(
        st.selectbox,
        say("checkpoints.colour"),
        COLOURS,
        key=widgets.show("checkpoints_colour", state.colour),
        on_change=setting("checkpoints_colour", "colour"),
        format_func=colours.__getitem__,
        help=say("checkpoints.colour_help"),
    )
    layers = {"": say("checkpoints.all_layers")} | {
        layer: say("checkpoints.experts_of", layer=layer.rpartition(".")[2])
        for layer in layers_with_experts(model)
    }
    if len(layers) > 1:
        choose(
            st.selectbox,
            say("checkpoints.level"),
            tuple(layers),
            key=widgets.show("checkpoints_layer", state.layer if state.layer in layers else ""),
            on_change=setting("checkpoints_layer", "layer"),
            format_func=layers.__getitem__,
        )


def show_beside(state: CheckpointsState, beside: tuple[Seen, str] | None) -> None:
    """Show the choice of a second scan beside the map."""
    offered = {"": say("checkpoints.nothing_beside"), SAME: say("checkpoints.same")} | {
        name: f"{name_of(name.partition(NUMBERED)[0])} · {scan_words(scan)}"
        if NUMBERED in name
        else name_of(name)
        for name, scan in others().items()
        if name != state.chosen
    }
    now = state.other if state.other in offered and beside else ""
    choose(
        st.selectbox,
        say("checkpoints.beside"),
        tuple(offered),
        key=widgets.show("checkpoints_other", now),
        on_change=errors.safely(_choose_other),
        format_func=offered.__getitem__,
        help=say("checkpoints.beside_help"),
    )
    if beside is None:
        return
    seen, recipe = beside
    names = {name: recipe_words(name, language()) for name in seen.model.recipes}
    choose(
        st.selectbox,
        say("checkpoints.other_recipe"),
        tuple(names),
        key=widgets.show("checkpoints_other_recipe", recipe),
        on_change=setting("checkpoints_other_recipe", "other_recipe"),
        format_func=names.__getitem__,
    )
    views = {name: say(f"checkpoints.views.{name}") for name in VIEWS}
    choose(
        st.segmented_control,
        say("checkpoints.view"),
        VIEWS,
        key=widgets.show("checkpoints_view", state.view),
        required=True,
        on_change=setting("checkpoints_view", "view"),
        format_func=views.__getitem__,
    )


def _choose_other() -> None:
    """Take another scan beside the first; of the same one, another recipe."""
    from quantviz.ui.checkpoints.reading import look_beside

    other = st.session_state["checkpoints_other"] or ""
    change_state(other=other, other_recipe="")
    state = current_state()
    beside = look_beside(state)
    if beside is None:
        return
    recipes = beside[0].model.recipes
    shown = state.shown(recipes)
    if other == SAME:
        shown = next((name for name in recipes if name != shown), shown)
    change_state(other_recipe=shown)
