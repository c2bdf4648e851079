"""What `./run checklist --verify` puts in the place of a function: one that raises, answers wrongly, or does nothing.

`raise`: raises. `wrong`: runs, and gives another answer of the same type; a function that answers nothing does nothing.
`empty`: does nothing, and gives the empty value of its declared type. Each first notes that it was called, in the file
that BARNABAS_BREAK_LOG names: a test that fails without that has failed for another reason.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import inspect
import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any


class BrokenOnPurposeError(Exception):
    """Raised by a function that the checklist's verification broke."""


class NoOtherAnswer(Exception):  # noqa: N818 - no error: the answer stays as it is
    """There is no other value of this kind that is surely wrong."""


EMPTY: dict[str, Any] = {
    "bool": False,
    "int": 0,
    "float": 0.0,
    "str": "",
    "bytes": b"",
    "list": [],
    "dict": {},
    "set": set(),
    "tuple": (),
    "None": None,
}


# --- wrong answers


def _other_enum(value: enum.Enum) -> enum.Enum:
    members = list(type(value))
    if len(members) < 2:
        raise NoOtherAnswer
    return members[(members.index(value) + 1) % len(members)]


def _without_first(value: Any) -> Any:
    if not value:
        raise NoOtherAnswer
    if isinstance(value, dict):
        return type(value)(list(value.items())[1:]) if type(value) is dict else dict(list(value.items())[1:])
    if isinstance(value, deque):
        return deque(list(value)[1:])
    return type(value)(list(value)[1:])


def _other_tuple(value: tuple[Any, ...]) -> Any:
    parts = [_altered_or_same(part) for part in value]
    if all(new is old for new, old in zip(parts, value, strict=True)):
        raise NoOtherAnswer
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


#: In this order, as a bool is an int and an enum may be one, too.
OTHERS: list[tuple[Any, Callable[[Any], Any]]] = [
    (enum.Enum, _other_enum),
    (bool, lambda value: not value),
    (int, lambda value: value + 1),
    (float, lambda value: value + 1.0 if value != float("inf") else 0.0),
    (str, lambda value: value[1:] or "wrong"),
    ((bytes, bytearray), lambda value: value[1:] or type(value)(b"?")),
    (memoryview, lambda value: value[1:]),
    (tuple, _other_tuple),
    ((list, dict, set, frozenset, deque), _without_first),
]


def other_than(value: Any) -> Any:
    """Another value of the same type: off by one, negated, or without its first element; of an object, each attribute.

    Raises `NoOtherAnswer` where there is none.
    """
    if value is None or isinstance(value, type) or callable(value):
        raise NoOtherAnswer
    for kinds, make in OTHERS:
        if isinstance(value, kinds):
            return make(value)
    if isinstance(value, Iterator):
        next(value, None)
        return value
    return _other_object(value)


def _altered_or_same(value: Any) -> Any:
    try:
        return other_than(value) if isinstance(value, tuple(kind for kind, _ in _flat(OTHERS))) else value
    except NoOtherAnswer:
        return value


def _flat(table: list[tuple[Any, Any]]) -> Iterator[tuple[type, Any]]:
    for kinds, make in table:
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            yield kind, make


def _attributes(value: Any) -> list[str]:
    slots = [name for owner in type(value).__mro__ for name in _names(vars(owner).get("__slots__", ()))]
    return [*getattr(value, "__dict__", ()), *slots]


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _other_object(value: Any) -> Any:
    try:
        other = copy.copy(value)
    except Exception:  # noqa: BLE001 - what cannot be copied has no other answer
        raise NoOtherAnswer from None
    changed = False
    for name in _attributes(value):
        old = getattr(value, name, None)
        new = _altered_or_same(old)
        if new is not old:
            with contextlib.suppress(Exception):
                object.__setattr__(other, name, new)
                changed = True
    if not changed:
        raise NoOtherAnswer
    return other


# --- planting


def note(what: str) -> None:
    """Write down that the planted function was called (`called`), or that it answered otherwise (`altered`)."""
    _note_once(os.environ.get("BARNABAS_BREAK_LOG", ""), what)


@functools.cache
def _note_once(path: str, what: str) -> None:
    if path:
        with open(path, "a", encoding="utf-8") as log:
            log.write(f"{what}\n")


def answers_nothing(function: Any) -> bool:
    """Whether the function is declared to return None."""
    return str(getattr(function, "__annotations__", {}).get("return")) in ("None", "<class 'NoneType'>")


def empty_for(function: Any) -> Any:
    """The empty value of the declared type; None where the type has none that is known."""
    declared = str(getattr(function, "__annotations__", {}).get("return"))
    return copy.copy(EMPTY.get(declared.partition("[")[0]))


def raising(function: Any, target: str) -> Any:
    """A function that raises."""

    def raise_broken(*_arguments: Any, **_settings: Any) -> Any:
        note("altered")
        raise BrokenOnPurposeError(f"{target} was broken on purpose")

    return raise_broken


def answering_empty(function: Any, target: str) -> Any:
    """A function that does nothing, and answers with the empty value of its type."""
    if inspect.iscoroutinefunction(function):

        async def do_nothing_later(*_arguments: Any, **_settings: Any) -> Any:
            note("altered")
            return empty_for(function)

        return do_nothing_later
    if inspect.isgeneratorfunction(function):

        def yield_nothing(*_arguments: Any, **_settings: Any) -> Any:
            note("altered")
            return
            yield

        return yield_nothing

    def do_nothing(*_arguments: Any, **_settings: Any) -> Any:
        note("altered")
        return empty_for(function)

    return do_nothing


def answering_wrongly(function: Any, target: str) -> Any:
    """A function that does its work, and gives another answer; one that answers nothing does nothing."""
    if answers_nothing(function):
        return answering_empty(function, target)

    def altered(value: Any) -> Any:
        try:
            other = other_than(value)
        except NoOtherAnswer:
            return value
        note("altered")
        return other

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def answer_later(*arguments: Any, **settings: Any) -> Any:
            note("called")
            return altered(await function(*arguments, **settings))

        return answer_later
    if inspect.isgeneratorfunction(function) and "Iterator" not in str(function.__annotations__.get("return")):

        @functools.wraps(function)
        def answer_by_steps(*arguments: Any, **settings: Any) -> Any:
            note("called")
            return altered((yield from function(*arguments, **settings)))

        return answer_by_steps

    @functools.wraps(function)
    def answer(*arguments: Any, **settings: Any) -> Any:
        note("called")
        return altered(function(*arguments, **settings))

    return answer


PLANTS: dict[str, Callable[[Any, str], Any]] = {
    "raise": raising,
    "wrong": answering_wrongly,
    "empty": answering_empty,
}


def plant(owner: Any, name: str, target: str, how: str) -> None:
    """Replace what the owner has under that name. Raises KeyError when it has nothing there."""
    original = vars(owner)[name]
    make = PLANTS[how]
    replacement: Any
    if isinstance(original, staticmethod | classmethod):
        replacement = type(original)(make(original.__func__, target))
    elif isinstance(original, property):
        replacement = property(make(original.fget, target), original.fset, original.fdel)
    elif isinstance(original, functools.cached_property):
        replacement = functools.cached_property(make(original.func, target))
        replacement.__set_name__(owner, name)
    else:
        replacement = make(original, target)
    setattr(owner, name, replacement)
