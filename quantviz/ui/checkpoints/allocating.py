"""A budget of bits spent on the tensors of a scan: the frontier, the choice on the map, the next change."""

from __future__ import annotations

import hashlib
import html
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.checkpoints.allocation.file_size import size_words
from quantviz.checkpoints.allocation.offers import Offers
from quantviz.checkpoints.model.tensor_names import trimmed_names
from quantviz.checkpoints.model_map import ScannedModel, model_map
from quantviz.checkpoints.profiles import PROFILES, has_recipe
from quantviz.checkpoints.profiles.profile import Profile
from quantviz.checkpoints.results.typed_tables import COLUMNS, TypedTable
from quantviz.errors import QuantVizError
from quantviz.figures.model_map_plot import (
    kept_colour,
    model_map_figure,
    recipe_words,
    winners,
)
from quantviz.text import visible
from quantviz.ui.checkpoints.choices import begin_scan
from quantviz.ui.checkpoints.reading import is_results, is_starting
from quantviz.ui.checkpoints.state import KEPT, OWNER, CheckpointsState
from quantviz.ui.components.component import written
from quantviz.ui.components.controls import Control, choose_field, show_controls
from quantviz.ui.components.small_parts import (
    legend_html,
    offer_file,
    problem_instead,
    show_button,
    show_figure,
    show_folded,
)
from quantviz.ui.shell import errors
from quantviz.ui.shell.long_work import read_file
from quantviz.ui.shell.words import language, number, plain, say, say_error, sentences, theme

if TYPE_CHECKING:
    from quantviz.checkpoints.allocation.allocating import Allocation
    from quantviz.checkpoints.allocation.frontier import Frontier

_PINS = "checkpoints_pins"
_ALPHA = "checkpoints_alpha"
#: The pins that the table of them has returned, and how often others came from elsewhere.
_TOLD = "checkpoints_pins_told"
_VERSION = "checkpoints_pins_version"
#: Pixels of the table: rows are as high as a finger needs, and both columns stand whole beside each other on
#: a phone of 360 pixels; where there is more room, Streamlit spreads them.
_HEIGHT = 300
_ROW = 44
_HEADING = 36
_NAME = 184
_PIN = 130


def show_spending(
    state: CheckpointsState, model: ScannedModel, table: TypedTable, *, joins: bool
) -> tuple[dict[str, Any], str]:
    """Show the constraints, and return them as arguments of `choices_of`, with the name of the file of α. An
    engine that `joins` q, k and v leaves no choice.
    """
    weights = [tensor.name for tensor in model.weights]
    names = set(weights)
    pins = {name: recipe for name, recipe in state.pins if name in names}
    with st.container(key="checkpoints_spending", horizontal=True, vertical_alignment="center"):
        control = Control(
            "checkpoints_fused",
            "switch",
            say("checkpoints.allocate.fused"),
            value="1" if state.fused or joins else "",
            disabled=joins,
            take=lambda form: OWNER.change(fused=form == "1"),
        )
        show_controls("checkpoints_fused", OWNER, control)
        with st.popover(say("checkpoints.allocate.more", count=len(pins))):
            _show_pins(state, model, weights, pins)
            uploaded = st.file_uploader(
                say("checkpoints.allocate.alpha"), type=["csv", "txt", "gguf", "dat", "imatrix"], key=_ALPHA
            )
    sensitivities = None
    if uploaded is not None:
        with problem_instead():
            sensitivities = _sensitivities(uploaded, table)
    # Biases and norms stay as they are stored, as engines keep them.
    others = [tensor.name for tensor in model.tensors if tensor.name not in names]
    given = {
        "pinned": {name: recipe for name, recipe in pins.items() if recipe != KEPT},
        "excluded": (*others, *(name for name, recipe in pins.items() if recipe == KEPT)),
        "fused": "engine" if state.fused or joins else (),
        "sensitivities": sensitivities,
    }
    return given, visible(uploaded.name) if uploaded is not None and sensitivities is not None else ""


