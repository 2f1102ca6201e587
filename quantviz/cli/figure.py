"""`quantviz figure`: the four panels of a tensor under a scheme as a page or a picture."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from quantviz.cli.output import Output, language, put, with_output
from quantviz.cli.tensors import open_tensor, schemes_named, takes_outputs_axis, takes_tensor
from quantviz.errors import QuantVizError
from quantviz.schemes.orientation import Orientation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantviz.analysis.study import Study
    from quantviz.cli.tensors import Chosen
    from quantviz.figures.arrangement import PanelsStyle
    from quantviz.live.hand_words import Looks
    from quantviz.schemes.scheme import Scheme

#: Pixels of a .png for each of the figure's: so many that numbers can be read in print; and where the width
#: on paper is known, 300 an inch.
_FINER = 2
_PRINTED = 300 / 96
#: The least and the greatest width in pixels.
_NARROWEST, _WIDEST = 300, 4000
#: The figure's pixels in a millimetre of paper: its letters of 12 pixels have 9 points there.
_IN_MM = 96 / 25.4


class _Width(NamedTuple):
    pixels: float
    #: Pixels of a .png for each of these.
    finer: float = _FINER


class _TakesWidth(click.ParamType[_Width]):
    """A width in pixels, or in millimetres of paper: 88mm."""

    name = "width"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> _Width:
        found = re.fullmatch(r"(\d{1,4}(?:\.\d{1,4})?)(mm)?", str(value), re.ASCII)
        width = _Width(0) if found is None else _Width(float(found[1]))
        if found and found[2]:
            width = _Width(width.pixels * _IN_MM, _PRINTED)
        if not _NARROWEST <= width.pixels <= _WIDEST:
            wanted = f"{_NARROWEST} to {_WIDEST} pixels, or such as 88mm"
            self.fail(f"{value!r} is no width of {wanted}.", param, ctx)
        return width


@click.command()
@takes_tensor
@click.option(
    "-s",
    "--scheme",
    "schemes",
    required=True,
    multiple=True,
    help="A recipe such as int4_g128, or a scheme's text form; several in a page of HTML stand side by side.",
)
@takes_outputs_axis
@click.option("--cdn", is_flag=True, help="Load plotly from the net: a small page that needs one.")
@click.option(
    "--theme",
    type=click.Choice(["light", "dark"]),
    help="A page that can be quantized anew is as the reader's system is by default, all others are light.",
)
@click.option(
    "--width",
    type=_TakesWidth(),
    default="1060",
    show_default=True,
    help="Pixels, or millimetres of a paper's column: 88mm, where letters have 9 points.",
)
@with_output(tables=False, html=".html", svg=".svg", png=".png", pdf=".pdf")
def figure(
    file: str,
    tensor: str | None,
    schemes: tuple[str, ...],
    outputs_axis: Orientation | None,
    cdn: bool,
    theme: str | None,
    width: _Width,
    output: Output,
) -> None:
    """Draw a tensor, its codes and its error into a file.

    FILE is a file of tensors, an index of shards, a folder, or the address of one, such as
    https://host/model.safetensors or s3://bucket/model/; or a source such as 'builtin(name=picture)'.
    TENSOR is a name in it, and may be left out where there is only one. The file's suffix decides: .html is a
    page that works offline, in which a small tensor can be quantized anew by hand, under several schemes
    in all of them; .svg, .png and .pdf need the extra images and a Chrome or Chromium.
    """
    refuse_undrawn(output)
    if len(schemes) > 1 and (output.format != "html" or cdn):
        raise QuantVizError("cli.one_scheme", count=len(schemes))
    from quantviz.analysis.study import Study
    from quantviz.export.html_page import breakable
    from quantviz.figures.arrangement import PanelsStyle
    from quantviz.figures.panels import study_figure
    from quantviz.live.hand_words import Looks

    named = schemes_named(schemes)
    chosen = open_tensor(file, tensor, outputs_axis)
    looks = Looks(language(), theme or "light")
    if len(named) > 1:
        put(output, _compared(chosen, named, looks, follows=theme is None))
        return
    ((scheme, only),) = named.items()
    study = Study.of(chosen.stored, only)
    style = PanelsStyle(language(), theme or "light", width.pixels)
    facts = _facts(study, scheme)
    if output.format == "html":
        page = None if cdn else _live(study, chosen.title, looks, follows=theme is None)
        put(output, page or page_of(study_figure(study, style), chosen.title, facts, style, cdn))
    else:
        drawn = study_figure(study, style, note=str(breakable(f"{chosen.title} · {facts}", "")))
        put(output, picture_of(drawn, output.format, width.finer))


def refuse_undrawn(output: Output) -> None:
    """Raise a `QuantVizError` where a package is missing that draws this output."""
    if output.format != "html" and find_spec("kaleido") is None:
        raise QuantVizError("cli.needs_kaleido", format=output.format)
    if find_spec("plotly") is None:
        raise QuantVizError("cli.needs_plotly")


def _live(study: Study, title: str, looks: Looks, *, follows: bool) -> str | None:
    """Return the page whose tensor can be quantized anew in it; None where a browser cannot do that."""
    from quantviz.live.standalone import LivePage

    page = replace(LivePage.of(study, title, looks), follows=follows)
    return None if page.problem else page.html()


def _compared(chosen: Chosen, named: Mapping[str, Scheme], looks: Looks, *, follows: bool) -> str:
    from quantviz.analysis.study import Study
    from quantviz.live.standalone import LivePage, LivePages

    studies = {form: Study.of(chosen.stored, scheme) for form, scheme in named.items()}
    pages = [LivePage.of(study, form, looks) for form, study in studies.items()]
    shape = " × ".join(map(str, chosen.stored.shape))
    # A cell is selected in all of them: that of the first one's largest error.
    pages = [replace(page, cell=pages[0].cell) for page in pages]
    return LivePages(tuple(pages), f"{chosen.title} · {shape}", follows).html()


def page_of(drawn: Any, title: str, facts: str, style: PanelsStyle, cdn: bool) -> str:
    """Return a figure as a page that works offline, or with `cdn` one that loads plotly."""
    from quantviz.export.html_page import html_page
    from quantviz.figures.panels import PANELS_CONFIG
    from quantviz.figures.theme import THEMES

    panels = drawn.to_html(
        config=dict(PANELS_CONFIG), include_plotlyjs="cdn" if cdn else True, full_html=False, div_id="panels"
    )
    return html_page(
        "figure",
        language=language(),
        theme=style.theme,
        title=title,
        facts=facts,
        panels=panels,
        width=style.width,
        surface=THEMES[style.theme].surface,
    )


def picture_of(drawn: Any, form: str, finer: float = _FINER) -> bytes:
    """Return a figure as a picture: "svg", "png" with `finer` pixels for each of its own, or "pdf".

    Raises:
        QuantVizError: There is no browser that draws it.
    """
    try:
        picture: bytes = drawn.to_image(format=form, scale=finer if form == "png" else 1)
    except (RuntimeError, OSError) as error:  # kaleido's, of a browser that is missing or does not start
        reason = next(filter(None, str(error).splitlines()), type(error).__name__).strip(" .")
        raise QuantVizError("cli.no_browser", format=form, reason=reason) from None
    return picture


def _facts(study: Study, scheme: str) -> str:
    from quantviz.figures.numbers import number
    from quantviz.text import text

    sqnr = text("lab.picture_sqnr", language(), sqnr=number(study.measured.metrics["sqnr_db"], 3))
    return " · ".join((" × ".join(map(str, study.shape)), scheme, sqnr))
