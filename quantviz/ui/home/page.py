"""The front door: a picture with fewer bits, moved by hand, and three doors behind it.

The frame is painted first, then the picture and its slider; torch comes in at the end, for the next page.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from quantviz.browser.packing import pack
from quantviz.compiled.kept_programs import kept_programs
from quantviz.errors import QuantVizError
from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES, rgb
from quantviz.lab.state import VERSION, LabState, has_state
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Builtin, write_source
from quantviz.sources.builtin import BUILTINS
from quantviz.text import templates, text
from quantviz.ui.components.component import component
from quantviz.ui.components.drop_zone import show_anywhere
from quantviz.ui.components.lesson_place import PLACE
from quantviz.ui.components.page_header import show_language
from quantviz.ui.components.scheme_words import levels_of
from quantviz.ui.lab.bars.title_line import tensor_name
from quantviz.ui.shell import address, classroom, errors, session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.imports import frames, warm_up
from quantviz.ui.shell.long_work import heavily
from quantviz.ui.shell.shared_cache import shared_fact
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, say, say_error, theme

#: Number of shades for errors, from the lowest to the highest.
_SHADES = 257
#: Bytes of a value before it is quantized.
_BEFORE = 4


@dataclass(frozen=True)
class Toy:
    """A tensor to play with."""

    source: Builtin
    #: From the fewest bits to the most.
    schemes: tuple[Scheme, ...]
    #: The number of bits that shows the effect of rounding best.
    telling: int
    #: The cell that is explained at first.
    cell: Shape

    def sizes(self) -> tuple[tuple[float, float], ...]:
        """Return the bytes of the tensor before and after, for each scheme: codes, and one scale."""
        cells = math.prod(self.source.shape)
        return tuple(
            (_BEFORE * cells, (scheme.number_format.bits * cells + scheme.arithmetic.scale_bits) / 8)
            for scheme in self.schemes
        )


#: The toys, by the switch's name for each.
TOYS: Mapping[str, Toy] = {
    "picture": Toy(Builtin("landscape"), tuple(Scheme(f"uint{bits}") for bits in range(1, 9)), 3, (39, 145)),
    # A sign and no size is no number: symmetric integers begin at 2 bits.
    "row": Toy(Builtin("outlier_row"), tuple(Scheme(f"int{bits}") for bits in range(2, 9)), 4, (0, 5)),
}


#: The adder's bits from the fewest to the most, and those that show best what rounding costs.
SUM_BITS = range(2, 9)
_TELLING_SUMS = 3


@dataclass(frozen=True)
class FieldOfSums:
    """An adder's answers with some bits a weight, a scale for each row; 16 bits are its own."""

    bits: int
    #: Sums that are right, of so many.
    right: int
    count: int
    #: Bytes of the linear layers' weights before and after.
    size: tuple[float, float]
    #: The sums of the field: both numbers, and the answer.
    sums: tuple[tuple[int, int, str], ...]


def fields_of_sums() -> tuple[FieldOfSums, ...]:
    """Return the adder's answers by bits: two seconds of one core."""
    from quantviz.models.character_model import ADDER
    from quantviz.models.model_schemes import LayerSchemes, scheme_of_bits
    from quantviz.models.running import run_built_in

    found = []
    for bits in (*SUM_BITS, 16):
        run = run_built_in(ADDER, LayerSchemes(scheme_of_bits(bits)))
        assert run.sums
        cells = sum(layer.weight.numel() for layer in run.quantized.layers.values())
        field = tuple((each.left, each.right, each.answer) for each in run.sums.field())
        size = (_BEFORE * cells, run.bits * cells / 8)
        found.append(FieldOfSums(bits, run.sums.right, len(run.sums.every), size, field))
    return tuple(found)


def _import_torch() -> None:
    """Import torch before the programs are written, and let another run have its turn meanwhile."""
    frames().end()
    with run_queue().leave():
        import torch  # noqa: F401


@cache
def _arrays() -> Mapping[str, np.ndarray[Any, Any]]:
    picture, row = (BUILTINS[TOYS[name].source.name].values.ravel() for name in ("picture", "row"))
    return {"picture": picture.astype(np.uint8), "row": row}


@cache
def play_data(language: str, theme: str, sums: tuple[FieldOfSums, ...] = ()) -> bytes:
    """Return the component's data, in a language and for one of `THEMES`, with the adder's answers as far as
    they are known.
    """
    colours = THEMES[theme]
    other = THEMES["dark"]
    programs = kept_programs([scheme for toy in TOYS.values() for scheme in toy.schemes], _import_torch)
    toys = []
    first = 0
    for name, toy in TOYS.items():
        toys.append(
            {
                "name": name,
                "label": text(f"home.toys.{name}", language),
                "shape": toy.source.shape,
                "source": write_source(toy.source),
                "cell": toy.cell,
                "telling": toy.telling,
                "variants": [
                    {
                        "program": first + i,
                        "scheme": str(scheme),
                        "bits": scheme.number_format.bits,
                        "levels": levels_of(scheme, language),
                        "size": _size(before, after, language),
                    }
                    for i, (scheme, (before, after)) in enumerate(zip(toy.schemes, toy.sizes(), strict=True))
                ],
            }
        )
        first += len(toy.schemes)
    header = {
        **programs,
        "language": language,
        "link_version": VERSION,
        "writing": asdict(WRITING),
        "toys": [*toys, _toy_of_sums(language)],
        "sums": [
            asdict(each)
            | {"right": f"{each.right:,}", "count": f"{each.count:,}", "size": _size(*each.size, language)}
            for each in sums
        ],
        "words": dict(templates("home", language)),
        "colors": {
            **colours.named("text", "muted", "line", "surface", "font"),
            "tooth": colours.muted,
            "handle": colours.accent,
            "dot": colours.accent,
            "over": colours.errors[-1],
            "under": colours.errors[0],
            "wrong": colours.errors[-2],
            "right": colours.errors[2],
            # On a picture, which is as bright on any page.
            "mark": other.errors[-1],
        },
    }
    return pack(header, {**_arrays(), "errors": rgb(colours.errors, _SHADES).ravel()})


