"""Decorators of the public functions: they check the arguments and run with torch's usual settings.

@public
def quantize(x: Any, scheme: Scheme | str, *, strict: bool = False) -> QuantResult: ...

An argument that does not fit its parameter's annotation raises a `QuantVizError` that names it. A parameter
annotated `Any` is checked by the function itself, which takes a tensor or a table in many forms.

Results must not depend on a process's other uses of torch. So the function runs with float32 as the
default, on the CPU, without autocast, and with small numbers kept.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import operator
import os
import sys
import threading
import types
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, cast

from quantviz.errors import QuantVizError

_P = ParamSpec("_P")
_T = TypeVar("_T")
#: Whether a public function is running, so that the public functions it calls skip their checks.
_INSIDE: ContextVar[bool] = ContextVar("inside", default=False)
#: The smallest normal float64; half of it is 0 on a processor that flushes subnormal numbers.
_SMALLEST = sys.float_info.min
#: No argument is a larger whole number: numpy and torch have none.
_LARGEST = 2**63
#: The names of numpy's type of truth values since its version 2, and before.
_BOOLS_OF_NUMPY = ("bool", "bool_")
#: Marks a value that does not fit its type.
_ANY = object()


def public_but(*own: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return the decorator of a function that users call; it checks the parameters `own` itself."""

    def public(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def entered(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            with inside(), usual_settings():
                return function(*args, **kwargs)

        return _checking(function, entered, own)

    return public


def public_class(kind: type[_T]) -> type[_T]:
    """Check the arguments of a class's public methods; those that make tensors have `public`."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(kind, name, classmethod(_checking(member.__func__, member.__func__)))
        elif inspect.isfunction(member) and len(inspect.signature(member).parameters) > 1:
            setattr(kind, name, _checking(member, member))
    return kind


@contextlib.contextmanager
def inside() -> Iterator[None]:
    """Run the `with` block as inside a public function: without checks of arguments."""
    before = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(before)


def _checking(
    function: Callable[_P, _T], call: Callable[..., _T], own: tuple[str, ...] = ()
) -> Callable[_P, _T]:
    """Return `call` with its arguments converted to the types of `function`'s parameters, but for those of
    `own`; inside another public function it is the plain `function`.

    Surplus positional arguments are passed on unchecked: the call itself raises a `TypeError` for them.
    """
    parameters = inspect.signature(function).parameters
    kinds = functools.cache(lambda: kinds_of(function, own))

    def fitted(name: str, value: Any) -> Any:
        kind = kinds().get(name, Any)
        if kind is Any:  # as `self` is
            return value
        fitting = _fitted(value, kind)
        if fitting is _ANY:
            allowed = str(parameters[name].annotation)
            function_name = function.__qualname__
            raise QuantVizError(
                "argument", function=function_name, name=name, got=_shown(value), allowed=allowed
            )
        return fitting

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if _INSIDE.get():
            return function(*args, **kwargs)
        argument = list(map(fitted, parameters, args))
        named = {name: fitted(name, value) for name, value in kwargs.items()}
        return call(*argument, *args[len(argument) :], **named)

    return checked


public = public_but()


def check_fields(value: Any) -> None:
    """Raise a `QuantVizError` if a field of a dataclass does not fit its annotation; turn another library's
    numbers into Python's.
    """
    for name, got, allowed in unfit_fields(value):
        raise QuantVizError("argument", function=type(value).__name__, name=name, got=got, allowed=allowed)
    for name, (kind, _) in _wanted(cast("Hashable", type(value))).items():
        argument = getattr(value, name)
        if isinstance(argument, numbers.Number) and (fitted := _fitted(argument, kind)) is not argument:
            object.__setattr__(value, name, fitted)


def unfit_fields(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and annotation of each field that does not fit, the last two as texts for a message.

    A field of words takes any text: its class checks the words itself.
    """
    for name, (kind, allowed) in _wanted(cast("Hashable", type(value))).items():
        argument = getattr(value, name)
        if _fitted(argument, kind) is _ANY:
            yield name, _shown(argument), allowed


@functools.cache
def field_types(kind: Hashable) -> Mapping[str, Any]:
    """Return the types of a dataclass's fields, resolved once: that is most of the work on a text form."""
    return types.MappingProxyType(typing.get_type_hints(kind))


@functools.cache
def _wanted(kind: Hashable) -> dict[str, tuple[Any, str]]:
    """Return the type of each field, and that type as text."""
    types_and_words = {}
    for field in dataclasses.fields(cast("type[Any]", kind)):
        hint = field_types(kind)[field.name]
        plain = plain_type(hint)
        words = inspect.formatannotation(plain) if plain != hint else str(field.type)
        types_and_words[field.name] = plain, words
    return types_and_words


def plain_type(kind: Any) -> Any:
    """Return a type with `str` in place of the words of a `Literal`.

    >>> plain_type(typing.Literal["even", "away"]), plain_type(typing.Literal["even"] | None)
    (<class 'str'>, str | None)
    """
    origin, inner = _parts_of(kind)
    if origin is typing.Literal:
        return functools.reduce(operator.or_, dict.fromkeys(map(type, inner)))
    if origin in (types.UnionType, typing.Union):
        return functools.reduce(operator.or_, map(plain_type, inner))
    return types.GenericAlias(tuple, tuple(map(plain_type, inner))) if origin is tuple else kind


def checked_fields(kind: type[_T]) -> type[_T]:
    init: Callable[..., None] = kind.__init__

    @functools.wraps(init)
    def checked(self: _T, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if not _INSIDE.get():
            check_fields(self)

    setattr(kind, "__init__", checked)  # noqa: B010 - a checker of types takes no other function there
    return kind


# ---- arguments -------------------------------------------------------------------------------------


def kinds_of(function: Callable[..., Any], skipped: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the types of the parameters; `Any` of those without an annotation, and of `skipped`.

    The return type is left out: it may be imported for type checkers alone.
    """
    parameters = inspect.signature(function).parameters
    annotations = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if name not in skipped and parameter.annotation is not inspect.Parameter.empty
    }
    annotated: Any = types.SimpleNamespace(__annotations__=annotations)
    hints = typing.get_type_hints(annotated, inspect.unwrap(function).__globals__)
    return {name: hints.get(name, Any) for name in parameters}


@functools.cache
def _parts_of(kind: Hashable) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(kind), typing.get_args(kind)


def _fitted(value: Any, kind: Any) -> Any:
    """Return a value converted to a type, or `_ANY` if it does not fit."""
    if type(value) is kind and kind is not int:  # as nearly all are
        return value
    if kind is Any or isinstance(kind, TypeVar):
        return value
    origin, inner = _parts_of(kind)
    if kind is None or kind is type(None):
        return value if value is None else _ANY
    if origin in (types.UnionType, typing.Union):
        return next((fit for option in inner if (fit := _fitted(value, option)) is not _ANY), _ANY)
    if origin is typing.Literal:
        return value if isinstance(value, str) and value in inner else _ANY
    if origin is collections.abc.Callable:
        return value if callable(value) else _ANY
    if origin is tuple:
        return _fitted_tuple(value, inner)
    if origin is not None and issubclass(origin, collections.abc.Mapping):
        return _fitted_mapping(value, *inner)
    if origin is not None and not issubclass(origin, collections.abc.Iterable):
        return value if isinstance(value, origin) else _ANY
    if origin is not None:
        return _fitted_items(value, inner[0])
    if kind in (int, float):
        return _fitted_number(value, kind)
    if kind is bool:
        return bool(value) if isinstance(value, bool) or type(value).__name__ in _BOOLS_OF_NUMPY else _ANY
    if getattr(kind, "_is_protocol", False):
        names = {name for name in (*vars(kind), *kind.__annotations__) if not name.startswith("_")}
        return _ANY if isinstance(value, type) or any(not hasattr(value, name) for name in names) else value
    return value if isinstance(value, kind) else _ANY


def _fitted_number(value: Any, kind: type) -> Any:
    if isinstance(value, bool):
        return _ANY
    if kind is float and isinstance(value, numbers.Real):
        with contextlib.suppress(OverflowError):
            if isinstance(value, int):
                return value if math.isfinite(float(value)) else _ANY
            return float(value)
        return _ANY
    number = whole(value) if kind is int else None
    return _ANY if number is None else number


def whole(value: Any) -> int | None:
    """Return a whole number of Python, NumPy or torch as Python's; None for any other value, or beyond 64
    bits.

    >>> whole(3), whole(3.0), whole(2**64 - 1)
    (3, None, None)
    """
    try:
        number = operator.index(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # torch has tensors beyond its own int64
        return None
    return number if abs(number) < _LARGEST else None


def _fitted_tuple(value: Any, inner: tuple[Any, ...]) -> Any:
    if not isinstance(value, tuple | list):
        return _ANY
    if len(inner) == 2 and inner[1] is Ellipsis:
        inner = (inner[0],) * len(value)
    if len(inner) != len(value):
        return _ANY
    items = tuple(map(_fitted, value, inner))
    return _ANY if any(item is _ANY for item in items) else items


def _fitted_mapping(value: Any, key: Any, item: Any) -> Any:
    if not isinstance(value, collections.abc.Mapping):
        return _ANY
    for name, entry in value.items():
        if _fitted(name, key) is _ANY or _fitted(entry, item) is _ANY:
            return _ANY
    return value


def _fitted_items(value: Any, kind: Any) -> Any:
    """Return items as a tuple; a text is no list of letters, nor a tensor one of rows."""
    if isinstance(value, str | bytes) or hasattr(value, "__array__"):
        return _ANY
    if not isinstance(value, collections.abc.Iterable):
        return _ANY
    return _fitted_tuple(tuple(value), (kind, ...))


def _shown(value: Any) -> str:
    """Return an argument's type for an error message, with the value itself of a plain one."""
    plain = isinstance(value, str | bytes | bool | float | complex) or (
        isinstance(value, int) and abs(value) < _LARGEST
    )
    return f"{type(value).__name__} {value!r}" if plain else type(value).__name__


# ---- settings of the process ------------------------------------------------------------------------


def flushes_subnormals() -> bool:
    return _SMALLEST * 0.5 == 0.0


def keep_subnormals() -> None:
    """Keep subnormal numbers in this thread from now on; a new thread inherits the setting of its parent."""
    if flushes_subnormals():
        import torch

        torch.set_flush_denormal(False)


def _after_fork() -> None:
    """Limit torch to this one thread: a forked child has no other threads and would wait for them forever."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _DefaultDtype:
    """Float32 as the process's default dtype while any thread runs a public function."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = None

    @contextlib.contextmanager
    def float32(self, torch: Any) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._before = torch.get_default_dtype()
                self._set(torch, torch.float32)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._set(torch, self._before)

    def _set(self, torch: Any, dtype: Any) -> None:
        if torch.get_default_dtype() is not dtype:
            torch.set_default_dtype(dtype)


_default_dtype = _DefaultDtype()


@contextlib.contextmanager
def usual_settings() -> Iterator[None]:
    """Run the `with` block with torch's settings as they are after import, and restore the old ones after it.

    Raises:
        QuantVizError: New tensors have no values here, as under torch's `FakeTensorMode`.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "set_default_dtype"):  # it is being imported
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(_default_dtype.float32(torch))
        if flushes_subnormals():
            # Torch's own threads may flush too, which cannot be checked: compute on this one alone.
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
            stack.callback(torch.set_flush_denormal, True)
            torch.set_flush_denormal(False)
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        if type(torch.empty(0)) is not torch.Tensor:
            raise QuantVizError("fake_mode", got=type(torch.empty(0)).__name__)
        yield
