"""The state of a page: one frozen dataclass, whose fields say how they stand in a link.

A page declares its fields. Its link and the problems of one, its steps to undo, and what stays on the screen
where a step is undone follow from them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from quantviz.errors import QuantVizError

#: A longer link was not made by us.
LONGEST = 4000
#: Steps that undo reaches back.
MOST_STEPS = 50
_LINK = "link"
_LOOKS = "looks"
S = TypeVar("S", bound="PageState")


@dataclass(frozen=True)
class Reading(Generic[S]):
    #: The state as far as it is read.
    state: S
    params: Mapping[str, str]
    #: The parameters that could not be used.
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Codec:
    """The text of a field's value in a link."""

    #: Return the value written as a text; `QuantVizError` for any other text.
    read: Callable[[str, Reading[Any]], Any]
    #: Return the text of a value, from it and its state; "" where the link leaves it out.
    write: Callable[[Any, Any], str]


def codec(read: Callable[[str], Any] = str, write: Callable[[Any], str] = str) -> Codec:
    """Return the codec of a value by itself; None has no text.

    >>> codec(int).write(3, None), codec(int).write(None, None)
    ('3', '')
    """
    return Codec(lambda form, _: read(form), lambda value, _: "" if value is None else write(value))


def one_of(known: Callable[[], Collection[Any]], key: str = "link.choice") -> Codec:
    """Return the codec of a value among those that `known` returns; `key` names the error for another one."""

    def read(form: str) -> Any:
        choices = {str(value): value for value in known()}
        if form not in choices:
            raise QuantVizError(key, got=form, known=", ".join(choices))
        return choices[form]

    return codec(read)


def whole_number(most: int, least: int = 0, key: str = "link.place") -> Codec:
    """Return the codec of a whole number; `key` names the error for any other text."""

    def read(form: str) -> int:
        number = int(form) if form.isascii() and form.isdigit() and len(form) <= len(str(most)) else -1
        if not least <= number <= most:
            raise QuantVizError(key, got=form, most=most)
        return number

    return codec(read)


#: The codec of a field that is true or false.
SWITCH = codec(lambda form: form == "1", lambda value: "1" if value else "")


@dataclass(frozen=True)
class _Link:
    codecs: Mapping[str, Codec]
    #: Whether the link has it also where the field has its usual value.
    always: bool
    #: The parameter without which it means nothing.
    of: str


def field(
    default: Any = dataclasses.MISSING,
    *,
    link: str | Mapping[str, Codec] = "",
    codec: Codec | None = None,
    looks: bool = False,
    always: bool = False,
    of: str = "",
    **more: Any,
) -> Any:
    """Return a field of a page's state.

    Args:
        default: Its value at first.
        link: The parameter of links that carries it, or several, each with a codec of its own; "" for none.
        codec: The codec of the one parameter.
        looks: Whether it belongs to the view: a change of it is no step to undo.
        always: Whether links carry it also where it has its usual value.
        of: The parameter without which it means nothing, as a cell without its tensor.
        more: More for `dataclasses.field`.
    """
    if isinstance(link, str):
        link = {link: cast(Codec, codec)} if link else {}
    return dataclasses.field(
        default=default, metadata={_LINK: _Link(link, always, of), _LOOKS: looks}, **more
    )