def _show_pins(
    state: CheckpointsState, model: ScannedModel, weights: list[str], pins: Mapping[str, str]
) -> None:
    if st.session_state.get(_TOLD, ()) != state.pins:
        # They came from an address: text typed before is not theirs.
        st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
        st.session_state[_TOLD] = state.pins
    words = {name: recipe_words(name, language()) for name in model.recipes}
    words[KEPT] = say("checkpoints.allocate.kept")
    free = say("checkpoints.allocate.free")
    key = f"{_PINS}_{state.chosen}_{st.session_state.get(_VERSION, 0)}"
    st.caption(say("checkpoints.allocate.pins_about"))
    st.data_editor(
        {
            "tensor": list(map(visible, trimmed_names(weights))),
            "recipe": [words.get(pins.get(name, ""), free) for name in weights],
        },
        key=key,
        hide_index=True,
        height=min(_HEIGHT, _HEADING + _ROW * len(weights) + 2),
        row_height=_ROW,
        placeholder=free,
        column_config={
            "tensor": st.column_config.TextColumn(
                say("checkpoints.columns.tensor"), disabled=True, width=_NAME
            ),
            "recipe": st.column_config.SelectboxColumn(
                # Without `required` the choice that frees again would be an empty line.
                say("checkpoints.allocate.pin"),
                options=[free, *words.values()],
                required=True,
                width=_PIN,
            ),
        },
        on_change=errors.safely(lambda: _pinned(key, weights, {said: name for name, said in words.items()})),
    )


def _pinned(key: str, weights: list[str], names: Mapping[str, str]) -> None:
    pins = dict(OWNER.state.pins)
    for row, changed in written(key, lambda lines: all(row < len(weights) for row in lines)).items():
        if "recipe" in changed:
            pins.pop(weights[row], None)
            if changed["recipe"] in names:
                pins[weights[row]] = names[changed["recipe"]]
    st.session_state[_TOLD] = changed_pins = tuple(pins.items())
    OWNER.change(pins=changed_pins)


def _sensitivities(uploaded: Any, table: TypedTable) -> Mapping[str, float]:
    """Return α of the tensors from the uploaded file, which is on the disk only meanwhile."""
    from quantviz.checkpoints.allocation.sensitivities import alphas, weights_in

    # The name is untrusted: only its suffix, which marks the format, is used.
    with TemporaryDirectory(prefix="quantviz-") as folder:
        path = Path(folder) / f"alpha{PurePath(uploaded.name).suffix.lower()}"
        content = uploaded.getvalue()
        path.write_bytes(content)
        try:
            key = "alpha", uploaded.name, hashlib.sha256(content).digest()
            return alphas(read_file(partial(weights_in, path), key, uploaded.name), Offers.of(table))
        except QuantVizError as problem:
            if "file" not in problem.params:
                raise
            raise QuantVizError(problem.key, **{**problem.params, "file": visible(uploaded.name)}) from None


_ENDINGS = {"json": "json", "llama": "txt", "llmcompressor": "yaml", "modelopt": "yaml"}


def show_allocation(state: CheckpointsState, model: ScannedModel, engine: str) -> None:
    """Show the section, once it is opened. Where the scan is of an engine, the files of its tool count."""
    words = say("checkpoints.allocate.title")
    known = state, model, PROFILES.get(engine)
    show_folded(words, "checkpoints_allocate", _show, *known, expanded=state.budget > 0)


@problem_instead()
def _show(state: CheckpointsState, model: ScannedModel, profile: Profile | None) -> None:
    from quantviz.checkpoints.allocation.allocating import allocated, budget_of
    from quantviz.checkpoints.allocation.choices import choices_of
    from quantviz.checkpoints.allocation.frontier import frontier_of

    table = TypedTable(COLUMNS, tuple(row for tensor in model.tensors for row in tensor.rows.values()))
    given, file = show_spending(state, model, table, joins=profile is None or profile.joins)
    files_of = profile.id if profile and profile.files else None
    choices = choices_of(table, **given, files_of=files_of)
    frontier = frontier_of(choices)
    bits_per_weight = _show_budget(state, frontier)
    if bits_per_weight is None:
        return
    allocation = allocated(choices, budget_of(choices, bits_per_weight=bits_per_weight))
    st.html(f'<p class="qv-finding">{_sentence(allocation, profile)}</p>')
    if files_of is None:
        _offer_engines(state, model.recipes)
    left, right = st.columns([5, 7], gap="medium")
    with left:
        _show_frontier(frontier, allocation)
    with right:
        _show_choice(model, allocation)
    alpha = say("checkpoints.allocate.alpha_one")
    if file:
        alpha = say("checkpoints.allocate.alpha_of", file=file)
    st.caption(plain(say("checkpoints.allocate.model", alpha=alpha)))
    _show_exports(allocation)


