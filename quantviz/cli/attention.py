"""`quantviz attention`: what rounding a cache of keys and values does to scores, weights and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.output import FOUND, Bound, Output, complain, language, put, say, with_output, write
from quantviz.cli.text_table import text_table
from quantviz.errors import QuantVizError
from quantviz.text import text

if TYPE_CHECKING:
    from quantviz.models.attending import AttentionResult
    from quantviz.sources.files import Catalog

_SCHEMES = ("keys", "values", "scores", "queries", "weights")
_NONE = "none"


def _takes_schemes(command: Any) -> Any:
    """Add an option of a scheme for each part of attention, by default none."""
    for name in reversed(_SCHEMES):
        words = f"The scheme of the {name}, such as int4_per_channel or int8_per_token."
        command = click.option(f"--{name}", default=_NONE, metavar="SCHEME", help=words)(command)
    return command


@click.command(short_help="Print what rounding keys and values does to attention.")
@click.argument("file")
@click.argument("name", required=False)
@_takes_schemes
@click.option("--center", is_flag=True, help="Take the mean of each key channel over the tokens out first.")
@click.option(
    "--hadamard", is_flag=True, help="Round in the basis of a Hadamard matrix over a head's channels."
)
@click.option(
    "--residual",
    type=click.IntRange(min=0),
    default=0,
    metavar="TOKENS",
    help="Leave the newest tokens as they are, as KIVI does: so many values, and the keys beyond whole "
    "groups of so many.",
)
@click.option(
    "--rotary",
    type=Bound(),
    default=0.0,
    metavar="BASE",
    help="Turn q and k by rotary positions of this base first, such as 10000.",
)
@click.option(
    "--rotary-layout",
    type=click.Choice(("halves", "pairs")),
    default="halves",
    show_default=True,
    help="The channels that are turned together: i and i + d/2, or 2i and 2i + 1.",
)
@click.option("--before-rotary", is_flag=True, help="Round keys and queries before they are turned.")
@click.option(
    "--mask",
    default=_NONE,
    show_default=True,
    metavar="MASK",
    help="causal, none, or the name of a tensor in FILE that is added to the scores.",
)
@click.option("--heads", is_flag=True, help="Print a row for each head.")
@click.option(
    "--fail-over",
    type=Bound(),
    metavar="BITS",
    help="End with status 1 if the mean KL divergence of a row is above this, such as 0.01.",
)
@with_output()
def attention(**arguments: Any) -> None:
    """Print what rounding keys and values does to attention.

    FILE has queries, keys and values by their names, such as q, k and v or layers.0.query, layers.0.key and
    layers.0.value, each (tokens, channels) or (heads, tokens, channels); NAME is what stands before these
    words where there are several. The errors of scores, weights and outputs go to stdout, the KL divergence
    of the rows of attention and the size of the cache to stderr.
    """
    request = _Request(**arguments)
    result = _answered(request)
    _put_result(request, result)
    if request.fail_over is not None and not result.kl <= request.fail_over:
        say("cli.attention.above", kl=result.kl, most=request.fail_over)
        raise click.exceptions.Exit(FOUND)


@dataclass(frozen=True)
class _Request:
    file: str
    name: str | None
    keys: str
    values: str
    scores: str
    queries: str
    weights: str
    center: bool
    hadamard: bool
    residual: int
    rotary: float
    rotary_layout: str
    before_rotary: bool
    mask: str
    heads: bool
    fail_over: float | None
    output: Output


def _answered(request: _Request) -> AttentionResult:
    """Compute the result.

    Raises:
        QuantVizError: The file has no queries with their keys, or a scheme or option does not fit.
    """
    from quantviz.cli.layer_arguments import scheme_named
    from quantviz.models.attending import attention as attention_of
    from quantviz.models.head_rounding import AttentionOptions
    from quantviz.sources.files import open_tensors

    schemes = {name: scheme_named(getattr(request, name), "inputs") for name in _SCHEMES}
    options = AttentionOptions(
        request.center,
        request.hadamard,
        request.residual,
        schemes.pop("queries"),
        schemes.pop("weights"),
        request.rotary,
        "pairs" if request.rotary_layout == "pairs" else "halves",
        "before" if request.before_rotary else "after",
    )
    with open_tensors(request.file) as catalog:
        parts = {part: catalog.load(name) for part, name in _parts(catalog, request).items()}
        mask: Any = {_NONE: None, "causal": "causal"}.get(request.mask, request.mask)
        if mask is not None and mask != "causal":
            mask = catalog.load(mask)
    sides = (parts["q"], parts["k"], parts.get("v"))
    return attention_of(*sides, **schemes, mask=mask, options=options)


def _parts(catalog: Catalog, request: _Request) -> dict[str, str]:
    """Return the names of queries, keys and values: those after NAME, or the only ones."""
    from quantviz.models.heads import names_of_heads

    whole = names_of_heads(tuple(catalog.names))
    if request.name is not None:
        whole = {name: parts for name, parts in whole.items() if name == request.name}
    if len(whole) != 1:
        key = "cli.which_attention" if whole else "cli.no_attention"
        known = list(whole) or catalog.names[:8]
        raise QuantVizError(key, file=request.file, count=len(whole), names=", ".join(known))
    (parts,) = whole.values()
    return parts


def _put_result(request: _Request, result: AttentionResult) -> None:
    output = request.output
    if request.heads:
        write(output, result.table())
    elif output.format == "table":
        columns = [text(f"cli.attention.{name}", language()) for name in ("part", "rel_out", "sqnr_db")]
        rows = [[text(f"cli.attention.{name}", language()), *part] for name, part in result.errors.items()]
        put(output, f"{text_table(columns, rows, None)[0]}\n")
    else:
        write(output, result.record())
    say("cli.attention.kl", mean=result.kl, most=result.kl_99, largest=result.kl_max)
    cache = result.cache
    stored = cache.keys + cache.values
    say("cli.attention.bytes", stored=stored, plain=cache.at_16_bits, times=cache.at_16_bits / stored)
    for note in result.notes:
        complain(note)
