"""`quantviz ranges`: the range of an activation after each batch, as an engine's observer keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quantviz.cli.output import Output, language, put, say, with_output, write
from quantviz.cli.tensors import name_in, takes_tensor

if TYPE_CHECKING:
    from quantviz.quantization.batch_ranges import BatchRanges

#: Batches that are read, at most.
_MOST_BATCHES = 10_000
#: Forms that are drawn, and their size in CSS pixels.
_DRAWN = ("html", "svg", "png")
_WIDTH, _HEIGHT = 800, 400


@click.command(short_help="Print how a range grows with the batches it is taken from.")
@takes_tensor
@click.option(
    "--batch", type=click.IntRange(1), default=1, metavar="N", help="Rows of the first axis in a batch."
)
@click.option(
    "--observer",
    default="min_max",
    metavar="NAME",
    help="min_max; of torch: moving_average, histogram; of onnxruntime: mean, percentile, entropy.",
)
@click.option("-s", "--scheme", default="int8,asymmetric,per_tensor,min_max,course", metavar="SCHEME")
@click.option("--orders", default=20, metavar="N", help="Orders of the batches that are tried.")
@with_output(html=".html", svg=".svg", png=".png")
def ranges(
    file: str, tensor: str | None, batch: int, observer: str, scheme: str, orders: int, output: Output
) -> None:
    """Print how a range grows with the batches it is taken from.

    FILE is a run as qv.capture writes it, or another file of tensors; the batches are parts of the first axis
    of TENSOR. A row for each number of batches goes to stdout: the range, the scale, and the smallest and the
    largest scale over orders of the batches. Into a .html, .svg or .png the scale is drawn as a curve with
    its spread instead; the last two need the extra images and a Chrome or Chromium. The batches after which
    the scale is settled go to stderr.
    """
    from quantviz.checkpoints.model.opening import open_near
    from quantviz.cli.figure import refuse_undrawn
    from quantviz.quantization.batch_ranges import ranges_over_batches
    from quantviz.sources.stores.addresses import shown

    if output.format in _DRAWN:
        refuse_undrawn(output)
    catalog = click.get_current_context().with_resource(open_near(file, tensor))
    name = name_in(catalog, shown(file), tensor)
    rows, *others = catalog.info(name).shape or (1,)
    starts = range(0, rows, batch)
    if len(starts) > _MOST_BATCHES:
        say("cli.ranges.most", count=_MOST_BATCHES, all=len(starts))
        starts = starts[:_MOST_BATCHES]
    whole = (slice(None),) * len(others)
    batches = [catalog.read(name, (slice(start, start + batch), *whole)).tensor for start in starts]
    found = ranges_over_batches(batches, observer, scheme, orders=orders)
    say("cli.ranges.settled", count=found.settled, all=len(batches), orders=orders)
    if output.format in _DRAWN:
        _draw(found, f"{shown(file)} · {name} · {observer}", output)
        return
    columns = {
        name: getattr(found, name).tolist() for name in ("lo", "hi", "scale", "least_scale", "most_scale")
    }
    write(
        output,
        [
            {"batches": count + 1, **{name: values[count] for name, values in columns.items()}}
            for count in range(len(batches))
        ],
    )


def _draw(found: BatchRanges, title: str, output: Output) -> None:
    from quantviz.cli.figure import page_of, picture_of
    from quantviz.figures.arrangement import PanelsStyle
    from quantviz.figures.line_plots import range_curve

    style = PanelsStyle(language(), "light", _WIDTH)
    drawn = range_curve(found, height=_HEIGHT, width=_WIDTH, language=style.language)
    if output.format == "html":
        put(output, page_of(drawn, title, str(found.scheme), style, cdn=False))
    else:
        put(output, picture_of(drawn, output.format))