def _show_budget(state: CheckpointsState, frontier: Frontier) -> float | None:
    """Show the slider of bits a weight and return its value; None where there is one size alone."""
    sizes = [point.bits_per_weight or math.nan for point in (*frontier.points, *frontier.uniform)]
    least = math.ceil(100 * min(sizes)) / 100
    most = math.ceil(100 * max(sizes)) / 100
    if not least < most:
        st.caption(say("checkpoints.allocate.one_size"))
        return None
    budget = round(min(max(state.budget or (2 * least + most) / 3, least), most), 2)
    stops = (each / 100 for each in range(round(100 * least), round(100 * most) + 1))
    names = {each: f"{each:.2f}" for each in stops}
    choose_field(OWNER, "budget", "range", say("checkpoints.allocate.budget"), names, now=budget)
    return budget


def _show_frontier(frontier: Frontier, allocation: Allocation) -> None:
    from quantviz.checkpoints.allocation.frontier import FrontierPoint
    from quantviz.figures.allocation_plot import allocation_plot_figure

    chosen = FrontierPoint(
        None, allocation.bits, allocation.bits_per_weight, allocation.cost, allocation.sqnr_db
    )
    alt = say("checkpoints.allocate.frontier_alt")
    show_figure(allocation_plot_figure, "checkpoints_frontier", alt, frontier, chosen)


def _show_choice(model: ScannedModel, allocation: Allocation) -> None:
    data = model_map(model, model.recipes[0], choice=allocation.choice)
    show_figure(model_map_figure, "checkpoints_choice", say("checkpoints.allocate.choice_alt"), data)
    legend = [(recipe_words(name, language()), colour) for name, colour in winners(data, theme())]
    if any(square.status == "kept" for square in data.squares):
        legend.append((say("checkpoints.allocate.kept"), kept_colour(theme())))
    st.html(f'<p class="qv-small qv-legend">{legend_html(legend)}</p>')


def _sentence(allocation: Allocation, profile: Profile | None) -> str:
    """Return the sentence on an allocation and the next change; `profile`: the engine of the scan."""
    whole = allocation.bits + allocation.choices.kept_bits
    words = [
        say(
            "checkpoints.allocate.found" if allocation.is_optimal else "checkpoints.allocate.found_within",
            gap=f"{allocation.gap_db:.1g}",
            bits=number(allocation.bits_per_weight or math.nan, 4),
            megabytes=f"{whole / 8e6:,.4g}",
            db=number(allocation.sqnr_db, 4),
        ),
        say(f"checkpoints.allocate.{size_words(profile)}", engine=profile.name if profile else ""),
    ]
    following = allocation.next_change()
    if following is not None:
        gain = allocation.with_more().sqnr_db - allocation.sqnr_db
        names = ", ".join(each.removesuffix(".weight").removeprefix("model.") for each in following.tensors)
        words += [
            say(
                "checkpoints.allocate.next",
                tensors=names if len(names) < 120 else f"{names[:119]}…",
                before=recipe_words(following.before, language()),
                after=recipe_words(following.after, language()),
            ),
            say("checkpoints.allocate.tenth", db=number(gain, 3)),
        ]
    return html.escape(sentences(*words))


def _offer_engines(state: CheckpointsState, recipes: Sequence[str]) -> None:
    """Show a button for each engine that has all these recipes: a scan as it quantizes, whose files count."""
    if is_results(state.chosen):
        return  # their checkpoint may be elsewhere
    going = is_starting(state.chosen)
    for profile in PROFILES.values():
        if profile.files is not None and all(has_recipe(profile, name) for name in recipes):
            label = say("checkpoints.allocate.scan_for", engine=profile.name)
            key = f"checkpoints_scan_for_{profile.id}"
            show_button(label, key, _scan_for, profile.id, tuple(recipes), disabled=going)


def _scan_for(engine: str, recipes: tuple[str, ...]) -> None:
    OWNER.change(engine=engine, recipes=recipes)
    begin_scan(OWNER.state)


def _show_exports(allocation: Allocation) -> None:
    """Show a button for each tool that can take the choice, and why another cannot."""
    from quantviz.export.allocations import EXPORTS, export_allocation

    with st.container(key="checkpoints_exports", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(say("checkpoints.allocate.export"), width="content")
        for form in EXPORTS:
            content = problem = ""
            try:
                content = export_allocation(allocation, form)
            except QuantVizError as error:
                problem = say_error(error)
            words, file = f"checkpoints.allocate.exports.{form}", f"allocation-{form}.{_ENDINGS[form]}"
            offer_file(words, content, file, f"checkpoints_export_{form}", problem=problem)