class PageState:
    """The base of a page's state, a frozen dataclass whose fields are made by `field`."""

    #: The page's address below the app's; the texts name its parameters as `link.names.<page>_<parameter>`.
    page: ClassVar[str]

    @classmethod
    def opening(cls) -> Self:
        """Return the state of an empty link."""
        return cls()

    @classmethod
    def read(cls, params: Mapping[str, str], **codecs: Codec) -> tuple[Self, tuple[QuantVizError, ...]]:
        """Return the state of a link, and an error for each part of it that could not be used.

        Parameters are read in the order of their fields; `codecs` stand in for those of single ones.
        """
        reading = Reading(cls.opening(), params)
        problems = []
        if sum(len(params.get(parameter, "")) for parameter, *_ in _parameters(cls)) > LONGEST:
            problems.append(QuantVizError("link.too_long", longest=LONGEST))
            reading = Reading(reading.state, {}, frozenset(params))
        for parameter, name, field_codec, link in _parameters(cls):
            if parameter not in reading.params or link.of in reading.lost:
                continue
            try:
                value = codecs.get(parameter, field_codec).read(params[parameter], reading)
            except QuantVizError as problem:
                part = QuantVizError(f"link.names.{cls.page}_{parameter}")
                problems.append(QuantVizError("link.part", part=part, reason=problem))
                reading = dataclasses.replace(reading, lost=reading.lost | {parameter})
            else:
                reading = dataclasses.replace(reading, state=reading.state.replace(**{name: value}))
        return reading.state.completed(reading), tuple(problems)

    def completed(self, reading: Reading[Self]) -> Self:
        """Return the state after a link is read; open fields follow from the others."""
        return self

    def written(self) -> dict[str, str]:
        """Return the state as parameters of a link: those that differ from its `usual` state."""
        usual = self.usual()
        params = {}
        for parameter, name, field_codec, link in _parameters(type(self)):
            form = field_codec.write(getattr(self, name), self)
            if form and (link.always or form != field_codec.write(getattr(usual, name), usual)):
                params[parameter] = form
        return params

    @classmethod
    def parameters(cls) -> frozenset[str]:
        return frozenset(parameter for parameter, *_ in _parameters(cls))

    def usual(self) -> Self:
        """Return the default state, whose values a link omits."""
        return self.opening()

    def replace(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def form_of(self, name: str) -> str:
        """Return the form of a field's value in links; "" for none."""
        field_codec = next(
            field_codec for _, field, field_codec, _ in _parameters(type(self)) if field == name
        )
        return field_codec.write(getattr(self, name), self)

    def reached(self, name: str, form: str) -> Self:
        """Return the state after a choice of a field's value by its form in links.

        Raises:
            QuantVizError: The field has no such value.
        """
        found = (each for each in _parameters(type(self)) if each[1] == name)
        for parameter, _, field_codec, _ in found:
            value = field_codec.read(form, Reading(self, {parameter: form}))
            return self.replace(**{name: value})
        raise QuantVizError("link.choice", got=name, known=", ".join(self.parameters()))

    def is_step_to(self, new: Self) -> bool:
        """Return whether `new` differs from this state in more than the view."""
        for each in _fields(self, looks=False):
            one, other = getattr(self, each.name), getattr(new, each.name)
            if one.is_step_to(other) if isinstance(one, PageState) else one != other:
                return True
        return False

    def looking(self, step: tuple[Self, Self], now: Self) -> Self:
        """Return this state as shown after a `step` is undone or done again: parts of the view that the
        step has not changed stay as they are `now`.
        """
        before, after = step
        names = [each.name for each in _fields(self, looks=True)]
        kept = {name: getattr(now, name) for name in names if getattr(before, name) == getattr(after, name)}
        for name in (each.name for each in _fields(self, looks=False)):
            part = getattr(self, name)
            if isinstance(part, PageState):
                kept[name] = part.looking((getattr(before, name), getattr(after, name)), getattr(now, name))
        return self.replace(**kept)


def parts_of(name: str, kind: type[PageState]) -> dict[str, Codec]:
    """Return the codecs of the field `name`, whose value is a state of its own, by its parameters."""

    def within(part: str, part_codec: Codec) -> Codec:
        def read(form: str, reading: Reading[Any]) -> Any:
            whole = getattr(reading.state, name)
            return whole.replace(**{part: part_codec.read(form, dataclasses.replace(reading, state=whole))})

        return Codec(read, lambda whole, _: part_codec.write(getattr(whole, part), whole))

    return {parameter: within(part, part_codec) for parameter, part, part_codec, _ in _parameters(kind)}


def _fields(state: PageState, *, looks: bool) -> Iterator[dataclasses.Field[Any]]:
    fields = dataclasses.fields(cast(Any, state))
    return (each for each in fields if each.compare and bool(each.metadata.get(_LOOKS)) is looks)


def _parameters(kind: type[PageState]) -> Iterator[tuple[str, str, Codec, _Link]]:
    """Yield each parameter with the name of its field, its codec, and the part of the link."""
    for each in dataclasses.fields(cast(Any, kind)):
        link: _Link = each.metadata[_LINK]
        for parameter, own in link.codecs.items():
            yield parameter, each.name, own, link


@dataclass(frozen=True)
class History(Generic[S]):
    """A page's state with the steps that led to it, those that were undone, and the problems of its link.

    >>> @dataclass(frozen=True)
    ... class Seen(PageState):
    ...     page = "seen"
    ...     bits: int = field(4, link="b", codec=whole_number(16))
    >>> history = History(Seen()).take(Seen(8))
    >>> history.now.written(), history.undo().now.written(), history.undo().redo().now
    ({'b': '8'}, {}, Seen(bits=8))
    """

    now: S
    steps: tuple[tuple[S, S], ...] = ()
    #: Number of the steps that are not undone.
    done: int = 0
    problems: tuple[QuantVizError, ...] = ()

    @property
    def can_undo(self) -> bool:
        return self.done > 0

    @property
    def can_redo(self) -> bool:
        return self.done < len(self.steps)

    @property
    def states(self) -> Iterator[S]:
        """Yield the states that steps lead to, those undone first and the present one last."""
        for step in (*self.steps[self.done :], *self.steps[: self.done]):
            yield from step
        yield self.now

    def take(self, new: S) -> Self:
        """Return the history with another state: a step, unless only what is looked at changes. The steps
        that were undone cannot be done again.
        """
        if not self.now.is_step_to(new):
            return dataclasses.replace(self, now=new)
        steps = (*self.steps[: self.done], (self.now, new))[-MOST_STEPS:]
        return dataclasses.replace(self, now=new, steps=steps, done=len(steps), problems=())

    def undo(self) -> Self:
        if not self.can_undo:
            return self
        step = self.steps[self.done - 1]
        now = step[0].looking(step, self.now)
        return dataclasses.replace(self, now=now, done=self.done - 1, problems=())

    def redo(self) -> Self:
        if not self.can_redo:
            return self
        step = self.steps[self.done]
        return dataclasses.replace(self, now=step[1].looking(step, self.now), done=self.done + 1, problems=())

    def follow(self, params: Mapping[str, str], **codecs: Codec) -> Self:
        """Return the history at the state of a link to which the browser went back or forward: one step back
        or on, where that has this link, else another step. Where parts of the link cannot be used any more
        the state stays.
        """
        if self.can_undo and self.steps[self.done - 1][0].written() == params:
            return self.undo()
        if self.can_redo and self.steps[self.done][1].written() == params:
            return self.redo()
        new, problems = type(self.now).read(params, **codecs)
        if problems:
            return dataclasses.replace(self, problems=problems)
        unwritten = (each.name for each in _fields(new, looks=True) if not each.metadata[_LINK].codecs)
        return self.take(new.replace(**{name: getattr(self.now, name) for name in unwritten}))

    def without_step_to(self, refused: S) -> Self:
        """Return the history without its last step, where that led to a state that is refused."""
        if not self.can_undo or self.steps[self.done - 1][1] != refused:
            return self
        return dataclasses.replace(self, steps=self.steps[: self.done - 1], done=self.done - 1)

    def reaching(self, is_there: Callable[[S], bool]) -> Self:
        """Return the history with the steps around the present one whose states are all still there."""

        def there(step: tuple[S, S]) -> bool:
            return all(map(is_there, step))

        past = tuple(itertools.takewhile(there, reversed(self.steps[: self.done])))[::-1]
        steps = (*past, *itertools.takewhile(there, self.steps[self.done :]))
        return dataclasses.replace(self, steps=steps, done=len(past))

    def has_undone(self, state: S) -> bool:
        """Return whether a step that led to this state can be done again."""
        return any(after == state for _, after in self.steps[self.done :])
