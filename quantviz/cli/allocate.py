"""`quantviz allocate`: a recipe for each tensor within a budget of bits, from a scan's table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.output import Output, put, say, with_output, write
from quantviz.errors import QuantVizError
from quantviz.quoting import option_parts

if TYPE_CHECKING:
    from quantviz.checkpoints.allocation.allocating import Allocation
    from quantviz.checkpoints.results.typed_tables import TypedTable
    from quantviz.export.allocations import Suited

#: The tools that `export_allocation` writes files for; a test holds the two together.
TOOLS = ("json", "llama", "llmcompressor", "modelopt")


@click.command(short_help="Choose a recipe for each tensor within a budget of bits.")
@click.argument("table", type=click.Path())
@click.option("--bits", type=float, metavar="N", help="Bits a weight of the whole model, such as 4.25.")
@click.option("--gb", type=float, metavar="N", help="Size of the whole model in units of 10⁹ bytes.")
@click.option("--budget-bits", type=int, metavar="N", help="Bits of what is chosen alone.")
@click.option(
    "--pin",
    "pins",
    multiple=True,
    metavar="TENSOR=RECIPE",
    help=r"Give a tensor this recipe. Give it again for more. In a name write \= for =, \, for a comma and \\"
    " for a backslash.",
)
@click.option(
    "--fuse/--split",
    default=None,
    help="Give query, key and value one recipe, and gate and up, as vLLM needs it; or let them differ, as "
    "llama.cpp can. Default: as the engine needs it; without one they are fused.",
)
@click.option(
    "--tie",
    "ties",
    multiple=True,
    metavar="A,B",
    help="Count these tensors as one. The word content ties those of the same bytes. Names as in --pin.",
)
@click.option(
    "--exclude", "excluded", multiple=True, metavar="PATTERN", help="Leave tensors as stored; * is any text."
)
@click.option(
    "--alpha",
    type=click.Path(),
    metavar="FILE",
    help="What errors weigh: a CSV with the columns tensor and alpha, or llama.cpp's importance matrix.",
)
@click.option("--for", "tool", type=click.Choice(TOOLS), help="Write what a tool reads, instead of a table.")
@click.option(
    "--other-arithmetic",
    is_flag=True,
    help="With --for: also take recipes that were measured by other arithmetic than the tool's.",
)
@click.option(
    "--files-of",
    "engine",
    metavar="NAME",
    help="Count the files that this engine's tool writes: llama.cpp, vllm, mlx, … --for counts those of its "
    "tool. Without either: the recipes' codes and scales.",
)
@click.option(
    "--remeasure",
    "checkpoint",
    type=click.Path(),
    metavar="PATH",
    help="With --for: first measure this checkpoint again, as the tool's engine quantizes it, and choose by "
    "that; the table tells the recipes, where the tool has them.",
)
@click.option("--frontier", is_flag=True, help="Write the weight error at each size instead.")
@with_output(yaml=".yaml")
def allocate(**arguments: Any) -> None:
    """Choose a recipe for each tensor: the smallest weight error at this size.

    TABLE is what `quantviz scan` wrote (Parquet, CSV, JSON, JSON Lines, or its file of results), or another
    table with the columns tensor, recipe, bits and cost. Without a column cost it is the relative squared
    error times α. It ranks choices for these weights; it does not predict a model's quality.
    """
    from quantviz.checkpoints.allocation.allocating import allocate as choose

    request = _AllocateArguments(**arguments)
    if request.tool and request.frontier:
        raise click.UsageError("--frontier writes a table: leave out --for.")
    table, suited = _suited(request)
    fused: str | tuple[()] | None = "engine" if request.fuse else None
    if request.fuse is False and not suited.joins:
        fused = ()
    allocation = choose(
        table,
        budget_bits=request.budget_bits,
        bits_per_weight=request.bits,
        gigabytes=request.gb,
        pinned=dict(map(_pin, request.pins)),
        tied="content" if request.ties == ("content",) else [option_parts(tie, ",") for tie in request.ties],
        fused=fused,
        excluded=(*request.excluded, *suited.kept),
        sensitivities=request.alpha,
        among=suited.recipes,
        files_of=suited.engine,
    )
    if suited.dropped:
        say(
            "cli.allocate.dropped",
            tool=request.tool or request.engine,
            recipes=", ".join(suited.dropped),
            own=", ".join(suited.recipes),
        )
    _write_choice(request, allocation)
    _describe(allocation, suited.engine)


@dataclass(frozen=True)
class _AllocateArguments:
    table: str
    bits: float | None
    gb: float | None
    budget_bits: int | None
    pins: tuple[str, ...]
    fuse: bool | None
    ties: tuple[str, ...]
    excluded: tuple[str, ...]
    alpha: str | None
    tool: str | None
    other_arithmetic: bool
    engine: str | None
    checkpoint: str | None
    frontier: bool
    output: Output


def _suited(request: _AllocateArguments) -> tuple[Any, Suited]:
    from quantviz.checkpoints.results.table_files import read_table
    from quantviz.export.allocations import counted_as, suited

    tool = request.tool
    if request.output.format == "yaml" and tool not in ("llmcompressor", "modelopt"):
        raise QuantVizError("allocate.yaml_for_tools")
    if request.engine is not None and tool is not None:
        raise QuantVizError("allocate.files_of_tool", tool=tool, engine=request.engine)
    table = read_table(request.table)
    if request.checkpoint is not None:
        table = _measured_again(request.checkpoint, table, tool)
    if request.engine is not None:
        return table, counted_as(table, request.engine)
    return table, suited(table, tool or "json", other_arithmetic=request.other_arithmetic)


def _write_choice(request: _AllocateArguments, allocation: Allocation) -> None:
    """Write the allocation for a tool, its frontier, or the recipe of each tensor."""
    from quantviz.checkpoints.allocation.frontier import frontier_of
    from quantviz.export.allocations import export_allocation

    output = request.output
    if request.tool:
        exported = export_allocation(allocation, request.tool, other_arithmetic=request.other_arithmetic)
        put(output, exported)
    elif request.frontier:
        frontier = frontier_of(allocation.choices)
        write(output, [point.record() for point in (*frontier.points, *frontier.uniform)])
    else:
        write(output, [{"tensor": tensor, "recipe": name} for tensor, name in allocation.choice.items()])


def _measured_again(checkpoint: str, table: TypedTable, tool: str | None) -> Any:
    """Return a table measured under the recipes of `table` that the tool's engine has, or its first."""
    from quantviz.checkpoints.profiles import profile_of_export
    from quantviz.checkpoints.scan.scanning import scan
    from quantviz.export.allocations import recipes_of_tool

    profile = profile_of_export(tool) if tool else None
    if profile is None:
        raise QuantVizError(
            "allocate.remeasure_for", got=tool or "json", known="llama, llmcompressor, modelopt"
        )
    shared = [recipe for recipe in recipes_of_tool(profile) if recipe in table.recipes]
    recipes = shared or [recipe for recipe in profile.first_recipes if recipe in recipes_of_tool(profile)]
    say("cli.allocate.remeasured", file=checkpoint, engine=profile.name, recipes=", ".join(recipes))
    return scan(checkpoint, recipes, engine=profile.name)


