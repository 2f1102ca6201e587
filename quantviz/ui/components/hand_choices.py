"""The schemes that the controls of a page lead to, sent to the browser before one is used.

After a click the browser shows by itself what the server is going to answer, in the same frame: see
`quantviz/browser/hand/controls.js`. It is sent schemes alone, nothing of a tensor, as a message of

    chart, scheme: the panels' chart, and the scheme that the choices start from;
    names: the scheme of each choice, by the control's key and the choice's form; of a button's by "";
    told: the words of the page's places under that scheme, of which `schemes` has those that differ;
    fields: the keys of the controls that show other choices under another scheme;
    lists: how the keys of long lists begin; the browser says that one is opened, and gets its choices then;
    calibration: its id, its numbers that have fields on the page, and the line of a range set by hand, by
        the calibration's id;
    setting, schemes, texts: the variant and the program of each scheme, with what controls show under it, and
    the texts of programs by number.

Schemes and texts are sent once for each `setting`: the shape, the dtype, NaN and Inf, and the language. A
browser that lacks some of them says so, and gets them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.browser.packing import pack
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.component import component, last_message
from quantviz.ui.components.hand import describe_variant, is_light, program_of, slider_stops
from quantviz.ui.shell.words import language

if TYPE_CHECKING:
    from quantviz.analysis.study import Study

_COMPONENT = "quantviz_choices"
_SCRIPT = "choices_component"
_KEY = "hand_choices"
_SENT = "hand_choices_sent"
#: Schemes that a browser keeps at most.
_MOST_SENT = 1000


@dataclass(frozen=True)
class ReachedSchemes:
    """The schemes that a page's controls lead to."""

    #: By the key of the control and the form of the choice.
    names: Mapping[str, Mapping[str, Scheme]]
    #: How the keys of long lists begin, whose choices are only sent once they are opened.
    lists: Iterable[str]
    #: The keys of the controls that show other choices under another scheme, and these under a scheme.
    fields: tuple[str, ...]
    values: Callable[[Scheme], tuple[str, ...]]
    #: The words that the page has under a scheme in its places.
    told: Callable[[Scheme], Mapping[str, str]]
    #: The numbers of the scheme's calibration that can be typed, by the names of its fields.
    numbers: Mapping[str, float]
    #: The range in one line with its braces, by the id of a calibration whose numbers a hand sets.
    lines: Mapping[str, str]

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """Return each of them once."""
        return tuple(dict.fromkeys(each for choices in self.names.values() for each in choices.values()))


@dataclass
class _Sent:
    """The schemes and texts that the session's browser has."""

    setting: str
    schemes: set[str] = field(default_factory=set)
    #: The numbers of texts.
    texts: dict[str, int] = field(default_factory=dict)


def opened_list() -> str | None:
    """Return the key of the list that a person has opened in this run."""
    key: str | None = last_message(_KEY, _SCRIPT, "opened")
    return key


def show_choices(study: Study, scheme: Scheme, chart: str, reached: ReachedSchemes) -> None:
    """Have the browser show in `chart` by itself the schemes that controls lead to from a `scheme`."""
    dtype = study.x.dtype
    variants = {each: made for each in reached.schemes if (made := _variant_on(each, study.shape, dtype))}
    setting = f"{study.shape} {dtype} {language()} {study.nonfinite}"
    forms = {each: str(each) for each in variants}
    schemes, texts = _unsent(_sent(setting), variants, forms, reached, reached.told(scheme))
    header = {
        "chart": chart,
        "scheme": str(scheme),
        "names": {key: _forms_of(choices, forms) for key, choices in reached.names.items()},
        "lists": list(reached.lists),
        "fields": reached.fields,
        "told": dict(reached.told(scheme)),
        "calibration": {
            "id": scheme.calibration.id,
            "numbers": dict(reached.numbers),
            "lines": dict(reached.lines),
        },
        "setting": setting,
        "schemes": schemes,
        "texts": texts,
    }
    component(_COMPONENT, _SCRIPT)(key=_KEY, data=pack(header, {}), on_missing_change=_forget)


def _forms_of(choices: Mapping[str, Scheme], forms: Mapping[Scheme, str]) -> dict[str, str]:
    """Return the text forms of the schemes that the browser can quantize with, which are all in `forms`."""
    return {name: forms[scheme] for name, scheme in choices.items() if scheme in forms}


def _sent(setting: str) -> _Sent:
    """Return the schemes and texts that the browser has; none in another setting."""
    sent = cast("_Sent | None", st.session_state.get(_SENT))
    if sent is None or sent.setting != setting or len(sent.schemes) > _MOST_SENT:
        sent = st.session_state[_SENT] = _Sent(setting)
    return sent


def _forget() -> None:
    """Send everything again to a browser that lacks something."""
    if last_message(_KEY, _SCRIPT, "missing"):
        st.session_state.pop(_SENT, None)


def _unsent(
    sent: _Sent,
    variants: Mapping[Scheme, Mapping[str, Any]],
    forms: Mapping[Scheme, str],
    reached: ReachedSchemes,
    usual: Mapping[str, str],
) -> tuple[dict[str, Any], dict[int, str]]:
    """Return the variants and the texts of programs that the browser has not, and note that it gets them."""
    schemes = {}
    texts = {}
    for scheme, variant in variants.items():
        name = forms[scheme]
        if name in sent.schemes:
            continue
        sent.schemes.add(name)
        text = variant["program"]["text"]
        if text not in sent.texts:
            texts[len(sent.texts)] = text
            sent.texts[text] = len(sent.texts)
        program = {**variant["program"], "text": sent.texts[text]}
        values = reached.values(scheme)
        told = {key: words for key, words in reached.told(scheme).items() if usual.get(key) != words}
        schemes[name] = {**variant, "program": program, "values": values, "told": told}
    return schemes, texts


def _variant_on(scheme: Scheme, shape: Shape, dtype: str) -> Mapping[str, Any] | None:
    """Return the variant of a scheme with its program; None where a browser cannot quantize with it at once:
    where the range is searched for, or it takes too long.
    """
    calibration = scheme.calibration
    if not (calibration.of_values or isinstance(calibration, Given)) or not is_light(scheme, shape):
        return None
    return _described(scheme.on_input(dtype), shape, language())


@lru_cache(maxsize=512)
def _described(scheme: Scheme, shape: Shape, language: str) -> Mapping[str, Any] | None:
    program = program_of(scheme)
    if program is None:
        return None
    described = describe_variant(scheme, shape, getattr(scheme.granularity, "size", None))
    return {"program": program.packed(), "stops": slider_stops(scheme, shape), **described}