def _toy_of_sums(language: str) -> dict[str, Any]:
    return {
        "name": "sums",
        "label": text("home.toys.sums", language),
        "telling": _TELLING_SUMS,
        "variants": [
            {"bits": bits, "levels": levels_of(Scheme(f"int{bits}"), language), "size": ""}
            for bits in SUM_BITS
        ],
    }


def _size(before: float, after: float, language: str) -> str:
    return text("home.size", language, before=_bytes(before), after=_bytes(after))


def _bytes(count: float) -> str:
    """Return a number of bytes as it is read.

    >>> _bytes(98304.0), _bytes(14.0), _bytes(401_408.0)
    ('98 kB', '14 B', '400 kB')
    """
    return f"{float(f'{count / 1000:.2g}'):g} kB" if count >= 1000 else f"{math.ceil(count)} B"


LAB = "pages/lab/playground.py"
MODEL = "pages/explore/checkpoints.py"
LESSONS = "pages/learn/lessons.py"
TEACHER = "pages/learn/teacher.py"
_PLAY = "quantviz_home"
_CONTINUE = "quantviz_continue"
_SUMS = "home_sums"


def show_page() -> None:
    """Show the front door; the Lab instead, where the address has anything of the Lab's."""
    parameters = st.query_params.to_dict()
    if has_state(parameters) or classroom.PARAMETER in parameters:
        # Until now this was the Lab's address, and such links exist.
        st.switch_page(LAB, query_params=parameters)
    address.write({"lang": language()})
    name_tab(say("pages.home"))
    st.html(Path(__file__).with_name("home.css"))
    with st.container(key="home_head", horizontal=True):
        st.html(f'<span class="qv-brand">{say("app.title")}</span>')
        show_language()
    with st.container(key="home"):
        with st.container(key="home_words"):
            _show_words()
        play = st.container(key="home_play")
        with st.container(key="home_doors"):
            _show_doors()
    with play:
        component(_PLAY, "home_component")(
            key=_PLAY,
            data=play_data(language(), theme(), st.session_state.get(_SUMS, ())),
            on_go_change=_go,
        )
    # The page behind any of the doors then opens sooner.
    warm_up()
    if _SUMS not in st.session_state:
        st.session_state[_SUMS] = _sums()
        st.rerun()


def _sums() -> tuple[FieldOfSums, ...]:
    """Return the adder's answers by bits, measured once for all sessions; none where no work is taken."""
    with contextlib.suppress(QuantVizError):
        return shared_fact("fields of sums", lambda: heavily("fields of sums", fields_of_sums), by_job=True)
    return ()


def _show_words() -> None:
    st.html(
        f"<h1 class='qv-headline'><span>{say('home.headline')}</span> "
        f"<span>{say('home.question')}</span></h1>"
        f"<p class='qv-about-home'>{say('home.sentence')}</p>"
    )


# ---- doors --------------------------------------------------------------------------------------


def _show_doors() -> None:
    for problem in errors.page_errors():
        st.error(say_error(problem))
    with st.container(key="home_learn"):
        st.page_link(LESSONS, label=_door("learn"), width="stretch")
    with st.container(key="home_explore"):
        st.page_link(MODEL, label=_door("explore"), width="stretch")
        show_anywhere()
    with st.container(key="home_teach"):
        st.page_link(TEACHER, label=_door("teach"), width="stretch")
    _show_continue()


def _door(name: str) -> str:
    # The style distinguishes its parts; Markdown has no other mark that leaves 汉字 upright.
    return f"**{say(f'home.doors.{name}.name')}** **{say(f'home.doors.{name}.about')}**"


# ---- going on -----------------------------------------------------------------------------------


def _show_continue() -> None:
    colours = THEMES[theme()]
    # The state that this session has open in the Lab is newer than the browser's copy, and may hold an
    # upload, which no link carries.
    here = {}
    if session.was_seen():
        here["lab"] = {"name": tensor_name(session.state()), "parameters": None}
    component(_CONTINUE, "continue_component")(
        key=_CONTINUE,
        data={
            "key": address.PLACES_KEY,
            "title": say("home.continue.title"),
            "labels": {
                "lab": say("home.continue.lab", name="{name}"),
                "lesson": say("home.continue.lesson", name="{name}", step="{step}"),
            },
            "pages": {"lab": "lab", "lesson": "lessons"},
            "here": here,
            "language": language(),
            "colors": {"muted": colours.muted, "handle": colours.accent},
        },
        on_go_change=_go,
    )


def _go(message: Mapping[str, Any]) -> None:
    """Go to the page that a component asks for."""
    wanted = message["parameters"]
    if message["page"] == "lesson":
        # The page reads its address again.
        st.session_state.pop(PLACE, None)
        turn_to(LESSONS, wanted)
    elif message["page"] == "model":
        turn_to(MODEL, wanted)
    else:
        if wanted is not None:
            session.put_from_page(*LabState.read(wanted))
        turn_to(LAB)