def _pin(pin: str) -> tuple[str, str]:
    # A scheme's text form has "=" in it, which is left as it is.
    parts = option_parts(pin, "=", 1)
    if len(parts) < 2 or not all(parts):
        raise QuantVizError("allocate.pin_form", got=pin)
    return parts[0], parts[1]


def _describe(allocation: Allocation, engine: str | None) -> None:
    """Print the allocation, the basis of its size, its error and the next change on stderr."""
    from quantviz.checkpoints.allocation.file_size import size_words
    from quantviz.checkpoints.profiles import PROFILES

    profile = PROFILES[engine] if engine else None
    proven = "cli.allocate.found" if allocation.is_optimal else "cli.allocate.found_within"
    budget = f"{allocation.budget_bits:,}"
    say(proven, gap=f"{allocation.gap_db:.1g}", bits=f"{allocation.bits:,}", budget=budget)
    per_weight = allocation.bits_per_weight
    if per_weight is not None:
        whole = allocation.bits + allocation.choices.kept_bits
        say("cli.allocate.model", bits_per_weight=f"{per_weight:.4g}", gigabytes=f"{whole / 8e9:.4g}")
        names = ", ".join(profile.name for profile in PROFILES.values())
        say(f"cli.allocate.{size_words(profile)}", engine=profile.name if profile else "", engines=names)
    # The number that measures the error: SQNR, or costs of the table.
    error = "cost" if math.isnan(allocation.sqnr_db) else "error"
    say(f"cli.allocate.{error}", cost=f"{allocation.cost:.4g}", sqnr_db=f"{allocation.sqnr_db:.4g}")
    following = allocation.next_change()
    if following is None:
        return
    say(
        "cli.allocate.next",
        tensors=", ".join(following.tensors),
        before=following.before,
        after=following.after,
        bits=f"{following.bits:,}",
        saved=f"{following.saved:.3g}",
    )
    if per_weight is not None:
        more = allocation.with_more()
        say(f"cli.allocate.tenth_{error}", cost=f"{more.cost:.4g}", sqnr_db=f"{more.sqnr_db:.4g}")
